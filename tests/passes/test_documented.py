"""What the docstring of a pass shows is what the pass does."""

from __future__ import annotations

import inspect
import re
from types import ModuleType

import pytest

import tilewright.ops  # noqa: F401  (fills the registry)
from tilewright.frontend.text import parse
from tilewright.passes import (
    expand_communication,
    function,
    hoist_checks,
    inline_calls,
    join_rows,
    join_strips,
    merge_products,
    merge_tiles,
    place_products,
    simplify,
    split_reductions,
    unroll_loops,
)
from tilewright.passes.pipeline import PIPELINE

PASSES = {
    "inline_calls": inline_calls,
    "expand_communication": expand_communication,
    "unroll_loops": unroll_loops,
    "simplify": simplify,
    "split_reductions": split_reductions,
    "lower_entry": function,
    "hoist_checks": hoist_checks,
    "merge_products": merge_products,
    "place_products": place_products,
    "merge_tiles": merge_tiles,
    "join_strips": join_strips,
    "join_rows": join_rows,
}
IMPORTS = """
import tilewright.language as pl
import tilewright.language.distributed as pld

"""
SECTION = re.compile(r"^(Before|After)::\n\n((?:    .*\n|\n)*)", re.MULTILINE)


def sections(module: ModuleType) -> dict[str, str]:
    doc = (module.__doc__ or "") + "\n"
    return {title: inspect.cleandoc(text) for title, text in SECTION.findall(doc)}


def test_every_pass_shows_what_it_does() -> None:
    assert [step.__name__ for step in PIPELINE] == list(PASSES)


@pytest.mark.parametrize("name", PASSES)
def test_the_example_of_a_pass_is_true(name: str) -> None:
    shown = sections(PASSES[name])
    before = parse(IMPORTS + shown["Before"])
    step = next(step for step in PIPELINE if step.__name__ == name)
    lines = step(before, "main").as_python(concise=True).splitlines()
    after = shown["After"].splitlines()
    stripped = [line.strip() for line in lines]
    wanted = [line.strip() for line in after]
    start = stripped.index(wanted[0])
    assert stripped[start : start + len(wanted)] == wanted
