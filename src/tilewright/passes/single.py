"""Lowering of fresh memory, extents, and single elements."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tilewright.dtypes import DType
from tilewright.ir.affine import Expr, as_expr
from tilewright.ir.core import Operation, Value
from tilewright.ir.structure import AxisKind, Read, Structure, domain, identity_map
from tilewright.ir.types import row_major_strides
from tilewright.ops import arith, array, loop, memory, shape, task
from tilewright.ops.extents import DIM_OPS, as_dims
from tilewright.passes.blocks import flush, lowers, read_scalar
from tilewright.passes.lowering import Lowering
from tilewright.passes.nodes import make_node
from tilewright.passes.storage import Storage
from tilewright.passes.traits import Kind, element_dtype, shaped

Scalars = tuple[Value, ...]


def index_of(indices: Iterable[Any]) -> tuple[Expr, ...]:
    """Scalar indices as expressions."""
    return tuple(map(as_expr, as_dims(indices)))


@lowers(memory.create)
def lower_create(lowering: Lowering, op: Operation) -> None:
    """Uninitialised memory."""
    lowering.hold(op.result, lowering.allocate_blank(op.result))


@lowers(*DIM_OPS)
def lower_dim(lowering: Lowering, op: Operation) -> None:
    """An extent that the type knows."""
    lowering.define_index(op.result, DIM_OPS[op.opdef](op))


@lowers(task.current, task.invalid, task.dummy, task.cluster_count, task.vector_count)
def lower_known(lowering: Lowering, op: Operation) -> None:
    """A scalar that is the same on every machine."""
    assert op.opdef.evaluate is not None
    number = int(op.opdef.evaluate(*op.operands))
    lowering.define_scalar(op.result, lowering.scopes.constant(number, element_dtype(op.result)))


@lowers(array.create)
def lower_array(lowering: Lowering, op: Operation) -> None:
    """An array of zeros, made where it is used."""
    dtype: DType = op.attrs["dtype"]
    extents = (op.attrs["extent"],)
    dims = domain(extents)
    zero = False if dtype.kind == "bool" else 0

    def body(scalars: Scalars, index: Scalars) -> Scalars:
        return (arith.const(value=zero, dtype=dtype),)

    kinds = (AxisKind.PARALLEL,)
    structure = Structure(dims, extents, kinds, (), (identity_map(dims),), body)
    node = make_node(None, structure, op.result, lowering.plan.position)
    node.kind, node.is_view = Kind.FREE, True
    lowering.compute(node)


@lowers(shape.reinterpret)
def lower_reinterpret(lowering: Lowering, op: Operation) -> None:
    """Elements of another width: a copy of x, seen as `dtype`."""
    (x,) = op.operands
    storage = lowering.allocate_for(op.result)
    given = shaped(x)
    zeros = lowering.scopes.indices((0,) * storage.type.rank)
    strides = row_major_strides(given.shape)
    seen = loop.view(storage.buffer, zeros, shape=given.shape, strides=strides, dtype=given.dtype)
    lowering.assign(Storage(seen), x)
    flush(lowering)
    lowering.publish(op.result, storage)


@lowers(array.get_element)
def lower_get_element(lowering: Lowering, op: Operation) -> None:
    """One element of an array, as a scalar."""
    read_element(lowering, op, op.operands[0], op.operands[1:])


@lowers(array.update_element)
def lower_update_element(lowering: Lowering, op: Operation) -> None:
    """One element of an array written in place."""
    write_element(lowering, op, op.operands[1:2], op.operands[2])


@lowers(memory.read)
def lower_read(lowering: Lowering, op: Operation) -> None:
    """One element, as a scalar."""
    read_element(lowering, op, *op.operands)


@lowers(memory.write)
def lower_write(lowering: Lowering, op: Operation) -> None:
    """One element written in place."""
    _, indices, value = op.operands
    write_element(lowering, op, indices, value)


def read_element(lowering: Lowering, op: Operation, x: Value, indices: Iterable[Value]) -> None:
    """The result of `op` is element `indices` of `x`."""
    read = Read(x, index_of(indices))
    structure = Structure((), (), (), (read,), ((),), lambda scalars, _: scalars)
    read_scalar(lowering, make_node(None, structure, op.result, lowering.plan.position))


def write_element(
    lowering: Lowering, op: Operation, indices: Iterable[Value], value: Value
) -> None:
    """`op` writes `value` to element `indices` of what its result is tied to."""
    structure = Structure(
        (), (), (), (Read(value, ()),), (index_of(indices),), lambda scalars, _: scalars
    )
    lowering.write(make_node(op, structure, op.result, lowering.plan.position))
