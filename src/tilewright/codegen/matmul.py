"""The matmul around the micro-kernel: blocks of n and k, packed B where that pays, tails.

C[i, j] is one chain over k whatever the blocks are (see microkernel.py), so block sizes, packing
and the instruction set change speed only.
"""

from collections.abc import Callable
from dataclasses import replace

from tilewright.codegen.group_packing import (
    BYTES,
    PAIRS,
    PAIRS_OF_A,
    correction,
    require_byte_a,
    require_group_columns,
    require_group_rows,
    require_pairs_of_a,
)
from tilewright.codegen.index import Index, Num
from tilewright.codegen.matmul_plan import (
    PACKING_ROWS,
    STREAM_DEPTH,
    STREAM_WIDTH,
    Matmul,
    a_bytes,
    asks_for_rows,
    choose_plan,
    group_of_b,
    span_of,
    workspace_bytes,
)
from tilewright.codegen.microkernel import FULL, LANES, RUNTIME, Block, require_block
from tilewright.codegen.next_rows import LINE, NextRows
from tilewright.codegen.packing import (
    Source,
    require_pack_columns,
    require_pack_rows,
    require_widen,
)
from tilewright.codegen.text import NAMELESS, Module, Text
from tilewright.dataclass import dataclass

LEAST_LINES, UNROLL = 16, 4
ROW_TAILS = {8: (4, 2, 1), 6: (3, 1), 5: (2, 1), 2: (1,)}


def require_matmul(module: Module, spec: Matmul) -> str:
    """The symbol of the matmul function of `spec`, defined in `module`."""
    finish = spec.finish
    if finish is None:
        module.require(spec.symbol, lambda m: MatmulWriter(m, spec).write().finish())
        return spec.symbol
    if spec not in finish.symbols:
        finish.symbols[spec] = module.share(MatmulWriter(module, spec).write(), "finished.matmul")
    return finish.symbols[spec]


@dataclass(frozen=True, slots=True)
class Panels:
    """A block of B: where it starts, its stride along k, and by what a panel's column is scaled.

    If it is `turned`, the stride is that of its columns. `source` is B taken as it is, None where
    it has been packed.
    """

    base: str
    stride: Num
    scale: Num
    turned: bool = False
    source: Source | None = None


Cell = Callable[[int, int, Num, Num, Num], None]


