"""`neuronxcc.nki` and `nki` as names of `tilewright.nki`, with the options of published kernels.

    import tilewright.compat.neuron
    tilewright.compat.neuron.install()
    import neuronxcc.nki.language as nl

Kernels made through these names trace both arms of branches on loop variables
(`predicated_if`), let helpers make tensors (`check_return_consistency=False`) and take `range` as a
device loop (`builtin_range="sequential"`).
"""

from __future__ import annotations

import functools
import sys
from types import ModuleType
from typing import Any

from tilewright import nki
from tilewright.frontend import trace_index, trace_tensors
from tilewright.nki import compiler, isa, language, typing
from tilewright.nki import trace as engine

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


class TraceModule(ModuleType):
    """`nki.trace`: a module that is also the decorator of the same name."""

    def __call__(self, func: Any = None, **kwargs: Any) -> Any:
        return trace(func, **kwargs)


def _module(name: str, contents: dict[str, Any], kind: type[ModuleType] = ModuleType) -> ModuleType:
    module = kind(name, f"Alias of a part of tilewright.nki, under the name {name}.")
    module.__dict__.update(contents)
    module.__path__ = []
    return module


def _public(module: ModuleType) -> dict[str, Any]:
    names = getattr(module, "__all__", [])
    return {name: getattr(module, name) for name in names}


def _surface() -> dict[str, Any]:
    entries = {
        name: _through_jit(getattr(nki, name)) for name in ("baremetal", "benchmark", "profile")
    }
    return {
        **_public(nki),
        **entries,
        "jit": jit,
        "simulate_kernel": simulate_kernel,
        "simulate": simulate,
        "nki_jit": trace,
    }


def aliases(root: str) -> dict[str, ModuleType]:
    """The modules below (and with) the alias `root` of `tilewright.nki`, by name."""
    parts: dict[str, dict[str, Any]] = {
        "": _surface(),
        ".language": _public(language),
        ".language.constants": {"tile_size": language.tile_size},
        ".isa": _public(isa),
        ".isa.constants": {name: getattr(isa, name) for name in ("oob_mode", "dge_mode", "engine")},
        ".typing": _public(typing),
        ".compiler": _public(compiler),
        ".compiler.backends": {},
        ".compiler.backends.neuron": {},
        ".compiler.backends.neuron.tensor": _public_names(trace_tensors),
        ".compiler.backends.neuron.indexing": _public_names(trace_index),
    }
    made = {root + part: _module(root + part, contents) for part, contents in parts.items()}
    made[f"{root}.trace"] = _module(f"{root}.trace", _public(engine), TraceModule)
    return made


def _public_names(module: ModuleType) -> dict[str, Any]:
    return {name: value for name, value in vars(module).items() if not name.startswith("_")}


def install(*roots: str) -> None:
    """Makes the alias packages importable, unless a package of the name is there already."""
    for root in roots or ("neuronxcc.nki", "nki"):
        top = root.partition(".")[0]
        if top in sys.modules:
            continue
        if top != root:
            sys.modules[top] = _module(top, {})
        _link(aliases(root))


def _link(modules: dict[str, ModuleType]) -> None:
    sys.modules.update(modules)
    for name, module in modules.items():
        parent, _, last = name.rpartition(".")
        if parent in sys.modules:
            setattr(sys.modules[parent], last, module)
