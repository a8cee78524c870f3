"""Pack narrow elements for dot-product instructions: those along k side by side in 32 bits.

Bytes go in fours. Their instruction multiplies unsigned by signed ones. Where both operands have
the same kind, the top bit of B is flipped, which shifts B by 128; the sums of A's rows then correct
the result exactly.

BF16 goes in pairs. Their instruction is two fused steps, the upper half first, so the upper half is
the first element of a pair. Where k is odd, A ends with -0 and B with 0: that step changes nothing,
not even the sign of a zero.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.codegen.index import Index, Num
from tilewright.codegen.packing import LANES, PARAMETERS, lane_mask, load_masked, transpose
from tilewright.codegen.text import Module, Text, type_text, vector_text
from tilewright.dataclass import dataclass

WORDS = type_text("i32", LANES)
FLIP = -0x7F7F7F80  # 0x80808080: the top bit of each byte
HALF = 16
MINUS_ZERO = -0x8000


@dataclass(frozen=True, slots=True)
class Group:
    """`count` elements along k as one of 32 bits; with `upper_first`, the first has the top bits.

    `flip` changes bits of all; `filler` are elements after the last.
    """

    name: str
    element: str
    count: int
    upper_first: bool = False
    flip: int = 0
    filler: int = 0

    @property
    def elements(self) -> int:
        """How many elements a vector has."""
        return LANES * self.count

    def shift(self, position: int) -> int:
        """How far left an element goes."""
        return 32 // self.count * (self.count - 1 - position if self.upper_first else position)


BYTES = Group("bytes", "i8", 4)
FLIPPED = Group("flipped", "i8", 4, flip=FLIP)
PAIRS = Group("pairs", "i16", 2, upper_first=True)
PAIRS_OF_A = Group("pairs.a", "i16", 2, upper_first=True, filler=MINUS_ZERO)


def unsigned_side(a_dtype: str, b_dtype: str) -> str:
    """Which operand the instruction takes as unsigned, after B is flipped where both are alike."""
    return "a" if a_dtype == "UINT8" else "b" if b_dtype == "UINT8" or a_dtype == b_dtype else ""


def correction(a_dtype: str, b_dtype: str) -> int:
    """What to multiply the sum of a row of A with, to undo the flip of B."""
    if a_dtype != b_dtype:
        return 0
    return 128 if a_dtype == "UINT8" else -128


def groups_of(text: Text, count: int) -> Num:
    """How many groups `%depth` elements are."""
    index = Index(text)
    return index.floordiv(index.add("%depth", count - 1), count)


def require_group_rows(module: Module, group: Group, width: int) -> str:
    """@(dst, src, ld, depth, columns): pack a matrix whose rows are contiguous across k."""
    symbol = f"@tilewright.group.rows.{group.name}.{width}"
    module.require(symbol, lambda m: write_group_rows(m, symbol, group, width))
    return symbol


def write_group_rows(module: Module, symbol: str, group: Group, width: int) -> str:
    """The rows of a group at a time; panels of `width` columns."""
    text = Text(module, f"define internal fastcc void {symbol}({PARAMETERS}) #1")
    index = Index(text)
    whole = index.round_down("%columns", width)
    size = index.mul(groups_of(text, group.count), width)
    with text.loop(0, whole, width, [("ptr", "%dst")]) as loop:
        group_panel(text, loop.counter, loop.carries[0], width, [""] * (width // LANES), group)
        loop.following = [index.place(loop.carries[0], size, "i32")]
    rest = index.sub("%columns", whole)
    with text.when(text.let(f"icmp sgt i64 {rest}, 0")):
        masks = [lane_mask(text, index.sub(rest, v)) for v in range(0, width, LANES)]
        group_panel(text, whole, loop.carries[0], width, masks, group)
    text.do("ret void")
    return text.finish()


def group_panel(
    text: Text, column: Num, dst: str, width: int, masks: Sequence[str], group: Group
) -> None:
    """One panel: all groups of rows from `column` on."""
    index = Index(text)
    start = index.place("%src", column, group.element)
    whole = index.round_down("%depth", group.count)
    with text.loop(0, whole, group.count, [("ptr", dst)]) as loop:
        rows = [
            index.place(start, index.mul(index.add(loop.counter, t), "%ld"), group.element)
            for t in range(group.count)
        ]
        group_row(text, rows, loop.carries[0], masks, group)
        loop.following = [index.place(loop.carries[0], width, "i32")]
    rest = index.sub("%depth", whole)
    with text.when(text.let(f"icmp sgt i64 {rest}, 0")):
        last = index.sub("%depth", 1)
        rows = [
            index.place(
                start,
                index.mul(index.minimum(index.add(whole, t), last), "%ld"),
                group.element,
            )
            for t in range(group.count)
        ]
        group_row(text, rows, loop.carries[0], masks, group, rest)


def group_row(
    text: Text,
    rows: Sequence[str],
    dst: str,
    masks: Sequence[str],
    group: Group,
    count: Num | None = None,
) -> None:
    """One group of every column of a panel; with a `count`, of so many rows."""
    index = Index(text)
    for v, mask in enumerate(masks):
        places = [index.place(row, LANES * v, group.element) for row in rows]
        value = interleaved(text, places, mask, group, count)
        store_words(text, index.place(dst, LANES * v, "i32"), value, group)


def interleaved(
    text: Text, places: Sequence[str], mask: str, group: Group, count: Num | None
) -> str:
    """Sixteen elements of each row, those of a column side by side; fillers from `count` on."""
    total, kind = "", type_text(group.element, LANES)
    for t, place in enumerate(places):
        value = load_masked(text, place, group.element, mask)
        if count is not None and t:
            exists = text.let(f"icmp sgt i64 {count}, {t}")
            filler = f"splat ({group.element} {group.filler})"
            value = text.let(f"select i1 {exists}, {kind} {value}, {kind} {filler}")
        wide = text.let(f"zext {kind} {value} to {WORDS}")
        if group.shift(t):
            wide = text.let(f"shl {WORDS} {wide}, splat (i32 {group.shift(t)})")
        total = text.let(f"or {WORDS} {total}, {wide}") if total else wide
    return total


def store_words(text: Text, place: str, value: str, group: Group) -> None:
    """Store sixteen groups, flipped if asked."""
    text.do(f"store {WORDS} {flipped(text, value, group)}, ptr {place}, align 4")


def flipped(text: Text, value: str, group: Group) -> str:
    """Sixteen groups with the bits changed that `group` says."""
    if not group.flip:
        return value
    return text.let(f"xor {WORDS} {value}, splat (i32 {group.flip})")


def require_group_columns(module: Module, group: Group, width: int) -> str:
    """@(dst, src, ld, depth, columns): pack a matrix whose columns (along k) are contiguous."""
    symbol = f"@tilewright.group.columns.{group.name}.{width}"
    module.require(symbol, lambda m: write_group_columns(m, symbol, group, width))
    return symbol


def write_group_columns(module: Module, symbol: str, group: Group, width: int) -> str:
    """Sixteen columns at a time, transposed in groups."""
    text = Text(module, f"define internal fastcc void {symbol}({PARAMETERS}) #1")
    index, step = Index(text), group.elements
    groups = groups_of(text, group.count)
    last = index.sub("%columns", 1)
    with text.loop(0, "%columns", LANES) as loop:
        panel = index.floordiv(loop.counter, width)
        inside = index.sub(loop.counter, index.mul(panel, width))
        offset = index.add(index.mul(index.mul(panel, groups), width), inside)
        dst = index.place("%dst", offset, "i32")
        rows = [
            index.place(
                "%src",
                index.mul(index.minimum(index.add(loop.counter, c), last), "%ld"),
                group.element,
            )
            for c in range(LANES)
        ]
        whole = index.round_down("%depth", step)
        with text.loop(0, whole, step) as inner:
            group_square(text, rows, dst, inner.counter, width, "", group)
        rest = index.sub("%depth", whole)
        with text.when(text.let(f"icmp sgt i64 {rest}, 0")):
            group_square(text, rows, dst, whole, width, element_mask(text, rest, step), group)
    text.do("ret void")
    return text.finish()


def group_square(
    text: Text, rows: Sequence[str], dst: str, k: Num, width: int, mask: str, group: Group
) -> None:
    """Sixteen groups of each of 16 columns, as 16 rows of 16 groups."""
    index = Index(text)
    values = [load_words(text, index.place(row, k, group.element), mask, group) for row in rows]
    first = index.floordiv(k, group.count)
    for position, value in enumerate(transpose(text, values, WORDS)):
        place = index.place(dst, index.mul(index.add(first, position), width), "i32")
        store_words(text, place, value, group)


def element_mask(text: Text, count: Num, lanes: int) -> str:
    """An i1 for each of `lanes` elements: those below `count`."""
    kind = f"<{lanes} x i64>"
    first = text.let(f"insertelement {kind} poison, i64 {count}, i64 0")
    spread = text.let(
        f"shufflevector {kind} {first}, {kind} poison, <{lanes} x i32> zeroinitializer"
    )
    return text.let(f"icmp slt {kind} {vector_text(range(lanes), 'i64')}, {spread}")


def load_words(text: Text, place: str, mask: str, group: Group) -> str:
    """Sixteen groups from consecutive elements; fillers where the mask is off."""
    if mask:
        kind = type_text(group.element, group.elements)
        filler = f"{kind} splat ({group.element} {group.filler})"
        arguments = f"ptr align 1 {place}, <{group.elements} x i1> {mask}, {filler}"
        suffix = f"v{group.elements}{group.element}.p0"
        value = text.let(f"call {kind} @llvm.masked.load.{suffix}({arguments})")
        value = text.let(f"bitcast {kind} {value} to {WORDS}")
    else:
        value = text.let(f"load {WORDS}, ptr {place}, align 1")
    if not group.upper_first:
        return value
    arguments = f"{WORDS} {value}, {WORDS} {value}, {WORDS} splat (i32 {HALF})"
    return text.let(f"call {WORDS} @llvm.fshl.v{LANES}i32({arguments})")


def require_pairs_of_a(module: Module, pitch: int) -> str:
    """@(dst, src, ld, depth, rows): rows of BF16, contiguous along k, `pitch` pairs apart."""
    symbol = f"@tilewright.pairs.a.{pitch}"
    module.require(symbol, lambda m: write_pairs_of_a(m, symbol, pitch))
    return symbol


def write_pairs_of_a(module: Module, symbol: str, pitch: int) -> str:
    """Copy each row, the halves of each pair exchanged."""
    text = Text(module, f"define internal fastcc void {symbol}({PARAMETERS}) #1")
    index, group = Index(text), PAIRS_OF_A

    def copy(src: str, dst: str, k: Num, mask: str) -> None:
        value = load_words(text, index.place(src, k, group.element), mask, group)
        store_words(text, index.place(dst, k, group.element), value, group)

    whole = index.round_down("%depth", group.elements)
    rest = index.sub("%depth", whole)
    mask = element_mask(text, rest, group.elements)
    with text.loop(0, "%columns", 1) as row:
        dst = index.place("%dst", index.mul(row.counter, pitch), "i32")
        src = index.place("%src", index.mul(row.counter, "%ld"), group.element)
        with text.loop(0, whole, group.elements) as loop:
            copy(src, dst, loop.counter, "")
        with text.when(text.let(f"icmp sgt i64 {rest}, 0")):
            copy(src, dst, whole, mask)
    text.do("ret void")
    return text.finish()


def require_byte_a(module: Module, contiguous: str, pitch: int, factor: int, signed: bool) -> str:
    """@(dst, src, ld, depth, rows, bias): rows of A, `pitch` bytes apart, padded with zeros.

    `factor` times the sum of each row goes to `bias`.
    """
    symbol = f"@tilewright.bytes.a.{contiguous}.{pitch}.{factor}.{signed}".replace("-", "m")
    module.require(symbol, lambda m: write_byte_a(m, symbol, contiguous, pitch, factor, signed))
    return symbol


A_PARAMETERS = f"{PARAMETERS}, ptr %bias"


def write_byte_a(
    module: Module, symbol: str, contiguous: str, pitch: int, factor: int, signed: bool
) -> str:
    """Copy and sum each row."""
    text = Text(module, f"define internal fastcc void {symbol}({A_PARAMETERS}) #1")
    index = Index(text)
    with text.loop(0, "%columns", 1) as loop:
        dst = index.place("%dst", index.mul(loop.counter, pitch), "i8")
        if contiguous == "k":
            src = index.place("%src", index.mul(loop.counter, "%ld"), "i8")
            total = copy_row(text, src, dst, signed)
        else:
            total = gather_row(text, index.place("%src", loop.counter, "i8"), dst, signed)
        scaled = text.let(f"mul i32 {total}, {factor}")
        text.do(f"store i32 {scaled}, ptr {index.place('%bias', loop.counter, 'i32')}, align 4")
    text.do("ret void")
    return text.finish()


def copy_row(text: Text, src: str, dst: str, signed: bool) -> str:
    """A contiguous row; gives the sum of its elements."""
    index, step = Index(text), BYTES.elements
    whole = index.round_down("%depth", step)
    with text.loop(0, whole, step, [(WORDS, "zeroinitializer")]) as loop:
        loop.following = [copy_part(text, src, dst, loop.counter, "", loop.carries[0], signed)]
    mask = element_mask(text, index.sub("%depth", whole), step)
    total = copy_part(text, src, dst, whole, mask, loop.carries[0], signed)
    return text.let(f"call i32 @llvm.vector.reduce.add.v{LANES}i32({WORDS} {total})")


def copy_part(text: Text, src: str, dst: str, k: Num, mask: str, total: str, signed: bool) -> str:
    """The elements of a vector; gives the running sums, as products with ones."""
    index = Index(text)
    value = load_words(text, index.place(src, k, "i8"), mask, BYTES)
    text.do(f"store {WORDS} {value}, ptr {index.place(dst, k, 'i8')}, align 1")
    kind = type_text("i8", BYTES.elements)
    factors = text.let(f"bitcast {WORDS} {value} to {kind}"), "splat (i8 1)"
    left, right = reversed(factors) if signed else factors
    arguments = f"{WORDS} {total}, {kind} {left}, {kind} {right}"
    return text.let(f"call {WORDS} @llvm.x86.avx512.vpdpbusd.512({arguments})")


def gather_row(text: Text, src: str, dst: str, signed: bool) -> str:
    """A row whose elements are `ld` apart; gives their sum."""
    index = Index(text)
    text.do(f"store <{LANES} x i8> zeroinitializer, ptr {last_group(text, dst)}, align 1")
    with text.loop(0, "%depth", 1, [("ptr", src), ("i32", "0")]) as loop:
        place, total = loop.carries
        value = text.let(f"load i8, ptr {place}, align 1")
        text.do(f"store i8 {value}, ptr {index.place(dst, loop.counter, 'i8')}, align 1")
        wide = text.let(f"{'sext' if signed else 'zext'} i8 {value} to i32")
        loop.following = [index.place(place, "%ld", "i8"), text.let(f"add i32 {total}, {wide}")]
    return loop.carries[1]


def last_group(text: Text, dst: str) -> str:
    """Where the bytes after the last whole group begin."""
    index = Index(text)
    return index.place(dst, index.round_down("%depth", BYTES.count), "i8")
