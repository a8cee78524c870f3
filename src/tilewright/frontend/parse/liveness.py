"""Which names a loop must carry and a branch must give: liveness over the statements of a body.

What a block may read before writing, and must write, is collected from the inside out; which names
are read after a compound statement, from the outside in. Both are linear in the size of the body.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from tilewright.dataclass import dataclass

Names = frozenset[str]
_NONE: Names = frozenset()


@dataclass
class Facts:
    """`reads`: names read before any write; `writes`: names always written; `assigned`: names that
    may be rebound, in order, of which calls may rebind all but `targets`; `written`: names whose
    contents may be written."""

    reads: Names = _NONE
    writes: Names = _NONE
    assigned: tuple[str, ...] = ()
    written: Names = _NONE
    targets: Names = _NONE


class Liveness:
    """What the parser asks about a function body; `live_out` are names that matter after it.

    Facts of a statement are found when they are first asked for: where nothing loops or branches,
    hardly any are.
    """

    def __init__(self, body: Sequence[ast.stmt], live_out: Iterable[str] = ()) -> None:
        self._body = body
        self._live_out = frozenset(live_out)
        self._live_after: dict[ast.stmt, Names] | None = None
        self._blocks: dict[int, Facts] = {}
        self._statements: dict[ast.stmt, Facts] = {}

    def facts(self, body: Sequence[ast.stmt]) -> Facts:
        """Facts of a block of the body."""
        found = self._blocks.get(id(body))
        if found is None:
            found = self._blocks[id(body)] = _joined(map(self.statement, body))
        return found

    def statement(self, node: ast.stmt) -> Facts:
        """Facts of one statement."""
        found = self._statements.get(node)
        if found is None:
            found = self._statements[node] = self._facts_of(node)
        return found

    def live(self, node: ast.stmt) -> Names:
        """Names that may be read after a compound statement."""
        if self._live_after is None:
            self._live_after = {}
            self._spread(self._body, self._live_out, self._live_after)
        return self._live_after.get(node, _NONE)

    def _facts_of(self, node: ast.stmt) -> Facts:
        if isinstance(node, ast.If):
            return self._facts_of_if(node)
        if isinstance(node, (ast.For, ast.While)):
            return self._facts_of_loop(node)
        if isinstance(node, ast.With):
            return self._facts_of_scope(node)
        return _facts_of_simple(node)

    def _facts_of_if(self, node: ast.If) -> Facts:
        then, other = self.facts(node.body), self.facts(node.orelse)
        reads = names_read(node.test) | then.reads | other.reads
        assigned = dict.fromkeys((*then.assigned, *other.assigned))
        written, targets = then.written | other.written, then.targets | other.targets
        return Facts(reads, then.writes & other.writes, tuple(assigned), written, targets)

    def _facts_of_loop(self, node: ast.For | ast.While) -> Facts:
        inner = self.facts(node.body)
        header = node.iter if isinstance(node, ast.For) else node.test
        bound = frozenset(_targets(node.target)) if isinstance(node, ast.For) else _NONE
        reads = names_read(header) | (inner.reads - bound)
        written = inner.written.union(_begun_with(node, inner.written))
        return Facts(reads, _NONE, inner.assigned, written, inner.targets)

    def _facts_of_scope(self, node: ast.With) -> Facts:
        inner = self.facts(node.body)
        header = frozenset[str]().union(*(names_read(item.context_expr) for item in node.items))
        named = [name for item in node.items for name in _targets(item.optional_vars)]
        reads = header | (inner.reads - set(named))
        writes, targets = inner.writes | set(named), inner.targets | set(named)
        return Facts(reads, writes, (*named, *inner.assigned), inner.written, targets)

    def _spread(self, body: Sequence[ast.stmt], live: Names, result: dict[ast.stmt, Names]) -> None:
        """Notes in `result` what is live after each compound statement of `body` and below it."""
        first = next((k for k, node in enumerate(body) if isinstance(node, Compound)), len(body))
        for node in reversed(body[first:]):
            if isinstance(node, Compound):
                result[node] = live
                for block, live_inside in self._inside(node, live):
                    self._spread(block, live_inside, result)
            if node is not body[first]:
                facts = self.statement(node)
                live = facts.reads | (live - facts.writes)

    def _inside(
        self, node: ast.If | ast.For | ast.While | ast.With, live: Names
    ) -> Iterator[tuple[list[ast.stmt], Names]]:
        """The blocks of a compound statement that hold others, with what is live after each."""
        again = _NONE
        for block in (node.body, node.orelse if isinstance(node, ast.If) else []):
            if not any(isinstance(inner, Compound) for inner in block):
                continue
            if isinstance(node, (ast.For, ast.While)):
                header = names_read(node.test) if isinstance(node, ast.While) else _NONE
                again = self.facts(block).reads | header
            yield block, live | again


Compound = (ast.If, ast.For, ast.While, ast.With)
"""Statements that hold statements."""


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


def _joined(statements: Iterable[Facts]) -> Facts:
    """Facts of statements in sequence."""
    reads: set[str] = set()
    writes: set[str] = set()
    written: set[str] = set()
    targets: set[str] = set()
    assigned: dict[str, None] = {}
    for facts in statements:
        reads |= facts.reads - writes
        writes |= facts.writes
        written |= facts.written
        targets |= facts.targets
        assigned.update(dict.fromkeys(facts.assigned))
    found = Facts(frozenset(reads), frozenset(writes), tuple(assigned), frozenset(written))
    found.targets = frozenset(targets)
    return found


def _facts_of_simple(node: ast.stmt) -> Facts:
    match node:
        case ast.Assign(targets=targets, value=value):
            plain = [name for target in targets for name in _targets(target)]
            partial = [name for target in targets for name in _partial_targets(target)]
            facts = Facts(_target_reads(targets), frozenset(plain), (*plain, *partial))
            facts.written, facts.targets = frozenset(partial), frozenset(facts.assigned)
            return _with_value(value, facts)
        case ast.AnnAssign(target=target, value=value, annotation=annotation):
            plain = _targets(target) if value is not None else []
            names = frozenset(plain)
            facts = Facts(names_read(annotation), names, tuple(plain), targets=names)
            return _with_value(value, facts)
        case ast.Expr(value=value):
            return _with_value(value, Facts(), bare=True)
        case _:
            return Facts(names_read(node))


def _begun_with(node: ast.For | ast.While, headers: Names) -> Iterator[str]:
    """The names that a loop gives to those of `headers` that it carries."""
    call = node.iter if isinstance(node, ast.For) else None
    for keyword in call.keywords if isinstance(call, ast.Call) else ():
        if isinstance(node, ast.For) and isinstance(keyword.value, ast.Tuple):
            carried = zip(reversed(_targets(node.target)), reversed(keyword.value.elts))
            yield from (_base_name(init) for name, init in carried if name in headers)


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
    facts.written |= written
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
