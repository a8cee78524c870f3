"""The benchmarks: rows say what is short, missing libraries leave blanks, figures are kept."""

from __future__ import annotations

import importlib.util
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks import contenders, results, table, workloads  # noqa: E402
from benchmarks.__main__ import attempted  # noqa: E402
from benchmarks.floors import Floor, moving  # noqa: E402
from benchmarks.harness import OURS, Row, bound, interleave, shown  # noqa: E402
from benchmarks.plot import plot  # noqa: E402
from benchmarks.server import Server  # noqa: E402
from benchmarks.workload import Workload, error_of, measure  # noqa: E402

SMALL = "matmul 64×64×64"


def test_a_row_is_short_of_the_bars_it_misses() -> None:
    row = Row("w", {OURS: 2.0, "numpy": 3.0, "torch": 2.2}, {"numpy": 1.2, "torch": 1.2})
    assert row.ratio("numpy") == 1.5
    assert row.missed() == {"torch": 1.2}
    assert table.short_of(row) == ["1.10 of torch, bar 1.20"]


def test_bars_of_peers_that_are_not_here_are_no_failure() -> None:
    assert table.short_of(Row("w", {OURS: 2.0}, {"jax": 1.2})) == []


def test_a_faster_peer_is_named_also_without_a_bar() -> None:
    row = Row("w", {OURS: 2.0, "numpy": 3.0, "numba": 1.0})
    assert table.best_peer(row) == ("numba", 0.5)
    assert table.short_of(row) == ["best peer numba is faster: 0.50"]


def test_a_limit_is_missed_in_its_own_unit() -> None:
    assert table.short_of(bound("m", 150.0, 200.0, "MB")) == []
    (said,) = table.short_of(bound("m", 300.0, 200.0, "MB"))
    assert said == "300 MB is 1.50 of the limit 200 MB, bar 1.00"


def test_of_two_runs_each_row_is_kept_from_the_quieter_one() -> None:
    kept = [Row("a", {OURS: 1.0}, reference=1.0), Row("b", {OURS: 1.0}, reference=2.0)]
    kept += [Row("c", {OURS: 1.0}, reference=3.0), Row("d", {OURS: 1.0}, reference=4.0)]
    fresh = [Row("a", {OURS: 9.0}, reference=1.2), Row("b", {OURS: 9.0}, reference=0.8)]
    fresh += [Row("d", failed="it broke")]
    for rows, best in ((kept, 1.0), (fresh, 0.8)):
        for row in rows:
            row.judge(best)
    rows = results.quieter(kept, fresh)
    assert [row.seconds[OURS] for row in rows] == [1.0, 9.0, 1.0, 1.0]
    assert [row.slowdown for row in rows] == pytest.approx([1.25, 1.0, 3.75, 5.0])


