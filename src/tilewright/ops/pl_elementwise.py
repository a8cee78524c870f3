"""`pl` names of elementwise ops: arithmetic, mathematics, comparison, selection, bits, casts."""

from __future__ import annotations

from typing import Any

from tilewright.dtypes import BOOL, FP32, INDEX, INT16, UINT16, DType
from tilewright.errors import ArgumentTypeMismatch, DTypeMismatch, ShapeMismatch
from tilewright.ir.core import Operation, Value
from tilewright.ir.opdef import OpDef, spelled
from tilewright.ir.types import ScalarType, ShapedType
from tilewright.ops import arith
from tilewright.ops import elementwise as E
from tilewright.ops.adapt import (
    Build,
    Render,
    Variant,
    as_dtype,
    as_rounding,
    as_scalar,
    constant,
    described,
    is_number,
    is_shaped,
    is_tile,
    never,
    paired,
    promoted,
    publish,
    publish_tile,
    renamed,
    require_shaped_value,
    tile_macro,
)
from tilewright.ops.cast import cast as scalar_cast
from tilewright.ops.extents import same_dims
from tilewright.ops.words import dtype_of

Op = OpDef[..., Any]
INPUT = renamed(x="input")


def lhs_rhs(operation: Operation) -> dict[str, Any] | None:
    """The operands of a binary op, unless they are a tensor and a tile."""
    x, y = operation.operands
    if is_shaped(x) and is_shaped(y) and is_tile(x) != is_tile(y):
        return None
    return {"lhs": x, "rhs": y}


# -------------------------------------------------------------- [R, C] with [R, 1] or with [1, C]


def expanding(target: Op, name: str, axis: int) -> Build:
    """(lhs, rhs) where rhs has extent 1 on `axis` and is repeated along it."""

    def build(lhs: Any, rhs: Any, tmp: Any = None) -> Value:
        left, right = paired(name, lhs, rhs)
        require_vector(name, right, axis)
        return target(left, right)

    return described(build, name, target)


def require_vector(name: str, vector: Value, axis: int) -> None:
    """Raises ShapeMismatch unless `vector` has extent 1 on `axis`."""
    type_ = require_shaped_value(name, "rhs", vector).type
    assert isinstance(type_, ShapedType)
    if type_.rank < -axis or type_.shape[axis] != 1:
        wanted = "[R, 1]" if axis == -1 else "[1, C]"
        raise ShapeMismatch(f"{name}: rhs is {type_}, not of shape {wanted}")


def when_expanding(axis: int) -> Render:
    """Renders a rank-2 op whose rhs is a vector to be repeated along `axis`."""

    def render(operation: Operation) -> dict[str, Any] | None:
        x, y = operation.operands[0].type, operation.operands[1].type
        if not isinstance(y, ShapedType) or len(y.shape) != 2 or y.shape[axis] != 1:
            return None
        if not isinstance(x, ShapedType):
            return None
        repeated = tuple(1 if k == axis % 2 else extent for k, extent in enumerate(x.shape))
        fits = x.rank == 2 and x.shape[axis] != 1 and same_dims(y.shape, repeated)
        return lhs_rhs(operation) if fits else None

    return render


EXPANDED: tuple[tuple[Op, str], ...] = (
    (E.add, "add"),
    (E.sub, "sub"),
    (E.mul, "mul"),
    (E.div, "div"),
    (E.max_, "max"),
    (E.min_, "min"),
)
for op_, word in EXPANDED:
    for way, axis_ in (("row", -1), ("col", -2)):
        publish(
            op_,
            f"{way}_expand_{word}",
            expanding(op_, f"{way}_expand_{word}", axis_),
            tensor={"lhs": "tensor", "rhs": f"{way}_vec"},
            tile={"lhs": "tile", "rhs": f"{way}_vec"},
            top_without=() if f"{way}_{word}" == "row_add" else ("tmp",),
            tensor_without=("tmp",),
            tile_without=() if f"{way}_{word}" == "row_add" else ("tmp",),
            render=when_expanding(axis_),
        )


# ------------------------------------------------------------------------------------- arithmetic


def binary(target: Op, name: str) -> Build:
    """(lhs, rhs) with promotion; either may be a scalar or a number."""

    def build(lhs: Any, rhs: Any) -> Value:
        return target(*paired(name, lhs, rhs))

    return described(build, name, target)


def precise(target: Op, name: str) -> Build:
    """`binary` that accepts high_precision, which is how it always computes."""

    def build(lhs: Any, rhs: Any, high_precision: bool = False) -> Value:
        return target(*paired(name, lhs, rhs))

    return described(build, name, target)


