"""What authors do in Python around their tiles."""

import functools
from contextlib import contextmanager
from dataclasses import dataclass

import neuronxcc.nki as nki
import neuronxcc.nki.compiler as ncc
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import neuronxcc.nki.typing as nt
import numpy as np
from common import GENERATOR as R
from common import both, case, close, main, rnd
from neuronxcc.nki.isa.constants import oob_mode
from neuronxcc.nki.typing import scalar


@contextmanager
def nl_ctx():
    yield 3.0


@case
def rank1_shapes():
    @nki.jit
    def k(x, v):
        out = nl.ndarray((64, 8), dtype=x.dtype, buffer=nl.shared_hbm)
        t = nl.load(x)
        col = t[:, 3]
        assert len(col.shape) == 2, col.shape
        w = nl.load(v)
        assert w.shape == (64, 1)
        acc = nl.ndarray((nl.par_dim(64), 8), dtype=nl.float32)
        for i in nl.affine_range(8):
            acc[:, i] = t[:, i] * w + t[:, 0]
        nl.store(out[...], acc)
        return out

    x, v = rnd(64, 8), rnd(64)
    close(both(k, x, v), x * v[:, None] + x[:, :1])


@case
def list_and_dict_of_tiles():
    @nki.jit
    def k(x):
        out = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.shared_hbm)
        tiles = [nl.load(x[i * 128 : (i + 1) * 128, :]) for i in nl.static_range(4)]
        total = functools.reduce(nl.add, tiles)
        d = {"a": tiles[0], "b": total}
        for _name, t in d.items():
            total = total + t
        best = functools.reduce(lambda a, b: nl.maximum(a, b), tiles)
        gen = (t * 2.0 for t in tiles)
        for g in gen:
            total = total + g
        nl.store(out, total + best + sum(list(tiles)))
        return out

    x = rnd(512, 64)
    b = x.reshape(4, 128, 64)
    close(both(k, x), b.sum(0) * 2 + b[0] + 2 * b.sum(0) + b.max(0) + b.sum(0))


@case
def closures_capture_loop_vars():
    @nki.jit
    def k(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        for i in nl.sequential_range(4):

            def load_tile(j):
                return nl.load(x[nl.ds(i * 128, 128), nl.ds(j * 16, 16)])  # noqa: B023

            def save(j, t):
                nl.store(out[nl.ds(i * 128, 128), nl.ds(j * 16, 16)], t)  # noqa: B023

            for j in nl.affine_range(4):
                t = load_tile(j)
                save(j, nl.tanh(t))
        return out

    x = rnd(512, 64)
    close(both(k, x), np.tanh(x))


@case
def pipelined_ifs():
    @nki.jit
    def k(x):
        n = 6
        out = nl.ndarray((128, 32), dtype=x.dtype, buffer=nl.shared_hbm)
        buf = nl.ndarray((2, nl.par_dim(128), 32), dtype=x.dtype)
        acc = nl.zeros((128, 32), dtype=nl.float32)
        for s in nl.sequential_range(n + 1):
            if s < n:
                buf[s % 2] = nl.load(x[nl.ds(s * 128, 128)])
            if s > 0:
                acc[...] = acc + buf[(s - 1) % 2]
            if s == n:
                nl.store(out, acc)
        return out

    x = rnd(6 * 128, 32)
    close(both(k, x), x.reshape(6, 128, 32).sum(0))


@case
def dynamic_trip_count():
    @nki.jit
    def k(x, n):
        out = nl.ndarray((128, 16), dtype=x.dtype, buffer=nl.shared_hbm)
        acc = nl.zeros((128, 16), dtype=nl.float32)
        count = nl.load(n, dtype=nl.int32)
        for i in range(scalar(count)):
            acc[...] = acc + nl.load(x[nl.ds(i * 128, 128), :])
        nl.store(out, acc)
        return out

    x = rnd(5 * 128, 16)
    for n in (1, 3, 5):
        close(both(k, x, np.array([[n]], np.int32)), x.reshape(5, 128, 16)[:n].sum(0))


@case
def do_while():
    @nki.jit
    def k(x):
        out = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.shared_hbm)
        a = nl.zeros((1, 1), dtype=nl.int32)
        cond = scalar(True)
        while cond:
            a[...] = nl.add(a, 1)
            cond = scalar(nl.less(a, nl.load(x, dtype=nl.int32)))
        nl.store(out, a)
        return out

    assert k(np.array([[7]], np.int32))[0, 0] == 7
    assert nki.simulate_kernel(k, np.array([[7]], np.int32))[0, 0] == 7


@case
def gather_rows():
    @nki.jit
    def k(table, ids):
        n = ids.shape[0]
        d = table.shape[1]
        out = nl.ndarray((n, d), dtype=table.dtype, buffer=nl.shared_hbm)
        idx = nl.load(ids)
        i_p = nl.arange(n)[:, None]
        i_f = nl.arange(d)[None, :]
        rows = nl.load(table[idx[i_p, 0], i_f])
        nl.store(out[i_p, i_f], rows)
        return out

    table, ids = rnd(50, 24), R.integers(0, 50, (32, 1)).astype(np.int32)
    close(both(k, table, ids), table[ids[:, 0]])


