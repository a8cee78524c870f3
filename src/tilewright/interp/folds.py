"""How the contributions of lanes combine: the fixed order of `ops/loop.py`, in numpy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.ops import arith
from tilewright.ops.ordering import folded

Array = npt.NDArray[Any]


def _fold_floats(ufunc: np.ufunc, identity: int) -> Callable[[Any, Array], Any]:
    return lambda init, given: ufunc(init, folded(given, ufunc, identity, (-1,)))


def _fold_any(word: Callable[..., Any], ufunc: np.ufunc) -> Callable[[Any, Array], Any]:
    def fold(init: Any, given: Array) -> Any:
        return word(init, ufunc.reduce(given, dtype=given.dtype)) if len(given) else init

    return fold


def _fold_extreme(word: Callable[..., Any]) -> Callable[[Any, Array], Any]:
    def fold(init: Any, given: Array) -> Any:
        while len(given) > 1:
            half = len(given) // 2
            odd = given[2 * half :]
            given = np.concatenate([word(given[:half], given[half : 2 * half]), odd])
        return word(init, given[0]) if len(given) else init

    return fold


_FLOATS = {"add": _fold_floats(np.add, 0), "mul": _fold_floats(np.multiply, 1)}
_OTHERS = {
    "add": _fold_any(np.add, np.add),
    "mul": _fold_any(np.multiply, np.multiply),
    "and": _fold_any(np.bitwise_and, np.bitwise_and),
    "or": _fold_any(np.bitwise_or, np.bitwise_or),
    "xor": _fold_any(np.bitwise_xor, np.bitwise_xor),
    "max": _fold_extreme(arith.max_.evaluate or np.maximum),
    "min": _fold_extreme(arith.min_.evaluate or np.minimum),
}


def fold_lanes(combine: str, init: Any, given: Any, count: int) -> Any:
    """`init` combined with `count` contributions; a uniform contribution counts for each lane."""
    init = np.asarray(init)[()]
    lanes = np.ascontiguousarray(np.broadcast_to(given, (count,)))
    floats = lanes.dtype.kind not in "iub"
    with np.errstate(all="ignore"):
        fold = _FLOATS.get(combine) if floats else None
        return (fold or _OTHERS[combine])(init, lanes)


def fold_arg(combine: str, init: Any, where: Any, given: Any, index: Any, count: int) -> Any:
    """(value, index) of the extreme: the first wins, the first NaN wins over everything."""
    values = np.concatenate([[init], np.broadcast_to(given, (count,))])
    places = np.concatenate([[where], np.broadcast_to(index, (count,))])
    pick = np.argmax(values) if combine == "argmax" else np.argmin(values)
    return values[pick], places[pick]
