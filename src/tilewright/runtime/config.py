"""Options of one compilation or run, and the table that maps legacy platform names to targets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, fields
from operator import index
from typing import Any, cast

from tilewright.boundary import deprecate
from tilewright.choices import (
    BackendType,
    ExecutionMode,
    MemoryPlanner,
    OptimizationStrategy,
    PassDumpLevel,
    RuntimeKind,
)
from tilewright.dataclass import dataclass

__all__ = [
    "PLATFORMS",
    "BackendType",
    "DistributedConfig",
    "ExecutionMode",
    "MemoryPlanner",
    "OptimizationStrategy",
    "PassDumpLevel",
    "RunConfig",
    "RuntimeKind",
    "resolve_platform",
]


@dataclass(frozen=True)
class DistributedConfig:
    """On which devices a program runs: one rank for each entry of `device_ids`."""

    device_ids: Sequence[int] = (0,)
    num_sub_workers: int = 0
    runtime: Any = None
    aicpu_thread_num: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "device_ids", tuple(map(index, self.device_ids)))
        if not self.device_ids:
            raise ValueError("device_ids is empty: a program runs on one rank at least")
        if min(self.device_ids) < 0:
            raise ValueError(
                f"device_ids is {[*self.device_ids]}; devices are numbered from 0 on, as [0, 1]"
            )


PLATFORMS: Mapping[str, tuple[BackendType, ExecutionMode]] = {
    "a2a3sim": (BackendType.Ascend910B, ExecutionMode.SIMULATOR),
    "a2a3": (BackendType.Ascend910B, ExecutionMode.ONBOARD),
    "a5sim": (BackendType.Ascend950, ExecutionMode.SIMULATOR),
    "a5": (BackendType.Ascend950, ExecutionMode.ONBOARD),
}
"""Legacy `platform=` names and the target each stands for."""

RINGS = 4
_NAMES: Mapping[tuple[BackendType, ExecutionMode], str] = {
    target: name for name, target in PLATFORMS.items()
}


def resolve_platform(platform: str) -> tuple[BackendType, ExecutionMode]:
    """The target of a legacy platform name; warns DeprecationWarning, raises ValueError."""
    if platform not in PLATFORMS:
        known = ", ".join(PLATFORMS)
        raise ValueError(f"unknown platform {platform!r}; known platforms are {known}")
    backend, mode = PLATFORMS[platform]
    deprecate(
        f"platform={platform!r} is deprecated; use backend_type=BackendType.{backend.name} "
        f"and execution_mode=ExecutionMode.{mode.name}"
    )
    return backend, mode


_KINDS: Mapping[str, tuple[type[Any], ...]] = {
    "platform": (str,),
    "strategy": (OptimizationStrategy,),
    "backend_type": (BackendType,),
    "arch": (BackendType,),
    "execution_mode": (ExecutionMode,),
    "dump_passes": (PassDumpLevel, bool),
    "memory_planner": (MemoryPlanner,),
    "runtime": (RuntimeKind,),
}
"""What the options that name a choice take."""


@dataclass
class RunConfig:
    """Options of a compilation and of a run.

    `backend_type` (or `arch`) and `execution_mode` choose the target; `platform` is their legacy
    spelling. `dump_passes`, `dump_ptoas_passes`, `compile_profiling`, `save_kernels_dir` and the
    diagnostic settings ask for a fresh compilation; `device_id`, `codegen_only` and `save_kernels`
    are controls of a run and select no artifact. `execution="interpret"` runs the program in numpy,
    "compare" runs compiled code beside it and raises InternalError where they differ; `checked`
    interprets, too, and looks for missing dependencies and unwritten memory. `rtol` and `atol`
    are the tolerances of golden comparisons.
    """

    platform: str | None = None
    device_id: int = 0
    rtol: float = 1e-5
    atol: float = 1e-5
    strategy: OptimizationStrategy = OptimizationStrategy.Default
    backend_type: BackendType | None = None
    execution_mode: ExecutionMode | None = None
    arch: BackendType | None = None
    dump_passes: bool | PassDumpLevel = False
    save_kernels: bool = False
    save_kernels_dir: str | None = None
    codegen_only: bool = False
    compile_profiling: bool = False
    dump_ptoas_passes: bool = False
    diagnostic_phase: Any = None
    disabled_diagnostics: Any = None
    verification_level: Any = None
    memory_planner: MemoryPlanner | None = None
    runtime: RuntimeKind = RuntimeKind.TENSORMAP_AND_RINGBUFFER
    emit_source_loc: bool | None = None
    analyze_auto_scopes_for_deps: bool = False
    distributed_config: Any = None
    golden_data_dir: str | None = None
    cache_config: Any = None
    enable_chip_swimlane: int = 0
    enable_dump_args: int = 0
    enable_pmu: int = 0
    enable_dep_gen: bool = False
    enable_scope_stats: bool = False
    aicpu_thread_num: int | None = None
    ring_task_window: Any = None
    ring_heap: Any = None
    ring_dep_pool: Any = None
    checked: bool = False
    execution: str = "native"
    target: tuple[BackendType, ExecutionMode] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self._check_kinds()
        self._check_ring("ring_task_window", 4)
        self._check_ring("ring_heap", 1024)
        self._check_ring("ring_dep_pool", 1)
        backend, mode = PLATFORMS["a2a3sim"]
        named = (self.backend_type, self.execution_mode)
        if self.platform is not None and PLATFORMS.get(self.platform) != named:
            backend, mode = resolve_platform(self.platform)
            self._require_same("backend_type", backend, f"platform={self.platform!r}")
            self._require_same("arch", backend, f"platform={self.platform!r}")
            self._require_same("execution_mode", mode, f"platform={self.platform!r}")
        if self.backend_type is not None:
            self._require_same("arch", self.backend_type, f"backend_type={self.backend_type}")
        self.backend_type = self.backend_type or self.arch or backend
        self.execution_mode = self.execution_mode or mode
        self.target = (self.backend_type, self.execution_mode)
        self.platform = _NAMES[self.target]

    def _check_kinds(self) -> None:
        for name, kinds in _KINDS.items():
            given = getattr(self, name)
            if given is not None and not isinstance(given, kinds):
                raise TypeError(f"{name} is {given!r}; a {kinds[0].__name__} is accepted")

    def _require_same(self, name: str, wanted: Any, because: str) -> None:
        """Raises ValueError where an option contradicts another one."""
        given = getattr(self, name)
        if given is not None and given is not wanted:
            raise ValueError(f"{name} is {given}, and {because} is {wanted}; give one of them")

    def _check_ring(self, name: str, least: int) -> None:
        given: Any = getattr(self, name)
        sizes: tuple[Any, ...] = () if given is None else tuple(_as_list(given))
        if isinstance(given, (list, tuple)) and len(sizes) != RINGS:
            raise ValueError(f"{name} is {given!r}; a number, or a list of {RINGS}, is accepted")
        for size in sizes:
            if not isinstance(size, int) or size < least or size & (size - 1):
                raise ValueError(f"{name} is {size}; it is a power of two, at least {least}")

    @property
    def dump_level(self) -> PassDumpLevel:
        """`dump_passes` as a level; True is CONCISE."""
        if isinstance(self.dump_passes, PassDumpLevel):
            return self.dump_passes
        return PassDumpLevel.CONCISE if self.dump_passes else PassDumpLevel.NONE

    def replace(self, **changes: Any) -> RunConfig:
        """A copy with other values for the named options."""
        given = {f.name: getattr(self, f.name) for f in fields(self) if f.init}
        targets = {"backend_type": "arch", "arch": "backend_type"}
        for name in ("platform", *(other for name, other in targets.items() if name in changes)):
            given[name] = None
        return RunConfig(**{**given, **changes})


def _as_list(given: Any) -> list[Any]:
    return cast("list[Any]", given) if isinstance(given, list) else [given]
