"""The sides of a mixed kernel in C++ take turns and wait for each other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright.language as pl
from moments import pressed
from tilewright import errors
from tilewright.abi import ExternalKernel
from tilewright.dtypes import FP32, INT64
from tilewright.external import run
from tilewright.runtime import RunConfig
from unit.external.cpp import needs_compiler, write

pytestmark = needs_compiler
F32 = np.float32
PARAMS = ("tw::Tensor<const float, 2>", "tw::Tensor<float, 2>", "int64_t")
HEAD = """\
#include "tilewright.h"
#include <vector>
enum { EXCHANGE, FULL, EMPTY, NO_EVENT, NOBODY, OTHER_SIZE, FAULT, THROW, LONG };
void f(tw::Tensor<const float, 2> x, tw::Tensor<float, 2> out, int64_t what, tw::Context c) {
    const int64_t n = x.shape(1);
    std::vector<float> t(n);
"""
CUBE = """
    for (int64_t i = 0; what == EXCHANGE && i < x.shape(0); ++i) {
        c.push(&x(i, 0), n);
        if (i % 3) continue;
        c.set_event(7);
    }
    for (int64_t i = 0; what == EXCHANGE && i < x.shape(0); ++i)
        for (int64_t lane = 0; lane < c.lanes; ++lane) {
            c.pop(t.data(), n, 1, lane);
            for (int64_t j = 0; j < n; ++j) out(i, j) += t[j];
        }
    if (what == EXCHANGE) c.meet();
    if (what == FULL) for (;;) c.push(t.data(), 1, 3);
    if (what == EMPTY) c.pop(t.data(), n, 2);
    if (what == OTHER_SIZE) c.push(t.data(), 1);
    if (what == FAULT || what == THROW || what == LONG) c.wait_event(1);
}
"""
VECTOR = """
    if (what == EXCHANGE) c.set_slots(1, 100);
    for (int64_t i = 0; what == EXCHANGE && i < x.shape(0); ++i) {
        c.pop(t.data(), n);
        if (i % 3 == 0) c.wait_event(7);
        for (float &e : t) e *= float(c.lane + 1);
        c.push(t.data(), n, 1);
    }
    if (what == EXCHANGE) c.meet();
    if (what == NO_EVENT) c.wait_event(5);
    if (what == NOBODY && c.lane) c.meet();
    if (what == OTHER_SIZE) c.pop(t.data(), 2);
    if (what == FAULT) throw 3;
    if (what == THROW) c.fault(TW_DIVISION_BY_ZERO), throw tw::Stopped{TW_DIVISION_BY_ZERO};
    while (what == LONG && !c.is_cancelled()) out(0, 0) = 1;
}
"""


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    home = tmp_path_factory.mktemp("sides")
    return write(home, HEAD + CUBE, "cube.cpp"), write(home, HEAD + VECTOR, "vector.cpp")


def call(sources: tuple[str, str], what: int, *, rows: int = 20, lanes: int = 2) -> Any:
    """One call of the kernel on rows 0, 1, 2, ...; what it writes."""
    cube, vector = (ExternalKernel("f", source, PARAMS) for source in sources)
    kernel = ExternalKernel("f", vector.source, PARAMS, cube=cube)
    x = np.arange(rows * 4, dtype=F32).reshape(rows, 4)
    out = np.zeros_like(x)
    run(kernel, (FP32, FP32, INT64), (0, lanes, 0, 0), (x, out, what))
    return out


@pytest.mark.parametrize("lanes", [1, 2])
def test_sides_exchange_more_tiles_than_a_pipe_holds(sources: tuple[str, str], lanes: int) -> None:
    x = np.arange(80, dtype=F32).reshape(20, 4)
    for _ in range(20):
        np.testing.assert_array_equal(
            call(sources, 0, lanes=lanes), x * F32(3 if lanes == 2 else 1)
        )


@pytest.mark.parametrize(
    ("what", "error", "message"),
    [
        (1, errors.Deadlock, "side 0, .* for a free slot in pipe 3, which has 8"),
        (2, errors.Deadlock, "side 0, .* for a tile in pipe 2"),
        (3, errors.Deadlock, "side 1, .* for event 5"),
        (4, errors.Deadlock, "side 2, .* for all to meet"),
        (5, errors.RuntimeShapeMismatch, "4 bytes was pushed, not one of 8"),
        (6, errors.ExternalKernelFailed, "threw an exception"),
        (7, errors.DivisionByZero, "divided by zero"),
    ],
)
def test_what_ends_one_side_ends_all_and_is_named(
    sources: tuple[str, str], what: int, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        call(sources, what)
    np.testing.assert_array_equal(call(sources, 0, rows=2)[1], np.arange(4, 8) * 3)


def test_one_side_alone_is_told_that_it_is(sources: tuple[str, str]) -> None:
    with pytest.raises(errors.Deadlock, match="no other side: it needs core_type='mixed'"):
        run(ExternalKernel("f", sources[0], PARAMS), (FP32, FP32, INT64), (0, 1, 0, 0),
            (np.zeros((1, 4), F32), np.zeros((1, 4), F32), 2))  # fmt: skip


def test_mixed_kernels_talk_in_compiled_and_interpreted_programs(
    sources: tuple[str, str],
) -> None:
    @pl.jit.extern(
        core_type="mixed", aic_source=sources[0], aiv_source=sources[1], dual_aiv_dispatch=True
    )
    def f(x: pl.Tensor, out: pl.InOut[pl.Tensor], what: pl.Scalar[pl.INT64]): ...

    @pl.jit
    def kernel(x: pl.Tensor, out: pl.InOut[pl.Tensor], what: pl.Scalar[pl.INT64]):
        return f(x, out, what)

    x = np.arange(80, dtype=F32).reshape(20, 4)
    for execution in ("native", "interpret"):
        out = np.zeros_like(x)
        kernel(x, out, 0, config=RunConfig(execution=execution))
        np.testing.assert_array_equal(out, x * F32(3))
        with pytest.raises(errors.Deadlock, match="pipe 2") as caught:
            kernel(x, out, 2, config=RunConfig(execution=execution))
        assert caught.value.span is not None


def test_a_lane_that_runs_long_is_interrupted(sources: tuple[str, str]) -> None:
    @pl.jit.extern(core_type="mixed", aic_source=sources[0], aiv_source=sources[1])
    def f(x: pl.Tensor, out: pl.InOut[pl.Tensor], what: pl.Scalar[pl.INT64]): ...

    @pl.jit
    def kernel(x: pl.Tensor, out: pl.InOut[pl.Tensor], what: pl.Scalar[pl.INT64]):
        return f(x, out, what)

    x, out = np.zeros((1, 4), F32), np.zeros((1, 4), F32)
    kernel.compile(x, out, 0)
    with pytest.raises(KeyboardInterrupt, match="interrupted"), pressed(once=out.any):
        kernel(x, out, 8)
