"""A function of any level as Python text: one line per operation, loops as loops.

Running the text interprets the function. Arrays are numpy arrays, buffers `buffers.Buffer`, INDEX
scalars Python ints. A lanes loop runs its body once, on arrays with one entry per lane.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import field
from functools import partial
from typing import Any, cast

from tilewright.dataclass import dataclass
from tilewright.errors import InternalError
from tilewright.interp.exprs import expr_text
from tilewright.interp.ownership import Ownership
from tilewright.interp.support import NAMESPACE
from tilewright.interp.text import Text
from tilewright.ir.affine import Expr, Operand, Symbol, scaled_symbol, symbols
from tilewright.ir.core import Block, Function, Operation, Value
from tilewright.ir.enums import ParamDirection
from tilewright.ir.opdef import OpDef, values_of
from tilewright.ir.stops import Part, Stop
from tilewright.ir.types import ScalarType, ShapedType
from tilewright.ops.access import access_load_numpy


@dataclass(frozen=True)
class Mode:
    """How to run: with compiled scalar `words`, shuffled (`checked`), fresh memory poisoned."""

    words: Any = None
    checked: bool = False
    facts: Any = None
    stops: Mapping[Any, Sequence[Stop]] = field(default_factory=dict[Any, "Sequence[Stop]"])
    poisons: bool = False


Handler = Callable[["Emitter", Operation], None]
HANDLERS: dict[OpDef[..., Any], Handler] = {}
EVALUATORS: list[Callable[[Mode, Operation], Callable[..., Any] | None]] = []


def handles(*opdefs: OpDef[..., Any]) -> Callable[[Handler], Handler]:
    """Registers how the operations of `opdefs` are written as Python."""

    def register(handler: Handler) -> Handler:
        HANDLERS.update(dict.fromkeys(opdefs, handler))
        return handler

    return register


class Emitter:
    """Writes one function as Python text."""

    def __init__(self, function: Function, mode: Mode, callees: Mapping[Any, Any]) -> None:
        self.function = function
        self.mode = mode
        self.callees = callees
        self.text = Text(f"<interpreted {function.name}>")
        self.names: dict[Value, str] = {}
        self.symbols: dict[Symbol, str] = {}
        self.owned = Ownership(function)
        self.at: tuple[Block, int] = (function.body, 0)
        self.lanes = ""
        self.mask: str | None = None
        self.varying: set[Value] = set()

    # ------------------------------------------------------------------ names

    def define(self, value: Value, name: str | None = None) -> str:
        """Gives `value` a name; shapes that mention its symbol will find it."""
        name = name or self.text.fresh()
        self.names[value] = name
        if value.has_symbol:
            self.symbols[value.symbol] = name
        return name

    def define_all(self, values: Sequence[Value]) -> list[str]:
        """Names for several values."""
        return [self.define(value) for value in values]

    def name(self, value: Value) -> str:
        """The text that stands for `value`."""
        return self.names[value]

    def entry(self, entry: Any) -> str:
        """The text of one operand entry."""
        if entry is None:
            return "None"
        return self.name(entry) if isinstance(entry, Value) else self.sequence(entry)

    def sequence(self, values: Sequence[Value]) -> str:
        """A tuple display of values."""
        return tuple_text([self.name(value) for value in values])

    def expr(self, given: Operand) -> str:
        """The text that computes an extent."""
        return expr_text(given, self._symbol)

    def extents(self, dims: Sequence[Operand]) -> str:
        """A tuple display of extents."""
        return tuple_text([self.expr(dim) for dim in dims])

    def _symbol(self, symbol: Symbol) -> str:
        return self.symbols.get(symbol) or f"unbound({symbol.name!r})"

    def handed(self, value: Value) -> str:
        """The text of a value whose memory somebody takes over: a copy where it is still read."""
        name = self.name(value)
        return f"{name}.copy()" if self.owned.needs_copy(value, *self.at) else name

    # ------------------------------------------------------------------ statements

    def assign(self, targets: Sequence[str], sources: Sequence[str]) -> None:
        """All of `targets` at once become `sources`."""
        pairs = [(t, s) for t, s in zip(targets, sources, strict=True) if t != s]
        if pairs:
            left, right = (", ".join(side) for side in zip(*pairs))
            self.text.line(f"{left} = {right}")

    def suite(self, header: str) -> AbstractContextManager[None]:
        """A compound statement around what is emitted for the duration."""
        return self.text.indented(header)

    def block(self, block: Block) -> list[str]:
        """The operations of `block`; gives the texts of what its terminator hands over."""
        self.stop_at(block)
        for index, op in enumerate(block.ops):
            self.at = (block, index)
            self.text.origin = op
            if op.opdef.terminator:
                return self.terminator(op)
            self.operation(op)
            self.stop_at(op)
        raise InternalError(f"a block of {self.function.name} has no terminator")

    def stop_at(self, place: Any) -> None:
        """Stops where the author has asked for it, with what his names stand for."""
        for stop in self.mode.stops.get(place, ()):
            shown = [(name, self._shown(value)) for name, value in stop.names.items()]
            known = ", ".join(f"{name!r}: {text}" for name, text in shown if text)
            self.text.line(f"{self.text.constant(stop.reach, 'stop')}({{{known}}})")

    def _shown(self, value: Any) -> str | None:
        if isinstance(value, Expr):
            return self.expr(value) if all(s in self.symbols for s in symbols(value)) else None
        if isinstance(value, Part):
            return self._shown_part(value)
        return self.names.get(value) if isinstance(value, Value) else None

    def _shown_part(self, part: Part) -> str | None:
        whole = self.names.get(part.whole)
        if whole is None or any(s not in self.symbols for s in part.access.free_symbols):
            return None
        look = self.text.constant(access_load_numpy, "look")
        return f"{look}({whole}, (), access={_attr_text(self, part.access)}, space=None)"

    def terminator(self, op: Operation) -> list[str]:
        """Ends a block; gives the texts of what it hands over."""
        handler = HANDLERS.get(op.opdef)
        if handler is not None:
            handler(self, op)
            return []
        return [self.handed(value) for value in op.inputs]

    def operation(self, op: Operation) -> None:
        """One operation that ends no block."""
        if self.lanes and any(value in self.varying for value in op.inputs):
            self.varying.update(op.results)
        HANDLERS.get(op.opdef, emit_call)(self, op)

    # ------------------------------------------------------------------ the function

    def emit(self) -> Callable[..., tuple[Any, ...]]:
        """The function itself, ready to call with one argument per parameter."""
        params = self.define_all(self.function.params)
        self.owned.borrow(tuple(p for p, d in self._directed_params() if d is ParamDirection.In))
        with self.suite(f"def interpreted({', '.join(params)}):"):
            self._bind_dims()
            self.prologue()
            self.stop_at(None)
            self.block(self.function.body)
        namespace = {**NAMESPACE, **self.text.pool}
        exec(self.text.compile(), namespace)
        return namespace["interpreted"]

    def prologue(self) -> None:
        """What a function does before its first operation."""

    def _directed_params(self) -> list[tuple[Value, ParamDirection]]:
        return list(zip(self.function.params, self.function.directions, strict=True))

    def written_params(self) -> list[Value]:
        """The Out and InOut parameters."""
        return [p for p, d in self._directed_params() if d is not ParamDirection.In]

    def _bind_dims(self) -> None:
        """Symbols get values from the extents of the arguments; the other extents must agree."""
        sites = list(self._symbolic_extents())
        for found, place in [(s, p) for dim, p in sites if (s := scaled_symbol(dim))]:
            symbol, scale, offset = found
            if symbol not in self.symbols:
                self.symbols[symbol] = self.text.fresh("s")
                self.text.line(f"{self.symbols[symbol]} = ({place} - {offset}) // {scale}")
        for dim, place in sites:
            if all(symbol in self.symbols for symbol in symbols(dim)):
                self.text.line(f"require_extent({place}, {self.expr(dim)}, {str(dim)!r})")

    def _symbolic_extents(self) -> list[tuple[Expr, str]]:
        found: list[tuple[Expr, str]] = []
        for param in self.function.params:
            for part in ("shape", "strides"):
                dims: tuple[Any, ...] = getattr(param.type, part, ())
                found += [
                    (dim, f"{self.name(param)}.{part}[{axis}]")
                    for axis, dim in enumerate(dims)
                    if isinstance(dim, Expr)
                ]
        return found


def tuple_text(parts: Sequence[str]) -> str:
    """A tuple display."""
    return f"({', '.join(parts)},)" if parts else "()"


# ---------------------------------------------------------------------- operations with a reference


def emit_call(e: Emitter, op: Operation) -> None:
    """One call of the op's reference; tied results write into the operand they are tied to."""
    args = [e.entry(entry) for entry in op.operands]
    targets = _take_over(e, op, args)
    static = {name: given for name, given in op.attrs.items() if not _is_symbolic(given)}
    function = e.text.constant(partial(evaluator(e.mode, op), **static), "f")
    extra = [
        f"{name}={_attr_text(e, given)}" for name, given in op.attrs.items() if name not in static
    ]
    call = f"{function}({', '.join([*args, *extra])})"
    if e.owned.must_be_fresh(op):
        call = f"fresh({call}, {tuple_text([e.name(value) for value in op.inputs])})"
    results = e.define_all(op.results)
    if len(results) == 1 and targets:
        call = f"put({targets[0]}, {call})"
    e.text.line(f"{', '.join(results)} = {call}" if results else call)
    for result, target in targets.items() if len(results) > 1 else ():
        e.text.line(f"{results[result]} = put({target}, {results[result]})")
    for value, name in zip(op.results, results, strict=True):
        if isinstance(value.type, ShapedType) and not value.type.shape:
            e.text.line(f"{name} = np.asarray({name})")  # numpy gives scalars for rank 0


