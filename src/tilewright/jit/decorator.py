"""`@pl.jit` and its relatives: JITFunction, which owns dependency graphs and compiled objects."""

from __future__ import annotations

import functools
import inspect
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from types import FrameType, FunctionType
from typing import TYPE_CHECKING, Any

import tilewright.frontend as frontend
import tilewright.jit as room
from tilewright.boundary import public_entry
from tilewright.cache import CacheConfig, current_config, stats
from tilewright.dataclass import dataclass
from tilewright.errors import (
    InvalidOperationError,
    ParserSyntaxError,
    ParserTypeError,
)
from tilewright.external import Sources
from tilewright.frontend import capture
from tilewright.frontend.annotations import DynVar
from tilewright.frontend.options import Options
from tilewright.frontend.trace.ambient import nki_ctx_or_none
from tilewright.frontend.trace.spans import current_span
from tilewright.garbage import without_collections
from tilewright.ir.core import Program
from tilewright.ir.enums import FunctionType as FunctionKind
from tilewright.ir.enums import Level, Role
from tilewright.ir.types import TileType, Type
from tilewright.jit import (
    _arguments,
    _graph,
    _persistent,
    cache,
)
from tilewright.jit._arguments import BoundCall, SignatureInfo
from tilewright.jit._ast_analysis import DynamicAxis
from tilewright.jit._graph import Definition, Graph, HelperKind, Stranger
from tilewright.jit._source import contents
from tilewright.jit.artifact import SeveralKernels
from tilewright.jit.cache import Key
from tilewright.jit.compiled import CompiledProgram
from tilewright.jit.options import OUTPUTS, CompileOptions, environment_guards, resolve_options
from tilewright.locks import make_lock
from tilewright.runtime import process
from tilewright.runtime.config import RunConfig
from tilewright.runtime.records import MAX_VARIANTS
from tilewright.runtime.stub import Launcher
from tilewright.runtime.variants import Variant

if TYPE_CHECKING:
    from tilewright.frontend.trace.context import TraceContext

MAX_OBJECTS = 1024
"""Compiled objects that one kernel keeps, so that a process of ever new shapes does not grow."""


@dataclass(frozen=True)
class Request:
    """One request, with everything it depends on read once."""

    graph: Graph
    bound: BoundCall
    signature: SignatureInfo
    types: Mapping[str, Type]
    options: CompileOptions
    key: Key
    cache_config: CacheConfig | None = None

    @property
    def name(self) -> str:
        """The name of the function that is called."""
        return self.graph.entry.definition.name

    @property
    def declares_outputs(self) -> bool:
        """Whether calls may leave the outputs out: no output has its type from an argument."""
        return all(p.kind == "typed" for p in self.signature.runtime if p.is_output)


