"""Kernels in threads, in forked and spawned processes, in pickles, in cells, and at the end."""

from __future__ import annotations

import gc
import linecache
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright.language as pl
from moments import PATIENCE
from tilewright import errors
from tilewright.jit import decorator, making
from tilewright.passes import PassContext
from tilewright.passes.instruments import Instrument

F32 = np.float32
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")


def adding(number: float) -> Any:
    """A kernel of its own that adds a number."""

    @pl.jit
    def k(x: pl.Tensor[[8, 16], pl.FP32], out: pl.Out[pl.Tensor[[8, 16], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            pl.store(pl.add(pl.load(x, [0, 0], [8, 16]), number), [0, 0], out)
        return out

    return k


@pl.jit
def add_two(x: pl.Tensor[[8, 16], pl.FP32], out: pl.Out[pl.Tensor[[8, 16], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        pl.store(pl.add(pl.load(x, [0, 0], [8, 16]), 2.0), [0, 0], out)
    return out


def run(kernel: Any, number: float) -> None:
    """Calls a kernel that adds a number, and compares."""
    x, out = np.ones((8, 16), F32), np.zeros((8, 16), F32)
    kernel(x, out)
    assert (out == 1 + number).all()


# ---- pickles -------------------------------------------------------------------------------------


def test_a_kernel_is_pickled_by_reference() -> None:
    module = sys.modules.get(__name__) or sys.modules[add_two.__module__]
    assert module.add_two is add_two
    assert pickle.loads(pickle.dumps(add_two)) is add_two
    assert pickle.loads(pickle.dumps({"k": add_two}, protocol=2))["k"] is add_two


def test_a_local_kernel_cannot_be_pickled_and_the_error_names_it() -> None:
    with pytest.raises((pickle.PicklingError, AttributeError), match=r"adding|pl\.jit entry"):
        pickle.dumps(adding(1.0))


def test_a_compiled_object_says_what_to_send_instead() -> None:
    with pytest.raises(TypeError, match=r"save\(\)|the kernel itself"):
        pickle.dumps(add_two.compile())


# ---- processes -----------------------------------------------------------------------------------


def in_a_child(action: Callable[[], None]) -> int:
    """The exit status of a forked child that runs an action; a slow one is killed."""
    child = os.fork()
    if child == 0:
        signal.alarm(int(PATIENCE))
        try:
            action()
        except BaseException as error:
            os.write(2, f"child: {error!r}\n".encode())
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@needs_fork
def test_a_forked_child_calls_what_its_parent_compiled_and_compiles_more() -> None:
    kernel = adding(3.0)
    run(kernel, 3.0)
    assert in_a_child(lambda: (run(kernel, 3.0), run(adding(4.0), 4.0))) == 0
    run(kernel, 3.0)


@needs_fork
def test_a_child_is_not_locked_out_by_threads_that_it_has_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kernel, reached, go_on = adding(5.0), threading.Event(), threading.Event()
    plain = making.generate

    def slow(*args: Any) -> Any:
        reached.set()
        assert go_on.wait(2 * PATIENCE)
        return plain(*args)

    monkeypatch.setattr(making, "generate", slow)
    thread = threading.Thread(target=run, args=(kernel, 5.0))
    thread.start()
    assert reached.wait(PATIENCE)
    monkeypatch.undo()
    try:
        assert in_a_child(lambda: run(kernel, 5.0)) == 0
    finally:
        go_on.set()
        thread.join()


SPAWNED = """
import multiprocessing
import numpy as np
import tilewright.language as pl

@pl.jit
def add_three(x: pl.Tensor[[8, 16], pl.FP32], out: pl.Out[pl.Tensor[[8, 16], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        pl.store(pl.add(pl.load(x, [0, 0], [8, 16]), 3.0), [0, 0], out)
    return out

def work(task):
    kernel, value = task
    x = np.full((8, 16), value, np.float32)
    return float(kernel(x).sum())

if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        print(pool.map(work, [(add_three, 1.0), (add_three, 2.0)]))
"""


def in_a_process(tmp_path: Path, text: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs a script in a fresh process."""
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(text), encoding="utf-8")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    return subprocess.run(
        [sys.executable, str(script), *arguments],
        env=env, capture_output=True, text=True, check=False, timeout=100,
    )  # fmt: skip


def test_a_kernel_goes_to_spawned_processes(tmp_path: Path) -> None:
    done = in_a_process(tmp_path, SPAWNED)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[0] == "[512.0, 640.0]"


SHUTDOWN = """
import sys, threading, time
import numpy as np
import tilewright.language as pl

@pl.jit
def steps(x: pl.Tensor[[256, 256], pl.FP32], out: pl.Out[pl.Tensor[[256, 256], pl.FP32]]):
    for i in pl.parallel(256):
        with pl.at(level=pl.Level.CORE_GROUP):
            t = pl.load(x, [i, 0], [1, 256])
            for _ in pl.range(200):
                t = pl.exp(pl.mul(t, 0.5))
            pl.store(t, [i, 0], out)
    return out

x, out = np.ones((256, 256), np.float32), np.zeros((256, 256), np.float32)
steps(x, out)
started = threading.Event()

def forever():
    y, mine = x.copy(), out.copy()
    while True:
        steps(y, mine)
        started.set()

def compile_forever():
    while True:
        steps._compiled.clear()
        steps.compile()
        started.set()

for target in (forever, forever) if sys.argv[1] == "call" else (compile_forever,):
    threading.Thread(target=target, daemon=True).start()
started.wait()
time.sleep(float(sys.argv[2]))
"""


@pytest.mark.parametrize("what", ["call", "compile"])
def test_the_interpreter_ends_while_a_kernel_runs(tmp_path: Path, what: str) -> None:
    for pause in ("0.0", "0.013"):
        done = in_a_process(tmp_path, SHUTDOWN, what, pause)
        assert (done.returncode, done.stderr) == (0, "")


# ---- threads and re-entrancy ---------------------------------------------------------------------


def test_threads_share_one_compilation_of_one_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[int] = []
    plain = making.generate
    monkeypatch.setattr(making, "generate", lambda *a: (built.append(1), plain(*a))[1])
    kernels = [adding(float(number)) for number in range(3)]
    failures: list[BaseException] = []
    start = threading.Barrier(9)

    def work(kernel: Any, number: float) -> None:
        try:
            start.wait()
            for _ in range(50):
                run(kernel, number)
        except BaseException as error:
            failures.append(error)

    threads = [
        threading.Thread(target=work, args=(kernel, float(number)))
        for number, kernel in enumerate(kernels)
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures and len(built) == len(kernels)


def test_a_kernel_may_be_called_while_it_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """A signal handler, a finalizer or a hook comes back for what its thread compiles."""
    kernel, depth = adding(6.0), [0]
    plain = making.generate

    def again(*args: Any) -> Any:
        depth[0] += 1
        if depth[0] == 1:
            run(kernel, 6.0)
        return plain(*args)

    monkeypatch.setattr(making, "generate", again)
    run(kernel, 6.0)
    assert depth == [2] and kernel.compile() is kernel.compile()


def test_an_instrument_may_call_the_kernel_that_it_watches() -> None:
    kernel = adding(7.0)

    class Call(Instrument):
        def run_after_pass(self, name: str, program: Any) -> None:
            if PassContext.current() is context:
                with PassContext([]):
                    run(kernel, 7.0)

    context = PassContext([Call()])
    with context:
        run(kernel, 7.0)
    run(kernel, 7.0)


def test_a_finalizer_may_call_a_kernel() -> None:
    kernel, called = adding(8.0), []

    class Cyclic:
        def __init__(self) -> None:
            self.me = self

        def __del__(self) -> None:
            run(kernel, 8.0)
            called.append(1)

    Cyclic()
    gc.collect()
    assert called == [1]


# ---- cells and strings ---------------------------------------------------------------------------

CELL = """
import tilewright.language as pl

@pl.jit
def in_cell(x: pl.Tensor[[4, 16], pl.FP32], out: pl.Out[pl.Tensor[[4, 16], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        pl.store(pl.{word}(pl.load(x, [0, 0], [4, 16]), {number}), [0, 0], out)
    return out
"""


def execute(text: str, name: str, names: dict[str, Any], *, remember: bool = True) -> Any:
    """Runs a cell as a notebook does: under a name of its own that linecache knows."""
    if remember:
        linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    exec(compile(text, name, "exec"), names)
    return names["in_cell"]


def test_a_cell_may_be_changed_and_run_again() -> None:
    names: dict[str, Any] = {"__name__": "__main__"}
    x = np.ones((4, 16), F32)
    for number in (1, 2):
        text = CELL.format(word="add", number=float(number))
        kernel = execute(text, f"<cell {number}>", names)
        assert (kernel(x) == 1 + number).all()
    same_name = execute(CELL.format(word="mul", number=5.0), "<cell 2>", names)
    assert (same_name(x) == 5).all()


def test_an_error_in_a_cell_shows_the_line_of_the_cell() -> None:
    kernel = execute(CELL.format(word="addd", number=1.0), "<cell 9>", {})
    with pytest.raises(errors.InvalidOperationError) as caught:
        kernel.compile()
    assert "<cell 9>:7" in str(caught.value) and "pl.addd" in str(caught.value)


def test_text_that_nobody_kept_is_refused_with_what_would_do() -> None:
    with pytest.raises(errors.ParserSyntaxError, match=r"(?s)'in_cell'.*<nowhere>.*in a file"):
        text = CELL.format(word="add", number=1.0)
        execute(text, "<nowhere>", {}, remember=False).compile()


# ---- memory --------------------------------------------------------------------------------------


def resident_bytes() -> int:
    """The memory of this process that is in use."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE")


def mappings() -> int:
    """The number of memory mappings of this process."""
    return len(Path("/proc/self/maps").read_text().splitlines())


def compile_many(count: int) -> None:
    """Compiles and calls kernels that nobody keeps."""
    for number in range(count):
        run(adding(float(number % 1000) + 0.5), float(number % 1000) + 0.5)


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads /proc")
@pytest.mark.parametrize(
    "count", [150, pytest.param(10_000, marks=[pytest.mark.long, pytest.mark.timeout(1200)])]
)
def test_compilations_that_nobody_keeps_leave_no_memory(count: int) -> None:
    compile_many(60)
    gc.collect()
    before, maps = resident_bytes(), mappings()
    compile_many(count)
    gc.collect()
    assert resident_bytes() - before < 24 << 20
    assert mappings() - maps < 20


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads /proc")
@pytest.mark.parametrize(
    "count", [60, pytest.param(10_000, marks=[pytest.mark.long, pytest.mark.timeout(1200)])]
)
def test_one_kernel_of_ever_new_shapes_keeps_a_bounded_number_of_objects(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = 16 if count < 1000 else 256
    monkeypatch.setattr(decorator, "MAX_OBJECTS", limit)

    @pl.jit
    def k(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = pl.add(x, 1.0)
        return out

    def call(rows: int) -> None:
        x = np.ones((1 + rows % 97, 1 + rows // 97), F32)
        assert (k(x, np.empty_like(x)) == 2).all()

    for rows in range(limit + 8):
        call(rows)
    before = resident_bytes()
    for rows in range(limit + 8, limit + 8 + count):
        call(rows)
    call(0)
    assert len(k._compiled) == limit and len(k._remembered) <= limit
    assert resident_bytes() - before < 24 << 20


def test_a_shape_that_lost_its_place_in_the_native_entry_gets_it_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(decorator, "MAX_VARIANTS", 2)  # one way to call each: `out` is given

    @pl.jit
    def k(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = pl.add(x, 1.0)
        return out

    arrays = [np.ones((rows, 16), F32) for rows in range(1, 5)]
    for x in (*arrays, arrays[0]):
        k(x, np.empty_like(x))
    served = {str(variant.code.signature.tensors[0].shape[0]) for variant in k.variants}
    assert served == {"1", "4"}
