"""What runs a compiled function: native code, or the interpreter behind the same checks."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

import tilewright
from tilewright import external
from tilewright.abi import Manifest, ScalarParam, Signature, TensorParam, decode_scalar
from tilewright.errors import UnsupportedFeatureError
from tilewright.ir.core import Program
from tilewright.runtime.arguments import Prepared, prepare_call
from tilewright.runtime.code import Code
from tilewright.runtime.launch import run_checked
from tilewright.runtime.load import LoadedObject, load_object
from tilewright.runtime.variants import Guard, Variant

if TYPE_CHECKING:
    from tilewright.interp import Interpreter

Array = np.ndarray[Any, np.dtype[Any]]


class Kernel(Protocol):
    """A function ready to run on arguments of one signature."""

    manifest: Manifest

    def run(self, signature: Signature, args: Sequence[object]) -> Any:
        """Checks `args`, runs, and gives what the call returns (scalars as arrays of shape [1])."""
        ...

    def variant(self, signature: Signature, guards: Sequence[Guard], epoch: int) -> Variant | None:
        """How the native entry calls it with this signature; None when it cannot."""
        ...


class NativeKernel:
    """Object bytes; loaded when first needed."""

    def __init__(self, data: bytes, signature: Signature, manifest: Manifest) -> None:
        self.data = data
        self.signature = signature
        self.manifest = manifest
        self._codes: dict[int, Code] = {}

    @cached_property
    def image(self) -> LoadedObject:
        """The machine code in memory."""
        symbols = {
            name: external.address_of(kernel) for name, kernel in self.manifest.externals.items()
        }
        return load_object(self.data, symbols)

    def code(self, signature: Signature) -> Code:
        """The kernel as called with `signature`."""
        found = self._codes.get(id(signature))
        if found is None:
            found = self._codes[id(signature)] = Code(self.image, signature, self.manifest)
        return found

    def run(self, signature: Signature, args: Sequence[object]) -> Any:
        return run_checked(self.code(signature), args)

    def variant(self, signature: Signature, guards: Sequence[Guard], epoch: int) -> Variant | None:
        if self.manifest.communicates:
            return None
        return Variant(self.code(signature), guards, epoch)


def interpreter_of(program: Program, **options: Any) -> Interpreter:
    """An interpreter. Its room is imported now: what is compiled does without."""
    return tilewright.interp.Interpreter(program, **options)


class InterpretedKernel:
    """A program that the interpreter runs, called like compiled code; `options` are its own."""

    def __init__(self, program: Program, entry: str, manifest: Manifest, **options: Any) -> None:
        self.manifest = manifest
        self.entry = entry
        self._make: Callable[[], Interpreter] = lambda: interpreter_of(program, **options)

    @cached_property
    def interpreter(self) -> Interpreter:
        """The interpreter of the program."""
        return self._make()

    def run(self, signature: Signature, args: Sequence[object]) -> Any:
        prepared = prepare_call(signature, self.manifest, args)
        values = dict(zip((p.name for p in signature.params), _values(signature, prepared)))
        inputs = [values[p.name] for p in signature.params[: self._count]]
        results = self.interpreter.run(self.entry, inputs)
        for index, result in zip(signature.returns, results, strict=True):
            target = values[signature.params[index].name]
            if index >= self._count:
                target[...] = result
        prepared.copy_back()
        return prepared.result

    @property
    def _count(self) -> int:
        return len(self.interpreter.program[self.entry].params)

    def variant(self, signature: Signature, guards: Sequence[Guard], epoch: int) -> Variant | None:
        return None


class UnlinkedKernel:
    """A program that calls functions which are not in the language; it is refused when it runs."""

    def __init__(self, manifest: Manifest, reason: UnsupportedFeatureError) -> None:
        self.manifest = manifest
        self.reason = reason

    def run(self, signature: Signature, args: Sequence[object]) -> Any:
        raise self.reason

    def variant(self, signature: Signature, guards: Sequence[Guard], epoch: int) -> Variant | None:
        raise self.reason


def _values(signature: Signature, prepared: Prepared) -> list[Any]:
    """Each parameter as the interpreter takes it, read from the kernel's words."""
    words = dict(zip(signature.slots, prepared.words))
    at = {(slot.kind, slot.name, slot.axis): word for slot, word in words.items()}
    return [
        decode_scalar(at["scalar", p.name, -1], p.dtype)
        if isinstance(p, ScalarParam)
        else _array(p, at["pointer", p.name, -1], prepared)
        for p in signature.params
    ]


def _array(param: TensorParam, address: int, prepared: Prepared) -> Array:
    shape = tuple(extent.evaluate(prepared.symbols) for extent in param.shape)
    storage: Any = param.dtype.numpy
    count = int(np.prod(shape, dtype=np.int64)) * storage.itemsize
    if not count:
        return np.empty(shape, storage)
    raw = (ctypes.c_char * count).from_address(address)
    array: Array = np.frombuffer(raw, np.uint8).view(storage).reshape(shape)
    return array
