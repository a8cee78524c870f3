"""A small structured assembler over LLVM text, for the runtime's own stubs.

Everything is a 64-bit word (`Word`); a comparison is a `Flag`. Variables live in stack slots, which
LLVM's optimiser turns into registers, so that loops and branches read as they would in C:

    with f.loop(count) as i:
        with f.when(f.load(array + i * 8) == 0):
            f.ret(i)
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager

_TYPES = {1: "i8", 2: "i16", 4: "i32", 8: "i64"}


class Flag:
    """A truth value."""

    def __init__(self, function: Function, name: str) -> None:
        self.function = function
        self.name = name

    def __and__(self, other: Flag) -> Flag:
        return Flag(self.function, self.function.emit(f"and i1 {self.name}, {other.name}"))

    def __or__(self, other: Flag) -> Flag:
        return Flag(self.function, self.function.emit(f"or i1 {self.name}, {other.name}"))


class Word:
    """A 64-bit value. Comparisons are signed, `>>` keeps the sign, shift amounts are below 64."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, function: Function, name: str) -> None:
        self.function = function
        self.name = name

    def _binary(self, operation: str, other: Word | int) -> Word:
        return Word(
            self.function, self.function.emit(f"{operation} i64 {self.name}, {text(other)}")
        )

    def _compare(self, condition: str, other: Word | int) -> Flag:
        line = f"icmp {condition} i64 {self.name}, {text(other)}"
        return Flag(self.function, self.function.emit(line))

    def __add__(self, other: Word | int) -> Word:
        return self._binary("add", other)

    def __sub__(self, other: Word | int) -> Word:
        return self._binary("sub", other)

    def __mul__(self, other: Word | int) -> Word:
        return self._binary("mul", other)

    def __and__(self, other: Word | int) -> Word:
        return self._binary("and", other)

    def __or__(self, other: Word | int) -> Word:
        return self._binary("or", other)

    def __lshift__(self, other: Word | int) -> Word:
        return self._binary("shl", other)

    def __rshift__(self, other: Word | int) -> Word:
        return self._binary("ashr", other)

    def __floordiv__(self, other: Word | int) -> Word:
        """Division towards zero; equal to the floor for non-negative values."""
        return self._binary("sdiv", other)

    def __eq__(self, other: object) -> Flag:  # type: ignore[override]
        assert isinstance(other, (Word, int))
        return self._compare("eq", other)

    def __ne__(self, other: object) -> Flag:  # type: ignore[override]
        assert isinstance(other, (Word, int))
        return self._compare("ne", other)

    def __lt__(self, other: Word | int) -> Flag:
        return self._compare("slt", other)

    def __le__(self, other: Word | int) -> Flag:
        return self._compare("sle", other)

    def __gt__(self, other: Word | int) -> Flag:
        return self._compare("sgt", other)

    def __ge__(self, other: Word | int) -> Flag:
        return self._compare("sge", other)

    def below(self, other: Word | int) -> Flag:
        """Unsigned less-than."""
        return self._compare("ult", other)


class Variable:
    """A word that can be assigned."""

    def __init__(self, function: Function, slot: str) -> None:
        self.function = function
        self.slot = slot

    def get(self) -> Word:
        """The value now."""
        return Word(self.function, self.function.emit(f"load i64, ptr {self.slot}"))

    def set(self, value: Word | int) -> None:
        """Assign."""
        self.function.line(f"store i64 {text(value)}, ptr {self.slot}")


class Label:
    """A place in the code to jump to."""

    def __init__(self, name: str) -> None:
        self.name = name


def text(value: Word | int) -> str:
    """An operand."""
    return value.name if isinstance(value, Word) else str(value)


class Module:
    """Functions, and the outside functions and words they use."""

    def __init__(self) -> None:
        self._declared: dict[str, str] = {}
        self._functions: list[Function] = []

    def function(
        self, name: str, parameters: int, *, result: str = "i64", exported: bool = True
    ) -> Function:
        """Start a function of `parameters` words; `result` is i64, i32 or void."""
        made = Function(self, name, parameters, result, exported)
        self._functions.append(made)
        return made

    def find(self, name: str) -> Function:
        """A function of this module that has been started."""
        return next(f for f in self._functions if f.name == name)

    def declare(self, name: str, line: str) -> None:
        """Remember an outside symbol."""
        self._declared[name] = line

    def text(self) -> str:
        """The module as LLVM text."""
        return "\n".join([*self._declared.values(), *(f.text() for f in self._functions), ""])


