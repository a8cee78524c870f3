"""What loops carry: reading a body, and what names mean after it.

A loop carries what its author names with init_values, what it rebinds and is read again, and the
tensor parameters that it writes. Whether a body writes one is known only after reading it; a body
that turns out to write more than foreseen is read again.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import field
from typing import Any

from tilewright.dataclass import dataclass
from tilewright.dtypes import DType
from tilewright.errors import (
    ParserSyntaxError,
    StaleRead,
    UnsupportedFeatureError,
)
from tilewright.frontend.namespace import MISSING
from tilewright.frontend.parse.basic import is_word_call
from tilewright.frontend.parse.liveness import Facts
from tilewright.frontend.parse.operators import as_condition
from tilewright.frontend.parse.parser import FunctionParser
from tilewright.frontend.parse.parts import is_same_part, root_of_part, taken_again
from tilewright.frontend.parse.regions import (
    can_flow,
    end_block,
    isolated,
)
from tilewright.frontend.parse.state import Poison, Silenced, Yield
from tilewright.frontend.values import (
    as_number,
    constant,
    fitted,
    is_scalar,
    literal_of,
)
from tilewright.frontend.words import COND
from tilewright.ir.core import Block, Value
from tilewright.ir.rewrite import replace_values
from tilewright.ir.types import ScalarType
from tilewright.ops import control

_MAX_READINGS = 8
_OUTSIDE = "inside a loop that may not run"
_ADVICE = "Bind it before the loop, or use it inside."


@dataclass
class Carry:
    """One carried value: its header name, its value before the loop, what it is carried for.

    `root` is what it is the newest version of; it may also repeat one that the loop does not write.
    """

    name: str
    init: Value
    explicit: bool = False
    root: int | None = None
    repeats: bool = False


@dataclass
class Again:
    """What a reading of the body found missing: read it again with these."""

    names: set[str] = field(default_factory=set[str])
    roots: set[int] = field(default_factory=set[int])
    dtypes: dict[str, DType] = field(default_factory=dict[str, DType])
    values: set[str] = field(default_factory=set[str])
    parts: set[str] = field(default_factory=set[str])

    @property
    def size(self) -> int:
        found = (self.names, self.roots, self.dtypes, self.values, self.parts)
        return sum(map(len, found))


@dataclass
class Loop:
    """A loop statement, taken apart."""

    node: ast.For | ast.While
    body: Sequence[ast.stmt]
    facts: Facts
    again_reads: frozenset[str]
    headers: list[str]
    inits: list[Value]
    index: str | None = None
    variable: Callable[[], Value] | None = None
    condition: Sequence[ast.stmt] | ast.expr | None = None


@dataclass
class Reading:
    """One reading of a loop's body."""

    carries: list[Carry]
    params: list[Value]
    block: Block
    before: Block | None
    yields: list[Any]
    names: list[str]
    scope: dict[str, Any]
    variable: Value | None


def read_loop(p: FunctionParser, loop: Loop) -> Reading:
    """Reads the body. What begins as a parameter that the body seems to write is taken for versions
    of it; where that makes a read stale, for the same contents until a write shows up."""
    mark, guess = len(p.state.errors), _guessed_roots(p, loop)
    with suppress(StaleRead):
        reading = _settled(p, loop, Again(roots=guess))
        if not guess or not _has_stale(p.state.errors[mark:]):
            return _required(reading)
    del p.state.errors[mark:]
    return _required(_settled(p, loop, Again()))


def _required(reading: Reading | None) -> Reading:
    if reading is None:
        raise Silenced
    return reading


def _has_stale(errors: Sequence[Exception]) -> bool:
    return any(isinstance(error, StaleRead) for error in errors)


def _guessed_roots(p: FunctionParser, loop: Loop) -> set[int]:
    """The parameters that a body seems to write."""
    facts, begun = loop.facts, dict(zip(loop.headers, loop.inits))
    names = facts.written.union(facts.assigned).difference(begun)
    bound = (begun[name] for name in facts.written.intersection(begun))
    bound = (*bound, *map(p.scope.get, names))
    roots = (p.versions.root(value) for value in bound if isinstance(value, Value))
    return {root for root in roots if root is not None}


def _settled(p: FunctionParser, loop: Loop, again: Again) -> Reading | None:
    """Reads the body until nothing that it carries was missed; None when an error that has been
    reported leaves nothing to go on with."""
    errors = len(p.state.errors)
    for _ in range(_MAX_READINGS):
        with p.trial():
            try:
                reading, missed = _read_once(p, loop, again)
            except Silenced:
                return None
        if not missed.size or len(p.state.errors) > errors:
            return reading
        again.names |= missed.names
        again.roots |= missed.roots
        again.dtypes |= missed.dtypes
        again.values |= missed.values
        again.parts |= missed.parts
    shown = ", ".join(sorted(again.names | again.values)) or "its outputs"
    raise UnsupportedFeatureError(
        f"What {shown} mean after an iteration depends on the path taken",
        p.span(loop.node),
        "Give what an iteration passes on a name of its own.",
    )


