"""Pack bytes for dot-product instructions: four elements along k side by side in 32 bits.

The instruction multiplies unsigned by signed bytes. Where both operands have the same kind, the top
bit of B is flipped, which shifts B by 128; the sums of A's rows then correct the result exactly.
"""

from __future__ import annotations

from tilewright.codegen.index import Index, Num
from tilewright.codegen.packing import LANES, PARAMETERS, lane_mask, load_masked, transpose
from tilewright.codegen.text import Module, Text, type_text, vector_text

GROUP = 4
BYTES = GROUP * LANES
WORDS = type_text("i32", LANES)
FLIP = -0x7F7F7F80  # 0x80808080: the top bit of each byte


def unsigned_side(a_dtype: str, b_dtype: str) -> str:
    """Which operand the instruction takes as unsigned, after B is flipped where both are alike."""
    return "a" if a_dtype == "UINT8" else "b" if b_dtype == "UINT8" or a_dtype == b_dtype else ""


def correction(a_dtype: str, b_dtype: str) -> int:
    """What to multiply the sum of a row of A with, to undo the flip of B."""
    if a_dtype != b_dtype:
        return 0
    return 128 if a_dtype == "UINT8" else -128


def require_byte_rows(module: Module, flip: bool, width: int) -> str:
    """@(dst, src, ld, depth, columns): pack B whose columns are contiguous."""
    symbol = f"@tilewright.bytes.rows.{flip}.{width}"
    module.require(symbol, lambda m: write_byte_rows(m, symbol, flip, width))
    return symbol