@case
def scatter_skip():
    @nki.jit
    def k(x, ids):
        out = nl.ndarray((40, 24), dtype=x.dtype, buffer=nl.shared_hbm)
        z = nl.zeros((40, 24), dtype=x.dtype)
        nl.store(out, z)
        idx = nl.load(ids)
        i_p = nl.arange(32)[:, None]
        i_f = nl.arange(24)[None, :]
        nl.store(out[idx[i_p, 0], i_f], nl.load(x), mode=oob_mode.skip)
        nisa.dma_copy(dst=out[idx[i_p, 0], i_f], src=nl.load(x) * 2.0, oob_mode=oob_mode.skip)
        return out

    ids = np.arange(32)[::-1].astype(np.int32).reshape(32, 1).copy()
    ids[3] = 1000
    x = rnd(32, 24)
    w = np.zeros((40, 24), np.float32)
    for r, i in enumerate(ids[:, 0]):
        if i < 40:
            w[i] = 2 * x[r]
    close(both(k, x, ids), w)


@case
def blockwise_expert_helpers():
    @dataclass
    class Dims:
        T: int
        H: int
        B: int

        @property
        def tiles(self):
            return self.H // 128

    class Alloc:
        def __init__(self, dims):
            self.dims = dims
            self.made = []

        def new(self, n):
            t = nl.ndarray((nl.par_dim(128), n), dtype=nl.float32)
            self.made.append(t)
            return t

        def __call__(self, n):
            return self.new(n)

    def init(n):
        return nl.zeros((nl.par_dim(128), n), dtype=nl.float32, buffer=nl.psum)

    @nki.jit
    def k(x, w):
        dims = Dims(x.shape[0], x.shape[1], w.shape[1])
        alloc = Alloc(dims)
        out = nl.ndarray((dims.T, dims.B), dtype=x.dtype, buffer=nl.shared_hbm)
        acc = init(dims.B)
        for h in nl.affine_range(dims.tiles):
            lhs = nl.load_transpose2d(x[:, nl.ds(h * 128, 128)])
            rhs = alloc(dims.B)
            rhs[...] = nl.load(w[nl.ds(h * 128, 128), :])
            acc += nl.matmul(lhs, rhs, transpose_x=True)
        nl.store(out, value=acc)
        return out

    x, w = rnd(128, 512), rnd(512, 256)
    close(both(k, x, w), x @ w, 1e-3, 1e-3)


@case
def mgrid_masks_and_operand_mask():
    @nki.jit
    def k(x):
        out = nl.ndarray((128, 128), dtype=x.dtype, buffer=nl.shared_hbm)
        i = nl.mgrid[0:128, 0:128]
        t = nl.ndarray((128, 128), dtype=x.dtype)
        t[...] = nl.zeros((128, 128), dtype=x.dtype)
        t[i.p, i.x] = nl.load(x[i.p, i.x], mask=(i.p < 100) & (i.x > 10) & (i.x <= i.p))
        nl.store(out[i.p, i.x], t)
        return out

    x = rnd(128, 128)
    p, f = np.mgrid[0:128, 0:128]
    close(both(k, x), np.where((p < 100) & (f > 10) & (f <= p), x, 0))


@case
def chained_mask_and_negate():
    @nki.jit
    def k(x):
        out = nl.ndarray((64, 64), dtype=x.dtype, buffer=nl.shared_hbm)
        t = nl.load(x)
        ip, jf = nl.arange(64)[:, None], nl.arange(64)[None, :]
        nl.store(out[ip, jf], nl.zeros((64, 64), dtype=x.dtype))
        nl.store(out[ip, jf], t, mask=8 <= jf < 40)
        nl.store(out[ip, jf], t * 0.0 + 5.0, mask=~(ip >= 32))
        return out

    x = rnd(64, 64)
    w = np.where((np.arange(64) >= 8) & (np.arange(64) < 40), x, 0)
    w[:32] = 5
    close(both(k, x), w)


@case
def benchmark_baremetal():
    @nki.benchmark(
        warmup=2,
        iters=5,
        save_neff_name="file.neff",
        save_trace_name="profile.ntff",
        additional_compile_opt="-O2",
    )
    def k(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.exp(nl.load(x)))
        return out

    x = rnd(16, 16)
    k(x)
    m = k.benchmark_result.nc_latency
    assert (
        m.get_latency_percentile(50)
        <= m.get_latency_percentile(99)
        <= m.get_latency_percentile(100)
    )

    @nki.baremetal(artifacts_dir=None)
    def k2(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.exp(nl.load(x)))
        return out

    close(k2(x), np.exp(x))
    close(nki.simulate_kernel(k2, x), np.exp(x))
    b = nki.benchmark(k2.kernel if hasattr(k2, "kernel") else k2, warmup=1, iters=2)
    b(x)
    assert b.benchmark_result.nc_latency.get_latency_percentile(50) > 0


