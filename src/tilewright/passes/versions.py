"""Whose versions the tensors of a group are, and where they are while its sides run.

What a call writes is carried: memory that all see. That does for what exists before the sides run.
Of the rest, what one side alone works on is memory of that side, where each lane has what it works
on. What a call returns once is memory of the group, into which that call puts it. Anything else is
refused: it would need memory for each iteration of the group's loops.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from tilewright.errors import StaleRead, UnsupportedFeatureError
from tilewright.ir.core import Operation, Value
from tilewright.ir.enums import AtomicType
from tilewright.ir.types import TensorType
from tilewright.ops import control, memory, shape
from tilewright.ops.control import LOOPS, tied_pairs
from tilewright.ops.extents import expr_of
from tilewright.passes.givens import CUBE, HANDING, VECTOR, walk

Sides = Mapping[Operation, int]


class Versions:
    """The versions that calls among `ops`, each made by one of the `sides`, write.

    `written` are the first versions of what all sides see, of which `shared` are those that a call
    returns; `owners` has the side whose own the versions of others are. `last` has the last version
    of each. `doers` are the `sides`, and who puts parts back. Raises UnsupportedFeatureError.
    """

    def __init__(self, ops: Sequence[Operation], sides: Sides, lanes: int) -> None:
        self.before: dict[Value, Value] = {}
        self.written: list[Value] = []
        self.last: dict[Value, Value] = {}
        self.owners: dict[Value, int] = {}
        self.shared: list[Value] = []
        self.doers = dict(sides)
        for op in ops:
            self._note(op)
        for op in ops:
            for value in op.results:
                root = self.root(value)
                if root is not value and root in self.written:
                    self.last[root] = value
        made = {value for op in walk(ops) for value in op.results}
        for root in [root for root in self.written if root in made]:
            self._settle(root, ops, sides, lanes)

    def root(self, value: Value) -> Value:
        """The first version."""
        while value in self.before:
            value = self.before[value]
        return value

    def owner(self, value: Value) -> int | None:
        """The side whose own every version of a value is, or None."""
        return self.owners.get(self.root(value))

    def own_values(self, calls: Iterable[Operation]) -> Iterator[Value]:
        """Those results of calls that each side has for itself: no memory that all see."""
        for call in calls:
            for value in call.results:
                if self.root(value) not in self.written:
                    yield value

    def require_latest(self, value: Value) -> None:
        """Raises StaleRead for a version that another one has replaced."""
        root = self.root(value)
        if self.last.get(root, value) is not value:
            raise StaleRead(
                f"an earlier version of {root.name or 'a tensor'} is read after it was overwritten",
                value.op.span if value.op else None,
                hint="read it before the write, or write to another tensor",
            )

    def _note(self, op: Operation) -> None:
        if op.opdef is control.call:
            for result, arg in tied_pairs(op):
                self._write(result, arg)
        if is_put_back(op):
            target, source, _ = op.operands
            self._write(op.result, target)
            self.doers[op] = self.doers[source.op]
        if op.opdef in LOOPS:
            inits = op.operands[-1]
            for carried in (region.params[-len(inits) :] for region in op.regions if inits):
                self.before.update(zip(carried, inits))
            self.before.update(zip(op.results, inits))
        if op.opdef in (control.if_, control.scope):
            self.before.update(zip(op.results, op.regions[0].terminator.operands[0]))
        for region in op.regions:
            for inner in region.ops:
                self._note(inner)

    def _write(self, new: Value, old: Value) -> None:
        self.before[new] = old
        root = self.root(old)
        if root not in self.written:
            self.written.append(root)

    # ------------------------------------------------------- what does not exist before the sides

    def _settle(self, root: Value, ops: Sequence[Operation], sides: Sides, lanes: int) -> None:
        """Says where the versions of `root` are."""
        if not isinstance(root.type, TensorType) or not self._stays_apart(root, ops):
            raise refused(root, "changes places with another one")
        home = sides.get(root.op) if root.op else None
        is_of_each_lane = home == VECTOR and lanes > 1
        owner = self._find_owner(root, ops, sides)
        if owner == CUBE or (owner == VECTOR and (lanes == 1 or is_of_each_lane)):
            self.written.remove(root)
            self.owners[root] = owner
        elif is_of_each_lane:
            raise refused(root, "is one of each vector lane, and the cube core works on it")
        elif home is not None and root.op in ops:
            self.shared.append(root)
        else:
            raise refused(root, "is another one each time, and lanes or both sides work on it")

    def _find_owner(self, root: Value, ops: Sequence[Operation], sides: Sides) -> int | None:
        """The side that alone works on later versions of `root`, or None."""
        users: set[int] = set()
        for op in walk(ops):
            later = [value for value in op.inputs if self._is_later(value, root)]
            if op in sides and (later or any(self.root(arg) is root for _, arg in tied_pairs(op))):
                users.add(sides[op])
            elif later and op in self.doers:
                users.add(self.doers[op])
            elif later and op.opdef not in HANDING:
                return None
        return None if len(users) > 1 else users.pop()

    def _is_later(self, value: Value, root: Value) -> bool:
        return value is not root and self.root(value) is root

    def _stays_apart(self, root: Value, ops: Sequence[Operation]) -> bool:
        """True when no loop or branch gives a version of `root`, or something else, by turns."""
        pairs = (pair for op in walk(ops) for pair in handed_on(op))
        return all((self.root(one) is root) == (self.root(other) is root) for one, other in pairs)


def is_put_back(op: Operation) -> bool:
    """True where what a call has written into a part of a tensor goes to where the part is from.

    The tensor is none that a call has returned: its parts are there before they are written.
    """
    if op.opdef is not memory.assemble or op.attrs["valid"] is not None:
        return False
    target, source, offset = op.operands
    call = source.op
    if op.attrs["atomic"] is not AtomicType.None_ or call is None:
        return False
    part = first_version(source)
    if call.opdef is not control.call or part.op is None or part.op.opdef is not shape.slice_:
        return False
    whole, start, valid = part.op.operands
    first = first_version(whole)
    is_returned = first.op is not None and first.op.opdef is control.call
    same_place = [*map(expr_of, start)] == [*map(expr_of, offset)]
    return first is first_version(target) and same_place and valid is None and not is_returned


def first_version(value: Value) -> Value:
    """What a value was before calls, and what puts parts back, wrote it."""
    while value.op is not None:
        if value.op.opdef is control.call and value in dict(tied_pairs(value.op)):
            value = dict(tied_pairs(value.op))[value]
        elif value.op.opdef is memory.assemble:
            value = value.op.operands[0]
        else:
            break
    return value


def handed_on(op: Operation) -> Iterator[tuple[Value, Value]]:
    """Pairs of what the regions of an operation are given or yield, and the result that it is."""
    if op.opdef in LOOPS:
        yield from zip(op.operands[-1], op.results)
    for region in op.regions:
        if region.terminator.opdef is control.yield_:
            yield from zip(region.terminator.operands[0], op.results)


def refused(root: Value, why: str) -> UnsupportedFeatureError:
    """The refusal of what comes to be in a group and is written by calls of it."""
    return UnsupportedFeatureError(
        f"{root.name or 'a tensor'}, which comes to be while the sides of a group run and which "
        f"calls write, {why}",
        root.op.span if root.op else None,
        "Let the calls write into a tensor that exists before the first of them.",
    )
