"""Do the iterations of a loop write different elements? What parallel loops rely on.

Memory of the caller is trusted to be written as the author promises, unless each iteration plainly
writes the same place; scratch memory must be proven to be written apart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.ir.affine import Symbol, as_expr, coefficient, less, substitute, symbols
from tilewright.ir.core import Value
from tilewright.ops import control
from tilewright.ops.control import LOOPS
from tilewright.passes.groups import Window, write_window
from tilewright.passes.nodes import Node
from tilewright.passes.traits import Kind

if TYPE_CHECKING:
    from tilewright.passes.lowering import Lowering


def writes_apart(
    lowering: Lowering, last: Value, first: Value, index: Symbol, *, is_global: bool
) -> bool:
    """True when different values of `index` write different elements between two versions."""
    nodes = writes_between(lowering, last, first)
    if nodes is None:
        return False
    windows = [write_window(node) for node in nodes]
    if is_global:
        return all(window is None or depends_on(window, index) for window in windows)
    return all(window is not None and steps_over(window, index) for window in windows)


def writes_between(lowering: Lowering, last: Value, first: Value) -> list[Node] | None:
    """The writes that turn version `first` into `last`; None when other operations do."""
    found: list[Node] = []
    while last is not first:
        op = last.op
        if op is None:
            return None
        position = op.results.index(last)
        if op.opdef in LOOPS:
            body = op.regions[-1]
            given = body.terminator.operands[0]
            param = body.params[len(body.params) - len(given) + position]
            inner = writes_between(lowering, given[position], param)
            if inner is None:
                return None
            found += inner
            last = op.operands[-1][position]
        elif op.opdef is control.if_:
            arms = [region.terminator.operands[0][position] for region in op.regions]
            inners = [writes_between(lowering, arm, first) for arm in arms]
            known = [inner for inner in inners if inner is not None]
            return [*found, *known[0], *known[1]] if len(known) == len(inners) else None
        else:
            node = lowering.nodes.get(last)
            if node is None or node.kind is not Kind.WRITE or node.dest is None:
                return None
            found.append(node)
            last = node.dest
    return found


def depends_on(window: Window, index: Symbol) -> bool:
    """True when the window moves with `index`."""
    return any(index in (*symbols(low), *symbols(high)) for low, high in window)


def steps_over(window: Window, index: Symbol) -> bool:
    """True when on some axis the window of a greater `index` starts after this one ends."""
    following = {index: as_expr(index) + 1}
    for low, high in window:
        step = coefficient(low, index)
        if isinstance(step, int) and step > 0 and less(high, substitute(low, following)) is True:
            return True
    return False
