"""Runs benchmarks by name (all of them without one) and prints one table each."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks import compile_time, figures, jit, peers, traced
from benchmarks.harness import Row, clean_environment, report, save

SUITES = {
    "figures": figures.rows,
    "compile_time": compile_time.rows,
    "traced": traced.rows,
    "jit": jit.rows,
    "peers": peers.rows,
}
RESULTS = Path(__file__).parent / "results.json"


def main() -> int:
    """0 when every stated bound is met."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", help=f"of {', '.join(SUITES)}")
    parser.add_argument("--save", action="store_true", help=f"write {RESULTS.name}")
    options = parser.parse_args()
    clean_environment()
    found: list[Row] = []
    holds = True
    for name in options.names or SUITES:
        rows = SUITES[name]()
        holds &= report(rows, name)
        found += rows
    if options.save:
        save(found, RESULTS)
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
