"""Text of attributes, constants, operators and calls."""

from __future__ import annotations

import keyword
import math
from enum import Enum
from typing import Any, cast

from tilewright.dtypes import BOOL, FP32, INDEX, DType
from tilewright.ir.affine import Access, Expr
from tilewright.ir.types import MemRef, TensorView, TileView, Type

PRECEDENCE = {
    "or": 1,
    "and": 2,
    "not": 3,
    **dict.fromkeys(("==", "!=", "<", "<=", ">", ">="), 4),
    **dict.fromkeys(("<<", ">>"), 7),
    **dict.fromkeys(("+", "-"), 8),
    **dict.fromkeys(("*", "/", "//", "%"), 9),
    **dict.fromkeys(("neg", "~"), 10),
}
ATOM = 11
PUBLIC_ENUM = {"MemorySpace": "Mem"}
DISTRIBUTED_ENUMS = frozenset({"NotifyOp", "WaitCmp", "ReduceOp"})


def render_text(given: str) -> str:
    """A string as the language's formatter writes it, in double quotes."""
    text = repr(given)
    return text if text[0] == '"' or '"' in given else f'"{text[1:-1]}"'


def render_float(value: float) -> str:
    """A float literal; infinities and NaN as `float("inf")`."""
    return repr(value) if math.isfinite(value) else f'float("{value}")'


def render_constant(value: int | float | bool, dtype: DType, prefix: str) -> str:
    """A constant of `dtype`: bare where the bare literal has that dtype, else `pl.const`."""
    if dtype is BOOL:
        return str(bool(value))
    if dtype is INDEX:
        return str(value)
    if dtype.is_float():
        text = render_float(float(value))
        return text if dtype is FP32 else f"{prefix}.const({text}, {prefix}.{dtype.name})"
    return f"{prefix}.const({value}, {prefix}.{dtype.name})"


def render_enum(value: Enum, prefix: str) -> str:
    """`pl.Mem.Vec`, `pld.ReduceOp.Max`."""
    name = type(value).__name__
    home = "pld" if name in DISTRIBUTED_ENUMS else prefix
    return f"{home}.{PUBLIC_ENUM.get(name, name)}.{value.name}"


def op_path(name: str, prefix: str) -> str:
    """The path under which every op can be called: `pl.op.memory.update`, `pl.loop.load`."""
    parts = [part + "_" if keyword.iskeyword(part) else part for part in name.split(".")]
    home = prefix if parts[0] == "loop" else f"{prefix}.op"
    return ".".join((home, *parts))


class AttrRenderer:
    """Text of attribute values; subclasses supply names and types."""

    prefix: str

    def expr(self, expr: Expr | int) -> str:
        """Text of an affine expression."""
        raise NotImplementedError

    def type(self, type_: Type) -> str:
        """Text of a type."""
        raise NotImplementedError

    def access(self, access: Access) -> str:
        """Text of an access."""
        raise NotImplementedError

    def attr(self, given: Any) -> str:
        """Text of an attribute value that evaluates back to it."""
        if isinstance(given, DType):
            return f"{self.prefix}.{given.name}"
        if isinstance(given, Enum):
            return render_enum(given, self.prefix)
        if isinstance(given, Expr):
            return self.expr(given)
        if isinstance(given, Access):
            return self.access(given)
        if isinstance(given, float):
            return render_float(given)
        if isinstance(given, str):
            return render_text(given)
        if isinstance(given, (tuple, list)):
            return f"[{', '.join(map(self.attr, cast('tuple[Any, ...]', given)))}]"
        if isinstance(given, (Type, TensorView, TileView, MemRef)):
            return self.type(cast(Type, given))
        render = getattr(given, "as_python", None)
        return render(self) if render else repr(given)
