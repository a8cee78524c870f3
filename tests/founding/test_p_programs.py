# ruff: noqa: RET504  (kernels are language, not Python)
"""Rows P-157 to P-177: where a class is found, functions of others, inline helpers, examples."""

from __future__ import annotations

import linecache
import sys
import textwrap
from typing import Any

import numpy as np
import pytest

import tilewright.language as pl
from tilewright import ir
from tilewright.errors import ParserSyntaxError, ParserTypeError
from tilewright.ir.core import Operation, Program
from tilewright.ops import control
from unit.frontend.parsed_kernels import execute, settled

F32 = np.float32
T64 = pl.Tensor[[64], pl.FP32]
T8 = pl.Tensor[[8], pl.FP32]


def make(case: str, scale: float = 7.0) -> Program:
    if case == "add":

        @pl.program
        class Prog:
            @pl.function
            def main(self, x: T8) -> T8:
                return pl.add(x, 1.0)

        return Prog
    if case == "free":

        @pl.program
        class Prog:  # type: ignore[no-redef]
            @pl.function
            def main(self, x: T8) -> T8:
                return pl.mul(x, scale)

        return Prog

    @pl.program
    class Prog:  # type: ignore[no-redef]
        @pl.function
        def main(self, x: T8) -> T8:
            return pl.mul(x, 3.0)

    return Prog


def run_text(text: str, name: str) -> dict[str, Any]:
    """Executes a text that linecache knows, as notebooks and generators do."""
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    names: dict[str, Any] = {}
    exec(compile(text, name, "exec", dont_inherit=True), names)
    return names


def calls(program: Program, function: str) -> list[Operation]:
    return [op for op in program[function].body.walk() if op.opdef is control.call]


# ---- locating the class --------------------------------------------------------------------------


def test_p_157_same_named_classes_are_read_from_their_own_bodies() -> None:
    x = np.arange(8, dtype=F32)
    np.testing.assert_array_equal(execute(make("add"), x), x + 1)
    np.testing.assert_array_equal(execute(make("mul"), x), x * 3)
    np.testing.assert_array_equal(execute(make("free"), x), x * 7)


AMBIGUOUS = """
import tilewright.language as pl
def make(flag):
    if flag:
        @pl.program
        class Prog:
            "one"
        return Prog
    @pl.program
    class Prog:
        "two"
    return Prog
"""


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="classes know their line from 3.13 on")
def test_p_158_definitions_that_cannot_be_told_apart_are_refused_with_every_line() -> None:
    with pytest.raises(ParserSyntaxError, match="candidates at lines 6, 10 of <p158>") as caught:
        run_text(AMBIGUOUS, "<p158>")["make"](True)
    assert "distinct names" in str(caught.value.hint)


def test_p_159_a_closure_variable_varies_one_definition() -> None:
    x = np.arange(8, dtype=F32)
    first, second = make("free", 2.0), make("free", 11.0)
    assert not ir.structural_equal(first, second)
    np.testing.assert_array_equal(execute(first, x), x * 2)
    np.testing.assert_array_equal(execute(second, x), x * 11)


PLACES = {
    "in a function in a function": """
        def outer():
            def inner():
                @pl.program
                class P:
                    @pl.function
                    def main(self, x: pl.Tensor[[8], pl.FP32]) -> pl.Tensor[[8], pl.FP32]:
                        return pl.exp(x)
                return P
            return inner()
        P = outer()
    """,
    "in a branch": """
        if True:
            @pl.program
            class P:
                @pl.function
                def main(self, x: pl.Tensor[[8], pl.FP32]) -> pl.Tensor[[8], pl.FP32]:
                    return pl.exp(x)
        else:
            P = None
    """,
    "under other decorators": """
        def same(made):
            return made
        @same
        @pl.program
        class P:
            @pl.function
            def main(self, x: pl.Tensor[[8], pl.FP32]) -> pl.Tensor[[8], pl.FP32]:
                return pl.exp(x)
    """,
    "in a class": """
        class Outer:
            @pl.program
            class P:
                @pl.function
                def main(self, x: pl.Tensor[[8], pl.FP32]) -> pl.Tensor[[8], pl.FP32]:
                    return pl.exp(x)
        P = Outer.P
    """,
}


