"""Kernels that route, quantize and loop on what the device finds."""

import math

import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import numpy as np
from common import GENERATOR as R
from common import both, case, close, main, rnd
from neuronxcc.nki._private.private_api import do_while
from neuronxcc.nki.isa.constants import oob_mode
from neuronxcc.nki.typing import scalar


@case
def topk_max8():
    @nki.jit
    def k(x):
        p, _n = x.shape
        vals = nl.ndarray((p, 16), dtype=x.dtype, buffer=nl.shared_hbm)
        idx = nl.ndarray((p, 16), dtype=nl.uint32, buffer=nl.shared_hbm)
        work = nl.load(x)
        for r in nl.static_range(2):
            m = nisa.max8(src=work)
            ix = nisa.nc_find_index8(data=work, vals=m)
            nl.store(vals[:, r * 8 : (r + 1) * 8], m)
            nl.store(idx[:, nl.ds(r * 8, 8)], ix)
            work = nisa.nc_match_replace8(data=work, vals=m, imm=-3e38)
        return vals, idx

    x = rnd(32, 100)
    v, i = both(k, x)
    o = np.argsort(-x, 1)[:, :16]
    close(v, np.take_along_axis(x, o, 1))
    close(i, o)


@case
def moe_dynamic_blocks():
    @nki.jit
    def k(hidden, weights, block_expert, ids):
        _T, H = hidden.shape
        _E, _, I = weights.shape
        N, B = ids.shape
        out = nl.ndarray((N, B, I), dtype=hidden.dtype, buffer=nl.shared_hbm)
        for n in nl.sequential_range(N):
            tok = nl.load(ids[n].reshape((B, 1)))
            i_p, i_f = nl.arange(B)[:, None], nl.arange(H)[None, :]
            h = nl.load(hidden[tok[i_p, 0], i_f], mode=oob_mode.skip)
            e = nl.load(block_expert[nl.ds(n, 1), :], dtype=nl.int32)
            i_h, i_i = nl.mgrid[0:H, 0:I]
            w = nl.load(weights[scalar(e), i_h, i_i])
            o = nl.matmul(h, w)
            nl.store(out[n], o)
        return out

    hidden, w = rnd(64, 128), rnd(4, 128, 96)
    be = R.integers(0, 4, (6, 1)).astype(np.int32)
    ids = R.integers(0, 64, (6, 32)).astype(np.int32)
    want = np.stack([hidden[ids[n]] @ w[be[n, 0]] for n in range(6)])
    close(both(k, hidden, w, be, ids), want, 1e-3, 1e-3)


