"""`nl`: constants, random numbers, indirect updates, reductions across loops, queries."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import numpy as np

from tilewright.dtypes import FP32, UINT32, limits_of
from tilewright.errors.nki_control import LOOP_INDICES, WHILE_LOOP
from tilewright.errors.nki_instructions import ATOMIC_ADD_ONLY, ATOMIC_DYNAMIC_INDEX
from tilewright.frontend.trace import access as trace_access
from tilewright.frontend.trace.access import require_dtype
from tilewright.frontend.trace.ambient import nki_ctx, refusal
from tilewright.frontend.trace.indirect import IndirectTile, put_rows
from tilewright.frontend.trace.loops import SequentialRange
from tilewright.frontend.trace.ops import nki_op
from tilewright.frontend.trace.predicates import DynamicScalar, LoopVar, ScalarPredicate
from tilewright.frontend.trace.programs import combined_over_programs
from tilewright.frontend.trace.roots import Root
from tilewright.frontend.trace.scalars import element, scalar
from tilewright.frontend.trace.sequences import as_items
from tilewright.frontend.trace.tensors import nki_tensor, whole_tensor
from tilewright.frontend.trace.views import static_shape
from tilewright.ir.enums import MemorySpace
from tilewright.nki._buffers import Buffer, as_buffer
from tilewright.nki._memory import require_hbm
from tilewright.nki._operands import (
    is_scalar,
    operand_value,
    operation_name,
    require_number,
    require_tile,
    result_dtype,
    result_tile,
    scalar_or_vector,
    tile_value,
)
from tilewright.ops import cast as casting
from tilewright.ops import creation
from tilewright.ops import elementwise as ew
from tilewright.ops.nki_alu import apply, identity_of
from tilewright.ops.nki_dtypes import find_dtype
from tilewright.ops.nki_math import number

LOOP_REDUCIBLE = ("add", "maximum", "minimum", "multiply")


# ---------------------------------------------------------------------------- constants


@nki_op("nl.shared_constant")
def shared_constant(constant: Any, dtype: Any = None, **kwargs: Any) -> nki_tensor:
    """An HBM tensor with the elements of a numpy array."""
    array = np.asarray(constant)
    wanted = require_dtype(array.dtype if dtype is None else dtype)
    return whole_tensor(nki_ctx().kernel.new_constant(array.astype(wanted.numpy)))


@nki_op("nl.shared_identity_matrix")
def shared_identity_matrix(n: int, dtype: Any = np.uint8, **kwargs: Any) -> nki_tensor:
    """The n x n identity in HBM."""
    wanted = require_dtype(dtype)
    return whole_tensor(nki_ctx().kernel.new_constant(np.eye(n).astype(wanted.numpy)))


def static_cast(input_data: Any, dtype: Any) -> Any:
    """A number or array of the host in an element type of the language."""
    found = find_dtype(dtype)
    if found is None:
        raise TypeError(f"{dtype!r} is not an element type of this language")
    return np.asarray(input_data).astype(found.numpy)[()]


# ---------------------------------------------------------------------------- random numbers


@nki_op("nl.rand")
def rand(shape: Any, dtype: Any = np.float32, **kwargs: Any) -> nki_tensor:
    """Uniform numbers in [0, 1); the same for the same seed on every target."""
    return result_tile(nki_ctx().random.uniform(static_shape(shape)), require_dtype(dtype))


@nki_op("nl.random_seed")
def random_seed(seed: Any, *, mask: Any = None, **kwargs: Any) -> None:
    """Starts the kernel's random numbers over, from an int or a [1, 1] tile."""
    random = nki_ctx().random
    if isinstance(seed, nki_tensor):
        random.reseed(casting.cast(element(seed), dtype=UINT32))
    else:
        random.reseed(int(require_number(seed, "seed", UINT32)))


