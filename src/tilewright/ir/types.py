"""Types of IR values. Immutable, compared by content; extents are ints or affine expressions."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from tilewright.dataclass import dataclass
from tilewright.dtypes import INDEX, TASK_ID, DType
from tilewright.ir.affine import Expr
from tilewright.ir.enums import CompactMode, MemorySpace, PadValue, TensorLayout, TileLayout

Dim = int | Expr
Shape = tuple[Dim, ...]


class Type:
    """Base of all types."""

    __slots__ = ()

    def as_python(self, prefix: str = "pl") -> str:
        """The annotation that parses back to this type."""
        return render_type(self, prefix)

    def __str__(self) -> str:
        return render_type(self, "pl")


@dataclass(frozen=True, slots=True)
class TensorView:
    """Layout, strides, valid region and padding of a tensor in global memory."""

    stride: Shape | None = None
    layout: TensorLayout = TensorLayout.ND
    valid_shape: Shape | None = None
    pad: PadValue = PadValue.null


@dataclass(frozen=True, slots=True)
class TileView:
    """Valid region, strides, start offset and box layout of a tile."""

    valid_shape: Shape | None = None
    stride: Shape | None = None
    start_offset: Dim | None = None
    blayout: TileLayout | None = None
    slayout: TileLayout | None = None
    fractal: int = 512
    pad: PadValue = PadValue.null
    compact: CompactMode = CompactMode.null


@dataclass(frozen=True, slots=True)
class MemRef:
    """A named piece of memory: byte offset and size, or one of `slots` equal slots."""

    name: str
    offset: Dim | None = None
    size: int | None = None
    slots: int | None = None
    slot: Dim | None = None

    def __getitem__(self, slot: Dim) -> MemRef:
        return replace(self, slot=slot)


@dataclass(frozen=True, slots=True)
class ScalarType(Type):
    """One value of `dtype`."""

    dtype: DType


@dataclass(frozen=True, slots=True)
class ShapedType(Type):
    """A dense array of `dtype` with extents `shape` (base of Tensor, Tile and Buffer)."""

    shape: Shape
    dtype: DType

    @property
    def rank(self) -> int:
        return len(self.shape)


@dataclass(frozen=True, slots=True)
class TensorType(ShapedType):
    """An array in global memory; `view` says what is valid, and the layout (None: all, ND)."""

    view: TensorView | None = None
    memref: MemRef | None = None

    @property
    def valid_shape(self) -> Shape:
        """Extents of the valid region; the whole shape when nothing else is said."""
        return self.view.valid_shape if self.view and self.view.valid_shape else self.shape


@dataclass(frozen=True, slots=True)
class DistributedTensorType(TensorType):
    """A tensor with one instance per rank at the same symmetric address."""


@dataclass(frozen=True, slots=True)
class TileType(ShapedType):
    """An array on chip, in memory `space`; `view` says what of it is valid (None: all)."""

    space: MemorySpace | None = None
    view: TileView | None = None
    memref: MemRef | None = None

    @property
    def valid_shape(self) -> Shape:
        """Extents of the valid region; the whole shape when nothing else is said."""
        return self.view.valid_shape if self.view and self.view.valid_shape else self.shape


@dataclass(frozen=True, slots=True)
class BufferType(ShapedType):
    """Addressable memory below bufferization; `strides` count elements."""

    strides: Shape
    space: MemorySpace = MemorySpace.DDR


@dataclass(frozen=True, slots=True)
class ArrayType(Type):
    """A small array on a core: `extent` scalars of `dtype`."""

    extent: int
    dtype: DType


@dataclass(frozen=True, slots=True)
class TupleType(Type):
    """A fixed sequence of values."""

    items: tuple[Type, ...]


@dataclass(frozen=True, slots=True)
class PtrType(Type):
    """An address, as given by an allocation."""


@dataclass(frozen=True, slots=True)
class CommCtxType(Type):
    """A communication context of a window."""


@dataclass(frozen=True, slots=True)
class HandleType(Type):
    """Something that only its own operations understand, such as a prefetch event."""

    name: str


@dataclass(frozen=True, slots=True)
class NoneType(Type):
    """The absence of a value, as an optional argument."""


IndexType = ScalarType(INDEX)
TaskIdType = ScalarType(TASK_ID)


def row_major_strides(shape: Shape) -> Shape:
    """Element strides of a dense row-major array of `shape`."""
    strides: list[Dim] = []
    step: Dim = 1
    for extent in reversed(shape):
        strides.append(step)
        step = step * extent
    return tuple(reversed(strides))


def buffer_of(shape: Shape, dtype: DType) -> BufferType:
    """The dense row-major buffer type of `shape`, in DDR."""
    return BufferType(shape, dtype, row_major_strides(shape), MemorySpace.DDR)


def is_static(shape: Shape) -> bool:
    """True when every extent is a plain int."""
    return all(isinstance(extent, int) for extent in shape)


def element_count(shape: Shape) -> Dim:
    """Product of the extents."""
    return prod(shape) if is_static(shape) else _product(shape)


def _product(shape: Shape) -> Dim:
    total: Dim = 1
    for extent in shape:
        total = total * extent
    return total


def with_view(type_: Type) -> Type:
    """The type of a tensor or tile with the view that it has where it says none."""
    if isinstance(type_, TensorType) and type_.view is None:
        return replace(type_, view=TensorView())
    if isinstance(type_, TileType) and type_.view is None:
        return replace(type_, view=TileView())
    return type_


def render_dims(dims: Shape) -> str:
    """`[64, 2 * M]`."""
    return f"[{', '.join(map(str, dims))}]"


def _render_enum(prefix: str, value: object) -> str:
    return f"{prefix}.{type(value).__name__}.{getattr(value, 'name', value)}"


def render_tensor_view(view: TensorView, prefix: str) -> str:
    """The `pl.TensorView(...)` call that gives `view`."""
    parts: list[str] = []
    if view.stride is not None:
        parts.append(f"stride={render_dims(view.stride)}")
    parts.append(f"layout={_render_enum(prefix, view.layout)}")
    if view.valid_shape is not None:
        parts.append(f"valid_shape={render_dims(view.valid_shape)}")
    if view.pad is not PadValue.null:
        parts.append(f"pad={_render_enum(prefix, view.pad)}")
    return f"{prefix}.TensorView({', '.join(parts)})"


def render_tile_view(view: TileView, prefix: str) -> str:
    """The `pl.TileView(...)` call that gives `view`."""
    parts: list[str] = []
    for name in ("valid_shape", "stride"):
        dims: Shape | None = getattr(view, name)
        if dims is not None:
            parts.append(f"{name}={render_dims(dims)}")
    if view.start_offset is not None:
        parts.append(f"start_offset={view.start_offset}")
    for name in ("blayout", "slayout"):
        layout: TileLayout | None = getattr(view, name)
        if layout is not None:
            parts.append(f"{name}={_render_enum(prefix, layout)}")
    if view.fractal != 512:
        parts.append(f"fractal={view.fractal}")
    if view.pad is not PadValue.null:
        parts.append(f"pad={_render_enum(prefix, view.pad)}")
    if view.compact is not CompactMode.null:
        parts.append(f"compact={_render_enum(prefix, view.compact)}")
    return f"{prefix}.TileView({', '.join(parts)})"


def render_memref(memref: MemRef, prefix: str) -> str:
    """The `pl.MemRef(...)` call that gives `memref`."""
    if memref.slots is not None:
        index = "" if memref.slot is None else f"[{memref.slot}]"
        return f'{prefix}.MemRef("{memref.name}", slots={memref.slots}){index}'
    return f'{prefix}.MemRef("{memref.name}", {memref.offset}, {memref.size})'


def _render_shaped(type_: ShapedType, prefix: str) -> list[str]:
    return [render_dims(type_.shape), f"{prefix}.{type_.dtype.name}"]


def _render_tensor(type_: TensorType, prefix: str) -> str:
    parts = _render_shaped(type_, prefix)
    if type_.view is not None:
        layout = type_.view.layout
        plain = layout is not TensorLayout.DN and type_.view == TensorView(layout=layout)
        view = f"{prefix}.{layout.name}" if plain else render_tensor_view(type_.view, prefix)
        parts.append(view)
    if type_.memref is not None:
        parts.append(render_memref(type_.memref, prefix))
    distributed = isinstance(type_, DistributedTensorType)
    name = "pld.DistributedTensor" if distributed else f"{prefix}.Tensor"
    return f"{name}[{', '.join(parts)}]"


def _render_tile(type_: TileType, prefix: str) -> str:
    parts = _render_shaped(type_, prefix)
    if type_.memref is not None:
        parts.append(render_memref(type_.memref, prefix))
    if type_.space is not None:
        parts.append(f"{prefix}.Mem.{type_.space.name}")
    if type_.view is not None:
        parts.append(render_tile_view(type_.view, prefix))
    return f"{prefix}.Tile[{', '.join(parts)}]"


def _render_buffer(type_: BufferType, prefix: str) -> str:
    parts = _render_shaped(type_, prefix)
    parts.append(f"{prefix}.Mem.{type_.space.name}")
    if type_.strides != row_major_strides(type_.shape):
        parts.append(render_dims(type_.strides))
    return f"{prefix}.Buffer[{', '.join(parts)}]"


def render_type(type_: Type, prefix: str = "pl") -> str:
    """The annotation that parses back to `type_`."""
    match type_:
        case ScalarType(dtype):
            return f"{prefix}.Scalar[{prefix}.{dtype.name}]"
        case TensorType():
            return _render_tensor(type_, prefix)
        case TileType():
            return _render_tile(type_, prefix)
        case BufferType():
            return _render_buffer(type_, prefix)
        case ArrayType(extent, dtype):
            return f"{prefix}.Array[{extent}, {prefix}.{dtype.name}]"
        case TupleType(items):
            return f"{prefix}.Tuple[{', '.join(render_type(item, prefix) for item in items)}]"
        case PtrType():
            return f"{prefix}.Ptr"
        case CommCtxType():
            return "pld.CommCtx"
        case HandleType(name):
            return f"{prefix}.{name}"
        case _:
            return "None"
