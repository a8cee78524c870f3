"""loop.matmul: find how each operand lies in memory, then call the matmul that fits."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.codegen.emitter import Emitter, emits
from tilewright.codegen.index import Num
from tilewright.codegen.matmul import Matmul, require_matmul, workspace_bytes
from tilewright.codegen.operands import Buffer
from tilewright.errors import InternalError
from tilewright.ir.core import Operation, Value
from tilewright.ir.types import BufferType, Dim
from tilewright.ops import loop
from tilewright.target import Isa


@dataclass(frozen=True, slots=True)
class Matrix:
    """One operand as a matrix: `shape` and `strides` of its rows and columns."""

    dtype: str
    shape: tuple[Num, Num]
    strides: tuple[Num, Num]

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


def plan_matmul(c: Matrix, a: Matrix, b: Matrix) -> Problem:
    """How to compute c = a @ b; InternalError if an operand has no axis of unit stride."""
    swapped = c.unit_axis == 0 and c.strides[1] != 1
    if swapped:
        c, a, b = c.transposed, b.transposed, a.transposed
    axes = (c.unit_axis, a.unit_axis, b.unit_axis)
    if None in axes or axes[0] != 1:
        raise InternalError("loop.matmul: an operand has no axis of unit stride")
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


@emits(loop.matmul)
def emit_matmul(e: Emitter, op: Operation) -> None:
    """A call of the matmul of this shape and layout."""
    buffers = [e.buffer(value) for value in op.operands]
    c, a, b = (as_matrix(buffer) for buffer in buffers)
    a = a.transposed if op.attrs["a_trans"] else a
    b = b.transposed if op.attrs["b_trans"] else b
    problem = plan_matmul(c, a, b)
    symbol = require_matmul(e.module, problem.spec)
    pointers = [buffer.pointer for buffer in buffers]
    if problem.swapped:
        pointers = [pointers[0], pointers[2], pointers[1]]
    work = e.index.place(e.arena, e.scratch(op), "i8")
    e.text.do(f"call fastcc void {symbol}({call_arguments(problem, pointers, work, op)})")


def call_arguments(problem: Problem, pointers: list[str], work: str, op: Operation) -> str:
    """The arguments of a matmul function."""
    c, a, b = problem.c, problem.a, problem.b
    lda = a.strides[1 - (a.unit_axis or 0)]
    ldb = b.strides[1 - (b.unit_axis or 0)]
    accumulate = "true" if op.attrs["accumulate"] else "false"
    return (
        f"ptr {pointers[0]}, i64 {c.strides[0]}, ptr {pointers[1]}, i64 {lda}, "
        f"ptr {pointers[2]}, i64 {ldb}, i64 {a.shape[0]}, i64 {b.shape[1]}, i64 {a.shape[1]}, "
        f"ptr {work}, i1 {accumulate}"
    )


def as_matrix(buffer: Buffer) -> Matrix:
    """A rank-2 buffer."""
    return Matrix(
        buffer.dtype,
        (buffer.shape[0], buffer.shape[1]),
        (buffer.strides[0], buffer.strides[1]),
    )


def matmul_scratch(op: Operation, isa: Isa) -> int:
    """The bytes of workspace of a loop.matmul."""
    matrices = [typed_matrix(value) for value in op.operands]
    c, a, b = matrices
    a = a.transposed if op.attrs["a_trans"] else a
    b = b.transposed if op.attrs["b_trans"] else b
    return workspace_bytes(plan_matmul(c, a, b).spec, isa)


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
