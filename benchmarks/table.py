"""One table of all rows: ours, the ratio to each peer, the best peer, the floor, what is short."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table

from benchmarks.harness import OURS, Row, shown
from benchmarks.workloads import SUITES

COLUMNS = {
    "numpy": "numpy",
    "numpy, Haswell core": "numpy\nHaswell",
    "torch": "torch",
    "torch.compile": "torch\ncompile",
    "numba": "numba",
    "jax": "jax",
}
"""Libraries that count as peers; what else takes part is named in the row's last column."""
REFERENCES = ("floor", "limit")


def best_peer(row: Row) -> tuple[str, float] | None:
    """The fastest library and how many times faster than it we are."""
    found = [(row.ratio(peer), peer) for peer in COLUMNS if peer in row.seconds]
    if not found:
        return None
    ratio, peer = min(found)
    return peer, ratio


def geometric_mean(ratios: Iterable[float]) -> float:
    """The geometric mean of at least one ratio."""
    return math.exp(statistics.fmean(map(math.log, ratios)))


def ratios_to_best(rows: Iterable[Row]) -> list[float]:
    """How many times faster than the fastest peer each workload is that has one."""
    return [best[1] for row in rows if row.suite in SUITES and (best := best_peer(row))]


def means(rows: Sequence[Row]) -> str:
    """The geometric mean of those ratios, of all workloads and of each suite."""
    suites = dict.fromkeys(row.suite for row in rows)
    found = {suite: ratios_to_best(r for r in rows if r.suite == suite) for suite in suites}
    each = ", ".join(
        f"{name} {geometric_mean(ratios):.2f}" for name, ratios in found.items() if ratios
    )
    ratios = ratios_to_best(rows)
    return f"fastest peer over ours, {len(ratios)} workloads: {geometric_mean(ratios):.2f} ({each})"


def short_of(row: Row) -> list[str]:
    """What is not reached, in words."""
    found = [f"failed: {row.failed}"] if row.failed else []
    found += [f"wrong: {name}, error {error:.1e}" for name, error in row.wrong.items()]
    for peer, bar in row.missed().items():
        ours, other = (shown(row.seconds[who], row.unit) for who in (OURS, peer))
        if peer in REFERENCES:
            found.append(
                f"{ours} is {1 / row.ratio(peer):.2f} of the {peer} {other}, bar {1 / bar:.2f}"
            )
        else:
            found.append(f"{row.ratio(peer):.2f} of {peer}, bar {bar:.2f}")
    best = best_peer(row)
    if best and round(best[1], 2) < 1.0 and best[0] not in row.missed():
        found.append(f"best peer {best[0]} is faster: {best[1]:.2f}")
    return found


def disturbed(rows: Sequence[Row]) -> str:
    """How many rows were measured while the machine was not quiet."""
    found = sum(row.is_disturbed for row in rows)
    return (
        f"{found} of {len(rows)} rows were not measured in quiet: beside those with ~ the machine "
        "was so many times slower than at its best. Measure them again before you trust them."
    )


def report(rows: Sequence[Row], console: Console | None = None) -> bool:
    """Prints the table; True when every result is right and every bar is met."""
    table = Table(title="times, and how many times faster than each peer", pad_edge=False)
    table.add_column("workload", no_wrap=True)
    for name in ("ours", *COLUMNS.values(), "best\npeer", "over\nfloor"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("bars and other contenders")
    table.add_column("")
    table.add_column("quiet?", no_wrap=True)
    suite = rows[0].suite if rows else ""
    for row in rows:
        if row.suite != suite:
            table.add_section()
            suite = row.suite
        table.add_row(*_cells(row))
    out = console or Console(width=170)
    out.print(table)
    short = [row for row in rows if short_of(row)]
    if ratios_to_best(rows):
        out.print(means(rows))
    for row in short:
        out.print(
            f"[red]short[/red] {row.suite}: {row.name}: {'; '.join(short_of(row))}", _noise(row)
        )
    if any(row.is_disturbed for row in rows):
        out.print(disturbed(rows))
    return not short


def _cells(row: Row) -> list[str]:
    best = best_peer(row)
    over = 1 / row.ratio("floor") if "floor" in row.seconds else None
    return [
        row.name,
        shown(row.seconds[OURS], row.unit) if OURS in row.seconds else "",
        *(_ratio(row, peer) for peer in COLUMNS),
        "" if best is None else f"{best[1]:.2f}",
        "" if over is None else f"{over:.2f}",
        ", ".join(_others(row)),
        "[red]short[/red]" if short_of(row) else "ok" if row.bars or best else "",
        _noise(row),
    ]


def _noise(row: Row) -> str:
    return f"~{row.slowdown:.2f}" if row.is_disturbed else ""


def _ratio(row: Row, peer: str) -> str:
    if peer not in row.seconds:
        return ""
    text = f"{row.ratio(peer):.2f}"
    return f"[red]{text}[/red]" if row.ratio(peer) < row.bars.get(peer, 1.0) else text


def _others(row: Row) -> Iterable[str]:
    for peer, bar in row.bars.items():
        if peer == "limit":
            yield f"limit {shown(row.seconds[peer], row.unit)}"
        elif peer == "floor":
            yield f"floor ≤ {1 / bar:.2f}"
        elif peer in COLUMNS:
            yield f"{peer} ≥ {bar:.2f}"
        else:
            yield f"{peer} {row.ratio(peer):.2f} ≥ {bar:.2f}"
    for peer, took in row.seconds.items():
        if peer not in (OURS, *COLUMNS, *REFERENCES, *row.bars):
            yield f"{peer} {shown(took, row.unit)}"
