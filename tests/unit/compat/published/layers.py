"""Layers of networks: norms, pools, products, transposes, softmax, rope."""

import math

import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import numpy as np
from common import both, case, close, main, rnd


# ------------------------------------------------ tensor add (old convention & spmd)
def tensor_add_(a_input, b_input, c_output):
    offset_i_x = nl.program_id(0) * 128
    offset_i_y = nl.program_id(1) * 512
    ix = offset_i_x + nl.arange(128)[:, None]
    iy = offset_i_y + nl.arange(512)[None, :]
    a_tile = nl.load(a_input[ix, iy])
    b_tile = nl.load(b_input[ix, iy])
    nl.store(c_output[ix, iy], value=a_tile + b_tile)


@case
def tensor_add_old_convention():
    a, b = rnd(256, 1024), rnd(256, 1024)
    c = np.zeros_like(a)
    k = nki.jit(tensor_add_, kernel_return=False)
    k[2, 2](a, b, c)
    close(c, a + b)
    c2 = np.zeros_like(a)
    nki.simulate_kernel(k[2, 2], a, b, c2)
    close(c2, a + b)


@nki.jit
def tensor_add_kernel(a_input, b_input):
    c_output = nl.ndarray(a_input.shape, dtype=a_input.dtype, buffer=nl.shared_hbm)
    offset_i_x = nl.program_id(0) * 128
    offset_i_y = nl.program_id(1) * 512
    ix = offset_i_x + nl.arange(128)[:, None]
    iy = offset_i_y + nl.arange(512)[None, :]
    nl.store(c_output[ix, iy], value=nl.load(a_input[ix, iy]) + nl.load(b_input[ix, iy]))
    return c_output


@case
def tensor_add_spmd():
    a, b = rnd(256, 1024), rnd(256, 1024)
    close(both(tensor_add_kernel[2, 2], a, b), a + b)
    kt = nki.jit(tensor_add_kernel, platform_target="trn2")
    close(kt[nl.spmd_dim(nl.nc(2), 1), 2](a, b), a + b)
    close(kt[nl.nc(2), 2](a, b), a + b)


# ------------------------------------------------ transpose2d
@nki.jit
def tensor_transpose2D_kernel_(in_tensor, shape2D):
    out_tensor = nl.ndarray(in_tensor.shape, dtype=in_tensor.dtype, buffer=nl.shared_hbm)
    sz_p, _ = in_tensor.shape
    sz_f1, sz_f2 = shape2D[0], shape2D[1]
    nl.arange(sz_p)[:, None, None]
    in_tile = nl.load(in_tensor)
    out_tile = nl.ndarray(shape=(sz_p, sz_f2 * sz_f1), dtype=out_tensor.dtype)
    for i_f1 in nl.affine_range(sz_f1):
        for i_f2 in nl.affine_range(sz_f2):
            nisa_copy = nl.copy(in_tile[nl.ds(0, sz_p), nl.ds(i_f1 * sz_f2 + i_f2, 1)])
            out_tile[nl.ds(0, sz_p), nl.ds(i_f2 * sz_f1 + i_f1, 1)] = nisa_copy
    nl.store(out_tensor, value=out_tile)
    return out_tensor


@nki.jit
def transpose_ap(in_tensor, shape2D):
    out_tensor = nl.ndarray(in_tensor.shape, dtype=in_tensor.dtype, buffer=nl.shared_hbm)
    sz_p, _ = in_tensor.shape
    sz_f1, sz_f2 = shape2D
    i_p = nl.arange(sz_p)[:, None, None]
    i_f1 = nl.arange(sz_f1)[None, :, None]
    i_f2 = nl.arange(sz_f2)[None, None, :]
    in_tile = nl.load(in_tensor)
    out_tile = nl.ndarray((sz_p, sz_f1 * sz_f2), dtype=in_tensor.dtype)
    out_tile[i_p, i_f2 * sz_f1 + i_f1] = nl.copy(in_tile[i_p, i_f1 * sz_f2 + i_f2])
    nl.store(out_tensor, value=out_tile)
    return out_tensor


@case
def transpose2d():
    a = rnd(4, 3 * 5)
    want = a.reshape(4, 3, 5).transpose(0, 2, 1).reshape(4, 15)
    close(both(tensor_transpose2D_kernel_, a, (3, 5)), want)
    close(both(transpose_ap, a, (3, 5)), want)