@case
def multi_buffer_and_names():
    @nki.jit(experimental_flags="enable-mutable-parameter", show_compiler_tb=True)
    def k(x: nt.mutable_tensor, y):
        for i in nl.affine_range(
            2, directives=ncc.multi_buffer(2), name="outer", precise_schedule=True
        ):
            t = nl.load(y[nl.ds(i * 128, 128)], name="ld")
            nl.store(x[nl.ds(i * 128, 128)], nl.add(t, 1, name="add"), name="st")
        return x

    x, y = np.zeros((256, 8), np.float32), rnd(256, 8)
    r = k(x, y)
    close(r, y + 1)
    close(x, y + 1)


@case
def generators():
    def blocks(n, size):
        for i in nl.static_range(n):
            yield i, nl.ds(i * size, size)

    @nki.jit
    def k(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        for i, where in blocks(4, 128):
            nl.store(out[where], nl.load(x[where]) * float(i + 1))
        return out

    x = rnd(512, 8)
    close(both(k, x), (x.reshape(4, 128, 8) * np.arange(1, 5)[:, None, None]).reshape(512, 8))


@case
def bf16_and_fp8():
    import ml_dtypes

    @nki.jit
    def k(x):
        out = nl.ndarray(x.shape, dtype=nl.bfloat16, buffer=nl.shared_hbm)
        t = nl.load(x, dtype=nl.float8_e4m3)
        nl.store(out, nl.copy(t, dtype=nl.bfloat16))
        return out

    x = rnd(16, 16).astype(ml_dtypes.bfloat16)
    close(k(x).astype(np.float32), x.astype(ml_dtypes.float8_e4m3).astype(np.float32), 1e-6, 1e-6)


@case
def tensor_scalar_forms():
    @nki.jit
    def k(x, c):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        t, v = nl.load(x), nl.load(c)
        a = nisa.tensor_scalar(t, op0=np.subtract, operand0=1.0, reverse0=True)
        b = nisa.tensor_scalar(a, op0=nl.multiply, operand0=v, op1=np.add, operand1=2.0)
        d = nisa.tensor_tensor(b, t, op=np.maximum)
        g = nl.where(d > 0.5, d, 0.0)
        nl.store(out, g)
        return out

    x, c = rnd(64, 32), rnd(64, 1)
    d = np.maximum((1 - x) * c + 2, x)
    close(both(k, x, c), np.where(d > 0.5, d, 0))


@case
def while_concrete_try_break():
    @nki.jit
    def k(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        t = nl.load(x)
        n = 3
        while n > 0:
            t = t + 1.0
            n -= 1
            if n == 1:
                break
        try:
            raise ValueError
        except ValueError:
            t = t * 2.0
        finally:
            t = t + 0.5
        for q in [1, 2, 3, 4]:
            if q % 2:
                continue
            t = t + float(q)
        with nl_ctx() as z:
            t = t + z
        nl.store(out, t)
        return out

    x = rnd(8, 8)
    close(both(k, x), (x + 2) * 2 + 0.5 + 6 + 3)


@case
def matmul_psum_list():
    @nki.jit
    def k(a_t, b):
        K, M = a_t.shape
        N = b.shape[1]
        out = nl.ndarray((M, N), dtype=a_t.dtype, buffer=nl.shared_hbm)
        ps = nl.ndarray((M // 128, nl.par_dim(128), N), dtype=nl.float32, buffer=nl.psum)
        for m in nl.affine_range(M // 128):
            for kk in nl.affine_range(K // 128):
                ps[m] += nisa.nc_matmul(
                    nl.load(a_t[nl.ds(kk * 128, 128), nl.ds(m * 128, 128)]),
                    nl.load(b[nl.ds(kk * 128, 128), :]),
                )
            nl.store(out[nl.ds(m * 128, 128), :], ps[m])
        return out

    a, b = rnd(256, 256), rnd(256, 128)
    close(both(k, a, b), a.T @ b, 1e-3, 1e-3)


@case
def transposed_loads():
    @nki.jit
    def k(x):
        out = nl.ndarray((32, 64), dtype=x.dtype, buffer=nl.shared_hbm)
        a = nl.load_transpose2d(x)
        b = nl.transpose(nl.load(x)[0:64, 0:32])
        c = nisa.nc_transpose(nl.load(x))
        i = nl.load(nl.shared_identity_matrix(n=64, dtype=x.dtype))
        d = nisa.nc_matmul(nl.load(x), i, is_moving_onezero=True, is_transpose=True)
        nl.store(out, a + b + c + d)
        return out

    x = rnd(64, 32)
    close(both(k, x), 4 * x.T)


@case
def hashable_params_and_kwargs():
    @nki.jit
    def k(x, scale=1.0, *, bias=0.0, dims=(1,), act=nl.exp, name=None, flags=frozenset({"a"})):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nisa.activation(act, nl.load(x), scale=scale) + bias)
        return out

    x = rnd(4, 8)
    close(k(x, 2.0, bias=1.0), np.exp(2 * x) + 1)
    close(k(x=x, act=nl.tanh), np.tanh(x))
    close(k[1](x, bias=3.0), np.exp(x) + 3)


if __name__ == "__main__":
    main()
