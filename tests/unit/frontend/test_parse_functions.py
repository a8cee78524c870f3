"""Functions: signatures, assignments, subscripts, literals, returns, attributes."""

from enum import IntEnum
from typing import Any

import numpy as np
import pytest

import tilewright.language as pl
from tilewright import ir
from tilewright.errors import (
    InvalidOperationError,
    ParserError,
    ParserSyntaxError,
    ParserTypeError,
    SSAViolationError,
    StaleRead,
    TilewrightError,
    UndefinedVariableError,
    UnsupportedFeatureError,
)
from tilewright.ir.enums import ParamDirection
from tilewright.ir.equal import assert_structural_equal
from tilewright.language import cond as going_on
from tilewright.language import func_attr as attributes
from tilewright.language import range as rounds
from tilewright.language import while_ as until
from tilewright.language import yield_ as done
from unit.frontend.parsed_kernels import array, execute, settled

TA = pl.Tensor[[16, 16], pl.FP32]


def read(body: str, signature: str = "x: pl.Tensor[[16, 16], pl.FP32]", **options: Any) -> Any:
    given = ", ".join(f"{name}={value}" for name, value in options.items())
    head = f"@pl.function({given})\ndef f({signature}):\n"
    return pl.parse(head + "".join(f"    {line}\n" for line in body.splitlines()), "<body>")


def test_return_types_may_be_none_one_or_several() -> None:
    @pl.function
    def one(a: pl.INT64, b: pl.FP32) -> pl.INT64:
        c: pl.INT64 = a + 1
        return c

    @pl.function
    def two(x: pl.INT64) -> tuple[pl.INT64, pl.INT64]:
        y: pl.INT64 = x + 1
        return y, x * 2

    @pl.function
    def none(x: pl.INT64):  # type: ignore[no-untyped-def]
        y: pl.INT64 = x + 1

    assert [len(f.return_types) for f in (one, two, none)] == [1, 2, 0]
    assert execute(one, 4, 0.5) == 5
    assert execute(two, 4) == (5, 8)
    settled(none)


def test_a_bare_dtype_is_a_scalar_and_prints_in_full() -> None:
    @pl.function
    def f(a: pl.INT64) -> pl.INT64:
        return a

    assert "a: pl.Scalar[pl.INT64]" in settled(f).as_python()


def test_the_function_type_is_kept() -> None:
    for kind in pl.FunctionType:
        f = read("y = pl.exp(x)", type=f"pl.FunctionType.{kind.name}")
        assert settled(f).func_type is kind


def test_an_annotation_on_an_assignment_is_checked() -> None:
    cases = {
        "y: pl.Tensor[[16, 16], pl.FP16] = pl.exp(x)": "has dtype",
        "y: pl.Tensor[[16], pl.FP32] = pl.exp(x)": "has rank 1 but expression has rank 2",
        "y: pl.Tensor[[16, 8], pl.FP32] = pl.exp(x)": "has shape dimension 1 = 8",
        "y: pl.Scalar[pl.FP32] = pl.exp(x)": "is Scalar but expression has type",
        "y: pl.Scalar[pl.INT64] = 0.5": "cannot be used as",
        "y: pl.Scalar[pl.FP32] = 1": "is an integer",
        "y: pl.FP23 = 1": "Unknown operation 'pl.FP23'",
        "y: 3 = pl.exp(x)": "is not a type",
        "y: pl.Tensor = pl.exp(x)": "Incomplete type annotation: pl.Tensor",
    }
    for body, message in cases.items():
        with pytest.raises(ParserError, match=message):
            read(body)


def test_an_annotated_literal_takes_the_dtype() -> None:
    f = read("y: pl.Scalar[pl.INT16] = 3\nz: pl.Scalar[pl.FP16] = 0.5\nreturn y, z", "n: pl.INT64")
    assert [str(type_) for type_ in settled(f).return_types] == [
        "pl.Scalar[pl.INT16]",
        "pl.Scalar[pl.FP16]",
    ]


def test_bare_literals_are_index_fp32_and_bool() -> None:
    f = read("a = 3\nb = 0.5\nc = True\nreturn a, b, c", "n: pl.INT64")
    assert [t.dtype.name for t in settled(f).return_types] == ["INDEX", "FP32", "BOOL"]