# ------------------------------------------------ layernorm
@nki.jit
def layernorm_v1(input_tensor, epsilon, gamma_vector, beta_vector):
    output_tensor = nl.ndarray(input_tensor.shape, dtype=input_tensor.dtype, buffer=nl.shared_hbm)
    assert input_tensor.shape[1] == gamma_vector.shape[0] == beta_vector.shape[0]
    i_p_io = nl.arange(nl.tile_size.pmax)[:, None]
    i_f_io = nl.arange(input_tensor.shape[1])[None, :]
    i_p_param = nl.arange(1)[:, None]
    gamma_sb = nl.load(gamma_vector.reshape((1, gamma_vector.shape[0]))[i_p_param, i_f_io])
    beta_sb = nl.load(beta_vector.reshape((1, beta_vector.shape[0]))[i_p_param, i_f_io])
    gamma_bcast = gamma_sb.broadcast_to((nl.tile_size.pmax, gamma_vector.shape[0]))
    beta_bcast = beta_sb.broadcast_to((nl.tile_size.pmax, gamma_vector.shape[0]))
    num_rows = input_tensor.shape[0]
    for i in nl.affine_range(math.ceil(num_rows / nl.tile_size.pmax)):
        m = i * nl.tile_size.pmax + i_p_io < num_rows
        sb = nl.load(input_tensor[i * nl.tile_size.pmax + i_p_io, i_f_io], mask=m)
        mean = nl.mean(sb, axis=1)
        shift_scale = nl.subtract(sb, mean)
        sq = nl.square(shift_scale)
        mean_sq = nl.mean(sq, axis=1)
        scale = nl.rsqrt(mean_sq + epsilon)
        out = nl.multiply(shift_scale, scale)
        out = nl.multiply(out, gamma_bcast) + beta_bcast
        nl.store(output_tensor[i * nl.tile_size.pmax + i_p_io, i_f_io], value=out, mask=m)
    return output_tensor


