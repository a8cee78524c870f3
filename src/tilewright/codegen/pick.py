"""Numbers from small tables, by an index in each lane."""

from __future__ import annotations

from tilewright.codegen.lanes import Lanes, select
from tilewright.codegen.text import (
    ELEMENT_BYTES,
    Module,
    constant_text,
    type_text,
    vector_text,
)
from tilewright.hashes import blake

ENTRIES = 16
Table = tuple[float, ...]


def pick(table: Table, index: Lanes) -> Lanes:
    """The entry of a table of sixteen floats that the low four bits of an i32 number, per lane."""
    whole = index.text.isa.table_entries
    if index.lanes != ENTRIES or not whole:
        return pick_from_memory(table, index)
    return permuted(table, index) if whole == ENTRIES else permuted_by_halves(table, index)


def permuted(table: Table, index: Lanes) -> Lanes:
    """A table that fills a register, under one permutation."""
    kind = type_text("float", ENTRIES)
    arguments = f"{kind} {vector_text(table, 'float')}, {index.type} {index.ref}"
    call = f"call {kind} @llvm.x86.avx512.permvar.sf.512({arguments})"
    return index.like(index.text.let(call), "float")


def permuted_by_halves(table: Table, index: Lanes) -> Lanes:
    """A table that fills two registers, of which bit 3 of the index chooses one."""
    text, half = index.text, ENTRIES // 2
    kind = type_text("float", half)
    is_high = (index & half).ne(0)
    sides: list[Lanes] = []
    for side in (table[:half], table[half:]):
        parts: list[str] = []
        for start in (0, half):
            picks = vector_text(range(start, start + half), "i32")
            source = f"{index.type} {index.ref}, {index.type} poison"
            part = text.let(f"shufflevector {source}, <{half} x i32> {picks}")
            arguments = f"{kind} {vector_text(side, 'float')}, <{half} x i32> {part}"
            parts.append(text.let(f"call {kind} @llvm.x86.avx2.permps({arguments})"))
        both = vector_text(range(ENTRIES), "i32")
        operands = f"{kind} {parts[0]}, {kind} {parts[1]}, <{ENTRIES} x i32> {both}"
        sides.append(index.like(text.let(f"shufflevector {operands}"), "float"))
    return select(is_high, sides[1], sides[0])


def pick_from_memory(table: Table, index: Lanes) -> Lanes:
    """A table in memory, for one lane or a target without permutations."""
    return fetch(table, index & (ENTRIES - 1), "float")


def fetch(table: Table | tuple[int, ...], index: Lanes, element: str) -> Lanes:
    """The entry of a table in memory that an i32 or i64 numbers, per lane; it must be in there."""
    text, size = index.text, ELEMENT_BYTES[element]
    name = require_table(text.module, table, element)
    result = index.like("", element)
    places = text.let(f"getelementptr {element}, ptr {name}, {index.type} {index.ref}")
    if index.lanes == 1:
        return result.like(text.let(f"load {element}, ptr {places}, align {size}"))
    every = f"{type_text('i1', index.lanes)} {constant_text(True, 'i1', index.lanes)}"
    pointers = f"{type_text('ptr', index.lanes)} align {size} {places}"
    arguments = f"{pointers}, {every}, {result.type} poison"
    overload = f"{result.suffix}.v{index.lanes}p0"
    return result.like(text.let(f"call {result.type} @llvm.masked.gather.{overload}({arguments})"))


def require_table(module: Module, table: Table | tuple[int, ...], element: str) -> str:
    """The symbol of a table, equal ones being one."""
    values = vector_text(table, element)[1:-1]
    name = f"@tilewright.table.{blake(values.encode()).hexdigest()[:16]}"
    kind = f"[{len(table)} x {element}]"
    module.require(name, lambda _: f"{name} = private unnamed_addr constant {kind} [{values}]\n")
    return name
