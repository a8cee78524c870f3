"""What the words of cores and tasks become where everything runs in program order.

Block and lane indices are those of the loops around them, task ids are no task, and hints are gone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.dataclass import dataclass
from tilewright.dtypes import INT32, TASK_ID, DType
from tilewright.ir.builder import Builder
from tilewright.ir.core import Operation, Value
from tilewright.ir.enums import ForKind, SplitMode
from tilewright.ir.opdef import OpDef
from tilewright.ops import pipe, prefetch, sync, task
from tilewright.ops.cast import cast
from tilewright.ops.words import dtype_of


@dataclass(frozen=True)
class Around:
    """A loop over blocks or lanes: its kind, index and count."""

    kind: ForKind
    index: Value
    count: Value


Loops = tuple[Around, ...]
Replacement = Callable[[Operation, Loops], "Value | None"]
REPLACED: dict[OpDef[..., Any], Replacement] = {}
"""By op: the value that stands for its result; None where it has none that anybody uses."""

BLOCKS = (ForKind.Spmd, ForKind.SplitAiv)


def replaces(*opdefs: OpDef[..., Any]) -> Callable[[Replacement], Replacement]:
    """Registers what stands for the operations of `opdefs`."""

    def register(rule: Replacement) -> Replacement:
        REPLACED.update(dict.fromkeys(opdefs, rule))
        return rule

    return register


def constant(value: int, dtype: DType) -> Value:
    """A constant through the current builder."""
    return Builder.current().constant(value, dtype)


def innermost(loops: Loops, kind: ForKind) -> Around | None:
    """The innermost loop of a kind, or None."""
    return next((around for around in reversed(loops) if around.kind is kind), None)


def as_index(value: Value) -> Value:
    """An integer scalar as INDEX."""
    index = Builder.current().index(0).type
    return value if value.type == index else cast(value, dtype=dtype_of(Builder.current().index(0)))


@replaces(task.current, task.invalid, task.dummy)
def no_task(op: Operation, loops: Loops) -> Value:
    """Tasks run in order, so an id carries nothing."""
    return constant(task.NO_TASK, TASK_ID)


@replaces(task.block_index)
def block_index(op: Operation, loops: Loops) -> Value:
    """The index of the loop over blocks."""
    around = innermost(loops, ForKind.Spmd)
    return Builder.current().index(0) if around is None else around.index


@replaces(task.block_count)
def block_count(op: Operation, loops: Loops) -> Value:
    """The end of the loop over blocks."""
    around = innermost(loops, ForKind.Spmd)
    return Builder.current().index(1) if around is None else as_index(around.count)


@replaces(task.lane_index)
def lane_index(op: Operation, loops: Loops) -> Value:
    """The index of the loop over lanes."""
    around = innermost(loops, ForKind.SplitAiv)
    return Builder.current().index(0) if around is None else around.index


@replaces(task.cluster_count)
def cluster_count(op: Operation, loops: Loops) -> Value:
    """A number of the machine."""
    return Builder.current().index(task.CLUSTERS)


@replaces(task.vector_count)
def vector_count(op: Operation, loops: Loops) -> Value:
    """A number of the machine."""
    return Builder.current().index(task.CLUSTERS * task.LANES)


@replaces(pipe.reserve, pipe.import_peer, prefetch.wait)
def no_address(op: Operation, loops: Loops) -> Value:
    """Buffers of pipes have the address that they ask for, and prefetches are done at once."""
    return constant(max(op.attrs.get("base", 0), 0), INT32)


@replaces(
    prefetch.context,
    prefetch.start,
    prefetch.session,
    sync.set_ffts_,
    sync.invalidate,
)
def nothing(op: Operation, loops: Loops) -> None:
    """Hints for the device."""


def crossing(op: Operation, value: Callable[[Value], Value]) -> Value | None:
    """What stands for a gather of lanes that keeps the shape: the lane's own value."""
    if op.opdef is not pipe.gather or op.attrs["mode"] is not SplitMode.NONE:
        return None
    return value(op.operands[0])
