"""Scratch: buffers whose lifetimes meet never share bytes; others do."""

from __future__ import annotations

from tilewright.codegen.arena import Layout, assign_offsets
from tilewright.dtypes import FP32
from tilewright.ir.core import Operation, Program, Value
from tilewright.ops import loop
from unit.codegen.kernels import IN, OUT, buffer, constant, emit, index, kernel_program, lanes
from unit.codegen.native_code import available_isas
from unit.interp.build import for_loop


def layout_of(program: Program) -> tuple[Layout, list[Operation]]:
    """Where each alloc lies."""
    body = program["k"].body

    def size(op: Operation) -> int:
        return 4 * op.attrs["shape"][0] if op.opdef is loop.alloc else 0

    layout = assign_offsets(body, size)
    return layout, [op for op in body.walk() if op.opdef is loop.alloc]


def fill(target: Value, count: int) -> None:
    """Write a scratch buffer."""
    lanes(count, lambda i: loop.store(target, (i,), constant(1.0), None))


def test_a_buffer_is_free_after_its_last_use() -> None:
    def body(x: Value, y: Value) -> None:
        for _ in range(5):
            fill(loop.alloc(shape=(100,), dtype=FP32), 100)

    layout, allocs = layout_of(kernel_program([("x", buffer(1), IN), ("y", buffer(1), OUT)], body))
    assert {layout.offsets[op] for op in allocs} == {0}
    assert layout.size == 448


def test_a_view_keeps_its_buffer() -> None:
    def body(x: Value, y: Value) -> None:
        first = loop.alloc(shape=(100,), dtype=FP32)
        part = loop.view(first, (index(10),), shape=(50,), strides=(1,))
        second = loop.alloc(shape=(100,), dtype=FP32)
        fill(second, 100)
        fill(part, 50)

    layout, allocs = layout_of(kernel_program([("x", buffer(1), IN), ("y", buffer(1), OUT)], body))
    assert sorted(layout.offsets[op] for op in allocs) == [0, 448]


def test_inner_blocks_avoid_what_is_used_around_them() -> None:
    def body(x: Value, y: Value) -> None:
        outer = loop.alloc(shape=(16,), dtype=FP32)

        def step(i: Value) -> list[Value]:
            inner = loop.alloc(shape=(16,), dtype=FP32)
            fill(inner, 16)
            fill(outer, 16)
            return []

        for_loop(0, 3, [], step)
        fill(outer, 16)
        last = loop.alloc(shape=(8,), dtype=FP32)
        fill(last, 8)

    layout, allocs = layout_of(kernel_program([("x", buffer(1), IN), ("y", buffer(1), OUT)], body))
    assert [layout.offsets[op] for op in allocs] == [0, 64, 0]
    assert layout.size == 128


def test_a_gap_is_taken_only_where_it_is_large_enough() -> None:
    def body(x: Value, y: Value) -> None:
        small = loop.alloc(shape=(16,), dtype=FP32)
        middle = loop.alloc(shape=(32,), dtype=FP32)
        fill(small, 16)
        large = loop.alloc(shape=(64,), dtype=FP32)
        fits = loop.alloc(shape=(16,), dtype=FP32)
        for target, count in ((middle, 32), (large, 64), (fits, 16)):
            fill(target, count)

    layout, allocs = layout_of(kernel_program([("x", buffer(1), IN), ("y", buffer(1), OUT)], body))
    assert [layout.offsets[op] for op in allocs] == [0, 64, 192, 0]


def test_the_plan_says_what_lies_where_and_heads_the_text() -> None:
    def body(x: Value, y: Value) -> None:
        for name in ("first", "second"):
            target = loop.alloc(shape=(100,), dtype=FP32)
            target.name = name
            fill(target, 100)

    program = kernel_program([("x", buffer(1), IN), ("y", buffer(1), OUT)], body)
    kernel, _ = emit(program, available_isas()[-1])
    plan = [line for line in kernel.text.split("\n") if line.startswith(";")]
    assert plan == [
        "; 448 bytes of scratch memory",
        ";         0 ..       447  first: FP32[100]",
        ";         0 ..       447  second: FP32[100]",
    ]
    assert kernel.text.startswith(plan[0])


def test_without_scratch_there_is_no_plan() -> None:
    def body(x: Value, y: Value) -> None:
        fill(y, 1)

    program = kernel_program([("x", buffer(1), IN), ("y", buffer(1), OUT)], body)
    layout, _ = layout_of(program)
    assert not layout.plan()
