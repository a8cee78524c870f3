"""Objects whose contents change in place, read around a kernel: a change forces a new trace."""

from __future__ import annotations

import array
import collections
import contextvars
import ctypes
import functools
import math
import os
import threading
import types
import weakref
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest

import tilewright.nki as nki
import tilewright.nki.language as nl
from tilewright.frontend.trace.guards import reachable
from tilewright.frontend.trace.readings import PythonSource, Readings

X = np.ones((4, 8), dtype=np.float32)
Case = tuple[Callable[[Any], Any], Callable[[], Any]]
"""How a kernel reads the number 2, and what makes it 5."""


class Held:
    factor = 2.0


class Table(list[float]):
    factor = 2.0


class Annotated(np.ndarray[Any, Any]):
    factor = 2.0


class Meta(type):
    factor = 2.0


class OfMeta(metaclass=Meta):
    pass


def item(held: Any, key: Any, new: Any) -> Case:
    return lambda t: t * float(held[key]), lambda: held.__setitem__(key, new)


def of_bytes() -> Case:
    return item(bytearray(b"\x02"), 0, 5)


def of_a_memoryview() -> Case:
    return item(memoryview(bytearray(b"\x02")), 0, 5)


def of_a_typed_array() -> Case:
    return item(array.array("f", [2.0]), 0, 5.0)


def of_c_memory() -> Case:
    return item((ctypes.c_float * 1)(2.0), 0, 5.0)


def of_an_ordered_dict() -> Case:
    return item(collections.OrderedDict(a=2.0), "a", 5.0)


def of_a_user_dict() -> Case:
    return item(collections.UserDict(a=2.0), "a", 5.0)


def of_a_user_list() -> Case:
    return item(collections.UserList([2.0]), 0, 5.0)


def of_a_chain_of_maps() -> Case:
    return item(collections.ChainMap({"a": 2.0}), "a", 5.0)


def of_an_array_of_objects() -> Case:
    held = np.empty(1, object)
    held[0] = [2.0]
    return lambda t: t * held[0][0], lambda: held[0].__setitem__(0, 5.0)


def of_a_large_array() -> Case:
    return item(np.full(100_000, 2.0), 99_999, 5.0)


def of_a_view_of_a_dict() -> Case:
    held = {"a": 2.0}
    values = held.values()
    return lambda t: t * next(iter(values)), lambda: held.update(a=5.0)


def of_a_read_only_mapping() -> Case:
    held = {"a": 2.0}
    proxy = types.MappingProxyType(held)
    return lambda t: t * proxy["a"], lambda: held.update(a=5.0)


def of_the_environment() -> Case:
    os.environ["TILEWRIGHT_TEST_FACTOR"] = "2"
    return (
        lambda t: t * float(os.environ["TILEWRIGHT_TEST_FACTOR"]),
        lambda: os.environ.update(TILEWRIGHT_TEST_FACTOR="5"),
    )


def of_a_number_of_a_library() -> Case:
    return lambda t: t * (2.0 if math.tau > 6 else 5.0), lambda: setattr(math, "tau", 5.0)


def of_an_attribute_of_a_list() -> Case:
    held = Table()
    return lambda t: t * held.factor, lambda: setattr(held, "factor", 5.0)


def of_an_attribute_of_an_array() -> Case:
    held = np.ones(1).view(Annotated)
    return lambda t: t * held.factor, lambda: setattr(held, "factor", 5.0)


def of_a_metaclass() -> Case:
    return lambda t: t * OfMeta.factor, lambda: setattr(Meta, "factor", 5.0)


def of_a_weak_reference() -> Case:
    held = Held()
    reference = weakref.ref(held)
    return lambda t: t * cast(Any, reference()).factor, lambda: setattr(held, "factor", 5.0)


def of_a_context_variable() -> Case:
    variable = contextvars.ContextVar[float]("variable")
    variable.set(2.0)
    return lambda t: t * variable.get(), lambda: variable.set(5.0)


def of_a_thread() -> Case:
    held = threading.local()
    held.factor = 2.0
    return lambda t: t * held.factor, lambda: setattr(held, "factor", 5.0)


def of_a_cached_function() -> Case:
    held = [2.0]

    @functools.lru_cache
    def factor() -> float:
        return held[0]

    def change() -> None:
        held[0] = 5.0
        factor.cache_clear()

    return lambda t: t * factor(), change


def of_a_dispatched_function() -> Case:
    factor = functools.singledispatch(lambda given: 2.0)
    return lambda t: t * factor(1), lambda: factor.register(int, lambda given: 5.0)


def of_a_tensor() -> Case:
    torch = pytest.importorskip("torch")
    return item(torch.tensor([2.0]), 0, 5.0)


def of_a_tensor_of_16_bits() -> Case:
    torch = pytest.importorskip("torch")
    return item(torch.tensor([2.0], dtype=torch.bfloat16), 0, 5.0)


def of_weights() -> Case:
    torch = pytest.importorskip("torch")
    layer = torch.nn.Linear(1, 1)
    layer.weight.data.fill_(2.0)
    return lambda t: t * float(layer.weight), lambda: layer.weight.data.fill_(5.0)


CASES = [each for name, each in globals().items() if name.startswith("of_")]


@pytest.fixture(autouse=True)
def _restored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(math, "tau", math.tau)
    monkeypatch.setattr(Meta, "factor", 2.0)
    monkeypatch.setenv("TILEWRIGHT_TEST_FACTOR", "2")


@pytest.mark.parametrize("case", CASES)
def test_a_change_of_contents_forces_a_new_trace(case: Callable[[], Case]) -> None:
    read, change = case()

    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, read(nl.load(x)))
        return out

    for _ in range(2):
        np.testing.assert_array_equal(kernel(X), X * 2)
    made = kernel.specialize(X)
    assert kernel.specialize(X) is made
    change()
    for _ in range(2):
        np.testing.assert_array_equal(kernel(X), X * 5)


class Hidden:
    """An array of a library that does not show its elements."""

    __module__ = "numpy.hidden"

    def __array__(self) -> Any:
        raise ValueError


def test_what_cannot_be_looked_at_forces_a_new_trace() -> None:
    hidden, seen = Hidden(), []

    @nki.jit
    def kernel(x):
        seen.append(hidden)
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.load(x))
        return out

    for _ in range(3):
        kernel(X)
    assert len(seen) == 3


def test_what_is_reached_twice_is_read_once() -> None:
    level: Any = []
    for _ in range(100):
        level = [level, level]
    readings = Readings(frozenset(), None)
    readings.add(("level",), level)
    assert len(readings.leaves) == 201


@pytest.mark.parametrize(("count", "followed"), [(20, 20), (150, 1)])
def test_of_a_large_library_only_what_runs_is_read(count: int, followed: int) -> None:
    text = "".join(f"def f{n}(x):\n    return f{n + 1}(x)\n" for n in range(count))
    space: dict[str, Any] = {"__name__": "large_library"}
    exec(compile(text, "site-packages/large_library.py", "exec"), space)
    sources, _ = reachable(PythonSource(space["f0"]))
    assert len(sources) == followed
