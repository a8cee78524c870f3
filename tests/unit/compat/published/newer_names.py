"""The newer names: instructions that write to their first argument, loops as functions."""

import nki
import nki.collectives as ncoll
import nki.isa as nisa
import nki.language as nl
import numpy as np
from common import both, case, close, main, rnd


@case
def tiled_matmul():
    @nki.jit
    def kernel(lhs_t, rhs):
        inner, rows = lhs_t.shape
        cols = rhs.shape[1]
        out = nl.ndarray((rows, cols), dtype=lhs_t.dtype, buffer=nl.shared_hbm)
        for m in range(rows // 128):
            psum = nl.ndarray((128, cols), dtype=nl.float32, buffer=nl.psum)
            for k in range(inner // 128):
                left = nl.ndarray((128, 128), dtype=lhs_t.dtype, buffer=nl.sbuf)
                right = nl.ndarray((128, cols), dtype=rhs.dtype, buffer=nl.sbuf)
                nisa.dma_copy(dst=left, src=lhs_t[nl.ds(k * 128, 128), nl.ds(m * 128, 128)])
                nisa.dma_copy(dst=right, src=rhs[nl.ds(k * 128, 128), :])
                nisa.nc_matmul(psum, stationary=left, moving=right)
            tile = nl.ndarray((128, cols), dtype=out.dtype, buffer=nl.sbuf)
            nisa.tensor_copy(tile, psum)
            nisa.dma_copy(dst=out[nl.ds(m * 128, 128), :], src=tile)
        return out

    a, b = rnd(256, 256), rnd(256, 192)
    close(both(kernel, a, b), a.T @ b, 1e-3, 1e-3)


@case
def causal_softmax():
    @nki.jit
    def kernel(x):
        rows, cols = x.shape
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        tile, weights = (nl.ndarray(x.shape, dtype=nl.float32) for _ in range(2))
        peak, total = (nl.ndarray((rows, 1), dtype=nl.float32) for _ in range(2))
        nisa.dma_copy(tile, x)
        nisa.affine_select(tile, [[-1, cols]], 1, tile, -1e30, cmp_op=nl.greater_equal)
        nisa.tensor_reduce(peak, nl.max, tile, axis=1, negate=True)
        nisa.activation_reduce(weights, nl.exp, tile, nl.add, total, bias=peak)
        nisa.reciprocal(total, total)
        nisa.tensor_scalar(weights, weights, nl.multiply, total)
        nisa.dma_copy(out, weights)
        return out

    x = rnd(64, 64)
    e = np.where(np.tri(64, dtype=bool), np.exp(x), 0)
    close(both(kernel, x), e / e.sum(1, keepdims=True))


@case
def loop_as_function():
    @nki.jit
    def kernel(x):
        out = nl.ndarray((128, 32), dtype=x.dtype, buffer=nl.shared_hbm)
        total = nl.ndarray((128, 32), dtype=nl.float32)
        nisa.memset(total, 0.0)

        def step(i):
            tile = nl.load(x[nl.ds(i * 128, 128)])
            nisa.tensor_tensor(total, total, tile, op=nl.add)

        nl.fori_loop(0, 4, step)
        nl.store(out, total)
        mine = nl.ndarray((128, 32), dtype=x.dtype, buffer=nl.shared_hbm)
        ncoll.all_reduce([out], [mine], replica_group=((0,),), op=nl.add)
        return mine

    x = rnd(512, 32)
    close(nki.simulate(kernel)(x), x.reshape(4, 128, 32).sum(0))
    close(kernel(x), x.reshape(4, 128, 32).sum(0))


@case
def every_range_is_unrolled():
    @nki.jit
    def kernel(x, weight):
        rows, cols = x.shape
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        spread = nl.ndarray((128, cols), dtype=nl.float32, buffer=nl.psum)
        ones, line = (nl.ndarray((1, n), dtype=nl.float32) for n in (128, cols))
        nisa.memset(dst=ones, value=1.0)
        nisa.dma_copy(dst=line, src=weight.reshape((1, cols)))
        nisa.nc_matmul(dst=spread, stationary=ones, moving=line)
        small = nl.ndarray((128, 1), dtype=nl.float32)
        nisa.memset(dst=small, value=1e-6)
        steps = []
        for i in range((rows + 127) // 128):
            held = min(128, rows - i * 128)
            tile = nl.ndarray((held, cols), dtype=x.dtype)
            nisa.dma_copy(dst=tile, src=x[i * 128 : i * 128 + held])
            steps.append(tile)
        for i in nl.affine_range(len(steps)):
            tile, held = steps[i], steps[i].shape[0]
            square, total = (nl.ndarray((held, n), dtype=nl.float32) for n in (cols, 1))
            nisa.activation_reduce(square, nl.square, tile, nl.add, total)
            nisa.activation(total, nl.rsqrt, total, bias=small[0:held], scale=1.0 / cols)
            scale = spread[0:held]
            nisa.scalar_tensor_tensor(tile, tile, nl.multiply, total, nl.multiply, scale)
        for i, tile in zip(nl.sequential_range(len(steps)), steps):
            nisa.dma_copy(dst=out[i * 128 : i * 128 + tile.shape[0]], src=tile)
        return out

    x, w = rnd(200, 64), rnd(64)
    close(both(kernel, x, w), x / np.sqrt((x * x).mean(1, keepdims=True) + 1e-6) * w)


if __name__ == "__main__":
    main()
