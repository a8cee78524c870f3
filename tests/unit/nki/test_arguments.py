"""What a traced kernel takes as arguments, compiled and simulated, and how it refuses the rest."""

from __future__ import annotations

import copy
import re
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pytest

import tilewright.nki as nki
import tilewright.nki.language as nl
from tilewright.errors import ArgumentCountMismatch, TilewrightError
from tilewright.errors.nki import NKIError

X = np.ones((4, 8), np.float32)


@nki.jit
def scaled_by(x, factor):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(x) * factor)
    return out


def simulated(*args: Any) -> Any:
    return nki.simulate_kernel(scaled_by, *args)


@pytest.mark.torch
@pytest.mark.parametrize("launch", [scaled_by, simulated])
def test_tensors_that_hide_their_memory_are_refused_by_name(launch: Any) -> None:
    import torch

    plain = torch.ones(4, 8)
    for hidden in (
        torch.ones(4, 8, requires_grad=True),
        torch.ones(4, 8).to_sparse(),
        torch.ones(4, 8, device="meta"),
        torch.ones(4, 8, dtype=torch.complex64).conj().imag,
    ):
        with pytest.raises(NKIError, match="operand 'x' is a"):
            launch(hidden, 2.0)
        with pytest.raises(NKIError, match="operand 'factor' is a"):
            launch(plain, hidden)


@pytest.mark.torch
@pytest.mark.parametrize("launch", [scaled_by, simulated])
def test_a_tensor_of_a_type_that_numpy_lacks_is_taken(launch: Any) -> None:
    import torch

    result = launch(torch.ones(4, 8, dtype=torch.bfloat16), 2.0)
    assert (np.asarray(result.float() if hasattr(result, "float") else result) == 2).all()


@pytest.mark.parametrize("launch", [scaled_by, simulated])
def test_masked_arrays_are_refused_by_the_simulator_too(launch: Any) -> None:
    with pytest.raises(NKIError, match="mask a kernel would not see"):
        launch(np.ma.masked_array(X, X > 0), 2.0)


@pytest.mark.parametrize("given", [memoryview(X), [1], {}, bytearray(4)])
def test_a_constant_without_a_hash_is_refused(given: Any) -> None:
    with pytest.raises(NKIError, match=r"parameter 'factor' is of type .* not hashable"):
        scaled_by(X, given)


@pytest.mark.parametrize("factor", [None, "a", (1, 2), 1j, len, np.array(2.0, np.float32)])
def test_an_operand_of_an_operator_that_is_no_number_is_named(factor: Any) -> None:
    with pytest.raises(NKIError, match="multiply: operand") as caught:
        scaled_by(X, factor)
    assert caught.value.span is not None


@pytest.mark.filterwarnings("error")
def test_a_factor_beyond_the_type_is_infinite_without_a_warning() -> None:
    assert np.isinf(simulated(X, 1e300)).all()
    assert np.isinf(scaled_by(X, 1e301)).all()


@pytest.mark.parametrize(
    ("args", "kwargs", "why"),
    [
        ((X,), {}, "scaled_by: missing a required argument: 'factor'"),
        ((X, 2, 3), {}, "scaled_by: too many positional arguments"),
        ((X,), {"by": 2}, "scaled_by: missing a required argument: 'factor'"),
        ((X, 2), {"x": X}, "scaled_by: multiple values for argument 'x'"),
    ],
)
@pytest.mark.parametrize("launch", [scaled_by, partial(nki.simulate_kernel, scaled_by)])
def test_a_call_that_does_not_fit_shows_the_signature(
    launch: Any, args: tuple[Any, ...], kwargs: dict[str, Any], why: str
) -> None:
    with pytest.raises(ArgumentCountMismatch, match=re.escape(why)) as caught:
        launch(*args, **kwargs)
    assert caught.value.hint == "It is scaled_by(x, factor)."


@pytest.mark.parametrize("grid", ["a", (2, None), 2.0, True, 0, (2, -1)])
def test_a_grid_that_is_none_is_refused_by_name(grid: Any) -> None:
    with pytest.raises(NKIError, match="launch grid") as caught:
        scaled_by[grid]
    assert caught.value.hint


class Layer(NamedTuple):
    weight: Any
    scale: float


A, B, C = (np.full((4, 8), n, np.float32) for n in (1.0, 2.0, 3.0))


def test_arrays_are_told_apart_by_the_tuples_that_hold_them() -> None:
    @nki.jit
    def kernel(left, right):
        out = nl.ndarray((4, 8), dtype=nl.float32, buffer=nl.shared_hbm)
        total = nl.load(left[0]) * float(len(left)) + nl.load(right[-1]) * float(10 * len(right))
        nl.store(out, total)
        return out

    for _ in range(2):
        assert (kernel((A, B), (C,)) == 2 + 30).all()
        assert (kernel((A,), (B, C)) == 1 + 60).all()


def test_arguments_are_taken_by_keywords_that_the_kernel_does_not_name() -> None:
    @nki.jit
    def kernel(x, *more, **named):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        total = nl.load(x)
        for each in more:
            total = total + nl.load(each)
        for key, each in named.items():
            total = total + (each if key == "plus" else nl.load(each) * 10.0)
        nl.store(out, total)
        return out

    for _ in range(2):
        assert (kernel(A) == 1).all() and (kernel(A, B) == 3).all()
        assert (kernel(A, y=B) == 21).all() and (kernel(A, z=B, plus=0.5) == 21.5).all()
        assert (kernel(A, B, y=C) == 33).all() and (kernel(A, plus=7.0) == 8).all()
    assert "y: pl.Tensor" in kernel.as_python(A, y=B)
    with pytest.raises(TilewrightError, match="'z' is of type list, which is not hashable"):
        kernel(A, z=[1])


def test_a_named_tuple_keeps_its_names() -> None:
    @nki.jit
    def kernel(x, layers):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        total = nl.load(x)
        for layer in layers:
            total = total + nl.load(layer.weight) * layer.scale
        nl.store(out, total)
        return out

    layers = (Layer(B, 2.0), Layer(C, 3.0))
    for _ in range(2):
        assert (kernel(A, layers) == 14).all()
    assert (nki.FrameworkKernel(kernel.function)(A, layers) == 14).all()


@nki.jit
def doubled(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(x) * 2.0)
    return out


def test_a_kernel_is_copied_and_pickled_like_a_function() -> None:
    assert copy.copy(doubled) is copy.deepcopy(doubled) is doubled
    held = copy.deepcopy({"kernel": doubled[2]})
    assert held["kernel"] is doubled[2]
    assert doubled.__reduce__() == "doubled"
    get, (kernel, grid) = doubled[3].__reduce__()
    assert (get(kernel, grid)(A) == 2).all() and kernel.function is doubled.function


@pytest.mark.parametrize("flag", [True, 1, np.bool_(True), np.int32(3) == 3])
def test_flags_of_numpy_and_numbers_are_true_or_false(flag: Any) -> None:
    @nki.jit
    def product(x, y, flag):
        out = nl.ndarray((16, 8), dtype=nl.float32, buffer=nl.shared_hbm)
        nl.store(out, nl.matmul(nl.load(x), nl.load(y), transpose_x=flag))
        return out

    x = np.arange(64, dtype=np.float32).reshape(4, 16)
    y = np.ones((4, 8), np.float32)
    np.testing.assert_array_equal(product(x, y, flag), x.T @ y)
    assert "a_trans=True" in product.as_python(x, y, flag)
