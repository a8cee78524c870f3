# ruff: noqa: RET504  (kernels are language, not Python)
"""Programs that call kernels in C++: compiled, interpreted, from the disk, refused by name."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright.language as pl
import tilewright.language.distributed as pld
from moments import pressed
from tilewright import errors, interp, ir
from tilewright.cache import CacheConfig, configure_cache
from tilewright.errors import rendering
from tilewright.passes import pipeline
from tilewright.runtime import DistributedConfig, RunConfig
from unit.external.cpp import SCALE, needs_compiler, write

F32 = np.float32
pytestmark = needs_compiler


def program(tmp_path: Path, *main: str, params: str = "", text: str = SCALE) -> Any:
    """A program whose `main`, of x, y and out [8, 4], may call `self.scale(x, out, factor)`."""
    source = write(tmp_path, text)
    matrix = "pl.Tensor[[8, 4], pl.FP32]"
    lines = [
        "@pl.program",
        "class P:",
        f"    @pl.function(type=pl.FunctionType.AIV, external_source={source!r})",
        f"    def scale(self, x: {matrix}, out: pl.Out[{matrix}], factor: pl.Scalar[pl.FP32])"
        f" -> {matrix}: ...",
        "    @pl.function",
        f"    def main(self, x: {matrix}, y: {matrix}, out: pl.InOut[{matrix}]{params}):",
        *(f"        {line}" for line in main),
    ]
    return pl.parse_program("\n".join(lines) + "\n", str(tmp_path / "program.py"))


def arrays() -> list[Any]:
    x = np.arange(32, dtype=F32).reshape(8, 4)
    return [x, x[::-1] + 1, np.full((8, 4), 0.5, F32)]


def run_everywhere(p: Any, wanted: Any, *more: Any) -> None:
    """Compiled, and interpreted at both levels, also in checked mode."""
    ways = [
        ir.compile(p),
        ir.compile(p, execution="interpret"),
        ir.compile(p, execution="checked"),
        lambda *given: interp.run(pipeline.lower(p, "main"), "main", given),
    ]
    for run in ways:
        x, y, out = arrays()
        expected = wanted(x, y, out.copy())
        run(x, y, out, *more)
        np.testing.assert_array_equal(out, expected)
        np.testing.assert_array_equal(x, arrays()[0])


CALLS = {
    "of parameters": (
        ["out = self.scale(x, out, 2.0)", "return out"],
        lambda x, y, out: 2 * x,
    ),
    "between operations of the language": (
        [
            "t = pl.create_tensor([8, 4], dtype=pl.FP32)",
            "t = self.scale(pl.add(x, y), t, 2.0)",
            "u = pl.mul(t, t)",
            "out = self.scale(u, out, 0.5)",
            "return out",
        ],
        lambda x, y, out: (2 * (x + y)) ** 2 / 2,
    ),
    "of a transposed input": (
        [
            "t = pl.transpose(pl.reshape(x, [4, 8]), 0, 1)",
            "out = self.scale(t, out, 2.0)",
            "return out",
        ],
        lambda x, y, out: 2 * x.reshape(4, 8).T,
    ),
    "of what it writes": (
        ["out = self.scale(out, out, 2.0)", "return out"],
        lambda x, y, out: 2 * out,
    ),
    "of a reversal of what it writes": (
        ["t = pl.reshape(pl.transpose(pl.reshape(out, [4, 8]), 0, 1), [8, 4])",
         "out = self.scale(t, out, 2.0)", "return out"],
        lambda x, y, out: 2 * out.reshape(4, 8).T.reshape(8, 4),
    ),
    "twice, the first result kept": (
        [
            "a = pl.create_tensor([8, 4], dtype=pl.FP32)",
            "b = pl.create_tensor([8, 4], dtype=pl.FP32)",
            "a = self.scale(x, a, 2.0)",
            "b = self.scale(a, b, 3.0)",
            "out[:] = pl.add(a, b)",
            "return out",
        ],
        lambda x, y, out: 8 * x,
    ),
    "in a loop": (
        [
            "t = pl.create_tensor([8, 4], dtype=pl.FP32)",
            "for i in pl.range(3):",
            "    t = self.scale(out, t, 2.0)",
            "    out[:] = pl.add(t, x)",
            "return out",
        ],
        lambda x, y, out: 8 * out + 7 * x,
    ),
    "in one arm of a branch": (
        ["if n > 2:", "    out = self.scale(x, out, 2.0)"],
        lambda x, y, out: 2 * x,
    ),
    "with a computed scalar": (
        ["f = pl.read(x, [0, 3])", "out = self.scale(y, out, f)", "return out"],
        lambda x, y, out: 3 * y,
    ),
    "in the scope of a core": (
        [
            "with pl.at(level=pl.Level.CORE_GROUP):",
            "    t = pl.add(x, y)",
            "out = self.scale(t, out, 2.0)",
            "return out",
        ],
        lambda x, y, out: 2 * (x + y),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_calls(tmp_path: Path, name: str) -> None:
    main, wanted = CALLS[name]
    p = program(tmp_path, *main, params=", n: pl.Scalar[pl.INDEX]")
    run_everywhere(p, wanted, 3)


def test_a_program_may_be_the_kernel_alone(tmp_path: Path) -> None:
    source = write(tmp_path)

    @pl.function(type=pl.FunctionType.AIV, external_source=source)
    def scale(
        x: pl.Tensor[[8, 4], pl.FP32],
        out: pl.Out[pl.Tensor[[8, 4], pl.FP32]],
        factor: pl.Scalar[pl.FP32],
    ) -> pl.Tensor[[8, 4], pl.FP32]: ...

    x, _, out = arrays()
    compiled = ir.compile(scale)
    compiled(x, out, 3.0)
    assert (out == 3 * x).all()
    assert (compiled(x, 2.0) == 2 * x).all()


def test_extents_and_strides_of_run_time_arrive(tmp_path: Path) -> None:
    source = write(tmp_path)
    M = pl.dynamic("M")

    @pl.jit.extern(core_type="aiv", source=source)
    def scale(x: pl.Tensor, out: pl.Out[pl.Tensor], factor: pl.Scalar[pl.FP32]): ...

    @pl.jit
    def k(x: pl.Tensor[[M, 4], pl.FP32], out: pl.Out[pl.Tensor[[M, 4], pl.FP32]]):
        scale(x, out, 2.0)
        return out

    for rows in (1, 5, 64):
        x = np.random.default_rng(0).random((rows, 4), F32)
        assert (k(x) == 2 * x).all()
        wide = np.zeros((rows, 8), F32)
        wide[:, ::2] = x
        assert (k(wide[:, ::2]) == 2 * x).all()


def test_several_types_of_one_kernel_are_several_libraries(tmp_path: Path) -> None:
    text = (
        '#include "tilewright.h"\n'
        "template <class X, class O> void twice(X x, O out) {\n"
        "    for (int64_t i = 0; i < x.size(); ++i) out(i) = x(i) + x(i);\n}\n"
    )
    source = write(tmp_path, text)

    @pl.jit.extern(core_type="aiv", source=source)
    def twice(x: pl.Tensor, out: pl.Out[pl.Tensor]): ...

    @pl.jit
    def k(x: pl.Tensor, y: pl.Tensor, a: pl.Out[pl.Tensor], b: pl.Out[pl.Tensor]):
        a = twice(x, a)
        b = twice(y, b)
        return a, b

    x, y = np.arange(5, dtype=F32), np.arange(7, dtype=np.int32)
    a, b = np.zeros_like(x), np.zeros_like(y)
    k(x, y, a, b)
    assert (a == 2 * x).all() and (b == 2 * y).all()
    again = pl.parse_program(k.source(x, y, a, b))
    a[:] = b[:] = 0
    ir.compile(again)(x, y, a, b)
    assert (a == 2 * x).all() and (b == 2 * y).all()


def test_blocks_parts_and_ranks_call_it(tmp_path: Path) -> None:
    @pl.jit.extern(core_type="aiv", source=write(tmp_path))
    def scale(x: pl.Tensor, out: pl.Out[pl.Tensor], factor: pl.Scalar[pl.FP32]): ...

    @pl.jit
    def blocks(x: pl.Tensor[[64, 16], pl.FP32], y: pl.Out[pl.Tensor[[64, 16], pl.FP32]]):
        for i in pl.spmd(8):
            part = pl.slice(x, [8, 16], [i * 8, 0])
            t = pl.create_tensor([8, 16], dtype=pl.FP32)
            t = scale(part, t, 3.0)
            y = pl.assemble(y, t, [i * 8, 0])
        return y

    @pl.jit
    def rows(x: pl.Tensor[[64, 16], pl.FP32], y: pl.Out[pl.Tensor[[64, 16], pl.FP32]]):
        for i in pl.parallel(0, 64, 8):
            scale(x[i : i + 8, :], y[i : i + 8, :], 3.0)
        return y

    @pl.jit
    def chip(x: pl.Tensor[[32, 16], pl.FP32], y: pl.Out[pl.Tensor[[32, 16], pl.FP32]]):
        y = scale(x, y, 3.0)
        return y

    @pl.jit.host
    def host(x: pl.Tensor[[2, 32, 16], pl.FP32], y: pl.Out[pl.Tensor[[2, 32, 16], pl.FP32]]):
        for r in pl.range(pld.world_size()):
            chip(x[r], y[r], device=r)

    x = np.random.default_rng(0).random((64, 16), F32)
    for kernel in (blocks, rows):
        for execution in ("native", "interpret"):
            y = np.zeros_like(x)
            kernel(x, y, config=RunConfig(execution=execution))
            np.testing.assert_array_equal(y, x * F32(3))
    y = np.zeros_like(x)
    two = RunConfig(distributed_config=DistributedConfig(device_ids=[0, 1]))
    host(x.reshape(2, 32, 16), y.reshape(2, 32, 16), config=two)
    np.testing.assert_array_equal(y, x * F32(3))


STEP = """\
#include "tilewright.h"
void step(tw::Tensor<const float, 1> x, tw::Tensor<float, 1> out, tw::Context c) {
    for (int64_t i = 0; i < x.size(); ++i) OPERATION;
}
"""


@pytest.mark.parametrize(("dual", "wanted"), [(False, [1, 3, 5]), (True, [11, 23, 35])])
def test_the_parts_of_a_mixed_kernel_run_one_after_the_other(
    tmp_path: Path, dual: bool, wanted: list[int]
) -> None:
    cube = write(tmp_path, STEP.replace("OPERATION", "out(i) = x(i)"), "cube.cpp")
    more = STEP.replace("OPERATION", "out(i) += c.lane ? 10 * (i + 1) : x(i) + 1")
    both = write(tmp_path, more, "vector.cpp")

    @pl.jit.extern(core_type="mixed", aic_source=cube, aiv_source=both, dual_aiv_dispatch=dual)
    def step(x: pl.Tensor[[3], pl.FP32], out: pl.InOut[pl.Tensor[[3], pl.FP32]]): ...

    @pl.jit
    def k(x: pl.Tensor[[3], pl.FP32], out: pl.InOut[pl.Tensor[[3], pl.FP32]]):
        out = step(x, out)
        return out

    x = np.arange(3, dtype=F32)
    for config in (RunConfig(), RunConfig(execution="interpret")):
        out = np.full(3, 99, F32)
        k(x, out, config=config)
        assert list(out) == wanted
    text = k.source()
    assert list(ir.compile(pl.parse_program(text))(x, np.zeros(3, F32))) == wanted


def faulty(tmp_path: Path, body: str) -> Any:
    text = (
        '#include "tilewright.h"\n'
        "int scale(tw::Tensor<const float, 2>, tw::Tensor<float, 2>, float, tw::Context c) "
        f"{{ {body} }}\n"
    )
    return program(tmp_path, "t = pl.add(x, y)", "out = self.scale(t, out, 1.0)", text=text)


@pytest.mark.parametrize("execution", ["native", "interpret"])
@pytest.mark.parametrize(
    ("body", "error", "message"),
    [
        ("return c.fault(TW_INDEX_OUT_OF_BOUNDS, 5, 0, 4, 1);", errors.IndexOutOfBounds,
         r"index 5 is outside \[0, 4\)"),
        ("return 3;", errors.ExternalKernelFailed, "status 3"),
        ("throw 3;", errors.ExternalKernelFailed, "exception"),
    ],
)  # fmt: skip
def test_a_fault_is_raised_at_the_line_of_the_call(
    tmp_path: Path, body: str, error: type[Exception], message: str, execution: str
) -> None:
    compiled = ir.compile(faulty(tmp_path, body), execution=execution)
    with pytest.raises(error, match=message) as caught:
        compiled(*arrays())
    span: Any = caught.value.span  # type: ignore[attr-defined]
    line = 8 if execution == "native" else 4  # the interpreter knows the function, not its caller
    assert span is not None and span.line in (line, 8)


def test_a_refused_kernel_is_shown_at_its_call(tmp_path: Path) -> None:
    p = program(tmp_path, "out = self.scale(x, out, 1.0)", text="int scale;\n")
    with pytest.raises(errors.ExternalSourceRefused) as caught:
        ir.compile(p)
    assert caught.value.span is not None and caught.value.span.line == 7
    assert "out = self.scale(x, out, 1.0)" in rendering.render(caught.value)


def test_p040_a_changed_source_is_compiled_anew(tmp_path: Path) -> None:
    source = Path(write(tmp_path))

    @pl.jit.extern(core_type="aiv", source=str(source))
    def scale(
        x: pl.Tensor[[8, 4], pl.FP32],
        out: pl.Out[pl.Tensor[[8, 4], pl.FP32]],
        factor: pl.Scalar[pl.FP32],
    ): ...

    @pl.jit
    def k(x: pl.Tensor[[8, 4], pl.FP32], out: pl.Out[pl.Tensor[[8, 4], pl.FP32]]):
        scale(x, out, 2.0)
        return out

    x, _, out = arrays()
    first = k.compile(x, out)
    for factor in ("factor", "3 * factor", "5 * factor", "factor"):
        source.write_text(SCALE.replace("factor * x", f"({factor}) * x"))
        for _ in range(3):
            out[:] = 0
            k(x, out)
            assert (out == eval(factor, {"factor": 2.0}) * x).all()
    source.write_text(SCALE)
    assert k.compile(x, out) is first
    source.write_text("nonsense")
    with pytest.raises(errors.ExternalSourceRefused):
        k(x, out)


def test_a_call_costs_little_though_sources_are_looked_at(tmp_path: Path) -> None:
    @pl.jit.extern(core_type="aiv", source=write(tmp_path))
    def scale(
        x: pl.Tensor[[8, 4], pl.FP32],
        out: pl.Out[pl.Tensor[[8, 4], pl.FP32]],
        factor: pl.Scalar[pl.FP32],
    ): ...

    @pl.jit
    def k(x: pl.Tensor[[8, 4], pl.FP32], out: pl.Out[pl.Tensor[[8, 4], pl.FP32]]):
        scale(x, out, 2.0)
        return out

    x, _, out = arrays()
    k(x, out)
    time.sleep(0.15)
    k(x, out)
    spent: list[float] = []
    for _ in range(200):
        start = time.perf_counter()
        k(x, out)
        spent.append(time.perf_counter() - start)
    assert min(spent) < 60e-6  # 4 us on a quiet machine


SLOW = """\
#include "tilewright.h"
#include <unistd.h>
int slow(tw::Tensor<const float, 1> x, tw::Tensor<float, 1> out, tw::Context c) {
    for (int i = 0; i < 6000; ++i) {
        out(0) = 1;
        if (c.is_cancelled()) return TW_CANCELLED;
        usleep(5000);
    }
    return TW_OK;
}
"""


def test_the_interrupt_key_reaches_a_kernel_that_asks(tmp_path: Path) -> None:
    @pl.jit.extern(core_type="aiv", source=write(tmp_path, SLOW))
    def slow(x: pl.Tensor, out: pl.Out[pl.Tensor]): ...

    @pl.jit
    def k(x: pl.Tensor[[4], pl.FP32], out: pl.Out[pl.Tensor[[4], pl.FP32]]):
        slow(x, out)
        return out

    x = np.zeros(4, F32)
    k.compile(x, x.copy())
    out = x.copy()
    with pytest.raises(KeyboardInterrupt, match="interrupted"), pressed(once=out.any):
        k(x, out)


PROCESS = """
import sys, numpy as np, tilewright.language as pl
from tilewright.cache import CacheConfig, configure_cache, cache_stats
configure_cache(CacheConfig(enabled=True, root=sys.argv[1]))

