"""Named errors of the traced style: instructions, engines, element types, targets."""

from __future__ import annotations

from tilewright.errors.nki import NKINotImplementedError, NKISyntaxError, NKITypeError, page

ACTIVATION_BIAS = page(
    "activation_bias_invalid_type",
    NKITypeError,
    "activation: bias must be a vector of float32, float16 or bfloat16, got {given}",
    """The bias is added in floating point, one element per partition.

    Bad::

        nisa.activation(nl.exp, t, bias=int8_vector)

    Good::

        nisa.activation(nl.exp, t, bias=float32_vector)
    """,
)
ACTIVATION_SCALE_TYPE = page(
    "activation_scale_invalid_type",
    NKITypeError,
    "activation: scale must be a number or a float32 vector, got a vector of {given}",
    """A scale that differs by partition is read as float32.

    Bad::

        nisa.activation(nl.exp, t, scale=float16_vector)

    Good::

        nisa.activation(nl.exp, t, scale=float32_vector)
    """,
)
ACTIVATION_SCALE_SHAPE = page(
    "activation_scale_scalar_or_vector",
    NKISyntaxError,
    "activation: scale must be a number or a vector with one element per partition, got a tile of "
    "shape {given}",
    """A scale is one number, or one number per partition.

    Bad::

        nisa.activation(nl.exp, t, scale=tile_1x128)

    Good::

        nisa.activation(nl.exp, t, scale=tile_128x1)
    """,
)
ATOMIC_ADD_ONLY = page(
    "atomic_rmw_add_only",
    NKISyntaxError,
    "atomic_rmw: only add is possible as op, got {given}",
    """Memory combines by addition.

    Bad::

        nl.atomic_rmw(x[index, f], t, op=np.max)

    Good::

        nl.atomic_rmw(x[index, f], t, op=np.add)
    """,
)
ATOMIC_DYNAMIC_INDEX = page(
    "atomic_rmw_dynamic_index",
    NKISyntaxError,
    "atomic_rmw: the destination must be indexed by a tile",
    """Where the places are known, a load, an add and a store do the same.

    Bad::

        nl.atomic_rmw(x[i, f], t, op=np.add)

    Good::

        nl.atomic_rmw(x[index_tile, f], t, op=np.add)
    """,
)
BIAS_IN_ALLOCATION = page(
    "bias_tensor_must_be_specified_in_allocation",
    NKISyntaxError,
    "{op}: in a kernel that allocates its memory itself the bias must be given",
    """Without a bias the compiler makes a tensor of zeros, which such a kernel has no place for.

    Bad::

        nisa.activation(nl.exp, allocated_tile)

    Good::

        nisa.activation(nl.exp, allocated_tile, bias=allocated_zeros)
    """,
)
BITVEC_INTEGER = page(
    "bitvec_operand_must_be_integer",
    NKISyntaxError,
    "{op}: operand '{name}' of a bitwise operation must have an integer type, it is {given}",
    """Bits of floating-point numbers are not operands.

    Bad::

        nl.bitwise_and(float_tile, 1)

    Good::

        nl.bitwise_and(int_tile, 1)
    """,
)
EXACT_ARCH = page(
    "exact_arch_support_for_inst",
    NKISyntaxError,
    "{op} exists on {wanted} only; the target is {given}",
    """The instruction was made for one generation.

    Bad::

        nisa.nc_matmul_mx(a, b, sa, sb)         # with platform_target="trn2"

    Good::

        nisa.nc_matmul(a, b)
    """,
)
TARGET_TYPE = page(
    "incorrect_target_type",
    NKISyntaxError,
    "{op} is not supported on {given}",
    """The target has no such element type or operation.

    Bad::

        nl.zeros((4, 8), dtype=nl.float8_e4m3fn)        # with platform_target="trn1"

    Good::

        nl.zeros((4, 8), dtype=nl.float8_e4m3)
    """,
)
ENGINE_OPS = page(
    "instruction_engine_unsupported_op_comb",
    NKISyntaxError,
    "{op}: ({op0}, {op1}) is not available on the {engine} engine",
    """Each engine computes some pairs of operations.

    Bad::

        nisa.tensor_scalar(t, nl.maximum, 0.0, engine=nisa.scalar_engine)

    Good::

        nisa.tensor_scalar(t, nl.maximum, 0.0, engine=nisa.vector_engine)
    """,
)
SUPPORTED_DTYPES = page(
    "instruction_supported_dtypes",
    NKISyntaxError,
    "{op}: operand '{name}' has element type {given}; on {target} it may be {supported}",
    """The instruction takes certain element types.

    Bad::

        nisa.nc_matmul(int32_tile, int32_tile)

    Good::

        nisa.nc_matmul(bfloat16_tile, bfloat16_tile)
    """,
)
UNSUPPORTED_DTYPES = page(
    "instruction_unsupported_dtypes",
    NKISyntaxError,
    "{op}: operand '{name}' cannot have element type {given} on {target}",
    """The instruction does not take this element type.

    Bad::

        nisa.max8(src=int32_tile)

    Good::

        nisa.max8(src=float32_tile)
    """,
)
UNSUPPORTED_OP = page(
    "instruction_unsupported_op",
    NKISyntaxError,
    "{op}: the operation {given} is not supported",
    """Instructions that take an operation take some of them.

    Bad::

        nisa.tensor_reduce(nl.power, t, axis=1)

    Good::

        nisa.tensor_reduce(nl.add, t, axis=1)
    """,
)
MIN_ARCH = page(
    "min_arch_support_for_inst",
    NKISyntaxError,
    "{op} needs {wanted} or later; the target is {given}",
    """The instruction came with a later generation.

    Bad::

        nisa.range_select(...)          # with platform_target="trn1"

    Good::

        nisa.range_select(...)          # with platform_target="trn2"
    """,
)
MIN_ARCH_HWDGE = page(
    "min_arch_support_for_hwdge",
    NKISyntaxError,
    "{op}: descriptor generation in hardware needs {wanted} or later; the target is {given}",
    """Earlier generations make transfer descriptors in software.

    Bad::

        nisa.dma_copy(dst=d, src=s, dge_mode=nisa.dge_mode.hwdge)       # on trn1

    Good::

        nisa.dma_copy(dst=d, src=s)
    """,
)
PAR_REDUCE_OP = page(
    "par_reduce_unsupported_op",
    NKISyntaxError,
    "tensor_partition_reduce: the operation {given} is not supported",
    """Partitions are combined by add, max, bitwise_or and bitwise_and.

    Bad::

        nisa.tensor_partition_reduce(nl.multiply, t)

    Good::

        nisa.tensor_partition_reduce(nl.add, t)
    """,
)
PAR_REDUCE_DTYPE = page(
    "par_reduce_bitvec_op_invalid_dtype",
    NKISyntaxError,
    "tensor_partition_reduce: {op0} needs an integer type, got {given}",
    """Bits of floating-point numbers are not combined.

    Bad::

        nisa.tensor_partition_reduce(nl.bitwise_or, float_tile)

    Good::

        nisa.tensor_partition_reduce(nl.bitwise_or, int_tile)
    """,
)
REDUCE_DTYPE = page(
    "reduce_bitvec_op_invalid_dtype",
    NKISyntaxError,
    "{op}: a reduction by {op0} needs an integer type, got {given}",
    """Bits of floating-point numbers are not combined.

    Bad::

        nisa.tensor_reduce(nl.bitwise_or, float_tile, axis=1)

    Good::

        nisa.tensor_reduce(nl.bitwise_or, int_tile, axis=1)
    """,
)
REDUCE_NEGATE = page(
    "reduce_unsupported_negate",
    NKISyntaxError,
    "{op}: negate goes with arithmetic operations, not with {op0}",
    """The result of a bitwise or logical reduction has no negative.

    Bad::

        nisa.tensor_reduce(nl.bitwise_or, t, axis=1, negate=True)

    Good::

        nisa.tensor_reduce(nl.add, t, axis=1, negate=True)
    """,
)
REGISTERS_UNSET = page(
    "reduction_registers_not_set",
    NKISyntaxError,
    "{op}: the reduction registers of {rows} partitions are read, but no instruction before has "
    "set {which}",
    """What they hold when a kernel begins is not known; those that only an arm sets are 0 where it
    is not taken. `reduce_cmd.idle`, the default of most
    instructions, reads them into `reduce_res` and adds nothing; `reduce` goes on from what they
    hold.

    Bad::

        nisa.activation(nl.exp, t, reduce_op=nl.add, reduce_res=total)

    Good::

        nisa.activation_reduce(nl.exp, t, reduce_op=nl.add, reduce_res=total)
    """,
    "set them first: reduce_cmd=nisa.reduce_cmd.reset_reduce, or reset before the first reduce",
)
REDUCE_AXIS = page(
    "reduce_axis_not_free",
    NKISyntaxError,
    "{op}: axes {given} of a tile of shape {shape} cannot be reduced; the partition axis and "
    "repeated axes are not possible",
    """Reductions run along the free dimensions.

    Bad::

        nl.sum(t, axis=0)

    Good::

        nl.sum(t, axis=1)
    """,
    "use nisa.tensor_partition_reduce, or a matmul with ones, to add up partitions",
)
SAME_DTYPE = page(
    "src_dst_same_dtype",
    NKISyntaxError,
    "{op}: src is {src} and dst is {dst}; they must have one element type",
    """The instruction moves bits and converts nothing.

    Bad::

        nisa.nc_stream_shuffle(src=float32_tile, dst=int32_tile, shuffle_mask=order)

    Good::

        nisa.nc_stream_shuffle(src=float32_tile, dst=other_float32_tile, shuffle_mask=order)
    """,
)
INT32_ENGINE = page(
    "tensor_int32_add_multiply_supported_engine",
    NKISyntaxError,
    "{op}: int32 {op0} is exact on the gpsimd engine only, not on {engine}",
    """Other engines compute in float32.

    Bad::

        nisa.tensor_tensor(a, b, nl.add, engine=nisa.vector_engine)     # int32 operands

    Good::

        nisa.tensor_tensor(a, b, nl.add, engine=nisa.gpsimd_engine)
    """,
)
MEMCPY_SHAPE = page(
    "tiled_offloaded_memcpy_same_shape",
    NKISyntaxError,
    "_tiled_offloaded_memcpy: src has shape {src} and dst has shape {dst}",
    """A copy moves as many elements as it fills.

    Bad::

        nisa._tiled_offloaded_memcpy(src=a_4x8, dst=b_8x8)

    Good::

        nisa._tiled_offloaded_memcpy(src=a_8x8, dst=b_8x8)
    """,
)
FMA_LENGTH = page(
    "tiled_offloaded_fma_same_length",
    NKISyntaxError,
    "_tiled_offloaded_fma: {srcs} sources and {scales} scales",
    """Each source has one scale.

    Bad::

        nisa._tiled_offloaded_fma(a, b, scales=[1.0])

    Good::

        nisa._tiled_offloaded_fma(a, b, scales=[1.0, 0.5])
    """,
)
TRANSPOSE_IN_ALLOCATION = page(
    "transpose_on_tensor_engine_not_allowed_in_allocated_kernel",
    NKISyntaxError,
    "{op}: in a kernel that allocates its memory itself a transpose needs an identity of yours",
    """The compiler would have to make an identity matrix, which such a kernel has no place for.

    Bad::

        nisa.nc_transpose(allocated_tile)

    Good::

        nisa.nc_matmul(allocated_tile, identity, is_transpose=True)
    """,
)
VALID_SIZE = page(
    "valid_size",
    NKISyntaxError,
    "{op}: {name} is {given}; it may be {supported}",
    """The instruction takes certain sizes.

    Bad::

        nisa.local_gather(t, index, num_elem_per_idx=3)

    Good::

        nisa.local_gather(t, index, num_elem_per_idx=4)
    """,
)
NO_DEVICE = page(
    "no_device",
    NKINotImplementedError,
    "{op} needs something that this machine does not have: {what}",
    """Custom device libraries and the like run on the accelerator only.

    Bad::

        nisa.builtin_custom_op("f", "lib.so", {}, {}, [a], [b])

    Good::

        nl.exp(a)
    """,
)
