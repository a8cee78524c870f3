# ruff: noqa: RET504  (kernels are language, not Python)
"""Rows P-117 to P-139: declarations, function types and parameter directions."""

from __future__ import annotations

import inspect
import re
from typing import Any

import numpy as np
import pytest

import tilewright.language as pl
from tilewright import ir
from tilewright.errors import ParserTypeError, TilewrightError
from tilewright.ir.core import Function
from tilewright.passes.pipeline import lower
from tilewright.runtime import RuntimeKind
from unit.frontend.parsed_kernels import execute, settled

F32 = np.float32
KINDS = ("Opaque", "Orchestration", "InCore", "AIC", "AIV", "Group", "Graph")
T64 = "pl.Tensor[[64], pl.FP32]"
PAIR = "tuple[pl.INT64, pl.INT64]"


def read(signature: str, *body: str, returns: str = "", decorator: str = "@pl.function") -> Any:
    arrow = f" -> {returns}" if returns else ""
    lines = [decorator, f"def f({signature}){arrow}:", *(f"    {line}" for line in body)]
    return pl.parse("\n".join(lines) + "\n", "<row>")


# ---- declarations --------------------------------------------------------------------------------


def test_p_117_scalar_parameters_and_one_return_type() -> None:
    @pl.function
    def f(a: pl.INT64, b: pl.FP32) -> pl.INT64:
        x: pl.INT64 = a + 1
        return x

    text = settled(f).as_python()
    assert "def f(a: pl.Scalar[pl.INT64], b: pl.Scalar[pl.FP32]) -> pl.Scalar[pl.INT64]:" in text
    assert execute(f, 41, 0.5) == 42


def test_p_118_several_return_types() -> None:
    declared = "tuple[pl.INT64, pl.FP32]"
    f = read("x: pl.INT64, a: pl.FP32", "y: pl.INT64 = x + 1", "return y, a", returns=declared)
    assert [str(t) for t in f.return_types] == ["pl.Scalar[pl.INT64]", "pl.Scalar[pl.FP32]"]
    assert "-> tuple[pl.Scalar[pl.INT64], pl.Scalar[pl.FP32]]:" in settled(f).as_python()
    assert execute(f, 4, 0.5) == (5, F32(0.5))


def test_p_118_the_number_of_returned_values_is_checked() -> None:
    with pytest.raises(ParserTypeError, match=r"declares 2 return value\(s\) but returns 1"):
        read("x: pl.INT64", "return x", returns="tuple[pl.INT64, pl.INT64]")


def test_p_119_no_return_type() -> None:
    f = read("x: pl.INT64", "y: pl.INT64 = x + 1")
    assert f.return_types == () and "def f(x: pl.Scalar[pl.INT64]):" in settled(f).as_python()


def test_p_118_a_tuple_type_declares_several_values_too() -> None:
    f = read("x: pl.INT64", "return x, x + 1", returns="pl.Tuple[pl.INT64, pl.INT64]")
    assert f.return_types == read("x: pl.INT64", "return x, x", returns=PAIR).return_types
    assert execute(f, 4) == (4, 5)


@pytest.mark.parametrize(
    ("decorator", "kind"),
    [
        ("@pl.function", "Opaque"),
        ("@pl.function()", "Opaque"),
        ("@pl.function(type=pl.FunctionType.InCore)", "InCore"),
        ("@pl.function(type=pl.FunctionType.Orchestration)", "Orchestration"),
    ],
)
def test_p_120_the_decorator_gives_a_function_of_its_type(decorator: str, kind: str) -> None:
    f = read("n: pl.INT64", "return n + 1", returns="pl.INT64", decorator=decorator)
    assert isinstance(f, ir.Function) and f.func_type is pl.FunctionType[kind]


def test_p_120_a_live_function_is_decorated_the_same_way() -> None:
    @pl.function(type=pl.FunctionType.InCore)
    def kernel(x: pl.INT64) -> pl.INT64:
        return x * 2

    assert isinstance(kernel, ir.Function) and kernel.func_type is pl.FunctionType.InCore


