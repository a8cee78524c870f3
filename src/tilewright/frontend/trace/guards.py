"""What a trace read from around its functions, so that a change of it forces a new trace."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from types import FunctionType
from typing import Any

from tilewright.dataclass import dataclass
from tilewright.frontend.trace.readings import (
    Readings,
    Source,
    Unreadable,
    as_source,
    mentioned_by,
)
from tilewright.frontend.trace.spans import is_rewritten

Path = tuple[Any, ...]
Leaves = dict[Path, Any]
MOST_INSTALLED = 100
"""Functions of one installed package that are followed: one of kernels has fewer."""


@dataclass(frozen=True)
class Guard:
    """What the functions of a trace mentioned, and what its constants contained, when it ended.

    `written` are places that the trace itself changed: a log that it appended to is no input.
    """

    sources: tuple[Source, ...]
    constants: tuple[Any, ...]
    names: frozenset[str]
    written: frozenset[Path]
    seen: Leaves

    def holds(self) -> bool:
        """True while every mentioned name still means the same."""
        return snapshot(self.sources, self.constants, self.names, self.written) == self.seen


@dataclass
class Watch:
    """The functions of a trace, each with what it mentioned before it first ran."""

    before: dict[Any, tuple[Source, frozenset[str], Leaves]] = field(
        default_factory=dict[Any, tuple[Source, frozenset[str], Leaves]]
    )
    entered: dict[int, object] = field(default_factory=dict[int, object])

    def enter(self, runs: object) -> None:
        """Notes that a function (or an inline helper of the parsed style) is about to run.

        What a function that the trace itself has made reads, the one around it mentions.
        """
        made_here = isinstance(runs, FunctionType) and is_rewritten(runs.__code__)
        if made_here or id(runs) in self.entered:
            return
        self.entered[id(runs)] = runs
        source = as_source(runs)
        if source is None:
            return
        sources, names = reachable(source)
        for each in sources:
            if each.key not in self.before:
                self.before[each.key] = each, names, leaves(each, names)

    def guard(self, constants: Iterable[Any]) -> Guard:
        """What the trace depends on, now that it has ended."""
        sources = tuple(source for source, _, _ in self.before.values())
        given, names = tuple(constants), mentioned_by(sources)
        written = frozenset(
            path
            for source, names_then, then in self.before.values()
            for path, leaf in then.items() ^ leaves(source, names_then).items()
            if not isinstance(leaf, Unreadable)
        )
        return Guard(sources, given, names, written, snapshot(sources, given, names, written))


def reachable(start: Source) -> tuple[list[Source], frozenset[str]]:
    """`start` and the author's functions that it can come to, and all names they mention.

    An installed package that reaches too far is a library: only what runs of it is read.
    """
    found = {start.key: start}
    while True:
        if start.is_installed and len(found) > MOST_INSTALLED:
            return [start], frozenset(start.mentioned)
        names, known = mentioned_by(found.values()), len(found)
        for source in list(found.values()):
            readings = Readings(names, start.home)
            readings.add_source(source)
            found.update((each.key, each) for each in readings.found)
        if len(found) == known:
            return list(found.values()), names


def leaves(source: Source, names: frozenset[str]) -> Leaves:
    """What one function reads, by place."""
    readings = Readings(names, None)
    readings.add_source(source)
    return readings.leaves


def snapshot(
    sources: Iterable[Source],
    constants: Iterable[Any],
    names: frozenset[str],
    written: frozenset[Path],
) -> Leaves:
    """What `sources` read and `constants` contain, without the places that the trace wrote."""
    readings = Readings(names, None, written)
    for source in sources:
        readings.add_source(source)
    for place, constant in enumerate(constants):
        readings.add((None, place), constant)
    return readings.leaves
