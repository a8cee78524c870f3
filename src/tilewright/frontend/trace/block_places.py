"""Blocks of one allocated tensor that share a place: which are read after another was written."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING

from tilewright.dataclass import dataclass
from tilewright.errors import TilewrightError
from tilewright.errors.nki_memory import ALLOCATION_OVERLAP
from tilewright.frontend.trace.predicates import Terms
from tilewright.frontend.trace.scopes import DeviceRegion, IfScope, LoopScope
from tilewright.ir.affine import Symbol, evaluate
from tilewright.ir.affine.access import Access
from tilewright.ir.affine.constraints import Constraint
from tilewright.source import Span

if TYPE_CHECKING:
    from tilewright.frontend.trace.roots import Root

MOST_EVENTS = 1 << 18
"""Reads and writes of a kernel that are followed; what comes after is not looked at."""
UNKNOWN_TRIP = 2
"""Iterations that stand for those of a loop whose number only the run knows."""
Env = Mapping[Symbol, int]


@dataclass(frozen=True)
class Touch:
    """A read or write of a tensor of several blocks, in the order of the trace."""

    root: Root
    access: Access
    regions: tuple[DeviceRegion, ...]
    span: Span | None
    is_write: bool

    def blocks(self, env: Env) -> Iterator[int]:
        """The numbers of the blocks that it touches in one iteration."""
        axis = self.root.partition_axis
        extents = self.root.shape[:axis]
        for point in itertools.product(*(range(int(extent)) for extent in self.access.domain)):
            at = {**env, **dict(zip(self.access.dims, point))}
            number = 0
            for extent, expr in zip(extents, self.access.map):
                number = number * extent + evaluate(expr, at)
            yield number

    def of_blocks(self) -> Touch:
        """The same touch, with the dims along which the block varies and no others."""
        axis = self.root.partition_axis
        kept = [
            (dim, extent)
            for dim, extent in zip(self.access.dims, self.access.domain)
            if any(dim in expr.terms for expr in self.access.map[:axis])
        ]
        dims, domain = tuple(d for d, _ in kept), tuple(e for _, e in kept)
        access = Access(self.access.map[:axis], domain, dims, ())
        return Touch(self.root, access, self.regions, self.span, self.is_write)


@dataclass
class Blocks:
    """The blocks of one tensor: which share a place, which were written, and by what replaced."""

    sharing: dict[int, list[int]]
    written: set[int] = field(default_factory=set[int])
    replaced: dict[int, tuple[int, Touch]] = field(default_factory=dict[int, "tuple[int, Touch]"])

    @staticmethod
    def of(root: Root) -> Blocks:
        """The blocks of a tensor, of which none has been written."""
        numbered = list(enumerate(root.places))
        pairs = itertools.permutations(numbered, 2)
        sharing: dict[int, list[int]] = {}
        for (number, place), (other, at) in pairs:
            if place.meets(at):
                sharing.setdefault(number, []).append(other)
        return Blocks(sharing)

    def write(self, number: int, touch: Touch) -> None:
        """A block gets new elements, and those in its place lose theirs."""
        self.written.add(number)
        self.replaced.pop(number, None)
        for other in self.sharing.get(number, ()):
            self.replaced[other] = number, touch

    def lost(self, number: int) -> tuple[int, Touch] | None:
        """What has replaced a block that had been written."""
        return self.replaced.get(number) if number in self.written else None


def spoiled_blocks(touches: Sequence[Touch]) -> list[TilewrightError]:
    """An error for each tensor one of whose blocks is read after another took its place."""
    blocks = {touch.root: Blocks.of(touch.root) for touch in touches}
    looked_at = [touch.of_blocks() for touch in touches if blocks[touch.root].sharing]
    found: dict[Root, TilewrightError] = {}
    for touch, env in itertools.islice(events(looked_at, 0, {}), MOST_EVENTS):
        state = blocks[touch.root]
        try:
            numbers = list(touch.blocks(env))
        except KeyError:  # a block that only the run knows
            continue
        for number in numbers:
            lost = None if touch.is_write else state.lost(number)
            if touch.is_write:
                state.write(number, touch)
            elif lost is not None and touch.root not in found:
                found[touch.root] = _overlap(touch, number, *lost)
    return list(found.values())


def events(touches: Sequence[Touch], depth: int, env: Env) -> Iterator[tuple[Touch, Env]]:
    """The touches as they happen: loop by loop, iteration by iteration."""

    def region(touch: Touch) -> DeviceRegion | None:
        return touch.regions[depth] if len(touch.regions) > depth else None

    for scope, group in itertools.groupby(touches, region):
        inside = list(group)
        if scope is None:
            yield from ((touch, env) for touch in inside)
        elif isinstance(scope, IfScope):
            if _may_hold(scope.condition, env):
                yield from events(inside, depth + 1, env)
        else:
            symbol = scope.symbol if isinstance(scope, LoopScope) else None
            trip = scope.trip if isinstance(scope, LoopScope) else None
            for iteration in range(UNKNOWN_TRIP if trip is None else trip):
                at = env if symbol is None else {**env, symbol: iteration}
                yield from events(inside, depth + 1, at)


def _may_hold(condition: Terms, env: Env) -> bool:
    return any(all(_holds(each, env) for each in conjunction) for conjunction in condition)


def _holds(constraint: Constraint, env: Env) -> bool:
    try:
        value = evaluate(constraint.expr, env)
    except KeyError:
        return True
    return value == 0 if constraint.is_equality else value >= 0


def _overlap(read: Touch, number: int, other: int, write: Touch) -> TilewrightError:
    root = read.root
    names = {"name": f"{root.label}[{other}]", "other": f"{root.label}[{number}]"}
    error = ALLOCATION_OVERLAP(span=write.span, where=str(root.places[number]), **names)
    return error.with_note(f"block {number} is read here", read.span)
