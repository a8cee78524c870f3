"""What interpreted functions call at run time, by the names their text uses."""

from __future__ import annotations

import random
from collections.abc import Mapping
from functools import reduce
from typing import Any, SupportsIndex, cast

import numpy as np
import numpy.typing as npt

from tilewright.errors import InternalError, RuntimeShapeMismatch, ZeroStep
from tilewright.interp import buffers, folds
from tilewright.ir.affine import Symbol

Array = npt.NDArray[Any]
_INT64 = 1 << 64


def least(*given: Any) -> Any:
    """The least of integers or of int64 arrays."""
    return min(given) if all(isinstance(x, int) for x in given) else reduce(np.minimum, given)


def greatest(*given: Any) -> Any:
    """The greatest of integers or of int64 arrays."""
    return max(given) if all(isinstance(x, int) for x in given) else reduce(np.maximum, given)


def wrap(value: Any) -> Any:
    """`value` modulo 2**64 as a signed integer; arrays wrap by themselves."""
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
        return (value + (1 << 63)) % _INT64 - (1 << 63)
    return value


def floordiv(x: Any, y: Any) -> Any:
    """x // y, 0 where y is 0."""
    if isinstance(y, int):
        return x // y if y else x * 0
    return np.where(y == 0, 0, np.floor_divide(x, np.where(y == 0, 1, y)))[()]


def remainder(x: Any, y: Any) -> Any:
    """x % y, 0 where y is 0."""
    if isinstance(y, int):
        return x % y if y else x * 0
    return np.where(y == 0, 0, np.remainder(x, np.where(y == 0, 1, y)))[()]


def put(target: Any, given: Any) -> Any:
    """`target` with the contents of `given`, which may be `target` itself."""
    if given is not target:
        target[...] = given
    return target


def fresh(given: Any, operands: tuple[Any, ...]) -> Any:
    """`given`, copied if it may be a view of an operand."""
    if isinstance(given, tuple):
        return tuple(fresh(item, operands) for item in cast("tuple[Any, ...]", given))
    if not isinstance(given, np.ndarray):
        return given
    array = cast(Array, given)
    if any(overlap(array, operand) for operand in operands):
        return np.array(array)
    return cast(Any, given)


def overlap(array: Any, other: Any) -> bool:
    """True for two arrays that may share memory."""
    both = isinstance(array, np.ndarray) and isinstance(other, np.ndarray)
    return both and np.may_share_memory(cast(Array, array), cast(Array, other))


def returned(values: tuple[Any, ...], params: tuple[Any, ...]) -> tuple[Any, ...]:
    """`values` to be given back: none shares memory with a parameter or with another one."""
    given: list[Any] = []
    for value in values:
        given.append(fresh(value, (*params, *given)))
    return tuple(given)


def finish(params: tuple[Any, ...], finals: tuple[Any, ...]) -> None:
    """Brings the last version of each Out or InOut parameter into the caller's memory."""
    moved = [(param, final) for param, final in zip(params, finals) if final is not param]
    kept = [fresh(final, params) for _, final in moved]
    for (param, _), final in zip(moved, kept):
        put(param, final)


def lanes(low: int, high: int) -> Array:
    """The index of every lane."""
    return np.arange(low, high)


def steps(low: int, high: int, step: int) -> range:
    """The iterations of a loop; raises ZeroStep."""
    if not step:
        raise ZeroStep("the step of a loop is 0")
    return range(low, high, step)


def shuffled(steps: range) -> list[int]:
    """The iterations of a parallel loop in a random order that is the same on every run."""
    order = list(steps)
    random.Random(len(order)).shuffle(order)
    return order


def require_extent(given: int, wanted: int, what: str) -> None:
    """Raises RuntimeShapeMismatch unless an extent is what the others imply."""
    if given != wanted:
        raise RuntimeShapeMismatch(f"{what} is {given}, but the other extents make it {wanted}")


def resolve(attr: Any, values: Mapping[Symbol, SupportsIndex]) -> Any:
    """An attribute such as an access with its free symbols replaced by numbers."""
    return attr.substitute(values)


def unbound(name: str) -> Any:
    """Raises InternalError: an extent mentions a symbol that nothing binds."""
    raise InternalError(f"the symbol {name} has no value here")


NAMESPACE: dict[str, Any] = {
    "alloc": buffers.allocate,
    "as_buffer": buffers.as_buffer,
    "check_extent": buffers.check_extent,
    "check_index": buffers.check_index,
    "copy_buffer": buffers.copy,
    "finish": finish,
    "floordiv": floordiv,
    "fold_arg": folds.fold_arg,
    "fold_lanes": folds.fold_lanes,
    "fresh": fresh,
    "greatest": greatest,
    "lanes": lanes,
    "least": least,
    "load": buffers.load,
    "np": np,
    "put": put,
    "remainder": remainder,
    "require_extent": require_extent,
    "resolve": resolve,
    "returned": returned,
    "shuffled": shuffled,
    "steps": steps,
    "store": buffers.store,
    "unbound": unbound,
    "view": buffers.view,
    "wrap": wrap,
}