class JITFunction(Launcher):
    """A function that is specialized and compiled when it is called, once per set of constants.

    Calling it checks the arguments, compiles if it must, and runs: with every parameter it writes
    Out and InOut arrays in place, with inputs only it allocates the Out arrays. Raises the author
    errors of `tilewright.errors`.
    """

    def __init__(self, definition: Definition) -> None:
        self.definition = definition
        self._lock = make_lock()
        self._graph: Graph | None = None
        self._compiled: dict[Key, CompiledProgram] = {}
        self._building: dict[Key, Any] = {}
        self._remembered: dict[CompiledProgram, _Remembered] = {}
        self._sourced = _Sourced(self)
        functools.update_wrapper(self, definition.function)

    @property
    def name(self) -> str:
        """The function's name."""
        return self.definition.name

    @property
    @public_entry
    def param_names(self) -> list[str]:
        """The parameters that a compiled object takes, in order: all but the constexpr ones."""
        shells = self._current_graph().entry.shells
        return [p.name for p in shells if p.kind != "constexpr"]

    @property
    @public_entry
    def output_param_names(self) -> list[str]:
        """The Out and InOut parameters, in order."""
        shells = self._current_graph().entry.shells
        return [p.name for p in shells if p.direction is not _arguments.ParamDirection.In]

    def __repr__(self) -> str:
        return f"<pl.jit {self.definition.kind} {self.name}>"

    def __reduce__(self) -> str:
        """Pickled by reference, as functions are; so it must be found where it was defined."""
        return self.definition.function.__qualname__

    # Requests

    @public_entry
    def compile(
        self, *args: Any, config: RunConfig | None = None, **kwargs: Any
    ) -> CompiledProgram:
        """The compiled object for these sample arguments (or, without any, for the annotations).

        Arguments are inspected for shape and dtype only; scalars need no value. The same object
        comes back for every request with the same key, except for diagnostic requests.
        """
        return self._obtain(self._request(args, kwargs, config))

    @public_entry
    def warmup(self, *args: Any, config: RunConfig | None = None, **kwargs: Any) -> CompiledProgram:
        """`compile`, with every binary ready to run; nothing is executed."""
        compiled = self.compile(*args, config=config, **kwargs)
        for each in compiled.entries:
            each.load()
        return compiled

    @public_entry
    def specialize(self, *args: Any, **kwargs: Any) -> Program:
        """The specialized program before any pass; nothing is cached. Takes no `config`."""
        if "config" in kwargs:
            raise TypeError(
                f"{self.name}.specialize() takes no config: no option changes its result"
            )
        return room.making.specialized(self._request(args, kwargs, None))

    @public_entry
    def lower(self, *args: Any, config: RunConfig | None = None, **kwargs: Any) -> Program:
        """The program after every pass: one function of loops and scalars."""
        return room.making.lowered(self._request(args, kwargs, config))

    @public_entry
    def source(self, *args: Any, **kwargs: Any) -> str:
        """The specialized program as Python text, for reading."""
        return room.making.source(self._request(args, kwargs, None))

    @public_entry
    def key(self, *args: Any, config: RunConfig | None = None, **kwargs: Any) -> Key:
        """The named parts that select the artifact of a request."""
        return self._request(args, kwargs, config).key

    @public_entry
    def explain(self, *args: Any, config: RunConfig | None = None, **kwargs: Any) -> str:
        """What a request would do, reuse an object or compile, and which part of its key says so.

        Nothing is compiled. Raises what the request itself would raise before compiling.
        """
        request = self._request(args, kwargs, config)
        return room.explaining.explain_request(
            self.name, request.key, tuple(self._compiled), request.options.fresh
        )

    def call_slowly(self, *args: Any, config: RunConfig | None = None, **kwargs: Any) -> Any:
        """One call that the native entry leaves to Python: with every check done, unless only
        source files had to be looked at."""
        if config is None and self._sourced.variants:
            assert self._graph is not None
            if self._graph.has_same_sources():
                return self._sourced(*args, **kwargs)
        return self.call_checked(*args, config=config, **kwargs)

    @public_entry
    def call_checked(self, *args: Any, config: RunConfig | None = None, **kwargs: Any) -> Any:
        """One call with every check done in Python."""
        ctx = nki_ctx_or_none()
        if ctx is not None:
            return self._call_in_trace(ctx, args, kwargs, config)
        return self._launch(args, kwargs, config)

    def _call_in_trace(
        self,
        ctx: TraceContext,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        config: RunConfig | None,
    ) -> Any:
        """In a traced kernel a helper is expanded; what takes arrays can be launched."""
        if self.definition.kind == "inline":
            ctx.watch.enter(self.definition.function)
            inline_of = frontend.decorators.inline_of
            helper = inline_of(self.definition.function, self.definition.enclosing)
            bound = inspect.signature(self.definition.function).bind(*args, **kwargs)
            bound.apply_defaults()
            return helper.expand_into(ctx, tuple(bound.arguments.values()))
        nki_tensor = frontend.trace.tensors.nki_tensor
        if any(isinstance(each, nki_tensor) for each in (*args, *kwargs.values())):
            raise InvalidOperationError(
                f"'{self.name}' is launched by itself and is not part of a traced kernel",
                current_span(),
                "Make it a @pl.jit.inline, or call a @pl.function.",
            )
        return self._launch(args, kwargs, config)

    def _launch(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], config: RunConfig | None
    ) -> Any:
        if self.definition.kind == "inline":
            raise InvalidOperationError(
                f"'{self.name}' is an inline helper and cannot be called from Python",
                hint="Call it in the body of a @pl.jit function.",
            )
        request = self._request(args, kwargs, config, check=False)
        _arguments.require_inputs(self.name, request.signature.runtime, request.bound)
        compiled = self._obtain(request)
        if config is not None and config.codegen_only:
            return None
        values = [
            request.bound.values[p.name]
            for p in request.signature.runtime
            if p.name in request.bound.values
        ]
        is_plain = config is None and not request.options.is_fresh
        if is_plain and not self._remember(request, compiled):
            return compiled(*values)
        return compiled.run(tuple(values), {}, config)

    def _request(
        self,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        config: RunConfig | None,
        *,
        check: bool = True,
    ) -> Request:
        options = resolve_options(config)
        graph = self._current_graph()
        bound = _arguments.bind_call(self.name, graph.entry.shells, args, kwargs)
        signature = graph.signature(bound.constants)
        types = self._types(graph, signature, bound, check)
        key = cache.make_key(self.name, graph, signature.runtime, types, bound.constants, options)
        cache_config = None if config is None else config.cache_config
        return Request(graph, bound, signature, types, options, key, cache_config)

    def _types(
        self, graph: Graph, signature: SignatureInfo, bound: BoundCall, check: bool
    ) -> dict[str, Type]:
        axes: dict[str, dict[int, Any]] = {}
        for declared in graph.entry.info.dynamic_axes:
            symbol = self._dynamic_symbol(graph, declared)
            axes.setdefault(declared.param, {})[declared.axis] = symbol
        types = {
            p.name: _arguments.bound_type(
                self.name, p, bound.values, axes.get(p.name, {}), check=check
            )
            for p in signature.runtime
        }
        for parameter in signature.runtime:
            if isinstance(types[parameter.name], TileType):
                raise ParserTypeError(
                    f"{self.name}: parameter '{parameter.name}' is a pl.Tile; a function that is "
                    "called from Python takes tensors and scalars",
                    parameter.span,
                    "Take a pl.Tensor and load the tile, or make the function a @pl.jit.inline.",
                )
        return types

    def _dynamic_symbol(self, graph: Graph, axis: DynamicAxis) -> Any:
        declared = graph.entry.info.dynamic_symbols.get(axis.symbol)
        found = declared or graph.entry.names.names.lookup(axis.symbol)
        if not isinstance(found, DynVar):
            raise ParserTypeError(
                f"{self.name}: bind_dynamic: '{axis.symbol}' is no dynamic dimension",
                axis.span,
                f'Write {axis.symbol} = pl.dynamic("{axis.symbol}") before it.',
            )
        return found

    # Graphs and objects

    @without_collections()
    def _current_graph(self) -> Graph:
        """The dependency graph as the names are now."""
        graph = self._graph
        if graph is None or not graph.is_current():
            if graph is not None and graph.sources:
                self._sourced.set_variants(())
                self._remembered.clear()
            self._graph = graph = _graph.build_graph(self.definition, self._discover)
        return graph

    def _discover(self, value: Any) -> Definition | Stranger | None:
        """The definition of a helper that a name may mean."""
        if not isinstance(value, JITFunction):
            return None
        is_entry = value.definition.kind in ("entry", "host")
        if is_entry and (self.definition.kind != "host" or value is self):
            return Stranger(value.name, self.name)
        return value.definition

    def _obtain(self, request: Request) -> CompiledProgram:
        stats.count("requests")
        if request.options.is_fresh:
            stats.count("forced_rebuilds")
            return room.making.compiled(request)
        key = request.key
        found = self._compiled.get(key)
        if found is None:
            with self._lock:
                building = self._building.setdefault(key, make_lock())
            with building:
                found = self._compiled.get(key)
                if found is None:
                    return self._keep(key, self._build(request))
        stats.count("object_hits")
        return found

    def _keep(self, key: Key, compiled: CompiledProgram) -> CompiledProgram:
        """Remembers an object; the oldest is forgotten when there are too many."""
        with self._lock:
            compiled = self._compiled.setdefault(key, compiled)
            self._building.pop(key, None)
            while len(self._compiled) > MAX_OBJECTS:
                oldest = self._compiled.pop(next(iter(self._compiled)))
                self._remembered.pop(oldest, None)
        return compiled

    @without_collections()
    def _build(self, request: Request) -> CompiledProgram:
        """Restores or compiles the artifact of a request."""
        if request.options.execution != "native":
            return room.making.compiled(request)
        policy = current_config(request.cache_config)
        reason = None if request.graph.is_portable else "it calls functions that only IR identifies"
        try:
            artifact = _persistent.obtain(
                request.key, policy, lambda: room.making.generated(request), bypass=reason
            )
        except SeveralKernels as several:
            return room.making.compiled(request, several.program)
        return CompiledProgram(artifact, request.options)

    def _remember(self, request: Request, compiled: CompiledProgram) -> bool:
        """Lets the native entry answer the next call like this one; False where it cannot."""
        watched, names = environment_guards(*OUTPUTS), request.graph.guards
        defaults, constants = self.definition.defaults, request.bound.constants
        is_default = all(
            name in defaults and defaults[name] is value for name, value in constants.items()
        )
        if watched is None or names is None or not is_default:
            return False
        inside = (guard for value in constants.values() for guard in contents(value))
        guards = (*names, *watched, *inside)
        epoch = process.current_epoch()
        identity = (epoch, *(guard.identity for guard in guards))
        with self._lock:
            known = self._remembered.get(compiled)
            if known is not None and known.identity == identity:
                return True
            ways = compiled.variants_of(guards, epoch, allocates=request.declares_outputs)
            variants = [v for v in ways if v.address]
            entry = self._sourced if request.graph.sources else self
            replaced = set(map(id, known.variants if known else ()))
            kept = [v for v in entry.variants if v.epoch == epoch and id(v) not in replaced]
            entry.set_variants([*variants, *kept][:MAX_VARIANTS])
            self._remembered[compiled] = _Remembered(identity, variants)
            self._forget_replaced()
        return True

    def _forget_replaced(self) -> None:
        """Objects that lost their place in the native entry may ask for it again."""
        served = set(map(id, (*self.variants, *self._sourced.variants)))
        for compiled, known in list(self._remembered.items()):
            if known.variants and not any(id(variant) in served for variant in known.variants):
                del self._remembered[compiled]


