"""A kernel as the entry stub reads it: records of words, from a signature and a manifest."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import combinations
from types import FunctionType
from typing import Any

from tilewright.abi import (
    UNBOUNDED,
    Extent,
    Manifest,
    Param,
    ScalarParam,
    Signature,
    TensorParam,
    integer_range,
)
from tilewright.dataclass import dataclass
from tilewright.dtypes import DType
from tilewright.runtime.code import Code
from tilewright.runtime.records import (
    CELL_CONTENTS,
    DICT_VERSION,
    DIM,
    GUARD,
    LIST,
    MAX_PARAMS,
    MAX_RANK,
    MAX_WORDS,
    NPY_ALIGNED,
    NPY_CONTIGUOUS,
    NPY_WRITEABLE,
    ONE_SLOT,
    PAIR,
    PARAM,
    VARIANT,
    WORK,
    WORK_SCALE,
    DimOperation,
    GuardKind,
    Kind,
)
from tilewright.runtime.views import DLPACK_TYPES

_MASK = 0xFFFF_FFFF_FFFF_FFFF
_INT64_MAX = (1 << 63) - 1
_WORK_LIMIT = 1 << 50


class NotFast(Exception):
    """The stub cannot serve this kernel; the message says why. It still runs, the careful way."""


@dataclass(frozen=True)
class Guard:
    """A name that must still mean the same object: `container` is a namespace dict or a cell.

    `expected` is compared by identity; `missing` stands for a name that is not in the namespace. Of
    a list, `key` is an index, or None for its length, which is `expected`; of a dict, None is for
    its version; of a function, it is one of FUNCTION_PARTS.
    """

    container: object
    key: str | int | None
    expected: object
    missing: bool = False

    @property
    def identity(self) -> tuple[int, object, object]:
        """What tells it from another guard, without comparing objects of users."""
        is_count = self.key is None and type(self.container) in (dict, list)
        return id(self.container), self.key, self.expected if is_count else id(self.expected)


def dict_version(given: dict[Any, Any]) -> int | None:
    """The number of a dict's state; None where the interpreter keeps none."""
    return _version(given) if _has_versions() else None


def _version(given: dict[Any, Any]) -> int:
    return ctypes.c_uint64.from_address(id(given) + DICT_VERSION).value


@cache
def _has_versions() -> bool:
    """Looks whether every change of a dict changes its number, and nothing else does."""
    if sys.implementation.name != "cpython" or not (3, 10) <= sys.version_info < (3, 14):
        return False
    probe: dict[Any, Any] = {b"a": 1}
    seen = [_version(probe)]
    changes = (
        lambda: probe.update(b=2),
        lambda: probe.__setitem__(b"a", object()),
        lambda: probe.pop("b"),
        probe.clear,
    )
    for change in changes:
        change()
        seen.append(_version(probe))
        probe.get("b")
        if _version(probe) != seen[-1]:
            return False
    return len(set(seen)) == len(seen)


FUNCTION_PARTS = ("__code__", "__defaults__", "__kwdefaults__")
"""What may be replaced in a function while it stays the same object."""


