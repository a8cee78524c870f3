"""Parameters and arguments: annotations, tensor metadata, what a signature and a call allow.

torch is never imported: a tensor is anything whose memory `runtime.views` can see.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Literal, cast

from tilewright.dataclass import dataclass
from tilewright.dtypes import BOOL, FP32, INDEX, DType
from tilewright.errors import (
    ArgumentCountMismatch,
    ArgumentTypeMismatch,
    DTypeMismatch,
    ParserTypeError,
    RankMismatch,
    ShapeMismatch,
    TilewrightError,
)
from tilewright.frontend.annotations import (
    BARE,
    Annotation,
    Directed,
    DynVar,
    Scalar,
    as_type,
    require_direction,
)
from tilewright.frontend.namespace import Namespace
from tilewright.frontend.typing import TypeEvaluator
from tilewright.ir.affine import Expr, Symbol, symbols
from tilewright.ir.core import Value
from tilewright.ir.enums import ParamDirection
from tilewright.ir.types import (
    Dim,
    ScalarType,
    TensorType,
    TensorView,
    TileType,
    TupleType,
    Type,
)
from tilewright.jit import _specialize_values
from tilewright.jit._ast_analysis import SourceInfo, read_paths, unquoted
from tilewright.jit._specialize_types import ShapeDim, TensorMeta
from tilewright.runtime.views import NotAnArray, describe_value, view_array
from tilewright.source import Span


class constexpr(Annotation):
    """`n: pl.constexpr`: a parameter whose value is folded where it is used, once per value."""

    def __class_getitem__(cls, kind: Any) -> type[constexpr]:
        del kind
        return cls


class _Runtime:
    """The value of a scalar that only run time knows; accepted where a sample is."""

    def __repr__(self) -> str:
        return "pl.RUNTIME"


RUNTIME = _Runtime()

Kind = Literal["typed", "bare", "constexpr"]
NO_DEFAULT = object()


@dataclass(frozen=True)
class Parameter:
    """One parameter. `annotation` is what its annotation evaluates to, without the direction.

    "typed" has a complete type; "bare" takes it from the argument; "constexpr" is folded.
    """

    name: str
    kind: Kind
    direction: ParamDirection
    annotation: Any
    span: Span
    default: Any = NO_DEFAULT

    @property
    def has_default(self) -> bool:
        """True when the signature gives a value."""
        return self.default is not NO_DEFAULT

    @property
    def type(self) -> Type:
        """The declared type of a typed parameter."""
        return as_type(self.annotation)

    @property
    def is_output(self) -> bool:
        """True for Out."""
        return self.direction is ParamDirection.Out


# ---- signatures ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class SignatureInfo:
    """The parameters of a function, and its return annotation (None: undeclared or bare).

    `placeholders` are what scalar parameters are called in the extents of others.
    """

    parameters: tuple[Parameter, ...]
    returns: Any = None
    placeholders: Mapping[str, Symbol] = field(default_factory=dict[str, Symbol])

    @property
    def constants(self) -> tuple[Parameter, ...]:
        """The constexpr parameters."""
        return tuple(p for p in self.parameters if p.kind == "constexpr")

    @property
    def runtime(self) -> tuple[Parameter, ...]:
        """The parameters a compiled function has."""
        return tuple(p for p in self.parameters if p.kind != "constexpr")

    def __getitem__(self, name: str) -> Parameter:
        return next(p for p in self.parameters if p.name == name)


def read_signature(
    info: SourceInfo,
    names: Namespace,
    evaluated: Mapping[str, Any],
    constants: Mapping[str, Any],
    *,
    defaults: Mapping[str, Any],
    only_enclosing: Callable[[str], bool],
) -> SignatureInfo:
    """The parameters with their annotations read in this request's names.

    `constants` are values of constexpr parameters; `evaluated` the annotations Python evaluated,
    kept where names are missing now. Raises author errors at the annotation.
    """
    reader = _SignatureReader(info, names, evaluated, constants, only_enclosing)
    parameters = tuple(
        reader.parameter(argument, defaults.get(argument.arg, NO_DEFAULT))
        for argument in info.parameters
    )
    reader.refuse_ambiguity(parameters)
    returns = reader.returns()
    placeholders = {n: v.symbol for n, v in reader.scalars.items() if v.has_symbol}
    return SignatureInfo(parameters, returns, placeholders)


class _SignatureReader:
    def __init__(
        self,
        info: SourceInfo,
        names: Namespace,
        evaluated: Mapping[str, Any],
        constants: Mapping[str, Any],
        only_enclosing: Callable[[str], bool],
    ) -> None:
        self.info = info
        self.evaluated = evaluated
        self.constants = constants
        self.only_enclosing = only_enclosing
        self.scalars: dict[str, Value] = {}
        self.types = TypeEvaluator(
            names.overlay({**info.dynamic_symbols, **constants}),
            info.captured.source,
            scope=self.scalars,
        )
        for argument in info.parameters:
            self._note_scalar(argument)

    def _note_scalar(self, argument: ast.arg) -> None:
        """Scalar parameters may be extents in the annotations of others."""
        if argument.annotation is None:
            return
        try:
            found = self.types.annotation(unquoted(argument.annotation))
        except TilewrightError:
            return
        if isinstance(found, DType):
            found = ScalarType(found)
        if isinstance(found, ScalarType):
            self.scalars[argument.arg] = Value(found, argument.arg)

    def parameter(self, argument: ast.arg, default: Any) -> Parameter:
        """One parameter."""
        span = self.types.span(argument)
        if argument.annotation is None:
            return Parameter(argument.arg, "bare", ParamDirection.In, None, span, default)
        self._refuse_mixture(argument)
        given = self._annotation(argument.arg, unquoted(argument.annotation), span)
        direction = ParamDirection.In
        if isinstance(given, Directed):
            direction, given = given.direction, given.inner
        if given is constexpr:
            return Parameter(argument.arg, "constexpr", direction, given, span, default)
        if given in BARE:
            return Parameter(argument.arg, "bare", direction, given, span, default)
        type_ = self.types.computed(argument.annotation, as_type, given)
        self.types.computed(argument, require_direction, argument.arg, direction, type_)
        _require_plain_layout(argument, type_, span)
        return Parameter(argument.arg, "typed", direction, type_, span, default)

    def _annotation(self, name: str, node: ast.expr, span: Span) -> Any:
        """What an annotation means now; what Python made of it where names are gone."""
        try:
            return self.types.annotation(node)
        except TilewrightError as error:
            kept = self.evaluated.get(name)
            depends = any(path[0] in self.constants for path in read_paths(node))
            if kept is not None and not isinstance(kept, str) and not depends:
                return kept
            error.message = f"parameter '{name}': {error.message}"
            error.args = (error.message,)
            error.locate(span)
            raise

    def _refuse_mixture(self, argument: ast.arg) -> None:
        """One expression of a constexpr parameter and a local that nothing captured."""
        assert argument.annotation is not None
        for part in _components(unquoted(argument.annotation)):
            names = {path[0] for path in read_paths(part)}
            folded = sorted(names & self.constants.keys())
            lost = sorted(n for n in names - self.constants.keys() if self.only_enclosing(n))
            if folded and lost:
                raise ParserTypeError(
                    f"parameter '{argument.arg}': '{ast.unparse(part)}' mixes the parameter "
                    f"'{folded[0]}' with '{lost[0]}', a local of the enclosing function that "
                    "the helper does not capture",
                    self.types.span(argument),
                    f"Pass '{lost[0]}' as another pl.constexpr parameter, or use it in the body.",
                )

    def refuse_ambiguity(self, parameters: Sequence[Parameter]) -> None:
        """A free symbol of a tile's type with the label of a scalar parameter."""
        for parameter in parameters:
            for symbol in _tile_symbols(parameter.annotation):
                if isinstance(symbol, DynVar) and symbol.name in self.scalars:
                    raise ParserTypeError(
                        f"parameter '{parameter.name}': its type has a free dimension called "
                        f"'{symbol.name}', and so is a scalar parameter, which is another value",
                        parameter.span,
                        f"Give the dimension a label of its own: pl.dynamic('{symbol.name}_dim').",
                    )

    def returns(self) -> Any:
        """What the return annotation means; None for an undeclared or bare one."""
        node = self.info.node.returns
        if node is None:
            return None
        try:
            found = self.types.annotation(unquoted(node))
        except TilewrightError:
            found = self.evaluated.get("return")
            if found is None or isinstance(found, str):
                raise
        return None if found in BARE else found


