"""Random well-typed tile-level programs, from any source of choices that looks like `Random`.

The same choices give the same program and the same inputs, so a failure is replayed by them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Protocol

import numpy as np

import tilewright.ops  # noqa: F401  (fills the registry)
from tilewright.dtypes import BF16, BOOL, FP16, FP32, INDEX, INT8, INT32, INT64, UINT8, DType
from tilewright.errors import TilewrightError
from tilewright.frontend.annotations import dynamic
from tilewright.ir.affine import Expr, Symbol, as_expr, evaluate, symbols
from tilewright.ir.builder import Builder, finish_program
from tilewright.ir.core import Block, Function, Program, Value
from tilewright.ir.enums import Effect, MemorySpace, ParamDirection
from tilewright.ir.opdef import OPS
from tilewright.ir.types import Dim, ScalarType, Shape, ShapedType, TensorType, TileType, Type
from tilewright.ops import control, elementwise, memory, shape
from tilewright.ops.sampling import special
from tilewright.ops.words import dtype_of
from tilewright.passes.drop_carries import find_origins, handed_on

EXTENTS = (1, 2, 3, 5, 7, 8, 16, 17, 31, 33, 64, 65)
DTYPES = (FP32, FP32, FP32, FP16, BF16, INT32, INT8, UINT8, INT64, BOOL)
IN, OUT, INOUT = ParamDirection.In, ParamDirection.Out, ParamDirection.InOut


class Choices(Protocol):
    """Where decisions come from: hypothesis, in the tests."""

    def randint(self, a: int, b: int, /) -> int: ...


class Rejected(Exception):
    """A choice that leads nowhere; another one is taken."""


@dataclass(eq=False)
class Case:
    """A program, its entry's inputs, and which ops it uses."""

    program: Program
    inputs: list[Callable[[], Any]]
    used: Counter[str] = field(default_factory=Counter)
    versions: frozenset[Value] = frozenset()

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """The program as text, for reports of failures."""
        del cycle
        printer.text(f"\n{self.program.as_python()}")

    def arguments(self) -> list[Any]:
        """Fresh arguments, the same on every call."""
        return [make() for make in self.inputs]


@dataclass
class Param:
    """One parameter of the function being made; `final` is its last version."""

    value: Value
    direction: ParamDirection
    make: Callable[[], Any]
    final: Value


