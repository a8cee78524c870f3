"""The probe kernels, interpreted and native: read back from text, equal to numpy, equal bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from probes import kernels
from tilewright import ir
from tilewright.errors import IndexOutOfBounds
from tilewright.frontend.text import parse_program
from tilewright.interp import Interpreter
from tilewright.passes import pipeline
from tilewright.testing.native import CompiledWords

Array = Any
WORDS = CompiledWords()
GENERATOR = np.random.default_rng(11)


def normal(*shape: int) -> Array:
    return GENERATOR.standard_normal(shape, dtype=np.float32)


def require_same(program: ir.Program, arrays: list[Array], native: Array) -> None:
    """Reads back from its text; interpreted loops give the native bits, interpreted tiles agree."""
    ir.assert_structural_equal(parse_program(program.as_python()), program)
    entry = list(program.functions)[-1]
    loops = pipeline.lower(program, entry)
    np.testing.assert_array_equal(interpreted(loops, entry, arrays), native)
    np.testing.assert_allclose(interpreted(program, entry, arrays), native, rtol=1e-5, atol=1e-4)


def interpreted(program: ir.Program, entry: str, arrays: list[Array]) -> Array:
    """What the interpreter writes to the last parameter, compiled words in place of references."""
    copies = [np.array(array) for array in arrays]
    Interpreter(program, words=WORDS).run(entry, copies)
    return copies[-1]


def traced(kernel: Any, *args: Array) -> Array:
    """Runs a traced kernel natively and checks its interpretation."""
    native = kernel(*args)
    require_same(kernel.lower(*args), [*map(np.array, args), np.zeros_like(native)], native)
    return native


def parsed(kernel: Any, *args: Array, out: Array) -> Array:
    """Runs a parsed kernel natively, its last argument being written, and its interpretation."""
    inputs = [*args, np.array(out)]
    kernel(*args, out)
    require_same(kernel.specialize(*inputs), inputs, out)
    return out


def test_psum_accumulates_inside_an_affine_range() -> None:
    a, b = normal(512, 128), normal(512, 256)
    np.testing.assert_allclose(traced(kernels.psum_accumulation, a, b), a.T @ b, atol=2e-4)


@pytest.mark.parametrize("limit", [1, 15, 39, 40])
def test_masked_elements_of_a_strided_store_keep_their_contents(limit: int) -> None:
    x = normal(16, 20)
    expected = np.full((16, 40), -7.0, np.float32)
    columns = [c for c in range(1, 40, 2) if c < limit]
    expected[:, columns] = x[:, : len(columns)]
    result = kernels.strided_masked_store(x, limit)
    np.testing.assert_array_equal(result[:, ::2], expected[:, ::2])
    np.testing.assert_array_equal(result[:, columns], expected[:, columns])


def test_a_strided_store_stops_at_a_ragged_tail() -> None:
    x = normal(16, 20)
    expected = np.full((16, 40), -7.0, np.float32)
    expected[:, 1:15:2] = x[:, :7]
    np.testing.assert_array_equal(traced(kernels.strided_store_under_mask, x), expected)


def test_a_helper_writes_through_a_view_of_a_view() -> None:
    x = normal(8, 8)
    expected = x.copy()
    expected[0:8, 2:8][2:6, :][:, 1:5] = x[0:4, 0:4]
    np.testing.assert_array_equal(traced(kernels.view_of_a_view, x), expected)


def test_rows_are_gathered_through_a_block_table() -> None:
    pages = normal(64, 32)
    table = np.array([3, 0, 63, 7, 7, 1, 40, 12], np.int32)
    out = parsed(kernels.paged_rows, pages, table, out=np.zeros((8, 32), np.float32))
    np.testing.assert_array_equal(out, pages[table])


@pytest.mark.parametrize("bad", [64, -1, 2**30])
def test_an_index_outside_the_pages_is_a_named_error(bad: int) -> None:
    table = np.array([3, 0, bad, 7, 7, 1, 40, 12], np.int32)
    with pytest.raises(IndexOutOfBounds) as caught:
        kernels.paged_rows(normal(64, 32), table, np.zeros((8, 32), np.float32))
    assert caught.value.span is not None
    assert caught.value.span.file.endswith("kernels.py")


def test_a_prefix_sum_runs_along_rows() -> None:
    x = normal(16, 50)
    result = traced(kernels.prefix_sum, x)
    np.testing.assert_allclose(result, np.cumsum(x, axis=1, dtype=np.float32), atol=1e-4)


def test_argmax_takes_the_first_of_equal_elements() -> None:
    x = GENERATOR.integers(0, 4, (16, 48)).astype(np.float32)
    out = parsed(kernels.first_of_equals, x, out=np.zeros((16, 1), np.int32))
    np.testing.assert_array_equal(out[:, 0], np.argmax(x, axis=1))


def test_a_carry_meets_a_branch_without_yields() -> None:
    x = normal(64, 32)
    out = parsed(kernels.carry_and_branch, x, out=np.zeros((8, 32), np.float32))
    parts = x.reshape(8, 8, 32) * np.where(np.arange(8) >= 4, 2, 1)[:, None, None]
    np.testing.assert_allclose(out, parts.sum(axis=0), atol=1e-5)


def test_one_artifact_serves_three_extents() -> None:
    compiled = kernels.scaled_rows.compile()
    for rows in (1, 17, 300):
        x = normal(rows, 48)
        out = parsed(kernels.scaled_rows, x, out=np.zeros_like(x))
        expected = x / np.abs(x).sum(axis=1, keepdims=True)
        np.testing.assert_allclose(out, expected, rtol=2e-6)
    assert kernels.scaled_rows.compile() is compiled


def test_an_argument_is_updated_in_place() -> None:
    x, y = normal(32, 64), normal(32, 64)
    expected = np.exp(-x) + y
    kernels.in_place(x, y)
    np.testing.assert_allclose(x, expected, rtol=1e-6, atol=1e-6)


REFUSALS: list[tuple[str, Callable[[], Any]]] = [
    ("None", lambda: kernels.in_place(None, normal(32, 64))),
    ("list", lambda: kernels.in_place([1.0], normal(32, 64))),
    ("count", lambda: kernels.in_place(normal(32, 64))),
    ("dtype", lambda: kernels.in_place(normal(32, 64).astype(np.float64), normal(32, 64))),
    ("rank", lambda: kernels.in_place(normal(32 * 64), normal(32, 64))),
    ("shape", lambda: kernels.in_place(normal(32, 65), normal(32, 64))),
    ("order", lambda: kernels.in_place(normal(32, 64).astype(">f4"), normal(32, 64))),
]


@pytest.mark.parametrize(("what", "call"), REFUSALS, ids=[what for what, _ in REFUSALS])
def test_bad_arguments_are_refused_by_name(what: str, call: Callable[[], Any]) -> None:
    del what
    with pytest.raises((TypeError, ValueError)) as caught:
        call()
    assert type(caught.value).__module__.startswith("tilewright"), repr(caught.value)


def test_a_read_only_output_is_refused_and_untouched() -> None:
    x = normal(32, 64)
    before = x.copy()
    x.setflags(write=False)
    with pytest.raises((TypeError, ValueError), match="x"):
        kernels.in_place(x, normal(32, 64))
    np.testing.assert_array_equal(x, before)
