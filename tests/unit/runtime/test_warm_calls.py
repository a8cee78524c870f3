"""Warm calls: guards, epochs, faults, threads, and processes with and without the stub."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import tracemalloc
from pathlib import Path
from types import CellType
from typing import Any

import numpy as np
import pytest

from moments import PATIENCE, comes_true
from tilewright import dtypes, errors
from tilewright.abi import UNBOUNDED, Fault, Manifest, tensor
from tilewright.runtime import process
from tilewright.runtime.context import current_context
from tilewright.runtime.native import missing_assumption
from tilewright.runtime.variants import Guard, Variant, dict_version
from unit.runtime.native_kernels import (
    Counting,
    add_text,
    arena_text,
    arrays,
    counting,
    endless_text,
    fault_text,
    make,
    make_add,
    object_of,
    print_text,
    store_slot_text,
)

F32 = np.float32

pytestmark = pytest.mark.skipif(bool(missing_assumption()), reason=missing_assumption())


# ---- guards --------------------------------------------------------------------------------------


def guarded(*guards: Guard) -> tuple[Counting, tuple[np.ndarray, ...]]:
    args = arrays(4, 16)
    executable = make_add()
    executable.call_slowly(*args)
    return Counting(executable, guards=guards), args


def test_a_changed_global_is_noticed() -> None:
    marker: list[int] = []
    namespace: dict[str, object] = {"scale": marker, "other": 1}
    kernel, args = guarded(Guard(namespace, "scale", marker))
    kernel(*args)
    namespace["other"] = 2
    kernel(*args)
    assert kernel.slow == 0
    namespace["scale"] = []
    kernel(*args)
    del namespace["scale"]
    kernel(*args)
    assert kernel.slow == 2


def test_a_name_that_was_missing_and_appears_is_noticed() -> None:
    namespace: dict[str, object] = {}
    kernel, args = guarded(Guard(namespace, "len", None, missing=True))
    kernel(*args)
    assert kernel.slow == 0
    namespace["len"] = 3
    kernel(*args)
    assert kernel.slow == 1


def test_a_changed_cell_is_noticed() -> None:
    marker: list[int] = []
    cell = CellType(marker)
    kernel, args = guarded(Guard(cell, None, marker))
    kernel(*args)
    assert kernel.slow == 0
    cell.cell_contents = []
    kernel(*args)
    assert kernel.slow == 1


def test_an_item_and_the_length_of_a_list_are_noticed() -> None:
    first, second = object(), object()
    items = [first, second]
    kernel, args = guarded(Guard(items, None, 2), Guard(items, 1, second))
    kernel(*args)
    items[0] = object()
    kernel(*args)
    assert kernel.slow == 0
    for change in (lambda: items.append(first), lambda: items.pop(), items.reverse, items.clear):
        change()
        kernel(*args)
    assert kernel.slow == 3, "one change restores what is guarded"


def test_any_change_of_a_dict_is_noticed_by_its_version() -> None:
    variables: dict[bytes, object] = {b"HOME": b"/"}
    version = dict_version(variables)
    if version is None:
        pytest.skip("this interpreter keeps no versions")
    kernel, args = guarded(Guard(variables, None, version))
    variables.get(b"OTHER")
    kernel(*args)
    assert kernel.slow == 0 and dict_version(variables) == version
    for change in (
        lambda: variables.update(OTHER=1),
        lambda: variables.__setitem__(b"HOME", b"/x"),
        lambda: variables.pop(b"HOME"),
    ):
        change()
        kernel(*args)
        assert dict_version(variables) != version
    assert kernel.slow == 3


def test_a_new_epoch_sends_warm_calls_to_python_once_more() -> None:
    args = arrays(4, 16)
    executable = make_add()
    kernel, timeless = Counting(executable, epoch=process.current_epoch()), Counting(executable)
    executable.call_slowly(*args)
    kernel(*args)
    assert kernel.slow == 0
    process.bump_epoch()
    kernel(*args)
    timeless(*args)
    assert (kernel.slow, timeless.slow) == (1, 0)
    kernel.set_variants([Variant(executable.code, (), process.current_epoch())])
    kernel(*args)
    assert kernel.slow == 1


def test_the_variant_that_fits_answers() -> None:
    small, large = make_add((4, 16)), make_add((8, 16))
    args, more = arrays(4, 16), arrays(8, 16)
    small.call_slowly(*args)
    kernel = Counting(large, small)
    kernel(*args)
    kernel(*more)
    np.testing.assert_array_equal(args[2], args[0] + args[1])
    np.testing.assert_array_equal(more[2], more[0] + more[1])
    assert kernel.slow == 0


# ---- running -------------------------------------------------------------------------------------


def test_a_fault_of_a_warm_kernel_is_named() -> None:
    executable = make(
        fault_text(Fault.DIVISION_BY_ZERO, 0), tensor("out", dtypes.FP32, (1,), "out"),
        manifest=Manifest(name="divide"),
    )  # fmt: skip
    out = np.zeros(1, F32)
    make_add()(*arrays(4, 16))
    kernel = Counting(executable)
    with pytest.raises(errors.DivisionByZero, match="divide: an integer is divided by zero"):
        kernel(out)
    assert kernel.slow == 0 and out[0] == 7


def test_outputs_of_a_fault_are_released() -> None:
    executable = make(
        fault_text(Fault.ASSERTION, 0),
        tensor("out", dtypes.FP32, (1 << 16,), "out", implicit=True),
        returns=(0,),
    )
    make_add()(*arrays(4, 16))
    kernel = Counting(executable)
    tracemalloc.start()
    for _ in range(100):
        with pytest.raises(errors.KernelFault):
            kernel()
    current, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kernel.slow == 0 and current < 1 << 20


def test_an_arena_that_is_too_small_is_grown_in_python_once() -> None:
    need = current_context().get("arena_bytes") + 1
    executable = make(arena_text(need), tensor("out", dtypes.FP32, (1,), "out"))
    make_add()(*arrays(4, 16))
    kernel, out = Counting(executable), np.zeros(1, F32)
    kernel(out)
    kernel(out)
    assert kernel.slow == 1 and out[0] == 1


def test_a_kernel_that_prints_stays_in_python() -> None:
    manifest = Manifest(prints={3: ("{0}", ("INT64",))})
    executable = make(print_text(3, 1), tensor("out", dtypes.FP32, (1,), "out"), manifest=manifest)
    assert Variant(executable.code).reason == "it prints"
    assert executable.variants == ()


def test_references_do_not_leak() -> None:
    x, y, out = arrays(4, 16)
    kernel = counting(make_add(), x, y, out)
    objects = (x, y, out, kernel, None, np.dtype(F32), kernel.variants[0])
    before = [sys.getrefcount(o) for o in objects]
    for _ in range(1000):
        kernel(x, y, out)
    after = [sys.getrefcount(o) for o in objects]
    assert [b - a for a, b in zip(before, after) if abs(b - a) > 10] == []


def test_a_kernel_replaced_while_it_runs_finishes_first() -> None:
    endless = make(
        endless_text(), tensor("out", dtypes.FP32, (1,), "out"),
        manifest=Manifest(work=((UNBOUNDED, ()),)),
    )  # fmt: skip
    kernel, out = Counting(endless), np.zeros(1, F32)
    contexts: list[Any] = []
    failures: list[BaseException] = []

    def run() -> None:
        contexts.append(current_context())
        try:
            kernel(out)
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    assert comes_true(out.any)
    kernel.set_variants([])
    kernel.executables = ()
    del endless
    contexts[0].cancel()
    thread.join(PATIENCE)
    contexts[0].clear_cancel()
    assert isinstance(failures[0], errors.CancelledError) and kernel.slow == 0


def test_a_thread_makes_its_context_once() -> None:
    x, y, _ = arrays(4, 16)
    kernel = counting(make_add(), x, y, np.zeros((4, 16), F32))
    slow: list[int] = []

    def run() -> None:
        out = np.zeros((4, 16), F32)
        kernel(x, y, out)
        first = kernel.slow
        kernel(x, y, out)
        slow.extend((first, kernel.slow))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert slow == [1, 1]


@pytest.mark.torch
def test_torch_tensors_need_no_python_once_seen() -> None:
    import torch

    x, y, out = torch.randn(4, 16), torch.randn(4, 16), torch.zeros(4, 16)
    kernel = counting(make_add(), x, y, out)
    out.zero_()
    kernel(x, y, out)
    assert torch.equal(out, x + y)
    kernel(x.numpy(), torch.nn.Parameter(y, requires_grad=False), out)
    slow = kernel.slow
    kernel(torch.nn.Parameter(x, requires_grad=False), y.numpy(), out)
    assert slow <= 1 and kernel.slow == slow
    with pytest.raises(errors.DTypeMismatch):
        kernel(x.double(), y, out)
    with pytest.raises(errors.ShapeMismatch):
        kernel(x[:2], y, out)
    with pytest.raises(errors.OutputOverlap):
        kernel(x, out, out)
    with pytest.raises(errors.ArgumentTypeMismatch, match="meta"):
        kernel(x.to("meta"), y, out)


CALLER = """
import sys, numpy as np
from tilewright.abi import Signature, tensor
from tilewright.dtypes import FP32
from tilewright.runtime.launch import Executable
if sys.argv[2] == "no llvm":
    sys.modules["llvmlite"] = None
