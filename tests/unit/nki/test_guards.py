"""What a kernel read around it, however it came to it: a change forces a new trace."""

from __future__ import annotations

import collections
import functools
import types
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import tilewright.language as pl
import tilewright.nki as nki
import tilewright.nki.language as nl
from tilewright.nki import dont_trace

X = np.ones((4, 8), dtype=np.float32)


def settings_with(factor: float = 2.0) -> Any:
    class Settings:
        FACTOR = factor

    return Settings


class Slotted:
    __slots__ = ("factor",)

    def __init__(self) -> None:
        self.factor = 2.0


class Computed:
    def __init__(self) -> None:
        self._factor = 2.0

    @property
    def factor(self) -> float:
        return self._factor

    def get(self) -> float:
        return self._factor


@dataclass
class Config:
    factor: float = 2.0
    table: list[float] = field(default_factory=lambda: [2.0])


class Scaling:
    def __init__(self, factor: float) -> None:
        self.factor = factor

    def __call__(self, t: Any) -> Any:
        return t * self.factor

    @nki.jit
    def kernel(self, x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.load(x) * self.factor)
        return out

    @nki.jit
    def twice(self, x):
        return self.kernel(x)


FACTOR = 2.0
INNER = 2.0


def innermost() -> float:
    return INNER


@dont_trace
def host_factor() -> float:
    return innermost()


def by_default(t: Any, factors: Any = (2.0,), *, factor: float = 2.0) -> Any:
    return t * factors[0] * factor * 0.5


def with_attribute(t: Any) -> Any:
    return t * with_attribute.factor


def twofold(t: Any) -> Any:
    return t * 2.0


def fivefold(t: Any) -> Any:
    return t * 5.0


def set_global(name: str) -> Callable[[], None]:
    return lambda: globals().update({name: 5.0})


def of_class() -> Any:
    cls = settings_with()
    return lambda t: t * cls.FACTOR, lambda: setattr(cls, "FACTOR", 5.0)


def of_a_class_through_an_instance() -> Any:
    cls = settings_with()
    instance = cls()
    return lambda t: t * instance.FACTOR, lambda: setattr(cls, "FACTOR", 5.0)


def of_a_base_class() -> Any:
    cls = settings_with()
    derived = type("Derived", (cls,), {})
    return lambda t: t * derived.FACTOR, lambda: setattr(cls, "FACTOR", 5.0)


def of_slots() -> Any:
    held = Slotted()
    return lambda t: t * held.factor, lambda: setattr(held, "factor", 5.0)


def of_a_property() -> Any:
    held = Computed()
    return lambda t: t * held.factor, lambda: setattr(held, "_factor", 5.0)


def of_a_method() -> Any:
    held = Computed()
    return lambda t: t * held.get(), lambda: setattr(held, "_factor", 5.0)


def of_a_method_that_is_replaced() -> Any:
    cls: Any = type("Local", (Computed,), {"get": lambda self: 2.0})
    held = cls()
    return lambda t: t * held.get(), lambda: setattr(cls, "get", lambda self: 5.0)


def of_host_code() -> Any:
    return lambda t: t * host_factor(), set_global("INNER")


def of_defaults() -> Any:
    factors = [2.0]
    helper = types.FunctionType(by_default.__code__, globals(), "helper", (factors,))
    helper.__kwdefaults__ = {"factor": 2.0}
    return lambda t: helper(t), lambda: factors.__setitem__(0, 5.0)


def of_replaced_defaults() -> Any:
    helper = types.FunctionType(by_default.__code__, globals(), "helper", ((2.0,),))
    helper.__kwdefaults__ = {"factor": 2.0}
    return lambda t: helper(t), lambda: setattr(helper, "__defaults__", ((5.0,),))


def of_keyword_defaults() -> Any:
    helper = types.FunctionType(by_default.__code__, globals(), "helper", ((2.0,),))
    helper.__kwdefaults__ = {"factor": 2.0}
    return lambda t: helper(t), lambda: helper.__kwdefaults__.update(factor=5.0)


def of_replaced_code() -> Any:
    helper = types.FunctionType(twofold.__code__, globals(), "helper")
    return lambda t: helper(t), lambda: setattr(helper, "__code__", fivefold.__code__)


def of_a_functions_attribute() -> Any:
    return lambda t: with_attribute(t), lambda: setattr(with_attribute, "factor", 5.0)


def of_deep_attributes() -> Any:
    names = types.SimpleNamespace
    inner = names(factor=2.0)
    module: Any = types.ModuleType("user_module")
    module.a = names(b=names(c=names(d=names(e=inner))))
    return lambda t: t * module.a.b.c.d.e.factor, lambda: setattr(inner, "factor", 5.0)


def of_deep_containers() -> Any:
    inner = [2.0]
    table = {"a": {"b": ({"c": {"d": inner}},)}}
    return lambda t: t * table["a"]["b"][0]["c"]["d"][0], lambda: inner.__setitem__(0, 5.0)


