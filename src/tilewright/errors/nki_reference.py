"""The reference of the named errors of the traced style, as a page of text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tilewright.errors import nki_control, nki_instructions, nki_memory, nki_tensors
from tilewright.errors.base import ErrorPage
from tilewright.errors.nki import NKI_PAGES

CHAPTERS = (nki_control, nki_tensors, nki_memory, nki_instructions)
PAGES: Mapping[str, ErrorPage] = NKI_PAGES
"""Every page by its name: the chapters, which declare them, are loaded."""
HEADING = """# Errors of traced kernels

Every refusal of the traced style has a name, which is the `code` of the exception and the last line
of its text. Generated from the catalogue: `python -m tilewright.errors.nki_reference`.

## What a helper may return

nki data (tensors and tile masks) may flow through a traced helper, and never originate in one that
received none: such a helper usually allocates against the wrong scope. It is a plain assertion,
`function without nki data as input should not return nki data`, so `python -O` removes it, and the
option `check_return_consistency=False` of `nki.jit` turns it off. The fix is to pass a tensor in,
to allocate in the kernel, or to mark the helper with `dont_trace`.
"""


def reference_text() -> str:
    """The whole page."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield HEADING
    for chapter in CHAPTERS:
        title = (chapter.__doc__ or "").partition(":")[2].strip().rstrip(".")
        yield f"## {title.capitalize()}\n"
        for value in vars(chapter).values():
            if isinstance(value, ErrorPage):
                yield from _section(value)


def _section(page: ErrorPage) -> Iterator[str]:
    explanation = page.explain()
    builtin = next(base for base in page.exception.__mro__ if base.__module__ == "builtins")
    yield f"### {page.code}\n"
    yield f"`{page.exception.__name__}` (a `{builtin.__name__}`)\n"
    yield f"> {page.message}\n"
    yield explanation.cause + "\n"
    yield f"Refused:\n\n```python\n{explanation.bad}\n```\n"
    yield f"Accepted:\n\n```python\n{explanation.good}\n```\n"
    if page.hint:
        yield f"Help: {page.hint}.\n"


if __name__ == "__main__":
    print(reference_text(), end="")
