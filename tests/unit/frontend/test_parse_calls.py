"""Calls: between functions of a program, to functions elsewhere, and of inline helpers."""

from typing import Any

import numpy as np
import pytest

import tilewright.language as pl
from tilewright import ir
from tilewright.errors import (
    DTypeMismatch,
    InvalidOperationError,
    ParserSyntaxError,
    ShapeMismatch,
    TilewrightError,
    UndefinedVariableError,
)
from tilewright.ir.core import Program
from tilewright.ops import control
from unit.frontend.parsed_kernels import array, execute, settled

T64 = pl.Tensor[[64], pl.FP32]
TA = pl.Tensor[[64, 16], pl.FP32]
TB = pl.Tensor[[16, 16], pl.FP32]
SCALE = 100.0


@pl.function
def soft(x: T64) -> T64:
    r: T64 = pl.exp(x)
    return r


alias = soft


def calls(program: Program) -> list[str]:
    functions = program.functions.values()
    return [
        op.attrs["callee"] for f in functions for op in f.body.walk() if op.opdef is control.call
    ]


def test_a_method_may_be_called_before_it_is_defined() -> None:
    @pl.program
    class P:
        @pl.function(type=pl.FunctionType.Orchestration)
        def main(self, x: TB, out: pl.Out[TB]) -> TB:
            out = self.kernel(x, out)
            return out

        @pl.function(type=pl.FunctionType.InCore)
        def kernel(self, x: TB, out: pl.Out[TB]) -> TB:
            return pl.store(pl.mul(pl.load(x, [0, 0], [16, 16]), 2.0), [0, 0], out)

    assert list(P.functions) == ["kernel", "main"]
    x, out = array(16, 16), np.zeros((16, 16), np.float32)
    execute(P, x, out)
    np.testing.assert_array_equal(out, x * 2)


def test_a_call_for_its_effect_rebinds_what_it_writes() -> None:
    @pl.program
    class P:
        @pl.function(type=pl.FunctionType.InCore)
        def kernel(self, x: TB, out: pl.Out[TB], s: pl.FP32):  # type: ignore[no-untyped-def]
            pl.store(pl.mul(pl.load(x, [0, 0], [16, 16]), s), [0, 0], out)

        @pl.function(type=pl.FunctionType.Orchestration)
        def main(self, x: TB, out: pl.Out[TB]) -> TB:
            tmp = pl.create_tensor([16, 16], pl.FP32)
            self.kernel(x, tmp, 2.0)
            self.kernel(tmp, out, 3.0)
            return out

    x, out = array(16, 16), np.zeros((16, 16), np.float32)
    execute(P, x, out)
    np.testing.assert_array_equal(out, x * 2 * 3)


def test_a_part_of_an_output_is_written_in_place() -> None:
    @pl.program
    class P:
        @pl.function(type=pl.FunctionType.InCore)
        def kernel(self, x: TB, out: pl.Out[TB]) -> TB:
            return pl.store(pl.load(x, [0, 0], [16, 16]), [0, 0], out)

        @pl.function(type=pl.FunctionType.Orchestration)
        def main(self, x: TA, out: pl.Out[TA]) -> TA:
            for i in pl.range(4):
                self.kernel(x[i * 16 : i * 16 + 16, :], out[i * 16 : (i + 1) * 16, :])
            return out

    x, out = array(64, 16), np.zeros((64, 16), np.float32)
    execute(P, x, out)
    np.testing.assert_array_equal(out, x)


def test_arguments_are_typed() -> None:
    with pytest.raises(
        ShapeMismatch, match=r"parameter 'x': expects shape dimension 0 = 64, got 32"
    ):

        @pl.function
        def g(x: pl.Tensor[[32], pl.FP32]) -> T64:
            return soft(x)

    with pytest.raises(DTypeMismatch, match="expects dtype"):

        @pl.function
        def h(x: pl.Tensor[[64], pl.FP16]) -> T64:
            return soft(x)


def test_dynamic_dimensions_of_a_callee_take_the_caller_s() -> None:
    N = pl.dynamic("N")

    @pl.function
    def double(x: pl.Tensor[[N, 16], pl.FP32]) -> pl.Tensor[[N, 16], pl.FP32]:
        return pl.add(x, x)

    @pl.program
    class P:
        @pl.function
        def main(self, x: TB) -> TB:
            y: TB = double(x)
            return y

    x = array(16, 16)
    np.testing.assert_array_equal(execute(P, x), x + x)