@nki.jit
def layernorm_v2(input_tensor, epsilon, gamma_vector, beta_vector):
    output_tensor = nl.ndarray(input_tensor.shape, dtype=input_tensor.dtype, buffer=nl.shared_hbm)
    i_p_io = nl.arange(nl.tile_size.pmax)[:, None]
    i_f_io = nl.arange(input_tensor.shape[1])[None, :]
    i_p_param = nl.arange(1)[:, None]
    gamma_sb = nl.load(gamma_vector.reshape((1, gamma_vector.shape[0]))[i_p_param, i_f_io])
    beta_sb = nl.load(beta_vector.reshape((1, beta_vector.shape[0]))[i_p_param, i_f_io])
    gamma_b = gamma_sb.broadcast_to((nl.tile_size.pmax, gamma_vector.shape[0]))
    beta_b = beta_sb.broadcast_to((nl.tile_size.pmax, beta_vector.shape[0]))
    num_rows, row_size = input_tensor.shape
    BN = nl.tile_size.bn_stats_fmax
    f = math.gcd(BN, row_size)
    for i in nl.affine_range(math.ceil(num_rows / nl.tile_size.pmax)):
        m = i * nl.tile_size.pmax + i_p_io < num_rows
        sb = nl.load(input_tensor[i * nl.tile_size.pmax + i_p_io, i_f_io], mask=m)
        stats_results = nl.ndarray((nl.tile_size.pmax, 6 * (row_size // f)), dtype=nl.float32)
        for j in nl.affine_range(row_size // f):
            stats_results[:, j * 6 : (j + 1) * 6] = nisa.bn_stats(
                sb[:, j * f : (j + 1) * f],
                mask=i * nl.tile_size.pmax + nl.arange(128)[:, None] < num_rows,
                dtype=np.float32,
            )
        aggr = nisa.bn_aggr(stats_results, mask=m)
        eps = nl.full((nl.tile_size.pmax, 1), epsilon, dtype=np.float32)
        scale = nl.rsqrt(nl.add(aggr[:, 1:2], eps), mask=m)
        mean = aggr[:, 0:1]
        ss = nisa.tensor_scalar(
            data=sb,
            op0=np.subtract,
            operand0=mean,
            op1=np.multiply,
            operand1=scale,
            mask=m,
            dtype=np.float32,
        )
        o = nl.multiply(ss, gamma_b, mask=m)
        o = nl.add(o, beta_b, mask=m)
        nl.store(output_tensor[i * nl.tile_size.pmax + i_p_io, i_f_io], value=o, mask=m)
    return output_tensor


@case
def layernorm():
    x, g, b = rnd(300, 768), rnd(768), rnd(768)
    want = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5) * g + b
    close(both(layernorm_v1, x, 1e-5, g, b), want)
    close(both(layernorm_v2, x, 1e-5, g, b), want)


# ------------------------------------------------ average pool / max pool
@nki.jit
def tensor_avgpool_kernel(in_tensor, pool_size):
    sz_cin, sz_hin, sz_win = in_tensor.shape
    sz_hout, sz_wout = sz_hin // pool_size, sz_win // pool_size
    out_tensor = nl.ndarray((sz_cin, sz_hout, sz_wout), dtype=in_tensor.dtype, buffer=nl.shared_hbm)
    sz_p = sz_cin
    sz_pool = pool_size
    in_tile = nl.load(in_tensor)
    i_0 = nl.arange(sz_p)[:, None, None, None, None]
    i_1 = nl.arange(sz_hin // sz_pool)[None, :, None, None, None]
    i_2 = nl.arange(sz_win // sz_pool)[None, None, :, None, None]
    i_3 = nl.arange(sz_pool)[None, None, None, :, None]
    i_4 = nl.arange(sz_pool)[None, None, None, None, :]
    out_tile = nl.sum(in_tile[i_0, sz_pool * i_1 + i_3, sz_pool * i_2 + i_4], axis=[3, 4]) / (
        pool_size * pool_size
    )
    nl.store(out_tensor, value=out_tile)
    return out_tensor


@nki.jit
def maxpool(in_tensor, size, stride):
    C, H, W = in_tensor.shape
    ho, wo = (H - size) // stride + 1, (W - size) // stride + 1
    out = nl.ndarray((C, ho, wo), dtype=in_tensor.dtype, buffer=nl.shared_hbm)
    tile = nl.load(in_tensor)
    c, y, x, dy, dx = nl.mgrid[0:C, 0:ho, 0:wo, 0:size, 0:size]
    m = nl.max(tile[c, y * stride + dy, x * stride + dx], axis=[3, 4])
    nl.store(out, m)
    return out


@case
def pools():
    x = rnd(8, 12, 8)
    close(both(tensor_avgpool_kernel, x, 2), x.reshape(8, 6, 2, 4, 2).mean((2, 4)))
    want = np.stack(
        [
            np.stack([x[:, i * 2 : i * 2 + 3, j * 2 : j * 2 + 3].max((1, 2)) for j in range(3)], -1)
            for i in range(5)
        ],
        1,
    )
    close(both(maxpool, x, 3, 2), want)


# ------------------------------------------------ matmul variants
@nki.jit
def nki_matmul_basic_(lhsT, rhs):
    result = nl.ndarray((64, 512), dtype=lhsT.dtype, buffer=nl.shared_hbm)
    i_lhsT_p, i_lhsT_f = nl.mgrid[0:128, 0:64]
    i_rhs_p, i_rhs_f = nl.mgrid[0:128, 0:512]
    i_out_p, i_out_f = nl.mgrid[0:64, 0:512]
    lhs_tile = nl.load(lhsT[i_lhsT_p, i_lhsT_f])
    rhs_tile = nl.load(rhs[i_rhs_p, i_rhs_f])
    result_psum = nl.zeros((64, 512), dtype=nl.float32, buffer=nl.psum)
    result_psum[i_out_p, i_out_f] += nl.matmul(
        lhs_tile[i_lhsT_p, i_lhsT_f], rhs_tile, transpose_x=True
    )
    result_sbuf = nl.copy(result_psum, dtype=result.dtype)
    nl.store(result[i_out_p, i_out_f], value=result_sbuf)
    return result


@nki.jit
def nki_matmul_tiled_(lhsT, rhs):
    K, M = lhsT.shape
    K_, N = rhs.shape
    assert K == K_, "lhsT and rhs must have the same contraction dimension"
    result = nl.ndarray((M, N), dtype=lhsT.dtype, buffer=nl.shared_hbm)
    TILE_M = nl.tile_size.gemm_stationary_fmax
    TILE_K = nl.tile_size.pmax
    TILE_N = nl.tile_size.gemm_moving_fmax
    for m in nl.affine_range(M // TILE_M):
        for n in nl.affine_range(N // TILE_N):
            res_psum = nl.zeros((TILE_M, TILE_N), nl.float32, buffer=nl.psum)
            for k in nl.affine_range(K // TILE_K):
                lhsT_tile = nl.ndarray((TILE_K, TILE_M), dtype=lhsT.dtype, buffer=nl.sbuf)
                rhs_tile = nl.ndarray((TILE_K, TILE_N), dtype=rhs.dtype, buffer=nl.sbuf)
                lhsT_tile[...] = nl.load(
                    lhsT[k * TILE_K : (k + 1) * TILE_K, m * TILE_M : (m + 1) * TILE_M]
                )
                rhs_tile[...] = nl.load(
                    rhs[k * TILE_K : (k + 1) * TILE_K, n * TILE_N : (n + 1) * TILE_N]
                )
                res_psum += nl.matmul(lhsT_tile[...], rhs_tile[...], transpose_x=True)
            res_sb = nl.copy(res_psum, dtype=result.dtype)
            nl.store(
                result[m * TILE_M : (m + 1) * TILE_M, n * TILE_N : (n + 1) * TILE_N], value=res_sb
            )
    return result


@nki.jit
def nki_matmul_fully_optimized_(
    lhsT, rhs, TILES_IN_BLOCK_M=2, TILES_IN_BLOCK_N=1, TILES_IN_BLOCK_K=2
):
    K, M = lhsT.shape
    K_, N = rhs.shape
    assert K == K_
    result = nl.ndarray((M, N), dtype=lhsT.dtype, buffer=nl.shared_hbm)
    TILE_M, TILE_K, TILE_N = 128, 128, 512
    BLOCK_M, BLOCK_N, BLOCK_K = (
        TILE_M * TILES_IN_BLOCK_M,
        TILE_N * TILES_IN_BLOCK_N,
        TILE_K * TILES_IN_BLOCK_K,
    )
    NUM_BLOCK_M, NUM_BLOCK_N, NUM_BLOCK_K = M // BLOCK_M, N // BLOCK_N, K // BLOCK_K
    for n in nl.affine_range(NUM_BLOCK_N):
        result_tiles = nl.zeros(
            (NUM_BLOCK_M, TILES_IN_BLOCK_M, TILES_IN_BLOCK_N, nl.par_dim(TILE_M), TILE_N),
            dtype=lhsT.dtype,
            buffer=nl.sbuf,
        )
        for k in nl.sequential_range(NUM_BLOCK_K):
            i_rhs = nl.mgrid[0:TILE_K, 0:BLOCK_N]
            rhs_tiles = nl.ndarray(
                (TILES_IN_BLOCK_K, nl.par_dim(TILE_K), BLOCK_N), dtype=rhs.dtype, buffer=nl.sbuf
            )
            for bk_r in nl.affine_range(TILES_IN_BLOCK_K):
                rhs_tiles[bk_r, i_rhs.p, i_rhs.x] = nl.load(
                    rhs[(TILES_IN_BLOCK_K * k + bk_r) * TILE_K + i_rhs.p, BLOCK_N * n + i_rhs.x]
                )
            for m in nl.affine_range(NUM_BLOCK_M):
                i_lhsT = nl.mgrid[0:TILE_K, 0:BLOCK_M]
                lhsT_tiles = nl.ndarray(
                    (TILES_IN_BLOCK_K, nl.par_dim(TILE_K), BLOCK_M),
                    dtype=lhsT.dtype,
                    buffer=nl.sbuf,
                )
                for bk_l in nl.affine_range(TILES_IN_BLOCK_K):
                    lhsT_tiles[bk_l, i_lhsT.p, i_lhsT.x] = nl.load(
                        lhsT[
                            (TILES_IN_BLOCK_K * k + bk_l) * TILE_K + i_lhsT.p,
                            BLOCK_M * m + i_lhsT.x,
                        ]
                    )
                i_lhsT_mm = nl.mgrid[0:TILE_K, 0:TILE_M]
                i_rhs_mm = nl.mgrid[0:TILE_K, 0:TILE_N]
                i_res_mm = nl.mgrid[0:TILE_M, 0:TILE_N]
                for bn in nl.affine_range(TILES_IN_BLOCK_N):
                    for bm in nl.affine_range(TILES_IN_BLOCK_M):
                        res_tile = nl.zeros((TILE_M, TILE_N), dtype=nl.float32, buffer=nl.psum)
                        for bk in nl.affine_range(TILES_IN_BLOCK_K):
                            res_tile[...] += nisa.nc_matmul(
                                lhsT_tiles[bk, i_lhsT_mm.p, bm * TILE_M + i_lhsT_mm.x],
                                rhs_tiles[bk, i_rhs_mm.p, bn * TILE_N + i_rhs_mm.x],
                            )
                        result_tiles[m, bm, bn, i_res_mm.p, i_res_mm.x] += res_tile[
                            i_res_mm.p, i_res_mm.x
                        ]
        for m in nl.affine_range(NUM_BLOCK_M):
            for bm in nl.affine_range(TILES_IN_BLOCK_M):
                i_res = nl.mgrid[0:TILE_K, 0:TILE_N]
                i_res_packed = nl.mgrid[0:TILE_K, 0:BLOCK_N]
                result_packed = nl.ndarray(
                    (TILE_K, BLOCK_N), dtype=result_tiles.dtype, buffer=nl.sbuf
                )
                for bn in nl.affine_range(TILES_IN_BLOCK_N):
                    result_packed[i_res.p, bn * TILE_N + i_res.x] = nl.copy(
                        result_tiles[m, bm, bn, i_res.p, i_res.x]
                    )
                nl.store(
                    result[
                        (TILES_IN_BLOCK_M * m + bm) * TILE_K + i_res_packed.p,
                        BLOCK_N * n + i_res_packed.x,
                    ],
                    value=result_packed[i_res_packed.p, i_res_packed.x],
                )
    return result


@case
def matmuls():
    a, b = rnd(128, 64), rnd(128, 512)
    close(both(nki_matmul_basic_, a, b), a.T @ b)
    a, b = rnd(256, 256), rnd(256, 1024)
    close(both(nki_matmul_tiled_, a, b), a.T @ b)
    a, b = rnd(512, 512), rnd(512, 512)
    close(both(nki_matmul_fully_optimized_, a, b), a.T @ b, 1e-3, 1e-2)


# ------------------------------------------------ softmax variants & masks
@nki.jit
def masked_softmax(x, lens_bound):
    p, f = x.shape
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    i_p, i_f = nl.mgrid[0:p, 0:f]
    t = nl.load(x[i_p, i_f])
    causal = nisa.affine_select(
        pred=(i_p >= i_f), on_true_tile=t, on_false_value=-9984.0, dtype=nl.float32
    )
    row_max = nisa.tensor_reduce(np.max, causal, axis=(1,), dtype=nl.float32, negate=True)
    row_sum = nl.ndarray((nl.par_dim(p), 1), dtype=nl.float32)
    e = nisa.activation_reduce(
        np.exp, causal, bias=row_max, scale=1.0, reduce_op=np.add, reduce_res=row_sum
    )
    inv = nisa.reciprocal(row_sum)
    r = nisa.tensor_scalar(e, np.multiply, inv)
    nl.store(out[i_p, i_f], r, mask=(i_f < lens_bound))
    return out


@case
def softmaxes():
    x = rnd(64, 64)
    m = np.tril(np.ones((64, 64), bool))
    s = np.where(m, x, -9984.0)
    e = np.exp(s - s.max(1, keepdims=True))
    w = e / e.sum(1, keepdims=True)
    got = both(masked_softmax, x, 64)
    close(got, w)
    got = masked_softmax(x, 40)
    close(got[:, :40], w[:, :40])


# ------------------------------------------------ rope
@nki.jit
def rope_single_tile(x_in, cos, sin):
    d_head, S = x_in.shape
    out = nl.ndarray(x_in.shape, dtype=x_in.dtype, buffer=nl.shared_hbm)
    half = d_head // 2
    x = nl.load(x_in)
    c, s = nl.load(cos), nl.load(sin)
    x_rot = nl.ndarray((d_head, S), dtype=x.dtype)
    x_rot[0:half, :] = nl.negative(x[half:d_head, :])
    x_rot[half:, :] = nl.copy(x[:half, :])
    r = x * c + x_rot * s
    nl.store(out, r)
    return out


@case
def rope():
    x, c, s = rnd(64, 32), rnd(64, 32), rnd(64, 32)
    rot = np.concatenate([-x[32:], x[:32]])
    close(both(rope_single_tile, x, c, s), x * c + rot * s)


if __name__ == "__main__":
    main()
