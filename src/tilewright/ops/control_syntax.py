"""Statement syntax of control flow, scopes, calls and returns."""

from __future__ import annotations

from typing import Any

from tilewright.ir.core import Block, Operation, Value
from tilewright.ir.enums import ForKind
from tilewright.ir.printing import Printer
from tilewright.ops import control


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


@control.for_.prints
def print_for(op: Operation, out: Printer) -> None:
    """`for i, (x,) in pl.range(lo, hi, step, init_values=(x0,)):`"""
    kind: ForKind = op.attrs["kind"]
    arguments = _bounds(op, out)
    if op.attrs["stage"]:
        arguments += f", stage={op.attrs['stage']}"
    if op.attrs["combine"]:
        arguments += f", combine={out.attr(op.attrs['combine'])}"
    arguments += _options(op.attrs["attrs"], out)
    inits = [out.value(value) for value in op.operands[3]]
    body = op.regions[0]
    header = [out.names.define(param) for param in body.params]
    if inits:
        arguments += f", init_values={_tuple(inits)}"
        target = f"{header[0]}, {_tuple(header[1:])}"
    else:
        target = header[0]
    home = f"{out.prefix}.loop" if kind is ForKind.Lanes else out.prefix
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
    pairs = [*op.attrs["attrs"]]
    if op.operands[0]:
        pairs.append(("deps", op.operands[0]))
    arguments = _options(pairs, out)[2:]
    out.line(f"with {out.prefix}.{op.attrs['kind']}({arguments}):")
    body = op.regions[0]
    _print_block(body, [], out)
    for value, inner in zip(op.results, body.terminator.operands[0], strict=True):
        out.names.alias(value, out.value(inner))


@control.call.prints
def print_call(op: Operation, out: Printer) -> None:
    """`y = self.f(a, b)`; arguments written by the callee keep their names."""
    receiver = f"{out.receiver}." if out.receiver else ""
    args: tuple[Value, ...] = op.operands[0]
    texts = [out.value(value) for value in args]
    arguments = ", ".join(texts) + _options(op.attrs["attrs"], out)
    count = len(op.attrs["result_types"])
    out.assign(op.results[:count], f"{receiver}{op.attrs['callee']}({arguments.lstrip(', ')})")
    for value, position in zip(op.results[count:], op.attrs["tied_args"], strict=True):
        out.names.alias(value, texts[int(position)])
