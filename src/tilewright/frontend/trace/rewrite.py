"""The author's function, rewritten so that its decisions go through the trace.

The rewritten code is ordinary Python with a free variable `__nki__`, the context of the trace.
Calls, loops, branches, comparisons in chains, logic and assignments of names go through it; all
else is left to Python. Positions are kept, so frames of rewritten code tell where the author is.
"""

from __future__ import annotations
import __future__

import ast
import copy
import sys
from collections.abc import Generator
from contextlib import contextmanager
from itertools import pairwise
from types import CellType, CodeType, FunctionType
from typing import Any, TypeVar

from tilewright.dataclass import dataclass
from tilewright.frontend.capture import CapturedFunction, refuse_deep_nesting
from tilewright.frontend.trace.capture import capture_helper
from tilewright.frontend.trace.sequences import as_items
from tilewright.frontend.trace.spans import is_rewritten, register_code

CONTEXT = "__nki__"
FACTORY = "__factory__"
LOCALS = "<locals>"
INNER = "__traced__"
"""What a function is called in its factory, so that its own name means what it means outside."""

CALLER_SENSITIVE = frozenset(
    {"breakpoint", "super", "locals", "globals", "vars", "dir", "eval", "exec"}
)
"""Builtins that look at the frame which calls them: the author's, not the engine's."""
COMPARE_SIGNS: dict[type[ast.cmpop], str] = {
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Is: "is",
    ast.IsNot: "is not",
    ast.In: "in",
    ast.NotIn: "not in",
}
_NESTED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_LEAVES = (ast.Break, ast.Continue, ast.Return, ast.Yield, ast.YieldFrom, ast.Await)
_SUSPENDS = (ast.NamedExpr, ast.Yield, ast.YieldFrom, ast.Await)
_Node = TypeVar("_Node", bound=ast.AST)


@dataclass(frozen=True)
class Rewritten:
    """The code of a rewritten function; `free` names its free variables in order."""

    code: CodeType

    def bind(self, function: FunctionType, ctx: object) -> FunctionType:
        """`function`, running the rewritten code in the trace `ctx`."""
        cells = dict(zip(function.__code__.co_freevars, function.__closure__ or ()))
        cells[CONTEXT] = CellType(ctx)
        closure = tuple(cells[name] for name in self.code.co_freevars)
        bound = FunctionType(
            self.code, function.__globals__, function.__name__, function.__defaults__, closure
        )
        bound.__kwdefaults__ = function.__kwdefaults__
        bound.__qualname__ = function.__qualname__
        return bound


_CACHE: dict[tuple[CodeType, bool], Rewritten] = {}


def rewritten(function: FunctionType, ctx: object, *, predicated: bool) -> FunctionType:
    """`function` as it runs in the trace `ctx`; functions made by rewritten code are that already.

    Raises ParserSyntaxError when the source cannot be found.
    """
    if is_rewritten(function.__code__):
        return function
    key = (function.__code__, predicated)
    found = _CACHE.get(key)
    if found is None:
        found = _CACHE[key] = _rewrite(function, predicated)
    return found.bind(function, ctx)


def _rewrite(function: FunctionType, predicated: bool) -> Rewritten:
    captured = capture_helper(function)
    owner = _class_around(function)
    with refuse_deep_nesting(captured.node, captured.source):
        factory = _factory(function, captured, predicated)
        outer = _within_class(owner, factory) if owner else factory
        module = ast.fix_missing_locations(ast.Module([outer], type_ignores=[]))
        flags = function.__code__.co_flags & __future__.annotations.compiler_flag
        code = compile(module, captured.source.file, "exec", flags, dont_inherit=True)
    for name in filter(None, (owner, FACTORY, INNER)):
        code = _code_called(code, name)
    within = ".".join(filter(None, (owner, FACTORY, LOCALS, INNER)))
    code = _requalified(code, within, _qualname(function)).replace(co_name=captured.node.name)
    register_code(code, captured.source)
    return Rewritten(code)


def _code_called(code: CodeType, name: str) -> CodeType:
    return next(c for c in code.co_consts if isinstance(c, CodeType) and c.co_name == name)