def test_typed_literals_and_mixed_widths() -> None:
    f = read("a = pl.const(3, pl.INT16) + n\nb = n + k\nreturn a, b", "n: pl.INT32, k: pl.INDEX")
    assert [t.dtype.name for t in settled(f).return_types] == ["INT32", "INDEX"]


@pytest.mark.parametrize(
    "text", ["n + k", "k - n", "min(k, n)", "pl.min(k, n)", "pl.min(n, k)", "pl.max(k, n)"]
)
def test_an_index_and_an_int64_meet_in_an_int64_whichever_comes_first(text: str) -> None:
    f = read(f"a = {text}\nreturn a", "n: pl.INT64, k: pl.INDEX")
    assert [t.dtype.name for t in settled(f).return_types] == ["INT64"]


def test_scalars_of_different_kinds_do_not_combine() -> None:
    with pytest.raises(TypeError, match="do not combine"):
        read("y = n + a", "n: pl.INT64, a: pl.FP32")
    with pytest.raises(TypeError, match="cannot be used as"):
        read("y = n + 0.5", "n: pl.INT64")


def test_integer_division_and_remainder_round_down() -> None:
    @pl.function
    def f(a: pl.INT64, b: pl.INT64) -> tuple[pl.INT64, pl.INT64]:
        return a // b, a % b

    assert execute(f, -7, 2) == (-4, 1)


def test_scalar_operators_mean_what_they_say() -> None:
    @pl.function
    def f(a: pl.INT64, b: pl.INT64) -> tuple[pl.INT64, pl.INT64, pl.BOOL]:
        c = -a + (b << 2) - (a >> 1)
        d = min(a, b, 3) * max(a, b)
        return c, ~d, not (a < b and b != 4)

    a, b = 9, 5
    assert execute(f, a, b) == (
        -a + (b << 2) - (a >> 1),
        ~(min(a, b, 3) * max(a, b)),
        not (a < b and b != 4),
    )


def test_operators_on_tensors_are_elementwise() -> None:
    @pl.function
    def f(x: TA, y: TA, out: pl.Out[TA]) -> TA:
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = -(x * 2.0 + y) / (y * y + 1.0) - x
        return out

    x, y, out = array(16, 16), array(16, 16, seed=1), np.zeros((16, 16), np.float32)
    execute(f, x, y, out)
    np.testing.assert_allclose(out, -(x * 2 + y) / (y * y + 1) - x, rtol=1e-5, atol=1e-5)


def test_subscripts_read_elements_rows_and_windows() -> None:
    @pl.function
    def f(
        x: TA, i: pl.INDEX
    ) -> tuple[pl.FP32, pl.Tensor[[16], pl.FP32], pl.Tensor[[4, 16], pl.FP32]]:
        return x[i, 2], x[i], x[i : i + 4]

    x = array(16, 16)
    element, row, window = execute(f, x, 3)
    assert element == x[3, 2]
    np.testing.assert_array_equal(row, x[3])
    np.testing.assert_array_equal(window, x[3:7])


def test_subscripts_write_whole_tensors_rows_and_windows() -> None:
    @pl.function
    def f(x: TA, out: pl.Out[TA]) -> TA:
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = 0.0
            out[2] = x[1]
            out[4:6, 8:12] = x[0:2, 0:4]
            out[7, 0:4] = x[3, 4:8]
        return out

    x, out = array(16, 16), np.ones((16, 16), np.float32)
    want = np.zeros_like(x)
    want[2], want[4:6, 8:12], want[7, 0:4] = x[1], x[0:2, 0:4], x[3, 4:8]
    execute(f, x, out)
    np.testing.assert_array_equal(out, want)


def test_a_tile_may_be_written_with_a_subscript() -> None:
    @pl.function(type=pl.FunctionType.InCore)
    def f(x: TA, out: pl.Out[TA]) -> TA:
        out[8:16, :] = pl.load(x, [0, 0], [8, 16])
        return out

    x, out = array(16, 16), np.zeros((16, 16), np.float32)
    execute(f, x, out)
    np.testing.assert_array_equal(out[8:], x[:8])


def test_bad_subscripts_are_refused() -> None:
    cases = {
        "y = x[0:8:2]": (UnsupportedFeatureError, "step"),
        "y = x[-1]": (UnsupportedFeatureError, "negative"),
        "y = x[0, 0, 0]": (ParserTypeError, "3 indices"),
        "y = x[0.5]": (ParserTypeError, "integer"),
        "x[0, 0] = 1.0": (InvalidOperationError, "pl.write"),
        "x[0:4] = x[0:8]": (ValueError, "written into a window"),
        "y = x[0:32]": (ValueError, ""),
    }
    for body, (kind, message) in cases.items():
        with pytest.raises(kind, match=message):
            read(body)


