"""Elementwise ops: one per scalar word, with numpy broadcasting; cast and select.

Operands are tensors, tiles and scalars of one dtype; the result is a tile if any operand is one.
Valid regions must be provably the same. The whole physical shape is computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, ParamSpec

from tilewright.dtypes import BOOL, FP8E8M0, FP16, FP32, INT32, DType
from tilewright.errors import ArgumentTypeMismatch, DTypeMismatch, ShapeMismatch
from tilewright.ir.builder import Builder, as_types
from tilewright.ir.core import Value
from tilewright.ir.enums import Rounding
from tilewright.ir.opdef import OpDef, op
from tilewright.ir.structure import (
    AxisKind,
    Family,
    Read,
    Structure,
    broadcast_map,
    domain,
    identity_map,
)
from tilewright.ir.types import ScalarType, ShapedType, Type
from tilewright.ops import arith
from tilewright.ops import cast as casting
from tilewright.ops.rules import ByTypes, broadcast_shapes, broadcast_valid, computed_type, label
from tilewright.ops.sampling import (
    FLOATS,
    INTS,
    NUMBERS,
    Sample,
    fails,
    pointwise_samples,
    sample,
    special,
    tile,
)
from tilewright.ops.words import DTYPE_RULES, dtype_of, require_same_dtype, where

P = ParamSpec("P")


def pointwise_type(name: str, dtype: DType, values: Sequence[Value]) -> Type:
    """The type of an elementwise result of `dtype`; raises ShapeMismatch, ArgumentTypeMismatch."""
    types = tuple([value.type for value in values if isinstance(value.type, ShapedType)])
    if not types:
        raise ArgumentTypeMismatch(f"{name}: no operand is a tensor or a tile")
    return _broadcast_type(name, dtype, types)


@lru_cache(maxsize=256)
def _broadcast_type(name: str, dtype: DType, types: tuple[ShapedType, ...]) -> Type:
    shape = broadcast_shapes(name, types)
    return computed_type(types, shape, dtype, broadcast_valid(name, types, shape))


def require_elements(name: str, values: Sequence[Value]) -> None:
    """Raises ArgumentTypeMismatch unless every operand has elements of some dtype."""
    for value in values:
        if not isinstance(value.type, (ShapedType, ScalarType)):
            raise ArgumentTypeMismatch(f"{name}: {value.type} is not a tensor, tile or scalar")


def pointwise_structure(word: OpDef[..., Any], values: Sequence[Value], **attrs: Any) -> Structure:
    """`word` at every point of the broadcast shape of `values`, or of others of their types."""
    operands: list[Any] = []
    for value in values:
        type_: Any = value.type
        operands += (None if isinstance(type_, ScalarType) else type_.shape, type_.dtype)
    return _pointwise(word, tuple(attrs.items()), *operands)


@lru_cache(maxsize=1024)
def _pointwise(
    word: OpDef[..., Any], attrs: tuple[tuple[str, Any], ...], *operands: Any
) -> Structure:
    """`word` at every point; of each operand the shape, None for a scalar, and the dtype."""
    shapes, dtypes = operands[::2], operands[1::2]
    values = [
        Value(ScalarType(dtype) if shape is None else ShapedType(shape, dtype))
        for shape, dtype in zip(shapes, dtypes, strict=True)
    ]
    shaped = [value.type for value in values if isinstance(value.type, ShapedType)]
    shape = broadcast_shapes("elementwise", shaped)
    dims = domain(shape)
    given = dict(attrs)
    assert word.infer is not None
    types = as_types(word.infer(*[Value(ScalarType(dtype)) for dtype in dtypes], **given))

    def body(scalars: tuple[Value, ...], index: tuple[Value, ...]) -> tuple[Value, ...]:
        return Builder.current().emit(word, scalars, given, types=types).results

    accesses = tuple(() if own is None else broadcast_map(dims, own) for own in shapes)
    reads = tuple(map(Read, values, accesses))
    kinds = (AxisKind.PARALLEL,) * len(dims)
    family = Family(accesses)
    return Structure(dims, shape, kinds, reads, (identity_map(dims),), body, family=family)


def lift(word: OpDef[P, Value], dtypes: Sequence[DType]) -> OpDef[P, Value]:
    """The elementwise op of a scalar word: type rule, meaning and structure come from the word."""
    shown = label(word.name)
    opdef: OpDef[P, Value] = op(f"elementwise.{shown}", commutative=word.commutative)(word.function)
    opdef.__doc__ = f"{word.__doc__}\n\nFor each element, with numpy broadcasting."
    opdef.ulp = word.ulp

    def infer(*values: Value) -> Type:
        require_elements(shown, values)
        return pointwise_type(shown, DTYPE_RULES[word.name](shown, *values), values)

    structure = ByTypes(lambda *values: pointwise_structure(word, values))

    def loops(*values: Value) -> Structure:
        return structure(*values).reading(values)

    opdef.infer = ByTypes(infer)
    opdef.evaluate = word.evaluate
    opdef.loops = loops
    opdef.samples(lambda: lifted_samples(len(word.operand_names), dtypes))
    return opdef


def lifted_samples(arity: int, dtypes: Sequence[DType]) -> list[Sample]:
    """Samples of a lifted word: accepted and refused uses."""
    refused = [fails(DTypeMismatch, *[tile(4, 4, dtype=_outside(dtypes))] * arity)]
    if arity == 2:
        refused += [
            fails(DTypeMismatch, tile(4, 4, dtype=FP32), tile(4, 4, dtype=INT32)),
            fails(ShapeMismatch, tile(4, 8), tile(4, 7), dtypes=dtypes[:1]),
            fails(ShapeMismatch, tile(4, 8, valid=(3, 8)), tile(4, 8), dtypes=dtypes[:1]),
        ]
    return pointwise_samples(arity, dtypes) + refused


def _outside(dtypes: Sequence[DType]) -> DType:
    if BOOL not in dtypes:
        return BOOL
    return FP16 if FP16 not in dtypes else DType.from_name("FP4")


BITS = (*INTS, BOOL)
ANY = (*NUMBERS, BOOL)

add = lift(arith.add, NUMBERS)
sub = lift(arith.sub, NUMBERS)
mul = lift(arith.mul, NUMBERS)
div = lift(arith.div, NUMBERS)
floordiv = lift(arith.floordiv, NUMBERS)
mod = lift(arith.mod, NUMBERS)
fmod = lift(arith.fmod, NUMBERS)
pow_ = lift(arith.pow_, NUMBERS)
max_ = lift(arith.max_, NUMBERS)
min_ = lift(arith.min_, NUMBERS)
neg = lift(arith.neg, NUMBERS)
abs_ = lift(arith.abs_, NUMBERS)
sign = lift(arith.sign, NUMBERS)
and_ = lift(arith.and_, BITS)
or_ = lift(arith.or_, BITS)
xor = lift(arith.xor, BITS)
not_ = lift(arith.not_, BITS)
shl = lift(arith.shl, INTS)
shr = lift(arith.shr, INTS)
eq = lift(arith.eq, ANY)
ne = lift(arith.ne, ANY)
lt = lift(arith.lt, ANY)
le = lift(arith.le, ANY)
gt = lift(arith.gt, ANY)
ge = lift(arith.ge, ANY)
exp = lift(arith.exp, FLOATS)
exp2 = lift(arith.exp2, FLOATS)
log = lift(arith.log, FLOATS)
log1p = lift(arith.log1p, FLOATS)
tanh = lift(arith.tanh, FLOATS)
erf = lift(arith.erf, FLOATS)
sigmoid = lift(arith.sigmoid, FLOATS)
sin = lift(arith.sin, FLOATS)
cos = lift(arith.cos, FLOATS)
tan = lift(arith.tan, FLOATS)
atan = lift(arith.atan, FLOATS)
sqrt = lift(arith.sqrt, FLOATS)
rsqrt = lift(arith.rsqrt, FLOATS)
recip = lift(arith.recip, FLOATS)
floor = lift(arith.floor, FLOATS)
ceil = lift(arith.ceil, FLOATS)
trunc = lift(arith.trunc, FLOATS)
round_ = lift(arith.round_, FLOATS)
rint = lift(arith.rint, FLOATS)


@op("elementwise.select")
def select(cond: Value, x: Value, y: Value) -> Value:
    """x where cond (BOOL) is True, else y, for each element, with numpy broadcasting."""
    ...


@select.type_rule
def select_type(cond: Value, x: Value, y: Value) -> Type:
    require_elements("select", (cond, x, y))
    if dtype_of(cond) is not BOOL:
        raise DTypeMismatch(f"select: the condition is {dtype_of(cond)}, not pl.BOOL")
    return pointwise_type("select", require_same_dtype("select", x, y), (cond, x, y))


@select.reference
def select_numpy(cond: Any, x: Any, y: Any) -> Any:
    return where(cond, x, y)


@select.structure
def select_loops(cond: Value, x: Value, y: Value) -> Structure:
    return pointwise_structure(arith.select, (cond, x, y)).reading((cond, x, y))


select.samples(
    lambda: [
        sample(tile(7, 13, dtype=BOOL), tile(7, 13), tile(7, 13), dtypes=ANY),
        sample(tile(4, 1, dtype=BOOL), tile(4, 8, make=special), tile(1, 8), dtypes=NUMBERS),
        fails(DTypeMismatch, tile(4, 4), tile(4, 4), tile(4, 4)),
        fails(ShapeMismatch, tile(4, 4, dtype=BOOL), tile(4, 5), tile(4, 5)),
    ]
)


@op("elementwise.cast")
def cast(x: Value, *, dtype: DType, mode: Rounding = Rounding.RINT) -> Value:
    """x as `dtype`, for each element, rounded as `mode` says (see `arith.cast`)."""
    ...


@cast.type_rule
def cast_type(x: Value, *, dtype: DType, mode: Rounding) -> Type:
    require_elements("cast", (x,))
    casting.require_castable(dtype_of(x), dtype, mode)
    return pointwise_type("cast", dtype, (x,))


@cast.reference
def cast_numpy(x: Any, *, dtype: DType, mode: Rounding) -> Any:
    return casting.cast_numpy(x, dtype=dtype, mode=mode)


@cast.structure
def cast_loops(x: Value, *, dtype: DType, mode: Rounding) -> Structure:
    return pointwise_structure(casting.cast, (x,), dtype=dtype, mode=mode).reading((x,))


cast.samples(
    lambda: [
        *(
            sample(tile(5, 14, make=special), dtypes=ANY, dtype=target, mode=mode)
            for target in ANY
            for mode in (Rounding.RINT, Rounding.ROUND)
        ),
        *(
            sample(tile(5, 14, make=special), dtypes=(FP32,), dtype=target, mode=mode)
            for target in (FP16, INT32)
            for mode in Rounding
        ),
        fails(DTypeMismatch, tile(4, 4), dtype=DType.from_name("HF8")),
        fails(DTypeMismatch, tile(4, 4), dtype=FP8E8M0, mode=Rounding.FLOOR),
    ]
)
