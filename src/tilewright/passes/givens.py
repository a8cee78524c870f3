"""What the sides of a group return: it goes to the other side through a pipe, or as memory that
both see, and to what follows the group through memory.

A side that returns something pushes it after the call, and where the other side leaves the call
out it pops it instead, so both have every value that both, or the other one, use. Of what two
vector lanes return the first one's goes out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import partial
from typing import TYPE_CHECKING

from tilewright.dataclass import dataclass
from tilewright.dtypes import INDEX, INT64
from tilewright.errors import UnsupportedFeatureError
from tilewright.ir.builder import Builder
from tilewright.ir.core import Block, Operation, Value
from tilewright.ir.enums import FunctionType, MemorySpace
from tilewright.ir.types import ScalarType, Shape, ShapedType, TileType, Type
from tilewright.ops import arith, control, creation, memory, pipe
from tilewright.ops.cast import cast
from tilewright.ops.pipe import RETURNED

if TYPE_CHECKING:
    from tilewright.passes.inline_calls import Inliner
    from tilewright.passes.versions import Versions

CUBE, VECTOR = 0, 1
HANDING = (control.for_, control.while_, control.if_, control.scope, control.yield_)
"""Operations that hand on what they do not look at."""
SIDES = (FunctionType.AIC, FunctionType.AIV)


def walk(ops: Iterable[Operation]) -> Iterator[Operation]:
    """Operations and everything inside them."""
    for op in ops:
        yield op
        for region in op.regions:
            yield from region.walk()


def own_results(call: Operation) -> tuple[Value, ...]:
    """What a call returns, but new versions of its arguments."""
    return call.results[: len(call.results) - len(call.attrs["tied_args"])]


@dataclass
class Givens:
    """What the calls of a group return: which side makes each call, and who wants a value.

    `pipes` has the pipe of each value that goes to the other side, `rooms` the memory of the
    group, as this side sees it, into which a value goes: its pipe says when it is there.
    """

    sides: Mapping[Operation, int]
    lanes: int
    versions: Versions
    pipes: dict[Value, int] = field(default_factory=dict[Value, int])
    rooms: Mapping[Value, Value] = field(default_factory=dict[Value, Value])

    def home(self, value: Value) -> int:
        """The side that has a value; the cube core where both have."""
        owner = self.versions.owner(value)
        if owner is not None:
            return owner
        return CUBE if value.op is None else self.sides.get(value.op, CUBE)

    def send(self, call: Operation, arm: Inliner) -> None:
        """Gives the other side what it wants of what a call has returned."""
        to = SIDES[1 - self.sides[call]]
        for result in (v for v in own_results(call) if v in self.pipes):
            given = arm.value(result)
            if result in self.rooms:
                arm.bind(result, into_room(self.rooms[result], given, arm.lane, self.lanes))
                given = Builder.current().index(0)
            push = partial(pipe.push, to=to, split=0, id=self.pipes[result])
            on_first(arm.lane, self.lanes, lambda g=given, push=push: push(as_tile(g)))

    def receive(self, call: Operation, arm: Inliner) -> None:
        """Takes what this side wants of a call that the other side makes."""
        Builder.current().span = call.span
        for result in own_results(call):
            if result in self.rooms:
                self.pop(call, result, Builder.current().index(0))
                arm.bind(result, self.rooms[result])
            elif result in self.pipes:
                arm.bind(result, self.pop(call, result, result))
            elif self.versions.owner(result) is not None:
                arm.bind(result, room_for(result))

    def pop(self, call: Operation, result: Value, like: Value) -> Value:
        """A value of the type of another one, from the pipe of a result."""
        source, type_, number = SIDES[self.sides[call]], carried_type(like), self.pipes[result]
        tile = pipe.pop(source=source, shape=type_.shape, dtype=type_.dtype, split=0, id=number)
        value = as_value(tile, like.type)
        pipe.free(tile, to=source, id=number)
        return value


def find_givens(
    ops: Sequence[Operation], sides: Mapping[Operation, int], lanes: int, versions: Versions
) -> Givens:
    """What the calls among `ops` give each other."""
    found = Givens(sides, lanes, versions)
    made = {value: sides[call] for call in sides for value in own_results(call)}
    wanted = list(versions.shared)
    for op in walk(ops):
        for value in op.inputs:
            home = made.get(value)
            is_kept = versions.owner(value) == home and op.opdef in HANDING
            if home not in (None, versions.doers.get(op)) and not is_kept:
                wanted.append(value)
    found.pipes.update((v, RETURNED - k) for k, v in enumerate(dict.fromkeys(wanted)))
    return found


def depending(ops: Sequence[Operation], made: Iterable[Value]) -> set[Value]:
    """The values that depend on what calls among `ops` return, these included."""
    found = set(made)
    for op in ops:
        inner = list(walk([op]))
        if any(value in found for each in inner for value in each.inputs):
            tied = op.attrs["tied_args"] if op.opdef is control.call else ()
            found.update(op.results[: len(op.results) - len(tied)])
    return found


# ----------------------------------------------------------------------------------- as tiles


def carried_type(value: Value) -> ShapedType:
    """The type of the tile that carries a value; raises UnsupportedFeatureError without any."""
    type_ = value.type
    if isinstance(type_, ScalarType):
        return TileType((1,), INT64 if type_.dtype is INDEX else type_.dtype)
    is_static = isinstance(type_, ShapedType) and all(isinstance(n, int) for n in type_.shape)
    if not isinstance(type_, ShapedType) or not is_static:
        raise UnsupportedFeatureError(
            f"{value.name or 'a value'} of type {type_}, which one side of a group returns, "
            "cannot be given to others"
        )
    return type_


def as_tile(value: Value) -> Value:
    """A tile that holds a value."""
    type_ = carried_type(value)
    if isinstance(value.type, TileType):
        return value
    if isinstance(value.type, ScalarType):
        number = cast(value, dtype=INT64) if value.type.dtype is INDEX else value
        return creation.splat(number, shape=(1,), space=MemorySpace.Vec)
    return memory.load(value, origin(type_.shape), shapes=type_.shape)


def as_value(tile: Value, type_: Type) -> Value:
    """The value of a type that a tile holds."""
    if isinstance(type_, ScalarType):
        number = memory.read(tile, origin((1,)))
        return cast(number, dtype=INDEX) if type_.dtype is INDEX else number
    assert isinstance(type_, ShapedType)
    if isinstance(type_, TileType):
        space = type_.space or MemorySpace.Vec
        return memory.move(tile, target_memory=space)
    room = creation.create(shape=type_.shape, dtype=type_.dtype)
    return memory.store(tile, origin(type_.shape), room)


def origin(shape: Shape) -> tuple[Value, ...]:
    """The first element."""
    return (Builder.current().index(0),) * len(shape)


def room_for(value: Value) -> Value:
    """A tensor for what a value will be."""
    type_ = carried_type(value)
    room = creation.create(shape=type_.shape, dtype=type_.dtype)
    room.name = value.name
    return room


def from_room(room: Value, type_: Type) -> Value:
    """The value of a type that was put into a tensor."""
    if isinstance(type_, ScalarType):
        return as_value(room, type_)
    if not isinstance(type_, TileType):
        return room
    assert isinstance(room.type, ShapedType)
    space = type_.space or MemorySpace.Vec
    return memory.load(room, origin(type_.shape), shapes=room.type.shape, target_memory=space)


def into_room(room: Value, value: Value, lane: Value | None, lanes: int) -> Value:
    """The next version of `room`, with what the first lane has."""

    def put() -> Value:
        return memory.store(as_tile(value), origin(carried_type(value).shape), room)

    found = on_first(lane, lanes, put, room)
    assert found is not None
    return found


def on_first(
    lane: Value | None, lanes: int, act: Callable[[], Value | None], otherwise: Value | None = None
) -> Value | None:
    """What `act` gives on the cube core and the first lane; `otherwise` on the second lane."""
    if lane is None or lanes == 1:
        return act()
    builder = Builder.current()
    is_first = arith.eq(lane, builder.index(0))
    arms: list[Block] = []
    for action in (act, lambda: otherwise):
        block = Block()
        with builder.inside(block):
            given = action()
            control.yield_(() if given is None else (given,))
        arms.append(block)
    branch = builder.emit(control.if_, (is_first,), {}, tuple(arms))
    return branch.results[0] if branch.results else None
