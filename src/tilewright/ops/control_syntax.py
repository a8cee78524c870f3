"""Statement syntax of control flow, scopes, calls and returns."""

from __future__ import annotations

from typing import Any

from tilewright.ir.core import Block, Operation, Value
from tilewright.ir.enums import ForKind
from tilewright.ir.printing import Printer
from tilewright.ops import control, task


def _tuple(texts: list[str]) -> str:
    return f"({texts[0]},)" if len(texts) == 1 else f"({', '.join(texts)})"


def _constant(value: Value) -> Any:
    op = value.op
    return op.attrs["value"] if op is not None and op.name == "arith.const" else None


def _bounds(op: Operation, out: Printer) -> str:
    lo, hi, step = op.operands[:3]
    if _constant(step) != 1:
        return ", ".join(map(out.value, (lo, hi, step)))
    return out.value(hi) if _constant(lo) == 0 else f"{out.value(lo)}, {out.value(hi)}"


def _options(pairs: Any, out: Printer) -> str:
    return "".join(f", {name}={out.entry(given)}" for name, given in pairs)


LOWERED = (ForKind.Lanes, ForKind.Together)
"""Kinds of loops that have no word of the author's."""


@control.for_.prints
def print_for(op: Operation, out: Printer, deps: tuple[Value, ...] = ()) -> None:
    """`for i, (x,) in pl.range(lo, hi, step, init_values=(x0,)):`"""
    kind: ForKind = op.attrs["kind"]
    arguments = _bounds(op, out)
    if op.attrs["stage"]:
        arguments += f", stage={op.attrs['stage']}"
    if op.attrs["combine"]:
        arguments += f", combine={out.attr(op.attrs['combine'])}"
    arguments += _options(op.attrs["attrs"], out)
    if deps:
        arguments += f", deps={out.entry(deps)}"
    inits = [out.value(value) for value in op.operands[3]]
    body = op.regions[0]
    header = [out.names.define(param) for param in body.params]
    if inits:
        arguments += f", init_values={_tuple(inits)}"
        target = f"{header[0]}, {_tuple(header[1:])}"
    else:
        target = header[0]
    home = f"{out.prefix}.loop" if kind in LOWERED else out.prefix
    out.line(f"for {target} in {home}.{kind.value}({arguments}):")
    print_region(body, op.results, out)


@control.while_.prints
def print_while(op: Operation, out: Printer) -> None:
    """`for (x,) in pl.while_(init_values=(x0,)):`, then `pl.cond(...)`."""
    inits = [out.value(value) for value in op.operands[0]]
    before, body = op.regions
    header = [out.names.define(param) for param in before.params]
    for param, name in zip(body.params, header, strict=True):
        out.names.alias(param, name)
    given = f"init_values={_tuple(inits)}" if inits else ""
    target = _tuple(header) if header else "_"
    out.line(f"for {target} in {out.prefix}.while_({given}):")
    with out.indented():
        out.body(before)
    print_region(body, op.results, out)


@control.condition.prints
def print_condition(op: Operation, out: Printer) -> None:
    """`pl.cond(...)`"""
    out.line(f"{out.prefix}.cond({out.value(op.operands[0])})")


@control.if_.prints
def print_if(op: Operation, out: Printer) -> None:
    """`if cond:` and, unless it is empty, `else:`."""
    out.line(f"if {out.value(op.operands[0])}:")
    then, otherwise = op.regions
    names = [out.names.fresh(value.name or "t") for value in op.results]
    _print_arm(then, names, out)
    if len(otherwise.ops) > 1 or names:
        out.line("else:")
        _print_arm(otherwise, names, out)
    for value, name in zip(op.results, names, strict=True):
        out.names.alias(value, name)


def _print_arm(block: Block, names: list[str], out: Printer) -> None:
    _print_block(block, names, out)


def _print_block(block: Block, names: list[str], out: Printer) -> None:
    """An indented block whose yield names its results; the enclosing block's names wait."""
    saved, out.yield_names = out.yield_names, names
    with out.indented():
        out.body(block)
    out.yield_names = saved


def print_region(block: Block, results: tuple[Value, ...], out: Printer) -> None:
    """The body of a loop; its last statement names the results."""
    names = [out.names.fresh(value.name or "t") for value in results]
    _print_block(block, names, out)
    for value, name in zip(results, names, strict=True):
        out.names.alias(value, name)


@control.yield_.prints
def print_yield(op: Operation, out: Printer) -> None:
    """`a, b = pl.yield_(x, y)`; nothing when nothing is yielded."""
    names = out.yield_names
    values = op.operands[0]
    if names:
        texts = ", ".join(map(out.value, values))
        out.line(f"{', '.join(names)} = {out.prefix}.yield_({texts})")


@control.return_.prints
def print_return(op: Operation, out: Printer) -> None:
    """`return a, b`; nothing when nothing is returned."""
    values = op.operands[0]
    if values:
        out.line(f"return {', '.join(map(out.value, values))}")


