"""Hand-written kernels for the tests of the runtime, until a compiler makes them."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from tilewright.abi import CTX, Fault, Manifest, Signature, tensor
from tilewright.dtypes import FP32, DType
from tilewright.runtime.launch import Executable
from tilewright.runtime.load import compile_text
from tilewright.runtime.stub import Launcher
from tilewright.runtime.variants import Guard, Variant

_FIELD = {name: field.offset for name, field in CTX.items()}


def _loads(count: int) -> str:
    return "\n".join(
        f"  %p{i} = getelementptr i64, ptr %args, i64 {i}\n  %a{i} = load i64, ptr %p{i}\n"
        f"  %q{i} = inttoptr i64 %a{i} to ptr"
        for i in range(count)
    )


def add_text(count: str) -> str:
    """out[i] = x[i] + y[i] for i < count; `count` is a literal or `%a3` (the first symbol)."""
    slots = 4 if count.startswith("%") else 3
    return f"""
define i32 @kernel(ptr %args, ptr %ctx) {{
entry:
{_loads(slots)}
  %some = icmp sgt i64 {count}, 0
  br i1 %some, label %loop, label %done
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %x = getelementptr float, ptr %q0, i64 %i
  %y = getelementptr float, ptr %q1, i64 %i
  %o = getelementptr float, ptr %q2, i64 %i
  %u = load float, ptr %x
  %v = load float, ptr %y
  %w = fadd float %u, %v
  store float %w, ptr %o
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, {count}
  br i1 %more, label %loop, label %done
done:
  ret i32 0
}}
"""


def store_slot_text(slot: int) -> str:
    """out[0] = the word in `slot` (out is the first tensor, of 64-bit integers)."""
    return f"""
define i32 @kernel(ptr %args, ptr %ctx) {{
{_loads(slot + 1)}
  store i64 %a{slot}, ptr %q0
  ret i32 0
}}
"""


def strided_text() -> str:
    """out[0] = x[1, 1] through its passed strides (x is slot 0, out 1, strides 2 and 3)."""
    return f"""
define i32 @kernel(ptr %args, ptr %ctx) {{
{_loads(4)}
  %at = add i64 %a2, %a3
  %x = getelementptr float, ptr %q0, i64 %at
  %v = load float, ptr %x
  store float %v, ptr %q1
  ret i32 0
}}
"""


def fault_text(code: int, op: int, values: tuple[int, ...] = ()) -> str:
    """Writes 7.0 to the first tensor, then faults."""
    stores = "\n".join(
        f"  %v{i} = getelementptr i8, ptr %ctx, i64 {_FIELD['fault_values'] + 8 * i}\n"
        f"  store i64 {value}, ptr %v{i}"
        for i, value in enumerate(values)
    )
    return f"""
define i32 @kernel(ptr %args, ptr %ctx) {{
{_loads(1)}
  store float 7.0, ptr %q0
  %code = getelementptr i8, ptr %ctx, i64 {_FIELD["fault_code"]}
  store i32 {code}, ptr %code
  %op = getelementptr i8, ptr %ctx, i64 {_FIELD["fault_op"]}
  store i32 {op}, ptr %op
{stores}
  ret i32 {code}
}}
"""


def endless_text() -> str:
    """Writes 1.0 to the first tensor, and polls the cancel word until it is set."""
    return f"""