def test_p_121_an_annotated_assignment_declares_the_type() -> None:
    f = read("x: pl.INT64", "y: pl.INT64 = x + 1", "z: pl.INT16 = 3", "return y, z")
    text = settled(f).as_python()
    assert "y: pl.Scalar[pl.INT64] = x + " in text and "z: pl.Scalar[pl.INT16] = " in text


def test_p_121_an_annotation_is_checked_against_the_value() -> None:
    with pytest.raises(ParserTypeError, match="shape dimension 0 = 32"):
        read(f"x: {T64}", "y: pl.Tensor[[32], pl.FP32] = pl.exp(x)")


def test_p_122_a_parameter_without_annotation_is_refused() -> None:
    with pytest.raises(ParserTypeError, match="'y' has a missing type annotation") as caught:
        read(f"x: {T64}, y", "z = pl.add(x, y)")
    assert caught.value.span is not None and caught.value.span.line == 2


def test_p_122_a_helper_read_in_place_needs_none() -> None:
    @pl.inline
    def shift(x):  # type: ignore[no-untyped-def]
        return pl.add(x, 1.0)

    @pl.function
    def f(x: pl.Tensor[[64], pl.FP32]) -> pl.Tensor[[64], pl.FP32]:
        return shift(x)

    np.testing.assert_array_equal(execute(f, np.ones(64, F32)), np.full(64, 2, F32))


# ---- function types ------------------------------------------------------------------------------


def test_p_123_seven_function_types_exist_and_differ() -> None:
    assert len({pl.FunctionType[name] for name in KINDS}) == len(KINDS)


def test_p_124_the_default_type_is_opaque_and_is_not_printed() -> None:
    f = read("n: pl.INT64", "return n")
    assert f.func_type is pl.FunctionType.Opaque and "@pl.function\n" in f.as_python()


@pytest.mark.parametrize("name", KINDS)
def test_p_125_to_p_131_a_type_survives_printing_and_parsing(name: str) -> None:
    f = read("n: pl.INT64", "return n", decorator=f"@pl.function(type=pl.FunctionType.{name})")
    again = pl.parse(f.as_python())
    assert isinstance(again, Function)
    assert f.func_type is again.func_type is pl.FunctionType[name]
    ir.assert_structural_equal(f, again)


@pytest.mark.parametrize("name", KINDS)
def test_p_125_to_p_131_a_program_keeps_the_types_of_its_functions(name: str) -> None:
    text = (
        "@pl.program\nclass P:\n"
        f"    @pl.function(type=pl.FunctionType.{name})\n"
        "    def f(self, n: pl.INT64) -> pl.INT64:\n"
        "        return n\n"
    )
    program = pl.parse_program(pl.parse_program(text).as_python())
    assert program["f"].func_type is pl.FunctionType[name]


def test_p_126_p_127_functions_of_several_types_run_together() -> None:
    @pl.program
    class P:
        @pl.function(type=pl.FunctionType.InCore)
        def double(
            self, x: pl.Tensor[[8, 8], pl.FP32], out: pl.Out[pl.Tensor[[8, 8], pl.FP32]]
        ) -> pl.Tensor[[8, 8], pl.FP32]:
            return pl.store(pl.mul(pl.load(x, [0, 0], [8, 8]), 2.0), [0, 0], out)

        @pl.function(type=pl.FunctionType.Orchestration)
        def main(
            self, x: pl.Tensor[[8, 8], pl.FP32], out: pl.Out[pl.Tensor[[8, 8], pl.FP32]]
        ) -> pl.Tensor[[8, 8], pl.FP32]:
            out = self.double(x, out)
            return out

    x, out = np.arange(64, dtype=F32).reshape(8, 8), np.zeros((8, 8), F32)
    ir.compile(P)(x, out)
    np.testing.assert_array_equal(out, 2 * x)


