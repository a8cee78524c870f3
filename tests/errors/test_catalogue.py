"""Every class of the catalogue: what raises exactly it, and its neighbour that raises nothing."""

from __future__ import annotations

import importlib
import linecache
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright.language as pl
from tilewright import errors, interp, ir
from tilewright.abi import Fault, tensor
from tilewright.errors.nki_reference import PAGES
from tilewright.external.compiler import find_compiler
from tilewright.ir.core import Program
from tilewright.jit import CompiledProgram
from tilewright.passes.fitting import fit
from tilewright.runtime import RuntimeKind
from unit.frontend.parsed_kernels import as_program
from unit.runtime.native_kernels import fault_text, make, make_add

for name in ("tilewright.nki", "tilewright.jit", "tilewright.interp"):
    importlib.import_module(name)  # whose classes the catalogue lists

F32 = np.float32
MATRIX = "x: pl.Tensor[[16, 16], pl.FP32], out: pl.InOut[pl.Tensor[[16, 16], pl.FP32]]"
NUMBER = "n: pl.Scalar[pl.INDEX]"


@dataclass(frozen=True)
class Case:
    """What raises the error, and what is like it and raises nothing."""

    bad: Callable[[], Any]
    good: Callable[[], Any]


def read(*body: str, options: str = "") -> Any:
    head = [f"@pl.function{options}", f"def kernel({MATRIX}, {NUMBER}):"]
    return pl.parse("\n".join([*head, *(f"    {line}" for line in body)]) + "\n", "<case>")


def text(bad: tuple[str, ...], good: tuple[str, ...], options: str = "") -> Case:
    """Two bodies of a function."""
    return Case(lambda: read(*bad, options=options), lambda: read(*good, options=options))


# ---- kernels that are called ---------------------------------------------------------------------


