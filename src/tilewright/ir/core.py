"""What a program is: values, operations, blocks, functions, programs.

Readers treat every object here as immutable. New objects are made by `Builder` (ir/builder.py);
passes make changed copies through `Rewriter` (ir/rewrite.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import tilewright.ir as room
from tilewright.ir.affine import Symbol
from tilewright.ir.enums import Effect, FunctionType, Level, ParamDirection, Role
from tilewright.ir.types import Type
from tilewright.kinds import accepts
from tilewright.source import SourceText, Span

if TYPE_CHECKING:
    from tilewright.ir.opdef import OpDef

Attr = Any


class Printable:
    """A node that prints as Python."""

    __slots__ = ()

    def as_python(self, prefix: str = "pl", concise: bool = False) -> str:
        """This node as Python text; `concise` omits the types of intermediate values."""
        return room.printing.text_of(self, prefix, concise)

    def __str__(self) -> str:
        return formatted(self.as_python())


_formats: list[Callable[[str], str]] = []


@accepts(callback=Callable | None)
def register_format_callback(callback: Callable[[str], str] | None) -> None:
    """Has `str(node)` and `ir.python_print` hand their text to `callback`; None undoes it."""
    _formats[:] = [] if callback is None else [callback]


def formatted(text: str) -> str:
    """What the registered callback makes of a printed text."""
    return _formats[0](text) if _formats else text


class Value(Printable):
    """An SSA value: the result of an operation or a parameter of a block.

    `name` is the author's name for it, or "" for a sub-expression.
    """

    __slots__ = ("_symbol", "name", "owner", "type")

    def __init__(self, type: Type, name: str = "", owner: Operation | Block | None = None) -> None:
        self.type = type
        self.name = name
        self.owner = owner
        self._symbol: Symbol | None = None

    @property
    def symbol(self) -> Symbol:
        """The affine symbol that stands for this integer scalar in shapes and accesses."""
        if self._symbol is None:
            self.bind_symbol(Symbol(self.name or "v"))
        assert self._symbol is not None
        return self._symbol

    @property
    def has_symbol(self) -> bool:
        """True when some shape or access may mention this value."""
        return self._symbol is not None

    def bind_symbol(self, symbol: Symbol) -> None:
        """Makes `symbol` stand for this value (loop variables have ranged symbols)."""
        self._symbol = symbol

    @property
    def op(self) -> Operation | None:
        """The operation that gives this value; None for a block parameter."""
        return self.owner if isinstance(self.owner, Operation) else None

    def __repr__(self) -> str:
        return f"<Value {self.name or '_'}: {self.type}>"


class Operation(Printable):
    """One application of an op.

    `operands` has one entry per positional parameter of the op's signature: a Value, None for an
    absent optional operand, or a tuple of Values for a variadic one.
    """

    __slots__ = ("attrs", "opdef", "operands", "regions", "results", "span")

    def __init__(
        self,
        opdef: OpDef[..., Any],
        operands: tuple[Any, ...],
        attrs: Mapping[str, Attr],
        regions: tuple[Block, ...],
        results: tuple[Value, ...],
        span: Span | None,
    ) -> None:
        self.opdef = opdef
        self.operands = operands
        self.attrs = attrs
        self.regions = regions
        self.results = results
        self.span = span

    @property
    def result(self) -> Value:
        """The only result."""
        (value,) = self.results
        return value

    @property
    def inputs(self) -> Sequence[Value]:
        """All operand values, in order, variadic ones flattened and absent ones skipped."""
        found: list[Value] = []
        for entry in self.operands:
            if isinstance(entry, Value):
                found.append(entry)
            elif entry is not None:
                found.extend(entry)
        return found

    @property
    def name(self) -> str:
        """Name of the op."""
        return self.opdef.name

    @property
    def is_expression(self) -> bool:
        """True for a part of another statement: pure, with one unnamed result."""
        if len(self.results) != 1 or self.results[0].name or self.regions:
            return False
        return self.opdef.effect is Effect.PURE and not self.opdef.tied

    def __repr__(self) -> str:
        return f"<Operation {self.opdef.name}>"


class Block(Printable):
    """A basic block: parameters, then operations of which the last is a terminator."""

    __slots__ = ("ops", "params")

    def __init__(self, params: tuple[Value, ...] = (), ops: list[Operation] | None = None) -> None:
        self.params = params
        self.ops: list[Operation] = [] if ops is None else ops
        for param in params:
            param.owner = self

    @property
    def terminator(self) -> Operation:
        """The last operation."""
        return self.ops[-1]

    @property
    def stmts(self) -> list[Operation]:
        """The operations that the author would see as statements, without sub-expressions."""
        return [op for op in self.ops if not op.is_expression]

    def walk(self) -> Iterator[Operation]:
        """Every operation, outer before inner, in order."""
        stack = list(reversed(self.ops))
        while stack:
            op = stack.pop()
            yield op
            for region in reversed(op.regions):
                stack.extend(reversed(region.ops))

    def __repr__(self) -> str:
        return f"<Block of {len(self.ops)} ops>"


class Rebinding(NamedTuple):
    """An assignment to the name of an output parameter: it means `value` from there on."""

    param: Value
    value: Value
    span: Span


class BodyText(NamedTuple):
    """Where the body of a function stands: lines `first` to `last` of a text, counted from 1."""

    source: SourceText
    first: int
    last: int


class Undeclared(NamedTuple):
    """A parameter that is written though its declaration gives no direction; `span` is there."""

    param: Value
    span: Span


class Function(Printable):
    """A function: parameters with directions, a body block, return types and attributes."""

    __slots__ = (
        "attrs",
        "body",
        "body_text",
        "callees",
        "directions",
        "doc",
        "func_type",
        "level",
        "name",
        "rebound",
        "return_types",
        "role",
        "span",
        "undeclared",
    )

    def __init__(
        self,
        name: str,
        directions: tuple[ParamDirection, ...],
        body: Block,
        return_types: tuple[Type, ...],
        *,
        func_type: FunctionType = FunctionType.Opaque,
        level: Level | None = None,
        role: Role | None = None,
        attrs: Mapping[str, Attr] | None = None,
        doc: str | None = None,
        span: Span | None = None,
    ) -> None:
        self.name = name
        self.directions = directions
        self.body = body
        self.return_types = return_types
        self.func_type = func_type
        self.level = level
        self.role = role
        self.attrs: Mapping[str, Attr] = {} if attrs is None else attrs
        self.callees: Mapping[str, Function] = {}  # what it calls, while in no program
        self.rebound: Sequence[Rebinding] = ()  # what its source gave to names of outputs
        self.undeclared: Sequence[Undeclared] = ()  # what it writes and does not say so
        self.body_text: BodyText | None = None  # for its comments
        self.doc = doc
        self.span = span

    @property
    def params(self) -> tuple[Value, ...]:
        """The parameters, in declaration order."""
        return self.body.params

    @property
    def param_directions(self) -> tuple[ParamDirection, ...]:
        """The direction of each parameter."""
        return self.directions

    @property
    def requires_runtime_binding(self) -> bool:
        """True for a host callback without a body, which is given when a program is prepared."""
        bodies = [op.attrs["body"] for op in self.body.ops if op.opdef.name == "host.python"]
        return self.role is Role.SubWorker and bodies == [None]

    def __repr__(self) -> str:
        return f"<Function {self.name}>"


@accepts(name=str, functions=Mapping)
class Program(Printable):
    """Functions by name, in dependency order (callees first)."""

    __slots__ = ("functions", "name", "span")

    def __init__(
        self, name: str, functions: Mapping[str, Function], span: Span | None = None
    ) -> None:
        self.name = name
        self.functions: Mapping[str, Function] = functions
        self.span = span

    def __getitem__(self, name: str) -> Function:
        return self.functions[name]

    def get_function(self, name: str) -> Function | None:
        """The function called `name`, or None."""
        return self.functions.get(name)

    def __repr__(self) -> str:
        return f"<Program {self.name}>"
