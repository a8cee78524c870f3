"""The register block of a matmul: rows x (16*vectors) accumulators, one chain over k each.

Every element of C is one chain `acc = fma(a[i, k], b[k, j], acc)` in increasing k, started from C
or from zero. How the caller blocks m, n and k therefore never changes a bit. Integers multiply and
add, wrapping.
"""

from collections.abc import Iterator, Sequence
from typing import Protocol

from tilewright.codegen.group_packing import WORDS, Group, flipped, interleaved, load_words
from tilewright.codegen.index import Index, Num
from tilewright.codegen.lanes import Lanes, fma
from tilewright.codegen.next_rows import PARAMETERS as NEXT
from tilewright.codegen.next_rows import NextRows, fetch_results
from tilewright.codegen.packing import LANES, Source, load_masked, transpose, widened
from tilewright.codegen.text import (
    ELEMENT_BYTES,
    NAMELESS,
    Module,
    Text,
    type_text,
    vector_text,
)
from tilewright.dataclass import dataclass

PARAMETERS = (
    "ptr %c, i64 %ldc, ptr %a, i64 %ai, i64 %ak, ptr %b, i64 %bk, i64 %k, i1 %start, i64 %tail, "
    "ptr %bias"
)
FINISH = ", i1 %last, ptr %env, ptr %ctx, i64 %row, i64 %column"

# How many of the last vector's columns exist: all, a run-time number, or a known one.
FULL, RUNTIME = 0, -1
HALF = LANES // 2
LINE, WORD_BITS = 64, 32


@dataclass(frozen=True, slots=True)
class Block:
    """A micro-kernel. `ai`, `ak`, `bk` are element strides known now, or None for run time.

    At least one of `ai` and `ak` is 1. `tail` is FULL, RUNTIME or the columns of the last vector.
    Without `rest`, k is always a multiple of `unroll`. With `dot`, an element of A or B is several
    along k and a step multiplies and adds all of them: "pairs" of BF16, or four bytes, where "a" or
    "b" is the operand whose bytes are unsigned and every row starts with its number in `%bias`
    added. A block that `ends` always ends the chains. With `ahead`, it asks for what is so many
    bytes after each line of B that it reads. With a `source`, B is as it is in memory, and `group`
    says how its elements are put side by side. If it is `turned`, its unit stride is along k and
    `bk` leads from column to column; k is a multiple of `unroll`, the steps of a line. With
    `next_rows`, it asks for those of A, and takes `NEXT`, too.
    """

    rows: int
    vectors: int
    element: str
    ai: int | None
    ak: int | None
    bk: int | None
    tail: int = FULL
    unroll: int = 4
    rest: bool = True
    dot: str = ""
    ends: bool = False
    ahead: int = 0
    turned: bool = False
    source: Source | None = None
    group: Group | None = None
    next_rows: NextRows | None = None

    @property
    def b_element(self) -> str:
        """The LLVM element of B."""
        return self.source.element if self.source else self.element

    @property
    def b_count(self) -> int:
        """The elements of B that a step takes of each column."""
        return self.group.count if self.group else 1

    @property
    def symbol(self) -> str:
        """The name of the function."""
        strides = ".".join("x" if s is None else str(s) for s in (self.ai, self.ak, self.bk))
        tail = "r" if self.tail == RUNTIME else str(self.tail)
        loop = (
            f"{self.unroll}{'r' * self.rest}{'s' * (self.ahead > 0)}{'t' * self.turned}{self.dot}"
            f"{self.source.name if self.source else ''}{self.group.name if self.group else ''}"
            f"{self.next_rows.name if self.next_rows else ''}"
        )
        return (
            f"@tilewright.block.{self.element}.{self.rows}x{self.vectors}.{strides}.{tail}.{loop}"
        )


class Finish(Protocol):
    """What is made of accumulators, in their registers, when their chains are complete.

    A micro-kernel that has one takes `FINISH`, too: whether the chains end with this call, and
    which row and column of the whole the first ones are. Its accumulators are stored where the
    chains go on, or somebody else reads C: `keeps`. `symbols` are functions made for it.
    """

    keeps: bool
    symbols: dict[object, str]

    def write(self, text: Text, rows: Sequence[Sequence[str]], kind: str, mask: str) -> None:
        """Writes the code for `rows` of accumulators of one kind; `mask` is the last vector's."""
        ...


