"""Lowering of loops and branches: carried tensors live in memory, scalars stay values.

A carried tensor has one buffer for all iterations: that of its initial value when nobody else
reads it, else a copy. What an iteration yields is put there before the next one begins.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.dataclass import dataclass
from tilewright.errors import StaleRead, UnsupportedFeatureError
from tilewright.ir.affine import Constraint, Symbol
from tilewright.ir.core import Block, Operation, Value
from tilewright.ir.enums import ForKind
from tilewright.ir.opdef import ties_of
from tilewright.ir.types import ScalarType, TileType
from tilewright.ops import control
from tilewright.ops.extents import constant_of, expr_of, last_index
from tilewright.passes import crews
from tilewright.passes.blocks import end_block, flush, lower_block, lowers
from tilewright.passes.contract import turn_operands
from tilewright.passes.deferrals import Deferrals
from tilewright.passes.independence import writes_apart
from tilewright.passes.lowering import Lowering, is_window
from tilewright.passes.meetings import settle
from tilewright.passes.plan import Target, tied_root
from tilewright.passes.storage import Storage
from tilewright.passes.traits import Kind, direct_reads

KINDS = {ForKind.Spmd: ForKind.Parallel, ForKind.Parallel: ForKind.Parallel}
"""Kinds of loops below tiles; every other kind is sequential."""


@dataclass(frozen=True, slots=True)
class Carry:
    """A value that a region takes over: `storage` is where a tensor lives, None for a scalar.

    A tensor that every iteration gives back as it is may share its memory with other values.
    """

    init: Value
    storage: Storage | None
    is_unchanged: bool = False


def is_scalar(value: Value) -> bool:
    """True for values that stay values."""
    return isinstance(value.type, ScalarType)


# ---------------------------------------------------------------------- loops


@lowers(control.for_)
def lower_for(lowering: Lowering, op: Operation) -> None:
    """A counted loop."""
    *bounds, inits = op.operands
    (body,) = op.regions
    if op in lowering.turns:
        turn_operands(lowering, op)
    carries = take_carries(lowering, op, inits, [body.params[1:]])
    give_range(body.params[0], bounds)
    index = Value(body.params[0].type, body.params[0].name)
    facts = bounds_of(body.params[0], bounds)
    crew = enter_crew(lowering, op)
    lowering.facts += facts
    region, copied = lower_body(lowering, body, carries, index)
    del lowering.facts[len(lowering.facts) - len(facts) :]
    attrs = {**op.attrs, "kind": kind_of_loop(lowering, op, carries, copied), "combine": ()}
    if attrs["kind"] is not op.attrs["kind"]:
        attrs["attrs"] = ()  # options of the kind that it was
    if crew is not None:
        leave_crew(lowering, op, carries, copied)
        attrs.update(kind=ForKind.Together, attrs=(("crew", crew),))
    scalars = tuple(lowering.scalar(c.init) for c in carries if c.storage is None)
    operands = (*map(lowering.scalar, bounds), scalars)
    new = lowering.builder.emit(op.opdef, operands, attrs, (region,), span=op.span)
    bind_results(lowering, op, carries, new)


@lowers(control.while_)
def lower_while(lowering: Lowering, op: Operation) -> None:
    """A conditional loop."""
    (inits,) = op.operands
    test, body = op.regions
    settle_regions(lowering, op)
    carries = take_carries(lowering, op, inits, [test.params, body.params])
    first = Block(scalar_params(test.params))
    with lowering.scopes.inside(first):
        bind_params(lowering, test.params, carries, first.params)
        lower_block(lowering, test, is_loop=True)
        end_block(lowering)
        control.condition(lowering.scalar(test.terminator.operands[0]))
    second, _ = lower_body(lowering, body, carries)
    scalars = tuple(lowering.scalar(c.init) for c in carries if c.storage is None)
    new = lowering.builder.emit(op.opdef, (scalars,), op.attrs, (first, second), span=op.span)
    bind_results(lowering, op, carries, new)


def enter_crew(lowering: Lowering, op: Operation) -> str | None:
    """What the iterations of a loop are called if they run at the same time; makes their memory."""
    if not lowering.is_watched:
        return None
    (body,) = op.regions
    settle_regions(lowering, op)
    name = crews.crew_name(op)
    if name is not None:
        lowering.crews.append(crews.make_crew(lowering, op, name, body.params[0].symbol))
        lowering.deferrals.append(Deferrals(len(lowering.scopes.stack)))
        flush(lowering)
    return name


def leave_crew(
    lowering: Lowering, op: Operation, carries: Sequence[Carry], is_copied: bool
) -> None:
    """Raises UnsupportedFeatureError where the iterations do more than write what they share."""
    lowering.crews.pop()
    lowering.deferrals.pop()
    if is_copied or any(carry.storage is None for carry in carries):
        raise UnsupportedFeatureError(
            "blocks that wait for each other write parts of a tensor; one of them replaces it",
            op.span,
            "Write with pl.store or out[a:b] = value instead of binding a new value.",
        )


def kind_of_loop(
    lowering: Lowering, op: Operation, carries: Sequence[Carry], is_copied: bool
) -> ForKind:
    """Parallel only where each iteration writes its own part of what is carried."""
    kind = KINDS.get(op.attrs["kind"], ForKind.Sequential)
    (body,) = op.regions
    if is_copied or (lowering.is_watched and crews.communicates(body)):
        return ForKind.Sequential
    index, *params = body.params
    for carry, param, last in zip(carries, params, body.terminator.operands[0], strict=True):
        if kind is ForKind.Sequential or carry.storage is None:
            return ForKind.Sequential
        is_global = carry.storage.is_global
        if not writes_apart(lowering, last, param, index.symbol, is_global=is_global):
            return ForKind.Sequential
    return kind


def give_range(index: Value, bounds: Sequence[Value]) -> None:
    """Lets the symbol of a loop variable know its bounds."""
    step = constant_of(bounds[2])
    if index.has_symbol or not isinstance(step, int) or step < 1:
        return
    low, high = expr_of(bounds[0]), expr_of(bounds[1])
    index.bind_symbol(Symbol(index.name or "i", low, last_index(low, high, step)))


def bounds_of(index: Value, bounds: Sequence[Value]) -> list[Constraint]:
    """What is known of a loop variable that counts up."""
    step = constant_of(bounds[2])
    if not isinstance(step, int) or step < 1:
        return []
    low, high = expr_of(bounds[0]), expr_of(bounds[1])
    return [Constraint.less_equal(low, index.symbol), Constraint.less(index.symbol, high)]


def take_carries(
    lowering: Lowering,
    op: Operation,
    inits: Sequence[Value],
    params: Sequence[Sequence[Value]],
) -> list[Carry]:
    """Memory for each carried tensor, holding its initial value."""
    inside = [value for region in op.regions for inner in region.walk() for value in inner.inputs]
    for value in dict.fromkeys(inside):
        convert_once(lowering, value)
    flush(lowering)
    counts: dict[Value, int] = {}
    for value in (*inits, *inside):
        counts[value] = counts.get(value, 0) + 1
    yields = op.regions[-1].terminator.operands[0]
    carries: list[Carry] = []
    for position, init in enumerate(inits):
        if is_scalar(init):
            carries.append(Carry(init, None))
            continue
        unchanged = yields[position] is params[-1][position]
        single = counts[init] == 1
        through = is_version_of(yields[position], params[-1][position])
        storage = carried_storage(lowering, init, single, unchanged, through)
        shared = unchanged and storage is lowering.stored.get(init)
        carries.append(Carry(init, storage, shared))
    flush(lowering)
    return carries


def convert_once(lowering: Lowering, value: Value) -> None:
    """Has a converted tile in memory before a loop that reads it again and again."""
    while value not in lowering.stored:
        node = lowering.nodes.get(value)
        if node is None or node.kind is not Kind.FREE or not direct_reads(node.structure):
            return
        if not node.is_move and isinstance(value.type, TileType):
            lowering.force(value)
            return
        value = direct_reads(node.structure)[0].value


def is_version_of(value: Value, base: Value) -> bool:
    """True when `value` is `base` after writes, so that writing it writes `base`."""
    while value is not base:
        op = value.op
        if op is None:
            return False
        position = op.results.index(value)
        if op.opdef.tied:
            value = dict(ties_of(op))[value]
        elif op.opdef in (control.for_, control.while_):
            value = op.operands[-1][position]
        elif op.opdef is control.if_:
            arms = (region.terminator.operands[0][position] for region in op.regions)
            return any(is_version_of(arm, base) for arm in arms)
        else:
            return False
    return True


def carried_storage(
    lowering: Lowering, init: Value, is_single: bool, is_unchanged: bool, is_through: bool
) -> Storage:
    """The memory of one carried tensor; a carry that is no chain of writes has its own."""
    storage = lowering.stored.get(init)
    if storage is None:
        return lowering.copy_of(init)
    if is_unchanged:
        return storage
    if is_window(init):
        lowering.keep_views(storage, in_regions=True)
        return storage
    shared = lowering.is_shared(storage, init)
    if is_single and not shared and storage.is_written and lowering.plan.owns(init):
        lowering.keep_views(storage, in_regions=True)
        return storage
    if storage.is_blank:
        return lowering.allocate_blank(init)
    if storage.is_global and storage.is_written and is_through:
        raise StaleRead(
            f"{init.name or 'a tensor'} is read while a loop overwrites it",
            lowering.plan.span,
            hint="read the version that the loop carries",
        )
    return lowering.copy_of(init)


def scalar_params(params: Sequence[Value]) -> tuple[Value, ...]:
    """Fresh parameters for the scalars among `params`."""
    return tuple(Value(param.type, param.name) for param in params if is_scalar(param))


def bind_params(
    lowering: Lowering, params: Sequence[Value], carries: Sequence[Carry], news: Sequence[Value]
) -> None:
    """Says what the carried parameters of a region are, in the innermost scope."""
    scalars = iter(news)
    for param, carry in zip(params, carries, strict=True):
        if carry.storage is None:
            lowering.define_scalar(param, next(scalars))
        else:
            place(lowering, param, carry)


def lower_body(
    lowering: Lowering, body: Block, carries: Sequence[Carry], index: Value | None = None
) -> tuple[Block, bool]:
    """The body of a loop, and whether a carried tensor is replaced rather than written into."""
    first = () if index is None else (index,)
    carried = body.params[len(first) :]
    region = Block((*first, *scalar_params(carried)))
    with lowering.scopes.inside(region):
        if index is not None:
            index.bind_symbol(body.params[0].symbol)
            lowering.define_scalar(body.params[0], index)
        bind_params(lowering, carried, carries, region.params[len(first) :])
        storages = [carry.storage for carry in carries]
        targets = targets_of(body, storages, carried)
        lower_block(lowering, body, targets, is_loop=True)
        copied = assign_all(lowering, body.terminator.operands[0], storages)
        end_block(lowering)
        if lowering.deferrals[-1].depth == len(lowering.scopes.stack) - 1:
            lowering.deferrals[-1].settle(lowering.scopes)
        emit_yield(lowering, body)
    return region, copied


def targets_of(
    block: Block, storages: Sequence[Storage | None], versions: Sequence[Value | None]
) -> dict[Value, Target]:
    """Where the values that a block yields end up."""
    targets: dict[Value, Target] = {}
    given = block.terminator.operands[0]
    for value, storage, version in zip(given, storages, versions, strict=True):
        if storage is not None:
            targets.setdefault(value, Target(storage, version))
    return targets


def emit_yield(lowering: Lowering, block: Block) -> None:
    """Yields the scalars that `block` yields."""
    given = block.terminator.operands[0]
    control.yield_(tuple(lowering.scalar(value) for value in given if is_scalar(value)))


def assign_all(
    lowering: Lowering, values: Sequence[Value], storages: Sequence[Storage | None]
) -> bool:
    """Brings each yielded tensor to its storage, all at once; False when all are there already."""
    pairs = [
        (value, storage)
        for value, storage in zip(values, storages, strict=True)
        if storage is not None and lowering.storage_of(value) is not storage
    ]
    targets = [storage for _, storage in pairs]
    for value, own in pairs:
        leaf = lowering.resolve(value, None)
        if leaf is None or leaf.storage is None or leaf.storage is own:
            continue
        if leaf.storage in targets or leaf.storage in storages:
            lowering.detach(value)
    for value, storage in pairs:
        lowering.keep_views(storage)
        lowering.assign(storage, value)
    return bool(pairs)


def bind_results(
    lowering: Lowering, op: Operation, carries: Sequence[Carry], new: Operation
) -> None:
    """Says what the results of a loop are."""
    scalars = iter(new.results)
    for old, carry in zip(op.results, carries, strict=True):
        if carry.storage is None:
            lowering.define_scalar(old, next(scalars))
        else:
            place(lowering, old, carry)


def place(lowering: Lowering, value: Value, carry: Carry) -> None:
    """`value` is what the memory of a carried tensor holds."""
    assert carry.storage is not None
    if carry.is_unchanged:
        lowering.hold(value, carry.storage)
    else:
        lowering.replace(value, carry.storage)


# ---------------------------------------------------------------------- branches


def settle_regions(lowering: Lowering, op: Operation) -> None:
    """What is evaluated late is read before regions in which others may go on."""
    if lowering.is_watched and any(map(crews.communicates, op.regions)):
        settle(lowering, in_regions=True)


@lowers(control.if_)
def lower_if(lowering: Lowering, op: Operation) -> None:
    """A branch."""
    flush(lowering)
    settle_regions(lowering, op)
    storages, versions = branch_storages(lowering, op)
    flush(lowering)
    regions = tuple(lower_arm(lowering, region, storages, versions) for region in op.regions)
    cond = lowering.scalar(op.operands[0])
    new = lowering.builder.emit(op.opdef, (cond,), op.attrs, regions, span=op.span)
    scalars = iter(new.results)
    for old, storage in zip(op.results, storages, strict=True):
        if storage is None:
            lowering.define_scalar(old, next(scalars))
        else:
            lowering.replace(old, storage)


def lower_arm(
    lowering: Lowering,
    arm: Block,
    storages: Sequence[Storage | None],
    versions: Sequence[Value | None],
) -> Block:
    """One arm; its tensors end in `storages`, which hold `versions` before it."""
    region = Block()
    with lowering.scopes.inside(region):
        lower_block(lowering, arm, targets_of(arm, storages, versions))
        assign_all(lowering, arm.terminator.operands[0], storages)
        end_block(lowering)
        emit_yield(lowering, arm)
    return region


def branch_storages(
    lowering: Lowering, op: Operation
) -> tuple[list[Storage | None], list[Value | None]]:
    """Memory for each tensor that a branch gives, and the version that it holds before.

    It is that of the version which an arm writes, or else fresh.
    """
    found: list[Storage | None] = []
    versions: list[Value | None] = []
    for position, result in enumerate(op.results):
        version = None if is_scalar(result) else inherited(lowering, op, position, found)
        storage = None if version is None else lowering.stored[version]
        if storage is None and not is_scalar(result):
            storage = lowering.allocate_for(result)
        if storage is not None:
            lowering.keep_views(storage, in_regions=True)
        found.append(storage)
        versions.append(version)
    return found, versions


def inherited(
    lowering: Lowering, op: Operation, position: int, taken: Sequence[Storage | None]
) -> Value | None:
    """The outer version that an arm writes in place, or gives back unchanged."""
    for region in op.regions:
        root = origin(region.terminator.operands[0][position])
        storage = lowering.stored.get(root)
        if (
            storage is not None
            and storage not in taken
            and storage.is_written
            and (is_window(root) or lowering.may_take(storage, root))
        ):
            return root
    return None


def origin(value: Value) -> Value:
    """The version that a chain of writes started from, in branches, too, where it is one."""
    root = tied_root(value)
    if root.op is None or root.op.opdef is not control.if_:
        return root
    position = root.op.results.index(root)
    roots = {origin(arm.terminator.operands[0][position]) for arm in root.op.regions}
    return roots.pop() if len(roots) == 1 else root