def scratched(target: Op, name: str) -> Build:
    """`binary` that accepts scratch memory, which it does not need."""

    def build(lhs: Any, rhs: Any, tmp: Any = None) -> Value:
        return target(*paired(name, lhs, rhs))

    return described(build, name, target)


def by_scalar(target: Op, name: str) -> Build:
    """(lhs, rhs) whose second operand is a scalar or a number; `tmp` is not needed."""

    def build(lhs: Any, rhs: Any, tmp: Any = None) -> Value:
        if is_shaped(rhs):
            raise ArgumentTypeMismatch(f"{name}: rhs is {rhs.type}, not a scalar")
        return target(*paired(name, lhs, rhs))

    return described(build, name, target)


BINARY: tuple[tuple[Op, str], ...] = (
    (E.add, "add"),
    (E.sub, "sub"),
    (E.mul, "mul"),
    (E.fmod, "fmod"),
    (E.max_, "maximum"),
    (E.min_, "minimum"),
    (E.and_, "and_"),
    (E.or_, "or_"),
    (E.shl, "shl"),
    (E.shr, "shr"),
)
for op_, word in BINARY:
    publish(op_, word, binary(op_, word), tensor={}, tile={}, render=lhs_rhs)
publish(E.div, "div", precise(E.div, "div"), tensor={}, tile={}, render=lhs_rhs)
publish(
    E.xor,
    "xor",
    scratched(E.xor, "xor"),
    tensor={},
    tile={},
    tensor_without=("tmp",),
    render=lhs_rhs,
)


def of_tiles(operation: Operation) -> dict[str, Any] | None:
    """The operands of a binary op whose first is a tile."""
    given = lhs_rhs(operation)
    return given if given is not None and is_tile(given["lhs"]) else None


publish_tile(E.mod, "rem", scratched(E.mod, "rem"), render=of_tiles)

SCALAR_FORMS: tuple[tuple[Op, str], ...] = (
    (E.add, "adds"),
    (E.sub, "subs"),
    (E.mul, "muls"),
    (E.div, "divs"),
    (E.fmod, "fmods"),
    (E.and_, "ands"),
    (E.or_, "ors"),
    (E.xor, "xors"),
    (E.shl, "shls"),
    (E.shr, "shrs"),
)
for op_, word in SCALAR_FORMS:
    publish(
        op_,
        word,
        by_scalar(op_, word),
        tensor={},
        tile={},
        top_without=() if word == "xors" else ("tmp",),
        tensor_without=("tmp",),
        tile_without=() if word == "xors" else ("tmp",),
        render=never,
    )
publish_tile(E.mod, "rems", by_scalar(E.mod, "rems"))
for op_, word in ((E.max_, "maximums"), (E.min_, "minimums")):
    publish_tile(op_, word, Variant(f"pl.{word}", by_scalar(op_, word), without=("tmp",)))


@tile_macro("addc")
def addc(lhs: Value, rhs: Value, rhs2: Value) -> Value:
    """lhs + rhs + rhs2, of tiles."""
    return E.add(*paired("addc", E.add(*paired("addc", lhs, rhs)), rhs2))


@tile_macro("subc")
def subc(lhs: Value, rhs: Value, rhs2: Value) -> Value:
    """lhs - rhs - rhs2, of tiles."""
    return E.sub(*paired("subc", E.sub(*paired("subc", lhs, rhs)), rhs2))


@tile_macro("addsc")
def addsc(lhs: Value, rhs: Any, rhs2: Value) -> Value:
    """lhs + rhs + rhs2, where rhs is a scalar."""
    return E.add(*paired("addsc", E.add(*paired("addsc", lhs, rhs)), rhs2))


@tile_macro("subsc")
def subsc(lhs: Value, rhs: Any, rhs2: Value) -> Value:
    """lhs - rhs - rhs2, where rhs is a scalar."""
    return E.sub(*paired("subsc", E.sub(*paired("subsc", lhs, rhs)), rhs2))


# ------------------------------------------------------------------------------------ mathematics


def unary(target: Op, name: str) -> Build:
    """(input) of a tensor or a tile."""

    def build(input: Any) -> Value:
        return target(require_shaped_value(name, "input", input))

    return described(build, name, target)


def precise_unary(target: Op, name: str) -> Build:
    """`unary` that accepts high_precision, which is how it always computes."""

    def build(input: Any, high_precision: bool = False) -> Value:
        return target(require_shaped_value(name, "input", input))

    return described(build, name, target)