def test_a_circle_of_calls_is_refused() -> None:
    with pytest.raises(ParserSyntaxError, match="circle: a -> b -> a"):

        @pl.program
        class P:
            @pl.function
            def a(self, x: T64) -> T64:
                return self.b(x)

            @pl.function
            def b(self, x: T64) -> T64:
                return self.a(x)


def test_an_unknown_method_is_refused_with_the_nearest() -> None:
    with pytest.raises(InvalidOperationError, match="no function 'kernal'") as caught:

        @pl.program
        class P:
            @pl.function
            def kernel(self, x: T64) -> T64:
                return x

            @pl.function
            def main(self, x: T64) -> T64:
                return self.kernal(x)

    assert caught.value.hint == "Did you mean 'kernel'?"


def test_arguments_of_an_inline_helper_are_typed() -> None:
    @pl.inline
    def keep(x: T64) -> T64:
        return x

    with pytest.raises(ShapeMismatch, match="inline function 'keep': parameter 'x'"):

        @pl.function
        def g(x: pl.Tensor[[32], pl.FP32]) -> T64:
            return keep(x)


def test_an_error_in_a_helper_shows_both_places() -> None:
    @pl.inline
    def bad(x):  # type: ignore[no-untyped-def]
        return pl.nope(x)

    with pytest.raises(InvalidOperationError) as caught:

        @pl.function
        def f(x: T64) -> T64:
            return bad(x)

    text = str(caught.value)
    assert "return pl.nope(x)" in text and "called from here" in text and "return bad(x)" in text


def test_a_helper_may_write_the_caller_s_tensor() -> None:
    @pl.inline
    def put(x, out):  # type: ignore[no-untyped-def]
        out[0:16, :] = x

    @pl.function
    def f(x: TB, out: pl.Out[TA]) -> TA:
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = 0.0
            put(x, out)
        return out

    x, out = array(16, 16), np.ones((64, 16), np.float32)
    execute(f, x, out)
    np.testing.assert_array_equal(out[:16], x)
    assert not out[16:].any()


def test_a_helper_that_expands_itself_is_refused() -> None:
    text = """
@pl.inline
def forever(x):
    return forever(x)

@pl.function
def f(x: pl.Tensor[[64], pl.FP32]):
    y = forever(x)
"""
    with pytest.raises(ParserSyntaxError, match="expands itself"):
        pl.parse(text)


def test_a_plain_python_function_cannot_be_called() -> None:
    def helper(x: Any) -> Any:
        return x

    with pytest.raises(InvalidOperationError, match="'helper' cannot be called in a kernel"):

        @pl.function
        def f(x: T64) -> T64:
            return helper(x)


def test_a_captured_object_without_a_form_is_named() -> None:
    thing = object()
    with pytest.raises(TilewrightError, match="thing"):

        @pl.function
        def f(x: T64) -> T64:
            return pl.add(x, thing)


def test_unknown_operations_suggest_the_nearest() -> None:
    with pytest.raises(InvalidOperationError, match=r"Unknown operation 'pl.exq'") as caught:

        @pl.function
        def f(x: T64) -> T64:
            return pl.exq(x)

    assert caught.value.hint == "Did you mean 'pl.exp'?"


@pytest.mark.parametrize("name", ["tile.alloc", "tensor.alloc", "tile.MemRefType"])
def test_names_of_low_level_text_are_refused_with_what_would_do(name: str) -> None:
    text = f"@pl.function\ndef f(n: pl.INDEX):\n    p = pl.{name}(pl.Mem.Vec, 64)\n    return n\n"
    with pytest.raises(InvalidOperationError, match="stands in low-level text only") as caught:
        pl.parse(text)
    assert "pl.create_tile" in str(caught.value.hint)


def test_wrong_arguments_of_an_operation_show_its_usage() -> None:
    with pytest.raises(InvalidOperationError) as caught:

        @pl.function
        def f(x: T64) -> T64:
            return pl.exp(x, mode=3)

    assert "Usage: pl.exp(" in str(caught.value)


def test_an_operation_outside_a_kernel_is_refused() -> None:
    with pytest.raises(InvalidOperationError, match=r"pl\.add can be called only in a kernel"):
        pl.add(1, 2)
    with pytest.raises(InvalidOperationError, match=r"pl\.range can be used only in the body"):
        pl.range(4)

    @pl.inline
    def twice(x):  # type: ignore[no-untyped-def]
        return pl.mul(x, 2.0)

    with pytest.raises(InvalidOperationError, match="inline function 'twice' can be called only"):
        twice(1.0)


