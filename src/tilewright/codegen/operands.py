"""What values are while a function is written: constants, scalars, indices, vectors, buffers."""

from __future__ import annotations

from tilewright.codegen.index import Num
from tilewright.codegen.words import constant
from tilewright.dataclass import dataclass

LANES = 16


@dataclass(frozen=True, slots=True)
class Const:
    """A known scalar."""

    value: int | float | bool
    dtype: str

    def text(self, lanes: int) -> str:
        """As an operand with this many lanes."""
        return constant(self.value, self.dtype, lanes)


@dataclass(frozen=True, slots=True)
class Uniform:
    """A scalar register, the same for all lanes."""

    ref: str


@dataclass(frozen=True, slots=True)
class Linear:
    """An INDEX that grows by `step` from lane to lane; `base` is its value in lane 0 of copy 0."""

    base: Num
    step: Num


@dataclass(frozen=True, slots=True)
class Varying:
    """One vector register per copy."""

    refs: tuple[str, ...]


Operand = Const | Uniform | Linear | Varying


@dataclass(frozen=True, slots=True)
class Buffer:
    """Memory: a pointer to element 0, the dtype, extents and strides in elements."""

    pointer: str
    dtype: str
    shape: tuple[Num, ...]
    strides: tuple[Num, ...]
