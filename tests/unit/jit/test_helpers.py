# ruff: noqa: RET504  (kernels are language, not Python)
"""Helpers of every kind, called, submitted, and written in another language."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright.language as pl
from tilewright import errors
from tilewright.runtime import RunConfig, RuntimeKind

F32 = np.float32


def run(k: Any) -> np.ndarray[Any, Any]:
    x = np.ones((8, 8), F32)
    out = np.zeros_like(x)
    k(x, out)
    return out


@pl.jit.incore
def scale(
    x: pl.Tensor[[8, 8], pl.FP32], out: pl.Out[pl.Tensor[[8, 8], pl.FP32]], by: pl.Scalar[pl.FP32]
):
    pl.store(pl.mul(pl.load(x, [0, 0], [8, 8]), by), [0, 0], out)
    return out


@pl.jit.opaque
def opaque(x: pl.Tensor, out: pl.Out[pl.Tensor], n: pl.constexpr = 2):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.add(x, float(n))
    return out


@pl.jit.graph
def layer(x: pl.Tensor[[8, 8], pl.FP32], out: pl.Out[pl.Tensor[[8, 8], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.add(x, 10.0)
    return out


@pl.jit
def by_keyword(x: pl.Tensor[[8, 8], pl.FP32], out: pl.Out[pl.Tensor[[8, 8], pl.FP32]]):
    out = scale(by=3.0, out=out, x=x)
    return out


@pl.jit
def by_default(x: pl.Tensor[[8, 8], pl.FP32], out: pl.Out[pl.Tensor[[8, 8], pl.FP32]]):
    middle = pl.create_tensor([8, 8], dtype=pl.FP32)
    middle = opaque(x, middle)
    out = opaque(middle, out, n=5)
    return out


@pl.jit
def by_graph(x: pl.Tensor[[8, 8], pl.FP32], out: pl.Out[pl.Tensor[[8, 8], pl.FP32]]):
    out = layer(x, out)
    return out


@pl.jit
def submitted(x: pl.Tensor[[8, 8], pl.FP32], out: pl.Out[pl.Tensor[[8, 8], pl.FP32]]):
    middle = pl.create_tensor([8, 8], dtype=pl.FP32)
    middle, first = pl.submit(scale, x, middle, 2.0)
    out, _ = pl.submit(scale, middle, out, 4.0, deps=[first])
    return out


@pl.jit.host
def host(x: pl.Tensor[[8, 8], pl.FP32], out: pl.Out[pl.Tensor[[8, 8], pl.FP32]]):
    out = by_graph(x, out)
    return out


GRAPHS = (by_graph, host)


@pytest.mark.parametrize(
    ("kernel", "value"),
    [(by_keyword, 3), (by_default, 8), (by_graph, 11), (submitted, 8), (host, 11)],
)
def test_helpers_of_every_kind_run(kernel: Any, value: float) -> None:
    x, out = np.ones((8, 8), np.float32), np.zeros((8, 8), np.float32)
    runtime = RuntimeKind.HOST_BUILD_GRAPH
    kernel(x, out, config=RunConfig(runtime=runtime) if kernel in GRAPHS else None)
    assert (out == value).all()


def test_variants_have_names_of_their_own() -> None:
    assert {"opaque", "opaque__2"} <= set(by_default.compile().program.functions)


def test_a_wrong_call_of_a_helper_is_refused_at_the_call() -> None:
    @pl.jit
    def k(x: pl.Tensor[[8, 8], pl.FP32], out: pl.Out[pl.Tensor[[8, 8], pl.FP32]]):
        out = scale(x, out)
        return out

    with pytest.raises(errors.ParserTypeError, match=r"expects 3 argument\(s\), got 2") as caught:
        k.compile()
    assert caught.value.span is not None and caught.value.span.file == __file__


def test_a_helper_that_calls_itself_is_refused() -> None:
    @pl.jit
    def k(x: pl.Tensor[[8, 8], pl.FP32], out: pl.Out[pl.Tensor[[8, 8], pl.FP32]]):
        out = endless(x, out)
        return out

    with pytest.raises(errors.ParserError, match="itself"):
        k.compile()


@pl.jit.incore
def endless(x: pl.Tensor[[8, 8], pl.FP32], out: pl.Out[pl.Tensor[[8, 8], pl.FP32]]):
    out = endless(x, out)
    return out


def test_an_inline_helper_is_not_called_from_python() -> None:
    @pl.jit.inline
    def helper(t):
        return t

    with pytest.raises(errors.InvalidOperationError, match="inline helper"):
        helper(1)


@pl.inline
def plain_inline(t):
    return pl.add(t, 1.0)


@pl.function(type=pl.FunctionType.InCore)
def plain_function(x: pl.Tensor[[8, 8], pl.FP32], out: pl.Out[pl.Tensor[[8, 8], pl.FP32]]):
    pl.store(plain_inline(pl.load(x, [0, 0], [8, 8])), [0, 0], out)
    return out


def test_functions_and_inlines_of_programs_may_be_called_too() -> None:
    @pl.jit
    def k(x: pl.Tensor[[8, 8], pl.FP32], out: pl.Out[pl.Tensor[[8, 8], pl.FP32]]):
        out = plain_function(x, out)
        return out

    assert (run(k) == 2).all()


# ---- external kernels ----------------------------------------------------------------------------


def external(path: Path) -> Any:
    @pl.jit.extern(core_type="aiv", source=str(path))
    def cpp(x: pl.Tensor[[8, 8], pl.FP32], out: pl.Out[pl.Tensor[[8, 8], pl.FP32]]): ...

    @pl.jit
    def k(x: pl.Tensor[[8, 8], pl.FP32], out: pl.Out[pl.Tensor[[8, 8], pl.FP32]]):
        cpp(x, out)
        return out

    return k


def test_p040_external_sources_are_read_again_at_each_request(tmp_path: Path) -> None:
    path = tmp_path / "k.cpp"
    path.write_text("// one")
    k = external(path)
    first = k.key().digest
    assert k.key().digest == first
    path.write_text("// two")
    assert k.key().digest != first


@pytest.mark.parametrize(
    "given",
    [
        {"core_type": "gpu", "source": "k.cpp"},
        {"core_type": "aiv"},
        {"core_type": "mixed", "aic_source": "k.cpp"},
        {"core_type": "aiv", "source": "does_not_exist.cpp"},
    ],
)
def test_external_sources_must_be_complete(given: dict[str, Any]) -> None:
    def cpp(x: pl.Tensor[[8, 8], pl.FP32]): ...

    with pytest.raises(ValueError):
        pl.jit.extern(**given)(cpp)


# ---- errors in helpers ---------------------------------------------------------------------------


@pl.jit.inline
def broken(t):
    return pl.add(t, missing)  # noqa: F821


def test_an_error_in_a_helper_is_told_once_with_the_call() -> None:
    @pl.jit
    def k(x: pl.Tensor[[8, 8], pl.FP32], out: pl.Out[pl.Tensor[[8, 8], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = broken(x)
        return out

    with pytest.raises(errors.UndefinedVariableError, match="missing") as caught:
        k.compile()
    assert not caught.value.also
    (site,) = caught.value.calls()
    assert site.file == __file__


@pl.jit.inline
def with_direction(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    out[:] = pl.add(x, 1.0)
    return out


def test_directions_of_inline_helpers_are_deprecated_where_they_are_written() -> None:
    @pl.jit
    def k(x: pl.Tensor[[8, 8], pl.FP32], out: pl.Out[pl.Tensor[[8, 8], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out = with_direction(x, out)
        return out

    with pytest.warns(DeprecationWarning, match=r"pl.Out on parameter 'out' of inline") as caught:
        k.compile()
    line = with_direction.__wrapped__.__code__.co_firstlineno + 1
    assert (caught[0].filename, caught[0].lineno) == (__file__, line)
    x, out = np.ones((8, 8), np.float32), np.zeros((8, 8), np.float32)
    k(x, out)
    assert (out == 2).all()
