"""Reading and writing views: loads of the current version, writes that give a new one."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from tilewright.errors.nki_control import (
    IMMUTABLE_PARAMETER,
    LOGIC_OR,
    UNEXPECTED_OUTPUT_DEPENDENCY,
)
from tilewright.errors.nki_tensors import (
    DTYPE_VALUE,
    FAILED_TO_INFER_TILE,
    INDICES_SHAPE,
    MASK_EXPRESSION,
    OUT_OF_BOUND,
    STORE_SHAPE,
    UNEXPECTED_OPERAND,
    UNSUPPORTED_MEMORY,
)
from tilewright.frontend.trace.ambient import current_api, nki_ctx, refusal
from tilewright.frontend.trace.index import TileMaskUnion, mask, require_affine
from tilewright.frontend.trace.predicates import Conjunction, ScalarPredicate, Terms
from tilewright.frontend.trace.roots import Root
from tilewright.frontend.trace.scopes import LoopScope
from tilewright.frontend.trace.tensors import nki_tensor, whole_tensor
from tilewright.frontend.trace.views import placed_axes
from tilewright.frontend.trace.windows import Window
from tilewright.ir.affine import Dim, Expr, Symbol, bounds, symbols, with_ranges
from tilewright.ir.affine.access import Access
from tilewright.ir.affine.constraints import Constraint
from tilewright.ir.affine.enumeration import points_of
from tilewright.ir.affine.questions import in_bounds, is_identity
from tilewright.ir.core import Value
from tilewright.ir.enums import MemorySpace, Rounding
from tilewright.ir.types import ShapedType
from tilewright.ops import access as access_ops
from tilewright.ops import creation, elementwise, memory, shape
from tilewright.ops.nki_dtypes import NAMES, find_dtype

if TYPE_CHECKING:
    from tilewright.dtypes import DType
    from tilewright.frontend.trace.sema import Sema

MASKS = (mask, TileMaskUnion)
EXHAUSTIVE = 1 << 22
"""Points that are enumerated to decide a bound which the affine engine leaves open."""


# ---------------------------------------------------------------------------- masks


def mask_terms(given: Any) -> Terms:
    """The alternatives of a `mask=` argument."""
    if given is None or isinstance(given, bool):
        return () if given is False else ((),)
    if isinstance(given, (mask, ScalarPredicate)):
        for conjunction in given.terms:
            for constraint in conjunction:
                require_compile_time(constraint)
        return given.terms
    if isinstance(given, nki_tensor):
        raise refusal(MASK_EXPRESSION, given=f"the elements of the tensor '{given.name}'")
    found = {"given": type(given).__name__, "wanted": "a mask"}
    raise refusal(UNEXPECTED_OPERAND, op=current_api(), name="mask", **found)


def require_compile_time(constraint: Constraint) -> None:
    """Refuses what a mask cannot depend on: quotients, remainders, elements of tiles."""
    require_affine(constraint)
    measured = nki_ctx().sema.measured
    if measured and not measured.isdisjoint(symbols(constraint.expr)):
        raise refusal(MASK_EXPRESSION, given=f"`{constraint}` is known when the kernel runs")


def fits(given: Any, extents: Sequence[Any]) -> bool:
    """True when each axis along which a mask varies is an axis of `extents`, of the same extent."""
    if not isinstance(given, MASKS):
        return True
    return all(
        axis <= len(extents) and given.shape[-axis] == extents[-axis]
        for axis in given.axes.values()
    )


def masked_access(access: Access, given: Any, conjunction: Conjunction) -> Access:
    """`access` where one alternative of the mask `given` holds; axes are matched by position."""
    if not fits(given, access.domain):
        raise refusal(INDICES_SHAPE, shapes=f"{given.shape} of the mask and {access.domain}")
    mapping = placed_axes(given.axes, access.dims) if isinstance(given, MASKS) else {}
    return access.masked(*(c.substitute(mapping) for c in conjunction))


def single_access(access: Access, given: Any) -> Access:
    """`access` under a mask without alternatives."""
    terms = mask_terms(given) or ((Constraint(Expr(-1, {})),),)
    if len(terms) > 1:
        raise refusal(LOGIC_OR, what="the mask of an operation that reads")
    return masked_access(access, given, next(iter(terms)))


def is_whole_access(access: Access, value: Value) -> bool:
    """True when an access of `value` is all of it, in order."""
    return is_identity(access, static_extents(value)) is True


# ---------------------------------------------------------------------------- bounds


def require_in_bounds(sema: Sema, root: Root, access: Access) -> None:
    """Refuses an access that leaves its tensor; what only the run knows is checked then."""
    guarded = access.masked(*sema.ctx.facts())
    answer = in_bounds(guarded, root.shape)
    if answer is None:
        answer = _is_inside_everywhere(guarded, root.shape)
    if answer is False:
        axis = _worst_axis(guarded, root.shape)
        low, high = bounds(guarded.map[axis])
        raise refusal(
            OUT_OF_BOUND,
            name=root.label,
            axis=axis,
            range=[low, high],
            extent=root.shape[axis],
        )


def require_window_in_bounds(sema: Sema, root: Root, window: Window) -> None:
    """Refuses a window that leaves its tensor."""
    if not window.is_inside(root.shape):
        require_in_bounds(sema, root, window.access)


def _worst_axis(access: Access, extents: Sequence[int]) -> int:
    for axis, (expr, extent) in enumerate(zip(access.map, extents)):
        low, high = bounds(expr)
        if low is None or high is None or low < 0 or high >= extent:
            return axis
    return 0


def _is_inside_everywhere(access: Access, extents: Sequence[int]) -> bool | None:
    """The answer by enumeration; None when there are too many points."""
    points = points_of(with_ranges((*access.dims, *access.free_symbols)), EXHAUSTIVE)
    if points is None:
        return None
    inside = points.where(access.constraints)
    pairs = [(inside.value_of(expr), extent) for expr, extent in zip(access.map, extents)]
    return inside.count == 0 or all(at.min() >= 0 and at.max() < n for at, n in pairs)


# ---------------------------------------------------------------------------- windows


def _scalars(sema: Sema, offsets: Sequence[Dim]) -> tuple[Value, ...]:
    return tuple(
        sema.index(offset) if isinstance(offset, int) else sema.scalar(offset) for offset in offsets
    )


# ---------------------------------------------------------------------------- reading


def read(sema: Sema, tensor: nki_tensor, mask: Any = None) -> Value:
    """The elements of an on-chip view; where the mask does not hold they are 0."""
    require_on_chip(tensor)
    return fetch(sema, tensor, mask, tensor.root.space)


def read_operand(sema: Sema, tensor: nki_tensor, mask: Any) -> Value:
    """The elements of an operand of an operation under `mask`.

    The result is undefined where the mask does not hold, so the mask matters only where the
    operand itself leaves its tensor.
    """
    require_on_chip(tensor)
    needed = mask if leaves_its_tensor(sema, tensor, mask) else None
    return fetch(sema, tensor, needed, tensor.root.space)


def leaves_its_tensor(sema: Sema, tensor: nki_tensor, mask: Any) -> bool:
    """True for a view with elements outside of its tensor, which `mask` may leave out."""
    if mask is None or tensor.is_whole or not fits(mask, tensor.shape):
        return False
    return not in_bounds(tensor.access.masked(*sema.ctx.facts()), tensor.root.shape)


def require_on_chip(tensor: nki_tensor) -> None:
    """Refuses a tensor in HBM, and one whose first dimension is not the partition dimension."""
    root = tensor.root
    if root.is_hbm:
        where = {"wanted": "sbuf or psum", "given": "hbm"}
        raise refusal(UNSUPPORTED_MEMORY, op=current_api(), name=root.label, **where)
    if tensor.partition_axis:
        raise refusal(FAILED_TO_INFER_TILE, name=root.label, shape=list(tensor.shape))


def fetch(sema: Sema, tensor: nki_tensor, mask: Any, space: MemorySpace) -> Value:
    """The elements of any view, as a tile in `space`."""
    root = tensor.root
    sema.note_read(tensor)
    if tensor.is_indirect:
        return sema.fetch_rows(tensor, mask, space)
    window = tensor.window if mask is None else None
    if window is not None:
        return _fetched_window(sema, tensor, window, space)
    access = single_access(tensor.access, mask)
    require_in_bounds(sema, root, access)
    version = sema.version_of(root)
    if not root.is_hbm and is_identity(access, root.shape):
        return version
    scalars = sema.values_of(access.free_symbols)
    return access_ops.access_load(version, scalars, access=access, space=space)


def _fetched_window(sema: Sema, tensor: nki_tensor, window: Window, space: MemorySpace) -> Value:
    root = tensor.root
    version = sema.version_of(root)
    if not root.is_hbm and window.is_whole(root.shape):
        return version
    require_window_in_bounds(sema, root, window)
    offsets = _scalars(sema, window.offsets)
    if not root.is_hbm:
        return shape.slice_(version, offsets, shape=window.extents, drop_dims=window.dropped)
    value = memory.load(version, offsets, shapes=window.extents, target_memory=space)
    return shape.reshape(value, shape=tensor.shape) if window.dropped else value


def reinterpreted(sema: Sema, tensor: nki_tensor, dtype: Any) -> nki_tensor:
    """The bytes of `tensor` as elements of another type; the last extent follows."""
    wanted = require_dtype(dtype)
    root = tensor.root
    if wanted is root.dtype:
        return tensor
    version = sema.version_of(root) if tensor.is_whole else fetch(sema, tensor, None, root.space)
    last = tensor.shape[-1] * root.dtype.nbytes // wanted.nbytes
    value = shape.reinterpret(version, dtype=wanted, shape=(*tensor.shape[:-1], last))
    return whole_tensor(sema.new_root(value, root.space, is_mutable=not root.is_hbm))


def require_dtype(given: Any) -> DType:
    """The element type that `given` names; refuses what the language does not have."""
    found = find_dtype(given)
    if found is None:
        raise refusal(DTYPE_VALUE, given=given, supported=", ".join(NAMES.values()))
    return found


# ---------------------------------------------------------------------------- writing


def write(sema: Sema, tensor: nki_tensor, value: Value, mask: Any = None) -> None:
    """Gives the root of `tensor` a version with `value` at the view, where the mask holds."""
    root = tensor.root
    require_writable(root)
    sema.note_write(tensor)
    if tensor.is_indirect:
        sema.put_rows(tensor, value, mask)
        return
    window = tensor.window if mask is None else None
    if window is not None:
        _write_window(sema, root, window, value)
        return
    for conjunction in mask_terms(mask):
        access = masked_access(tensor.access, mask, conjunction)
        require_in_bounds(sema, root, access)
        _require_distinct_places(sema, root, access.free_symbols)
        scalars = sema.values_of(access.free_symbols)
        version = sema.version_of(root)
        sema.advance(root, access_ops.access_store(version, value, scalars, access=access))


def _write_window(sema: Sema, root: Root, window: Window, value: Value) -> None:
    require_window_in_bounds(sema, root, window)
    _require_distinct_places(sema, root, window.symbols)
    version = sema.version_of(root)
    leading = tuple(range(len(window.dropped)))
    if root.is_hbm and window.dropped != leading:
        access = window.access
        scalars = sema.values_of(access.free_symbols)
        sema.advance(root, access_ops.access_store(version, value, scalars, access=access))
        return
    offsets = _scalars(sema, window.offsets)
    if root.is_hbm:
        sema.advance(root, memory.store(value, offsets, version))
    else:
        value = reshaped_to(value, window.extents)
        sema.advance(root, memory.assemble(version, value, offsets))


def accumulated_version(sema: Sema, target: nki_tensor) -> Value:
    """The version of a whole tensor that is about to be accumulated into."""
    require_writable(target.root)
    version = sema.version_of(target.root)
    _require_distinct_places(sema, target.root, ())
    return version


def require_writable(root: Root) -> None:
    """Refuses a write to a parameter that is not declared mutable."""
    if not root.is_mutable:
        raise refusal(IMMUTABLE_PARAMETER, name=root.label)


def _require_distinct_places(sema: Sema, root: Root, used: Collection[Symbol]) -> None:
    """Refuses a write that every iteration of an affine loop makes to the same place.

    `used` are the symbols that the place depends on.
    """
    for region in sema.ctx.regions[root.depth :]:
        if not isinstance(region, LoopScope) or region.symbol in used:
            continue
        region.has_dependence = True
        accumulates = not root.is_hbm and root in region.outer
        if region.forbids_same_place and not accumulates:
            raise refusal(UNEXPECTED_OUTPUT_DEPENDENCY, name=root.label, loop=region.name)


def assign(sema: Sema, target: nki_tensor, value: Any) -> None:
    """`target[...] = value`: converts, broadcasts and writes.

    Writing a view to itself is nothing. The result of a masked operation is written where its mask
    holds; the other elements of the target stay.
    """
    if isinstance(value, nki_tensor) and _same_place(target, value):
        return
    if target.root.is_hbm:
        raise refusal(
            UNSUPPORTED_MEMORY,
            op="assignment",
            name=target.name,
            wanted="sbuf or psum",
            given="hbm, which is written with nl.store",
        )
    given, where = fitted(sema, target, value), defined_where(value, target.shape)
    if isinstance(where, Value):
        given = elementwise.select(where, given, fetch(sema, target, None, target.root.space))
        where = None
    write(sema, target, given, where)


def defined_where(value: Any, extents: tuple[int, ...]) -> Any:
    """The mask of what an operation has just made as a tile of `extents`; None: it has none."""
    if not isinstance(value, nki_tensor) or not value.is_whole or value.shape != extents:
        return None
    return value.root.mask if fits(value.root.mask, extents) else None


def _same_place(target: nki_tensor, value: nki_tensor) -> bool:
    if value.root is not target.root or value.shape != target.shape:
        return False
    there, here = value.window, target.window
    if there is not None or here is not None:
        return there == here
    moved = dict(zip(value.access.dims, target.access.dims))
    return value.access.substitute(moved).map == target.access.map


def fitted(sema: Sema, target: nki_tensor, value: Any, mask: Any = None) -> Value:
    """`value` (a tile or a number) as a value of the element type and shape of `target`."""
    dtype = target.root.dtype
    if isinstance(value, nki_tensor):
        return _fitted_tile(sema, target, value, dtype, mask)
    given = host_number(value)
    if given is not None:
        number = float(given) if dtype.is_float() else int(given)
        space = MemorySpace.Sbuf if target.root.is_hbm else target.root.space
        fill = bool(number) if dtype.kind == "bool" else number
        return creation.full(shape=target.shape or (1, 1), dtype=dtype, value=fill, space=space)
    raise refusal(
        UNEXPECTED_OPERAND,
        op=current_api(),
        name="value",
        given=type(value).__name__,
        wanted="a tile or a number",
    )


def host_number(given: Any) -> bool | int | float | None:
    """A Python number, also from a numpy scalar; None for anything else."""
    if isinstance(given, np.generic):
        given = cast("np.generic[Any]", given).item()
    return given if isinstance(given, (bool, int, float)) else None


def _fitted_tile(
    sema: Sema, target: nki_tensor, value: nki_tensor, dtype: DType, mask: Any
) -> Value:
    source = read_operand(sema, value, mask if value.shape == target.shape else None)
    if value.root.dtype is not dtype:
        source = elementwise.cast(source, dtype=dtype, mode=Rounding.RINT)
    return reshaped_value(target, source)


def reshaped_value(target: nki_tensor, source: Value) -> Value:
    """`source` in the shape of `target`: equal but for extents of 1, or broadcast."""
    given, wanted = static_extents(source), target.shape
    if [e for e in given if e != 1] == [e for e in wanted if e != 1]:
        return reshaped_to(source, wanted)
    missing = len(wanted) - len(given)
    if missing < 0 or any(g not in (1, w) for g, w in zip(given, wanted[missing:])):
        raise refusal(
            STORE_SHAPE, op=current_api(), name=target.name, given=list(wanted), other=list(given)
        )
    return shape.broadcast_to(source, shape=wanted)


def static_extents(value: Value) -> tuple[int, ...]:
    """The extents of a tile value."""
    assert isinstance(value.type, ShapedType)
    return tuple(int(extent) for extent in value.type.shape)


def reshaped_to(value: Value, extents: tuple[int, ...]) -> Value:
    """`value` under another shape of as many elements."""
    return value if static_extents(value) == extents else shape.reshape(value, shape=extents)
