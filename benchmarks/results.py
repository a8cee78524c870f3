"""What is kept of a run: a JSON file per release, a plot, and the compact table of the README."""

from __future__ import annotations

import json
import platform
from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.harness import OURS, Row, shown
from benchmarks.plot import plot
from benchmarks.table import best_peer, geometric_mean, ratios_to_best
from tilewright.codegen.machine import host_target

VERSION = version("tilewright")
LIBRARIES = ("numpy", "llvmlite", "torch", "numba", "jax", "scipy")
ROOT = Path(__file__).parent.parent
README, PLOT = ROOT / "README.md", ROOT / "docs" / "benchmarks.svg"
BEGIN, END = "<!-- figures: begin (from `make bench`) -->", "<!-- figures: end -->"

IN_README = (
    "matmul 1024×1024×1024",
    "128-tile matmul 1024, parsed",
    "softmax 2048²",
    "RMSNorm 2048²",
    "LayerNorm 2048²",
    "GELU(x@W+b) 1024",
    "SiLU MLP 1024",
    "attention (8,1024,64)",
    "causal attention 2048×64",
    "row argmax 4096²",
    "transpose 4096²",
    "RoPE 32×2048×128",
    "30-op chain 1M",
    "exp 1M",
    "tanh 1M",
)


HEAD = """\
One thread of a {cpu} core, strict numerics; medians of interleaved calls, each row in one run,
every result checked against float64. Over all {count} workloads that have a peer, the fastest peer
takes {mean} times as long as ours (geometric mean).

| workload | ours | over the floor | numpy | torch | fastest peer |
|---|--:|--:|--:|--:|--:|
"""
FOOT = """
Columns of peers: how many times faster ours is. The floor, measured in the run, is the peak of
multiply-adds, or moving the bytes once. Every workload, every peer:

![How many times faster than each peer](docs/benchmarks.svg)
"""
DISTURBED = "\n~: the machine was slowed down by others while this was measured.\n"


def path_of(release: str = VERSION) -> Path:
    """The file of a release."""
    return Path(__file__).parent / "results" / f"{release}.json"


def save(rows: Sequence[Row]) -> None:
    """Writes the file of this release, the plot and the table of the README."""
    target = host_target()
    kept = {
        "version": VERSION,
        "machine": {"cpu": target.cpu, "isa": target.isa, "system": platform.system()},
        "python": platform.python_version(),
        "libraries": {name: version(name) for name in LIBRARIES if find_spec(name)},
        "rows": [asdict(row) for row in rows],
    }
    path = path_of()
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    PLOT.write_text(plot(rows), encoding="utf-8")
    before, rest = README.read_text("utf-8").split(BEGIN)
    after = rest.split(END)[1]
    README.write_text(f"{before}{BEGIN}\n\n{summary(kept)}\n{END}{after}", encoding="utf-8")


def load(path: Path) -> dict[str, Any]:
    """What was kept of a release."""
    return json.loads(path.read_text("utf-8"))


def rows_of(kept: dict[str, Any]) -> list[Row]:
    """The rows of a release."""
    return [Row(**row) for row in kept["rows"]]


def quieter(kept: Sequence[Row], fresh: Sequence[Row]) -> list[Row]:
    """The rows of two runs, each from the one in which its references were faster.

    All are judged by the best reference of both runs. What failed in the second one stays.
    """
    again = {row.name: row for row in fresh if not row.failed}
    rows = [min(again.get(row.name, row), row, key=lambda r: r.reference) for row in kept]
    best = min(row.reference / row.slowdown for row in (*kept, *fresh) if row.reference)
    for row in rows:
        row.judge(best)
    return rows


def summary(kept: dict[str, Any]) -> str:
    """The table of the README, in Markdown."""
    rows = rows_of(kept)
    ratios = ratios_to_best(rows)
    mean = f"{geometric_mean(ratios):.2f}"
    facts = {"cpu": kept["machine"]["cpu"], "count": len(ratios), "mean": mean}
    chosen = [row for name in IN_README for row in rows if row.name == name]
    noted = DISTURBED if any(row.is_disturbed for row in chosen) else ""
    return f"{HEAD.format(**facts)}{''.join(map(_line, chosen))}{noted}{FOOT}"


def _line(row: Row) -> str:
    best = best_peer(row)
    cells = [
        f"{row.name} ~" if row.is_disturbed else row.name,
        shown(row.seconds[OURS]),
        f"{1 / row.ratio('floor'):.2f}" if "floor" in row.seconds else "",
        *(f"{row.ratio(peer):.2f}" if peer in row.seconds else "" for peer in ("numpy", "torch")),
        f"{best[0]} {best[1]:.2f}" if best else "",
    ]
    return f"| {' | '.join(cells)} |\n"
