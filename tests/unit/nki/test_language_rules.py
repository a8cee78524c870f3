"""What functions of the language do at the edges of their documentation."""

from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilewright.nki as nki
import tilewright.nki.isa as nisa
import tilewright.nki.language as nl
import tilewright.nki.typing as nt
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
    assert error.code == "err_instruction_supported_dtypes" and "indices" in str(error)


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


REFUSED_ENGINES = [
    lambda t: nisa.tensor_tensor(t, t, np.add, engine=nisa.scalar_engine),
    lambda t: nisa.tensor_tensor(t, t, np.power, engine=nisa.vector_engine),
    lambda t: nisa.tensor_scalar(t, np.add, 1.0, engine=nisa.tensor_engine),
    lambda t: nisa.tensor_copy(t, engine=nisa.tensor_engine),
    lambda t: nisa.memset((4, 8), 0, nl.float32, engine=nisa.scalar_engine),
    lambda t: nisa.nc_transpose(t, engine=nisa.gpsimd_engine),
]


@pytest.mark.parametrize("body", REFUSED_ENGINES)
def test_instructions_run_on_their_engines(body: Any) -> None:
    assert refusal_of(body, X).code == "err_instruction_engine_unsupported_op_comb"


def in_psum(t: Any) -> Any:
    return nisa.nc_matmul(t, t)


OUT_OF_REACH = {
    "data2": lambda t: nisa.tensor_tensor(in_psum(t), in_psum(t), np.add),
    "data1": lambda t: nisa.tensor_tensor(in_psum(t), nl.zeros((8, 8), nl.float32), np.power),
    "operand1": lambda t: nisa.scalar_tensor_tensor(
        data=in_psum(t), op0=np.add, operand0=1.0, op1=np.add, operand1=in_psum(t)
    ),
    "src": lambda t: nisa.tensor_copy(in_psum(t), engine=nisa.gpsimd_engine),
}


@pytest.mark.parametrize("operand", OUT_OF_REACH)
def test_instructions_read_the_memories_that_they_reach(operand: str) -> None:
    error = refusal_of(OUT_OF_REACH[operand], X)
    assert error.code == "err_unsupported_memory" and f"'{operand}'" in str(error)


MASKS = [
    lambda t: t > 0,
    lambda t: nl.arange(8)[None, :] < nt.scalar(nl.zeros((1, 1), nl.int32)),
]


@pytest.mark.parametrize("condition", MASKS)
def test_masks_are_affine_and_known_before_the_run(condition: Any) -> None:
    for use in (nl.copy, nl.exp):
        error = refusal_of(lambda t, use=use: use(t, mask=condition(t)), X)
        assert error.code == "err_unsupported_expression_in_mask"


def test_a_mask_of_a_remainder_of_a_loop_variable_is_not_affine() -> None:
    def body(t: Any) -> Any:
        for i in nl.affine_range(4):
            nl.copy(t, mask=(i % 2) < 1)
        return t

    assert refusal_of(body, X).code == "err_unsupported_expression_in_mask"


CONDITIONS: dict[str, Any] = {
    "neither": lambda i, j: ~((i < 2) | (j > 5)),
    "both of several": lambda i, j: ((i < 2) | (j < 3)) & ((i > 0) | (j > 6)),
    "one of several": lambda i, j: (i < 1) | (j > 6) | (i == j),
    "a union from the right": lambda i, j: (j > 1) & ((i < 2) | (j < 3)),
    "a union that excludes": lambda i, j: ((i == 2) | (j == 2)) & ~(i == j),
}


@pytest.mark.parametrize("name", CONDITIONS)
def test_conditions_combine_whatever_they_are_made_of(name: str) -> None:
    condition = CONDITIONS[name]

    @nki.jit(check_return_consistency=False)
    def kernel(x):
        out = nl.ndarray((2, *x.shape), dtype=x.dtype, buffer=nl.shared_hbm)
        n = nl.program_id(0)
        i, j = nl.mgrid[0:4, 0:8]
        nl.store(out[n, i, j], value=-1.0)
        nl.store(out[n, i, j], nl.load(x), mask=(n < 1) & condition(i, j))
        return out

    first, second = kernel[2](X)
    assert np.array_equal(first, np.where(condition(*np.mgrid[0:4, 0:8]), X, -1))
    assert np.all(second == -1)


def test_a_grid_of_indices_may_have_steps() -> None:
    def body(t: Any) -> Any:
        i, j = nl.mgrid[0:4, 1:8:3]
        return nl.copy(t[i, j])

    assert np.array_equal(applied(body, X), X[:, 1:8:3])


def test_arguments_that_cannot_be_shared_are_named() -> None:
    masked = np.ma.masked_array(X, X > 3)
    assert "masked array" in str(refusal_of(lambda t: t, masked))
    torch = pytest.importorskip("torch")
    halves = torch.ones(4, 8, dtype=torch.bfloat16)
    assert applied(lambda t: t + t, halves).tolist() == np.full((4, 8), 2.0).tolist()
    error = refusal_of(lambda t: t, torch.ones(4, 8, requires_grad=True))
    assert error.code == "err_unexpected_type_of_operand" and "grad" in str(error)


def test_a_tile_in_sbuf_has_a_limit_in_bytes_and_in_floats() -> None:
    limits = nl.tile_size
    assert limits.sbuf_fmax * 4 == limits.sbuf_fmax_bytes == limits.total_available_sbuf_size


def test_artifacts_go_to_an_empty_directory(tmp_path: Any) -> None:
    assert nki.baremetal(artifacts_dir=str(tmp_path))
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="empty artifacts_dir"):
        nki.baremetal(artifacts_dir=str(tmp_path))


