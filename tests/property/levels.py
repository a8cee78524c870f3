"""What must agree for a random program: its text, its copies, its levels, its native code."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from property.generator import Case
from tilewright.errors import TilewrightError
from tilewright.interp import Interpreter
from tilewright.ir.core import Program
from tilewright.ir.rewrite import apply_rules
from tilewright.ir.serialize import deserialize, serialize
from tilewright.ir.types import ShapedType
from tilewright.ir.verify import verify
from tilewright.testing import assert_same_ir, assert_same_values

Outcome = list[Any] | str
Check = Callable[[Case], None]
CHECKS: dict[str, Check] = {}


class Skipped(Exception):
    """The program is refused at this level, with an error of the catalogue."""


def check(function: Check) -> Check:
    CHECKS[function.__name__] = function
    return function


def outcome(run: Callable[[], Sequence[Any]], arrays: list[Any]) -> Outcome:
    """Returned values and all array arguments afterwards, or the name of the fault."""
    try:
        returned = run()
    except TilewrightError as error:
        if error.code.startswith("TW4"):
            return type(error).__name__
        raise
    return [*returned, *arrays]


def interpreted(case: Case, program: Program | None = None, **options: Any) -> Outcome:
    arrays = case.arguments()
    interpreter = Interpreter(program or case.program, **options)
    return outcome(lambda: interpreter.run("main", arrays), arrays)


def require_same(left: Outcome, right: Outcome, what: str) -> None:
    if isinstance(left, str) or isinstance(right, str):
        assert left == right, f"{what}: {left if isinstance(left, str) else 'values'} and {right}"
        return
    for position, (a, b) in enumerate(zip(left, right, strict=True)):
        assert_same_values(a, b, f"{what}: value {position}")


@check
def verified(case: Case) -> None:
    """Valid IR."""
    verify(case.program)


@check
def copied(case: Case) -> None:
    """A copy, and what is read back from bytes, mean the same."""
    assert_same_ir(apply_rules(case.program, {}), case.program)
    assert_same_ir(deserialize(serialize(case.program)), case.program)


@check
def checked(case: Case) -> None:
    """Poisoned memory and shuffled iterations change nothing."""
    require_same(interpreted(case, checked=True), interpreted(case), "checked mode")


@cache
def parser() -> Callable[[str], Program] | None:
    """The reader of printed programs, when there is one."""
    with contextlib.suppress(ImportError, AttributeError):
        import tilewright.language as pl

        return pl.loads
    return None


@check
def printed(case: Case) -> None:
    """Printing and reading give the same program."""
    text = case.program.as_python()
    read = parser()
    if read is not None:
        assert_same_ir(read(text), case.program)


@cache
def lowering() -> Callable[[Program, str], Program] | None:
    """The pass pipeline, when there is one."""
    with contextlib.suppress(ImportError):
        from tilewright.passes.pipeline import lower

        return lower
    return None


def lowered(case: Case) -> Program:
    lower = lowering()
    if lower is None:
        raise Skipped("there is no pipeline")
    try:
        return lower(case.program, "main")
    except TilewrightError as error:
        if error.code in ("TW301", "TW304", "TW305"):
            raise Skipped(error.code) from error
        raise


@check
def loop_level(case: Case) -> None:
    """The lowered program means the same."""
    program = lowered(case)
    verify(program)
    arrays, extra = loop_arguments(case)
    interpreter = Interpreter(program)
    found = outcome(lambda: [*interpreter.run("main", [*arrays, *extra]), *extra], arrays)
    require_same(found, interpreted(case), "loop level")


def loop_arguments(case: Case) -> tuple[list[Any], list[Any]]:
    """Arguments, and memory for what the tile level returns."""
    arrays = case.arguments()
    results = interpreted(case)
    count = len(case.program["main"].return_types)
    extra = [] if isinstance(results, str) else [np.zeros_like(r) for r in results[:count]]
    assert all(isinstance(type_, ShapedType) for type_ in case.program["main"].return_types)
    return arrays, extra
