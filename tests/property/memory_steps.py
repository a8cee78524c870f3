"""More ways to grow a random program: general accesses, partial tiles, data-dependent places."""

from __future__ import annotations

from typing import Any

from property.generator import Generator, Rejected, is_plain, step
from property.steps import frozen, left, loop_attrs, partner, window
from tilewright.dtypes import BOOL, FP32, INDEX, INT32
from tilewright.ir.affine import Access, Constraint, Symbol, as_expr, symbols
from tilewright.ir.core import Block, Value
from tilewright.ir.enums import AtomicType, ForKind
from tilewright.ir.types import ScalarType, ShapedType, TensorType
from tilewright.ops import arith, array, control, elementwise, matmul, memory, reduce, shape
from tilewright.ops.cast import cast
from tilewright.ops.extents import expr_of


def random_access(g: Generator, extents: tuple[Any, ...]) -> tuple[Access, list[Value]]:
    """An access inside an array: offset + stride * dim on each axis, perhaps masked or permuted."""
    order = g.shuffled(range(len(extents)))
    domain = [0] * len(extents)
    index: list[Any] = [None] * len(extents)
    dims = [Symbol(f"i{k}", 0, None) for k in range(len(extents))]
    used: list[Value] = []
    for axis, dim in enumerate(order):
        room = g.extent(extents[axis])
        if symbols(extents[axis]):
            room = min(room, 4)
        stride = g.pick((1, 1, 2, 3)) if room > 3 else 1
        start = g.small(0, room - 1)
        domain[dim] = g.small(1, (room - 1 - start) // stride + 1)
        index[axis] = as_expr(dims[dim]) * stride + offset(g, start, used)
    dims = [Symbol(f"i{k}", 0, extent - 1) for k, extent in enumerate(domain)]
    for axis, dim in enumerate(order):
        old = next(s for s in symbols(index[axis]) if s.name == f"i{dim}" and s.hi is None)
        index[axis] = index[axis] - coefficient_of(index[axis], old) * (as_expr(old) - dims[dim])
    return Access(tuple(index), tuple(domain), tuple(dims), random_mask(g, dims)), used


def coefficient_of(expr: Any, symbol: Symbol) -> int:
    return expr.terms.get(symbol, 0)


def offset(g: Generator, start: int, used: list[Value]) -> Any:
    """A start as a number, or as a scalar that the access mentions."""
    if not g.chance(30):
        return as_expr(start)
    value = g.index(start, start)
    used.append(value)
    return expr_of(value)


def random_mask(g: Generator, dims: list[Symbol]) -> tuple[Constraint, ...]:
    if not g.chance(40):
        return ()
    dim, other = g.pick(dims), g.pick(dims)
    bound = as_expr(g.small(0, 6))
    return (Constraint.less_equal(dim, bound if g.chance(60) else as_expr(other) + bound),)


@step(weight=2)
def general_load(g: Generator) -> None:
    x = g.shaped(least_rank=1)
    assert isinstance(x.type, ShapedType)
    access, used = random_access(g, x.type.shape)
    g.remember(memory.access_load(x, used, access=access))


@step(weight=2)
def general_store(g: Generator) -> None:
    target = g.target(least_rank=1)
    assert isinstance(target.type, ShapedType)
    access, used = random_access(g, target.type.shape)
    source = g.shaped(target.type.dtype, shape=access.domain)
    g.wrote(target, memory.access_store(target, source, used, access=access))


# ---------------------------------------------------------------------- partial tiles


@step(weight=2)
def partial_work(g: Generator) -> None:
    """A tile of which only a part is valid, computed on and stored."""
    tensor = g.pick(g.matching(lambda v: isinstance(v.type, TensorType) and is_plain(v.type)))
    offsets, sizes = window(g, tensor.type.shape)
    extents = tuple(n + g.small(0, 3) for n in sizes)
    wanted = list(sizes) if g.chance(60) else [g.index(0, n) for n in sizes]
    tile = memory.load(tensor, offsets, wanted, shapes=extents)
    for _ in range(g.small(0, 2)):
        tile = elementwise.neg(tile) if g.chance(50) else elementwise.add(tile, tile)
    g.remember(tile)
    if g.chance(60):
        target = g.target(tensor.type.dtype, rank=len(sizes))
        if not isinstance(target.type, TensorType):
            raise Rejected
        places = [
            g.index(0, g.extent(room) - size)
            for room, size in zip(target.type.shape, sizes, strict=True)
        ]
        valid = None if is_plain(tile.type) else tile.type.valid_shape
        g.wrote(target, memory.store(tile, places, target, valid=valid))


@step()
def clamped_load(g: Generator) -> None:
    """A window that may leave the tensor."""
    tensor = g.pick(g.matching(lambda v: isinstance(v.type, TensorType) and is_plain(v.type)))
    offsets = [g.index(0, g.extent(extent) + 1) for extent in tensor.type.shape]
    extents = tuple(g.pick((1, 4, 8, 17)) for _ in tensor.type.shape)
    tile = memory.load(tensor, offsets, shapes=extents, clamp=True)
    fill = 0 if tile.type.dtype is BOOL else g.number(tile.type.dtype)
    g.remember(shape.fillpad(tile, fill=fill, valid=tile.type.valid_shape))


@step()
def adding_store(g: Generator) -> None:
    target = g.target()
    assert isinstance(target.type, ShapedType)
    if target.type.dtype is BOOL:
        raise Rejected
    offsets, sizes = window(g, target.type.shape)
    source = g.shaped(target.type.dtype, shape=sizes)
    g.wrote(target, memory.assemble(target, source, offsets, atomic=AtomicType.Add))


# ---------------------------------------------------------------------- places from data


@step()
def place_from_data(g: Generator) -> None:
    """An index that is an element of something: perhaps out of bounds."""
    x = g.shaped(least_rank=1)
    assert isinstance(x.type, ShapedType)
    numbers = g.shaped(INT32)
    assert isinstance(numbers.type, ShapedType)
    at = [g.index(0, g.extent(extent) - 1) for extent in numbers.type.shape]
    found = cast(memory.read(numbers, at), dtype=INDEX)
    if g.chance(80):
        bound = g.builder.index(g.extent(x.type.shape[0]) - 1)
        found = arith.max_(arith.min_(found, bound), g.builder.index(0))
    rest = [g.index(0, g.extent(extent) - 1) for extent in x.type.shape[1:]]
    if g.chance(50):
        g.remember(memory.read(x, [found, *rest]))
        return
    sizes = (1,) * x.type.rank
    g.remember(shape.slice_(x, [found, *rest], shape=sizes))


# ---------------------------------------------------------------------- loops as kernels have them


@step(weight=2)
def tiled_loop(g: Generator) -> None:
    """Blocks of rows: load, compute, store, for as many blocks as there are."""
    if g.depth >= 2:
        raise Rejected
    source = g.pick(g.matching(lambda v: isinstance(v.type, TensorType) and v.type.rank == 2))
    if not is_plain(source.type):
        raise Rejected
    rows, columns = source.type.shape
    block = g.pick((1, 2, 4))
    out = memory.create(shape=source.type.shape, dtype=source.type.dtype)
    out = memory.assemble(out, source, [0, 0])
    count = arith.floordiv(memory.dim(source, axis=0), g.builder.index(block))
    if not isinstance(columns, int) or g.extent(rows) < block:
        raise Rejected
    bounds = (g.builder.index(0), count, g.builder.index(1))
    params = [Value(ScalarType(INDEX), "i"), Value(out.type)]
    body = Block(tuple(params))
    with frozen(g), g.scope() as scope, g.builder.inside(body):
        scope.append(params[0])
        start = arith.mul(params[0], g.builder.index(block))
        tile = memory.load(source, [start, 0], shapes=(block, columns))
        g.remember(tile)
        g.grow(g.small(0, 3))
        result = g.pick(g.matching(lambda v: v.type == tile.type))
        control.yield_((memory.store(result, [start, 0], params[1]),))
    kind = g.pick((ForKind.Parallel, ForKind.Sequential, ForKind.Spmd))
    operands = (*bounds, (out,))
    left(g, [out], g.builder.emit(control.for_, operands, loop_attrs(kind), (body,)).results)


@step(weight=2)
def accumulation(g: Generator) -> None:
    """A product accumulated over blocks of the inner extent."""
    if g.depth >= 2:
        raise Rejected
    m, n, block, count = (g.pick((1, 2, 5, 16, 17)) for _ in range(4))
    a = g.shaped(FP32, shape=(m, block * count))
    b = g.shaped(FP32, shape=(block * count, n))
    first = shape.slice_(a, [0, 0], shape=(m, block))
    init = matmul.matmul(first, shape.slice_(b, [0, 0], shape=(block, n)))
    params = [Value(ScalarType(INDEX), "k"), Value(init.type)]
    body = Block(tuple(params))
    with frozen(g), g.scope() as scope, g.builder.inside(body):
        scope.extend(params)
        at = arith.mul(params[0], g.builder.index(block))
        left_part = shape.slice_(a, [0, at], shape=(m, block))
        right_part = shape.slice_(b, [at, 0], shape=(block, n))
        total = matmul.acc(params[1], left_part, right_part)
        if g.chance(30):
            g.remember(reduce.sum_(total, axes=(1,), keepdims=True))
            g.grow(g.small(0, 2))
        control.yield_((total,))
    bounds = (g.builder.index(1), g.builder.index(count), g.builder.index(1))
    attrs = loop_attrs(ForKind.Sequential)
    g.remember(g.builder.emit(control.for_, (*bounds, (init,)), attrs, (body,)).results)


@step(weight=2)
def scalar_loop(g: Generator) -> None:
    """Scalars carried beside an array: a running sum of elements."""
    if g.depth >= 2:
        raise Rejected
    x = g.shaped(FP32)
    assert isinstance(x.type, ShapedType)
    if x.type.rank == 0:
        raise Rejected
    inits = [g.scalar(FP32), g.builder.index(g.small(0, 5))]
    params = [Value(ScalarType(INDEX), "i"), *(Value(init.type) for init in inits)]
    body = Block(tuple(params))
    with frozen(g), g.scope() as scope, g.builder.inside(body):
        scope.extend(params)
        rest = [g.index(0, g.extent(extent) - 1) for extent in x.type.shape[1:]]
        here = memory.read(x, [params[0], *rest])
        g.grow(g.small(0, 2))
        control.yield_((arith.add(params[1], here), arith.add(params[2], params[0])))
    bounds = (g.builder.index(0), memory.dim(x, axis=0), g.builder.index(1))
    attrs = loop_attrs(ForKind.Sequential)
    results = g.builder.emit(control.for_, (*bounds, tuple(inits)), attrs, (body,)).results
    g.remember(results)
    g.remember(elementwise.mul(x, results[0]))


@step()
def scalar_branch(g: Generator) -> None:
    """A branch on data that gives a scalar and an array."""
    if g.depth >= 2:
        raise Rejected
    x = g.shaped(FP32)
    assert isinstance(x.type, ShapedType)
    at = [g.index(0, g.extent(extent) - 1) for extent in x.type.shape]
    here = memory.read(x, at)
    cond = arith.gt(here, g.builder.constant(0.0, FP32))
    arms: list[Block] = []
    for _ in range(2):
        arm = Block(())
        with frozen(g), g.scope(), g.builder.inside(arm):
            g.grow(g.small(0, 2))
            scalar = arith.mul(here, g.scalar(FP32))
            control.yield_((scalar, elementwise.add(x, partner(g, x))))
        arms.append(arm)
    g.remember(g.builder.emit(control.if_, (cond,), {}, tuple(arms)).results)


@step()
def small_array(g: Generator) -> None:
    """A few scalars on chip: written, then read at a place that may come from data."""
    dtype = g.pick((INT32, FP32, INDEX))
    extent = g.small(1, 5)
    made = array.create(extent=extent, dtype=dtype)
    for _ in range(g.small(0, 2)):
        made = array.update_element(made, g.index(0, extent - 1), g.scalar(dtype))
    g.remember(array.get_element(made, g.index(0, extent - 1)))
