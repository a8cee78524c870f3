"""Metadata of local tensors: what a bare parameter of a helper takes from its argument.

The parser meets a call with its arguments already typed, in source order, through branches, loops
and the returns of other helpers; so nothing is guessed from the source. An extent is an immutable
affine expression, of which a snapshot is the readable form: rebinding a name changes no extent
recorded before, and an alias keeps it.
"""

from __future__ import annotations

import ast

from tilewright.ir.affine import Symbol, fold
from tilewright.ir.enums import TensorLayout
from tilewright.ir.types import Dim, TensorType, Type
from tilewright.jit._specialize_types import (
    DynDim,
    ScalarSnapshot,
    ShapeDim,
    TensorMeta,
    synthesize,
)


def meta_of(type_: Type, name: str = "d") -> TensorMeta | None:
    """The metadata of a tensor type; None for other types.

    An extent that is a dimension is that DynDim; one that is an expression of dimensions becomes a
    placeholder of this result, the same one wherever the expression occurs in its shape, labelled
    after `name`.
    """
    if not isinstance(type_, TensorType):
        return None
    made: dict[ScalarSnapshot | Dim, DynDim] = {}
    shape = tuple(_shape_dim(extent, made, name) for extent in type_.shape)
    layout = TensorLayout.ND if type_.view is None else type_.view.layout
    return TensorMeta(shape, type_.dtype, layout)


def _shape_dim(extent: Dim, made: dict[ScalarSnapshot | Dim, DynDim], name: str) -> ShapeDim:
    snapshot = snapshot_of(extent)
    if isinstance(snapshot, (int, DynDim)):
        return snapshot
    key = extent if snapshot is None else snapshot
    return made.setdefault(key, synthesize(f"{name}_{len(made)}"))


def snapshot_of(scalar: Dim | None) -> ScalarSnapshot:
    """What is known of a scalar (None: nothing), as a tree of operators on dimensions."""
    if scalar is None:
        return None
    try:
        return fold(scalar, _Snapshots())
    except _Unknown:
        return None


class _Unknown(Exception):
    """An expression has no operator of Python."""


class _Snapshots:
    """The algebra of snapshots: numbers stand last."""

    def const(self, value: int) -> ScalarSnapshot:
        return value

    def symbol(self, symbol: Symbol) -> ScalarSnapshot:
        return DynDim(symbol)

    def add(self, a: ScalarSnapshot, b: ScalarSnapshot) -> ScalarSnapshot:
        return ast.Add, ((b, a) if isinstance(a, int) else (a, b))

    def sub(self, a: ScalarSnapshot, b: ScalarSnapshot) -> ScalarSnapshot:
        return ast.Sub, (a, b)

    def mul(self, a: ScalarSnapshot, b: ScalarSnapshot) -> ScalarSnapshot:
        return ast.Mult, ((b, a) if isinstance(a, int) else (a, b))

    def floordiv(self, a: ScalarSnapshot, b: ScalarSnapshot) -> ScalarSnapshot:
        return ast.FloorDiv, (a, b)

    def mod(self, a: ScalarSnapshot, b: ScalarSnapshot) -> ScalarSnapshot:
        return ast.Mod, (a, b)

    def minimum(self, a: ScalarSnapshot, b: ScalarSnapshot) -> ScalarSnapshot:
        raise _Unknown

    def maximum(self, a: ScalarSnapshot, b: ScalarSnapshot) -> ScalarSnapshot:
        raise _Unknown


def parameter_type(type_: Type, name: str) -> Type:
    """The type of the bare parameter `name` when it is given a value of `type_`.

    A dimension stays the one it is; the callee reads a placeholder from its actual tensor.
    """
    meta = meta_of(type_, name)
    return type_ if meta is None else meta.type
