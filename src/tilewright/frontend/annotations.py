"""The types of the language as annotations: `pl.Tensor[[64, N], pl.FP32]` and its relatives.

Subscripting one of these classes gives a type of the IR, so an annotation means the same whether
Python evaluated it at the `def` or the parser evaluates its text later.
"""

from __future__ import annotations

import keyword
import operator
import unicodedata
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, cast

import tilewright
from tilewright.dataclass import dataclass
from tilewright.dtypes import BOOL, TASK_ID, DType
from tilewright.errors import ParserError, ParserTypeError
from tilewright.ir import types
from tilewright.ir.affine import Expr, Symbol
from tilewright.ir.conformance import conforms, hints_of
from tilewright.ir.core import Value
from tilewright.ir.enums import MemorySpace, ParamDirection, TensorLayout
from tilewright.ir.types import (
    ArrayType,
    CommCtxType,
    DistributedTensorType,
    MemRef,
    PtrType,
    ScalarType,
    Shape,
    TensorType,
    TensorView,
    TileType,
    TileView,
    TupleType,
    Type,
)

if TYPE_CHECKING:
    import tilewright.ops.extents

_T = TypeVar("_T")
_View = TypeVar("_View", TensorView, TileView)


@dataclass(frozen=True)
class Directed:
    """`pl.Out[T]` or `pl.InOut[T]`; `inner` is a type or a bare class such as `pl.Tensor`."""

    direction: ParamDirection
    inner: Any


def require_direction(name: str, direction: ParamDirection, type_: Type) -> None:
    """Raises ParserTypeError for a scalar that is InOut: it is passed by value."""
    if isinstance(type_, ScalarType) and direction is ParamDirection.InOut:
        raise ParserTypeError(
            "Scalar parameters cannot have InOut direction",
            hint=f"Pass '{name}' by value and return the new one.",
        )


class DynVar(Symbol):
    """A dimension that is known at run time only. Two are the same when they are one object."""

    __slots__ = ()


def dynamic(name: str) -> DynVar:
    """A dynamic dimension: `N = pl.dynamic("N")`.

    `name` must be a plain identifier, neither a Python keyword nor `pl` or `pld`; raises
    ParserError otherwise.
    """
    if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ParserError(
            f"pl.dynamic: {name!r} cannot name a dimension",
            hint='Name it with a string, such as pl.dynamic("N").',
        )
    normal = unicodedata.normalize("NFKC", name)
    if not name.isidentifier() or keyword.iskeyword(name) or normal != name or name in _ALIASES:
        raise ParserError(
            f"pl.dynamic: {name!r} cannot name a dimension",
            hint="Use an identifier in its normalized spelling that is no keyword and not "
            "'pl' or 'pld'.",
        )
    return DynVar(name, 0)


_ALIASES = frozenset({"pl", "pld"})


class Annotation:
    """Base of the classes that stand for kinds of types."""

    def __init__(self, *_: object, **__: object) -> None:
        name = type(self).__name__
        raise ParserTypeError(f"pl.{name} is a type", hint=f"Annotate with pl.{name}[...].")


class Tensor(Annotation):
    """`pl.Tensor[shape, dtype]`, optionally with a layout or TensorView, and a MemRef."""

    def __class_getitem__(cls, parts: Any) -> TensorType:
        shape, dtype, extras = _shaped("Tensor", parts)
        view = _pick(extras, (TensorView, TensorLayout))
        memref = _memref(_pick(extras, MemRef))
        _finish("Tensor", extras)
        return TensorType(shape, dtype, _tensor_view(view, shape), memref)


class DistributedTensor(Annotation):
    """`pld.DistributedTensor[shape, dtype]`: one instance per rank at the same address."""

    def __class_getitem__(cls, parts: Any) -> DistributedTensorType:
        shape, dtype, extras = _shaped("DistributedTensor", parts)
        view = _pick(extras, (TensorView, TensorLayout))
        memref = _memref(_pick(extras, MemRef))
        _finish("DistributedTensor", extras)
        return DistributedTensorType(shape, dtype, _tensor_view(view, shape), memref)


