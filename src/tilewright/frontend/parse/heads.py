"""The head of a `for` loop: its word, bounds, options, initial values and names."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Sequence
from typing import Any

from tilewright.errors import ParserSyntaxError, ParserTypeError
from tilewright.frontend.operations import as_attr
from tilewright.frontend.parse.options import POSITIONAL, require_options
from tilewright.frontend.parse.parser import FunctionParser
from tilewright.frontend.parse.scopes import require_nesting
from tilewright.frontend.surface import LoopWord
from tilewright.frontend.values import is_integer, is_number, is_scalar
from tilewright.frontend.words import SPLIT_AIV, SPMD
from tilewright.ir.affine import Expr, as_expr
from tilewright.ir.conformance import described
from tilewright.ir.core import Value
from tilewright.ir.enums import ForKind
from tilewright.ops.extents import as_dim, constant_of, last_index


def not_a_loop(p: FunctionParser, node: ast.For, function: Any) -> ParserSyntaxError:
    """The error for a `for` over anything but a word of the language."""
    shown = ast.unparse(node.iter)
    hint = "Write 'for i in pl.range(...)', pl.parallel, pl.unroll, pl.pipeline, pl.spmd."
    if function is builtins.range:
        hint = f"Write 'pl.{shown}'."
    return ParserSyntaxError(
        f"For loop must use pl.range(), not '{shown}'", p.span(node.iter), hint
    )


def loop_arguments(
    p: FunctionParser, call: ast.Call, function: LoopWord
) -> tuple[list[Any], list[Value], dict[str, Any]]:
    """Bounds (start, stop, step), initial values and options of a loop's word."""
    bounds, inits = p.items(call.args), list[Value]()
    options: dict[str, Any] = {}
    for keyword in call.keywords:
        if keyword.arg == "init_values":
            inits = init_values(p, keyword.value)
        elif keyword.arg is not None:
            options[keyword.arg] = p.evaluate(keyword.value)
    names = POSITIONAL.get(function, ())
    bounds += [options.pop(name) for name in names if name in options]
    if not 1 <= len(bounds) <= (len(names) or 3):
        wanted = f"one {names[0]}" if names else "1 to 3 bounds"
        raise ParserSyntaxError(f"{function.path} takes {wanted}, got {len(bounds)}", p.span(call))
    require_options(p, function, {**dict(zip(names, bounds)), **options}, call)
    if function in (SPMD, SPLIT_AIV):
        require_nesting(p, function, call, options)
    lo = bounds[0] if len(bounds) > 1 else 0
    hi = bounds[1] if len(bounds) > 1 else bounds[0]
    return [lo, hi, bounds[2] if len(bounds) > 2 else 1], inits, options


def init_values(p: FunctionParser, node: ast.expr) -> list[Value]:
    """The values that a loop starts with, from its init_values argument."""
    if isinstance(node, (ast.Tuple, ast.List)):
        return [p.as_value(p.operand(element), element) for element in node.elts]
    given = p.evaluate(node)
    if not isinstance(given, (tuple, list)):
        raise ParserSyntaxError("init_values is a tuple: init_values=(x,)", p.span(node))
    return [p.as_value(item, node) for item in given]  # pyright: ignore[reportUnknownVariableType]


def loop_targets(p: FunctionParser, node: ast.For, count: int) -> tuple[str, list[str]]:
    """The names of the index and of what the loop carries."""
    target = node.target
    if isinstance(target, ast.Name):
        if count:
            raise ParserSyntaxError(
                f"Mismatch: 0 iter_args but {count} init_values",
                p.span(target),
                "Write 'for i, (x,) in pl.range(n, init_values=(x0,))'.",
            )
        return target.id, []
    elements = target.elts if isinstance(target, ast.Tuple) else []
    if len(elements) == 2 and isinstance(elements[0], ast.Name):
        carried = elements[1].elts if isinstance(elements[1], ast.Tuple) else [elements[1]]
        names = [element.id for element in carried if isinstance(element, ast.Name)]
        if len(names) != count:
            raise ParserSyntaxError(
                f"Mismatch: {len(names)} iter_args but {count} init_values", p.span(target)
            )
        return elements[0].id, names
    raise ParserSyntaxError(
        "A loop target is 'i' or 'i, (x, y)'", p.span(target), "Name the carried values in a tuple."
    )


def require_rules(
    p: FunctionParser,
    call: ast.Call,
    function: LoopWord,
    bounds: Sequence[Any],
    inits: Sequence[Value],
) -> None:
    """Raises for bounds and init_values that the word does not take."""
    takes_inits = p.state.is_text or not inits  # a text says what the author left to be found
    if function.kind is ForKind.Unroll and not (takes_inits and all(map(is_number, bounds))):
        raise ParserSyntaxError(
            "pl.unroll takes constant bounds and no init_values", p.span(call), "Use pl.range."
        )
    for word, bound in zip(("start", "stop", "step"), bounds):
        if not is_integer(bound):
            what = f"The {word} of {function.path} is {described(bound)}, not an integer scalar"
            raise ParserTypeError(what, p.span(call))
    if is_number(bounds[2]) and bounds[2] == 0:
        raise ParserSyntaxError(f"The step of {function.path} cannot be 0", p.span(call))


def index_range(lo: Value, hi: Value, step: Value) -> tuple[Expr | int | None, Expr | int | None]:
    """The inclusive range of a loop variable, as far as it is known."""
    stride = constant_of(step)
    if not isinstance(stride, int) or not (is_scalar(lo) and is_scalar(hi)):
        return None, None
    first, end = as_expr(as_dim(lo)), as_expr(as_dim(hi))
    return (first, last_index(first, end, stride)) if stride > 0 else (end + 1, first)


def loop_attributes(function: LoopWord, options: dict[str, Any]) -> dict[str, Any]:
    """The attributes of the loop operation."""
    kind = ForKind.SplitAiv if function is SPLIT_AIV else function.kind
    stage = options.pop("stage", 0)
    combine = tuple(options.pop("combine", ()))
    rest = tuple((name, as_attr(given)) for name, given in options.items())
    return {"kind": kind, "combine": combine, "stage": stage, "attrs": rest}