@case
def quantize_fp8():
    @nki.jit
    def k(x):
        out = nl.ndarray(x.shape, dtype=nl.float8_e4m3, buffer=nl.shared_hbm)
        sc = nl.ndarray((x.shape[0], 1), dtype=nl.float32, buffer=nl.shared_hbm)
        for i in nl.affine_range(x.shape[0] // 128):
            t = nl.load(x[nl.ds(i * 128, 128)])
            a = nisa.tensor_reduce(nl.max, nl.abs(t), axis=(1,), keepdims=True)
            s = nl.maximum(a, 1e-6) * (1.0 / 240.0)
            q = nisa.tensor_scalar(
                t, op0=nl.multiply, operand0=nisa.reciprocal(s), op1=nl.minimum, operand1=240.0
            )
            q = nl.maximum(q, -240.0)
            nl.store(out[nl.ds(i * 128, 128)], nl.copy(q, dtype=nl.float8_e4m3))
            nl.store(sc[nl.ds(i * 128, 128)], s)
        return out, sc

    x = rnd(256, 64)
    q, s = k(x)
    close(q.astype(np.float32) * s, x, 0.07, 0.05)


@case
def attention_bwd_like_hbm_scratch():
    @nki.jit
    def k(x, w):
        n = x.shape[0]
        out = nl.ndarray((n, w.shape[1]), dtype=x.dtype, buffer=nl.shared_hbm)
        tmp = nl.ndarray((n, w.shape[1]), dtype=x.dtype, buffer=nl.private_hbm)
        for i in nl.affine_range(n // 128):
            nl.store(
                tmp[nl.ds(i * 128, 128)],
                nl.matmul(
                    nl.load_transpose2d(x[nl.ds(i * 128, 128)]), nl.load(w), transpose_x=True
                ),
            )
        for i in nl.affine_range(n // 128):
            nl.store(out[nl.ds(i * 128, 128)], nl.relu(nl.load(tmp[nl.ds(i * 128, 128)])))
        return out

    x, w = rnd(256, 128), rnd(128, 64)
    close(both(k, x, w), np.maximum(x @ w, 0), 1e-3, 1e-3)


@case
def private_do_while():
    @nki.jit
    def k(x, limit):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        again = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.shared_hbm)
        nl.store(out, nl.load(x))
        with do_while(again):
            t = nl.load(out) * 2.0
            nl.store(out, t)
            nl.store(again, nl.less(t[0:1, 0:1], nl.load(limit), dtype=nl.int32))
        return out, again

    x = np.ones((4, 8), np.float32)
    close(both(k, x, np.array([[20]], np.float32))[0], 32 * x)


@case
def kernel_classes():
    class Kern:
        def __init__(self, scale):
            self.scale = scale

        def tile(self, x, i):
            return nl.load(x[nl.ds(i * 64, 64)]) * self.scale

        @staticmethod
        def act(t):
            return nl.gelu(t)

        def __call__(self, x, out):
            for i in nl.affine_range(x.shape[0] // 64):
                nl.store(out[nl.ds(i * 64, 64)], self.act(self.tile(x, i)))

    obj = Kern(2.0)

    @nki.jit
    def k(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        obj(x, out)
        return out

    x = rnd(128, 16)
    y = 2 * x
    close(both(k, x), y * 0.5 * (1 + np.vectorize(math.erf)(y / np.sqrt(2))))


@case
def grid3_and_kwargs():
    @nki.jit
    def k(x, *, n):
        _b, _h, s, _d = x.shape
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        ib, ih, it = nl.program_id(0), nl.program_id(1), nl.program_id(axis=2)
        sl = nl.ds(it * (s // n), s // n)
        t = nl.load(x[ib, ih, sl, :])
        assert nl.num_programs(2) == n and nl.num_programs() == 2 * 3 * n
        nl.store(out[ib, ih, sl, :], t - nl.mean(t, axis=[1], keepdims=True))
        return out

    x = rnd(2, 3, 128, 16)
    close(both(k[2, 3, 4], x, n=4), x - x.mean(-1, keepdims=True))


@case
def loop_reduce_and_psum():
    @nki.jit
    def k(x):
        out = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.shared_hbm)
        for i in nl.affine_range(4):
            t = nl.load(x[nl.ds(i * 128, 128)])
            r = nl.loop_reduce(t, op=np.add, loop_indices=[i], dtype=nl.float32)
        nl.store(out, r)
        return out

    x = rnd(512, 64)
    close(both(k, x), x.reshape(4, 128, 64).sum(0))


@case
def tuple_of_arrays_param():
    @nki.jit
    def k(xs, scale):
        out = nl.ndarray(xs[0].shape, dtype=xs[0].dtype, buffer=nl.shared_hbm)
        acc = nl.zeros(xs[0].shape, dtype=nl.float32)
        for x in xs:
            acc += nl.load(x) * scale
        nl.store(out, acc)
        return out

    x = [rnd(16, 16) for _ in range(3)]
    close(k(tuple(x), 2.0), 2 * sum(x))


@case
def ragged_2d_tiles():
    @nki.jit
    def k(x, w):
        M, K = x.shape
        N = w.shape[1]
        out = nl.ndarray((M, N), dtype=x.dtype, buffer=nl.shared_hbm)
        for m in nl.affine_range((M + 127) // 128):
            for n in nl.affine_range((N + 511) // 512):
                ps = nl.zeros((128, 512), dtype=nl.float32, buffer=nl.psum)
                for kk in nl.affine_range((K + 127) // 128):
                    _ik, _im = nl.mgrid[0:128, 0:128]
                    jk, jn = nl.mgrid[0:128, 0:512]
                    a = nl.zeros((128, 128), dtype=x.dtype)
                    b = nl.zeros((128, 512), dtype=x.dtype)
                    i_r, i_c = nl.mgrid[0:128, 0:128]
                    at = nl.zeros((128, 128), dtype=x.dtype)
                    at[i_r, i_c] = nl.load(
                        x[m * 128 + i_r, kk * 128 + i_c],
                        mask=(m * 128 + i_r < M) & (kk * 128 + i_c < K),
                    )
                    a[...] = nisa.nc_transpose(at)
                    b[jk, jn] = nl.load(
                        w[kk * 128 + jk, n * 512 + jn],
                        mask=(kk * 128 + jk < K) & (n * 512 + jn < N),
                    )
                    ps += nisa.nc_matmul(a, b)
                om, on = nl.mgrid[0:128, 0:512]
                nl.store(
                    out[m * 128 + om, n * 512 + on],
                    ps,
                    mask=(m * 128 + om < M) & (n * 512 + on < N),
                )
        return out

    x, w = rnd(200, 300), rnd(300, 600)
    close(both(k, x, w), x @ w, 1e-3, 1e-3)


if __name__ == "__main__":
    main()
