"""`neuronxcc.nki` and `nki` as names of `tilewright.nki`, with the options of published kernels.

Kernels made through these names trace both arms of branches on loop variables (`predicated_if`)
and let helpers make tensors (`check_return_consistency=False`). Of `neuronxcc.nki`, `range` is a
device loop (`builtin_range="sequential"`); of `nki`, every loop is unrolled but `dynamic_range`,
`fori_loop` and `while_loop`.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from tilewright import nki
from tilewright.compat.alias_module import AliasModule
from tilewright.dataclass import dataclass
from tilewright.frontend.trace import index as trace_index
from tilewright.frontend.trace import tensors as trace_tensors
from tilewright.nki import _absent, collectives, compiler, dst_first, isa, language, typing
from tilewright.nki import newer as newer_language
from tilewright.nki import trace as engine
from tilewright.nki._misc import do_while

OPTIONS: dict[str, Any] = {"predicated_if": True, "check_return_consistency": False}


class Entries:
    """The entry points of `tilewright.nki`, under options."""

    def __init__(self, **options: Any) -> None:
        self.options = options

    def jit(self, func: Any = None, mode: str = "auto", **kwargs: Any) -> Any:
        """`nki.jit` with the options of published kernels."""
        return nki.jit(func, mode, **{**self.options, **kwargs})

    def trace(self, func: Any = None, **kwargs: Any) -> Any:
        """A kernel that others call as part of their own trace."""
        return self.jit(func, "trace", **kwargs)

    def simulate_kernel(self, kernel: Any, *args: Any, **kwargs: Any) -> Any:
        """Runs a kernel, decorated or not, on numpy arrays."""
        is_made = hasattr(kernel, "opts") or hasattr(kernel, "wrapped")
        return nki.simulate_kernel(kernel if is_made else self.jit(kernel), *args, **kwargs)

    def simulate(self, kernel: Any) -> Any:
        """A callable that runs a kernel on numpy arrays."""
        return functools.partial(self.simulate_kernel, kernel)

    def around(self, entry: Any) -> Any:
        """`baremetal`, `benchmark` or `profile` around kernels made with the options."""

        @functools.wraps(entry)
        def decorate(kernel: Any = None, *args: Any, **kwargs: Any) -> Any:
            if kernel is None or isinstance(kernel, str):
                positional = (kernel, *args) if isinstance(kernel, str) else args
                return functools.partial(_swapped, decorate, positional, kwargs)
            return entry(kernel if hasattr(kernel, "opts") else self.jit(kernel), *args, **kwargs)

        return decorate

    def framework_kernel(self) -> type[nki.FrameworkKernel]:
        """`nki.FrameworkKernel` with the options of published kernels."""
        given = self.options

        class FrameworkKernel(nki.FrameworkKernel):
            def __init__(
                self, func: Any, grid: Any = (), enable_cache: bool | None = None, **options: Any
            ) -> None:
                super().__init__(func, grid, enable_cache, **{**given, **options})

        FrameworkKernel.__doc__ = nki.FrameworkKernel.__doc__
        return FrameworkKernel

    def surface(self) -> dict[str, Any]:
        """The entry points by name."""
        measured = ("baremetal", "benchmark", "profile")
        return {
            **{name: self.around(getattr(nki, name)) for name in measured},
            "FrameworkKernel": self.framework_kernel(),
            "jit": self.jit,
            "simulate_kernel": self.simulate_kernel,
            "simulate": self.simulate,
            "nki_jit": self.trace,
        }


def _swapped(decorate: Any, args: tuple[Any, ...], kwargs: dict[str, Any], kernel: Any) -> Any:
    return decorate(kernel, *args, **kwargs)


class TraceModule(AliasModule):
    """`nki.trace`: a module that is also the decorator of the same name."""

    decorator: Any = None

    def __call__(self, func: Any = None, **kwargs: Any) -> Any:
        return self.decorator(func, **kwargs)


@dataclass(frozen=True)
class Release:
    """One of the two namespaces: its options, and what its modules hold."""

    root: str
    entries: Entries
    package: Mapping[str, Any]
    language: Mapping[str, Any]
    instructions: ModuleType
    absent: Mapping[str, str]


def published() -> Release:
    """`neuronxcc.nki`: loops of the device, instructions that give tiles."""
    entries = Entries(**OPTIONS, builtin_range="sequential")
    return Release("neuronxcc.nki", entries, {}, {}, isa, {})


def newer() -> Release:
    """`nki`: loops that are unrolled, instructions that write to the `dst` that is given first."""
    spelled = {name: getattr(newer_language, name) for name in newer_language.__all__}
    package = {"Kernel": nki.TraceKernel, "NkiTensor": nki.tensor}
    absent = _absent.INSTRUCTIONS
    return Release("nki", Entries(**OPTIONS), package, spelled, dst_first, absent)


def _aliases(release: Release) -> dict[str, ModuleType]:
    """The modules below (and with) the root of a release, by name."""
    enumerations = ("oob_mode", "dge_mode", "engine", "nc_version", "reduce_cmd")
    constants = {name: getattr(release.instructions, name) for name in enumerations}
    absent: dict[str, Mapping[str, str]] = {
        "": _absent.PACKAGE,
        ".language": _absent.LANGUAGE,
        ".isa": release.absent,
    }
    parts: dict[str, tuple[ModuleType | None, Mapping[str, Any]]] = {
        "": (nki, {**release.entries.surface(), **release.package}),
        ".language": (language, release.language),
        ".language.constants": (None, {"tile_size": language.tile_size}),
        ".isa": (release.instructions, {}),
        ".isa.constants": (None, constants),
        ".typing": (typing, {}),
        "._private": (None, {}),
        "._private.private_api": (None, {"do_while": do_while}),
        ".compiler": (compiler, {}),
        ".compiler.backends": (None, {}),
        ".compiler.backends.neuron": (None, {}),
        ".compiler.backends.neuron.tensor": (trace_tensors, {}),
        ".compiler.backends.neuron.indexing": (trace_index, {}),
        ".compiler.backends.neuron.TraceContext": (engine, {}),
        ".compiler.backends.neuron.TraceKernel": (engine, {}),
    }
    made: dict[str, ModuleType] = {
        release.root + part: AliasModule(
            release.root + part, target, contents, reasons(absent.get(part, {}))
        )
        for part, (target, contents) in parts.items()
    }
    trace = TraceModule(f"{release.root}.trace", engine, {"decorator": release.entries.trace})
    return {**made, trace.__name__: trace}


def reasons(absent: Mapping[str, str]) -> dict[str, str]:
    """Why names are absent."""
    return {name: _absent.undocumented(instead) for name, instead in absent.items()}


def modules() -> dict[str, ModuleType]:
    """The alias package `neuronxcc`."""
    return {"neuronxcc": AliasModule("neuronxcc"), **_aliases(published())}


def new_modules() -> dict[str, ModuleType]:
    """The alias package `nki`."""
    return {
        **_aliases(newer()),
        "nki.collectives": AliasModule("nki.collectives", collectives),
    }
