"""A loader for x86-64 ELF relocatable objects: sections, symbols, relocations, pages.

It exists so that a process with a warm cache starts without LLVM. The pages are written while they
are writable and not executable, then protected; they are unmapped when the `ElfImage` dies.
"""

from __future__ import annotations

import ctypes
import mmap
import struct
import weakref
from collections.abc import Callable, Mapping

from tilewright.dataclass import dataclass
from tilewright.errors import ToolchainError

_WRITE, _ALLOC, _EXEC = 1, 2, 4
_SYMTAB, _RELA, _NOBITS = 2, 4, 8
_UNDEFINED, _ABSOLUTE, _FIRST_RESERVED = 0, 0xFFF1, 0xFF00
_GLOBAL = 1
_PAGE = mmap.PAGESIZE
_THUNK = b"\xff\x25"  # jmp *rel32(%rip)
_THUNK_SIZE = 8

_R64, _PC32, _PLT32, _GOTPCREL, _R32, _R32S, _PC64 = 1, 2, 4, 9, 10, 11, 24
_GOT_LOADS = frozenset({_GOTPCREL, 41, 42})  # 41, 42: the relaxable forms
_FORMATS = {_R64: "<Q", _PC64: "<q", _R32: "<I", _R32S: "<i"}

Resolve = Callable[[str], int]

_libc = ctypes.CDLL(None)
_mmap = _libc.mmap
_mmap.restype = ctypes.c_void_p
_mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
_munmap = _libc.munmap
_munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_mprotect = _libc.mprotect
_mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


@dataclass(frozen=True, slots=True)
class _Section:
    name: str
    type: int
    flags: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int


@dataclass(frozen=True, slots=True)
class _Symbol:
    name: str
    section: int
    value: int
    is_global: bool


@dataclass(frozen=True, slots=True)
class _Relocation:
    section: int
    offset: int
    type: int
    symbol: int
    addend: int


class _Object:
    """The tables of one object file."""

    def __init__(self, data: bytes) -> None:
        if data[:6] != b"\x7fELF\x02\x01" or data[16:20] != b"\x01\x00\x3e\x00":
            raise ToolchainError("not an x86-64 ELF relocatable object")
        self.data = data
        (start,) = struct.unpack_from("<Q", data, 40)
        size, count, names = struct.unpack_from("<HHH", data, 58)
        raw = [struct.unpack_from("<IIQQQQIIQQ", data, start + i * size) for i in range(count)]
        at = raw[names][4]
        self.sections = [
            _Section(self._text(at + r[0]), r[1], r[2], r[4], r[5], r[6], r[7], r[8]) for r in raw
        ]
        self.symbols = self._read_symbols()

    def _text(self, at: int) -> str:
        return self.data[at : self.data.index(b"\0", at)].decode()

    def _read_symbols(self) -> list[_Symbol]:
        table = next(s for s in self.sections if s.type == _SYMTAB)
        names = self.sections[table.link].offset
        view = self.data[table.offset : table.offset + table.size]
        return [
            _Symbol(self._text(names + name), section, value, info >> 4 == _GLOBAL)
            for name, info, _, section, value, _ in struct.iter_unpack("<IBBHQQ", view)
        ]

    def loaded(self) -> dict[int, _Section]:
        """The sections that take memory; unwind tables are left out."""
        return {
            index: s
            for index, s in enumerate(self.sections)
            if s.flags & _ALLOC and not s.name.startswith(".eh_frame")
        }

    def relocations(self, loaded: Mapping[int, _Section]) -> list[_Relocation]:
        """What must be patched in the loaded sections."""
        return [
            _Relocation(s.info, offset, info & 0xFFFFFFFF, info >> 32, addend)
            for s in self.sections
            if s.type == _RELA and s.info in loaded
            for offset, info, addend in struct.iter_unpack(
                "<QQq", self.data[s.offset : s.offset + s.size]
            )
        ]


