"""Where operations may stand: an orchestration places work, it does none itself."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from tilewright.errors import PartialCodegenError, TilewrightError
from tilewright.ir.core import Block, Function, Operation
from tilewright.ir.enums import ForKind
from tilewright.ir.opdef import OPS, OpDef
from tilewright.ops import control, memory

_FAMILIES = frozenset({"elementwise", "reduce", "matmul", "scan", "gather", "sort"})
_TASKS = frozenset({ForKind.Spmd, ForKind.SplitAiv})
_PLACES = frozenset({"at", "cluster", "spmd", "split_aiv"})


@cache
def _core_operations() -> frozenset[OpDef[..., Any]]:
    """The operations that only a core can do."""
    families = (op for name, op in OPS.items() if name.partition(".")[0] in _FAMILIES)
    return frozenset({*families, memory.load, memory.store})


def require_placed(function: Function) -> None:
    """Raises PartialCodegenError for operations of an orchestration outside any InCore scope."""
    misplaced = list(find_misplaced(function.body))
    if not misplaced:
        return
    first, *others = (_error(function, op) for op in misplaced)
    first.also.extend(others)
    raise first


def find_misplaced(block: Block) -> Iterator[Operation]:
    """Operations that need a core and stand in no scope that gives them one."""
    for op in block.ops:
        if op.opdef in _core_operations():
            yield op
        if not _is_place(op):
            for region in op.regions:
                yield from find_misplaced(region)


def _is_place(op: Operation) -> bool:
    if op.opdef is control.scope:
        return op.attrs["kind"] in _PLACES
    return op.opdef is control.for_ and op.attrs["kind"] in _TASKS


def _error(function: Function, op: Operation) -> TilewrightError:
    word = op.name.rpartition(".")[2]
    return PartialCodegenError(
        f"Misplaced tensor op '{word}' in function '{function.name}': it should be inside InCore "
        "block",
        op.span,
        "Put it in 'with pl.at(level=pl.Level.CORE_GROUP):'.",
    )