def _tile_symbols(type_: Any) -> set[Symbol]:
    """The symbols in the extents of a tile type, or of the tile types in a tuple."""
    if isinstance(type_, TupleType):
        return set[Symbol]().union(*map(_tile_symbols, type_.items))
    if not isinstance(type_, TileType):
        return set()
    return {symbol for dim in dims_of(type_) for symbol in symbols(dim)}


def dims_of(type_: Any) -> Iterator[Expr]:
    """Every extent, stride and offset of a type that is no number."""
    view = getattr(type_, "view", None)
    groups: tuple[tuple[Dim | None, ...] | None, ...] = (
        getattr(type_, "shape", None),
        getattr(view, "valid_shape", None),
        getattr(view, "stride", None),
        (getattr(view, "start_offset", None),),
    )
    return (dim for group in groups for dim in group or () if isinstance(dim, Expr))


def _components(node: ast.expr) -> list[ast.expr]:
    """The independent parts of an annotation: extents one by one, then the other arguments."""
    if isinstance(node, ast.Subscript):
        return _components(node.slice)
    if isinstance(node, (ast.Tuple, ast.List)):
        return [part for item in node.elts for part in _components(item)]
    return [node]


def _require_plain_layout(argument: ast.arg, type_: Type, span: Span) -> None:
    view = type_.view if isinstance(type_, TensorType) else None
    if view is not None and view != TensorView(layout=view.layout):
        raise ParserTypeError(
            f"parameter '{argument.arg}': a pl.TensorView is not allowed in the annotation of a "
            "@pl.jit parameter",
            span,
            "Write the layout alone, such as pl.NZ, as the third part of pl.Tensor[...].",
        )


