"""Which machine compiled code is for, as part of keys."""

from __future__ import annotations

import hashlib
import platform
from functools import cache


@cache
def machine_identity() -> str:
    """The processor that objects are made for, as far as it can be told without LLVM."""
    facts = [platform.system(), platform.machine(), *_processor_facts()]
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:32]


def _processor_facts() -> list[str]:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            text = file.read()
    except OSError:
        return [platform.processor()]
    first, _, _ = text.partition("\n\n")
    wanted = ("model name", "flags", "Features", "CPU implementer", "CPU part")
    return sorted(line for line in first.splitlines() if line.startswith(wanted))