@cache
def _function_words() -> Mapping[str, int]:
    """Where a function keeps each of its parts, in bytes; found by looking at one."""

    def probe(first: int = 1, *, second: int = 2) -> tuple[int, int]:
        return first, second

    words = list((ctypes.c_uint64 * (FunctionType.__basicsize__ // 8)).from_address(id(probe)))
    return {part: 8 * words.index(id(getattr(probe, part))) for part in FUNCTION_PARTS}


class Variant:
    """One way to answer a call: a kernel, and what must hold for it to be the right one.

    It is right when the epoch is `epoch` (0: any), every guard holds and the arguments fit the
    signature. `address` is 0 when the stub cannot serve it (`reason` says why).
    """

    def __init__(self, code: Code, guards: Sequence[Guard] = (), epoch: int = 0) -> None:
        self.code = code
        self.guards = tuple(guards)
        self.epoch = epoch
        self._memory: list[object] = []
        self.address = 0
        self.reason = ""
        try:
            self.address = _Writer(self, self._memory).write()
        except NotFast as reason:
            self.reason = str(reason)

    def report_status(self, status: int) -> None:
        """Raise what a non-zero status stands for; the stub calls this."""
        raise self.code.fault(status)


class _Writer:
    """Writes the records of one variant."""

    def __init__(self, variant: Variant, memory: list[object]) -> None:
        self.variant = variant
        self.signature = variant.code.signature
        self.manifest = variant.code.manifest
        self.memory = memory
        self.bound: set[str] = set()

    def write(self) -> int:
        signature, manifest, code = self.signature, self.manifest, self.variant.code
        require_fast(signature, manifest)
        params = [self._param(p) for p in signature.params]
        pairs, work = self._pairs(), [self._work(*term) for term in manifest.work]
        guards = [self._guard(g) for g in self.variant.guards]
        fields = {
            "kernel": code.entry,
            "owner": id(self.variant),
            "epoch": self.variant.epoch,
            "arguments": len(signature.explicit),
            "guards": self._block(guards),
            "guard_count": len(guards),
            "params": self._block(params),
            "param_count": len(params),
            "pairs": self._block(pairs),
            "pair_count": len(pairs),
            "work": self._block(work),
            "work_count": len(work),
            **self._grid(manifest.grid),
            "arena_bytes": manifest.arena_bytes,
            "returns": self._block([[index] for index in signature.returns]),
            "return_count": len(signature.returns),
            "returns_tuple": int(signature.returns_tuple),
        }
        return self._block([_row(VARIANT, fields)])

    def _block(self, rows: Sequence[Sequence[int]]) -> int:
        """The address of these words, kept with the variant; 0 for none."""
        words = [word & _MASK for row in rows for word in row]
        if not words:
            return 0
        memory = (ctypes.c_uint64 * len(words))(*words)
        self.memory.append(memory)
        return ctypes.addressof(memory)

    def _guard(self, guard: Guard) -> list[int]:
        container = id(guard.container)
        kind, key, expected = GuardKind.DICT, id(guard.key), id(guard.expected)
        if isinstance(guard.container, list):
            if guard.key is None:
                assert isinstance(guard.expected, int)
                kind, key, expected = GuardKind.WORD, LIST["size"], guard.expected
            else:
                assert isinstance(guard.key, int)
                kind, key = GuardKind.ITEM, 8 * guard.key
        elif isinstance(guard.container, dict) and guard.key is None:
            assert isinstance(guard.expected, int)
            kind, key, expected = GuardKind.WORD, DICT_VERSION, guard.expected
        elif isinstance(guard.container, FunctionType):
            kind, key = GuardKind.WORD, _function_words()[str(guard.key)]
        elif not isinstance(guard.container, dict):
            kind, key = GuardKind.WORD, CELL_CONTENTS
        fields = {
            "kind": kind,
            "container": container,
            "key": key,
            "expected": 0 if guard.missing else expected,
        }
        return _row(GUARD, fields)

    def _grid(self, grid: Extent) -> dict[str, int]:
        if len(grid.terms) > 1:
            raise NotFast("its grid depends on two symbols")
        symbol, scale = grid.terms[0] if grid.terms else ("", 0)
        return {
            "grid_constant": grid.constant if grid.terms else grid.evaluate({}),
            "grid_symbol": self.signature.symbol_slot(symbol) if symbol else -1,
            "grid_scale": scale,
            "grid_divisor": grid.divisor,
        }

    def _work(self, ns: float, symbols: tuple[str, ...]) -> list[int]:
        if len(symbols) > 3:
            ns, symbols = UNBOUNDED, ()
        slots = [self.signature.symbol_slot(name) for name in symbols]
        slots += [ONE_SLOT] * (3 - len(slots))
        scaled = _WORK_LIMIT if ns * WORK_SCALE >= _WORK_LIMIT else int(ns * WORK_SCALE) + 1
        return _row(WORK, dict(zip(WORK, [scaled, *slots])))

    def _pairs(self) -> list[list[int]]:
        passed = [
            (index, param)
            for index, param in enumerate(self.signature.params)
            if isinstance(param, TensorParam) and not param.implicit
        ]
        return [
            _row(PAIR, {
                "first": i,
                "second": j,
                "same_is_fine": self.manifest.allows_overlap(first.name, second.name)
                and first.layout == second.layout == "contiguous",
            })
            for (i, first), (j, second) in combinations(passed, 2)
            if first.is_written or second.is_written
        ]  # fmt: skip

    # -- parameters

    def _param(self, param: Param) -> list[int]:
        return self._scalar(param) if isinstance(param, ScalarParam) else self._tensor(param)

    def _scalar(self, param: ScalarParam) -> list[int]:
        low, high = (0, 0) if param.dtype.is_float() else integer_range(param.dtype)
        fields = {
            "kind": _scalar_kind(param.dtype),
            "slot": self.signature.scalar_slot(param.name),
            "low": low,
            "high": min(high, _INT64_MAX),
        }
        return _row(PARAM, fields)

    def _tensor(self, param: TensorParam) -> list[int]:
        storage: Any = param.dtype.numpy
        self.memory.append(storage)
        strides = self.signature.stride_slot(param.name, 0) if _takes_strides(param) else -1
        fields = {
            "kind": Kind.IMPLICIT if param.implicit else Kind.TENSOR,
            "slot": self.signature.pointer_slot(param.name),
            "descr": id(storage),
            "dlpack_type": _dlpack_type(param.dtype),
            "ndim": param.rank,
            "dims": self._block([self._dim(e, param) for e in param.shape]),
            "flags": _flags(param),
            "strides_slot": strides,
            "last_stride_is_one": int(param.layout == "rows"),
            "shift": int(storage.itemsize).bit_length() - 1,
            "zeroed": int(param.zeroed),
        }
        return _row(PARAM, fields)

    def _dim(self, extent: Extent, param: TensorParam) -> list[int]:
        if extent.is_static:
            fixed = {"operation": DimOperation.STATIC, "constant": extent.evaluate({})}
            return _row(DIM, fixed)
        if len(extent.terms) > 1:
            raise NotFast(f"an extent of {param.name!r} depends on two symbols")
        symbol, scale = next(iter(extent.terms))
        plain = str(extent) == symbol
        binds = extent.is_solvable and not param.implicit and symbol not in self.bound
        if binds:
            self.bound.add(symbol)
        elif symbol not in self.bound:
            raise NotFast(f"an extent of {param.name!r} depends on {symbol}, found later")
        plain_kind, affine_kind = (
            (DimOperation.BIND, DimOperation.BIND_AFFINE)
            if binds
            else (DimOperation.CHECK, DimOperation.CHECK_AFFINE)
        )
        fields = {
            "operation": plain_kind if plain else affine_kind,
            "constant": extent.constant,
            "slot": self.signature.symbol_slot(symbol),
            "scale": scale,
            "divisor": extent.divisor,
        }
        return _row(DIM, fields)


def _row(layout: Mapping[str, int], fields: Mapping[str, int]) -> list[int]:
    unknown = set(fields) - set(layout)
    assert not unknown, f"no such fields: {unknown}"
    return [int(fields.get(name, 0)) for name in layout]


def require_fast(signature: Signature, manifest: Manifest) -> None:
    """Raise NotFast unless the stub's fixed sizes suffice and the kernel needs no follow-up."""
    if manifest.prints:
        raise NotFast("it prints")
    if signature.given_symbols:
        raise NotFast("an extent is a scalar argument")
    if len(signature.params) > MAX_PARAMS or len(signature.slots) > MAX_WORDS:
        raise NotFast("it has too many parameters")
    if any(param.rank > MAX_RANK for param in signature.tensors):
        raise NotFast("a tensor has too many dimensions")


def _scalar_kind(dtype: DType) -> Kind:
    if dtype.kind == "bool":
        return Kind.BOOL
    if not dtype.is_float():
        return Kind.INTEGER
    kinds = {"FP32": Kind.FLOAT32, "TF32": Kind.FLOAT32, "FP64": Kind.FLOAT64}
    if dtype.name not in kinds:
        raise NotFast(f"a scalar is of type {dtype.name}")
    return kinds[dtype.name]


def _takes_strides(param: TensorParam) -> bool:
    return param.passes_strides and param.rank > 0


def _flags(param: TensorParam) -> int:
    contiguous = 0 if _takes_strides(param) else NPY_CONTIGUOUS
    return NPY_ALIGNED | contiguous | (NPY_WRITEABLE if param.is_written else 0)


def _dlpack_type(dtype: DType) -> int:
    for (code, bits), known in DLPACK_TYPES.items():
        if known.numpy == dtype.numpy:
            return code | bits << 8 | 1 << 16
    return -1
