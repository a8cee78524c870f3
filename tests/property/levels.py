"""What must agree for a random program: its text, its copies, its levels, its native code."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from typing import Any

import numpy as np

from property.generator import Case
from property.tally import Skipped
from tilewright.dtypes import DType
from tilewright.errors import StaleRead, TilewrightError
from tilewright.interp import Interpreter
from tilewright.interp.ownership import tied_pairs
from tilewright.ir.affine import Symbol, as_expr, evaluate, symbols
from tilewright.ir.core import Program
from tilewright.ir.rewrite import apply_rules
from tilewright.ir.serializer import deserialize, serialize
from tilewright.ir.types import ShapedType
from tilewright.ir.verifier import verify
from tilewright.ops import control, shape
from tilewright.ops.view import VIEWS
from tilewright.testing import assert_same_ir, assert_same_values
from tilewright.testing.chains import fma_chain
from tilewright.testing.native import CompiledWords, call_native, compile_native

Outcome = list[Any] | str
Array = np.ndarray[Any, np.dtype[Any]]
Check = Callable[[Case], None]
CHECKS: dict[str, Check] = {}


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


class Chains:
    """Words mode with the references of words: only products are as compiled code has them."""

    matmul = staticmethod(fma_chain)

    def word(self, name: str, dtype: DType) -> None:
        return None


def interpreted(case: Case, **options: Any) -> Outcome:
    """What the tile-level program gives."""
    arrays = case.arguments()
    interpreter = Interpreter(case.program, **{"words": Chains(), **options})
    return outcome(lambda: interpreter.run("main", arrays), arrays)


@lru_cache(maxsize=4)
def plain(case: Case) -> Outcome:
    """`interpreted`, once per case."""
    return interpreted(case)


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
    require_same(interpreted(case, checked=True), plain(case), "checked mode")


@cache
def parser() -> Callable[[str], Program] | None:
    """The reader of printed programs, when there is one."""
    with contextlib.suppress(ImportError):
        from tilewright.frontend.text import parse

        return parse
    return None


@check
def printed(case: Case) -> None:
    """Printing and reading give the same program."""
    if calls_in_regions(case.program):
        raise Skipped("reading carries every argument of a call in a loop")
    if writes_to_slices(case.program):
        raise Skipped("in text a write to a part or a view is a write to the whole")
    text = case.program.as_python()
    read = parser()
    if read is None:
        return
    try:
        program = read(text)
    except StaleRead as error:
        raise Skipped(error.message[:60]) from error
    assert_same_ir(program, case.program)


def calls_in_regions(program: Program) -> bool:
    """True when a loop or branch calls a function."""
    return any(
        inner.opdef is control.call
        for function in program.functions.values()
        for op in function.body.ops
        for region in op.regions
        for inner in region.walk()
    )


def writes_to_slices(program: Program) -> bool:
    """True when some write replaces a version that is a part or a view of another."""
    return any(
        old.op is not None and old.op.opdef in (shape.slice_, *VIEWS)
        for function in program.functions.values()
        for op in function.body.walk()
        for _, old in tied_pairs(op)
    )


@cache
def lowering() -> Callable[[Program, str], Program] | None:
    """The pass pipeline, when there is one."""
    with contextlib.suppress(ImportError):
        from tilewright.passes.pipeline import lower

        return lower
    return None


REFUSALS = ("TW301", "TW304", "TW305")


@lru_cache(maxsize=4)
def lower_program(program: Program) -> Program:
    """The lowered program; Skipped where an author would be refused."""
    lower = lowering()
    if lower is None:
        raise Skipped("there is no pipeline")
    try:
        return lower(program, "main")
    except TilewrightError as error:
        if error.code in REFUSALS or "cannot be compiled yet" in error.message:
            raise Skipped(error.message[:60]) from error
        raise


def loop_arguments(case: Case, program: Program) -> list[Any]:
    """Arguments, then memory for each result that became a parameter."""
    arrays = case.arguments()
    extents = extents_of(case, arrays)
    for param in program["main"].params[len(arrays) :]:
        type_ = param.type
        assert isinstance(type_, ShapedType)
        shape = tuple(evaluate(extent, extents) for extent in type_.shape)
        arrays.append(np.zeros(shape, type_.dtype.numpy))
    return arrays


def extents_of(case: Case, arrays: list[Any]) -> dict[Symbol, int]:
    """What the symbols of the signature are."""
    found: dict[Symbol, int] = {}
    for param, array in zip(case.program["main"].params, arrays, strict=True):
        for axis, extent in enumerate(getattr(param.type, "shape", ())):
            symbol = lone_symbol(extent)
            if symbol is not None:
                found[symbol] = array.shape[axis]
    return found


def lone_symbol(extent: Any) -> Symbol | None:
    names = symbols(extent)
    return names[0] if len(names) == 1 and extent == as_expr(names[0]) else None


def results_of(case: Case, program: Program, arrays: list[Any]) -> list[Any]:
    """Returned values, as the tile level gives them, then the arguments of the declared params."""
    given = [
        arrays[position] if kind == "tensor" else arrays[position][0]
        for kind, position in program["main"].attrs["results"]
    ]
    return [*given, *arrays[: len(case.inputs)]]


def on_loops(case: Case, **options: Any) -> Outcome:
    """What the lowered program gives, interpreted."""
    program = lower_program(case.program)
    arrays = loop_arguments(case, program)
    interpreter = Interpreter(program, **{"words": Chains(), **options})
    found = outcome(lambda: interpreter.run("main", arrays), [])
    return found if isinstance(found, str) else results_of(case, program, arrays)


@check
def loop_level(case: Case) -> None:
    """The lowered program means the same."""
    verify(lower_program(case.program))
    require_same(on_loops(case), plain(case), "loop level")


@check
def poisoned(case: Case) -> None:
    """The lowered program reads no scratch memory that it has not written."""
    require_same(on_loops(case, checked=True), plain(case), "checked loop level")


@check
def loop_forms(case: Case) -> None:
    """The lowered program prints, reads back and is stored as itself."""
    program = lower_program(case.program)
    assert_same_ir(deserialize(serialize(program)), program)
    read = parser()
    if read is not None:
        assert_same_ir(read(program.as_python()), program)


@cache
def words() -> CompiledWords:
    return CompiledWords()


@check
def native(case: Case) -> None:
    """Compiled code gives the bits of the lowered program, whose words are the compiled ones."""
    lower_program(case.program)
    artifact = compile_native(case.program)
    expected = on_loops(case, words=words())
    for layout in (np.array, scattered):
        arrays = [layout(a) if isinstance(a, np.ndarray) else a for a in case.arguments()]
        found = outcome(lambda given=arrays: call_native(artifact, given), arrays)
        require_same(found, expected, f"native ({layout.__name__})")


def scattered(array: Array) -> Array:
    """The same elements in every second place, the axes in the other order, the last reversed."""
    if not array.ndim:
        return np.array(array)
    room = np.zeros([2 * extent for extent in reversed(array.shape)], array.dtype)
    view = room[tuple(slice(None, None, 2) for _ in array.shape)].T
    view = view[..., ::-1]
    view[...] = array
    return view
