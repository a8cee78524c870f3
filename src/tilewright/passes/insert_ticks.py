"""Clocks around the nests of a loop-level function, and the author's lines that each is made of.

A nest is a product, a copy, or a loop with at most loops over lanes inside. A loop around those
that threads would share runs one iteration after the other, as does all inside it, so that every
moment belongs to one nest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from tilewright.dataclass import dataclass
from tilewright.dtypes import INDEX, INT64
from tilewright.ir.builder import Builder
from tilewright.ir.core import Block, Function, Operation, Program, Value
from tilewright.ir.enums import ForKind, MemorySpace, ParamDirection
from tilewright.ir.rewrite import Cloner, copy_function
from tilewright.ir.types import BufferType, ScalarType
from tilewright.ops import arith, control, loop
from tilewright.ops.long_words import LONG_WORDS
from tilewright.source import Span

SHARED = (ForKind.Parallel, ForKind.Spmd)
LONG_WEIGHT, USUAL_TRIP = 10.0, 64.0
Shares = dict[Span, float]
"""Lines, and the part of a nest's time that each has; the parts add up to 1."""


@dataclass
class Ticked:
    """A program with clocks: entry k + 1 of its last parameter is the time of nest k."""

    program: Program
    nests: list[tuple[str, Shares]] = field(default_factory=list["tuple[str, Shares]"])


def insert_ticks(program: Program, entry: str) -> Ticked:
    """The loop-level `entry` of `program` with one more parameter, the INT64 table of times."""
    function = program[entry]
    count = sum(1 for op in function.body.walk() if is_nest(op))
    size = count + 2
    table = Value(BufferType((size,), INT64, (1,), MemorySpace.DDR), "ticks")
    builder, ticked = Builder(), Ticked(program)
    with builder:
        cloner = _Ticker(builder, table, ticked)
        body = Block((*cloner.params(function.body), table))
        with builder.inside(body):
            loop.tick(table, slot=size - 1)
            cloner.body(function.body)
        directions = (*function.directions, ParamDirection.InOut)
        made: Function = copy_function(function, body, directions=directions)
    ticked.program = Program(program.name, {entry: made}, program.span)
    return ticked


def is_nest(op: Operation) -> bool:
    """True for an operation that gets a clock, where it stands among others that do."""
    if op.opdef in (loop.matmul, loop.copy):
        return True
    return op.opdef is control.for_ and not _holds_nests(op)


def _holds_nests(op: Operation) -> bool:
    """True for a loop whose iterations are worth clocks of their own."""
    if op.attrs.get("kind") is ForKind.Lanes:
        return False
    return any(
        inner.opdef in (loop.matmul, loop.copy)
        or (inner.opdef is control.for_ and inner.attrs["kind"] is not ForKind.Lanes)
        for inner in op.regions[0].walk()
    )


class _Ticker(Cloner):
    def __init__(self, builder: Builder, table: Value, ticked: Ticked) -> None:
        super().__init__(builder)
        self.table = table
        self.ticked = ticked
        self.inside = False
        self.in_order = False

    def clone(self, op: Operation) -> Operation:
        if self.inside or not is_nest(op):
            return self._around(op)
        self.inside = True
        new = super().clone(op)
        self.inside = False
        self.ticked.nests.append((op.opdef.name, shares_of(op)))
        loop.tick(self.table, slot=len(self.ticked.nests))
        return new

    def _around(self, op: Operation) -> Operation:
        outer = self.in_order
        self.in_order = outer or (not self.inside and op.attrs.get("kind") in SHARED)
        new = super().clone(op)
        self.in_order = outer
        return new

    def attrs(self, op: Operation) -> Mapping[str, Any]:
        given = super().attrs(op)
        if self.in_order and given.get("kind") in SHARED:
            return {**given, "kind": ForKind.Sequential}
        return given


def shares_of(nest: Operation) -> Shares:
    """The author's lines in a nest, by the work of their words; its own line if it only moves."""
    found: Shares = {}
    _add_shares(nest, 1.0, found)
    if not found and nest.span is not None:
        return {nest.span: 1.0}
    total = sum(found.values())
    return {span: weight / total for span, weight in found.items()}


def _add_shares(nest: Operation, times: float, found: Shares) -> None:
    """Adds the work of the words in a nest that runs `times` times, by line."""
    if nest.opdef is control.for_:
        times *= _trip(nest)
    for op in (op for region in nest.regions for op in region.ops):
        if op.span is not None and _is_work(op):
            weight = LONG_WEIGHT if op.opdef in LONG_WORDS else 1.0
            found[op.span] = found.get(op.span, 0.0) + weight * times
        _add_shares(op, times, found)


def _trip(nest: Operation) -> float:
    """Iterations of a loop, where its bounds are constants."""
    makers = [value.op for value in list(nest.inputs)[:2]]
    bounds = [op.attrs["value"] for op in makers if op is not None and op.opdef is arith.const]
    if len(bounds) < len(makers):
        return USUAL_TRIP
    low, high = (float(bound) for bound in bounds)
    return max(1.0, high - low)


def _is_work(op: Operation) -> bool:
    if op.opdef is arith.const or len(op.results) != 1 or op.regions or op.opdef is loop.load:
        return False
    type_ = op.results[0].type
    return isinstance(type_, ScalarType) and type_.dtype is not INDEX
