"""Loop-level functions, run natively and by the interpreter, and compared bit for bit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewright import interp
from tilewright.abi import Extent, Manifest, ScalarParam, Signature, Site, TensorParam
from tilewright.codegen.kernel import Kernel, emit_kernel
from tilewright.dtypes import FP32, DType
from tilewright.ir.affine import Expr, Symbol
from tilewright.ir.builder import Builder
from tilewright.ir.core import Function, Program, Value
from tilewright.ir.enums import ForKind
from tilewright.ir.types import BufferType, Dim, ScalarType, Type, buffer_of
from tilewright.runtime.launch import Executable
from unit.codegen.native_code import available_isas, same_bits, target_for
from unit.interp.build import IN, OUT, for_loop, function, program

Array = np.ndarray[Any, Any]
Params = Sequence[tuple[str, Type, Any]]
LANES = ForKind.Lanes


def kernel_program(params: Params, body: Callable[..., None]) -> Program:
    """A program of one loop-level function `k`."""

    def wrapped(*values: Value) -> tuple[list[Value], list[Value]]:
        body(*values)
        written = [v for v, (_, _, d) in zip(values, params, strict=True) if d is not IN]
        return [], written

    return program(function("k", params, wrapped))


def index(value: int) -> Value:
    """An INDEX constant."""
    return Builder.current().index(value)


def constant(value: float, dtype: DType = FP32) -> Value:
    """A constant of any dtype."""
    return Builder.current().constant(value, dtype)


def buffer(*shape: Dim, dtype: DType = FP32) -> BufferType:
    """A dense buffer."""
    return buffer_of(shape, dtype)


def lanes(count: Any, body: Callable[[Value], None]) -> None:
    """A lanes loop without reductions."""

    def whole(i: Value) -> list[Value]:
        body(i)
        return []

    for_loop(0, count, [], whole, kind=LANES)


def extent(dim: Dim) -> Extent:
    """An extent as the signature has it."""
    if isinstance(dim, int):
        return Extent(dim)
    assert isinstance(dim, Expr)
    terms = tuple((s.name, c) for s, c in dim.terms.items() if isinstance(s, Symbol))
    return Extent(dim.const, terms)


def signature_of(f: Function, layouts: dict[str, Any] | None = None) -> Signature:
    """The signature of a loop-level function."""
    params: list[Any] = []
    for value, direction in zip(f.params, f.directions, strict=True):
        kind = value.type
        if isinstance(kind, ScalarType):
            params.append(ScalarParam(value.name, kind.dtype))
            continue
        assert isinstance(kind, BufferType)
        way: Any = {"In": "in", "Out": "out", "InOut": "inout"}[direction.name]
        layout = (layouts or {}).get(value.name, "contiguous")
        shape = tuple(map(extent, kind.shape))
        params.append(TensorParam(value.name, kind.dtype, shape, way, layout))
    return Signature(tuple(params))


def emit(p: Program, isa: str, layouts: dict[str, Any] | None = None) -> tuple[Kernel, Signature]:
    """The kernel of `k` for an instruction set."""
    (f,) = p.functions.values()
    signature = signature_of(f, layouts)
    return emit_kernel(f, signature, target_for(isa)), signature


def native(p: Program, isa: str, layouts: dict[str, Any] | None = None) -> Executable:
    """The kernel, loaded."""
    kernel, signature = emit(p, isa, layouts)
    sites = {number: Site.of(span) for number, span in kernel.sites.items()}
    manifest = Manifest(
        "k",
        "kernel",
        sites,
        arena_bytes=kernel.arena_bytes,
        work=kernel.work,
        parallel=kernel.parallel,
        communicates=kernel.communicates,
        texts=kernel.texts,
    )
    return Executable.from_object(kernel.compile(target_for(isa)), signature, manifest)


def agree(p: Program, *args: Any, isas: Sequence[str] | None = None) -> None:
    """Native code on every instruction set gives the interpreter's bits in all arrays."""
    (f,) = p.functions.values()
    expected = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
    interp.run(p, f.name, expected)
    for isa in isas or available_isas():
        given = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
        native(p, isa)(*given)
        for left, right, value in zip(given, expected, f.params, strict=True):
            if isinstance(left, np.ndarray):
                assert same_bits(left, right), (isa, value.name, left, right)


__all__ = [
    "IN",
    "OUT",
    "agree",
    "buffer",
    "constant",
    "emit",
    "for_loop",
    "index",
    "kernel_program",
]
