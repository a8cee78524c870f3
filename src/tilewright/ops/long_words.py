"""Words that take many instructions."""

from __future__ import annotations

from tilewright.ops import arith

LONG_WORDS = frozenset(
    {
        arith.exp,
        arith.exp2,
        arith.log,
        arith.log1p,
        arith.tanh,
        arith.erf,
        arith.sigmoid,
        arith.sin,
        arith.cos,
        arith.tan,
        arith.atan,
        arith.pow_,
        arith.mod,
        arith.fmod,
        arith.floordiv,
    }
)
