"""Run text natively inside a test: compile for an instruction set, load through MCJIT, call."""

import ctypes
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

import llvmlite.binding as binding
import ml_dtypes
import numpy as np

from tilewright.codegen.formats import MEMORY_ELEMENT, REGISTER_ELEMENT
from tilewright.codegen.machine import compile_module, detect_host
from tilewright.codegen.text import Module, Text, type_text
from tilewright.target import X86_ORDER, Target, restrict_target

NUMPY: dict[str, Any] = {
    "BOOL": np.bool_,
    "FP64": np.float64,
    "FP32": np.float32,
    "FP16": np.float16,
    "BF16": ml_dtypes.bfloat16,
    "FP8E5M2": ml_dtypes.float8_e5m2,
    "FP8E4M3": ml_dtypes.float8_e4m3,
    "FP8E4M3FN": ml_dtypes.float8_e4m3fn,
    "FP4": ml_dtypes.float4_e2m1fn,
    "FP8E8M0": ml_dtypes.float8_e8m0fnu,
    "INT4": ml_dtypes.int4,
    "UINT4": ml_dtypes.uint4,
    **{f"INT{n}": np.dtype(f"int{n}") for n in (8, 16, 32, 64)},
    **{f"UINT{n}": np.dtype(f"uint{n}") for n in (8, 16, 32, 64)},
}


def available_isas() -> list[str]:
    """The instruction sets this machine can run, best first."""
    host = detect_host().isa
    return list(X86_ORDER[X86_ORDER.index(host) :]) if host in X86_ORDER else [host]


def target_for(isa: str) -> Target:
    """The host limited to `isa`."""
    return restrict_target(detect_host(), isa)


@cache
def new_module(isa: str) -> Callable[[], Module]:
    """A maker of empty modules for an instruction set."""
    return lambda: Module(target_for(isa).instructions)


class Loaded:
    """An object in memory; keeps its engine alive."""

    def __init__(self, text: str, isa: str) -> None:
        self.object = compile_module(text, target_for(isa))
        machine = binding.Target.from_default_triple().create_target_machine()
        self.engine = binding.create_mcjit_compiler(binding.parse_assembly(""), machine)
        self.engine.add_object_file(binding.ObjectFileRef.from_data(self.object))
        self.engine.finalize_object()

    def address(self, name: str) -> int:
        """Where a function is."""
        return int(self.engine.get_function_address(name))


def pointer(array: np.ndarray[Any, Any]) -> ctypes.c_void_p:
    """The address of an array as an argument."""
    return ctypes.c_void_p(array.ctypes.data)


Write = Callable[[Text, Sequence[str]], str]


class MapKernel:
    """out[i] = write(in0[i], in1[i], ...) over arrays, `lanes` elements at a time."""

    def __init__(
        self, isa: str, sources: Sequence[str], result: str, lanes: int, write: Write
    ) -> None:
        self.sources, self.result, self.lanes = list(sources), result, lanes
        module = new_module(isa)()
        parameters = ", ".join(f"ptr %p{i}" for i in range(len(sources)))
        text = Text(module, f"define void @map(i64 %n, ptr %out, {parameters}) #0")
        with text.loop(0, "%n", lanes) as loop:
            values = [
                load(text, f"%p{i}", dtype, lanes, loop.counter) for i, dtype in enumerate(sources)
            ]
            store(text, "%out", result, lanes, loop.counter, write(text, values))
        text.do("ret void")
        module.add(text)
        self.text = module.finish()
        self.loaded = Loaded(self.text, isa)
        kinds = [ctypes.c_int64] + [ctypes.c_void_p] * (1 + len(sources))
        self.function = ctypes.CFUNCTYPE(None, *kinds)(self.loaded.address("map"))

    def __call__(self, *arrays: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        size = len(arrays[0])
        padded = -(-size // self.lanes) * self.lanes
        inputs = [pad(a, padded, NUMPY[d]) for a, d in zip(arrays, self.sources, strict=True)]
        out = np.zeros(padded, NUMPY[self.result])
        self.function(padded, pointer(out), *(pointer(a) for a in inputs))
        return out[:size]


def pad(array: np.ndarray[Any, Any], size: int, dtype: Any) -> np.ndarray[Any, Any]:
    """The array with zeros up to `size`."""
    if array.dtype != np.dtype(dtype):
        raise TypeError(f"expected {dtype}, got {array.dtype}")
    result = np.zeros(size, dtype)
    result[: len(array)] = array
    return result


def load(text: Text, base: str, dtype: str, lanes: int, index: str) -> str:
    """Load a register of `dtype`."""
    kind = type_text(MEMORY_ELEMENT[dtype], lanes)
    place = text.let(f"getelementptr {MEMORY_ELEMENT[dtype]}, ptr {base}, i64 {index}")
    value = text.let(f"load {kind}, ptr {place}, align 1")
    if dtype != "BOOL":
        return value
    return text.let(f"trunc {kind} {value} to {type_text('i1', lanes)}")


def store(text: Text, base: str, dtype: str, lanes: int, index: str, value: str) -> None:
    """Store a register of `dtype`."""
    kind = type_text(MEMORY_ELEMENT[dtype], lanes)
    if dtype == "BOOL":
        value = text.let(f"zext {type_text(REGISTER_ELEMENT[dtype], lanes)} {value} to {kind}")
    place = text.let(f"getelementptr {MEMORY_ELEMENT[dtype]}, ptr {base}, i64 {index}")
    text.do(f"store {kind} {value}, ptr {place}, align 1")


def same_bits(left: np.ndarray[Any, Any], right: np.ndarray[Any, Any]) -> bool:
    """Equal bits, any NaN equal to any NaN."""
    if left.dtype != right.dtype or left.shape != right.shape:
        return False
    width = f"u{left.dtype.itemsize}"
    same = left.view(width) == right.view(width)
    if left.dtype.kind in "fV":
        same |= np.isnan(left.astype(np.float64)) & np.isnan(right.astype(np.float64))
    return bool(same.all())


def ulp_errors(got: np.ndarray[Any, Any], exact: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """|got - exact| in units of the last place of binary32 at `exact`; 0 where both overflow."""
    with np.errstate(all="ignore"):
        exponent = np.maximum((exact.view(np.int64) >> 52 & 0x7FF) - 1023, -126)
        error = np.abs(got.astype(np.float64) - exact) * ((1046 - exponent) << 52).view(np.float64)
        finite = np.isfinite(error)
        if finite.all():
            return error
        rounded = exact.astype(np.float32)
    agree = (got == rounded) & ~np.isfinite(rounded) | np.isnan(got) & np.isnan(exact)
    return np.where(agree, 0.0, np.where(finite, error, np.inf))


def chunks(count: int, size: int) -> Iterator[tuple[int, int]]:
    """Consecutive ranges."""
    for start in range(0, count, size):
        yield start, min(start + size, count)
