"""`pl` names of gathers and scatters, in terms of take, put, strided accesses and windows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.dtypes import INT32, INT64, DType
from tilewright.errors import ArgumentTypeMismatch, InvalidOperationError, ShapeMismatch
from tilewright.ir.affine import Access, Symbol, as_expr
from tilewright.ir.core import Value
from tilewright.ir.enums import MemorySpace
from tilewright.ir.opdef import macro, spelled
from tilewright.ir.types import Shape, ShapedType, TileType, element_count
from tilewright.ops import access, creation, gather, memory, reduce, scan, shape
from tilewright.ops import elementwise as E
from tilewright.ops.adapt import (
    as_dtype,
    as_shape,
    constant,
    converted,
    is_tile,
    never,
    paired,
    publish,
    publish_tile,
    require_shaped_value,
    require_whole_value,
)
from tilewright.ops.extents import same_dims
from tilewright.ops.pl_elementwise import COMPARISONS
from tilewright.ops.pl_shape import shaped_type
from tilewright.ops.rules import GLOBAL_SPACES, require_static
from tilewright.ops.words import dtype_of

CMP_MODES = ("eq", "ne", "lt", "le", "gt", "ge")
LANES: dict[int, tuple[int, int]] = {
    1: (0, 2),
    2: (1, 2),
    3: (0, 4),
    4: (1, 4),
    5: (2, 4),
    6: (3, 4),
    7: (0, 1),
}
"""By pattern: (first lane, stride)."""


def lanes_of(name: str, pattern: Any) -> tuple[int, int]:
    """(first lane, stride) of a mask pattern; raises ArgumentTypeMismatch."""
    found = LANES.get(int(pattern)) if isinstance(pattern, int) else None
    if found is None:
        raise ArgumentTypeMismatch(f"{name}: {pattern!r} is no mask pattern (1 to 7)")
    return found


def lane_access(type_: ShapedType, first: int, stride: int) -> Access:
    """The lanes `first`, `first + stride`, … of the last axis."""
    *outer, width = require_static("gather", "the shape", type_.shape)
    if width % stride:
        raise ShapeMismatch(f"gather: {width} lanes are no multiple of {stride}")
    extents = (*outer, width // stride)
    dims = tuple(Symbol(f"d{k}", 0, extent - 1) for k, extent in enumerate(extents))
    return Access((*map(as_expr, dims[:-1]), dims[-1] * stride + first), extents, dims)


def space_of(value: Value) -> MemorySpace:
    """The memory in which a result beside `value` lives."""
    type_ = value.type
    return (type_.space or MemorySpace.Vec) if isinstance(type_, TileType) else MemorySpace.DDR


def gather_mask(src: Any, mask_pattern: int, *, output_dtype: Any = None) -> Value:
    """The lanes of src that the pattern marks, side by side, with their bits as `output_dtype`."""
    value = require_whole_value("gather_mask", "src", src)
    first, stride = lanes_of("gather_mask", mask_pattern)
    lanes = lane_access(shaped_type("gather_mask", "src", value), first, stride)
    found = access.access_load(value, (), access=lanes, space=space_of(value))
    return found if output_dtype is None else seen_as(found, as_dtype(output_dtype))


def seen_as(value: Value, dtype: DType) -> Value:
    """The same bits as a dtype of the same width."""
    type_ = shaped_type("gather", "src", value)
    return shape.reinterpret(value, dtype=dtype, shape=type_.shape)


publish_tile(access.access_load, "gather_mask", gather_mask)


@macro("pl.tile.gather_compare", "pl.gather_compare")
def gather_compare(
    src: Value,
    kvalue: Any,
    tmp: Value | None = None,
    *,
    cmp_mode: Any = "eq",
    offset: int = 0,
    out_cols: int,
    count_dtype: Any = None,
) -> tuple[Value, Value]:
    """(indices, counts) of the elements of each row that compare true with `kvalue`.

    The first `out_cols` matching columns of each row, plus `offset`, in order, the rest 0; and how
    many match, [R, 1]. Modes, by name or number: eq 0, ne 1, lt 2, le 3, gt 4, ge 5.
    """
    value = require_whole_value("gather_compare", "src", src)
    rows, columns = require_static(
        "gather_compare", "src", shaped_type("gather", "src", value).shape
    )
    mask = E.cast(comparison(cmp_mode)(*paired("gather_compare", value, kvalue)), dtype=INT32)
    seen = scan.cumulative(mask, constant(0, INT32), axis=-1)
    counts = reduce.sum_(mask, axes=(1,), keepdims=True)
    last = constant(out_cols, INT32)
    wanted = E.and_(E.ne(mask, constant(0, INT32)), E.le(seen, last))
    at = E.select(wanted, E.sub(seen, constant(1, INT32)), last)
    home = creation.full(shape=(rows, out_cols + 1), dtype=INT32, value=0, space=space_of(value))
    numbers = creation.iota(
        constant(offset, INT32), shape=(rows, columns), dtype=INT32, space=space_of(value)
    )
    found = gather.put_along(home, at, numbers, axis=-1)
    indices = shape.slice_(found, [0, 0], shape=(rows, out_cols))
    return indices, converted(counts, INT32 if count_dtype is None else as_dtype(count_dtype))


def comparison(mode: Any) -> Any:
    """The elementwise op of a comparison mode; raises InvalidOperationError."""
    number = CMP_MODES.index(mode) if mode in CMP_MODES else mode
    if not isinstance(number, int) or not 0 <= number < len(COMPARISONS):
        raise InvalidOperationError(f"gather: {mode!r} is no comparison", hint=", ".join(CMP_MODES))
    return COMPARISONS[number]


def gather_tensor(
    input: Any,
    dim: int | None = None,
    index: Any = None,
    *,
    mask_pattern: int | None = None,
    output_dtype: Any = None,
    kvalue: Any = None,
    cmp_mode: Any = None,
    out_cols: int | None = None,
    offset: int = 0,
    count_dtype: Any = None,
) -> Any:
    """Elements of input: along `dim` by `index`, or the lanes that `mask_pattern` marks; with
    `kvalue` what `gather_compare` gives, by default with room for every column.
    """
    value = require_shaped_value("gather", "input", input)
    if mask_pattern is not None:
        return gather_mask(value, mask_pattern, output_dtype=output_dtype)
    if kvalue is not None:
        columns = require_static("gather", "input", shaped_type("gather", "input", value).shape)[-1]
        return gather_compare(
            value,
            kvalue,
            cmp_mode="eq" if cmp_mode is None else cmp_mode,
            offset=offset,
            out_cols=columns if out_cols is None else out_cols,
            count_dtype=count_dtype,
        )
    if index is None:
        raise InvalidOperationError(
            "gather: none of index=, mask_pattern= and kvalue= is given",
            hint="pl.gather(x, dim=-1, index=i), pl.gather(x, mask_pattern=1) or "
            "pl.gather(x, kvalue=0.0, cmp_mode='gt', out_cols=8)",
        )
    return gather.take_along(value, index, axis=-1 if dim is None else int(dim))


spelled(gather.take_along, "pl.tensor.gather", render=never)(gather_tensor)


def gather_tile(src: Any, indices: Any, tmp: Any = None) -> Value:
    """src[i, indices[i, j]]; scratch memory is not needed."""
    return gather.take_along(require_shaped_value("gather", "src", src), indices, axis=-1)


spelled(gather.take_along, "pl.tile.gather", render=never)(gather_tile)
spelled(
    gather.take_along,
    "pl.gather",
    accepts=lambda *args, **kwargs: "src" in kwargs or (len(args) > 1 and is_tile(args[1])),
    render=never,
)(gather_tile)
spelled(gather.take_along, "pl.gather", render=never)(gather_tensor)


# ------------------------------------------------------------------------ flattened, blocks, rows


def flat(value: Value) -> Value:
    """The elements of a tensor or tile in one row-major axis."""
    type_ = shaped_type("gather", "x", value)
    return shape.reshape(value, shape=(element_count(type_.shape),))


def splat_like(value: Value, number: int) -> Value:
    """A constant scalar of the dtype of `value`."""
    return constant(number, dtype_of(value))


def gatherb(src: Any, offset: Any, *, output_dtype: Any = None) -> Value:
    """Blocks of 32 bytes of src, at the byte offsets in `offset`, side by side."""
    value = require_whole_value("gatherb", "src", src)
    dtype = dtype_of(value)
    lanes = 32 // dtype.nbytes
    offset = require_whole_value("gatherb", "offset", offset)
    *outer, count = require_static(
        "gatherb", "offset", shaped_type("gatherb", "offset", offset).shape
    )
    starts = E.div(converted(offset, INT64), constant(dtype.nbytes, INT64))
    step = creation.iota(constant(0, INT64), shape=(1, lanes), dtype=INT64, space=space_of(value))
    places = E.add(shape.reshape(starts, shape=(*outer, count, 1)), step)
    wanted = shape.reshape(places, shape=(*outer, count * lanes))
    found = gather.take(flat(value), wanted, axis=0)
    return found if output_dtype is None else seen_as(found, as_dtype(output_dtype))


publish_tile(gather.take, "gatherb", gatherb)


def gather_row(
    dst: Any,
    src: Any,
    dst_offset: Sequence[Any],
    src_offset: Sequence[Any],
    shapes: Sequence[Any],
    transpose: bool = False,
    *,
    valid_shape: Sequence[Any] | None = None,
) -> Value:
    """dst with a window of the tensor src, transposed on demand, written at `dst_offset`."""
    target = require_shaped_value("gather_row", "dst", dst)
    extents = as_shape(shapes)
    if is_tile(target):
        valid = None if valid_shape is None else list(valid_shape)
        part = memory.load(src, list(src_offset), valid, shapes=extents)
    else:
        part = shape.slice_(src, list(src_offset), shape=extents)
    if transpose:
        part = shape.transpose(part, perm=(1, 0))
    return memory.assemble(target, converted(part, dtype_of(target)), list(dst_offset))


publish(
    memory.assemble,
    "gather_row",
    gather_row,
    tensor={"dst": "acc"},
    tile={},
    render=never,
)


def mgather(
    mem: Any,
    idx: Any,
    coalesce: Any = "row",
    *,
    gather_oob: Any = "undefined",
    target_memory: MemorySpace = MemorySpace.Vec,
    scratch: Any = None,
    valid_shape: Sequence[int] | None = None,
) -> Value:
    """Rows (`coalesce` "row") or elements ("elem") of a global tensor, as a fresh tile."""
    source = require_shaped_value("mgather", "mem", mem)
    chosen = require_whole_value("mgather", "idx", idx)
    if coalesce in ("row", 0):
        chosen = flat(chosen)
    elif coalesce in ("elem", "element", 1):
        source = flat(source)
    else:
        raise ArgumentTypeMismatch(f'mgather: coalesce is {coalesce!r}, not "row" or "elem"')
    found = gather.take(source, chosen, axis=0, space=target_memory)
    return found if valid_shape is None else shape.set_valid(found, list(valid_shape))


spelled(gather.take, "pl.mgather", "pl.tile.mgather", render=never)(mgather)


def paged_gather(
    src: Any,
    indices: Any,
    block_table: Any,
    block_size: int,
    size: int,
    max_indices: int,
    *,
    space: MemorySpace = MemorySpace.Mat,
    col_off: int = 0,
    is_trans: bool = False,
    is_b_matrix: bool = False,
) -> Value:
    """Rows of src found through a block table: index i is row i % block_size of its block.

    `size` columns from `col_off` of `max_indices` rows are collected in `space`.
    """
    table, wanted = flat(block_table), flat(indices)
    wanted = shape.slice_(wanted, [0], shape=(max_indices,))
    size_of_block = splat_like(wanted, block_size)
    block = gather.take(table, E.floordiv(wanted, size_of_block), axis=0)
    start = E.mul(converted(block, dtype_of(wanted)), size_of_block)
    rows = E.add(start, E.mod(wanted, size_of_block))
    source = require_shaped_value("paged_gather", "src", src)
    count = shaped_type("paged_gather", "src", source).shape[0]
    columns = shape.slice_(source, [0, col_off], shape=(count, size))
    tile_space = space if space not in GLOBAL_SPACES else MemorySpace.Mat
    found = gather.take(columns, rows, axis=0, space=tile_space)
    return shape.transpose(found, perm=(1, 0)) if is_trans else found


spelled(gather.take, "pl.paged_gather", "pl.tensor.paged_gather", render=never)(paged_gather)


# --------------------------------------------------------------------------------------- scatters


def scatter_flat(dst: Value, src: Value, indexes: Value) -> Value:
    """dst with each element of src at the row-major place that its index names."""
    type_ = shaped_type("scatter", "dst", dst)
    return put_rows(dst, (element_count(type_.shape),), indexes, converted(src, type_.dtype))


def put_rows(dst: Value, rows: Shape, indexes: Value, src: Value) -> Value:
    """dst with elements, or rows, of its memory seen as `rows` replaced; a tensor is written."""
    type_ = shaped_type("scatter", "dst", dst)
    if same_dims(type_.shape, rows):
        return gather.put(dst, indexes, src, axis=0)
    updated = gather.put(shape.reshape(dst, shape=rows), indexes, src, axis=0)
    whole = shape.reshape(updated, shape=type_.shape)
    return whole if is_tile(dst) else memory.assemble(dst, whole, [0] * type_.rank)


def scatter_tile(dst: Any, src: Any, indexes: Any) -> Value:
    """dst with the elements of src placed by flattened index."""
    target = require_whole_value("scatter", "dst", dst)
    return scatter_flat(target, require_shaped_value("scatter", "src", src), indexes)


def scatter_tensor(
    input: Any,
    dim: int | None = None,
    index: Any = None,
    src: Any = None,
    *,
    mask_pattern: int | None = None,
    dst: Any = None,
) -> Value:
    """input with src placed along `dim` by `index`; or dst with input in the lanes of a pattern."""
    value = require_shaped_value("scatter", "input", input)
    if mask_pattern is not None:
        return scatter_mask(dst, value, mask_pattern)
    if index is None or src is None:
        raise InvalidOperationError(
            "scatter: index= and src= are needed, or mask_pattern= and dst="
        )
    source = converted(require_shaped_value("scatter", "src", src), dtype_of(value))
    return gather.put_along(value, index, source, axis=-1 if dim is None else int(dim))


def scatter_mask(dst: Any, src: Any, mask_pattern: int) -> Value:
    """dst with the elements of src in the lanes that the pattern marks."""
    target = require_whole_value("scatter_mask", "dst", dst)
    first, stride = lanes_of("scatter_mask", mask_pattern)
    lanes = lane_access(shaped_type("scatter_mask", "dst", target), first, stride)
    source = require_whole_value("scatter_mask", "src", src)
    return access.access_store(target, source, (), access=lanes)


spelled(gather.put_along, "pl.tensor.scatter", render=never)(scatter_tensor)
spelled(gather.put, "pl.tile.scatter", render=never)(scatter_tile)
spelled(
    gather.put,
    "pl.scatter",
    accepts=lambda *args, **_: len(args) > 1 and is_tile(args[1]),
    render=never,
)(scatter_tile)
spelled(gather.put_along, "pl.scatter", render=never)(scatter_tensor)
publish_tile(access.access_store, "scatter_mask", scatter_mask)


def scatter_update(input: Any, *args: Any, **kwargs: Any) -> Value:
    """(input, dim, index, src) or (input, index, src): the rows of input at the positions of a 2-D
    index replaced by the rows of src.
    """
    given: dict[str, Any] = dict(
        zip(("index", "src") if len(args) == 2 else ("dim", "index", "src"), args)
    )
    given.update(kwargs)
    if given.get("dim", -2) != -2 or "index" not in given or "src" not in given:
        raise InvalidOperationError("scatter_update: takes (input, dim=-2, index, src)")
    target = require_whole_value("scatter_update", "input", input)
    type_ = shaped_type("scatter_update", "input", target)
    width = type_.shape[-1]
    rows = (element_count(type_.shape[:-1]), width)
    index = require_whole_value("scatter_update", "index", given["index"])
    count = element_count(shaped_type("scatter_update", "index", index).shape)
    source = converted(require_whole_value("scatter_update", "src", given["src"]), type_.dtype)
    return put_rows(target, rows, flat(index), shape.reshape(source, shape=(count, width)))


publish(gather.put, "scatter_update", scatter_update, render=never)
spelled(gather.put, "pl.tensor.scatter_update", "pl.tile.scatter_update", render=never)(
    scatter_update
)


def mscatter(src: Any, idx: Any, output_tensor: Any) -> Value:
    """output_tensor with each element of the tile src at the row-major place that idx names."""
    target = require_shaped_value("mscatter", "output_tensor", output_tensor)
    return scatter_flat(target, require_shaped_value("mscatter", "src", src), idx)


spelled(gather.put, "pl.mscatter", "pl.tile.mscatter", render=never)(mscatter)
