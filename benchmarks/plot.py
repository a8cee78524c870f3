"""The ratios of a run as an SVG drawing, without a plotting library."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape

from benchmarks.harness import Row
from benchmarks.table import COLUMNS

COLOURS = {
    "numpy": "#1f77b4",
    "numpy, Haswell core": "#17becf",
    "torch": "#d62728",
    "torch.compile": "#ff7f0e",
    "numba": "#2ca02c",
    "jax": "#9467bd",
}
LEFT, RIGHT, TOP, STEP = 240, 640, 52, 17
LOWEST, HIGHEST = 0.25, 64.0
TICKS = (0.25, 0.5, 1, 2, 4, 8, 16, 32, 64)


def place(ratio: float) -> float:
    """Where a ratio stands on the logarithmic axis; what is off the axis stands at its end."""
    inside = min(max(ratio, LOWEST), HIGHEST)
    share = math.log(inside / LOWEST) / math.log(HIGHEST / LOWEST)
    return round(LEFT + share * RIGHT, 1)


def text(x: float, y: float, words: str, more: str = "") -> str:
    """A piece of text."""
    return f'<text x="{x}" y="{y}" {more}>{escape(words)}</text>'


def axis(bottom: float) -> Iterator[str]:
    """A line for each tick, that of equality thicker."""
    for tick in TICKS:
        x, width = place(tick), 1.5 if tick == 1 else 0.5
        yield (
            f'<line x1="{x}" y1="{TOP - 8}" x2="{x}" y2="{bottom}" '
            f'stroke="#888" stroke-width="{width}"/>'
        )
        yield text(x, TOP - 14, f"{tick:g}×", 'text-anchor="middle" fill="#888"')


def dot(x: float, y: float, peer: str) -> str:
    """One peer."""
    return f'<circle cx="{x}" cy="{y}" r="4" fill="{COLOURS[peer]}" fill-opacity="0.85"/>'


def plot(rows: Sequence[Row]) -> str:
    """A line per workload that has peers, a dot per peer: how many times faster ours is."""
    shown = [row for row in rows if any(peer in row.seconds for peer in COLUMNS)]
    bottom = TOP + STEP * len(shown)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + RIGHT + 30}"'
        f' height="{bottom + 10}" font-family="sans-serif" font-size="11">',
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    present = [peer for peer in COLUMNS if any(peer in row.seconds for row in shown)]
    for number, peer in enumerate(present):
        parts += [dot(LEFT + 120 * number, 14, peer), text(LEFT + 8 + 120 * number, 18, peer)]
    parts += axis(bottom)
    for number, row in enumerate(shown):
        y = TOP + STEP * number + STEP / 2
        parts.append(text(LEFT - 8, y + 4, row.name, 'text-anchor="end"'))
        parts += [dot(place(row.ratio(peer)), y, peer) for peer in COLUMNS if peer in row.seconds]
    return "\n".join([*parts, "</svg>", ""])
