"""Runs benchmarks by name (all of them without one) and prints one table of all rows."""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator

from benchmarks import (
    compile_time,
    first_calls,
    graphs,
    jit,
    language,
    results,
    scaling,
    table,
    traced,
    workloads,
)
from benchmarks.contenders import torch_on_one_thread
from benchmarks.harness import Row, clean_environment
from benchmarks.quiet import WATCH
from benchmarks.server import Server
from benchmarks.workload import measure
from tilewright.codegen.machine import host_target

OTHER_CORES = {"avx512": {"numpy, Haswell core": "Haswell"}}
"""ISA -> the kernels of OpenBLAS beside its default that may be faster, by column."""
SETTLING = 3.0
"""Seconds in which the first look is taken at how fast the machine is."""


def measured(suite: str) -> Iterator[Row]:
    """The rows of a suite of workloads."""
    with contextlib.ExitStack() as stack:
        cores = {
            column: stack.enter_context(Server(OPENBLAS_CORETYPE=core))
            for column, core in OTHER_CORES.get(host_target().isa, {}).items()
        }
        for work in workloads.workloads(suite):
            yield from attempted(work.name, lambda work=work: [measure(work, cores)])


def attempted(name: str, rows: Callable[[], Iterable[Row]]) -> Iterator[Row]:
    """The rows, then one that says what went wrong if something does: the others go on."""
    try:
        yield from rows()
    except Exception as error:
        traceback.print_exc()
        yield Row(name, failed=f"{type(error).__name__}: {error}".splitlines()[0])


def _of(suite: str) -> Callable[[], Iterator[Row]]:
    return lambda: measured(suite)


SUITES: dict[str, Callable[[], Iterable[Row]]] = {
    **{name: _of(name) for name in workloads.SUITES},
    "threads": scaling.rows,
    "first_calls": first_calls.rows,
    "graphs": graphs.rows,
    "jit": jit.rows,
    "traced": traced.rows,
    "language": language.rows,
    "compile_time": compile_time.rows,
}


def run(suites: list[str]) -> list[Row]:
    """The rows of some suites; says on stderr how far it is."""
    torch_on_one_thread()
    WATCH.settle(SETTLING)
    found: list[Row] = []
    start = time.perf_counter()
    for suite in suites:
        for row in attempted(suite, SUITES[suite]):
            row.suite = suite
            found.append(row)
            print(f"{time.perf_counter() - start:5.0f} s  {suite}: {row.name}", file=sys.stderr)
    for row in found:
        row.judge(WATCH.best)
    return found


def main() -> int:
    """0 when every result is right and every bar is met."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", help=f"of {', '.join(SUITES)}")
    parser.add_argument("--save", action="store_true", help="keep the run as this release's")
    help_ = "run suites with kept rows that have a ~ once more; keep each row from the quieter run"
    parser.add_argument("--again", action="store_true", help=help_)
    options = parser.parse_args()
    if unknown := set(options.names) - set(SUITES):
        parser.error(f"no suite is called {', '.join(sorted(unknown))}: {', '.join(SUITES)}")
    clean_environment()
    names = options.names or list(SUITES)
    if options.again:
        kept = results.rows_of(results.load(results.path_of()))
        disturbed = {row.suite for row in kept if row.is_disturbed}
        rows = results.quieter(kept, run([name for name in names if name in disturbed]))
    else:
        rows = run(names)
    if options.save or options.again:
        results.save(rows)
    return 0 if table.report(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
