"""Warm launches: what the native entry answers itself, and what sends a call back to Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright.nki as nki
import tilewright.nki.isa as nisa
import tilewright.nki.language as nl
import tilewright.nki.typing as nt
from tilewright.nki._kernel import TraceKernel
from tilewright.nki._launch import prepare
from tilewright.runtime.native import missing_assumption

pytestmark = pytest.mark.skipif(bool(missing_assumption()), reason=missing_assumption())
X = np.arange(64, dtype=np.float32).reshape(4, 16)
FACTOR = 2.0
TABLE = [2.0]


class Counting(TraceKernel):
    """Counts the calls that reach Python."""

    slow = 0

    def call_slowly(self, *args: Any, **kwargs: Any) -> Any:
        self.slow += 1
        return super().call_slowly(*args, **kwargs)


def kernel_of(function: Callable[..., Any], **options: Any) -> Counting:
    return Counting(function, nki.CompileOpts(**options), prepare=prepare)  # type: ignore[arg-type]


def scaled(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(x) * FACTOR)
    return out


def test_the_second_call_like_the_first_reaches_no_python() -> None:
    kernel = kernel_of(scaled)
    first, second = kernel(X), kernel(X)
    assert kernel.slow == 1
    assert first is not second
    np.testing.assert_array_equal(second, X * 2)


def test_each_grid_has_a_native_entry_of_its_own() -> None:
    def rows(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        i = nl.program_id(0)
        nl.store(out[i : i + 1], nl.load(x[i : i + 1]) + nl.num_programs(0))
        return out

    kernel = kernel_of(rows)
    for _ in range(3):
        np.testing.assert_array_equal(kernel[4](X), X + 4)
        np.testing.assert_array_equal(kernel[(2,)](X)[:2], X[:2] + 2)
    assert (kernel[4].slow, kernel[2].slow) == (1, 1)
    assert kernel[(4,)] is kernel[4]


def test_another_shape_or_dtype_is_traced_anew_and_then_native_too() -> None:
    kernel = kernel_of(scaled)
    for _ in range(2):
        for x in (X, X[:2], X.astype(np.float16)):
            assert kernel(x).dtype == x.dtype and kernel(x).shape == x.shape
    assert kernel.slow == 3


def test_a_rebound_global_forces_a_new_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = kernel_of(scaled)
    kernel(X)
    monkeypatch.setitem(globals(), "FACTOR", 3.0)
    np.testing.assert_array_equal(kernel(X), X * 3)
    np.testing.assert_array_equal(kernel(X), X * 3)
    assert kernel.slow == 2


def test_a_changed_cell_forces_a_new_trace() -> None:
    bias = 1.0

    def biased(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.load(x) + bias)
        return out

    kernel = kernel_of(biased)
    kernel(X)
    bias = 5.0
    np.testing.assert_array_equal(kernel(X), X + 5)


def test_a_shadowed_builtin_forces_a_new_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    def counted(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.load(x) + float(len([1, 2])))
        return out

    kernel = kernel_of(counted)
    kernel(X)
    monkeypatch.setitem(globals(), "len", lambda items: 7)
    np.testing.assert_array_equal(kernel(X), X + 7)


def test_what_cannot_be_watched_keeps_calls_in_python() -> None:
    def looked_up(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.load(x) * TABLE[0])
        return out

    kernel = kernel_of(looked_up)
    kernel(X)
    try:
        TABLE[0] = 4.0
        np.testing.assert_array_equal(kernel(X), X * 4)
    finally:
        TABLE[0] = 2.0
    assert kernel.slow == 2 and not kernel.variants


def test_constant_arguments_select_their_own_trace() -> None:
    def powered(x, n=1):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.load(x) * n)
        return out

    kernel = kernel_of(powered)
    for n in (2, 3, 2):
        np.testing.assert_array_equal(kernel(X, n), X * n)
    np.testing.assert_array_equal(kernel(X, n=4), X * 4)
    np.testing.assert_array_equal(kernel(X), X)
    np.testing.assert_array_equal(kernel(X), X)


def test_arrays_that_do_not_fit_the_native_entry_give_the_same() -> None:
    kernel = kernel_of(scaled)
    kernel(X)
    np.testing.assert_array_equal(kernel(np.asfortranarray(X)), X * 2)
    np.testing.assert_array_equal(kernel(X.view(np.memmap)), X * 2)
    assert kernel.slow == 3 and len(kernel.variants) == 1


def test_an_updated_parameter_comes_back_itself() -> None:
    def add(x, total: nt.mutable_tensor):
        nl.store(total, nl.load(total) + nl.load(x))
        return total

    kernel, total = kernel_of(add), np.zeros_like(X)
    assert kernel(X, total) is total and kernel(X, total) is total
    np.testing.assert_array_equal(total, 2 * X)
    assert kernel.slow == 1


def test_a_tuple_of_one_comes_back_as_a_tuple() -> None:
    def outer(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.load(x))
        return (out,)

    kernel = kernel_of(outer)
    for _ in range(2):
        (got,) = kernel(X)
        np.testing.assert_array_equal(got, X)
    assert kernel.slow == 1


def test_unwritten_elements_show_in_checked_mode_only() -> None:
    def half(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out[0:2], nl.load(x[0:2]))
        return out

    kernel = kernel_of(half, checked=True)
    for _ in range(2):
        assert np.isnan(kernel(X)[2:]).all()
    assert np.isnan(nki.simulate_kernel(half, X)[2:]).all()
    assert not kernel.variants


def test_tensors_of_torch_come_back_as_tensors() -> None:
    torch = pytest.importorskip("torch")
    kernel, x = kernel_of(scaled), torch.ones(4, 16)
    for _ in range(3):
        assert torch.equal(kernel(x), x * 2)
    assert isinstance(kernel(X), np.ndarray)


class CountingChecks(TraceKernel):
    """Counts the calls that are checked in Python."""

    checked = 0

    def _prepare(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self.checked += 1
        return super()._prepare(args, kwargs)


def checks_of(function: Callable[..., Any]) -> CountingChecks:
    return CountingChecks(function, nki.CompileOpts(), prepare=prepare)  # type: ignore[arg-type]


def test_constants_and_keywords_are_checked_once_for_each_form_of_call() -> None:
    def affine(x, y, factor=1.0, *, shift=0):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.load(x) * factor + nl.load(y) * shift)
        return out

    kernel = checks_of(affine)
    calls: list[tuple[Callable[[], Any], Any]] = [
        (lambda: kernel(X, X, 2.0), 2 * X),
        (lambda: kernel(X, X, shift=3), X + 3 * X),
        (lambda: kernel(X, X, 0.0, shift=1), X),
        (lambda: kernel(X, X, -0.0, shift=1), X),
        (lambda: kernel(x=X, y=X + 1, shift=2), X + 2 * (X + 1)),
        (lambda: kernel[1](X, X, 2.0), 2 * X),
        (lambda: kernel(X, X, True), X),
        (lambda: kernel(X, X, 1), X),
    ]
    for _ in range(3):
        for call, want in calls:
            np.testing.assert_array_equal(call(), want)
    gridded: Any = kernel[1]
    assert (kernel.checked, gridded.checked) == (len(calls) - 1, 1)
    np.testing.assert_array_equal(kernel(y=X, x=X + 1, shift=0), X + 1)
    np.testing.assert_array_equal(kernel(y=X, x=X + 1, shift=0), X + 1)
    assert kernel.checked == len(calls) + 1, "arrays in another order are bound in Python"
    with pytest.raises(TypeError):
        kernel(X, X, 2.0, 3)


def test_other_arrays_under_a_known_form_are_traced_anew() -> None:
    def shifted(x, n):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.load(x) + nl.load(nl.shared_constant(np.full(x.shape, n, np.float32))))
        return out

    kernel = checks_of(shifted)
    for _ in range(3):
        np.testing.assert_array_equal(kernel(X, 2), X + 2)
        np.testing.assert_array_equal(kernel(X[:2], 2), X[:2] + 2)
        np.testing.assert_array_equal(kernel(X, 5), X + 5)
    for _ in range(2):
        np.testing.assert_array_equal(kernel(X[1:3], 2), X[1:3] + 2)
    assert kernel.checked < 11


def test_a_rebound_global_forces_a_new_trace_of_a_form_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def times(x, n):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.load(x) * (FACTOR * n))
        return out

    kernel = checks_of(times)
    for _ in range(2):
        np.testing.assert_array_equal(kernel(X, 3), X * 6)
    monkeypatch.setitem(globals(), "FACTOR", 5.0)
    np.testing.assert_array_equal(kernel(X, 3), X * 15)


@nki.dont_trace
def half_written(x: Any) -> Any:
    return nl.ndarray((2, *x.shape), dtype=x.dtype, buffer=nl.shared_hbm)


def writes_half(x):
    out = half_written(x)
    nl.store(out[0], nl.load(x))
    return out


@pytest.mark.parametrize("variable", ["TILEWRIGHT_SIMULATOR", "NKI_SIMULATOR"])
@pytest.mark.parametrize("make", [nki.jit, nki.FrameworkKernel])
def test_a_variable_makes_every_kernel_a_simulated_one(
    variable: str, make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "1")
    result = make(writes_half)(np.ones((4, 8), np.float32))
    assert (result[0] == 1).all() and np.isnan(result[1]).all()


@pytest.mark.parametrize(
    "variable", ["TILEWRIGHT_PLATFORM_TARGET", "NEURON_PLATFORM_TARGET_OVERRIDE"]
)
def test_a_variable_says_the_target_of_every_kernel(
    variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    generations: list[Any] = []

    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        generations.append(nisa.get_nc_version())
        nl.store(out, nl.load(x))
        return out

    for name, given in (("gen2", "trn2"), ("trn3", "trn1")):
        monkeypatch.setenv(variable, name)
        nki.jit(kernel, platform_target=given)(np.ones((4, 8), np.float32))
    monkeypatch.delenv(variable)
    nki.jit(kernel)(np.ones((4, 8), np.float32))
    versions = nisa.nc_version
    assert generations == [versions.gen2, versions.gen4, versions.gen3]
