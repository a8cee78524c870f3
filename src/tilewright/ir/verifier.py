"""The verifier: what every valid program satisfies, checked at every level."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum
from typing import NoReturn

from tilewright.choices import EnumSet
from tilewright.errors import TilewrightError, VerificationError
from tilewright.ir.builder import inferred_types
from tilewright.ir.core import Block, Function, Operation, Program, Value
from tilewright.ir.enums import CORES, Level, ParamDirection
from tilewright.ir.types import ArrayType, Dim, TileType, Type
from tilewright.kinds import accepts


class IRProperty(Enum):
    """What a valid program satisfies, property by property.

    Operands are values and regions hold operations, so a nested call, a redundant block, and a
    break or continue outside a loop cannot be expressed: those properties of other representations
    hold of every program here.
    """

    SSAForm = "SSAForm"
    TypeChecked = "TypeChecked"
    NoNestedCalls = "NoNestedCalls"
    BreakContinueValid = "BreakContinueValid"
    NoRedundantBlocks = "NoRedundantBlocks"
    UseAfterDef = "UseAfterDef"
    OutParamNotShadowed = "OutParamNotShadowed"
    NoNestedInCore = "NoNestedInCore"
    TileTypeCoherence = "TileTypeCoherence"
    ArrayNotEscaped = "ArrayNotEscaped"
    InOutUseValid = "InOutUseValid"


class IRPropertySet(EnumSet[IRProperty]):
    """A set of properties, as `verify_properties` takes it."""

    kind = IRProperty


DEFAULT_PROPERTIES = IRPropertySet(set(IRProperty) - {IRProperty.InOutUseValid})
"""What is verified where nothing is said: all but that what a call has written is not read as it
was before, since values that are read later are copied."""
STRUCTURE = IRPropertySet(
    {
        IRProperty.SSAForm,
        IRProperty.TypeChecked,
        IRProperty.UseAfterDef,
        IRProperty.OutParamNotShadowed,
    }
)
"""What holds at every level."""


class _Verifier:
    """Checks one function; `fail` raises with the operation's span, for a wanted property."""

    def __init__(self, program: Program, function: Function, wanted: IRPropertySet) -> None:
        self.program = program
        self.function = function
        self.wanted = wanted
        self.visible: set[Value] = set()
        self.defined: set[Value] = set()

    def fail(self, broken: IRProperty, text: str, op: Operation | None = None) -> None:
        if broken in self.wanted:
            place = op.span if op else self.function.span
            raise VerificationError(f"function {self.function.name!r}: {text}", place)

    def run(self) -> None:
        function = self.function
        if len(function.directions) != len(function.params):
            text = f"{len(function.params)} parameters, {len(function.directions)} directions"
            self.fail(IRProperty.TypeChecked, text)
        if self.block(function.body, "control.return"):
            self.returned(function.body.terminator)

    def returned(self, op: Operation) -> None:
        values, finals = op.operands
        types = tuple(value.type for value in values)
        if types != self.function.return_types:
            shown = ", ".join(map(str, types)), ", ".join(map(str, self.function.return_types))
            text = f"returns ({shown[0]}), declared ({shown[1]})"
            self.fail(IRProperty.TypeChecked, text, op)
        written = sum(way is not ParamDirection.In for way in self.function.directions)
        if len(finals) != written:
            text = f"{len(finals)} final versions for {written} Out and InOut parameters"
            self.fail(IRProperty.OutParamNotShadowed, text, op)

    def block(self, block: Block, ending: str) -> bool:
        """Checks a block; True when it ends as it has to."""
        is_ended = bool(block.ops) and block.ops[-1].opdef.terminator
        if not is_ended:
            last = block.ops[-1] if block.ops else None
            self.fail(IRProperty.SSAForm, f"a block does not end with {ending}", last)
        elif block.terminator.opdef.name != ending:
            text = f"a block ends with {block.terminator.name}, not {ending}"
            self.fail(IRProperty.SSAForm, text, block.terminator)
            is_ended = False
        self.define(block.params, None)
        for op in block.ops:
            self.operation(op, is_last=op is block.ops[-1])
            self.define(op.results, op)
        self.visible.difference_update(block.params, *[op.results for op in block.ops])
        return is_ended

    def define(self, values: tuple[Value, ...], op: Operation | None) -> None:
        for value in self.defined.intersection(values):
            self.fail(IRProperty.SSAForm, f"{value.name or 'a value'} is defined twice", op)
        self.defined.update(values)
        self.visible.update(values)

    def operation(self, op: Operation, *, is_last: bool) -> None:
        if op.opdef.terminator and not is_last:
            self.fail(IRProperty.SSAForm, f"{op.name} in the middle of a block", op)
        if not self.visible.issuperset(op.inputs):
            value = next(value for value in op.inputs if value not in self.visible)
            text = f"{op.name} uses {value.name or 'a value'} before its definition"
            self.fail(IRProperty.UseAfterDef, text, op)
        for position, region in enumerate(op.regions):
            first = op.name == "control.while" and position == 0
            self.block(region, "control.condition" if first else "control.yield")
        if IRProperty.TypeChecked in self.wanted:
            self.arity(op)
            self.types(op)
            self.callee(op)

    def arity(self, op: Operation) -> None:
        if len(op.operands) != len(op.opdef.operand_names):
            text = f"{op.name} takes {len(op.opdef.operand_names)} operands"
            self.fail(IRProperty.TypeChecked, text, op)
        if op.attrs.keys() ^ op.opdef.attr_names:
            self.fail(IRProperty.TypeChecked, f"{op.name} has attributes {sorted(op.attrs)}", op)

    def types(self, op: Operation) -> None:
        if op.opdef.infer is None:
            self.fail(IRProperty.TypeChecked, f"{op.name} has no type rule", op)
        expected = self.inferred(op)
        if len(expected) != len(op.results):
            text = f"{op.name}: {len(op.results)} results, its rule gives {len(expected)}"
            self.fail(IRProperty.TypeChecked, text, op)
        for value, type_ in zip(op.results, expected, strict=True):
            if not agrees(value, type_):
                text = f"{op.name} gives {value.type}, its rule says {type_}"
                self.fail(IRProperty.TypeChecked, text, op)

    def inferred(self, op: Operation) -> tuple[Type, ...]:
        try:
            return inferred_types(op)
        except (TilewrightError, AssertionError, AttributeError, TypeError, ValueError) as error:
            text = f"{op.name} does not accept its operands: {error}"
            self.fail(IRProperty.TypeChecked, text, op)
            raise

    def callee(self, op: Operation) -> None:
        if op.name != "control.call" or len(self.program.functions) < 2:
            return
        if op.attrs["callee"] not in self.program.functions:
            text = f"call of unknown function {op.attrs['callee']!r}"
            self.fail(IRProperty.TypeChecked, text, op)


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


