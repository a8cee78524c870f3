"""Scalar words of the loop level: folded, linear in the lane, scalar, or a vector per copy."""

from __future__ import annotations

from functools import partial
from typing import Any

from tilewright.codegen.balance import sum_as_product
from tilewright.codegen.emitter import HANDLERS, Emitter, dtype_name, emits
from tilewright.codegen.formats import REGISTER_ELEMENT
from tilewright.codegen.operands import LANES, Const, Linear, Operand, Uniform, Varying
from tilewright.codegen.text import type_text, vector_text
from tilewright.codegen.words import cast as cast_word
from tilewright.codegen.words import word
from tilewright.ir.core import Operation
from tilewright.ir.opdef import OPS, OpDef
from tilewright.ops import arith
from tilewright.ops import cast as casting

PREFIX = "arith."
NOT_WORDS = (arith.const, arith.select, casting.cast, casting.bitcast)
WORDS: dict[OpDef[..., Any], str] = {
    opdef: name.removeprefix(PREFIX)
    for name, opdef in OPS.items()
    if name.startswith(PREFIX) and opdef not in NOT_WORDS
}
INDEX_FOLDS = {
    arith.add: "add",
    arith.sub: "sub",
    arith.mul: "mul",
    arith.min_: "minimum",
    arith.max_: "maximum",
}
COMPARISONS = {
    arith.eq: "eq",
    arith.ne: "ne",
    arith.lt: "slt",
    arith.le: "sle",
    arith.gt: "sgt",
    arith.ge: "sge",
}
FAR = 1 << 30
POSITIVE_FOLDS = {arith.floordiv: "floordiv", arith.mod: "mod"}


@emits(arith.const)
def emit_const(e: Emitter, op: Operation) -> None:
    """A known value, written where it is used."""
    e.define(op.result, Const(op.attrs["value"], op.attrs["dtype"].name))


def emit_word(e: Emitter, op: Operation) -> None:
    """Any word of the arith pages."""
    operands = [e.operand(value) for value in op.operands]
    dtype = dtype_name(op.operands[0])
    folded = fold_index(e, op, operands) if dtype == "INDEX" else None
    if folded is None and dtype == "INDEX" and op.opdef in COMPARISONS:
        folded = compare_linear(e, COMPARISONS[op.opdef], operands)
    if folded is not None:
        e.define(op.result, folded)
    elif all(isinstance(o, (Const, Uniform)) for o in operands):
        refs = [e.scalar(value) for value in op.operands]
        e.define(op.result, Uniform(word(e.text, WORDS[op.opdef], dtype, 1, *refs)))
    else:
        emit_vector_word(e, op, dtype)


def emit_vector_word(e: Emitter, op: Operation, dtype: str) -> None:
    """A word on one vector per copy."""
    copies = zip(*(e.vectors(value) for value in op.operands), strict=True)
    if op in e.lane_state.moved:
        e.define(op.result, e.each_copy(copies, partial(sum_as_product, e, op)))
    else:
        write = partial(word, e.text, WORDS[op.opdef], dtype, LANES)
        e.define(op.result, e.each_copy(copies, write))


HANDLERS.update(dict.fromkeys(WORDS, emit_word))


def fold_index(e: Emitter, op: Operation, operands: list[Operand]) -> Operand | None:
    """Index arithmetic that is known, scalar, or linear in the lane; None for the rest."""
    name = INDEX_FOLDS.get(op.opdef)
    if any(isinstance(o, Varying) for o in operands):
        return None
    if any(isinstance(o, Linear) for o in operands):
        return fold_linear(e, op.opdef, [as_linear(e, o) for o in operands])
    if name is None:
        positive = POSITIVE_FOLDS.get(op.opdef)
        divisor = operands[-1]
        if positive is None or not isinstance(divisor, Const) or divisor.value <= 0:
            return None
        name = positive
    given = [e.as_num(o, "INDEX") for o in operands]
    return from_num(getattr(e.index, name)(*given))


def from_num(value: int | str) -> Operand:
    """An INDEX operand."""
    return Const(value, "INDEX") if isinstance(value, int) else Uniform(value)


def as_linear(e: Emitter, operand: Operand) -> Linear:
    """Any index that is not a vector."""
    return operand if isinstance(operand, Linear) else Linear(e.as_num(operand, "INDEX"), 0)


def fold_linear(e: Emitter, opdef: OpDef[..., Any], operands: list[Linear]) -> Operand | None:
    """Sums of linear indices, and their products with scalars, are linear."""
    if len(operands) != 2:
        return None
    x, y = operands
    index = e.index
    if opdef is arith.add:
        return Linear(index.add(x.base, y.base), index.add(x.step, y.step))
    if opdef is arith.sub:
        return Linear(index.sub(x.base, y.base), index.sub(x.step, y.step))
    if opdef is arith.mul and 0 in (x.step, y.step):
        scale, other = (x, y) if x.step == 0 else (y, x)
        return Linear(index.mul(other.base, scale.base), index.mul(other.step, scale.base))
    return None


