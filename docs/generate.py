"""Writes the reference from the pages it is about: `python docs/generate.py`.

`docs/reference/ops.md` comes from the pages of operations, `nki.md` from the modules of the traced
style, `errors.md` and `nki-errors.md` from the catalogue of errors. A test compares the files with
what this script would write.
"""

from __future__ import annotations

import enum
import importlib
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import tilewright.language  # so that every page is there
import tilewright.nki as nki
import tilewright.nki.isa as nisa
import tilewright.nki.language as nl
import tilewright.nki.typing as nt
from tilewright import errors, ops
from tilewright.errors.nki_reference import reference_text
from tilewright.ir import serialize
from tilewright.ir.enums import Effect
from tilewright.ir.opdef import OPS, SPELLINGS, Macro, OpDef, Spelling

REFERENCE = Path(__file__).parent / "reference"
HAS_ERRORS = (errors, serialize)

ERRORS_HEAD = """# Errors

Every error an author can meet, by code; generated from the catalogue by `docs/generate.py`.
`tilewright.errors.explain(type(error))` gives the same page at run time. Errors of traced kernels
have names of their own: [nki-errors.md](nki-errors.md).
"""
NKI_HEAD = """# The traced style

The public names of `tilewright.nki`; generated from its modules by `docs/generate.py`.
"""
NKI_MODULES = {
    nki: "nki",
    nl: "nl",
    nisa: "nisa",
    nki.dst_first: "nki.dst_first",
    nki.newer: "nki.newer",
    nki.collectives: "nki.collectives",
    nt: "nt",
}
STARS = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
OPS_HEAD = """# Operations

One section per page in `src/tilewright/ops/`; generated from the pages by `docs/generate.py`.
`python -m tilewright.cli ops NAME` shows one of them. Each operation has a canonical form
(operands, then attributes by keyword) and the public names under which programs call it; names
without an operation of their own stand for others.
"""


def errors_page() -> str:
    """docs/reference/errors.md."""
    return "\n".join([ERRORS_HEAD, *_error_sections()])


def _error_sections() -> Iterator[str]:
    for cls in errors.catalogue():
        if cls.__module__.startswith("tilewright.errors.nki"):
            continue
        page = errors.explain(cls)
        builtin = next(base for base in cls.__mro__ if base.__module__ == "builtins")
        yield f"## {page.code} `{page.name}`\n"
        yield f"{page.cause}\n"
        if builtin is not Exception:
            yield f"It is a `{builtin.__name__}`.\n"
        yield f"Refused:\n\n```python\n{page.bad}\n```\n"
        yield f"Accepted:\n\n```python\n{page.good}\n```\n"


def ops_page() -> str:
    """docs/reference/ops.md."""
    return "\n".join([OPS_HEAD, *_families()])


def _families() -> Iterator[str]:
    """Operations by the first part of their name, then names that stand for others, by page."""
    for family in dict.fromkeys(name.partition(".")[0] for name in OPS):
        yield from _heading(family)
        for opdef in OPS.values():
            if opdef.name.startswith(f"{family}."):
                yield from _section(opdef.name, opdef)
    macros = {id(s.target): s.target for found in SPELLINGS.values() for s in found}.values()
    for family in ops.__all__:
        home = f"tilewright.ops.{family}"
        found = [m for m in macros if isinstance(m, Macro) and m.function.__module__ == home]
        if found:
            yield from _heading(family, "Names on the page ")
        for macro in found:
            yield from _section(macro.spellings[0].path, macro)


def _heading(family: str, before: str = "") -> Iterator[str]:
    yield f"## {before}{family}\n"
    if family in ops.__all__:
        yield _first_paragraph(importlib.import_module(f"tilewright.ops.{family}"))


def _section(title: str, target: OpDef[..., Any] | Macro) -> Iterator[str]:
    yield f"### {title}\n"
    yield f"{inspect.getdoc(target) or ''}\n"
    lines = [_canonical(target)] if isinstance(target, OpDef) else []
    lines += [_call(spelling) for spelling in target.spellings]
    yield "\n".join(["```python", *dict.fromkeys(lines), "```\n"])
    facts = list(_facts(target)) if isinstance(target, OpDef) else []
    if facts:
        yield f"{'; '.join(facts)}.\n"


def _canonical(opdef: OpDef[..., Any]) -> str:
    return f"{opdef.name}({_parameters(opdef.signature)})"


def _call(spelling: Spelling) -> str:
    return f"{spelling.path}({_parameters(spelling.signature)})"


def _parameters(signature: inspect.Signature) -> str:
    parts: list[str] = []
    starred = False
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            starred = True
            parts.append("*")
        star = STARS.get(parameter.kind, "")
        starred = starred or star == "*"
        given = parameter.default
        default = "" if given is parameter.empty else f"={_value(given)}"
        parts.append(f"{star}{parameter.name}{default}")
    return ", ".join(parts)


def _value(given: Any) -> str:
    return f"{type(given).__name__}.{given.name}" if isinstance(given, enum.Enum) else repr(given)


def _facts(opdef: OpDef[..., Any]) -> Iterator[str]:
    if opdef.effect is not Effect.PURE:
        yield f"Effect: {opdef.effect.name.lower()}"
    for result, operand in opdef.tied.items():
        which = "The result" if len(opdef.tied) == 1 else f"Result {result}"
        yield f"{which} is the new version of `{opdef.operand_names[operand]}`"
    if opdef.commutative:
        yield "Commutative"
    if opdef.ulp:
        yield f"Within {opdef.ulp:g} ULP"


def nki_page() -> str:
    """docs/reference/nki.md."""
    return "\n".join([NKI_HEAD, *_nki_sections()])


def _nki_sections() -> Iterator[str]:
    for module, alias in NKI_MODULES.items():
        yield f"## `{module.__name__}` as `{alias}`\n"
        yield _first_paragraph(module)
        plain: list[str] = []
        for name in module.__all__:
            found = getattr(module, name)
            if callable(found) and not inspect.ismodule(found) and inspect.getdoc(found):
                yield from _nki_section(f"{alias}.{name}", found)
            else:
                plain.append(f"`{alias}.{name}`")
        if plain:
            yield f"Also: {', '.join(plain)}.\n"


def _nki_section(path: str, found: Any) -> Iterator[str]:
    yield f"### {path}\n"
    yield f"{inspect.getdoc(found)}\n"
    try:
        signature = inspect.signature(found)
    except (TypeError, ValueError):
        return
    yield f"```python\n{path}({_parameters(signature)})\n```\n"


def _first_paragraph(module: ModuleType) -> str:
    return (inspect.getdoc(module) or "").partition("\n\n")[0] + "\n"


PAGES = {
    "nki.md": nki_page,
    "errors.md": errors_page,
    "ops.md": ops_page,
    "nki-errors.md": reference_text,
}


def main() -> int:
    """Writes every page."""
    REFERENCE.mkdir(exist_ok=True)
    for name, make in PAGES.items():
        (REFERENCE / name).write_text(make(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    assert tilewright.language.__doc__
    sys.exit(main())
