"""`nisa`: what each instruction takes, and what its registers and special values do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright.nki as nki
import tilewright.nki.dst_first as dst_first
import tilewright.nki.isa as nisa
import tilewright.nki.language as nl
from tilewright.errors import TilewrightError

RNG = np.random.default_rng(6)
X = RNG.standard_normal((16, 24)).astype(np.float32)
Y = RNG.standard_normal((16, 24)).astype(np.float32)
FLAGS = (X > 0).astype(np.uint8)
I32 = RNG.integers(-99, 99, (16, 24)).astype(np.int32)
WIDE = np.concatenate([X, Y])
INDEX = np.zeros((16, 257), np.uint16)
Body = Callable[..., Any]
command = nisa.reduce_cmd


def run(body: Body, *arrays: Any, shape: tuple[int, ...] = (16, 24), **options: Any) -> Any:
    """What `body(*tiles)` gives, as float32."""

    @nki.jit(**options)
    def kernel(*tensors):
        out = nl.ndarray(shape, dtype=nl.float32, buffer=nl.shared_hbm)
        nl.store(out, body(*[nl.load(each) for each in tensors]))
        return out

    return kernel(*arrays)


def close(got: Any, want: Any) -> None:
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


# ---------------------------------------------------------------------------- refusals


def in_psum(t: Any) -> Any:
    return nl.zeros_like(t, buffer=nl.psum)


def pair(op: Any, **options: Any) -> Body:
    return lambda t: nisa.tensor_tensor(t, t, op, **options)


def copied(t: Any, p: Any) -> None:
    nisa.tensor_copy_predicated(src=0.0, dst=t, predicate=p)


def gathered(**sizes: Any) -> Body:
    return lambda t, i: nisa.local_gather(t, i, **sizes)


def placed(position: Any, size: Any) -> Body:
    return lambda t: nisa.nc_matmul(t, t, tile_position=position, tile_size=size)


def shuffled(order: list[int]) -> Body:
    return lambda t: nisa.nc_stream_shuffle(src=t, dst=t, shuffle_mask=order)


REFUSED: dict[str, tuple[str, Body, tuple[Any, ...]]] = {
    "int32 add in PSUM": (
        "unsupported_memory",
        lambda t: nisa.tensor_tensor(in_psum(t), t, np.add),
        (I32,),
    ),
    "int32 subtract elsewhere": (
        "tensor_int32_add_multiply_supported_engine",
        pair(np.subtract, engine=nisa.vector_engine),
        (I32,),
    ),
    "product of PSUM": ("unsupported_memory", lambda t: nisa.nc_matmul(in_psum(t), t), (X,)),
    "a product elsewhere": (
        "unsupported_memory",
        lambda t: dst_first.nc_matmul(t[:, 0:16], t[:, 0:16], t[:, 0:16]),
        (X,),
    ),
    "a place alone": ("valid_size", placed((0, 0), ()), (X,)),
    "a place that is no pair": ("valid_size", placed((0,), (32,)), (X,)),
    "a place outside": ("valid_size", placed((96, 0), (64, 32)), (X,)),
    "a place that is too small": ("valid_size", placed((0, 0), (0, 32)), (X,)),
    "shifts do not reduce": (
        "instruction_unsupported_op",
        lambda t: nisa.tensor_reduce(np.left_shift, t, 1),
        (I32,),
    ),
    "indices of int32": ("instruction_supported_dtypes", gathered(), (X, INDEX.astype(np.int32))),
    "too many indices": ("valid_size", gathered(), (X, INDEX)),
    "more indices than there are": (
        "valid_size",
        gathered(num_valid_indices=33),
        (X, INDEX[:, :2]),
    ),
    "positions of int32": (
        "instruction_supported_dtypes",
        lambda t: nisa.nc_find_index8(data=t, vals=t[:, 0:8], dtype=nl.int32),
        (X,),
    ),
    "predicates of float32": ("instruction_supported_dtypes", copied, (X, Y)),
    "predicates of int32": ("instruction_supported_dtypes", copied, (X, I32)),
    "selecting by float32": (
        "instruction_supported_dtypes",
        lambda t, p: nisa.select_reduce(dst=t, predicate=p, on_true=t, on_false=0.0),
        (X, Y),
    ),
    "a range that adds": (
        "instruction_unsupported_op",
        lambda t: nisa.range_select(
            on_true_tile=t, comp_op0=np.less, comp_op1=np.less, bound0=t[:, 0:1],
            bound1=t[:, 0:1], reduce_cmd=command.reset_reduce, reduce_op=np.add,
        ),
        (X,),
    ),
    "an order of 31": ("valid_size", shuffled([0] * 31), (WIDE,)),
    "an order that leaves its quadrant": ("valid_size", shuffled([32] * 32), (WIDE,)),
    "half a quadrant": ("valid_size", shuffled([0] * 32), (X,)),
    "a command by its number": (
        "unexpected_type_of_operand",
        lambda t: nisa.activation(np.copy, t, reduce_op=np.add, reduce_cmd=3),
        (X,),
    ),
    "narrow probabilities of integers": (
        "instruction_supported_dtypes",
        lambda t, p: nisa.dropout(t, nl.copy(p, dtype=nl.bfloat16)),
        (I32, X[:, :1]),
    ),
    "segments of several partitions": (
        "valid_size",
        lambda t: nisa.sequence_bounds(segment_ids=t),
        (X,),
    ),
    "indices that are fractions": (
        "instruction_supported_dtypes",
        lambda t: nl.gather_flattened(t, t),
        (X,),
    ),
    "a mean over nothing": (
        "unexpected_type_of_operand",
        lambda t: nl.rms_norm(t, t, 1, 0),
        (X,),
    ),
    "an unknown type to compute in": (
        "unsupported_dtype_value",
        lambda t: nl.softmax(t, 1, compute_dtype="float33"),
        (X,),
    ),
    "a number of more bits": (
        "unexpected_type_of_operand",
        lambda t: nisa.tensor_scalar(nl.copy(t, dtype=nl.uint8), np.bitwise_and, 300),
        (I32,),
    ),
    "a fill of more bits": (
        "unexpected_type_of_operand",
        lambda t: nl.full((t.shape[0], 24), 300, nl.uint8),
        (X,),
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_what_an_instruction_does_not_take_is_refused(what: str) -> None:
    code, body, arrays = REFUSED[what]
    with pytest.raises(TilewrightError) as caught:
        run(body, *arrays)
    assert caught.value.code == f"err_{code}"


def test_only_later_cores_reduce_otherwise_than_by_sums() -> None:
    def body(t):
        return nisa.activation(np.copy, t, reduce_op=np.max, reduce_cmd=command.reset_reduce)

    run(body, X, platform_target="trn2")
    with pytest.raises(TilewrightError) as caught:
        run(body, X, platform_target="trn1")
    assert caught.value.code == "err_instruction_unsupported_op"


# ---------------------------------------------------------------------------- registers


@pytest.mark.parametrize(
    ("op", "meant"), [("add", np.sum), ("multiply", np.prod), ("maximum", np.max)]
)
def test_registers_go_on_from_what_they_were_set_to(op: str, meant: Any) -> None:
    def body(t, u):
        both = nl.ndarray((16, 3), nl.float32)
        one = nl.ndarray((16, 1), nl.float32)
        nisa.activation_reduce(np.copy, t, reduce_op=op, reduce_res=one)
        both[:, 0:1] = one
        nisa.activation(np.copy, u, reduce_op=op, reduce_cmd=command.reduce, reduce_res=one)
        both[:, 1:2] = one
        nisa.activation(np.copy, u, reduce_op=op, reduce_cmd=command.reset)
        nisa.activation(np.copy, u, reduce_op=op, reduce_cmd=command.reduce, reduce_res=one)
        both[:, 2:3] = one
        return both

    want = [meant(X, 1), meant(np.concatenate([X, Y], 1), 1), meant(Y, 1)]
    np.testing.assert_allclose(run(body, X, Y, shape=(16, 3)), np.stack(want, 1), rtol=1e-4)


def test_iterations_that_reset_the_registers_are_independent() -> None:
    @nki.jit
    def kernel(x):
        out = nl.ndarray((16, 3), dtype=nl.float32, buffer=nl.shared_hbm)
        for i in nl.affine_range(3):
            part = nl.load(x[:, nl.ds(i * 8, 8)])
            one = nl.ndarray((16, 1), nl.float32)
            nisa.activation_reduce(np.copy, part, reduce_op=np.add, reduce_res=one)
            nisa.activation(np.square, part, reduce_cmd=command.reduce, reduce_res=one)
            nl.store(out[:, nl.ds(i, 1)], one)
        return out

    parts = X.reshape(16, 3, 8)
    close(kernel(X), (parts + parts**2).sum(2))


def test_registers_are_carried_by_a_loop_that_uses_them() -> None:
    @nki.jit
    def kernel(x):
        out = nl.ndarray((16, 2), dtype=nl.float32, buffer=nl.shared_hbm)
        one = nl.ndarray((16, 1), nl.float32)
        whole = nl.load(x)
        nisa.activation_reduce(np.copy, whole, reduce_op=np.add, reduce_res=one)
        for i in nl.sequential_range(3):
            part = nl.load(x[:, nl.ds(i * 8, 8)])
            nisa.activation(np.copy, part, reduce_cmd=command.reduce, reduce_res=one)
            nl.store(out[:, 0:1], one)
            nisa.activation(np.copy, part, reduce_cmd=command.reset_reduce)
        nisa.activation(np.copy, whole, reduce_res=one)
        nl.store(out[:, 1:2], one)
        return out

    parts = X.reshape(16, 3, 8).sum(2)
    close(kernel(X), np.stack([parts[:, 1] + parts[:, 2], parts[:, 2]], 1))


def test_registers_of_a_loop_that_is_over_are_not_read() -> None:
    def body(t):
        one = nl.ndarray((16, 1), nl.float32)
        for _ in nl.affine_range(2):
            nisa.activation(np.copy, t, reduce_cmd=command.reset_reduce)
        nisa.activation(np.copy, t, reduce_cmd=command.reduce, reduce_res=one)
        return one

    with pytest.raises(TilewrightError, match="activation registers") as caught:
        run(body, X, shape=(16, 1))
    assert caught.value.code == "err_local_variable_used_out_of_scope"


@pytest.mark.parametrize("each", [command.idle, command.reduce])
def test_registers_that_nothing_has_set_are_not_read(each: Any) -> None:
    def body(t):
        one = nl.ndarray((16, 1), nl.float32)
        nisa.activation(np.copy, t, reduce_op=np.add, reduce_cmd=each, reduce_res=one)
        return one

    with pytest.raises(TilewrightError, match="no instruction before has set") as caught:
        run(body, X, shape=(16, 1))
    assert caught.value.code == "err_reduction_registers_not_set"


def test_registers_of_partitions_that_nothing_has_set_are_not_read() -> None:
    def body(t):
        one = nl.ndarray((16, 1), nl.float32)
        nisa.activation(np.copy, t[0:8], reduce_cmd=command.reset_reduce)
        nisa.activation(np.copy, t, reduce_cmd=command.reduce, reduce_res=one)
        return one

    with pytest.raises(TilewrightError, match="before has set more than 8") as caught:
        run(body, X, shape=(16, 1))
    assert caught.value.code == "err_reduction_registers_not_set"


def test_registers_of_other_partitions_keep_what_they_hold() -> None:
    def body(t):
        both = nl.ndarray((16, 2), nl.float32)
        nisa.activation(np.copy, t, reduce_cmd=command.reset_reduce)
        nisa.activation(np.square, t[0:8], reduce_cmd=command.reset_reduce)
        nisa.activation(np.copy, t, reduce_res=both[:, 0:1])
        nisa.activation(np.copy, t[0:4], reduce_cmd=command.reduce)
        nisa.activation(np.copy, t, reduce_res=both[:, 1:2])
        return both

    first = X.sum(1)
    first[:8] = (X[:8] ** 2).sum(1)
    second = first.copy()
    second[:4] += X[:4].sum(1)
    close(run(body, X, shape=(16, 2)), np.stack([first, second], 1))


def test_registers_that_only_an_untaken_arm_sets_are_zero() -> None:
    @nki.jit(predicated_if=True)
    def kernel(x):
        out = nl.ndarray((2, 16, 1), dtype=nl.float32, buffer=nl.shared_hbm)
        one = nl.ndarray((16, 1), nl.float32)
        if nl.program_id(0) == 1:
            nisa.activation(np.copy, nl.load(x), reduce_cmd=command.reset_reduce)
        nisa.activation(np.copy, nl.load(x), reduce_cmd=command.reduce, reduce_res=one)
        nl.store(out[nl.program_id(0)], one)
        return out

    total = X.sum(1, keepdims=True)
    close(kernel[2](X), np.stack([total, 2 * total]))


@pytest.mark.parametrize("instruction", ["activation", "select_reduce"])
def test_what_loads_nothing_into_registers_has_no_command_to(instruction: str) -> None:
    def body(t, p):
        if instruction == "activation":
            return nisa.activation(np.copy, t, reduce_op=np.add, reduce_cmd=command.load_reduce)
        return nisa.select_reduce(
            dst=t, predicate=p, on_true=t, on_false=0.0, reduce_cmd=command.load_reduce
        )

    with pytest.raises(TilewrightError, match="load_reduce") as caught:
        run(body, X, I32.astype(np.uint8))
    assert caught.value.code == "err_unexpected_type_of_operand"


def test_registers_set_by_an_arm_may_be_read_after_it() -> None:
    @nki.jit(predicated_if=True)
    def kernel(x):
        out = nl.ndarray((16, 1), dtype=nl.float32, buffer=nl.shared_hbm)
        one = nl.ndarray((16, 1), nl.float32)
        for i in nl.sequential_range(3):
            part = nl.load(x[:, nl.ds(i * 8, 8)])
            if i == 0:
                nisa.activation(np.copy, part, reduce_cmd=command.reset)
            nisa.activation(np.copy, part, reduce_cmd=command.reduce, reduce_res=one)
        nisa.activation(np.copy, nl.load(x), reduce_res=one)
        nl.store(out, one)
        return out

    close(kernel(X), X.sum(1, keepdims=True))


def test_a_selection_starts_over_or_goes_on() -> None:
    low, high = np.full((16, 1), 3, np.float32), np.full((16, 1), 9, np.float32)

    def body(t, u, low, high):
        found = nl.ndarray((16, 4), nl.float32)
        one = nl.ndarray((16, 1), nl.float32)
        commands = (command.reset_reduce, command.reduce, command.reset, command.reduce)
        for k, (tile, each) in enumerate(zip((t, u, t, u), commands)):
            nisa.range_select(
                on_true_tile=tile,
                comp_op0=np.greater_equal,
                comp_op1=np.less,
                bound0=low,
                bound1=high,
                reduce_cmd=each,
                reduce_res=one,
                on_false_value=-100.0,
            )
            found[:, k : k + 1] = one
        return found  # fmt: skip

    first, second = X[:, 3:9].max(1), Y[:, 3:9].max(1)
    want = [first, np.maximum(first, second), np.full(16, -np.inf), second]
    got = run(body, X, Y, low, high, shape=(16, 4), platform_target="trn2")
    assert np.array_equal(got, np.stack(want, 1))


# ---------------------------------------------------------------------------- values


def test_a_difference_takes_the_first_element_and_loses_the_others() -> None:
    def body(t):
        return nisa.tensor_reduce(np.subtract, t.reshape((16, 4, 6)), [1, 2])

    want = X[:, :1] - X[:, 1:].sum(1, keepdims=True)
    close(run(body, X, shape=(16, 1)), want)


def test_the_largest_begin_with_what_is_not_a_number() -> None:
    given = np.tile(np.float32([1, np.nan, np.inf, -np.inf, 3, 3, np.nan, 0, -0.0, 2]), (16, 1))
    got = run(lambda t: nisa.max8(src=t), given, shape=(16, 8))
    assert np.array_equal(got[0], np.float32([np.nan, np.nan, np.inf, 3, 3, 2, 1, 0]), True)


def test_a_transposing_product_moves_bits_and_follows_its_columns() -> None:
    given = X.copy()
    given[3, 4:9] = [np.inf, -np.inf, np.nan, 1e-41, -0.0]
    order = RNG.permutation(16)[:10]
    moving = np.eye(16, dtype=np.float32)[:, order]
    got = run(lambda t, m: nisa.nc_matmul(t, m, is_transpose=True), given, moving, shape=(24, 10))
    want = given.T[:, order]
    is_number = ~np.isnan(want)
    assert np.array_equal(got.view(np.uint32)[is_number], want.view(np.uint32)[is_number])
    assert np.isnan(got[~is_number]).all()


@pytest.mark.parametrize("multiply", [nl.matmul, nisa.nc_matmul])
@pytest.mark.parametrize("dtype", [nl.float32, nl.float16, nl.bfloat16])
def test_products_differ_from_exact_ones_as_their_page_says(multiply: Any, dtype: Any) -> None:
    a = RNG.standard_normal((128, 64)).astype(np.float32)
    b = RNG.standard_normal((128, 96)).astype(np.float32)
    keyword = {"transpose_x": True} if multiply is nl.matmul else {}

    def body(left, right):
        return multiply(nl.copy(left, dtype=dtype), nl.copy(right, dtype=dtype), **keyword)

    got = run(body, a, b, shape=(64, 96))
    storage = np.dtype(nl.static_cast(0, dtype).dtype)
    left, right = (each.astype(storage).astype(np.float64) for each in (a, b))
    bound = 128 * 2.0**-23 * (np.abs(left).T @ np.abs(right)) + 129 * 2.0**-126
    assert (np.abs(got - left.T @ right) <= bound).all()


# ---------------------------------------------------------------------------- memory


def test_the_simulator_shows_what_nothing_has_written() -> None:
    @nki.jit(mode="simulation")
    def kernel(x):
        out = nl.ndarray((16, 24), dtype=nl.float32, buffer=nl.shared_hbm)
        tile = nl.ndarray((16, 24), dtype=nl.float32)
        tile[0:8] = nl.load(x[0:8])
        nl.store(out[:, 0:20], tile[:, 0:20])
        return out

    got = kernel(X)
    assert np.array_equal(got[:8, :20], X[:8, :20])
    assert np.isnan(got[8:]).all() and np.isnan(got[:, 20:]).all()


def test_a_memory_is_known_by_its_name_and_by_its_tensors() -> None:
    @nki.jit
    def kernel(x):
        out = nl.ndarray((16, 16), dtype=nl.float32, buffer=nl.shared_hbm)
        tile = nl.load(x[:, 0:16])
        product = nl.matmul(tile, tile)
        assert nl.is_psum(product) and nl.is_psum(product.buffer) and nl.is_on_chip(product)
        assert nl.is_sbuf(tile.buffer) and not nl.is_psum(tile.buffer) and not nl.is_hbm(tile)
        assert nl.is_hbm(out.buffer) and nl.is_hbm(x) and not nl.is_on_chip(out.buffer)
        nl.store(out, product)
        return out

    close(kernel(X), X[:, :16] @ X[:, :16])


# ---------------------------------------------------------------------------- element types

BOOLS = X > 0
UNARY_OF_BOOLS = {"abs": BOOLS, "negative": BOOLS, "sign": BOOLS, "square": BOOLS, "invert": ~BOOLS}


@pytest.mark.parametrize("name", UNARY_OF_BOOLS)
def test_booleans_count_as_0_and_1(name: str) -> None:
    got = run(lambda t: getattr(nl, name)(t), BOOLS)
    assert np.array_equal(got, UNARY_OF_BOOLS[name].astype(np.float32))


def test_booleans_are_shifted_as_integers() -> None:
    assert np.array_equal(run(lambda t: nl.left_shift(t, t), BOOLS), BOOLS * 2)
    assert np.array_equal(run(lambda t: nl.right_shift(t, t), BOOLS), BOOLS * 0)


def test_a_complement_is_of_the_bits_that_are_there() -> None:
    small = I32.astype(np.int8)
    assert np.array_equal(run(lambda t: nl.invert(t, dtype=nl.float32), small), ~small)


@pytest.mark.parametrize("op", [nl.bitwise_or, nl.left_shift])
def test_bits_of_integers_that_promote_to_a_float_are_refused(op: Any) -> None:
    with pytest.raises(TilewrightError, match="int32 and uint32") as caught:
        run(op, I32, FLAGS.astype(np.uint32))
    assert caught.value.code == "err_bitvec_operand_must_be_integer"


@pytest.mark.parametrize("name", ["logical_and", "logical_or", "logical_xor"])
@pytest.mark.parametrize("number", [0.0, 2.0])
def test_truth_is_combined_with_that_of_a_number(name: str, number: float) -> None:
    got = run(lambda t: nisa.tensor_scalar(t, getattr(nl, name), number), np.floor(X))
    assert np.array_equal(got, getattr(np, name)(np.floor(X), number).astype(np.float32))


def test_a_scan_is_of_numbers() -> None:
    with pytest.raises(TilewrightError) as caught:
        run(lambda t: nisa.tensor_tensor_scan(t, t, 0, nl.left_shift, nl.add), I32)
    assert caught.value.code == "err_instruction_unsupported_op"
