"""Lowering of fresh memory, extents, and single elements."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tilewright.ir.affine import Expr, as_expr
from tilewright.ir.core import Operation
from tilewright.ir.structure import Read, Structure
from tilewright.ops import memory
from tilewright.ops.extents import as_dims
from tilewright.passes.blocks import lowers, read_scalar
from tilewright.passes.lowering import Lowering
from tilewright.passes.nodes import make_node, shaped


def index_of(indices: Iterable[Any]) -> tuple[Expr, ...]:
    """Scalar indices as expressions."""
    return tuple(map(as_expr, as_dims(indices)))


@lowers(memory.create)
def lower_create(lowering: Lowering, op: Operation) -> None:
    """Uninitialised memory."""
    lowering.stored[op.result] = lowering.allocate_blank(op.result)


@lowers(memory.dim)
def lower_dim(lowering: Lowering, op: Operation) -> None:
    """An extent that the type knows."""
    axis: int = op.attrs["axis"]
    extent = shaped(op.operands[0]).shape[axis]
    lowering.scalars[op.result] = lowering.scopes.index(extent)


@lowers(memory.read)
def lower_read(lowering: Lowering, op: Operation) -> None:
    """One element, as a scalar."""
    x, indices = op.operands
    read = Read(x, index_of(indices))
    structure = Structure((), (), (), (read,), ((),), lambda scalars, _: scalars)
    read_scalar(lowering, make_node(None, structure, op.result, lowering.plan.position))


@lowers(memory.write)
def lower_write(lowering: Lowering, op: Operation) -> None:
    """One element written in place."""
    _, indices, value = op.operands
    structure = Structure(
        (), (), (), (Read(value, ()),), (index_of(indices),), lambda scalars, _: scalars
    )
    lowering.write(make_node(op, structure, op.result, lowering.plan.position))