def narrow(target: Op, name: str, *dtypes: DType) -> Build:
    """`unary` of some dtypes only."""

    def build(input: Any) -> Value:
        dtype = dtype_of(require_shaped_value(name, "input", input))
        if dtype not in dtypes:
            accepted = " or ".join(map(str, dtypes))
            raise DTypeMismatch(
                f"{name}: input is of {dtype}; {accepted} is accepted",
                hint=f"convert it with pl.cast(..., {dtypes[0]})",
            )
        return target(input)

    return described(build, name, target)


def when_of(*dtypes: DType) -> Render:
    """Renders an operation on some dtypes."""
    return lambda operation: INPUT(operation) if dtype_of(operation.result) in dtypes else None


UNARY: tuple[tuple[Op, str], ...] = (
    (E.exp, "exp"),
    (E.neg, "neg"),
    (E.abs_, "abs"),
    (E.sqrt, "sqrt"),
)
NARROW: tuple[tuple[Op, str, tuple[DType, ...]], ...] = (
    (E.sin, "sin", (FP32,)),
    (E.cos, "cos", (FP32,)),
    (E.not_, "not_", (INT16, UINT16, BOOL)),
)
EXTENSIONS: tuple[tuple[Op, str], ...] = (
    (E.exp2, "exp2"),
    (E.log1p, "log1p"),
    (E.erf, "erf"),
    (E.tanh, "tanh"),
    (E.sigmoid, "sigmoid"),
    (E.atan, "atan"),
    (E.floor, "floor"),
    (E.ceil, "ceil"),
    (E.trunc, "trunc"),
    (E.sign, "sign"),
)
"""Functions that PyPTO's catalogue lacks and kernels want."""
for op_, word in (*UNARY, *EXTENSIONS):
    publish(op_, word, unary(op_, word), tensor={}, tile={"input": "tile"}, render=INPUT)
for op_, word, dtypes_ in NARROW:
    made, shown = narrow(op_, word, *dtypes_), when_of(*dtypes_)
    publish(op_, word, made, tensor={}, tile={"input": "tile"}, render=shown)
for op_, word in ((E.log, "log"), (E.recip, "recip")):
    publish(op_, word, precise_unary(op_, word), tensor={}, tile={"input": "tile"}, render=INPUT)
publish(
    E.rsqrt,
    "rsqrt",
    precise_unary(E.rsqrt, "rsqrt"),
    tensor={},
    tile_apart=("high_precision",),
    render=INPUT,
)


def rsqrt_tile(tile: Any, tmp: Any = None) -> Value:
    """1 / sqrt(tile); `tmp` is not needed."""
    return E.rsqrt(require_shaped_value("rsqrt", "tile", tile))


publish(E.rsqrt, "rsqrt", rsqrt_tile, top=False, tile={})


# ------------------------------------------------------------------------------------- activation


@tile_macro("relu")
def relu(tile: Value) -> Value:
    """max(tile, 0); NaN stays NaN."""
    return E.max_(*paired("relu", tile, 0))


@tile_macro("lrelu")
def lrelu(tile: Value, slope: Any) -> Value:
    """tile where it is above 0, else slope * tile; `slope` is a scalar."""
    x, scaled = tile, E.mul(*paired("lrelu", tile, slope))
    return E.select(E.gt(*paired("lrelu", x, 0)), *paired("lrelu", x, scaled))


@tile_macro("prelu")
def prelu(tile: Value, slope: Value, tmp: Any = None) -> Value:
    """tile where it is above 0, else slope * tile, element by element; `tmp` is not needed."""
    return lrelu(tile, slope)


# -------------------------------------------------------------------------- comparison, selection

COMPARISONS: tuple[Op, ...] = (E.eq, E.ne, E.lt, E.le, E.gt, E.ge)


def compare(lhs: Any, rhs: Any, cmp_type: Any = 0) -> Value:
    """lhs compared with rhs: EQ 0, NE 1, LT 2, LE 3, GT 4, GE 5.

    On tiles a BOOL mask for `sel`; on tensors 1 and 0 in the dtype of lhs.
    """
    if not (isinstance(cmp_type, int) and 0 <= cmp_type < len(COMPARISONS)):
        raise ArgumentTypeMismatch(
            f"cmp: {cmp_type!r} is no comparison", hint="EQ 0, NE 1, LT 2, LE 3, GT 4, GE 5"
        )
    mask = COMPARISONS[cmp_type](*paired("cmp", lhs, rhs))
    if is_tile(mask):
        return mask
    return E.cast(mask, dtype=dtype_of(lhs if is_shaped(lhs) else rhs))


def when_tile(code: int) -> Render:
    """Renders a comparison of tiles."""

    def render(operation: Operation) -> dict[str, Any] | None:
        if not is_tile(operation.result):
            return None
        pair = lhs_rhs(operation)
        return None if pair is None else {**pair, "cmp_type": code}

    return render


