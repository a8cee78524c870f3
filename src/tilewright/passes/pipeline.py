"""The one pipeline from tile IR to loop IR: a tuple of passes, and those who watch them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilewright import settings
from tilewright.garbage import without_collections
from tilewright.ir.core import Program
from tilewright.passes import (
    contract,
    diagnostics,
    external,
    meetings,
    ranks,
    regions,
    scans,
    single,
)
from tilewright.passes.context import (
    PassContext,
    VerificationLevel,
    wanted_level,
)
from tilewright.passes.expand_communication import expand_communication
from tilewright.passes.function import lower_entry
from tilewright.passes.hoist_checks import hoist_checks
from tilewright.passes.inline_calls import inline_calls
from tilewright.passes.instruments import Instrument, LogInstrument, VerificationInstrument
from tilewright.passes.join_rows import join_rows
from tilewright.passes.join_strips import join_strips
from tilewright.passes.merge_products import merge_products
from tilewright.passes.merge_tiles import merge_tiles
from tilewright.passes.place_products import place_products
from tilewright.passes.simplify import simplify
from tilewright.passes.split_reductions import split_reductions
from tilewright.passes.unroll_loops import unroll_loops

REGISTERED = (contract, external, meetings, ranks, regions, scans, single)
"""Modules that say how operations without a structure are lowered."""

Pass = Callable[[Program, str], Program]


PIPELINE: tuple[Pass, ...] = (
    inline_calls,  # first: lowering sees one function; what stays the same is no carry then
    expand_communication,  # before simplify, which cleans up after it
    unroll_loops,  # before simplify, too: counters are constants then
    simplify,  # once constants have met the code of callees
    split_reductions,  # before a reduction is one nest
    lower_entry,
    hoist_checks,  # before loops around products are looked at
    merge_products,  # before products are placed: an accumulator has one writer then
    place_products,  # what the nests of lower_entry store is known
    merge_tiles,  # tiles have places in one matrix now
    join_strips,  # before their rows are joined
    join_rows,  # last: those before it look for plain nests
)


def lower(program: Program, entry: str, instruments: Sequence[Instrument] = ()) -> Program:
    """The program of one loop-level function that does what `entry` of `program` does.

    Its parameters are those of `entry`, tensors as buffers, then one Out buffer per returned value
    that is not a parameter; attribute `results` says where each returned value is (see
    `passes.function`). `instruments`, and those of the active PassContext, see every pass. Raises
    UnsupportedFeatureError and StaleRead, located.
    """
    with without_collections():
        return run_watched(PIPELINE, program, entry, instruments=instruments)


def run_watched(
    steps: Sequence[Callable[..., Program]],
    program: Program,
    *arguments: Any,
    instruments: Sequence[Instrument] = (),
) -> Program:
    """What `steps`, called with a program and `arguments`, make of `program`, one after the other;
    `instruments` and those of the active PassContext see it before and after each."""
    watching = [*instruments, *_ambient_instruments()]
    for step in steps:
        for instrument in watching:
            instrument.before_pass(step.__name__, program)
        program = step(program, *arguments)
        for instrument in watching:
            instrument.after_pass(step.__name__, program)
    for instrument in watching:
        instrument.after_pipeline(program)
    return program


def _ambient_instruments() -> list[Instrument]:
    """Those of the active context, and those that it and the environment ask for."""
    context, level = PassContext.current(), wanted_level()
    made = list(context.instruments) if context is not None else []
    if level not in (None, VerificationLevel.NONE):
        made.append(VerificationInstrument(level=level))
    if settings.LOG_LEVEL.read() == "debug":
        made.append(LogInstrument())
    return [*made, *diagnostics.watchers()]
