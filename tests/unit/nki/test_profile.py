"""`nki.benchmark` and `nki.profile`: measured times, percentiles, the author's lines."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import tilewright.nki as nki
import tilewright.nki.language as nl
import tilewright.nki.typing as nt

RNG = np.random.default_rng(2)
A = RNG.standard_normal((512, 512)).astype(np.float32)


def heavy(x, y):
    out = nl.ndarray((512, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(4):
        rows = nl.ds(i * 128, 128)
        acc = nl.zeros((128, 512), dtype=nl.float32, buffer=nl.psum)
        for k in nl.affine_range(4):
            part = nl.load_transpose2d(x[rows, nl.ds(k * 128, 128)])
            acc += nl.matmul(part, nl.load(y[nl.ds(k * 128, 128)]), transpose_x=True)
        nl.store(out[rows], nl.tanh(acc) * 2.0)
    return out


FIRST = heavy.__code__.co_firstlineno


def test_benchmark_gives_percentiles_of_real_launches() -> None:
    timed = nki.benchmark(heavy, warmup=2, iters=20)
    np.testing.assert_allclose(timed(A, A), 2 * np.tanh(A @ A), atol=1e-3)
    latency = timed.benchmark_result.nc_latency
    assert len(latency.samples) == 20
    percentiles = [latency.get_latency_percentile(p) for p in (0, 1, 10, 25, 50, 90, 99, 100)]
    assert percentiles == sorted(percentiles) and percentiles[0] > 0


def test_a_profile_says_which_lines_take_the_time(tmp_path: Path) -> None:
    profiled = nki.profile(heavy, working_directory=str(tmp_path), overwrite=True)
    np.testing.assert_allclose(profiled(A, A), 2 * np.tanh(A @ A), atol=1e-3)
    runs = [profiled.profile_result.lines]
    for _ in range(2):
        profiled(A, A)
        runs.append(profiled.profile_result.lines)
    product, activation = (min(lines[FIRST + k] for lines in runs) for k in (7, 8))
    assert product > activation > 0
    assert set(runs[0]) <= set(range(FIRST, FIRST + 10))


def test_the_parts_of_a_profile_add_up_to_the_wall_time(tmp_path: Path) -> None:
    profiled = nki.profile(heavy, working_directory=str(tmp_path), overwrite=True)

    def ratio() -> float:
        profiled(A, A)
        result = profiled.profile_result
        assert result.parts[0].name == "launch" and not result.parts[0].shares
        assert result.total >= result.wall * (1 - 1e-9)
        return sum(result.lines.values()) / result.wall

    assert any(0.9 <= ratio() <= 1.1 for _ in range(50))


def test_a_profile_is_a_trace_that_chrome_reads(tmp_path: Path) -> None:
    profiled = nki.profile(heavy, working_directory=str(tmp_path), save_trace_name="heavy.json")
    profiled(A, A)
    trace = json.loads((tmp_path / "heavy.json").read_text())
    events = trace["traceEvents"]
    assert all(event["ph"] == "X" and event["dur"] >= 0 for event in events)
    assert sum(event["dur"] for event in events) == pytest.approx(profiled.profile_result.total)
    assert any("nl.matmul" in event["name"] for event in events)
    assert [event["name"] for event in events if not event["args"]] == ["launch"]
    with pytest.raises(FileExistsError):
        profiled(A, A)


def test_a_profile_needs_an_absolute_directory() -> None:
    with pytest.raises(ValueError, match="absolute working_directory"):
        nki.profile(heavy)(A, A)
    with pytest.raises(ValueError, match="absolute working_directory"):
        nki.profile(heavy, working_directory="here")(A, A)


def test_a_grid_is_profiled_as_well(tmp_path: Path) -> None:
    def rows(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        mine = nl.ds(nl.program_id(0) * 128, 128)
        nl.store(out[mine], nl.exp(nl.load(x[mine])))
        return out

    profiled = nki.profile(rows, working_directory=str(tmp_path))[4]
    np.testing.assert_allclose(profiled(A), np.exp(A), rtol=1e-5)
    assert profiled.profile_result.total > 0


@pytest.mark.parametrize("times", [1, 3])
def test_measuring_a_kernel_updates_its_arguments_once(tmp_path: Path, times: int) -> None:
    @nki.jit
    def add_one(x: nt.mutable_tensor):
        nl.store(x, nl.load(x) + 1.0)
        return x

    measured = (
        nki.benchmark(add_one, warmup=times, iters=times),
        nki.profile(add_one, working_directory=str(tmp_path), profile_nth=times, overwrite=True),
        nki.baremetal(add_one),
    )
    for kernel in measured:
        x = np.zeros((4, 8), np.float32)
        assert (kernel(x) == 1).all() and (x == 1).all()
