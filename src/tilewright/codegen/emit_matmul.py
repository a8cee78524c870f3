"""loop.matmul: find how each operand lies in memory, then call the matmul that fits."""

from __future__ import annotations

from dataclasses import replace

from tilewright.codegen.emit_parallel import CellEmitter, is_long, run_ranges
from tilewright.codegen.emitter import Emitter, emits
from tilewright.codegen.epilogue import LaneEpilogue, write_panel
from tilewright.codegen.formats import REGISTER_ELEMENT
from tilewright.codegen.index import Index, Num
from tilewright.codegen.matmul import require_matmul
from tilewright.codegen.matmul_plan import (
    PACKING_ROWS,
    Matmul,
    choose_plan,
    source_of,
    workspace_bytes,
)
from tilewright.codegen.operands import Buffer
from tilewright.codegen.packing import Source, widened, without_denormals
from tilewright.codegen.words import constant, word
from tilewright.codegen.work import Work, estimate_one
from tilewright.dataclass import dataclass
from tilewright.ir.core import Operation, Value
from tilewright.ir.types import BufferType, Dim
from tilewright.ops import loop
from tilewright.target import Isa

ROW_BLOCK, MOST_COLUMNS, CELLS = 512, 512, 8
LEAST_ROWS = {1: 64, 2: 512, 4: 512}
"""Rows that are worth packing B again, by the elements along k of one step."""
STREAM_COLUMNS = 2048


@dataclass(frozen=True, slots=True)
class Matrix:
    """One operand as a matrix: `shape` and `strides` of its rows and columns."""

    dtype: str
    shape: tuple[Num, Num]
    strides: tuple[Num, Num]

    def offset(self, index: Index, row: Num, column: Num) -> Num:
        """Where an element is."""
        down, along = self.strides
        return index.add(index.mul(row, down), index.mul(column, along))

    @property
    def transposed(self) -> Matrix:
        """Rows and columns exchanged."""
        (rows, columns), (down, along) = self.shape, self.strides
        return Matrix(self.dtype, (columns, rows), (along, down))

    @property
    def unit_axis(self) -> int | None:
        """The axis along which elements are consecutive; either will do where there is only one."""
        if self.strides[1] == 1:
            return 1
        if self.strides[0] == 1 or self.shape[0] == 1:
            return 0
        return 1 if self.shape[1] == 1 else None


@dataclass(frozen=True, slots=True)
class Problem:
    """A matmul as the generator takes it. `swapped`: C is computed as the transpose of B'A'."""

    spec: Matmul
    c: Matrix
    a: Matrix
    b: Matrix
    swapped: bool

    @property
    def sizes(self) -> tuple[Num, Num, Num]:
        """m, n and k."""
        return self.a.shape[0], self.b.shape[1], self.a.shape[1]

    @property
    def strides(self) -> tuple[Num, Num, Num]:
        """The strides of C, A and B along the axis that is not consecutive."""
        a, b = self.a, self.b
        return (
            self.c.strides[0],
            a.strides[1 - (a.unit_axis or 0)],
            b.strides[1 - (b.unit_axis or 0)],
        )


def plan_matmul(c: Matrix, a: Matrix, b: Matrix) -> Problem | None:
    """How to compute c = a @ b; None if an operand has no axis of unit stride."""
    is_column = c.shape[1] == 1 and c.shape[0] != 1 and c.strides[0] == 1
    swapped = is_column or (c.unit_axis == 0 and c.strides[1] != 1)
    if swapped:
        c, a, b = c.transposed, b.transposed, a.transposed
    axes = (c.unit_axis, a.unit_axis, b.unit_axis)
    if None in axes or axes[0] != 1:
        return None
    (m, k), n = a.shape, b.shape[1]
    spec = Matmul(
        a.dtype,
        b.dtype,
        known(m),
        known(n),
        known(k),
        "k" if axes[1] == 1 else "m",
        "n" if axes[2] == 1 else "k",
        known(a.strides[1 - (axes[1] or 0)]),
        known(b.strides[1 - (axes[2] or 0)]),
    )
    return Problem(spec, c, a, b, swapped)


def known(num: Num) -> int | None:
    """A number, if it is known now."""
    return num if isinstance(num, int) else None


