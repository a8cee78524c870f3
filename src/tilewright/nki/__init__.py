"""Traced tile kernels: a Python function whose body is abstract-interpreted once and compiled.

@nki.jit
def double(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, value=nl.load(x) * 2.0)
    return out

double(array)           # one program
kernel[4](array)        # four programs, told apart by nl.program_id(0)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilewright.late import late
from tilewright.nki import _absent

if TYPE_CHECKING:
    from tilewright.frontend.trace.tensors import tensor
    from tilewright.nki import collectives, compiler, dst_first, isa, language, newer, typing
    from tilewright.nki._entry import jit, simulate, simulate_kernel, trace_kernel
    from tilewright.nki._framework import FrameworkKernel
    from tilewright.nki._kernel import TraceKernel
    from tilewright.nki._measured import baremetal, benchmark, profile
    from tilewright.nki.trace import CompileOpts, TraceContext, dont_trace

_MODULES = ("collectives", "compiler", "dst_first", "isa", "language", "newer", "typing")
_HOMES = ("_entry", "_kernel", "trace", "_measured", "_framework")
__all__ = [
    "CompileOpts",
    "FrameworkKernel",
    "TraceContext",
    "TraceKernel",
    "baremetal",
    "benchmark",
    "collectives",
    "compiler",
    "dont_trace",
    "dst_first",
    "isa",
    "jit",
    "language",
    "newer",
    "profile",
    "simulate",
    "simulate_kernel",
    "tensor",
    "trace_kernel",
    "typing",
]
_late, __dir__ = late(__name__, [name for name in __all__ if name not in _MODULES], _HOMES)


def __getattr__(name: str) -> Any:
    if name in _absent.PACKAGE:
        _absent.refuse(__name__, name, _absent.PACKAGE)
    return _late(name)
