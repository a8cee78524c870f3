"""The printer: one visitor for expressions, statements and functions, so that names agree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, cast

from tilewright.dtypes import INDEX, INT64
from tilewright.ir.affine import Access, Expr, Symbol, symbols
from tilewright.ir.builder import inferred_types
from tilewright.ir.core import Block, Operation, Value
from tilewright.ir.enums import Rounding
from tilewright.ir.opdef import ties_of
from tilewright.ir.printing.comments import Comments
from tilewright.ir.printing.expressions import (
    ATOM,
    PRECEDENCE,
    AttrRenderer,
    op_path,
    render_constant,
)
from tilewright.ir.printing.names import NameTable
from tilewright.ir.rewrite import substitute_type
from tilewright.ir.types import (
    MemRef,
    ScalarType,
    ShapedType,
    TensorView,
    TileView,
    Type,
    render_memref,
    render_tensor_view,
    render_tile_view,
    render_type,
    with_view,
)

INDENT = "    "
HIGHEST = 24
"""Expressions in expressions; Python reads some two hundred parentheses, and people fewer."""


class Printer(AttrRenderer):
    """Writes statements line by line.

    Unnamed, pure, single-use values nest into the statement that uses them, HIGHEST deep, when that
    keeps the order of operations; constants always nest; everything else is a statement of its own.
    """

    def __init__(
        self,
        prefix: str = "pl",
        *,
        concise: bool = False,
        explicit_layout: bool = False,
        receiver: str = "",
    ) -> None:
        self.prefix = prefix
        self.concise = concise
        self.explicit_layout = explicit_layout
        self.receiver = receiver
        self.names = NameTable()
        self.lines: list[str] = []
        self.yield_names: list[str] = []
        self._depth = 0
        self._types: dict[int, tuple[Type, str]] = {}
        self._uses: Counter[Value] = Counter()
        self._last_use: dict[Value, int] = {}
        self._positions: dict[Operation, int] = {}
        self._homes: dict[Operation, Block] = {}
        self._block: Block | None = None
        self._pinned: set[Symbol] = set()
        self._heights: dict[Operation | None, int] = {}
        self._nested: set[Operation] = set()
        self._pending: list[Operation] = []
        self.comments = Comments(None)

    # -- lines -----------------------------------------------------------------------------

    def line(self, text: str) -> None:
        """One line at the current indentation."""
        self.lines.append(INDENT * self._depth + text)

    @contextmanager
    def indented(self) -> Generator[None]:
        """One level deeper; writes `pass` when nothing else is written."""
        self._depth += 1
        before = len(self.lines)
        yield
        if len(self.lines) == before:
            self.line("pass")
        self._depth -= 1

    # -- analysis --------------------------------------------------------------------------

    def survey(self, block: Block) -> None:
        """Counts uses of values and collects symbols mentioned by types and attributes."""
        for param in block.params:
            self._mention(param.type)
        self._homes.update(dict.fromkeys(block.ops, block))
        uses, last_use, types = self._uses, self._last_use, dict[int, Type]()
        for position, op in enumerate(block.walk(), len(self._positions)):
            self._positions[op] = position
            for value in _printed_inputs(op):
                uses[value] = uses.get(value, 0) + 1
                last_use[value] = position
            for given in op.attrs.values():
                self._mention(given)
            for value in op.results:
                types[id(value.type)] = value.type
            for region in op.regions:
                self._homes.update(dict.fromkeys(region.ops, region))
                for param in region.params:
                    self._mention(param.type)
        for type_ in types.values():
            self._pinned |= _symbols_of(type_)

    def _mention(self, part: Any) -> None:
        _collect(part, self._pinned)

    def _can_nest(self, op: Operation) -> bool:
        if not op.is_expression:
            return False
        value = op.results[0]
        if self._uses[value] != 1:
            return False
        return not self._is_pinned(value)

    def _is_pinned(self, value: Value) -> bool:
        """True when a type or an extent mentions `value`."""
        return value.has_symbol and value.symbol in self._pinned

    # -- expressions -----------------------------------------------------------------------

    def expr(self, expr: Expr | int) -> str:
        return self.names.expr(expr)

    def access(self, access: Access) -> str:
        index, domain = access.map, self.attr(access.domain)
        with self.names.scoped(access.dims) as names:
            head = f"lambda {', '.join(names)}" if names else "lambda"
            parts = [f"{head}: {_tuple([self.expr(part) for part in index])}", domain]
            if access.constraints:
                tests = [
                    f"{self.expr(test.expr)} {'==' if test.is_equality else '>='} 0"
                    for test in access.constraints
                ]
                parts.append(f"where={head}: {_tuple(tests)}")
        return f"{self.prefix}.access({', '.join(parts)})"

    def type(self, type_: Type) -> str:
        """The annotation that parses back to `type_`, its symbols under their names here."""
        known = self._types.get(id(type_))
        if known is not None:
            return known[1]
        text = self._type(type_)
        if not _symbols_of(type_):
            self._types[id(type_)] = type_, text
        return text

    def _type(self, type_: Type) -> str:
        renamed = self._renamed(type_)
        if self.explicit_layout:
            renamed = with_view(renamed)
        if isinstance(renamed, TensorView):
            return render_tensor_view(renamed, self.prefix)
        if isinstance(renamed, TileView):
            return render_tile_view(renamed, self.prefix)
        if isinstance(renamed, MemRef):
            return render_memref(renamed, self.prefix)
        return render_type(renamed, self.prefix)

    def _renamed(self, type_: Type) -> Type:
        renames = {
            symbol: Symbol(name) + 0
            for symbol in sorted(_symbols_of(type_), key=lambda symbol: symbol.name)
            if (name := self.names.of_symbol(symbol)) != symbol.name
        }
        return substitute_type(type_, renames) if renames else type_

    def value(self, value: Value) -> str:
        """Text of a use of `value`."""
        return self._value(value)[0]

    def _value(self, value: Value) -> tuple[str, int]:
        name = self.names.find(value)
        if name is not None:
            return name, ATOM
        op = value.op
        if op is None:
            return self.names.define(value), ATOM
        if op.opdef.name == "arith.const":
            return self._constant(op)
        if op in self._nested:
            return self.expression(op)
        return self.names.define(value), ATOM

    def _constant(self, op: Operation) -> tuple[str, int]:
        text = render_constant(op.attrs["value"], op.attrs["dtype"], self.prefix)
        return text, PRECEDENCE["neg"] if text.startswith("-") else ATOM

    def entry(self, entry: Any) -> str:
        """Text of an operand entry or an attribute."""
        if isinstance(entry, Value):
            return self.value(entry)
        if type(entry) is tuple and any(isinstance(e, Value) for e in cast("Any", entry)):
            return f"[{', '.join(map(self.entry, cast('tuple[Any, ...]', entry)))}]"
        return self.attr(entry)

    def expression(self, op: Operation) -> tuple[str, int]:
        """Text of an operation as an expression, and its precedence."""
        infix = op.opdef.infix
        if infix and len(op.operands) == 2 and self._has_operator(op, infix):
            return self._binary(op, infix)
        if op.opdef.name in ("arith.neg", "arith.not") and not _is_literal(op.operands[0]):
            return self._unary(op)
        return self._call(op), ATOM

    @staticmethod
    def _has_operator(op: Operation, infix: str) -> bool:
        if all(map(_is_literal, op.operands)):
            return False
        dtype = op.operands[0].type.dtype
        return infix not in ("and", "or") or dtype.name == "BOOL"

    def _binary(self, op: Operation, infix: str) -> tuple[str, int]:
        level = PRECEDENCE[infix]
        (left, left_level), (right, right_level) = map(self._value, self._met(*op.operands))
        if left_level < level or (level == 4 and left_level == level):
            left = f"({left})"
        if right_level <= level:
            right = f"({right})"
        return f"{left} {infix} {right}", level

    def _met(self, left: Value, right: Value) -> tuple[Value, Value]:
        """The operands of an operator, an INDEX that meets an INT64 as it was before: reading
        converts it again, once both operands are there."""
        of_left, of_right = self._index_behind(left), self._index_behind(right)
        if of_right is not None and of_left is None:
            return left, of_right
        is_name = right.op not in self._nested and not _is_constant(right)
        return (of_left, right) if of_left is not None and is_name else (left, right)

    def _index_behind(self, value: Value) -> Value | None:
        """The INDEX that a nested operation converts to INT64, as operators do, or None."""
        op = value.op
        if op is None or op not in self._nested or op.opdef.name != "arith.cast":
            return None
        (given,) = op.operands
        is_usual = op.attrs["dtype"] is INT64 and op.attrs["mode"] is Rounding.RINT
        is_index = given.type == ScalarType(INDEX) and not _is_constant(given)
        return given if is_usual and is_index else None

    def _unary(self, op: Operation) -> tuple[str, int]:
        dtype = op.operands[0].type.dtype
        sign = "-" if op.opdef.name == "arith.neg" else "not" if dtype.name == "BOOL" else "~"
        level = PRECEDENCE["neg" if sign == "-" else sign]
        text, text_level = self._value(op.operands[0])
        if text_level < level or (sign == "-" and not text[0].isidentifier()):
            text = f"({text})"
        return (f"not {text}" if sign == "not" else f"{sign}{text}"), level

    def _call(self, op: Operation) -> str:
        is_folded = op.opdef.name.startswith("arith.") and all(map(_is_literal, op.operands))
        for spelling in () if is_folded else op.opdef.written:
            arguments = spelling.arguments(op)
            if arguments is not None:
                path = self.prefix + spelling.path[2:] if spelling.path[2] == "." else spelling.path
                return f"{path}({self._arguments(arguments, spelling.positional)})"
        path = op_path(op.opdef.name, self.prefix)
        given = dict(zip(op.opdef.operand_names, op.operands, strict=True))
        while given and next(reversed(given.values())) is None:
            given.popitem()
        positional = len(given)
        for name, entry in op.attrs.items():
            if not op.opdef.is_default(name, entry):
                given[name] = entry
        return f"{path}({self._arguments(given, list(given)[:positional])})"

    def _arguments(self, given: dict[str, Any], order: Sequence[str]) -> str:
        """Positional while the parameters come in order, then by keyword."""
        parts: list[str] = []
        in_order = True
        for position, (name, entry) in enumerate(given.items()):
            in_order = in_order and position < len(order) and order[position] == name
            text = self.entry(entry)
            parts.append(text if in_order else f"{name}={text}")
        return ", ".join(parts)

    # -- statements ------------------------------------------------------------------------

    def body(self, block: Block) -> None:
        """The statements of `block`; its parameters are named already."""
        saved, self._pending = self._pending, []
        outer, self._block = self._block, block
        for op in block.ops:
            self.operation(op)
        self._flush(len(self._pending))
        self._pending, self._block = saved, outer

    def operation(self, op: Operation) -> None:
        """Queues `op` for nesting, or writes it as a statement."""
        if op.opdef.name == "arith.const":
            if op.results[0].name:
                self._settle(op)
                self.statement(op)
            return
        if self._can_nest(op) and (height := self._height(op)) <= HIGHEST:
            self._heights[op] = height
            self._pending.append(op)
            return
        self._settle(op)
        self.statement(op)

    def _height(self, op: Operation) -> int:
        """How deep `op` would nest."""
        return 1 + max([self._heights.get(value.op, 0) for value in op.inputs], default=0)

    def _settle(self, op: Operation) -> None:
        """Nests the pending operations that `op` uses in order; writes out all others."""
        if not self._pending:
            return
        tree: list[Operation] = []
        self._tree(op, set(self._pending), tree)
        if not tree or self._pending[-len(tree) :] != tree:
            tree = []
        self._flush(len(self._pending) - len(tree))
        self._nested.update(tree)
        self._pending.clear()

    def _tree(self, op: Operation, pending: set[Operation], found: list[Operation]) -> None:
        for value in op.inputs:
            inner = value.op
            if inner is not None and inner in pending:
                self._tree(inner, pending, found)
                found.append(inner)

    def _flush(self, count: int) -> None:
        """Writes the first `count` pending operations as statements, each nesting what it can."""
        flushed, self._pending = self._pending[:count], self._pending[count:]
        for op in flushed:
            self.statement(op)

    def statement(self, op: Operation) -> None:
        """Writes one operation as a statement, with the comments that its author gave it."""
        if not self.comments.pending:
            self._statement(op)
            return
        before = self.comments.pending
        start = len(self.lines)
        for text in self.comments.take_leading(op):
            self.line(text)
        first = len(self.lines)
        trailing = self.comments.take_trailing(op)
        self._statement(op)
        if len(self.lines) == first:
            del self.lines[start:]
            self.comments.pending = before
        elif trailing:
            self.lines[first] += "  " + "  ".join(trailing)

    def _statement(self, op: Operation) -> None:
        if op.opdef.syntax is not None:
            op.opdef.syntax(op, self)
            return
        text = self._constant(op)[0] if op.opdef.name == "arith.const" else self.expression(op)[0]
        ties = ties_of(op) if op.opdef.tied else ()
        for result, before in ties:
            self.names.hint(result, before)
        named = any(self._keeps_old_version(op, before) for _, before in ties)
        self.assign(op.results, text, named=named)

    def _keeps_old_version(self, op: Operation, old: Value) -> bool:
        """True when a bare write would rebind a name that still means what it meant before."""
        is_read_later = self._last_use.get(old, 0) > self._positions.get(op, 0)
        return is_read_later or not self._is_local(old)

    def _is_local(self, value: Value) -> bool:
        """True when `value` belongs to the block being written, or that is not known."""
        owner = value.owner
        home = self._homes.get(owner) if isinstance(owner, Operation) else owner
        return self._block is None or home is None or home is self._block

    def assign(self, results: Sequence[Value], text: str, *, named: bool = False) -> None:
        """`name: type = text`; a bare statement when nothing uses or names the results."""
        if not named and not any(map(self._has_name, results)):
            self.line(text)
            return
        names = [self.names.define(value) for value in results]
        if len(results) == 1 and (not self.concise or _is_refined(results[0])):
            self.line(f"{names[0]}: {self.type(results[0].type)} = {text}")
        else:
            self.line(f"{', '.join(names)} = {text}")

    def _has_name(self, value: Value) -> bool:
        return bool(value.name) or self.used(value) or self._is_pinned(value)

    def used(self, value: Value) -> bool:
        """True when some operation uses `value`."""
        return self._uses[value] > 0


def _tuple(texts: list[str]) -> str:
    return f"({texts[0]},)" if len(texts) == 1 else f"({', '.join(texts)})"


def _is_constant(value: Value) -> bool:
    return value.op is not None and value.op.opdef.name == "arith.const"


def _is_literal(entry: Any) -> bool:
    """True for a constant that prints as a literal: operators between literals are folded."""
    op = entry.op if isinstance(entry, Value) else None
    return op is not None and op.opdef.name == "arith.const" and not entry.name


def _is_refined(value: Value) -> bool:
    """True when the author's annotation says more of a value than its operation does."""
    op = value.op
    if op is None or op.opdef.infer is None or not isinstance(value.type, ShapedType):
        return False
    (inferred,) = inferred_types(op)
    facts = ("view", "memref", "space")
    return any(getattr(value.type, n, None) != getattr(inferred, n, None) for n in facts)


def _printed_inputs(op: Operation) -> Sequence[Value]:
    """The inputs that the text of `op` mentions: all but the final versions of a return."""
    return op.operands[0] if op.opdef.name == "control.return" else op.inputs


@lru_cache(maxsize=256)
def _symbols_of(type_: Type) -> frozenset[Symbol]:
    found: set[Symbol] = set()
    _collect(type_, found)
    return frozenset(found)


def _collect(part: Any, found: set[Symbol]) -> None:
    if isinstance(part, Expr):
        found.update(symbols(part))
    elif isinstance(part, tuple):
        for item in cast("tuple[Any, ...]", part):
            _collect(item, found)
    elif hasattr(part, "__dataclass_fields__"):
        for name in part.__dataclass_fields__:
            _collect(getattr(part, name), found)