class Tile(Annotation):
    """`pl.Tile[shape, dtype]`, optionally with a memory space, a TileView and a MemRef."""

    def __class_getitem__(cls, parts: Any) -> TileType:
        shape, dtype, extras = _shaped("Tile", parts)
        space = _pick(extras, MemorySpace)
        view = _pick(extras, TileView)
        memref = _memref(_pick(extras, MemRef))
        _finish("Tile", extras)
        if memref is not None and space is None:
            raise ParserTypeError(
                "A pl.Tile with a MemRef must also name its memory space",
                hint="Write pl.Tile[shape, dtype, pl.MemRef(...), pl.Mem.Vec].",
            )
        return TileType(shape, dtype, space, _fitting(view, shape), memref)


class Buffer(Annotation):
    """`pl.Buffer[shape, dtype, space, strides]`: memory below bufferization."""

    def __class_getitem__(cls, parts: Any) -> types.BufferType:
        shape, dtype, extras = _shaped("Buffer", parts)
        space = _pick(extras, MemorySpace) or MemorySpace.DDR
        strides = cast("Any", _pick(extras, (list, tuple)))
        _finish("Buffer", extras)
        dims = types.row_major_strides(shape) if strides is None else as_shape(strides)
        return types.BufferType(shape, dtype, dims, space)


class Scalar(Annotation):
    """`pl.Scalar[dtype]`."""

    def __class_getitem__(cls, dtype: Any) -> ScalarType:
        if not isinstance(dtype, DType):
            raise ParserTypeError(
                f"pl.Scalar takes an element type, not {dtype!r}", hint="Write pl.Scalar[pl.INT64]."
            )
        return ScalarType(dtype)


class Array(Annotation):
    """`pl.Array[extent, dtype]`: a small on-core array of integers, booleans or task ids."""

    def __class_getitem__(cls, parts: Any) -> ArrayType:
        if not (isinstance(parts, tuple) and len(cast("tuple[Any, ...]", parts)) == 2):
            raise ParserTypeError(
                "pl.Array takes an extent and an element type: pl.Array[16, pl.INT32]"
            )
        extent, dtype = cast("tuple[Any, Any]", parts)
        if not isinstance(extent, int) or extent <= 0:
            raise ParserTypeError(
                f"pl.Array: the extent must be a positive constant, not {extent!r}"
            )
        if not isinstance(dtype, DType) or not (dtype.is_int() or dtype in (BOOL, TASK_ID)):
            raise ParserTypeError(
                f"pl.Array: elements are integers, booleans or task ids, not {dtype}"
            )
        return ArrayType(extent, dtype)


class Tuple(Annotation):
    """`pl.Tuple[T1, T2]`."""

    def __class_getitem__(cls, parts: Any) -> TupleType:
        items = cast("tuple[Any, ...]", parts) if isinstance(parts, tuple) else (parts,)
        return TupleType(tuple(as_type(item) for item in items))


class Ptr(Annotation):
    """The type of an allocation's address."""


class CommCtx(Annotation):
    """The type of a communication context."""


class Out(Annotation):
    """`pl.Out[T]`: a parameter that the function only writes."""

    def __class_getitem__(cls, inner: Any) -> Directed:
        return Directed(ParamDirection.Out, inner)


class InOut(Annotation):
    """`pl.InOut[T]`: a parameter that the function reads and writes."""

    def __class_getitem__(cls, inner: Any) -> Directed:
        return Directed(ParamDirection.InOut, inner)


BARE = (Tensor, Tile, DistributedTensor, Tuple, Scalar, Array)
"""Classes that may stand without subscripts where an argument gives the rest."""


