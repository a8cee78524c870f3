"""Names of newer releases: registers and their loops, and what is refused by name."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

import tilewright.nki as nki
import tilewright.nki.dst_first as nisa
import tilewright.nki.language as nl
from tilewright.errors import TilewrightError
from tilewright.frontend.trace.tensors import INSTEAD
from tilewright.nki import _absent

X = np.arange(32, dtype=np.float32).reshape(4, 8)


@nki.dont_trace
def output(x: Any, dtype: Any = nl.float32) -> Any:
    return nl.ndarray(x.shape, dtype=dtype, buffer=nl.shared_hbm)


@pytest.mark.parametrize("count", [0, 1, 7])
def test_a_loop_goes_on_while_a_register_is_not_zero(count: int) -> None:
    @nki.jit
    def grown(x, n):
        out, tile, number = output(x), nl.load(x), nl.ndarray((1, 1), dtype=nl.int32)
        nisa.dma_copy(number, n)
        left = nisa.register_alloc()
        nisa.register_load(left, number)

        def step():
            nisa.tensor_scalar(tile, tile, nl.add, 1.0)
            nisa.register_move(left, left - 1)
            return left

        nl.while_loop(left, step)
        nl.store(out, tile)
        return out

    np.testing.assert_array_equal(grown(X, np.array([[count]], np.int32)), X + count)


def test_a_loop_goes_on_while_a_comparison_holds_and_gives_its_body_the_condition() -> None:
    @nki.jit
    def doubled(x):
        out, tile, count = output(x), nl.load(x), nisa.register_alloc(0)

        def step(condition):
            nisa.tensor_scalar(tile, tile, nl.multiply, 2.0)
            nisa.register_move(count, count + 1)
            return count < 3

        nl.while_loop(count < 3, step)
        nl.store(out, tile)
        return out

    np.testing.assert_array_equal(doubled(X), X * 8)


def test_registers_are_offsets_bounds_and_operands() -> None:
    @nki.jit
    def used(x):
        out, place = output(x), nisa.register_alloc(0)

        def copy(i):
            nl.store(out[nl.ds(place, 1)], nl.load(x[nl.ds(place, 1)]) * 3.0)
            nisa.register_move(place, place + 1)

        nl.fori_loop(0, 4, copy)
        total, tile = nisa.register_alloc(place + 1), nl.ndarray((1, 8), dtype=nl.float32)
        for i in nl.dynamic_range(place):
            nisa.register_move(total, total + i)
        number = nl.ndarray((1, 1), dtype=nl.int32)
        nisa.register_store(number, total)
        tile[...] = nl.add(nl.load(x[0:1]), number)
        nl.store(out[0:1], tile)
        return out

    want = X * 3
    want[0] = X[0] + 5 + 6
    np.testing.assert_array_equal(used(X), want)


def test_a_register_holds_its_number_when_it_is_read() -> None:
    @nki.jit
    def read(x):
        out, first = output(x, nl.int32), nisa.register_alloc(2)
        second = nisa.register_alloc(first)
        nisa.register_move(first, 9)
        tile = nl.ndarray(x.shape, dtype=nl.int32)
        nisa.register_store(tile[:, 0:1], first)
        nisa.register_store(tile[:, 1:2], second)
        nisa.register_store(tile[:, 2:3], first * 2 - second)
        nl.store(out, tile)
        return out

    assert read(np.zeros((1, 3), np.float32)).tolist() == [[9, 2, 16]]


MISUSES = {
    "of no register": lambda t: nisa.register_move(t, 1),
    "of a float": lambda t: nisa.register_alloc(1.5),
    "of a tile": lambda t: nisa.register_alloc(t),
    "of a large tile": lambda t: nisa.register_load(nisa.register_alloc(), t),
    "of a number": lambda t: nisa.register_load(nisa.register_alloc(), 3),
    "into a number": lambda t: nisa.register_store(3, nisa.register_alloc()),
    "into a large tile": lambda t: nisa.register_store(t, nisa.register_alloc()),
    "by a tile": lambda t: nl.while_loop(t, lambda: t),
    "by nothing": lambda t: nl.while_loop(nisa.register_alloc(1), lambda: None),
}


@pytest.mark.parametrize("misuse", MISUSES)
def test_a_misuse_is_refused_at_its_line(misuse: str) -> None:
    @nki.jit
    def bad(x):
        out, tile = output(x), nl.load(x)
        MISUSES[misuse](tile)
        nl.store(out, tile)
        return out

    with pytest.raises(TilewrightError) as caught:
        bad(X)
    assert caught.value.span is not None and caught.value.span.file == __file__


TABLES = {
    "tilewright.nki": _absent.PACKAGE,
    "tilewright.nki.language": _absent.LANGUAGE,
    "tilewright.nki.dst_first": _absent.INSTRUCTIONS,
}


@pytest.mark.parametrize(
    ("module", "name"), [(module, name) for module, names in TABLES.items() for name in names]
)
def test_a_name_without_a_documented_meaning_says_what_would_do(module: str, name: str) -> None:
    home = importlib.import_module(module)
    with pytest.raises(AttributeError) as caught:
        getattr(home, name)
    assert "documented nowhere" in str(caught.value)
    assert TABLES[module][name] in str(caught.value) and name not in home.__all__


def test_what_would_do_exists() -> None:
    spaces = {"nl": nl, "nisa": nisa, "nki": nki}
    texts = [text for names in TABLES.values() for text in names.values()]
    words = {word.strip(",;.") for text in texts for word in text.split()}
    named = [word.split(".") for word in words if word.split(".")[0] in spaces]
    assert len(named) > 10
    for space, *rest in named:
        found: Any = spaces[space]
        for part in rest:
            found = getattr(found, part)


def test_another_name_is_just_unknown() -> None:
    with pytest.raises(AttributeError, match=r"has no attribute 'nothing'$"):
        nl.nothing


def test_a_simulation_is_a_callable() -> None:
    class Scale(nl.NKIObject):
        def __init__(self, factor: float) -> None:
            self.factor = factor

    @nki.jit
    def scaled(x, scale):
        out, rows = output(x), nl.ds(nl.program_id() * 2, 2)
        nl.store(out[rows], nl.load(x[rows]) * scale.factor)
        return out

    np.testing.assert_array_equal(nki.simulate(scaled[2])(X, Scale(4.0)), X * 4)


@pytest.mark.parametrize("name", INSTEAD)
def test_a_method_without_documented_arguments_says_what_would_do(name: str) -> None:
    @nki.jit
    def kernel(x):
        assert not hasattr(x, "nothing")
        getattr(x, name)
        return x

    with pytest.raises(AttributeError, match=f"has no attribute '{name}': (use|index)"):
        kernel(X)