MISFITS: dict[str, Any] = {
    "a value that is text": lambda t: nl.full((4, 8), "a", nl.float32),
    "no number as an integer": lambda t: nl.full((4, 8), float("nan"), nl.int32),
    "a number for an index": lambda t: nisa.iota(3, nl.int32),
    "a tile for an index": lambda t: nisa.iota(t, nl.int32),
    "a grid of a number": lambda t: nl.mgrid[3],
    "an engine's name": lambda t: nisa.nc_transpose(t, engine="tensor"),
    "a seed that is text": lambda t: nl.random_seed("a"),
}


@pytest.mark.parametrize("name", MISFITS)
def test_operands_of_the_wrong_kind_are_named(name: str) -> None:
    error = refusal_of(MISFITS[name], X)
    assert error.code == "err_unexpected_type_of_operand" and error.span is not None


def test_axes_that_are_not_there_and_shapes_of_one_number_are_refused() -> None:
    assert refusal_of(lambda t: nl.num_programs(5), X).code == "err_program_id_axis_out_of_bounds"
    error = refusal_of(lambda t: nl.zeros(4, nl.float32), X)
    assert error.code == "err_leading_dimension_of_tensor_must_be_partition"


def test_tensors_have_the_names_that_they_are_given() -> None:
    @nki.jit
    def kernel(x):
        result = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm, name="rows of x")
        total = nl.zeros(x.shape, dtype=x.dtype, name="sums")
        total[...] = nl.load(x)
        nl.store(result, total)
        return result

    text = kernel.as_python(X)
    assert "rows_of_x: pl.Out" in text and "sums: pl.Tile" in text and "total" not in text
    assert np.array_equal(kernel(X), X)


def test_numbers_are_printed_as_well(capsys: pytest.CaptureFixture[str]) -> None:
    def body(t: Any) -> Any:
        nl.device_print("number:", 3)
        return t

    applied(body, X)
    assert capsys.readouterr().out == "number: [[3.]]\n"


def test_indices_have_no_other_arithmetic() -> None:
    i = lambda: nl.arange(8)[None, :]  # noqa: E731
    for body in (lambda t: i() / 2, lambda t: i() ** 2, lambda t: i() & 1, lambda t: 2 << i()):
        assert refusal_of(body, X).code == "err_unsupported_args"
    for body in (lambda t: i() // 2.0, lambda t: i() % 1.5, lambda t: nl.program_id(0) % 0.5):
        error = refusal_of(body, X)
        assert error.code == "err_index_divisor_not_integer" and isinstance(error, ValueError)
    for body in (lambda t: t[0:1, 0:1] + i(), lambda t: i() + t):
        assert refusal_of(body, X).code == "err_tile_index_add_non_integer_scalar"
    assert refusal_of(lambda t: t[np.arange(4), :], X).code == "err_tensor_index_not_supported"


def test_a_dynamic_copy_reads_its_address_from_a_tile() -> None:
    where = np.array([[2]], dtype=np.int32)

    def blocks(t: Any) -> Any:
        return t.reshape((4, 4, 2))

    def read(t: Any, n: Any) -> Any:
        p, f = nl.arange(4)[:, None], nl.arange(2)[None, :]
        return nisa.tensor_copy_dynamic_src(blocks(t)[p, n[0, 0], f])

    def written(t: Any, n: Any) -> Any:
        p, f = nl.arange(4)[:, None], nl.arange(2)[None, :]
        out = nl.zeros((4, 4, 2), dtype=nl.float32)
        nisa.tensor_copy_dynamic_dst(dst=out[p, n[0, 0], f], src=t[:, 0:2])
        return out

    want = np.zeros((4, 4, 2), dtype=np.float32)
    want[:, 2] = X[:, :2]
    assert np.array_equal(applied(read, X, where), X[:, 4:6])
    assert np.array_equal(applied(written, X, where), want)
    plain = refusal_of(lambda t, n: nl.copy(blocks(t)[nl.arange(4)[:, None], n, 0]), X, where)
    assert plain.code == "err_copy_dynamic_indirect_indices_not_natively_supported"


@pytest.mark.parametrize(
    ("given", "wanted"), [((0, 8), (1, 8)), ((4, 8), (4, 1)), ((2, 8), (4, 8))]
)
def test_a_value_that_does_not_broadcast_to_its_destination_says_both_shapes(
    given: tuple[int, int], wanted: tuple[int, int]
) -> None:
    @nki.jit
    def kernel(x):
        out = nl.ndarray(wanted, dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.load(x)[0 : given[0]])
        return out

    shapes = f"{list(given)} cannot be broadcast to the shape {list(wanted)} of the destination"
    with pytest.raises(TilewrightError, match=re.escape(shapes)) as caught:
        kernel(np.zeros((4, 8), np.float32))
    assert caught.value.code == "err_store_dst_shape_smaller_than_other_shape"


def test_results_are_in_sbuf_and_products_in_psum() -> None:
    def body(t: Any) -> Any:
        product = in_psum(t)
        assert product.buffer == product[:, 0:4].buffer == "psum"
        assert product.buffer == nl.psum and nl.psum == "psum" and nl.psum != nl.sbuf
        assert product.buffer in {nl.psum, nl.sbuf} and product.buffer not in {nl.hbm: 0}
        made = (nl.copy(product), nisa.tensor_copy(product), nl.exp(product), product + 1.0)
        assert {each.buffer for each in made} == {"sbuf"}
        return nisa.tensor_tensor(made[0], made[1], np.add)

    np.testing.assert_allclose(applied(body, X), 2 * X.T @ X, rtol=1e-6)