@dataclass(frozen=True, slots=True)
class Call:
    """A matmul with its operands in registers.

    With an epilogue, `env` is the environment of what comes after the product, `panel` a function
    of rows if it is one; `origin` is the row and column of the whole that its first ones are.
    """

    pointers: tuple[str, str, str]
    sizes: tuple[Num, Num, Num]
    strides: tuple[Num, Num, Num]
    accumulate: bool
    env: str = ""
    panel: str = ""
    origin: tuple[Num, Num] = (0, 0)

    def write(self, e: Emitter, spec: Matmul, work: str) -> None:
        """The call of the matmul function of `spec`."""
        symbol = require_matmul(e.module, spec)
        parts: list[str] = []
        for pointer, stride in zip(self.pointers, self.strides, strict=True):
            parts += [f"ptr {pointer}", f"i64 {stride}"]
        parts += [f"i64 {size}" for size in self.sizes]
        parts += [f"ptr {work}", f"i1 {'true' if self.accumulate else 'false'}"]
        if spec.has_epilogue:
            parts += [f"ptr {self.env}", "ptr %ctx", *(f"i64 {place}" for place in self.origin)]
        if spec.has_panels:
            parts.append(f"ptr {self.panel}")
        e.text.do(f"call fastcc void {symbol}({', '.join(parts)})")


@emits(loop.matmul)
def emit_matmul(e: Emitter, op: Operation) -> None:
    """A call of the matmul of this shape and layout, or a grid of calls for all threads."""
    buffers = [e.buffer(value) for value in op.operands]
    c, a, b = (as_matrix(buffer) for buffer in buffers)
    a, b = turned(op, a, b)
    problem = plan_matmul(c, a, b)
    if problem is None:
        multiply_anywhere(e, op, (c, a, b))
        return
    pointers = (buffers[0].pointer, buffers[1].pointer, buffers[2].pointer)
    if problem.swapped:
        pointers = (pointers[0], pointers[2], pointers[1])
    work = estimate_one(op)
    is_alone = isinstance(e, CellEmitter) or e.lanes is not None or not is_long(work)
    grid = None if is_alone else grid_of(problem, e.module.isa)
    call = Call(pointers, problem.sizes, problem.strides, op.attrs["accumulate"])
    specs = [problem.spec] if grid is None else [grid.spec, grid.last]
    epilogue = e.shared.epilogues.get(op)
    if epilogue is not None and not problem.swapped:
        if epilogue.lanes is not None:
            finish = LaneEpilogue(e, epilogue)
            specs = [replace(spec, finish=finish) for spec in specs]
            for spec in specs:
                require_matmul(e.module, spec)
            call = replace(call, env=finish.environment.store(e))
        elif has_whole_rows(problem, grid, e.module.isa):
            panel, env = write_panel(e, epilogue)
            specs = [replace(spec, has_panels=True) for spec in specs]
            call = replace(call, env=env, panel=panel)
    if grid is None:
        call.write(e, specs[0], e.index.place(e.arena, e.scratch(op), "i8"))
    else:
        grid = replace(grid, spec=specs[0], last=specs[1])
        GridWriter(e, problem, call, grid).write(e.scratch(op), work)


def has_whole_rows(problem: Problem, grid: Grid | None, isa: Isa) -> bool:
    """Whether the panels of a product are whole rows of it."""
    n, spec = problem.sizes[1], problem.spec if grid is None else grid.spec
    columns = choose_plan(spec, isa).columns
    return isinstance(n, int) and n <= (columns if grid is None else min(columns, grid.columns))


def multiply_anywhere(e: Emitter, op: Operation, matrices: tuple[Matrix, Matrix, Matrix]) -> None:
    """Operands of any strides: the same chains, one at a time."""
    c, a, b = matrices
    pointers = [e.buffer(value).pointer for value in op.operands]
    index, text = e.index, e.text
    kind = "INT32" if c.dtype == "INT32" else "FP32"
    element = REGISTER_ELEMENT[kind]
    sources = source_of(a.dtype, b.dtype), source_of(b.dtype, a.dtype)
    flushes = e.module.isa.has_pair_dot and sources[0].flushes

    def settled(ref: str) -> str:
        return without_denormals(text, ref, kind, 1) if flushes else ref

    with index.steps(0, c.shape[0], 1) as i, index.steps(0, c.shape[1], 1) as j:
        place = index.place(pointers[0], c.offset(index, i, j), element)
        start = constant(0, kind, 1)
        if op.attrs["accumulate"]:
            start = text.let(f"load {element}, ptr {place}, align 4")
        with text.loop(0, a.shape[1], 1, [(element, start)]) as state:
            k = state.counter
            factors = [
                load_wide(e, pointers[1], sources[0], a.offset(index, i, k)),
                load_wide(e, pointers[2], sources[1], b.offset(index, k, j)),
            ]
            total = word(text, "fma", kind, 1, *factors, settled(state.carries[0]))
            state.following = [settled(total)]
        text.do(f"store {element} {state.carries[0]}, ptr {place}, align 4")