@pytest.mark.parametrize("place", PLACES)
def test_p_160_a_class_is_found_wherever_it_stands(place: str) -> None:
    text = "import tilewright.language as pl\n" + textwrap.dedent(PLACES[place])
    program = run_text(text, f"<p160 {place}>")["P"]
    assert isinstance(program, Program) and "pl.exp(x)" in settled(program).as_python()


# ---- functions defined elsewhere -----------------------------------------------------------------


@pl.function
def soft(x: T64) -> T64:
    r: T64 = pl.exp(x)
    return r


@pl.function
def softer(x: T64) -> T64:
    r: T64 = soft(x)
    return r


alias = soft


def named_soft(factor: float) -> Any:
    @pl.function
    def soft(x: T64) -> T64:
        return pl.mul(x, factor)

    return soft


def test_p_161_an_external_function_is_added_to_the_program() -> None:
    @pl.program
    class M:
        @pl.function
        def main(self, x: T64) -> T64:
            y: T64 = soft(x)
            return y

    assert list(settled(M).functions) == ["soft", "main"]
    x = np.linspace(-1, 1, 64, dtype=F32)
    np.testing.assert_allclose(ir.compile(M)(x), execute(M, x), rtol=3e-7)


def test_p_161_so_are_the_functions_that_it_calls() -> None:
    @pl.program
    class M:
        @pl.function
        def main(self, x: T64) -> T64:
            return softer(x)

    assert list(settled(M).functions) == ["soft", "softer", "main"]


def test_p_162_p_163_the_call_names_the_function_itself_whatever_its_alias() -> None:
    @pl.program
    class M:
        @pl.function
        def main(self, x: T64) -> T64:
            return alias(x)

    (call,) = calls(M, "main")
    assert call.attrs["callee"] == "soft" and [v.name for v in call.inputs] == ["x"]
    assert "alias" not in M.as_python() and M.get_function("alias") is None
    assert [op.attrs["callee"] for op in calls(pl.parse_program(M.as_python()), "main")] == ["soft"]


def test_p_164_an_external_may_not_have_the_name_of_a_program_function() -> None:
    with pytest.raises(ParserSyntaxError, match="conflicts with program function 'soft'"):

        @pl.program
        class M:
            @pl.function
            def soft(self, x: T64) -> T64:
                return x

            @pl.function
            def main(self, x: T64) -> T64:
                return alias(x)


def test_p_165_two_externals_of_one_name_are_refused() -> None:
    other = named_soft(2.0)
    with pytest.raises(ParserSyntaxError, match="Conflicting external functions") as caught:

        @pl.program
        class M:
            @pl.function
            def main(self, x: T64) -> T64:
                y: T64 = soft(x)
                return other(y)

    assert "'soft'" in str(caught.value)
    assert caught.value.span is not None and caught.value.span.col == 24


def test_p_165_also_when_another_external_brings_one_of_them() -> None:
    other = named_soft(2.0)
    with pytest.raises(ParserSyntaxError, match="Conflicting external functions"):

        @pl.program
        class M:
            @pl.function
            def main(self, x: T64) -> T64:
                y: T64 = softer(x)
                return other(y)


def test_p_166_an_external_called_from_several_methods_is_added_once() -> None:
    @pl.program
    class M:
        @pl.function
        def one(self, x: T64) -> T64:
            return soft(x)

        @pl.function
        def two(self, x: T64) -> T64:
            return alias(soft(x))

    assert sorted(settled(M).functions) == ["one", "soft", "two"]
    assert M.as_python().count("def soft(") == 1 and len(calls(M, "two")) == 2


def test_p_167_the_number_of_arguments_is_checked() -> None:
    @pl.function
    def both(x: T64, y: T64) -> T64:
        return pl.add(x, y)

    with pytest.raises(ParserTypeError, match=r"'both' expects 2 argument\(s\), got 1"):

        @pl.program
        class M:
            @pl.function
            def main(self, x: T64) -> T64:
                return both(x)

    with pytest.raises(ParserTypeError, match=r"'inner' expects 1 argument\(s\), got 2"):

        @pl.program
        class N:
            @pl.function
            def inner(self, x: T64) -> T64:
                return x

            @pl.function
            def main(self, x: T64) -> T64:
                return self.inner(x, x)


# ---- inline --------------------------------------------------------------------------------------


