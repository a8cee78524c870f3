"""Names of values and symbols in printed text: the author's, numbered only on a clash."""

from __future__ import annotations

import builtins
import keyword
from collections.abc import Generator
from contextlib import contextmanager

from tilewright.ir.affine import Expr, Symbol, as_expr, substitute, symbols
from tilewright.ir.core import Value
from tilewright.ir.types import ScalarType

RESERVED = frozenset(keyword.kwlist) | {"pl", "pld", "self", "float", "range"} | set(dir(builtins))


class NameTable:
    """Gives each value and each free symbol one name, unique in the function."""

    def __init__(self) -> None:
        self._taken: set[str] = set(RESERVED)
        self._last: dict[str, int] = {}  # the last number given to a wanted name
        self._values: dict[Value, str] = {}
        self._symbols: dict[Symbol, str] = {}
        self._hints: dict[Value, str] = {}
        self.free: dict[Symbol, str] = {}

    def share(self, free: dict[Symbol, str]) -> None:
        """Uses the declarations of free symbols that other functions of the program made."""
        self.free = free
        self._symbols.update(free)
        self._taken.update(free.values())

    def fresh(self, wanted: str) -> str:
        """`wanted`, or `wanted_1`, `wanted_2`, ... when it is taken."""
        name = wanted
        if name in self._taken:
            number = self._last.get(wanted, 0)
            while name in self._taken:
                number += 1
                name = f"{wanted}_{number}"
            self._last[wanted] = number
        self._taken.add(name)
        return name

    def hint(self, value: Value, base: Value) -> None:
        """An unnamed new version of `base` is called like it."""
        self._hints[value] = base.name or self._hints.get(base, "")

    def define(self, value: Value) -> str:
        """A new name for `value`, from its hint."""
        hint = value.name or self._hints.get(value)
        hint = hint or ("s" if isinstance(value.type, ScalarType) else "t")
        return self.alias(value, self.fresh(hint))

    def alias(self, value: Value, name: str) -> str:
        """Makes `name` the name of `value` and of the symbol that stands for it."""
        self._values[value] = name
        if value.has_symbol:
            self._symbols[value.symbol] = name
        return name

    def find(self, value: Value) -> str | None:
        """The name of `value`, or None when it has none yet."""
        return self._values.get(value)

    def of_symbol(self, symbol: Symbol) -> str:
        """The name of `symbol`; one that no value stands for is free and becomes declared."""
        name = self._symbols.get(symbol)
        if name is None:
            name = self._symbols[symbol] = self.free[symbol] = self.fresh(symbol.name)
        return name

    @contextmanager
    def scoped(self, dims: tuple[Symbol, ...]) -> Generator[list[str]]:
        """Names of symbols that a lambda binds, taken inside it only."""
        names = [self.fresh(dim.name) for dim in dims]
        self._symbols.update(zip(dims, names, strict=True))
        yield names
        self._taken.difference_update(names)
        for dim in dims:
            self._last.pop(dim.name, None)

    def expr(self, expr: Expr | int) -> str:
        """Text of an affine expression under these names."""
        if isinstance(expr, int):
            return str(expr)
        renamed = {
            symbol: as_expr(Symbol(name))
            for symbol in symbols(expr)
            if (name := self.of_symbol(symbol)) != symbol.name
        }
        return str(substitute(expr, renamed) if renamed else expr)
