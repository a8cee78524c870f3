"""The parsed style: statements of a function body become operations, one after the other.

This module holds the parser's state and its rules for names and expressions. How each kind of
statement and each kind of callee is read stands in the modules beside it, which register
themselves in `STATEMENTS` and `CALLEES`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from tilewright.errors import (
    InternalError,
    InvalidOperationError,
    ParserSyntaxError,
    SSAViolationError,
    StaleRead,
    TilewrightError,
    UndefinedVariableError,
    UnsupportedFeatureError,
)
from tilewright.errors.parsing import as_invalid_operation
from tilewright.frontend.evaluator import Evaluator, is_compile_time_callable
from tilewright.frontend.namespace import MISSING, Namespace
from tilewright.frontend.parse import indexing, operators
from tilewright.frontend.parse.liveness import Liveness
from tilewright.frontend.parse.rules import CALLEES, STATEMENTS, WORDS, CalleeRule
from tilewright.frontend.parse.state import (
    Poison,
    Silenced,
    State,
    Yield,
)
from tilewright.frontend.suggestions import did_you_mean
from tilewright.frontend.surface import Word
from tilewright.frontend.values import (
    constant,
    emit_expr,
    extents_with,
    how_to_know,
    is_number,
    literal_of,
)
from tilewright.ir.affine import Expr, Symbol
from tilewright.ir.core import Block, Function, Operation, Value
from tilewright.ir.enums import Effect
from tilewright.ir.types import ShapedType, Type
from tilewright.ops import arith
from tilewright.ops.control import tied_pairs
from tilewright.ops.extents import DIM_OPS, as_dim, same_dim
from tilewright.source import SourceText, Span

MAX_ERRORS = 10


class FunctionParser(Evaluator):
    """Reads one function body into the current block of a builder."""

    def __init__(
        self,
        state: State,
        names: Namespace,
        source: SourceText,
        parent: Span | None = None,
        *,
        live: Liveness | None = None,
        strict_ssa: bool = False,
        function: str = "",
    ) -> None:
        super().__init__(names, source, parent)
        self.state = state
        self.builder = state.builder
        self.versions = state.versions
        self.live = live or Liveness([])
        self.strict_ssa = strict_ssa
        self.function = function
        self.around: Sequence[ast.stmt] = ()
        self.scope: dict[str, Any] = {}
        self.defined: dict[str, ast.expr] = {}
        self.declared: Sequence[tuple[Type, Value]] = ()
        self.outputs: Mapping[str, Value] = {}
        self.rebound: dict[ast.expr, tuple[str, Value]] = {}
        self.yielded: Yield | None = None
        self.ended: Yield | None = None
        self.here: Span | None = parent
        self.returned: tuple[list[Any], ast.Return] | None = None

    # Blocks

    def block(self, body: Sequence[ast.stmt]) -> None:
        """Reads statements in order; an error in one does not hide errors in the next."""
        for node in body:
            if self.yielded is not None:
                self.report(self._misplaced_yield(self.yielded))
                self.yielded = None
            if self.returned is not None:
                self.report(self._misplaced_return(self.returned[1]))
                self.returned = None
            try:
                self.statement(node)
            except Silenced:
                self.recover(node)
            except InternalError:
                raise
            except TilewrightError as error:
                self.report(error.locate(self.span(node)))
                self.recover(node)

    def statement(self, node: ast.stmt) -> None:
        """Reads one statement."""
        rule = STATEMENTS.get(type(node))
        if rule is None:
            raise UnsupportedFeatureError(
                f"Unsupported statement type: {type(node).__name__}",
                self.span(node),
                "Use assignments, for, while, if, with, return, pass and calls."
                if not isinstance(node, ast.AugAssign)
                else f"Write '{ast.unparse(node.target)} = {_expanded(node)}'.",
            )
        outer = self.builder.span
        self.builder.span = self.here = self.span(node)
        rule(self, node)
        self.builder.span = self.here = outer

    def region(self, params: tuple[Value, ...], body: Sequence[ast.stmt]) -> Block:
        """Reads `body` into a new block; the caller ends it with a terminator."""
        saved, self.yielded = self.yielded, None
        with self.state.nested(self.here), self.builder.inside(Block(params)) as block:
            self.block(body)
        if self.returned is not None:
            self.report(self._misplaced_return(self.returned[1]))
            self.returned = None
        ended, self.yielded = self.yielded, saved
        self.ended = ended
        return block

    def report(self, error: TilewrightError) -> None:
        """Keeps an error to be raised at the end of the function; raises when there are many."""
        self.state.errors.append(as_invalid_operation(error))
        if len(self.state.errors) >= MAX_ERRORS:
            raise collected(self.state.errors)

    def recover(self, node: ast.stmt) -> None:
        """Silences later errors about names that a bad statement would have bound."""
        for child in ast.walk(node):
            if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Store):
                self.scope[child.id] = Poison()
            elif isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                self.scope[child.name] = Poison()
            elif isinstance(child, ast.alias):
                self.scope[child.asname or child.name.partition(".")[0]] = Poison()

    def _misplaced_yield(self, ended: Yield) -> TilewrightError:
        return ParserSyntaxError(
            "pl.yield_ must be the last statement of a loop body or an arm of an if",
            self.span(ended.node),
        )

    def _misplaced_return(self, node: ast.Return) -> TilewrightError:
        return ParserSyntaxError(
            "'return' must be the last statement of a function",
            self.span(node),
            "Assign the result in each branch and return it once, at the end.",
        )

    # Names

    def lookup(self, name: str) -> Any:
        found = self.scope.get(name, MISSING)
        return super().lookup(name) if found is MISSING else found

    def known_names(self) -> Sequence[str]:
        return [*self.scope, *super().known_names()]

    def eval_Name(self, node: ast.Name) -> Any:
        found = self.scope.get(node.id)
        if type(found) is not Value:
            found = self.binding(node)
        if isinstance(found, Symbol):
            found = self.symbol_value(found)
        if isinstance(found, Value):
            literal = literal_of(found)
            return found if literal is None else literal
        return found

    def binding(self, node: ast.Name) -> Any:
        """What a name is bound to; raises for unknown and unusable ones."""
        found = self.scope.get(node.id, MISSING)
        if found is MISSING:
            found = self.names.lookup(node.id)
            if found is MISSING:
                raise self.undefined(node)
        if isinstance(found, Poison):
            raise self.unusable(found, self.span(node))
        return found

    def unusable(self, bound: Poison, span: Span | None) -> Exception:
        """What a use of such a name raises."""
        if bound.reason is None or span is None:
            return Silenced()
        return bound.reason(span)

    def operand(self, node: ast.expr) -> Any:
        """An expression's value, keeping a named constant as the value that has the name."""
        return self.binding(node) if isinstance(node, ast.Name) else self.evaluate(node)

    def bind(self, name: str, value: Any, node: ast.expr) -> None:
        """Binds a name of the body; an unnamed value takes it as its own."""
        if self.strict_ssa and name in self.scope:
            raise SSAViolationError(
                f"Variable '{name}' is already defined",
                self.span(node),
                f"Use a new name, or drop strict_ssa=True from '{self.function}'.",
                previous_span=self.span(self.defined[name]) if name in self.defined else None,
            )
        self.scope[name] = value
        self.defined[name] = node
        if isinstance(value, Value):
            value.name = value.name or name
            if name in self.outputs:
                self.rebound[node] = name, value

    def rebind(self, old: Value, new: Value) -> None:
        """Makes every name of `old` a name of `new`: a write in place was made through one."""
        for name, bound in self.scope.items():
            if bound is old:
                self.scope[name] = new
                new.name = new.name or name

    def as_value(self, given: Any, node: ast.expr | None = None) -> Value:
        """`given` as a value of the IR: numbers become constants, expressions operations."""
        if isinstance(given, Value):
            return given
        if is_number(given):
            return constant(given)
        if isinstance(given, (Expr, Symbol)):
            return emit_expr(given + 0, self.symbol_value)
        if isinstance(given, Poison):
            raise self.unusable(given, self.here)
        what, hint = f"{given!r} is not a value that a kernel can compute with", None
        if isinstance(given, (tuple, list)):
            count = len(given)  # pyright: ignore[reportUnknownArgumentType]
            what = f"{count} values stand where one is wanted"
            hint = "Take them apart, as in 'a, b = ...', or choose one by its index."
        error = InvalidOperationError(what, hint=hint)
        raise error.locate(self.span(node)) if node is not None else error

    def symbol_value(self, symbol: Symbol) -> Value:
        """The scalar that a dynamic dimension stands for: read from a parameter that has it, of a
        helper first."""
        found = extents_with(symbol, self.declared)
        if not found:
            for param in self.state.params:
                if param.has_symbol and param.symbol is symbol:
                    return param
            found = extents_with(symbol, ((p.type, p) for p in self.state.params))[:1]
        if not found:
            raise UndefinedVariableError(
                f"The extent of dimension '{symbol.name}' is not known here",
                hint=how_to_know(symbol, self.state.params),
            )
        first, *others = [self._dimension(*place) for place in found]
        if any(same_dim(as_dim(first), as_dim(other)) is not True for other in others):
            raise InvalidOperationError(
                f"Dimension '{symbol.name}' may be another one in each argument of "
                f"'{self.function}'",
                hint="Read it from the parameter that is meant, as in 'x.shape[0]'.",
            )
        return first

    def _dimension(self, scaled: tuple[int, int], value: Value, axis: int) -> Value:
        """What makes `scale * x + offset` the extent of an axis."""
        scale, offset = scaled
        assert isinstance(value.type, ShapedType)
        extent = value.type.shape[axis]
        if isinstance(extent, int):
            return constant((extent - offset) // scale)
        found = self.extent(value, axis)
        if offset:
            found = arith.sub(found, constant(offset))
        return found if scale == 1 else arith.floordiv(found, constant(scale))

    def extent(self, value: Value, axis: int) -> Value:
        """Extent `axis` of a tensor or tile as an INDEX scalar."""
        return operators.emit_call("pl.tensor.dim", (value, axis), {})

    # Expressions

    def attribute(self, base: Any, node: ast.Attribute) -> Any:
        if isinstance(base, Value):
            return self._value_attribute(base, node)
        if isinstance(base, Self):
            return self._method(node)
        return super().attribute(base, node)

    def _method(self, node: ast.Attribute) -> Function:
        found = self.state.callees.method(node.attr)
        if found is None:
            raise InvalidOperationError(
                f"The program has no function '{node.attr}'",
                self.span(node),
                did_you_mean(node.attr, self.state.callees.method_names()),
            )
        return found

    def _value_attribute(self, base: Value, node: ast.Attribute) -> Any:
        type_ = base.type
        if node.attr == "shape" and isinstance(type_, ShapedType):
            extents = enumerate(type_.shape)
            return tuple(d if isinstance(d, int) else self.extent(base, a) for a, d in extents)
        if node.attr in ("dtype", "rank", "extent") and hasattr(type_, node.attr):
            return getattr(type_, node.attr)
        raise InvalidOperationError(
            f"A value of type {type_} has no attribute '{node.attr}'",
            self.span(node),
            "Values have .shape, .dtype and .rank; other operations are called as pl.f(x).",
        )

    def as_printed(self, *operands: Any) -> tuple[Any, ...]:
        """Operands of an operator: in a text, where nothing folds, numbers are constants."""
        if self.state.is_text and all(map(is_number, operands)):
            return tuple(map(constant, operands))
        return operands

    def binary(self, node: ast.BinOp, left: Any, right: Any) -> Any:
        left, right = self.as_printed(left, right)
        if _symbolic(left) or _symbolic(right):
            if not self.state.is_text:  # what passes leave of a program may divide by 0
                operators.require_divisor(node.op, left, right, self.span(node.right))
            return self.emitted(node, operators.emit_binary, node.op, left, right)
        return super().binary(node, left, right)

    def unary(self, node: ast.UnaryOp, operand: Any) -> Any:
        if not operators.is_signed_literal(node):
            (operand,) = self.as_printed(operand)
        if isinstance(operand, Value):
            return self.emitted(node, operators.emit_unary, node.op, operand)
        return super().unary(node, operand)

    def compare(self, node: ast.Compare, left: Any, right: Any) -> Any:
        is_absent = left is None or right is None
        identity = isinstance(node.ops[0], (ast.Is, ast.IsNot)) and is_absent
        left, right = self.as_printed(left, right)
        if not identity and (_symbolic(left) or _symbolic(right)):
            return self.emitted(node, operators.emit_compare, node.ops[0], left, right)
        return super().compare(node, left, right)

    def bool_op(self, node: ast.BoolOp, values: list[Any]) -> Any:
        values = list(self.as_printed(*values))
        if any(map(_symbolic, values)):
            return self.emitted(node, operators.emit_bool, node.op, values)
        return super().bool_op(node, values)

    def choose(self, node: ast.IfExp, test: Any) -> Any:
        if isinstance(test, Value):
            raise UnsupportedFeatureError(
                "A conditional expression needs a compile-time condition",
                self.span(node),
                "Use an if statement that assigns the name in both arms.",
            )
        return super().choose(node, test)

    def subscript(self, node: ast.Subscript, base: Any) -> Any:
        if not isinstance(base, Value):
            return super().subscript(node, base)
        start = len(self.builder.block.ops)
        index = self.evaluate(node.slice)
        result = self.emitted(node, indexing.read, base, index)
        self.prune(start)
        return result

    def eval_Call(self, node: ast.Call) -> Any:
        if self.state.is_text and isinstance(node.func, ast.Name):
            self.require_callee(node.func)
        return super().eval_Call(node)

    def undefined(self, node: ast.Name) -> UndefinedVariableError:
        error = super().undefined(node)
        if node.id == self.function:
            error.hint = f"'{node.id}' cannot call itself: write a loop."
        return error

    def require_callee(self, node: ast.Name) -> None:
        """Raises UndefinedVariableError for a function that a text does not have."""
        if self.lookup(node.id) is MISSING and node.id != self.function:
            raise UndefinedVariableError(
                f"Function '{node.id}' is not part of this text",
                self.span(node),
                self.undefined(node).hint
                or "The text of a function leaves out what it calls: print the program that has "
                "both.",
            )

    def call(self, node: ast.Call, function: Any) -> Any:
        rule = WORDS.get(function) if isinstance(function, Word) else _rule_of(function)
        if rule is not None:
            return rule(self, node, function)
        arguments = self.items(node.args)
        keywords = self.keywords(node)
        symbolic = any(map(_symbolic, arguments))
        if symbolic and function in (min, max):
            return self.emitted(node, operators.emit_extremum, function, arguments)
        if symbolic or not is_compile_time_callable(function):
            raise self.not_callable(node, function)
        return self.computed(node, function, *arguments, **keywords)

    def emitted(self, node: ast.expr, emit: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """The result of `emit`, its operations and errors located at `node`."""
        builder = self.builder
        start, outer = len(builder.block.ops), builder.span
        builder.span = self.span(node)
        try:
            result = emit(*args, **kwargs)
        except TilewrightError as error:
            error.locate(builder.span)
            raise
        finally:
            builder.span = outer
        for op in builder.block.ops[start:]:
            if op.operands:
                self.settle(op)
        return result

    def settle(self, op: Operation) -> None:
        """Follows what a new operation writes; refuses a read of an old version of a parameter."""
        operands: tuple[Any, ...] = () if op.opdef in DIM_OPS else op.operands
        for position, entry in enumerate(operands):
            if isinstance(entry, Value) and self.versions.is_stale(entry):
                if position not in op.opdef.tied.values():
                    raise self.stale_read(entry, op.span)
                entries = list(op.operands)
                entries[position] = self.versions.newest(entry)
                op.operands = tuple(entries)
        ties = tuple(tied_pairs(op))
        for _, operand in ties:
            self.require_writable(operand, op.span)
        self.versions.note_writes(op, ties)

    def require_writable(self, value: Value, span: Span | None) -> None:
        """Refuses a write whose destination depends on the path that was taken."""
        if value in self.versions.mixed:
            raise StaleRead(
                f"Which memory '{value.name}' names here depends on the path taken: "
                "it cannot be written",
                span,
                "Write the parameter itself in each branch, or copy into a tensor of its own.",
            )

    def stale_read(self, value: Value, span: Span | None) -> StaleRead:
        """The error for reading a tensor parameter as it was before a write."""
        newest = self.versions.newest(value)
        after = f"'{newest.name}', its contents" if newest.name else "its contents"
        error = StaleRead(
            f"'{value.name}' is read as it was before a later write to it",
            span,
            f"Read it before the write, or use {after} after the write.",
        )
        written = newest.op.span if newest.op is not None else None
        return error.with_note("the write is here", written) if written else error

    def prune(self, start: int, results: Iterable[Value] = (), *, keep: bool = True) -> None:
        """Drops unnamed pure operations since `start` that nothing uses: extents now in a type.

        With `keep` the last stays, as do those that give `results`.
        """
        ops = self.builder.block.ops
        end = len(ops) - keep
        if not any(op.opdef.effect is Effect.PURE and op.operands for op in ops[start:end]):
            return
        kept = set(results)
        used = kept.union(*[op.inputs for op in ops[start:]])
        for position in range(end - 1, start - 1, -1):
            if _is_dead(ops[position], used):
                del ops[position]
                used = kept.union(*[op.inputs for op in ops[start:]])

    @contextmanager
    def trial(self) -> Generator[None]:
        """Keeps names and versions as they were, whatever happens inside."""
        scope, versions = dict(self.scope), self.versions.mark()
        try:
            yield
        finally:
            self.scope = scope
            self.versions.restore(versions)


def _rule_of(function: Any) -> CalleeRule | None:
    kinds = type(function).__mro__
    return CALLEES.get(kinds[0]) or next((CALLEES[k] for k in kinds if k in CALLEES), None)


class Self:
    """What `self` is in the body of a program's function."""


def _symbolic(given: Any) -> bool:
    return isinstance(given, Value)


def _is_dead(op: Operation, used: set[Value]) -> bool:
    if op.opdef.effect is not Effect.PURE or op.regions or op.opdef.tied:
        return False
    return not any(v.name or v.has_symbol or v in used for v in op.results)


def _expanded(node: ast.AugAssign) -> str:
    value = ast.BinOp(node.target, node.op, node.value)
    return ast.unparse(value)


def collected(errors: Sequence[TilewrightError]) -> TilewrightError:
    """The first of several errors, with the others as its companions."""
    first, *others = errors
    first.also.extend(others)
    return first
