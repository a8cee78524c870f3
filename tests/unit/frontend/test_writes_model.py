"""Random programs leave in their outputs, written anywhere and anyhow, what numpy says."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tilewright.language as pl
from tilewright.errors import ScopeIsolationError, StaleRead, UndefinedVariableError
from tilewright.interp import Interpreter
from tilewright.ir.core import Function, Program
from unit.frontend.parsed_kernels import array

HELPERS = """
@pl.inline
def put(t, target, row):
    pl.store(t, [row, 0], target)

@pl.inline
def bump(target, row):
    target[row:row + 4, :] = pl.load(target, [row, 0], [4, 4])
    t = pl.add(pl.load(target, [row, 0], [4, 4]), 1.0)
    pl.store(t, [row, 0], target)
"""
HEAD = """
@pl.function(type=pl.FunctionType.InCore)
def f(x: pl.Tensor[[16, 4], pl.FP32], out: pl.InOut[pl.Tensor[[16, 4], pl.FP32]],
      acc: pl.InOut[pl.Tensor[[16, 4], pl.FP32]], n: pl.INDEX):
    o = out
    t = pl.load(x, [0, 0], [4, 4])
    v = out[4:8, :]
"""


class Writer:
    """Writes one random function over two outputs and one input."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.lines: list[str] = []
        self.counter = 0

    def text(self) -> str:
        self.block(1, 3, ())
        return HELPERS + HEAD + "\n".join(self.lines) + "\n"

    def block(self, indent: int, depth: int, loops: tuple[str, ...]) -> None:
        for _ in range(self.chance.randrange(1, 4)):
            kinds = [self.write, self.write, self.read, self.call]
            kinds += [self.branch, self.loop, self.scope] if depth else []
            self.chance.choice(kinds)(indent, depth, loops)

    def line(self, indent: int, text: str) -> None:
        self.lines.append("    " * indent + text)

    def row(self, loops: tuple[str, ...]) -> str:
        index = self.chance.choice([*loops, "0", "1", "2", "3"])
        return f"{index} * 4" if index in loops else str(4 * int(index))

    def target(self) -> str:
        return self.chance.choice(["out", "out", "acc", "o"])

    def write(self, indent: int, depth: int, loops: tuple[str, ...]) -> None:
        row, target = self.row(loops), self.target()
        form = self.chance.choice(
            [
                "pl.store(t, [{row}, 0], {target})",
                "{target} = pl.store(t, [{row}, 0], {target})",
                "{target}[{row}:{row} + 4, :] = t",
                "r{k} = pl.store(t, [{row}, 0], {target})",
                "o = {target}",
                "v = {target}[{row}:{row} + 4, :]",
                "pl.store(t, [0, 0], v)",
                "v[0:4, :] = t",
                "put(t, {target}[{row}:{row} + 4, :], 0)",
            ]
        )
        self.counter += 1
        self.line(indent, form.format(row=row, target=target, k=self.counter))

    def read(self, indent: int, depth: int, loops: tuple[str, ...]) -> None:
        source = self.chance.choice(["x", self.target()])
        load = f"pl.load({source}, [{self.row(loops)}, 0], [4, 4])"
        self.line(indent, self.chance.choice([f"t = {load}", f"t = pl.add(t, {load})"]))

    def call(self, indent: int, depth: int, loops: tuple[str, ...]) -> None:
        form = self.chance.choice(["put(t, {target}, {row})", "bump({target}, {row})"])
        self.line(indent, form.format(row=self.row(loops), target=self.target()))

    def branch(self, indent: int, depth: int, loops: tuple[str, ...]) -> None:
        left = self.chance.choice(["n", *loops])
        self.line(indent, f"if {left} < {self.chance.randrange(4)}:")
        self.block(indent + 1, depth - 1, loops)
        if self.chance.random() < 0.5:
            self.line(indent, "else:")
            self.block(indent + 1, depth - 1, loops)

    def loop(self, indent: int, depth: int, loops: tuple[str, ...]) -> None:
        index = f"i{self.counter}"
        self.counter += 1
        self.line(indent, f"for {index} in pl.range({self.chance.choice(['2', '4', '3'])}):")
        self.block(indent + 1, depth - 1, (*loops, index))

    def scope(self, indent: int, depth: int, loops: tuple[str, ...]) -> None:
        self.line(indent, "with pl.scope():")
        self.block(indent + 1, depth - 1, loops)


class Model:
    """`pl` over numpy arrays, writes in place."""

    range = staticmethod(range)

    class FunctionType:
        InCore = None

    @staticmethod
    def function(**_: Any) -> Any:
        return lambda given: given

    @staticmethod
    def inline(given: Any) -> Any:
        return given

    @staticmethod
    def load(source: Any, offsets: list[int], shape: list[int]) -> Any:
        return source[offsets[0] : offsets[0] + shape[0]].copy()

    @staticmethod
    def store(tile: Any, offsets: list[int], target: Any) -> Any:
        target[offsets[0] : offsets[0] + 4] = tile
        return target

    @staticmethod
    def add(left: Any, right: Any) -> Any:
        return left + np.float32(right) if np.isscalar(right) else left + right

    @staticmethod
    @contextlib.contextmanager
    def scope() -> Iterator[None]:
        yield


REFUSED = (StaleRead, ScopeIsolationError, UndefinedVariableError)


@pytest.mark.parametrize("part", range(4))
def test_random_writes_leave_what_numpy_says(part: int) -> None:
    compared = 0
    for seed in range(part * 30, part * 30 + 30):
        text = Writer(seed).text()
        try:
            function = pl.parse(text, f"<seed {seed}>")
        except REFUSED:
            continue
        assert isinstance(function, Function)
        names: dict[str, Any] = {"pl": Model}
        exec("from __future__ import annotations\n" + text, names)
        interpreter = Interpreter(Program("random", {"f": function}))
        for n in (1, 3):
            x, *given = array(16, 4), array(16, 4, seed=1), array(16, 4, seed=2)
            wanted = [value.copy() for value in given]
            interpreter.run("f", (x, *given, n))
            names["f"](x, *wanted, n)
            for left, right in zip(given, wanted, strict=True):
                np.testing.assert_array_equal(left, right, f"{seed}: {n}\n{text}")
        compared += 1
    assert compared > 8
