"""The parsed style: `import tilewright.language as pl`.

Types, enumerations, decorators and statement words are listed here; operations (`pl.add`,
`pl.tile.load`, ...) are the public spellings of the pages in `tilewright.ops`.
"""

from __future__ import annotations

from typing import Any

from tilewright import ops as _ops
from tilewright.errors.terminal import show_parser_errors as _show_parser_errors
from tilewright.frontend.surface import find_name as _find_name
from tilewright.frontend.surface import names_under as _names_under
from tilewright.frontend.text import loads, loads_program, parse, parse_program
from tilewright.frontend.vocabulary import PL as _PL
from tilewright.jit import RUNTIME, constexpr, jit

__surface__ = "pl"
_REGISTERED = _ops.__all__

globals().update(_PL)
_show_parser_errors()


def __getattr__(name: str) -> Any:
    found = None if name.startswith("__") else _find_name(f"pl.{name}")
    if found is None:
        raise AttributeError(f"module 'tilewright.language' has no attribute '{name}'")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_names_under("pl")})


__all__ = ["RUNTIME", "constexpr", "jit", "loads", "loads_program", "parse", "parse_program"]
__all__ += _PL.keys()  # pyright: ignore[reportUnsupportedDunderAll]