def _read_once(p: FunctionParser, loop: Loop, again: Again) -> tuple[Reading, Again]:
    carries = _carries(p, loop, again)
    params = [Value(carry.init.type, carry.name) for carry in carries]
    before = None
    if loop.condition is not None:
        heads = tuple(Value(param.type, param.name) for param in params)
        with p.trial():
            _enter(p, carries, heads)
            before = _read_condition(p, loop, heads)
    _enter(p, carries, params)
    variable = loop.variable() if loop.variable else None
    if loop.index is not None:
        p.scope[loop.index] = variable
    start, mark = dict(p.scope), p.versions.mark()
    all_params = (variable, *params) if variable is not None else tuple(params)
    with p.builder.inside(Block()) as head:
        _take_parts(p, sorted(again.parts))
    block = p.region(all_params, loop.body)
    block.ops[:0] = head.ops
    names, yields = _yielded(p, loop, carries, params, p.ended)
    reading = Reading(carries, params, block, before, yields, names, dict(p.scope), variable)
    missed = _missed(p, loop, reading, again, start, mark)
    for carry, param in zip(carries, params):
        if carry.explicit and carry.root is not None and not p.versions.is_stale(param):
            carry.root, carry.repeats = None, True
    return reading, missed


def _read_condition(p: FunctionParser, loop: Loop, params: tuple[Value, ...]) -> Block:
    with p.builder.inside(Block(params)) as block:
        if isinstance(loop.condition, ast.expr):
            test = loop.condition
        else:
            assert loop.condition is not None
            *before, last = loop.condition
            p.block(before)
            assert isinstance(last, ast.Expr) and isinstance(last.value, ast.Call)
            if p.evaluate(last.value.func) is not COND or len(last.value.args) != 1:
                raise ParserSyntaxError("pl.cond takes one condition", p.span(last))
            test = last.value.args[0]
        value = p.emitted(test, as_condition, p.evaluate(test))
        p.builder.emit(control.condition, (value,), span=p.span(test))
    return block


def _take_parts(p: FunctionParser, names: Sequence[str]) -> None:
    """Takes the parts that an iteration writes again, at its beginning."""
    for bound in dict.fromkeys(p.scope[name] for name in names):
        _rename(p.scope, bound, taken_again(p, bound))


def _enter(p: FunctionParser, carries: Sequence[Carry], params: Sequence[Value]) -> None:
    """Inside the loop, names and current versions mean the carried values."""
    for carry, param in zip(carries, params):
        if carry.root is not None:
            p.versions.advance(carry.root, param)
        if carry.root is not None and not carry.explicit:
            _rename(p.scope, carry.init, param)
        else:
            p.scope[carry.name] = param
        if carry.repeats:
            p.versions.repeat(param, carry.init)
        elif carry.root is None:
            p.versions.join(param, carry.init)


def _rename(scope: dict[str, Any], old: Value, new: Value) -> None:
    for name, bound in scope.items():
        if bound is old:
            scope[name] = new


def _carries(p: FunctionParser, loop: Loop, again: Again) -> list[Carry]:
    carries: list[Carry] = []
    carried: dict[int | None, Carry] = {}

    def carry(name: str, init: Value, *, explicit: bool = False) -> None:
        new = Carry(name, init, explicit)
        root = None if name in again.values else p.versions.root(init)
        if root not in again.roots:
            new.repeats = root is not None
        elif root not in carried:
            new.root = root
            carried[root] = new
        carries.append(new)

    for name, init in zip(loop.headers, map(p.versions.newest, loop.inits)):
        carry(name, init, explicit=True)
    needed = p.live.live(loop.node) | loop.again_reads
    for name in _implicit_names(p, loop, again):
        bound = p.scope.get(name)
        if name not in needed or not can_flow(bound):
            continue
        if name not in again.names and root_of_part(p, bound) is not None:
            continue
        init = p.versions.newest(_initial(p, name, bound, again))
        if isinstance(bound, Value):
            _rename(p.scope, bound, init)
        other = None if name in again.values else carried.get(p.versions.root(init))
        if other is None:
            carry(name, init)
        elif not other.explicit:
            _rename(p.scope, init, other.init)
    for root in sorted(again.roots - carried.keys()):
        carry(p.versions.current[root].name, p.versions.current[root])
    return carries