data = open(sys.argv[1], "rb").read()
params = [tensor(n, FP32, (4, 16), d) for n, d in (("x", "in"), ("y", "in"), ("o", "out"))]
kernel = Executable.from_object(data, Signature(tuple(params)))
x = np.ones((4, 16), np.float32)
out = np.zeros((4, 16), np.float32)
kernel(x, x, out)
kernel(x, x, out)
assert (out == 2).all()
print(len(kernel.variants), sys.modules.get("llvmlite") is not None)
"""


def call_elsewhere(tmp_path: Path, *, llvm: bool = True, cache: Path | None = None) -> str:
    """What a new process says after calling a kernel: how many native variants, LLVM or not."""
    path = tmp_path / "add.o"
    path.write_bytes(object_of(add_text("64")))
    environment = {**os.environ, **({"XDG_CACHE_HOME": str(cache)} if cache else {})}
    done = subprocess.run(
        [sys.executable, "-c", CALLER, str(path), "llvm" if llvm else "no llvm"],
        capture_output=True,
        text=True,
        timeout=60,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_warm_process_calls_without_llvm(tmp_path: Path) -> None:
    make_add()(*arrays(4, 16))  # the stub is in the cache now
    assert call_elsewhere(tmp_path) == "1 False"
    assert call_elsewhere(tmp_path, llvm=False) == "1 False"


def test_a_process_without_stub_and_llvm_calls_the_careful_way(tmp_path: Path) -> None:
    assert call_elsewhere(tmp_path, llvm=False, cache=tmp_path / "empty") == "0 False"


def test_a_damaged_stub_is_made_again(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    assert call_elsewhere(tmp_path, cache=cache) == "1 True"
    (kept,) = (cache / "tilewright").iterdir()
    whole = kept.read_bytes()
    for damaged in (b"", whole[:1000], whole[:100] + b"?" + whole[101:]):
        kept.write_bytes(damaged)
        assert call_elsewhere(tmp_path, cache=cache) == "1 True"
        assert kept.read_bytes() == whole
    assert call_elsewhere(tmp_path, cache=cache) == "1 False"


def test_without_the_stub_calls_still_work(tmp_path: Any) -> None:
    program = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from tilewright.runtime.native import missing_assumption\n"
        "import numpy as np, pytest\n"
        "assert 'FAST_LAUNCH' in missing_assumption()\n"
        "sys.exit(pytest.main(['-q', '-x', '-p', 'no:cacheprovider', *sys.argv[2:]]))\n"
    )
    here = Path(__file__).parent
    tests = (here / "test_arguments.py", here / "test_launch.py")
    done = subprocess.run(
        [sys.executable, "-c", program, str(here.parents[1]), *map(str, tests)],
        capture_output=True,
        text=True,
        timeout=110,
        env={**os.environ, "TILEWRIGHT_FAST_LAUNCH": "0"},
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]


@pytest.mark.torch
def test_tensors_in_mean_tensors_out_natively() -> None:
    import torch

    executable = make_add(implicit=True)
    x, y = torch.randn(4, 16), torch.randn(4, 16)
    kernel = counting(executable, x, y)
    for _ in range(10):
        result = kernel(x, y)
        assert type(result) is torch.Tensor and torch.equal(result, x + y)
        assert result.requires_grad is False and result.is_contiguous()
    references = sys.getrefcount(result)
    assert references == 2 and kernel.slow == 0


@pytest.mark.torch
def test_a_zeroed_tensor_is_zero_and_a_bfloat16_one_is_bfloat16() -> None:
    import torch

    executable = make(
        store_slot_text(0),
        tensor("x", dtypes.INT64, ("N",)),
        tensor("out", dtypes.BF16, ("N", 3), "out", implicit=True, zeroed=True),
        returns=(1,),
    )
    x = torch.zeros(5, dtype=torch.int64)
    kernel = counting(executable, x)
    for _ in range(5):
        result = kernel(x)
        assert result.shape == (5, 3) and result.dtype is torch.bfloat16
        assert (result == 0).all()
        result[:] = 3
    assert kernel.slow == 0