def _take_over(e: Emitter, op: Operation, args: list[str]) -> dict[int, str]:
    """The name, by tied result, of the memory it takes over; `args` mention that memory."""
    targets: dict[int, str] = {}
    for result, position in op.opdef.tied.items():
        (value,) = values_of(op.operands[position])
        text = e.handed(value)
        name = text if text.isidentifier() else e.text.fresh()
        e.assign([name], [text])
        args[position] = targets[result] = name
    return targets


def evaluator(mode: Mode, op: Operation) -> Callable[..., Any]:
    """What computes `op`: its reference, unless the mode has something better."""
    for choose in EVALUATORS:
        chosen = choose(mode, op)
        if chosen is not None:
            return chosen
    reference = op.opdef.evaluate
    if reference is None:
        raise InternalError(f"op {op.name} has no reference")
    return getattr(reference, "__wrapped__", reference)  # warnings are off for the whole run


def _is_symbolic(given: Any) -> bool:
    if isinstance(given, tuple):
        return any(map(_is_symbolic, cast("tuple[Any, ...]", given)))
    return isinstance(given, Expr) or hasattr(given, "substitute")


def _attr_text(e: Emitter, given: Any) -> str:
    if isinstance(given, Expr):
        return e.expr(given)
    if isinstance(given, tuple):
        return tuple_text([_attr_text(e, item) for item in cast("tuple[Any, ...]", given)])
    if hasattr(given, "substitute"):
        known = ", ".join(
            f"{e.text.constant(symbol)}: {e.symbols[symbol]}"
            for symbol in given.free_symbols
            if symbol in e.symbols
        )
        return f"resolve({e.text.constant(given)}, {{{known}}})"
    return e.text.constant(given)


def is_scalar_of(value: Value, *dtypes: Any) -> bool:
    """True when `value` is a scalar of one of `dtypes`."""
    return isinstance(value.type, ScalarType) and value.type.dtype in dtypes