@dataclass(frozen=True)
class _Remembered:
    """What the native entry was told of an object: under which guards, and how to call it."""

    identity: tuple[Any, ...]
    variants: Sequence[Variant]


class _Sourced(Launcher):
    """The native entry of a function with source files in another language, which are to be
    looked at before it is asked."""

    def __init__(self, owner: JITFunction) -> None:
        self.owner = owner

    def call_slowly(self, *args: Any, **kwargs: Any) -> Any:
        """Answer a call that no variant fits."""
        return self.owner.call_checked(*args, **kwargs)


# ---- decorators ----------------------------------------------------------------------------------


def _decorate(
    func: Any,
    kind: HelperKind,
    options: Options,
    frame: FrameType,
    facts: tuple[tuple[str, str], ...] = (),
    sources: tuple[Sources, ...] = (),
) -> JITFunction:
    if isinstance(func, JITFunction):
        raise ParserSyntaxError(f"'{func.name}' is decorated with @pl.jit twice")
    if not isinstance(func, FunctionType):
        raise ParserSyntaxError(f"@pl.jit decorates a function, not {func!r}")
    _require_plain(func)
    enclosing = capture.enclosing_locals(frame)
    return JITFunction(Definition(func, kind, options, enclosing, facts, sources))


def _require_plain(func: FunctionType) -> None:
    """Raises ParserSyntaxError for a function that no kernel can be made of."""
    code = func.__code__
    reasons = {
        "it is a lambda, which has no statements": func.__name__ == "<lambda>",
        "it is a coroutine": code.co_flags & (inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR),
        "it is a generator": code.co_flags & inspect.CO_GENERATOR,
        "it takes *args or **kwargs; a kernel takes a fixed number of parameters": code.co_flags
        & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS),
    }
    for reason, holds in reasons.items():
        if holds:
            place = f"{code.co_filename}:{code.co_firstlineno}"
            raise ParserSyntaxError(
                f"@pl.jit cannot make a kernel of '{func.__name__}' ({place}): {reason}",
                hint="Write it as a plain def.",
            )


