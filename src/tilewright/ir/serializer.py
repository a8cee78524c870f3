"""Programs as bytes: MessagePack tables of nodes, shared nodes once, spans kept.

The reader trusts nothing: anything but a well-formed table raises SerializationError.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from keyword import iskeyword
from typing import Any, cast

import msgpack

from tilewright.dtypes import DType
from tilewright.errors import TilewrightError, VerificationError
from tilewright.ir import enums, types
from tilewright.ir.affine import Access, Constraint, Expr, FloorDiv, Max, Min, Product, Symbol
from tilewright.ir.builder import Builder
from tilewright.ir.conformance import conforms, hints_of, require_conforming
from tilewright.ir.core import Block, Function, Operation, Program, Value
from tilewright.ir.hints import CrossCoreSlot, Split
from tilewright.ir.opdef import get_op
from tilewright.ir.verifier import verify, verify_function
from tilewright.source import Span

FORMAT = "tilewright-ir"
VERSION = 2
MAX_DEPTH = 200

RECORDS: dict[str, type[Any]] = {
    cls.__name__: cls
    for cls in vars(types).values()
    if isinstance(cls, type) and hasattr(cls, "__dataclass_fields__")
} | {cls.__name__: cls for cls in (Access, Constraint, Split, CrossCoreSlot)}
ENUMS: dict[str, type[Enum]] = {
    cls.__name__: cls
    for cls in vars(enums).values()
    if isinstance(cls, type) and issubclass(cls, Enum)
}


Bound = int | Expr | None
FACTS = (
    enums.FunctionType, enums.Level | None, enums.Role | None, str | None, Span | None,
    tuple[tuple[str, Any], ...], tuple[types.Type, ...], tuple[enums.ParamDirection, ...],
)  # fmt: skip
"""What the facts of a function are, in the order in which they are written."""

_DAMAGES = (
    ArithmeticError, AttributeError, LookupError, RecursionError, TilewrightError, TypeError,
    ValueError,
)  # fmt: skip


class SerializationError(TilewrightError, ValueError):
    """Bytes that are not a serialized program, or of a version this release does not read.

    Bad::

        ir.deserialize(b"not a program")

    Good::

        ir.deserialize(ir.serialize(program))
    """

    code = "TW150"


class _Writer:
    """Encodes nodes; each value, symbol, type and file is written once, then referred to by number.

    Values and symbols are told apart by identity, types and files by what they are.
    """

    def __init__(self) -> None:
        self.numbers: dict[Any, int] = {}
        self.alive: list[Any] = []

    def number(self, node: Any) -> tuple[int, bool]:
        key = id(node)
        known = key in self.numbers
        if not known:
            self.numbers[key] = len(self.numbers)
            self.alive.append(node)
        return self.numbers[key], known

    def once(self, node: Any, parts: Callable[[Any], Any]) -> Any:
        """`parts(node)` where `node` comes first, and a reference wherever an equal one does."""
        number = self.numbers.get(node)
        if number is not None:
            return ["ref", number]
        number = self.numbers[node] = len(self.numbers)
        return ["node", number, parts(node)]

    def encode(self, node: Any) -> Any:
        if node is None or isinstance(node, (bool, int, float, str)):
            return ["enum", type(node).__name__, node.name] if isinstance(node, Enum) else node
        if isinstance(node, Span):
            file, *numbers, parent = node
            return ["span", self.once(file, str), *numbers, self.encode(parent)]
        if isinstance(node, (tuple, list)):
            return ["tuple", *map(self.encode, cast("tuple[Any, ...]", node))]
        if isinstance(node, Enum):
            return ["enum", type(node).__name__, node.name]
        if isinstance(node, DType):
            return ["dtype", node.name]
        return self.shared(node)

    def shared(self, node: Any) -> Any:
        if isinstance(node, (Symbol, Value)):
            number, known = self.number(node)
            if known:
                return ["ref", number]
            parts = self.symbol(node) if isinstance(node, Symbol) else self.value(node)
            return ["symbol" if isinstance(node, Symbol) else "value", number, *parts]
        if isinstance(node, Expr):
            terms = [[self.atom(atom), factor] for atom, factor in node.terms.items()]
            return ["expr", node.const, *terms]
        if isinstance(node, types.Type):
            return self.once(node, self.record)
        return self.record(node) if hasattr(node, "__dataclass_fields__") else self.node(node)

    def record(self, node: Any) -> list[Any]:
        parts = [self.encode(getattr(node, name)) for name in node.__dataclass_fields__]
        return ["record", type(node).__name__, *parts]

    def symbol(self, symbol: Symbol) -> list[Any]:
        return [symbol.name, self.encode(symbol.lo), self.encode(symbol.hi)]

    def value(self, value: Value) -> list[Any]:
        symbol = self.encode(value.symbol) if value.has_symbol else None
        return [value.name, self.encode(value.type), symbol]

    def atom(self, atom: Any) -> Any:
        match atom:
            case Symbol():
                return self.encode(atom)
            case FloorDiv():
                return ["floordiv", self.encode(atom.numerator), self.encode(atom.divisor)]
            case Product():
                return ["product", *map(self.atom, atom.factors)]
            case _:
                kind = "min" if isinstance(atom, Min) else "max"
                return [kind, *map(self.encode, atom.args)]

    def node(self, node: Any) -> Any:
        match node:
            case Program():
                functions = [self.function(function) for function in node.functions.values()]
                return ["program", node.name, *functions]
            case Function():
                return self.function(node)
            case _:
                raise SerializationError(f"a {type(node).__name__} cannot be serialized")

    def function(self, function: Function) -> Any:
        body = self.block(function.body)
        facts = (function.func_type, function.level, function.role, function.doc, function.span)
        attrs = tuple(function.attrs.items())
        rest = map(self.encode, (*facts, attrs, function.return_types, function.directions))
        return ["function", function.name, body, *rest]

    def block(self, block: Block) -> Any:
        params = [self.encode(param) for param in block.params]
        return [params, *map(self.operation, block.ops)]

    def operation(self, op: Operation) -> Any:
        return [
            op.opdef.name,
            self.encode(op.operands),
            [self.block(region) for region in op.regions],
            [[name, self.encode(given)] for name, given in op.attrs.items()],
            [self.encode(value) for value in op.results],
            self.encode(op.span),
        ]


class _Reader:
    """Decodes what `_Writer` wrote."""

    def __init__(self) -> None:
        self.nodes: dict[int, Any] = {}
        self.builder = Builder()
        names = [name for name in dir(self) if name.startswith("read_")]
        self.readers = {name.removeprefix("read_"): getattr(self, name) for name in names}

    def decode(self, data: Any) -> Any:
        if not isinstance(data, list):
            return data
        tag, *rest = cast("list[Any]", data)
        reader = self.readers.get(tag) if isinstance(tag, str) else None
        if reader is None:
            raise SerializationError(f"unknown node kind {tag!r}")
        return reader(*rest)

    def typed(self, data: Any, hint: Any) -> Any:
        """What `data` stands for, which is to be an instance of an annotation."""
        node = self.decode(data)
        if not conforms(node, hint):
            raise SerializationError(f"damaged bytes: {hint} is expected, not {node!r}")
        return node

    def fields(self, kind: type[Any], parts: Sequence[Any]) -> list[Any]:
        """The fields of a record, each of its annotated type."""
        return [self.typed(*pair) for pair in zip(parts, hints_of(kind).values(), strict=True)]

    def name(self, data: Any) -> str:
        """A name that a value or an extent can have in Python text; a value may have none."""
        found = self.typed(data, str)
        if found and (not found.isidentifier() or iskeyword(found)):
            raise SerializationError(f"damaged bytes: {found!r} is no name")
        return found

    def read_span(self, *parts: Any) -> Span:
        return Span(*self.fields(Span, parts))

    def read_tuple(self, *parts: Any) -> tuple[Any, ...]:
        return tuple(map(self.decode, parts))

    def read_enum(self, kind: str, name: str) -> Enum:
        return ENUMS[kind][name]

    def read_dtype(self, name: str) -> DType:
        return DType.from_name(name)

    def read_ref(self, number: int) -> Any:
        return self.nodes[number]

    def read_node(self, number: int, data: Any) -> Any:
        self.nodes[number] = node = self.decode(data)
        return node

    def read_symbol(self, number: int, name: str, lo: Any, hi: Any) -> Symbol:
        bounds = self.typed(lo, Bound), self.typed(hi, Bound)
        self.nodes[number] = symbol = Symbol(self.name(name), *bounds)
        return symbol

    def read_value(self, number: int, name: str, type_: Any, symbol: Any) -> Value:
        kind = self.typed(type_, types.Type)
        self.nodes[number] = value = Value(kind, self.name(name))
        if symbol is not None:
            value.bind_symbol(self.typed(symbol, Symbol))
        return value

    def read_expr(self, const: int, *terms: Any) -> Expr:
        total: Any = 0
        for atom, factor in terms:
            total = total + self.atom(atom) * factor
        return Expr(0, {}) + total + const

    def atom(self, data: Any) -> Any:
        kind, *parts = data
        if kind == "floordiv":
            return self.decode(parts[0]) // self.decode(parts[1])
        if kind == "product":
            product: Any = 1
            for part in parts:
                product = self.atom(part) * product
            return product
        if kind in ("min", "max"):
            maker = Min if kind == "min" else Max
            return Expr(0, {maker(tuple(map(self.decode, parts))): 1})
        return self.decode(data)

    def read_record(self, kind: str, *parts: Any) -> Any:
        return RECORDS[kind](*self.fields(RECORDS[kind], parts))

    def read_program(self, name: str, *functions: Any) -> Program:
        decoded = [self.typed(function, Function) for function in functions]
        return Program(self.typed(name, str), {function.name: function for function in decoded})

    def read_function(self, name: str, body: Any, *facts: Any) -> Function:
        block = self.block(body)
        func_type, level, role, doc, span, attrs, returns, ways = map(self.typed, facts, FACTS)
        return Function(
            self.typed(name, str), ways, block, returns, func_type=func_type, level=level,
            role=role, doc=doc, attrs=dict(attrs), span=span,
        )  # fmt: skip

    def block(self, data: Any) -> Block:
        params, *ops = data
        block = Block(tuple([self.typed(param, Value) for param in params]))
        for op in ops:
            self.operation(block, *op)
        return block

    def operation(
        self, block: Block, name: str, operands: Any, regions: Any, attrs: Any, results: Any,
        span: Any,
    ) -> None:  # fmt: skip
        opdef = get_op(name)
        entries = self.typed(operands, tuple[Any, ...])
        inner = tuple(map(self.block, regions))
        given = {key: self.decode(value) for key, value in attrs}
        values = tuple([self.typed(value, Value) for value in results])
        require_conforming(opdef, entries, given)
        with self.builder.inside(block):
            place = self.typed(span, Span | None)
            self.builder.emit_known(opdef, entries, given, inner, values, place)


def serialize(node: Program | Function) -> bytes:
    """`node` as bytes; raises SerializationError for what is no such node, or has no such form."""
    if not isinstance(cast(object, node), (Program, Function)):
        raise SerializationError(f"{node!r} is neither a program nor a function")
    body = _Writer().encode(node)
    return cast(bytes, msgpack.packb([FORMAT, VERSION, body], use_bin_type=True))


def deserialize(data: bytes) -> Program | Function:
    """The program or function in `data`, verified; raises SerializationError."""
    try:
        unpacked = cast(Any, msgpack.unpackb)(data, raw=False, strict_map_key=True)
        name, version, body = unpacked
        if (name, version) != (FORMAT, VERSION):
            raise SerializationError(f"not version {VERSION} of {FORMAT}")
        node = _Reader().typed(body, Program | Function)
        return verify(node) if isinstance(node, Program) else verify_function(node)
    except (SerializationError, VerificationError):
        raise
    except (*_DAMAGES, msgpack.UnpackException) as error:
        raise SerializationError(f"damaged bytes: {error}") from error


def serialize_to_file(node: Program | Function, path: str) -> None:
    """Writes `serialize(node)` to `path`; raises OSError where that is impossible."""
    with open(path, "wb") as file:
        file.write(serialize(node))


def deserialize_from_file(path: str) -> Program | Function:
    """Reads what `serialize_to_file` wrote; raises SerializationError, OSError."""
    with open(path, "rb") as file:
        return deserialize(file.read())
