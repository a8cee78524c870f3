"""From what an author writes to operands: numbers, dtypes, extents, modes; and publishing names.

A spelling is an ordinary function of values and Python objects. `publish` registers one under
`pl.X`, `pl.tensor.X` and `pl.tile.X`, each with its own parameter names.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, cast

from tilewright.dtypes import BF16, BOOL, FP16, FP32, INDEX, INT64, DType
from tilewright.errors import ArgumentTypeMismatch, DTypeMismatch
from tilewright.ir.builder import Builder
from tilewright.ir.core import Operation, Value
from tilewright.ir.enums import ROUNDING_BY_CODE, PadValue, Rounding
from tilewright.ir.opdef import Macro, OpDef, never, op_arguments, spelled
from tilewright.ir.types import ScalarType, Shape, ShapedType, TensorType, TileType, Type
from tilewright.ops import elementwise
from tilewright.ops.cast import cast as scalar_cast
from tilewright.ops.extents import as_dims, constant_of
from tilewright.ops.rules import require_fully_valid
from tilewright.ops.words import dtype_of

Build = Callable[..., Any]
Render = Callable[[Operation], "dict[str, Any] | None"]
Target = OpDef[..., Any] | Macro
KINDS: dict[str, tuple[type[Type], str]] = {
    "tensor": (TensorType, "a tensor"),
    "tile": (TileType, "a tile"),
}


# ------------------------------------------------------------------------------ reading arguments


def is_shaped(given: Any) -> bool:
    """True for a tensor or tile value."""
    return isinstance(given, Value) and isinstance(given.type, ShapedType)


def is_tile(given: Any) -> bool:
    """True for a tile value."""
    return isinstance(given, Value) and isinstance(given.type, TileType)


def is_number(given: Any) -> bool:
    """True for a Python number."""
    return isinstance(given, (bool, int, float))


def require_value(name: str, argument: str, given: Any) -> Value:
    """`given` if it is a tensor, tile or scalar value; raises ArgumentTypeMismatch."""
    if not isinstance(given, Value):
        raise ArgumentTypeMismatch(f"{name}: {argument} is {given!r}, not a value of the kernel")
    return given


def constant(value: Any, dtype: DType) -> Value:
    """A number as a constant of `dtype`; raises DTypeMismatch when it is not one."""
    if isinstance(value, float) and not dtype.is_float():
        if not value.is_integer():
            raise DTypeMismatch(f"{value} is not a value of {dtype}")
        value = int(value)
    return Builder.current().constant(value, dtype)


def as_scalar(name: str, argument: str, given: Any, dtype: DType) -> Value:
    """A number or scalar as a scalar of `dtype`: constants adopt it, other values are converted."""
    known = given if is_number(given) else constant_of(given)
    if isinstance(given, Value) and given.type == ScalarType(dtype):
        return given
    if known is not None:
        return constant(known, dtype)
    value = require_value(name, argument, given)
    if not isinstance(value.type, ScalarType):
        raise ArgumentTypeMismatch(f"{name}: {argument} is {value.type}, not a scalar")
    return scalar_cast(value, dtype=dtype)


def as_index(given: Any) -> list[Any]:
    """An index or list of indices, as a list."""
    return [*given] if isinstance(given, (list, tuple)) else [given]


def as_shape(given: Sequence[Any]) -> Shape:
    """A list of ints and integer scalars as extents."""
    return as_dims(given)


def as_dtype(given: Any) -> DType:
    """A dtype, or its serialization code, as a dtype; raises ArgumentTypeMismatch."""
    if isinstance(given, DType):
        return given
    try:
        return DType.from_code(int(given))
    except (KeyError, TypeError, ValueError):
        raise ArgumentTypeMismatch(f"{given!r} is not a dtype, such as pl.FP32") from None


def as_rounding(given: Any) -> Rounding:
    """A rounding mode by name or number; raises ArgumentTypeMismatch."""
    if isinstance(given, Rounding):
        return given
    if isinstance(given, int) and 0 <= given < len(ROUNDING_BY_CODE):
        return ROUNDING_BY_CODE[given]
    for mode in Rounding:
        if mode.value == given:
            return mode
    names = ", ".join(f'"{mode.value}"' for mode in Rounding)
    raise ArgumentTypeMismatch(f"cast: {given!r} is not a rounding mode", hint=f"one of {names}")


def as_fill(given: Any, dtype: DType) -> int | float:
    """A padding value as a number: zero, or the extreme of the dtype, or the number itself."""
    if not isinstance(given, PadValue):
        return float(given) if dtype.is_float() else int(given)
    if given is PadValue.null:
        raise ArgumentTypeMismatch("fillpad: the padding value is null", hint="zero, min or max")
    if given is PadValue.zero:
        return 0.0 if dtype.is_float() else 0
    sign = 1 if given is PadValue.max else -1
    if dtype.is_float():
        return sign * float("inf")
    low = 0 if dtype.is_unsigned_int() else -(1 << (dtype.bits - 1))
    return low if sign < 0 else low + (1 << dtype.bits) - 1


# ------------------------------------------------------------------------------------- promotion


def promoted(x: DType, y: DType) -> DType:
    """The dtype in which x and y combine: float over int, then the wider, then the signed one; of
    INDEX and INT64, which are distinct, INT64."""
    if x is y:
        return x
    if {x, y} == {INDEX, INT64}:
        return INT64
    if x.is_float() != y.is_float():
        return x if x.is_float() else y
    if {x, y} == {FP16, BF16}:
        return FP32
    if x.bits != y.bits:
        return x if x.bits > y.bits else y
    return x if x.is_signed_int() else y


def converted(value: Value, dtype: DType) -> Value:
    """`value` as `dtype`: itself, or a cast."""
    if dtype_of(value) is dtype:
        return value
    if isinstance(value.type, ScalarType):
        return scalar_cast(value, dtype=dtype)
    return elementwise.cast(value, dtype=dtype)


def paired(name: str, lhs: Any, rhs: Any) -> tuple[Value, Value]:
    """Both operands as values of one dtype, promoted; a constant adopts the other's dtype.

    Raises ArgumentTypeMismatch for a tensor with a tile, and DTypeMismatch for an INDEX scalar
    that is not constant with a float tile.
    """
    if is_shaped(lhs) and is_shaped(rhs):
        if lhs.type is rhs.type:
            return lhs, rhs
        require_one_kind(name, lhs, rhs)
        require_no_predicate(name, lhs, rhs)
        dtype = promoted(dtype_of(lhs), dtype_of(rhs))
        return converted(lhs, dtype), converted(rhs, dtype)
    if is_shaped(lhs):
        return _with_scalar(name, "rhs", lhs, rhs)
    if is_shaped(rhs):
        right, left = _with_scalar(name, "lhs", rhs, lhs)
        return left, right
    raise ArgumentTypeMismatch(f"{name}: neither operand is a tensor or a tile")


def require_one_kind(name: str, lhs: Value, rhs: Value) -> None:
    """Raises ArgumentTypeMismatch for a tensor and a tile together."""
    if is_tile(lhs) != is_tile(rhs):
        raise ArgumentTypeMismatch(
            f"{name}: operands are {lhs.type} and {rhs.type}",
            hint="bring the tensor on chip with pl.load; pl.full, pl.arange and pl.random make "
            "tiles, those of pl.tensor make tensors",
        )


def require_no_predicate(name: str, lhs: Value, rhs: Value) -> None:
    """Raises DTypeMismatch for a tile of truth values and one of numbers."""
    if is_tile(lhs) and (dtype_of(lhs) is BOOL) is not (dtype_of(rhs) is BOOL):
        raise DTypeMismatch(
            f"{name}: operands are {lhs.type} and {rhs.type}: a predicate is no number",
            hint="choose between tiles with pl.sel or pl.sels, or convert it with pl.cast",
        )


def _with_scalar(name: str, argument: str, x: Value, scalar: Any) -> tuple[Value, Value]:
    dtype = dtype_of(x)
    known = scalar if is_number(scalar) else constant_of(scalar)
    if known is not None:
        wide = dtype if dtype.is_float() or not isinstance(known, float) else FP32
        return converted(x, wide), as_scalar(name, argument, scalar, wide)
    value = require_value(name, argument, scalar)
    if not isinstance(value.type, ScalarType):
        raise ArgumentTypeMismatch(f"{name}: {argument} is {value.type}, not a scalar")
    if value.type.dtype is INDEX:
        if dtype.is_float():
            raise DTypeMismatch(
                f"{name}: {argument} is a pl.INDEX scalar and the other operand {x.type}",
                hint=f"convert it with pl.cast(..., {dtype})",
            )
        return x, converted(value, dtype)
    wide = promoted(dtype, value.type.dtype)
    return converted(x, wide), converted(value, wide)


# ------------------------------------------------------------------------------------ publishing


def renamed(**names: str) -> Render:
    """A renderer that shows canonical names under the published ones."""

    def render(operation: Operation) -> dict[str, Any]:
        given = op_arguments(operation)
        return {names.get(name, name): entry for name, entry in given.items()}

    return render


class Variant:
    """`build` under other parameter names and without some of its optional ones.

    With a `kind`, the first operand must be one: raises ArgumentTypeMismatch in the name of `path`.
    """

    def __init__(
        self,
        path: str,
        build: Build,
        *,
        kind: str = "",
        names: Mapping[str, str] | None = None,
        without: Iterable[str] = (),
    ) -> None:
        self.path = path
        self.build = build
        self.kind = kind
        self.names: Mapping[str, str] = names or {}
        self.without = frozenset(without)
        self.__name__ = build.__name__
        self.__doc__ = build.__doc__

    @cached_property
    def __signature__(self) -> inspect.Signature:
        """Its parameters; found when first asked for, since most names are never used."""
        parameters = inspect.signature(self.build).parameters.values()
        kept = [p for p in parameters if p.name not in self.without]
        return inspect.Signature([p.replace(name=self.names.get(p.name, p.name)) for p in kept])

    @cached_property
    def _originals(self) -> dict[str, str]:
        return {published: name for name, published in self.names.items()}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        bound = self.__signature__.bind(*args, **kwargs).arguments
        if self.kind:
            self._require_kind(next(iter(bound.values())))
        return self.build(**{self._originals.get(n, n): given for n, given in bound.items()})

    def _require_kind(self, first: Any) -> None:
        wanted, article = KINDS[self.kind]
        if not isinstance(first, Value) or not isinstance(first.type, wanted):
            shown = first.type if isinstance(first, Value) else repr(first)
            raise ArgumentTypeMismatch(f"{self.path}: the first operand is {shown}, not {article}")


def publish(
    target: Target,
    name: str,
    build: Build,
    *,
    top: bool = True,
    tensor: Mapping[str, str] | None = None,
    tile: Mapping[str, str] | None = None,
    top_without: Iterable[str] = (),
    tensor_without: Iterable[str] = (),
    tile_without: Iterable[str] = (),
    tile_apart: Iterable[str] = (),
    render: Render | None = None,
) -> None:
    """Registers `build` as `pl.name` (if `top`), `pl.tensor.name` and `pl.tile.name`.

    `tensor` and `tile` give the parameter names of those namespaces (None: the name is not in
    it); `top_without`, `tensor_without` and `tile_without` the parameters they do not have. The
    top-level name refuses those of `tensor_without` for tensors, those of `tile_apart` for tiles.
    """
    if top:
        path = f"pl.{name}"
        shown = Variant(path, build, without=top_without) if top_without else build
        apart = {
            "tensor": frozenset(tensor_without) - frozenset(top_without),
            "tile": frozenset(tile_apart),
        }
        if any(apart.values()):
            shown = Parted(name, shown, apart)
            render = render if render is never else shown.fitting(render or op_arguments)
        spelled(target, path, render=render)(shown)
    homes = (("tensor", tensor, tensor_without), ("tile", tile, tile_without))
    for kind, names, without in homes:
        if names is not None:
            path = f"pl.{kind}.{name}"
            shown = Variant(path, build, kind=kind, names=names, without=without)
            spelled(target, path, render=never)(shown)


class Parted:
    """`build`, which refuses for each kind of operand the parameters that are `apart` from it."""

    def __init__(self, name: str, build: Build, apart: Mapping[str, frozenset[str]]) -> None:
        self.__name__ = name
        self.__doc__ = build.__doc__
        self.__wrapped__ = build
        self.apart = apart

    @cached_property
    def _defaults(self) -> dict[str, Any]:
        parameters = inspect.signature(self.__wrapped__).parameters
        return {name: parameter.default for name, parameter in parameters.items()}

    @cached_property
    def _first(self) -> int:
        """The position of the first parameter that is looked at."""
        names = [*self._defaults]
        return min(names.index(name) for apart in self.apart.values() for name in apart)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if kwargs or len(args) > self._first:
            self._require_fitting(dict(zip(self._defaults, args)) | kwargs)
        return self.__wrapped__(*args, **kwargs)

    def _require_fitting(self, given: Mapping[str, Any]) -> None:
        kind, name = self._misfit(given)
        if name:
            raise ArgumentTypeMismatch(
                f"{self.__name__}: {name} is not for {kind}s", hint=f"Leave {name} out."
            )

    def _misfit(self, given: Mapping[str, Any]) -> tuple[str, str]:
        """The kind of the first operand, and an argument that it does not have; "" for none."""
        kind = "tile" if is_tile(given.get(next(iter(self._defaults)))) else "tensor"
        for name in sorted(self.apart[kind].intersection(given)):
            if given[name] is not self._defaults[name] and given[name] != self._defaults[name]:
                return kind, name
        return kind, ""

    def fitting(self, render: Render) -> Render:
        """`render` for the operations that this name can make."""

        def rendered(operation: Operation) -> dict[str, Any] | None:
            given = render(operation)
            return None if given is None or self._misfit(given)[1] else given

        return rendered


def tile_macro(name: str) -> Callable[[Build], Macro]:
    """Declares `pl.name` and `pl.tile.name`, whose first operand is a tile, in terms of ops."""

    def declare(function: Build) -> Macro:
        target = Macro(function)
        publish_tile(target, name, function)
        return target

    return declare


def publish_tile(target: Target, name: str, build: Build, *, render: Render | None = None) -> None:
    """Registers a build whose first operand must be a tile, as `pl.tile.name` and `pl.name`."""
    checked = Variant(f"pl.{name}", build, kind="tile")
    spelled(target, f"pl.{name}", render=render or never)(checked)
    spelled(target, f"pl.tile.{name}", render=never)(checked)


def described(build: Build, name: str, target: Any) -> Build:
    """`build` with the name and the documentation that readers see."""
    build.__name__ = name
    build.__doc__ = target.__doc__
    return build


def require_shaped_value(name: str, argument: str, given: Any) -> Value:
    """`given` if it is a tensor or a tile; raises ArgumentTypeMismatch."""
    value = require_value(name, argument, given)
    if not isinstance(value.type, ShapedType):
        raise ArgumentTypeMismatch(f"{name}: {argument} is {value.type}, not a tensor or a tile")
    return value


def require_whole_value(name: str, argument: str, given: Any) -> Value:
    """`given` if it is a tensor or a tile without padding; raises ArgumentTypeMismatch and
    ShapeMismatch."""
    value = require_shaped_value(name, argument, given)
    require_fully_valid(name, argument, cast(ShapedType, value.type))
    return value