@nki_op("nl.dropout")
def dropout(
    x: nki_tensor, rate: Any, *, dtype: Any = None, mask: Any = None, **kwargs: Any
) -> nki_tensor:
    """`x` with each element set to 0 with probability `rate`, a number or a 1-element tile."""
    value = tile_value(require_tile(x, "x"), FP32, mask)
    chance = operand_value(scalar_or_vector(rate, "rate", x), FP32)
    drops = ew.lt(nki_ctx().random.uniform(x.shape), chance)
    return result_tile(ew.select(drops, number(value, 0.0), value), result_dtype(dtype, x), mask)


# ---------------------------------------------------------------------------- combining


@nki_op("nl.atomic_rmw")
def atomic_rmw(dst: nki_tensor, value: Any, op: Any, *, mask: Any = None, **kwargs: Any) -> None:
    """Adds a tile to the rows of an HBM tensor that a tile of indices names."""
    name = operation_name(op)
    if name != "add":
        raise refusal(ATOMIC_ADD_ONLY, given=name)
    require_hbm(dst, "dst")
    if not isinstance(dst, IndirectTile):
        raise refusal(ATOMIC_DYNAMIC_INDEX)
    sema = nki_ctx().sema
    put_rows(sema, dst, trace_access.fitted(sema, dst, value, mask), mask, ew.add)


@nki_op("nl.loop_reduce")
def loop_reduce(
    x: nki_tensor,
    op: Any,
    loop_indices: Any,
    *,
    dtype: Any = None,
    mask: Any = None,
    **kwargs: Any,
) -> nki_tensor:
    """`x` combined by `op` over the iterations of device loops; usable after them."""
    name = operation_name(op, LOOP_REDUCIBLE)
    require_tile(x, "x")
    indices = as_items(loop_indices)
    wanted = result_dtype(dtype, x)
    target = _before_loops([index for index in indices if isinstance(index, LoopVar)], x, name)
    sema = nki_ctx().sema
    total = apply(name, sema.version_of(target.root), tile_value(x, target.root.dtype, mask))
    trace_access.write(sema, target, total, mask)
    return target if wanted is target.root.dtype else target.astype(wanted)


def _before_loops(indices: list[LoopVar], x: nki_tensor, name: str) -> nki_tensor:
    """An accumulator made before the outermost of the loops."""
    ctx = nki_ctx()
    scopes = [each.loop_scope for each in indices]
    depths = [depth for depth, region in enumerate(ctx.regions) if region in scopes]
    if not depths:
        raise refusal(LOOP_INDICES)
    depth = min(depths)
    start = identity_of(name, FP32)
    with ctx.sema.inside(ctx.blocks[depth]):
        value = creation.full(shape=x.shape, dtype=FP32, value=start, space=MemorySpace.Sbuf)
    scope = ctx.regions[depth].parent_scope
    assert scope is not None
    return whole_tensor(Root(value, MemorySpace.Sbuf, scope, depth=depth))


@nki_op("nl.all_reduce")
def all_reduce(
    x: nki_tensor,
    op: Any,
    program_axes: Any,
    *,
    dtype: Any = None,
    mask: Any = None,
    parallel_reduce: bool = True,
    asynchronous: bool = False,
    **kwargs: Any,
) -> nki_tensor:
    """`x` combined by `op` over the programs along axes of the launch grid."""
    ctx = nki_ctx()
    ctx.has_collectives = True
    name = operation_name(op, LOOP_REDUCIBLE)
    axes = as_items(program_axes)
    value = tile_value(require_tile(x, "x"), FP32, mask)
    chosen = [ctx.kernel.axes[int(axis)] for axis in axes if ctx.kernel.axes]
    extents = trace_access.static_extents(value)
    start = identity_of(name, FP32)
    neutral = creation.full(shape=extents, dtype=FP32, value=start, space=MemorySpace.Sbuf)
    target = ctx.sema.tile(neutral)
    total = combined_over_programs(ctx, value, chosen, target, lambda a, b: apply(name, a, b))
    return result_tile(total, result_dtype(dtype, x), mask)


