"""Arguments of the decorators of the parsed style."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.dataclass import dataclass
from tilewright.ir.enums import FunctionType, Level, Role


@dataclass(frozen=True)
class Options:
    """Arguments of a function's decorator."""

    func_type: FunctionType = FunctionType.Opaque
    level: Level | None = None
    role: Role | None = None
    attrs: Mapping[str, Any] | None = None
    auto_scope: bool = True
    strict_ssa: bool = False
    external_source: str | None = None
