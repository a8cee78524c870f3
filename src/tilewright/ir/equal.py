"""Structural equality with an explanation, and the content hash that agrees with it.

Names, spans and the places of constants do not count; everything else does.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from tilewright.dtypes import BOOL
from tilewright.hashes import blake
from tilewright.ir.affine import Access, Expr, Symbol, as_expr, substitute, symbols
from tilewright.ir.core import Block, Function, Operation, Program, Value
from tilewright.ir.printing.expressions import AttrRenderer
from tilewright.ir.types import Type


class _Difference(Exception):
    def __init__(self, path: str, text: str) -> None:
        super().__init__(f"{path}: {text}")


class _Comparer:
    """Walks two nodes in step; values and symbols correspond one to one."""

    def __init__(self, *, map_free: bool) -> None:
        self.values: dict[Value, Value] = {}
        self.symbols: dict[Symbol, Symbol] = {}
        self.taken: set[Symbol] = set()
        self.map_free = map_free

    def require(self, path: str, left: Any, right: Any) -> None:
        is_float = isinstance(left, float) and isinstance(right, float)
        if repr(left) != repr(right) if is_float else left != right:
            raise _Difference(path, f"{left!r} and {right!r}")

    def programs(self, left: Program, right: Program) -> None:
        self.require("program.name", left.name, right.name)
        self.require("program.functions", sorted(left.functions), sorted(right.functions))
        for name, function in left.functions.items():
            self.functions(f"functions[{name!r}]", function, right.functions[name])

    def functions(self, path: str, left: Function, right: Function) -> None:
        for part in ("name", "func_type", "level", "role", "directions"):
            self.require(f"{path}.{part}", getattr(left, part), getattr(right, part))
        self.block(f"{path}.body", left.body, right.body)
        self.parts(f"{path}.return_types", left.return_types, right.return_types)
        self.require(f"{path}.attrs", sorted(left.attrs), sorted(right.attrs))
        for name, given in left.attrs.items():
            self.parts(f"{path}.attrs[{name!r}]", given, right.attrs[name])

    def block(self, path: str, left: Block, right: Block) -> None:
        self.require(f"{path}.params", len(left.params), len(right.params))
        pairs = zip(left.params, right.params, strict=True)
        for position, (a, b) in enumerate(pairs):
            self.define(f"{path}.params[{position}]", a, b)
        left_ops, right_ops = list(counted(left)), list(counted(right))
        for position, (x, y) in enumerate(zip(left_ops, right_ops, strict=False)):
            self.operations(f"{path}.ops[{position}]", x, y)
        self.require(f"{path}.ops", len(left_ops), len(right_ops))

    def define(self, path: str, left: Value, right: Value) -> None:
        self.values[left] = right
        if left.has_symbol and right.has_symbol:
            self.rebind(left.symbol, right.symbol)
        self.parts(f"{path}.type", left.type, right.type)

    def rebind(self, left: Symbol, right: Symbol) -> None:
        """A definition: from here on both symbols stand for the value just defined."""
        self.taken.discard(self.symbols.get(left, right))
        self.symbols[left] = right
        self.taken.add(right)

    def pair(self, path: str, left: Symbol, right: Symbol) -> None:
        if left not in self.symbols and right not in self.taken:
            self.symbols[left] = right
            self.taken.add(right)
        if self.symbols.get(left) is not right:
            raise _Difference(path, f"{left} and {right} stand for different dims")

    def operations(self, path: str, left: Operation, right: Operation) -> None:
        self.require(f"{path}.op", left.opdef.name, right.opdef.name)
        path = f"{path}({left.opdef.name})"
        for name, a, b in zip(left.opdef.operand_names, left.operands, right.operands, strict=True):
            self.entries(f"{path}.{name}", a, b)
        self.require(f"{path}.attrs", sorted(left.attrs), sorted(right.attrs))
        for position, (a, b) in enumerate(zip(left.regions, right.regions, strict=True)):
            self.block(f"{path}.regions[{position}]", a, b)
        for name, given in left.attrs.items():
            self.parts(f"{path}.{name}", given, right.attrs[name])
        for position, (a, b) in enumerate(zip(left.results, right.results, strict=True)):
            self.define(f"{path}.results[{position}]", a, b)

    def entries(self, path: str, left: Any, right: Any) -> None:
        if isinstance(left, tuple) and isinstance(right, tuple):
            lefts, rights = cast("tuple[Any, ...]", left), cast("tuple[Any, ...]", right)
            self.require(f"{path}.count", len(lefts), len(rights))
            for position, (a, b) in enumerate(zip(lefts, rights, strict=True)):
                self.entries(f"{path}[{position}]", a, b)
        elif isinstance(left, Value) and isinstance(right, Value):
            self.use(path, left, right)
        else:
            self.require(path, left, right)

    def use(self, path: str, left: Value, right: Value) -> None:
        if left in self.values:
            if self.values[left] is not right:
                raise _Difference(path, f"uses {left!r} and {right!r}")
        elif is_constant(left) and is_constant(right):
            self.constants(path, left, right)
        elif self.map_free:
            self.define(path, left, right)
        elif left is not right:
            raise _Difference(path, f"free values {left!r} and {right!r}")

    def constants(self, path: str, left: Value, right: Value) -> None:
        a, b = cast(Operation, left.op), cast(Operation, right.op)
        self.require(f"{path}.dtype", a.attrs["dtype"], b.attrs["dtype"])
        self.require(f"{path}.value", constant_key(a), constant_key(b))

    def parts(self, path: str, left: Any, right: Any) -> None:
        """Types and attributes, in which symbols correspond."""
        if isinstance(left, Expr) and isinstance(right, Expr):
            self.exprs(path, left, right)
        elif isinstance(left, tuple) and isinstance(right, tuple):
            self.tuples(path, cast("tuple[Any, ...]", left), cast("tuple[Any, ...]", right))
        elif isinstance(left, Value) and isinstance(right, Value):
            self.use(path, left, right)
        elif type(cast(Any, left)) is not type(right):
            raise _Difference(path, f"{left!s} and {right!s}")
        elif isinstance(left, Symbol):
            self.pair(path, left, right)
        else:
            self.fields(path, left, right)

    def fields(self, path: str, left: Any, right: Any) -> None:
        if not hasattr(left, "__dataclass_fields__"):
            self.require(path, left, right)
            return
        if isinstance(left, Access):
            self.require(f"{path}.rank", len(left.dims), len(right.dims))
            for a, b in zip(left.dims, right.dims, strict=True):
                self.rebind(a, b)
        for name in left.__dataclass_fields__:
            self.parts(f"{path}.{name}", getattr(left, name), getattr(right, name))

    def tuples(self, path: str, left: tuple[Any, ...], right: tuple[Any, ...]) -> None:
        self.require(f"{path}.count", len(left), len(right))
        for position, (a, b) in enumerate(zip(left, right, strict=True)):
            self.parts(f"{path}[{position}]", a, b)

    def exprs(self, path: str, left: Expr, right: Expr) -> None:
        unknown = [symbol for symbol in symbols(left) if symbol not in self.symbols]
        others = [symbol for symbol in symbols(right) if symbol not in self.taken]
        if len(unknown) == len(others) == 1:
            self.pair(path, unknown[0], others[0])
        elif unknown and len(unknown) == len(others):
            by_name = {symbol.name: symbol for symbol in others}
            for symbol in unknown:
                self.pair(path, symbol, by_name.get(symbol.name, others[0]))
        mapping = {symbol: as_expr(self.symbols.get(symbol, symbol)) for symbol in symbols(left)}
        if substitute(left, mapping) != right:
            raise _Difference(path, f"{left} and {right}")


def constant_key(op: Operation) -> str:
    """Text that two constants share exactly when they are the same value of the same dtype."""
    value, dtype = op.attrs["value"], op.attrs["dtype"]
    python = bool if dtype is BOOL else float if dtype.is_float() else int
    return f"{dtype.name}:{python(value)!r}"


def is_constant(value: Value) -> bool:
    """True for the result of `arith.const`."""
    return value.op is not None and value.op.opdef.name == "arith.const"


def counted(block: Block) -> Iterator[Operation]:
    """The operations whose order counts: all but constants."""
    return (op for op in block.ops if op.opdef.name != "arith.const")


def find_difference(left: Any, right: Any, *, enable_auto_mapping: bool = False) -> str | None:
    """Where `left` and `right` first differ, as a path and both sides; None when they are equal."""
    comparer = _Comparer(map_free=enable_auto_mapping)
    try:
        if type(left) is not type(right):
            raise _Difference("node", f"a {type(left).__name__} and a {type(right).__name__}")
        match left:
            case Program():
                comparer.programs(left, right)
            case Function():
                comparer.functions(left.name, left, right)
            case Operation():
                comparer.operations("operation", left, right)
            case Block():
                comparer.block("block", left, right)
            case Value():
                comparer.entries("value", left, right)
            case _:
                comparer.parts("node", left, right)
    except _Difference as difference:
        return str(difference)
    return None


def structural_equal(left: Any, right: Any, enable_auto_mapping: bool = False) -> bool:
    """True when both nodes mean the same; names and spans do not count.

    Values defined outside the nodes compare by identity unless `enable_auto_mapping`.
    """
    return find_difference(left, right, enable_auto_mapping=enable_auto_mapping) is None


def assert_structural_equal(left: Any, right: Any, enable_auto_mapping: bool = False) -> None:
    """Raises ValueError with the path of the first difference unless the nodes are equal."""
    difference = find_difference(left, right, enable_auto_mapping=enable_auto_mapping)
    if difference is not None:
        raise ValueError(f"structurally different at {difference}")


class _Encoder(AttrRenderer):
    """A canonical text of a node: values and symbols are numbered in order of appearance."""

    prefix = "pl"

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.numbers: dict[Value, int] = {}
        self.symbols: dict[Symbol, Expr] = {}

    def expr(self, expr: Expr | int) -> str:
        if isinstance(expr, int):
            return str(expr)
        for symbol in sorted(symbols(expr), key=lambda symbol: symbol.name):
            self.symbol(symbol)
        return str(substitute(expr, self.symbols))

    def symbol(self, symbol: Symbol) -> Expr:
        if symbol not in self.symbols:
            self.symbols[symbol] = as_expr(Symbol(f"s{len(self.symbols)}"))
        return self.symbols[symbol]

    def type(self, type_: Type) -> str:
        return self.attr(type_)

    def attr(self, given: Any) -> str:
        if isinstance(given, Expr):
            return self.expr(given)
        if isinstance(given, Symbol):
            return str(self.symbol(given))
        if isinstance(given, Value):
            return self.entry(given)
        if isinstance(given, tuple):
            return f"({','.join(map(self.attr, cast('tuple[Any, ...]', given)))})"
        if isinstance(given, Access):
            for position, dim in enumerate(given.dims):
                self.symbols[dim] = as_expr(Symbol(f"d{position}"))
        if hasattr(given, "__dataclass_fields__"):
            fields = (self.attr(getattr(given, name)) for name in given.__dataclass_fields__)
            return f"{type(given).__name__}({','.join(fields)})"
        return f"{type(given).__name__}:{given!r}"

    def entry(self, entry: Any) -> str:
        if isinstance(entry, Value):
            if is_constant(entry) and entry.op:
                return constant_key(entry.op)
            return f"%{self.numbers.get(entry, entry.name)}"
        if isinstance(entry, tuple):
            return f"[{','.join(map(self.entry, cast('tuple[Any, ...]', entry)))}]"
        return "-"

    def define(self, value: Value) -> None:
        self.numbers[value] = len(self.numbers)
        if value.has_symbol:
            self.symbols[value.symbol] = as_expr(Symbol(f"v{self.numbers[value]}"))
        self.parts.append(self.attr(value.type))

    def block(self, block: Block) -> None:
        self.parts.append("{")
        for param in block.params:
            self.define(param)
        for op in counted(block):
            self.operation(op)
        self.parts.append("}")

    def operation(self, op: Operation) -> None:
        self.parts.append(op.opdef.name)
        self.parts.extend(map(self.entry, op.operands))
        for region in op.regions:
            self.block(region)
        self.parts.extend(f"{name}={self.attr(op.attrs[name])}" for name in sorted(op.attrs))
        for value in op.results:
            self.define(value)

    def function(self, function: Function) -> None:
        facts = (function.name, function.func_type, function.level, function.role)
        self.parts.append(repr((*facts, function.directions)))
        self.block(function.body)
        self.parts.append(self.attr(function.return_types))
        attrs = sorted(function.attrs.items())
        self.parts.extend(f"{name}={self.attr(given)}" for name, given in attrs)


def content_hash(node: Any) -> str:
    """SHA-256, in hexadecimal, of the meaning of `node`: equal nodes have equal hashes."""
    encoder = _Encoder()
    match node:
        case Program():
            encoder.parts.append(node.name)
            for name in sorted(node.functions):
                encoder.function(node.functions[name])
        case Function():
            encoder.function(node)
        case Block():
            encoder.block(node)
        case Operation():
            encoder.operation(node)
        case _:
            encoder.parts.append(encoder.attr(node))
    return blake("\0".join(encoder.parts).encode()).hexdigest()


def structural_hash(node: Any) -> int:
    """`content_hash` as a 63-bit integer."""
    return int(content_hash(node)[:16], 16) >> 1
