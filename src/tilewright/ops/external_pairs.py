"""Pairs of calls of functions in C++: of a cube and a vector one, next to each other in a group.

Where the second call needs what the group computes from the first one, there is no pair.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tilewright.dataclass import dataclass
from tilewright.ir.core import Block, Function, Operation, Program, Value
from tilewright.ir.enums import Effect, FunctionType, ParamDirection
from tilewright.ops import control, external


@dataclass(frozen=True)
class Call:
    """A call of a function in C++ that is one side of a group."""

    op: Operation
    function: Function

    @property
    def is_vector(self) -> bool:
        """True for a call that the vector lanes make."""
        return self.function.func_type is FunctionType.AIV

    @property
    def args(self) -> Sequence[Value]:
        """What it passes."""
        return self.op.operands[0]

    @property
    def written(self) -> list[int]:
        """The numbers of the parameters that it writes."""
        ways = self.function.directions
        return [k for k, way in enumerate(ways) if way is not ParamDirection.In]

    def positions(self) -> Iterator[tuple[Value, int]]:
        """Each result, and the number of the parameter whose new version it is."""
        returned, _ = self.function.body.terminator.operands
        params = self.function.params
        numbers = [*map(params.index, returned), *self.op.attrs["tied_args"]]
        return zip(self.op.results, numbers, strict=True)


@dataclass(frozen=True)
class Pair:
    """Two calls, one of each core, in the order in which they stand."""

    first: Call
    second: Call

    @property
    def calls(self) -> tuple[Call, Call]:
        """Both, the cube core's first."""
        return (self.second, self.first) if self.first.is_vector else (self.first, self.second)

    def roots(self, call: Call) -> list[Value]:
        """What a call passes, as it was before the pair."""
        before = {result: self.first.args[number] for result, number in self.first.positions()}
        return [before.get(value, value) for value in call.args]

    def is_sound(self) -> bool:
        """True unless a call reads a copy of what it writes."""
        for call in self.calls:
            roots = self.roots(call)
            if any(roots.count(roots[number]) > 1 for number in call.written):
                return False
        return True


def is_group(function: Function) -> bool:
    """True for a function whose calls are sides of one kernel."""
    return function.func_type is FunctionType.Group


def is_cluster(op: Operation) -> bool:
    """True for a scope whose calls are sides of one kernel."""
    return op.opdef is control.scope and op.attrs["kind"] == "cluster"


def group_blocks(function: Function) -> Iterator[Block]:
    """The blocks of a function that groups or clusters are made of."""
    if is_group(function):
        yield from blocks_in(function.body)
    else:
        for op in function.body.walk():
            if is_cluster(op):
                yield from blocks_in(op.regions[0])


def blocks_in(block: Block) -> Iterator[Block]:
    """A block and those in it."""
    yield block
    for op in block.walk():
        yield from op.regions


def find_pairs(program: Program, block: Block) -> Mapping[Operation, Pair]:
    """The pairs of calls in a block, by the second one."""
    found: dict[Operation, Pair] = {}
    first: Call | None = None
    for op in block.ops:
        call = side_in_cpp(program, op)
        pair = Pair(first, call) if first and call else None
        if pair and first and call and first.is_vector != call.is_vector and pair.is_sound():
            found[op] = pair
            first = None
        elif call:
            first = call
        elif first and not is_between(op, first):
            first = None
    return found


def side_in_cpp(program: Program, op: Operation) -> Call | None:
    """`op` as a call of a function in C++ that is one side only, or None."""
    if op.opdef is not control.call:
        return None
    function = program.get_function(op.attrs["callee"])
    if function is None or not external.is_external(function):
        return None
    return None if "vector_source" in function.attrs else Call(op, function)


def is_between(op: Operation, first: Call) -> bool:
    """True for what may as well be done before a call."""
    is_free = op.opdef.effect is Effect.PURE and not op.regions and not op.opdef.terminator
    return is_free and not set(first.op.results).intersection(op.inputs)
