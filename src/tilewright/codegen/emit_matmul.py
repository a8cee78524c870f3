"""loop.matmul: find how each operand lies in memory, then call the matmul that fits."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tilewright.codegen.emit_parallel import CellEmitter, is_long, run_cells
from tilewright.codegen.emitter import Emitter, emits
from tilewright.codegen.formats import REGISTER_ELEMENT
from tilewright.codegen.index import Index, Num
from tilewright.codegen.matmul import Matmul, require_matmul, workspace_bytes
from tilewright.codegen.operands import Buffer
from tilewright.codegen.packing import source_element
from tilewright.codegen.words import cast, constant, word
from tilewright.codegen.work import Work, estimate_one
from tilewright.ir.core import Operation, Value
from tilewright.ir.types import BufferType, Dim
from tilewright.ops import loop
from tilewright.target import Isa

ROW_BLOCKS = (256, 192, 128, 64, 128)
FEW_ROWS = 16
STREAM_BLOCKS = (4096, 2048, 1024, 2048)
COLUMN_BLOCKS = (512, 480, 384, 256, 192, 128, 384)


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
    swapped = c.unit_axis == 0 and c.strides[1] != 1
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
    """A matmul with its operands in registers."""

    problem: Problem
    pointers: tuple[str, str, str]
    accumulate: bool

    def write(self, e: Emitter, work: str) -> None:
        """All of it, by this thread."""
        problem = self.problem
        write_call(e, problem.spec, self, self.pointers, problem.sizes, problem.strides, work)


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
    call = Call(problem, pointers, op.attrs["accumulate"])
    work = estimate_one(op)
    if isinstance(e, CellEmitter) or e.lanes is not None or not is_long(work):
        call.write(e, e.index.place(e.arena, e.scratch(op), "i8"))
        return
    write_grid(e, call, e.scratch(op), work)


def multiply_anywhere(e: Emitter, op: Operation, matrices: tuple[Matrix, Matrix, Matrix]) -> None:
    """Operands of any strides: the same chains, one at a time."""
    c, a, b = matrices
    pointers = [e.buffer(value).pointer for value in op.operands]
    index, text = e.index, e.text
    kind = "INT32" if c.dtype == "INT32" else "FP32"
    element = REGISTER_ELEMENT[kind]
    with index.steps(0, c.shape[0], 1) as i, index.steps(0, c.shape[1], 1) as j:
        place = index.place(pointers[0], c.offset(index, i, j), element)
        start = constant(0, kind, 1)
        if op.attrs["accumulate"]:
            start = text.let(f"load {element}, ptr {place}, align 4")
        with text.loop(0, a.shape[1], 1, [(element, start)]) as state:
            k = state.counter
            factors = [
                load_wide(e, pointers[1], a, a.offset(index, i, k), kind),
                load_wide(e, pointers[2], b, b.offset(index, k, j), kind),
            ]
            state.following = [word(text, "fma", kind, 1, *factors, state.carries[0])]
        text.do(f"store {element} {state.carries[0]}, ptr {place}, align 4")


def load_wide(e: Emitter, pointer: str, matrix: Matrix, offset: Num, kind: str) -> str:
    """One element as FP32 or INT32."""
    element = source_element(matrix.dtype)
    place = e.index.place(pointer, offset, element)
    value = e.text.let(f"load {element}, ptr {place}, align 1")
    return cast(e.text, matrix.dtype, kind, "rint", 1, value)


def turned(op: Operation, a: Matrix, b: Matrix) -> tuple[Matrix, Matrix]:
    """A and B as the product takes them."""
    return (
        a.transposed if op.attrs["a_trans"] else a,
        b.transposed if op.attrs["b_trans"] else b,
    )


def write_call(
    e: Emitter,
    spec: Matmul,
    call: Call,
    pointers: tuple[str, str, str],
    sizes: tuple[Num, Num, Num],
    strides: tuple[Num, Num, Num],
    work: str,
) -> None:
    """One call of a matmul function."""
    symbol = require_matmul(e.module, spec)
    ldc, lda, ldb = strides
    m, n, k = sizes
    accumulate = "true" if call.accumulate else "false"
    arguments = (
        f"ptr {pointers[0]}, i64 {ldc}, ptr {pointers[1]}, i64 {lda}, ptr {pointers[2]}, i64 {ldb}"
    )
    arguments += f", i64 {m}, i64 {n}, i64 {k}, ptr {work}, i1 {accumulate}"
    e.text.do(f"call fastcc void {symbol}({arguments})")


# ---------------------------------------------------------------------- a grid of blocks


def block_size(extent: Num, candidates: tuple[int, ...]) -> int:
    """A block that divides a known extent, else the last candidate."""
    if isinstance(extent, int):
        for size in candidates:
            if extent % size == 0:
                return size
    return candidates[-1]


def grid_of(problem: Problem) -> tuple[int, int, Matmul]:
    """(rows, columns) of a block, and the matmul of one."""
    m, n, _ = problem.sizes
    if isinstance(m, int) and 0 < m < FEW_ROWS:
        return few_rows(problem, m)
    rows, columns = block_size(m, ROW_BLOCKS), block_size(n, COLUMN_BLOCKS)
    spec = replace(
        problem.spec,
        m=rows if isinstance(m, int) and m % rows == 0 else None,
        n=columns if isinstance(n, int) and n % columns == 0 else None,
        packs=True,
    )
    return rows, columns, spec


def few_rows(problem: Problem, rows: int) -> tuple[int, int, Matmul]:
    """Long rows of B, read once and in place: what a product of few rows waits for is memory."""
    n = problem.sizes[1]
    columns = block_size(n, STREAM_BLOCKS)
    is_whole = isinstance(n, int) and n % columns == 0
    return rows, columns, replace(problem.spec, m=rows, n=columns if is_whole else None)


def write_grid(e: Emitter, call: Call, scratch: Num, work: Work) -> None:
    """Blocks of C as cells of a parallel loop; each packs its own part of B."""
    rows, columns, spec = grid_of(call.problem)
    m, n, k = call.problem.sizes
    index = e.index
    across = index.floordiv(index.add(n, columns - 1), columns)
    down = index.floordiv(index.add(m, rows - 1), rows)

    def write(cell: CellEmitter, number: Num) -> None:
        wide, local = cell.capture_num(across), cell.index
        first = local.mul(local.floordiv(number, wide), rows)
        start = local.mul(local.mod(number, wide), columns)
        sizes = (
            local.minimum(local.sub(cell.capture_num(m), first), rows),
            local.minimum(local.sub(cell.capture_num(n), start), columns),
            cell.capture_num(k),
        )
        pointers = block_pointers(cell, call, first, start)
        place = local.place(cell.arena, cell.capture_num(scratch), "i8")
        ldc, lda, ldb = map(cell.capture_num, call.problem.strides)
        write_call(cell, spec, call, pointers, sizes, (ldc, lda, ldb), place)

    run_cells(e, index.mul(across, down), work, write)


def block_pointers(cell: CellEmitter, call: Call, row: Num, column: Num) -> tuple[str, str, str]:
    """Where the block of C, its rows of A and its columns of B are."""
    problem, index = call.problem, cell.index
    ldc, lda, ldb = (cell.capture_num(stride) for stride in problem.strides)
    c, a, b = (cell.capture(pointer, "ptr") for pointer in call.pointers)
    ai = lda if problem.spec.a_major == "k" else 1
    bj = 1 if problem.spec.b_major == "n" else ldb
    element = problem.spec.element
    return (
        index.place(c, index.add(index.mul(row, ldc), column), element),
        index.place(a, index.mul(row, ai), source_element(problem.spec.a_dtype)),
        index.place(b, index.mul(column, bj), source_element(problem.spec.b_dtype)),
    )


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
    return max(whole, workspace_bytes(grid_of(problem)[2], isa))


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
