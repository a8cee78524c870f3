"""Nests that look like others of their kernel become functions, so that LLVM compiles one of each.

What differs between two such nests comes through an environment: buffers, and numbers by which
places in them are shifted. Whether two functions are one is decided by their text
(`Module.share`); here it is guessed, so that nests without an equal stay where they are.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence, Set

from tilewright.codegen.work import Work, estimate_one
from tilewright.dataclass import dataclass
from tilewright.dtypes import INDEX
from tilewright.ir.core import Block, Operation, Value
from tilewright.ops import arith, control, loop
from tilewright.ops.touches import is_pure

LEAST_NS = 1_000
"""A call takes some ten nanoseconds: what is over soon stays in place."""

SHIFTING = (arith.add, arith.sub, loop.load, loop.store, loop.view)
"""Operations whose constants may be numbers of run time at no cost: they are added to places."""

PLACELESS = (
    control.for_,
    control.if_,
    control.while_,
    loop.alloc,
    loop.copy,
    loop.load,
    loop.matmul,
    loop.store,
)
"""Operations that may do something and whose code does not name the author's line."""

Numbers = Sequence[tuple[Operation, Value]]


@dataclass(frozen=True, slots=True)
class Repeats:
    """`nests` that become functions; `shifts` are constants of operations that differ in them."""

    nests: Set[Operation]
    shifts: Mapping[Operation, Set[Value]]


def find_repeats(body: Block) -> Repeats:
    """The nests of `body`, inner ones too, that look like another and are worth a call."""
    finder = Finder()
    for op in body.ops:
        finder.look(op)
    nests: set[Operation] = set()
    shifts: dict[Operation, set[Value]] = {}
    for alike in finder.alike.values():
        if len(alike) > 1 and is_lasting(alike[0][0]):
            nests.update(nest for nest, _ in alike)
            for same in zip(*(numbers for _, numbers in alike), strict=True):
                if len({number(value) for _, value in same}) > 1:
                    for op, value in same:
                        shifts.setdefault(op, set()).add(value)
    return Repeats(nests, shifts)


def is_lasting(nest: Operation) -> bool:
    """Whether a nest runs long enough for a call, or may."""
    work: Work = estimate_one(nest)
    return any(work) or work.get((), 0.0) >= LEAST_NS


class Finder:
    """Collects nests by their looks, each with the numbers that may differ in it."""

    def __init__(self) -> None:
        self.alike: dict[Hashable, list[tuple[Operation, Numbers]]] = {}
        self.numbers: list[tuple[Operation, Value]] = []

    def look(self, op: Operation) -> Hashable:
        """What operations that are written alike have in common; None for what never is."""
        start = len(self.numbers)
        inner = [self.look(part) for region in op.regions for part in region.ops]
        if None in inner or not (is_pure(op) or op.opdef in PLACELESS or op.opdef.terminator):
            return None
        found = (op.opdef, *self.own_look(op), *inner)
        if op.opdef is control.for_ and not op.operands[3]:
            self.alike.setdefault(found, []).append((op, self.numbers[start:]))
        return found

    def own_look(self, op: Operation) -> Iterator[Hashable]:
        """What tells an operation from others of its kind: numbers and the layout of memory."""
        for value in op.inputs:
            if value.op is None or value.op.opdef is not arith.const:
                yield value.type if op.opdef in PLACELESS else None
            elif op.opdef in SHIFTING and value.op.attrs["dtype"] is INDEX:
                self.numbers.append((op, value))
                yield None
            else:
                yield number(value)


def number(constant: Value) -> int | float | bool:
    """The value of a constant."""
    assert constant.op is not None
    return constant.op.attrs["value"]
