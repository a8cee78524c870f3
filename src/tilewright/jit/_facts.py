"""What selects an artifact besides source text: names, defaults and evaluated annotations, as text.

Where text is not enough it is numbered: two dimensions of one label are two dimensions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tilewright.frontend.annotations import Directed, DynVar
from tilewright.frontend.namespace import Callee
from tilewright.ir.affine import Symbol, symbols
from tilewright.ir.core import Function
from tilewright.ir.types import TupleType, Type
from tilewright.jit import _specialize_values
from tilewright.jit._arguments import dims_of
from tilewright.runtime.views import describe_value


def is_callee(value: Any) -> bool:
    """True for functions and inline helpers of the parsed style that are no @pl.jit helpers."""
    return isinstance(value, (Callee, Function))


class FactWriter:
    """Writes the facts of one graph; `is_portable` turns False when one means nothing elsewhere."""

    def __init__(self) -> None:
        self.is_portable = True
        self._numbers: dict[int, int] = {}

    def text(self, value: Any) -> str | None:
        """The text of what a name means; None for what does not fold."""
        if isinstance(value, DynVar):
            return f"dynamic {self._symbol(value)}"
        if is_callee(value):
            self.is_portable = False
            return f"object {id(value)}"
        return _specialize_values.render_value(value)

    def declared(
        self, title: str, defaults: Mapping[str, Any], annotations: Mapping[str, Any]
    ) -> Iterator[tuple[str, str]]:
        """What Python evaluated when the function `title` was defined.

        The source does not tell: a default, or an extent, may be a local of a factory.
        """
        for name, value in defaults.items():
            yield f"default of {name} in {title}", self.text(value) or describe_value(value)
        for name, value in annotations.items():
            text = self._annotation(value)
            if text:
                yield f"annotation of {name} in {title}", text

    def _annotation(self, value: Any) -> str:
        """An evaluated annotation; "" for one that says no more than its source does."""
        if isinstance(value, Directed):
            return self._annotation(value.inner)
        if isinstance(value, Type):
            return f"{value.as_python()} {' '.join(map(self._symbol, _symbols_of(value)))}"
        return " ".join(map(self._annotation, getattr(value, "__args__", ())))

    def _symbol(self, symbol: Symbol) -> str:
        """A dimension's label and which one of the graph it is."""
        return f"{symbol.name}#{self._numbers.setdefault(id(symbol), len(self._numbers))}"


def _symbols_of(type_: Type) -> Iterator[Symbol]:
    if isinstance(type_, TupleType):
        for item in type_.items:
            yield from _symbols_of(item)
    for dim in dims_of(type_):
        yield from symbols(dim)
