"""Write LLVM assembly: functions line by line, with fresh names, blocks, loops and exact constants.

A `Text` is one function body under construction. A `Module` is the functions of one object file
plus the helpers they asked for. Nothing here ever writes a fast-math flag.
"""

import struct
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import field

from tilewright.dataclass import dataclass
from tilewright.target import Isa

NAMELESS = "@_"
METADATA = "!0 = !{i32 1}\n"
NONTEMPORAL = "!nontemporal !0"
SECOND_CACHE = 2

FLOAT_ELEMENTS = frozenset({"float", "double"})
ELEMENT_BYTES = {"float": 4, "double": 8, "i1": 1, "i8": 1, "i16": 2, "i32": 4, "i64": 8, "ptr": 8}


def type_text(element: str, lanes: int) -> str:
    """`float` for one lane, `<16 x float>` for sixteen."""
    return element if lanes == 1 else f"<{lanes} x {element}>"


def float_text(value: float, element: str) -> str:
    """The exact constant nearest to `value` in `element`, as LLVM reads it."""
    if element == "float":
        value = round_to_float(value)
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


def round_to_float(value: float) -> float:
    """`value` rounded to binary32, overflowing to infinity."""
    try:
        return struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def scalar_text(value: float | int | bool, element: str) -> str:
    """A constant of one lane."""
    if element in FLOAT_ELEMENTS:
        return float_text(float(value), element)
    if element == "i1":
        return "true" if value else "false"
    return str(int(value))


def constant_text(value: float | int | bool, element: str, lanes: int) -> str:
    """A constant with the same value in every lane."""
    scalar = scalar_text(value, element)
    return scalar if lanes == 1 else f"splat ({element} {scalar})"


def constant_number(text: str) -> float | None:
    """The float that a constant of one lane, or of equal lanes, is; None for anything else."""
    bits = text.removeprefix("splat (").removesuffix(")").rpartition(" ")[2]
    if not bits.startswith("0x"):
        return None
    return struct.unpack("<d", struct.pack("<Q", int(bits, 16)))[0]


def vector_text(values: Sequence[float | int | bool], element: str) -> str:
    """A constant vector with the given lanes."""
    return "<" + ", ".join(f"{element} {scalar_text(v, element)}" for v in values) + ">"


@dataclass(slots=True)
class Module:
    """The text of one object file: its functions, and the helpers and constants those asked for."""

    isa: Isa
    functions: list[str] = field(default_factory=list[str])
    shared: dict[str, str] = field(default_factory=dict[str, str])
    helpers: dict[str, str] = field(default_factory=dict[str, str])

    def add(self, text: "Text") -> None:
        """Append a finished function."""
        self.functions.append(text.finish())

    def share(self, text: "Text", name: str) -> str:
        """The symbol of a finished function whose header has `NAMELESS` for one.

        An equal function that is there already is the same: LLVM compiles it once.
        """
        function = text.finish()
        symbol = self.shared.get(function)
        if symbol is None:
            symbol = self.shared[function] = f"@tilewright.{name}{len(self.shared) + 1}"
            self.functions.append(function.replace(NAMELESS, symbol, 1))
        return symbol

    def require(self, name: str, make: Callable[["Module"], str]) -> None:
        """Make sure the helper `name` is defined; `make` writes it the first time."""
        if name not in self.helpers:
            self.helpers[name] = ""
            self.helpers[name] = make(self)

    def finish(self) -> str:
        """The whole module."""
        parts = [*self.helpers.values(), *self.functions, self.attributes(), METADATA]
        return "\n".join(parts)

    def attributes(self) -> str:
        """Attribute groups: #0 for every function, #1 for what must stay a call."""
        width = self.isa.vector_bytes * 8
        common = f'nounwind "prefer-vector-width"="{width}" "min-legal-vector-width"="{width}"'
        return f"attributes #0 = {{ {common} }}\nattributes #1 = {{ noinline {common} }}\n"


@dataclass(slots=True)
class Loop:
    """A counted loop being written: its counter, its carried values, and what they are next."""

    counter: str
    carries: list[str]
    following: list[str] = field(default_factory=list[str])


