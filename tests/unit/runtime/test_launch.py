"""Running: faults at the author's line, scratch memory, printing, interruption."""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from moments import PATIENCE, pressed
from tilewright import dtypes, errors
from tilewright.abi import UNBOUNDED, Fault, Manifest, Site, tensor
from tilewright.runtime import launch
from unit.runtime.native_kernels import (
    arena_text,
    endless_text,
    fault_text,
    make,
    make_add,
    print_text,
)

OUT = tensor("out", dtypes.FP32, (1,), "out")


def out_array() -> np.ndarray:
    return np.zeros(1, np.float32)


def test_a_fault_is_the_named_error_at_the_authors_line(tmp_path: Path) -> None:
    source = tmp_path / "author.py"
    source.write_text("def kernel(x, rows):\n    return x[rows]\n")
    site = Site(str(source), 2, 12, 2, 19, "    return x[rows]")
    kernel = make(
        fault_text(Fault.INDEX_OUT_OF_BOUNDS, 5, (64, 0, 16, 1)),
        OUT,
        manifest=Manifest(name="gather", sites={5: site}),
    )
    with pytest.raises(errors.IndexOutOfBounds) as caught:
        kernel(out_array())
    text = str(caught.value)
    assert "index 64 is outside [0, 16) along dimension 1" in text
    assert f"{source}" in text and "return x[rows]" in text
    assert "partly written, perhaps: 'out'" in text
    assert isinstance(caught.value, IndexError)


def test_a_fault_shows_the_line_that_was_compiled_when_the_file_is_gone() -> None:
    site = Site("gone.py", 3, 5, 3, 10, "    y = a // b")
    kernel = make(fault_text(Fault.DIVISION_BY_ZERO, 1), OUT, manifest=Manifest(sites={1: site}))
    with pytest.raises(errors.DivisionByZero, match="y = a // b"):
        kernel(out_array())


def test_an_unknown_status_is_our_defect() -> None:
    with pytest.raises(errors.InternalError, match="unknown status 999"):
        make(fault_text(999, 0), OUT)(out_array())


def test_a_copied_output_is_not_written_back_after_a_fault() -> None:
    kernel = make(fault_text(Fault.ASSERTION, 0), tensor("out", dtypes.FP32, (2,), "out"))
    out = np.zeros(4, np.float32)
    with pytest.raises(errors.KernelFault):
        kernel(out[::2])
    assert (out == 0).all()


@pytest.mark.parametrize("need", [1, 1 << 16, 3_000_001])
def test_the_arena_grows_until_the_kernel_is_content(need: int) -> None:
    out = out_array()
    make(arena_text(need), OUT)(out)
    assert out[0] == 1


def test_prints_come_out_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    manifest = Manifest(name="loud", prints={3: ("i = {0}", ("INT64",))})
    make(print_text(3, 3), OUT, manifest=manifest)(out_array())
    assert capsys.readouterr().out == "i = 0\ni = 1\ni = 2\n"


def test_prints_beyond_the_ring_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    manifest = Manifest(name="loud", prints={3: ("{0}", ("INT64",))})
    kernel = make(print_text(3, 5000), OUT, manifest=manifest)
    kernel(out_array())
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "... and 904 more lines that did not fit (loud)"
    assert lines[:2] == ["0", "1"]


@pytest.mark.parametrize("work", [UNBOUNDED, 1e9])
def test_control_c_stops_a_long_kernel(work: float) -> None:
    kernel = make(endless_text(), OUT, manifest=Manifest(name="endless", work=((work, ()),)))
    out = out_array()
    with (
        pytest.raises(errors.CancelledError, match="partly written") as caught,
        pressed(once=out.any),
    ):
        kernel(out)
    assert isinstance(caught.value, KeyboardInterrupt)


def test_a_handler_of_the_program_decides_what_is_raised() -> None:
    class Enough(Exception):
        pass

    def handler(*_: object) -> None:
        raise Enough

    kernel = make(endless_text(), OUT, manifest=Manifest(work=((UNBOUNDED, ()),)))
    before = signal.signal(signal.SIGINT, handler)
    try:
        out = out_array()
        with pytest.raises(Enough), pressed(once=out.any):
            kernel(out)
        assert signal.getsignal(signal.SIGINT) is handler
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("runs", [True, False])
def test_control_c_while_the_thread_of_a_kernel_starts(
    monkeypatch: pytest.MonkeyPatch, runs: bool
) -> None:
    begun, asked, ended = threading.Event(), threading.Event(), threading.Event()
    context: Any = SimpleNamespace(cancel=asked.set, clear_cancel=asked.clear)
    start = threading.Thread.start

    def kernel() -> int:
        begun.set()
        asked.wait(PATIENCE)
        ended.set()
        return 0

    def interrupted(thread: threading.Thread) -> None:
        if runs:
            start(thread)
            assert begun.wait(PATIENCE)
        raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    with pytest.raises(errors.CancelledError, match="partly written"):
        launch.run_interruptibly(kernel, context)
    assert ended.is_set() == runs and not asked.is_set()


def test_a_kernel_runs_again_after_an_interruption() -> None:
    kernel = make(endless_text(), OUT, manifest=Manifest(work=((UNBOUNDED, ()),)))
    out = out_array()
    with pytest.raises(KeyboardInterrupt), pressed(once=out.any):
        kernel(out)
    x = np.ones((4, 16), np.float32)
    out = np.zeros((4, 16), np.float32)
    make_add()(x, x, out)
    assert (out == 2).all()


def test_threads_run_kernels_at_the_same_time() -> None:
    kernel = make_add((1000,), manifest=Manifest(work=((5000.0, ()),)))
    x = np.ones(1000, np.float32)
    outs = [np.zeros(1000, np.float32) for _ in range(4)]

    def run(out: np.ndarray) -> None:
        for _ in range(50):
            kernel(x, x, out)

    threads = [threading.Thread(target=run, args=(out,)) for out in outs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all((out == 2).all() for out in outs)
