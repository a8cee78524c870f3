"""Writes into a copy of an output under another shape, which nothing reads afterwards.

`pl.reshape` and its like give values: what is written into one is not written into the tensor
that it was made of.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tilewright.ir.core import Block, Function, Operation, Value
from tilewright.ir.enums import ParamDirection
from tilewright.ops import control, shape
from tilewright.ops.control import LOOPS, tied_pairs

COPIES = (shape.reshape, shape.transpose, shape.reinterpret)


class Flow:
    """Who uses the values of a function, and what becomes of them where regions end."""

    def __init__(self, function: Function) -> None:
        self.users: dict[Value, list[Operation]] = {}
        self.ends: dict[Operation, Operation] = {}
        for op in function.body.walk():
            for value in op.inputs:
                self.users.setdefault(value, []).append(op)
            for region in op.regions:
                self.ends[region.terminator] = op

    def heirs(self, value: Value, user: Operation) -> Iterator[Value]:
        """What is the same memory as `value` after `user`, or in its regions."""
        if user.opdef in LOOPS:
            yield from _carried(user, _places(user.operands[-1], value))
        elif user.opdef is control.yield_ and user in self.ends:
            yield from _carried(self.ends[user], _places(user.operands[0], value))

    def versions(self, value: Value) -> tuple[set[Value], list[Operation]]:
        """`value` and the same memory later; and what writes into it, in no order."""
        found, writes, pending = {value}, list[Operation](), [value]
        while pending:
            current = pending.pop()
            for user in self.users.get(current, ()):
                written = [new for new, old in tied_pairs(user) if old is current]
                writes += [user] * bool(written)
                fresh = {*written, *self.heirs(current, user)} - found
                found |= fresh
                pending += fresh
        return found, writes

    def reads(self, values: Iterable[Value]) -> bool:
        """True when something takes one of `values` but to hand it on or to write into it."""
        return any(
            all(old is not value for _, old in tied_pairs(user))
            and not any(self.heirs(value, user))
            for value in values
            for user in self.users.get(value, ())
        )


def _places(values: Iterable[Value], wanted: Value) -> list[int]:
    return [place for place, value in enumerate(values) if value is wanted]


def _carried(op: Operation, places: Iterable[int]) -> Iterator[Value]:
    """What a loop or branch carries at places: in its regions and as its results."""
    for place in places:
        yield op.results[place]
        if op.opdef in LOOPS:
            yield from (_own(region, len(op.results))[place] for region in op.regions)


def _own(region: Block, count: int) -> tuple[Value, ...]:
    return region.params[len(region.params) - count :]


def find_lost_writes(function: Function) -> Iterator[tuple[Value, Operation]]:
    """An output and the last write into a copy of it, for each copy that is written and then read
    by nobody."""
    directions = dict(zip(function.params, function.directions))
    outputs = [p for p, way in directions.items() if way is not ParamDirection.In]
    if not any(op.opdef in COPIES for op in function.body.walk()):
        return
    flow = Flow(function)
    for output in outputs:
        contents, _ = flow.versions(output)
        for op in function.body.walk():
            if op.opdef in COPIES and op.operands[0] in contents:
                _, writes = flow.versions(op.result)
                made = {result for write in writes for result in write.results}
                after = {each for value in made for each in flow.versions(value)[0]}
                if writes and not flow.reads(after):
                    yield output, writes[-1]
