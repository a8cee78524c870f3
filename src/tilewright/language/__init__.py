"""The parsed style: `import tilewright.language as pl`.

Types, enumerations, decorators and statement words are listed here; operations (`pl.add`,
`pl.tile.load`, ...) are the public spellings of the pages in `tilewright.ops`, which are imported
when the first of them is wanted by Python, or by the parser.
"""

from __future__ import annotations

from typing import Any

from tilewright.garbage import importing as _importing

with _importing():
    import tilewright.frontend as _frontend
    from tilewright.boundary import show_parser_errors as _show_parser_errors
    from tilewright.frontend.vocabulary import LATE as _LATE
    from tilewright.frontend.vocabulary import PL as _PL
    from tilewright.frontend.vocabulary import late_word as _late_word
    from tilewright.jit import RUNTIME as RUNTIME
    from tilewright.jit import constexpr as constexpr
    from tilewright.jit import jit as jit

__surface__ = "pl"
_TEXT = ("loads", "loads_program", "parse", "parse_program")
_HERE = ("RUNTIME", "constexpr", "jit", *_PL, *_LATE, *_TEXT)

globals().update(_PL)
_show_parser_errors()


def __getattr__(name: str) -> Any:
    if name == "__all__":
        found = sorted({*_HERE, *_frontend.operations.names_under("pl")})
    elif name in _LATE:
        found = _late_word(name)
    elif name in _TEXT:
        found = getattr(_frontend.text, name)
    else:
        found = None if name.startswith("__") else _frontend.operations.find_name(f"pl.{name}")
    if found is None:
        raise AttributeError(f"module 'tilewright.language' has no attribute '{name}'")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_HERE, *_frontend.operations.names_under("pl")})
