"""Vectors of a loop body take turns, each a step behind the one before, and keep their bits."""

from __future__ import annotations

import re
from functools import partial
from itertools import pairwise

import numpy as np
import pytest

from tilewright.codegen.emit_lanes import ACCUMULATORS, choose_copies, most_alive
from tilewright.codegen.stagger import in_turn, join_run, stagger
from tilewright.codegen.text import Module, Text
from tilewright.codegen.words import word
from tilewright.dtypes import FP32
from tilewright.ir.core import Block, Program, Value
from tilewright.ir.enums import ForKind
from tilewright.ops import arith, loop
from tilewright.target import ISAS
from unit.codegen.kernels import IN, OUT, agree, buffer, constant, emit, kernel_program, lanes
from unit.codegen.native_code import available_isas

LONG = 1040


def new_text() -> Text:
    return Text(Module(ISAS["avx512"]))


def instruction(line: str) -> str:
    return line.partition(" = ")[2].split()[0]


def test_lines_of_several_vectors_take_turns() -> None:
    text = new_text()
    word(text, "exp", "FP32", 16, "%x")
    alone = text.lines[0].split("\n")
    text.lines.clear()
    write = partial(word, text, "exp", "FP32", 16)
    refs, alike = in_turn(text, [("%x",), ("%y",)], write)
    assert alike
    assert len(refs) == 2
    assert [*map(instruction, text.lines[::2])] == [*map(instruction, alone)]
    assert [*map(instruction, text.lines[1::2])] == [*map(instruction, alone)]


def test_words_with_blocks_of_their_own_stand_one_after_the_other() -> None:
    text = new_text()
    refs, alike = in_turn(text, [("%x",), ("%y",)], partial(word, text, "sin", "FP32", 16))
    assert not alike
    assert len(set(refs)) == 2


def test_each_vector_is_a_row_behind_the_one_before() -> None:
    text = new_text()
    text.lines = ["before", *(f"{row}{copy}" for row in "abc" for copy in "012")]
    stagger(join_run(None, text, 1, 3), text)
    assert text.lines == ["before", "a0", "b0", "a1", "c0", "b1", "a2", "c1", "b2", "c2"]


def test_what_follows_a_run_joins_it_and_what_stands_apart_does_not() -> None:
    text = new_text()
    text.lines = ["a0", "a1"]
    run = join_run(None, text, 0, 2)
    text.lines += ["b0", "b1"]
    assert join_run(run, text, 2, 2) is run
    text.lines += ["else", "c0", "c1"]
    other = join_run(run, text, 5, 2)
    assert other is not run
    assert text.lines[:4] == ["a0", "b0", "a1", "b1"]


def steps(count: int, n: int = LONG) -> Program:
    """Products, sums and bounds of x and y, some steps long."""

    def body(x: Value, y: Value, out: Value) -> None:
        def lane(i: Value) -> None:
            a, b = loop.load(x, (i,), None), loop.load(y, (i,), None)
            for _ in range(count):
                a = arith.max_(arith.add(arith.mul(a, constant(0.75)), b), constant(-1.0))
                a = arith.sub(arith.min_(a, constant(2.0)), arith.mul(a, a))
            loop.store(out, (i,), a, None)

        lanes(n, lane)

    kinds = [(name, buffer(n), way) for name, way in zip("xyz", (IN, IN, OUT))]
    return kernel_program(kinds, body)


def lanes_of(program: Program) -> Block:
    (op,) = [o for o in program["k"].body.walk() if o.attrs.get("kind") is ForKind.Lanes]
    return op.regions[0]


@pytest.mark.parametrize("n", [5, 100, LONG])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_staggered_bodies_keep_their_bits(n: int) -> None:
    rng = np.random.default_rng(4)
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, 3e38], np.float32)
    x, y = rng.standard_normal((2, n)).astype(FP32.numpy)
    x[:5], y[-5:] = special[:5], special[-5:]
    agree(steps(3, n), x, y, np.zeros(n, FP32.numpy))


def test_neighbours_in_a_long_body_differ() -> None:
    kernel, _ = emit(steps(4), available_isas()[0])
    body = re.findall(r"= (fmul|fadd|fsub|fcmp|select|call)", kernel.text)
    same = sum(left == right for left, right in pairwise(body))
    assert same < len(body) / 2


def test_more_vectors_take_turns_where_registers_hold_all_they_need() -> None:
    body = lanes_of(steps(4))
    assert most_alive(body) == 3
    wide, narrow = ISAS["avx512"], ISAS["avx2"]
    assert choose_copies(body, False, LONG, wide) == 2 * ACCUMULATORS
    assert choose_copies(body, False, LONG, narrow) == ACCUMULATORS
    assert choose_copies(body, True, LONG, wide) < ACCUMULATORS
    assert choose_copies(lanes_of(steps(0)), False, LONG, wide) == ACCUMULATORS


def test_one_long_word_takes_turns_with_itself_where_the_loop_repays_it() -> None:
    def body(words: int) -> Block:
        def write(x: Value, out: Value) -> None:
            def lane(i: Value) -> None:
                value = loop.load(x, (i,), None)
                for _ in range(words):
                    value = arith.exp(value)
                loop.store(out, (i,), value, None)

            lanes(LONG, lane)

        return lanes_of(kernel_program([("x", buffer(LONG), IN), ("y", buffer(LONG), OUT)], write))

    isa = ISAS["avx512"]
    assert choose_copies(body(1), False, LONG, isa) == ACCUMULATORS
    assert choose_copies(body(2), False, LONG, isa) == 2
    assert choose_copies(body(1), True, LONG, isa) == 2
    assert choose_copies(body(1), False, 100, isa) == 2