define i32 @kernel(ptr %args, ptr %ctx) {{
entry:
{_loads(1)}
  store float 1.0, ptr %q0
  %at = getelementptr i8, ptr %ctx, i64 {_FIELD["cancel"]}
  %word = load ptr, ptr %at
  br label %loop
loop:
  %v = load atomic i32, ptr %word monotonic, align 4
  %stop = icmp ne i32 %v, 0
  br i1 %stop, label %done, label %loop
done:
  ret i32 {int(Fault.CANCELLED)}
}}
"""


def arena_text(need: int) -> str:
    """Needs `need` bytes of arena; writes 1.0 to the first tensor and to the arena's last byte."""
    return f"""
define i32 @kernel(ptr %args, ptr %ctx) {{
{_loads(1)}
  %size.at = getelementptr i8, ptr %ctx, i64 {_FIELD["arena_bytes"]}
  %size = load i64, ptr %size.at
  %short = icmp slt i64 %size, {need}
  br i1 %short, label %grow, label %run
grow:
  %v = getelementptr i8, ptr %ctx, i64 {_FIELD["fault_values"]}
  store i64 {need}, ptr %v
  ret i32 {int(Fault.ARENA_TOO_SMALL)}
run:
  %arena.at = getelementptr i8, ptr %ctx, i64 {_FIELD["arena"]}
  %arena = load ptr, ptr %arena.at
  %last = getelementptr i8, ptr %arena, i64 {need - 1}
  store i8 1, ptr %last
  store float 1.0, ptr %q0
  ret i32 0
}}
"""


def print_text(op: int, times: int) -> str:
    """Prints `times` records of op `op`, whose first value counts from 0."""
    return f"""
define i32 @kernel(ptr %args, ptr %ctx) {{
entry:
  %at = getelementptr i8, ptr %ctx, i64 {_FIELD["print_ring"]}
  %ring = load ptr, ptr %at
  %capacity.at = getelementptr i64, ptr %ring, i64 1
  %capacity = load i64, ptr %capacity.at
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %skip ]
  %n = atomicrmw add ptr %ring, i64 1 monotonic
  %fits = icmp ult i64 %n, %capacity
  br i1 %fits, label %write, label %skip
write:
  %offset = mul i64 %n, 64
  %past = add i64 %offset, 16
  %record = getelementptr i8, ptr %ring, i64 %past
  store i64 {op}, ptr %record
  %value = getelementptr i64, ptr %record, i64 1
  store i64 %i, ptr %value
  br label %skip
skip:
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, {times}
  br i1 %more, label %loop, label %done
done:
  ret i32 0
}}
"""


@cache
def object_of(text: str) -> bytes:
    """Object bytes of a kernel's text."""
    return compile_text(text)


def make(
    text: str, *params: object, manifest: Manifest | None = None, **kwargs: object
) -> Executable:
    """An executable of a hand-written kernel."""
    signature = Signature(tuple(params), **kwargs)  # type: ignore[arg-type]
    return Executable.from_object(object_of(text), signature, manifest)


def make_add(
    shape: tuple[int | str, ...] = (4, 16),
    *,
    dtype: DType = FP32,
    implicit: bool = False,
    manifest: Manifest | None = None,
) -> Executable:
    """out = x + y; a symbolic shape must be of rank 1."""
    symbolic = any(isinstance(extent, str) for extent in shape)
    size = 1
    for extent in shape:
        size *= 1 if isinstance(extent, str) else extent
    return make(
        add_text("%a3" if symbolic else str(size)),
        tensor("x", dtype, shape),
        tensor("y", dtype, shape),
        tensor("out", dtype, shape, "out", implicit=implicit),
        returns=(2,) if implicit else (),
        manifest=manifest or Manifest(name="add", work=((10.0, ()),)),
    )


class Counting(Launcher):
    """Counts the calls that reach Python."""

    def __init__(
        self, *executables: Executable, guards: tuple[Guard, ...] = (), epoch: int = 0
    ) -> None:
        self.slow = 0
        self.executables = executables
        self.set_variants([Variant(e.code, guards, epoch) for e in executables])

    def call_slowly(self, *args: Any, **kwargs: Any) -> Any:
        self.slow += 1
        return self.executables[0].call_slowly(*args, **kwargs)


def counting(executable: Executable, *warm: Any) -> Counting:
    """A launcher whose thread has its context, so that what is slow is so for a reason."""
    executable.call_slowly(*warm)
    return Counting(executable)


def arrays(*shape: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(7)
    x, y = (rng.standard_normal(shape).astype(np.float32) for _ in range(2))
    return x, y, np.full(shape, -1, np.float32)