class Generator:
    """Grows one function. Families of steps are registered in `STEPS`."""

    def __init__(self, rng: Choices, size: int = 12, *, is_callee: bool = False) -> None:
        self.rng = rng
        self.budget = size
        self.depth = 0
        self.builder = Builder()
        self.params: list[Param] = []
        self.extents: dict[Symbol, int] = {}
        self.carried: set[Value] = set()
        self.functions: dict[str, Function] = {}
        self.is_callee = is_callee
        self.scopes: list[list[Value]] = [[]]
        self.versions: dict[Value, Param] = {}
        self.dims = self._choose_dims()

    # ------------------------------------------------------------------ choices

    def chance(self, percent: int) -> bool:
        return self.rng.randint(1, 100) <= percent

    def pick(self, items: Any) -> Any:
        items = list(items)
        if not items:
            raise Rejected
        return items[self.rng.randint(0, len(items) - 1)]

    def small(self, low: int, high: int) -> int:
        if high < low:
            raise Rejected
        return self.rng.randint(low, high)

    def shuffled(self, items: Any) -> list[Any]:
        left = list(items)
        return [left.pop(self.rng.randint(0, len(left) - 1)) for _ in range(len(left))]

    def _choose_dims(self) -> list[Dim]:
        dims: list[Dim] = [self.pick(EXTENTS) for _ in range(3)]
        if self.chance(30):
            dims.append(self._symbolic_dim())
        return dims

    def _symbolic_dim(self) -> Expr:
        symbol = dynamic("M")
        self.extents[symbol] = self.pick(EXTENTS)
        return as_expr(symbol)

    def extent(self, dim: Dim) -> int:
        """The value of a dim in this case's inputs."""
        return evaluate(dim, self.extents)

    def shape(self, static: bool = False) -> Shape:
        rank = self.pick((1, 2, 2, 2, 2, 3))
        dims = [d for d in self.dims if isinstance(d, int)] if static else self.dims
        if rank == 3:
            return (self.small(1, 3), *(self.pick(dims) for _ in range(2)))
        return tuple(self.pick(dims) for _ in range(rank))

    # ------------------------------------------------------------------ values

    def visible(self) -> Iterator[Value]:
        for scope in self.scopes:
            yield from scope

    def remember(self, given: Any) -> None:
        """Makes results available to later steps."""
        values = (given,) if isinstance(given, Value) else given or ()
        self.scopes[-1].extend(values)

    def matching(self, accepts: Callable[[Value], bool]) -> list[Value]:
        return [value for value in self.visible() if accepts(value)]

    def shaped(self, dtype: DType | None = None, **facts: Any) -> Value:
        """Some tensor or tile, of `dtype` if given: an old one, a converted one, or an input."""
        found = self.matching(
            lambda v: isinstance(v.type, ShapedType) and _has(v.type, facts) and is_plain(v.type)
        )
        exact = [v for v in found if dtype is None or dtype_of(v) is dtype]
        if exact and self.chance(85):
            return self.recent(exact)
        if found and dtype is not None and self.chance(60):
            return elementwise.cast(self.recent(found), dtype=dtype)
        return self.new_input(self.fitting_shape(facts), dtype or self.pick(DTYPES))

    def fitting_shape(self, facts: dict[str, Any]) -> Shape:
        """Extents that meet what is asked for."""
        extents = facts.get("shape") or self.shape(facts.get("static", False))
        if not _has(TensorType(extents, FP32), facts):
            raise Rejected
        return extents

    def recent(self, values: list[Value]) -> Value:
        """One of `values`, the newer the likelier."""
        if self.chance(60):
            values = values[-4:]
        return self.pick(values)

    def new_input(self, shape: Shape, dtype: DType) -> Value:
        """A tensor parameter, or a tile loaded from one."""
        tensor = self.add_param(TensorType(shape, dtype), IN)
        static = all(isinstance(extent, int) for extent in shape)
        if static and self.chance(50):
            space = self.pick((MemorySpace.Vec, MemorySpace.Mat))
            tile = memory.load(tensor, [0] * len(shape), shapes=shape, target_memory=space)
            self.remember(tile)
            return tile
        return tensor

    def want(self, type_: Type) -> Value:
        """A value of exactly `type_`."""
        found = self.matching(lambda v: v.type == type_)
        if found and self.chance(80):
            return self.recent(found)
        if isinstance(type_, ScalarType):
            return self.scalar(type_.dtype)
        if isinstance(type_, TileType):
            return self.want_tile(type_)
        if isinstance(type_, TensorType):
            return self.want_tensor(type_)
        raise Rejected

    def want_tile(self, type_: TileType) -> Value:
        tensor = self.add_param(TensorType(type_.shape, type_.dtype), IN)
        valid = None if type_.valid_shape == type_.shape else list(type_.valid_shape)
        space = type_.space or MemorySpace.Vec
        zeros = [0] * len(type_.shape)
        tile = memory.load(tensor, zeros, valid, shapes=type_.shape, target_memory=space)
        if tile.type != type_:
            raise Rejected
        self.remember(tile)
        return tile

    def want_tensor(self, type_: TensorType) -> Value:
        tensor = self.add_param(TensorType(type_.shape, type_.dtype), IN)
        if type_.valid_shape != type_.shape:
            tensor = shape.set_valid(tensor, list(type_.valid_shape))
        if tensor.type != type_:
            raise Rejected
        return tensor

    def scalar(self, dtype: DType) -> Value:
        """A scalar: a constant, an old one, a parameter or an element of something."""
        found = self.matching(lambda v: v.type == ScalarType(dtype))
        if found and self.chance(50):
            return self.recent(found)
        if self.chance(25) and len(self.params) < 12:
            return self.add_param(ScalarType(dtype), IN)
        return self.builder.constant(self.number(dtype), dtype)

    def number(self, dtype: DType) -> int | float | bool:
        if dtype is BOOL:
            return self.chance(50)
        if dtype.is_float():
            return self.pick((0.5, 1.0, 2.0, -1.5, 3.25, 0.0, -0.0, 100.0))
        return self.small(0 if dtype.kind == "uint" else -3, 7)

    def index(self, low: int, high: int) -> Value:
        """An INDEX value known by the caller's inputs to lie in [low, high]."""
        number = self.small(low, high)
        if self.chance(30):
            return self.add_param(ScalarType(INDEX), IN, lambda: number)
        return self.builder.index(number)

    def add_param(
        self, type_: Type, direction: ParamDirection, make: Callable[[], Any] | None = None
    ) -> Value:
        value = Value(type_, f"p{len(self.params)}")
        make = make or self.input_maker(type_)
        self.params.append(Param(value, direction, make, value))
        self.versions[value] = self.params[-1]
        self.scopes[0].append(value)
        return value

    # ------------------------------------------------------------------ writing

    def can_write(self, value: Value) -> bool:
        """True for local values, and for the current version of a parameter where it may change.

        In a region that is a version which the region carries.
        """
        param = self.versions.get(value)
        if param is None:
            return True
        return param.final is value and (self.depth == 0 or value in self.carried)

    def target(self, dtype: DType | None = None, **facts: Any) -> Value:
        """Something to write into."""
        value = self.shaped(dtype, **facts)
        if not self.can_write(value):
            raise Rejected
        return value

    def wrote(self, old: Value, new: Value) -> Value:
        """`new` is the version of `old` after a write; what was overwritten is forgotten."""
        self.remember(new)
        self.replace_version(old, new)
        return new

    def replace_version(self, old: Value, new: Value) -> None:
        """Makes `new` the current version of the parameter that `old` is a version of, if any."""
        param = self.versions.get(old)
        if param is None or param.final is not old:
            return
        if param.direction is IN:
            param.direction = INOUT
        if old in self.carried:
            self.carried.add(new)
        param.final = new
        self.versions[new] = param
        for scope in self.scopes:
            scope[:] = [value for value in scope if value is not old]

    def input_maker(self, type_: Type) -> Callable[[], Any]:
        seed, flavour = self.small(0, 1 << 16), self.pick(("small", "small", "normal", "special"))
        if isinstance(type_, ScalarType):
            return lambda: make_array((), type_.dtype, seed, "small")[()]
        assert isinstance(type_, ShapedType)
        extents = tuple(map(self.extent, type_.shape))
        return lambda: make_array(extents, type_.dtype, seed, flavour)

    # ------------------------------------------------------------------ growth

    @contextmanager
    def scope(self) -> Iterator[list[Value]]:
        """Values defined for the duration are forgotten afterwards."""
        self.scopes.append([])
        self.depth += 1
        try:
            yield self.scopes[-1]
        finally:
            self.depth -= 1
            self.scopes.pop()

    def grow(self, steps: int) -> None:
        """Up to `steps` steps; those that the type rules refuse leave nothing behind."""
        for _ in range(steps):
            if self.budget <= 0:
                return
            self.budget -= 1
            self.step()

    def step(self) -> None:
        for _ in range(4):
            state, count = self.state(), len(self.builder.block.ops)
            try:
                self.pick(STEPS)(self)
                return
            except (Rejected, TilewrightError):
                self.restore(state)
                del self.builder.block.ops[count:]

    def state(self) -> tuple[Any, ...]:
        """What `restore` brings back: visible values and versions. New parameters stay."""
        versions = [(param, param.final, param.direction) for param in self.params]
        return [list(scope) for scope in self.scopes], versions, set(self.carried)

    def restore(self, state: tuple[Any, ...]) -> None:
        """Forgets what was made since `state`, except parameters."""
        scopes, versions, self.carried = state
        known = {param.value for param, _, _ in versions}
        for scope, before in zip(self.scopes, scopes, strict=False):
            scope[:] = before
        for param, final, direction in versions:
            param.final, param.direction = final, direction
        for param in self.params:
            if param.value not in known:
                self.scopes[0].append(param.value)
                param.final, param.direction = param.value, IN

    def build(self, steps: int) -> Case:
        """The finished case."""
        block = Block()
        with self.builder, self.builder.inside(block):
            self.grow(steps)
            while not any(map(self._is_result, self.scopes[0])):
                self.remember(self.shaped())
                self.step()
            values = self.finish()
            control.return_(tuple(values), self._finals(block))
        self._bind_symbols()
        body = Block(tuple(p.value for p in self.params), block.ops)
        types = tuple(value.type for value in values)
        directions = tuple(p.direction for p in self.params)
        main = Function("main", directions, body, types)
        used = Counter(op.name for op in body.walk())
        functions = self._called(main)
        program = finish_program("random_program", functions)
        for helper in functions.values():
            used.update(op.name for op in helper.body.walk() if helper is not main)
        return Case(program, [p.make for p in self.params], used, frozenset(self.versions))

    def _finals(self, block: Block) -> tuple[Value, ...]:
        """Last versions of parameters; what a region only handed on is no new one."""
        origins = find_origins(handed_on(block))
        finals = [p.final for p in self.params if p.direction is not IN]
        return tuple(origins.get(final, final) for final in finals)

    def _called(self, main: Function) -> dict[str, Function]:
        """The functions that `main` calls, then `main`."""
        names = {op.attrs["callee"] for op in main.body.walk() if op.opdef is control.call}
        return {name: f for name, f in self.functions.items() if name in names} | {"main": main}

    def _is_result(self, value: Value) -> bool:
        return value.op is not None and isinstance(value.type, ShapedType)

    def _bind_symbols(self) -> None:
        """Every symbol must be an extent of some parameter by itself."""
        for symbol in self.extents:
            alone = TensorType((as_expr(symbol),), FP32)
            if not any(as_expr(symbol) in getattr(p.value.type, "shape", ()) for p in self.params):
                self.params.append(self._plain_param(alone))

    def _plain_param(self, type_: Type) -> Param:
        value = Value(type_, f"p{len(self.params)}")
        return Param(value, IN, self.input_maker(type_), value)

    def finish(self) -> list[Value]:
        """Some results are returned; tiles and scalars go into Out parameters."""
        results = [v for v in self.scopes[0] if v.op is not None and is_plain(v.type)]
        chosen = results[-2:] + [self.pick(results) for _ in range(min(2, len(results)))]
        returned: list[Value] = []
        for value in dict.fromkeys(chosen):
            if isinstance(value.type, TensorType):
                returned.append(value)
            elif isinstance(value.type, TileType):
                self.deliver(value.type, lambda out, v=value: memory.store(v, zeros(v), out))
            elif isinstance(value.type, ScalarType) and value.type.dtype is not INDEX:
                type_ = TensorType((1,), value.type.dtype)
                self.deliver(type_, lambda out, v=value: memory.write(out, [0], v))
        return returned

    def deliver(self, type_: ShapedType, write: Callable[[Value], Value]) -> None:
        """Writes into a new Out parameter."""
        out = self.add_param(TensorType(type_.shape, type_.dtype), OUT)
        self.params[-1].final = write(out)


