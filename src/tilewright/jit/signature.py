"""How a function of the IR is called: its kernel signature, and what each returned value is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field, replace

from tilewright import abi
from tilewright.dataclass import dataclass
from tilewright.errors import UnsupportedFeatureError
from tilewright.ir.affine import FloorDiv, Symbol, as_expr
from tilewright.ir.core import Function, Value
from tilewright.ir.enums import ParamDirection
from tilewright.ir.types import BufferType, Dim, ScalarType, Shape, ShapedType

_DIRECTIONS: dict[ParamDirection, abi.Direction] = {
    ParamDirection.In: "in",
    ParamDirection.Out: "out",
    ParamDirection.InOut: "inout",
}


@dataclass(frozen=True)
class Calling:
    """A signature, and the positions among what a call returns that are scalars of shape [1]."""

    signature: abi.Signature
    scalars: tuple[int, ...] = ()

    def returning(self) -> Calling | None:
        """The same kernel called with inputs only; None when an output's extent stays unknown."""
        params = tuple(
            replace(p, implicit=True)
            if isinstance(p, abi.TensorParam) and p.direction == "out"
            else p
            for p in self.signature.params
        )
        try:
            signature = replace(self.signature, params=params)
        except ValueError:
            return None
        return Calling(signature, self.scalars)


@dataclass
class Names:
    """Unique names of the symbols that occur in a signature."""

    of: dict[Symbol, str] = field(default_factory=dict[Symbol, str])

    def name(self, symbol: Symbol) -> str:
        """The name of `symbol`, its own unless another symbol has it."""
        if symbol not in self.of:
            taken, stem, count = set(self.of.values()), symbol.name, 1
            name = stem
            while name in taken:
                count += 1
                name = f"{stem}_{count}"
            self.of[symbol] = name
        return self.of[symbol]

    def extent(self, dim: Dim) -> abi.Extent:
        """An extent as data; raises ValueError for one that is no quotient of a sum."""
        if isinstance(dim, int):
            return abi.Extent(dim)
        terms = dict(dim.terms)
        if len(terms) == 1 and not dim.const:
            ((atom, scale),) = terms.items()
            if isinstance(atom, FloorDiv) and isinstance(atom.divisor, int) and scale == 1:
                return replace(self.extent(as_expr(atom.numerator)), divisor=atom.divisor)
        pairs: list[tuple[str, int]] = []
        for atom, scale in terms.items():
            if not isinstance(atom, Symbol):
                raise ValueError(f"the extent {dim} is not a sum of multiples of dimensions")
            pairs.append((self.name(atom), scale))
        return abi.Extent(dim.const, tuple(pairs))


def calling_of(function: Function) -> Calling:
    """How to call `function`, of any level above loops.

    Tensors and scalars that it returns and that are no parameters become implicit outputs, a
    scalar one of shape [1]. Raises UnsupportedFeatureError for what compiled code cannot take.
    """
    return _Reader(function).calling()


def calling_of_lowered(function: Function, lowered: Function) -> Calling:
    """How to call loop-level `lowered`, which was made from `function` (see passes/function.py)."""
    reader = _Reader(lowered)
    declared = len(function.params)
    strides: dict[int, Shape] = dict(lowered.attrs.get("strides", ()))
    for index, (value, direction) in enumerate(zip(lowered.params, lowered.directions)):
        param = reader.param(value, direction)
        if index in strides:
            assert isinstance(param, abi.TensorParam)
            param = replace(param, layout="rows" if strides[index][-1] == 1 else "strided")
        if index >= declared:
            assert isinstance(param, abi.TensorParam)
            param = replace(param, implicit=True)
        reader.params.append(param)
    results: tuple[tuple[str, int], ...] = lowered.attrs["results"]
    scalars = tuple(i for i, (kind, _) in enumerate(results) if kind == "scalar")
    signature = reader.signature([position for _, position in results])
    return Calling(signature, scalars)


class _Reader:
    def __init__(self, function: Function) -> None:
        self.function = function
        scalars = (value for value in function.params if isinstance(value.type, ScalarType))
        self.names = Names({value.symbol: value.name for value in scalars if value.has_symbol})
        self.params: list[abi.Param] = []

    def calling(self) -> Calling:
        function = self.function
        for value, direction in zip(function.params, function.directions, strict=True):
            self.params.append(self.param(value, direction))
        returned, finals = function.body.terminator.operands
        positions = self._positions(finals)
        returns = [self._returned(value, positions) for value in returned]
        scalars = tuple(i for i, v in enumerate(returned) if isinstance(v.type, ScalarType))
        return Calling(self.signature(returns), scalars)

    def param(self, value: Value, direction: ParamDirection) -> abi.Param:
        """The parameter that `value` is."""
        if isinstance(value.type, ScalarType):
            if direction is not ParamDirection.In:
                raise self._refused(value, "a scalar is passed by value and cannot be an output")
            return abi.ScalarParam(value.name, value.type.dtype)
        if not isinstance(value.type, (ShapedType, BufferType)):
            raise self._refused(value, f"a {value.type} cannot be passed to a kernel")
        return self._tensor(value, value.name, _DIRECTIONS[direction], implicit=False)

    def _tensor(
        self, value: Value, name: str, direction: abi.Direction, *, implicit: bool
    ) -> abi.TensorParam:
        assert isinstance(value.type, (ShapedType, BufferType))
        try:
            shape = tuple(map(self.names.extent, value.type.shape))
        except ValueError as error:
            raise self._refused(value, str(error)) from None
        return abi.TensorParam(name, value.type.dtype, shape, direction, implicit=implicit)

    def _positions(self, finals: Iterable[Value]) -> dict[Value, int]:
        function = self.function
        positions = {value: index for index, value in enumerate(function.params)}
        written = [
            index
            for index, direction in enumerate(function.directions)
            if direction is not ParamDirection.In
        ]
        return positions | dict(zip(finals, written))

    def _returned(self, value: Value, positions: dict[Value, int]) -> int:
        if isinstance(value.type, ScalarType):
            scalar = abi.TensorParam(
                self._fresh(value), value.type.dtype, (abi.Extent(1),), "out", implicit=True
            )
            return self._append(scalar)
        if value in positions:
            return positions[value]
        if not isinstance(value.type, ShapedType):
            raise self._refused(value, f"a {value.type} cannot be returned to the caller")
        return self._append(self._tensor(value, self._fresh(value), "out", implicit=True))

    def _append(self, param: abi.TensorParam) -> int:
        self.params.append(param)
        return len(self.params) - 1

    def _fresh(self, value: Value) -> str:
        taken = {param.name for param in self.params}
        free = value.name and value.name not in taken
        return value.name if free else f"result{len(self.params)}"

    def signature(self, returns: list[int]) -> abi.Signature:
        try:
            return abi.Signature(tuple(self.params), tuple(returns), len(returns) > 1)
        except ValueError as error:
            raise UnsupportedFeatureError(
                f"{self.function.name}: {error}",
                self.function.span,
                "Give a tensor parameter this dimension as an extent of its own.",
            ) from None

    def _refused(self, value: Value, why: str) -> UnsupportedFeatureError:
        return UnsupportedFeatureError(
            f"{self.function.name}: parameter '{value.name}': {why}", self.function.span
        )
