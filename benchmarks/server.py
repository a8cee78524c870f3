"""Contenders in a child process with an environment of its own, timed there on request.

The parent waits while the child measures, so the two still take turns, round by round. Requests and
answers are lines of JSON: `{"work": NAME, "contender": NAME}` makes one and says whether its
result is right; `{"repeats": N}` answers with the seconds per call of the one asked for.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.harness import ROOT, environment, sample


class Server:
    """A child process; it ends with the `with` block."""

    def __init__(self, threads: int = 1, **variables: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.server", str(threads)],
            env=environment(threads, **variables),
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(10)

    def ask(self, **request: Any) -> float | bool:
        """The answer to a request."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def contender(self, work: str, name: str) -> Elsewhere:
        """The contender of a name for a workload; raises RuntimeError if it is wrong or missing."""
        if not self.ask(work=work, contender=name):
            raise RuntimeError(f"{name} does not compute {work} in the other process")
        return Elsewhere(self, work, name)


@dataclass(frozen=True)
class Elsewhere:
    """A contender of a server."""

    server: Server
    work: str
    name: str

    def sample(self, repeats: int) -> float:
        """Seconds per call, in the other process."""
        return self.server.ask(work=self.work, contender=self.name, repeats=repeats)


def use_all_processors() -> None:
    """Lets this process run everywhere again: its parent keeps to one processor."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, range(os.cpu_count() or 1))


def serve(threads: int) -> None:
    """Answers requests until there are no more."""
    from benchmarks.contenders import Contender
    from benchmarks.workload import error_of
    from benchmarks.workloads import find_workload

    if threads > 1:
        use_all_processors()
    made: dict[tuple[str, str], Contender] = {}
    for line in sys.stdin:
        request = json.loads(line)
        key = request["work"], request["contender"]
        if "repeats" in request:
            answer: float | bool = sample(made[key].run, request["repeats"])
        else:
            made = {k: v for k, v in made.items() if k[0] == key[0]}
            work = find_workload(key[0])
            inputs = work.inputs()
            exact = work.exact(inputs)
            found = work.contender(key[1], inputs, np.empty(exact.shape, work.dtype))
            answer = found is not None and error_of(found.result(), exact) <= work.tolerance
            if found is not None:
                made[key] = found
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    serve(int(sys.argv[1]))