def test_a_bare_assignment_rebinds_the_name_only() -> None:
    @pl.function
    def f(a: TA, acc: pl.InOut[TA]) -> TA:
        with pl.at(level=pl.Level.CORE_GROUP):
            acc = pl.add(a, a)
        return acc

    a, acc = array(16, 16), np.zeros((16, 16), np.float32)
    result = execute(f, a, acc)
    assert not acc.any()
    np.testing.assert_array_equal(result, a + a)


def test_sugar_and_assemble_are_one_program() -> None:
    sugar = read(
        "x[:] = y\nreturn x", "x: pl.Out[pl.Tensor[[8], pl.FP32]], y: pl.Tensor[[8], pl.FP32]"
    )
    plain = read(
        "x = pl.assemble(x, y, [0])\nreturn x",
        "x: pl.Out[pl.Tensor[[8], pl.FP32]], y: pl.Tensor[[8], pl.FP32]",
    )
    assert sugar.as_python().replace("x_1", "x") == plain.as_python().replace("x_1", "x")


def test_reading_a_parameter_as_it_was_before_a_write_is_refused() -> None:
    body = "t = pl.load(x, [0, 0], [8, 16])\nnew = pl.store(t, [8, 0], x)\ny = pl.exp(x)"
    with pytest.raises(StaleRead) as caught:
        read(body, "x: pl.InOut[pl.Tensor[[16, 16], pl.FP32]]")
    assert "'new'" in str(caught.value.hint)
    assert "the write is here" in str(caught.value)


def test_writing_a_plain_parameter_makes_it_inout() -> None:
    f = read("x[0:8] = x[8:16]\nreturn x")
    assert f.directions == (ParamDirection.InOut,)
    ((param, span),) = f.undeclared
    assert param is f.params[0] and (span.line, span.col) == (2, 7)
    assert read("x[0:8] = x[8:16]", "x: pl.InOut[pl.Tensor[[16, 16], pl.FP32]]").undeclared == []


def test_strict_ssa_refuses_rebinding_and_subscript_writes() -> None:
    with pytest.raises(SSAViolationError) as caught:
        read("y = pl.exp(x)\ny = pl.mul(y, 2.0)", strict_ssa=True)
    assert caught.value.previous_span is not None and caught.value.previous_span.line == 3
    with pytest.raises(SSAViolationError, match="rebinds 'x'"):
        read("x[:] = x", strict_ssa=True)


def test_dynamic_dimensions_are_one_when_they_are_one_object() -> None:
    M = pl.dynamic("M")

    @pl.function
    def f(x: pl.Tensor[[M, 16], pl.FP32], y: pl.Tensor[[M, 16], pl.FP32]) -> pl.INDEX:
        z = pl.add(x, y)
        return z.shape[0] + M

    assert execute(f, array(5, 16), array(5, 16)) == 10


def test_dimensions_that_may_differ_are_refused() -> None:
    M, N = pl.dynamic("M"), pl.dynamic("N")
    with pytest.raises(TilewrightError):

        @pl.function
        def f(x: pl.Tensor[[M, 16], pl.FP32], y: pl.Tensor[[N, 16], pl.FP32]) -> pl.INDEX:
            z = pl.add(x, y)
            return z.shape[0]


def test_a_scalar_parameter_may_be_an_extent() -> None:
    text = """
@pl.function
def f(x: pl.Tensor[[n, 16], pl.FP32], n: pl.Scalar[pl.INDEX]) -> pl.Scalar[pl.INDEX]:
    return x.shape[0] + n
"""
    assert execute(pl.parse(text), array(3, 16), 3) == 6


ZERO = 0


def test_a_divisor_that_is_zero_for_certain_is_refused_at_the_caret() -> None:
    def quotients(x: pl.Tensor[[8], pl.INT32], n: pl.INDEX, m: pl.INT32):  # type: ignore
        none = 4 - 4
        a = n // 0
        b = n % ZERO
        c = m % (ZERO * 3)
        d = x // none
        e = n / (2 * none)
        return a, b, c, d, e

    with pytest.raises(InvalidOperationError, match="'//': an integer is divided by 0") as caught:
        pl.function(quotients)
    every = [caught.value, *caught.value.also]
    first = quotients.__code__.co_firstlineno
    lines = [each.span.line - first for each in every if each.span is not None]
    assert lines == [2, 3, 4, 5, 6] and caught.value.span is not None
    assert caught.value.span.col == 18


