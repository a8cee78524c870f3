"""Which machine compiled code is for, as part of keys.

`platform` would say it, too, and takes as long to load as a warm kernel to be found.
"""

from __future__ import annotations

import os
import sys
from functools import cache

from tilewright.hashes import blake


@cache
def machine_identity() -> str:
    """The processor that objects are made for, as far as it can be told without LLVM."""
    facts = [sys.platform, *_processor_facts()]
    return blake("\n".join(facts).encode()).hexdigest()[:32]


def _processor_facts() -> list[str]:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            text = file.read()
    except OSError:
        return [os.environ.get("PROCESSOR_IDENTIFIER") or os.uname().machine]
    first, _, _ = text.partition("\n\n")
    wanted = ("model name", "flags", "Features", "CPU implementer", "CPU part")
    return sorted(line for line in first.splitlines() if line.startswith(wanted))
