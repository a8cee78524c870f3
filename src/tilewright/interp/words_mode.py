"""Words mode: compiled scalar words in place of references that are only bounded by ULPs.

Products are the chains of fused steps that compiled code runs, so that they are equal bits however
they are cut along k.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from tilewright.dtypes import DType
from tilewright.interp.emit import EVALUATORS, Mode
from tilewright.ir.core import Operation
from tilewright.ir.enums import Rounding
from tilewright.ir.opdef import OPS
from tilewright.ops import matmul
from tilewright.ops.cast import cast_numpy
from tilewright.ops.loop import accumulator_dtype
from tilewright.ops.words import dtype_of

Chain = Callable[..., None]


def compiled_word(mode: Mode, op: Operation) -> Callable[..., Any] | None:
    """The compiled word of a scalar or elementwise op that is not exact."""
    if mode.words is None or not op.opdef.ulp:
        return None
    word = "arith." + op.opdef.name.partition(".")[2]
    if word not in OPS:
        return None
    return mode.words.word(word, dtype_of(op.operands[0]))


def chained_product(mode: Mode, op: Operation) -> Callable[..., Any] | None:
    """The product as compiled code computes it."""
    if mode.words is None or op.opdef not in PRODUCTS:
        return None
    return partial(PRODUCTS[op.opdef], mode.words.matmul)


def multiplied(
    chain: Chain, lhs: Any, rhs: Any, *, a_trans: bool, b_trans: bool, dtype: DType | None
) -> Any:
    """lhs times rhs."""
    rows, columns = lhs.shape[-1 if a_trans else -2], rhs.shape[-2 if b_trans else -1]
    wide = accumulator_dtype(DType.from_numpy(lhs.dtype)).numpy
    total = np.zeros((*lhs.shape[:-2], rows, columns), wide)
    accumulated(chain, total, lhs, rhs, None, a_trans=a_trans, b_trans=b_trans)
    return total if dtype is None else cast_numpy(total, dtype=dtype, mode=Rounding.RINT)


def accumulated(
    chain: Chain, acc: Any, lhs: Any, rhs: Any, fresh: Any, *, a_trans: bool, b_trans: bool
) -> Any:
    """acc plus lhs times rhs, in place."""
    flags = {"a_trans": a_trans, "b_trans": b_trans, "accumulate": not fresh}
    for batch in product(*map(range, acc.shape[:-2])):
        chain(acc[batch], lhs[batch], rhs[batch], **flags)
    return acc


PRODUCTS: dict[Any, Callable[..., Any]] = {matmul.matmul: multiplied, matmul.acc: accumulated}

EVALUATORS.extend((compiled_word, chained_product))
