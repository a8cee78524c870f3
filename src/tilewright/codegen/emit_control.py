"""Loops, branches and faults of scalar code, and the same under masks where lanes differ."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager

from tilewright.abi import CTX, FAULT_VALUES, Fault
from tilewright.codegen.emit_faults import faulting, leave
from tilewright.codegen.emit_lanes import emit_lanes, write_lanes
from tilewright.codegen.emit_meeting import emit_crew
from tilewright.codegen.emit_parallel import (
    CellEmitter,
    call_nest,
    is_long,
    is_outlined,
    run_cells,
)
from tilewright.codegen.emit_transpose import emit_exchange
from tilewright.codegen.emitter import HANDLERS, Emitter, dtype_name, emits, vector_type
from tilewright.codegen.flat_rows import find_flat_rows
from tilewright.codegen.index import Num
from tilewright.codegen.operands import LANES, Const, Linear, Operand, Uniform, Varying
from tilewright.codegen.words import cast, register_type, word
from tilewright.codegen.work import estimate_loop, estimate_one, may_last
from tilewright.ir.core import Block, Operation, Value
from tilewright.ir.enums import ForKind
from tilewright.ops import control, loop

MASK = f"<{LANES} x i1>"
POLLED_DEPTH = 2


@emits(control.return_)
def emit_return(e: Emitter, op: Operation) -> None:
    """Success."""
    e.succeed()


@emits(control.scope)
def emit_scope(e: Emitter, op: Operation) -> None:
    """The region runs in place."""
    terminator = e.block(op.regions[0])
    for result, value in zip(op.results, terminator.operands[0], strict=True):
        e.define(result, e.values[value])


# ---------------------------------------------------------------------- registers that cross blocks


def flatten(e: Emitter, values: Sequence[Value]) -> list[str]:
    """The registers of scalar values, or of all their copies in a lanes loop."""
    if e.lanes is None:
        return [e.scalar(value) for value in values]
    return [ref for value in values for ref in e.vectors(value)]


def flat_types(e: Emitter, values: Sequence[Value]) -> list[str]:
    """The types of `flatten`."""
    if e.lanes is None:
        return [register_type(dtype_name(value), 1) for value in values]
    return [vector_type(value) for value in values for _ in range(e.lanes.copies)]


def define_flat(e: Emitter, values: Sequence[Value], refs: Sequence[str]) -> None:
    """Gives `values` the registers of `flatten`."""
    copies = 1 if e.lanes is None else e.lanes.copies
    for k, value in enumerate(values):
        own = tuple(refs[k * copies : (k + 1) * copies])
        e.define(value, Uniform(own[0]) if e.lanes is None else Varying(own))


# ---------------------------------------------------------------------- for


@emits(control.for_)
def emit_for(e: Emitter, op: Operation) -> None:
    """A counted loop of any kind, in place or as a function that serves others like it."""
    if op in e.shared.repeats.nests and may_leave(e, op):
        call_nest(e, lambda nest: write_for(nest, op))
    else:
        write_for(e, op)


def may_leave(e: Emitter, op: Operation) -> bool:
    """Whether a nest may be a function: inside of one, nothing is shared with other threads."""
    if e.lanes is not None:
        return False
    return isinstance(e, CellEmitter) or not is_long(estimate_one(op))


def write_for(e: Emitter, op: Operation) -> None:
    """A counted loop in place."""
    if op.attrs["kind"] is ForKind.Lanes:
        emit_lanes(e, op)
        return
    if op.attrs["kind"] is ForKind.Together:
        low, high = map(e.num, op.operands[:2])
        emit_crew(e, op, low, e.index.sub(high, low))
        return
    if emit_exchange(e, op) or emit_flat_rows(e, op):
        return
    if is_outlined(e, op):
        emit_parallel(e, op)
        return
    low, high, step, inits = op.operands
    counter, *carried = op.regions[0].params
    carries = list(zip(flat_types(e, inits), flatten(e, inits), strict=True))
    start, stride = e.num(low), e.num(step)
    count_high, count_step, direct = loop_bounds(e, op, start, e.num(high), stride)
    with e.text.loop(start if direct else 0, count_high, count_step, carries) as state:
        e.dims.append({})
        position: Num = state.counter
        if not direct:
            position = e.index.add(start, e.index.mul(state.counter, stride))
        define_counter(e, counter, position)
        define_flat(e, carried, state.carries)
        poll_cancel(e, op)
        e.depth += 1
        terminator = e.block(op.regions[0])
        e.depth -= 1
        state.following = flatten(e, terminator.operands[0])
        e.dims.pop()
    define_flat(e, op.results, state.carries)


def emit_flat_rows(e: Emitter, op: Operation) -> bool:
    """Writes short rows that lie end to end as one row; False where a loop is not that."""
    flat = find_flat_rows(op) if e.lanes is None else None
    if flat is None or not flat.are_dense(e):
        return False
    body = op.regions[0]
    poll_cancel(e, op)
    e.dims.append({})
    e.define(body.params[0], Const(0, dtype_name(body.params[0])))
    for each in body.ops[:-1]:
        if each is not flat.lanes:
            HANDLERS[each.opdef](e, each)
    rows = e.index.maximum(e.num(op.operands[1]), 0)
    write_lanes(e, flat.lanes, 0, e.index.mul(rows, flat.width), estimate_loop(op))
    e.dims.pop()
    return True


def emit_parallel(e: Emitter, op: Operation) -> None:
    """A parallel loop that may be shared: its iterations, counted from zero, as cells."""
    low, high, step = op.operands[:3]
    start, stride = e.num(low), e.num(step)
    end, size, direct = loop_bounds(e, op, start, e.num(high), stride)
    count = end
    if direct:
        distance = e.index.sub(end, start)
        count = e.index.floordiv(e.index.add(distance, e.index.sub(size, 1)), size)
    count = e.index.maximum(count, 0)

    def write(cell: CellEmitter, number: Num) -> None:
        scaled = cell.index.mul(number, cell.capture_num(stride))
        position = cell.index.add(cell.capture_num(start), scaled)
        cell.dims.append({})
        define_counter(cell, op.regions[0].params[0], position)
        poll_cancel(cell, op)
        cell.depth += 1
        cell.block(op.regions[0])
        cell.depth -= 1
        cell.dims.pop()

    run_cells(e, count, estimate_loop(op), write)


def loop_bounds(e: Emitter, op: Operation, low: Num, high: Num, step: Num) -> tuple[Num, Num, bool]:
    """(end, step, whether the counter is the loop variable): positive steps count directly."""
    if isinstance(step, int) and step > 0:
        return high, step, True
    if isinstance(step, int):
        distance = e.index.sub(low, high)
        return e.index.floordiv(e.index.add(distance, -step - 1), -step), 1, False
    return count_steps(e, op, low, high, step), 1, False


def count_steps(e: Emitter, op: Operation, low: Num, high: Num, step: str) -> str:
    """The iterations of a loop whose step is known at run time, or a fault where that is 0.

    The distance between any two bounds fits 64 bits without a sign.
    """
    text = e.text
    with faulting(e, text.let(f"icmp eq i64 {step}, 0")):
        leave(e, op, Fault.ZERO_STEP, ["0"] * FAULT_VALUES)
    up = text.let(f"icmp sgt i64 {step}, 0")
    first = text.let(f"select i1 {up}, i64 {low}, i64 {high}")
    last = text.let(f"select i1 {up}, i64 {high}, i64 {low}")
    size = text.let(f"select i1 {up}, i64 {step}, i64 {text.let(f'sub i64 0, {step}')}")
    inner = text.let(f"sub i64 {text.let(f'sub i64 {last}, {first}')}, 1")
    count = text.let(f"add i64 {text.let(f'udiv i64 {inner}, {size}')}, 1")
    return text.let(f"select i1 {text.let(f'icmp slt i64 {first}, {last}')}, i64 {count}, i64 0")


def define_counter(e: Emitter, counter: Value, position: Num) -> None:
    """The loop variable, in its own integer type."""
    dtype = dtype_name(counter)
    ref = cast(e.text, "INDEX", dtype, "rint", 1, str(position))
    e.define(counter, Uniform(ref))


def poll_cancel(e: Emitter, op: Operation) -> None:
    """Leave if somebody asked to: in outer loops that hold loops, and in all that may last."""
    if e.lanes is not None:
        return
    holds = any(inner.regions or inner.opdef is loop.matmul for inner in op.regions[0].ops)
    if (holds and e.depth < POLLED_DEPTH) or may_last(op):
        poll_now(e)


def poll_now(e: Emitter) -> None:
    """Ask what to do if the cancel word is set."""
    flag = e.text.let("load atomic i32, ptr %cancel monotonic, align 4")
    ask, stop, go = e.text.label(), e.text.label(), e.text.label()
    e.text.branch(e.text.let(f"icmp ne i32 {flag}, 0"), ask, go)
    e.text.start(ask)
    place = e.text.let(f"getelementptr i8, ptr %ctx, i64 {CTX['attend'].offset}")
    attend = e.text.let(f"load ptr, ptr {place}, align 8")
    status = e.text.let(f"call i32 {attend}(ptr %ctx) cold")
    e.text.branch(e.text.let(f"icmp ne i32 {status}, 0"), stop, go)
    e.text.start(stop)
    e.text.do(f"ret i32 {status}")
    e.text.start(go)


# ---------------------------------------------------------------------- if


@emits(control.if_)
def emit_if(e: Emitter, op: Operation) -> None:
    """A branch where all lanes agree, else both arms under masks."""
    (cond,) = op.operands
    if not e.is_uniform(cond):
        emit_masked_if(e, op, e.vectors(cond))
        return
    text = e.text
    arms = [text.label(), text.label()]
    after = text.label()
    text.branch(e.scalar(cond), *arms)
    ends: list[tuple[str, list[str]]] = []
    for label, region in zip(arms, op.regions, strict=True):
        text.start(label)
        terminator = e.block(region)
        refs = flatten(e, terminator.operands[0])
        ends.append((text.block, refs))
        text.jump(after)
    text.start(after)
    merge(e, op.results, ends)


def merge(e: Emitter, results: Sequence[Value], ends: list[tuple[str, list[str]]]) -> None:
    """The results of a branch, from whichever arm ran."""
    refs: list[str] = []
    for k, kind in enumerate(flat_types(e, results)):
        parts = ", ".join(f"[{arm[k]}, %{block}]" for block, arm in ends)
        refs.append(e.text.let(f"phi {kind} {parts}"))
    define_flat(e, results, refs)


def emit_masked_if(e: Emitter, op: Operation, cond: tuple[str, ...]) -> None:
    """Both arms, each for its lanes; results are chosen lane by lane."""
    inverse = tuple(e.text.let(f"xor {MASK} {ref}, splat (i1 true)") for ref in cond)
    arms: list[list[tuple[str, ...]]] = []
    for mask, region in zip((cond, inverse), op.regions, strict=True):
        with masked(e, mask):
            terminator = e.block(region)
            arms.append([e.vectors(value) for value in terminator.operands[0]])
    for k, result in enumerate(op.results):
        dtype = dtype_name(result)
        chosen = [
            word(e.text, "select", dtype, LANES, *refs)
            for refs in zip(cond, arms[0][k], arms[1][k], strict=True)
        ]
        e.define(result, Varying(tuple(chosen)))


@contextmanager
def masked(e: Emitter, mask: tuple[str, ...]) -> Generator[None]:
    """Memory is touched only by lanes where `mask` holds."""
    lanes = e.lane_state
    outer, guarded = lanes.masks, lanes.guarded
    lanes.masks = [
        e.text.let(f"and {MASK} {a}, {m}") if a else m for a, m in zip(outer, mask, strict=True)
    ]
    lanes.guarded = True
    yield
    lanes.masks, lanes.guarded = outer, guarded


# ---------------------------------------------------------------------- while


@emits(control.while_)
def emit_while(e: Emitter, op: Operation) -> None:
    """Repeat while the test holds; in lanes, for those where it does."""
    (inits,) = op.operands
    test, body = op.regions
    text = e.text
    head, inside, after = text.label(), text.label(), text.label()
    kinds, starts = flat_types(e, inits), flatten(e, inits)
    names = [text.fresh() for _ in kinds]
    before = text.block
    text.jump(head)
    text.start(head)
    place = len(text.lines)
    if e.lanes is None:
        poll_now(e)
    define_flat(e, test.params, names)
    going = e.block(test).operands[0]
    define_flat(e, op.results, names)
    if e.lanes is None or e.is_uniform(going):
        text.branch(e.scalar(going), inside, after)
        text.start(inside)
        define_flat(e, body.params, names)
        following = flatten(e, e.block(body).operands[0])
    else:
        following = masked_iteration(e, body, names, going, (inside, after))
    text.jump(head)
    phis = [
        f"{name} = phi {kind} [{start}, %{before}], [{value}, %{text.block}]"
        for name, kind, start, value in zip(names, kinds, starts, following, strict=True)
    ]
    text.lines[place:place] = phis
    text.start(after)


def masked_iteration(
    e: Emitter, body: Block, names: list[str], going: Value, labels: tuple[str, str]
) -> list[str]:
    """One iteration for the lanes that go on; the others keep what they have."""
    text = e.text
    active = [
        text.let(f"and {MASK} {a}, {m}") if a else m
        for a, m in zip(e.lane_state.masks, e.vectors(going), strict=True)
    ]
    total = active[0]
    for mask in active[1:]:
        total = text.let(f"or {MASK} {total}, {mask}")
    some = text.let(f"call i1 @llvm.vector.reduce.or.v{LANES}i1({MASK} {total})")
    text.branch(some, *labels)
    text.start(labels[0])
    define_flat(e, body.params, names)
    with masked(e, tuple(active)):
        given = flatten(e, e.block(body).operands[0])
    kinds = flat_types(e, body.params)
    copies = e.lane_state.copies
    return [
        text.let(f"select {MASK} {active[k % copies]}, {kind} {new}, {kind} {old}")
        for k, (kind, new, old) in enumerate(zip(kinds, given, names, strict=True))
    ]


# ---------------------------------------------------------------------- faults


@emits(loop.check_index)
def emit_check(e: Emitter, op: Operation) -> None:
    """A fault where an index leaves [0, bound)."""
    index, bound, mask = op.operands
    if e.lanes is None:
        check_scalar(e, op, e.num(index), e.num(bound), mask)
        define_checked(e, op, index)
        return
    wide = widened(e, index)
    limits = [not_negative(e, limit) for limit in widened(e, bound)]
    masks = [*e.lane_state.masks]
    own = None if mask is None else e.vectors(mask)
    for copy, (ref, limit) in enumerate(zip(wide, limits, strict=True)):
        bad = e.text.let(f"icmp uge <{LANES} x i64> {ref}, {limit}")
        for other in (masks[copy], own[copy] if own else ""):
            bad = e.text.let(f"and {MASK} {bad}, {other}") if other else bad
        some = e.text.let(f"call i1 @llvm.vector.reduce.or.v{LANES}i1({MASK} {bad})")
        with faulting(e, some):
            bits = e.text.let(f"bitcast {MASK} {bad} to i{LANES}")
            first = e.text.let(f"call i{LANES} @llvm.cttz.i{LANES}(i{LANES} {bits}, i1 true)")
            given = e.text.let(f"extractelement <{LANES} x i64> {ref}, i{LANES} {first}")
            end = e.text.let(f"extractelement <{LANES} x i64> {limit}, i{LANES} {first}")
            report(e, op, given, end)
    define_checked(e, op, index)


@emits(loop.check_extent)
def emit_check_extent(e: Emitter, op: Operation) -> None:
    """A fault where two numbers differ."""
    given, wanted = map(e.num, op.operands)
    with faulting(e, e.text.let(f"icmp ne i64 {given}, {wanted}")):
        leave(e, op, Fault.SHAPE_MISMATCH, (str(given), str(wanted), "0", "0"))


def widened(e: Emitter, value: Value) -> list[str]:
    """An integer as vectors of i64."""
    dtype = dtype_name(value)
    return [cast(e.text, dtype, "INDEX", "rint", LANES, ref) for ref in e.vectors(value)]


def define_checked(e: Emitter, op: Operation, index: Value) -> None:
    """The result: the index itself as INDEX."""
    operand: Operand = e.operand(index)
    target, dtype = dtype_name(op.result), dtype_name(index)
    if isinstance(operand, (Linear, Const)):
        e.define(op.result, operand)
    elif isinstance(operand, Uniform):
        e.define(op.result, Uniform(cast(e.text, dtype, target, "rint", 1, operand.ref)))
    else:
        refs = tuple(cast(e.text, dtype, target, "rint", LANES, ref) for ref in operand.refs)
        e.define(op.result, Varying(refs))


def not_negative(e: Emitter, limit: str) -> str:
    """A vector of bounds, with 0 for negative ones: nothing is inside of those either."""
    kind = f"<{LANES} x i64>"
    if not limit.startswith("%"):
        return limit
    return e.text.let(f"call {kind} @llvm.smax.v{LANES}i64({kind} {limit}, {kind} splat (i64 0))")


def check_scalar(e: Emitter, op: Operation, index: Num, bound: Num, mask: Value | None) -> None:
    """The check of one index; one unsigned comparison covers both ends."""
    bad = e.text.let(f"icmp uge i64 {index}, {e.index.maximum(bound, 0)}")
    if mask is not None:
        bad = e.text.let(f"and i1 {bad}, {e.scalar(mask)}")
    with faulting(e, bad):
        report(e, op, str(index), str(bound))


def report(e: Emitter, op: Operation, index: str, bound: str) -> None:
    """An index out of bounds."""
    leave(e, op, Fault.INDEX_OUT_OF_BOUNDS, (index, "0", bound, str(op.attrs["axis"])))
