"""A layer of experts: each token goes to one of them, and every expert is a task.

Tasks say what they wait for with `deps=`. The last one adds up what all experts wrote, so it
waits for all their ids; nothing else orders them.

python examples/mixture_of_experts.py
"""

import numpy as np

import tilewright.language as pl
from tilewright import ir
from tilewright.runtime import RunConfig

TOKENS = 32
WIDTH = 64
HIDDEN = 128
EXPERTS = 4

X = pl.Tensor[[TOKENS, WIDTH], pl.FP32]
Gates = pl.Tensor[[TOKENS, EXPERTS], pl.FP32]
Parts = pl.Tensor[[EXPERTS, TOKENS, WIDTH], pl.FP32]


@pl.program
class MixtureOfExperts:
    @pl.function(type=pl.FunctionType.InCore)
    def route(
        self, x: X, router: pl.Tensor[[WIDTH, EXPERTS], pl.FP32], gates: pl.Out[Gates]
    ) -> Gates:
        score = pl.matmul(
            pl.load(x, [0, 0], [TOKENS, WIDTH]), pl.load(router, [0, 0], [WIDTH, EXPERTS])
        )
        best = pl.row_max(score)
        weight = pl.exp(pl.row_expand_sub(score, best))
        share = pl.row_expand_div(weight, pl.row_sum(weight))
        ones = pl.full([TOKENS, EXPERTS], dtype=pl.FP32, value=1.0)
        chosen = pl.sels(pl.cmp(score, pl.row_expand(score, best), cmp_type=0), ones, ones, 0.0)
        return pl.store(pl.mul(share, chosen), [0, 0], gates)

    @pl.function(type=pl.FunctionType.InCore)
    def expert(
        self,
        x: X,
        up: pl.Tensor[[WIDTH, HIDDEN], pl.FP32],
        down: pl.Tensor[[HIDDEN, WIDTH], pl.FP32],
        gates: Gates,
        number: pl.Scalar[pl.INDEX],
        part: pl.Out[X],
    ) -> X:
        hidden = pl.matmul(
            pl.load(x, [0, 0], [TOKENS, WIDTH]), pl.load(up, [0, 0], [WIDTH, HIDDEN])
        )
        given = pl.matmul(pl.relu(hidden), pl.load(down, [0, 0], [HIDDEN, WIDTH]))
        gate = pl.load(gates, [0, number], [TOKENS, 1])
        return pl.store(pl.row_expand_mul(given, gate), [0, 0], part)

    @pl.function(type=pl.FunctionType.InCore)
    def combine(self, parts: Parts, out: pl.Out[X]) -> X:
        total = pl.full([TOKENS, WIDTH], dtype=pl.FP32, value=0.0)
        for e in pl.range(EXPERTS):
            part = pl.load(parts, [e, 0, 0], [1, TOKENS, WIDTH])
            total = pl.add(total, pl.reshape(part, [TOKENS, WIDTH]))
        return pl.store(total, [0, 0], out)

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(
        self,
        x: X,
        router: pl.Tensor[[WIDTH, EXPERTS], pl.FP32],
        up: pl.Tensor[[EXPERTS, WIDTH, HIDDEN], pl.FP32],
        down: pl.Tensor[[EXPERTS, HIDDEN, WIDTH], pl.FP32],
        parts: pl.Out[Parts],
        out: pl.Out[X],
    ) -> X:
        gates = pl.create_tensor([TOKENS, EXPERTS], pl.FP32)
        done = pl.array.create(EXPERTS, pl.TASK_ID)
        with pl.manual_scope():
            gates, routed = pl.submit(self.route, x, router, gates)
            for e in pl.range(EXPERTS):
                _part, tid = pl.submit(
                    self.expert, x, up[e], down[e], gates, e, parts[e], deps=[routed]
                )
                done[e] = tid
            out, _last = pl.submit(self.combine, parts, out, deps=[done])
        return out


def check(config: RunConfig | None = None) -> dict[str, float]:
    """The largest absolute error beside float64; `config` may ask for a checked run."""
    rng = np.random.default_rng(0)
    x, router = (rng.standard_normal((n, WIDTH)).astype(np.float32) for n in (TOKENS, WIDTH))
    router = router[:, :EXPERTS].copy()
    up = rng.standard_normal((EXPERTS, WIDTH, HIDDEN)).astype(np.float32)
    down = rng.standard_normal((EXPERTS, HIDDEN, WIDTH)).astype(np.float32)
    parts, out = np.empty((EXPERTS, TOKENS, WIDTH), np.float32), np.empty_like(x)
    ir.compile(MixtureOfExperts)(x, router, up, down, parts, out, config=config)
    weights = np.exp(score := x.astype(float) @ router)
    gates = weights / weights.sum(1, keepdims=True) * (score == score.max(1, keepdims=True))
    given = np.maximum(x.astype(float) @ up, 0) @ down
    expected = (gates.T[:, :, None] * given).sum(0)
    return {"mixture of experts": float(np.abs(out - expected).max())}


if __name__ == "__main__":
    print(check())
