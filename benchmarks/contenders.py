"""Who computes a workload: ours, and every library that is installed and has a way to write it.

A library is a column of the table. Nothing here is imported before it is asked for, and one that is
missing gives no contender: its cells stay blank.
"""

from __future__ import annotations

import importlib
import importlib.util
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from benchmarks import formulas
from benchmarks.harness import Run

Array = npt.NDArray[Any]
BF16: npt.DTypeLike = ml_dtypes.bfloat16


@dataclass(frozen=True)
class Contender:
    """A call without arguments, and what it computed as an array."""

    run: Run
    result: Callable[[], Array]


def calling(function: Callable[..., Any], inputs: Sequence[Any], out: Array) -> Contender:
    """`function(*inputs, out)`, which fills `out` or returns the result."""
    args = (*inputs, out)
    run = partial(function, *args)

    def result() -> Array:
        given = run()
        return given if isinstance(given, np.ndarray) else out

    return Contender(run, result)


def numpy_contender(word: str, inputs: Sequence[Array], out: Array) -> Contender | None:
    """numpy, as its users write it."""
    peers = importlib.import_module("benchmarks.numpy_peers")
    if not hasattr(peers, word) or (word in peers.NEED_SCIPY and not _installed("scipy")):
        return None
    return calling(getattr(peers, word), inputs, np.empty_like(out))


def numba_contender(word: str, inputs: Sequence[Array], out: Array) -> Contender | None:
    """Loops compiled by numba, without threads."""
    function = getattr(importlib.import_module("benchmarks.numba_peers"), word, None)
    if function is None or not _installed("numba"):
        return None
    return calling(_jitted(function), inputs, np.empty_like(out))


@cache
def _jitted(function: Any) -> Any:
    return importlib.import_module("numba").njit(fastmath=True)(function)


def torch_contender(word: str, inputs: Sequence[Array], out: Array) -> Contender | None:
    """torch, op by op."""
    torch = torch_on_one_thread()
    if torch is None:
        return None
    peers = importlib.import_module("benchmarks.torch_peers")
    return _in_torch(torch, getattr(peers, word), inputs, out)


def torch_compile_contender(word: str, inputs: Sequence[Array], out: Array) -> Contender | None:
    """The formula compiled by torch.compile, into `out`; it needs a C++ compiler."""
    torch = torch_on_one_thread()
    if torch is None or not any(map(shutil.which, ("c++", "g++", "clang++"))):
        return None
    if word in ("matmul", "matmul_t"):
        return None  # compiled or not, torch calls the same product
    xp, formula = formulas.torch_library(), getattr(formulas, word)

    def whole(*args: Any) -> Any:
        return args[-1].copy_(formula(xp, *args[:-1]))

    torch._dynamo.reset()
    return _in_torch(torch, torch.compile(whole, dynamic=False), inputs, out)


def _in_torch(torch: Any, function: Any, inputs: Sequence[Array], out: Array) -> Contender:
    def tensor(x: Array) -> Any:
        if x.dtype == BF16:
            return torch.from_numpy(x.view(np.int16)).view(torch.bfloat16)
        return torch.from_numpy(x)

    run = partial(function, *map(tensor, inputs), tensor(np.empty_like(out)))

    def result() -> Array:
        given = run()
        return (given.float() if given.dtype == torch.bfloat16 else given).numpy()

    return Contender(run, result)


@cache
def torch_on_one_thread() -> Any:
    """torch, told to use one thread; None where it is missing."""
    if not _installed("torch"):
        return None
    torch = importlib.import_module("torch")
    torch.set_grad_enabled(False)
    return torch


def jax_contender(word: str, inputs: Sequence[Array], out: Array) -> Contender | None:
    """The formula compiled by jax."""
    if not _installed("jax"):
        return None
    jax: Any = importlib.import_module("jax")
    erf = importlib.import_module("jax.scipy.special").erf
    xp = formulas.array_library(importlib.import_module("jax.numpy"), erf)
    compiled = jax.jit(partial(getattr(formulas, word), xp))
    args = [jax.device_put(x) for x in inputs]
    return Contender(
        lambda: compiled(*args).block_until_ready(), lambda: np.asarray(compiled(*args))
    )


def _installed(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


LIBRARIES: dict[str, Callable[[str, Sequence[Array], Array], Contender | None]] = {
    "numpy": numpy_contender,
    "torch": torch_contender,
    "torch.compile": torch_compile_contender,
    "numba": numba_contender,
    "jax": jax_contender,
}
"""Column -> how it makes a contender of a workload, by the name of its formula."""
