"""The ways to grow a random program: one per family of ops, and one that reads the op pages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from math import prod
from typing import Any

from property.generator import IN, Generator, Rejected, is_plain, known_ops, step, zeros
from tilewright.dtypes import BOOL, FP32, INDEX, INT32, DType
from tilewright.ir.affine import symbols
from tilewright.ir.core import Block, Value
from tilewright.ir.enums import ForKind, MemorySpace, Rounding
from tilewright.ir.opdef import OPS, OpDef
from tilewright.ir.rewrite import copy_function
from tilewright.ir.types import ScalarType, ShapedType, TensorType, TileType
from tilewright.ops import arith, control, elementwise, matmul, memory, shape
from tilewright.ops.sampling import Arg, Sample


@cache
def samples_of(name: str) -> list[Sample]:
    """The accepted samples of an op page."""
    make = OPS[name].make_samples
    return [sample for sample in make() if sample.error is None] if make else []


@cache
def family(prefix: str) -> list[OpDef[..., Any]]:
    """The ops of a family that have samples."""
    return [OPS[name] for name in known_ops() if name.startswith(prefix)]


def dtypes_of(opdef: OpDef[..., Any]) -> list[DType]:
    return sorted({d for s in samples_of(opdef.name) for d in s.dtypes}, key=lambda d: d.code())


# ---------------------------------------------------------------------- computing


@step(weight=8)
def pointwise(g: Generator) -> None:
    opdef = g.pick(o for o in family("elementwise.") if not o.attr_names and o.name not in BY_HAND)
    x = g.shaped(g.pick(dtypes_of(opdef)))
    operands = [x]
    for _ in opdef.operand_names[1:]:
        operands.append(partner(g, x))
    if g.chance(30):
        operands.reverse()
    g.remember(opdef(*operands))


def partner(g: Generator, x: Value) -> Value:
    """Something that broadcasts with `x`."""
    assert isinstance(x.type, ShapedType)
    dtype = x.type.dtype
    if g.chance(25):
        return g.scalar(dtype)
    if g.chance(25):
        axis = g.small(0, x.type.rank)
        narrow = tuple(1 if k == axis else extent for k, extent in enumerate(x.type.shape))
        return g.shaped(dtype, shape=narrow)
    return g.shaped(dtype, shape=x.type.shape)


@step(weight=2)
def conversion(g: Generator) -> None:
    x = g.shaped()
    dtype, mode = g.pick(dtypes_of(elementwise.cast)), g.pick(Rounding)
    g.remember(elementwise.cast(x, dtype=dtype, mode=mode))


@step(weight=2)
def selection(g: Generator) -> None:
    x = g.shaped()
    assert isinstance(x.type, ShapedType)
    cond = g.shaped(BOOL, shape=x.type.shape)
    g.remember(elementwise.select(cond, x, partner(g, x)))


@step(weight=3)
def reduction(g: Generator) -> None:
    opdef = g.pick(family("reduce."))
    x = g.shaped(g.pick(dtypes_of(opdef)))
    assert isinstance(x.type, ShapedType)
    axes = tuple(axis for axis in range(x.type.rank) if g.chance(50)) or (x.type.rank - 1,)
    g.remember(opdef(x, axes=axes, keepdims=g.chance(70)))


@step(weight=2)
def contraction(g: Generator) -> None:
    dtype = g.pick(matmul.MATMUL_DTYPES)
    m, k, n = (g.pick(g.dims) for _ in range(3))
    a_trans, b_trans = g.chance(30), g.chance(30)
    a = g.shaped(dtype, shape=(k, m) if a_trans else (m, k))
    b = g.shaped(dtype, shape=(n, k) if b_trans else (k, n))
    flags = {"a_trans": a_trans, "b_trans": b_trans}
    total = matmul.matmul(a, b, **flags)
    g.remember(total)
    if g.chance(40) and "matmul.acc" in OPS:
        g.remember(OPS["matmul.acc"](total, a, b, **flags))


# ---------------------------------------------------------------------- rearranging


@step(weight=2)
def transposition(g: Generator) -> None:
    x = g.shaped(least_rank=2)
    assert isinstance(x.type, ShapedType)
    g.remember(shape.transpose(x, perm=tuple(g.shuffled(range(x.type.rank)))))


@step(weight=2)
def reshaping(g: Generator) -> None:
    x = g.shaped(static=True)
    assert isinstance(x.type, ShapedType)
    count = prod(x.type.shape)  # type: ignore[arg-type]
    rows = g.pick(n for n in range(1, count + 1) if count % n == 0)
    wanted = g.pick([(count,), (rows, count // rows), (1, rows, count // rows), (*x.type.shape, 1)])
    g.remember(shape.reshape(x, shape=wanted))


@step()
def broadcasting(g: Generator) -> None:
    x = g.shaped()
    assert isinstance(x.type, ShapedType)
    wanted = tuple(g.pick(g.dims) if extent == 1 else extent for extent in x.type.shape)
    lead = (g.pick((1, 2, 3)),) if x.type.rank < 3 and g.chance(40) else ()
    g.remember(shape.broadcast_to(x, shape=(*lead, *wanted)))


def window(g: Generator, extents: tuple[Any, ...]) -> tuple[list[Value], tuple[int, ...]]:
    """Offsets and static extents of a window inside an array of `extents`."""
    offsets: list[Value] = []
    sizes: list[int] = []
    for extent in extents:
        room = g.extent(extent)
        size = g.small(1, room) if not symbols(extent) else g.small(1, min(room, 8))
        sizes.append(size)
        offsets.append(g.index(0, room - size))
    return offsets, tuple(sizes)


@step(weight=3)
def slicing(g: Generator) -> None:
    x = g.shaped()
    assert isinstance(x.type, ShapedType)
    offsets, sizes = window(g, x.type.shape)
    g.remember(shape.slice_(x, offsets, shape=sizes))


@step(weight=3)
def loading(g: Generator) -> None:
    tensor = g.pick(g.matching(lambda v: isinstance(v.type, TensorType) and is_plain(v.type)))
    offsets, sizes = window(g, tensor.type.shape)
    if g.chance(20):
        padded = tuple(n + g.small(0, 3) for n in sizes)
        g.remember(memory.load(tensor, offsets, list(sizes), shapes=padded))
    else:
        space = g.pick((MemorySpace.Vec, MemorySpace.Vec, MemorySpace.Mat))
        g.remember(memory.load(tensor, offsets, shapes=sizes, target_memory=space))


@step()
def padding(g: Generator) -> None:
    partial = g.matching(lambda v: isinstance(v.type, ShapedType) and not is_plain(v.type))
    x = g.pick(partial) if partial else shrink(g)
    number = g.number(x.type.dtype)
    fill = int(number) if isinstance(number, bool) else number
    g.remember(shape.fillpad(x, fill=fill, valid=x.type.valid_shape))


def shrink(g: Generator) -> Value:
    x = g.shaped(static=True)
    assert isinstance(x.type, ShapedType)
    valid = [g.small(0, extent) for extent in x.type.shape]  # type: ignore[arg-type]
    partial = shape.set_valid(x, valid)
    g.remember(partial)
    return partial


@step()
def joining(g: Generator) -> None:
    x = g.shaped(static=True)
    assert isinstance(x.type, ShapedType)
    parts = [x] + [g.want(x.type) for _ in range(g.small(1, 2))]
    g.remember(shape.concat(tuple(parts), axis=g.small(0, x.type.rank - 1)))


@step()
def allocation(g: Generator) -> None:
    """Fresh memory, of which every element is written before anything reads it."""
    source = g.shaped(static=True)
    assert isinstance(source.type, ShapedType)
    space = g.pick((MemorySpace.DDR, MemorySpace.Vec))
    made = memory.create(shape=source.type.shape, dtype=source.type.dtype, space=space)
    g.remember(memory.assemble(made, source, zeros(source)))


@step()
def creation(g: Generator) -> None:
    dtype = g.pick((FP32, INT32, INDEX))
    space = g.pick((MemorySpace.DDR, MemorySpace.Vec))
    dims = g.shape(static=True)
    if dtype.is_float() or g.chance(50):
        value = g.number(dtype)
        g.remember(memory.full(shape=dims, dtype=dtype, value=value, space=space))
        return
    axis, stride = g.small(0, len(dims) - 1), g.pick((1, 2, -3))
    start = g.scalar(dtype)
    g.remember(memory.iota(start, shape=dims, dtype=dtype, axis=axis, step=stride, space=space))


# ---------------------------------------------------------------------- writing


@step(weight=3)
def assembling(g: Generator) -> None:
    target = g.target()
    assert isinstance(target.type, ShapedType)
    offsets, sizes = window(g, target.type.shape)
    source = g.shaped(target.type.dtype, shape=sizes)
    g.wrote(target, memory.assemble(target, source, offsets))


@step(weight=2)
def storing(g: Generator) -> None:
    tile = g.pick(g.matching(lambda v: isinstance(v.type, TileType) and is_plain(v.type)))
    target = g.target(tile.type.dtype, rank=tile.type.rank)
    if not isinstance(target.type, TensorType):
        raise Rejected
    places = zip(target.type.shape, tile.type.shape, strict=True)
    offsets = [g.index(0, g.extent(room) - g.extent(size)) for room, size in places]
    g.wrote(target, memory.store(tile, offsets, target))


@step(weight=2)
def element(g: Generator) -> None:
    x = g.shaped()
    assert isinstance(x.type, ShapedType)
    place = [g.index(0, g.extent(extent) - 1) for extent in x.type.shape]
    if g.chance(50) or not g.can_write(x):
        g.remember(memory.read(x, place))
    else:
        g.wrote(x, memory.write(x, place, g.scalar(x.type.dtype)))


WORDS = {
    True: (arith.and_, arith.or_, arith.xor),
    False: (arith.add, arith.sub, arith.mul, arith.lt, arith.eq, arith.max_, arith.min_),
}


@step(weight=2)
def scalar_word(g: Generator) -> None:
    dtype = g.pick((INDEX, FP32, INT32, BOOL))
    words = (
        (arith.and_, arith.or_) if dtype is BOOL else (arith.add, arith.sub, arith.mul, arith.lt)
    )
    g.remember(g.pick(words)(g.scalar(dtype), g.scalar(dtype)))


@step()
def extent(g: Generator) -> None:
    x = g.shaped()
    assert isinstance(x.type, ShapedType)
    g.remember(memory.dim(x, axis=g.small(0, x.type.rank - 1)))


# ---------------------------------------------------------------------- control flow


def carried(g: Generator) -> list[Value]:
    """What a region carries: up to two values that later steps may want."""
    found = list(dict.fromkeys(g.shaped() for _ in range(g.small(1, 2))))
    roots = [g.versions[value] for value in found if value in g.versions]
    if not all(map(g.can_write, found)) or len(set(map(id, roots))) < len(roots):
        raise Rejected
    return found


def left(g: Generator, inits: list[Value], results: tuple[Value, ...]) -> None:
    """After a region its results are there, as new versions where they are versions."""
    g.remember(results)
    for init, result in zip(inits, results, strict=True):
        g.replace_version(init, result)


def yields(g: Generator, wanted: list[Value], fallback: list[Value]) -> None:
    """Ends a region with values of the types of `wanted`, new ones if there are any.

    A carried parameter yields its current version.
    """
    given: list[Value] = []
    for value, other in zip(wanted, fallback, strict=True):
        param = g.versions.get(other)
        new = [
            v
            for v in g.scopes[-1]
            if v.type == value.type and v.op is not None and v not in g.versions
        ]
        given.append(param.final if param else g.pick(new) if new else other)
    control.yield_(tuple(given))


@contextmanager
def carrying(g: Generator, inits: Sequence[Value], params: Sequence[Value]) -> Iterator[None]:
    """For the duration `params` are the versions of the parameters that `inits` are versions of.

    Nothing inside may read the versions from before.
    """
    state = g.state()
    g.carried = set()
    for init, inner in zip(inits, params, strict=True):
        param = g.versions.get(init)
        if param is not None:
            g.replace_version(init, inner)
            g.carried.add(inner)
    try:
        yield
    finally:
        directions = [param.direction for param in g.params]
        g.restore(state)
        for param, direction in zip(g.params, directions, strict=False):
            param.direction = direction


@contextmanager
def frozen(g: Generator) -> Iterator[None]:
    """For the duration no version of a parameter may be written."""
    outer, g.carried = g.carried, set()
    try:
        yield
    finally:
        g.carried = outer


def region(g: Generator, params: list[Value], wanted: list[Value]) -> Block:
    """A region of a few steps."""
    block = Block(tuple(params))
    fallback = params[len(params) - len(wanted) :] if params else wanted
    with carrying(g, wanted, fallback), g.scope() as scope, g.builder.inside(block):
        scope.extend(params)
        if g.chance(70) and fallback[0] not in g.versions:
            g.remember(advance(g, fallback[0]))
        g.grow(g.small(1, 4))
        yields(g, wanted, fallback)
    return block


def advance(g: Generator, x: Value) -> Value:
    """A new value of the type of `x` made from it."""
    assert isinstance(x.type, ShapedType)
    if x.type.dtype is BOOL:
        return elementwise.not_(x)
    return elementwise.add(x, partner(g, x))


def loop_attrs(kind: ForKind) -> dict[str, Any]:
    return {
        "kind": kind,
        "combine": (),
        "stage": 2 if kind is ForKind.Pipeline else 0,
        "attrs": (),
    }


@step(weight=2)
def loop(g: Generator) -> None:
    if g.depth >= 2:
        raise Rejected
    inits = carried(g)
    low, stride, trips = g.small(0, 2), g.pick((1, 1, 2, -1)), g.small(0, 3)
    high = low + stride * trips
    bounds = [g.index(b, b) for b in (low, high, stride)]
    params = [Value(ScalarType(INDEX), "i"), *(Value(value.type) for value in inits)]
    kind = g.pick((ForKind.Sequential, ForKind.Sequential, ForKind.Pipeline))
    attrs = loop_attrs(kind)
    body = region(g, params, inits)
    left(g, inits, g.builder.emit(control.for_, (*bounds, tuple(inits)), attrs, (body,)).results)


@step(weight=2)
def parallel_loop(g: Generator) -> None:
    """Iterations that write disjoint rows."""
    if g.depth >= 2:
        raise Rejected
    target = g.target(static=True, least_rank=2)
    assert isinstance(target.type, ShapedType)
    rows = g.extent(target.type.shape[0])
    chunk = g.pick(n for n in range(1, rows + 1) if rows % n == 0)
    bounds = [g.builder.index(b) for b in (0, rows // chunk, 1)]
    params = [Value(ScalarType(INDEX), "i"), Value(target.type)]
    block = Block(tuple(params))
    with carrying(g, [target], params[1:]), g.scope() as scope, g.builder.inside(block):
        g.carried.clear()
        scope.append(params[0])
        start = arith.mul(params[0], g.builder.index(chunk))
        offsets = [start, *zeros(target)[1:]]
        sizes = (chunk, *target.type.shape[1:])
        g.remember(shape.slice_(params[1], offsets, shape=sizes))
        g.grow(g.small(1, 3))
        source = g.shaped(target.type.dtype, shape=sizes)
        control.yield_((memory.assemble(params[1], source, offsets),))
    attrs = loop_attrs(ForKind.Parallel)
    left(g, [target], g.builder.emit(control.for_, (*bounds, (target,)), attrs, (block,)).results)


@step(weight=2)
def branch(g: Generator) -> None:
    if g.depth >= 2:
        raise Rejected
    wanted = carried(g)
    cond = g.scalar(BOOL)
    arms = (region(g, [], wanted), region(g, [], wanted))
    left(g, wanted, g.builder.emit(control.if_, (cond,), {}, arms).results)


@step()
def repetition(g: Generator) -> None:
    if g.depth >= 2:
        raise Rejected
    value = g.shaped()
    if value in g.versions:
        raise Rejected
    inits = [g.builder.index(g.small(0, 3)), value]
    test = Block(tuple(Value(init.type) for init in inits))
    with g.builder.inside(test):
        control.condition(arith.gt(test.params[0], g.builder.index(0)))
    params = [Value(init.type) for init in inits]
    block = Block(tuple(params))
    with frozen(g), g.scope() as scope, g.builder.inside(block):
        scope.extend(params)
        new = advance(g, params[1])
        g.grow(g.small(1, 3))
        control.yield_((arith.sub(params[0], g.builder.index(1)), new))
    g.remember(g.builder.emit(control.while_, (tuple(inits),), {}, (test, block)).results)


# ---------------------------------------------------------------------- calls


@step(weight=2)
def calling(g: Generator) -> None:
    """A call of another random function."""
    if g.depth >= 2 or len(g.functions) >= 2 or g.is_callee:
        raise Rejected
    case = Generator(g.rng, size=6, is_callee=True).build(g.small(1, 5))
    callee = case.program["main"]
    returned = callee.body.terminator.operands[0]
    if any(symbols(n) for p in callee.params for n in getattr(p.type, "shape", ())):
        raise Rejected
    if any(value in case.versions for value in returned):
        raise Rejected
    args = [argument(g, *facts) for facts in zip(callee.params, callee.directions, case.inputs)]
    tied = tuple(k for k, way in enumerate(callee.directions) if way is not IN)
    written = [args[k] for k in tied]
    if len(set(args)) < len(args) or not all(map(g.can_write, written)):
        raise Rejected
    name = f"helper{len(g.functions)}"
    results = g.builder.emit(
        control.call,
        (tuple(args),),
        {"callee": name, "result_types": callee.return_types, "tied_args": tied, "attrs": ()},
    ).results
    g.functions[name] = copy_function(callee, callee.body, name=name)
    g.remember(results)
    for old, new in zip(written, results[len(callee.return_types) :], strict=True):
        g.replace_version(old, new)


def argument(g: Generator, param: Value, direction: Any, make: Any) -> Value:
    """What a call passes for one parameter."""
    if direction is not IN:
        assert isinstance(param.type, TensorType)
        found = g.matching(lambda v: v.type == param.type and g.can_write(v))
        return g.pick(found) if found else g.add_param(param.type, IN)
    found = g.matching(lambda v: v.type == param.type and isinstance(v.type, TensorType))
    if found and g.chance(50):
        return g.pick(found)
    return g.add_param(param.type, IN, make)


# ---------------------------------------------------------------------- anything with a page


BY_HAND = ("elementwise.cast", "elementwise.select")
UNINITIALISED = ("memory.create",)
ALONE = ("gather.", "scan.", "elementwise.part_", "memory.random", "memory.splat", "memory.tri")
ALONE += ("memory.move", "memory.valid_dim", "shape.reinterpret")
"""What no other step makes."""


@step(weight=10)
def any_page(g: Generator) -> None:
    """One sample of any page, on values that other steps made where types allow."""
    names = [name for name in known_ops() if name not in UNINITIALISED]
    name = g.pick(n for n in names if n.startswith(ALONE)) if g.chance(60) else g.pick(names)
    sample = g.pick(samples_of(name))
    dtype = g.pick(sample.dtypes)
    operands = [sampled(g, entry, dtype) for entry in sample.entries]
    opdef = OPS[name]
    written = [operands[position] for position in opdef.tied.values()]
    if not all(map(g.can_write, written)):
        raise Rejected
    given = opdef(*operands, **sample.attrs)
    results = given if isinstance(given, tuple) else (given,)
    g.remember(results)
    for result, old in zip(opdef.tied, written, strict=True):
        g.replace_version(old, results[result])


def sampled(g: Generator, entry: Any, dtype: DType) -> Any:
    """A value for one entry of a sample."""
    if not isinstance(entry, Arg):
        return None if entry is None else tuple(sampled(g, item, dtype) for item in entry)
    type_ = entry.type(dtype)
    if isinstance(type_, ScalarType):
        given = entry.array(dtype)
        plain = given.item() if type_.dtype.kind != "float" else float(given)
        return g.builder.constant(plain, type_.dtype)
    if entry.make.__name__ == "<lambda>":
        return input_from(g, entry, dtype)
    return g.want(type_)


def input_from(g: Generator, entry: Arg, dtype: DType) -> Value:
    """An input with exactly the contents that the page asks for, such as valid indices."""
    type_ = entry.type(dtype)
    assert isinstance(type_, ShapedType)
    if not is_plain(type_):
        raise Rejected
    seed = g.small(0, 99)
    made = TensorType(type_.shape, type_.dtype)
    tensor = g.add_param(made, IN, lambda: entry.array(dtype, seed))
    if isinstance(type_, TileType):
        space = type_.space or MemorySpace.Vec
        return memory.load(tensor, zeros(tensor), shapes=type_.shape, target_memory=space)
    return tensor
