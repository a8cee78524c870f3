"""Whole kernels: products, reductions, indirect rows, loops, programs, entry points."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright.nki as nki
import tilewright.nki.isa as nisa
import tilewright.nki.language as nl
import tilewright.nki.typing as nt
from tilewright.devices import DEVICES, get_device
from tilewright.errors import TilewrightError
from tilewright.frontend.trace.ops import LANGUAGE

RNG = np.random.default_rng(11)
A = RNG.standard_normal((100, 64)).astype(np.float32)
ROWS = RNG.integers(0, 100, (32, 1)).astype(np.int32)


def close(got: Any, want: Any, rtol: float = 1e-4, atol: float = 1e-5) -> None:
    np.testing.assert_allclose(got, want, rtol=rtol, atol=atol)


# ---------------------------------------------------------------------------- products


@nki.jit
def tiled_matmul(lhs, rhs):
    m, k = lhs.shape
    n = rhs.shape[1]
    out = nl.ndarray((m, n), dtype=nl.float32, buffer=nl.shared_hbm)
    for i in nl.affine_range(m // 128):
        for j in nl.affine_range(n // 512):
            acc = nl.zeros((128, 512), dtype=nl.float32, buffer=nl.psum)
            for p in nl.affine_range(k // 128):
                a = nl.load_transpose2d(lhs[nl.ds(i * 128, 128), nl.ds(p * 128, 128)])
                b = nl.load(rhs[nl.ds(p * 128, 128), nl.ds(j * 512, 512)])
                acc += nl.matmul(a, b, transpose_x=True)
            nl.store(out[nl.ds(i * 128, 128), nl.ds(j * 512, 512)], acc)
    return out


def test_a_tiled_product_accumulates_in_place() -> None:
    a = RNG.standard_normal((256, 384)).astype(np.float32)
    b = RNG.standard_normal((384, 1024)).astype(np.float32)
    close(tiled_matmul(a, b), a @ b, rtol=1e-3, atol=1e-3)
    assert "matmul_acc" in tiled_matmul.lower(a, b).as_python()


def test_matmul_without_a_transposed_operand() -> None:
    @nki.jit
    def kernel(x, y):
        out = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.shared_hbm)
        nl.store(out, nl.matmul(nl.load(x), nl.load(y)))
        return out

    x, y = A[:64], A[:64, :32]
    close(kernel(x, y), x @ y, rtol=1e-3, atol=1e-4)


def test_a_product_that_is_used_twice_is_kept() -> None:
    @nki.jit
    def kernel(x):
        out = nl.ndarray((64, 64), dtype=nl.float32, buffer=nl.shared_hbm)
        t = nl.load(x)
        product = nl.matmul(t, t, transpose_x=True)
        acc = nl.zeros((64, 64), dtype=nl.float32, buffer=nl.psum)
        acc += product
        acc += product
        nl.store(out, acc + product)
        return out

    close(kernel(A[:64]), 3 * (A[:64].T @ A[:64]), rtol=1e-3, atol=1e-3)


# ---------------------------------------------------------------------------- reductions


def test_reductions_and_functions_made_of_them() -> None:
    @nki.jit
    def kernel(x, w):
        out = nl.ndarray((8, 100, 64), dtype=nl.float32, buffer=nl.shared_hbm)
        t = nl.load(x)
        results = (
            nl.softmax(t, axis=1),
            nl.rms_norm(t, nl.load(w), axis=1, n=64),
            nl.sum(t, axis=[1]) + t * 0.0,
            nl.max(t, axis=1, keepdims=True) + t * 0.0,
            nl.min(t, axis=-1) + t * 0.0,
            nl.mean(t, axis=1) + t * 0.0,
            nl.var(t, axis=1) + t * 0.0,
            nl.prod(t, axis=1) + t * 0.0,
        )
        for k, each in enumerate(results):
            nl.store(out[k], each)
        return out

    w = RNG.standard_normal((1, 64)).astype(np.float32)
    got = kernel(A, w)
    powers = np.exp(A - A.max(1, keepdims=True))
    keep: dict[str, Any] = {"axis": 1, "keepdims": True}
    wanted = [
        powers / powers.sum(**keep),
        A / np.sqrt((A * A).mean(**keep) + 1e-6) * w,
        A.sum(**keep), A.max(**keep), A.min(**keep), A.mean(**keep), A.var(**keep), A.prod(**keep),
    ]  # fmt: skip
    for result, want in zip(got, wanted):
        close(result, np.broadcast_to(want, A.shape), rtol=2e-4, atol=2e-5)


def test_a_mask_leaves_elements_out_of_a_reduction() -> None:
    @nki.jit
    def kernel(x):
        out = nl.ndarray((100, 3), dtype=nl.float32, buffer=nl.shared_hbm)
        i, j = nl.mgrid[0:100, 0:64]
        t = nl.load(x[i, j])
        nl.store(out[:, 0:1], nl.sum(t[i, j], axis=1, mask=(j < 10)))
        largest = nl.ndarray((100, 1), dtype=nl.float32)
        largest[...] = nl.max(t[i, j], axis=1, mask=(j >= 60))
        nl.store(out[:, 1:2], largest)
        nl.store(out[:, 2:3], nl.all(t[i, j], axis=1, mask=(j < 1), dtype=nl.float32))
        return out

    got = kernel(A)
    close(got[:, 0], A[:, :10].sum(1))
    close(got[:, 1], A[:, 60:].max(1))
    assert (got[:, 2] == 1).all()


def test_several_axes_reduce_to_one_column() -> None:
    @nki.jit
    def kernel(x):
        out = nl.ndarray((100, 1), dtype=nl.float32, buffer=nl.shared_hbm)
        nl.store(out, nl.sum(nl.load(x).reshape((100, 8, 8)), axis=[1, 2]))
        return out

    close(kernel(A), A.sum(1, keepdims=True))


# ---------------------------------------------------------------------------- indirect rows


def test_rows_are_gathered_and_scattered_by_a_tile() -> None:
    @nki.jit
    def kernel(x, rows):
        out = nl.ndarray((100, 64), dtype=x.dtype, buffer=nl.shared_hbm)
        p, f = nl.arange(32)[:, None], nl.arange(64)[None, :]
        index = nl.load(rows)
        t = nl.load(x[index[p, 0], f])
        nl.store(out, nl.zeros((100, 64), dtype=x.dtype))
        nl.store(out[index[p, 0], f], t)
        return out

    want = np.zeros_like(A)
    want[ROWS[:, 0]] = A[ROWS[:, 0]]
    assert np.array_equal(kernel(A, ROWS), want)


def test_rows_are_added_atomically() -> None:
    @nki.jit
    def kernel(x, rows):
        out = nl.ndarray((100, 64), dtype=x.dtype, buffer=nl.shared_hbm)
        p, f = nl.arange(32)[:, None], nl.arange(16)[None, :]
        nl.store(out, nl.zeros((100, 64), dtype=x.dtype))
        nl.atomic_rmw(out[nl.load(rows)[p, 0], 8 + f], nl.load(x[0:32, 0:16]), op=np.add)
        return out

    want = np.zeros_like(A)
    np.add.at(want[:, 8:24], ROWS[:, 0], A[:32, :16])
    close(kernel(A, ROWS), want)


def test_rows_that_lie_outside_are_skipped_when_asked() -> None:
    @nki.jit
    def kernel(x, rows):
        out = nl.ndarray((100, 64), dtype=x.dtype, buffer=nl.shared_hbm)
        p, f = nl.arange(32)[:, None], nl.arange(64)[None, :]
        nl.store(out, nl.zeros((100, 64), dtype=x.dtype))
        place = out[nl.load(rows)[p, 0], f]
        nl.store(place, nl.load(x[0:32]), mask=(p < 30), mode=nisa.oob_mode.skip)
        return out

    rows = ROWS.copy()
    rows[3] = 1000
    want = np.zeros_like(A)
    for k in range(30):
        if rows[k, 0] < 100:
            want[rows[k, 0]] = A[k]
    assert np.array_equal(kernel(A, rows), want)


def test_an_index_outside_is_a_fault() -> None:
    @nki.jit
    def kernel(x, rows):
        out = nl.ndarray((32, 64), dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.load(x[nl.load(rows), nl.arange(64)[None, :]]))
        return out

    rows = ROWS.copy()
    rows[3] = 1000
    with pytest.raises(IndexError):
        kernel(A, rows)


# ---------------------------------------------------------------------------- loops and programs


def test_results_survive_the_loops_they_are_reduced_over() -> None:
    @nki.jit
    def kernel(x):
        out = nl.ndarray((25, 64), dtype=x.dtype, buffer=nl.shared_hbm)
        for i in nl.affine_range(4):
            t = nl.load(x[nl.ds(i * 25, 25)])
            total = nl.loop_reduce(t, op=np.add, loop_indices=[i])
        nl.store(out, total)
        return out

    close(kernel(A), A.reshape(4, 25, 64).sum(0))


def test_programs_reduce_across_the_grid() -> None:
    @nki.jit
    def kernel(x):
        out = nl.ndarray((100, 64), dtype=x.dtype, buffer=nl.shared_hbm)
        rows = nl.ds((nl.program_id(0) * 2 + nl.program_id(1)) * 25, 25)
        total = nl.all_reduce(nl.load(x[rows]) * 2.0, op=np.max, program_axes=[0, 1])
        nl.store(out[rows], total)
        return out

    want = np.broadcast_to(2 * A.reshape(4, 25, 64).max(0), (4, 25, 64)).reshape(100, 64)
    assert np.array_equal(kernel[2, 2](A), want)


def test_bodies_as_functions_and_bounds_of_the_run() -> None:
    @nki.jit
    def kernel(x, n):
        out = nl.ndarray((1, 64), dtype=x.dtype, buffer=nl.shared_hbm)
        acc = nl.zeros((1, 64), dtype=x.dtype)

        def add(i):
            acc[...] = acc + nl.load(x[nl.ds(i, 1)])

        nl.fori_loop(0, 5, add)
        for i in range(nt.scalar(nl.load(n))):
            add(i)
        nl.store(out, acc)
        return out

    got = kernel(A, np.array([[7]], np.int32))
    close(got, (A[:5].sum(0) + A[:7].sum(0))[None], atol=1e-4)


def test_random_numbers_repeat_for_a_seed_and_differ_by_program() -> None:
    @nki.jit
    def kernel(x, seed):
        out = nl.ndarray((2, 2, 64, 32), dtype=nl.float32, buffer=nl.shared_hbm)
        nl.random_seed(seed)
        for k in nl.affine_range(2):
            nl.store(out[nl.program_id(0), k], nl.rand((64, 32)))
        return out

    first, again, other = kernel[2](A, 3), kernel[2](A, 3), kernel[2](A, 4)
    assert np.array_equal(first, again) and not np.array_equal(first, other)
    flat = first.reshape(4, -1)
    assert all(not np.array_equal(flat[i], flat[j]) for i in range(4) for j in range(i))
    assert flat.min() >= 0 and flat.max() < 1
    assert abs(flat.mean() - 0.5) < 0.02 and abs(flat.var() - 1 / 12) < 0.01


def test_device_print_shows_what_ran_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    @nki.jit(predicated_if=True)
    def kernel(x, n):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        tile = nl.load(x)
        for i in nl.sequential_range(4):
            if i > 1:
                nl.device_print("later", tile[0:1, 0:1] * 2.0)
        for _ in nl.dynamic_range(nt.scalar(nl.load(n))):
            tile[...] = tile + 1.0
            nl.device_print("last", tile[0:1, 0:1])
        nl.store(out, tile)
        return out

    for count, last in ((3, ["last [[3.]]"]), (0, [])):
        kernel(np.zeros((4, 8), np.float32), np.array([[count]], np.int32))
        assert capsys.readouterr().out.splitlines() == ["later [[0.]]"] * 2 + last


def test_prints_come_in_the_order_of_the_kernel(capsys: pytest.CaptureFixture[str]) -> None:
    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nl.device_print("x", x[0:1, 0:1])
        tile = nl.load(x[0:1, 0:1])
        for _ in nl.sequential_range(2):
            nl.device_print("a", tile)
            for _ in nl.sequential_range(2):
                tile[...] = tile + 1.0
                nl.device_print("b", tile)
            nl.device_print("c", tile)
        nl.device_print("d", tile)
        nl.store(out, nl.load(x))
        return out

    kernel(np.zeros((4, 8), np.float32))
    words = [
        line.replace("[[", "").replace(".]]", "") for line in capsys.readouterr().out.split("\n")
    ]
    assert words[:-1] == ["x 0", "a 0", "b 1", "b 2", "c 2", "a 2", "b 3", "b 4", "c 4", "d 4"]


def test_device_print_shows_every_iteration(capsys: pytest.CaptureFixture[str]) -> None:
    @nki.jit
    def kernel(x):
        out = nl.ndarray((1, 2), dtype=nl.float32, buffer=nl.shared_hbm)
        t = nl.load(x[0:1, 0:2]) * 0.0
        for k in nl.sequential_range(3):
            nl.device_print("step", t + k)
        nl.store(out, t)
        return out

    kernel(A)
    assert capsys.readouterr().out.split("\n")[:3] == [
        "step [[0. 0.]]",
        "step [[1. 1.]]",
        "step [[2. 2.]]",
    ]


# ---------------------------------------------------------------------------- launches


def test_constants_are_part_of_what_a_kernel_is_specialized_for() -> None:
    @nki.jit
    def kernel(x, n, scale=1.0):
        out = nl.ndarray((n, 64), dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.load(x[0:n]) * scale)
        return out

    assert np.array_equal(kernel(A, 4), A[:4])
    assert np.array_equal(kernel(A, n=8, scale=2.0), A[:8] * 2)
    assert len(kernel.specializations) == 2


SCALE = 2.0


def test_a_changed_global_or_cell_forces_a_new_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    factor = 3.0

    @nki.jit
    def kernel(x):
        out = nl.ndarray((4, 64), dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.load(x[0:4]) * (SCALE * factor))
        return out

    assert np.array_equal(kernel(A), A[:4] * 6)
    monkeypatch.setitem(globals(), "SCALE", 5.0)
    assert np.array_equal(kernel(A), A[:4] * 15)
    factor = 4.0
    assert np.array_equal(kernel(A), A[:4] * 20)


def test_tensors_of_one_name_are_parameters_of_their_own() -> None:
    @nki.jit
    def kernel(out_1, pair, pair_0):
        outs = []
        for factor in nl.static_range(2, 4):
            out = nl.ndarray(out_1.shape, dtype=out_1.dtype, buffer=nl.shared_hbm)
            nl.store(out, nl.load(out_1) * factor + nl.load(pair[1]) - nl.load(pair_0))
            outs.append(out)
        return tuple(outs)

    x = np.arange(32, dtype=np.float32).reshape(4, 8)
    first, second = kernel(x, (x, 5 * x), 2 * x)
    np.testing.assert_array_equal(first, 5 * x)
    np.testing.assert_array_equal(second, 6 * x)


def test_mutable_parameters_are_updated_in_place() -> None:
    @nki.jit
    def kernel(x, total: nt.mutable_tensor):
        nl.store(total, nl.load(total) + nl.load(x[0:4]))
        return total

    total = np.ones((4, 64), np.float32)
    result = kernel(A, total)
    assert result is total and np.array_equal(total, A[:4] + 1)


def test_unwritten_elements_are_poisoned_in_checked_mode() -> None:
    @nki.jit(checked=True)
    def kernel(x):
        out = nl.ndarray((4, 64), dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out[0:2], nl.load(x[0:2]))
        return out

    got = kernel(A)
    assert np.array_equal(got[:2], A[:2]) and np.isnan(got[2:]).all()


def test_entry_points_run_the_same_kernel(tmp_path: Path) -> None:
    def double(x):
        out = nl.ndarray((4, 64), dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.load(x[0:4]) * 2.0)
        return out

    want = A[:4] * 2
    kernel = nki.jit(double)
    assert np.array_equal(nki.simulate_kernel(double, A), want)
    assert np.array_equal(nki.simulate_kernel(kernel[1], A), want)
    assert np.array_equal(nki.baremetal(double)(A), want)
    assert np.array_equal(nki.profile(working_directory=str(tmp_path))(double)(A), want)
    assert np.array_equal(nki.jit(kernel, mode="simulation")(A), want)
    timed = nki.benchmark(warmup=1, iters=3)(double)
    assert np.array_equal(timed(A), want)
    assert timed.benchmark_result.nc_latency.get_latency_percentile(50) > 0
    with pytest.raises(ValueError, match="unknown mode"):
        nki.jit(double, mode="fast")


def test_unknown_keywords_of_the_decorator_are_recorded() -> None:
    kernel = nki.jit(lambda x: None, experimental_flags="enable-mutable-parameter")
    assert kernel.opts.extra == (("experimental_flags", "'enable-mutable-parameter'"),)


# ---------------------------------------------------------------------------- data


def test_limits_follow_the_target() -> None:
    found: list[int] = []

    def body(x):
        found.append(nl.tile_size.sbuf_size_bytes)

    for target in DEVICES:
        nki.jit(body, platform_target=target).lower(A)
    assert found == [device.sbuf_partition_bytes for device in DEVICES.values()]
    assert nl.tile_size.pmax == 128 and nl.tile_size.psum_fmax == 512
    with pytest.raises(ValueError, match="unknown device"):
        get_device("gpu")


SURFACES = {
    "nl": nl,
    "nl.newer": nki.newer,
    "nisa": nisa,
    "nisa.dst": nki.dst_first,
    "nki.collectives": nki.collectives,
}


def test_the_language_is_all_there() -> None:
    functions = [path for path in LANGUAGE if path.startswith("nl.")]
    instructions = [path for path in LANGUAGE if path.startswith("nisa.")]
    assert len(functions) >= 100 and len(instructions) >= 34
    for path, function in LANGUAGE.items():
        assert function.__doc__, path
        surface, _, name = path.rpartition(".")
        assert getattr(SURFACES[surface], name) is function


def test_host_helpers_of_the_language() -> None:
    assert nl.static_cast([1.5, 2.5], nl.float16).dtype == np.float16
    assert float(nl.finfo(nl.bfloat16).max) > 3e38
    assert nl.sizeinbytes(nl.bfloat16) == 2
    assert nl.is_psum(nl.psum) and nl.is_hbm(nl.shared_hbm) and nl.is_on_chip(nl.sbuf)
    with pytest.raises(TypeError):
        nl.static_cast([1], np.complex64)


def test_a_refusal_inside_a_helper_shows_who_called_it() -> None:
    def helper(t):
        return nl.sum(t, axis=0)

    @nki.jit
    def kernel(x):
        return helper(nl.load(x))

    with pytest.raises(TilewrightError) as caught:
        kernel(A)
    span = caught.value.span
    assert span is not None and span.parent is not None
    assert "called from here" in str(caught.value)
