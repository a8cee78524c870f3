"""Random scalar programs mean in the parsed style what they mean in Python."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

import tilewright.language as pl
from tilewright.interp import Interpreter
from tilewright.ir.core import Function, Program

NAMES = "abcd"
INPUTS = ((0, 1), (3, 7), (12, 5))


class Writer:
    """Writes one random function over the integers n and m."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.lines: list[str] = []
        self.counter = 0

    def text(self) -> str:
        for name in NAMES:
            self.line(1, f"{name} = {self.chance.choice(['n', 'm', '0', '5'])}")
        self.block(1, depth=3, loops=())
        self.line(1, f"return {', '.join(NAMES)}")
        return "\n".join(["def f(n: pl.INT64, m: pl.INT64):", *self.lines]) + "\n"

    def line(self, indent: int, text: str) -> None:
        self.lines.append("    " * indent + text)

    def atom(self, loops: tuple[str, ...]) -> str:
        return self.chance.choice([*NAMES, "n", "m", *loops, str(self.chance.randrange(6))])

    def expression(self, loops: tuple[str, ...]) -> str:
        a, b = self.atom(loops), self.atom(loops)
        operator = self.chance.choice(["+", "-", "*"])
        return f"({a} {operator} {b}) % {self.chance.choice([7, 31, 97])}"

    def condition(self, loops: tuple[str, ...]) -> str:
        def compare() -> str:
            word = self.chance.choice(["<", "<=", "==", "!=", ">", ">="])
            return f"{self.chance.choice(NAMES)} {word} {self.atom(loops)}"

        given = self.chance.choice(["{0}", "{0} and {1}", "{0} or {1}", "not ({0})"])
        return given.format(compare(), compare())

    def block(self, indent: int, depth: int, loops: tuple[str, ...]) -> None:
        for _ in range(self.chance.randrange(1, 4)):
            self.statement(indent, depth, loops)

    def statement(self, indent: int, depth: int, loops: tuple[str, ...]) -> None:
        kinds: list[Callable[[int, int, tuple[str, ...]], None]] = [self.assign, self.assign]
        if depth:
            kinds += [self.branch, self.counted, self.conditional]
        self.chance.choice(kinds)(indent, depth, loops)

    def assign(self, indent: int, depth: int, loops: tuple[str, ...]) -> None:
        if self.chance.random() < 0.2:
            left, right = self.chance.sample(NAMES, 2)
            self.line(indent, f"{left}, {right} = {right}, {self.expression(loops)}")
        else:
            self.line(indent, f"{self.chance.choice(NAMES)} = {self.expression(loops)}")

    def branch(self, indent: int, depth: int, loops: tuple[str, ...]) -> None:
        self.line(indent, f"if {self.condition(loops)}:")
        self.block(indent + 1, depth - 1, loops)
        self.exit(indent + 1, loops)
        if self.chance.random() < 0.3:
            self.line(indent, f"elif {self.condition(loops)}:")
            self.block(indent + 1, depth - 1, loops)
        if self.chance.random() < 0.5:
            self.line(indent, "else:")
            self.block(indent + 1, depth - 1, loops)
            self.exit(indent + 1, loops)

    def exit(self, indent: int, loops: tuple[str, ...]) -> None:
        if loops and self.chance.random() < 0.3:
            self.line(indent, self.chance.choice(["break", "continue"]))

    def counted(self, indent: int, depth: int, loops: tuple[str, ...]) -> None:
        index = f"i{self.counter}"
        self.counter += 1
        bounds = self.chance.choice(["4", "n % 5", "1, 5", "m % 4, 6, 2", "5, 0, -2"])
        self.line(indent, f"for {index} in pl.range({bounds}):")
        self.block(indent + 1, depth - 1, (*loops, index))

    def conditional(self, indent: int, depth: int, loops: tuple[str, ...]) -> None:
        count = f"k{self.counter}"
        self.counter += 1
        self.line(indent, f"{count} = 0")
        self.line(indent, f"while {count} < 5 and ({self.condition(loops)}):")
        self.line(indent + 1, f"{count} = {count} + 1")
        self.block(indent + 1, depth - 1, (*loops, count))


class Model:
    """`pl` as plain Python."""

    range = staticmethod(range)
    INT64 = int


@pytest.mark.parametrize("part", range(4))
def test_random_programs_mean_what_python_says(part: int) -> None:
    for seed in range(part * 15, part * 15 + 15):
        text = Writer(seed).text()
        names: dict[str, Any] = {"pl": Model}
        exec(text, names)
        function = pl.parse(text, f"<seed {seed}>")
        assert isinstance(function, Function)
        interpreter = Interpreter(Program("random", {"f": function}))
        for given in INPUTS:
            result = interpreter.run("f", given)
            assert tuple(result) == names["f"](*given), f"{seed}: {given}\n{text}"
