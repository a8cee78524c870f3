"""Copy a block of a matrix into the order in which a matmul reads it, widening narrow elements.

Packed B is panels of `width` columns: element (k, j) of panel p is at
`p*depth*width + k*width + j`.
Columns that do not exist are filled with zeros or repeat others; nothing reads them into a result.
"""

from collections.abc import Sequence

from tilewright.codegen.formats import FLOAT_FORMATS, INT_FORMATS
from tilewright.codegen.index import Index, Num
from tilewright.codegen.lanes import Lanes, select
from tilewright.codegen.text import Module, Text, type_text, vector_text
from tilewright.codegen.words import cast
from tilewright.dataclass import dataclass

LANES = 16
LEAST_NORMAL = 2.0**-126
SUFFIX = {"float": "f32", "i64": "i64", "i32": "i32", "i16": "i16", "i8": "i8"}


def is_narrow(dtype: str) -> bool:
    """Whether elements widen before they are multiplied."""
    return dtype not in ("FP32", "INT32")


def source_element(dtype: str) -> str:
    """The LLVM element of `dtype` in memory."""
    if dtype == "FP32":
        return "float"
    table = FLOAT_FORMATS if dtype in FLOAT_FORMATS else INT_FORMATS
    return table[dtype].element


@dataclass(frozen=True, slots=True)
class Source:
    """An operand as it is in memory, of `dtype`, and what it is multiplied as: FP32 or INT32.

    If it `flushes`, its denormal numbers count as zeros.
    """

    dtype: str
    wide: str
    flushes: bool = False

    @property
    def element(self) -> str:
        """The LLVM element in memory."""
        return source_element(self.dtype)

    @property
    def wide_element(self) -> str:
        """The LLVM element that is multiplied."""
        return "i32" if self.wide == "INT32" else "float"

    @property
    def name(self) -> str:
        """What functions for such operands have in their names."""
        return f"{self.dtype}.{self.wide}{'.flushed' * self.flushes}"


def widened(text: Text, value: str, source: Source, lanes: int) -> str:
    """`value` as the element a micro-kernel multiplies."""
    if source.flushes:
        value = without_denormals(text, value, source.dtype, lanes)
    return cast(text, source.dtype, source.wide, "rint", lanes, value)


def without_denormals(text: Text, value: str, dtype: str, lanes: int) -> str:
    """BF16 or FP32 whose denormal numbers are zeros of the same sign."""
    if dtype == "FP32":
        number = Lanes(text, value, "float", lanes)
        return select(
            number.abs().lt(LEAST_NORMAL), number.constant(0.0).copysign(number), number
        ).ref
    bits = Lanes(text, value, "i16", lanes)
    return select((bits & 0x7F80).eq(0), bits & -0x8000, bits).ref


def lane_mask(text: Text, count: Num) -> str:
    """<16 x i1>: the lanes below `count`."""
    if isinstance(count, int):
        return vector_text([lane < count for lane in range(LANES)], "i1")
    low = text.let(f"call i64 @llvm.smax.i64(i64 {count}, i64 0)")
    bounded = text.let(f"call i64 @llvm.smin.i64(i64 {low}, i64 {LANES})")
    narrow = text.let(f"trunc i64 {bounded} to i32")
    first = text.let(f"insertelement <{LANES} x i32> poison, i32 {narrow}, i64 0")
    spread = text.let(
        f"shufflevector <{LANES} x i32> {first}, <{LANES} x i32> poison, "
        f"<{LANES} x i32> zeroinitializer"
    )
    numbers = vector_text(range(LANES), "i32")
    return text.let(f"icmp slt <{LANES} x i32> {numbers}, {spread}")


def load_masked(text: Text, place: str, element: str, mask: str) -> str:
    """Sixteen elements, zero where the mask is off; "" is no mask."""
    kind = type_text(element, LANES)
    if not mask:
        return text.let(f"load {kind}, ptr {place}, align 1")
    arguments = f"ptr align 1 {place}, <{LANES} x i1> {mask}, {kind} zeroinitializer"
    return text.let(f"call {kind} @llvm.masked.load.v{LANES}{SUFFIX[element]}.p0({arguments})")


def require_pack_rows(module: Module, source: Source, width: int) -> str:
    """@(dst, src, ld, depth, columns): pack B whose columns are contiguous."""
    symbol = f"@tilewright.pack.rows.{source.name}.{width}"
    module.require(symbol, lambda m: write_pack_rows(m, symbol, source, width))
    return symbol


