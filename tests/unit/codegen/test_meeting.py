"""Signals, waits and crews at loop level: native code means what the interpreter says."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tilewright import interp
from tilewright.dtypes import FP32, INDEX, INT32, INT64
from tilewright.errors import Deadlock, DTypeMismatch, RuntimeShapeMismatch
from tilewright.ir.builder import Builder
from tilewright.ir.core import Block, Value
from tilewright.ir.enums import ForKind, NotifyOp, WaitCmp
from tilewright.ir.types import ScalarType
from tilewright.ops import arith, control, loop, meeting
from tilewright.ops.cast import cast
from unit.codegen.kernels import (
    OUT,
    agree,
    buffer,
    constant,
    index,
    kernel_program,
    lanes,
    native,
)
from unit.codegen.native_code import available_isas


def together(count: int, body: Callable[[Value], None]) -> None:
    """A crew of blocks."""
    builder = Builder.current()
    position = Value(ScalarType(INDEX), "i")
    block = Block((position,))
    with builder.inside(block):
        body(position)
        control.yield_(())
    attrs = {"kind": ForKind.Together, "combine": (), "stage": 0, "attrs": (("crew", "block"),)}
    builder.emit(control.for_, (index(0), index(count), index(1), ()), attrs, (block,))


def counters() -> Value:
    """Two counters, zero."""
    made = loop.alloc(shape=(2,), dtype=INT64)
    for k in range(2):
        loop.store(made, (index(k),), constant(0, INT64), None)
    return made


def fill(target: Value, value: Callable[[Value], Value], *lead: Value) -> None:
    """64 elements of a row."""
    lanes(64, lambda c: loop.store(target, (*lead, c), value(c), None))


def test_a_chain_of_blocks_runs_in_the_order_of_its_waits() -> None:
    def body(out: Value) -> None:
        turn = counters()

        def block(i: Value) -> None:
            mine = cast(i, dtype=INT64)
            meeting.wait(turn, (index(0),), mine, (), what="turn {0}")
            before = loop.load(out, (index(0),), None)
            grown = arith.add(arith.mul(before, constant(3.0)), cast(i, dtype=FP32))
            loop.store(out, (index(0),), grown, None)
            meeting.signal(turn, (index(0),), constant(1, INT64))

        together(9, block)

    agree(kernel_program([("out", buffer(1), OUT)], body), np.ones(1, np.float32))


def test_a_signal_gives_what_was_there_and_may_set() -> None:
    def body(out: Value) -> None:
        first = meeting.signal(out, (index(1),), constant(5, INT32))
        second = meeting.signal(out, (index(1),), constant(9, INT32), op=NotifyOp.Set)
        meeting.wait(out, (index(1),), constant(9, INT32), (), cmp=WaitCmp.Eq, what="nine")
        loop.store(out, (index(0),), first, None)
        loop.store(out, (index(2),), second, None)

    given = np.array([0, 2, 0], np.int32)
    agree(kernel_program([("out", buffer(3, dtype=INT32), OUT)], body), given)


def test_a_crew_sees_scratch_and_scalars_of_its_kernel() -> None:
    def body(out: Value) -> None:
        shared = loop.alloc(shape=(4, 64), dtype=FP32)
        turn = counters()

        def block(i: Value) -> None:
            own = loop.alloc(shape=(64,), dtype=FP32)
            fill(own, lambda c: cast(arith.add(arith.mul(i, index(64)), c), dtype=FP32))
            fill(shared, lambda c: loop.load(own, (c,), None), i)
            meeting.signal(turn, (index(1),), constant(1, INT64))
            meeting.wait(turn, (index(1),), constant(4, INT64), (), what="all")
            other = arith.sub(index(3), i)
            fill(out, lambda c: loop.load(shared, (other, c), None), i)

        together(4, block)

    agree(kernel_program([("out", buffer(4, 64), OUT)], body), np.zeros((4, 64), np.float32))


def test_a_wait_that_nobody_ends_is_a_deadlock_on_both_sides() -> None:
    def body(out: Value) -> None:
        meeting.wait(out, (index(0),), constant(1, INT32), (index(7),), what="a miracle {0} of {1}")

    program = kernel_program([("out", buffer(1, dtype=INT32), OUT)], body)
    given = np.zeros(1, np.int32)
    with pytest.raises(Deadlock, match="a miracle 1 of 7"):
        interp.run(program, "k", [given])
    with pytest.raises(Deadlock, match="a miracle 1 of 7"):
        native(program, available_isas()[0])(given)


def test_what_is_required_is_a_fault_with_its_numbers() -> None:
    def body(out: Value) -> None:
        found = cast(loop.load(out, (index(0),), None), dtype=INDEX)
        meeting.require(arith.lt(found, index(3)), (found, index(3)), what="{0} is not below {1}")

    program = kernel_program([("out", buffer(1, dtype=INT32), OUT)], body)
    agree(program, np.array([2], np.int32))
    for run in (lambda a: interp.run(program, "k", [a]), native(program, available_isas()[0])):
        with pytest.raises(RuntimeShapeMismatch, match="7 is not below 3"):
            run(np.array([7], np.int32))


def test_counters_are_integers() -> None:
    with pytest.raises(DTypeMismatch, match="for a buffer of"):
        kernel_program(
            [("out", buffer(1), OUT)],
            lambda out: meeting.signal(out, (index(0),), constant(1, INT32)),
        )


def test_alone_there_is_one_rank_and_its_memory_is_its_own() -> None:
    def body(out: Value) -> None:
        own = meeting.peer(out, meeting.rank())
        total = arith.add(meeting.rank(), meeting.ranks())
        loop.store(own, (index(0),), cast(total, dtype=INT32), None)
        gate = meeting.gate()
        meeting.signal(gate, (index(0), index(0)), constant(1, INT64))
        seen = loop.load(gate, (index(0), index(0)), None)
        loop.store(own, (index(1),), cast(seen, dtype=INT32), None)

    given = np.zeros(2, np.int32)
    agree(kernel_program([("out", buffer(2, dtype=INT32), OUT)], body), given)
