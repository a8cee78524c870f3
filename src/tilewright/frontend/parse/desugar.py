"""What is rewritten before a body is read: `break`, `continue`, and blocks of `with pl.spmd(n):`.

`with pl.spmd(n):` is the loop over blocks whose index has no name. Exits become flags, so that
every loop has one way through its body:

`break` clears the loop's flag, `continue` sets the iteration's; what follows either is guarded. A
loop that was broken out of does nothing in the iterations that are left. What a loop with
init_values carries becomes names: it is what the last pl.yield_ that was reached gave.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Sequence
from itertools import count

from tilewright.errors import UnsupportedFeatureError
from tilewright.frontend.capture import FunctionNode
from tilewright.frontend.namespace import Namespace, word_called
from tilewright.source import SourceText

_ORDERED = ("range", "while_")
TASK_NAME = "task_name"
"""The attribute of a rewritten `with pl.spmd(n) as tid:` that holds its `tid`."""


def prepared_body(node: FunctionNode, names: Namespace, source: SourceText) -> list[ast.stmt]:
    """The statements of a function without its docstring, exits and blocks rewritten."""
    body = node.body[1:] if ast.get_docstring(node, clean=False) is not None else node.body
    if not _needs_rewriting(names, body):
        return list(body)
    return _Desugar(names, source).block([copy.deepcopy(child) for child in body])


def _needs_rewriting(names: Namespace, body: Sequence[ast.stmt]) -> bool:
    for node in body:
        if isinstance(node, (ast.Break, ast.Continue)) or _blocks_call(names, node) is not None:
            return True
        inner = [*node.body, *getattr(node, "orelse", ())] if isinstance(node, _NESTING) else ()
        if _needs_rewriting(names, inner):
            return True
    return False


_NESTING = (ast.For, ast.While, ast.If, ast.With)


def _blocks_call(names: Namespace, node: ast.stmt) -> ast.Call | None:
    """The call in `with pl.spmd(...):`, or None for any other statement."""
    call = node.items[0].context_expr if isinstance(node, ast.With) else None
    if isinstance(call, ast.Call) and word_called(names, call) == "spmd":
        return call
    return None


class _Desugar:
    def __init__(self, names: Namespace, source: SourceText) -> None:
        self.names = names
        self.source = source
        self.numbers = count()

    def block(self, body: Sequence[ast.stmt]) -> list[ast.stmt]:
        return [rewritten for child in body for rewritten in self.statement(child)]

    def statement(self, node: ast.stmt) -> list[ast.stmt]:
        if isinstance(node, (ast.For, ast.While)):
            return self.loop(node)
        if isinstance(node, (ast.Break, ast.Continue)):
            raise UnsupportedFeatureError(
                f"'{type(node).__name__.lower()}' outside a loop", self.source.span(node)
            )
        call = _blocks_call(self.names, node)
        if call is not None and isinstance(node, ast.With):
            index = ast.Name(f"block_{next(self.numbers)}", ast.Store())
            ast.copy_location(index, call)
            blocks = ast.copy_location(ast.For(index, call, node.body, []), node)
            setattr(blocks, TASK_NAME, node.items[0].optional_vars)
            return self.loop(blocks)
        if isinstance(node, (ast.If, ast.With)):
            node.body = self.block(node.body)
            if isinstance(node, ast.If):
                node.orelse = self.block(node.orelse)
        return [node]

    def loop(self, node: ast.For | ast.While) -> list[ast.stmt]:
        exits = [child for child in _own(node.body) if isinstance(child, (ast.Break, ast.Continue))]
        if not exits:
            node.body = self.block(node.body)
            return [node]
        self.require_ordered(node, exits[0])
        if isinstance(node, ast.For) and _init_values(node) is not None:
            return self.carrying(node, exits[0])
        number = next(self.numbers)
        going, skipped = f"going_{number}", f"skipped_{number}"
        breaks = any(isinstance(child, ast.Break) for child in exits)
        guarded = self.guarded(node.body, going, skipped)
        inner: list[ast.stmt] = [_set(skipped, False, node), *guarded]
        before: list[ast.stmt] = []
        if breaks:
            before = [_set(going, True, node)]
            if isinstance(node, ast.While):
                both = [_name(going, node), node.test]
                node.test = ast.copy_location(ast.BoolOp(ast.And(), both), node.test)
            else:
                inner = [ast.copy_location(ast.If(_name(going, node), inner, []), node)]
        node.body = inner
        return [*before, node]

    def require_ordered(self, node: ast.For | ast.While, at: ast.stmt) -> None:
        if isinstance(node, ast.While):
            return
        if word_called(self.names, node.iter) not in _ORDERED:
            word = type(at).__name__.lower()
            raise UnsupportedFeatureError(
                f"'{word}' works in pl.range and while loops only", self.source.span(at)
            )

    def carrying(self, node: ast.For, at: ast.stmt) -> list[ast.stmt]:
        """A loop with init_values that may be left: its carries are names that it rebinds."""
        inits, headers, results, given = self.carried(node, at)
        number = next(self.numbers)
        carries = [f"carry_{number}_{k}" for k in range(len(inits))]
        inside = {header: f"{header}_{number}" for header in headers}
        *body, end = node.body
        leave = ast.copy_location(self.plain_loop(node, dict(zip(headers, carries))), node)
        leave.body = [
            *(_assign(ast.Name(i), _name(c, node), node) for i, c in zip(inside.values(), carries)),
            *(_Renamed(inside).visit(child) for child in body if not self.calls(child, "cond")),
            *(_assign(ast.Name(c), _Renamed(inside).visit(g), end) for c, g in zip(carries, given)),
        ]
        return [
            *(_assign(ast.Name(carry), init, node) for carry, init in zip(carries, inits)),
            *self.loop(leave),
            *(_assign(result, _name(c, end), end) for c, result in zip(carries, results)),
        ]

    def carried(
        self, node: ast.For, at: ast.stmt
    ) -> tuple[list[ast.expr], list[str], list[ast.expr], list[ast.expr]]:
        """Initial values, names in the loop, names after it and what is yielded, as many of each;
        raises UnsupportedFeatureError for a loop that does not say them one by one."""
        end = node.body[-1]
        call = end.value if isinstance(end, ast.Assign) and self.calls(end, "yield_") else None
        header = node.target
        if isinstance(header, ast.Tuple) and not self.is_while(node) and len(header.elts) == 2:
            header = header.elts[1]
        inits = _elements(_init_values(node))
        names = [name.id for name in _elements(header) if isinstance(name, ast.Name)]
        results = _elements(end.targets[0]) if isinstance(end, ast.Assign) else []
        given = call.args if isinstance(call, ast.Call) else []
        if not inits or {len(inits)} != {len(names), len(results), len(given)}:
            raise UnsupportedFeatureError(
                f"'{type(at).__name__.lower()}' works in a loop with init_values that names what "
                "it carries one by one, and yields it at its end",
                self.source.span(at),
                "Write 'for i, (x,) in pl.range(n, init_values=(x0,))' and 'x = pl.yield_(...)'.",
            )
        return inits, names, results, given

    def plain_loop(self, node: ast.For, names: dict[str, str]) -> ast.For | ast.While:
        """The loop without what it carries; a condition reads the carried values by other names."""
        call = node.iter
        assert isinstance(call, ast.Call)
        if self.is_while(node):
            first = node.body[0]
            test = first.value if isinstance(first, ast.Expr) else None
            if isinstance(test, ast.Call) and self.calls(first, "cond") and len(test.args) == 1:
                return ast.While(_Renamed(names).visit(copy.deepcopy(test.args[0])), [], [])
        keywords = [k for k in call.keywords if k.arg != "init_values"]
        counted = ast.copy_location(ast.Call(call.func, call.args, keywords), call)
        index = node.target.elts[0] if isinstance(node.target, ast.Tuple) else node.target
        return ast.For(index, counted, [], [])

    def is_while(self, node: ast.For) -> bool:
        return word_called(self.names, node.iter) == "while_"

    def calls(self, node: ast.stmt, name: str) -> bool:
        """True for a statement that calls the word `name`, with or without a target."""
        is_one = isinstance(node, (ast.Expr, ast.Assign))
        return is_one and word_called(self.names, node.value) == name

    def guarded(self, body: Sequence[ast.stmt], going: str, skipped: str) -> list[ast.stmt]:
        """`body` in which everything after an exit happens only if it was not taken."""
        done: list[ast.stmt] = []
        for position, child in enumerate(body):
            if isinstance(child, ast.Break):
                return [*done, _set(going, False, child), _set(skipped, True, child)]
            if isinstance(child, ast.Continue):
                return [*done, _set(skipped, True, child)]
            exits = any(isinstance(c, (ast.Break, ast.Continue)) for c in _own([child]))
            if not exits:
                done.extend(self.statement(child))
                continue
            assert isinstance(child, (ast.If, ast.With))
            child.body = self.guarded(child.body, going, skipped)
            if isinstance(child, ast.If):
                child.orelse = self.guarded(child.orelse, going, skipped)
            rest = self.guarded(body[position + 1 :], going, skipped)
            guard = ast.copy_location(ast.UnaryOp(ast.Not(), _name(skipped, child)), child)
            tail = [ast.copy_location(ast.If(guard, rest, []), child)] if rest else []
            return [*done, child, *tail]
        return done


def _own(body: Sequence[ast.stmt]) -> list[ast.stmt]:
    """Statements of a body and of its branches and scopes, but not of inner loops."""
    found: list[ast.stmt] = []
    for node in body:
        found.append(node)
        if isinstance(node, (ast.If, ast.With)):
            found += _own(node.body)
        if isinstance(node, ast.If):
            found += _own(node.orelse)
    return found


def _name(name: str, at: ast.stmt) -> ast.expr:
    return ast.copy_location(ast.Name(name, ast.Load()), at)


def _set(name: str, value: bool, at: ast.stmt) -> ast.stmt:
    target = ast.copy_location(ast.Name(name, ast.Store()), at)
    constant = ast.copy_location(ast.Constant(value), at)
    return ast.copy_location(ast.Assign([target], constant), at)


# ---- loops with init_values ----------------------------------------------------------------------


def _init_values(node: ast.For) -> ast.expr | None:
    keywords = node.iter.keywords if isinstance(node.iter, ast.Call) else []
    return next((k.value for k in keywords if k.arg == "init_values"), None)


def _elements(node: ast.expr | None) -> list[ast.expr]:
    return node.elts if isinstance(node, (ast.Tuple, ast.List)) else [] if node is None else [node]


class _Renamed(ast.NodeTransformer):
    def __init__(self, names: dict[str, str]) -> None:
        self.names = names

    def visit_Name(self, node: ast.Name) -> ast.Name:
        node.id = self.names.get(node.id, node.id)
        return node


def _assign(target: ast.expr, value: ast.expr, at: ast.stmt) -> ast.stmt:
    if isinstance(target, ast.Name):
        target = ast.copy_location(ast.Name(target.id, ast.Store()), at)
    return ast.copy_location(ast.Assign([target], value), at)
