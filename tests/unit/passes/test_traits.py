"""What lowering knows of a structure by itself."""

from __future__ import annotations

from typing import Any

from tilewright.dtypes import FP16, FP32, DType
from tilewright.ir.builder import Builder
from tilewright.ir.core import Operation, Value
from tilewright.ir.enums import MemorySpace, Rounding
from tilewright.ir.types import TileType
from tilewright.ops import elementwise, reduce
from tilewright.passes.blocks import structure_of
from tilewright.passes.nodes import make_node
from tilewright.passes.traits import Kind, Traits


def tile(*shape: int, dtype: DType = FP32) -> Value:
    return Value(TileType(shape, dtype, MemorySpace.Vec))


def operation(opdef: Any, *operands: Value, **attrs: Any) -> Operation:
    with Builder() as builder:
        return builder.emit(opdef, operands, attrs)


def traits(op: Operation) -> Traits:
    structure = structure_of(op)
    assert structure is not None
    assert [read.value for read in structure.reads] == list(op.inputs)
    return make_node(op, structure, op.result, 0).traits


def test_operations_on_equal_types_share_what_is_known_of_them() -> None:
    first, second = (operation(elementwise.add, tile(4, 8), tile(4, 8)) for _ in range(2))
    assert traits(first) is traits(second)


def test_other_words_shapes_and_dtypes_have_traits_of_their_own() -> None:
    ops = [
        operation(elementwise.add, tile(4, 8), tile(4, 8)),
        operation(elementwise.mul, tile(4, 8), tile(4, 8)),
        operation(elementwise.add, tile(4, 8), tile(4, 1)),
        operation(elementwise.add, tile(4, 8, dtype=FP16), tile(4, 8, dtype=FP16)),
        operation(elementwise.cast, tile(4, 8), dtype=FP16, mode=Rounding.RINT),
    ]
    assert len({id(traits(op)) for op in ops}) == len(ops)


def test_axes_of_extent_one_are_not_wide() -> None:
    known = traits(operation(elementwise.exp, tile(1, 8)))
    assert (known.kind, known.wide, known.wide_extents, known.reduced) == (
        Kind.POINT,
        (1,),
        (8,),
        (),
    )


def test_reduced_axes_are_numbered_among_the_wide_ones() -> None:
    op = operation(reduce.sum_, tile(4, 1, 8), axes=(2,), keepdims=True)
    known = traits(op)
    assert (known.kind, known.wide, known.reduced) == (Kind.REDUCE, (0, 2), (1,))


def test_a_broadcast_operand_is_read_inside_its_shape() -> None:
    known = traits(operation(elementwise.sub, tile(4, 8), tile(1, 8)))
    assert known.is_inside and known.is_identity
    assert [str(index) for _, indices in known.direct for index in indices or ()] == [
        "d0",
        "d1",
        "0",
        "d1",
    ]
