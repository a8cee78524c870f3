"""Keep the tiles that a function computes in further Out tensors, one for each iteration.

`t = pl.load(...)` in a loop becomes that and `watch = pl.store(t, [i, ...], watch)`, which the
loop carries.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tilewright.dataclass import dataclass
from tilewright.ir.builder import Builder, finish_program
from tilewright.ir.core import Block, Function, Operation, Program, Value
from tilewright.ir.enums import ParamDirection
from tilewright.ir.rewrite import Cloner, copy_function
from tilewright.ir.types import ScalarType, TensorType, TileType
from tilewright.ops import arith, control, memory
from tilewright.ops.extents import constant_of

Step = tuple[int, int]
"""A position in a block, and the loop dimension of the watch that counts its iterations, or -1."""


@dataclass(frozen=True)
class Watch:
    """A tile to keep: the operation that gives it, and where that stands.

    `steps` are the operations around it, outermost first, and itself; `trips` the iterations of
    the loops around it whose number is known.
    """

    operation: Operation
    steps: tuple[Step, ...]
    trips: tuple[int, ...]

    @property
    def extents(self) -> tuple[int, ...]:
        """The shape of the tile."""
        type_ = self.operation.result.type
        assert isinstance(type_, TileType)
        return tuple(map(int, type_.shape))

    @property
    def type(self) -> TensorType:
        """The tensor it is kept in."""
        type_ = self.operation.result.type
        assert isinstance(type_, TileType)
        return TensorType((*self.trips, *self.extents), type_.dtype)

    @property
    def nbytes(self) -> int:
        """Bytes of that tensor."""
        return math.prod((*self.trips, *self.extents)) * self.type.dtype.nbytes


def find_watches(function: Function, limit: int) -> list[Watch]:
    """Every tile of `function` that can be kept, in program order.

    Of a tile that takes more than `limit` bytes over all iterations, the last one is kept.
    """
    return [
        watch if watch.nbytes <= limit else Watch(watch.operation, watch.steps, ())
        for watch in _watches(function.body, (), ())
    ]


def _watches(block: Block, steps: tuple[Step, ...], trips: tuple[int, ...]) -> list[Watch]:
    found: list[Watch] = []
    for place, op in enumerate(block.ops):
        if len(op.results) == 1 and not op.regions and _is_static_tile(op.result):
            found.append(Watch(op, (*steps, (place, -1)), trips))
        trip = _trip(op) if op.opdef is control.for_ else None
        inner = trips if trip is None else (*trips, trip)
        for region in op.regions:
            around = (place, -1 if trip is None else len(trips))
            found += _watches(region, (*steps, around), inner)
    return found


def _is_static_tile(value: Value) -> bool:
    type_ = value.type
    return isinstance(type_, TileType) and all(isinstance(extent, int) for extent in type_.shape)


def _trip(loop: Operation) -> int | None:
    """The iterations of a loop with constant bounds."""
    low, high, step = map(constant_of, loop.operands[:3])
    if low is None or high is None or not step:
        return None
    return max(0, -(-(int(high) - int(low)) // int(step)))


def watch_values(program: Program, entry: str, watches: Sequence[Watch]) -> Program:
    """`entry` of `program` with one more Out tensor for each of `watches`."""
    function = program[entry]
    params = tuple(Value(watch.type, f"watch_{k}") for k, watch in enumerate(watches))
    builder = Builder()
    with builder:
        cloner = _Watcher(builder, watches, params)
        body = Block((*cloner.params(function.body), *params))
        with builder.inside(body):
            cloner.body(function.body)
    directions = (*function.directions, *(ParamDirection.Out for _ in params))
    made = copy_function(function, body, directions=directions)
    return finish_program(program.name, {entry: made})


class _Watcher(Cloner):
    """Copies a function; `versions` are the tensors that keep tiles, as they are now."""

    def __init__(self, builder: Builder, watches: Sequence[Watch], params: Sequence[Value]) -> None:
        super().__init__(builder)
        self.versions = list(params)
        self.numbers = {watch.operation: number for number, watch in enumerate(watches)}
        self.watches = watches
        self.loops: list[tuple[Value, Operation]] = []
        self.carried: dict[Operation, list[int]] = {}

    def clone(self, op: Operation) -> Operation:
        if op in self.carried:
            return self._end(op)
        if op.opdef is control.return_:
            return self._return(op)
        inside = [self.numbers[o] for r in op.regions for o in r.walk() if o in self.numbers]
        new = self._carrying(op, inside) if inside else super().clone(op)
        if op in self.numbers:
            self._keep(self.numbers[op], new.result)
        return new

    def _keep(self, number: int, tile: Value) -> None:
        watch = self.watches[number]
        known = [loop for loop in self.loops if _trip(loop[1]) is not None] if watch.trips else []
        offsets = [self._iteration(index, loop) for index, loop in known]
        offsets += [self.builder.index(0) for _ in watch.extents]
        self.versions[number] = memory.store(tile, tuple(offsets), self.versions[number])

    def _iteration(self, index: Value, loop: Operation) -> Value:
        """How many iterations of `loop` came before the one at `index`."""
        low, step = (int(constant_of(entry) or 0) for entry in loop.operands[::2][:2])
        if (low, step) == (0, 1):
            return index
        assert isinstance(index.type, ScalarType)
        start, width = (self.builder.constant(n, index.type.dtype) for n in (low, step))
        return arith.floordiv(arith.sub(index, start), width)

    def _end(self, op: Operation) -> Operation:
        values = tuple(map(self.value, op.operands[0]))
        kept = tuple(self.versions[number] for number in self.carried[op])
        return self.builder.emit(op.opdef, ((*values, *kept),), op.attrs, span=op.span)

    def _return(self, op: Operation) -> Operation:
        values, finals = self.operands(op)
        operands = (values, (*finals, *self.versions))
        return self.builder.emit(op.opdef, operands, op.attrs, span=op.span)

    def _carrying(self, op: Operation, inside: list[int]) -> Operation:
        """A copy of a loop, branch or scope that carries the tensors written inside."""
        before = [self.versions[number] for number in inside]
        operands = self.operands(op)
        repeats = op.opdef in (control.for_, control.while_)
        if repeats:
            operands = (*operands[:-1], (*operands[-1], *before))
        for region in op.regions:
            if region.terminator.opdef is control.yield_:
                self.carried[region.terminator] = inside
        regions: list[Block] = []
        for region in op.regions:
            regions.append(self._region(op, region, inside, before, repeats))
        new = self.builder.emit(op.opdef, operands, op.attrs, tuple(regions), span=op.span)
        for old, result in zip(op.results, new.results):
            self.bind(old, result)
        for number, version in zip(inside, new.results[len(op.results) :], strict=True):
            self.versions[number] = version
        return new

    def _region(
        self, op: Operation, region: Block, inside: list[int], before: list[Value], repeats: bool
    ) -> Block:
        params = self.params(region)
        fresh = [Value(version.type, version.name) for version in before] if repeats else before
        for number, version in zip(inside, fresh):
            self.versions[number] = version
        is_loop = op.opdef is control.for_
        if is_loop:
            self.loops.append((params[0], op))
        copy = Block((*params, *fresh) if repeats else params)
        with self.builder.inside(copy):
            self.body(region)
        if is_loop:
            self.loops.pop()
        return copy