def _implicit_names(p: FunctionParser, loop: Loop, again: Again) -> list[str]:
    ended = _yield_names(p, loop.body)
    facts = loop.facts
    handed = set(facts.assigned) - facts.targets - again.names  # to calls, which rebind no scalars
    names = dict.fromkeys((*facts.assigned, *sorted(again.names)))
    scalars = {name for name in handed if is_scalar(p.scope.get(name))}
    skipped = {*loop.headers, *ended, loop.index, *scalars}
    return [name for name in names if name not in skipped]


def _yield_names(p: FunctionParser, body: Sequence[ast.stmt]) -> set[str]:
    last = body[-1] if body else None
    if isinstance(last, (ast.Assign, ast.AnnAssign)) and _has_yield(p, [last]):
        targets = last.targets if isinstance(last, ast.Assign) else [last.target]
        return {n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)}
    return set()


def _initial(p: FunctionParser, name: str, bound: Any, again: Again) -> Value:
    number = literal_of(bound) if isinstance(bound, Value) else as_number(bound)
    dtype = again.dtypes.get(name)
    if number is not None and (dtype is not None or not isinstance(bound, Value)):
        value = constant(float(number) if dtype and dtype.is_float() else number, dtype)
        value.name = name
        return value
    return p.as_value(bound)


def _has_yield(p: FunctionParser, body: Sequence[ast.stmt]) -> bool:
    values = (node.value for node in body if isinstance(node, (ast.Assign, ast.AnnAssign)))
    return any(value is not None and is_word_call(p, value, "yield_") for value in values)


def _yielded(
    p: FunctionParser,
    loop: Loop,
    carries: Sequence[Carry],
    params: Sequence[Value],
    ended: Yield | None,
) -> tuple[list[str], list[Any]]:
    explicit = [carry for carry in carries if carry.explicit]
    values = ended.values if ended else []
    given = [p.versions.newest(v) if isinstance(v, Value) else v for v in values]
    names = list(ended.names) if ended else []
    if ended is not None and not explicit:
        raise ParserSyntaxError(
            "pl.yield_ in a loop needs init_values", p.span(ended.node), "Add init_values=(...)."
        )
    if explicit and ended is None and _has_yield(p, loop.body[-1:]):
        raise Silenced  # the pl.yield_ at the end could not be read, and why has been said
    if explicit and (ended is None or not names):
        raise ParserSyntaxError(
            "A loop with init_values must end with an assignment from pl.yield_",
            p.span(ended.node if ended else loop.node),
            f"End the body with '{', '.join(loop.headers)} = pl.yield_(...)'.",
        )
    if ended is not None and not len(explicit) == len(given) == len(names):
        raise ParserSyntaxError(
            f"Mismatch: {len(explicit)} init_values, {len(given)} yielded values, "
            f"{len(names)} names",
            p.span(ended.node),
        )
    for carry, param in zip(carries[len(explicit) :], params[len(explicit) :]):
        given.append(p.scope.get(carry.name) if carry.root is None else p.versions.newest(param))
        names.append(carry.name)
    return names, given


def _missed(
    p: FunctionParser,
    loop: Loop,
    reading: Reading,
    known: Again,
    start: dict[str, Any],
    mark: list[Value],
) -> Again:
    again = Again()
    carried = {carry.name for carry in reading.carries if not carry.explicit}
    roots = {carry.root for carry in reading.carries}
    needed = p.live.live(loop.node) | loop.again_reads
    ended = _yield_names(p, loop.body)
    for name, bound in start.items():
        now = reading.scope.get(name)
        if now is bound or name in carried or name in ended:
            continue
        if is_same_part(p, bound, now):
            again.parts |= {name} - known.parts
            continue
        inner = name in loop.headers or name == loop.index
        if name in needed and not inner and can_flow(bound) and not _is_root(p, bound, roots):
            again.names.add(name)
    again.roots.update(root for root in p.versions.changed_since(mark) if root not in roots)
    again.values.update(_diverted(p, loop, reading, start))
    for carry, value in zip(reading.carries, reading.yields):
        if _should_adopt(carry, value):
            again.dtypes[carry.name] = value.type.dtype
    return again


def _diverted(
    p: FunctionParser, loop: Loop, reading: Reading, start: dict[str, Any]
) -> Iterator[str]:
    """Names carried as a version of a parameter that name something else after an iteration."""
    needed = p.live.live(loop.node) | loop.again_reads
    for carry, param, value in zip(reading.carries, reading.params, reading.yields):
        if carry.root is None and not carry.repeats:
            continue
        if carry.explicit or carry.repeats:
            root = value if not isinstance(value, Value) else p.versions.root(value)
            if root != p.versions.root(param):
                yield carry.name
            continue
        for name in [name for name in needed if start.get(name) is param]:
            bound = reading.scope.get(name)
            if isinstance(bound, Value) and p.versions.root(bound) != carry.root:
                yield name


