"""Copies that exchange two axes, found as loop nests and done by squares of 16 x 16."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.codegen.emit_parallel import (
    PARALLEL,
    CellEmitter,
    estimate_loop,
    is_long,
    run_cells,
)
from tilewright.codegen.emitter import Emitter, Extents
from tilewright.codegen.index import Num
from tilewright.codegen.squares import Squares, square_element
from tilewright.codegen.work import index_expr
from tilewright.dataclass import dataclass
from tilewright.ir.affine import Expr, Symbol, as_expr, coefficient, fold, symbols
from tilewright.ir.core import Block, Operation, Value
from tilewright.ir.enums import ForKind
from tilewright.ir.opdef import OpDef
from tilewright.ops import arith, control, loop
from tilewright.ops.touches import root_of

ROWS_PER_CELL = 64
INDEX_WORDS: tuple[OpDef[..., Any], ...] = (
    arith.const,
    arith.add,
    arith.sub,
    arith.mul,
    loop.extent,
)


@dataclass(frozen=True, slots=True)
class Access:
    """An element of a buffer: the index of each axis is rest + row*r + column*c."""

    buffer: Value
    rests: tuple[Expr, ...]
    rows: tuple[int, ...]
    columns: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Exchange:
    """dst(r, c) = src(r, c) for all r of an outer loop and c of the lanes loop in it."""

    lanes: Operation
    target: Access
    source: Access


def find_exchange(op: Operation) -> Exchange | None:
    """The copy that a loop nest is, if it is nothing else."""
    if op.operands[3] or index_expr(op.operands[2]) != 1:
        return None
    inner = only(op.regions[0], control.for_)
    if inner is None or inner.attrs["kind"] is not ForKind.Lanes or inner.operands[3]:
        return None
    load, store = copied_element(inner.regions[0])
    if load is None or store is None:
        return None
    counters = op.regions[0].params[0], inner.regions[0].params[0]
    r, c = (counter.symbol for counter in counters)
    source = access_of(load.operands[0], load.operands[1], r, c)
    target = access_of(store.operands[0], store.operands[1], r, c)
    if source is None or target is None or load.operands[0] is store.operands[0]:
        return None
    return Exchange(inner, target, source)


def only(block: Block, opdef: OpDef[..., Any]) -> Operation | None:
    """The one operation of a block beside index arithmetic, if it is of `opdef`."""
    rest = [op for op in block.ops[:-1] if op.opdef not in INDEX_WORDS]
    return rest[0] if len(rest) == 1 and rest[0].opdef is opdef else None


def copied_element(block: Block) -> tuple[Operation | None, Operation | None]:
    """The load and the store of a block that does nothing but copy one element."""
    rest = [op for op in block.ops[:-1] if op.opdef not in INDEX_WORDS]
    if [op.opdef for op in rest] != [loop.load, loop.store]:
        return None, None
    load, store = rest
    plain = load.operands[2] is None and store.operands[3] is None
    return (load, store) if plain and store.operands[2] is load.result else (None, None)


def access_of(buffer: Value, indices: tuple[Value, ...], r: Symbol, c: Symbol) -> Access | None:
    """The indices as linear in the two counters; None where one is not."""
    rests: list[Expr] = []
    rows: list[int] = []
    columns: list[int] = []
    for value in indices:
        expr = index_expr(value)
        if expr is None:
            return None
        row, column = coefficient(expr, r), coefficient(expr, c)
        if not isinstance(row, int) or not isinstance(column, int):
            return None
        rest = expr - row * as_expr(r) - column * as_expr(c)
        if {r, c} & set(symbols(rest)):
            return None
        rests.append(rest)
        rows.append(row)
        columns.append(column)
    return Access(buffer, tuple(rests), tuple(rows), tuple(columns))


def step_along(e: Emitter, access: Access, factors: tuple[int, ...]) -> Num:
    """Elements from one value of a counter to the next."""
    total: Num = 0
    for factor, stride in zip(factors, e.buffer(access.buffer).strides, strict=True):
        total = e.index.add(total, e.index.mul(factor, stride))
    return total


def emit_exchange(e: Emitter, op: Operation) -> bool:
    """Writes a copy that exchanges axes; False if `op` is anything else."""
    if e.lanes is not None:
        return False
    found = find_exchange(op)
    if found is None:
        return False
    steps = (
        step_along(e, found.source, found.source.rows),
        step_along(e, found.target, found.target.columns),
    )
    far = step_along(e, found.source, found.source.columns)
    if steps != (1, 1) or far == 1:
        return False
    if not all(e.find_extent(s) is not None for s in outer_symbols(found)):
        return False
    ExchangeWriter(e, op, found, far).write()
    return True


def outer_symbols(found: Exchange) -> set[Symbol]:
    """The symbols that the places of the copy depend on."""
    rests = (*found.target.rests, *found.source.rests)
    return {symbol for rest in rests for symbol in symbols(rest)}


class ExchangeWriter:
    """Writes one such copy, as cells where it is long and parallel."""

    def __init__(self, e: Emitter, op: Operation, found: Exchange, far: Num) -> None:
        self.op, self.found, self.far = op, found, far
        low, high = op.operands[:2]
        start, end = found.lanes.operands[:2]
        self.low, self.start = e.num(low), inner_num(e, start)
        self.rows = e.index.maximum(e.index.sub(e.num(high), self.low), 0)
        self.columns = e.index.maximum(e.index.sub(inner_num(e, end), self.start), 0)
        self.e = e

    def write(self) -> None:
        """All rows, or cells of some rows each."""
        e, work = self.e, estimate_loop(self.op)
        parallel = self.op.attrs["kind"] in PARALLEL
        if isinstance(e, CellEmitter) or not parallel or not is_long(work):
            self.call(e, 0, self.rows, lambda num: num)
            return
        count = e.index.floordiv(e.index.add(self.rows, ROWS_PER_CELL - 1), ROWS_PER_CELL)

        def write(cell: CellEmitter, number: Num) -> None:
            first = cell.index.mul(number, ROWS_PER_CELL)
            left = cell.index.sub(cell.capture_num(self.rows), first)
            self.call(cell, first, cell.index.minimum(left, ROWS_PER_CELL), cell.capture_num)

        run_cells(e, count, work, write)

    def call(self, e: Emitter, first: Num, rows: Num, here: Callable[[Num], Num]) -> None:
        """Rows [first, first + rows), counted from the first of the loop."""
        target, source = self.found.target, self.found.source
        element = square_element(e.buffer(source.buffer).dtype)
        row = e.index.add(here(self.low), first)
        column = here(self.start)
        dst = self.place(e, target, row, column, element)
        src = self.place(e, source, row, column, element)
        pitch = step_along(e, target, target.rows)
        streamed = e.shared.streamed.get(root_of(target.buffer))
        mask = -1 if streamed is None else e.brought_num(streamed)
        squares = Squares(e, element, dst, src, pitch, here(self.far), rows)
        squares.write(here(self.columns), mask)

    def place(self, e: Emitter, access: Access, row: Num, column: Num, element: str) -> str:
        """Where the element of these counters is."""
        index, buffer = e.index, e.buffer(access.buffer)
        total: Num = 0
        parts = zip(access.rests, access.rows, access.columns, buffer.strides, strict=True)
        for rest, by_row, by_column, stride in parts:
            position = index.add(fold(rest, Extents(e)), index.mul(row, by_row))
            position = index.add(position, index.mul(column, by_column))
            total = index.add(total, index.mul(position, stride))
        return index.place(buffer.pointer, total, element)


def inner_num(e: Emitter, value: Value) -> Num:
    """A bound of the lanes loop, which may be made in the body of the outer one."""
    expr = index_expr(value)
    assert expr is not None
    return fold(expr, Extents(e))
