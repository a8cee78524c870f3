"""The pages of operations and of errors, as lines."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

from tilewright import ops
from tilewright.errors import Explanation, catalogue, explain
from tilewright.errors.nki_reference import PAGES
from tilewright.frontend.operations import usage
from tilewright.ir.opdef import OPS, SPELLINGS, OpDef, Spelling

REGISTERED = ops.__all__
"""The families whose pages are listed."""


def find_pages(name: str) -> list[str]:
    """One line per public name that contains `name`; the whole page where there is only one."""
    paths = [path for path in sorted(SPELLINGS) if name in path]
    exact = [path for path in paths if name in (path, path.rpartition(".")[2])]
    if name and exact:
        return [line for path in exact for line in page(path)]
    if not paths and name in OPS:
        return list(op_page(OPS[name]))
    return [f"{path:<32} {summary(SPELLINGS[path][0])}" for path in paths]


def summary(spelling: Spelling) -> str:
    """The first sentence about an operation."""
    return (inspect.getdoc(spelling.target) or "").partition("\n")[0]


def page(path: str) -> Iterator[str]:
    """A public name: its forms, and the operation behind each."""
    for spelling in SPELLINGS[path]:
        yield usage([spelling]).removeprefix("Usage: ")
    for target in {id(s.target): s.target for s in SPELLINGS[path]}.values():
        yield ""
        yield from _indented(inspect.getdoc(target) or "")
        if isinstance(target, OpDef):
            yield f"    (operation {target.name})"
    yield ""


def op_page(opdef: OpDef[..., object]) -> Iterator[str]:
    """An operation under its own name."""
    yield f"{opdef.name}: {', '.join((*opdef.operand_names, *opdef.attr_names))}"
    yield from _indented(inspect.getdoc(opdef) or "")


def _indented(text: str) -> Iterator[str]:
    return (f"    {line}".rstrip() for line in text.splitlines())


def find_errors(name: str) -> list[str]:
    """One line per error whose class or code contains `name`; its whole page if it is that."""
    known = [*map(explain, catalogue()), *(found.explain() for found in PAGES.values())]
    found = [e for e in known if name.lower() in f"{e.name} {e.code}".lower()]
    exact = [e for e in found if name.lower() in (e.name.lower(), e.code.lower())]
    if exact:
        return [line for each in exact for line in error_page(each)]
    return [f"{_title(e):<40} {e.cause.partition(chr(10))[0]}" for e in found]


def _title(error: Explanation) -> str:
    return error.name if error.name == error.code else f"{error.code} {error.name}"


def error_page(error: Explanation) -> Iterator[str]:
    """An error: what causes it, a kernel that raises it and one that does not."""
    yield _title(error)
    yield ""
    yield from _indented(error.cause)
    for title, text in (("bad", error.bad), ("good", error.good)):
        if text:
            yield from ("", f"    {title}:", *_indented(text))
    yield ""
