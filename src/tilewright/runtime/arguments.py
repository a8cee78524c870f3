"""The careful way to call a kernel: every argument checked, every refusal named.

Nothing is written before every check has passed.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import field
from functools import cache
from typing import Any, NoReturn, cast

import numpy as np

from tilewright.abi import (
    Extent,
    Manifest,
    Param,
    ScalarParam,
    Signature,
    TensorParam,
    encode_scalar,
    integer_range,
)
from tilewright.dataclass import dataclass
from tilewright.dtypes import ALL as ALL_DTYPES
from tilewright.dtypes import DType, limits_of
from tilewright.errors import (
    ArgumentCountMismatch,
    ArgumentTypeMismatch,
    ByteOrderMismatch,
    DTypeMismatch,
    OutputOverlap,
    RankMismatch,
    ReadOnlyOutput,
    ShapeMismatch,
    StrideMismatch,
)
from tilewright.runtime import process
from tilewright.runtime.views import (
    Array,
    Family,
    NotAnArray,
    Storage,
    View,
    allocate,
    describe_value,
    view_array,
)

_SHARING_WORK: Any = 100_000  # what numpy may try before an overlap counts as one


@dataclass(slots=True)
class Prepared:
    """A call that may start: the words of `args`, what it returns, what it must copy back."""

    words: list[int]
    result: object
    symbols: Mapping[str, int]
    copies: list[tuple[Array, Array]] = field(default_factory=list[tuple[Array, Array]])
    owners: list[object] = field(default_factory=list[object])

    def copy_back(self) -> None:
        """Write outputs that ran in a contiguous copy to where the caller wants them."""
        for target, source in self.copies:
            np.copyto(target, source)


def bind_arguments(
    signature: Signature, name: str, args: Sequence[object], kwargs: Mapping[str, object]
) -> tuple[object, ...]:
    """The arguments in parameter order; raises ArgumentCountMismatch."""
    names = [p.name for p in signature.explicit]
    values = dict(zip(names, args))
    unknown = [key for key in kwargs if key not in names]
    twice = [key for key in kwargs if key in values]
    missing = [key for key in names if key not in values and key not in kwargs]
    if len(args) > len(names) or unknown or twice or missing:
        _refuse_count(name, names, len(args), unknown, twice, missing)
    values.update(kwargs)
    return tuple(values[key] for key in names)


def _refuse_count(
    name: str,
    names: list[str],
    given: int,
    unknown: list[str],
    twice: list[str],
    missing: list[str],
) -> NoReturn:
    parts = [f"{given} given by position"]
    for title, keys in (("unknown", unknown), ("given twice", twice), ("missing", missing)):
        if keys:
            parts.append(f"{title}: {', '.join(map(repr, keys))}")
    raise ArgumentCountMismatch(
        f"{name}: takes {len(names)} argument{'s' * (len(names) != 1)}; {'; '.join(parts)}",
        hint=f"call it as {name}({', '.join(names)})",
    )


def prepare_call(
    signature: Signature, manifest: Manifest, args: Sequence[object], *, copies: bool = True
) -> Prepared:
    """Check `args` (in the order of `signature.explicit`) and lay out the kernel's words.

    An array whose layout the kernel does not take is copied in, and back out for outputs, unless
    `copies` is false. Raises the classes of `errors.arguments`.
    """
    return _Preparation(signature, manifest, args, copies).prepared()


class _Preparation:
    """One call on its way through the checks."""

    def __init__(
        self, signature: Signature, manifest: Manifest, args: Sequence[object], copies: bool
    ) -> None:
        self.signature = signature
        self.manifest = manifest
        self.kernel = manifest.name
        self.copies = copies
        if len(args) != len(signature.explicit):
            bind_arguments(signature, self.kernel, args, {})
        self.values = {p.name: value for p, value in zip(signature.explicit, args)}
        self.views: dict[str, View] = {}
        self.copied: list[tuple[Array, Array]] = []
        self.owners: list[object] = []

    def prepared(self) -> Prepared:
        scalars = [self._encode(p) for p in self.signature.scalars]
        for param in self._passed_tensors():
            self.views[param.name] = self._check_tensor(param)
        symbols = self._solve_symbols()
        self._check_shapes(symbols)
        self._check_overlaps()
        self._allocate_outputs(symbols)
        for param in self.signature.tensors:
            self.views[param.name] = self._fit_layout(param)
        words = [
            *(self.views[p.name].address for p in self.signature.tensors),
            *(symbols[name] for name in self.signature.symbols),
            *self._strides(),
            *scalars,
        ]
        return Prepared(words, self._result(), symbols, self.copied, self.owners)

    def _passed_tensors(self) -> list[TensorParam]:
        return [p for p in self.signature.tensors if not p.implicit]

    def _at(self, param: Param) -> str:
        return f"{self.kernel}: argument {param.name!r}"

    # -- one argument

    def _encode(self, param: ScalarParam) -> int:
        value = self.values[param.name]
        try:
            return encode_scalar(_as_number(value, param.dtype), param.dtype)
        except OverflowError:
            raise DTypeMismatch(
                f"{self._at(param)} is {describe_value(value)}; "
                f"{_spell(param.dtype)} holds {_spell_range(param.dtype)}"
            ) from None
        except (TypeError, ValueError):
            raise ArgumentTypeMismatch(
                f"{self._at(param)} is {describe_value(value)}; "
                f"a scalar of type {_spell(param.dtype)} is accepted"
            ) from None

    def _check_tensor(self, param: TensorParam) -> View:
        try:
            view = view_array(self.values[param.name])
        except NotAnArray as reason:
            raise ArgumentTypeMismatch(
                f"{self._at(param)} is {reason}; an array of type {_spell(param.dtype)} "
                f"and shape {_spell_shape(param)} is accepted",
                hint="pass a numpy array, a torch tensor on the CPU, or an object with a buffer",
            ) from None
        if view.family == "torch":
            process.register_exchange_type(type(self.values[param.name]))
        self._check_dtype(param, view)
        if len(view.shape) != param.rank:
            raise RankMismatch(
                f"{self._at(param)} has {len(view.shape)} dimensions {view.shape}; "
                f"{param.rank} are accepted: {_spell_shape(param)}"
            )
        if param.is_written:
            self._check_writable(param, view)
        return view

    def _check_dtype(self, param: TensorParam, view: View) -> None:
        wanted: Storage = param.dtype.numpy
        if view.dtype == wanted:
            return
        if not view.dtype.isnative and view.dtype.newbyteorder("=") == wanted:
            raise ByteOrderMismatch(
                f"{self._at(param)} is {view.dtype.str!r}, whose bytes are in the other order; "
                f"{_spell(param.dtype)} in the order of this machine is accepted",
                hint=f"pass {param.name}.astype({_spell_numpy(wanted)})",
            )
        raise DTypeMismatch(
            f"{self._at(param)} is {view.dtype.name}; {_spell(param.dtype)} is accepted",
            hint=f"pass {param.name}.{_conversion(view, wanted)}",
        )

    def _check_writable(self, param: TensorParam, view: View) -> None:
        if not view.writable:
            raise ReadOnlyOutput(
                f"{self._at(param)} is read-only; the kernel writes it",
                hint=f"pass {param.name}.{'clone' if view.family == 'torch' else 'copy'}()",
            )
        if view.repeats_elements():
            raise StrideMismatch(
                f"{self._at(param)} repeats elements (strides {view.strides}); "
                "an output whose elements are distinct is accepted",
                hint=f"pass {param.name}.copy()",
            )

    # -- shapes

    def _solve_symbols(self) -> dict[str, int]:
        symbols: dict[str, int] = {}
        for param in self.signature.scalars:
            if param.name in self.signature.given_symbols:
                symbols[param.name] = int(_as_number(self.values[param.name], param.dtype))
        for name, (position, axis) in self.signature.bindings.items():
            param = self.signature.params[position]
            assert isinstance(param, TensorParam)
            extent, given = param.shape[axis], self.views[param.name].shape[axis]
            value = extent.solve(given)
            if value is None:
                self._refuse_shape(param, axis, f"must be {extent} for a whole {name} >= 0")
            symbols[name] = value
        return symbols

    def _check_shapes(self, symbols: Mapping[str, int]) -> None:
        for param in self._passed_tensors():
            shape = self.views[param.name].shape
            for axis, extent in enumerate(param.shape):
                if extent.evaluate(symbols) != shape[axis]:
                    self._refuse_shape(param, axis, self._expectation(extent, symbols))

    def _expectation(self, extent: Extent, symbols: Mapping[str, int]) -> str:
        if extent.is_static:
            return f"must be {extent}"
        known = f"must be {extent} = {extent.evaluate(symbols)}"
        if str(extent) in self.signature.given_symbols:
            return known
        return f"{known}, as " + " and ".join(
            f"{name} = {symbols[name]}{self._origin(name)}" for name in extent.symbols
        )

    def _origin(self, symbol: str) -> str:
        if symbol in self.signature.given_symbols:
            return ""
        position, axis = self.signature.bindings[symbol]
        return f" in dimension {axis} of {self.signature.params[position].name!r}"

    def _refuse_shape(self, param: TensorParam, axis: int, expectation: str) -> NoReturn:
        raise ShapeMismatch(
            f"{self._at(param)} has shape {self.views[param.name].shape}; "
            f"dimension {axis} {expectation}"
        )

    # -- memory

    def _check_overlaps(self) -> None:
        passed = self._passed_tensors()
        for index, first in enumerate(passed):
            for second in passed[index + 1 :]:
                if first.is_written or second.is_written:
                    self._check_pair(first, second)

    def _check_pair(self, first: TensorParam, second: TensorParam) -> None:
        one, two = self.views[first.name], self.views[second.name]
        if not _share_memory(one, two):
            return
        allowed = self.manifest.allows_overlap(first.name, second.name)
        if allowed and _same_elements(one, two):
            return
        output, other = (first, second) if first.is_written else (second, first)
        what = "overlaps" if not allowed else "overlaps, without being the very same elements as,"
        raise OutputOverlap(
            f"{self._at(output)} {what} argument {other.name!r}; the kernel writes "
            f"{output.name!r}, which must have memory of its own",
            hint=f"pass a copy of {other.name!r}",
        )

    def _allocate_outputs(self, symbols: Mapping[str, int]) -> None:
        families = {view.family for view in self.views.values()}
        family: Family = "torch" if "torch" in families else "numpy"
        for param in self.signature.tensors:
            if param.implicit:
                shape = tuple(extent.evaluate(symbols) for extent in param.shape)
                if any(extent < 0 for extent in shape):
                    raise ShapeMismatch(f"{self.kernel}: a result would have shape {shape}")
                array = allocate(shape, param.dtype.numpy, family, param.zeroed)
                self.values[param.name] = array
                self.views[param.name] = view_array(array)

    def _fit_layout(self, param: TensorParam) -> View:
        """The view the kernel runs on: the caller's, or a contiguous copy of it."""
        view = self.views[param.name]
        self.owners.append(view.owner)
        if _suits(view, param):
            return view
        if not self.copies:
            raise StrideMismatch(
                f"{self._at(param)} has strides {view.strides} for shape {view.shape}; "
                f"a {param.layout} array is accepted",
                hint=f"pass numpy.ascontiguousarray({param.name})",
            )
        original = view.as_array()
        copy = np.array(original, order="C", copy=True, subok=False)
        self.owners.append(copy)
        if param.is_written:
            self.copied.append((original, copy))
        return view_array(copy)

    def _strides(self) -> list[int]:
        return [
            stride // self.views[p.name].dtype.itemsize
            for p in self.signature.tensors
            if p.passes_strides
            for stride in self.views[p.name].strides
        ]

    def _result(self) -> object:
        values = [self.values[self.signature.params[i].name] for i in self.signature.returns]
        if self.signature.returns_tuple or len(values) > 1:
            return tuple(values)
        return values[0] if values else None