@accepts(program=Program, properties=IRPropertySet)
def verify(program: Program, properties: IRPropertySet = STRUCTURE) -> Program:
    """`program` itself; raises VerificationError at the first thing that does not hold.

    By default: every block ends once, with the right terminator; every use follows its definition
    in scope; each value is defined once; result types are what the op's rule gives (up to an
    annotation's refinement); returns match the declaration; calls name functions of the program.
    """
    for function in program.functions.values():
        _Verifier(program, function, properties).run()
        for broken, rule in RULES.items():
            if broken in properties:
                rule(function)
    return program


def verify_function(function: Function) -> Function:
    """`function` itself, verified alone; raises VerificationError."""
    verify(Program(function.name, {function.name: function}))
    return function


# ---- properties of programs as authors write them ------------------------------------------------


def _refuse(function: Function, text: str, op: Operation | None = None) -> NoReturn:
    place = op.span if op else function.span
    raise VerificationError(f"function {function.name!r}: {text}", place)


def require_flat_tasks(function: Function) -> None:
    """Raises VerificationError for a core-group scope in another one, or in a kernel."""
    inside = function.func_type in CORES
    _require_flat(function, function.body, inside)


def _require_flat(function: Function, block: Block, inside: bool) -> None:
    for op in block.ops:
        attrs = dict(op.attrs["attrs"]) if op.name == "control.scope" else {}
        is_task = attrs.get("level") is Level.CORE_GROUP and op.attrs["kind"] == "at"
        if is_task and inside:
            _refuse(function, "a core-group scope stands in a kernel or another such scope", op)
        for region in op.regions:
            _require_flat(function, region, inside or is_task)


def require_coherent_tiles(function: Function) -> None:
    """Raises VerificationError for a tile whose valid region is certainly no part of it."""
    for value, op in _values(function):
        type_ = value.type
        valid = type_.valid_shape if isinstance(type_, TileType) else ()
        if not isinstance(type_, TileType) or valid is type_.shape:
            continue
        if len(valid) != type_.rank or any(map(_is_beyond, valid, type_.shape)):
            _refuse(function, f"{value.name or 'a tile'} is {type_}: no part of it is valid so", op)


def _is_beyond(used: Dim, extent: Dim) -> bool:
    return isinstance(used, int) and isinstance(extent, int) and not 0 <= used <= extent


def require_inner_arrays(function: Function) -> None:
    """Raises VerificationError for an array that crosses the boundary of a function."""
    given = [param.type for param in function.params]
    if any(isinstance(type_, ArrayType) for type_ in (*given, *function.return_types)):
        _refuse(function, "an array crosses its boundary")


def require_fresh_reads(function: Function) -> None:
    """Raises VerificationError where a value is read that a call has written before."""
    written: set[Value] = set()
    for op in function.body.walk():
        old = next((value for value in op.inputs if value in written), None)
        if old is not None:
            text = f"{old.name or 'a value'} is read as it was before a call wrote it"
            _refuse(function, text, op)
        if op.name == "control.call":
            written.update(op.operands[0][position] for position in op.attrs["tied_args"])


def _values(function: Function) -> Iterator[tuple[Value, Operation | None]]:
    yield from ((param, None) for param in function.params)
    for op in function.body.walk():
        yield from ((result, op) for result in op.results)


RULES: dict[IRProperty, Callable[[Function], None]] = {
    IRProperty.NoNestedInCore: require_flat_tasks,
    IRProperty.TileTypeCoherence: require_coherent_tiles,
    IRProperty.ArrayNotEscaped: require_inner_arrays,
    IRProperty.InOutUseValid: require_fresh_reads,
}