def helpers(factor: float) -> tuple[Any, Any]:
    @pl.inline
    def scale(x: T64) -> T64:
        r: T64 = pl.mul(x, factor)
        return r

    @pl.inline
    def twice(x: T64) -> T64:
        a: T64 = scale(x)
        b: T64 = scale(a)
        return b

    return scale, twice


def test_p_167_arguments_are_given_by_position() -> None:
    with pytest.raises(ParserTypeError, match=r"'soft' takes its arguments by position.*'x='"):

        @pl.program
        class _:
            @pl.function
            def main(self, x: T64) -> T64:
                return soft(x=x)


def test_a_function_of_a_program_that_calls_no_other_needs_no_self() -> None:
    @pl.program
    class P:
        @pl.function
        def main(x: T64) -> T64:
            return pl.add(x, 1.0)

    assert execute(settled(P)["main"], np.zeros(64, F32)).sum() == 64


def test_p_158_what_is_no_program_is_named_before_its_source_is_looked_for() -> None:
    with pytest.raises(ParserSyntaxError, match="decorates a class, not <function"):

        @pl.program  # type: ignore[arg-type]
        def _() -> None: ...

    for _ in range(2):
        with pytest.raises(ParserSyntaxError, match="'main' of program 'Plain' is not decorated"):

            @pl.program
            class Plain:
                def main(self, x: T64) -> T64:
                    return x


def test_p_168_an_inline_helper_is_expanded_in_place() -> None:
    scale, _ = helpers(4.0)

    @pl.program
    class Expanded:
        @pl.function
        def main(self, x: T64) -> T64:
            z: T64 = scale(pl.exp(x))
            return z

    @pl.program
    class ByHand:
        @pl.function
        def main(self, x: T64) -> T64:
            z: T64 = pl.mul(pl.exp(x), 4.0)
            return z

    assert list(settled(Expanded).functions) == ["main"] and not calls(Expanded, "main")
    ir.assert_structural_equal(Expanded["main"], ByHand["main"])


def test_p_168_a_dimension_of_an_inline_helper_is_that_of_its_argument() -> None:
    half = pl.dynamic("half")

    @pl.inline
    def upper(x: pl.Tensor[[2 * half], pl.FP32]):
        return pl.slice(x, [half], [half])

    @pl.program
    class M:
        @pl.function
        def main(self, x: T64) -> pl.Tensor[[32], pl.FP32]:
            return upper(x)

    x = np.arange(64, dtype=F32)
    np.testing.assert_array_equal(execute(settled(M)["main"], x), x[32:])


def test_p_169_the_number_of_arguments_of_an_inline_helper_is_checked() -> None:
    scale, _ = helpers(4.0)
    with pytest.raises(ParserTypeError, match=r"expects 1 argument\(s\), got 2"):

        @pl.program
        class M:
            @pl.function
            def main(self, x: T64) -> T64:
                return scale(x, x)


@pytest.mark.parametrize("factor", [2.0, 5.0])
def test_p_170_closure_variables_of_the_definition_are_seen(factor: float) -> None:
    scale, _ = helpers(factor)

    @pl.program
    class M:
        @pl.function
        def main(self, x: T64) -> T64:
            return scale(x)

    x = np.arange(64, dtype=F32)
    np.testing.assert_array_equal(execute(M, x), factor * x)


def test_p_171_p_172_expansions_are_independent_and_nest() -> None:
    scale, twice = helpers(2.0)

    @pl.program
    class M:
        @pl.function
        def main(self, x: T64) -> T64:
            r: T64 = pl.exp(x)
            y: T64 = twice(x)
            z: T64 = scale(y)
            return pl.add(z, r)

    text = settled(M).as_python()
    assert text.count("pl.mul(") == 3 and "scale(" not in text and "twice(" not in text
    x = np.zeros(64, F32)
    np.testing.assert_array_equal(execute(M, x), np.ones(64))  # r of the caller is its own


def test_p_171_an_inline_helper_writes_what_it_is_given() -> None:
    @pl.inline
    def fill(target, x):  # type: ignore[no-untyped-def]
        target[:] = pl.add(x, 1.0)
        return target

    @pl.program
    class M:
        @pl.function
        def main(self, x: T64, out: pl.Out[T64]) -> T64:
            out = fill(out, x)
            return out

    out = np.zeros(64, F32)
    ir.compile(M)(np.arange(64, dtype=F32), out)
    np.testing.assert_array_equal(out, np.arange(64) + 1)


