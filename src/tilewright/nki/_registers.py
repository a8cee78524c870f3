"""Registers of the newer spelling: integers that the run knows and instructions change."""

from __future__ import annotations

from typing import Any

from tilewright.dtypes import INT32
from tilewright.errors.nki_tensors import UNEXPECTED_OPERAND
from tilewright.frontend.trace.ambient import current_api, nki_ctx, refusal
from tilewright.frontend.trace.ops import nki_op
from tilewright.frontend.trace.predicates import DynamicScalar, scalar_expr
from tilewright.frontend.trace.scalars import element, scalar
from tilewright.frontend.trace.tensors import nki_tensor
from tilewright.ir.affine import Expr
from tilewright.ir.core import Value
from tilewright.ir.enums import MemorySpace
from tilewright.nki._operands import operand_value
from tilewright.ops import creation


class VirtualRegister(DynamicScalar):
    """An integer of 32 bits that `register_move` and `register_load` change.

    Where a scalar may stand (an offset, a bound, a condition), it is what it holds there.
    """

    __slots__ = ("cell",)

    def __init__(self, cell: nki_tensor) -> None:
        self.cell = cell
        self.dtype = cell.dtype

    @property
    def expr(self) -> Expr:  # pyright: ignore[reportIncompatibleVariableOverride]
        """What it holds now, as a symbol of the run."""
        return scalar(self.cell).expr

    def __str__(self) -> str:
        return f"register {self.cell.name}"

    __hash__ = object.__hash__


@nki_op("nisa.dst.register_alloc")
def register_alloc(x: int | DynamicScalar | None = None) -> VirtualRegister:
    """A new register that holds `x`; None leaves it 0."""
    return VirtualRegister(nki_ctx().sema.tile(_as_cell(0 if x is None else x, "x")))


@nki_op("nisa.dst.register_move")
def register_move(dst: VirtualRegister, src: int | DynamicScalar) -> None:
    """`dst` holds what `src` is now: a register, an integer, or a scalar of them."""
    _change(dst, _as_cell(src, "src"))


@nki_op("nisa.dst.register_load")
def register_load(dst: VirtualRegister, src: nki_tensor) -> None:
    """`dst` holds the element of a [1, 1] tile."""
    if not isinstance(src, nki_tensor):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise _unexpected(src, "src", "a [1, 1] tile")
    _change(dst, _as_cell(scalar(src), "src"))


@nki_op("nisa.dst.register_store")
def register_store(dst: nki_tensor, src: int | DynamicScalar) -> None:
    """The element of a [1, 1] tile becomes what `src` holds."""
    if not isinstance(dst, nki_tensor):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise _unexpected(dst, "dst", "a [1, 1] tile")
    element(dst)
    sema = nki_ctx().sema
    sema.assign_item(dst, Ellipsis, sema.tile(_as_cell(src, "src")))


def _change(register: Any, value: Value) -> None:
    if not isinstance(register, VirtualRegister):
        raise _unexpected(register, "dst", "a register")
    sema = nki_ctx().sema
    sema.assign_item(register.cell, Ellipsis, sema.tile(value))


def _as_cell(given: Any, name: str) -> Value:
    """An integer as a [1, 1] tile."""
    if scalar_expr(given) is None:
        raise _unexpected(given, name, "an integer or a register")
    number = operand_value(given, INT32)
    return creation.splat(number, shape=(1, 1), space=MemorySpace.Sbuf)


def _unexpected(given: Any, name: str, wanted: str) -> Exception:
    fields: dict[str, Any] = {"name": name, "given": repr(given), "wanted": wanted}
    return refusal(UNEXPECTED_OPERAND, op=current_api(), **fields)
