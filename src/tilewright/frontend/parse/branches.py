"""Branches. What an `if` gives is yielded by both arms, or bound in them and read later."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tilewright.dataclass import dataclass
from tilewright.dtypes import INDEX, INT64
from tilewright.errors import (
    ParserSyntaxError,
    ParserTypeError,
    TilewrightError,
    UndefinedVariableError,
)
from tilewright.frontend.namespace import MISSING
from tilewright.frontend.parse.operators import as_condition
from tilewright.frontend.parse.parser import FunctionParser
from tilewright.frontend.parse.regions import can_flow, emit_region_op, end_block, isolated
from tilewright.frontend.parse.rules import statement
from tilewright.frontend.parse.state import Poison, Silenced, Yield
from tilewright.frontend.values import (
    as_number,
    constant,
    convert,
    dtype_of,
    is_number,
    is_scalar,
    literal_of,
)
from tilewright.ir.core import Block, Value
from tilewright.ir.types import ScalarType
from tilewright.ops import control
from tilewright.source import Span


@dataclass
class Arm:
    """One arm, read: its block, the names and versions at its end, how it ended."""

    block: Block
    scope: dict[str, Any]
    versions: list[Value]
    ended: Yield | None


@dataclass
class Join:
    """A value that both arms give: under a name, or as the newest version of a root."""

    name: str
    then: Any
    other: Any
    root: int | None = None


@statement(ast.If)
def parse_if(p: FunctionParser, node: ast.If) -> None:
    """A compile-time condition selects an arm now; a BOOL scalar makes a branch.

    A printed program says what it is: in a text every `if` is a branch.
    """
    test = p.operand(node.test) if p.state.is_text else p.evaluate(node.test)
    if isinstance(test, (bool, np.bool_)) and not p.state.is_text:
        _read_selected(p, node.body if test else node.orelse)
        return
    condition = p.emitted(node.test, as_condition, test)
    then, other = _read_arm(p, node.body), _read_arm(p, node.orelse)
    joins = _explicit_joins(p, node, then, other)
    explicit = bool(joins)
    names = _changed_names(p, node, then, other)
    if not explicit:
        joins = _leaked_joins(p, node, names, then, other)
    joins += _root_joins(p, joins, then, other)
    _make_alike(p, joins, then, other)
    end_block(p, then.block, [join.then for join in joins])
    end_block(p, other.block, [join.other for join in joins])
    regions = (then.block, other.block)
    op = emit_region_op(p, control.if_, (condition,), {}, regions, node)
    _leave(p, joins, op.results, then, other, names, explicit)


def _read_selected(p: FunctionParser, body: Sequence[ast.stmt]) -> None:
    p.block(body)
    ended, p.yielded = p.yielded, None
    if ended is not None:
        for name, value in zip(ended.names, ended.values):
            p.scope[name] = value


def _read_arm(p: FunctionParser, body: Sequence[ast.stmt]) -> Arm:
    with p.trial():
        block = p.region((), body)
        return Arm(block, dict(p.scope), p.versions.mark(), p.ended)


def _explicit_joins(p: FunctionParser, node: ast.If, then: Arm, other: Arm) -> list[Join]:
    """What the arms yield with pl.yield_; an `elif` chain yields through the names it binds."""
    ended = then.ended or other.ended
    if ended is None:
        return []
    names = (then.ended or ended).names
    left = _arm_values(p, node, then, names)
    right = _arm_values(p, node, other, names)
    if not len(left) == len(right) == len(names):
        raise ParserSyntaxError(
            f"The arms of an 'if' yield {len(left)} and {len(right)} values for {len(names)} "
            "name(s)",
            p.span(ended.node),
            "Yield the same number of values in both arms.",
        )
    return [_join(p, name, a, then, b, other) for name, a, b in zip(names, left, right)]


def _join(p: FunctionParser, name: str, a: Any, then: Arm, b: Any, other: Arm) -> Join:
    """Versions of one root join as its newest version."""
    root, second = (p.versions.root(x) if isinstance(x, Value) else None for x in (a, b))
    one, another = _newest(p, a, then, root), _newest(p, b, other, second)
    return Join(name, one, another, root if root == second else None)


def _newest(p: FunctionParser, given: Any, arm: Arm, root: int | None) -> Any:
    """What has the contents of the newest version of `root` at the end of an arm."""
    if root is None or p.versions.version(given) is arm.versions[root]:
        return given
    return arm.versions[root]


def _arm_values(p: FunctionParser, node: ast.If, arm: Arm, names: Sequence[str]) -> list[Any]:
    if arm.ended is not None:
        return arm.ended.values
    found = [arm.scope.get(name, MISSING) for name in names]
    if all(can_flow(value) for value in found):
        return found
    if any(isinstance(value, Poison) and value.reason is None for value in found):
        raise Silenced  # the pl.yield_ of this arm could not be read, and why has been said
    raise ParserSyntaxError(
        "One arm of the 'if' ends with pl.yield_ and the other does not",
        p.span(node),
        f"End both arms with '{', '.join(names)} = pl.yield_(...)'.",
    )


def _changed_names(p: FunctionParser, node: ast.If, then: Arm, other: Arm) -> list[str]:
    """Names that the arms leave with different bindings, in the order of their assignment."""
    ordered = dict.fromkeys((*p.live.statement(node).assigned, *then.scope, *other.scope))
    return [n for n in ordered if then.scope.get(n, MISSING) is not other.scope.get(n, MISSING)]


def _leaked_joins(
    p: FunctionParser, node: ast.If, names: Sequence[str], then: Arm, other: Arm
) -> list[Join]:
    live = p.live.live(node)
    joins: dict[tuple[int, int], Join] = {}
    for name in names:
        a, b = then.scope.get(name, MISSING), other.scope.get(name, MISSING)
        if name in live and can_flow(a) and can_flow(b):
            join = _join(p, name, a, then, b, other)
            joins.setdefault((id(join.then), id(join.other)), join)
    return list(joins.values())


def _root_joins(p: FunctionParser, joins: Sequence[Join], then: Arm, other: Arm) -> list[Join]:
    """Parameters written in an arm, where no name gives their newest version already."""
    known = {join.root for join in joins}
    found: list[Join] = []
    for root, now in enumerate(p.versions.current):
        a, b = then.versions[root], other.versions[root]
        if (a is not now or b is not now) and root not in known:
            found.append(Join((a if a is not now else b).name, a, b, root))
    return found


def _make_alike(p: FunctionParser, joins: Sequence[Join], then: Arm, other: Arm) -> None:
    """A literal in one arm takes the dtype of the value in the other."""
    for join in joins:
        with p.builder.inside(then.block):
            join.then = _adopted(join.then, join.other)
        with p.builder.inside(other.block):
            join.other = _adopted(join.other, join.then)


def _adopted(given: Any, model: Any) -> Any:
    number = as_number(given) if is_number(given) else None
    if isinstance(given, Value):
        number = literal_of(given)
    if not is_scalar(model):
        return given
    if number is None:
        return _widened(given, model)
    assert isinstance(model.type, ScalarType)
    if isinstance(given, Value) and given.type == model.type:
        return given
    try:
        return constant(number, model.type.dtype)
    except ParserTypeError:
        return given


def _widened(given: Any, model: Value) -> Any:
    """INDEX meets INT64 as INT64."""
    mixes = is_scalar(given) and dtype_of(given) is INDEX and dtype_of(model) is INT64
    return convert(given, INT64) if mixes else given


def _leave(
    p: FunctionParser,
    joins: Sequence[Join],
    results: Sequence[Value],
    then: Arm,
    other: Arm,
    names: Sequence[str],
    explicit: bool,
) -> None:
    given: dict[tuple[int, int], Value] = {}
    pairs = enumerate(zip(then.versions, other.versions))
    written = {root for root, (one, another) in pairs if one is not another}
    for join, result in zip(joins, results):
        result.name = join.name
        given[id(join.then), id(join.other)] = result
        _follow(p, join, result, written)
    for name in names:
        p.scope[name] = _after(p, name, given, then, other, explicit)
    for name in _agreed_names(p, then, other):
        p.scope[name] = then.scope[name]
    for join, result in zip(joins, results):
        if explicit or join.root is None:
            p.scope[join.name] = result


def _follow(p: FunctionParser, join: Join, result: Value, written: set[int]) -> None:
    """A result is the newest version of a root that an arm wrote, or repeats what is newest."""
    root = join.root
    if root is None:
        p.versions.join(result, join.then, join.other)
    elif root in written:
        p.versions.advance(root, result)
        written.remove(root)
    else:
        p.versions.repeat(result, p.versions.current[root])


def _agreed_names(p: FunctionParser, then: Arm, other: Arm) -> Iterator[str]:
    for name, bound in then.scope.items():
        if other.scope.get(name, MISSING) is bound and p.scope.get(name, MISSING) is not bound:
            yield name


def _after(
    p: FunctionParser,
    name: str,
    given: dict[tuple[int, int], Value],
    then: Arm,
    other: Arm,
    explicit: bool,
) -> Any:
    a, b = then.scope.get(name, MISSING), other.scope.get(name, MISSING)
    join = _join(p, name, a, then, b, other)
    result = given.get((id(join.then), id(join.other)))
    if result is not None and not explicit:
        return result
    if explicit:
        return isolated(name, "in an arm that ends with pl.yield_", f"Yield '{name}' as well.")
    if is_number(a) and is_number(b) and type(a) is type(b) and a == b:
        return a
    return _unusable(name, a, b)


def _unusable(name: str, a: Any, b: Any) -> Poison:
    if any(isinstance(side, Poison) and side.reason is None for side in (a, b)):
        return Poison()
    if MISSING in (a, b) and (can_flow(a) or can_flow(b)):

        def reason(span: Span) -> TilewrightError:
            return UndefinedVariableError(
                f"'{name}' is bound in one arm of an 'if' only",
                span,
                "Bind it before the 'if', or in both arms.",
            )

        return Poison(reason)
    return isolated(name, "inside an 'if'", "Bind a scalar, tensor or tile in both arms.")
