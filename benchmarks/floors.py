"""What the machine needs at least, measured beside every workload by kernels of its own.

Arithmetic: independent multiply-adds in registers, in the instructions that the dtype of the inputs
has. Memory: copying as many bytes as the result has, and reading the other bytes of the inputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from benchmarks.harness import Run
from tilewright.abi import Manifest, Signature, tensor
from tilewright.codegen.machine import compile_text, host_target
from tilewright.dtypes import FP32
from tilewright.runtime.launch import Executable

Array = npt.NDArray[Any]
TRIPS = 4096
CHAINS = 12
"""Independent sums: enough for the latency of a multiply-add on two ports."""


@dataclass(frozen=True)
class Floor:
    """A call that takes part in the rounds; its time times `scale` is the floor."""

    run: Run
    scale: float = 1.0


@dataclass(frozen=True)
class Dot:
    """An instruction that adds products into lanes: LLVM's name of it, its types, its products."""

    name: str
    lanes: str
    operand: str
    products: int
    sum_first: bool = True

    def call(self, total: str) -> str:
        """The instruction on operands %x and a running sum."""
        pair, last = [f"{self.operand} %x"] * 2, f"{self.lanes} {total}"
        args = [last, *pair] if self.sum_first else [*pair, last]
        return f"call {self.lanes} @{self.name}({', '.join(args)})"

    def declaration(self) -> str:
        """What LLVM wants to know of it."""
        types = [self.operand] * 2
        types.insert(0 if self.sum_first else 2, self.lanes)
        return f"declare {self.lanes} @{self.name}({', '.join(types)})"


def find_dot(dtype: Any) -> Dot | None:
    """What this machine multiplies and adds in a dtype; None where it has nothing for it."""
    target = host_target()
    lanes = target.instructions.vector_bytes // 4
    if dtype == np.float32 and target.instructions.has_fma:
        kind = f"<{lanes} x float>"
        return Dot(f"llvm.fma.v{lanes}f32", kind, kind, lanes, sum_first=False)
    if dtype == ml_dtypes.bfloat16 and "+avx512bf16" in target.features:
        return Dot("llvm.x86.avx512bf16.dpbf16ps.512", "<16 x float>", "<32 x bfloat>", 32)
    if dtype == np.int8 and target.instructions.has_byte_dot:
        return Dot("llvm.x86.avx512.vpdpbusd.512", "<16 x i32>", "<64 x i8>", 64)
    return None


def _text(dot: Dot) -> str:
    """A loop of `CHAINS` independent sums."""
    chains = range(CHAINS)
    phis = [
        f"  %a{n} = phi {dot.lanes} [ zeroinitializer, %entry ], [ %b{n}, %loop ]" for n in chains
    ]
    steps = [f"  %b{n} = {dot.call(f'%a{n}')}" for n in chains]
    stores = [
        f"  %p{n} = getelementptr i8, ptr %out, i64 {64 * n}\n"
        f"  store {dot.lanes} %b{n}, ptr %p{n}, align 4"
        for n in chains
    ]
    return "\n".join([
        dot.declaration(),
        "define i32 @kernel(ptr %args, ptr %ctx) {",
        "entry:",
        "  %out = load ptr, ptr %args",
        f"  %x = load {dot.operand}, ptr %out, align 4",
        "  br label %loop",
        "loop:",
        "  %i = phi i64 [ 0, %entry ], [ %next, %loop ]",
        *phis, *steps,
        "  %next = add i64 %i, 1",
        f"  %more = icmp slt i64 %next, {TRIPS}",
        "  br i1 %more, label %loop, label %done",
        "done:",
        *stores,
        "  ret i32 0",
        "}",
    ])  # fmt: skip


READ = """
define i32 @kernel(ptr %args, ptr %ctx) {
entry:
  %x = load ptr, ptr %args
  %out.at = getelementptr i64, ptr %args, i64 1
  %out = load ptr, ptr %out.at
  %n.at = getelementptr i64, ptr %args, i64 2
  %n = load i64, ptr %n.at
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %a = phi <64 x i32> [ zeroinitializer, %entry ], [ %b, %loop ]
  %p = getelementptr i32, ptr %x, i64 %i
  %v = load <64 x i32>, ptr %p, align 4
  %b = or <64 x i32> %a, %v
  %next = add i64 %i, 64
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %done
done:
  store <64 x i32> %b, ptr %out, align 4
  ret i32 0
}
"""


@cache
def _peak(dot: Dot) -> Executable:
    signature = Signature((tensor("out", FP32, (16 * CHAINS,), "inout"),), ())
    return _executable(_text(dot), signature, 1e5)


@cache
def _reader() -> Executable:
    params = (tensor("x", FP32, ("N",)), tensor("out", FP32, (64,), "out"))
    return _executable(READ, Signature(params, ()), 1e5)


def _executable(text: str, signature: Signature, ns: float) -> Executable:
    made = Manifest(name="floor", work=((ns, ()),))
    return Executable.from_object(compile_text(text, host_target()), signature, made)


def arithmetic(dtype: Any, flops: float) -> Floor | None:
    """The time of `flops` operations at the peak of a dtype."""
    dot = find_dot(dtype)
    if dot is None:
        return None
    kernel, out = _peak(dot), np.zeros(16 * CHAINS, np.float32)
    return Floor(lambda: kernel(out), flops / (2.0 * dot.products * CHAINS * TRIPS))


def moving(inputs: Sequence[Array], out: Array) -> Floor:
    """The time to copy as many bytes as the result has and to read the rest of the inputs."""
    first, *others = sorted(map(_words, inputs), key=len, reverse=True)
    target = _words(out)
    count = min(len(first), len(target))
    copied, source = target[:count], first[:count]
    rest = [part for part in (first[count:], *others) if len(part) >= 64]
    kernel, sink = _reader(), np.empty(64, np.float32)

    def run() -> None:
        np.copyto(copied, source)
        for part in rest:
            kernel(part, sink)

    return Floor(run)


def _words(x: Array) -> Array:
    whole = x.reshape(-1).view(np.uint8)
    return whole[: whole.size // 256 * 256].view(np.float32)


def floor_of(inputs: Sequence[Array], out: Array, flops: float | None) -> Floor | None:
    """The floor of a workload: arithmetic if it says how much, else moving its bytes."""
    return arithmetic(inputs[0].dtype, flops) if flops else moving(inputs, out)
