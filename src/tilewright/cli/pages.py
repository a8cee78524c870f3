"""The pages of operations, as lines."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

from tilewright import ops
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
        yield f"{path}{spelling.signature}"
    for target in {id(s.target): s.target for s in SPELLINGS[path]}.values():
        yield ""
        yield from (f"    {line}" for line in (inspect.getdoc(target) or "").splitlines())
        if isinstance(target, OpDef):
            yield f"    (operation {target.name})"
    yield ""


def op_page(opdef: OpDef[..., object]) -> Iterator[str]:
    """An operation under its own name."""
    yield f"{opdef.name}: {', '.join((*opdef.operand_names, *opdef.attr_names))}"
    yield from (f"    {line}" for line in (inspect.getdoc(opdef) or "").splitlines())
