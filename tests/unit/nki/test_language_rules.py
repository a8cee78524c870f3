"""What functions of the language do at the edges of their documentation."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilewright.nki as nki
import tilewright.nki.language as nl
from tilewright.errors import TilewrightError
from tilewright.nki.trace import CompileOpts, TraceContext, nki_ctx_or_none

X = np.arange(32, dtype=np.float32).reshape(4, 8)
INTS = np.array([[-8, -1, 7, 1 << 30]], dtype=np.int32)
SHORTS = INTS.astype(np.int16)


def applied(body: Any, *arrays: np.ndarray[Any, Any], **options: Any) -> Any:
    @nki.jit(check_return_consistency=False, **options)
    def kernel(given):
        result = body(*[nl.load(each) for each in given])
        out = nl.ndarray(result.shape, dtype=result.dtype, buffer=nl.shared_hbm)
        nl.store(out, result)
        return out

    return kernel(arrays)


def refusal_of(body: Any, *arrays: np.ndarray[Any, Any]) -> TilewrightError:
    with pytest.raises(TilewrightError) as caught:
        applied(body, *arrays)
    return caught.value


def test_lambdas_of_one_line_that_use_the_same_names_are_told_apart() -> None:
    f, g = (lambda t: nl.subtract(t, 3.0)), (lambda t: nl.subtract(3.0, t))
    assert np.array_equal(applied(f, X), X - 3) and np.array_equal(applied(g, X), 3 - X)
    outer = lambda n: lambda t: t - n * 2.0  # noqa: E731
    assert np.array_equal(applied(outer(2), X), X - 4)
    twice = lambda t: (lambda t: t + t)((lambda t: t * t)(t))  # noqa: E731
    assert np.array_equal(applied(twice, X), 2 * X * X)


@pytest.mark.parametrize("x", [INTS, SHORTS, INTS.astype(np.uint32)])
def test_bits_are_shifted_to_the_right_without_their_sign(x: Any) -> None:
    unsigned = x.view(f"uint{8 * x.itemsize}")
    want = (unsigned >> 1).view(x.dtype)
    one = np.ones_like(x)
    assert np.array_equal(applied(nl.right_shift, x, one), want)
    assert np.array_equal(applied(lambda t, n: t >> n, x, one), want)
    assert np.array_equal(
        applied(lambda t: nki.isa.tensor_scalar(t, nl.right_shift, 1, dtype=x.dtype), x), want
    )


def test_a_shift_by_a_number_has_the_type_of_both() -> None:
    assert np.array_equal(
        applied(lambda t: nl.right_shift(t, 1), INTS), (INTS.view(np.uint32) >> 1).view(np.int32)
    )


def test_remainders_take_their_type_by_position() -> None:
    for function in (nl.mod, nl.fmod):
        got = applied(lambda t, f=function: f(t, 3.0, nl.bfloat16), X)
        assert got.dtype == ml_dtypes.bfloat16 and np.array_equal(got, X % 3)


def test_host_numbers_are_cast_to_numbers() -> None:
    assert type(nl.static_cast(1.5, nl.float16)) is np.float16
    assert applied(lambda t: t * nl.static_cast(2.0, nl.float32), X).dtype == np.float32
    assert nl.static_cast([1, 2], nl.bfloat16).dtype == ml_dtypes.bfloat16


def test_places_to_gather_from_are_integers() -> None:
    error = refusal_of(nl.gather_flattened, X, np.zeros((4, 3), dtype=np.float32))
    assert error.code == "err_bitvec_operand_must_be_integer" and "indices" in str(error)


def test_a_masked_mean_is_that_of_the_elements_that_count() -> None:
    def body(function: Any) -> Any:
        return lambda t: function(t, axis=1, mask=nl.arange(8)[None, :] < 5)

    np.testing.assert_allclose(applied(body(nl.mean), X)[:, 0], X[:, :5].mean(1), rtol=1e-6)
    np.testing.assert_allclose(applied(body(nl.var), X)[:, 0], X[:, :5].var(1), rtol=1e-6)


def test_operators_broadcast_free_dimensions_and_functions_all() -> None:
    assert np.array_equal(applied(lambda t: t + t[:, 0:1], X), X + X[:, 0:1])
    assert np.array_equal(applied(lambda t: nl.add(t, t[0:1]), X), X + X[0:1])

    def updated(t: Any) -> Any:
        t += t[0:1]
        return t

    for body in (lambda t: t + t[0:1], lambda t: t[0:1] * t, lambda t: t < t[0:1], updated):
        assert refusal_of(body, X).code == "err_num_partition_mismatch"


def test_a_dimension_is_inserted_behind_the_partitions() -> None:
    assert applied(lambda t: nl.expand_dims(t, 2), X).shape == (4, 8, 1)
    assert applied(lambda t: t.expand_dims(1), X).shape == (4, 1, 8)
    for axis in (0, -3, 4):
        error = refusal_of(lambda t, axis=axis: nl.expand_dims(t, axis), X)
        assert error.code == "err_leading_dimension_of_tensor_must_be_partition"


def test_a_context_made_by_hand_takes_operations_until_it_ends() -> None:
    ctx = TraceContext.new_ctx(CompileOpts())
    try:
        made = ctx.call(nl.zeros, (4, 8), nl.float32)
        assert TraceContext.is_nki_data(made) and ctx.call(lambda t: t + 1.0, made).shape == (4, 8)
        second = TraceContext.new_ctx(CompileOpts())
        assert nki_ctx_or_none() is second and not ctx.kernel_scope.is_alive
        second.finalize()
    finally:
        ctx.finalize()
    assert TraceContext.global_ctx is None
    assert np.array_equal(applied(lambda t: t + 1.0, X), X + 1)