def test_a_divisor_that_run_time_brings_may_be_zero() -> None:
    @pl.function
    def f(n: pl.INDEX, x: pl.FP32) -> tuple[pl.INDEX, pl.INDEX, pl.FP32]:
        return 7 // n, 7 % n, x / 0.0

    assert execute(f, 0, 1.0) == (0, 0, np.inf)


@pytest.mark.parametrize("extent", ["n + M", "2 * M + n", "M // 2", "M * n"])
def test_a_dimension_that_no_extent_determines_is_named_with_a_fix(extent: str) -> None:
    text = f"""
M = pl.dynamic("M")
@pl.program
class P:
    @pl.function
    def helper(self, x: pl.Tensor[[{extent}, 4], pl.FP32], n: pl.Scalar[pl.INDEX]) -> pl.INDEX:
        return LAST
    @pl.function
    def main(self, x: pl.Tensor[[8, 4], pl.FP32], n: pl.Scalar[pl.INDEX]) -> pl.INDEX:
        return self.helper(x, n)
"""
    with pytest.raises(UndefinedVariableError, match=r"'x' has it in the extent .* x\.shape\[0\]"):
        pl.parse_program(text.replace("LAST", "M + 0"))
    program = pl.parse_program(text.replace("LAST", "x.shape[0] + n"))
    for execution in ("native", "interpret"):
        assert ir.compile(program, execution=execution)(array(8, 4), 2) == 10


@pytest.mark.parametrize("name", ["pl", "pld", "class", "1x", "a b", "ﬁ"])
def test_a_dimension_needs_a_plain_name(name: str) -> None:
    with pytest.raises(ParserError, match="cannot name a dimension"):
        pl.dynamic(name)


def test_closures_and_globals_are_constants() -> None:
    def make(scale: float, rows: int) -> Any:
        @pl.function
        def f(x: TA) -> pl.Tensor[[rows, 16], pl.FP32]:
            return pl.mul(pl.slice(x, [rows, 16], [0, 0]), scale)

        return f

    x = array(16, 16)
    for scale, rows in ((2.0, 4), (3.0, 8)):
        np.testing.assert_array_equal(execute(make(scale, rows), x), x[:rows] * np.float32(scale))


def test_attributes_stand_first_and_once() -> None:
    f = read('"""doc"""\npl.func_attr({"hint": 3, "w": x})\ny = pl.exp(x)')
    assert f.doc == "doc" and f.attrs["hint"] == 3 and f.attrs["w"] is f.params[0]
    assert len(settled(f).body.ops) == 2
    with pytest.raises(ParserSyntaxError, match="must appear before every other statement"):
        read('y = pl.exp(x)\npl.func_attr({"hint": 3})')
    for body in (
        'pl.func_attr({"a": 1, "a": 2})',
        'pl.func_attr({"a": 1})\npl.func_attr({"a": 2})',
    ):
        with pytest.raises(ParserSyntaxError, match="Duplicate function attribute 'a'"):
            read(body)


N = pl.dynamic("N")


@pytest.mark.parametrize(
    "given",
    [
        "3", "-2.5", "-0.0", 'float("nan")', 'float("inf")', "None", "True", '"text"', "[]",
        "pl.FP32", "pl.Mem.Vec", "pld.ReduceOp.Max", "pl.Tensor[[N, n], pl.FP32]", "N", "N * 2",
        "pl.TensorView(stride=[1], layout=pl.ND)", 'pl.MemRef("m", 0, 16)', "n", "n + 1", "x",
        "pl.split(pl.SplitMode.UP_DOWN)", "[1, [2, (x, n)], pl.FP32]", "x.shape", "np.int64(3)",
    ],
)  # fmt: skip
def test_an_attribute_reads_back_from_text_and_bytes(given: str) -> None:
    @pl.function
    def f(x: pl.Tensor[[N], pl.FP32], n: pl.Scalar[pl.INDEX]) -> pl.Tensor[[N], pl.FP32]:
        return pl.mul(x, 2.0)

    text = f.as_python().replace("    return", f'    pl.func_attr({{"a": {given}}})\n    return')
    read = pl.parse(text.replace("np.int64(3)", "3"))
    assert "a" in read.attrs
    settled(read)
    assert_structural_equal(read, ir.deserialize(ir.serialize(read)))