# ---- complete examples ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["my_program", "Other"])
def test_p_173_the_header_names_the_program(name: str) -> None:
    text = f"# pypto.program: {name}\nimport tilewright.language as pl\n" + textwrap.dedent("""
        def loop_sum(n: pl.INT64) -> pl.INT64:
            sum_init: pl.INT64 = 0
            for i, (sum,) in pl.range(n, init_values=(sum_init,)):
                sum = pl.yield_(sum + i)
            return sum
    """)
    program = pl.parse_program(text)
    assert program.name == name and list(program.functions) == ["loop_sum"]
    assert program.as_python().startswith(f"# pypto.program: {name}\n")
    assert pl.parse_program(program.as_python()).name == name


@pl.function
def loop_sum(n: pl.INT64) -> pl.INT64:
    sum_init: pl.INT64 = 0
    for i, (total,) in pl.range(n, init_values=(sum_init,)):
        total = pl.yield_(total + i)
    return total


@pytest.mark.parametrize("n", [0, 1, 5, 1000])
def test_p_174_a_loop_carries_its_sum(n: int) -> None:
    assert execute(loop_sum, n) == sum(range(n))
    assert int(ir.compile(loop_sum)(n)) == sum(range(n))


def test_p_174_the_yield_names_the_result() -> None:
    @pl.function
    def f(n: pl.INT64) -> tuple[pl.INT64, pl.INT64]:
        start: pl.INT64 = 7
        for i, (inner,) in pl.range(n, init_values=(start,)):
            final = pl.yield_(inner + i)
        return start, final

    assert execute(f, 3) == (7, 10)


def test_p_175_the_tile_example_as_it_is_written(capfd: pytest.CaptureFixture[str]) -> None:
    @pl.program
    class BlockExample:
        @pl.function
        def tile_add(
            self,
            input_a: pl.Tensor[[64, 64], pl.FP32],
            input_b: pl.Tensor[[64, 64], pl.FP32],
            output: pl.Tensor[[64, 64], pl.FP32],
        ) -> pl.Tensor[[64, 64], pl.FP32]:
            tile_a: pl.Tile[[64, 64], pl.FP32] = pl.load(input_a, [0, 0], [64, 64])
            tile_b: pl.Tile[[64, 64], pl.FP32] = pl.load(input_b, [0, 0], [64, 64])
            tile_c: pl.Tile[[64, 64], pl.FP32] = pl.add(tile_a, tile_b)
            result: pl.Tensor[[64, 64], pl.FP32] = pl.store(tile_c, [0, 0], output)
            return result

    rng = np.random.default_rng(0)
    a, b = rng.random((64, 64), F32), rng.random((64, 64), F32)
    out = np.zeros_like(a)
    ir.compile(BlockExample)(a, b, out)
    np.testing.assert_array_equal(out, a + b)
    said = capfd.readouterr().err
    assert "[InParamWritten]" in said and "'output' of function 'tile_add' is written" in said


BLOCK = 32


@pl.jit
def slice_kernel(x: pl.Tensor[[128, 128], pl.FP32]) -> pl.Tensor[[BLOCK, 128], pl.FP32]:
    with pl.at(level=pl.Level.CORE_GROUP):
        result = pl.slice(x, [BLOCK, 128], [0, 0])
    return result


def test_p_176_the_slice_example_returns_its_rows() -> None:
    x = np.random.default_rng(0).random((128, 128), F32)
    got = slice_kernel(x)
    assert got.shape == (32, 128)
    np.testing.assert_array_equal(got, x[:32])


@pl.jit
def add_three(x: pl.Tensor[[16, 16], pl.FP32], out: pl.Out[pl.Tensor[[16, 16], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        tile = pl.load(x, [0, 0], [16, 16])
        pl.store(pl.add(tile, 3.0), [0, 0], out)
    return out


def test_p_177_the_add_three_example_adds_three() -> None:
    x, out = np.arange(256, dtype=F32).reshape(16, 16), np.zeros((16, 16), F32)
    add_three(x, out)
    np.testing.assert_array_equal(out, x + 3)