@nki_op("nl.sync_program")
def sync_program(*args: Any, **kwargs: Any) -> None:
    """A barrier of the programs of a launch; programs run one after the other, so it is nothing."""


# ---------------------------------------------------------------------------- control


@nki_op("nl.fori_loop")
def fori_loop(lower: Any, upper: Any, body_fun: Callable[..., Any], step: int = 1) -> None:
    """Calls `body_fun(index)` in a device loop; state lives in tensors."""
    ctx = nki_ctx()
    for index in SequentialRange(lower, upper, step):
        ctx.call(body_fun, index)


@nki_op("nl.while_loop")
def while_loop(init: Any, body_fun: Callable[..., Any]) -> None:
    """Calls `body_fun` in a device loop, while the scalar or register that it returns is not 0.

    Runs not at all where `init` is 0. A body with a parameter is given the condition.
    """
    ctx = nki_ctx()
    loop = ctx.while_loop()
    loop.open(_require_condition(init))
    takes_condition = bool(inspect.signature(body_fun).parameters)
    again = ctx.call(body_fun, *((init,) if takes_condition else ()))
    loop.close(_require_condition(again))


def _require_condition(given: Any) -> Any:
    if not isinstance(given, (DynamicScalar, ScalarPredicate)):
        raise refusal(WHILE_LOOP, given=repr(given))
    return given


@contextmanager
def no_reorder() -> Generator[None]:
    """Instructions inside stay in order; they always do here."""
    yield


@contextmanager
def do_while(condition: nki_tensor) -> Generator[None]:
    """The block runs, and runs again while the element of `condition`, [1, 1] in HBM, is not 0."""
    loop = nki_ctx().while_loop()
    loop.test(scalar(True))
    yield
    value = trace_access.fetch(nki_ctx().sema, condition, None, MemorySpace.Sbuf)
    loop.test(scalar(nki_ctx().sema.tile(value)))


# ---------------------------------------------------------------------------- debugging


@nki_op("nl.device_print")
def device_print(prefix: str, x: Any, *, mask: Any = None, **kwargs: Any) -> None:
    """Prints a tile, a number, or a tensor in HBM, each time that a launch comes here.

    It is printed at the end of the launch, in the order in which the kernel came to its prints.
    """
    ctx = nki_ctx()
    if is_scalar(x):
        splat = creation.splat(operand_value(x, FP32), shape=(1, 1), space=MemorySpace.Sbuf)
        x = ctx.sema.tile(splat)
    if not isinstance(x, nki_tensor) or not x.root.is_hbm:
        require_tile(x, "x")
    value = trace_access.fetch(ctx.sema, x, mask, MemorySpace.Sbuf)
    ctx.kernel.print_value(prefix, value)


# ---------------------------------------------------------------------------- queries


def finfo(dtype: Any) -> Any:
    """Limits of a floating-point element type."""
    return limits_of(np.dtype(require_dtype(dtype).numpy))


def sizeinbytes(dtype: Any) -> int:
    """Bytes of one element."""
    return require_dtype(dtype).nbytes


def is_hbm(buffer: Any) -> bool:
    """True for memory outside the chip: of a buffer, its name, or a tensor."""
    return _buffer_of(buffer).is_hbm


def _buffer_of(given: Any) -> Buffer:
    return as_buffer(given.buffer if isinstance(given, nki_tensor) else given)


def is_sbuf(buffer: Any) -> bool:
    """True for SBUF."""
    return _buffer_of(buffer).space is MemorySpace.Sbuf


def is_psum(buffer: Any) -> bool:
    """True for PSUM."""
    return _buffer_of(buffer).space is MemorySpace.Psum


def is_on_chip(buffer: Any) -> bool:
    """True for SBUF and PSUM."""
    return is_sbuf(buffer) or is_psum(buffer)
