"""Asking memory for what loops over lanes will need (`ahead.py` says which of them ask)."""

from __future__ import annotations

from tilewright.codegen.emitter import Emitter
from tilewright.codegen.formats import MEMORY_ELEMENT
from tilewright.codegen.index import Num
from tilewright.codegen.operands import LANES
from tilewright.codegen.streaming import are_known, offset_at
from tilewright.dataclass import dataclass
from tilewright.ir.affine import Expr, Symbol, as_expr, simplify
from tilewright.ir.core import Operation, Value
from tilewright.ops.touches import indices_of


@dataclass(frozen=True, slots=True)
class Fetch:
    """What to ask for: elements `where` of a buffer, lane by lane, `distance` elements on.

    From lane `end` on, where the row ends on the way, it is what comes `turn` after that.
    """

    buffer: Value
    where: tuple[Expr, ...]
    lane: Symbol
    distance: Expr
    end: Expr | None = None
    turn: Expr = as_expr(0)


def fetch_of(op: Operation, lane: Symbol, distance: Expr) -> Fetch:
    """What is `distance` elements after the lanes of a load."""
    return Fetch(op.operands[0], indices_of(op), lane, distance)


def fetch_ahead(e: Emitter, op: Operation, start: Num, copies: int) -> None:
    """Has a loop over lanes ask for what it has to, for the vectors from lane `start` on."""
    for fetch in e.shared.ahead.get(op, ()):
        if not are_known(e, fetch.where, fetch.lane):
            continue
        buffer = e.buffer(fetch.buffer)
        offset = offset_at(e, buffer, fetch.where, fetch.lane, start)
        offset = e.index.add(offset, distance_from(e, fetch, start))
        first = e.index.place(buffer.pointer, offset, MEMORY_ELEMENT[buffer.dtype])
        for copy in range(copies):
            place = e.index.place(first, LANES * copy, MEMORY_ELEMENT[buffer.dtype])
            e.text.fetch(place)


def distance_from(e: Emitter, fetch: Fetch, start: Num) -> Num:
    """How many elements on to ask at lane `start`."""
    way = e.dim(simplify(fetch.distance))
    if fetch.end is None or isinstance(start, int):
        return way
    text = e.text
    turned = e.index.add(way, e.dim(simplify(fetch.turn)))
    is_past = text.let(f"icmp sge i64 {start}, {e.dim(simplify(fetch.end))}")
    return text.let(f"select i1 {is_past}, i64 {turned}, i64 {way}")