def compare_linear(e: Emitter, predicate: str, operands: list[Operand]) -> Operand | None:
    """Indices linear in the lane, compared in 32 bits: lane * step against one scalar."""
    if not any(isinstance(o, Linear) for o in operands):
        return None
    if any(isinstance(o, Varying) for o in operands):
        return None
    x, y = (as_linear(e, o) for o in operands)
    step = e.index.sub(x.step, y.step)
    if not isinstance(step, int) or abs(step) >= FAR // 64:
        return None
    distance = e.index.sub(y.base, x.base)
    bounded = e.index.minimum(e.index.maximum(distance, -FAR), FAR)
    scalar = cast_word(e.text, "INDEX", "INT32", "rint", 1, str(bounded))
    limit, kind = e.splat(scalar, "i32"), type_text("i32", LANES)
    refs: list[str] = []
    for copy in range(e.lane_state.copies):
        lanes = vector_text([(LANES * copy + lane) * step for lane in range(LANES)], "i32")
        refs.append(e.text.let(f"icmp {predicate} {kind} {lanes}, {limit}"))
    return Varying(tuple(refs))


@emits(arith.select)
def emit_select(e: Emitter, op: Operation) -> None:
    """One of two values."""
    cond, x, y = op.operands
    dtype = dtype_name(x)
    if all(e.is_uniform(value) for value in op.operands):
        refs = [e.scalar(value) for value in op.operands]
        e.define(op.result, Uniform(word(e.text, "select", dtype, 1, *refs)))
        return
    copies = zip(e.vectors(cond), e.vectors(x), e.vectors(y), strict=True)
    e.define(op.result, e.each_copy(copies, partial(word, e.text, "select", dtype, LANES)))


@emits(casting.cast)
def emit_cast(e: Emitter, op: Operation) -> None:
    """A conversion with its rounding mode."""
    (x,) = op.operands
    source, target = dtype_name(x), op.attrs["dtype"].name
    mode = op.attrs["mode"].value
    operand = e.operand(x)
    if source == target or {source, target} <= {"INDEX", "INT64"}:
        e.define(op.result, retyped(operand, target))
    elif isinstance(operand, Linear) and target in ("INT32", "UINT32"):
        e.define(op.result, Varying(narrow_linear(e, operand)))
    elif isinstance(operand, (Const, Uniform)):
        ref = cast_word(e.text, source, target, mode, 1, e.scalar(x))
        e.define(op.result, Uniform(ref))
    else:
        write = partial(cast_word, e.text, source, target, mode, LANES)
        e.define(op.result, e.each_copy(zip(e.vectors(x)), write))


def retyped(operand: Operand, dtype: str) -> Operand:
    """The same register under another name of its dtype."""
    return Const(operand.value, dtype) if isinstance(operand, Const) else operand


def narrow_linear(e: Emitter, operand: Linear) -> tuple[str, ...]:
    """A linear index modulo 2**32, computed in 32 bits."""
    if not isinstance(operand.step, int):
        return tuple(
            cast_word(e.text, "INDEX", "INT32", "rint", LANES, ref)
            for ref in e.as_vectors(operand, "INDEX")
        )
    kind = type_text("i32", LANES)
    base = e.splat(cast_word(e.text, "INDEX", "INT32", "rint", 1, str(operand.base)), "i32")
    refs: list[str] = []
    for copy in range(e.lane_state.copies):
        numbers = [(LANES * copy + lane) * operand.step for lane in range(LANES)]
        wrapped = [(n + 2**31) % 2**32 - 2**31 for n in numbers]
        steps = "<" + ", ".join(f"i32 {n}" for n in wrapped) + ">"
        refs.append(e.text.let(f"add {kind} {base}, {steps}"))
    return tuple(refs)


@emits(casting.bitcast)
def emit_bitcast(e: Emitter, op: Operation) -> None:
    """The same bits as another dtype."""
    (x,) = op.operands
    source = REGISTER_ELEMENT[dtype_name(x)]
    target = REGISTER_ELEMENT[op.attrs["dtype"].name]
    if e.is_uniform(x):
        e.define(op.result, Uniform(reinterpret(e, source, target, 1, e.scalar(x))))
        return
    write = partial(reinterpret, e, source, target, LANES)
    e.define(op.result, e.each_copy(zip(e.vectors(x)), write))


def reinterpret(e: Emitter, source: str, target: str, lanes: int, ref: str) -> str:
    """A register under another element type of the same width."""
    if source == target:
        return ref
    return e.text.let(f"bitcast {type_text(source, lanes)} {ref} to {type_text(target, lanes)}")