def _as_number(value: Any, dtype: DType) -> int | float:
    """The Python number of a scalar argument; TypeError when it is not of the right kind."""
    value = _unwrap(value)
    if dtype.kind == "bool":
        if isinstance(value, (bool, np.bool_)):
            return bool(cast(Any, value))
        raise TypeError
    if not dtype.is_float():
        return operator.index(value)
    if isinstance(value, (int, float, np.integer, np.floating)) or type(value) in _small_floats():
        return float(cast(Any, value))
    raise TypeError


@cache
def _small_floats() -> frozenset[type[Any]]:
    """The scalar types of numpy's extensions, which derive from none of its own."""
    return frozenset(d.numpy.type for d in ALL_DTYPES if d.is_float() and d.bits <= 16)


def _unwrap(value: Any) -> Any:
    """The element of an array of rank 0; anything else unchanged."""
    is_scalar = isinstance(value, np.ndarray) and cast(Array, value).ndim == 0
    return cast(Any, value)[()] if is_scalar else cast(Any, value)


def _spell(dtype: DType) -> str:
    storage: Storage = dtype.numpy
    plain = storage.name
    return dtype.name if plain == dtype.name.lower() else f"{dtype.name} ({plain})"


def _spell_range(dtype: DType) -> str:
    if dtype.is_float():
        return f"magnitudes up to {float(limits_of(dtype.numpy).max):g}"
    low, high = integer_range(dtype)
    return f"{low} to {high}"