@pl.program
class Decoder:
    """The founding document's fragment, with a body."""

    @pl.function(type=pl.FunctionType.Graph)
    def layer(
        self,
        cur: pl.InOut[pl.Tensor[[8], pl.FP32]],
        weights: pl.Tensor[[40, 8], pl.FP32],
        row: pl.Scalar[pl.INDEX],
    ) -> pl.Tensor[[8], pl.FP32]:
        with pl.at(level=pl.Level.CORE_GROUP):
            cur[:] = pl.add(cur, pl.reshape(pl.slice(weights, [1, 8], [row, 0]), [8]))
        return cur

    @pl.function
    def decode(
        self, cur: pl.InOut[pl.Tensor[[8], pl.FP32]], weights: pl.Tensor[[40, 8], pl.FP32]
    ) -> pl.Tensor[[8], pl.FP32]:
        for i in pl.range(40):
            cur = self.layer(cur, weights, i)
        return cur


def test_p_132_forty_calls_of_a_graph_cost_one_build() -> None:
    cur, weights = np.zeros(8, F32), np.arange(320, dtype=F32).reshape(40, 8)
    compiled = ir.compile(Decoder, runtime=RuntimeKind.HOST_BUILD_GRAPH)
    compiled(cur, weights)
    np.testing.assert_array_equal(cur, weights.sum(axis=0))
    assert (compiled.graphs["layer"].recorded, compiled.graphs["layer"].replayed) == (1, 39)
    lowered = lower(Decoder, "decode").as_python()
    # The body was built once; the loop runs it again, some calls at a time.
    assert re.findall(r"pl\.range\((?:0, )?(\d+)", lowered) == ["40"]


def test_p_133_each_graph_function_is_its_own_recording_and_has_no_key() -> None:
    text = "@pl.program\nclass P:\n" + "".join(
        f"    @pl.function(type=pl.FunctionType.Graph)\n"
        f"    def {name}(self, x: pl.Tensor[[8], pl.FP32]) -> pl.Tensor[[8], pl.FP32]:\n"
        f"        return pl.exp(x)\n"
        for name in ("first", "second")
    )
    assert list(pl.parse_program(text).functions) == ["first", "second"]
    assert not {"key", "cache_key"} & set(inspect.signature(pl.function).parameters)


# ---- directions ----------------------------------------------------------------------------------

SIGNATURE = (
    "q: pl.Tensor[[16, 128], pl.BF16], acc: pl.InOut[pl.Tensor[[16, 128], pl.FP32]], "
    "res: pl.Out[pl.Tensor[[16, 128], pl.FP32]], s: pl.Scalar[pl.FP32]"
)


def test_p_134_p_137_directions_are_in_unless_wrapped() -> None:
    f = read(SIGNATURE, "res[:] = pl.mul(acc, s)")
    assert [d.name for d in f.param_directions] == ["In", "InOut", "Out", "In"]
    assert "q: pl.Tensor[[16, 128], pl.BF16], " in settled(f).as_python()
    assert "s: pl.Scalar[pl.FP32]" in f.as_python()


def test_p_135_p_136_directions_print_as_wrappers() -> None:
    text = settled(read(SIGNATURE, "res[:] = pl.mul(acc, s)")).as_python()
    assert "acc: pl.InOut[pl.Tensor[[16, 128], pl.FP32]]" in text
    assert "res: pl.Out[pl.Tensor[[16, 128], pl.FP32]]" in text


def test_p_135_p_136_an_in_out_tensor_is_read_and_an_out_tensor_written() -> None:
    f = read(
        "acc: pl.InOut[pl.Tensor[[8], pl.FP32]], res: pl.Out[pl.Tensor[[8], pl.FP32]]",
        "acc[:] = pl.add(acc, 1.0)",
        "res[:] = pl.mul(acc, 2.0)",
    )
    acc, res = np.arange(8, dtype=F32), np.full(8, np.nan, F32)
    ir.compile(f)(acc, res)
    np.testing.assert_array_equal(acc, np.arange(8) + 1)
    np.testing.assert_array_equal(res, 2 * acc)


