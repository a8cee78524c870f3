"""Loop-level memory words and index arithmetic as Python."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.dtypes import BOOL, INDEX
from tilewright.errors import InternalError
from tilewright.interp import buffers
from tilewright.interp.emit import Emitter, emit_call, handles, is_scalar_of
from tilewright.ir.core import Operation
from tilewright.ops import arith, loop

PLAIN_INFIX = {
    arith.add: "+",
    arith.sub: "-",
    arith.eq: "==",
    arith.ne: "!=",
    arith.lt: "<",
    arith.le: "<=",
    arith.gt: ">",
    arith.ge: ">=",
}
HELPERS = {
    arith.floordiv: "floordiv",
    arith.mod: "remainder",
    arith.min_: "least",
    arith.max_: "greatest",
}


@handles(arith.const)
def emit_const(e: Emitter, op: Operation) -> None:
    """No line at all: the literal stands where the constant is used."""
    value, dtype = op.attrs["value"], op.attrs["dtype"]
    if dtype is INDEX:
        e.define(op.result, f"({int(value)})")
    else:
        assert arith.const.evaluate is not None
        e.define(op.result, e.text.constant(arith.const.evaluate(value=value, dtype=dtype)))


@handles(*PLAIN_INFIX, *HELPERS, arith.mul, arith.and_, arith.or_)
def emit_arith(e: Emitter, op: Operation) -> None:
    """Index arithmetic and logic on Python scalars; everything else by its reference."""
    if op.opdef in (arith.and_, arith.or_):
        if not is_scalar_of(op.operands[0], BOOL):
            emit_call(e, op)
            return
        text = "{} & {}" if op.opdef is arith.and_ else "{} | {}"
    elif not is_scalar_of(op.operands[0], INDEX):
        emit_call(e, op)
        return
    elif op.opdef is arith.mul:
        text = "wrap({} * {})"
    elif op.opdef in PLAIN_INFIX:
        text = f"{{}} {PLAIN_INFIX[op.opdef]} {{}}"
    else:
        text = f"{HELPERS[op.opdef]}({{}}, {{}})"
    x, y = (e.name(value) for value in op.operands)
    e.text.line(f"{e.define(op.result)} = {text.format(x, y)}")


@handles(loop.alloc)
def emit_alloc(e: Emitter, op: Operation) -> None:
    """Zeros, or poison."""
    dtype = e.text.constant(op.attrs["dtype"].numpy)
    shape = e.extents(op.attrs["shape"])
    e.text.line(f"{e.define(op.result)} = alloc({shape}, {dtype}, {e.mode.poisons})")


@handles(loop.view)
def emit_view(e: Emitter, op: Operation) -> None:
    """A window; its element type is named only where it changes."""
    buffer, offsets = op.operands
    shape, strides = (e.extents(op.attrs[name]) for name in ("shape", "strides"))
    args = [e.name(buffer), e.sequence(offsets), shape, strides]
    if op.attrs["dtype"] is not None:
        args.append(e.text.constant(op.attrs["dtype"].numpy))
    e.text.line(f"{e.define(op.result)} = view({', '.join(args)})")


def mask_text(e: Emitter, mask: Any) -> str:
    """The mask of an access together with those of the branches around it."""
    own = None if mask is None else e.name(mask)
    given = [text for text in (e.mask, own) if text is not None]
    return " & ".join(given) or "None"


@handles(loop.load)
def emit_load(e: Emitter, op: Operation) -> None:
    """One element, or one per lane."""
    buffer, indices, mask = op.operands
    call = f"load({e.name(buffer)}, {e.sequence(indices)}, {mask_text(e, mask)})"
    e.text.line(f"{e.define(op.result)} = {call}")


@handles(loop.store)
def emit_store(e: Emitter, op: Operation) -> None:
    """One element, or one per lane."""
    buffer, indices, value, mask = op.operands
    args = [e.name(buffer), e.sequence(indices), e.name(value), mask_text(e, mask)]
    e.text.line(f"store({', '.join(args)})")


@handles(loop.check_index)
def emit_check(e: Emitter, op: Operation) -> None:
    """A fault where an index is out of bounds."""
    index, bound, mask = op.operands
    args = [e.name(index), e.name(bound), mask_text(e, mask), str(op.attrs["axis"])]
    e.text.line(f"{e.define(op.result)} = check_index({', '.join(args)})")


@handles(loop.check_extent)
def emit_check_extent(e: Emitter, op: Operation) -> None:
    """A fault where two numbers differ."""
    e.text.line(f"check_extent({', '.join(map(e.name, op.operands))})")


@handles(loop.copy)
def emit_copy(e: Emitter, op: Operation) -> None:
    """Every element."""
    e.text.line(f"copy_buffer({', '.join(map(e.name, op.operands))})")


@handles(loop.matmul)
def emit_matmul(e: Emitter, op: Operation) -> None:
    """The contraction: the compiled micro-kernel in words mode, else float64 rounded once."""
    c, a, b = map(e.name, op.operands)
    multiply = contraction if e.mode.words is None else e.mode.words.matmul
    function = e.text.constant(multiply, "f")
    flags = ", ".join(f"{name}={given}" for name, given in op.attrs.items())
    e.text.line(f"{function}({c}.array(), {a}.array(), {b}.array(), {flags})")


def contraction(
    c: buffers.Array,
    a: buffers.Array,
    b: buffers.Array,
    *,
    a_trans: bool = False,
    b_trans: bool = False,
    accumulate: bool = False,
) -> None:
    """c = a @ b (+ c): floats in float64, rounded once to FP32; integers in INT32, wrapping."""
    a, b = loop.without_denormals(a, b)
    left = np.transpose(a) if a_trans else a
    right = np.transpose(b) if b_trans else b
    if left.shape[1] != right.shape[0] or c.shape != (left.shape[0], right.shape[1]):
        raise InternalError(f"loop.matmul: {c.shape} = {left.shape} @ {right.shape}")
    wide = np.float64 if c.dtype.kind == "f" else c.dtype
    product: Any = left.astype(wide) @ right.astype(wide)
    c[...] = product + c if accumulate else product


@handles(loop.tick)
def emit_tick(e: Emitter, op: Operation) -> None:
    """The clock, by a helper."""
    function = e.text.constant(buffers.tick, "f")
    e.text.line(f"{function}({e.name(op.operands[0])}.array(), {op.attrs['slot']})")