def of_a_deque() -> Any:
    held = collections.deque([2.0])
    return lambda t: t * held[0], lambda: held.__setitem__(0, 5.0)


def of_a_partial() -> Any:
    held = functools.partial(lambda t, by: t * by, by=2.0)
    return lambda t: held(t), lambda: held.keywords.update(by=5.0)


def of_a_dataclass() -> Any:
    held = Config()
    return lambda t: t * held.table[0], lambda: held.table.__setitem__(0, 5.0)


def by_reflection() -> Any:
    held, name = types.SimpleNamespace(factor=2.0), "fac" + "tor"
    return lambda t: t * getattr(held, name), lambda: setattr(held, "factor", 5.0)


def by_evaluation() -> Any:
    return lambda t: t * globals()["FACTOR"], set_global("FACTOR")


def of_a_callable_object() -> Any:
    held = {"scale": Scaling(2.0)}
    return lambda t: held["scale"](t), lambda: setattr(held["scale"], "factor", 5.0)


def of_an_inline_helper_of_programs() -> Any:
    cls = settings_with()

    @pl.inline
    def inner(t):
        return pl.mul(t, cls.FACTOR)

    @pl.inline
    def outer(t):
        return inner(t)

    return lambda t: outer(t), lambda: setattr(cls, "FACTOR", 5.0)


CASES = [
    of_class,
    of_a_class_through_an_instance,
    of_a_base_class,
    of_slots,
    of_a_property,
    of_a_method,
    of_a_method_that_is_replaced,
    of_host_code,
    of_defaults,
    of_replaced_defaults,
    of_keyword_defaults,
    of_replaced_code,
    of_a_functions_attribute,
    of_deep_attributes,
    of_deep_containers,
    of_a_deque,
    of_a_partial,
    of_a_dataclass,
    by_reflection,
    by_evaluation,
    of_a_callable_object,
    of_an_inline_helper_of_programs,
]


def kernel_around(helper: Any) -> Any:
    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, helper(nl.load(x)))
        return out

    return kernel


@pytest.fixture(autouse=True)
def _restored_globals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(with_attribute, "factor", 2.0, raising=False)
    for name in ("FACTOR", "INNER"):
        monkeypatch.setitem(globals(), name, 2.0)


@pytest.mark.parametrize("case", CASES)
def test_a_change_of_what_was_read_forces_a_new_trace(case: Callable[[], Any]) -> None:
    helper, change = case()
    kernel = kernel_around(helper)
    for _ in range(2):
        np.testing.assert_array_equal(kernel(X), X * 2)
    made = kernel.specialize(X)
    assert kernel.specialize(X) is made
    change()
    np.testing.assert_array_equal(kernel(X), X * 5)
    assert kernel.specialize(X) is not made


def test_functions_of_the_body_read_what_the_body_mentions() -> None:
    settings = Config()

    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        total = nl.zeros(x.shape, dtype=x.dtype)
        for step in nl.static_range(3):

            def scaled(t, by=step):
                return t * settings.factor * float(by)

            total[...] = nl.add(total, scaled(nl.load(x)))
        nl.store(out, total)
        return out

    made = kernel.specialize(X)
    np.testing.assert_array_equal(kernel(X), X * 6)
    assert kernel.specialize(X) is made
    assert "scaled" not in {source.key.__name__ for source in made.guard.sources}
    settings.factor = 5.0
    np.testing.assert_array_equal(kernel(X), X * 15)


def test_what_the_trace_itself_changed_is_no_input() -> None:
    log: list[str] = []
    counts: dict[str, int] = {}

    @dont_trace
    def note(word: str) -> None:
        log.append(word)
        counts[word] = counts.get(word, 0) + 1

    def body(t: Any) -> Any:
        note("body")
        return t * 2.0

    kernel = kernel_around(body)
    made = kernel.specialize(X)
    assert log == ["body"]
    log.clear()
    counts.clear()
    assert kernel.specialize(X) is made and not log


def test_a_kernel_of_a_class_is_a_method() -> None:
    scaling = Scaling(2.0)
    np.testing.assert_array_equal(scaling.kernel(X), X * 2)
    np.testing.assert_array_equal(scaling.kernel[3](X), X * 2)
    np.testing.assert_array_equal(Scaling(3.0).kernel(X), X * 3)
    np.testing.assert_array_equal(Scaling.kernel(scaling, X), X * 2)
    np.testing.assert_array_equal(scaling.twice(X), X * 2)
    assert "mul" in scaling.kernel.as_python(X) and scaling.kernel.lower(X).functions
    scaling.factor = 5.0
    np.testing.assert_array_equal(scaling.kernel(X), X * 5)


def test_a_kernel_says_its_name_and_grid() -> None:
    assert repr(Scaling.kernel) == "<kernel Scaling.kernel>"
    assert repr(Scaling.kernel[2, nl.nc(2) * 3]) == "<kernel Scaling.kernel[2, 6]>"
    assert repr(Scaling(1.0).kernel).startswith("<<kernel Scaling.kernel> of <")
