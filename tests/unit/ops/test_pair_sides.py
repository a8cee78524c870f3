"""Functions in C++ of one group talk to each other: a cube and a vector call are one kernel."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright.language as pl
from tilewright import errors, ir
from tilewright.ops.pair_sides import pair_sides
from unit.external.cpp import needs_compiler, write

pytestmark = needs_compiler
F32 = np.float32
Wanted = Callable[[Any, Any], tuple[Any, Any]]
HEAD = '#include "tilewright.h"\n#include <vector>\n'
SOURCES = {
    # sends each row of x, after half of the results that the vector lanes give back
    "ask": "void ask(tw::Tensor<const float, 2> x, tw::Tensor<float, 2> t, tw::Context c) {\n"
    "    std::vector<float> row(x.shape(1));\n"
    "    for (int64_t i = 0; i < x.shape(0); ++i) {\n"
    "        c.push(&x(i, 0), x.shape(1));\n"
    "        for (int64_t lane = 0; lane < c.lanes; ++lane) {\n"
    "            c.pop(row.data(), x.shape(1), 1, lane);\n"
    "            for (int64_t j = 0; j < x.shape(1); ++j) t(i, j) += row[j];\n"
    "        }\n    }\n}\n",
    "answer": "void answer(int64_t n, tw::Tensor<float, 2> out, tw::Context c) {\n"
    "    std::vector<float> row(out.shape(1));\n"
    "    for (int64_t i = 0; i < n; ++i) {\n"
    "        c.pop(row.data(), out.shape(1));\n"
    "        for (int64_t j = 0; j < out.shape(1); ++j) row[j] *= 1 + c.lane, out(i, j) = row[j];\n"
    "        c.push(row.data(), out.shape(1), 1);\n"
    "    }\n}\n",
    "half": "void half(tw::Tensor<const float, 2> x, tw::Tensor<float, 2> t) {\n"
    "    for (int64_t i = 0; i < x.size(); ++i) t.data()[i] = x.data()[i] / 2;\n}\n",
    "more": "void more(tw::Tensor<const float, 2> t, tw::Tensor<float, 2> out) {\n"
    "    for (int64_t i = 0; i < t.size(); ++i) out.data()[i] = t.data()[i] + 1;\n}\n",
}
MATRIX = "pl.Tensor[[8, 4], pl.FP32]"
PARAMS = {
    "answer": f"n: pl.Scalar[pl.INT64], out: pl.InOut[{MATRIX}]",
    "more": f"t: {MATRIX}, out: pl.InOut[{MATRIX}]",
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pairs")


def program(
    home: Path, *main: str, cube: str, vector: str, lanes: int = 1, cluster: bool = False
) -> Any:
    """A program whose group of x, t, out [8, 4] has lines that call two functions in C++."""
    lines = ["@pl.program", "class P:"]
    for name, core in ((cube, "AIC"), (vector, "AIV")):
        source = write(home, HEAD + SOURCES[name], f"{name}.cpp")
        params = PARAMS.get(name, f"x: {MATRIX}, t: pl.InOut[{MATRIX}]")
        dual = core == "AIV" and lanes == 2
        attrs = ", attrs={'dual_aiv_dispatch': True}" if dual else ""
        lines += [
            f"    @pl.function(type=pl.FunctionType.{core}, external_source={source!r}{attrs})",
            f"    def {name}(self, {params}): ...",
        ]
    kind = "Orchestration" if cluster else "Group"
    lines += [
        f"    @pl.function(type=pl.FunctionType.{kind})",
        f"    def main(self, x: {MATRIX}, t: pl.InOut[{MATRIX}], out: pl.InOut[{MATRIX}]):",
        *(["        with pl.cluster():"] if cluster else []),
        *(f"            {line}" if cluster else f"        {line}" for line in main),
        "        return t, out",
    ]
    return pl.parse_program("\n".join(lines) + "\n", str(home / "program.py"))


def arrays() -> list[Any]:
    x = np.arange(32, dtype=F32).reshape(8, 4)
    return [x, np.ones((8, 4), F32), np.zeros((8, 4), F32)]


def run_everywhere(p: Any, wanted: Wanted) -> None:
    for execution in ("native", "interpret", "checked"):
        x, t, out = arrays()
        expected = wanted(x, t.copy())
        ir.compile(p, execution=execution)(x, t, out)
        np.testing.assert_array_equal(t, expected[0])
        np.testing.assert_array_equal(out, expected[1])


TALK = ("t = self.ask(x, t)", "n = 8", "out = self.answer(n, out)")


@pytest.mark.parametrize("cluster", [False, True])
@pytest.mark.parametrize("lanes", [1, 2])
def test_sides_of_a_group_talk(home: Path, lanes: int, cluster: bool) -> None:
    lines = ("t = self.ask(x, t)", "out = self.answer(8, out)")
    p = program(home, *lines, cube="ask", vector="answer", lanes=lanes, cluster=cluster)
    run_everywhere(p, lambda x, t: (t + x * (3 if lanes == 2 else 1), x * lanes))


@pytest.mark.parametrize("cluster", [False, True])
def test_the_side_that_is_called_first_begins(home: Path, cluster: bool) -> None:
    lines = ("out = self.more(t, out)", "t = self.half(x, t)")
    p = program(home, *lines, cube="half", vector="more", cluster=cluster)
    run_everywhere(p, lambda x, t: (x / 2, t + 1))


def test_pairs_in_a_loop_are_kernels_of_their_own(home: Path) -> None:
    lines = ("for i in pl.range(2):", "    t = self.ask(x, t)", "    out = self.answer(8, out)")
    p = program(home, *lines, cube="ask", vector="answer")
    run_everywhere(p, lambda x, t: (t + 2 * x, x))


@pytest.mark.parametrize("execution", ["native", "interpret"])
def test_a_deadlock_of_a_group_names_the_side_and_the_line(home: Path, execution: str) -> None:
    lines = ("t = self.ask(x, t)", "out = self.answer(4, out)")
    p = program(home, *lines, cube="ask", vector="answer")
    with pytest.raises(errors.Deadlock, match=r"side 0, .* for a tile in pipe 1") as caught:
        ir.compile(p, execution=execution)(*arrays())
    assert caught.value.span is not None and caught.value.span.line == 9


@pytest.mark.parametrize(
    "lines",
    [
        ("t = self.half(x, t)", "t = pl.add(t, t)", "out = self.more(t, out)"),
        ("t = self.half(x, t)", "out = self.more(out, out)"),
        ("t = self.half(x, t)",),
    ],
)
def test_a_call_that_is_no_side_of_another_stays(home: Path, lines: tuple[str, ...]) -> None:
    p = program(home, *lines, cube="half", vector="more")
    assert pair_sides(p) is p