def _spell_numpy(dtype: Storage) -> str:
    return f"numpy.{dtype.name}" if hasattr(np, dtype.name) else f"ml_dtypes.{dtype.name}"


def _conversion(view: View, wanted: Storage) -> str:
    """The call that converts an array of the family of `view`."""
    if view.family == "torch":
        return f"to(torch.{wanted.name})"
    return f"astype({_spell_numpy(wanted)})"


def _spell_shape(param: TensorParam) -> str:
    return f"[{', '.join(map(str, param.shape))}]"


def _suits(view: View, param: TensorParam) -> bool:
    if not view.is_aligned:
        return False
    if param.layout == "contiguous" or not view.shape:
        return view.is_contiguous
    if any(stride % view.dtype.itemsize for stride in view.strides):
        return False
    is_unit = view.strides[-1] == view.dtype.itemsize or view.shape[-1] <= 1
    return param.layout == "strided" or is_unit


def _share_memory(one: View, two: View) -> bool:
    (low, high), (other_low, other_high) = one.span(), two.span()
    if max(low, other_low) >= min(high, other_high):
        return False
    if one.is_contiguous and two.is_contiguous:
        return True
    try:
        return np.shares_memory(one.as_array(), two.as_array(), max_work=_SHARING_WORK)
    except np.exceptions.TooHardError:
        return True


def _same_elements(one: View, two: View) -> bool:
    same_layout = one.strides == two.strides or (one.is_contiguous and two.is_contiguous)
    same_kind = one.shape == two.shape and one.dtype.itemsize == two.dtype.itemsize
    return one.address == two.address and same_kind and same_layout
