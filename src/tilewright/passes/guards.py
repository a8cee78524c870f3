"""Checks of accesses that are not proven to stay inside: one per window, not one per element.

Only offsets that are data, or that the affine engine cannot bound, are checked. A window under a
mask that cannot be proven is checked element by element.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tilewright.ir.affine import Constraint, Expr, as_expr, implies, less, less_equal
from tilewright.ir.structure import Index, Indirect
from tilewright.ir.types import Dim, ScalarType, Shape, element_count
from tilewright.ops import loop
from tilewright.ops.extents import same_dim
from tilewright.ops.memory import load
from tilewright.ops.rules import valid_of
from tilewright.ops.shape import reshape, set_valid, slice_
from tilewright.ops.view import view
from tilewright.passes.groups import window
from tilewright.passes.nodes import Node
from tilewright.passes.traits import is_inside, is_whole_axis, shaped

if TYPE_CHECKING:
    from tilewright.passes.lowering import Lowering

Mask = tuple[Constraint, ...]

WRITE = -1
"""The number of the write of a node, where reads count from 0."""


def guard(lowering: Lowering, node: Node) -> None:
    """Emits the checks that the accesses of `node` need, at its place in the program."""
    structure, traits = node.structure, node.traits
    opdef = node.op.opdef if node.op is not None else None
    if opdef in (reshape, view):
        check_count(lowering, node)
    elif opdef in (load, slice_, set_valid):
        check_valid(lowering, node)
    if (traits.is_inside and node.dest is None) or 0 in structure.extents:
        return
    for number, read in enumerate(structure.reads):
        if isinstance(read.value.type, ScalarType):
            continue
        shape = shaped(read.value).shape
        if not is_inside(traits.extents, read.indices, shape):
            if read.mask:
                prove_masked(lowering, node, number, read.indices, read.mask, shape)
            else:
                check_window(lowering, node, number, read.indices, shape)
    if node.dest is not None:
        (write,) = structure.writes
        shape = shaped(node.dest).shape
        if not is_inside(traits.extents, write, shape):
            if structure.write_mask:
                prove_masked(lowering, node, WRITE, write, structure.write_mask, shape)
            else:
                check_window(lowering, node, WRITE, write, shape)


def check_count(lowering: Lowering, node: Node) -> None:
    """A reshape or view has the elements of its operand; where that is not plain, it is checked."""
    (read,) = node.structure.reads
    given, wanted = (
        element_count(each) for each in (shaped(read.value).shape, shaped(node.result).shape)
    )
    if same_dim(given, wanted) is None:
        loop.check_extent(lowering.scopes.index(wanted), lowering.scopes.index(given))


def check_valid(lowering: Lowering, node: Node) -> None:
    """No more elements are valid than there are; where that is not plain, the last is checked."""
    type_ = shaped(node.result)
    for axis, (used, extent) in enumerate(zip(valid_of(type_), type_.shape, strict=True)):
        claim = Constraint.less_equal(used, extent)
        if less_equal(used, extent) is not True and not holds(lowering, claim):
            some = lowering.scopes.condition([Constraint.less_equal(1, used)])
            last = lowering.scopes.index(as_expr(used) - 1)
            loop.check_index(last, lowering.scopes.index(extent), some, axis=axis)


def check_window(
    lowering: Lowering, node: Node, number: int, indices: Sequence[Index], shape: Shape
) -> None:
    """Checks the corners of a window where it may leave an array of `shape`."""
    for axis, (index, extent) in enumerate(zip(indices, shape, strict=True)):
        if isinstance(index, Indirect) or is_whole_axis(index, extent, node.traits.extents):
            continue
        found = window(node, (index,))
        if found is None:
            node.unproven += (number,)
            continue
        [(low, high)] = found
        corners: list[Expr] = []
        if less_equal(0, low) is not True and not holds(lowering, Constraint.less_equal(0, low)):
            corners.append(low)
        if less(high, extent) is not True and not holds(lowering, Constraint.less(high, extent)):
            corners += [high] if high not in corners else []
        for corner in corners:
            check(lowering, node, corner, extent, axis)


def holds(lowering: Lowering, claim: Constraint) -> bool:
    """True when `claim` follows from the bounds of the loops around."""
    return bool(lowering.facts) and implies(lowering.facts, claim)


def check(lowering: Lowering, node: Node, corner: Expr, extent: Dim, axis: int) -> None:
    """One check, skipped at run time where the domain is empty."""
    scopes = lowering.scopes
    dynamic = [each for each in node.structure.extents if not isinstance(each, int)]
    mask = scopes.condition([Constraint.less_equal(1, each) for each in dynamic])
    loop.check_index(scopes.index(corner), scopes.index(extent), mask, axis=axis)


def prove_masked(
    lowering: Lowering, node: Node, number: int, indices: Sequence[Index], mask: Mask, shape: Shape
) -> None:
    """Marks a masked access for checks by element unless its mask keeps it inside."""
    facts = [*mask, *domain_facts(node), *lowering.facts]
    for index, extent in zip(indices, shape, strict=True):
        if isinstance(index, Indirect) or is_whole_axis(index, extent, node.traits.extents):
            continue
        claims = Constraint.less_equal(0, index), Constraint.less(index, extent)
        if not all(implies(facts, claim) for claim in claims):
            node.unproven += (number,)
            return


def domain_facts(node: Node) -> list[Constraint]:
    """What holds at every point of the domain."""
    structure = node.structure
    facts: list[Constraint] = []
    for dim, extent in zip(structure.dims, structure.extents, strict=True):
        facts += [Constraint.less_equal(0, dim), Constraint.less(dim, extent)]
    return facts
