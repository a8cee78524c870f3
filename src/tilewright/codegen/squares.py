"""Copies of matrices with their axes exchanged, by squares of 16 x 16."""

from __future__ import annotations

from tilewright.codegen.emitter import Emitter
from tilewright.codegen.formats import MEMORY_ELEMENT
from tilewright.codegen.index import Index, Num
from tilewright.codegen.packing import SUFFIX, lane_mask, transpose
from tilewright.codegen.text import ELEMENT_BYTES, NONTEMPORAL, Module, Text, type_text
from tilewright.dataclass import dataclass

SQUARE = 16
LINE_BYTES = 64
PARAMETERS = "ptr %dst, ptr %src, i64 %ldd, i64 %lds, i64 %rows, i64 %columns"


@dataclass(frozen=True, slots=True)
class Squares:
    """Calls that copy some columns of all rows of an exchange."""

    e: Emitter
    element: str
    dst: str
    src: str
    pitch: Num
    far: Num
    rows: Num

    def columns(self, first: Num, count: Num, *, past_caches: bool = False) -> None:
        """The columns from `first` on."""
        if count == 0:
            return
        index, symbol = self.e.index, require_transpose(self.e.module, self.element, past_caches)
        dst = index.place(self.dst, first, self.element)
        src = index.place(self.src, index.mul(first, self.far), self.element)
        self.e.text.do(
            f"call fastcc void {symbol}(ptr {dst}, ptr {src}, i64 {self.pitch}, i64 {self.far}, "
            f"i64 {self.rows}, i64 {count})"
        )

    def write(self, count: Num, mask: Num) -> None:
        """All columns; past the caches those of whole squares, if rows are lines that are large.

        `mask` has the bits of an address that must be zero for that.
        """
        index, text, size = self.e.index, self.e.text, ELEMENT_BYTES[self.element]
        if mask == -1 or SQUARE * size < LINE_BYTES:
            self.columns(0, count)
            return
        place = text.let(f"ptrtoint ptr {self.dst} to i64")
        place = text.let(f"or i64 {place}, {index.mul(self.pitch, size)}")
        is_line = text.let(f"icmp eq i64 {text.let(f'and i64 {place}, {mask}')}, 0")
        whole = index.round_down(count, SQUARE)
        whole = text.let(f"select i1 {is_line}, i64 {whole}, i64 0")
        self.columns(0, whole, past_caches=True)
        self.columns(whole, index.sub(count, whole))


def square_element(dtype: str) -> str:
    """The integer element with the size of `dtype`."""
    return f"i{8 * ELEMENT_BYTES[MEMORY_ELEMENT[dtype]]}"


def require_transpose(module: Module, element: str, past_caches: bool) -> str:
    """@(dst, src, ldd, lds, rows, columns): dst[r*ldd + c] = src[c*lds + r].

    Past the caches if that is asked for: whole squares, of which each row is lines of memory.
    """
    symbol = f"@tilewright.transpose.{element}{'.past' if past_caches else ''}"
    module.require(symbol, lambda m: write_transpose(m, symbol, element, past_caches))
    return symbol


def write_transpose(module: Module, symbol: str, element: str, past_caches: bool) -> str:
    """Whole squares, and masked ones at the edges."""
    text = Text(module, f"define internal fastcc void {symbol}({PARAMETERS}) #1")
    how = f"{SQUARE * ELEMENT_BYTES[element]}, {NONTEMPORAL}" if past_caches else ""
    index = Index(text)
    with text.loop(0, "%rows", SQUARE) as rows, text.loop(0, "%columns", SQUARE) as columns:
        r, c = rows.counter, columns.counter
        down, across = index.sub("%rows", r), index.sub("%columns", c)
        least = index.minimum(down, across)
        whole, edge, after = text.label(), text.label(), text.label()
        text.branch(text.let(f"icmp sge i64 {least}, {SQUARE}"), whole, edge)
        text.start(whole)
        write_square(text, element, r, c, None, how)
        text.jump(after)
        text.start(edge)
        write_square(text, element, r, c, (down, across))
        text.jump(after)
        text.start(after)
    text.do("ret void")
    return text.finish()


def write_square(
    text: Text, element: str, r: Num, c: Num, left: tuple[Num, Num] | None, how: str = ""
) -> None:
    """One square; `left` is how many rows and columns of it exist, if not all.

    `how` says how rows are aligned where they are whole, and stored.
    """
    index, kind = Index(text), type_text(element, SQUARE)
    size = ELEMENT_BYTES[element]
    suffix = f"v{SQUARE}{SUFFIX[element]}.p0"
    in_rows = lane_mask(text, left[0]) if left else ""
    in_columns = lane_mask(text, left[1]) if left else ""
    values: list[str] = []
    for k in range(SQUARE):
        column = index.add(c, k)
        if left:
            column = index.minimum(column, index.sub("%columns", 1))
        place = index.place("%src", index.add(index.mul(column, "%lds"), r), element)
        if left:
            arguments = f"ptr align {size} {place}, <16 x i1> {in_rows}, {kind} zeroinitializer"
            values.append(text.let(f"call {kind} @llvm.masked.load.{suffix}({arguments})"))
        else:
            values.append(text.let(f"load {kind}, ptr {place}, align {size}"))
    for k, value in enumerate(transpose(text, values, kind)):
        place = index.place("%dst", index.add(index.mul(index.add(r, k), "%ldd"), c), element)
        if not left:
            text.do(f"store {kind} {value}, ptr {place}, align {how or size}")
            continue
        exists = text.let(f"icmp sgt i64 {left[0]}, {k}")
        mask = text.let(f"select i1 {exists}, <16 x i1> {in_columns}, <16 x i1> zeroinitializer")
        arguments = f"{kind} {value}, ptr align {size} {place}, <16 x i1> {mask}"
        text.do(f"call void @llvm.masked.store.{suffix}({arguments})")
