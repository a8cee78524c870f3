"""Named errors of the traced style: tensors, indexing, masks, memories."""

from __future__ import annotations

from tilewright.errors.nki import (
    NKIIndexError,
    NKISyntaxError,
    NKITypeError,
    NKIValueError,
    page,
)

ARANGE_1D = page(
    "1d_arange_not_supported",
    NKISyntaxError,
    "tensor '{name}' is indexed with a one-dimensional nl.arange",
    """An index range takes part in a tile at a position; `[:, None]` or `[None, :]` says which.

    Bad::

        t[nl.arange(64), 0]

    Good::

        t[nl.arange(64)[:, None], 0]
    """,
    "subscript it with [:, None], or use a slice",
)
ARANGE_SUBSCRIPT = page(
    "arange_subscript",
    NKISyntaxError,
    "nl.arange must be subscripted with exactly one ':' and any number of None, got {given}",
    """The subscript of an index range only says which axis of the tile it runs along.

    Bad::

        nl.arange(64)[2:10, None]

    Good::

        nl.arange(2, 10)[:, None]
    """,
)
ANNOTATION_SHAPE = page(
    "annotation_shape_mismatch",
    NKITypeError,
    "object '{name}' of shape {given} does not match the expected shape of {wanted}",
    """An annotated assignment states the shape of the tensor, and the trace checks it.

    Bad::

        t: nt.tensor[4, 16] = nl.load(x)        # x is (4, 8)

    Good::

        t: nt.tensor[4, 8] = nl.load(x)
    """,
)
CANNOT_ASSIGN_TO_INDEX = page(
    "cannot_assign_to_index",
    NKITypeError,
    "index objects do not take item assignment",
    """An nl.arange or nl.mgrid object is a description of indices, not an array.

    Bad::

        i = nl.mgrid[0:128, 0:512]
        i.p[0, 5] = 1

    Good::

        t = nisa.iota(i.p, dtype=nl.int32)
        t[0, 5] = 1
    """,
    "make a tile of it with nisa.iota",
)
FAILED_TO_INFER_TILE = page(
    "failed_to_infer_tile_from_local_tensor",
    NKITypeError,
    "cannot infer a tile from tensor '{name}' of shape {shape}: its first dimension is not the "
    "partition dimension",
    """A tensor with block dimensions is a list of tiles; operations take one tile.

    Bad::

        t = nl.zeros((4, nl.par_dim(128), 512), dtype=nl.float32)
        nl.exp(t)

    Good::

        for i in nl.affine_range(4):
            nl.exp(t[i])
    """,
    "index the block dimensions",
)
HBM_INIT_VALUE = page(
    "hbm_tensor_with_init_value_not_supported",
    NKISyntaxError,
    "HBM tensors cannot have an initial value",
    """Memory outside the chip is written by stores only.

    Bad::

        nl.full((128, 512), 0.0, dtype=nl.float32, buffer=nl.shared_hbm)

    Good::

        out = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
        nl.store(out, nl.full((128, 512), 0.0, dtype=nl.float32))
    """,
    "allocate with nl.ndarray and store a tile",
)
SCRATCHPAD_INIT_VALUE = page(
    "tensor_creation_on_scratchpad_with_init_value_not_supported",
    NKISyntaxError,
    "tensor '{name}' has an explicit allocation, so it cannot have an initial value",
    """In kernels that allocate on-chip memory themselves, tensors are made uninitialised.

    Bad::

        nl.full((128, 512), 0.0, dtype=nl.float32, buffer=ncc.sbuf.mod_alloc(base_addr=0))

    Good::

        t = nl.ndarray((128, 512), dtype=nl.float32, buffer=ncc.sbuf.mod_alloc(base_addr=0))
        t[...] = nisa.memset((128, 512), 0.0, nl.float32)
    """,
)
INDICES_SHAPE = page(
    "indices_shape_mismatch",
    NKIIndexError,
    "the index shapes {shapes} do not broadcast",
    """Index objects combine like arrays: extents are equal or 1.

    Bad::

        t[nl.arange(64)[:, None], nl.arange(32)[:, None]]

    Good::

        t[nl.arange(64)[:, None], nl.arange(32)[None, :]]
    """,
)
INDEX_TYPE = page(
    "tensor_index_not_supported",
    NKISyntaxError,
    "tensor '{name}' is indexed with {given}, which is not supported",
    """A subscript is made of integers, slices, nl.ds, `...`, index objects and index tiles.

    Bad::

        t[1.5, 0]

    Good::

        t[1, 0]
    """,
)
MIXED_INDEXING = page(
    "unsupported_mixing_basic_advanced_tensor_indexing",
    NKISyntaxError,
    "tensor '{name}' is indexed with a slice and an index object together",
    """Slices and index objects are two ways to name a tile; one subscript uses one of them.

    Bad::

        t[nl.arange(64)[:, None], :]

    Good::

        t[nl.arange(64)[:, None], nl.arange(512)[None, :]]
    """,
    "use index objects in every dimension, or slices",
)
OUT_OF_BOUND = page(
    "tensor_access_out_of_bound",
    NKIIndexError,
    "out-of-bound access for tensor '{name}' on dimension {axis}: index range {range} exceeds "
    "dimension size of {extent}",
    """Every index that is not masked out must lie inside the tensor.

    Bad::

        i = nl.arange(128)[:, None]
        nl.load(x[i, f])                    # x has 100 rows

    Good::

        nl.load(x[i, f], mask=(i < 100))
    """,
    "shorten the index range, or mask the elements that lie outside",
)
SLICE_STEP = page(
    "slice_step",
    NKIValueError,
    "the slice of dimension {axis} has {given}",
    """Slices have a positive constant step, and step 1 where their length is not constant.

    Bad::

        t[:, 0:n_dynamic:2]

    Good::

        t[:, nl.ds(start, 64)]
    """,
)
MASK_NOT_EQUAL = page(
    "mask_not_equal_not_supported",
    NKISyntaxError,
    "masks have no 'not equal' comparison",
    """Masks are conjunctions of affine comparisons; the complement of an equality is not one.

    Bad::

        nl.store(out[i, f], t, mask=f != 3)

    Good::

        nl.store(out[i, f], t, mask=f < 3)
        nl.store(out[i, f], t, mask=f > 3)
    """,
    "issue one masked operation for each side",
)
MASK_EXPRESSION = page(
    "unsupported_expression_in_mask",
    NKIValueError,
    "unsupported expression in a mask: {given}; masks are affine in index objects, loop "
    "variables and program ids",
    """A mask is decided while the kernel is compiled, so nothing in it is known at run time only.

    Bad::

        nl.load(x[i, f], mask=(f % 4) < 2)

    Good::

        nl.load(x[i, f], mask=f < 2)
    """,
)
INDEX_ADD_NON_INTEGER = page(
    "tile_index_add_non_integer_scalar",
    NKITypeError,
    "only integers can be added to an index, got {given}",
    """Positions are whole numbers.

    Bad::

        t[i + 0.5, f]

    Good::

        t[i + 1, f]
    """,
)
INDEX_OPERATOR = page(
    "unsupported_args",
    NKITypeError,
    "unsupported operands for {op}: {left} and {right}",
    """Index expressions are affine: sums, and products, quotients and remainders with integers.

    Bad::

        t[i * i, f]

    Good::

        t[2 * i, f]
    """,
)
INDEX_DIVISOR = page(
    "index_divisor_not_integer",
    NKIValueError,
    "{op} of {left} by {right}: indices are divided by integers",
    """Quotients and remainders of indices have a divisor that is known when the kernel is traced.

    Bad::

        t[i // 2.0, f]

    Good::

        t[i // 2, f]
    """,
)
INDIRECT_FREE_DIM = page(
    "indirect_indices_free_dim",
    NKISyntaxError,
    "tensor '{name}' is indexed with a tile on dimension {axis}; that is possible on partition "
    "and block dimensions only",
    """A transfer fetches one row per index.

    Bad::

        nl.load(x[i, index_tile])

    Good::

        nl.load(x[index_tile, f])
    """,
)
INDIRECT_SBUF = page(
    "indirect_indices_sbuf",
    NKISyntaxError,
    "the index tile must be in SBUF, it is in {memory}",
    """Addresses of a transfer are read from on-chip memory.

    Bad::

        nl.load(x[index_tensor_in_hbm, f])

    Good::

        nl.load(x[nl.load(index_tensor_in_hbm), f])
    """,
    "load it first",
)
INDIRECT_API = page(
    "indirect_indices_are_not_supported_with_nki_api",
    NKISyntaxError,
    "{op} takes no tensor that is indexed with a tile",
    """Only loads, stores and copies between memories follow indices that are data.

    Bad::

        nl.load_transpose2d(x[index_tile, f])

    Good::

        nl.transpose(nl.load(x[index_tile, f]))
    """,
)
INDIRECT_COPY = page(
    "copy_dynamic_indirect_indices_not_natively_supported",
    NKISyntaxError,
    "a copy with an indirect access to the on-chip tensor '{name}' is not natively supported",
    """On-chip tensors are addressed by a runtime offset, not by a tile of indices.

    Bad::

        out[...] = t[0, index_tile, f]

    Good::

        out[...] = nisa.tensor_copy_dynamic_src(t[0, scalar(index_tile), f])
    """,
)
UNSUPPORTED_MEMORY = page(
    "unsupported_memory",
    NKITypeError,
    "{op}: operand '{name}' must be in {wanted}, it is in {given}",
    """Each operation reads and writes certain memories: loads take HBM, compute takes on-chip.

    Bad::

        nl.exp(x)               # x is a kernel parameter

    Good::

        nl.exp(nl.load(x))
    """,
)
UNEXPECTED_OPERAND = page(
    "unexpected_type_of_operand",
    NKITypeError,
    "{op}: operand '{name}' is {given}, not {wanted}",
    """Operands are tiles, and numbers where the operation says so.

    Bad::

        nl.load((4, 8))

    Good::

        nl.load(x)
    """,
)
OPERAND_NONE = page(
    "operand_cannot_be_none",
    NKIValueError,
    "{op}: operand '{name}' cannot be None",
    """A required operand is missing.

    Bad::

        nl.add(t, None)

    Good::

        nl.add(t, 1.0)
    """,
)
DTYPE_VALUE = page(
    "unsupported_dtype_value",
    NKIValueError,
    "{given} is not an element type of this language; supported are {supported}",
    """There are no 64-bit element types, and no complex numbers.

    Bad::

        nl.zeros((4, 8), dtype=np.int64)

    Good::

        nl.zeros((4, 8), dtype=nl.int32)
    """,
)
OPERAND_DTYPE = page(
    "supported_operand_dtype",
    NKITypeError,
    "{op}: operand '{name}' has element type {given}; supported are {supported}",
    """The operation is not defined on these elements.

    Bad::

        kernel(np.zeros((4, 8)))            # float64

    Good::

        kernel(np.zeros((4, 8), np.float32))
    """,
)
PARTITION_LIMIT = page(
    "num_partition_exceed_arch_limit",
    NKIValueError,
    "the number of partitions {given} exceeds the architecture limit of {limit}",
    """The first dimension of an on-chip tensor is spread over the partitions of the memory.

    Bad::

        nl.zeros((256, 1024), dtype=nl.float32)

    Good::

        nl.zeros((128, 2, 1024), dtype=nl.float32)
    """,
    "split the tensor into tiles, or use a longer free dimension",
)
DIMENSION_LIMIT = page(
    "size_of_dimension_exceed_arch_limit",
    NKIValueError,
    "{op}: the size {given} of the {dimension} dimension of operand '{name}' {shape} exceeds the "
    "architecture limit of {limit}",
    """Instructions work on tiles of bounded size.

    Bad::

        nl.transpose(t)         # t is (128, 512)

    Good::

        nl.transpose(t[:, 0:128])
    """,
)
RANK_LIMIT = page(
    "exceed_max_supported_dimension",
    NKIValueError,
    "{op}: operand '{name}' of shape {shape} exceeds the maximum rank of {limit}",
    """The instruction takes tiles of fewer dimensions.

    Bad::

        nl.transpose(t)         # t is (128, 4, 4)

    Good::

        nl.transpose(t.reshape((128, 16)))
    """,
)
PARTITION_MISMATCH = page(
    "num_partition_mismatch",
    NKIValueError,
    "{op}: operands {left} and {right} have different numbers of partitions",
    """Instructions do not broadcast along the partitions.

    Bad::

        nisa.tensor_tensor(t, bias, op=nl.add)      # (128, 512) and (1, 512)

    Good::

        nisa.tensor_tensor(t, bias.broadcast_to((128, 512)), op=nl.add)
    """,
    "broadcast the smaller operand first",
)
NUMPY_SHAPES = page(
    "param_shape_incompatible_with_numpy",
    NKIValueError,
    "{op}: operands of shapes {left} and {right} do not broadcast",
    """Extents must be equal, or one of them 1.

    Bad::

        nl.add(t_128x512, t_128x256)

    Good::

        nl.add(t_128x512, t_128x1)
    """,
)
SHAPE_MISMATCH = page(
    "param_shape_mismatch",
    NKIValueError,
    "{op}: operands have different shapes, {left} and {right}",
    """The instruction does not broadcast.

    Bad::

        nisa.tensor_tensor(t_128x512, t_128x256, op=nl.add)

    Good::

        nisa.tensor_tensor(t_128x512, u_128x512, op=nl.add)
    """,
)
MATMUL_SHAPES = page(
    "param_shape_incompatible_with_matmul",
    NKIValueError,
    "{op}: operands of shapes {left} and {right} have different contraction sizes{note}",
    """The contracted dimensions of both operands have one size.

    Bad::

        nl.matmul(x_128x64, y_128x512)

    Good::

        nl.matmul(x_128x64, y_128x512, transpose_x=True)
    """,
)
TILE_SHAPE = page(
    "tile_shape_mismatch",
    NKISyntaxError,
    "{op}: a tile of shape {given} where one of shape {wanted} is expected",
    """The operand must have exactly the shape the operation asks for.

    Bad::

        nl.load(x[0:64, 0:512]).assert_shape((128, 512))

    Good::

        nl.load(x[0:128, 0:512]).assert_shape((128, 512))
    """,
)
STORE_SHAPE = page(
    "store_dst_shape_smaller_than_other_shape",
    NKIValueError,
    "{op}: a value of shape {other} cannot be broadcast to the shape {given} of the destination "
    "'{name}'",
    """A value is broadcast to its destination, never the other way round.

    Bad::

        a[...] = b              # a is (128, 1), b is (128, 512)

    Good::

        a[...] = nl.sum(b, axis=1)
    """,
)
BLOCK_DIMENSION = page(
    "leading_dimension_of_tensor_must_be_partition",
    NKISyntaxError,
    "the leading dimension of the on-chip tensor of shape {shape} must be the partition dimension",
    """On-chip tensors have at least two dimensions, the first of which is the partitions.

    Bad::

        nl.zeros((512,), dtype=nl.float32)

    Good::

        nl.zeros((1, 512), dtype=nl.float32)
    """,
)