class Function:
    """One function while it is written."""

    def __init__(
        self, module: Module, name: str, parameters: int, result: str, exported: bool
    ) -> None:
        self.module = module
        self.linkage = "" if exported else "internal "
        self.name = name
        self.result = result
        self.parameters = [Word(self, f"%p{i}") for i in range(parameters)]
        self._slots: list[str] = []
        self._lines: list[str] = []
        self._count = 0
        self._open = True

    # -- writing lines

    def line(self, line: str) -> None:
        """One instruction without a result; dropped when it cannot be reached."""
        if self._open:
            self._lines.append(f"  {line}")

    def emit(self, line: str) -> str:
        """One instruction with a result; gives its name."""
        name = self._fresh("v")
        self.line(f"{name} = {line}")
        return name

    def _fresh(self, stem: str) -> str:
        self._count += 1
        return f"%{stem}{self._count}"

    def text(self) -> str:
        """The function as LLVM text."""
        parameters = ", ".join(f"i64 {p.name}" for p in self.parameters)
        head = f"define {self.linkage}{self.result} @{self.name}({parameters}) nounwind {{"
        return "\n".join([head, "entry:", *self._slots, *self._lines, "}"])

    # -- memory

    def variable(self, value: Word | int = 0) -> Variable:
        """A new variable."""
        slot = self._fresh("s")
        self._slots.append(f"  {slot} = alloca i64")
        made = Variable(self, slot)
        made.set(value)
        return made

    def array(self, words: int) -> Word:
        """The address of `words` uninitialised words on the stack."""
        slot, name = self._fresh("s"), self._fresh("a")
        self._slots.append(f"  {slot} = alloca [{words} x i64], align 16")
        self._slots.append(f"  {name} = ptrtoint ptr {slot} to i64")
        return Word(self, name)

    def load(self, address: Word, offset: int = 0, size: int = 8) -> Word:
        """The sign-extended value of `size` bytes."""
        pointer = self._pointer(address, offset)
        name = self.emit(f"load {_TYPES[size]}, ptr {pointer}, align {size}")
        if size < 8:
            name = self.emit(f"sext {_TYPES[size]} {name} to i64")
        return Word(self, name)

    def store(self, address: Word, value: Word | int, offset: int = 0, size: int = 8) -> None:
        """Store the low `size` bytes of a value."""
        pointer, kind, name = self._pointer(address, offset), _TYPES[size], text(value)
        if size < 8 and isinstance(value, Word):
            name = self.emit(f"trunc i64 {name} to {kind}")
        self.line(f"store {kind} {name}, ptr {pointer}, align {size}")

    # -- memory shared with other threads

    def atomic_load(self, address: Word, offset: int = 0, size: int = 8) -> Word:
        """Load; what the storing thread wrote before is visible after."""
        pointer = self._pointer(address, offset)
        name = self.emit(f"load atomic {_TYPES[size]}, ptr {pointer} acquire, align {size}")
        return Word(self, name) if size == 8 else Word(self, self.emit(f"sext i32 {name} to i64"))

    def atomic_store(self, address: Word, value: Word | int, offset: int = 0) -> None:
        """Store a whole word; what this thread wrote before is visible to who loads it."""
        pointer = self._pointer(address, offset)
        self.line(f"store atomic i64 {text(value)}, ptr {pointer} release, align 8")

    def atomic_add(self, address: Word, value: Word | int, offset: int = 0) -> Word:
        """Add to a word; what it was before."""
        return self._update("add", address, value, offset)

    def atomic_swap(self, address: Word, value: Word | int, offset: int = 0) -> Word:
        """Replace a word, in one total order with every other swap and add; what it was before."""
        return self._update("xchg", address, value, offset)

    def _update(self, kind: str, address: Word, value: Word | int, offset: int) -> Word:
        pointer = self._pointer(address, offset)
        line = f"atomicrmw {kind} ptr {pointer}, i64 {text(value)} seq_cst"
        return Word(self, self.emit(line))

    def compare_swap(
        self, address: Word, old: Word | int, new: Word | int, offset: int = 0
    ) -> Flag:
        """Replace a word if it is `old`; whether it was."""
        pointer = self._pointer(address, offset)
        line = f"cmpxchg ptr {pointer}, i64 {text(old)}, i64 {text(new)} seq_cst seq_cst"
        return Flag(self, self.emit(f"extractvalue {{i64, i1}} {self.emit(line)}, 1"))

    def pause(self) -> None:
        """Tell the processor that this is a waiting loop."""
        self.call("llvm.x86.sse2.pause", result="void")

    # -- addresses

    def _pointer(self, address: Word, offset: int) -> str:
        place = address + offset if offset else address
        return self.emit(f"inttoptr i64 {place.name} to ptr")

    def outside(self, name: str) -> Word:
        """The address of an outside word or array."""
        self.module.declare(name, f"@{name} = external global i64")
        return Word(self, self.emit(f"ptrtoint ptr @{name} to i64"))

    def address_of(self, function: Function) -> Word:
        """The address of another function of the module."""
        return Word(self, self.emit(f"ptrtoint ptr @{function.name} to i64"))

    def constant(self, value: int) -> Word:
        """A literal as a word."""
        return Word(self, str(value))

    # -- calls

    def call(self, name: str, *arguments: Word | int, result: str = "i64") -> Word:
        """Call an outside function; 32-bit results are sign-extended, void ones are 0."""
        kinds = ", ".join(["i64"] * len(arguments))
        self.module.declare(name, f"declare {result} @{name}({kinds})")
        return self._call(f"@{name}", arguments, result)

    def call_pointer(self, address: Word, *arguments: Word | int, result: str = "i64") -> Word:
        """Call the function at an address."""
        return self._call(self._pointer(address, 0), arguments, result)

    def call_function(self, function: Function, *arguments: Word | int) -> Word:
        """Call another function of the module."""
        return self._call(f"@{function.name}", arguments, function.result)

    def _call(self, callee: str, arguments: Sequence[Word | int], result: str) -> Word:
        operands = ", ".join(f"i64 {text(a)}" for a in arguments)
        line = f"call {result} {callee}({operands})"
        if result == "void":
            self.line(line)
            return Word(self, "0")
        name = self.emit(line)
        if result != "i64":
            name = self.emit(f"sext {result} {name} to i64")
        return Word(self, name)

    # -- control

    def label(self, stem: str = "label") -> Label:
        """A place to be put later with `place`."""
        return Label(self._fresh(stem)[1:])

    def place(self, label: Label) -> None:
        """Code from here on is at `label`; falls through from what was before."""
        self.jump(label)
        self._lines.append(f"{label.name}:")
        self._open = True

    def jump(self, label: Label) -> None:
        """Go to a label."""
        self.line(f"br label %{label.name}")
        self._open = False

    def branch(self, condition: Flag, then: Label, otherwise: Label) -> None:
        """Go to one of two labels."""
        self.line(f"br i1 {condition.name}, label %{then.name}, label %{otherwise.name}")
        self._open = False

    def require(self, condition: Flag, otherwise: Label) -> None:
        """Continue here if the condition holds, else at `otherwise`."""
        going = self.label("ok")
        self.branch(condition, going, otherwise)
        self.place(going)

    def ret(self, value: Word | int = 0) -> None:
        """Return."""
        if self.result == "void":
            self.line("ret void")
        elif self.result == "i64" or isinstance(value, int):
            self.line(f"ret {self.result} {text(value)}")
        else:
            name = self.emit(f"trunc i64 {value.name} to {self.result}")
            self.line(f"ret {self.result} {name}")
        self._open = False

    @contextmanager
    def when(self, condition: Flag) -> Generator[None, None, None]:
        """Code that runs if the condition holds."""
        inside, after = self.label("then"), self.label("after")
        self.branch(condition, inside, after)
        self.place(inside)
        yield
        self.place(after)

    @contextmanager
    def loop(self, count: Word | int) -> Generator[Word, None, None]:
        """Code that runs for 0, 1, ... below `count`."""
        index = self.variable(0)
        test, inside, after = self.label("test"), self.label("each"), self.label("after")
        self.place(test)
        current = index.get()
        self.branch(current < count, inside, after)
        self.place(inside)
        yield current
        index.set(current + 1)
        self.jump(test)
        self.place(after)

    @contextmanager
    def forever(self) -> Generator[Label, None, None]:
        """Code that repeats; jump to the label given to leave."""
        start, after = self.label("again"), self.label("after")
        self.place(start)
        yield after
        self.jump(start)
        self.place(after)
