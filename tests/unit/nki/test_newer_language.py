"""`tilewright.nki.newer`: functions of `nl` by position, under their newer names."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright.nki as nki
import tilewright.nki.dst_first as nisa
import tilewright.nki.language as older
import tilewright.nki.newer as nl
from tilewright.errors import TilewrightError

X = np.arange(1, 33, dtype=np.float32).reshape(4, 8)
F32 = older.float32

CASES: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "unary": (lambda t: nl.exp(t, F32), np.exp(X)),
    "binary": (lambda t: nl.add(t, 1.5, F32), X + 1.5),
    "comparison": (lambda t: nl.less(t, 5.0, F32), X < 5),
    "reduction": (lambda t: nl.max(t, 1, F32, True), X.max(1, keepdims=True)),
    "copy": (lambda t: nl.copy(x=t, dtype=F32), X),
    "zeros_like": (lambda t: nl.zeros_like(x=t, dtype=F32), X * 0),
    "full": (lambda t: nl.full((4, 8), 2.0, F32, older.sbuf, "two"), X * 0 + 2),
    "expand_dims": (lambda t: nl.expand_dims(x=t, axis=2), X[:, :, None]),
    "broadcast_to": (lambda t: nl.broadcast_to(t[:, 0:1], (4, 8)), X[:, :1] + 0 * X),
    "where": (lambda t: nl.where(t > 3.0, t, 0.0, F32), np.where(X > 3, X, 0)),
    "softmax": (lambda t: nl.softmax(t * 0.0, -1, F32), X * 0 + 1 / 8),
    "loops": (lambda t: sum((t[:, i : i + 1] for i in nl.affine_range(8)), 0.0), X.sum(1)[:, None]),
    "masks of before": (lambda t: nl.exp(t, mask=None), np.exp(X)),
    "an operation": (lambda t: _reduced(t), X.sum(1)[:, None]),
}


@nki.dont_trace
def _reduced(tile: Any) -> Any:
    total = nl.ndarray((4, 1), F32, older.sbuf, "total")
    nisa.tensor_reduce(total, nl.add, tile, 1)
    return total


@pytest.mark.parametrize("name", CASES)
def test_arguments_are_given_by_position_or_newer_name(name: str) -> None:
    compute, want = CASES[name]
    shape = np.shape(want)

    @nki.jit
    def kernel(x):
        out = nl.ndarray(shape, F32, older.shared_hbm)
        nl.store(out, compute(nl.load(x, F32)))
        return out

    np.testing.assert_allclose(kernel(X), np.asarray(want, np.float32), rtol=1e-5)


@pytest.mark.parametrize("name", nl.PARAMETERS)
def test_every_function_stands_for_one_of_the_language(name: str) -> None:
    new, old = getattr(nl, name), getattr(older, name)
    assert new.__doc__ == old.__doc__ and new.__name__ == name
    taken = inspect.signature(old.nki_func).parameters
    for word in nl.PARAMETERS[name].split():
        before = word.rpartition("=")[2].rstrip("?")
        assert before.endswith("!") or before in taken or before in ("buffer", "name")


@pytest.mark.parametrize(
    "call",
    [
        lambda x: nl.ndarray((4, 8), F32, address=(0, 64)),
        lambda x: nl.gather_flattened(nl.load(x), nl.load(x), axis=1),
        lambda x: nl.var(nl.load(x), 1, keepdims=True),
    ],
)
def test_what_no_document_explains_is_refused(call: Callable[[Any], Any]) -> None:
    @nki.jit(check_return_consistency=False)
    def kernel(x):
        call(x)
        return x

    with pytest.raises(TilewrightError, match="no document says what it means"):
        kernel(X)
