"""Copies of programs with changes: the only way a finished program becomes another."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from typing import Any, cast

from tilewright.ir.affine import Expr, Symbol, as_expr, simplify, substitute
from tilewright.ir.builder import Builder, finish_program
from tilewright.ir.core import Block, Function, Operation, Program, Value
from tilewright.ir.opdef import OpDef
from tilewright.ir.types import Type

RewriteRule = Callable[..., "Value | None"]
Rules = Mapping[OpDef[..., Any], tuple[RewriteRule, ...]]


class Cloner:
    """Copies blocks into a builder under a value mapping.

    With `fresh_symbols` the copies stand for other values than the originals, so dims and
    accesses that mention the originals are rewritten to mention the copies (inlining). Symbols
    that are `kept` stand for the same: extents of parameters of a function that is copied whole.
    """

    def __init__(
        self,
        builder: Builder,
        mapping: dict[Value, Value] | None = None,
        *,
        fresh_symbols: bool = False,
    ) -> None:
        self.builder = builder
        self.mapping: dict[Value, Value] = {} if mapping is None else mapping
        self.fresh_symbols = fresh_symbols
        self.symbols: dict[Symbol, Expr] = {}
        self.kept: Set[Symbol] = frozenset()

    def value(self, value: Value) -> Value:
        """The copy of `value`, or itself when it was not copied."""
        return self.mapping.get(value, value)

    def entry(self, entry: Any) -> Any:
        """The copy of one operand entry."""
        if isinstance(entry, Value):
            return self.mapping.get(entry, entry)
        return None if entry is None else tuple(map(self.value, entry))

    def operands(self, op: Operation) -> tuple[Any, ...]:
        """The copies of the operand entries of `op`."""
        copies = self.mapping
        return tuple(
            [
                copies.get(entry, entry) if isinstance(entry, Value) else self.entry(entry)
                for entry in op.operands
            ]
        )

    def bind(self, old: Value, new: Value) -> None:
        """Makes `new` the copy of `old`: same name and, unless fresh, the same symbol."""
        self.mapping[old] = new
        new.name = new.name or old.name
        if not old.has_symbol:
            return
        if not self.fresh_symbols or old.symbol in self.kept:
            new.bind_symbol(old.symbol)
            return
        low, high = old.symbol.lo, old.symbol.hi
        new.bind_symbol(Symbol(old.symbol.name, self.attr(low), self.attr(high)))
        self.symbols[old.symbol] = as_expr(new.symbol)

    def attrs(self, op: Operation) -> Mapping[str, Any]:
        """The attributes of the copy of `op`."""
        if not self.symbols:
            return op.attrs
        return {name: self.attr(given) for name, given in op.attrs.items()}

    def attr(self, given: Any) -> Any:
        """An attribute with the symbols of copied values replaced."""
        if not self.symbols:
            return given
        if isinstance(given, Expr):
            return simplify(substitute(given, self.symbols))
        if isinstance(given, tuple):
            return tuple(map(self.attr, cast("tuple[Any, ...]", given)))
        rename = getattr(given, "substitute", None)
        return rename(self.symbols) if rename else given

    def type(self, type_: Type) -> Type:
        """A type with the symbols of copied values replaced."""
        return substitute_type(type_, self.symbols) if self.symbols else type_

    def clone(self, op: Operation) -> Operation:
        """A copy of `op` at the end of the builder's block; its results are bound."""
        operands = self.operands(op)
        regions = tuple(map(self.block, op.regions)) if op.regions else ()
        attrs = self.attrs(op)
        types = tuple([value.type for value in op.results])
        if self.symbols:
            types = tuple(map(self.type, types))
        new = self.builder.emit(
            op.opdef, operands, attrs, regions, span=op.span, types=self._known(op, operands, types)
        )
        for old_value, new_value in zip(op.results, new.results, strict=True):
            self.bind(old_value, new_value)
        return new

    def _known(
        self, op: Operation, operands: tuple[Any, ...], types: tuple[Type, ...]
    ) -> tuple[Type, ...] | None:
        """The result types of the copy when no operand changed its type, else None (infer)."""
        if op.regions:
            return None
        for old, new in zip(op.operands, operands, strict=True):
            if isinstance(old, Value) and old.type is not new.type and old.type != new.type:
                return None if not self.symbols else types
        return types

    def params(self, block: Block) -> tuple[Value, ...]:
        """Fresh, bound copies of the parameters of `block`."""
        copies = tuple(Value(self.type(param.type), param.name) for param in block.params)
        for old, new in zip(block.params, copies, strict=True):
            self.bind(old, new)
        return copies

    def block(self, block: Block) -> Block:
        """A copy of `block`."""
        copy = Block(self.params(block))
        with self.builder.inside(copy):
            self.body(block)
        return copy

    def body(self, block: Block) -> None:
        """Copies of the operations of `block`, at the end of the builder's block."""
        for op in block.ops:
            self.clone(op)