@pl.jit.extern(core_type="aiv", source="scale.cpp")
def scale(x: pl.Tensor[[8, 4], pl.FP32], out: pl.Out[pl.Tensor[[8, 4], pl.FP32]],
          factor: pl.Scalar[pl.FP32]): ...

@pl.jit
def k(x: pl.Tensor[[8, 4], pl.FP32], out: pl.Out[pl.Tensor[[8, 4], pl.FP32]]):
    scale(x, out, 2.0)
    return out

x = np.ones((8, 4), np.float32)
print(k(x).sum(), cache_stats().ready_hits, "llvmlite" in sys.modules)
"""


def test_a_fresh_process_runs_it_from_the_disk_without_llvm_and_compiler(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "uses.py").write_text(PROCESS)
    command = [sys.executable, "uses.py", str(tmp_path / "cache")]

    def said(**environment: str) -> str:
        done = subprocess.run(
            command,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, **environment},
        )
        return done.stdout.strip()

    assert said() == "64.0 0 True"
    assert said(TILEWRIGHT_CXX="no-such-compiler") == "64.0 1 False"


def test_the_key_of_a_program_follows_its_sources(tmp_path: Path) -> None:
    p = program(tmp_path, "out = self.scale(x, out, 2.0)")
    configure_cache(CacheConfig(enabled=True, root=tmp_path / "cache"))
    try:
        for factor in (2, 6, 2):
            write(tmp_path, SCALE.replace("factor * x", f"{factor} * x"))
            x, y, out = arrays()
            ir.compile(p)(x, y, out)
            assert (out == factor * x).all()
    finally:
        configure_cache(None)