def as_type(annotation: Any) -> Type:
    """The type that an evaluated annotation names; raises ParserTypeError."""
    if isinstance(annotation, Type):
        return annotation
    if isinstance(annotation, DType):
        return ScalarType(annotation)
    if annotation is Ptr:
        return PtrType()
    if annotation is CommCtx:
        return CommCtxType()
    if isinstance(annotation, Directed):
        raise ParserTypeError("pl.Out and pl.InOut are for parameters only")
    if annotation in BARE:
        raise ParserTypeError(
            f"Incomplete type annotation: pl.{annotation.__name__}",
            hint=f"Write pl.{annotation.__name__}[...] with its shape and element type.",
        )
    raise ParserTypeError(
        f"{annotation!r} is not a type of the language",
        hint=_instead_of(annotation) if isinstance(annotation, type) else None,
    )


def _instead_of(annotation: type) -> str | None:
    if annotation.__name__ == "constexpr":
        return "Constants that select what is compiled are for @pl.jit kernels and their helpers."
    return _INSTEAD.get(annotation)


_INSTEAD: dict[Any, str] = {
    int: "Write pl.Scalar[pl.INDEX], or pl.constexpr for a number that selects what is compiled.",
    float: "Write pl.Scalar[pl.FP32], or pl.constexpr for a number that selects what is compiled.",
    bool: "Write pl.Scalar[pl.BOOL], or pl.constexpr for a flag that selects what is compiled.",
}


def as_types(annotation: Any) -> tuple[Type, ...]:
    """The types of a return annotation: none, one, or those of `tuple[...]` or `pl.Tuple[...]`."""
    if annotation is None or isinstance(annotation, types.NoneType):
        return ()
    if isinstance(annotation, TupleType):
        return annotation.items
    if getattr(annotation, "__origin__", None) is tuple:
        return tuple(as_type(item) for item in annotation.__args__)
    if isinstance(annotation, (list, tuple)):
        return tuple(as_type(item) for item in cast("Sequence[Any]", annotation))
    return (as_type(annotation),)


def as_shape(dims: Any) -> Shape:
    """A shape from ints, dynamic dimensions, arithmetic of those and scalars of the body."""
    if not isinstance(dims, (list, tuple)):
        raise ParserTypeError(f"a shape is a list of extents, not {dims!r}")
    return tuple(as_dim(dim) for dim in cast("Sequence[Any]", dims))


def as_dim(dim: Any) -> types.Dim:
    """One extent."""
    if isinstance(dim, Value):
        return tilewright.ops.extents.as_dim(dim)
    if isinstance(dim, Expr):
        return dim
    if isinstance(dim, Symbol):
        return dim + 0
    if isinstance(dim, bool) or not hasattr(dim, "__index__"):
        raise ParserTypeError(f"an extent is an integer, not {dim!r}")
    value = operator.index(dim)
    if value < 0:
        raise ParserTypeError(f"an extent cannot be negative: {value}")
    return value


def tensor_view(
    stride: Sequence[Any] | None = None,
    layout: TensorLayout | None = None,
    valid_shape: Sequence[Any] | None = None,
    pad: types.PadValue = types.PadValue.null,
) -> TensorView:
    """`pl.TensorView(...)`: layout, strides, valid region and padding of a tensor."""
    if layout is None:
        if (stride, valid_shape, pad) != (None, None, types.PadValue.null):
            raise ParserTypeError(
                "pl.TensorView needs layout=", hint="Write layout=pl.TensorLayout.ND."
            )
        layout = TensorLayout.ND
    return _checked(TensorView(_shape_or_none(stride), layout, _shape_or_none(valid_shape), pad))


def tile_view(
    valid_shape: Sequence[Any] | None = None,
    stride: Sequence[Any] | None = None,
    start_offset: Any = None,
    **layout: Any,
) -> TileView:
    """`pl.TileView(...)`: valid region, strides, start offset and box layout of a tile."""
    start = None if start_offset is None else as_dim(start_offset)
    return _checked(TileView(_shape_or_none(valid_shape), _shape_or_none(stride), start, **layout))