def replace_values(block: Block, mapping: Mapping[Value, Value]) -> None:
    """Makes the operations of a block that is still being built use other values."""
    if not mapping:
        return
    for op in block.walk():
        if any(value in mapping for value in op.inputs):
            op.operands = tuple(_replaced(entry, mapping) for entry in op.operands)


def _replaced(entry: Any, mapping: Mapping[Value, Value]) -> Any:
    if isinstance(entry, Value):
        return mapping.get(entry, entry)
    return None if entry is None else tuple(mapping.get(value, value) for value in entry)


def substitute_type(type_: Type, symbols: Mapping[Symbol, Expr]) -> Type:
    """`type_` with symbols in its extents, strides and views replaced."""
    changed = {}
    for name in getattr(type_, "__dataclass_fields__", {}):
        old = getattr(type_, name)
        new = _substitute_part(old, symbols)
        if new is not old:
            changed[name] = new
    if not changed:
        return type_
    parts = {name: getattr(type_, name) for name in getattr(type_, "__dataclass_fields__", {})}
    return type(type_)(**{**parts, **changed})


def _substitute_part(part: Any, symbols: Mapping[Symbol, Expr]) -> Any:
    if isinstance(part, Expr):
        return simplify(substitute(part, symbols))
    if isinstance(part, tuple):
        old = cast("tuple[Any, ...]", part)
        items = tuple(_substitute_part(item, symbols) for item in old)
        return old if all(a is b for a, b in zip(items, old, strict=True)) else items
    if hasattr(part, "__dataclass_fields__"):
        return substitute_type(cast(Type, part), symbols)
    return part


class RuleCloner(Cloner):
    """A cloner that offers each copied operation to rewrite rules."""

    def __init__(self, builder: Builder, rules: Rules) -> None:
        super().__init__(builder)
        self.rules = rules

    def clone(self, op: Operation) -> Operation:
        for rule in self.rules.get(op.opdef, ()):
            replacement = rule(*self.operands(op), **op.attrs)
            if replacement is not None:
                self.bind(op.result, replacement)
                return op
        return super().clone(op)


def copy_function(function: Function, body: Block, **changes: Any) -> Function:
    """A function like `function` around `body`; `changes` replace its other parts."""
    facts: dict[str, Any] = {
        "func_type": function.func_type,
        "level": function.level,
        "role": function.role,
        "attrs": function.attrs,
        "doc": function.doc,
        "span": function.span,
    }
    name: str = changes.pop("name", function.name)
    directions = changes.pop("directions", function.directions)
    return_types = changes.pop("return_types", function.return_types)
    return Function(name, directions, body, return_types, **{**facts, **changes})


def rewrite_function(function: Function, cloner: Callable[[Builder], Cloner]) -> Function:
    """A copy of `function` made by the cloner that `cloner(builder)` gives."""
    builder = Builder()
    with builder:
        return copy_function(function, cloner(builder).block(function.body))


def map_functions(program: Program, change: Callable[[Function], Function]) -> Program:
    """A program of the changed functions."""
    changed = {name: change(function) for name, function in program.functions.items()}
    return finish_program(program.name, changed)


def apply_rules(program: Program, rules: Rules) -> Program:
    """One forward walk over `program` that replaces operations by what `rules` give."""
    return map_functions(
        program,
        lambda function: rewrite_function(function, lambda builder: RuleCloner(builder, rules)),
    )
