"""What can be read off a function's source; the trees are shared and read-only."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from dataclasses import field, replace
from types import FunctionType
from typing import Any

from tilewright.dataclass import dataclass
from tilewright.errors import ParserSyntaxError
from tilewright.frontend.annotations import DynVar
from tilewright.frontend.capture import (
    CapturedFunction,
    FunctionNode,
    capture_function,
    refuse_deep_nesting,
)
from tilewright.hashes import blake
from tilewright.jit._source import Path
from tilewright.source import Span


@dataclass(frozen=True)
class DynamicAxis:
    """`x.bind_dynamic(axis, N)` in a body: an axis of a parameter that run time knows."""

    param: str
    axis: int
    symbol: str
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True)
class SourceInfo:
    """A function's definition and the names in it.

    `body_reads` are the names (with the attributes read from them) that the body inherits,
    `annotation_reads` those of the parameters' and the return annotation, both in source order.
    `stored_names` are bound by statements of the body, `local_names` those and the parameters.
    """

    captured: CapturedFunction
    digest: str
    body_reads: tuple[Path, ...]
    annotation_reads: tuple[Path, ...]
    local_names: frozenset[str]
    stored_names: frozenset[str]
    dynamic_axes: tuple[DynamicAxis, ...]
    dynamic_symbols: dict[str, DynVar]

    @property
    def node(self) -> FunctionNode:
        """The `def`; it is shared and must not be changed."""
        return self.captured.node

    @property
    def parameters(self) -> list[ast.arg]:
        """Every parameter, in order."""
        return _parameters(self.node)

    @property
    def reads(self) -> Iterator[Path]:
        """Every inherited name, without repetitions."""
        yield from dict.fromkeys((*self.annotation_reads, *self.body_reads))


def analyse(function: FunctionType) -> SourceInfo:
    """The analysis of a live function; raises ParserSyntaxError when its source is not found."""
    captured = capture_function(function)
    with refuse_deep_nesting(captured.node, captured.source):
        return _analysis(captured)


def _analysis(captured: CapturedFunction) -> SourceInfo:
    node = captured.node
    body = _BodyScan(node.body)
    local = frozenset(argument.arg for argument in _parameters(node)) | body.bound
    symbols, axes = _dynamic_declarations(captured)
    return SourceInfo(
        captured,
        blake("\0".join((_signature_text(node), *body.text)).encode()).hexdigest(),
        tuple(path for path in body.reads if path[0] not in local),
        tuple(dict.fromkeys(_annotation_reads(node))),
        local,
        frozenset(body.stored),
        tuple(axes),
        symbols,
    )


def _signature_text(node: FunctionNode) -> str:
    returns = "" if node.returns is None else ast.unparse(node.returns)
    return f"{node.name}({ast.unparse(node.args)}) -> {returns}"


def _parameters(node: FunctionNode) -> list[ast.arg]:
    spec = node.args
    return [*spec.posonlyargs, *spec.args, *spec.kwonlyargs]


class _BodyScan:
    """One walk over the statements of a body, in source order.

    `stored` are the names that statements bind and `bound` those and the deleted ones; `reads` the
    paths that are read; `text` is the same for two bodies exactly when their trees are the same.
    """

    def __init__(self, body: list[ast.stmt]) -> None:
        self.stored: set[str] = set()
        self.bound: set[str] = set()
        self.reads: dict[Path, None] = {}
        self.text: list[str] = []
        self._scan(body)

    def _scan(self, body: list[ast.stmt]) -> None:
        text = self.text
        stack: list[Any] = [body]
        while stack:
            node = stack.pop()
            kind = node.__class__
            if kind is ast.Name:
                self._name(node)
            elif kind is list:
                text.append(f"[{len(node)}")
                stack.extend(node[::-1])
            elif kind is ast.Attribute and (path := path_of(node)) is not None:
                self.reads[path] = None
                text.append(".".join(path))
            elif isinstance(node, ast.AST):
                text.append(kind.__name__)
                stack += [getattr(node, name) for name in _fields(kind)]
            else:
                text.append(f"={node!r}")

    def _name(self, node: ast.Name) -> None:
        self.text.append(node.id)
        if node.ctx.__class__ is ast.Load:
            self.reads[(node.id,)] = None
            return
        self.bound.add(node.id)
        if node.ctx.__class__ is ast.Store:
            self.stored.add(node.id)


@functools.cache
def _fields(kind: type[ast.AST]) -> tuple[str, ...]:
    """The fields of a kind of node that say something, last first."""
    return tuple(name for name in kind._fields[::-1] if name not in ("ctx", "type_comment", "kind"))


def _annotation_reads(node: FunctionNode) -> Iterator[Path]:
    own = {argument.arg for argument in node.args.args}
    for annotation in annotations_of(node):
        yield from (path for path in read_paths(annotation) if path[0] not in own)


def annotations_of(node: FunctionNode) -> Iterator[ast.expr]:
    """The annotations of a signature, quoted ones parsed."""
    for argument in _parameters(node):
        if argument.annotation is not None:
            yield unquoted(argument.annotation)
    if node.returns is not None:
        yield unquoted(node.returns)


def unquoted(annotation: ast.expr) -> ast.expr:
    """An annotation, or the expression in it when it is a string."""
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        try:
            inner = ast.parse(annotation.value, mode="eval").body
        except SyntaxError:
            return annotation
        for child in ast.walk(inner):
            if isinstance(child, ast.expr):
                ast.copy_location(child, annotation)
        return inner
    return annotation


def read_paths(node: ast.AST) -> Iterator[Path]:
    """Names read in a tree, each with the attributes read from it, in source order."""
    path = path_of(node)
    if path is not None:
        yield path
        return
    for child in ast.iter_child_nodes(node):
        yield from read_paths(child)


def path_of(node: ast.AST) -> Path | None:
    """The path that an expression is, or None."""
    attributes: list[str] = []
    while isinstance(node, ast.Attribute):
        attributes.append(node.attr)
        node = node.value
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        return (node.id, *reversed(attributes))
    return None


# ---- dynamic dimensions declared in a body -------------------------------------------------------


def _dynamic_declarations(
    captured: CapturedFunction,
) -> tuple[dict[str, DynVar], list[DynamicAxis]]:
    symbols: dict[str, DynVar] = {}
    axes: list[DynamicAxis] = []
    node = captured.node
    understood: set[ast.AST] = set()
    for statement in node.body:
        declared = dynamic_symbol(statement)
        if declared is not None:
            symbols[declared[0]] = DynVar(declared[1], 0)
        axis = dynamic_axis(statement)
        if axis is not None:
            assert isinstance(statement, ast.Expr)
            understood.add(statement.value)
            axes.append(replace(axis, span=captured.source.span(statement.value)))
    spec = node.args
    own = {a.arg for a in (*spec.posonlyargs, *spec.args, *spec.kwonlyargs)}
    _require_understood(captured, understood, own)
    return symbols, axes


def _require_understood(
    captured: CapturedFunction, understood: set[ast.AST], parameters: set[str]
) -> None:
    """Raises ParserSyntaxError for a `bind_dynamic` that declares nothing."""
    calls = (node for node in ast.walk(captured.node) if isinstance(node, ast.Call))
    for call in calls:
        path = path_of(call.func)
        if path is None or len(path) != 2 or path[1] != "bind_dynamic":
            continue
        if path[0] not in parameters:
            hint = f"Bind an axis of one of {', '.join(sorted(parameters))}."
            message = f"bind_dynamic: '{path[0]}' is no parameter"
        elif call not in understood:
            hint = f"Write {path[0]}.bind_dynamic(0, N), with N = pl.dynamic('N')."
            message = (
                "bind_dynamic is a statement of its own, not in a block, with the number of an "
                "axis and the name of a dimension"
            )
        else:
            continue
        raise ParserSyntaxError(message, captured.source.span(call), hint)


def dynamic_symbol(statement: ast.stmt) -> tuple[str, str] | None:
    """The name and the label of `N = pl.dynamic("N")`."""
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return None
    (target,), call = statement.targets, statement.value
    if not (isinstance(target, ast.Name) and isinstance(call, ast.Call) and len(call.args) == 1):
        return None
    path, label = path_of(call.func), call.args[0]
    if path is None or path[-1] != "dynamic" or not isinstance(label, ast.Constant):
        return None
    return (target.id, label.value) if isinstance(label.value, str) else None


def dynamic_axis(statement: ast.stmt) -> DynamicAxis | None:
    """What `x.bind_dynamic(0, N)` declares."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call) or len(call.args) != 2:
        return None
    path, (place, symbol) = path_of(call.func), call.args
    if path is None or len(path) != 2 or path[1] != "bind_dynamic":
        return None
    axis = _number(place)
    if axis is None or not isinstance(symbol, ast.Name):
        return None
    return DynamicAxis(path[0], axis, symbol.id)


def _number(node: ast.expr) -> int | None:
    """The whole number that is written, or None."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = _number(node.operand)
        return None if inner is None else -inner
    value = node.value if isinstance(node, ast.Constant) else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None
