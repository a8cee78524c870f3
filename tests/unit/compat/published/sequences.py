"""Attention, scans, convolutions: the large published kernels."""

import math
from dataclasses import dataclass

import neuronxcc.nki as nki
import neuronxcc.nki.compiler as ncc
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import numpy as np
from common import both, case, close, main, rnd
from neuronxcc.nki.language import par_dim

B_P, B_F = 128, 512


# ------------------------------------------------ published flash attention shape
@dataclass(frozen=True)
class FlashConfig:
    seq_tile_size: int = 1024
    attn_core_tile_size: int = 256
    training: bool = True
    should_transpose_v: bool = False
    lse_dtype: str = ""


@nki.jit(mode="trace")
def transpose_p_local(p_local_transposed, p_local, LARGE_TILE_SZ):
    for i in nl.affine_range(LARGE_TILE_SZ // 512):
        if nisa.get_nc_version() == nisa.nc_version.gen3:
            p_local_t_tmp = nl.ndarray((par_dim(128), 512), buffer=nl.sbuf, dtype=p_local.dtype)
        else:
            p_local_t_tmp = nl.ndarray((par_dim(128), 512), buffer=nl.psum, dtype=np.float32)
        for j in nl.affine_range(512 // 128):
            j_128_slice = nl.ds(j * 128, 128)
            i_j_128_slice = nl.ds(i * 512 + j * 128, 128)
            if nisa.get_nc_version() == nisa.nc_version.gen3:
                p_local_t_tmp[:, j_128_slice] = nisa.dma_transpose(p_local[:, i_j_128_slice])
            else:
                p_local_t_tmp[:, j_128_slice] = nisa.nc_transpose(p_local[:, i_j_128_slice])
        p_local_transposed[:, nl.ds(i * 512, 512)] = nl.copy(
            p_local_t_tmp, dtype=p_local_transposed.dtype
        )


@nki.jit(mode="trace")
def _flash_attention_core(
    q_local_tile,
    k,
    v,
    o_buffer,
    l_buffer,
    m_buffer,
    q_tile_idx,
    local_k_large_tile_idx,
    kernel_dtype,
    acc_type,
    flash_config: FlashConfig,
    use_causal_mask,
    initialize,
    B_D_SIZE=128,
    dropout_p=0.0,
):
    LARGE_TILE_SZ = flash_config.seq_tile_size
    num_k_tile_per_large_tile = LARGE_TILE_SZ // B_F
    qk_res_buf = nl.ndarray((par_dim(B_P), LARGE_TILE_SZ), buffer=nl.sbuf, dtype=acc_type)
    max_local = nl.ndarray((par_dim(B_P), num_k_tile_per_large_tile), dtype=acc_type)
    for k_i in nl.affine_range(num_k_tile_per_large_tile):
        k_i_b_f_slice = nl.ds(k_i * B_F, B_F)
        qk_psum = nl.ndarray((par_dim(B_P), B_F), dtype=np.float32, buffer=nl.psum)
        if use_causal_mask:
            multiplication_required_selection = (
                q_tile_idx * B_P >= local_k_large_tile_idx * LARGE_TILE_SZ + k_i * B_F
            )
        else:
            multiplication_required_selection = True
        if multiplication_required_selection:
            qk_psum[:, :] = nl.matmul(q_local_tile, k[:, k_i_b_f_slice], transpose_x=True)
        else:
            qk_psum[:, :] = 0
        if use_causal_mask:
            (q_tile_idx * B_P >= local_k_large_tile_idx * LARGE_TILE_SZ + (k_i + 1) * B_F)
            (q_tile_idx * B_P < local_k_large_tile_idx * LARGE_TILE_SZ + (k_i + 1) * B_F)
            i_q_p, i_q_f = nl.mgrid[0:B_P, 0:B_F]
            q_pos = q_tile_idx * B_P + i_q_p
            k_pos = local_k_large_tile_idx * LARGE_TILE_SZ + k_i * B_F + i_q_f
            pred = q_pos >= k_pos
            qk_res_buf[:, k_i_b_f_slice] = nisa.affine_select(
                pred=pred, on_true_tile=qk_psum[:, :], on_false_value=-9984.0, dtype=acc_type
            )
        else:
            qk_res_buf[:, k_i_b_f_slice] = nl.copy(qk_psum[:, :], dtype=acc_type)
        max_local[:, k_i] = nisa.tensor_reduce(
            np.max, qk_res_buf[:, k_i_b_f_slice], axis=(1,), dtype=acc_type, negate=False
        )
    max_ = nisa.tensor_reduce(np.max, max_local[:, :], axis=(1,), dtype=acc_type, negate=False)
    o_previous_scaled = nl.ndarray((par_dim(B_P), B_D_SIZE), dtype=o_buffer.dtype)
    if initialize:
        m_buffer[:, 0] = nl.copy(max_)
        m_current = max_
    else:
        m_previous = nl.copy(m_buffer[:, 0])
        m_buffer[:, 0] = nl.maximum(m_previous, max_)
        m_current = m_buffer[:, 0]
        alpha = nisa.activation(np.exp, m_current, bias=m_previous, scale=-1.0)
        o_previous_scaled[...] = nl.multiply(o_buffer[:, :], alpha)
    p_local = nl.ndarray((par_dim(B_P), LARGE_TILE_SZ), dtype=kernel_dtype)
    REDUCTION_TILE = min(2048, LARGE_TILE_SZ // 2)
    p_partial_sum = nl.ndarray((par_dim(B_P), LARGE_TILE_SZ // REDUCTION_TILE), dtype=acc_type)
    for k_r_i in nl.affine_range(LARGE_TILE_SZ // REDUCTION_TILE):
        k_r_i_reduce_slice = nl.ds(k_r_i * REDUCTION_TILE, REDUCTION_TILE)
        p_local[:, k_r_i_reduce_slice] = nisa.activation_reduce(
            np.exp,
            qk_res_buf[:, k_r_i_reduce_slice],
            bias=-1 * m_current,
            scale=1.0,
            reduce_op=nl.add,
            reduce_res=p_partial_sum[:, k_r_i],
            dtype=kernel_dtype,
        )
    ps = nl.sum(p_partial_sum, axis=1, dtype=acc_type)
    p_local_transposed = nl.ndarray((par_dim(B_P), LARGE_TILE_SZ), dtype=kernel_dtype)
    transpose_p_local(
        p_local_transposed=p_local_transposed, p_local=p_local, LARGE_TILE_SZ=LARGE_TILE_SZ
    )
    pv_psum = nl.zeros(
        (par_dim(B_P), B_D_SIZE), dtype=np.float32, buffer=nl.psum, lazy_initialization=True
    )
    for k_i in nl.affine_range(LARGE_TILE_SZ // B_P):
        pv_psum[:, :] += nl.matmul(
            p_local_transposed[:, nl.ds(k_i * B_P, B_P)], v[k_i, :, :], transpose_x=True
        )
    if initialize:
        o_buffer[:, :] = nl.copy(pv_psum[:, :])
        l_buffer[:, 0] = nl.add(nl.log(ps), max_)
    else:
        o_buffer[:, :] = nl.add(o_previous_scaled, pv_psum)
        exp = nisa.activation(nl.exp, m_current, bias=l_buffer[:, 0], scale=-1.0)
        l_buffer[:, 0] = nl.add(m_current, nisa.activation(nl.log, exp, bias=ps))


@nki.jit(mode="trace")
def load_v_tile(v_hbm_tile, cur_v_tile, j, v_i, config):
    LARGE_TILE_SZ = config.seq_tile_size
    cur_v_tile[v_i, :, :] = nl.load(
        v_hbm_tile[nl.ds(j * LARGE_TILE_SZ + B_P * v_i, B_P), :], dtype=cur_v_tile.dtype
    )


@nki.jit
def flash_fwd(
    q,
    k,
    v,
    seed,
    softmax_scale=None,
    use_causal_mask=True,
    mixed_precision=True,
    dropout_p=0.0,
    config=None,
):
    config = config or FlashConfig()
    b, h, d, seqlen_q = q.shape
    _, k_h, _, seqlen_k = k.shape
    assert tuple(v.shape) == (b, k_h, seqlen_k, d), (
        f"Expect shape of V to be {(b, k_h, seqlen_k, d)} but got {v.shape}"
    )
    kernel_dtype = nl.bfloat16 if mixed_precision else q.dtype
    acc_type = np.dtype(np.float32) if mixed_precision else kernel_dtype
    o = nl.ndarray((b, h, seqlen_q, d), dtype=q.dtype, buffer=nl.shared_hbm)
    lse = (
        nl.ndarray(
            (b, h, nl.tile_size.pmax, seqlen_q // nl.tile_size.pmax),
            dtype=acc_type,
            buffer=nl.shared_hbm,
        )
        if config.training
        else None
    )
    assert nl.program_ndim() == 2, (
        f"Expect spmd grid with 2 dimensions, got {nl.program_ndim()} instead!"
    )
    batch_id = nl.program_id(axis=0)
    head_id = nl.program_id(axis=1)
    q_h_per_k_h = h // k_h
    softmax_scale = softmax_scale or (1.0 / (d**0.5))
    LARGE_TILE_SZ = config.seq_tile_size
    num_large_k_tile = seqlen_k // LARGE_TILE_SZ
    n_tile_q = seqlen_q // B_P
    for i in nl.affine_range(n_tile_q):
        o_buffer = nl.zeros(
            (par_dim(B_P), d), dtype=acc_type, buffer=nl.sbuf, lazy_initialization=True
        )
        l_buffer = nl.zeros(
            (par_dim(B_P), 1), dtype=acc_type, buffer=nl.sbuf, lazy_initialization=True
        )
        m_buffer = nl.zeros(
            (par_dim(B_P), 1), dtype=acc_type, buffer=nl.sbuf, lazy_initialization=True
        )
        q_hbm_tile = q[batch_id, head_id]
        q_sbuf_tile = nl.load(q_hbm_tile[:, nl.ds(i * B_P, B_P)], dtype=kernel_dtype)
        q_tile = q_sbuf_tile * softmax_scale
        for j in nl.static_range(num_large_k_tile):
            cur_k_tile = nl.ndarray((par_dim(d), LARGE_TILE_SZ), dtype=kernel_dtype)
            cur_v_tile = nl.ndarray((LARGE_TILE_SZ // B_P, par_dim(B_P), d), dtype=kernel_dtype)
            cur_k_tile[:, :] = nl.load(
                k[batch_id, head_id // q_h_per_k_h, :, nl.ds(j * LARGE_TILE_SZ, LARGE_TILE_SZ)]
            )
            v_hbm_tile = v[batch_id, head_id // q_h_per_k_h]
            for v_i in nl.affine_range(LARGE_TILE_SZ // B_P):
                load_v_tile(
                    v_hbm_tile=v_hbm_tile, cur_v_tile=cur_v_tile, j=j, v_i=v_i, config=config
                )
            _flash_attention_core(
                q_local_tile=q_tile,
                k=cur_k_tile,
                v=cur_v_tile,
                o_buffer=o_buffer,
                l_buffer=l_buffer,
                m_buffer=m_buffer,
                q_tile_idx=i,
                local_k_large_tile_idx=j,
                kernel_dtype=kernel_dtype,
                acc_type=acc_type,
                flash_config=config,
                use_causal_mask=use_causal_mask,
                initialize=j == 0,
                B_D_SIZE=d,
                dropout_p=dropout_p,
            )
        exp = nisa.activation(np.exp, l_buffer[:, 0], bias=m_buffer[:, :], scale=-1.0)
        out = nl.multiply(o_buffer[:, :], exp, dtype=kernel_dtype)
        nl.store(o[batch_id, head_id, nl.ds(i * B_P, B_P), :], out)
        if config.training:
            nl.store(lse[batch_id, head_id, :, i], l_buffer[:, :])
    if config.training:
        return o, lse
    return o


@case
def published_flash():
    b, h, d, s = 1, 2, 64, 2048
    q, k, v = rnd(b, h, d, s), rnd(b, 1, d, s), rnd(b, 1, s, d)
    for causal in (True, False):
        sc = np.einsum("bhds,bgdt->bhst", q, k) / 8
        if causal:
            sc = np.where(np.tril(np.ones((s, s), bool)), sc, -9984.0)
        e = np.exp(sc - sc.max(-1, keepdims=True))
        p = e / e.sum(-1, keepdims=True)
        want = np.einsum("bhst,bgtd->bhsd", p, v)
        o, lse = flash_fwd[b, h](q, k, v, None, use_causal_mask=causal, mixed_precision=False)
        close(o, want, 1e-3, 1e-3)
        total = np.log(e.sum(-1)) + sc.max(-1)
        close(lse, total.reshape(b, h, -1, 128).swapaxes(2, 3), 1e-3, 1e-3)
        o, _lse = flash_fwd[b, h](q, k, v, None, use_causal_mask=causal, mixed_precision=True)
        close(o, want, 1e-1, 5e-2)


# ------------------------------------------------ mamba
@nki.jit
def mamba_v1(delta, u, A, B, C):
    batch_size, channels, seq_len = delta.shape
    output = nl.ndarray((batch_size, channels, seq_len), dtype=delta.dtype, buffer=nl.shared_hbm)
    _, state_size = A.shape
    channel_psize = nl.tile_size.pmax
    n_channel_tile = channels // channel_psize
    for i_batch in nl.affine_range(batch_size):
        for i_channel_tile in nl.affine_range(n_channel_tile):
            scanC_accum = nl.zeros((nl.par_dim(channel_psize), seq_len), dtype=delta.dtype)
            channel_start = i_channel_tile * channel_psize
            for i_state in nl.affine_range(state_size):
                delta_i = nl.load(
                    delta[i_batch, channel_start : channel_start + channel_psize, 0:seq_len]
                )
                A_i = nl.load(A[channel_start : channel_start + channel_psize, i_state])
                deltaA = nisa.activation(op=nl.exp, data=delta_i, scale=A_i)
                u_i = nl.load(u[i_batch, channel_start : channel_start + channel_psize, 0:seq_len])
                deltaU = nisa.tensor_tensor(delta_i, u_i, op=nl.multiply)
                B_i = nl.load(B[i_batch, i_state : i_state + 1, 0:seq_len])
                B_i_bcast = B_i.broadcast_to((nl.tile_size.pmax, seq_len))
                deltaBu = nisa.tensor_tensor(deltaU, B_i_bcast, op=nl.multiply)
                scan_res = nisa.tensor_tensor_scan(
                    deltaA, deltaBu, initial=0, op0=np.multiply, op1=np.add
                )
                C_i = nl.load(C[i_batch, i_state : i_state + 1, 0:seq_len])
                C_i_bcast = C_i.broadcast_to((nl.tile_size.pmax, seq_len))
                scanC = nisa.tensor_tensor(scan_res, C_i_bcast, op=nl.multiply)
                i_channel_partition = nl.arange(channel_psize)[:, None]
                i_seq = nl.arange(seq_len)[None, :]
                scanC_accum[i_channel_partition, i_seq] += scanC
            nl.store(
                output[i_batch, channel_start : channel_start + channel_psize, 0:seq_len],
                scanC_accum[0:channel_psize, 0:seq_len],
            )
    return output


@nki.jit
def mamba_v3(delta, u, A, B, C):
    batch_size, channels, seq_len = delta.shape
    output = nl.ndarray((batch_size, channels, seq_len), dtype=delta.dtype, buffer=nl.shared_hbm)
    _, state_size = A.shape
    channel_psize = nl.tile_size.pmax
    n_channel_tile = channels // channel_psize
    seq_len_fsize = 128
    n_seq_len_tile = seq_len // seq_len_fsize
    assert seq_len_fsize * n_seq_len_tile == seq_len
    for i_batch in nl.affine_range(batch_size):
        for i_channel_tile in nl.affine_range(n_channel_tile):
            channel_start = i_channel_tile * channel_psize
            delta_i = nl.load(
                delta[i_batch, channel_start : channel_start + channel_psize, 0:seq_len]
            )
            u_i = nl.load(u[i_batch, channel_start : channel_start + channel_psize, 0:seq_len])
            scanC_accum = nl.zeros((nl.par_dim(channel_psize), seq_len), dtype=delta.dtype)
            for i_state in nl.affine_range(state_size):
                A_i = nl.load(A[channel_start : channel_start + channel_psize, i_state])
                scan_init = nl.zeros((channel_psize, 1), dtype=delta_i.dtype)
                for i_seq_len_tile in nl.static_range(n_seq_len_tile):
                    seq_len_start = i_seq_len_tile * seq_len_fsize
                    deltaA = nisa.activation(
                        op=nl.exp,
                        data=delta_i[
                            0:channel_psize, seq_len_start : seq_len_start + seq_len_fsize
                        ],
                        scale=A_i,
                    )
                    deltaU = nisa.tensor_tensor(
                        delta_i[0:channel_psize, seq_len_start : seq_len_start + seq_len_fsize],
                        u_i[0:channel_psize, seq_len_start : seq_len_start + seq_len_fsize],
                        op=nl.multiply,
                    )
                    B_i = nl.load(
                        B[
                            i_batch,
                            i_state : i_state + 1,
                            seq_len_start : seq_len_start + seq_len_fsize,
                        ]
                    )
                    deltaBu = nisa.tensor_tensor(
                        deltaU, B_i.broadcast_to((nl.tile_size.pmax, seq_len_fsize)), op=nl.multiply
                    )
                    scan_res = nisa.tensor_tensor_scan(
                        deltaA, deltaBu, initial=scan_init, op0=np.multiply, op1=np.add
                    )
                    scan_init = scan_res[0:channel_psize, seq_len_fsize - 1]
                    C_i = nl.load(
                        C[
                            i_batch,
                            i_state : i_state + 1,
                            seq_len_start : seq_len_start + seq_len_fsize,
                        ]
                    )
                    scanC = nisa.tensor_tensor(
                        scan_res,
                        C_i.broadcast_to((nl.tile_size.pmax, seq_len_fsize)),
                        op=nl.multiply,
                    )
                    scanC_accum[0:channel_psize, seq_len_start : seq_len_start + seq_len_fsize] += (
                        scanC
                    )
            nl.store(
                output[i_batch, channel_start : channel_start + channel_psize, 0:seq_len],
                scanC_accum[0:channel_psize, 0:seq_len],
            )
    return output


@case
def mamba():
    bt, ch, st, sq = 1, 128, 4, 256
    delta, u, A, B, C = (
        rnd(bt, ch, sq),
        rnd(bt, ch, sq),
        -np.abs(rnd(ch, st)),
        rnd(bt, st, sq),
        rnd(bt, st, sq),
    )
    delta = np.abs(delta)
    want = np.zeros_like(delta)
    hst = np.zeros((bt, ch, st))
    for t in range(sq):
        hst = np.exp(delta[:, :, t, None] * A) * hst + (delta * u)[:, :, t, None] * B[:, None, :, t]
        want[:, :, t] = (hst * C[:, None, :, t]).sum(-1)
    close(both(mamba_v1, delta, u, A, B, C), want)
    close(both(mamba_v3, delta, u, A, B, C), want)


# ------------------------------------------------ fused QKV with rmsnorm
def div_ceil(n, d):
    return (n + d - 1) // d


@nki.jit
def nki_rmsnorm_kernel(a_tensor, g_tensor):
    out_tensor = nl.ndarray(a_tensor.shape, dtype=a_tensor.dtype, buffer=nl.shared_hbm)
    assert a_tensor.shape[1] == g_tensor.shape[0]
    ix = nl.arange(128)[:, None]
    iw = nl.arange(1)[:, None]
    iy = nl.arange(a_tensor.shape[1])[None, :]
    num_rows = a_tensor.shape[0]
    g_tile = nl.load(g_tensor.reshape((1, g_tensor.shape[0]))[iw, iy])
    for i in nl.affine_range(math.ceil(a_tensor.shape[0] / 128)):
        a_tile = nl.load(a_tensor[i * 128 + ix, iy], mask=(i * 128 + ix < num_rows))
        in_square = nl.square(a_tile)
        square_sum = nl.sum(in_square, axis=[1])
        mean = square_sum / a_tensor.shape[1]
        rms_reciprocal = nl.rsqrt(mean)
        out_tile = nl.multiply(a_tile, rms_reciprocal)
        g_bcast = g_tile.broadcast_to((128, g_tensor.shape[0]))
        out_tile[...] = nl.multiply(out_tile, g_bcast, mask=(i * 128 + ix < num_rows))
        nl.store(out_tensor[i * 128 + ix, iy], value=out_tile, mask=(i * 128 + ix < num_rows))
    return out_tensor


@nki.jit
def rmsnorm_qkv(hidden, weights, norm_dtype=nl.float32, eps=1e-6):
    if len(hidden.shape) == 2:
        S, D = hidden.shape
        B = 1
        hidden = hidden.reshape((1, S, D))
    else:
        B, S, D = hidden.shape
    _, head_dim = weights.shape
    assert head_dim <= 512 and D % 128 == 0
    out = nl.ndarray((B, S, head_dim), dtype=hidden.dtype, buffer=nl.shared_hbm)
    pmax, fmax = nl.tile_size.pmax, nl.tile_size.psum_fmax
    ix, iy = nl.mgrid[0:pmax, 0:D]
    i_lhs = nl.mgrid[0:pmax, 0:pmax]
    i_rhs = nl.mgrid[0:pmax, 0:fmax]
    i_res = nl.mgrid[0:pmax, 0:fmax]
    M = math.ceil(D / pmax)
    NUM_TILES = math.ceil(S / pmax)
    weights_buffer = nl.ndarray(
        (M, par_dim(pmax), fmax),
        dtype=weights.dtype,
        buffer=ncc.sbuf.auto_alloc(),
    )
    for m in nl.affine_range(M):
        weights_buffer[m, i_rhs.p, i_rhs.x] = nl.load(
            weights[m * pmax + i_rhs.p, i_rhs.x],
            mask=(m * pmax + i_rhs.p < D) & (i_rhs.x < head_dim),
        )
    for b in nl.affine_range(B):
        for i in nl.affine_range(NUM_TILES):
            in_bufs = nl.ndarray((par_dim(pmax), D), dtype=hidden.dtype, buffer=nl.sbuf)
            in_bufs[...] = nl.load(hidden[b, i * pmax + ix, iy], mask=(i * pmax + ix < S))
            square_sum = nl.sum(
                nl.square(in_bufs, dtype=norm_dtype, mask=(i * pmax + ix < S)),
                axis=1,
                keepdims=True,
            )
            sc = nl.rsqrt(square_sum * (1 / D) + eps, mask=(i * pmax + nl.arange(128)[:, None] < S))
            outp = nl.multiply(in_bufs, sc[...], mask=(i * pmax + ix < S))
            outT = nl.ndarray((M, par_dim(pmax), pmax), dtype=weights.dtype)
            for m in nl.affine_range(M):
                tp = nl.ndarray((par_dim(pmax), pmax), dtype=nl.float32, buffer=nl.psum)
                tp[...] = nisa.nc_transpose(outp[i_lhs.p, m * pmax + i_lhs.x])
                outT[m, i_lhs.p, i_lhs.x] = nl.copy(tp, dtype=weights.dtype)
            res_psum = nl.zeros((par_dim(pmax), fmax), dtype=nl.float32, buffer=nl.psum)
            for m in nl.affine_range(M):
                res_psum += nisa.nc_matmul(
                    outT[m, i_lhs.p, i_lhs.x], weights_buffer[m, i_rhs.p, i_rhs.x]
                )
            o = nl.copy(res_psum, dtype=hidden.dtype)
            nl.store(
                out[b, i * pmax + i_res.p, i_res.x],
                value=o,
                mask=(i * pmax + i_res.p < S) & (i_res.x < head_dim),
            )
    return out


@case
def rms_qkv():
    a, g = rnd(250, 512), rnd(512)
    close(both(nki_rmsnorm_kernel, a, g), a / np.sqrt((a * a).mean(1, keepdims=True)) * g)
    h, w = rnd(2, 200, 256), rnd(256, 300)
    n = h / np.sqrt((h * h).mean(-1, keepdims=True) + 1e-6)
    close(both(rmsnorm_qkv, h, w), n @ w, 1e-3, 1e-2)


# ------------------------------------------------ depthwise conv1d
@nki.jit
def conv1d_depthwise(img_ref, filter_ref, padding):
    N, C, _H, W = img_ref.shape
    C_, _, _Kh, Kw = filter_ref.shape
    assert C == C_
    out_w = W + padding[0] + padding[1] - Kw + 1
    out = nl.ndarray((N, C, out_w), dtype=img_ref.dtype, buffer=nl.shared_hbm)
    for n in nl.affine_range(N):
        for t in nl.affine_range(div_ceil(C, 128)):
            i_p = nl.arange(128)[:, None]
            padded = nl.zeros((par_dim(128), W + padding[0] + padding[1]), dtype=img_ref.dtype)
            padded[:, nl.ds(padding[0], W)] = nl.load(
                img_ref[n, t * 128 + i_p, 0, nl.arange(W)[None, :]], mask=t * 128 + i_p < C
            )
            filt = nl.load(
                filter_ref[t * 128 + i_p, 0, 0, nl.arange(Kw)[None, :]], mask=t * 128 + i_p < C
            )
            acc = nl.zeros((par_dim(128), out_w), dtype=nl.float32)
            for w in nl.static_range(Kw):
                acc[...] = nisa.scalar_tensor_tensor(
                    data=padded[:, nl.ds(w, out_w)],
                    op0=nl.multiply,
                    operand0=filt[:, w],
                    op1=nl.add,
                    operand1=acc,
                )
            nl.store(out[n, t * 128 + i_p, nl.arange(out_w)[None, :]], acc, mask=t * 128 + i_p < C)
    return out


@case
def conv1d():
    x, f = rnd(2, 150, 1, 64), rnd(150, 1, 1, 3)
    p = np.pad(x[:, :, 0], ((0, 0), (0, 0), (1, 1)))
    want = sum(p[:, :, k : k + 64] * f[:, 0, 0, k][None, :, None] for k in range(3))
    close(both(conv1d_depthwise, x, f, (1, 1)), want)


if __name__ == "__main__":
    main()
