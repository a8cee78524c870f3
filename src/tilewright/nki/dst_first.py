"""`nisa` as newer releases of the language spell it: an instruction writes to `dst`, its first.

Each is the instruction of `nisa` of the same name; its result must have as many partitions and as
many elements as `dst`, in whose element type it is computed. There are no masks.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any

from tilewright.dtypes import FP32
from tilewright.errors.nki_instructions import REDUCE_NEGATE
from tilewright.errors.nki_tensors import SHAPE_MISMATCH
from tilewright.frontend.trace.ambient import current_api, nki_ctx, refusal
from tilewright.frontend.trace.index import TileIndex, arange
from tilewright.frontend.trace.ops import NKIFunc, nki_op
from tilewright.frontend.trace.tensors import nki_tensor
from tilewright.nki import _absent, isa
from tilewright.nki._accumulators import registers, require_command, run_command, write_tile
from tilewright.nki._enums import (
    dge_mode,
    engine,
    matmul_perf_mode,
    nc_version,
    oob_mode,
    reduce_cmd,
)
from tilewright.nki._enums import reduce_cmd as commands
from tilewright.nki._isa_compute import scalar_reduction
from tilewright.nki._memory import require_tensor
from tilewright.nki._operands import (
    operand_value,
    operation_name,
    require_psum,
    result_tile,
    scalar_or_vector,
    tile_value,
)
from tilewright.nki._registers import (
    VirtualRegister,
    register_alloc,
    register_load,
    register_move,
    register_store,
)
from tilewright.ops import elementwise as ew
from tilewright.ops.nki_alu import LOGICAL

get_nc_version = isa.get_nc_version


class dma_engine(Enum):
    """Who moves data between ranks."""

    dma = 1
    gpsimd_dma = 2


WRITES_RESULT: dict[str, str] = {
    "tensor_copy": "src engine?",
    "nc_transpose": "data engine?",
    "tensor_tensor": "data1 data2 op engine?",
    "tensor_scalar": "data op0 operand0 reverse0? op1? operand1? reverse1? engine?",
    "tensor_reduce": "op data axis negate? keepdims?",
    "tensor_partition_reduce": "op data",
    "activation": "op data bias? scale? reduce_op? reduce_res? reduce_cmd?",
    "activation_reduce": "op data reduce_op reduce_res bias? scale?",
    "local_gather": "src_buffer index num_elem_per_idx? num_valid_indices?",
    "bn_stats": "data",
    "bn_aggr": "data",
    "tensor_tensor_scan": "data0 data1 initial op0 op1 reverse0? reverse1?",
    "dropout": "data prob",
    "reciprocal": "data",
    "max8": "src",
    "sequence_bounds": "segment_ids",
    "scalar_tensor_tensor": "data op0 operand0 op1 operand1 reverse0? reverse1?",
    "range_select": "on_true_tile comp_op0 comp_op1 bound0 bound1 reduce_cmd? reduce_res? "
    "reduce_op? range_start? on_false_value?",
    "nc_find_index8": "data vals",
    "nc_match_replace8": "data vals imm dst_idx?",
    "dma_transpose": "src axes? priority? dge_mode? oob_mode?",
}
"""Instructions that give a tile there and write it here: what follows `dst`; ? is optional."""
TAKES_DST: dict[str, str] = {
    "dma_copy": "src priority? oob_mode? dge_mode? engine?",
    "tensor_copy_predicated": "src predicate reverse_pred?",
    "nc_stream_shuffle": "src shuffle_mask",
    "select_reduce": "predicate on_true on_false reduce_res? reduce_cmd? reduce_op? reverse_pred?",
}
"""Instructions that take `dst` there, too."""

ACCUMULATED = ("add", "multiply", "maximum", "minimum", *LOGICAL)
"""Operations that go on from what is there, in any order."""
COMPARISONS: dict[str, Callable[[TileIndex], Any]] = {
    "equal": lambda index: index == 0,
    "less": lambda index: index < 0,
    "less_equal": lambda index: index <= 0,
    "greater": lambda index: index > 0,
    "greater_equal": lambda index: index >= 0,
}


def _signature(operands: str) -> inspect.Signature:
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = [inspect.Parameter("dst", kind)]
    for word in (*operands.split(), "name?"):
        default = None if word.endswith("?") else inspect.Parameter.empty
        parameters.append(inspect.Parameter(word.rstrip("?"), kind, default=default))
    return inspect.Signature(parameters)


def _dst_first(name: str, operands: str, *, gives_tile: bool) -> NKIFunc[..., Any]:
    """The instruction `name` of `nisa`, with the destination first."""
    legacy: Any = getattr(isa, name)
    signature = _signature(operands)
    has_dtype = "dtype" in inspect.signature(legacy.nki_func).parameters

    def instruction(*args: Any, **kwargs: Any) -> None:
        bound = signature.bind(*args, **kwargs)
        given = dict(bound.arguments)
        given.pop("name", None)
        dst = require_tensor(given.pop("dst"), "dst")
        if not gives_tile:
            legacy.nki_func(dst=dst, **given)
            return
        if has_dtype:
            given["dtype"] = dst.dtype
        write(dst, legacy.nki_func(**given))

    instruction.__name__ = name
    instruction.__doc__ = f"`dst` becomes: {legacy.__doc__}" if gives_tile else legacy.__doc__
    made = nki_op(f"nisa.dst.{name}")(instruction)
    made.__signature__ = signature  # type: ignore[attr-defined]
    return made


def write(dst: nki_tensor, value: nki_tensor) -> None:
    """`dst[...] = value`, where both have as many partitions and elements."""
    alike = dst.shape[:1] == value.shape[:1] or dst.root.is_hbm
    if not alike or math.prod(dst.shape) != math.prod(value.shape):
        shapes = {
            "left": f"{list(dst.shape)} of dst",
            "right": f"{list(value.shape)} of the result",
        }
        raise refusal(SHAPE_MISMATCH, op=current_api(), **shapes)
    same = value if dst.shape == value.shape else value.reshape(dst.shape)
    if dst.root.is_hbm:
        isa.dma_copy.nki_func(dst=dst, src=same)
    else:
        nki_ctx().sema.assign_item(dst, Ellipsis, same)


# ---------------------------------------------------------------------------- with other operands


@nki_op("nisa.dst.memset")
def memset(dst: nki_tensor, value: Any, engine: Any = None, name: str | None = None) -> None:
    """`value` at every element of `dst`."""
    nki_ctx().sema.assign_item(require_tensor(dst, "dst"), Ellipsis, value)


@nki_op("nisa.dst.nc_matmul")
def nc_matmul(
    dst: nki_tensor,
    stationary: nki_tensor,
    moving: nki_tensor,
    is_stationary_onezero: bool = False,
    is_moving_onezero: bool = False,
    is_transpose: bool = False,
    accumulate: bool | None = None,
    tile_position: tuple[int, ...] = (),
    tile_size: tuple[int, ...] = (),
    perf_mode: Any = None,
    name: str | None = None,
) -> None:
    """stationary.T @ moving into `dst`, [M, N] in PSUM.

    `accumulate` True adds to what is there, False overwrites it. None overwrites at the first write
    and adds at later ones; PSUM starts at zero.
    """
    require_psum(require_tensor(dst, "dst"), "dst")
    result = isa.nc_matmul.nki_func(
        stationary,
        moving,
        is_transpose=is_transpose,
        tile_position=tile_position,
        tile_size=tile_size,
        perf_mode=perf_mode,
    )
    if accumulate is False or is_transpose:
        write(dst, result)
    else:
        nki_ctx().sema.update_in_place("add", dst, result)


@nki_op("nisa.dst.tensor_scalar_reduce")
def tensor_scalar_reduce(
    dst: nki_tensor,
    data: nki_tensor,
    op0: Any,
    operand0: Any,
    reduce_op: Any,
    reduce_res: nki_tensor | None = None,
    reverse0: bool = False,
    reduce_cmd: commands = commands.reset_reduce,
    reduce_init: Any = None,
    reduce_res_negate: bool = False,
    name: str | None = None,
) -> None:
    """`dst` becomes `data <op0> operand0`, whose reduction along the free axes is accumulated.

    `reduce_cmd` says what the registers of this instruction, one for each partition, do with it:
    `reset_reduce` sets them to it, `reduce` combines it with what they hold, `load_reduce` with
    `reduce_init` (a number, or one for each partition); `reset` sets them to what changes nothing
    under `reduce_op`, and `idle` leaves them. `reduce_res`, (P, 1), then becomes what they hold, or
    with `reduce_res_negate` the negative of it. All is in FP32.
    """
    require_command(reduce_cmd, reduce_init)
    reduce = operation_name(reduce_op, ACCUMULATED)
    value, total = scalar_reduction(data, op0, operand0, reduce, bool(reverse0))
    if reduce_res_negate and reduce in LOGICAL:
        raise refusal(REDUCE_NEGATE, op="tensor_scalar_reduce", op0=reduce)
    start = None
    if reduce_init is not None:
        start = operand_value(scalar_or_vector(reduce_init, "reduce_init", data), FP32)
    rows = data.shape[0]
    run_command("tensor_scalar_reduce", reduce, total, rows, reduce_cmd, start)
    write(dst, result_tile(value, dst.root.dtype))
    if reduce_res is not None:
        held = tile_value(registers("tensor_scalar_reduce", rows), FP32)
        write_tile(reduce_res, ew.neg(held) if reduce_res_negate else held)


@nki_op("nisa.dst.iota")
def iota(
    dst: nki_tensor,
    pattern: Sequence[Sequence[int]],
    offset: int = 0,
    channel_multiplier: int = 0,
    name: str | None = None,
) -> None:
    """offset + channel_multiplier * partition + the sum of step * i over `pattern`, in `dst`.

    `pattern` has a [step, count] for each free dimension.
    """
    index = _position(require_tensor(dst, "dst"), pattern, offset, channel_multiplier)
    write(dst, isa.iota.nki_func(index, dst.dtype))


@nki_op("nisa.dst.affine_select")
def affine_select(
    dst: nki_tensor,
    pattern: Sequence[Sequence[int]],
    channel_multiplier: int,
    on_true_tile: nki_tensor,
    on_false_value: Any,
    cmp_op: Any = "equal",
    offset: int = 0,
    name: str | None = None,
) -> None:
    """`on_true_tile` where the value that `iota` would give compares so with 0, else a number."""
    index = _position(require_tensor(dst, "dst"), pattern, offset, channel_multiplier)
    compare = COMPARISONS[operation_name(cmp_op, COMPARISONS)]
    holds = compare(index)
    write(dst, isa.affine_select.nki_func(holds, on_true_tile, on_false_value, dtype=dst.dtype))


def _position(dst: nki_tensor, pattern: Any, offset: int, channel_multiplier: int) -> TileIndex:
    counts = [int(count) for _, count in pattern]
    if math.prod(counts) != math.prod(dst.shape[1:]):
        shapes = {"left": f"{list(dst.shape)} of dst", "right": f"[partitions, {counts}]"}
        raise refusal(SHAPE_MISMATCH, op=current_api(), **shapes)
    rank = len(counts) + 1
    total: Any = _along(0, dst.shape[0], rank) * channel_multiplier + offset
    for axis, (step, count) in enumerate(pattern, 1):
        total = total + _along(axis, int(count), rank) * int(step)
    return total


def _along(axis: int, extent: int, rank: int) -> Any:
    return arange(extent)[tuple(slice(None) if k == axis else None for k in range(rank))]


# ---------------------------------------------------------------------------- the names


def _named(table: dict[str, str], *, gives_tile: bool) -> dict[str, NKIFunc[..., Any]]:
    return {name: _dst_first(name, given, gives_tile=gives_tile) for name, given in table.items()}


__getattr__ = _absent.refusing(__name__, _absent.INSTRUCTIONS)
globals().update(_named(WRITES_RESULT, gives_tile=True))
globals().update(_named(TAKES_DST, gives_tile=False))
__all__ = [  # pyright: ignore[reportUnsupportedDunderAll]
    *WRITES_RESULT,
    *TAKES_DST,
    "VirtualRegister",
    "affine_select",
    "dge_mode",
    "dma_engine",
    "engine",
    "get_nc_version",
    "iota",
    "matmul_perf_mode",
    "memset",
    "nc_matmul",
    "nc_version",
    "oob_mode",
    "reduce_cmd",
    "register_alloc",
    "register_load",
    "register_move",
    "register_store",
    "tensor_scalar_reduce",
]