def _round_up(value: int, alignment: int) -> int:
    return -(-value // alignment) * alignment


class ElfImage:
    """One loaded object. `address(name)` gives the address of a symbol it defines."""

    def __init__(self, data: bytes, resolve: Resolve) -> None:
        self._object = _Object(data)
        self._loaded = self._object.loaded()
        self._relocations = self._object.relocations(self._loaded)
        used = dict.fromkeys(r.symbol for r in self._relocations)
        self._slots = {symbol: number for number, symbol in enumerate(used)}
        self._place()
        self._fill(resolve)
        self._protect()

    def address(self, name: str) -> int:
        """The address of a symbol of this object; raises KeyError."""
        for symbol in self._object.symbols:
            if symbol.name == name and symbol.section != _UNDEFINED:
                return self._symbol_address(symbol)
        raise KeyError(name)

    def exports(self) -> dict[str, int]:
        """The addresses of the symbols that other objects may refer to."""
        return {
            symbol.name: self._symbol_address(symbol)
            for symbol in self._object.symbols
            if symbol.is_global and symbol.section != _UNDEFINED
        }

    def _place(self) -> None:
        """Give every section its offset: executable pages, then read-only ones, then writable."""
        self._offsets: dict[int, int] = {}
        end = self._place_group(len(self._slots) * _THUNK_SIZE, _EXEC)
        self._got = self._readonly = _round_up(end, _PAGE)
        end = self._place_group(self._got + 8 * len(self._slots), 0)
        self._writable = _round_up(end, _PAGE)
        end = self._place_group(self._writable, _WRITE)
        self._size = max(_round_up(end, _PAGE), _PAGE)

    def _place_group(self, cursor: int, kind: int) -> int:
        for index, section in self._loaded.items():
            if section.flags & (_EXEC | _WRITE) == kind:
                cursor = _round_up(cursor, max(1, section.alignment))
                self._offsets[index] = cursor
                cursor += section.size
        return cursor

    def _fill(self, resolve: Resolve) -> None:
        image = bytearray(self._size)
        for index, section in self._loaded.items():
            if section.type != _NOBITS:
                at = self._offsets[index]
                raw = self._object.data[section.offset : section.offset + section.size]
                image[at : at + section.size] = raw
        self._base = _map_pages(self._size)
        finalizer = weakref.finalize(self, _munmap, self._base, self._size)
        finalizer.atexit = False  # threads may still run this code when the process ends
        self._targets = self._bind(resolve)
        self._write_tables(image)
        for relocation in self._relocations:
            self._relocate(image, relocation)
        ctypes.memmove(self._base, bytes(image), self._size)

    def _bind(self, resolve: Resolve) -> dict[int, int]:
        """Symbol index -> address, for every symbol a relocation names."""
        symbols = self._object.symbols
        return {
            index: resolve(symbols[index].name)
            if symbols[index].section == _UNDEFINED
            else self._symbol_address(symbols[index])
            for index in self._slots
        }

    def _symbol_address(self, symbol: _Symbol) -> int:
        if symbol.section == _ABSOLUTE:
            return symbol.value
        if symbol.section >= _FIRST_RESERVED or symbol.section not in self._offsets:
            raise ToolchainError(f"symbol {symbol.name!r} is in no loaded section")
        return self._base + self._offsets[symbol.section] + symbol.value

    def _write_tables(self, image: bytearray) -> None:
        """The address of each symbol, and a jump through it for calls that reach too far."""
        for symbol, number in self._slots.items():
            slot, thunk = self._got + 8 * number, _THUNK_SIZE * number
            struct.pack_into("<Q", image, slot, self._targets[symbol])
            image[thunk : thunk + 2] = _THUNK
            struct.pack_into("<i", image, thunk + 2, slot - (thunk + 6))

    def _relocate(self, image: bytearray, relocation: _Relocation) -> None:
        at = self._offsets[relocation.section] + relocation.offset
        target = self._targets[relocation.symbol] + relocation.addend
        number = self._slots[relocation.symbol]
        kind, place = relocation.type, self._base + at
        if kind in _GOT_LOADS:
            struct.pack_into("<i", image, at, self._got + 8 * number + relocation.addend - at)
        elif kind in (_PC32, _PLT32):
            distance = target - place
            if not -(1 << 31) <= distance < 1 << 31:
                distance = _THUNK_SIZE * number + relocation.addend - at
            struct.pack_into("<i", image, at, distance)
        elif kind in _FORMATS:
            struct.pack_into(_FORMATS[kind], image, at, target - place if kind == _PC64 else target)
        else:
            raise ToolchainError(f"relocation type {kind} is not one the loader knows")

    def _protect(self) -> None:
        groups = (
            (0, self._readonly, mmap.PROT_READ | mmap.PROT_EXEC),
            (self._readonly, self._writable, mmap.PROT_READ),
        )
        for start, end, protection in groups:
            if end > start and _mprotect(self._base + start, end - start, protection):
                raise ToolchainError("this system does not let a process make pages executable")


def _map_pages(size: int) -> int:
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    address = _mmap(None, size, mmap.PROT_READ | mmap.PROT_WRITE, flags, -1, 0)
    if address in (None, ctypes.c_void_p(-1).value):
        raise MemoryError(f"no memory for {size} bytes of code")
    return int(address)
