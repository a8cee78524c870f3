"""Running many random programs: counting what they cover, shrinking what fails.

python tests/property/hunting.py 0:10000        # hunt in these seeds
python tests/property/hunting.py 1234           # replay one seed
"""

from __future__ import annotations

import sys
import traceback
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from property import levels, memory_steps, steps  # noqa: F401
from property.generator import Case, generate_from, known_ops
from property.shrink import Recorded, Recording, shrink

SIZE = 16


@dataclass
class Failure:
    """A seed whose program breaks a check."""

    seed: int
    check: str
    kind: str
    decisions: list[int]
    error: BaseException = field(repr=False)
    case: Case | None = field(default=None, repr=False)

    def report(self) -> str:
        """What fails, the smallest program found, and how to see it again."""
        trace = "".join(traceback.format_exception(self.error)[-6:])
        text = self.case.program.as_python() if self.case else "(no program)"
        return (
            f"{self.check}: {self.kind}\n{text}\n{trace}"
            f"replay: python tests/property/hunting.py {self.seed}"
        )


class Hunt:
    """Many seeds; `used` counts, for each check that passed, the ops of its program."""

    def __init__(self, checks: list[str] | None = None) -> None:
        self.checks = checks or list(levels.CHECKS)
        self.failures: list[Failure] = []
        self.used: Counter[tuple[str, str]] = Counter()
        self.skipped: Counter[str] = Counter()
        self.programs = 0

    def try_seed(self, seed: int, checks: list[str] | None = None) -> None:
        """Generates one program and makes `checks` of it, all by default."""
        self.programs += 1
        choices = Recording(seed)
        failure = find_failure(choices, checks or self.checks, self)
        if failure is not None:
            check, error, case = failure
            self.failures.append(
                Failure(seed, check, kind_of(error), list(choices.taken), error, case)
            )

    def smallest_failures(self) -> list[Failure]:
        """One failure of each kind, shrunk."""
        kinds = {(f.check, f.kind): f for f in reversed(self.failures)}
        return [smallest(failure) for failure in kinds.values()]

    def coverage(self) -> float:
        """The share of the known ops that some program used."""
        return 1 - len(self.never_used()) / len(known_ops())

    def never_used(self) -> list[str]:
        used = {op for op, _ in self.used}
        return [op for op in known_ops() if op not in used]

    def table(self) -> str:
        """How many programs of each op passed each check."""
        ops = sorted({op for op, _ in self.used} | set(known_ops()))
        width = max(map(len, ops), default=0)
        head = " ".join(f"{check:>10}" for check in self.checks)
        rows = [
            f"{op:<{width}} " + " ".join(f"{self.used[op, check]:>10}" for check in self.checks)
            for op in ops
        ]
        skipped = ", ".join(f"{why}: {count}" for why, count in self.skipped.items()) or "none"
        return "\n".join(
            [f"{self.programs} programs; skipped: {skipped}", f"{'':<{width}} {head}", *rows]
        )


def find_failure(
    choices: Recording | Recorded, checks: list[str], hunt: Hunt | None = None
) -> tuple[str, BaseException, Case | None] | None:
    """The first check that the program of some choices breaks."""
    try:
        case = generate_from(choices, SIZE)
    except Exception as error:
        return "generator", error, None
    for name in checks:
        try:
            levels.CHECKS[name](case)
        except levels.Skipped as reason:
            if hunt is not None:
                hunt.skipped[f"{name} ({reason})"] += 1
        except Exception as error:
            return name, error, case
        else:
            if hunt is not None:
                hunt.used.update((op, name) for op in case.used)
    return None


def kind_of(error: BaseException) -> str:
    """What makes two failures the same: the class, and the message without its numbers."""
    text = getattr(error, "message", None) or str(error)
    first = text.splitlines()[0] if text else ""
    return f"{type(error).__name__}: " + "".join(c for c in first if not c.isdigit())[:60]


def smallest(failure: Failure) -> Failure:
    """The same kind of failure from fewer decisions."""

    def fails(choices: Recorded) -> bool:
        found = find_failure(choices, [failure.check])
        return found is not None and (found[0], kind_of(found[1])) == (failure.check, failure.kind)

    decisions = shrink(failure.decisions, fails)
    found = find_failure(Recorded(decisions), [failure.check])
    if found is None:
        return failure
    return Failure(failure.seed, found[0], failure.kind, decisions, found[1], found[2])


def main(argument: str, *checks: str) -> None:
    """Hunts in a range of seeds, or replays one."""
    first, _, last = argument.partition(":")
    hunt = Hunt(list(checks) or None)
    for seed in range(int(first), int(last or int(first) + 1)):
        hunt.try_seed(seed)
    print(hunt.table() if last else "")
    for failure in hunt.failures:
        print(failure.seed, failure.check, failure.kind, flush=True)
    for failure in hunt.smallest_failures():
        print(failure.report(), end="\n\n", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
