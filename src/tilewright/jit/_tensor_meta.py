"""Metadata of local tensors: what a bare parameter of a helper takes from its argument.

The parser meets a call with its arguments already typed, in source order, through branches, loops
and the returns of other helpers; so nothing is guessed from the source. An extent is an immutable
affine expression: rebinding a name changes no extent recorded before, and an alias keeps it.
"""

from __future__ import annotations

from tilewright.ir.affine import Expr, Symbol
from tilewright.ir.enums import TensorLayout
from tilewright.ir.types import Dim, TensorType, Type
from tilewright.jit._specialize_types import DynDim, ShapeDim, TensorMeta, synthesize


def meta_of(type_: Type, name: str = "d") -> TensorMeta | None:
    """The metadata of a tensor type; None for other types.

    An extent that is a dimension is that DynDim; one that is an expression of dimensions becomes a
    placeholder of this result, the same one wherever the expression occurs in its shape, labelled
    after `name`.
    """
    if not isinstance(type_, TensorType):
        return None
    made: dict[Dim, DynDim] = {}
    shape = tuple(_shape_dim(extent, made, name) for extent in type_.shape)
    layout = TensorLayout.ND if type_.view is None else type_.view.layout
    return TensorMeta(shape, type_.dtype, layout)


def _shape_dim(extent: Dim, made: dict[Dim, DynDim], name: str) -> ShapeDim:
    if isinstance(extent, int):
        return extent
    symbol = lone_symbol(extent)
    if symbol is not None:
        return DynDim(symbol)
    return made.setdefault(extent, synthesize(f"{name}_{len(made)}"))


def lone_symbol(extent: Expr) -> Symbol | None:
    """The dimension that an extent is, or None."""
    atoms = [*extent.terms]
    alone = len(atoms) == 1 and isinstance(atoms[0], Symbol) and extent == atoms[0] + 0
    return atoms[0] if alone and isinstance(atoms[0], Symbol) else None


def parameter_type(type_: Type, name: str) -> Type:
    """The type of the bare parameter `name` when it is given a value of `type_`.

    A dimension stays the one it is; the callee reads a placeholder from its actual tensor.
    """
    meta = meta_of(type_, name)
    return type_ if meta is None else meta.type
