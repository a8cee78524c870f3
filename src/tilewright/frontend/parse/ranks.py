"""Where the words of ranks may stand: on the host, which starts ranks, or in what runs on one."""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.dtypes import FP32
from tilewright.errors import ParserSyntaxError, ParserTypeError, TilewrightError
from tilewright.ir.core import Block, Operation
from tilewright.ir.enums import CORES, FunctionType, Level
from tilewright.ir.types import ShapedType
from tilewright.ops import collective, comm
from tilewright.ops.control import LOOPS

DEVICE_LEVELS = (Level.AIV, Level.AIC, Level.CORE_GROUP, Level.CHIP_DIE, Level.CHIP)
EXCHANGES = (collective.allgather, collective.all_to_all)
SIGNAL_HINT = "Pass a window of pl.INT32 signals, [ranks, core_num]."


def misplaced(block: Block, kind: FunctionType, level: Level | None) -> Iterator[TilewrightError]:
    """What the words of ranks in a function of this type and level may not say there."""
    if kind in CORES or level in DEVICE_LEVELS:
        for op in block.walk():
            if op.opdef is comm.world_size:
                yield ParserSyntaxError(
                    "pld.world_size() is for HOST functions; this one runs on a device",
                    op.span,
                    "Ask a window instead: pld.nranks(pld.get_comm_ctx(window)).",
                )
            elif _lacks_signal(op):
                yield ParserSyntaxError(
                    "allreduce without a signal is for HOST functions; this one runs on a device",
                    op.span,
                    SIGNAL_HINT,
                )
    elif level is not None:
        yield from _misplaced_on_a_host(block, in_loop=False)


def _lacks_signal(op: Operation) -> bool:
    return op.opdef is collective.allreduce and op.operands[1] is None


def _misplaced_on_a_host(block: Block, *, in_loop: bool) -> Iterator[TilewrightError]:
    for op in block.ops:
        if in_loop and _lacks_signal(op):
            yield ParserSyntaxError(
                "allreduce without a signal stands in a loop, where none can be made for it",
                op.span,
                SIGNAL_HINT,
            )
        is_ring = op.opdef is collective.allreduce and op.attrs["mode"] == "ring"
        if is_ring or op.opdef in EXCHANGES:
            yield from _require_floats(op)
        for region in op.regions:
            yield from _misplaced_on_a_host(region, in_loop=in_loop or op.opdef in LOOPS)


def _require_floats(op: Operation) -> Iterator[TilewrightError]:
    type_ = op.results[0].type
    assert isinstance(type_, ShapedType)
    if type_.dtype is not FP32:
        name = op.name.rpartition(".")[2]
        yield ParserTypeError(
            f"{name}: target holds {type_.dtype}; a HOST function exchanges FP32",
            op.span,
            "Use it inside an InCore function, or a window of pl.FP32.",
        )
