"""What is rewritten before a body is read: `break`, `continue`, and blocks of `with pl.spmd(n):`.

`with pl.spmd(n):` is the loop over blocks whose index has no name. Exits become flags, so that
every loop has one way through its body:

`break` clears the loop's flag, `continue` sets the iteration's; what follows either is guarded. A
loop that was broken out of does nothing in the iterations that are left.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Sequence
from itertools import count

from tilewright.errors import UnsupportedFeatureError
from tilewright.frontend.capture import FunctionNode
from tilewright.source import SourceText

_ORDERED = ("range", "while_")
TASK_NAME = "task_name"
"""The attribute of a rewritten `with pl.spmd(n) as tid:` that holds its `tid`."""


def prepared_body(node: FunctionNode, source: SourceText) -> list[ast.stmt]:
    """The statements of a function without its docstring, exits and blocks rewritten."""
    body = node.body[1:] if ast.get_docstring(node, clean=False) is not None else node.body
    if not _needs_rewriting(body):
        return list(body)
    return _Desugar(source).block([copy.deepcopy(child) for child in body])


def _needs_rewriting(body: Sequence[ast.stmt]) -> bool:
    for node in body:
        if isinstance(node, (ast.Break, ast.Continue)) or _blocks_call(node) is not None:
            return True
        inner = [*node.body, *getattr(node, "orelse", ())] if isinstance(node, _NESTING) else ()
        if _needs_rewriting(inner):
            return True
    return False


_NESTING = (ast.For, ast.While, ast.If, ast.With)


def _blocks_call(node: ast.stmt) -> ast.Call | None:
    """The call in `with pl.spmd(...):`, or None for any other statement."""
    call = node.items[0].context_expr if isinstance(node, ast.With) else None
    is_spmd = isinstance(call, ast.Call) and getattr(call.func, "attr", "") == "spmd"
    return call if is_spmd and isinstance(call, ast.Call) else None


class _Desugar:
    def __init__(self, source: SourceText) -> None:
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
        call = _blocks_call(node)
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
        call = node.iter
        name = getattr(call.func, "attr", "") if isinstance(call, ast.Call) else ""
        word = type(at).__name__.lower()
        if name not in _ORDERED:
            raise UnsupportedFeatureError(
                f"'{word}' works in pl.range and while loops only", self.source.span(at)
            )
        if isinstance(call, ast.Call) and any(k.arg == "init_values" for k in call.keywords):
            raise UnsupportedFeatureError(
                f"'{word}' in a loop with init_values leaves what the loop carries without a "
                "value: the pl.yield_ that names it is not reached",
                self.source.span(at),
                "Rebind plain names in the loop instead of yielding them.",
            )

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
