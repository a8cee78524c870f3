"""Drop operations whose results nobody uses, and loops and branches that do nothing.

`prune` changes a block that is still under construction.
"""

from __future__ import annotations

from tilewright.ir.core import Block, Operation, Value
from tilewright.ir.enums import Effect
from tilewright.ops import control


def prune(block: Block) -> None:
    """Drops what has no effect on memory and is not used."""
    _prune(block, set())


def _prune(block: Block, used: set[Value]) -> bool:
    """True when something that is kept has an effect; adds the values that it uses to `used`."""
    kept: list[Operation] = []
    has_effect = False
    for op in reversed(block.ops):
        effect = _has_effect(op, used)
        if effect or op.opdef.terminator or not used.isdisjoint(op.results):
            kept.append(op)
            used.update(op.inputs)
            has_effect = has_effect or effect
    block.ops[:] = reversed(kept)
    return has_effect


def _has_effect(op: Operation, used: set[Value]) -> bool:
    if not op.regions:
        return op.opdef.effect >= Effect.WRITE
    effects = [_prune(region, used) for region in op.regions]
    return any(effects) or op.opdef is control.while_
