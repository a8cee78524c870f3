"""Which names a loop must carry and a branch must give: liveness over the statements of a body.

One walk up collects what each block may read before writing and must write; one walk down tells
each compound statement which names are read after it. Both are linear in the size of the body.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

Names = frozenset[str]
_NONE: Names = frozenset()


@dataclass
class Facts:
    """`reads`: names read before any write; `writes`: names always written; `assigned`: names that
    may be rebound, in order; `written`: names whose contents a call may write."""

    reads: Names = _NONE
    writes: Names = _NONE
    assigned: tuple[str, ...] = ()
    written: Names = _NONE


@dataclass
class Analysis:
    """Names live after each compound statement; facts of statements and of their blocks."""

    live_after: dict[ast.stmt, Names] = field(default_factory=dict[ast.stmt, Names])
    blocks: dict[int, Facts] = field(default_factory=dict[int, Facts])
    statements: dict[ast.stmt, Facts] = field(default_factory=dict[ast.stmt, Facts])


class Liveness:
    """What the parser asks about a function body; `live_out` are names that matter after it.

    The analysis runs when the first compound statement asks for it.
    """

    def __init__(self, body: Sequence[ast.stmt], live_out: Iterable[str] = ()) -> None:
        self._body = body
        self._live_out = frozenset(live_out)
        self._result: Analysis | None = None

    def _analysis(self) -> Analysis:
        if self._result is None:
            self._result = Analysis()
            _summarise(self._body, self._result)
            _spread(self._body, self._live_out, self._result)
        return self._result

    def facts(self, body: Sequence[ast.stmt]) -> Facts:
        """Facts of a block of the body."""
        return self._analysis().blocks[id(body)]

    def statement(self, node: ast.stmt) -> Facts:
        """Facts of one statement."""
        return self._analysis().statements[node]

    def live(self, node: ast.stmt) -> Names:
        """Names that may be read after a compound statement."""
        return self._analysis().live_after.get(node, _NONE)


def names_read(node: ast.AST | None) -> Names:
    """Every name that an expression mentions."""
    return _mentions(node)[0]


def _mentions(node: ast.AST | None) -> tuple[Names, list[ast.Call]]:
    """The names and the calls at and below a node; `ast.walk` without its bookkeeping."""
    names: set[str] = set()
    calls: list[ast.Call] = []
    stack: list[Any] = [node]
    while stack:
        current = stack.pop()
        kind = current.__class__
        if kind is ast.Name:
            names.add(current.id)
        elif kind is ast.Attribute:
            stack.append(current.value)
        elif kind is list:
            stack.extend(current)
        elif kind is ast.Subscript:
            stack += (current.value, current.slice)
        elif kind is ast.Tuple or kind is ast.List:
            stack.extend(current.elts)
        elif kind is ast.Call:
            calls.append(current)
            stack += (current.func, current.args, current.keywords)
        elif kind is not ast.Constant and isinstance(current, ast.AST):
            stack.extend([getattr(current, name) for name in current._fields])
    return frozenset(names), calls


def _summarise(body: Sequence[ast.stmt], result: Analysis) -> Facts:
    reads: set[str] = set()
    writes: set[str] = set()
    written: set[str] = set()
    assigned: dict[str, None] = {}
    for node in body:
        facts = result.statements[node] = _facts_of(node, result)
        reads |= facts.reads - writes
        writes |= facts.writes
        written |= facts.written
        assigned.update(dict.fromkeys(facts.assigned))
    found = Facts(frozenset(reads), frozenset(writes), tuple(assigned), frozenset(written))
    result.blocks[id(body)] = found
    return found


def _facts_of(node: ast.stmt, result: Analysis) -> Facts:
    if isinstance(node, ast.If):
        return _facts_of_if(node, result)
    if isinstance(node, (ast.For, ast.While)):
        return _facts_of_loop(node, result)
    if isinstance(node, ast.With):
        inner = _summarise(node.body, result)
        header = frozenset[str]().union(*(names_read(item.context_expr) for item in node.items))
        named = [name for item in node.items for name in _targets(item.optional_vars)]
        reads = header | (inner.reads - set(named))
        writes = inner.writes | set(named)
        return Facts(reads, writes, (*named, *inner.assigned), inner.written)
    return _facts_of_simple(node)


def _facts_of_simple(node: ast.stmt) -> Facts:
    match node:
        case ast.Assign(targets=targets, value=value):
            plain = [name for target in targets for name in _targets(target)]
            partial = [name for target in targets for name in _partial_targets(target)]
            facts = Facts(_target_reads(targets), frozenset(plain), (*plain, *partial))
            return _with_value(value, facts)
        case ast.AnnAssign(target=target, value=value, annotation=annotation):
            plain = _targets(target) if value is not None else []
            facts = Facts(names_read(annotation), frozenset(plain), tuple(plain))
            return _with_value(value, facts)
        case ast.Expr(value=value):
            return _with_value(value, Facts(), bare=True)
        case _:
            return Facts(names_read(node))


def _facts_of_if(node: ast.If, result: Analysis) -> Facts:
    then, other = _summarise(node.body, result), _summarise(node.orelse, result)
    reads = names_read(node.test) | then.reads | other.reads
    assigned = dict.fromkeys((*then.assigned, *other.assigned))
    written = then.written | other.written
    return Facts(reads, then.writes & other.writes, tuple(assigned), written)


def _facts_of_loop(node: ast.For | ast.While, result: Analysis) -> Facts:
    inner = _summarise(node.body, result)
    header = node.iter if isinstance(node, ast.For) else node.test
    bound = frozenset(_targets(node.target)) if isinstance(node, ast.For) else _NONE
    reads = names_read(header) | (inner.reads - bound)
    return Facts(reads, _NONE, inner.assigned, inner.written)


def _targets(target: ast.expr | None) -> list[str]:
    if isinstance(target, ast.Name):
        return [target.id]
    if isinstance(target, (ast.Tuple, ast.List)):
        return [name for item in target.elts for name in _targets(item)]
    return []


def _partial_targets(target: ast.expr) -> Iterator[str]:
    if isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name):
        yield target.value.id
    if isinstance(target, (ast.Tuple, ast.List)):
        for item in target.elts:
            yield from _partial_targets(item)


def _target_reads(targets: Iterable[ast.expr]) -> Names:
    return frozenset[str]().union(*(names_read(t) for t in targets if not isinstance(t, ast.Name)))


_WRITERS = {
    "store": 2,
    "assemble": 0,
    "write": 0,
    "mscatter": 2,
    "remote_store": 1,
    **dict.fromkeys(("notify", "wait", "defer_wait", "put", "get", "allreduce", "barrier"), 0),
    **dict.fromkeys(("reduce_scatter", "broadcast"), 0),
    **dict.fromkeys(("allgather", "all_to_all", "all_to_all_v"), 1),
}


def _with_value(value: ast.expr | None, facts: Facts, *, bare: bool = False) -> Facts:
    """Facts of a statement, with what its value reads and its calls may write and rebind."""
    read, calls = _mentions(value)
    rebound: list[str] = []
    written: set[str] = set()
    for call in calls:
        names, is_function = _written_by_call(call)
        written.update(names)
        if is_function or (bare and call is value):
            rebound.extend(names)
    facts.reads |= read
    facts.assigned = (*facts.assigned, *rebound)
    facts.written = frozenset((*written, *facts.assigned))
    return facts


def _written_by_call(call: ast.Call) -> tuple[list[str], bool]:
    """Names whose contents a call may write, and whether it is a call of a function."""
    function = call.func
    if isinstance(function, ast.Attribute) and not _is_method(function):
        if function.attr in ("submit", "spmd_submit"):
            return _base_names(call.args[1:]), True
        position = _WRITERS.get(function.attr, len(call.args))
        return _base_names(call.args[position : position + 1]), False
    return _base_names(call.args), True


def _is_method(function: ast.Attribute) -> bool:
    return isinstance(function.value, ast.Name) and function.value.id == "self"


def _base_names(nodes: Iterable[ast.expr]) -> list[str]:
    return [name for name in map(_base_name, nodes) if name]


def _base_name(node: ast.expr) -> str:
    while isinstance(node, ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _spread(body: Sequence[ast.stmt], live_out: Names, result: Analysis) -> None:
    live = live_out
    for node in reversed(body):
        if isinstance(node, (ast.If, ast.For, ast.While, ast.With)):
            result.live_after[node] = live
            _spread_into(node, live, result)
        facts = result.statements[node]
        live = facts.reads | (live - facts.writes)


def _spread_into(
    node: ast.If | ast.For | ast.While | ast.With, live: Names, result: Analysis
) -> None:
    if isinstance(node, ast.If):
        _spread(node.body, live, result)
        _spread(node.orelse, live, result)
    elif isinstance(node, ast.With):
        _spread(node.body, live, result)
    else:
        again = result.blocks[id(node.body)].reads
        header = names_read(node.test) if isinstance(node, ast.While) else _NONE
        _spread(node.body, live | again | header, result)
