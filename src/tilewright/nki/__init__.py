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

from tilewright.garbage import importing as _importing

with _importing():
    from tilewright.frontend.trace.tensors import tensor
    from tilewright.nki import _absent, collectives, compiler, dst_first, isa, language, typing
    from tilewright.nki._entry import (
        baremetal,
        benchmark,
        jit,
        profile,
        simulate,
        simulate_kernel,
        trace_kernel,
    )
    from tilewright.nki._framework import FrameworkKernel
    from tilewright.nki._kernel import TraceKernel
    from tilewright.nki.trace import CompileOpts, TraceContext, dont_trace

__getattr__ = _absent.refusing(__name__, _absent.PACKAGE)

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
    "profile",
    "simulate",
    "simulate_kernel",
    "tensor",
    "trace_kernel",
    "typing",
]