@pl.jit
def double(x: pl.Tensor[[16, 16], pl.FP32], out: pl.Out[pl.Tensor[[16, 16], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.mul(x, 2.0)
    return out


def array(*shape: int) -> np.ndarray[Any, Any]:
    return np.ones(shape or (16, 16), F32)


def call(bad: Callable[[], tuple[Any, ...]], good: Callable[[], tuple[Any, ...]]) -> Case:
    """Two lists of arguments of the kernel above."""
    return Case(lambda: double(*bad()), lambda: double(*good()))


def repeated() -> np.ndarray[Any, Any]:
    return np.lib.stride_tricks.as_strided(array(1, 16), (16, 16), (0, 4))


def frozen() -> np.ndarray[Any, Any]:
    found = array()
    found.flags.writeable = False
    return found


def overlapping() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    buffer = array(24, 16)
    return buffer[:16], buffer[8:]


# ---- programs ------------------------------------------------------------------------------------


def unfinished() -> Program:
    """A program whose return gives another number of values than its function declares."""
    program = as_program(read("y = pl.exp(x)", "return y"))
    function = program["kernel"]
    again = ir.Function(
        function.name, function.directions, function.body, (), func_type=function.func_type
    )
    return ir.Program(program.name, {again.name: again})


def entry(in_scope: bool) -> Any:
    if in_scope:
        return double.compile()

    @pl.jit
    def outside(x: pl.Tensor[[16, 16], pl.FP32], out: pl.Out[pl.Tensor[[16, 16], pl.FP32]]):
        out[:] = pl.exp(x)
        return out

    return outside.compile()


@pl.program
class Recorded:
    @pl.function(type=pl.FunctionType.Graph)
    def layer(self, x: pl.InOut[pl.Tensor[[8], pl.FP32]]) -> pl.Tensor[[8], pl.FP32]:
        with pl.at(level=pl.Level.CORE_GROUP):
            x[:] = pl.add(x, 1.0)
        return x

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, x: pl.InOut[pl.Tensor[[8], pl.FP32]]) -> pl.Tensor[[8], pl.FP32]:
        return self.layer(x)


def exceeding(rows: int) -> None:
    program = as_program(
        pl.parse(
            f"@pl.function\ndef f(x: pl.Tensor[[{rows}, 512], pl.FP32]):\n"
            f"    t = pl.load(x, [0, 0], [{rows}, 512])\n"
            "    return pl.exp(t)\n"
        )
    )
    fit(program, "a2a3").require()


def directory(is_written: bool) -> Any:
    target = Path("kernels") if is_written else Path("nothing")
    if is_written:
        double.compile().save(target)
    return CompiledProgram.from_dir(target)


# ---- what run time finds -------------------------------------------------------------------------


def picked(row: int) -> Any:
    signature = "x: pl.Tensor[[8, 4], pl.FP32], rows: pl.Tensor[[8, 4], pl.INT32]"
    f = pl.parse(f"@pl.function\ndef f({signature}):\n    return pl.gather(x, dim=0, index=rows)\n")
    return ir.compile(f)(array(8, 4), np.full((8, 4), row, np.int32))  # type: ignore[arg-type]


def reshaped(rows: int) -> Any:
    dims = "".join(f'{name} = pl.dynamic("{name}")\n' for name in "NM")
    signature = "x: pl.Tensor[[N, 8], pl.FP32], y: pl.Tensor[[M, 4], pl.FP32]"
    body = "    return pl.add(pl.reshape(x, [M, 4]), y)"
    f = pl.parse(f"{dims}@pl.function\ndef f({signature}):\n{body}\n")
    return ir.compile(f)(array(2, 8), array(rows, 4))  # type: ignore[arg-type]


def stepping(step: int) -> Any:
    f = pl.parse(
        "@pl.function\n"
        "def f(n: pl.Scalar[pl.INT64], x: pl.InOut[pl.Tensor[[8], pl.FP32]]):\n"
        "    for i in pl.range(0, 8, n):\n"
        "        pl.write(x, [i], 1.0)\n"
    )
    return ir.compile(f)(step, array(8))  # type: ignore[arg-type]


def made(extent: int) -> Any:
    f = pl.parse(
        "@pl.function\n"
        "def f(n: pl.Scalar[pl.INDEX], x: pl.InOut[pl.Tensor[[8], pl.FP32]]):\n"
        "    for i in pl.range(n, n + 1):\n"
        "        t = pl.create_tensor([i, i, 4096], dtype=pl.FP32)\n"
        "        t = pl.write(t, [0, 0, 0], 1.0)\n"
        "        x = pl.write(x, [0], pl.read(t, [0, 0, 0]))\n"
    )
    return ir.compile(f)(extent, array(8))  # type: ignore[arg-type]


def waiting(is_notified: bool) -> Any:
    notify = "    pld.system.notify(s, 0, [0, 0], 1, op=pld.NotifyOp.Set)\n" if is_notified else ""
    f = pl.parse(
        "import tilewright.language.distributed as pld\n"
        "@pl.function\n"
        "def f(s: pl.InOut[pld.DistributedTensor[[1, 1], pl.INT32]]):\n"
        f"{notify}    pld.system.wait(s, [0, 0], 1, cmp=pld.WaitCmp.Ge)\n"
    )
    return interp.run(as_program(f), "f", [np.zeros((1, 1), np.int32)])  # type: ignore[arg-type]


def native(fault: Fault | None) -> Any:
    """A kernel of somebody else, which reports a status."""
    if fault is None:
        return make_add((8,))(array(8), array(8), array(8))
    return make(fault_text(fault, 0), tensor("out", pl.FP32, (1,), "out"))(array(1))


def in_exec(cell: str | None) -> Any:
    """A kernel that `exec` runs: a bare one, or the cell of a notebook."""
    code = "import tilewright.language as pl\n@pl.function\ndef f(n: pl.INT64):\n    pass\n"
    if cell is not None:
        linecache.cache[cell] = (len(code), None, code.splitlines(keepends=True), cell)
    exec(compile(code, cell or "<stdin>", "exec"), {})


SCALE = "void scale(tw::Tensor<const float, 1> x, tw::Tensor<float, 1> out) { out(0) = x(0); }"
FAILING = "int scale(tw::Tensor<const float, 1> x, tw::Tensor<float, 1> out) { return 3; }"


def in_cpp(text: str = SCALE, header: str = "tilewright.h", compiler: str = "") -> Any:
    """A kernel in C++ that is compiled and called."""
    if find_compiler() is None and not compiler:
        pytest.skip("there is no C++ compiler")
    Path("scale.cpp").write_text(f'#include "{header}"\n#include "tilewright.h"\n{text}\n')
    vector = "pl.Tensor[[4], pl.FP32]"
    options = f"type=pl.FunctionType.AIV, external_source={str(Path('scale.cpp').absolute())!r}"
    f = pl.parse(
        f"@pl.function({options})\ndef scale(x: {vector}, out: pl.Out[{vector}]) -> {vector}: ...\n"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TILEWRIGHT_CXX", compiler)
        return ir.compile(f)(array(4), array(4))  # type: ignore[arg-type]


GOOD_LOOP = ("for i, (a,) in pl.range(4, init_values=(n,)):", "    a = pl.yield_(a + i)")
BAD_LOOP = ("for i, (a,) in pl.range(4, init_values=(n,)):", "    pl.yield_(a + i)")
LOAD = "t = pl.load(x, [0, 0], [16, 16])"

CASES: dict[type[errors.TilewrightError], Case] = {
    errors.ParserError: text(
        ("pl.static_assert(x.shape[0] == 8, 'eight rows')",), ("pl.static_assert(x.shape[0] > 8)",)
    ),
    errors.ParserSyntaxError: text(BAD_LOOP, GOOD_LOOP),
    errors.SourceUnavailable: Case(lambda: in_exec(None), lambda: in_exec("<cell>")),
    errors.ParserTypeError: text(
        ("y: pl.Tensor[[16, 8], pl.FP32] = pl.exp(x)",),
        ("y: pl.Tensor[[16, 16], pl.FP32] = pl.exp(x)",),
    ),
    errors.UndefinedVariableError: text(("y = pl.exp(xx)",), ("y = pl.exp(x)",)),
    errors.SSAViolationError: text(
        ("y = n + 1", "y = y + 1"), ("y = n + 1", "z = y + 1"), "(strict_ssa=True)"
    ),
    errors.UnsupportedFeatureError: text(("n += 1",), ("n = n + 1",)),
    errors.InvalidOperationError: text(("y = pl.matmull(x, x)",), ("y = pl.matmul(x, x)",)),
    errors.ScopeIsolationError: text(
        ("for i in pl.range(4):", "    part = n + i", "y = part + 1"),
        ("part = n", "for i in pl.range(4):", "    part = n + i", "y = part + 1"),
    ),
    ir.SerializationError: Case(
        lambda: ir.deserialize(b"nothing of ours"),
        lambda: ir.deserialize(ir.serialize(as_program(read("y = pl.exp(x)")))),
    ),
    errors.ArgumentCountMismatch: call(lambda: (), lambda: (array(), array())),
    errors.ArgumentTypeMismatch: call(lambda: ("x", array()), lambda: (array(), array())),
    errors.DTypeMismatch: call(
        lambda: (array().astype(np.float64), array()), lambda: (array(), array())
    ),
    errors.RankMismatch: call(lambda: (array(256), array()), lambda: (array(), array())),
    errors.ShapeMismatch: call(lambda: (array(16, 8), array()), lambda: (array(), array())),
    errors.StrideMismatch: call(
        lambda: (array(), repeated()), lambda: (array(), repeated().copy())
    ),
    errors.ByteOrderMismatch: call(
        lambda: (array().astype(">f4"), array()), lambda: (array().astype("<f4"), array())
    ),
    errors.ReadOnlyOutput: call(lambda: (array(), frozen()), lambda: (frozen(), array())),
    errors.OutputOverlap: call(overlapping, lambda: tuple(a.copy() for a in overlapping())),
    errors.StaleRead: text(
        (LOAD, "new = pl.store(t, [0, 0], out)", "y = pl.exp(out)"),
        (LOAD, "new = pl.store(t, [0, 0], out)", "y = pl.exp(new)"),
    ),
    errors.VerificationError: Case(
        lambda: ir.verify(unfinished()), lambda: ir.verify(as_program(read("return n")))
    ),
    errors.PartialCodegenError: Case(lambda: entry(False), lambda: entry(True)),
    errors.UnsupportedOnTarget: Case(
        lambda: ir.compile(Recorded),
        lambda: ir.compile(Recorded, runtime=RuntimeKind.HOST_BUILD_GRAPH),
    ),
    errors.LimitExceeded: Case(lambda: exceeding(4096), lambda: exceeding(8)),
    errors.ToolchainError: Case(lambda: directory(False), lambda: directory(True)),
    errors.CompilerMissing: Case(lambda: in_cpp(compiler="no-such-compiler"), in_cpp),
    errors.ExternalSourceRefused: Case(lambda: in_cpp("void scale();"), in_cpp),
    errors.HeaderMissing: Case(lambda: in_cpp(header="kernel_operator.h"), in_cpp),
    errors.ExternalKernelFailed: Case(lambda: in_cpp(FAILING), in_cpp),
    errors.KernelFault: Case(lambda: native(Fault.ASSERTION), lambda: native(None)),
    errors.IndexOutOfBounds: Case(lambda: picked(8), lambda: picked(7)),
    errors.DivisionByZero: Case(lambda: native(Fault.DIVISION_BY_ZERO), lambda: native(None)),
    errors.RuntimeShapeMismatch: Case(lambda: reshaped(5), lambda: reshaped(4)),
    errors.ZeroStep: Case(lambda: stepping(0), lambda: stepping(1)),
    errors.OutOfMemory: Case(lambda: made(1 << 20), lambda: made(4)),
    errors.Deadlock: Case(lambda: waiting(False), lambda: waiting(True)),
}
BASES = {"TilewrightError", "ArgumentError", "NKIError"}
OURS = {"InternalError"}
"""A defect of ours: what an author does should not raise it."""


@pytest.fixture(autouse=True)
def in_an_empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("kind", CASES, ids=lambda kind: kind.__name__)
def test_the_bad_one_raises_exactly_its_error(kind: type[errors.TilewrightError]) -> None:
    with pytest.raises(errors.TilewrightError) as caught:
        CASES[kind].bad()
    assert type(caught.value) is kind, f"{type(caught.value).__name__}: {caught.value}"
    assert caught.value.code == kind.code and str(caught.value)


def test_an_operation_that_refuses_its_operands_shows_how_it_is_called() -> None:
    with pytest.raises(errors.ShapeMismatch) as caught:
        read("y = pl.matmul(pl.slice(x, [16, 8], [0, 0]), x)")
    assert str(caught.value.hint).startswith("Usage: pl.matmul(lhs, rhs, ")


@pytest.mark.parametrize("kind", CASES, ids=lambda kind: kind.__name__)
def test_the_good_one_raises_nothing(kind: type[errors.TilewrightError]) -> None:
    CASES[kind].good()


def test_every_class_of_the_catalogue_has_a_case() -> None:
    traced = {page.exception for page in PAGES.values()}  # each has a kernel in tests/errors/nki
    missing = {cls.__name__ for cls in errors.catalogue() if cls not in CASES and cls not in traced}
    assert missing - BASES - OURS == set()


def test_codes_are_distinct_and_pages_complete() -> None:
    classes = errors.catalogue()
    assert len({cls.code for cls in classes}) == len(classes)
    for cls in classes:
        page = errors.explain(cls)
        assert page.cause and page.bad and page.good, f"{cls.__name__} has an incomplete page"