def test_a_wrong_result_fails_the_report() -> None:
    console = Console(width=170, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    assert table.report([Row("right", {OURS: 1.0})], console)
    assert not table.report([Row("off", {OURS: 1.0}, wrong={OURS: 0.5})], console)
    assert "wrong: tilewright, error 5.0e-01" in console.export_text()


def test_the_mean_is_said_of_all_workloads_and_of_each_suite() -> None:
    rows = [
        Row("a", {OURS: 1.0, "numpy": 2.0, "torch": 9.0}, suite="rows"),
        Row("b", {OURS: 1.0, "numba": 0.5}, suite="memory"),
        Row("alone", {OURS: 1.0}, suite="memory"),
        Row("no workload", {OURS: 1.0, "numpy": 9.0}, suite="jit"),
    ]
    said = "fastest peer over ours, 2 workloads: 1.00 (rows 2.00, memory 0.50)"
    assert table.means(rows) == said


def test_what_fails_is_a_row_and_the_rest_goes_on() -> None:
    def rows() -> Iterator[Row]:
        yield Row("first", {OURS: 1.0})
        raise ValueError("no\nmore")

    first, second = attempted("suite", rows)
    assert table.short_of(first) == []
    assert table.short_of(second) == ["failed: ValueError: no"]
    console = Console(width=170, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    assert not table.report([first, second], console)


@pytest.mark.parametrize(
    ("seconds", "text"), [(2.0, "2 s"), (1.5e-3, "1.5 ms"), (2.5e-6, "2.5 µs"), (3e-8, "30 ns")]
)
def test_times_are_shown_with_a_unit(seconds: float, text: str) -> None:
    assert shown(seconds) == text


def test_contenders_take_turns_and_the_slower_is_slower() -> None:
    taken: list[str] = []
    runs = {"a": lambda: taken.append("a"), "b": lambda: (taken.append("b"), sum(range(20_000)))}
    seconds = interleave(runs, seconds=0.0, rounds=3)
    assert seconds["b"] > seconds["a"] > 0
    assert taken.index("b") < len(taken) - 1 - taken[::-1].index("a")


@pytest.mark.parametrize("suite", workloads.SUITES)
def test_every_workload_has_a_formula_and_is_found_by_its_name(suite: str) -> None:
    for work in workloads.workloads(suite):
        assert workloads.find_workload(work.name) is work
        assert all(peer in (*contenders.LIBRARIES, *work.beside, "floor") for peer in work.bars)


def test_names_of_workloads_are_unique() -> None:
    names = [work.name for suite in workloads.SUITES for work in workloads.workloads(suite)]
    assert len(names) == len(set(names))
    assert set(results.IN_README) <= set(names)


def test_a_measured_row_is_checked_and_has_its_floor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contenders, "_installed", lambda name: False)
    row = measure(workloads.find_workload(SMALL), {})
    assert row.wrong == {}
    assert {OURS, "numpy"} <= set(row.seconds) <= {OURS, "numpy", "floor"}
    assert all(taken > 0 for taken in row.seconds.values())


def test_a_kernel_that_computes_something_else_is_wrong() -> None:
    def zero(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> None:
        out[:] = 0

    work = Workload("zero", "matmul", zero, workloads.normal((8, 8), (8, 8)), peers=("numpy",))
    assert measure(work, {}).wrong == {OURS: 1.0}


def test_errors_are_relative_to_the_largest_value() -> None:
    exact = np.array([0.0, 200.0])
    assert error_of(np.array([1.0, 200.0]), exact) == pytest.approx(1 / 200)
    assert error_of(np.array([1.0]), exact) == float("inf")
    assert not error_of(np.array([np.nan, 200.0]), exact) <= 1.0


@pytest.mark.parametrize("library", sorted(set(contenders.LIBRARIES) - {"numpy"}))
def test_a_missing_library_gives_no_contender(
    library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = importlib.util.find_spec
    root = library.split(".")[0]
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == root else find(name)
    )
    contenders.torch_on_one_thread.cache_clear()
    x = np.ones((4, 4), np.float32)
    assert contenders.LIBRARIES[library]("softmax", (x,), x) is None
    contenders.torch_on_one_thread.cache_clear()


def test_numpy_without_scipy_has_no_error_function(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.ones((4, 4), np.float32)
    assert contenders.LIBRARIES["numpy"]("erf", (x,), x) is not None
    monkeypatch.setattr(contenders, "_installed", lambda name: False)
    assert contenders.LIBRARIES["numpy"]("erf", (x,), x) is None


def test_moving_writes_the_result_and_reads_the_rest() -> None:
    x, y, out = (np.full((64, 64), value, np.float32) for value in (1, 2, 3))
    floor = moving((x, y), out)
    assert isinstance(floor, Floor)
    floor.run()
    assert (out == 1).all()


def test_a_contender_in_another_process_takes_part() -> None:
    with Server(OPENBLAS_CORETYPE="Haswell") as server:
        elsewhere = server.contender(SMALL, "numpy")
        assert 0 < elsewhere.sample(3) < 1.0


def test_the_plot_is_a_drawing_with_a_dot_for_each_peer() -> None:
    rows = [Row("a<b", {OURS: 1.0, "numpy": 2.0, "torch": 0.1}), Row("alone", {OURS: 1.0})]
    drawing = ET.fromstring(plot(rows))
    circles = [element for element in drawing if element.tag.endswith("circle")]
    assert len(circles) == 2 + 2  # two in the legend
    assert any(element.text == "a<b" for element in drawing)
    assert not any(element.text == "alone" for element in drawing)


def test_the_summary_has_a_line_for_each_chosen_row_that_was_measured() -> None:
    row = Row("softmax 2048²", {OURS: 1e-3, "numpy": 3e-3, "floor": 8e-4}, suite="rows")
    kept = {"machine": {"cpu": "some"}, "rows": [asdict(row), asdict(Row("other", {OURS: 1.0}))]}
    text = results.summary(kept)
    assert "| softmax 2048² | 1 ms | 1.25 | 3.00 |  | numpy 3.00 |" in text
    assert "other" not in text
    assert "Over all 1 workloads" in text


def test_the_figures_shown_are_those_kept_of_this_release() -> None:
    kept = results.load(results.path_of())
    rows = results.rows_of(kept)
    assert results.PLOT.read_text("utf-8") == plot(rows)
    assert results.summary(kept) in results.README.read_text("utf-8")
    assert all(row.wrong == {} for row in rows)