def load_wide(e: Emitter, pointer: str, source: Source, offset: Num) -> str:
    """One element as FP32 or INT32."""
    place = e.index.place(pointer, offset, source.element)
    value = e.text.let(f"load {source.element}, ptr {place}, align 1")
    return widened(e.text, value, source, 1)


def turned(op: Operation, a: Matrix, b: Matrix) -> tuple[Matrix, Matrix]:
    """A and B as the product takes them."""
    return (
        a.transposed if op.attrs["a_trans"] else a,
        b.transposed if op.attrs["b_trans"] else b,
    )


# ---------------------------------------------------------------------- a grid of blocks


def ceildiv(x: int, y: int) -> int:
    """x / y, rounded up."""
    return -(-x // y)


@dataclass(frozen=True, slots=True)
class Grid:
    """Blocks of `rows` x `columns` of C: the matmul of one, and of one in the last column.

    If one `spans` blocks, those that a thread takes at a time are one to it.
    """

    rows: int
    columns: int
    spec: Matmul
    last: Matmul
    spans: bool = False


def grid_of(problem: Problem, isa: Isa) -> Grid:
    """Blocks that pack A and B seldom, but that are enough for a few threads."""
    m, n, _ = problem.sizes
    if isinstance(m, int) and 0 < m < PACKING_ROWS * isa.rows:
        return few_rows(problem, m)
    plan = choose_plan(problem.spec, isa)
    columns = min(plan.columns, MOST_COLUMNS)
    across = ceildiv(n, columns) if isinstance(n, int) else CELLS
    rows = ROW_BLOCK
    if isinstance(m, int):
        most = max(1, m // LEAST_ROWS[plan.group])
        down = max(ceildiv(m, ROW_BLOCK), min(most, ceildiv(CELLS, across)))
        rows = ceildiv(ceildiv(m, down), plan.rows) * plan.rows
    spec = replace(
        problem.spec,
        m=m if isinstance(m, int) and m <= rows else None,
        unit=rows if isinstance(m, int) and m % rows == 0 else 1,
        n=min(columns, n) if isinstance(n, int) else None,
        packs=not isinstance(n, int) or n > isa.in_place,
    )
    rest = n % columns if isinstance(n, int) and n > columns else 0
    return Grid(rows, columns, spec, replace(spec, n=rest) if rest else spec)


def few_rows(problem: Problem, rows: int) -> Grid:
    """Long rows of B, read once and in place: what a product of few rows waits for is memory."""
    spec = replace(problem.spec, m=rows, n=None)
    return Grid(rows, STREAM_COLUMNS, spec, spec, spans=True)


Range = tuple[Num, ...]
"""Where something begins and ends."""


class GridWriter:
    """Writes blocks of C as cells of a parallel loop; each packs its own part of B.

    Those of the same columns follow each other: a thread that has some of them packs B once.
    """

    def __init__(self, e: Emitter, problem: Problem, call: Call, grid: Grid) -> None:
        self.e, self.problem, self.call, self.grid = e, problem, call, grid

    def write(self, scratch: Num, work: Work) -> None:
        """The loop."""
        m, n, _ = self.problem.sizes
        grid, index = self.grid, self.e.index
        across = self.blocks(n, grid.columns)
        down = self.blocks(m, grid.rows)

        def write(cell: CellEmitter, begin: Num, end: Num) -> None:
            high, local = cell.capture_num(down), cell.index
            last = local.floordiv(local.sub(local.add(end, high), 1), high)
            with local.steps(local.floordiv(begin, high), last, 1) as number:
                first = local.mul(number, high)
                top = local.maximum(local.sub(begin, first), 0)
                bottom = local.minimum(local.sub(end, first), high)
                rows = tuple(local.mul(each, grid.rows) for each in (top, bottom))
                column = local.mul(number, grid.columns)
                columns = column, local.add(column, grid.columns)
                self.write_block(cell, rows, columns, scratch)

        def write_span(cell: CellEmitter, begin: Num, end: Num) -> None:
            columns = tuple(cell.index.mul(each, grid.columns) for each in (begin, end))
            self.write_block(cell, (0, grid.rows), columns, scratch)

        run_ranges(self.e, index.mul(across, down), work, write_span if grid.spans else write)

    def blocks(self, extent: Num, size: int) -> Num:
        """How many blocks an extent has."""
        return self.e.index.floordiv(self.e.index.add(extent, size - 1), size)

    def write_block(self, cell: CellEmitter, rows: Range, columns: Range, scratch: Num) -> None:
        """Rows and columns of C, as far as it has them; those of the last column may be fewer."""
        call, grid, text = self.block_call(cell, rows, columns), self.grid, cell.text
        work = cell.index.place(cell.arena, cell.capture_num(scratch), "i8")
        if grid.last == grid.spec:
            call.write(cell, grid.spec, work)
            return
        usual, last, after = text.label(), text.label(), text.label()
        narrower = text.let(f"icmp slt i64 {call.sizes[1]}, {grid.columns}")
        text.branch(narrower, last, usual)
        for label, spec in ((usual, grid.spec), (last, grid.last)):
            text.start(label)
            call.write(cell, spec, work)
            text.jump(after)
        text.start(after)

    def block_call(self, cell: CellEmitter, rows: Range, columns: Range) -> Call:
        """Where the block of C, its rows of A and its columns of B are, and how large it is."""
        problem, index, call = self.problem, cell.index, self.call
        row, column = rows[0], columns[0]
        m, n, k = (cell.capture_num(size) for size in problem.sizes)
        ldc, lda, ldb = (cell.capture_num(each) for each in problem.strides)
        c, a, b = (cell.capture(pointer, "ptr") for pointer in call.pointers)
        ai = lda if problem.spec.a_major == "k" else 1
        bj = 1 if problem.spec.b_major == "n" else ldb
        element = problem.spec.element
        pointers = (
            index.place(c, index.add(index.mul(row, ldc), column), element),
            index.place(a, index.mul(row, ai), problem.spec.a_source.element),
            index.place(b, index.mul(column, bj), problem.spec.b_source.element),
        )
        sizes = (
            index.sub(index.minimum(rows[1], m), row),
            index.sub(index.minimum(columns[1], n), column),
            k,
        )
        strides, env = (ldc, lda, ldb), cell.capture(call.env, "ptr") if call.env else ""
        return Call(pointers, sizes, strides, call.accumulate, env, call.panel, (row, column))


def as_matrix(buffer: Buffer) -> Matrix:
    """A rank-2 buffer."""
    return Matrix(
        buffer.dtype,
        (buffer.shape[0], buffer.shape[1]),
        (buffer.strides[0], buffer.strides[1]),
    )


def matmul_scratch(op: Operation, isa: Isa) -> int:
    """The bytes of workspace of a loop.matmul, as one call or as a grid."""
    c, a, b = (typed_matrix(value) for value in op.operands)
    problem = plan_matmul(c, *turned(op, a, b))
    if problem is None:
        return 0
    whole = workspace_bytes(problem.spec, isa)
    if not is_long(estimate_one(op)):
        return whole
    grid = grid_of(problem, isa)
    return max(whole, workspace_bytes(grid.spec, isa), workspace_bytes(grid.last, isa))


def typed_matrix(value: Value) -> Matrix:
    """A buffer by its type alone; what run time decides is given as text."""
    kind = value.type
    assert isinstance(kind, BufferType)
    shape = tuple(placeholder(dim) for dim in kind.shape)
    strides = tuple(placeholder(dim) for dim in kind.strides)
    return Matrix(kind.dtype.name, (shape[0], shape[1]), (strides[0], strides[1]))


def placeholder(dim: Dim) -> Num:
    """A known extent, or any text."""
    return dim if isinstance(dim, int) else "?"
