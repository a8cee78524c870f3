"""Dimensions and tensor metadata, as specialization sees them."""

from __future__ import annotations

import ast
from typing import TypeAlias

from tilewright.dataclass import dataclass
from tilewright.dtypes import DType
from tilewright.frontend.annotations import DynVar
from tilewright.ir.affine import Symbol
from tilewright.ir.enums import TensorLayout
from tilewright.ir.types import Dim, TensorType, TensorView


class Placeholder(DynVar):
    """The symbol of an extent that is an expression; the callee reads it from its tensor."""

    __slots__ = ()


@dataclass(frozen=True)
class DynDim:
    """A dimension that run time knows. Two are the same when their symbols are one object."""

    symbol: Symbol

    @property
    def synthesized(self) -> bool:
        """True for a placeholder that inference made for an extent no symbol names.

        It is one wherever it goes: in annotations that are laid over, in what helpers return.
        """
        return isinstance(self.symbol, Placeholder)

    @property
    def name(self) -> str:
        """The symbol's label."""
        return self.symbol.name


ShapeDim: TypeAlias = "int | DynDim"
ScalarSnapshot: TypeAlias = (
    "int | DynDim | tuple[type[ast.operator], tuple[ScalarSnapshot, ...]] | None"
)
"""What is known of a scalar: a number, an extent, an immutable expression of them, or nothing.

`n * 8` is `(ast.Mult, (n_dim, 8))`. An alias keeps it; arithmetic makes another one.
"""


def synthesize(label: str) -> DynDim:
    """A fresh placeholder dimension."""
    return DynDim(Placeholder(label, 0))


@dataclass(frozen=True)
class TensorMeta:
    """Shape, element type and layout of a tensor argument."""

    shape: tuple[ShapeDim, ...]
    dtype: DType
    layout: TensorLayout = TensorLayout.ND

    @property
    def type(self) -> TensorType:
        """The parameter type it stands for."""
        view = None if self.layout is TensorLayout.ND else TensorView(layout=self.layout)
        return TensorType(tuple(map(as_extent, self.shape)), self.dtype, view)

    def bound(self, axis: int, symbol: Symbol) -> TensorMeta:
        """The same tensor with one axis dynamic."""
        shape = [*self.shape]
        shape[axis] = DynDim(symbol)
        return TensorMeta(tuple(shape), self.dtype, self.layout)

    @property
    def key(self) -> str:
        """What selects an artifact: dynamic extents do not."""
        dims = ",".join("?" if isinstance(d, DynDim) else str(d) for d in self.shape)
        return f"{self.dtype.name}[{dims}]{self.layout.name}"


def as_extent(dim: ShapeDim) -> Dim:
    """An extent of a type."""
    return dim.symbol + 0 if isinstance(dim, DynDim) else dim
