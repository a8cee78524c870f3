"""What `nki.jit` makes a kernel of, under which options, and what it refuses."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import tilewright.nki as nki
import tilewright.nki.language as nl
from tilewright.errors.nki import NKITypeError, NKIValueError

X = np.ones((4, 8), np.float32)


def counted(x):
    out = nl.ndarray((nl.num_programs(), *x.shape), dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out[nl.program_id(0) if nl.program_ndim() else 0], nl.load(x))
    return out


class Callable:
    def __call__(self, x: Any) -> Any:
        return x

    def method(self, x: Any) -> Any:
        return x

    @nki.jit
    @staticmethod
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.load(x) + 1.0)
        return out


def generator(x: Any) -> Any:
    yield x


async def coroutine(x: Any) -> Any:
    return x


NO_KERNELS: dict[str, tuple[Any, str]] = {
    "a number": (5, "not of 5"),
    "a builtin": (len, "not of <built-in function len>"),
    "a class": (Callable, "not of <class"),
    "an object": (Callable(), "not of <"),
    "a bound method": (Callable().method, "not of <bound method"),
    "a partial": (functools.partial(counted), "not of functools.partial"),
    "a ufunc": (np.sqrt, "not of <ufunc 'sqrt'>"),
    "a generator": (generator, "'generator' is a generator"),
    "a coroutine": (coroutine, "'coroutine' is a coroutine"),
}


@pytest.mark.parametrize("make", [nki.jit, nki.FrameworkKernel, nki.trace_kernel])
@pytest.mark.parametrize("name", NO_KERNELS)
def test_a_kernel_is_made_of_a_function(name: str, make: Any) -> None:
    given, message = NO_KERNELS[name]
    with pytest.raises(NKITypeError, match=message):
        make(given)


@pytest.mark.parametrize(
    ("option", "value", "choices"),
    [
        ("builtin_range", "unrolled", "'unroll', 'sequential'"),
        ("platform_target", "trn9", "'trn1', 'inf2', 'trn2', 'trn3'"),
        ("predicated_if", "maybe", "True, False"),
        ("enable_cache", "yes", "None, True, False"),
    ],
)
def test_an_option_has_a_value_of_its_choices(option: str, value: Any, choices: str) -> None:
    with pytest.raises(NKIValueError, match=f"option {option} of a kernel is '{value}'.*{choices}"):
        nki.jit(counted, **{option: value})


def test_a_grid_may_be_an_option() -> None:
    assert nki.jit(counted, grid=(3,))(X).shape == (3, 4, 8)
    assert nki.jit(grid=2)(counted)(X).shape == (2, 4, 8)
    assert nki.jit(counted)(X).shape == (1, 4, 8)
    assert nki.jit(nki.jit(counted)[4])(X).shape == (4, 4, 8)


def test_what_was_made_before_is_made_again() -> None:
    for made in (nki.baremetal(counted), nki.benchmark(counted)[2], nki.jit(counted)):
        assert (nki.jit(made, mode="simulation")(X) == 1).all()


def test_a_static_method_is_a_kernel() -> None:
    assert (Callable.kernel(X) == 2).all() and (Callable().kernel[2](X) == 2).all()