def _checked(record: _T) -> _T:
    """A view or memory reference whose fields are what they are said to be, or ParserTypeError."""
    for name, hint in hints_of(type(record)).items():
        given = getattr(record, name)
        if not conforms(given, hint):
            wanted = type(record).__annotations__[name]
            raise ParserTypeError(
                f"pl.{type(record).__name__}: {name} is {given!r}; {wanted} is accepted"
            )
    return record


def _memref(given: MemRef | None) -> MemRef | None:
    """A memory reference that says where it lies, or ParserTypeError."""
    if given is None:
        return None
    name, slots, slot = given.name, given.slots, given.slot
    has_place = given.offset is not None and given.size is not None
    if (slots is None) is not has_place or (slots is None and slot is not None):
        raise ParserTypeError(
            f"pl.MemRef({name!r}) is to have an offset and a size, or slots",
            hint='Write pl.MemRef("m", 0, 1024), or pl.MemRef("m", slots=2)[0].',
        )
    for fact, least in (("offset", 0), ("size", 1), ("slots", 1)):
        number = getattr(given, fact)
        if isinstance(number, int) and number < least:
            raise ParserTypeError(f"pl.MemRef: {fact} is {number}; at least {least} is accepted")
    if isinstance(slots, int) and isinstance(slot, int) and not 0 <= slot < slots:
        raise ParserTypeError(f"pl.MemRef({name!r}) has {slots} slots; there is no slot {slot}")
    return _checked(given)


def _shape_or_none(dims: Sequence[Any] | None) -> Shape | None:
    return None if dims is None else as_shape(dims)


def _shaped(name: str, parts: Any) -> tuple[Shape, DType, list[Any]]:
    given = cast("tuple[Any, ...]", parts) if isinstance(parts, tuple) else (parts,)
    if len(given) < 2:
        _incomplete(name)
    shape, dtype, *extras = given
    if not isinstance(dtype, DType):
        raise ParserTypeError(f"pl.{name}: {dtype!r} is not an element type such as pl.FP32")
    return as_shape(shape), dtype, extras


def _incomplete(name: str) -> NoReturn:
    raise ParserTypeError(
        f"pl.{name} takes a shape and an element type", hint=f"Write pl.{name}[[16, 16], pl.FP32]."
    )


def _pick(extras: list[Any], kind: type[_T] | tuple[type, ...]) -> _T | None:
    for position, extra in enumerate(extras):
        if isinstance(extra, kind):
            return cast("_T", extras.pop(position))
    return None


def _finish(name: str, extras: list[Any]) -> None:
    if extras:
        raise ParserTypeError(f"pl.{name}: {extras[0]!r} has no place in this annotation")


def _tensor_view(view: TensorView | TensorLayout | None, shape: Shape) -> TensorView | None:
    if view is TensorLayout.DN:
        raise ParserTypeError(
            "The layout-only shorthand pl.DN is not supported",
            hint="Write pl.TensorView(stride=[...], layout=pl.TensorLayout.DN).",
        )
    return _fitting(TensorView(layout=view) if isinstance(view, TensorLayout) else view, shape)


def _fitting(view: _View | None, shape: Shape) -> _View | None:
    """The view of something of that shape, None for the implicit one; or ParserTypeError."""
    if view is None:
        return None
    for name in ("valid_shape", "stride"):
        dims: Shape = getattr(view, name) or shape
        if len(dims) != len(shape):
            raise ParserTypeError(
                f"{name} is {types.render_dims(dims)}, of a shape {types.render_dims(shape)}"
            )
    for axis, (valid, extent) in enumerate(zip(view.valid_shape or (), shape)):
        room = extent - valid
        if isinstance(room, int) and room < 0:
            raise ParserTypeError(f"valid_shape says {valid} of {extent} in dimension {axis}")
    if view.valid_shape == shape:
        view = types.replace(view, valid_shape=None)
    return None if view == type(view)() else view