# ---- arguments -----------------------------------------------------------------------------------


@dataclass
class BoundCall:
    """Arguments by parameter: `values` of run-time parameters, `constants` of constexpr ones."""

    values: dict[str, Any] = field(default_factory=dict[str, Any])
    constants: dict[str, Any] = field(default_factory=dict[str, Any])


def bind_call(
    name: str,
    parameters: Sequence[Parameter],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> BoundCall:
    """Maps a call's arguments to parameters; raises ArgumentCountMismatch (a TypeError).

    Positions may leave out constexpr parameters that are given otherwise, and, to have them
    allocated, every Out parameter. A call without positions leaves the rest to annotations.
    """
    known = {p.name for p in parameters}
    for given in kwargs:
        if given not in known:
            raise ArgumentCountMismatch(
                f"{name} has no parameter '{given}'",
                hint=f"Its parameters are {', '.join(p.name for p in parameters)}.",
            )
    targets = _positional_targets(name, parameters, args, kwargs)
    values = dict(zip(targets, args))
    order = [p.name for p in parameters]
    before = parameters[: max(map(order.index, targets), default=0)]
    inputs = {p.name for p in before if not p.is_output and p.kind != "constexpr"}
    twice = [key for key in kwargs if key in values or key in inputs]
    if twice:
        raise ArgumentCountMismatch(f"{name} got two values for parameter '{twice[0]}'")
    values.update(kwargs)
    bound = BoundCall()
    for parameter in parameters:
        if parameter.kind == "constexpr":
            bound.constants[parameter.name] = _constant(name, parameter, values)
        elif parameter.name in values:
            bound.values[parameter.name] = values[parameter.name]
        elif parameter.has_default:
            bound.values[parameter.name] = parameter.default
    return bound


def require_inputs(name: str, parameters: Sequence[Parameter], bound: BoundCall) -> None:
    """Raises ArgumentCountMismatch where a call gives an output, and not all that is read."""
    missing = [p.name for p in parameters if not (p.is_output or p.name in bound.values)]
    if missing and bound.values:
        raise ArgumentCountMismatch(
            f"{name} is given nothing for parameter '{missing[0]}'",
            hint=f"Call it as {name}({', '.join(p.name for p in parameters)}).",
        )


def _positional_targets(
    name: str, parameters: Sequence[Parameter], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> list[str]:
    """The parameters that positions are for: of the readings that fit, one that the values fit."""
    if not args:
        return []
    readings = list(_readings(parameters, len(args), kwargs))
    if not readings:
        raise _miscounted(name, parameters, len(args))
    known = {p.name: p for p in parameters}

    def is_plausible(reading: list[str]) -> bool:
        return all(map(_may_be, map(known.__getitem__, reading), args))

    return next(filter(is_plausible, readings), readings[0])


def _readings(
    parameters: Sequence[Parameter], count: int, kwargs: Mapping[str, Any]
) -> Iterator[list[str]]:
    """The lists of `count` parameters that a call's positions may be for, likely ones first."""
    free = [p for p in parameters if p.name not in kwargs]
    runtime = [p for p in free if p.kind != "constexpr"]
    inputs = [p for p in runtime if not p.is_output]
    for targets in (runtime, free, inputs):
        if count == len(targets):
            yield [p.name for p in targets]
    for targets in (free, inputs):
        if all(p.has_default for p in targets[count:]) and count < len(targets):
            yield [p.name for p in targets[:count]]


def _may_be(parameter: Parameter, value: Any) -> bool:
    """False for a number where an array is written, and an array where a number is the default."""
    if parameter.is_output:
        return not isinstance(value, (bool, int, float))
    return not (parameter.has_default and getattr(value, "shape", ()))


def _miscounted(name: str, parameters: Sequence[Parameter], count: int) -> TilewrightError:
    names = [p.name for p in parameters if p.kind != "constexpr"]
    short = len(names) - sum(p.is_output for p in parameters)
    ways = f"{len(names)} (in-place)" + (f" or {short} (return)" if short != len(names) else "")
    return ArgumentCountMismatch(
        f"{name} expects {ways} arguments, got {count}. Parameters: {names}",
        hint=f"Call it as {name}({', '.join(p.name for p in parameters)}).",
    )


def _constant(name: str, parameter: Parameter, values: Mapping[str, Any]) -> Any:
    if parameter.name in values or parameter.has_default:
        value = values.get(parameter.name, parameter.default)
        _require_source_form(name, parameter.name, value)
        return value
    raise ArgumentCountMismatch(
        f"{name}: constexpr parameter '{parameter.name}' has no value",
        hint=f"Pass {parameter.name}=..., or give it a default in the signature.",
    )


def _require_source_form(name: str, parameter: str, value: Any) -> None:
    """Raises ArgumentTypeMismatch for a value that no constexpr parameter can have."""
    if _specialize_values.render_value(value) is not None:
        return
    hint = "Numbers, strings, None, names of pl, and lists and tuples of these have one."
    if value is RUNTIME:
        hint = (
            "Its value selects what is compiled; annotate it as pl.Scalar to have it at run time."
        )
    elif type(value).__name__ == "RunConfig":
        hint = "A configuration is passed by name: config=..."
    raise ArgumentTypeMismatch(
        f"{name}: constexpr parameter '{parameter}' is given {describe_value(value)}, "
        "which has no form in the source of a kernel",
        hint=hint,
    )


def bound_type(
    name: str,
    parameter: Parameter,
    values: Mapping[str, Any],
    axes: Mapping[int, Any],
    *,
    check: bool = True,
) -> Type:
    """The type of a run-time parameter: declared, or that of its argument.

    `axes` are the axes that the body declares dynamic; `check` compares arguments with declared
    types. Raises argument errors and ParserTypeError.
    """
    value = values.get(parameter.name, RUNTIME)
    if parameter.kind == "typed":
        declared = parameter.type
        if isinstance(declared, TensorType):
            axes = _checked_axes(name, parameter, len(declared.shape), axes)
            declared = _with_axes(declared, axes)
            if check and value is not RUNTIME:
                _require_fit(name, parameter.name, declared, tensor_meta(name, parameter, value))
        return declared
    if value is RUNTIME:
        raise _missing_metadata(name, parameter)
    if parameter.annotation is Scalar or isinstance(value, (bool, int, float)):
        return ScalarType(_scalar_dtype(value))
    meta = tensor_meta(name, parameter, value)
    axes = _checked_axes(name, parameter, len(meta.shape), axes)
    for axis, symbol in axes.items():
        meta = meta.bound(axis, symbol)
    return meta.type


def _checked_axes(
    name: str, parameter: Parameter, rank: int, axes: Mapping[int, Any]
) -> dict[int, Any]:
    """The dynamic axes counted from 0; raises RankMismatch for one that is not there."""
    for axis in axes:
        if not -rank <= axis < rank:
            raise RankMismatch(
                f"{name}: bind_dynamic({axis}, {axes[axis].name}): argument '{parameter.name}' has "
                f"{rank} dimensions",
                hint=f"Axes are 0 to {rank - 1}, or -{rank} to -1.",
            )
    return {axis % rank: symbol for axis, symbol in axes.items()}


def _with_axes(declared: TensorType, axes: Mapping[int, Any]) -> TensorType:
    if not axes:
        return declared
    shape = [axes[k] + 0 if k in axes else extent for k, extent in enumerate(declared.shape)]
    return replace(declared, shape=tuple(shape))


def _missing_metadata(name: str, parameter: Parameter) -> TilewrightError:
    what = "an annotation with no shape" if parameter.annotation else "no annotation"
    if isinstance(parameter.annotation, type):
        what += f" (pl.{parameter.annotation.__name__})"
    return ParserTypeError(
        f"{name}: parameter '{parameter.name}' has {what}, and no argument gives it",
        parameter.span,
        "Pass a sample argument, or write pl.Tensor[[...], pl.FP32].",
    )


def _scalar_dtype(value: Any) -> DType:
    if isinstance(value, bool):
        return BOOL
    return INDEX if isinstance(value, int) else FP32


def tensor_meta(name: str, parameter: Parameter, value: Any) -> TensorMeta:
    """Shape and element type of an argument, or of an object that describes one.

    Raises ArgumentTypeMismatch for anything else.
    """
    if isinstance(value, TensorMeta):
        return value
    try:
        view = value if _is_description(value) else view_array(value)
        dtype = view.dtype if isinstance(view.dtype, DType) else DType.from_numpy(view.dtype)
        shape: tuple[ShapeDim, ...] = tuple(view.shape)
    except NotAnArray as reason:
        described = _described(value)
        if described is not None:
            return described
        raise ArgumentTypeMismatch(
            f"{name}: argument '{parameter.name}' is {reason}; an array is accepted"
        ) from None
    except (KeyError, ValueError, TypeError):
        element = value.dtype if hasattr(value, "dtype") else "unknown"
        raise DTypeMismatch(
            f"{name}: argument '{parameter.name}' has elements of type {element}, which the "
            "language does not have"
        ) from None
    return TensorMeta(shape, dtype)


def _described(value: Any) -> TensorMeta | None:
    """The metadata of an object without memory, such as a tensor of the meta device."""
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if not isinstance(shape, tuple) or dtype is None:
        return None
    extents = cast("tuple[Any, ...]", shape)
    try:
        element = DType.from_library_name(str(dtype))
    except KeyError:
        return None
    return TensorMeta(tuple(map(int, extents)), element)


def _is_description(value: Any) -> bool:
    """True for an object that has a shape and an element type of the language, but no elements."""
    return hasattr(value, "shape") and isinstance(getattr(value, "dtype", None), DType)


def _require_fit(name: str, argument: str, declared: TensorType, meta: TensorMeta) -> None:
    at = f"{name}: argument '{argument}'"
    if meta.dtype is not declared.dtype:
        raise DTypeMismatch(f"{at} is {meta.dtype.name}; {declared.dtype.name} is accepted")
    if len(meta.shape) != len(declared.shape):
        raise RankMismatch(
            f"{at} has {len(meta.shape)} dimensions; {len(declared.shape)} are accepted"
        )
    for axis, (given, wanted) in enumerate(zip(meta.shape, declared.shape)):
        if isinstance(wanted, int) and isinstance(given, int) and given != wanted:
            raise ShapeMismatch(f"{at}: dimension {axis} is {given}; {wanted} is declared")


__all__ = [
    "NO_DEFAULT",
    "RUNTIME",
    "BoundCall",
    "Parameter",
    "SignatureInfo",
    "bind_call",
    "bound_type",
    "constexpr",
    "read_signature",
    "tensor_meta",
]
