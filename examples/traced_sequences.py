"""Data that decides where to read, and a recurrence, in the traced style.

python examples/traced_sequences.py
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

import tilewright.nki as nki
import tilewright.nki.isa as nisa
import tilewright.nki.language as nl

Array = npt.NDArray[Any]


@nki.jit
def mixture_of_experts(tokens, places, gates, weights):
    """Each expert's tokens, gathered, projected, gated and added to where they came from.

    tokens [T + 1, H] ends with a spare row; places [E, C] says which tokens an expert takes, T
    where it has fewer than C; gates [E, C]; weights [E, H, F]. Gives [T + 1, F].
    """
    rows, width = tokens.shape
    experts, capacity = places.shape
    features = weights.shape[2]
    out = nl.ndarray((rows, features), dtype=tokens.dtype, buffer=nl.shared_hbm)
    for start in range(0, rows, nl.tile_size.pmax):
        count = min(nl.tile_size.pmax, rows - start)
        nl.store(out[nl.ds(start, count)], nl.zeros((count, features), dtype=tokens.dtype))
    p, f, g = nl.arange(capacity)[:, None], nl.arange(width)[None, :], nl.arange(features)[None, :]
    for e in nl.sequential_range(experts):
        place = nl.load(places[e].reshape((capacity, 1)))
        gate = nl.load(gates[e].reshape((capacity, 1)))
        mine = nl.load(tokens[place[p, 0], f])
        result = nl.matmul(mine, nl.load(weights[e])) * gate
        nl.atomic_rmw(out[place[p, 0], g], result, op=np.add)
    return out


@nki.jit
def selective_scan(x, step, decay, write, read):
    """The recurrence of a selective state space model: [C, L].

    x and step are [C, L], decay [C, N], write and read [N, L]. Each of the N states follows
    h[t] = exp(step[t] * decay) * h[t - 1] + step[t] * write[t] * x[t]; the result is the sum of
    read[t] * h[t] over the states.
    """
    channels, length = x.shape
    states = decay.shape[1]
    out = nl.ndarray((channels, length), dtype=x.dtype, buffer=nl.shared_hbm)
    steps, decays = nl.load(step), nl.load(decay)
    driven = steps * nl.load(x)
    total = nl.zeros((channels, length), dtype=nl.float32)
    for n in nl.static_range(states):
        keep = nisa.activation(np.exp, steps, scale=decays[:, n : n + 1])
        writes = nl.load(write[n : n + 1]).broadcast_to((channels, length))
        reads = nl.load(read[n : n + 1]).broadcast_to((channels, length))
        state = nisa.tensor_tensor_scan(keep, driven * writes, 0.0, np.multiply, np.add)
        total += state * reads
    nl.store(out, total)
    return out


def expected_mixture(tokens: Array, places: Array, gates: Array, weights: Array) -> Array:
    """`mixture_of_experts` in float64."""
    wide = tokens.astype(np.float64)
    out = np.zeros((len(tokens), weights.shape[2]))
    for place, gate, weight in zip(places, gates, weights):
        np.add.at(out, place, wide[place] @ weight * gate[:, None])
    return out


def expected_scan(x: Array, step: Array, decay: Array, write: Array, read: Array) -> Array:
    """`selective_scan` in float64."""
    state = np.zeros(decay.shape)
    out = np.zeros(x.shape)
    for t in range(x.shape[1]):
        now = step[:, t : t + 1].astype(np.float64)
        state = np.exp(now * decay) * state + now * x[:, t : t + 1] * write[:, t]
        out[:, t] = state @ read[:, t]
    return out


def routed(count: int, experts: int, capacity: int, rng: np.random.Generator) -> Array:
    """For each expert up to `capacity` tokens that chose it, two experts a token, then `count`."""
    chosen = np.argsort(rng.random((count, experts)), axis=1)[:, :2]
    places = np.full((experts, capacity), count, np.int32)
    for expert in range(experts):
        takers = np.flatnonzero((chosen == expert).any(1))[:capacity]
        places[expert, : len(takers)] = takers
    return places


def check() -> dict[str, float]:
    """The largest absolute error of each kernel."""
    rng = np.random.default_rng(0)

    def random(*shape: int) -> Array:
        return rng.standard_normal(shape).astype(np.float32)

    tokens = np.vstack([random(200, 64), np.zeros((1, 64), np.float32)])
    places = routed(200, 8, 64, rng)
    gates, weights = rng.random((8, 64)).astype(np.float32), random(8, 64, 96) / 8
    mixture = (tokens, places, gates, weights)
    x, step = random(64, 256), rng.random((64, 256)).astype(np.float32) / 8
    scanned = (x, step, -rng.random((64, 8)).astype(np.float32), random(8, 256), random(8, 256))
    got = {
        "mixture of experts": mixture_of_experts(*mixture) - expected_mixture(*mixture),
        "selective scan": selective_scan(*scanned) - expected_scan(*scanned),
    }
    return {name: float(np.abs(difference).max()) for name, difference in got.items()}


if __name__ == "__main__":
    print(check())
