"""`neuronxcc.nki` and `nki` as names of `tilewright.nki`, with the options of published kernels.

Kernels made through these names trace both arms of branches on loop variables
(`predicated_if`), let helpers make tensors (`check_return_consistency=False`) and take `range` as a
device loop (`builtin_range="sequential"`).
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from tilewright import nki
from tilewright.compat.alias_module import AliasModule
from tilewright.frontend.trace import index as trace_index
from tilewright.frontend.trace import tensors as trace_tensors
from tilewright.nki import _absent, collectives, compiler, dst_first, isa, language, typing
from tilewright.nki import trace as engine
from tilewright.nki._misc import do_while

OPTIONS: dict[str, Any] = {
    "predicated_if": True,
    "check_return_consistency": False,
    "builtin_range": "sequential",
}


def jit(func: Any = None, mode: str = "auto", **kwargs: Any) -> Any:
    """`nki.jit` with the options of published kernels."""
    return nki.jit(func, mode, **{**OPTIONS, **kwargs})


def trace(func: Any = None, **kwargs: Any) -> Any:
    """A kernel that others call as part of their own trace."""
    return jit(func, "trace", **kwargs)


class FrameworkKernel(nki.FrameworkKernel):
    """`nki.FrameworkKernel` with the options of published kernels."""

    def __init__(
        self, func: Any, grid: Any = (), enable_cache: bool | None = None, **options: Any
    ) -> None:
        super().__init__(func, grid, enable_cache, **{**OPTIONS, **options})


def simulate_kernel(kernel: Any, *args: Any, **kwargs: Any) -> Any:
    """Runs a kernel, decorated or not, on numpy arrays."""
    made = kernel if hasattr(kernel, "opts") or hasattr(kernel, "wrapped") else jit(kernel)
    return nki.simulate_kernel(made, *args, **kwargs)


def simulate(kernel: Any) -> Any:
    """A callable that runs a kernel on numpy arrays."""
    return functools.partial(simulate_kernel, kernel)


def _through_jit(entry: Any) -> Any:
    """`baremetal`, `benchmark` and `profile` around kernels made with the options above."""

    @functools.wraps(entry)
    def decorate(kernel: Any = None, *args: Any, **kwargs: Any) -> Any:
        if kernel is None or isinstance(kernel, str):
            positional = (kernel, *args) if isinstance(kernel, str) else args
            return functools.partial(_swapped, decorate, positional, kwargs)
        return entry(kernel if hasattr(kernel, "opts") else jit(kernel), *args, **kwargs)

    return decorate


def _swapped(decorate: Any, args: tuple[Any, ...], kwargs: dict[str, Any], kernel: Any) -> Any:
    return decorate(kernel, *args, **kwargs)


class TraceModule(AliasModule):
    """`nki.trace`: a module that is also the decorator of the same name."""

    def __call__(self, func: Any = None, **kwargs: Any) -> Any:
        return trace(func, **kwargs)


def _surface() -> dict[str, Any]:
    entries = {
        name: _through_jit(getattr(nki, name)) for name in ("baremetal", "benchmark", "profile")
    }
    return {
        **entries,
        "FrameworkKernel": FrameworkKernel,
        "jit": jit,
        "simulate_kernel": simulate_kernel,
        "simulate": simulate,
        "nki_jit": trace,
    }


def _aliases(root: str, instructions: ModuleType) -> dict[str, ModuleType]:
    """The modules below (and with) the alias `root` of `tilewright.nki`, by name."""
    engines = {name: getattr(isa, name) for name in ("oob_mode", "dge_mode", "engine")}
    absent: dict[str, Mapping[str, str]] = {
        "": _absent.PACKAGE,
        ".language": _absent.LANGUAGE,
        ".isa": _absent.INSTRUCTIONS if instructions is dst_first else {},
    }
    parts: dict[str, tuple[ModuleType | None, dict[str, Any]]] = {
        "": (nki, _surface()),
        ".language": (language, {}),
        ".language.constants": (None, {"tile_size": language.tile_size}),
        ".isa": (instructions, {}),
        ".isa.constants": (None, engines),
        ".typing": (typing, {}),
        "._private": (None, {}),
        "._private.private_api": (None, {"do_while": do_while}),
        ".compiler": (compiler, {}),
        ".compiler.backends": (None, {}),
        ".compiler.backends.neuron": (None, {}),
        ".compiler.backends.neuron.tensor": (trace_tensors, {}),
        ".compiler.backends.neuron.indexing": (trace_index, {}),
    }
    made: dict[str, ModuleType] = {
        root + part: AliasModule(root + part, target, contents, reasons(absent.get(part, {})))
        for part, (target, contents) in parts.items()
    }
    made[f"{root}.trace"] = TraceModule(f"{root}.trace", engine)
    return made


def reasons(absent: Mapping[str, str]) -> dict[str, str]:
    """Why names are absent."""
    return {name: _absent.undocumented(instead) for name, instead in absent.items()}


def modules() -> dict[str, ModuleType]:
    """The alias package `neuronxcc`."""
    return {"neuronxcc": AliasModule("neuronxcc"), **_aliases("neuronxcc.nki", isa)}


def new_modules() -> dict[str, ModuleType]:
    """The alias package `nki`, whose instructions write to the `dst` that is given first."""
    made = _aliases("nki", dst_first)
    made["nki"].__dict__.update(Kernel=nki.TraceKernel, NkiTensor=nki.tensor)
    return {
        **made,
        "nki.collectives": AliasModule("nki.collectives", collectives),
    }
