"""Places where the author has asked to look at values while a program is interpreted."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from types import CodeType
from typing import Any

from tilewright.dataclass import dataclass
from tilewright.ir.affine.access import Access
from tilewright.ir.core import Block, Operation, Value
from tilewright.source import Span


@dataclass(frozen=True)
class Part:
    """The elements of a tensor that a view has: those of `whole` at `access`."""

    whole: Value
    access: Access


@dataclass(eq=False)
class Stop:
    """A `breakpoint()` of the author's: after the operations `before` of `block`.

    `names` are his local names: the values, parts and extents that they stand for, or what they
    mean in Python. `around` are the globals of his function, called `function`.
    """

    block: Block
    before: Sequence[Operation]
    names: dict[str, Any]
    span: Span
    function: str
    around: dict[str, Any]

    def replace(self, values: Mapping[Value, Value]) -> None:
        """Takes over that some values have become others."""
        self.names = {name: _replaced(given, values) for name, given in self.names.items()}

    @property
    def place(self) -> Operation | Block | None:
        """The last operation before it that is left; the block, or None for a function's, if none.

        The block of a function is another one when it is finished.
        """
        left = set(self.block.ops)
        found = next((op for op in reversed(self.before) if op in left), None)
        return found or (self.block if self.block.params else None)

    def reach(self, values: Mapping[str, Any]) -> None:
        """Stops at the author's line: `values` are what his names stand for now."""
        exec(self._code, self.around, {**self.names, **values})

    @property
    def _code(self) -> CodeType:
        module = ast.parse("breakpoint()")
        ast.increment_lineno(module, self.span.line - 1)
        return compile(module, self.span.file, "exec").replace(co_name=self.function)


def _replaced(given: Any, values: Mapping[Value, Value]) -> Any:
    if isinstance(given, Part):
        return Part(values.get(given.whole, given.whole), given.access)
    return values.get(given, given) if isinstance(given, Value) else given
