"""Carries that no iteration changes are none."""

from __future__ import annotations

from passes.programs import IN, OUT, add, check, const, kernel, load, store, tensor, times
from tilewright.dtypes import INDEX
from tilewright.ir.core import Program, Value
from tilewright.ir.rewrite import map_functions
from tilewright.ops import arith, control
from tilewright.passes.drop_carries import without_carries
from unit.interp.build import for_loop, if_else


def drop_carries(program: Program) -> Program:
    return map_functions(program, without_carries)


def carries(program: Program) -> list[int]:
    """How many values each loop carries, outer loops first."""
    ops = program["k"].body.walk()
    return [len(op.results) for op in ops if op.opdef is control.for_]


def nested(changes: bool) -> Program:
    """Two loops that hand a number through, which may be one more after each inner iteration."""

    def body(x: Value, out: Value) -> list[Value]:
        def outer(i: Value, n: Value, total: Value) -> list[Value]:
            def inner(j: Value, m: Value, part: Value) -> list[Value]:
                part = add(part, load(x, [m, times(j, 4)], (2, 4)))
                return [add_one(m) if changes else m, part]

            return list(for_loop(0, 2, [n, total], inner))

        start = load(x, [0, 0], (2, 4))
        _, total = for_loop(0, 2, [const(1, INDEX), start], outer)
        return [store(total, [0, 0], out)]

    return kernel([("x", tensor(8, 8), IN), ("out", tensor(2, 4), OUT)], body)


def add_one(index: Value) -> Value:
    return arith.add(index, const(1, INDEX))


def test_a_number_handed_through_two_loops_is_known_in_both() -> None:
    program = nested(changes=False)
    assert carries(program) == [2, 2]
    assert carries(drop_carries(program)) == [1, 1]
    check(program)


def test_a_number_that_an_inner_loop_changes_is_carried() -> None:
    program = nested(changes=True)
    assert carries(drop_carries(program)) == [2, 2]
    check(program)


def test_what_every_branch_in_a_loop_hands_on_is_known() -> None:
    def body(x: Value, out: Value) -> list[Value]:
        def loop(i: Value, part: Value) -> list[Value]:
            either = if_else(arith.lt(i, const(1, INDEX)), lambda: [part], lambda: [start])
            return [if_else(arith.lt(i, const(2, INDEX)), lambda: either, lambda: [part])[0]]

        start = load(x, [0, 0], (2, 4))
        (last,) = for_loop(0, 4, [start], loop)
        return [store(last, [0, 0], out)]

    program = kernel([("x", tensor(8, 8), IN), ("out", tensor(2, 4), OUT)], body)
    dropped = drop_carries(program)
    regions = [op for op in dropped["k"].body.walk() if op.regions]
    assert len(regions) == 3
    assert not any(op.results for op in regions)
    check(program)