def _applied(func: Any, make: Callable[[Any], JITFunction]) -> Any:
    """A decorator used with or without arguments."""
    return public_entry(make) if func is None else make(func)


def _frame() -> FrameType:
    return sys._getframe(3)  # pyright: ignore[reportPrivateUsage]


class Jit:
    """`@pl.jit` and, as attributes, the decorators of its helpers.

    A body is parsed, never run. Names that it inherits are folded into the program it becomes;
    rebinding one makes the next request compile another.
    """

    @public_entry
    def __call__(self, func: Any = None, /, *, auto_scope: bool = True) -> Any:
        """An entry: an orchestration that Python calls."""
        frame = _frame()
        options = Options(FunctionKind.Orchestration, auto_scope=auto_scope)
        return _applied(func, lambda f: _decorate(f, "entry", options, frame))

    @public_entry
    def host(self, func: Any = None, /, *, auto_scope: bool = True) -> Any:
        """A host orchestrator, which may call entries."""
        frame = _frame()
        options = Options(
            FunctionKind.Orchestration, Level.HOST, Role.Orchestrator, auto_scope=auto_scope
        )
        return _applied(func, lambda f: _decorate(f, "host", options, frame))

    @public_entry
    def incore(self, func: Any = None, /, *, level: Level | None = None) -> Any:
        """A kernel on a core, called by entries."""
        frame = _frame()
        options = Options(FunctionKind.InCore, level)
        return _applied(func, lambda f: _decorate(f, "incore", options, frame))

    @public_entry
    def inline(self, func: Any = None, /, *, auto_scope: bool = True) -> Any:
        """A helper whose statements are read in place at each call."""
        frame = _frame()
        options = Options(FunctionKind.Inline, auto_scope=auto_scope)
        return _applied(func, lambda f: _decorate(f, "inline", options, frame))

    @public_entry
    def opaque(self, func: Any = None, /, *, auto_scope: bool = True) -> Any:
        """A function of its own, of no particular type."""
        frame = _frame()
        options = Options(FunctionKind.Opaque, auto_scope=auto_scope)
        return _applied(func, lambda f: _decorate(f, "opaque", options, frame))

    @public_entry
    def graph(self, func: Any = None, /, *, auto_scope: bool = True) -> Any:
        """A recordable orchestration fragment."""
        frame = _frame()
        options = Options(FunctionKind.Graph, auto_scope=auto_scope)
        return _applied(func, lambda f: _decorate(f, "graph", options, frame))

    @public_entry
    def extern(
        self,
        *,
        core_type: str,
        source: str | None = None,
        aic_source: str | None = None,
        aiv_source: str | None = None,
        dual_aiv_dispatch: bool = False,
        include_dirs: Sequence[str] = (),
    ) -> Callable[[Any], JITFunction]:
        """A kernel written in C++; the decorated function gives its signature, its body is `...`.

        `core_type` is "aiv" or "aic", with `source`, or "mixed", with both others: sides that take
        turns and may wait for each other (`tilewright.h` says how). With `dual_aiv_dispatch` the
        vector source runs once for each of two lanes.
        Relative paths, those of `include_dirs` too, count from the defining file. Raises ValueError
        for sources that are missing.
        """
        frame = _frame()
        chosen = _external_sources(core_type, source, aic_source, aiv_source)
        facts = (
            ("core_type", core_type),
            ("dual_aiv_dispatch", str(dual_aiv_dispatch)),
            ("include_dirs", repr(tuple(include_dirs))),
        )

        def make(func: Any) -> JITFunction:
            home = os.path.dirname(func.__code__.co_filename)
            paths = [os.path.realpath(os.path.join(home, name)) for name in chosen]
            folders = tuple(os.path.realpath(os.path.join(home, name)) for name in include_dirs)
            for path in paths:
                if not os.path.isfile(path):
                    raise ValueError(f"the source of '{func.__name__}' does not exist: {path}")
            kind = FunctionKind.AIC if core_type == "aic" else FunctionKind.AIV
            attrs: dict[str, Any] = {"include_dirs": folders} if folders else {}
            if core_type == "mixed":
                attrs["vector_source"] = paths[1]
            if dual_aiv_dispatch and core_type != "aic":
                attrs["vector_lanes"] = True
            options = Options(kind, attrs=attrs, external_source=paths[0])
            sources = tuple(Sources(path, folders) for path in paths)
            return _decorate(func, "extern", options, frame, facts, sources)

        return public_entry(make)

    def __repr__(self) -> str:
        return "pl.jit"


def _external_sources(
    core_type: str, source: str | None, aic_source: str | None, aiv_source: str | None
) -> list[str]:
    if core_type not in ("aiv", "aic", "mixed"):
        raise ValueError(f"core_type={core_type!r}: 'aiv', 'aic' and 'mixed' are accepted")
    if core_type == "mixed":
        if source is not None or aic_source is None or aiv_source is None:
            raise ValueError("a mixed kernel takes aic_source= and aiv_source=, and no source=")
        return [aic_source, aiv_source]
    own = aic_source if core_type == "aic" else aiv_source
    if (source is None) == (own is None):
        raise ValueError(f"an {core_type} kernel takes source= or {core_type}_source=")
    return [name for name in (source, own) if name is not None]


jit = Jit()