described(compare, "cmp", compare)
for code_, op_ in enumerate(COMPARISONS):
    publish(
        op_,
        "cmp",
        compare,
        tensor={} if code_ == 0 else None,
        tile={} if code_ == 0 else None,
        render=when_tile(code_),
    )


def compare_scalar(lhs: Any, rhs: Any, cmp_type: int = 0) -> Value:
    """lhs, a tile, compared with a scalar: EQ 0, NE 1, LT 2, LE 3, GT 4, GE 5."""
    if is_shaped(rhs):
        raise ArgumentTypeMismatch(f"cmps: rhs is {rhs.type}, not a scalar")
    return compare(lhs, rhs, cmp_type)


publish_tile(E.eq, "cmps", described(compare_scalar, "cmps", compare_scalar))


def as_mask(mask: Value) -> Value:
    """A mask as BOOL: other dtypes are True where they are not 0."""
    return mask if dtype_of(mask) is BOOL else E.ne(*paired("sel", mask, 0))


def sel(mask: Any, lhs: Any, rhs: Any, tmp: Any = None) -> Value:
    """lhs where the mask is True, else rhs; `tmp` is not needed."""
    return E.select(as_mask(mask), *paired("sel", lhs, rhs))


def sels(mask: Any, src: Any, tmp: Any = None, scalar: Any = None) -> Value:
    """src where the mask is True, else the scalar; `tmp` is not needed."""
    return E.select(as_mask(mask), *paired("sels", src, scalar))


def _sel_arguments(operation: Operation) -> dict[str, Any] | None:
    cond, x, y = operation.operands
    if not all(map(is_tile, (cond, x, y))):
        return None
    return {"mask": cond, "lhs": x, "rhs": y}


publish_tile(E.select, "sel", sel, render=_sel_arguments)
publish_tile(E.select, "sels", sels)


# ------------------------------------------------------------------------------------------- cast


def cast(input: Any, target_type: Any, mode: Any = "round") -> Value:
    """input as `target_type`, rounded as `mode` says.

    Modes, by name or number: none 0, rint 1 (half to even), round 2 (half away from zero),
    floor 3, ceil 4, trunc 5, odd 6.
    """
    dtype, rounding = as_dtype(target_type), as_rounding(mode)
    if is_number(input):
        return scalar_cast(constant(input, INDEX if isinstance(input, int) else dtype), dtype=dtype)
    if isinstance(input, Value) and isinstance(input.type, ScalarType):
        return scalar_cast(input, dtype=dtype, mode=rounding)
    return E.cast(require_shaped_value("cast", "input", input), dtype=dtype, mode=rounding)


def _cast_arguments(operation: Operation) -> dict[str, Any]:
    (x,) = operation.operands
    attrs = operation.attrs
    return {"input": x, "target_type": attrs["dtype"], "mode": attrs["mode"].value}


publish(E.cast, "cast", cast, tensor={}, tile={"input": "tile"}, render=_cast_arguments)
spelled(scalar_cast, "pl.cast", accepts=lambda *_, **__: False, render=_cast_arguments)(cast)


# ------------------------------------------------------------------------------------ scalar words


def scalar_binary(target: Op, name: str, python: Any) -> Build:
    """(lhs, rhs) of scalars; of two numbers the number."""

    def build(lhs: Any, rhs: Any) -> Any:
        if is_number(lhs) and is_number(rhs):
            return python(lhs, rhs)
        return target(*scalar_pair(name, lhs, rhs))

    return described(build, name, target)


def scalar_pair(name: str, lhs: Any, rhs: Any) -> tuple[Value, Value]:
    """Two scalars of one dtype: a number adopts the other's, others are promoted."""
    for argument, given in (("lhs", lhs), ("rhs", rhs)):
        if isinstance(given, Value) and not isinstance(given.type, ScalarType):
            raise ArgumentTypeMismatch(f"{name}: {argument} is {given.type}, not a scalar")
    if is_number(lhs) or is_number(rhs):
        dtype = dtype_of(rhs if is_number(lhs) else lhs)
    else:
        dtype = promoted(dtype_of(lhs), dtype_of(rhs))
    return as_scalar(name, "lhs", lhs, dtype), as_scalar(name, "rhs", rhs, dtype)


for op_, word, python_ in ((arith.max_, "max", max), (arith.min_, "min", min)):
    spelled(op_, f"pl.{word}", f"pl.tile.{word}", render=lhs_rhs)(scalar_binary(op_, word, python_))
