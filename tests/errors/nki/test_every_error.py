"""Every named error of the traced style: a kernel that is refused with exactly it."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright.nki as nki
import tilewright.nki.collectives as collectives
import tilewright.nki.compiler as ncc
import tilewright.nki.isa as nisa
import tilewright.nki.language as nl
import tilewright.nki.typing as nt
from tilewright.errors import TilewrightError
from tilewright.errors.nki import REFERENCE
from tilewright.errors.nki_reference import PAGES, reference_text

X = np.arange(32, dtype=np.float32).reshape(4, 8)
ROWS = np.zeros((2, 1), np.int32)
BAD: dict[str, Callable[[], Any]] = {}
Body = Callable[..., Any]


def run(body: Body, *arrays: Any, grid: Any = (), **options: Any) -> Any:
    """Traces and runs a kernel whose body gets the tensors and its output."""

    @nki.jit(**options)
    def kernel(*tensors):
        out = nl.ndarray((4, 8), dtype=nl.float32, buffer=nl.shared_hbm)
        result = body(out, *tensors)
        nl.store(out, 0.0)
        return out if result is None else result

    given = arrays or (X,)
    return kernel[grid](*given) if grid else kernel(*given)


def bad(name: str, *arrays: Any, grid: Any = (), **options: Any) -> Callable[[Body], Body]:
    """Registers the decorated body as one that is refused with `err_<name>`."""

    def register(body: Body) -> Body:
        BAD[f"err_{name}"] = lambda: run(body, *arrays, grid=grid, **options)
        return body

    return register


def tile(rows: int, columns: int, dtype: Any = nl.float32, buffer: Any = nl.sbuf) -> Any:
    return nl.zeros((rows, columns), dtype=dtype, buffer=buffer)


tile.__nki_dont_trace__ = True  # type: ignore[attr-defined]


# ---------------------------------------------------------------------------- control


@bad("dynamic_control_flow_not_supported")
def _(out, x):
    if nl.load(x):
        pass


@bad("control_flow_condition_depending_on_arange")
def _(out, x):
    if nl.arange(8)[None, :] > 4:
        pass


@bad("condition_should_be_bool")
def _(out, x):
    if nl.program_id(0):
        pass


@bad("while_loop_requires_unconditional_entry")
def _(out, x):
    cond = nt.scalar(nl.greater(tile(1, 1), 0.0))
    while cond:
        cond = nt.scalar(nl.greater(tile(1, 1), 0.0))


@bad("while_loop_condition")
def _(out, x):
    nl.while_loop(tile(1, 1), lambda register: register)


@bad("logic_or_not_supported")
def _(out, x):
    i, j = nl.mgrid[0:4, 0:8]
    nl.store(out[i, j], nl.load(x), mask=(j < 3) or (j > 7))


@bad("ambiguous_tensor_truth_value")
def _(out, x):
    return not (nl.load(x) > 0)


BAD["err_nki_api_outside_of_nki_kernel"] = lambda: nl.zeros((4, 8), dtype=nl.float32)


@bad("local_variable_used_out_of_scope")
def _(out, x):
    for _ in nl.affine_range(4):
        t = nl.load(x)
    nl.store(out, t)


@bad("shared_hbm_must_in_kernel_level")
def _(out, x):
    for _ in nl.affine_range(4):
        nl.ndarray((4, 8), dtype=nl.float32, buffer=nl.shared_hbm)


@bad("cannot_update_immutable_parameter")
def _(out, x):
    nl.store(x, tile(4, 8))


@nki.jit
def mutable_and_not_returned(x: nt.mutable_tensor):
    out = nl.ndarray((4, 8), dtype=nl.float32, buffer=nl.shared_hbm)
    nl.store(x, tile(4, 8))
    nl.store(out, tile(4, 8))
    return out


BAD["err_mutable_parameter_not_returned"] = lambda: mutable_and_not_returned(X.copy())


@nki.jit
def unwritten(x):
    return nl.ndarray((4, 8), dtype=nl.float32, buffer=nl.shared_hbm)


BAD["err_tensor_output_not_written_to"] = lambda: unwritten(X)


@bad("unexpected_output_dependencies")
def _(out, x):
    a = nl.ndarray((4, 8), dtype=nl.float32, buffer=nl.sbuf)
    for _ in nl.affine_range(4):
        a[...] = 0.0


@nki.jit
def inner(x):
    return nl.load(x)


@bad("nested_kernel_with_spmd_grid")
def _(out, x):
    inner[4, 4](x)


@bad("program_id_axis_out_of_bounds", grid=(2,))
def _(out, x):
    nl.program_id(3)


@nki.jit
def with_list(x, items):
    return inner(x)


BAD["err_nki_param_not_hashable"] = lambda: with_list(X, [1, 2])


@bad("multi_cores_spmd_not_supported", grid=(nl.nc(2),), platform_target="trn1")
def _(out, x): ...


@bad("replica_group_not_supported")
def _(out, x):
    collectives.all_reduce([x], [out], ((0, 1),), nl.add)


@bad("metadata_layout_unknown")
def _(out, x):
    collectives.all_gather_v([x], [out], ((0,),), x)


@bad("allocation_out_of_range")
def _(out, x):
    nl.ndarray((4, 8), dtype=nl.float32, buffer=ncc.psum.mod_alloc(base_bank=8))


@bad("start_partition_exceed_arch_limit")
def _(out, x):
    nl.exp(tile(128, 8)[16:48])


@bad("mixed_allocation")
def _(out, x):
    nl.ndarray((4, 8), dtype=nl.float32, buffer=ncc.sbuf.mod_alloc(base_addr=0))
    nl.ndarray((4, 8), dtype=nl.float32, buffer=nl.sbuf)


@bad("several_multi_buffer_directives")
def _(out, x):
    for _ in nl.affine_range(2, directives=[ncc.multi_buffer(2), ncc.multi_buffer(4)]):
        pass


@bad("allocation_overlap", check_allocation=True)
def _(out, x):
    place = ncc.sbuf.mod_alloc(base_addr=0)
    a = nl.ndarray((4, 8), dtype=nl.float32, buffer=place)
    b = nl.ndarray((4, 4), dtype=nl.float32, buffer=ncc.sbuf.alloc(lambda *_: (2, 16)))
    a[...] = nl.load(x)
    b[...] = nl.load(x[:, 0:4])
    nl.store(out, a)


@bad("expected_constant_value")
def _(out, x):
    nl.zeros((4, nl.program_id(0)), dtype=nl.float32)


@bad("device_loop_cannot_be_left")
def _(out, x):
    for _ in nl.affine_range(4):
        break


@bad("returning_value_from_top_level")
def _(out, x):
    return 3


@bad("loop_reduce_indices")
def _(out, x):
    nl.loop_reduce(nl.load(x), op=np.add, loop_indices=[0])


@bad("all_reduce_of_state", grid=(2,))
def _(out, x):
    acc = tile(4, 8)
    for _ in nl.sequential_range(2):
        acc[...] = acc + 1.0
        nl.all_reduce(acc, op=np.add, program_axes=[0])


# ---------------------------------------------------------------------------- tensors


@bad("1d_arange_not_supported")
def _(out, x):
    nl.load(x[nl.arange(4), 0])


@bad("arange_subscript")
def _(out, x):
    nl.arange(8)[2:4, None]


@bad("annotation_shape_mismatch")
def _(out, x):
    t: nt.tensor[4, 16] = nl.load(x)
    del t


@bad("cannot_assign_to_index")
def _(out, x):
    i = nl.mgrid[0:4, 0:8]
    i.p[0, 5] = 1


@bad("failed_to_infer_tile_from_local_tensor")
def _(out, x):
    nl.exp(nl.zeros((4, nl.par_dim(4), 8), dtype=nl.float32))


@bad("hbm_tensor_with_init_value_not_supported")
def _(out, x):
    nl.full((4, 8), 0.0, dtype=nl.float32, buffer=nl.shared_hbm)


@bad("tensor_creation_on_scratchpad_with_init_value_not_supported")
def _(out, x):
    nl.full((4, 8), 0.0, dtype=nl.float32, buffer=ncc.sbuf.mod_alloc(base_addr=0))


@bad("indices_shape_mismatch")
def _(out, x):
    nl.load(x[nl.arange(4)[:, None], nl.arange(3)[:, None]])


@bad("tensor_index_not_supported")
def _(out, x):
    nl.load(x[1.5, 0])


@bad("unsupported_mixing_basic_advanced_tensor_indexing")
def _(out, x):
    nl.load(x[nl.arange(4)[:, None], 0:8])


@bad("tensor_access_out_of_bound")
def _(out, x):
    i, j = nl.mgrid[0:5, 0:8]
    nl.load(x[i, j])


@bad("slice_step")
def _(out, x):
    nl.load(x[:, 0:8:-1])


@bad("mask_not_equal_not_supported")
def _(out, x):
    nl.load(x, mask=nl.arange(8)[None, :] != 3)


@bad("unsupported_expression_in_mask")
def _(out, x):
    nl.load(x, mask=(nl.arange(8)[None, :] % 4) < 2)


@bad("tile_index_add_non_integer_scalar")
def _(out, x):
    nl.arange(8)[None, :] + 0.5


@bad("index_divisor_not_integer")
def _(out, x):
    nl.arange(8)[None, :] // 2.0


@bad("unsupported_args")
def _(out, x):
    i = nl.arange(8)[None, :]
    i * i


@bad("indirect_indices_free_dim", X, ROWS)
def _(out, x, rows):
    nl.load(x[nl.arange(2)[:, None], nl.load(rows)])


@bad("indirect_indices_sbuf", X, ROWS)
def _(out, x, rows):
    nl.load(x[rows, nl.arange(8)[None, :]])


@bad("indirect_indices_are_not_supported_with_nki_api", X, ROWS)
def _(out, x, rows):
    nl.load_transpose2d(x[nl.load(rows), nl.arange(8)[None, :]])


@bad("copy_dynamic_indirect_indices_not_natively_supported", X, ROWS)
def _(out, x, rows):
    nl.copy(nl.load(x)[nl.load(rows), nl.arange(8)[None, :]])


@bad("unsupported_memory")
def _(out, x):
    nl.exp(x)


@bad("unexpected_type_of_operand")
def _(out, x):
    nl.load((4, 8))


@bad("operand_cannot_be_none")
def _(out, x):
    nisa.tensor_scalar(nl.load(x), nl.add, None)


@bad("unsupported_dtype_value")
def _(out, x):
    nl.zeros((4, 8), dtype=np.int64)


@bad("supported_operand_dtype", X.astype(np.float64))
def _(out, x): ...


@bad("num_partition_exceed_arch_limit")
def _(out, x):
    tile(256, 8)


@bad("size_of_dimension_exceed_arch_limit")
def _(out, x):
    nl.transpose(tile(128, 512))


@bad("exceed_max_supported_dimension")
def _(out, x):
    nl.transpose(tile(4, 16).reshape((4, 4, 4)))


@bad("num_partition_mismatch")
def _(out, x):
    nisa.tensor_tensor(tile(128, 512), tile(1, 512), op=nl.add)


@bad("param_shape_incompatible_with_numpy")
def _(out, x):
    nl.add(tile(4, 8), tile(4, 7))


@bad("param_shape_mismatch")
def _(out, x):
    nisa.tensor_tensor(tile(4, 8), tile(4, 7), op=nl.add)


@bad("param_shape_incompatible_with_matmul")
def _(out, x):
    nl.matmul(tile(128, 64), tile(128, 512))


@bad("tile_shape_mismatch")
def _(out, x):
    nl.load(x).assert_shape((128, 512))


@bad("reduction_registers_not_set")
def _(out, x):
    total = tile(4, 1)
    nisa.activation(nl.exp, nl.load(x), reduce_op=nl.add, reduce_res=total)


@bad("store_dst_shape_smaller_than_other_shape")
def _(out, x):
    a = tile(4, 1)
    a[...] = nl.load(x)


@bad("stack_overflow_sbuf")
def _(out, x):
    tile(128, 100_000)


@bad("stack_overflow_psum")
def _(out, x):
    tile(128, 8 * 512 + 1, buffer=nl.psum)


@bad("leading_dimension_of_tensor_must_be_partition")
def _(out, x):
    nl.zeros((512,), dtype=nl.float32)


# ---------------------------------------------------------------------------- instructions


@bad("activation_bias_invalid_type")
def _(out, x):
    nisa.activation(nl.exp, nl.load(x), bias=tile(4, 1, nl.int8))


@bad("activation_scale_invalid_type")
def _(out, x):
    nisa.activation(nl.exp, nl.load(x), scale=tile(4, 1, nl.float16))


@bad("activation_scale_scalar_or_vector")
def _(out, x):
    nisa.activation(nl.exp, nl.load(x), scale=tile(1, 8))


@bad("atomic_rmw_add_only", X, ROWS)
def _(out, x, rows):
    nl.atomic_rmw(out[nl.load(rows), nl.arange(8)[None, :]], tile(2, 8), op=np.max)


@bad("atomic_rmw_dynamic_index")
def _(out, x):
    nl.atomic_rmw(out, tile(4, 8), op=np.add)


def allocated() -> Any:
    return nl.ndarray((4, 8), dtype=nl.float32, buffer=ncc.sbuf.mod_alloc(base_addr=0))


allocated.__nki_dont_trace__ = True  # type: ignore[attr-defined]


@bad("bias_tensor_must_be_specified_in_allocation")
def _(out, x):
    nisa.activation(nl.exp, allocated())


@bad("transpose_on_tensor_engine_not_allowed_in_allocated_kernel")
def _(out, x):
    nisa.nc_transpose(allocated())


@bad("bitvec_operand_must_be_integer")
def _(out, x):
    nl.bitwise_and(nl.load(x), 1)


@bad("exact_arch_support_for_inst", platform_target="trn1")
def _(out, x):
    nisa.nc_matmul(tile(4, 8), tile(4, 8), perf_mode="double_row_gen3")


@bad("incorrect_target_type", platform_target="trn1")
def _(out, x):
    tile(4, 8, nl.float8_e4m3fn)


@bad("instruction_engine_unsupported_op_comb")
def _(out, x):
    nisa.tensor_scalar(nl.load(x), nl.maximum, 0.0, engine=nisa.scalar_engine)


@bad("instruction_supported_dtypes")
def _(out, x):
    nisa.nc_matmul(tile(4, 8, nl.int32), tile(4, 8, nl.int32))


@bad("instruction_unsupported_dtypes")
def _(out, x):
    nisa.max8(src=tile(4, 8, nl.int32))


@bad("instruction_unsupported_op")
def _(out, x):
    nisa.tensor_reduce(np.power, nl.load(x), axis=1)


@bad("min_arch_support_for_inst", platform_target="trn1")
def _(out, x):
    bound = tile(4, 1)
    nisa.range_select(
        on_true_tile=nl.load(x), comp_op0=nl.less, comp_op1=nl.less, bound0=bound, bound1=bound
    )


@bad("min_arch_support_for_hwdge", platform_target="trn1")
def _(out, x):
    nisa.dma_copy(dst=out, src=x, dge_mode=nisa.dge_mode.hwdge)


@bad("par_reduce_unsupported_op")
def _(out, x):
    nisa.tensor_partition_reduce(nl.multiply, nl.load(x))


@bad("par_reduce_bitvec_op_invalid_dtype")
def _(out, x):
    nisa.tensor_partition_reduce(nl.bitwise_or, nl.load(x))


@bad("reduce_bitvec_op_invalid_dtype")
def _(out, x):
    nisa.tensor_reduce(nl.bitwise_or, nl.load(x), axis=1)


@bad("reduce_unsupported_negate")
def _(out, x):
    nisa.tensor_reduce(nl.bitwise_or, tile(4, 8, nl.int32), axis=1, negate=True)


@bad("reduce_axis_not_free")
def _(out, x):
    nl.sum(nl.load(x), axis=0)


@bad("src_dst_same_dtype")
def _(out, x):
    nisa.nc_stream_shuffle(nl.load(x), tile(4, 8, nl.int32), list(range(32)))


@bad("tensor_int32_add_multiply_supported_engine")
def _(out, x):
    a = tile(4, 8, nl.int32)
    nisa.tensor_tensor(a, a, nl.add, engine=nisa.vector_engine)


@bad("tiled_offloaded_memcpy_same_shape")
def _(out, x):
    nisa._tiled_offloaded_memcpy(src=x[0:2], dst=out)


@bad("tiled_offloaded_fma_same_length")
def _(out, x):
    nisa._tiled_offloaded_fma(x, x, scales=[1.0], dst=out)


@bad("valid_size")
def _(out, x):
    nisa.local_gather(tile(16, 8), tile(16, 1, nl.uint16), num_elem_per_idx=3)


@bad("no_device")
def _(out, x):
    nisa.builtin_custom_op("f", "lib.so", {}, {}, [], [])


# ---------------------------------------------------------------------------- the claims


@pytest.mark.parametrize("code", sorted(PAGES))
def test_a_bad_kernel_is_refused_with_exactly_this_error(code: str) -> None:
    page = PAGES[code]
    with pytest.raises(TilewrightError) as caught:
        BAD[code]()
    error = caught.value
    assert error.code == code
    assert isinstance(error, page.exception)
    assert str(error).endswith(f"#{code}")
    assert "{" not in error.message


@pytest.mark.parametrize("code", sorted(PAGES))
def test_a_page_has_a_cause_and_both_examples(code: str) -> None:
    page = PAGES[code].explain()
    assert page.cause and page.bad and page.good


def test_every_error_is_of_the_builtin_class_that_the_language_names() -> None:
    for page in PAGES.values():
        bases = [base for base in page.exception.__mro__ if base.__module__ == "builtins"]
        assert hasattr(builtins, bases[0].__name__) and bases[0] is not Exception


@pytest.mark.parametrize("code", sorted(set(PAGES) - {"err_nki_api_outside_of_nki_kernel"}))
def test_a_refusal_in_the_body_points_at_the_author(code: str) -> None:
    with pytest.raises(TilewrightError) as caught:
        BAD[code]()
    span = caught.value.span
    assert span is not None and span.file == __file__


def test_the_reference_page_is_what_the_catalogue_says() -> None:
    page = Path(__file__).parents[3] / REFERENCE
    assert page.read_text() == reference_text()
    assert all(f"### {code}\n" in reference_text() for code in PAGES)
    assert "never originate" in reference_text()