def _is_root(p: FunctionParser, bound: Any, roots: set[int | None]) -> bool:
    return isinstance(bound, Value) and p.versions.root(bound) in roots - {None}


def _should_adopt(carry: Carry, value: Any) -> bool:
    """A carried literal takes the dtype that the iterations give it."""
    if carry.explicit or literal_of(carry.init) is None or not is_scalar(value):
        return False
    init, given = carry.init.type, value.type
    assert isinstance(init, ScalarType)
    return init.dtype is not given.dtype and init.dtype.is_int() == given.dtype.is_int()


def close_loop(p: FunctionParser, reading: Reading) -> None:
    """Ends the body; what it carries for the author keeps the type it began with where it can."""
    pairs = zip(reading.yields, reading.carries)
    with p.builder.inside(reading.block):
        given = [v if carry.explicit else fitted(v, carry.init.type) for v, carry in pairs]
    end_block(p, reading.block, given)


def finish_loop(p: FunctionParser, loop: Loop, reading: Reading, results: Sequence[Value]) -> None:
    """After the loop, names mean its results; what is bound only inside may not be used."""
    _advance(p, reading, results)
    inside = dict(zip(reading.yields, results))
    own, live = {*loop.headers, loop.index}, p.live.live(loop.node)
    for name, bound in reading.scope.items():
        was = p.scope.get(name, MISSING)
        if name in own or was is bound:
            continue
        if not (isinstance(was, Value) and is_same_part(p, was, bound)):
            _leave_name(p, reading, name, bound, inside)
        elif name in live:
            _rename(p.scope, was, taken_again(p, was))
    for carry, name, result in zip(reading.carries, reading.names, results):
        if carry.root is not None and not carry.explicit:
            _rename(p.scope, carry.init, result)
        else:
            p.scope[name] = result


def _advance(p: FunctionParser, reading: Reading, results: Sequence[Value]) -> None:
    """The results are the newest versions of the roots that the loop carries."""
    for carry, name, result, given in zip(reading.carries, reading.names, results, reading.yields):
        result.name = name
        if carry.root is not None:
            p.versions.advance(carry.root, result)
        elif carry.repeats:
            p.versions.repeat(result, carry.init)
        else:
            p.versions.join(result, carry.init, given)


def _leave_name(
    p: FunctionParser, reading: Reading, name: str, bound: Any, inside: dict[Value, Value]
) -> None:
    """What a name bound in the loop means after it; `inside` gives what is yielded its result."""
    root = p.versions.root(bound) if isinstance(bound, Value) else None
    leaves = name in p.scope or bound in inside or bound not in p.versions.same
    if root is not None and leaves:  # an older version stays one: it may be written, not read
        p.scope[name] = inside.get(bound, p.scope.get(name, bound))
    elif name in p.scope and bound in reading.params:
        return
    elif isinstance(bound, Poison) and bound.reason is None:
        p.scope[name] = bound  # what is wrong with it has been said
    else:
        p.scope[name] = isolated(name, _OUTSIDE, _ADVICE)


def drop_unchanged(p: FunctionParser, reading: Reading) -> None:
    """Leaves out implicit carries that no iteration changes."""
    kept: list[int] = []
    mapping: dict[Value, Value] = {}
    for position, (carry, param) in enumerate(zip(reading.carries, reading.params)):
        unchanged = reading.yields[position] is param and not carry.explicit
        if unchanged and not param.has_symbol:
            mapping[param] = carry.init
        else:
            kept.append(position)
    if not mapping:
        return
    replace_values(reading.block, mapping)
    for node, (name, value) in p.rebound.items():
        p.rebound[node] = name, mapping.get(value, value)
    _keep(reading, kept)
    reading.yields = [mapping.get(value, value) for value in reading.yields]
    for name, bound in reading.scope.items():
        if isinstance(bound, Value) and bound in mapping:
            reading.scope[name] = mapping[bound]


def _keep(reading: Reading, kept: Sequence[int]) -> None:
    """Leaves only the carries at positions `kept`."""
    if reading.before is not None:
        heads = reading.before.params
        gone = {h: c.init for k, (h, c) in enumerate(zip(heads, reading.carries)) if k not in kept}
        replace_values(reading.before, gone)
        reading.before.params = tuple(heads[k] for k in kept)
    reading.carries = [reading.carries[k] for k in kept]
    reading.params = [reading.params[k] for k in kept]
    reading.yields = [reading.yields[k] for k in kept]
    reading.names = [reading.names[k] for k in kept]
    index = () if reading.variable is None else (reading.variable,)
    reading.block.params = (*index, *reading.params)
