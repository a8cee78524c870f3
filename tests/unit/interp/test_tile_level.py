"""Tile-level programs: values, tied writes, control flow, calls, dynamic extents."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright import interp
from tilewright.dtypes import FP32, INDEX
from tilewright.errors import DTypeMismatch, OutputOverlap, RuntimeShapeMismatch, ShapeMismatch
from tilewright.interp import Interpreter
from tilewright.ir.affine import Symbol, as_expr
from tilewright.ir.builder import Builder
from tilewright.ir.core import Program, Value
from tilewright.ir.opdef import OPS, op
from tilewright.ir.types import ScalarType, TensorType, TileType
from tilewright.ops import arith, control, elementwise, reduce
from unit.interp.build import (
    IN,
    INOUT,
    OUT,
    for_loop,
    function,
    if_else,
    program,
    while_loop,
)

TILE = TileType((4, 8), FP32)
TENSOR = TensorType((4, 8), FP32)


@op("test.scale_in_place", tied={0: 0})
def scale_in_place(x: Value, factor: Value) -> Value:
    """x * factor, in the memory of x."""


@scale_in_place.type_rule
def scale_type(x, factor):  # type: ignore[no-untyped-def]
    return x.type


@scale_in_place.reference
def scale_numpy(x, factor):  # type: ignore[no-untyped-def]
    x *= factor
    return x


@op("test.transposed")
def transposed(x: Value) -> Value:
    """A view of x."""


@transposed.type_rule
def transposed_type(x):  # type: ignore[no-untyped-def]
    return TensorType(x.type.shape[::-1], x.type.dtype)


@transposed.reference
def transposed_numpy(x):  # type: ignore[no-untyped-def]
    return x.T


for registered in (scale_in_place, transposed):
    del OPS[registered.name]


def two() -> Value:
    return Builder.current().constant(2.0, FP32)


def ones() -> np.ndarray:
    return np.ones((4, 8), np.float32)


def scaling(params, body) -> Program:  # type: ignore[no-untyped-def]
    return program(function("f", params, body))


def copies_in(p: Program) -> int:
    return Interpreter(p).source("f").count(".copy()")


def test_pure_operations_give_their_reference() -> None:
    x = np.linspace(-2, 2, 32, dtype=np.float32).reshape(4, 8)
    p = scaling(
        [("x", TENSOR, IN)],
        lambda x: ([reduce.sum_(elementwise.exp(x), axes=(1,), keepdims=True)], []),
    )
    (given,) = interp.run(p, "f", [x])
    np.testing.assert_allclose(given, np.exp(x).sum(1, keepdims=True), rtol=1e-6)


def test_a_tied_write_whose_old_version_is_dead_happens_in_place() -> None:
    p = scaling([("x", TENSOR, INOUT)], lambda x: ([], [scale_in_place(x, two())]))
    x = ones()
    interp.run(p, "f", [x])
    assert (x == 2).all()
    assert copies_in(p) == 0


def test_an_old_version_that_is_read_later_keeps_its_contents() -> None:
    def body(x: Value):  # type: ignore[no-untyped-def]
        new = scale_in_place(x, two())
        return [elementwise.add(new, x)], [new]

    p = scaling([("x", TENSOR, INOUT)], body)
    x = ones()
    (given,) = interp.run(p, "f", [x])
    assert (given == 3).all()
    assert (x == 2).all()


def test_an_in_parameter_is_never_written() -> None:
    p = scaling([("x", TENSOR, IN)], lambda x: ([scale_in_place(x, two())], []))
    x = ones()
    (given,) = interp.run(p, "f", [x])
    assert (given == 2).all()
    assert (x == 1).all()


def test_a_view_of_what_is_written_later_keeps_its_contents() -> None:
    def body(x: Value):  # type: ignore[no-untyped-def]
        view = transposed(x)
        return [view], [scale_in_place(x, two())]

    x = ones()
    (given,) = interp.run(scaling([("x", TENSOR, INOUT)], body), "f", [x])
    assert (given == 1).all()
    assert (x == 2).all()


def test_a_carried_value_is_written_in_place_in_each_iteration() -> None:
    def body(x: Value):  # type: ignore[no-untyped-def]
        return [], list(for_loop(0, 5, [x], lambda i, c: [scale_in_place(c, two())]))

    p = scaling([("x", TENSOR, INOUT)], body)
    x = ones()
    interp.run(p, "f", [x])
    assert (x == 32).all()
    assert copies_in(p) == 0


def test_a_value_from_outside_a_loop_is_written_afresh_in_each_iteration() -> None:
    def body(x: Value):  # type: ignore[no-untyped-def]
        start = elementwise.neg(x)

        def step(i: Value, total: Value) -> list[Value]:
            return [elementwise.add(total, scale_in_place(start, two()))]

        return list(for_loop(0, 3, [x], step)), []

    (given,) = interp.run(scaling([("x", TENSOR, IN)], body), "f", [ones()])
    assert (given == 1 - 2 - 2 - 2).all()


def test_one_value_in_two_carries_is_two_values() -> None:
    def body(x: Value):  # type: ignore[no-untyped-def]
        start = elementwise.neg(x)
        return list(
            for_loop(0, 2, [start, start], lambda i, a, b: [scale_in_place(a, two()), b])
        ), []

    a, b = interp.run(scaling([("x", TENSOR, IN)], body), "f", [ones()])
    assert (a == -4).all()
    assert (b == -1).all()


def test_carries_that_change_places_stay_apart() -> None:
    def body(x: Value):  # type: ignore[no-untyped-def]
        start = [elementwise.neg(x), elementwise.add(x, x)]
        return list(for_loop(0, 3, start, lambda i, a, b: [b, scale_in_place(a, two())])), []

    a, b = interp.run(scaling([("x", TENSOR, IN)], body), "f", [ones()])
    assert (a == 4).all()
    assert (b == -4).all()


@pytest.mark.parametrize(("flag", "wanted"), [(True, 2), (False, -1)])
def test_a_branch_gives_what_its_arm_yields(flag: bool, wanted: int) -> None:
    def body(x: Value, n: Value):  # type: ignore[no-untyped-def]
        cond = arith.gt(n, Builder.current().index(0))
        arms = (lambda: [elementwise.add(x, x)], lambda: [elementwise.neg(x)])
        return list(if_else(cond, *arms)), []

    p = scaling([("x", TENSOR, IN), ("n", ScalarType(INDEX), IN)], body)
    (given,) = interp.run(p, "f", [ones(), int(flag)])
    assert (given == wanted).all()


def test_both_arms_may_write_in_place() -> None:
    def body(x: Value, n: Value):  # type: ignore[no-untyped-def]
        cond = arith.gt(n, Builder.current().index(0))
        arm = lambda: [scale_in_place(x, two())]  # noqa: E731
        return [], list(if_else(cond, arm, arm))

    p = scaling([("x", TENSOR, INOUT), ("n", ScalarType(INDEX), IN)], body)
    assert copies_in(p) == 0
    x = ones()
    interp.run(p, "f", [x, 0])
    assert (x == 2).all()


def test_a_while_repeats_until_its_condition_is_false() -> None:
    def body(x: Value, n: Value):  # type: ignore[no-untyped-def]
        one = Builder.current().index(1)
        _, y = while_loop(
            [n, x],
            lambda n, y: arith.gt(n, Builder.current().index(0)),
            lambda n, y: [arith.sub(n, one), elementwise.add(y, y)],
        )
        return [y], []

    p = scaling([("x", TENSOR, IN), ("n", ScalarType(INDEX), IN)], body)
    (given,) = interp.run(p, "f", [ones(), 6])
    assert (given == 64).all()


def test_a_call_writes_the_arguments_that_it_is_tied_to() -> None:
    callee = function(
        "g",
        [("x", TENSOR, IN), ("y", TENSOR, INOUT)],
        lambda x, y: ([elementwise.add(x, y)], [scale_in_place(y, two())]),
    )

    def body(x: Value, y: Value):  # type: ignore[no-untyped-def]
        total, new = control.call((x, y), callee="g", result_types=(TENSOR,), tied_args=(1,))
        return [total], [new]

    caller = function("f", [("x", TENSOR, IN), ("y", TENSOR, INOUT)], body)
    y = ones()
    (given,) = interp.run(program(callee, caller), "f", [ones(), y])
    assert (given == 2).all()
    assert (y == 2).all()


def test_a_returned_parameter_is_the_callers_own_copy() -> None:
    x = ones()
    (given,) = interp.run(scaling([("x", TENSOR, IN)], lambda x: ([x], [])), "f", [x])
    assert not np.shares_memory(given, x)


def dynamic_program() -> Program:
    rows = as_expr(Symbol("M"))
    type_ = TensorType((rows, 8), FP32)
    params = [("x", type_, IN), ("y", type_, IN)]
    return scaling(params, lambda x, y: ([elementwise.add(x, y)], []))


@pytest.mark.parametrize("rows", [0, 1, 7])
def test_dynamic_extents_come_from_the_arguments(rows: int) -> None:
    x = np.ones((rows, 8), np.float32)
    (given,) = interp.run(dynamic_program(), "f", [x, x])
    assert given.shape == (rows, 8)


def test_one_symbol_with_two_extents_is_refused() -> None:
    x, y = np.ones((3, 8), np.float32), np.ones((4, 8), np.float32)
    with pytest.raises(RuntimeShapeMismatch, match="is 4, but the other extents make it 3"):
        interp.run(dynamic_program(), "f", [x, y])


@pytest.mark.parametrize(
    ("x", "error"),
    [(np.ones((4, 7), np.float32), ShapeMismatch), (np.ones((4, 8)), DTypeMismatch)],
)
def test_an_argument_that_does_not_fit_is_refused(x: np.ndarray, error: type) -> None:
    with pytest.raises(error, match="x: "):
        interp.run(scaling([("x", TENSOR, IN)], lambda x: ([x], [])), "f", [x])


def test_an_output_that_overlaps_an_input_is_refused() -> None:
    params = [("x", TENSOR, IN), ("y", TENSOR, INOUT)]
    p = scaling(params, lambda x, y: ([], [scale_in_place(y, two())]))
    x = ones()
    with pytest.raises(OutputOverlap):
        interp.run(p, "f", [x, x[:]])


def test_an_out_parameter_is_poisoned_in_checked_mode() -> None:
    p = scaling([("x", TENSOR, OUT)], lambda x: ([], [scale_in_place(x, two())]))
    x = ones()
    interp.run(p, "f", [x], checked=True)
    assert np.isnan(x).all()


def test_an_array_without_axes_can_be_written() -> None:
    def body(x: Value):  # type: ignore[no-untyped-def]
        total = reduce.sum_(x, axes=(0, 1), keepdims=False)
        return [scale_in_place(total, two()), total], []

    new, old = interp.run(scaling([("x", TENSOR, IN)], body), "f", [ones()])
    assert (new, old) == (64, 32)


class Words:
    """Stands for compiled words."""

    def word(self, name: str, dtype: object):  # type: ignore[no-untyped-def]
        assert (name, dtype) == ("arith.exp", FP32)
        return lambda x: x + 1


def test_words_mode_calls_the_compiled_word() -> None:
    p = scaling([("x", TENSOR, IN)], lambda x: ([elementwise.exp(x)], []))
    (given,) = interp.run(p, "f", [ones()], words=Words())
    assert (given == 2).all()