def zeros(value: Value) -> list[int]:
    """The origin of a value."""
    assert isinstance(value.type, ShapedType)
    return [0] * value.type.rank


def is_plain(type_: Type) -> bool:
    """True when the whole of a tensor or tile is valid."""
    if isinstance(type_, (TensorType, TileType)):
        return type_.valid_shape == type_.shape
    return isinstance(type_, ScalarType)


def _has(type_: ShapedType, facts: dict[str, Any]) -> bool:
    rank = facts.get("rank")
    wanted = facts.get("shape")
    static = facts.get("static", False)
    return (
        (rank is None or type_.rank == rank)
        and (wanted is None or type_.shape == wanted)
        and (not static or not any(symbols(extent) for extent in type_.shape))
        and type_.rank >= facts.get("least_rank", 0)
    )


def make_array(shape: tuple[int, ...], dtype: DType, seed: int, flavour: str) -> Any:
    """Input contents: small whole numbers, a normal distribution, or special values."""
    rng = np.random.default_rng(seed)
    if flavour == "special" and dtype is not BOOL:
        return np.asarray(special(shape, dtype, seed))
    if dtype is BOOL:
        numbers = rng.integers(0, 2, shape)
    elif flavour == "normal" and dtype.is_float():
        numbers = 2 * rng.standard_normal(shape)
    else:
        numbers = rng.integers(0 if dtype.kind == "uint" else -7, 8, shape)
    return np.asarray(numbers).astype(dtype.numpy)


Step = Callable[[Generator], None]
STEPS: list[Step] = []


def step(weight: int = 1) -> Callable[[Step], Step]:
    """Registers a way to grow a program."""

    def register(function: Step) -> Step:
        STEPS.extend([function] * weight)
        return function

    return register


def generate_from(rng: Choices, size: int = 12) -> Case:
    """The case of a source of choices."""
    generator = Generator(rng, size)
    return generator.build(max(1, generator.small(1, size)))


SYSTEM = ("collective", "comm", "core", "host", "pipe", "prefetch", "sync", "task")
"""Families that are about participants and tasks, not about values."""


@cache
def known_ops() -> list[str]:
    """The ops that a random program can use: those with samples that compute values."""
    return [
        name
        for name, opdef in sorted(OPS.items())
        if opdef.make_samples
        and opdef.effect is not Effect.COMM
        and name.partition(".")[0] not in SYSTEM
    ]
