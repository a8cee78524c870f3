"""Several vectors of a loop body, each one step behind the one before.

What stands side by side in the text then differs: a product of one vector, a sum of the next, an
extreme of the third. A processor hands neighbours out to its units together, and units for products
are others than those for sums; in rows of equal operations half of the units wait for the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain

from tilewright.codegen.text import Text
from tilewright.dataclass import dataclass


@dataclass(slots=True)
class Run:
    """Lines `first` up to `end` of a function: rows of one line for each of `copies` vectors."""

    first: int
    end: int
    copies: int


def in_turn(
    text: Text, copies: Sequence[tuple[str, ...]], write: Callable[..., str]
) -> tuple[tuple[str, ...], bool]:
    """What `write` gives for the operands of each vector, written line by line in turn.

    Also whether that was possible: what has blocks of its own is written one after the other.
    """
    first, block = len(text.lines), text.block
    bodies: list[list[str]] = []
    refs: list[str] = []
    for operands in copies:
        start = len(text.lines)
        refs.append(write(*operands))
        bodies.append([line for entry in text.lines[start:] for line in entry.split("\n")])
    if text.block != block:
        return tuple(refs), False
    text.lines[first:] = chain.from_iterable(zip(*bodies, strict=True))
    return tuple(refs), True


def join_run(run: Run | None, text: Text, first: int, copies: int) -> Run:
    """The run that the lines from `first` on belong to; one that ended earlier is staggered."""
    if run is not None and (run.end, run.copies) == (first, copies):
        run.end = len(text.lines)
        return run
    stagger(run, text)
    return Run(first, len(text.lines), copies)


def stagger(run: Run | None, text: Text) -> None:
    """Put the lines of a run in an order in which each vector is a row behind the one before.

    A line only refers to the lines of its own vector, or to what came before the run.
    """
    if run is None:
        return
    lines, copies = text.lines[run.first : run.end], run.copies
    rows = len(lines) // copies
    text.lines[run.first : run.end] = [
        lines[(time - copy) * copies + copy]
        for time in range(rows + copies - 1)
        for copy in range(copies)
        if 0 <= time - copy < rows
    ]
