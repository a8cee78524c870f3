"""The verifier: what every valid program satisfies, checked at every level."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from tilewright.errors import TilewrightError, VerificationError
from tilewright.ir.builder import as_types
from tilewright.ir.core import Block, Function, Operation, Program, Value
from tilewright.ir.enums import ParamDirection
from tilewright.ir.types import Type


class _Verifier:
    """Checks one function; `fail` raises with the operation's span."""

    def __init__(self, program: Program, function: Function) -> None:
        self.program = program
        self.function = function
        self.visible: set[Value] = set()
        self.defined: set[Value] = set()

    def fail(self, text: str, op: Operation | None = None) -> NoReturn:
        raise VerificationError(
            f"function {self.function.name!r}: {text}", op.span if op else self.function.span
        )

    def run(self) -> None:
        function = self.function
        if len(function.directions) != len(function.params):
            self.fail(f"{len(function.params)} parameters, {len(function.directions)} directions")
        self.block(function.body, "control.return")
        self.returned(function.body.terminator)

    def returned(self, op: Operation) -> None:
        values, finals = op.operands
        types = tuple(value.type for value in values)
        if types != self.function.return_types:
            shown = ", ".join(map(str, types)), ", ".join(map(str, self.function.return_types))
            self.fail(f"returns ({shown[0]}), declared ({shown[1]})", op)
        written = sum(way is not ParamDirection.In for way in self.function.directions)
        if len(finals) != written:
            self.fail(f"{len(finals)} final versions for {written} Out and InOut parameters", op)

    def block(self, block: Block, ending: str) -> None:
        if not block.ops or not block.ops[-1].opdef.terminator:
            self.fail(f"a block does not end with {ending}", block.ops[-1] if block.ops else None)
        if block.terminator.opdef.name != ending:
            self.fail(f"a block ends with {block.terminator.name}, not {ending}", block.terminator)
        self.define(block.params, None)
        for op in block.ops:
            self.operation(op, is_last=op is block.ops[-1])
            self.define(op.results, op)
        self.visible.difference_update(block.params, *[op.results for op in block.ops])

    def define(self, values: tuple[Value, ...], op: Operation | None) -> None:
        for value in self.defined.intersection(values):
            self.fail(f"{value.name or 'a value'} is defined twice", op)
        self.defined.update(values)
        self.visible.update(values)

    def operation(self, op: Operation, *, is_last: bool) -> None:
        if op.opdef.terminator and not is_last:
            self.fail(f"{op.name} in the middle of a block", op)
        if not self.visible.issuperset(op.inputs):
            value = next(value for value in op.inputs if value not in self.visible)
            self.fail(f"{op.name} uses {value.name or 'a value'} before its definition", op)
        self.arity(op)
        for position, region in enumerate(op.regions):
            first = op.name == "control.while" and position == 0
            self.block(region, "control.condition" if first else "control.yield")
        self.types(op)
        self.callee(op)

    def arity(self, op: Operation) -> None:
        if len(op.operands) != len(op.opdef.operand_names):
            self.fail(f"{op.name} takes {len(op.opdef.operand_names)} operands", op)
        if op.attrs.keys() ^ op.opdef.attr_names:
            self.fail(f"{op.name} has attributes {sorted(op.attrs)}", op)

    def types(self, op: Operation) -> None:
        if op.opdef.infer is None:
            self.fail(f"{op.name} has no type rule", op)
        expected = self.inferred(op, op.opdef.infer)
        if len(expected) != len(op.results):
            self.fail(f"{op.name}: {len(op.results)} results, its rule gives {len(expected)}", op)
        for value, type_ in zip(op.results, expected, strict=True):
            if not agrees(value, type_):
                self.fail(f"{op.name} gives {value.type}, its rule says {type_}", op)

    def inferred(self, op: Operation, rule: Callable[..., Any]) -> tuple[Type, ...]:
        extra = {"regions": op.regions} if op.opdef.has_regions else {}
        try:
            return as_types(rule(*op.operands, **op.attrs, **extra))
        except (TilewrightError, AssertionError, AttributeError, TypeError, ValueError) as error:
            self.fail(f"{op.name} does not accept its operands: {error}", op)

    def callee(self, op: Operation) -> None:
        if op.name != "control.call" or len(self.program.functions) < 2:
            return
        if op.attrs["callee"] not in self.program.functions:
            self.fail(f"call of unknown function {op.attrs['callee']!r}", op)


def agrees(value: Value, type_: object) -> bool:
    """True when the type of `value` is `type_`, or an annotation's refinement of it."""
    given = value.type
    if given is type_ or given == type_:
        return True
    if type(given) is not type(type_):
        return False
    same = all(
        getattr(given, part, None) == getattr(type_, part, None) for part in ("shape", "extent")
    )
    return same and getattr(given, "dtype", None) == getattr(type_, "dtype", None)


def verify(program: Program) -> Program:
    """`program` itself; raises VerificationError at the first thing that does not hold.

    Checked: every block ends once, with the right terminator; every use follows its definition in
    scope; each value is defined once; result types are what the op's rule gives (up to an
    annotation's refinement); returns match the declaration; calls name functions of the program.
    """
    for function in program.functions.values():
        _Verifier(program, function).run()
    return program


def verify_function(function: Function) -> Function:
    """`function` itself, verified alone; raises VerificationError."""
    _Verifier(Program(function.name, {function.name: function}), function).run()
    return function