@pytest.mark.parametrize("scalar", ["pl.Scalar[pl.INT32]", "pl.INT32", "pl.BOOL"])
def test_p_138_a_scalar_cannot_be_in_out(scalar: str) -> None:
    message = "Scalar parameters cannot have InOut direction"
    with pytest.raises(ParserTypeError, match=message) as caught:
        read(f"n: pl.InOut[{scalar}]", "m = n + 1")
    assert caught.value.span is not None and caught.value.span.line == 2


def test_p_138_nor_one_of_a_helper() -> None:
    @pl.inline
    def plain(n: pl.InOut[pl.INT32]):
        return n

    @pl.jit.inline
    def specialized(n: pl.InOut[pl.Scalar[pl.INT32]]):
        return n

    def caller(helper: Any) -> Any:
        def main(x: pl.Tensor[[8], pl.FP32], n: pl.Scalar[pl.INT32]) -> pl.Tensor[[8], pl.FP32]:
            y = pl.add(x, pl.cast(helper(n), pl.FP32))
            return y

        return main

    for helper, build in ((plain, pl.function), (specialized, lambda f: pl.jit(f).compile())):
        with pytest.raises(ParserTypeError, match="cannot have InOut direction") as caught:
            build(caller(helper))
        assert caught.value.span is not None and caught.value.span.file == __file__


def test_p_139_an_out_scalar_parses_and_is_refused_by_name_where_it_cannot_be_lowered() -> None:
    f = read("x: pl.Tensor[[8], pl.FP32], n: pl.Out[pl.Scalar[pl.INT32]]", "y = pl.exp(x)")
    assert f.param_directions[1] is pl.ParamDirection.Out
    with pytest.raises(TilewrightError, match="'n'"):
        ir.compile(f)


# ---- functions that are only declared ------------------------------------------------------------


@pl.function(type=pl.FunctionType.InCore)
def kernel(
    qi: pl.Tensor[[16, 128], pl.BF16],
    output: pl.InOut[pl.Tensor[[16, 128], pl.FP32]],
    result: pl.Out[pl.Tensor[[16, 128], pl.FP32]],
    scale: pl.Scalar[pl.FP32],
) -> pl.Tensor[[16, 128], pl.FP32]: ...


@pl.function
def softmax(x: pl.Tensor[[64], pl.FP32]) -> tuple[pl.Tensor[[64], pl.FP32], pl.INT64]:
    """Elsewhere."""
    pl.func_attr({"origin": "elsewhere"})
    ...  # noqa: PIE790


def test_p_134_to_p_137_the_founding_declaration_has_no_body() -> None:
    assert [d.name for d in kernel.param_directions] == ["In", "InOut", "Out", "In"]
    assert [str(t) for t in kernel.return_types] == ["pl.Tensor[[16, 128], pl.FP32]"]
    assert settled(kernel).as_python().endswith("]:\n    ...\n")


def test_a_declared_function_can_be_called_printed_and_stored_and_not_run() -> None:
    @pl.program
    class Model:
        @pl.function
        def main(self, x: pl.Tensor[[64], pl.FP32]) -> pl.Tensor[[64], pl.FP32]:
            y, _ = softmax(x)
            return y

    declared = settled(Model)["softmax"]
    assert declared.doc == "Elsewhere." and declared.attrs == {"origin": "elsewhere"}
    for execution in (None, "interpret"):
        compiled = ir.compile(Model, execution=execution)
        with pytest.raises(TilewrightError, match=r"its? body.*is '\.\.\.'") as caught:
            compiled(np.zeros(64, F32))
        assert caught.value.span is not None and caught.value.span.file == __file__