PARAMETERS = "ptr %dst, ptr %src, i64 %ld, i64 %depth, i64 %columns"


def write_pack_rows(module: Module, symbol: str, source: Source, width: int) -> str:
    """Row-major B: copy `width` columns of each row, the last panel under a mask."""
    text = Text(module, f"define internal fastcc void {symbol}({PARAMETERS}) #1")
    index = Index(text)
    panel = index.mul("%depth", width)
    whole = index.round_down("%columns", width)
    with text.loop(0, whole, width, [("ptr", "%dst")]) as loop:
        copy_panel(text, loop.counter, loop.carries[0], source, width, [""] * (width // LANES))
        loop.following = [index.place(loop.carries[0], panel, "float")]
    rest = index.sub("%columns", whole)
    with text.when(text.let(f"icmp sgt i64 {rest}, 0")):
        masks = [lane_mask(text, index.sub(rest, v)) for v in range(0, width, LANES)]
        copy_panel(text, whole, loop.carries[0], source, width, masks)
    text.do("ret void")
    return text.finish()


def copy_panel(
    text: Text, column: Num, dst: str, source: Source, width: int, masks: list[str]
) -> None:
    """One panel: every row from `column` on."""
    index, element = Index(text), source.element
    start = index.place("%src", column, element)
    with text.loop(0, "%depth", 1, [("ptr", start), ("ptr", dst)]) as loop:
        row, out = loop.carries
        for v, mask in enumerate(masks):
            value = load_masked(text, index.place(row, LANES * v, element), element, mask)
            store_wide(text, index.place(out, LANES * v, "float"), value, source)
        loop.following = [index.place(row, "%ld", element), index.place(out, width, "float")]


def store_wide(text: Text, place: str, value: str, source: Source) -> None:
    """Store sixteen elements, widened."""
    kind = type_text(source.wide_element, LANES)
    text.do(f"store {kind} {widened(text, value, source, LANES)}, ptr {place}, align 4")


def require_pack_columns(module: Module, source: Source, width: int, *, short: bool = False) -> str:
    """@(dst, src, ld, depth, columns): pack B whose rows (along k) are contiguous.

    If it is `short`, the depth is below `LANES`.
    """
    symbol = f"@tilewright.pack.columns.{source.name}.{width}{'.short' * short}"
    module.require(symbol, lambda m: write_pack_columns(m, symbol, source, width, short))
    return symbol


def write_pack_columns(module: Module, symbol: str, source: Source, width: int, short: bool) -> str:
    """Column-major B: transpose blocks of 16 x 16.

    Up to 15 rows beyond `depth` are written after each panel, where the next panel goes.
    """
    text = Text(module, f"define internal fastcc void {symbol}({PARAMETERS}) #1")
    index = Index(text)
    with text.loop(0, "%columns", LANES) as loop:
        column = loop.counter
        panel = index.floordiv(column, width)
        inside = index.sub(column, index.mul(panel, width))
        dst = index.place("%dst", index.mul(index.mul(panel, "%depth"), width), "float")
        dst = index.place(dst, inside, "float")
        transpose_column(text, column, dst, source, width, short)
    text.do("ret void")
    return text.finish()


def transpose_column(
    text: Text, column: Num, dst: str, source: Source, width: int, short: bool
) -> None:
    """Sixteen columns, all of k; columns beyond the last repeat it."""
    index, element = Index(text), source.element
    last = index.sub("%columns", 1)
    rows = [
        index.place("%src", index.mul(index.minimum(index.add(column, c), last), "%ld"), element)
        for c in range(LANES)
    ]
    whole = 0 if short else index.round_down("%depth", LANES)
    if not short:
        with text.loop(0, whole, LANES) as loop:
            transpose_square(text, rows, dst, loop.counter, source, width, "")
    rest = index.sub("%depth", whole)
    with text.when(text.let(f"icmp sgt i64 {rest}, 0")):
        transpose_square(text, rows, dst, whole, source, width, lane_mask(text, rest))


def transpose_square(
    text: Text, rows: list[str], dst: str, k: Num, source: Source, width: int, mask: str
) -> None:
    """Load 16 columns of 16 elements along k, store them as 16 rows."""
    index, element = Index(text), source.element
    values = [
        widened(text, load_masked(text, index.place(row, k, element), element, mask), source, LANES)
        for row in rows
    ]
    kind = type_text(source.wide_element, LANES)
    for value_row, value in enumerate(transpose(text, values, kind)):
        place = index.place(dst, index.mul(index.add(k, value_row), width), "float")
        text.do(f"store {kind} {value}, ptr {place}, align 4")


def picks(size: int, *blocks: int) -> list[int]:
    """Lanes of two vectors of 16, by blocks of so many lanes."""
    return [size * block + lane for block in blocks for lane in range(size)]


QUARTERS = range(4)
EXCHANGES = (
    (4, picks(8, 0, 2), picks(8, 1, 3)),
    (8, picks(4, 0, 2, 4, 6), picks(4, 1, 3, 5, 7)),
    (
        1,
        [lane for q in QUARTERS for lane in picks(1, 4 * q, 4 * q + 16, 4 * q + 1, 4 * q + 17)],
        [lane for q in QUARTERS for lane in picks(1, 4 * q + 2, 4 * q + 18, 4 * q + 3, 4 * q + 19)],
    ),
    (
        2,
        [lane for q in QUARTERS for lane in picks(2, 2 * q, 2 * q + 8)],
        [lane for q in QUARTERS for lane in picks(2, 2 * q + 1, 2 * q + 9)],
    ),
)
"""Which vectors exchange what: halves and quarters, then elements of each quarter.

Processors have an instruction for each of these that needs no register to say which lanes.
"""


def transpose(text: Text, rows: Sequence[str], kind: str) -> list[str]:
    """The transpose of 16 vectors of 16, by four rounds of exchanges."""
    found = list(rows)
    for distance, low, high in EXCHANGES:
        for i in range(LANES):
            if i & distance:
                continue
            pair = f"shufflevector {kind} {found[i]}, {kind} {found[i + distance]}, <16 x i32> "
            found[i], found[i + distance] = (
                text.let(pair + vector_text(lanes, "i32")) for lanes in (low, high)
            )
    return [found[swapped_bits(k)] for k in range(LANES)]


def swapped_bits(k: int) -> int:
    """Where the exchanges leave row k: bits 0 and 1, and bits 2 and 3, change places."""
    return (k & 0b0101) << 1 | (k & 0b1010) >> 1


def require_widen(module: Module, source: Source, contiguous: str, depth: int) -> str:
    """@(dst, src, ld, depth, rows): widen rows of A into rows of `depth` elements.

    `contiguous` is "k" or "m": along which axis A has unit stride.
    """
    symbol = f"@tilewright.widen.{contiguous}.{source.name}.{depth}"
    module.require(symbol, lambda m: write_widen(m, symbol, source, contiguous, depth))
    return symbol


def write_widen(module: Module, symbol: str, source: Source, contiguous: str, depth: int) -> str:
    """A row panel as 32-bit elements, contiguous along k."""
    text = Text(module, f"define internal fastcc void {symbol}({PARAMETERS}) #1")
    index, element = Index(text), source.element
    with text.loop(0, "%columns", 1) as loop:
        row = loop.counter
        dst = index.place("%dst", index.mul(row, depth), "float")
        if contiguous == "k":
            widen_along(text, index.place("%src", index.mul(row, "%ld"), element), dst, source)
        else:
            widen_across(text, index.place("%src", row, element), dst, source)
    text.do("ret void")
    return text.finish()


def widen_along(text: Text, src: str, dst: str, source: Source) -> None:
    """One contiguous row, sixteen at a time; the tail is padded with zeros."""
    index, element = Index(text), source.element
    whole = index.round_down("%depth", LANES)
    with text.loop(0, whole, LANES) as loop:
        value = load_masked(text, index.place(src, loop.counter, element), element, "")
        store_wide(text, index.place(dst, loop.counter, "float"), value, source)
    rest = index.sub("%depth", whole)
    with text.when(text.let(f"icmp sgt i64 {rest}, 0")):
        value = load_masked(text, index.place(src, whole, element), element, lane_mask(text, rest))
        store_wide(text, index.place(dst, whole, "float"), value, source)


def widen_across(text: Text, src: str, dst: str, source: Source) -> None:
    """One row whose elements are `ld` apart."""
    index, element = Index(text), source.element
    with text.loop(0, "%depth", 1, [("ptr", src)]) as loop:
        value = text.let(f"load {element}, ptr {loop.carries[0]}, align 1")
        place = index.place(dst, loop.counter, "float")
        wide = widened(text, value, source, 1)
        text.do(f"store {source.wide_element} {wide}, ptr {place}, align 4")
        loop.following = [index.place(loop.carries[0], "%ld", element)]