def _requalified(code: CodeType, old: str, new: str) -> CodeType:
    """`code` with the qualified names of what is in it, which begin with `old`, beginning `new`."""

    def renamed(value: Any) -> Any:
        if isinstance(value, CodeType):
            return _requalified(value, old, new)
        return value.replace(old, new, 1) if isinstance(value, str) and old in value else value

    consts = tuple(map(renamed, code.co_consts))
    if sys.version_info < (3, 11):
        return code.replace(co_consts=consts)
    return code.replace(co_consts=consts, co_qualname=renamed(code.co_qualname))


def _factory(function: FunctionType, captured: CapturedFunction, predicated: bool) -> Any:
    """A function whose parameters are what `function` takes from around it."""
    node = copy.deepcopy(captured.node)
    node.name = INNER
    node.decorator_list = []
    node.args.defaults = []
    node.args.kw_defaults = [None] * len(node.args.kwonlyargs)
    node.returns = None
    for argument in ast.walk(node.args):
        if isinstance(argument, ast.arg):
            argument.annotation = None
    body = FunctionRewriter(predicated).rewrite(node)
    names = (*function.__code__.co_freevars, CONTEXT)
    arguments = ast.arguments([], [ast.arg(name) for name in names], None, [], [], None, [])
    factory = ast.FunctionDef(FACTORY, arguments, [body, *_returning(node.name)], [], None, None)
    if hasattr(factory, "type_params"):
        factory.type_params = []  # type: ignore[attr-defined]
    return ast.copy_location(factory, node)


def _qualname(function: FunctionType) -> str:
    """The qualified name that the text of `function` has, whatever it says of itself."""
    return getattr(function.__code__, "co_qualname", function.__qualname__)


def _class_around(function: FunctionType) -> str:
    """The name of the innermost class whose text `function` is part of, or ""."""
    path = _qualname(function).split(".")
    classes = [a for a, b in pairwise(path) if LOCALS not in (a, b)]
    return classes[-1] if classes else ""


def _within_class(name: str, factory: ast.FunctionDef) -> ast.ClassDef:
    """`factory` in the text of the class `name`, so that `__private` names are of that class."""
    around = ast.ClassDef(name, [], [], [factory], [])
    if hasattr(around, "type_params"):
        around.type_params = []  # type: ignore[attr-defined]
    return ast.copy_location(around, factory)


def _returning(name: str) -> list[ast.stmt]:
    return [ast.Return(ast.Name(name, ast.Load()))]


def _at(new: _Node, old: ast.AST) -> _Node:
    ast.copy_location(new, old)
    return new


