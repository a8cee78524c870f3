"""What the benchmarks time while the machine is disturbed counts only where nothing else is."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path

import pytest
from rich.console import Console

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks import __main__ as runner  # noqa: E402
from benchmarks import results, table  # noqa: E402
from benchmarks.harness import OURS, Row, bound  # noqa: E402
from benchmarks.quiet import (  # noqa: E402
    ADVANCE,
    MOST,
    SHARE,
    TOLERANCE,
    Figure,
    Watch,
    reference,
    reference_of,
)

REFERENCE, SAMPLE = 0.5e-3, 10e-3


class Machine:
    """A clock that only work moves; `slowdown(now)` is how many times longer that takes."""

    def __init__(self, slowdown: Callable[[float], float]) -> None:
        self.now, self.slowdown = 0.0, slowdown
        self.watch = Watch(lambda: self.work(REFERENCE), lambda: self.now, self.rest)

    def work(self, seconds: float) -> float:
        took = seconds * self.slowdown(self.now)
        self.now += took
        return took

    def rest(self, seconds: float) -> None:
        self.now += seconds


def slow_by_turns(now: float, period: float = 1.0, slow: float = 0.6) -> float:
    """Half as fast in the first part of every period."""
    return 2.0 if now % period < period * slow else 1.0


def test_a_quiet_machine_is_not_waited_for() -> None:
    machine = Machine(lambda now: 1.0)
    figure = machine.watch.median(lambda: machine.work(SAMPLE), 5)
    assert (figure, figure.reference) == (SAMPLE, pytest.approx(REFERENCE))
    assert machine.now == pytest.approx(5 * SAMPLE + 10 * REFERENCE)


def test_times_of_quiet_moments_count_where_most_is_disturbed() -> None:
    machine = Machine(slow_by_turns)
    machine.watch.settle(3.0)
    takes = {
        "a": lambda: machine.work(SAMPLE),
        "b": lambda: machine.work(3 * SAMPLE),
    }
    figures = machine.watch.medians(takes, 7, 1.0)
    assert figures == {"a": pytest.approx(SAMPLE), "b": pytest.approx(3 * SAMPLE)}
    assert max(figure.reference for figure in figures.values()) <= TOLERANCE * REFERENCE


def test_what_is_taken_by_chance_in_the_quiet_is_chosen_by_the_reference_alone() -> None:
    machine = Machine(slow_by_turns)
    machine.watch.settle(3.0)
    values = iter(range(10_000))

    def other_way_round() -> float:
        """Small where the machine is slow."""
        took = machine.work(SAMPLE)
        return next(values) * 1e-9 if took > 1.5 * SAMPLE else 1.0

    assert machine.watch.median(other_way_round, 7) == 1.0


def test_where_it_is_never_quiet_the_least_disturbed_count_and_say_so() -> None:
    machine = Machine(lambda now: 1.0 if now < 1.0 else 1.5 if now % 0.2 < 0.1 else 2.0)
    machine.watch.settle(1.0)
    figure = machine.watch.median(lambda: machine.work(SAMPLE), 4)
    assert figure == pytest.approx(1.5 * SAMPLE)
    assert figure.reference == pytest.approx(1.5 * REFERENCE)


def test_where_all_is_as_disturbed_all_counts() -> None:
    machine = Machine(lambda now: 1.0 if now < 1.0 else 1.5)
    machine.watch.settle(1.0)
    values = iter(range(1, 1_000_000))

    def rising() -> float:
        machine.work(SAMPLE)
        return next(values)

    figure = machine.watch.medians({"a": rising}, 3, 1.0)["a"]
    assert figure == pytest.approx(next(values) / 2)


def test_patience_is_bounded_for_each_figure_and_for_the_whole_run() -> None:
    machine = Machine(lambda now: 1.0 if now < 1.0 else 2.0)
    machine.watch.settle(1.0)
    begin, ends = machine.now, [machine.now]
    for _ in range(60):
        machine.watch.median(lambda: machine.work(0.1), 5)
        ends.append(machine.now)
    alone = 5 * 2 * (0.1 + 2 * REFERENCE)
    assert max(b - a for a, b in pairwise(ends)) <= alone + MOST + 0.1
    assert machine.now - begin <= (1 + SHARE) * 60 * alone + ADVANCE + 0.1
    assert machine.now - begin >= 60 * alone + ADVANCE  # it was used


def test_patience_that_quiet_rows_leave_is_there_for_others() -> None:
    machine = Machine(lambda now: 2.0 if 100.0 < now < 104.0 else 1.0)
    while machine.now < 100.0:
        machine.watch.median(lambda: machine.work(0.1), 5)
    machine.watch.median(lambda: machine.work(1.0), 1)
    figure = machine.watch.median(lambda: machine.work(0.3), 3)
    assert (figure, figure.reference) == (pytest.approx(0.3), pytest.approx(REFERENCE))


def test_what_is_computed_from_a_figure_has_its_reference() -> None:
    figure = Figure(6.0, 1.5)
    computed = (figure / 2, 2 * figure, figure * 2, figure - 1)
    assert computed == (3.0, 12.0, 12.0, 5.0)
    assert all(reference_of(value) == 1.5 for value in computed)


def judged(row: Row) -> Row:
    """The row at the end of a run whose best reference took 1."""
    row.judge(1.0)
    return row


def test_a_row_is_as_disturbed_as_its_worst_figure_and_is_kept_so() -> None:
    row = judged(Row("w", {OURS: Figure(1.0, 1.05), "numpy": Figure(2.0, 1.7)}, suite="rows"))
    assert row.is_disturbed and row.slowdown == 1.7
    assert judged(bound("b", 1.0, 12 * Figure(1.0, 1.3))).is_disturbed
    assert not judged(Row("quiet", {OURS: Figure(1.0, 1.05), "limit": 2.0})).is_disturbed
    assert not judged(Row("not measured", {OURS: 1.0})).is_disturbed
    assert Row(**json.loads(json.dumps(asdict(row)))) == row
    kept = {"machine": {"cpu": "some"}, "rows": [asdict(row) | {"name": results.IN_README[0]}]}
    assert f"| {results.IN_README[0]} ~ | 1 s |" in results.summary(kept)
    assert "~: " in results.summary(kept)


def test_rows_are_judged_by_the_best_of_the_whole_run(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(lambda now: 2.0 if now < 10.0 else 1.0)

    def rows() -> Iterator[Row]:
        yield Row("first", {OURS: machine.watch.median(lambda: machine.work(SAMPLE), 3)})
        machine.rest(20.0)
        yield Row("second", {OURS: machine.watch.median(lambda: machine.work(SAMPLE), 3)})

    monkeypatch.setattr(runner, "torch_on_one_thread", lambda: None)
    monkeypatch.setattr(runner, "WATCH", machine.watch)
    monkeypatch.setattr(runner, "SUITES", {"some": rows})
    first, second = runner.run(["some"])
    assert (first.slowdown, second.slowdown) == (pytest.approx(2.0), pytest.approx(1.0))


def test_the_table_marks_disturbed_rows_and_says_how_many() -> None:
    console = Console(width=170, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    rows = [judged(Row("quiet", {OURS: 1.0})), judged(bound("loud", Figure(3.0, 1.7), 2.0))]
    assert not table.report(rows, console)
    text = console.export_text()
    assert text.count("~1.70") == 2  # in the table, and where it is said to be short
    assert "1 of 2 rows were not measured in quiet" in text


def test_a_reference_takes_about_as_long_each_time() -> None:
    taken = [reference() for _ in range(20)]
    assert 0 < min(taken) <= sorted(taken)[10] < 10 * min(taken)
