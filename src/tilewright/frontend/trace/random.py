"""The random numbers of one kernel: a seed, and a stream for each use in each iteration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.dtypes import UINT32
from tilewright.frontend.trace.scopes import LoopScope
from tilewright.ir.affine import as_expr
from tilewright.ir.core import Value
from tilewright.ops import arith, nki_random
from tilewright.ops import cast as casting

if TYPE_CHECKING:
    from tilewright.frontend.trace.context import TraceContext


class RandomNumbers:
    """Gives a different stream to every use, loop iteration and program."""

    def __init__(self, ctx: TraceContext) -> None:
        self.ctx = ctx
        self.seed: Value | int = 0
        self.uses = 0

    def reseed(self, seed: Value | int) -> None:
        """Starts over from `seed`, an integer or a UINT32 scalar."""
        self.seed = seed
        self.uses = 0

    def uniform(self, shape: tuple[int, ...]) -> Value:
        """FP32 numbers in [0, 1)."""
        self.uses += 1
        return nki_random.uniform(self._start(), shape)

    def _start(self) -> Value:
        offset = nki_random.uint32(self.uses * nki_random.STEP)
        seed = nki_random.uint32(self.seed) if isinstance(self.seed, int) else self.seed
        start = arith.add(offset, arith.mul(seed, nki_random.uint32(0x85EBCA6B)))
        for depth, region in enumerate(self.ctx.regions):
            if isinstance(region, LoopScope):
                index = self.ctx.sema.scalar(as_expr(region.symbol))
                step = nki_random.uint32((2 * depth + 3) * 0xC2B2AE35)
                start = arith.add(start, arith.mul(casting.cast(index, dtype=UINT32), step))
        return start