class FunctionRewriter(ast.NodeTransformer):
    """Rewrites one function and everything nested in it."""

    def __init__(self, predicated: bool) -> None:
        self.predicated = predicated
        self.is_class = False
        self.serial = 0

    def rewrite(self, node: Any) -> Any:
        """The function definition with its body and its defaults rewritten."""
        node.args.defaults = [self.visit(default) for default in node.args.defaults]
        node.args.kw_defaults = [each and self.visit(each) for each in node.args.kw_defaults]
        with self._inside(is_class=False):
            node.body = self._statements(node.body)
        return node

    def _statements(self, body: list[ast.stmt]) -> list[ast.stmt]:
        result: list[ast.stmt] = []
        for statement in body:
            new = self.visit(statement)
            result.extend(as_items(new))
        return result

    def _fresh(self, stem: str) -> str:
        self.serial += 1
        return f"__{stem}_{self.serial}__"

    def _method(self, name: str, at: ast.AST, *args: ast.expr) -> ast.Call:
        return self._call_of(CONTEXT, name, at, *args)

    def _call_of(self, owner: str, name: str, at: ast.AST, *args: ast.expr) -> ast.Call:
        target = _at(ast.Attribute(_at(ast.Name(owner, ast.Load()), at), name, ast.Load()), at)
        # Python says that a call starts on the line where the name of its method ends.
        target.end_lineno, target.end_col_offset = target.lineno, target.col_offset + 1
        return _at(ast.Call(target, list(args), []), at)

    def _text(self, text: str, at: ast.AST) -> ast.Constant:
        return _at(ast.Constant(text), at)

    def _thunk(self, body: ast.expr, at: ast.AST) -> ast.Lambda:
        nothing = ast.arguments([], [], None, [], [], None, [])
        return _at(ast.Lambda(nothing, body), at)

    # ------------------------------------------------------------------ nested definitions

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        """A function in the body: rewritten in place, decorators and all."""
        node.decorator_list = [self.visit(decorator) for decorator in node.decorator_list]
        return self.rewrite(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> Any:
        """As a plain function."""
        node.decorator_list = [self.visit(decorator) for decorator in node.decorator_list]
        return self.rewrite(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        """A class in the body, which may read the annotations of its attributes."""
        with self._inside(is_class=True):
            return self.generic_visit(node)

    @contextmanager
    def _inside(self, *, is_class: bool) -> Generator[None]:
        outer, self.is_class = self.is_class, is_class
        yield
        self.is_class = outer

    # ------------------------------------------------------------------ expressions

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """`f(a)` is `__nki__.call(f, a)`."""
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id in CALLER_SENSITIVE:
            return self._stop(node) if node.func.id == "breakpoint" else node
        call = self._method("call", node, node.func, *node.args)
        call.keywords = node.keywords
        return call

    def _stop(self, node: ast.Call) -> ast.AST:
        """`breakpoint()` stops here, unless the trace says that the interpreter will."""
        names = _at(ast.Call(_at(ast.Name("locals", ast.Load()), node), [], []), node)
        return _at(ast.BoolOp(ast.Or(), [self._method("stops_later", node, names), node]), node)

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        """The condition is evaluated by the trace."""
        self.generic_visit(node)
        node.test = self._method("eval_if_cnd", node.test, node.test)
        return node

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        """The condition is evaluated by the trace."""
        self.generic_visit(node)
        node.test = self._method("eval_if_cnd", node.test, node.test)
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        """Operands whose truth Python asks for are checked first."""
        self.generic_visit(node)
        check = "check_and" if isinstance(node.op, ast.And) else "check_or"
        node.values[:-1] = [self._method(check, value, value) for value in node.values[:-1]]
        return node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        """`not x` checks x first."""
        self.generic_visit(node)
        if isinstance(node.op, ast.Not):
            node.operand = self._method("check_not", node.operand, node.operand)
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        """`a < b < c` is the conjunction of its links, which may be masks."""
        self.generic_visit(node)
        if len(node.ops) == 1 or any(isinstance(part, _SUSPENDS) for part in ast.walk(node)):
            return node
        parts: list[ast.expr] = [node.left]
        for sign, operand in zip(node.ops, node.comparators):
            parts.append(self._text(COMPARE_SIGNS[type(sign)], operand))
            parts.append(self._thunk(operand, operand))
        return self._method("compare_chain", node, *parts)

    def visit_comprehension(self, node: ast.comprehension) -> ast.AST:
        """What is iterated, and the filters, go through the trace."""
        self.generic_visit(node)
        node.iter = self._method("host_items", node.iter, node.iter)
        node.ifs = [self._method("eval_if_cnd", test, test) for test in node.ifs]
        return node

    # ------------------------------------------------------------------ statements

    def visit_For(self, node: ast.For) -> ast.AST:
        """`for x in it` iterates `__nki__.iterate(it, "x")`, which may open a device loop."""
        node.iter = self.visit(node.iter)
        name = node.target.id if isinstance(node.target, ast.Name) else ""
        node.iter = self._method("iterate", node.iter, node.iter, self._text(name, node.iter))
        node.body = self._statements(node.body)
        node.orelse = self._statements(node.orelse)
        return node

    def visit_While(self, node: ast.While) -> list[ast.AST]:
        """Each test of the condition goes to one object per execution of the statement."""
        name = self._fresh("while")
        begin = self._method("while_loop", node)
        opened = _at(ast.Assign([_at(ast.Name(name, ast.Store()), node)], begin), node)
        test = self.visit(node.test)
        node.test = self._call_of(name, "test", test, test)
        node.body = self._statements(node.body)
        node.orelse = self._statements(node.orelse)
        return [opened, node]

    def visit_If(self, node: ast.If) -> ast.AST:
        """The condition is evaluated by the trace; guarded arms are traced one after the other."""
        test = self.visit(node.test)
        leaves = any(_leaves_block(statement) for statement in (*node.body, *node.orelse))
        body, orelse = self._statements(node.body), self._statements(node.orelse)
        if not self.predicated or leaves:
            cond = self._method("eval_if_cnd", test, test)
            return _at(ast.If(cond, body, orelse), node)
        name = self._fresh("arm")
        arms = self._method("if_cnd_generator", test, test)
        chosen = _at(ast.If(_at(ast.Name(name, ast.Load()), test), body, orelse), node)
        target = _at(ast.Name(name, ast.Store()), test)
        return _at(ast.For(target, arms, [chosen], []), node)

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        """Values that get a name are checked for shadowing, and named."""
        node.value = self.visit(node.value)
        node.targets = [self.visit(target) for target in node.targets]
        names = [_target_names(target) for target in node.targets]
        if any(names):
            first = next(name for name in names if name)
            shown = _at(ast.Constant(first), node)
            node.value = self._method("bind_name", node, shown, node.value)
        return node

    def visit_NamedExpr(self, node: ast.NamedExpr) -> ast.AST:
        """`(name := value)` names a value as an assignment does."""
        self.generic_visit(node)
        shown = self._text(node.target.id, node)
        node.value = self._method("bind_name", node.value, shown, node.value)
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        """`t: nt.tensor[4, 8] = v` checks the shape of v."""
        if self.is_class:
            node.value = node.value and self.visit(node.value)
            return node
        if node.value is None or not isinstance(node.target, ast.Name):
            return self.generic_visit(node)
        value = self.visit(node.value)
        annotation = self._thunk(_unquoted(node.annotation), node)
        checked = self._method(
            "annotate", node, self._text(node.target.id, node), value, annotation
        )
        return _at(ast.Assign([node.target], checked), node)

    def visit_Return(self, node: ast.Return) -> ast.AST:
        """The trace remembers which `return` of the kernel ran last, for its messages."""
        self.generic_visit(node)
        if node.value is not None:
            node.value = self._method("returning", node, node.value)
        return node

    def visit_Try(self, node: ast.Try) -> list[ast.AST]:
        """Handlers run in the scope of the statement, whatever scope the exception came from."""
        name = self._fresh("mark")
        mark = _at(
            ast.Assign([_at(ast.Name(name, ast.Store()), node)], self._method("mark", node)), node
        )
        self.generic_visit(node)
        for handler in node.handlers:
            place = _at(ast.Name(name, ast.Load()), handler)
            item = ast.withitem(self._method("exception_block", handler, place), None)
            handler.body = [_at(ast.With([item], handler.body), handler)]
        return [mark, node]


def _target_names(target: ast.expr) -> Any:
    """The name or names that an assignment binds directly: a str, a tuple of them, or ""."""
    if isinstance(target, ast.Name):
        return target.id
    if isinstance(target, (ast.Tuple, ast.List)):
        return tuple(_target_names(item) for item in target.elts)
    return ""


def _unquoted(annotation: ast.expr) -> ast.expr:
    """An annotation, or what one that is written as a string says; prose says nothing."""
    if not isinstance(annotation, ast.Constant) or not isinstance(annotation.value, str):
        return annotation
    try:
        said = ast.parse(annotation.value, mode="eval").body
    except SyntaxError:
        return _at(ast.Constant(None), annotation)
    for node in ast.walk(said):
        _at(node, annotation)
    return said


def _leaves_block(node: ast.AST) -> bool:
    """True when a statement may jump out of the block that it is in."""
    if isinstance(node, _LEAVES):
        return True
    if isinstance(node, _NESTED):
        return False
    return any(_leaves_block(child) for child in ast.iter_child_nodes(node))
