"""How many random programs used each op, and passed each check."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

RANDOM_PROGRAMS = "random programs"
"""Under this name a test reports its tally, for the closing summary of the run."""


class Skipped(Exception):
    """The program is refused at this level, with an error of the catalogue."""


@dataclass
class Tally:
    """Counts of programs, by op and check; skipped checks by their reason."""

    programs: int = 0
    used: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    skipped: Counter[str] = field(default_factory=Counter[str])

    @contextmanager
    def counting(self, case: Any, check: str) -> Iterator[None]:
        """Counts one check of one program, made or skipped."""
        try:
            yield
        except Skipped as reason:
            self.skipped[f"{check} ({reason})"] += 1
        else:
            self.used.update((op, check) for op in case.used)

    def never_used(self) -> list[str]:
        """Ops that no program used."""
        from property.generator import known_ops

        used = {op for op, _ in self.used}
        return [op for op in known_ops() if op not in used]

    def as_property(self) -> list[Any]:
        """The counts, in a form that passes between processes."""
        used = [[op, check, count] for (op, check), count in self.used.items()]
        return [self.programs, used, dict(self.skipped)]

    def add(self, counts: list[Any]) -> None:
        """Adds the counts of another process."""
        programs, used, skipped = counts
        self.programs += programs
        self.used.update({(op, check): count for op, check, count in used})
        self.skipped.update(skipped)

    def table(self) -> list[str]:
        """The counts, a row an op and a column a check."""
        checks = list(dict.fromkeys(check for _, check in self.used))
        ops = sorted({op for op, _ in self.used} | set(self.never_used()))
        width = max(map(len, ops))
        rows = [
            f"{op:<{width}} " + " ".join(f"{self.used[op, check]:>10}" for check in checks)
            for op in ops
        ]
        head = " ".join(f"{check:>10}" for check in checks)
        covered = f"{len(ops) - len(self.never_used())} of {len(ops)} ops"
        skipped = [f"{count} x {why}" for why, count in self.skipped.items()]
        return [f"{self.programs} programs, {covered}", f"{'':<{width}} {head}", *rows, *skipped]