NO_CONSTANT = r"'a' is .* not a constant of the language"


@pytest.mark.parametrize(
    "given",
    [pl, pl.tile, pl.add, pl.range, {"a": 1}, b"b", {1}, 1j, range(3), len, object, IntEnum],
)
def test_an_attribute_that_no_text_gives_back_is_refused_where_it_is_given(given: Any) -> None:
    with pytest.raises(ParserTypeError, match=NO_CONSTANT) as caught:

        @pl.function
        def f(x: TA) -> TA:
            pl.func_attr({"n": 1, "a": given})
            return pl.exp(x)

    assert caught.value.span is not None and caught.value.span.col == 40
    with pytest.raises(ParserTypeError, match=NO_CONSTANT) as caught:

        @pl.function(attrs={"a": [given]})
        def g(x: TA) -> TA:
            return pl.exp(x)

    assert caught.value.span is not None and caught.value.span.file == __file__


def test_words_may_be_imported_under_other_names() -> None:
    @pl.function
    def f(x: TA, b: pl.Scalar[pl.BOOL]) -> TA:
        attributes({"n": 1})
        for _, (s,) in rounds(3, init_values=(x,)):
            if b:
                t = done(pl.add(s, x))
            else:
                t = done(pl.mul(s, x))
            s = done(t)
        for i in rounds(3):
            if i > 0:
                break
            s = pl.add(s, 1.0)
        k = pl.const(0, pl.INDEX)
        for t, j in until(init_values=(s, k)):
            going_on(j < 2)
            t, j = done(pl.mul(t, x), j + 1)
        return t

    x = array(16, 16)
    assert settled(f).attrs == {"n": 1}
    np.testing.assert_allclose(execute(f, x, True), (4 * x + 1) * x * x, rtol=1e-6)


def test_scalar_parameters_cannot_be_inout() -> None:
    with pytest.raises(ParserTypeError, match="Scalar parameters cannot have InOut direction"):
        read("y = n", "n: pl.InOut[pl.Scalar[pl.INT32]]")


def test_a_parameter_needs_an_annotation() -> None:
    with pytest.raises(ParserTypeError, match="missing type annotation"):
        read("y = n", "n")
    with pytest.raises(ParserTypeError, match="Incomplete type annotation"):
        read("y = n", "n: pl.Tensor")


def test_independent_errors_are_reported_together() -> None:
    with pytest.raises(UndefinedVariableError) as caught:
        read("a = pl.exp(yy)\nb = pl.nope(x)\nc = a + b\nd = pl.exp(zz)")
    assert [type(error).__name__ for error in caught.value.also] == [
        "InvalidOperationError",
        "UndefinedVariableError",
    ]


def test_static_print_and_assert_act_while_reading(capsys: pytest.CaptureFixture[str]) -> None:
    read("pl.static_print('shape', x.shape)\npl.static_assert(x.shape[0] == 16)")
    assert capsys.readouterr().out == "shape (16, 16)\n"
    with pytest.raises(ParserError, match="static_assert failed: too small"):
        read("pl.static_assert(x.shape[0] > 16, 'too small')")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("y += 1", "Write 'y = y \\+ 1'"),
        ("assert x", "Unsupported statement type: Assert"),
        ("import os", "Unsupported statement type: Import"),
        ("y = [a for a in (1, 2)]", "Unsupported expression type: ListComp"),
        ("y = lambda: 1", "Unsupported expression type: Lambda"),
        ("def g():\n        pass", "Unsupported statement type: FunctionDef"),
        ("y = n @ n", "Unsupported binary operator: MatMult"),
        ("y = n ** n", "Unsupported binary operator: Pow"),
        ("with open('x'):\n        pass", "Unsupported context"),
        ("y = 0 < n < 3", "Chained comparisons"),
        ("del n", "Unsupported statement type: Delete"),
    ],
)
def test_python_that_the_language_lacks_is_refused_by_name(body: str, message: str) -> None:
    with pytest.raises(UnsupportedFeatureError, match=message):
        read(body, "n: pl.INT64, x: pl.INT64")
