"""A workload as data: what is computed, on what, by whom, and how fast it has to be.

Every contender's result is compared with the float64 formula before anything is timed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from benchmarks import formulas
from benchmarks.contenders import LIBRARIES, Array, Contender, calling
from benchmarks.floors import floor_of
from benchmarks.harness import OURS, Remote, Row, Run, interleave
from benchmarks.server import Server

Inputs = Callable[[], tuple[Array, ...]]
SLACK = 10  # what is allowed to a peer that computes with fast mathematics


@dataclass(frozen=True)
class Workload:
    """One row.

    `word` names the formula and the peers' versions of it. `kernel(*arguments(*inputs), out)` is
    ours; if it `returns`, it makes its own output. `flops` are counted in the dtype of the inputs;
    without them the floor is moving the bytes of inputs and result once. `blas` says that numpy
    calls its BLAS for it. `beside` are other calls that take part, by name, called like a peer.
    `tolerance` is on the largest error over the largest value.
    """

    name: str
    word: str
    kernel: Callable[..., Any]
    inputs: Inputs
    bars: Mapping[str, float] = field(default_factory=dict[str, float])
    flops: float | None = None
    blas: bool = False
    beside: Mapping[str, Callable[..., Any]] = field(default_factory=dict[str, Any])
    peers: tuple[str, ...] = tuple(LIBRARIES)
    dtype: Any = np.float32
    tolerance: float = 1e-5
    arguments: Callable[..., tuple[Any, ...]] = lambda *inputs: inputs
    returns: bool = False

    def exact(self, inputs: tuple[Array, ...]) -> Array:
        """The result in float64."""
        wide = [x.astype(np.float64) for x in inputs]
        return np.asarray(getattr(formulas, self.word)(formulas.numpy_library(), *wide))

    def ours(self, inputs: tuple[Array, ...], out: Array) -> Contender:
        """Our kernel as a contender."""
        args = self.arguments(*inputs)
        if not self.returns:
            return calling(self.kernel, args, out)
        kernel = self.kernel
        return Contender(lambda: kernel(*args), lambda: np.asarray(kernel(*args)))

    def contender(self, name: str, inputs: tuple[Array, ...], out: Array) -> Contender | None:
        """Ours or the peer of a name; None where there is none."""
        if name == OURS:
            return self.ours(inputs, out)
        if name in self.beside:
            return calling(self.beside[name], inputs, np.empty_like(out))
        return LIBRARIES[name](self.word, inputs, out) if name in self.peers else None


def error_of(got: Array, exact: Array) -> float:
    """The largest error over the largest value."""
    if got.shape != exact.shape:
        return float("inf")
    return float(np.abs(got.astype(np.float64) - exact).max() / np.abs(exact).max())


def measure(work: Workload, cores: Mapping[str, Server]) -> Row:
    """The row of a workload; `cores` are servers whose numpy takes part, by column."""
    inputs = work.inputs()
    exact = work.exact(inputs)
    out = np.empty(exact.shape, work.dtype)
    runs: dict[str, Run | Remote] = {}
    wrong: dict[str, float] = {}
    for name in (OURS, *LIBRARIES, *work.beside):
        made = work.contender(name, inputs, out)
        if made is None:
            continue
        runs[name] = made.run
        error = 0.0 if name in work.beside else error_of(made.result(), exact)
        if not error <= work.tolerance * (1 if name == OURS else SLACK):
            wrong[name] = error
    for column, server in cores.items():
        if work.blas and "numpy" in runs:
            runs[column] = server.contender(work.name, "numpy")
    floor = floor_of(inputs, out, work.flops)
    if floor is not None:
        runs["floor"] = floor.run
    seconds = interleave(runs)
    if floor is not None:
        seconds["floor"] *= floor.scale
    return Row(work.name, seconds, dict(work.bars), wrong=wrong)
