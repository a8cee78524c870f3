"""Everything that `pl` and `pld` hold besides operations, by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import FunctionType
from typing import Any

import tilewright.frontend as room
from tilewright import dtypes
from tilewright.frontend import annotations as A
from tilewright.frontend import words
from tilewright.frontend.evaluator import runs_at_compile_time
from tilewright.frontend.surface import (
    LoopWord,
    OpNamespace,
    ScopeWord,
    Word,
    register_names,
)
from tilewright.ir import enums
from tilewright.ir.hints import CrossCoreSlot, Optimization, Split, cross_core_slot, split
from tilewright.ir.types import HandleType, MemRef

ENUMS: dict[str, Any] = {
    "AtomicType": enums.AtomicType,
    "CompactMode": enums.CompactMode,
    "ForKind": enums.ForKind,
    "FunctionType": enums.FunctionType,
    "Level": enums.Level,
    "MaskPattern": enums.MaskPattern,
    "Mem": enums.MemorySpace,
    "MemorySpace": enums.MemorySpace,
    "PadValue": enums.PadValue,
    "ParamDirection": enums.ParamDirection,
    "PipeType": enums.PipeType,
    "Role": enums.Role,
    "Rounding": enums.Rounding,
    "ScopeMode": enums.ScopeMode,
    "SplitMode": enums.SplitMode,
    "TensorLayout": enums.TensorLayout,
    "TileLayout": enums.TileLayout,
}
LAYOUTS: dict[str, Any] = {layout.name: layout for layout in enums.TensorLayout}
DTYPES: dict[str, Any] = {dtype.name: dtype for dtype in dtypes.ALL}
TYPES: dict[str, Any] = {
    "Tensor": A.Tensor,
    "Tile": A.Tile,
    "Scalar": A.Scalar,
    "Array": A.Array,
    "Tuple": A.Tuple,
    "Buffer": A.Buffer,
    "Ptr": A.Ptr,
    "Out": A.Out,
    "InOut": A.InOut,
    "MemRef": MemRef,
    "TensorView": A.tensor_view,
    "TileView": A.tile_view,
    "DynVar": A.DynVar,
    "TaskId": A.Scalar[dtypes.TASK_ID],
    "dynamic": A.dynamic,
}
DISTRIBUTED_ENUMS: dict[str, Any] = {
    "NotifyOp": enums.NotifyOp,
    "WaitCmp": enums.WaitCmp,
    "ReduceOp": enums.ReduceOp,
    "AtomicType": enums.AtomicType,
}
HINTS: dict[str, Any] = {
    "Optimization": Optimization,
    "Split": Split,
    "CrossCoreSlot": CrossCoreSlot,
    "split": split,
    "cross_core_slot": cross_core_slot,
}
HEADS: dict[str, type[Word]] = {
    **dict.fromkeys(("RangeIterator", "SpmdContext", "SplitAivContext"), LoopWord),
    **dict.fromkeys(("AtContext", "ClusterContext"), ScopeWord),
    "WhileIterator": Word,
}
"""Classes of the words that head a loop or a scope, under the names that annotations use."""
HANDLES = ("PrefetchAsyncContext", "AsyncEvent", "AsyncSession")
AUTO = -1
"""The base of a reserved buffer that the compiler places."""


CORE_WORDS = (*words.BLOCK_WORDS, *words.LANE_WORDS)
TENSOR_WORDS = (*words.BLOCK_WORDS, words.NO_DEP, words.DUMP_TAG)
PATTERNS = {"MaskPattern": enums.MaskPattern}


def _words() -> dict[str, Any]:
    return _named((*words.LOOPS, *words.SCOPES, *words.OTHERS, *CORE_WORDS))


def _loop_words() -> dict[str, Any]:
    return {"lanes": words.LANES, "together": words.TOGETHER}


def _named(given: tuple[Word, ...]) -> dict[str, Any]:
    return {word.path.rpartition(".")[2]: word for word in given}


PL: dict[str, Any] = {
    **ENUMS,
    **LAYOUTS,
    **DTYPES,
    **TYPES,
    **HINTS,
    **HEADS,
    **_words(),
    "AUTO": AUTO,
    "loop": OpNamespace("pl.loop", _loop_words()),
    "op": OpNamespace("pl.op"),
    "tile": OpNamespace("pl.tile", {**_named(CORE_WORDS), **PATTERNS}),
    "tensor": OpNamespace("pl.tensor", {**_named(TENSOR_WORDS), **PATTERNS}),
    **{name: HandleType(name) for name in HANDLES},
}
PLD: dict[str, Any] = {
    **DISTRIBUTED_ENUMS,
    "DistributedTensor": A.DistributedTensor,
    "CommCtx": A.CommCtx,
}

LATE: Mapping[str, str] = {
    "function": "decorators",
    "inline": "decorators",
    "program": "decorators",
}
"""What else `pl` holds, with the module that is imported when the name is first wanted."""

runs_at_compile_time(A.tensor_view, A.tile_view, A.dynamic, MemRef, split, cross_core_slot)
register_names("pl", lambda: (*PL, *LATE))
register_names("pld", lambda: PLD)


def late_word(name: str) -> Any:
    """The word of LATE that is called so."""
    return getattr(getattr(room, LATE[name]), name)


def late_path(value: Any) -> str | None:
    """The path of a word of LATE, or None; imports nothing."""
    if not isinstance(value, FunctionType):
        return None
    home = f"{room.__name__}.{LATE.get(value.__name__)}"
    return f"pl.{value.__name__}" if value.__module__ == home else None


def pl_namespace() -> OpNamespace:
    """`pl` as an object, for texts that are read without importing the module."""
    return OpNamespace("pl", PL | {name: late_word(name) for name in LATE})


def pld_namespace() -> OpNamespace:
    """`pld` as an object."""
    return OpNamespace("pld", PLD)
