"""What a region that is one task uses, what it writes, and where its results live."""

from __future__ import annotations

from typing import Any

from tilewright.interp.blocks import region_inputs
from tilewright.interp.emit import Emitter, tuple_text
from tilewright.ir.affine import Expr, Symbol, symbols
from tilewright.ir.core import Operation, Value
from tilewright.ir.enums import ParamDirection
from tilewright.ir.types import ShapedType
from tilewright.ops import control
from tilewright.ops.control import tied_pairs


def loop_inputs(op: Operation) -> list[Value]:
    """What a loop uses of what is defined around it."""
    return list(dict.fromkeys([*op.inputs, *region_inputs(op.regions[0])]))


def is_literal(e: Emitter, value: Value) -> bool:
    """True for a value that stands in the text as a number."""
    return not e.name(value).isidentifier()


def symbol_names(e: Emitter, op: Operation) -> list[str]:
    """Names of the extents that the operations of a region mention."""
    found: set[Symbol] = set()
    for inner in (op, *(each for region in op.regions for each in region.walk())):
        for part in (*inner.attrs.values(), *(value.type for value in inner.results)):
            _collect(part, found)
    return [e.symbols[symbol] for symbol in found if symbol in e.symbols]


def _collect(part: Any, found: set[Symbol]) -> None:
    if isinstance(part, Expr):
        found.update(symbols(part))
    elif isinstance(part, tuple):
        for item in part:  # pyright: ignore[reportUnknownVariableType]
            _collect(item, found)
    elif hasattr(part, "__dataclass_fields__"):
        for name in part.__dataclass_fields__:
            _collect(getattr(part, name), found)


def home_of(value: Value, op: Operation) -> Value | None:
    """The value around `op` whose memory `value`, made inside it, takes over; None for none."""
    inside = _made_in(op)
    while value in inside:
        earlier = _earlier(value)
        if earlier is None:
            return None
        value = earlier
    return value if isinstance(value.type, ShapedType) else None


def _made_in(op: Operation) -> set[Value]:
    made = set(op.results)
    for region in op.regions:
        made.update(region.params)
        for each in region.walk():
            made.update(each.results, *(block.params for block in each.regions))
    return made


def _earlier(value: Value) -> Value | None:
    """The value whose memory `value` takes over."""
    op = value.op
    if op is None:
        return None
    tied = dict(tied_pairs(op)).get(value)
    if tied is not None:
        return tied
    if op.opdef in (control.for_, control.while_):
        return op.operands[-1][op.results.index(value)]
    if op.opdef in (control.scope, control.if_):
        return op.regions[0].terminator.operands[0][op.results.index(value)]
    return None


def room_for(e: Emitter, value: Value, home: Value | None) -> str:
    """Memory, made now, for a tensor that a task gives and that is its own."""
    if home is not None or not isinstance(value.type, ShapedType):
        return ""
    name = e.text.fresh("room")
    dtype = e.text.constant(value.type.dtype.numpy)
    e.text.line(f"{name} = np.zeros({e.extents(value.type.shape)}, {dtype})")
    return name


def is_read(e: Emitter, op: Operation, value: Value) -> bool:
    """True when a region may read what it writes: all but Out arguments of calls may be."""
    return any(
        value in inner.inputs and not _only_written(e, inner, value)
        for region in op.regions
        for inner in region.walk()
    )


def _only_written(e: Emitter, op: Operation, value: Value) -> bool:
    if op.opdef is not control.call:
        return False
    directions = e.mode.facts.program[op.attrs["callee"]].directions
    ways = {way for given, way in zip(op.operands[0], directions, strict=True) if given is value}
    return ways == {ParamDirection.Out}


def arrays(e: Emitter, values: list[Value], op: Operation) -> str:
    """The arrays among `values`, without those that order nothing."""
    skipped = dict(op.attrs["attrs"]).get("no_dep_args", ())
    marked = _unordered(op)
    return tuple_text(
        [
            e.name(value)
            for value in values
            if isinstance(value.type, ShapedType)
            and value.name not in skipped
            and value not in marked
        ]
    )


def _unordered(op: Operation) -> set[Value]:
    """The arguments of the submitted call that are marked pl.no_dep."""
    found: set[Value] = set()
    if op.opdef is control.scope and op.attrs["kind"] == "submit":
        for inner in op.regions[0].walk():
            if inner.opdef is control.call:
                positions = dict(inner.attrs["attrs"]).get("no_dep", ())
                found.update(inner.operands[0][position] for position in positions)
    return found
