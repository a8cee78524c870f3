"""What a compilation was asked to do: which options select an artifact, which only watch it."""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Literal, cast

from tilewright import settings
from tilewright.cache.config import require_config
from tilewright.dataclass import dataclass
from tilewright.jit._source import holds
from tilewright.passes.context import (
    DEFAULT_DISABLED,
    DIAGNOSTIC_SETTINGS,
    DiagnosticCheckSet,
    DiagnosticPhase,
    PassContext,
    VerificationLevel,
    diagnostic_setting,
    on_context_change,
)
from tilewright.runtime import process
from tilewright.runtime.config import (
    BackendType,
    ExecutionMode,
    MemoryPlanner,
    OptimizationStrategy,
    PassDumpLevel,
    RunConfig,
    RuntimeKind,
)
from tilewright.runtime.profiling import CompileProfiler
from tilewright.runtime.variants import Guard, dict_version

on_context_change(process.bump_epoch)

Execution = Literal["native", "interpret", "checked", "compare"]


@dataclass(frozen=True)
class CompileOptions:
    """One compilation's options, resolved from a RunConfig, the environment and the PassContext.

    Those in `key_parts` select the artifact; `fresh` is why the request must not be answered by an
    artifact made earlier, "" when it may.
    """

    backend: BackendType = BackendType.Ascend910B
    mode: ExecutionMode = ExecutionMode.SIMULATOR
    strategy: OptimizationStrategy = OptimizationStrategy.Default
    planner: MemoryPlanner = MemoryPlanner.PYPTO
    runtime: RuntimeKind = RuntimeKind.TENSORMAP_AND_RINGBUFFER
    emit_source_loc: bool = False
    analyze_auto_scopes_for_deps: bool = False
    distributed: Any = None
    execution: Execution = "native"
    dump: PassDumpLevel = PassDumpLevel.NONE
    dump_ptoas: bool = False
    profiling: bool = False
    output_dir: str | None = None
    verification_level: VerificationLevel | None = None
    diagnostic_phase: DiagnosticPhase | None = None
    disabled_diagnostics: DiagnosticCheckSet | None = None
    fresh: str = ""

    @property
    def is_fresh(self) -> bool:
        """True when the request must not be answered by an artifact made earlier."""
        return bool(self.fresh)

    @property
    def ranks(self) -> int:
        """The number of devices that a program runs on; 1 when nothing is said."""
        return 1 if self.distributed is None else len(self.distributed.device_ids)

    @property
    def key_parts(self) -> tuple[tuple[str, str], ...]:
        """The options that select an artifact, by name, in order."""
        return (
            ("target", f"{self.backend.name}/{self.mode.name}"),
            ("strategy", self.strategy.name),
            ("planner", self.planner.name),
            ("runtime", self.runtime.name),
            ("source locations", str(self.emit_source_loc)),
            ("auto scope dependencies", str(self.analyze_auto_scopes_for_deps)),
            ("distribution", repr(self.distributed)),
            ("execution", self.execution),
        )

    @contextmanager
    def checks(self) -> Generator[None]:
        """The pass context that the explicit diagnostic settings ask for."""
        explicit = (self.verification_level, self.diagnostic_phase, self.disabled_diagnostics)
        if all(setting is None for setting in explicit):
            yield
            return
        active = PassContext.current()
        context = PassContext(list(active.instruments) if active else [], *explicit)
        with context:
            yield


_remembered: list[tuple[CompileOptions, list[Guard]]] = []


def _default_options() -> CompileOptions:
    """Options without a config; computed again when the environment or a context asks for it."""
    if PassContext.current() is not None or CompileProfiler.current() is not None:
        return resolve_options(RunConfig())
    if _remembered:
        options, guards = _remembered[0]
        if all(map(holds, guards)):
            return options
    guards = environment_guards(*OUTPUTS, settings.EMIT_PTO_LOC, settings.COMPARE)
    options = resolve_options(RunConfig())
    _remembered[:] = [(options, guards)] if guards else []
    return options


EXECUTIONS = ("native", "interpret", "checked", "compare")


def require_run_config(config: Any) -> None:
    """Raises TypeError for options of a run that are no RunConfig."""
    if config is not None and not isinstance(config, RunConfig):
        raise TypeError(f"config is {config!r}; a RunConfig is accepted")