def write_byte_rows(module: Module, symbol: str, flip: bool, width: int) -> str:
    """Four rows at a time; rows beyond the last repeat it, to meet zeros of A."""
    text = Text(module, f"define internal fastcc void {symbol}({PARAMETERS}) #1")
    index = Index(text)
    groups = index.floordiv(index.add("%depth", GROUP - 1), GROUP)
    whole = index.round_down("%columns", width)
    size = index.mul(groups, width)
    with text.loop(0, whole, width, [("ptr", "%dst")]) as loop:
        byte_panel(text, loop.counter, loop.carries[0], width, [""] * (width // LANES), flip)
        loop.following = [index.place(loop.carries[0], size, "i32")]
    rest = index.sub("%columns", whole)
    with text.when(text.let(f"icmp sgt i64 {rest}, 0")):
        masks = [lane_mask(text, index.sub(rest, v)) for v in range(0, width, LANES)]
        byte_panel(text, whole, loop.carries[0], width, masks, flip)
    text.do("ret void")
    return text.finish()


def byte_panel(text: Text, column: Num, dst: str, width: int, masks: list[str], flip: bool) -> None:
    """One panel: all groups of four rows from `column` on."""
    index = Index(text)
    start = index.place("%src", column, "i8")
    last = index.sub("%depth", 1)
    with text.loop(0, "%depth", GROUP, [("ptr", dst)]) as loop:
        rows = [
            index.place(
                start, index.mul(index.minimum(index.add(loop.counter, t), last), "%ld"), "i8"
            )
            for t in range(GROUP)
        ]
        for v, mask in enumerate(masks):
            value = interleaved(text, [index.place(row, LANES * v, "i8") for row in rows], mask)
            store_words(text, index.place(loop.carries[0], LANES * v, "i32"), value, flip)
        loop.following = [index.place(loop.carries[0], width, "i32")]


def interleaved(text: Text, places: list[str], mask: str) -> str:
    """Sixteen elements of each of four rows, byte t of lane j from row t."""
    total = ""
    for t, place in enumerate(places):
        value = load_masked(text, place, "i8", mask)
        wide = text.let(f"zext <{LANES} x i8> {value} to {WORDS}")
        if t:
            wide = text.let(f"shl {WORDS} {wide}, splat (i32 {8 * t})")
        total = text.let(f"or {WORDS} {total}, {wide}") if total else wide
    return total


def store_words(text: Text, place: str, value: str, flip: bool) -> None:
    """Store sixteen groups, flipped if asked."""
    if flip:
        value = text.let(f"xor {WORDS} {value}, splat (i32 {FLIP})")
    text.do(f"store {WORDS} {value}, ptr {place}, align 4")


def require_byte_columns(module: Module, flip: bool, width: int) -> str:
    """@(dst, src, ld, depth, columns): pack B whose rows (along k) are contiguous."""
    symbol = f"@tilewright.bytes.columns.{flip}.{width}"
    module.require(symbol, lambda m: write_byte_columns(m, symbol, flip, width))
    return symbol


def write_byte_columns(module: Module, symbol: str, flip: bool, width: int) -> str:
    """Sixteen columns at a time, transposed in groups of four bytes."""
    text = Text(module, f"define internal fastcc void {symbol}({PARAMETERS}) #1")
    index = Index(text)
    groups = index.floordiv(index.add("%depth", GROUP - 1), GROUP)
    last = index.sub("%columns", 1)
    with text.loop(0, "%columns", LANES) as loop:
        panel = index.floordiv(loop.counter, width)
        inside = index.sub(loop.counter, index.mul(panel, width))
        offset = index.add(index.mul(index.mul(panel, groups), width), inside)
        dst = index.place("%dst", offset, "i32")
        rows = [
            index.place(
                "%src", index.mul(index.minimum(index.add(loop.counter, c), last), "%ld"), "i8"
            )
            for c in range(LANES)
        ]
        whole = index.round_down("%depth", BYTES)
        with text.loop(0, whole, BYTES) as inner:
            byte_square(text, rows, dst, inner.counter, width, "", flip)
        rest = index.sub("%depth", whole)
        with text.when(text.let(f"icmp sgt i64 {rest}, 0")):
            byte_square(text, rows, dst, whole, width, byte_mask(text, rest), flip)
    text.do("ret void")
    return text.finish()


def byte_square(
    text: Text, rows: list[str], dst: str, k: Num, width: int, mask: str, flip: bool
) -> None:
    """64 bytes of each of 16 columns, as 16 rows of 16 groups."""
    index = Index(text)
    values = [load_bytes(text, index.place(row, k, "i8"), mask) for row in rows]
    first = index.floordiv(k, GROUP)
    for group, value in enumerate(transpose(text, values, WORDS)):
        place = index.place(dst, index.mul(index.add(first, group), width), "i32")
        store_words(text, place, value, flip)


def byte_mask(text: Text, count: Num) -> str:
    """<64 x i1>: the bytes below `count`."""
    kind = f"<{BYTES} x i64>"
    first = text.let(f"insertelement {kind} poison, i64 {count}, i64 0")
    spread = text.let(
        f"shufflevector {kind} {first}, {kind} poison, <{BYTES} x i32> zeroinitializer"
    )
    return text.let(f"icmp slt {kind} {vector_text(range(BYTES), 'i64')}, {spread}")


def load_bytes(text: Text, place: str, mask: str) -> str:
    """64 bytes as 16 words, zero where the mask is off."""
    kind = f"<{BYTES} x i8>"
    if not mask:
        return text.let(f"load {WORDS}, ptr {place}, align 1")
    arguments = f"ptr align 1 {place}, <{BYTES} x i1> {mask}, {kind} zeroinitializer"
    value = text.let(f"call {kind} @llvm.masked.load.v{BYTES}i8.p0({arguments})")
    return text.let(f"bitcast {kind} {value} to {WORDS}")


def require_byte_a(module: Module, contiguous: str, depth: int, factor: int, signed: bool) -> str:
    """@(dst, src, ld, depth, rows, bias): rows of A as `depth` bytes each, padded with zeros.

    `factor` times the sum of each row goes to `bias`.
    """
    symbol = f"@tilewright.bytes.a.{contiguous}.{depth}.{factor}.{signed}".replace("-", "m")
    module.require(symbol, lambda m: write_byte_a(m, symbol, contiguous, depth, factor, signed))
    return symbol


A_PARAMETERS = f"{PARAMETERS}, ptr %bias"


def write_byte_a(
    module: Module, symbol: str, contiguous: str, depth: int, factor: int, signed: bool
) -> str:
    """Copy and sum each row."""
    text = Text(module, f"define internal fastcc void {symbol}({A_PARAMETERS}) #1")
    index = Index(text)
    with text.loop(0, "%columns", 1) as loop:
        dst = index.place("%dst", index.mul(loop.counter, depth), "i8")
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
    index = Index(text)
    whole = index.round_down("%depth", LANES)
    with text.loop(0, whole, LANES, [(WORDS, "zeroinitializer")]) as loop:
        loop.following = [copy_part(text, src, dst, loop.counter, "", loop.carries[0], signed)]
    mask = lane_mask(text, index.sub("%depth", whole))
    total = copy_part(text, src, dst, whole, mask, loop.carries[0], signed)
    return text.let(f"call i32 @llvm.vector.reduce.add.v{LANES}i32({WORDS} {total})")


def copy_part(text: Text, src: str, dst: str, k: Num, mask: str, total: str, signed: bool) -> str:
    """Sixteen elements; gives the running sums."""
    index = Index(text)
    value = load_masked(text, index.place(src, k, "i8"), "i8", mask)
    text.do(f"store <{LANES} x i8> {value}, ptr {index.place(dst, k, 'i8')}, align 1")
    wide = text.let(f"{'sext' if signed else 'zext'} <{LANES} x i8> {value} to {WORDS}")
    return text.let(f"add {WORDS} {total}, {wide}")


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
    return index.place(dst, index.round_down("%depth", GROUP), "i8")
