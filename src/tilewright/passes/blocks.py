"""Lowering of one block: operations in order, groups emitted where something needs memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tilewright.errors import TilewrightError, UnsupportedFeatureError
from tilewright.ir.core import Block, Operation, Value
from tilewright.ir.opdef import OpDef
from tilewright.ir.structure import Structure
from tilewright.ir.types import ScalarType, TensorType
from tilewright.ops import arith, shape
from tilewright.ops import cast as casting
from tilewright.passes.elements import Elements
from tilewright.passes.guards import guard
from tilewright.passes.lowering import Lowering, is_window
from tilewright.passes.nests import Nest
from tilewright.passes.nodes import Node, is_conversion, is_covering, make_node
from tilewright.passes.order import in_order
from tilewright.passes.parts import parts
from tilewright.passes.plan import Plan, Target, previous_version, tied_root
from tilewright.passes.scans import ScanNest, is_scan
from tilewright.passes.traits import Kind, direct_reads

FREE_COST = 3
"""Scalar words of a value made from nothing (a fill, an iota) that is never put in memory."""

DEEPEST = 32
"""Rearrangements of rearrangements that are looked through; the next one is put in memory."""

SCALAR_WORDS: set[OpDef[..., Any]] = {
    word for room in (arith, casting) for word in vars(room).values() if isinstance(word, OpDef)
}

Handler = Callable[[Lowering, Operation], None]
HANDLERS: dict[OpDef[..., Any], Handler] = {}
"""Operations that are not lowered by their structure (filled by the modules that lower them)."""


def lowers(*opdefs: OpDef[..., Any]) -> Callable[[Handler], Handler]:
    """Registers how the operations of `opdefs` are lowered."""

    def register(handler: Handler) -> Handler:
        HANDLERS.update(dict.fromkeys(opdefs, handler))
        return handler

    return register


def lower_block(
    lowering: Lowering,
    block: Block,
    targets: Mapping[Value, Target] | None = None,
    *,
    is_loop: bool = False,
) -> None:
    """The operations of `block`, in the innermost scope; its terminator is left to the caller.

    `targets` says where values end up. On return the plan of the block is still the current one:
    `end_block` closes it.
    """
    outer = lowering.plans[-1] if lowering.plans else None
    nodes = find_nodes(lowering, block)
    ops = in_order(block, nodes)
    plan = Plan(block, ops, outer, is_loop)
    lowering.plans.append(plan)
    extend_uses(plan, nodes)
    for value, target in (targets or {}).items():
        plan.targets.setdefault(first_version(value, nodes, plan), target)
    try:
        for plan.position, op in enumerate(ops):
            plan.span = lowering.builder.span = op.span
            if not op.opdef.terminator:
                lower_operation(lowering, op, nodes.get(op))
    except TilewrightError as error:
        error.locate(plan.span)
        raise


def first_version(value: Value, nodes: Mapping[Operation, Node], plan: Plan) -> Value:
    """The value that ends up where `value` is: before writes in place and whole replacements.

    A version that is read after the next one exists stays out of the way of it.
    """
    while True:
        before = replaced(value, nodes)
        if before is None or value.op is None or plan.outlives(before, value.op):
            return value
        value = before


def replaced(value: Value, nodes: Mapping[Operation, Node]) -> Value | None:
    """What the operation of `value` changes in place or moves as a whole, if that is all."""
    node = nodes.get(value.op) if value.op is not None else None
    if node is not None and node.op is not None and node.kind is Kind.FREE and node.is_move:
        return node.structure.reads[0].value if node.op.opdef.tied else None
    return previous_version(value)


def end_block(lowering: Lowering) -> None:
    """Emits what is left of the current block and closes its plan."""
    lowering.plan.position += 1
    flush(lowering)
    for undo in reversed(lowering.plan.undo):
        undo()
    lowering.plans.pop()


def find_nodes(lowering: Lowering, block: Block) -> dict[Operation, Node]:
    """The nodes of the operations of a block."""
    nodes: dict[Operation, Node] = {}
    computed: set[Value] = set()
    depths: dict[Value, int] = {}
    for position, op in enumerate(block.ops[:-1]):
        structure = structure_of(op)
        if structure is None or is_window_part(op):
            continue
        node = nodes[op] = make_node(op, structure, op.results[0], position)
        if is_covering(node) and not is_seen_outside(lowering, op.results[0]):
            node.kind, node.dest = Kind.POINT, None
        if may_be_free(node, computed) and may_be_deeper(node, depths):
            node.kind = Kind.FREE
            node.is_view = True
            if any(read.value in computed for read in direct_reads(structure)):
                computed.add(node.result)
        elif node.kind is not Kind.WRITE:
            computed.add(node.result)
    return nodes


def is_window_part(op: Operation) -> bool:
    """True for a part of a window, which is that memory itself under another name."""
    return op.opdef is shape.slice_ and is_window(op.result)


def is_seen_outside(lowering: Lowering, version: Value) -> bool:
    """True when somebody else may look at the memory that a write gives a new version of."""
    if is_window(version) or tied_root(version) in lowering.globals:
        return True
    return lowering.is_watched and isinstance(version.type, TensorType)


def extend_uses(plan: Plan, nodes: Mapping[Operation, Node]) -> None:
    """Counts uses through rearrangements."""
    for op in reversed(plan.ops[:-1]):
        node = nodes.get(op)
        if node is not None and node.kind is Kind.FREE:
            for value in op.inputs:
                plan.extend(value, node.result)


def structure_of(op: Operation) -> Structure | None:
    """The structure of an operation, or None when it has none."""
    if op.opdef.loops is None:
        return None
    if len(op.results) != 1:
        raise UnsupportedFeatureError(
            f"{op.name} gives {len(op.results)} results; a structure says how one comes about",
            op.span,
            "Give each result an operation of its own, and publish a macro that calls them.",
        )
    try:
        return op.opdef.loops(*op.operands, **op.attrs)
    except TilewrightError as error:
        error.locate(op.span)
        raise


def may_be_free(node: Node, computed: set[Value]) -> bool:
    """True for rearrangements, fills, and conversions of what is in memory."""
    traits, structure = node.traits, node.structure
    if len(traits.direct) > 1 or node.kind is not Kind.POINT:
        return False
    if structure.write_mask or not traits.is_identity:
        return False
    if not traits.direct:
        return traits.body.cost <= FREE_COST
    [(number, indices)] = traits.direct
    if indices is None:
        return False
    return node.is_move or (
        is_conversion(node.op) and structure.reads[number].value not in computed
    )


def may_be_deeper(node: Node, depths: dict[Value, int]) -> bool:
    """True when what `node` rearranges is not too deep already; `depths` has those before it."""
    sources = [read.value for read in direct_reads(node.structure)]
    depth = depths[node.result] = 1 + max((depths.get(each, 0) for each in sources), default=0)
    return depth % DEEPEST > 0


def lower_operation(lowering: Lowering, op: Operation, node: Node | None) -> None:
    """One operation that is not a terminator."""
    is_shared = node is not None and lowering.has_remote and is_remote(lowering, node)
    if is_shared:
        flush(lowering)
    if node is None:
        HANDLERS.get(op.opdef, lower_scalar)(lowering, op)
    elif isinstance(node.result.type, ScalarType):
        read_scalar(lowering, node)
    elif node.kind is Kind.WRITE:
        lowering.write(node)
    else:
        lowering.compute(node)
    if node is not None and is_shared:
        finish_now(lowering, node)


def is_remote(lowering: Lowering, node: Node) -> bool:
    """True when a node reads or writes memory that may have another name here."""
    values = [read.value for read in direct_reads(node.structure)]
    storages = map(lowering.storage_of, [*values, node.dest] if node.dest else values)
    return any(storage is not None and storage.is_remote for storage in storages)


def finish_now(lowering: Lowering, node: Node) -> None:
    """Has what a node reads and writes in memory before anything else."""
    if node.kind is not Kind.WRITE and not isinstance(node.result.type, ScalarType):
        lowering.force(node.result)
    flush(lowering)


def lower_scalar(lowering: Lowering, op: Operation) -> None:
    """A scalar word: copied."""
    if op.opdef not in SCALAR_WORDS:
        raise UnsupportedFeatureError(f"{op.name} cannot be compiled yet", op.span)
    operands = tuple(entry if entry is None else lowering.scalar(entry) for entry in op.operands)
    new = lowering.builder.emit(op.opdef, operands, op.attrs, span=op.span)
    for old, copy in zip(op.results, new.results, strict=True):
        lowering.define_scalar(old, copy)


def read_scalar(lowering: Lowering, node: Node) -> None:
    """A scalar read from memory."""
    for leaf in lowering.find_leaves(node):
        is_written = leaf.storage is not None and leaf.storage.writers.latest >= 0
        if leaf.producer is not None or is_written:
            flush(lowering)
            break
    guard(lowering, node)
    elements = Elements(lowering, lowering.scopes.current)
    (scalar,) = elements.contributions(node, {})
    lowering.define_scalar(node.result, scalar)


def flush(lowering: Lowering) -> None:
    """Emits the open groups. Values used by the current operation or later go to memory."""
    groups = lowering.segment.groups
    needed: dict[int, set[Node]] = {}
    for group in groups:
        needed[group.index] = {node for node in group.nodes if needs_buffer(lowering, node)}
    for group in groups:
        if is_scan(group.nodes[0]):
            ScanNest(lowering, group).emit()
        else:
            for nodes in parts(group, lowering.plan.targets):
                Nest(lowering, group, nodes, needed[group.index]).emit()
    lowering.segment.clear()


def needs_buffer(lowering: Lowering, node: Node) -> bool:
    """True when somebody outside of its group reads the result of `node` from memory."""
    if node.kind is Kind.WRITE:
        return False
    for consumer in node.consumers:
        if consumer.group is not node.group:
            return True
    return node.forced or lowering.plan.is_needed(node.result)
