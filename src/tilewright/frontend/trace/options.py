"""Options of a trace."""

from __future__ import annotations

from dataclasses import field
from typing import Any, Literal

from tilewright.dataclass import dataclass

DEFAULT_TARGET = "trn2"
RangeMode = Literal["unroll", "sequential"]
DtypePolicy = Literal["precise", "legacy"]


@dataclass(frozen=True)
class CompileOpts:
    """How a kernel is traced; part of what it is specialized for.

    `predicated_if`: a branch on an affine predicate of loop variables and program ids traces both
    arms, each guarded; refused otherwise. `check_return_consistency`: helpers without nki data
    must not return any. `builtin_range`: what `range` is in a kernel. `platform_target` decides
    limits. `checked` fills outputs with NaN (or 4) before a launch, so that elements which the
    kernel leaves unwritten show; otherwise their values are arbitrary. `check_capacity` refuses a
    kernel whose tiles that live at a time do not fit the target's memories, `check_allocation` one
    whose explicit allocations overlap while both are in use. `enable_cache` decides whether
    machine code is kept on disk; None leaves that to `configure_cache`. `dtype_policy` says what
    tiles of bfloat16 and of 8-bit floats hold: numbers of that type, or ("legacy") float32, as
    simulators of old did, which rounds only what is stored. `extra` holds keywords that are
    accepted and have no effect here.
    """

    predicated_if: bool = False
    check_return_consistency: bool = True
    builtin_range: RangeMode = "unroll"
    platform_target: str = DEFAULT_TARGET
    kernel_return: bool = True
    checked: bool = False
    check_capacity: bool = False
    check_allocation: bool = False
    enable_cache: bool | None = None
    dtype_policy: DtypePolicy = "precise"
    grid: tuple[Any, ...] = ()
    extra: tuple[tuple[str, str], ...] = field(default=())