class MatmulWriter:
    """Writes one matmul function."""

    def __init__(self, module: Module, spec: Matmul) -> None:
        self.module, self.spec = module, spec
        self.plan = choose_plan(spec, module.isa)
        symbol = spec.symbol if spec.finish is None else NAMELESS
        self.text = Text(module, f"define internal fastcc void {symbol}({spec.parameters}) #1")
        self.index = Index(self.text)
        self.m: Num = "%m" if spec.m is None else spec.m
        self.n: Num = "%n" if spec.n is None else spec.n
        self.k: Num = "%k" if spec.k is None else spec.k
        self.lda: Num = "%lda" if spec.lda is None else spec.lda
        self.ldb: Num = "%ldb" if spec.ldb is None else spec.ldb

    def write(self) -> Text:
        """The definition."""
        plan, index = self.plan, self.index
        one = replace(self.spec, m=1)
        may_be_one = self.spec.m is None and self.spec.unit == 1
        if may_be_one and (plan.packs is None or span_of(one, self.module.isa)):
            self.single_row(one)
        self.packed_flag = self.packing_decision()
        self.depth = self.depth_decision()
        whole = index.round_down(self.n, plan.columns)
        if not isinstance(whole, int) or whole > 0:
            with index.steps(0, whole, plan.columns) as column:
                self.column_block(column, plan.columns)
        rest = index.sub(self.n, whole)
        if isinstance(rest, int):
            if rest:
                self.column_block(whole, rest)
        else:
            with self.text.when(self.text.let(f"icmp sgt i64 {rest}, 0")):
                self.column_block(whole, rest)
        self.text.do("ret void")
        return self.text

    def single_row(self, spec: Matmul) -> None:
        """One row, found at run time, has a function of its own."""
        symbol = require_matmul(self.module, spec)
        one, more = self.text.label(), self.text.label()
        self.text.branch(self.text.let("icmp eq i64 %m, 1"), one, more)
        self.text.start(one)
        self.text.do(f"call fastcc void {symbol}({self.spec.parameters})")
        self.text.do("ret void")
        self.text.start(more)

    def packing_decision(self) -> str:
        """An i1 that says whether B is packed, where only run time knows; else ""."""
        if self.plan.packs is not None:
            return ""
        text = self.text
        rows = text.let(f"icmp sge i64 {self.m}, {PACKING_ROWS * self.module.isa.rows}")
        columns = text.let(f"icmp sgt i64 {self.n}, {self.module.isa.in_place}")
        return text.let(f"and i1 {rows}, {columns}")

    def depth_decision(self) -> Num:
        """Rows of B per block; few where run time finds that B is streamed."""
        if not self.packed_flag:
            return self.plan.depth
        text = self.text
        wide = text.let(f"icmp sgt i64 {self.n}, {STREAM_WIDTH}")
        short = text.let(f"select i1 {wide}, i64 {2 * STREAM_DEPTH}, i64 {self.plan.depth}")
        return text.let(f"select i1 {self.packed_flag}, i64 {self.plan.depth}, i64 {short}")

    def column_block(self, column: Num, columns: Num) -> None:
        """Columns [column, column + columns) of C, all of k (once if it is empty), all rows."""
        if self.plan.span:
            self.block_as_it_is(column, columns)
            return
        with self.index.steps(0, self.index.maximum(self.k, 1), self.depth) as k:
            depth = self.index.minimum(self.index.sub(self.k, k), self.depth)
            self.k_block(column, columns, k, depth)

    def block_as_it_is(self, column: Num, columns: Num) -> None:
        """All of k: whole spans in place; what is before and after them is packed."""
        index, plan, spec = self.index, self.plan, self.spec
        turned = spec.b_major == "k"
        lead = self.before_lines(column) if turned else 0
        end = index.add(lead, index.round_down(index.sub(self.k, lead), plan.span))
        self.packed_block(column, columns, 0, lead)
        scale: Num = self.ldb if turned else 1
        with index.steps(lead, index.maximum(end, 1), plan.depth) as k:
            depth = index.minimum(index.sub(end, k), plan.depth)
            base = self.b_in_place(column, k)
            panels = Panels(base, self.ldb, scale, turned, spec.b_source)
            self.k_block(column, columns, k, depth, panels)
        self.packed_block(column, columns, end, index.sub(self.k, end))

    def before_lines(self, column: Num) -> Num:
        """Elements of a column of B before a line of the cache begins, the same in all columns."""
        k, ldb, span, size = self.spec.k, self.spec.ldb, self.plan.span, self.spec.b_bytes
        if (k is not None and k < LEAST_LINES * span) or (ldb is not None and ldb % span):
            return 0
        address = self.text.let(f"ptrtoint ptr {self.b_in_place(column, 0)} to i64")
        elements = self.text.let(f"lshr i64 {address}, {size.bit_length() - 1}")
        whole_groups = span - self.plan.group
        before = self.text.let(f"and i64 {self.index.sub(0, elements)}, {whole_groups}")
        return self.index.minimum(before, self.k)

    def packed_block(self, column: Num, columns: Num, k: Num, depth: Num) -> None:
        """A block of B, packed, if there is any of it."""
        if depth != 0:
            with self.text.when(self.text.let(f"icmp sgt i64 {depth}, 0")):
                self.k_block(column, columns, k, depth)

    def k_block(
        self, column: Num, columns: Num, k: Num, depth: Num, panels: Panels | None = None
    ) -> None:
        """One block of B: packed or in place, then all rows against it."""
        start = "%accumulate"
        if k != 0:
            later = self.text.let(f"icmp sgt i64 {k}, 0")
            start = self.text.let(f"or i1 {later}, %accumulate")
        panels = panels or self.b_panels(column, columns, k, depth)
        done = self.completion(k, depth)
        for rows, low, high in self.row_ranges():
            with self.index.steps(low, high, rows) as row:
                self.row_panel(rows, row, column, columns, k, depth, start, panels, done)
                self.call_panel(done, rows, row)

    def completion(self, k: Num, depth: Num) -> str:
        """An i1: whether this block of k is the last; "" where nobody asks."""
        if not self.spec.has_epilogue:
            return ""
        end = self.index.add(k, depth)
        if isinstance(end, int) and isinstance(self.k, int):
            return "true" if end >= self.k else "false"
        return self.text.let(f"icmp sge i64 {end}, {self.k}")

    def call_panel(self, done: str, rows: int, row: Num) -> None:
        """What comes after the product, on rows that are complete."""
        if not self.spec.has_panels:
            return
        begin = self.index.add("%row", row)
        arguments = f"ptr %env, ptr %ctx, i64 {begin}, i64 {self.index.add(begin, rows)}"
        with self.text.when(done):
            self.text.do(f"call i32 %panel({arguments})")

    def row_ranges(self) -> list[tuple[int, Num, Num]]:
        """(rows per step, first row, end): full register blocks, then what is left."""
        rows, index = self.plan.rows, self.index
        whole = index.round_down(self.m, rows)
        ranges: list[tuple[int, Num, Num]] = []
        if whole != 0:
            ranges.append((rows, 0, whole))
        rest = index.sub(self.m, whole) if self.spec.unit % rows else 0
        if isinstance(rest, int):
            return [*ranges, (rest, whole, self.m)] if rest else ranges
        low = whole
        for tail in ROW_TAILS[rows]:
            high = index.add(low, index.round_down(index.sub(self.m, low), tail))
            ranges.append((tail, low, high))
            low = high
        return ranges

    def b_panels(self, column: Num, columns: Num, k: Num, depth: Num) -> Panels:
        """The block of B as the micro-kernel reads it."""
        packs = self.plan.packs
        if packs is False:
            return Panels(self.b_in_place(column, k), self.ldb, 1)
        if packs:
            self.pack_b(column, columns, k, depth)
            return Panels("%work", self.plan.width, self.groups(depth))
        with self.text.when(self.packed_flag):
            self.pack_b(column, columns, k, depth)
        choose = f"select i1 {self.packed_flag}, "
        base = self.text.let(f"{choose}ptr %work, ptr {self.b_in_place(column, k)}")
        stride = self.text.let(f"{choose}i64 {self.plan.width}, i64 {self.ldb}")
        scale = self.text.let(f"{choose}i64 {depth}, i64 1")
        return Panels(base, stride, scale)

    def groups(self, depth: Num) -> Num:
        """The steps of the micro-kernel for `depth` elements along k."""
        group = self.plan.group
        return self.index.floordiv(self.index.add(depth, group - 1), group)

    def b_in_place(self, column: Num, k: Num) -> str:
        """Where the block of B starts."""
        index, element = self.index, self.spec.b_source.element
        along_k, along_n = (self.ldb, 1) if self.spec.b_major == "n" else (1, self.ldb)
        offset = index.add(index.mul(k, along_k), index.mul(column, along_n))
        return index.place("%b", offset, element)

    def pack_b(self, column: Num, columns: Num, k: Num, depth: Num) -> None:
        """Call the packing of one block of B."""
        rows, width = self.spec.b_major == "n", self.plan.width
        group = group_of_b(self.spec, self.module.isa)
        if group:
            pack = require_group_rows if rows else require_group_columns
            symbol = pack(self.module, group, width)
        elif rows:
            symbol = require_pack_rows(self.module, self.spec.b_source, width)
        else:
            short = 0 < self.plan.packed < LANES
            symbol = require_pack_columns(self.module, self.spec.b_source, width, short=short)
        source = self.b_in_place(column, k)
        arguments = f"ptr %work, ptr {source}, i64 {self.ldb}, i64 {depth}, i64 {columns}"
        self.text.do(f"call fastcc void {symbol}({arguments})")

    def row_panel(
        self,
        rows: int,
        row: Num,
        column: Num,
        columns: Num,
        k: Num,
        depth: Num,
        start: str,
        panels: Panels,
        done: str,
    ) -> None:
        """`rows` rows of C against all panels of the block of B."""
        index, plan, spec = self.index, self.plan, self.spec
        finish = spec.finish
        a, ai, ak = self.a_panel(rows, row, k, depth)
        next_rows, following = self.next_rows(rows, row, k)
        c = index.place("%c", index.add(index.mul(row, "%ldc"), column), self.spec.element)

        def cell(vectors: int, tail: int, panel: Num, inside: Num, left: Num) -> None:
            stride, element = panels.stride, self.spec.element
            main = rows == plan.rows and vectors == plan.vectors
            block = Block(
                rows,
                vectors,
                element,
                known(ai),
                known(ak),
                known(stride),
                tail,
                unroll=plan.span // plan.group if panels.turned else UNROLL if main else 2,
                rest=not panels.turned and (plan.span > 0 or not whole_steps),
                dot=plan.dot,
                ends=done == "true",
                ahead=0 if plan.span and not panels.source else plan.ahead,
                turned=panels.turned,
                source=panels.source,
                group=group,
                next_rows=next_rows if main else None,
            )
            symbol = require_block(self.module, block, finish)
            inner, outer = (0, index.add(panel, inside)) if panels.turned else (inside, panel)
            offset = index.add(index.mul(outer, panels.scale), inner)
            b = index.place(panels.base, offset, self.element_of(panels))
            place = index.place(c, index.add(panel, inside), element)
            arguments = (
                f"ptr {place}, i64 %ldc, ptr {a}, i64 {ai}, i64 {ak}, ptr {b}, i64 {stride}, "
                f"i64 {steps}, i1 {start}, i64 {left}, ptr {bias}"
            )
            if block.next_rows:
                arguments += following
            if finish is not None:
                first = index.add("%column", index.add(column, index.add(panel, inside)))
                arguments += f", i1 {done}, ptr %env, ptr %ctx, i64 {top}, i64 {first}"
            self.text.do(f"call fastcc void {symbol}({arguments})")

        group = group_of_b(spec, self.module.isa) if panels.source else None
        whole_steps = isinstance(self.k, int) and self.k % (4 * plan.group) == 0
        steps = self.groups(depth)
        top = index.add("%row", row) if finish is not None else 0
        bias = index.place("%work", self.bias_offset(), "i8") if plan.has_bias else "null"
        whole = index.round_down(columns, plan.width)
        if whole != 0:
            with index.steps(0, whole, plan.width) as j:
                cell(plan.vectors, FULL, j, 0, 0)
        self.column_tail(columns, whole, cell)

    def next_rows(self, rows: int, row: Num, k: Num) -> tuple[NextRows | None, str]:
        """What to ask for while `rows` rows from `row` on are multiplied, and where it is."""
        spec, index, plan = self.spec, self.index, self.plan
        if not asks_for_rows(spec, plan):
            return None, ""
        size = spec.a_bytes
        pitch = index.mul(self.lda, size)
        place = self.a_place(index.add(row, rows), k)
        if spec.a_major == "k":
            found = NextRows(rows, known(pitch), size * plan.group)
        else:
            place = index.place(self.a_place(row, k), LINE, "i8")
            found = NextRows(UNROLL, known(pitch), None)
        return found, f", ptr {place}, i64 {pitch}"

    def a_place(self, row: Num, k: Num) -> str:
        """Where an element of A is."""
        ai, ak = (self.lda, 1) if self.spec.a_major == "k" else (1, self.lda)
        offset = self.index.add(self.index.mul(row, ai), self.index.mul(k, ak))
        return self.index.place("%a", offset, self.spec.a_source.element)

    def element_of(self, panels: Panels) -> str:
        """What the elements of a block of B are."""
        return panels.source.element if panels.source else self.spec.element

    def column_tail(self, columns: Num, whole: Num, cell: Cell) -> None:
        """The columns after the last full panel; 16 at a time, masked, at run time."""
        rest = self.index.sub(columns, whole)
        if isinstance(rest, int):
            if rest:
                cell(-(-rest // LANES), rest % LANES, whole, 0, 0)
            return
        with self.index.steps(0, rest, LANES) as j:
            cell(1, RUNTIME, whole, j, self.index.sub(rest, j))

    def a_panel(self, rows: int, row: Num, k: Num, depth: Num) -> tuple[str, Num, Num]:
        """(pointer, row stride, k stride) of the rows of A as the micro-kernel reads them."""
        index, spec = self.index, self.spec
        ai, ak = (self.lda, 1) if spec.a_major == "k" else (1, self.lda)
        source = self.a_place(row, k)
        if not self.plan.widens_a:
            return source, ai, ak
        work = index.place("%work", self.bias_offset() - 64 - a_bytes(self.plan), "i8")
        arguments = f"ptr {work}, ptr {source}, i64 {self.lda}, i64 {depth}, i64 {rows}"
        if self.plan.has_bias:
            arguments += f", ptr {index.place('%work', self.bias_offset(), 'i8')}"
        self.text.do(f"call fastcc void {self.a_packer()}({arguments})")
        return (work, 1, LANES) if self.plan.turns_a else (work, self.plan.pitch, 1)

    def a_packer(self) -> str:
        """The function that copies a row panel of A."""
        spec, plan, module = self.spec, self.plan, self.module
        if plan.turns_a:
            return require_group_rows(module, PAIRS_OF_A, LANES)
        if plan.dot == PAIRS.name:
            return require_pairs_of_a(module, plan.pitch)
        if not plan.dot:
            return require_widen(module, spec.a_source, spec.a_major, plan.pitch)
        factor = correction(spec.a_dtype, spec.b_dtype)
        pitch = BYTES.count * plan.pitch
        return require_byte_a(module, spec.a_major, pitch, factor, spec.a_dtype == "INT8")

    def bias_offset(self) -> int:
        """Where the numbers of the rows are in the workspace, 64 bytes after the copy of A."""
        return workspace_bytes(self.spec, self.module.isa) - 64


def known(stride: Num) -> int | None:
    """A stride the micro-kernel can take as a constant."""
    return stride if isinstance(stride, int) else None
