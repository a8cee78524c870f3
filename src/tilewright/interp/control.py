"""Control flow and calls as Python: loops, branches, scopes, lanes."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager

from tilewright.dtypes import INDEX
from tilewright.errors import InternalError
from tilewright.interp.emit import Emitter, handles, is_scalar_of, tuple_text
from tilewright.ir.core import Block, Operation, Value
from tilewright.ir.enums import ForKind
from tilewright.ops import control

PARALLEL = (ForKind.Parallel, ForKind.Spmd)
PAIRED = ("argmax", "argmin")


@handles(control.return_)
def emit_return(e: Emitter, op: Operation) -> None:
    """Values first, made the caller's own; then the finals go into the caller's memory."""
    values, finals = op.operands
    written = [e.name(param) for param in e.written_params()]
    params = [e.name(param) for param in e.function.params]
    given = e.text.fresh("r")
    e.text.line(f"{given} = returned({e.sequence(values)}, {tuple_text(params)})")
    if finals:
        e.text.line(f"finish({tuple_text(written)}, {e.sequence(finals)})")
    e.text.line(f"return {given}")


@handles(control.call)
def emit_function_call(e: Emitter, op: Operation) -> None:
    """The callee writes into the tied arguments, which are then their own new versions."""
    args: tuple[Value, ...] = op.operands[0]
    tied: tuple[int, ...] = op.attrs["tied_args"]
    names: list[str] = [e.handed(v) if k in tied else e.name(v) for k, v in enumerate(args)]
    for position in tied:
        if not names[position].isidentifier():
            copied = e.text.fresh()
            e.assign([copied], [names[position]])
            names[position] = copied
    values = e.define_all(op.results[: len(op.results) - len(tied)])
    function = e.text.constant(e.callees[op.attrs["callee"]], "call")
    e.text.line(f"{tuple_text(values)} = {function}({', '.join(names)})")
    for result, position in zip(op.results[len(values) :], tied):
        e.define(result, names[position])


@handles(control.scope)
def emit_scope(e: Emitter, op: Operation) -> None:
    """The region runs in place."""
    yields = e.block(op.regions[0])
    e.assign(e.define_all(op.results), yields)


@handles(control.if_)
def emit_if(e: Emitter, op: Operation) -> None:
    """A Python `if`; where the condition differs between lanes, both arms under masks."""
    cond = op.operands[0]
    if cond in e.varying:
        emit_masked_if(e, op, e.name(cond))
        return
    results = [e.text.fresh() for _ in op.results]
    for header, region in zip((f"if {e.name(cond)}:", "else:"), op.regions):
        with e.suite(header):
            e.assign(results, e.block(region))
    for value, name in zip(op.results, results):
        e.define(value, name)


@handles(control.for_)
def emit_for(e: Emitter, op: Operation) -> None:
    """A Python `for`; lanes loops run once on arrays."""
    if op.attrs["kind"] is ForKind.Lanes:
        emit_lanes(e, op)
        return
    low, high, step, inits = op.operands
    if e.varying.intersection((low, high, step)):
        raise InternalError("a loop inside a lanes loop has bounds that differ between lanes")
    index, *carried = op.regions[0].params
    carries = enter_loop(e, inits, op.results, carried)
    steps = f"steps({e.name(low)}, {e.name(high)}, {e.name(step)})"
    shuffles = e.mode.checked and op.attrs["kind"] in PARALLEL and not carried
    with e.suite(f"for {e.define(index)} in {f'shuffled({steps})' if shuffles else steps}:"):
        if not is_scalar_of(index, INDEX):
            scalar = e.text.constant(index.type.dtype.numpy.type)  # type: ignore[attr-defined]
            e.text.line(f"{e.name(index)} = {scalar}({e.name(index)})")
        e.assign(carries, e.block(op.regions[0]))


def enter_loop(
    e: Emitter, inits: Sequence[Value], results: Sequence[Value], *params: Sequence[Value]
) -> list[str]:
    """One variable per carried value: init, parameter, next value and result in turn."""
    carries = [e.text.fresh() for _ in inits]
    e.assign(carries, [e.handed(value) for value in inits])
    for values in (results, *params):
        for value, name in zip(values, carries, strict=True):
            e.define(value, name)
            if e.lanes:
                e.varying.add(value)
    return carries


@handles(control.while_)
def emit_while(e: Emitter, op: Operation) -> None:
    """`while True`, left in the middle."""
    test, body = op.regions
    carries = enter_loop(e, op.operands[0], op.results, test.params, body.params)
    with e.suite("while True:"):
        (going,) = e.block(test)
        if e.lanes and test.terminator.operands[0] in e.varying:
            emit_masked_iteration(e, body, carries, going)
            return
        e.text.line(f"if not {going}: break")
        e.assign(carries, e.block(body))


# ---------------------------------------------------------------------- lanes


def emit_lanes(e: Emitter, op: Operation) -> None:
    """The body once, its index an array; contributions combine in the fixed order."""
    if e.lanes:
        raise InternalError("a lanes loop stands inside another")
    low, high, _, inits = op.operands
    body = op.regions[0]
    index, *carried = body.params
    results = e.define_all(op.results)
    e.assign(results, [e.name(value) for value in inits])
    for param, name in zip(carried, results):
        e.define(param, name)
    e.lanes = e.text.fresh("n")
    e.varying = {index}
    e.text.line(f"{e.lanes} = max(0, {e.name(high)} - {e.name(low)})")
    with e.suite(f"if {e.lanes}:"):
        e.text.line(f"{e.define(index)} = lanes({e.name(low)}, {e.name(high)})")
        given = e.block(body)
        emit_folds(e, op.attrs["combine"], results, given)
    e.lanes, e.varying = "", set()


def emit_folds(e: Emitter, combine: Sequence[str], results: list[str], given: list[str]) -> None:
    """Each result combined with the contributions of all lanes."""
    position = 0
    while position < len(results):
        word, r, g = combine[position], results[position:], given[position:]
        if word in PAIRED:
            call = f"fold_arg({word!r}, {r[0]}, {r[1]}, {g[0]}, {g[1]}, {e.lanes})"
            e.text.line(f"{r[0]}, {r[1]} = {call}")
            position += 2
        else:
            e.text.line(f"{r[0]} = fold_lanes({word!r}, {r[0]}, {g[0]}, {e.lanes})")
            position += 1


@contextmanager
def masked(e: Emitter, mask: str) -> Generator[None]:
    """Memory is touched only where `mask` and every mask around it hold."""
    outer = e.mask
    e.mask = mask if outer is None else f"({outer} & {mask})"
    yield
    e.mask = outer


def emit_masked_if(e: Emitter, op: Operation, cond: str) -> None:
    """Both arms, each under its mask; the results are selected lane by lane."""
    arms: list[list[str]] = []
    for mask, region in zip((cond, f"~{cond}"), op.regions):
        with masked(e, mask):
            arms.append(e.block(region))
    for value, then, otherwise in zip(op.results, *arms):
        e.varying.add(value)
        e.text.line(f"{e.define(value)} = np.where({cond}, {then}, {otherwise})")


def emit_masked_iteration(e: Emitter, body: Block, carries: list[str], going: str) -> None:
    """One iteration of a while for the lanes that go on; the others keep what they have."""
    e.text.line(f"if not np.any({going}): break")
    with masked(e, going):
        given = e.block(body)
    e.assign(carries, [f"np.where({going}, {new}, {old})" for new, old in zip(given, carries)])
