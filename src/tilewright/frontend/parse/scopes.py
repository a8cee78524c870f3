"""`with` statements: scopes of placement and dependency. Names bound inside stay visible."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Any, cast

from tilewright.dataclass import dataclass
from tilewright.errors import ParserSyntaxError, UnsupportedFeatureError
from tilewright.frontend.namespace import MISSING
from tilewright.frontend.parse.options import OPTIONS, POSITIONAL, option_attr, require_options
from tilewright.frontend.parse.parser import FunctionParser
from tilewright.frontend.parse.parts import is_same_part, taken_again
from tilewright.frontend.parse.regions import Position, emit_region_op, end_block, isolated
from tilewright.frontend.parse.rules import statement
from tilewright.frontend.parse.tasks import begin_task, refuse_predicate, task_ids
from tilewright.frontend.surface import LoopWord, ScopeWord, Word
from tilewright.frontend.words import AT, CLUSTER, GRAPH, SCOPE, SPLIT_AIV, SPMD
from tilewright.ir.core import Block, Value
from tilewright.ir.enums import CORES, FunctionType, Level, ScopeMode
from tilewright.ir.hints import Split
from tilewright.ops import control


@dataclass(frozen=True)
class Body:
    """What the statements of a scope made: its block, names bound inside, versions of roots."""

    block: Block
    task: Value | None
    scope: dict[str, Any]
    versions: list[Value]


@statement(ast.With)
def parse_with(p: FunctionParser, node: ast.With) -> None:
    """`with pl.at(...):` and its relatives."""
    item = _only_item(p, node)
    word, options = _scope_call(p, item.context_expr)
    refuse_predicate(p, options, item.context_expr)
    deps = task_ids(p, options.pop("deps", None), item.context_expr)
    require_nesting(p, word, item.context_expr, options)
    kind = word.path.rpartition(".")[2]
    attrs = {"kind": kind, "attrs": tuple((n, option_attr(given)) for n, given in options.items())}
    body = _parse_body(p, node, word, options, item.optional_vars)
    changed = {n: b for n, b in body.scope.items() if p.scope.get(n, MISSING) is not b}
    parts = {n for n, b in changed.items() if n in p.scope and is_same_part(p, p.scope[n], b)}
    changed = {n: b for n, b in changed.items() if n not in parts}
    live = p.live.live(node)
    yields = _yields(p, body, [bound for name, bound in changed.items() if name in live])
    end_block(p, body.block, yields)
    op = emit_region_op(p, control.scope, (deps,), attrs, (body.block,), node)
    _leave(p, body, dict(zip(yields, op.results)), changed)
    for name in live.intersection(parts):
        p.scope[name] = taken_again(p, p.scope[name])
    if isinstance(item.optional_vars, ast.Name):
        p.bind(item.optional_vars.id, op.results[0], item.optional_vars)


def _only_item(p: FunctionParser, node: ast.With) -> ast.withitem:
    if len(node.items) != 1:
        raise UnsupportedFeatureError("A 'with' statement opens one scope", p.span(node))
    (item,) = node.items
    if item.optional_vars is not None and not isinstance(item.optional_vars, ast.Name):
        what = f"'{ast.unparse(item.optional_vars)}' cannot name the task of a scope"
        raise ParserSyntaxError(what, p.span(item.optional_vars), "Write 'as tid'.")
    return item


def _parse_body(
    p: FunctionParser, node: ast.With, word: Word, options: dict[str, Any], task: ast.expr | None
) -> Body:
    with p.trial():
        p.state.placements.append((word, options))
        around, p.around = p.around, node.body
        block = p.region((), node.body)
        p.around = around
        current = None if task is None else begin_task(p, block, task)
        p.state.placements.pop()
        return Body(block, current, dict(p.scope), p.versions.mark())


def _yields(p: FunctionParser, body: Body, named: Sequence[Any]) -> list[Value]:
    """What a scope hands out: its task, the newest versions of roots, names read later."""
    where = Position.of(body.block)
    task = () if body.task is None else (body.task,)
    newest = [v for v, was in zip(body.versions, p.versions.current) if v is not was]
    return where.sorted(v for v in (*task, *newest, *named) if where.defines(v))


def _scope_call(p: FunctionParser, node: ast.expr) -> tuple[Any, dict[str, Any]]:
    word = p.evaluate(node.func) if isinstance(node, ast.Call) else None
    if not isinstance(node, ast.Call) or not isinstance(word, (ScopeWord, LoopWord)):
        raise UnsupportedFeatureError(
            f"Unsupported context: '{ast.unparse(node)}'",
            p.span(node),
            "Use pl.at, pl.cluster, pl.spmd, pl.split_aiv, pl.scope or pl.manual_scope.",
        )
    names = POSITIONAL.get(word, ())
    if word not in OPTIONS or len(node.args) > len(names):
        raise ParserSyntaxError(f"{word.path} does not open a scope like this", p.span(node))
    given = dict(zip(names, p.items(node.args)))
    options = {**given, **p.keywords(node)}
    require_options(p, word, options, node)
    return word, options


def require_nesting(
    p: FunctionParser, word: Word, node: ast.expr, options: Mapping[str, Any]
) -> None:
    """Raises ParserSyntaxError for a scope where none may stand; a text may hold what passes and
    the traced style make."""
    kind = p.state.kind
    if kind in CORES and word is not SPLIT_AIV and not p.state.is_text:
        raise ParserSyntaxError(
            f"{word.path} opens a scope in a function of type {kind.name}, which runs on one core",
            p.span(node),
            "Open scopes in the Opaque or Orchestration function that calls it.",
        )
    if word is SPLIT_AIV and not p.state.is_text:
        _require_undivided(p, node)
    if word is SCOPE and p.state.auto_scope and options.get("mode") is not ScopeMode.MANUAL:
        raise ParserSyntaxError(
            "The function opens a scope of automatic dependencies itself",
            p.span(node),
            "Give it auto_scope=False, or write pl.manual_scope().",
        )
    if _is_core(word, options) and any(_is_core(*around) for around in p.state.placements):
        raise ParserSyntaxError(
            "pl.at(level=pl.Level.CORE_GROUP) cannot stand inside another one",
            p.span(node),
            "Close the outer scope first, or drop the inner one.",
        )
    if word is GRAPH:
        _require_ungraphed(p, node)


def _require_ungraphed(p: FunctionParser, node: ast.expr) -> None:
    """Raises ParserSyntaxError where what a graph would record runs on cores or is recorded."""
    words = [*(word for word, _ in p.state.placements), *(each.word for each in p.state.blocks)]
    around = next((word.path for word in words if word in (GRAPH, AT, CLUSTER, SPMD)), "")
    if around or p.state.kind is FunctionType.Graph:
        where = around or "a function of type Graph"
        raise ParserSyntaxError(
            f"pl.graph cannot stand inside {where}",
            p.span(node),
            "Open it in the Opaque or Orchestration function, around what it records.",
        )


def _is_core(word: Word, options: Mapping[str, Any]) -> bool:
    return word is AT and options.get("level") is Level.CORE_GROUP


def _require_undivided(p: FunctionParser, node: ast.expr) -> None:
    """Raises ParserSyntaxError where the vector lanes are divided already."""
    around = [*p.state.placements, *((blocks.word, blocks.options) for blocks in p.state.blocks)]
    for word, options in around:
        splits = [h for h in options.get("optimizations") or () if isinstance(h, Split)]
        if word is SPLIT_AIV or splits:
            how = "" if word is SPLIT_AIV else " with pl.split(...)"
            raise ParserSyntaxError(
                f"pl.split_aiv cannot stand inside {word.path}{how}, which divides the lanes",
                p.span(node),
                "Drop one of the two.",
            )


def _leave(
    p: FunctionParser, body: Body, outside: dict[Value, Value], changed: dict[str, Any]
) -> None:
    """Gives what was handed out its name `outside`; what else was made inside stays there."""
    for inner, result in outside.items():
        result.name = inner.name
        p.versions.follow(inner, result, outside)
    for root, version in enumerate(body.versions):
        if version is not p.versions.current[root]:
            p.versions.advance(root, outside.get(version, version))
    where = Position.of(body.block)
    for name, bound in changed.items():
        if isinstance(bound, Value) and bound in outside:
            p.scope[name] = outside[bound]
        elif not where.defines(bound) and not _holds_values(bound):
            p.scope[name] = bound
        else:
            p.scope[name] = isolated(name, "inside a scope", "Use it inside the scope.")


def _holds_values(bound: Any) -> bool:
    items = cast("Sequence[Any]", bound if isinstance(bound, (list, tuple)) else ())
    return any(isinstance(item, Value) for item in items)
