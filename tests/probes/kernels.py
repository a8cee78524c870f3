"""The probe kernels: small, each with one hard thing in it, as an author would write them."""

from __future__ import annotations

import tilewright.language as pl
import tilewright.nki as nki
import tilewright.nki.isa as nisa
import tilewright.nki.language as nl

ROWS = pl.dynamic("ROWS")


@nki.jit
def psum_accumulation(a, b):
    """PSUM `+=` inside affine_range: [512, 128].T @ [512, 256], k-major, 128 rows at a time."""
    out = nl.ndarray((128, 256), dtype=nl.float32, buffer=nl.shared_hbm)
    acc = nl.zeros((128, 256), dtype=nl.float32, buffer=nl.psum)
    for k in nl.affine_range(4):
        stationary = nl.load(a[k * 128 : (k + 1) * 128, :])
        moving = nl.load(b[k * 128 : (k + 1) * 128, :])
        acc += nisa.nc_matmul(stationary, moving)
    nl.store(out, value=nl.copy(acc))
    return out


@nki.jit
def strided_masked_store(x, limit):
    """t[i_p, 2*i_f + 1] = v where 2*i_f + 1 < limit; masked elements keep what they had."""
    out = nl.ndarray((16, 40), dtype=nl.float32, buffer=nl.shared_hbm)
    i_p = nl.arange(16)[:, None]
    i_f = nl.arange(20)[None, :]
    t = nl.full((16, 40), -7.0, dtype=nl.float32)
    v = nl.load(x)
    t[i_p, 2 * i_f + 1] = nl.copy(v[i_p, i_f], mask=2 * i_f + 1 < limit)
    nl.store(out, value=t)
    return out


@nki.jit
def strided_store_under_mask(x):
    """A strided store at a ragged tail: columns 1, 3, ... 13 of 40 are written, others kept."""
    out = nl.ndarray((16, 40), dtype=nl.float32, buffer=nl.shared_hbm)
    i_p = nl.arange(16)[:, None]
    i_f = nl.arange(20)[None, :]
    nl.store(out, value=nl.full((16, 40), -7.0, dtype=nl.float32))
    nl.store(out[i_p, 2 * i_f + 1], value=nl.load(x), mask=2 * i_f + 1 < 15)
    return out


def _fill(view, value):
    inner = view[2:6, :]
    inner[:, 1:5] = value


@nki.jit
def view_of_a_view(x):
    """A nested helper stores through a view of a view."""
    out = nl.ndarray((8, 8), dtype=nl.float32, buffer=nl.shared_hbm)
    t = nl.load(x)
    _fill(t[0:8, 2:8], nl.load(x[0:4, 0:4]))
    nl.store(out, value=t)
    return out


@pl.jit
def paged_rows(
    pages: pl.Tensor[[64, 32], pl.FP32],
    table: pl.Tensor[[8], pl.INT32],
    out: pl.Out[pl.Tensor[[8, 32], pl.FP32]],
):
    """Rows found through a block table; an index outside the pages is a fault."""
    with pl.at(level=pl.Level.CORE_GROUP):
        for i in pl.range(8):
            row = pl.read(table, [i])
            out[i : i + 1, :] = pl.load(pages, [pl.cast(row, pl.INDEX), 0], [1, 32])
    return out


@nki.jit
def prefix_sum(x):
    """r[i] = r[i-1] + x[i] along each row."""
    out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    t = nl.load(x)
    ones = nl.full(x.shape, 1.0, dtype=nl.float32)
    nl.store(out, value=nisa.tensor_tensor_scan(ones, t, initial=0.0, op0=nl.multiply, op1=nl.add))
    return out


@pl.jit
def first_of_equals(x: pl.Tensor[[16, 48], pl.FP32], out: pl.Out[pl.Tensor[[16, 1], pl.INT32]]):
    """argmax with ties: the first of equal elements."""
    with pl.at(level=pl.Level.CORE_GROUP):
        pl.store(pl.row_argmax(pl.load(x, [0, 0], [16, 48])), [0, 0], out)
    return out


@pl.jit
def carry_and_branch(x: pl.Tensor[[64, 32], pl.FP32], out: pl.Out[pl.Tensor[[8, 32], pl.FP32]]):
    """A loop carry, and an `if` without yields that rebinds it in one arm."""
    with pl.at(level=pl.Level.CORE_GROUP):
        acc = pl.full([8, 32], dtype=pl.FP32, value=0.0)
        for i, (total,) in pl.range(8, init_values=(acc,)):
            t = pl.load(x, [i * 8, 0], [8, 32])
            if i >= 4:
                t = pl.mul(t, 2.0)
            total = pl.yield_(pl.add(total, t))
        pl.store(total, [0, 0], out)
    return out


@pl.jit
def scaled_rows(x: pl.Tensor[[ROWS, 48], pl.FP32], out: pl.Out[pl.Tensor[[ROWS, 48], pl.FP32]]):
    """One artifact for every number of rows."""
    for i in pl.parallel(x.shape[0]):
        with pl.at(level=pl.Level.CORE_GROUP):
            t = pl.load(x, [i, 0], [1, 48])
            pl.store(pl.row_expand_div(t, pl.row_sum(pl.abs(t))), [i, 0], out)
    return out


@pl.jit
def in_place(x: pl.InOut[pl.Tensor[[32, 64], pl.FP32]], y: pl.Tensor[[32, 64], pl.FP32]):
    """x = exp(-x) + y in the memory of x."""
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [32, 64])
        pl.store(pl.add(pl.exp(pl.neg(t)), pl.load(y, [0, 0], [32, 64])), [0, 0], x)
    return x
