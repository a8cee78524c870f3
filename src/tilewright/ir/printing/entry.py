"""Entry points: functions, programs, single statements and types as text."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from tilewright.ir.affine import Symbol
from tilewright.ir.core import (
    Block,
    Function,
    Operation,
    Program,
    Value,
    formatted,
)
from tilewright.ir.enums import FunctionType, ParamDirection
from tilewright.ir.printing.comments import Comments
from tilewright.ir.printing.expressions import render_enum, render_text
from tilewright.ir.printing.printer import Printer
from tilewright.ir.types import Type, render_type
from tilewright.kinds import accepts

MODULE = "tilewright.language"
MakePrinter = Callable[..., Printer]


def python_print(
    node: Any,
    prefix: str = "pl",
    concise: bool = False,
    format: bool = True,
    explicit_layout: bool = False,
) -> str:
    """`node` as Python text under module alias `prefix`.

    `concise` omits the types of intermediate values; signatures keep theirs. `format` hands the
    text to the callback of `register_format_callback`, if there is one. `explicit_layout` spells
    out the views of tensors and tiles that have none of their own.
    """
    text = text_of(node, prefix, concise, explicit_layout)
    return formatted(text) if format else text


def text_of(node: Any, prefix: str, concise: bool, explicit_layout: bool = False) -> str:
    """What `python_print` gives, before any callback."""
    make = partial(Printer, prefix, concise=concise, explicit_layout=explicit_layout)
    match node:
        case Program():
            return _print_program(node, prefix, make)
        case Function():
            return _print_functions({node.name: node}, prefix, make, receiver="")
        case Type():
            return make().type(node)
        case Value():
            return node.name or "_"
        case Operation() | Block():
            return _print_part(node, make())
        case _:
            raise TypeError(f"cannot print a {type(node).__name__}")


@accepts(type_=Type, prefix=str)
def python_print_type(type_: Type, prefix: str = "pl") -> str:
    """A type as the annotation that gives it."""
    return render_type(type_, prefix)


def _print_part(node: Operation | Block, printer: Printer) -> str:
    block = node if isinstance(node, Block) else Block(ops=[*_expressions(node), node])
    for value in _outer_values(block):
        printer.names.alias(value, printer.names.fresh(value.name or "t"))
    printer.survey(block)
    printer.body(block)
    return "\n".join(printer.lines)


def _expressions(op: Operation) -> list[Operation]:
    """The sub-expressions of a statement, in the order in which they are evaluated."""
    found: list[Operation] = []
    for value in op.inputs:
        inner = value.op
        if inner is not None and inner.is_expression and inner not in found:
            found += [*_expressions(inner), inner]
    return found


def _outer_values(block: Block) -> list[Value]:
    """Values that `block` uses and does not define, in order of use; constants are not listed."""
    inner = set(block.params)
    outer: dict[Value, None] = {}
    for op in block.walk():
        inner.update(op.results)
        for region in op.regions:
            inner.update(region.params)
        for value in op.inputs:
            if value not in inner and not (value.op and value.op.name == "arith.const"):
                outer.setdefault(value)
    return list(outer)


def _print_program(program: Program, prefix: str, make: MakePrinter) -> str:
    text = _print_functions(program.functions, prefix, make, receiver="self", name=program.name)
    head = [f"# pypto.program: {program.name}", f"import {MODULE} as {prefix}"]
    if "pld." in text and re.search(r"\bpld\.", text):
        head.append(f"import {MODULE}.distributed as pld")
    return "\n".join([*head, "", text])


def _print_functions(
    functions: Mapping[str, Function],
    prefix: str,
    make: MakePrinter,
    *,
    receiver: str,
    name: str = "",
) -> str:
    free: dict[Symbol, str] = {}
    chunks: list[list[str]] = []
    for function in functions.values():
        printer = make(receiver=receiver)
        printer.names.share(free)
        printer.comments = Comments(function.body_text)
        _print_function(function, printer)
        chunks.append(printer.lines)
    lines = [f'{label} = {prefix}.dynamic("{symbol.name}")' for symbol, label in free.items()]
    if not receiver:
        return "\n".join([*lines, *([""] if lines else []), *chunks[0]]) + "\n"
    lines += [""] if lines else []
    lines += [f"@{prefix}.program", f"class {name}:"]
    for position, chunk in enumerate(chunks):
        lines += [""] if position else []
        lines += [f"    {line}" if line else "" for line in chunk]
    return "\n".join(lines if chunks else [*lines, "    pass"]) + "\n"


def _print_function(function: Function, printer: Printer) -> None:
    for param in function.params:
        printer.names.define(param)
    printer.survey(function.body)
    printer.line(_decorator(function, printer.prefix))
    printer.line(_signature(function, printer))
    with printer.indented():
        if function.doc:
            printer.line(_docstring(function.doc))
        if function.attrs.keys() - _IN_DECORATOR:
            printer.line(f"{printer.prefix}.func_attr({_attributes(function, printer)})")
        foreign = _foreign_body(function)
        if foreign is None:
            printer.body(function.body)
        else:
            for line in foreign.splitlines():
                printer.line(line)


_IN_DECORATOR = frozenset({"external_source"})
"""Attributes that are written as arguments of the decorator."""


def _foreign_body(function: Function) -> str | None:
    """What stands for a body that is not in the language: Python of the host, or `...`."""
    for op in function.body.ops:
        if op.opdef.name in ("external.body", "host.python"):
            return op.attrs.get("body") or "..."
    return None


def _decorator(function: Function, prefix: str) -> str:
    options: list[str] = []
    if function.func_type is not FunctionType.Opaque:
        options.append(f"type={render_enum(function.func_type, prefix)}")
    if function.level is not None:
        options.append(f"level={render_enum(function.level, prefix)}")
    if function.role is not None:
        options.append(f"role={render_enum(function.role, prefix)}")
    options += [f"{n}={function.attrs[n]!r}" for n in sorted(_IN_DECORATOR & function.attrs.keys())]
    return f"@{prefix}.function" + (f"({', '.join(options)})" if options else "")


def _signature(function: Function, printer: Printer) -> str:
    params = [printer.receiver] if printer.receiver else []
    for param, direction in zip(function.params, function.directions, strict=True):
        type_ = printer.type(param.type)
        if direction is not ParamDirection.In:
            type_ = f"{printer.prefix}.{direction.name}[{type_}]"
        params.append(f"{printer.value(param)}: {type_}")
    return f"def {function.name}({', '.join(params)}){_returns(function, printer)}:"


def _returns(function: Function, printer: Printer) -> str:
    types = [printer.type(type_) for type_ in function.return_types]
    if not types:
        return ""
    return f" -> {types[0]}" if len(types) == 1 else f" -> tuple[{', '.join(types)}]"


def _docstring(text: str) -> str:
    shown = render_text(text)
    return f'""{shown}""' if shown == f'"{text}"' else shown


def _attributes(function: Function, printer: Printer) -> str:
    kept = {name: a for name, a in function.attrs.items() if name not in _IN_DECORATOR}
    items = (f'"{name}": {printer.entry(given)}' for name, given in kept.items())
    return "{" + ", ".join(items) + "}"
