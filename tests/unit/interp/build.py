"""Small programs for tests: functions written with the builder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilewright.ir.builder import Builder, finish_program
from tilewright.ir.core import Block, Function, Program, Value
from tilewright.ir.enums import ForKind, ParamDirection
from tilewright.ir.types import Type
from tilewright.ops import control

IN, OUT, INOUT = ParamDirection.In, ParamDirection.Out, ParamDirection.InOut
Body = Callable[..., Any]


def emit_return(values: Sequence[Value], finals: Sequence[Value]) -> None:
    control.return_(tuple(values), tuple(finals))


def function(name: str, params: Sequence[tuple[str, Type, ParamDirection]], body: Body) -> Function:
    """`body(*params)` gives (returned values, finals)."""
    values = tuple(Value(type_, param) for param, type_, _ in params)
    block = Block(values)
    builder = Builder()
    with builder, builder.inside(block):
        returned, finals = body(*values)
        emit_return(returned, finals)
    types = tuple(value.type for value in returned)
    return Function(name, tuple(direction for *_, direction in params), block, types)


def program(*functions: Function) -> Program:
    return finish_program("test", {f.name: f for f in functions})


def region(params: Sequence[Value], body: Callable[..., Sequence[Value]]) -> Block:
    """A block whose operations `body(*params)` emits; what it gives is yielded."""
    block = Block(tuple(params))
    with Builder.current().inside(block):
        control.yield_(tuple(body(*params)))
    return block


def for_loop(
    low: Any,
    high: Any,
    inits: Sequence[Value],
    body: Callable[..., Sequence[Value]],
    *,
    kind: ForKind = ForKind.Sequential,
    step: Any = 1,
    combine: tuple[str, ...] = (),
) -> tuple[Value, ...]:
    """A loop; `body(index, *carried)` gives the yielded values."""
    builder = Builder.current()
    low, high, step = map(builder.index, (low, high, step))
    params = [Value(low.type, "i"), *(Value(value.type) for value in inits)]
    attrs = {"kind": kind, "combine": combine, "stage": 0, "attrs": ()}
    operands = (low, high, step, tuple(inits))
    return builder.emit(control.for_, operands, attrs, (region(params, body),)).results


def if_else(cond: Value, then: Body, otherwise: Body) -> tuple[Value, ...]:
    regions = (region((), then), region((), otherwise))
    return Builder.current().emit(control.if_, (cond,), {}, regions).results


def while_loop(inits: Sequence[Value], test: Body, body: Body) -> tuple[Value, ...]:
    first = Block(tuple(Value(value.type) for value in inits))
    builder = Builder.current()
    with builder.inside(first):
        control.condition(test(*first.params))
    second = region([Value(value.type) for value in inits], body)
    return builder.emit(control.while_, (tuple(inits),), {}, (first, second)).results