def test_two_expansions_of_a_helper_are_equal_to_writing_it_twice() -> None:
    @pl.inline
    def scale(x):  # type: ignore[no-untyped-def]
        return pl.mul(x, 2.0)

    @pl.function
    def f(x: T64) -> T64:
        y = scale(x)
        return scale(y)

    def by_hand() -> Any:
        @pl.function
        def f(x: T64) -> T64:
            y = pl.mul(x, 2.0)
            return pl.mul(y, 2.0)

        return f

    ir.assert_structural_equal(f, by_hand())


def test_tiles_bind_their_own_extents_and_tensors_share_theirs() -> None:
    M = pl.dynamic("M")

    tile, tensor = pl.Tile[[M, 16], pl.FP32], pl.Tensor[[M, 16], pl.FP32]

    @pl.inline
    def tiles(a: tile, b: tile):  # type: ignore[no-untyped-def,valid-type]
        return b

    @pl.inline
    def tensors(a: tensor, b: tensor):  # type: ignore[no-untyped-def,valid-type]
        return b

    @pl.function(type=pl.FunctionType.InCore)
    def f(x: TB, out: pl.Out[TB]) -> TB:
        t = tiles(pl.load(x, [0, 0], [8, 16]), pl.load(x, [0, 0], [4, 16]))
        return pl.store(t, [0, 0], out)

    settled(f)
    with pytest.raises(ShapeMismatch, match="parameter 'b': expects shape dimension 0 = M, got 4"):

        @pl.function
        def g(x: TB) -> pl.INDEX:
            t = tensors(pl.slice(x, [8, 16], [0, 0]), pl.slice(x, [4, 16], [0, 0]))
            return t.shape[0]


def test_a_declared_multiple_of_a_dimension_must_divide() -> None:
    M = pl.dynamic("M")

    @pl.inline
    def even(a: pl.Tile[[2 * M, 16], pl.FP32]):  # type: ignore[no-untyped-def]
        return a

    def make(rows: int) -> Any:
        @pl.function
        def f(x: TB, out: pl.Out[TB]) -> TB:
            with pl.at(level=pl.Level.CORE_GROUP):
                pl.store(even(pl.load(x, [0, 0], [rows, 16])), [0, 0], out)
            return out

        return f

    settled(make(8))
    with pytest.raises(ShapeMismatch, match=r"expects shape dimension 0 = 2 \* M, got 5"):
        make(5)


def test_known_scalars_enter_declared_extents() -> None:
    text = """
M = pl.dynamic("M")

@pl.inline
def take(n: pl.Scalar[pl.INDEX], a: pl.Tile[[n + M, 16], pl.FP32]):
    return a

@pl.function
def f(x: pl.Tensor[[16, 16], pl.FP32]):
    t = take({n}, pl.load(x, [0, 0], [8, 16]))
"""
    pl.parse(text.format(n=4))


def test_a_function_that_a_text_lacks_is_named_where_it_is_called() -> None:
    @pl.function
    def doubled(x: pl.Tensor[[4], pl.FP32]) -> pl.Tensor[[4], pl.FP32]:
        return pl.add(x, x)

    @pl.function
    def main(x: pl.Tensor[[4], pl.FP32]) -> pl.Tensor[[4], pl.FP32]:
        return doubled(x)

    text = main.as_python()
    with pytest.raises(UndefinedVariableError, match="'doubled' is not part of this text") as said:
        pl.parse(text)
    assert " = doubled(x)\n     |                                  ^^^^^^^ Fun" in str(said.value)
    assert "print the program" in (said.value.hint or "")


HEAD = "@pl.function\ndef f(x: pl.Tensor[[4], pl.FP32]) -> pl.Tensor[[4], pl.FP32]:\n"
HINTED = {
    "cannot call itself": "    return f(x)\n",
    "It is one value": "    a, b = pl.exp(x)\n    return a\n",
    "Name each of the 3": "    a, b = x, x, x\n    return a\n",
}


@pytest.mark.parametrize("hint", HINTED)
def test_what_cannot_be_called_or_unpacked_says_what_would_do(hint: str) -> None:
    with pytest.raises(TilewrightError) as caught:
        pl.parse(HEAD + HINTED[hint])
    assert hint in (caught.value.hint or "")


@pytest.mark.parametrize(
    "statement", ["import numpy as g", "from math import sin as g", "def g(x): return x"]
)
def test_what_a_refused_statement_would_have_bound_is_not_blamed(statement: str) -> None:
    with pytest.raises(TilewrightError, match="Unsupported statement type") as caught:
        pl.parse(f"{HEAD}    {statement}\n    return g(x)\n")
    assert not caught.value.companions()
