"""The carried values of a lanes loop: accumulators, contributions, and the final tree."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.codegen.emitter import Emitter, dtype_name
from tilewright.codegen.formats import INT_FORMATS, REGISTER_ELEMENT
from tilewright.codegen.operands import LANES, Uniform
from tilewright.codegen.text import Text, type_text, vector_text
from tilewright.codegen.words import constant, register_type, word
from tilewright.dataclass import dataclass
from tilewright.errors import InternalError
from tilewright.ir.core import Value

ACCUMULATORS = 4
RANGE_MIN, RANGE_MAX = 0b0100, 0b0101
PAIRED = ("argmax", "argmin")
PLAIN = ("add", "mul", "max", "min", "and", "or", "xor")
MASK = f"<{LANES} x i1>"

# A value, or a (value, index) pair: what a reduction carries.
State = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Fold:
    """One reduction: the word, the dtypes of what it carries, and its initial values.

    A `guarded` extreme of floats carries beside the value whether a NaN has been met: then the
    value can be found by an instruction that knows the order of zeros but passes over NaN.
    """

    name: str
    dtypes: tuple[str, ...]
    inits: tuple[str, ...]
    guarded: bool = False

    @property
    def width(self) -> int:
        """How many values of the loop it takes and gives."""
        return len(self.inits)

    @property
    def is_paired(self) -> bool:
        """Whether it carries a value and an index."""
        return self.name in PAIRED

    def identity(self, lanes: int) -> State:
        """What changes nothing, in every lane."""
        if self.is_paired:
            value = least(self.dtypes[0]) if self.name == "argmax" else greatest(self.dtypes[0])
            pair = (value, greatest(self.dtypes[1]))
            return tuple(constant(v, d, lanes) for v, d in zip(pair, self.dtypes, strict=True))
        value = constant(identity_value(self.name, self.dtypes[0]), self.dtypes[0], lanes)
        return (value, constant(False, "BOOL", lanes)) if self.guarded else (value,)

    def contribution(self, text: Text, given: State) -> State:
        """What the body gave for sixteen lanes, as a state."""
        if not self.guarded:
            return given
        return (given[0], word(text, "ne", self.dtypes[0], LANES, given[0], given[0]))

    def follow(self, text: Text, old: State, new: State) -> State:
        """`old` combined with what the next iteration gives: every index of it is higher.

        A pair that is like the identity may stay the identity; the initial pair wins over both.
        """
        if not self.is_paired:
            return self.combine(text, LANES, old, new)
        value = self.dtypes[0]
        worse = word(text, "le" if self.name == "argmax" else "ge", value, LANES, new[0], old[0])
        better = word(text, "not", "BOOL", LANES, worse)
        if value not in INT_FORMATS:
            number = word(text, "eq", value, LANES, old[0], old[0])
            better = word(text, "and", "BOOL", LANES, better, number)
        return tuple(
            word(text, "select", dtype, LANES, better, late, early)
            for dtype, late, early in zip(self.dtypes, new, old, strict=True)
        )

    def combine(self, text: Text, lanes: int, left: State, right: State) -> State:
        """`left` combined with `right`, which comes later."""
        if self.guarded:
            value = extreme(text, self.name, lanes, left[0], right[0])
            return (value, word(text, "or", "BOOL", lanes, left[1], right[1]))
        if not self.is_paired:
            return (word(text, self.name, self.dtypes[0], lanes, left[0], right[0]),)
        better = is_better(text, self, lanes, right, left)
        return tuple(
            word(text, "select", dtype, lanes, better, new, old)
            for dtype, new, old in zip(self.dtypes, right, left, strict=True)
        )


def extreme(text: Text, name: str, lanes: int, left: str, right: str) -> str:
    """The greater or lesser of two floats that are not NaN; -0 is below +0."""
    if lanes != LANES:
        return word(text, name, "FP32", lanes, left, right)
    kind = type_text("float", LANES)
    control = RANGE_MAX if name == "max" else RANGE_MIN
    arguments = f"{kind} {left}, {kind} {right}, i32 {control}, {kind} poison, i16 -1, i32 4"
    return text.let(f"call {kind} @llvm.x86.avx512.mask.range.ps.512({arguments})")


def identity_value(name: str, dtype: str) -> int | float | bool:
    """The value that changes no other under the word `name`."""
    if name in ("max", "min"):
        return least(dtype) if name == "max" else greatest(dtype)
    if dtype == "BOOL":
        return name == "and"
    if name == "and":
        return -1
    return {"add": 0, "or": 0, "xor": 0, "mul": 1}[name]


def least(dtype: str) -> int | float | bool:
    """The least value of a dtype."""
    if dtype == "BOOL":
        return False
    if dtype not in INT_FORMATS:
        return float("-inf")
    form = INT_FORMATS[dtype]
    return -(1 << (int(form.element[1:]) - 1)) if form.signed else 0


def greatest(dtype: str) -> int | float | bool:
    """The greatest value of a dtype."""
    if dtype == "BOOL":
        return True
    if dtype not in INT_FORMATS:
        return float("inf")
    form = INT_FORMATS[dtype]
    return (1 << (int(form.element[1:]) - form.signed)) - 1


def is_better(text: Text, fold: Fold, lanes: int, new: State, old: State) -> str:
    """Whether the pair `new` wins: a NaN over numbers, a better value, the lower index on a tie."""
    value, index = fold.dtypes
    better = word(text, "gt" if fold.name == "argmax" else "lt", value, lanes, new[0], old[0])
    tie = word(text, "eq", value, lanes, new[0], old[0])
    if value not in INT_FORMATS:
        new_nan = word(text, "ne", value, lanes, new[0], new[0])
        old_nan = word(text, "ne", value, lanes, old[0], old[0])
        fresh = word(text, "and", "BOOL", lanes, new_nan, word(text, "not", "BOOL", lanes, old_nan))
        both = word(text, "and", "BOOL", lanes, new_nan, old_nan)
        better = word(text, "or", "BOOL", lanes, better, fresh)
        tie = word(text, "or", "BOOL", lanes, tie, both)
    lower = word(text, "lt", index, lanes, new[1], old[1])
    return word(text, "or", "BOOL", lanes, better, word(text, "and", "BOOL", lanes, tie, lower))


class Reductions:
    """All reductions of one lanes loop.

    Accumulators are a flat list of registers: for each fold, for each of its values, four vectors.
    """

    def __init__(self, e: Emitter, combine: Sequence[str], inits: Sequence[Value]) -> None:
        self.e = e
        self.folds: list[Fold] = []
        position = 0
        while position < len(inits):
            name = combine[position]
            own = inits[position : position + (2 if name in PAIRED else 1)]
            if name not in PAIRED and name not in PLAIN:
                raise InternalError(f"no reduction is called {name}")
            dtypes = tuple(dtype_name(value) for value in own)
            starts = tuple(e.scalar(value) for value in own)
            guarded = name in ("max", "min") and dtypes == ("FP32",) and e.module.isa.has_range
            if guarded:
                dtypes = ("FP32", "BOOL")
            self.folds.append(Fold(name, dtypes, starts, guarded))
            position += len(own)

    @property
    def kinds(self) -> list[str]:
        """The types of the accumulators."""
        dtypes = [dtype for fold in self.folds for dtype in fold.dtypes]
        return [register_type(dtype, LANES) for dtype in dtypes for _ in range(ACCUMULATORS)]

    def identities(self) -> list[str]:
        """The accumulators before the first element."""
        return [
            ref for fold in self.folds for ref in fold.identity(LANES) for _ in range(ACCUMULATORS)
        ]

    def split(self, flat: Sequence[str]) -> list[list[State]]:
        """For each fold, the states of its four accumulators."""
        result: list[list[State]] = []
        position = 0
        for fold in self.folds:
            width = len(fold.dtypes)
            rows = [
                flat[position + k * ACCUMULATORS : position + (k + 1) * ACCUMULATORS]
                for k in range(width)
            ]
            result.append([tuple(row[a] for row in rows) for a in range(ACCUMULATORS)])
            position += width * ACCUMULATORS
        return result

    def join(self, states: list[list[State]]) -> list[str]:
        """The inverse of `split`."""
        return [
            state[k]
            for fold, own in zip(self.folds, states, strict=True)
            for k in range(len(fold.dtypes))
            for state in own
        ]

    def combine(
        self, flat: Sequence[str], given: list[tuple[str, ...]], masks: list[str]
    ) -> list[str]:
        """The accumulators after the contributions of one iteration, copy u into accumulator u."""
        if not self.folds:
            return []
        text = self.e.text
        states = self.split(flat)
        position = 0
        for fold, own in zip(self.folds, states, strict=True):
            values = given[position : position + fold.width]
            position += fold.width
            for copy, mask in enumerate(masks):
                state = fold.contribution(text, tuple(refs[copy] for refs in values))
                if mask:
                    state = self.masked(fold, state, mask)
                own[copy] = fold.follow(text, own[copy], state)
        return self.join(states)

    def masked(self, fold: Fold, state: State, mask: str) -> State:
        """Contributions where lanes exist, the identity elsewhere."""
        return tuple(
            word(self.e.text, "select", dtype, LANES, mask, ref, other)
            for dtype, ref, other in zip(fold.dtypes, state, fold.identity(LANES), strict=True)
        )

    def turned(self, flat: Sequence[str], by: int) -> list[str]:
        """The accumulators, each in the place of the one that is `by` before it."""
        by %= ACCUMULATORS
        return self.join([[*own[by:], *own[:by]] for own in self.split(flat)])

    def finish(self, results: Sequence[Value], flat: Sequence[str]) -> None:
        """Fold the accumulators, the lanes, and the initial value on the left."""
        position = 0
        for fold, own in zip(self.folds, self.split(flat), strict=True):
            state = self.last_of(fold, self.tree(fold, own))
            for k in range(fold.width):
                self.e.define(results[position + k], Uniform(state[k]))
            position += fold.width

    def tree(self, fold: Fold, own: list[State]) -> State:
        """(a0 + a1) + (a2 + a3), then lane i with lane i + half."""
        text = self.e.text
        left = fold.combine(text, LANES, own[0], own[1])
        right = fold.combine(text, LANES, own[2], own[3])
        state, lanes = fold.combine(text, LANES, left, right), LANES
        if fold.guarded:
            return self.greatest_lane(fold, state)
        while lanes > 1:
            low = self.part(fold, state, lanes, 0)
            high = self.part(fold, state, lanes, lanes // 2)
            lanes //= 2
            state = fold.combine(text, lanes, low, high)
        return state

    def greatest_lane(self, fold: Fold, state: State) -> State:
        """A guarded extreme of all lanes, in whole registers: in which order shows nowhere."""
        text, (value, nans) = self.e.text, state
        kind, half = type_text("float", LANES), LANES
        while half > 1:
            half //= 2
            picks = vector_text([*range(half, 2 * half)] * (LANES // half), "i32")
            other = f"shufflevector {kind} {value}, {kind} poison, <{LANES} x i32> {picks}"
            value = extreme(text, fold.name, LANES, value, text.let(other))
        bits = text.let(f"bitcast {MASK} {nans} to i{LANES}")
        some = text.let(f"icmp ne i{LANES} {bits}, 0")
        return (text.let(f"extractelement {kind} {value}, i64 0"), some)

    def part(self, fold: Fold, state: State, lanes: int, start: int) -> State:
        """Half of the lanes, from `start` on."""
        text, half = self.e.text, lanes // 2
        refs: list[str] = []
        for dtype, ref in zip(fold.dtypes, state, strict=True):
            kind = type_text(REGISTER_ELEMENT[dtype], lanes)
            if half == 1:
                refs.append(text.let(f"extractelement {kind} {ref}, i64 {start}"))
                continue
            picks = vector_text(range(start, start + half), "i32")
            refs.append(
                text.let(f"shufflevector {kind} {ref}, {kind} poison, <{half} x i32> {picks}")
            )
        return tuple(refs)

    def last_of(self, fold: Fold, state: State) -> State:
        """The initial value combined with the fold of all lanes; initial pairs win ties."""
        text = self.e.text
        if fold.guarded:
            nan = constant(float("nan"), "FP32", 1)
            state = (word(text, "select", "FP32", 1, state[1], nan, state[0]),)
        if not fold.is_paired:
            if fold.guarded and fold.inits == fold.identity(1)[:1]:
                return state
            return (word(text, fold.name, fold.dtypes[0], 1, fold.inits[0], state[0]),)
        first = (fold.inits[0], constant(least(fold.dtypes[1]), fold.dtypes[1], 1))
        better = is_better(text, fold, 1, state, first)
        return tuple(
            word(text, "select", dtype, 1, better, new, old)
            for dtype, new, old in zip(fold.dtypes, state, fold.inits, strict=True)
        )