@dataclass(slots=True)
class Text:
    """One function body under construction. `prefix` starts every local name it invents.

    `entry` are instructions that come first: memory in the function's frame. `owned` are slots in
    it whose memory is given back where the function ends.
    """

    module: Module
    header: str = ""
    prefix: str = "v"
    lines: list[str] = field(default_factory=list[str])
    entry: list[str] = field(default_factory=list[str])
    owned: list[str] = field(default_factory=list[str])
    count: int = 0
    block: str = "entry"

    @property
    def isa(self) -> Isa:
        """What the target can do."""
        return self.module.isa

    def fresh(self) -> str:
        """A new local name."""
        self.count += 1
        return f"%{self.prefix}{self.count}"

    def label(self) -> str:
        """A new block name."""
        self.count += 1
        return f"{self.prefix}b{self.count}"

    def let(self, expression: str) -> str:
        """Name the value of an instruction."""
        self.count += 1
        name = f"%{self.prefix}{self.count}"
        self.lines.append(f"{name} = {expression}")
        return name

    def do(self, instruction: str) -> None:
        """Append an instruction that has no value."""
        self.lines.append(instruction)

    def fetch(self, place: str) -> None:
        """Ask for a line of memory that is needed soon: into the second cache, not the first."""
        self.do(f"call void @llvm.prefetch.p0(ptr {place}, i32 0, i32 {SECOND_CACHE}, i32 1)")

    def start(self, label: str) -> None:
        """Begin the block `label`; the one before it must have ended."""
        self.lines.append(f"{label}:")
        self.block = label

    def jump(self, label: str) -> None:
        """End this block by going to `label`."""
        self.lines.append(f"br label %{label}")

    def branch(self, condition: str, yes: str, no: str) -> None:
        """End this block by a choice."""
        self.lines.append(f"br i1 {condition}, label %{yes}, label %{no}")

    def integer(self, operation: str, left: str | int, right: str | int) -> str:
        """An instruction on 64-bit integers."""
        return self.let(f"{operation} i64 {left}, {right}")

    @contextmanager
    def loop(
        self,
        low: str | int,
        high: str | int,
        step: str | int = 1,
        carries: Sequence[tuple[str, str]] = (),
        *,
        runs: bool = False,
    ) -> Generator[Loop]:
        """A loop over an i64 counter from `low` while it is below `high`, tested at the bottom.

        `carries` are (type, initial value). Set `following` to their next values before the end;
        after the loop `carries` holds the final ones. A loop that surely `runs` needs no guard.
        """
        before, head, after = self.block, self.label(), self.label()
        counter, following = self.fresh(), self.fresh()
        names = [self.fresh() for _ in carries]
        if runs:
            self.jump(head)
        else:
            self.branch(self.let(f"icmp slt i64 {low}, {high}"), head, after)
        self.start(head)
        place = len(self.lines)
        state = Loop(counter, list(names))
        yield state
        last = self.block
        self.do(f"{following} = add nsw i64 {counter}, {step}")
        self.branch(self.let(f"icmp slt i64 {following}, {high}"), head, after)
        phis = [f"{counter} = phi i64 [{low}, %{before}], [{following}, %{last}]"]
        for name, (kind, initial), value in zip(names, carries, state.following, strict=True):
            phis.append(f"{name} = phi {kind} [{initial}, %{before}], [{value}, %{last}]")
        self.lines[place:place] = phis
        self.start(after)
        state.carries = list(state.following)
        if not runs:
            state.carries = [
                self.let(f"phi {kind} [{initial}, %{before}], [{value}, %{last}]")
                for (kind, initial), value in zip(carries, state.following, strict=True)
            ]

    @contextmanager
    def when(self, condition: str) -> Generator[None]:
        """Instructions that run only if `condition` holds; they give no value."""
        then, after = self.label(), self.label()
        self.branch(condition, then, after)
        self.start(then)
        yield
        self.jump(after)
        self.start(after)

    def finish(self) -> str:
        """The whole function definition."""
        lines = [*self.entry, *self.lines]
        if self.owned:
            lines = [each for line in lines for each in (*self._last_steps(line), line)]
        return f"{self.header} {{\nentry:\n" + "\n".join(lines) + "\n}\n"

    def _last_steps(self, line: str) -> list[str]:
        """What comes before `line` where the function ends with it."""
        steps: list[str] = []
        for slot in self.owned if line.startswith("ret ") else ():
            held = self.fresh()
            steps += [f"{held} = load ptr, ptr {slot}, align 8", f"call void @free(ptr {held})"]
        return steps