def resolve_options(config: RunConfig | None) -> CompileOptions:
    """The options of a request now; None is `RunConfig()`.

    Raises ValueError for an unknown `execution`, and when explicit settings contradict the active
    PassContext.
    """
    if config is None:
        return _default_options()
    require_run_config(config)
    if config.execution not in EXECUTIONS:
        raise ValueError(f"execution={config.execution!r}: {', '.join(EXECUTIONS)} are accepted")
    require_config("cache_config", config.cache_config)
    diagnostic: dict[str, Any] = {
        name: diagnostic_setting(name, getattr(config, name)) for name in DIAGNOSTIC_SETTINGS
    }
    context = PassContext.current()
    if context is not None:
        _require_agreement(config, diagnostic, context)
    assert config.backend_type is not None and config.execution_mode is not None
    options = CompileOptions(
        backend=config.backend_type,
        mode=config.execution_mode,
        strategy=config.strategy,
        planner=_chosen(config.memory_planner, context and context.memory_planner)
        or MemoryPlanner.PYPTO,
        runtime=(context and context.runtime) or config.runtime,
        emit_source_loc=_or(config.emit_source_loc, settings.EMIT_PTO_LOC.read()),
        analyze_auto_scopes_for_deps=config.analyze_auto_scopes_for_deps,
        distributed=config.distributed_config,
        execution=execution_of(config),
        dump=config.dump_level,
        dump_ptoas=config.dump_ptoas_passes,
        profiling=config.compile_profiling
        or settings.COMPILE_PROFILING.read()
        or CompileProfiler.current() is not None,
        output_dir=_output_dir(config),
        **diagnostic,
    )
    return replace(options, fresh=_fresh_reason(options, context))


OUTPUTS = (settings.PROG_BUILD_DIR, settings.COMPILE_PROFILING)
"""Settings that ask for files: a warm call must notice them (the code would be the same)."""


def environment_guards(*watched: settings.Setting[Any]) -> list[Guard] | None:
    """Guards that notice when a variable of these settings is set or changed; None where the
    environment is kept in a way that cannot be watched."""
    variables: Any = getattr(os.environ, "_data", os.environ)
    encode: Any = getattr(os.environ, "encodekey", str)
    if not isinstance(variables, dict):
        return None
    known = cast("dict[Any, Any]", variables)
    mapping = Guard(vars(os), "environ", os.environ)
    version = dict_version(known)
    if version is not None:
        return [mapping, Guard(known, None, version)]
    keys = [encode(prefix + s.name) for s in watched for prefix in settings.PREFIXES]
    guards = [Guard(known, key, known.get(key), missing=key not in known) for key in keys]
    return [mapping, *guards]


def execution_of(config: RunConfig) -> Any:
    """How a configuration asks for a program to run."""
    if config.checked:
        return "checked"
    is_compared = config.execution == "native" and settings.COMPARE.read()
    return "compare" if is_compared else config.execution


def _chosen(explicit: Any, ambient: Any) -> Any:
    return explicit if explicit is not None else ambient


def _or(explicit: bool | None, default: bool) -> bool:
    return default if explicit is None else explicit


def _output_dir(config: RunConfig) -> str | None:
    return config.save_kernels_dir or settings.PROG_BUILD_DIR.read()


def _fresh_reason(options: CompileOptions, context: PassContext | None) -> str:
    """Which option asks for a compilation of its own; "" when none does."""
    reasons = {
        "pass dumps are asked for": options.dump is not PassDumpLevel.NONE or options.dump_ptoas,
        "profiling is on": options.profiling,
        f"its files go to {options.output_dir}": options.output_dir is not None,
        "diagnostic settings are given": any(
            setting is not None
            for setting in (
                options.verification_level,
                options.diagnostic_phase,
                options.disabled_diagnostics,
            )
        ),
        "the active PassContext has instruments or diagnostic settings": context is not None
        and _asks_for_diagnostics(context),
    }
    return next((reason for reason, holds in reasons.items() if holds), "")


def _asks_for_diagnostics(context: PassContext) -> bool:
    """True when a context has instruments, or settings other than the pipeline's defaults."""
    return (
        bool(context.instruments)
        or context.verification_level not in (None, VerificationLevel.BASIC)
        or context.diagnostic_phase not in (None, DiagnosticPhase.PRE_PIPELINE)
        or context.disabled_diagnostics not in (None, DEFAULT_DISABLED)
    )


def _require_agreement(
    config: RunConfig, diagnostic: Mapping[str, Any], context: PassContext
) -> None:
    default_runtime = RunConfig().runtime
    pairs = (
        ("memory_planner", config.memory_planner, context.memory_planner),
        *((name, given, getattr(context, name)) for name, given in diagnostic.items()),
        (
            "runtime",
            None if config.runtime is default_runtime else config.runtime,
            context.runtime,
        ),
    )
    for name, explicit, ambient in pairs:
        if explicit is not None and ambient is not None and explicit != ambient:
            raise ValueError(
                f"{name}={explicit!r} contradicts the active PassContext, which has {ambient!r}"
            )