def require_block(module: Module, block: Block, finish: Finish | None = None) -> str:
    """The symbol of a micro-kernel, defined in `module`."""
    if finish is None:
        module.require(block.symbol, lambda m: BlockWriter(m, block).write().finish())
        return block.symbol
    if block not in finish.symbols:
        text = BlockWriter(module, block, finish).write()
        finish.symbols[block] = module.share(text, "finished.block")
    return finish.symbols[block]


class BlockWriter:
    """Writes one micro-kernel."""

    def __init__(self, module: Module, block: Block, finish: Finish | None = None) -> None:
        self.block, self.finish = block, finish
        parameters = PARAMETERS + NEXT * (block.next_rows is not None)
        symbol = block.symbol
        if finish is not None:
            parameters, symbol = parameters + FINISH, NAMELESS
        self.text = Text(module, f"define internal fastcc void {symbol}({parameters}) #1")
        self.index = Index(self.text)
        self.kind = f"<{LANES} x {block.element}>"
        is_whole = block.dot or block.source or finish is not None
        is_narrow = 0 < block.tail <= HALF and not is_whole
        self.narrow = block.vectors - 1 if is_narrow else None
        self.cells = [(r, v) for r in range(block.rows) for v in range(block.vectors)]

    def write(self) -> Text:
        """The definition."""
        text = self.text
        self.mask = self.tail_mask()
        self.row_bases = self.run_time_rows()
        self.column_offsets = self.turned_columns() if self.block.turned else []
        self.places = [self.c_place(r, v) for r, v in self.cells]
        if self.block.next_rows:
            fetch_results(text, self.places)
        accumulators = self.starting_values()
        unroll = self.block.unroll
        whole = text.let(f"and i64 %k, {-unroll}")
        kinds = [self.kind_of(v) for _, v in self.cells]
        state = [("ptr", "%a"), ("ptr", "%b"), *zip(kinds, accumulators, strict=True)]
        state = self.reduce(state, "0", whole, unroll)
        if self.block.rest:
            state = self.reduce(state, whole, "%k", 1)
        accumulators = [value for _, value in state[2:]]
        if self.finish is None:
            self.store_all(accumulators)
        else:
            self.finish_all(self.finish, accumulators)
        text.do("ret void")
        return text

    def store_all(self, accumulators: list[str]) -> None:
        """Store the accumulators in C."""
        for (_, v), place, value in zip(self.cells, self.places, accumulators, strict=True):
            self.store(place, v, value)

    def finish_all(self, finish: Finish, accumulators: list[str]) -> None:
        """What comes after the product, where it is complete; else store them."""
        text, wide = self.text, self.block.vectors
        rows = [accumulators[at : at + wide] for at in range(0, len(accumulators), wide)]
        if finish.keeps:
            self.store_all(accumulators)
        elif not self.block.ends:
            with text.when(text.let("xor i1 %last, true")):
                self.store_all(accumulators)
        with text.when("true" if self.block.ends else "%last"):
            finish.write(text, rows, self.kind, self.mask)

    def lanes(self, vector: int) -> int:
        """How many lanes a vector has: half, where that is enough for the last columns."""
        return HALF if vector == self.narrow else LANES

    def kind_of(self, vector: int) -> str:
        """The type of a vector of C."""
        return f"<{self.lanes(vector)} x {self.block.element}>"

    def tail_mask(self) -> str:
        """Which lanes of the last vector exist; "" if all do."""
        tail = self.block.tail
        if tail == FULL:
            return ""
        if tail != RUNTIME:
            lanes = self.lanes(self.block.vectors - 1)
            return vector_text([lane < tail for lane in range(lanes)], "i1")
        text = self.text
        first = text.let(f"insertelement <{LANES} x i64> poison, i64 %tail, i64 0")
        spread = text.let(
            f"shufflevector <{LANES} x i64> {first}, <{LANES} x i64> poison, "
            f"<{LANES} x i32> zeroinitializer"
        )
        numbers = vector_text(range(LANES), "i64")
        return text.let(f"icmp slt <{LANES} x i64> {numbers}, {spread}")

    def run_time_rows(self) -> list[str]:
        """Pointers to the rows of A, if their distance is known at run time only."""
        if self.block.ai is not None:
            return []
        rows = ["%a"]
        for _ in range(1, self.block.rows):
            rows.append(self.advance(rows[-1], "%ai"))
        return rows

    def advance(self, pointer: str, count: str | int) -> str:
        """A pointer `count` elements further."""
        return self.text.let(f"getelementptr {self.block.element}, ptr {pointer}, i64 {count}")

    def advance_b(self, pointer: str, count: Num) -> str:
        """A pointer `count` elements of B further."""
        return self.index.place(pointer, count, self.block.b_element)

    def c_place(self, row: int, vector: int) -> str:
        """Where one vector of C is."""
        if vector:
            return self.advance(self.c_rows[row], LANES * vector)
        if row == 0:
            self.c_rows = ["%c"]
        else:
            self.c_rows.append(self.advance(self.c_rows[-1], "%ldc"))
        return self.c_rows[row]

    def is_masked(self, vector: int) -> bool:
        """Whether some lanes of this vector do not exist."""
        return bool(self.mask) and vector == self.block.vectors - 1

    def load(self, place: str, vector: int) -> str:
        """One vector; lanes that do not exist read as zero."""
        kind, lanes = self.kind_of(vector), self.lanes(vector)
        if not self.is_masked(vector):
            return self.text.let(f"load {kind}, ptr {place}, align 1")
        arguments = f"ptr align 1 {place}, <{lanes} x i1> {self.mask}, {kind} zeroinitializer"
        suffix = {"float": "f32", "i32": "i32"}[self.block.element]
        return self.text.let(f"call {kind} @llvm.masked.load.v{lanes}{suffix}.p0({arguments})")

    def store(self, place: str, vector: int, value: str) -> None:
        """Store the lanes that exist."""
        kind, lanes = self.kind_of(vector), self.lanes(vector)
        if not self.is_masked(vector):
            self.text.do(f"store {kind} {value}, ptr {place}, align 1")
            return
        suffix = {"float": "f32", "i32": "i32"}[self.block.element]
        arguments = f"{kind} {value}, ptr align 1 {place}, <{lanes} x i1> {self.mask}"
        self.text.do(f"call void @llvm.masked.store.v{lanes}{suffix}.p0({arguments})")

    def starting_values(self) -> list[str]:
        """C or zeros, as `start` says."""
        text = self.text
        before, read, ready = text.block, text.label(), text.label()
        text.branch("%start", read, ready)
        text.start(read)
        loaded = [self.load(p, v) for (_, v), p in zip(self.cells, self.places, strict=True)]
        text.jump(ready)
        text.start(ready)
        values = [
            text.let(f"phi {self.kind_of(v)} [zeroinitializer, %{before}], [{value}, %{read}]")
            for (_, v), value in zip(self.cells, loaded, strict=True)
        ]
        return self.biased(values) if self.block.dot in ("a", "b") else values

    def biased(self, values: list[str]) -> list[str]:
        """The starting values with the number of each row added."""
        rows = [
            self.spread(self.text.let(f"getelementptr i32, ptr %bias, i64 {r}"), LANES)
            for r in range(self.block.rows)
        ]
        return [
            self.text.let(f"add {self.kind_of(v)} {value}, {rows[r]}")
            for (r, v), value in zip(self.cells, values, strict=True)
        ]

    def reduce(
        self, state: Sequence[tuple[str, str]], low: str, high: str, step: int
    ) -> list[tuple[str, str]]:
        """The loop over k from `low` to `high`, `step` links of every chain at a time."""
        with self.text.loop(low, high, step, state) as loop:
            a, b, *accumulators = loop.carries
            if self.block.next_rows and step == self.block.unroll:
                self.block.next_rows.fetch(self.text, loop.counter)
            if self.block.turned:
                accumulators = self.turned_links(a, b, loop.counter, accumulators)
            else:
                for u in range(step):
                    accumulators = self.link(a, b, loop.counter, u, accumulators)
            following_a = a if self.block.ak == 1 else self.advance(a, self.times("%ak", step))
            count = step * self.block.b_count
            along_k = count if self.block.turned else self.times("%bk", count)
            following_b = self.advance_b(b, along_k)
            loop.following = [following_a, following_b, *accumulators]
        return [(kind, value) for (kind, _), value in zip(state, loop.carries, strict=True)]

    def times(self, stride: str, count: int) -> str | int:
        """`count` strides of A or B along k."""
        known = self.block.ak if stride == "%ak" else self.block.bk
        if known is not None:
            return known * count
        return stride if count == 1 else self.text.integer("mul", stride, count)

    def link(self, a: str, b: str, counter: str, u: int, accumulators: list[str]) -> list[str]:
        """One fused step of every chain."""
        count = self.block.b_count
        b_rows = [
            self.advance_b(b, self.times("%bk", u * count + t)) if u + t else b
            for t in range(count)
        ]
        columns = self.b_vectors(b_rows)
        places = [self.a_place(a, counter, r, u) for r in range(self.block.rows)]
        widths = {self.lanes(v) for v in range(self.block.vectors)}
        rows = {(r, n): self.spread(place, n) for r, place in enumerate(places) for n in widths}
        return [
            self.multiply_add(rows[r, self.lanes(v)], columns[v], accumulator, self.lanes(v))
            for (r, v), accumulator in zip(self.cells, accumulators, strict=True)
        ]

    def b_vectors(self, rows: Sequence[str]) -> list[str]:
        """The vectors of B for one step, from where they begin in each of its rows."""
        lines = [
            [self.advance_b(row, LANES * v) for row in rows] for v in range(self.block.vectors)
        ]
        fresh = LINE // (LANES * ELEMENT_BYTES[self.block.b_element])
        self.fetch_ahead([place for line in lines[::fresh] for place in line])
        return [self.b_vector(places, v) for v, places in enumerate(lines)]

    def b_vector(self, places: Sequence[str], vector: int) -> str:
        """One vector of B as it is multiplied."""
        text, group, source = self.text, self.block.group, self.block.source
        if source is None:
            return self.load(places[0], vector)
        mask = self.mask if self.is_masked(vector) else ""
        if group:
            return flipped(text, interleaved(text, places, mask, group, None), group)
        value = load_masked(text, places[0], self.block.b_element, mask)
        return widened(text, value, source, LANES)

    def fetch_ahead(self, places: Sequence[str]) -> None:
        """Ask for what comes after the lines of B at `places`."""
        if self.block.ahead:
            for place in places:
                distance = self.block.ahead // ELEMENT_BYTES[self.block.b_element]
                self.text.fetch(self.advance_b(place, distance))

    def turned_columns(self) -> list[Num]:
        """How far each column of B is; columns that do not exist are where the last one is."""
        block, index = self.block, self.index
        last: Num = LANES - 1
        if block.tail != FULL:
            last = index.sub("%tail" if block.tail == RUNTIME else block.tail, 1)
        distance: Num = "%bk" if block.bk is None else block.bk
        lanes = range(LANES * (block.vectors - 1))
        columns = [*lanes, *(index.add(len(lanes), index.minimum(n, last)) for n in range(LANES))]
        return [index.mul(column, distance) for column in columns]

    def turned_links(self, a: str, b: str, counter: str, accumulators: list[str]) -> list[str]:
        """`unroll` fused steps of every chain; columns of B become rows in registers."""
        state = dict(zip(self.cells, accumulators, strict=True))
        for v in range(self.block.vectors):
            offsets = self.column_offsets[LANES * v : LANES * (v + 1)]
            places = [self.advance_b(b, offset) for offset in offsets]
            self.fetch_ahead(places)
            for u, column in enumerate(self.turned_rows(places)):
                for r in range(self.block.rows):
                    row = self.spread(self.a_place(a, counter, r, u), LANES)
                    state[r, v] = self.multiply_add(row, column, state[r, v], LANES)
        return [state[cell] for cell in self.cells]

    def turned_rows(self, places: Sequence[str]) -> Iterator[str]:
        """The rows that a line of each of 16 columns has, as they are multiplied."""
        text, group, element = self.text, self.block.group, self.block.b_element
        if group:
            words = [load_words(text, place, "", group) for place in places]
            yield from (flipped(text, row, group) for row in transpose(text, words, WORDS))
            return
        bits = 8 * ELEMENT_BYTES[element]
        kind = self.kind if bits == WORD_BITS else WORDS
        words = [text.let(f"load {kind}, ptr {place}, align 1") for place in places]
        for row in transpose(text, words, kind):
            for shift in range(0, WORD_BITS, bits):
                yield self.part(row, shift) if bits < WORD_BITS else row

    def part(self, words: str, shift: int) -> str:
        """The elements of B from a bit of each word on, as they are multiplied."""
        kind = WORDS
        if shift:
            words = self.text.let(f"lshr {kind} {words}, splat (i32 {shift})")
        narrow = type_text(self.block.b_element, LANES)
        value = self.text.let(f"trunc {kind} {words} to {narrow}")
        assert self.block.source is not None
        return widened(self.text, value, self.block.source, LANES)

    def a_place(self, a: str, counter: str, row: int, u: int) -> str:
        """Where a[row, k + u] is."""
        block = self.block
        if block.ai is None:
            place = self.advance(self.row_bases[row], counter)
            return self.advance(place, u) if u else place
        place = self.advance(a, counter) if block.ak == 1 else a
        if block.ak is None:
            place = self.advance(place, self.times("%ak", u)) if u else place
            return self.advance(place, row * block.ai) if row else place
        return self.advance(place, row * block.ai + u * block.ak)

    def spread(self, place: str, lanes: int) -> str:
        """One element of A in every lane."""
        text, element = self.text, "i32" if self.block.dot else self.block.element
        kind = f"<{lanes} x {element}>"
        scalar = text.let(f"load {element}, ptr {place}, align 1")
        first = text.let(f"insertelement {kind} poison, {element} {scalar}, i64 0")
        return text.let(
            f"shufflevector {kind} {first}, {kind} poison, <{lanes} x i32> zeroinitializer"
        )

    def multiply_add(self, row: str, column: str, accumulator: str, lanes: int) -> str:
        """The next value of one chain."""
        if self.block.dot == "pairs":
            return self.pair_dot(row, column, accumulator)
        if self.block.dot:
            return self.byte_dot(row, column, accumulator)
        x, y, z = (
            Lanes(self.text, v, self.block.element, lanes) for v in (row, column, accumulator)
        )
        return (fma(x, y, z) if x.is_float else x * y + z).ref

    def pair_dot(self, row: str, column: str, accumulator: str) -> str:
        """The fused steps of two products, the one of the upper halves first."""
        text, pairs_kind = self.text, f"<{2 * LANES} x bfloat>"
        left = text.let(f"bitcast <{LANES} x i32> {row} to {pairs_kind}")
        kind = WORDS if self.block.group else self.kind
        right = text.let(f"bitcast {kind} {column} to {pairs_kind}")
        arguments = f"{self.kind} {accumulator}, {pairs_kind} {left}, {pairs_kind} {right}"
        return text.let(f"call {self.kind} @llvm.x86.avx512bf16.dpbf16ps.512({arguments})")

    def byte_dot(self, row: str, column: str, accumulator: str) -> str:
        """Four products of unsigned and signed bytes, added to each lane."""
        text, bytes_kind = self.text, f"<{4 * LANES} x i8>"
        left, right = (
            text.let(f"bitcast {self.kind} {value} to {bytes_kind}") for value in (row, column)
        )
        if self.block.dot == "b":
            left, right = right, left
        arguments = f"{self.kind} {accumulator}, {bytes_kind} {left}, {bytes_kind} {right}"
        return text.let(f"call {self.kind} @llvm.x86.avx512.vpdpbusd.512({arguments})")