@control.scope.prints
def print_scope(op: Operation, out: Printer) -> None:
    """`with pl.at(level=...):`; names bound inside stay visible after it."""
    if op.attrs["kind"] in TASKS:
        TASKS[op.attrs["kind"]](op, out)
        return
    pairs = [*op.attrs["attrs"]]
    if op.operands[0]:
        pairs.append(("deps", op.operands[0]))
    arguments = _options(pairs, out)[2:]
    body = op.regions[0]
    first = body.ops[0]
    name = f" as {out.names.define(first.result)}" if first.opdef is task.current else ""
    out.line(f"with {out.prefix}.{op.attrs['kind']}({arguments}){name}:")
    _print_block(body, [], out)
    for value, inner in zip(op.results, body.terminator.operands[0], strict=True):
        out.names.alias(value, out.value(inner))


@control.call.prints
def print_call(op: Operation, out: Printer) -> None:
    """`y = self.f(a, b)`; arguments written by the callee keep their names."""
    receiver = f"{out.receiver}." if out.receiver else ""
    args: tuple[Value, ...] = op.operands[0]
    texts = [out.value(value) for value in args]
    options = [pair for pair in op.attrs["attrs"] if pair[0] not in MARKS]
    arguments = ", ".join(marked(op, texts, out)) + _options(options, out)
    count = len(op.attrs["result_types"])
    out.assign(op.results[:count], f"{receiver}{op.attrs['callee']}({arguments.lstrip(', ')})")
    for value, position in zip(op.results[count:], op.attrs["tied_args"], strict=True):
        out.names.alias(value, texts[int(position)])


# ------------------------------------------------------------------------------------------ tasks

MARKS = ("no_dep", "dump_tag")
"""Attributes of a call that mark arguments by position."""


def marked(op: Operation, texts: list[str], out: Printer) -> list[str]:
    """The arguments of a call under their marks."""
    shown = list(texts)
    for name, positions in op.attrs["attrs"]:
        for position in positions if name in MARKS else ():
            shown[position] = f"{out.prefix}.{name}({shown[position]})"
    return shown


@task.current.prints
def print_current(op: Operation, out: Printer) -> None:
    """Nothing: the scope says `as tid`."""


def print_submit(op: Operation, out: Printer) -> None:
    """`y, tid = pl.submit(self.f, a, b, deps=[...])`."""
    body = op.regions[0]
    inner = {each.opdef: each for each in body.walk()}
    call = inner[control.call]
    loop, branch = inner.get(control.for_), inner.get(control.if_)
    options: list[tuple[str, Any]] = [*op.attrs["attrs"]]
    args = list(call.operands[0])
    if loop is not None:
        options.insert(0, ("core_num", loop.operands[1]))
        carried = dict(zip(loop.regions[0].params[1:], loop.operands[3], strict=True))
        args = [carried.get(value, value) for value in args]
    if branch is not None:
        options.append(("predicate", branch.operands[0]))
    if op.operands[0]:
        options.append(("deps", op.operands[0]))
    texts = [out.value(value) for value in args]
    receiver = f"{out.receiver}." if out.receiver else ""
    listed = ", ".join([f"{receiver}{call.attrs['callee']}", *marked(call, texts, out)])
    word = "submit" if loop is None else "spmd_submit"
    count, tied = len(call.attrs["result_types"]), call.attrs["tied_args"]
    *given, current = op.results
    names = [out.names.define(value) for value in (*given[:count], current)]
    text = f"{out.prefix}.{word}({listed}{_options(options, out)})"
    out.line(f"{', '.join(names)} = {text}")
    for value, position in zip(given[count:], tied, strict=True):
        out.names.alias(value, texts[int(position)])


def print_task(op: Operation, out: Printer) -> None:
    """`for i in pl.spmd(n, deps=[...]):`, or `with pl.spmd(n, deps=[...]) as tid:`."""
    first, loop, *_ = op.regions[0].ops
    if len(op.results) > len(loop.results):
        print_named_blocks(op, first, loop, out)
    else:
        print_for(loop, out, op.operands[0])
    inner = op.regions[0].terminator.operands[0]
    for value, given in zip(op.results, inner, strict=True):
        out.names.alias(value, out.value(given))


def print_named_blocks(op: Operation, first: Operation, loop: Operation, out: Printer) -> None:
    """`with pl.spmd(n) as tid:`; its blocks ask for their index, which has no name."""
    index, *_ = loop.regions[0].params
    out.names.alias(index, f"{out.prefix}.get_block_idx()")
    arguments = _bounds(loop, out) + _options(loop.attrs["attrs"], out)
    if op.operands[0]:
        arguments += f", deps={out.entry(op.operands[0])}"
    out.line(f"with {out.prefix}.spmd({arguments}) as {out.names.define(first.result)}:")
    for param, init in zip(loop.regions[0].params[1:], loop.operands[3], strict=True):
        out.names.alias(param, out.value(init))
    _print_block(loop.regions[0], [], out)
    for value, init in zip(loop.results, loop.operands[3], strict=True):
        out.names.alias(value, out.value(init))


TASKS: dict[str, Any] = {"submit": print_submit, "task": print_task}
