"""Loops carry what they must, and nothing else."""

import re
from typing import Any

import numpy as np
import pytest

import tilewright.language as pl
from tilewright import ir
from tilewright.errors import (
    InvalidOperationError,
    ParserSyntaxError,
    ParserTypeError,
    ScopeIsolationError,
    StaleRead,
    UnsupportedFeatureError,
)
from tilewright.ir.enums import ForKind
from tilewright.ops import control
from unit.frontend.parsed_kernels import array, execute, settled

TA = pl.Tensor[[64, 16], pl.FP32]


def loops(function: Any) -> list[Any]:
    return [op for op in function.body.walk() if op.opdef in (control.for_, control.while_)]


def test_explicit_carries_are_named_by_the_yield() -> None:
    @pl.function
    def loop_sum(n: pl.INT64) -> pl.INT64:
        start: pl.INT64 = 0
        for i, (total,) in pl.range(n, init_values=(start,)):
            total = pl.yield_(total + i)
        return total

    assert execute(loop_sum, 5) == 10


def test_the_init_name_keeps_its_value() -> None:
    @pl.function
    def f(n: pl.INT64) -> tuple[pl.INT64, pl.INT64]:
        start: pl.INT64 = 7
        for i, (s,) in pl.range(n, init_values=(start,)):
            end = pl.yield_(s + i)
        return start, end

    assert execute(f, 4) == (7, 13)


def test_what_begins_with_a_parameter_leaves_the_parameter_readable() -> None:
    @pl.function
    def f(x: TA) -> TA:
        for _, (s, t) in pl.range(2, init_values=(x, x)):
            for _, (u,) in pl.range(2, init_values=(s,)):
                u = pl.yield_(pl.add(pl.add(u, x), s))
            s, t = pl.yield_(t, u)
        return pl.add(pl.add(s, t), x)

    x = np.ones((64, 16), np.float32)
    np.testing.assert_array_equal(execute(f, x), 11 * x)


def test_a_parameter_that_a_loop_writes_is_not_read_as_it_was() -> None:
    with pytest.raises(StaleRead, match="'x' is read as it was before"):

        @pl.function
        def f(x: pl.InOut[TA]) -> TA:
            for i, (s,) in pl.range(2, init_values=(x,)):
                s[i : i + 1, :] = pl.slice(x, [1, 16], [i, 0])
                s = pl.yield_(s)
            return s


def test_names_that_a_loop_rebinds_and_reads_again_are_carried() -> None:
    @pl.function
    def f(n: pl.INT64) -> pl.INT64:
        a = 1
        b = 1
        unread = 0
        for i in pl.range(n):
            unread = i
            c = a + b
            a = b
            b = c
        return b

    assert execute(f, 5) == 13
    (loop,) = loops(f)
    assert [value.name for value in loop.results] == ["a", "b"]


def test_a_literal_that_is_carried_takes_the_dtype_of_the_iterations() -> None:
    @pl.function
    def f(n: pl.INT32, x: pl.INT64) -> pl.INT64:
        total = 0
        for i in pl.range(n):
            total = x + total
        return total

    assert execute(f, 3, 5) == 15
    (loop,) = loops(f)
    assert str(loop.results[0].type) == "pl.Scalar[pl.INT64]"


def test_bounds_may_run_down_and_in_steps() -> None:
    @pl.function
    def f(n: pl.INT64) -> pl.INT64:
        total = 0
        for i in pl.range(n, 0, -2):
            total = total + i
        return total

    assert execute(f, 7) == 7 + 5 + 3 + 1


def test_an_output_written_in_a_loop_is_carried_however_it_is_named() -> None:
    @pl.function(type=pl.FunctionType.InCore)
    def f(x: TA, out: pl.Out[TA]) -> TA:
        for i in pl.range(4):
            t = pl.load(x, [i * 16, 0], [16, 16])
            result = pl.store(t, [i * 16, 0], out)
        return result

    x, out = array(64, 16), np.zeros((64, 16), np.float32)
    execute(f, x, out)
    np.testing.assert_array_equal(out, x)
    (loop,) = loops(f)
    assert len(loop.results) == 1


def test_an_alias_of_an_output_written_in_a_loop_is_carried() -> None:
    @pl.function(type=pl.FunctionType.InCore)
    def f(x: TA, out: pl.Out[TA]) -> TA:
        for i in pl.range(4):
            target = out
            for j in pl.range(2):
                t = pl.load(x, [i * 16 + j * 8, 0], [8, 16])
                pl.store(t, [i * 16 + j * 8, 0], target)
        return out

    x, out = array(64, 16), np.zeros((64, 16), np.float32)
    execute(f, x, out)
    np.testing.assert_array_equal(out, x)


def test_a_tensor_that_is_only_read_is_not_carried() -> None:
    @pl.function(type=pl.FunctionType.Orchestration)
    def f(x: TA, out: pl.Out[TA]) -> TA:
        for i in pl.range(2):
            with pl.at(level=pl.Level.CORE_GROUP):
                pl.store(pl.load(x, [0, 0], [16, 16]), [i * 16, 0], out)
        return out

    (loop,) = loops(settled(f))
    assert [init.name for init in loop.operands[3]] == ["out"]


def test_the_loop_variable_has_the_range_of_the_loop() -> None:
    @pl.function(type=pl.FunctionType.InCore)
    def f(x: TA, out: pl.Out[TA]) -> TA:
        for i in pl.range(3):
            pl.store(pl.load(x, [i * 16, 0], [16, 16]), [i * 16, 0], out)
        return out

    (loop,) = loops(f)
    symbol = loop.regions[0].params[0].symbol
    assert (symbol.name, str(symbol.lo), str(symbol.hi)) == ("i", "0", "2")


@pytest.mark.parametrize(
    ("word", "kind"),
    [("parallel", ForKind.Parallel), ("unroll", ForKind.Unroll), ("spmd", ForKind.Spmd)],
)
def test_each_loop_word_has_its_kind(word: str, kind: ForKind) -> None:
    text = f"""
@pl.function
def f(x: pl.Tensor[[64, 16], pl.FP32], out: pl.Out[pl.Tensor[[64, 16], pl.FP32]]):
    for i in pl.{word}(4):
        pl.store(pl.load(x, [i, 0], [1, 16]), [i, 0], out)
    return out
"""
    if word == "unroll":
        text = text.replace("pl.store(pl.load(x, [i, 0], [1, 16]), [i, 0], out)", "t = pl.exp(x)")
    (loop,) = loops(settled(pl.parse(text)))
    assert loop.attrs["kind"] is kind


def test_pipeline_keeps_its_stage() -> None:
    @pl.function
    def f(n: pl.INT64) -> pl.INT64:
        total = 0
        for i in pl.pipeline(n, stage=2):
            total = total + i
        return total

    (loop,) = loops(settled(f))
    assert (loop.attrs["kind"], loop.attrs["stage"]) == (ForKind.Pipeline, 2)


def test_while_carries_what_it_rebinds() -> None:
    @pl.function
    def f(n: pl.INT64) -> pl.INT64:
        i = 0
        total = 0
        while i < n and total < 100:
            i = i + 1
            total = total + i
        return total

    assert execute(f, 5) == 15
    assert execute(f, 50) == 105


def test_an_explicit_while_tests_its_condition_first() -> None:
    @pl.function
    def f(n: pl.INT64) -> pl.INT64:
        zero: pl.INT64 = 0
        for (i,) in pl.while_(init_values=(zero,)):
            pl.cond(i * i < n)
            root = pl.yield_(i + 1)
        return root

    assert execute(f, 17) == 5


def test_break_and_continue_leave_loops_and_iterations() -> None:
    @pl.function
    def f(n: pl.INT64) -> tuple[pl.INT64, pl.INT64]:
        odd = 0
        seen = 0
        for i in pl.range(n):
            seen = seen + 1
            if i % 2 == 0:
                continue
            if i > 6:
                break
            odd = odd + i
        return odd, seen

    def model(n: int) -> tuple[int, int]:
        odd = seen = 0
        for i in range(n):
            seen += 1
            if i % 2 == 0:
                continue
            if i > 6:
                break
            odd += i
        return odd, seen

    for n in (0, 3, 20):
        assert execute(f, n) == model(n)


def test_break_in_a_while_inside_a_for() -> None:
    @pl.function
    def f(n: pl.INT64) -> pl.INT64:
        total = 0
        for i in pl.range(n):
            j = 0
            while True:
                if j > i:
                    break
                j = j + 1
                total = total + j
        return total

    assert execute(f, 4) == sum(j for i in range(4) for j in range(1, i + 2))


REFUSED: dict[str, tuple[type[Exception], str, str]] = {
    "python_range": (ParserSyntaxError, "must use pl.range", "for i in range(4):\n    y = n"),
    "bare_yield": (
        ParserSyntaxError,
        "must end with an assignment from pl.yield_",
        "for i, (s,) in pl.range(4, init_values=(n,)):\n    pl.yield_(s)",
    ),
    "no_yield": (
        ParserSyntaxError,
        "must end with",
        "for i, (s,) in pl.range(4, init_values=(n,)):\n    y = s",
    ),
    "yield_count": (
        ParserSyntaxError,
        "Mismatch: 1 init_values, 2 yielded values",
        "for i, (s,) in pl.range(4, init_values=(n,)):\n    a, b = pl.yield_(s, s)",
    ),
    "header_count": (
        ParserSyntaxError,
        "Mismatch: 2 iter_args but 1 init_values",
        "for i, (s, t) in pl.range(4, init_values=(n,)):\n    a = pl.yield_(s)",
    ),
    "no_header": (
        ParserSyntaxError,
        "Mismatch: 0 iter_args but 1 init_values",
        "for i in pl.range(4, init_values=(n,)):\n    a = pl.yield_(i)",
    ),
    "yield_without_init": (
        ParserSyntaxError,
        "needs init_values",
        "for i in pl.range(4):\n    a = pl.yield_(i)",
    ),
    "early_yield": (
        ParserSyntaxError,
        "must be the last statement",
        "for i, (s,) in pl.range(4, init_values=(n,)):\n    a = pl.yield_(s)\n    b = a",
    ),
    "carried_type": (
        ParserTypeError,
        "carries",
        "z = 0.5\nfor i, (s,) in pl.range(4, init_values=(z,)):\n    a = pl.yield_(n)",
    ),
    "dynamic_unroll": (ParserSyntaxError, "constant bounds", "for i in pl.unroll(n):\n    y = n"),
    "no_stage": (ParserSyntaxError, "needs stage=", "for i in pl.pipeline(n):\n    y = n"),
    "zero_step": (ParserSyntaxError, "cannot be 0", "for i in pl.range(0, n, 0):\n    y = n"),
    "while_without_cond": (
        ParserSyntaxError,
        "must begin with pl.cond",
        "for (i,) in pl.while_(init_values=(n,)):\n    a = pl.yield_(i)",
    ),
    "break_in_parallel": (
        UnsupportedFeatureError,
        "'break' works in pl.range",
        "for i in pl.parallel(4):\n    break",
    ),
    "inner_name": (
        ScopeIsolationError,
        "bound only inside a loop",
        "for i in pl.range(4):\n    y = n + i\nz = y",
    ),
    "loop_else": (
        UnsupportedFeatureError,
        "else",
        "for i in pl.range(4):\n    y = n\nelse:\n    y = n",
    ),
    "return_inside": (ParserSyntaxError, "must be the last", "for i in pl.range(4):\n    return n"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_malformed_loop_is_refused_at_its_line(case: str) -> None:
    kind, message, body = REFUSED[case]
    text = "@pl.function\ndef f(n: pl.Scalar[pl.INDEX]):\n" + "".join(
        f"    {line}\n" for line in body.splitlines()
    )
    with pytest.raises(kind, match=message.replace("(", r"\(")) as caught:
        pl.parse(text, f"<{case}>")
    span = getattr(caught.value, "span", None)
    assert span is not None and span.line >= 3


def test_a_parameter_rebound_to_values_in_a_loop_is_carried_as_a_value() -> None:
    @pl.function
    def f(x: TA, acc: pl.InOut[TA], out: pl.Out[TA]) -> TA:
        with pl.at(level=pl.Level.CORE_GROUP):
            for i in pl.range(3):
                acc = pl.add(acc, x)
            out[:] = acc
        return out

    x, acc, out = array(64, 16), array(64, 16, seed=1), np.zeros((64, 16), np.float32)
    kept = acc.copy()
    execute(f, x, acc, out)
    np.testing.assert_array_equal(acc, kept)
    np.testing.assert_array_equal(out, ((kept + x) + x) + x)


def test_what_is_written_must_not_depend_on_the_path() -> None:
    text = """
@pl.function(type=pl.FunctionType.InCore)
def f(x: pl.Tensor[[16], pl.FP32], a: pl.Out[pl.Tensor[[16], pl.FP32]],
      b: pl.Out[pl.Tensor[[16], pl.FP32]], n: pl.INDEX):
    if n > 3:
        target = a
    else:
        target = b
    target[:] = x
"""
    with pytest.raises(StaleRead, match="'target' names here depends on the path taken"):
        pl.parse(text)


def test_a_part_is_not_written_after_its_parameter_was() -> None:
    text = """
@pl.function(type=pl.FunctionType.InCore)
def f(x: pl.Tensor[[16], pl.FP32], out: pl.Out[pl.Tensor[[16], pl.FP32]]):
    part = out[0:8]
    out[4:12] = x[0:8]
    part[0:4] = x[0:4]
"""
    with pytest.raises(StaleRead, match="A part of 'out' is written after 'out' itself was"):
        pl.parse(text)


CONSEQUENCES = {
    "rebound in a loop": ("t = x", "for i in pl.range(3):", "    t = pl.nope(t)", "return t"),
    "rebound in a while": (
        "t = x",
        "while n > 3:",
        "    t = pl.nope(t)",
        "    n = n - 1",
        "return t",
    ),
    "bound in a loop": ("for i in pl.range(3):", "    u = pl.nope(x)", "return u"),
    "in an inner loop": (
        "for i in pl.range(3):",
        "    for j in pl.range(2):",
        "        x = pl.nope(x)",
        "    y = pl.add(x, 1.0)",
        "return x",
    ),
    "in an arm in a loop": (
        "for i in pl.range(3):",
        "    if n > 3:",
        "        x = pl.nope(x)",
        "    x = pl.add(x, 1.0)",
        "return x",
    ),
    "yielded": (
        "for i, (t,) in pl.range(3, init_values=(x,)):",
        "    t = pl.yield_(pl.nope(t))",
        "return t",
    ),
    "yielded by name": (
        "for i, (t,) in pl.range(3, init_values=(x,)):",
        "    u = pl.nope(t)",
        "    t = pl.yield_(u)",
        "return t",
    ),
}


@pytest.mark.parametrize("name", CONSEQUENCES)
def test_an_error_in_a_loop_is_one_error(name: str) -> None:
    head = "@pl.function\ndef f(x: pl.Tensor[[8], pl.FP32], n: pl.Scalar[pl.INDEX]):\n"
    with pytest.raises(InvalidOperationError, match=r"Unknown operation 'pl\.nope'") as caught:
        pl.parse(head + "".join(f"    {line}\n" for line in CONSEQUENCES[name]))
    assert not caught.value.companions()


def test_a_scalar_that_a_body_only_hands_to_a_call_is_no_carry() -> None:
    """Blocks that meet may carry none."""
    rows = pl.Tensor[[64, 16], pl.FP32]

    @pl.program
    class P:
        @pl.function(type=pl.FunctionType.InCore)
        def row(self, i: pl.Scalar[pl.INDEX], n: pl.Scalar[pl.INDEX], y: pl.InOut[rows]) -> rows:
            t = pl.load(y, [n - i, 0], [1, 16])
            pl.system.syncall()
            return pl.store(t, [i, 0], y)

        @pl.function
        def main(self, n: pl.Scalar[pl.INDEX], y: pl.InOut[rows]) -> rows:
            for k in pl.range(n):
                m = k + 1
                for i in pl.spmd(m):
                    y = self.row(i, m, y)
            m = n - 1
            i = 0
            while i < 2:
                y = self.row(i, m, y)
                i = i + 1
            return y

    text = P.as_python()
    assert re.search(r"for i\w*, \(y_\d,\) in pl.spmd\(m, init_values=\(y_\d,\)\):", text)
    assert re.search(r"in pl.while_\(init_values=\(y_\d, i\w*\)\):", text)
    assert ir.compile(P).explain() == "main: one kernel"


@pytest.mark.parametrize(
    "head, wanted",
    [("spmd(0, 4, 2)", "one core_num, got 3"), ("spmd()", "one core_num, got 0")]
    + [("range(0, 4, 2, 1)", "1 to 3 bounds, got 4"), ("parallel()", "1 to 3 bounds, got 0")],
)
def test_a_loop_says_how_many_bounds_it_takes(head: str, wanted: str) -> None:
    source = (
        "import tilewright.language as pl\n"
        "@pl.function\n"
        "def f(x: pl.Tensor[[4], pl.FP32]) -> pl.Tensor[[4], pl.FP32]:\n"
        f"    for i in pl.{head}:\n"
        "        x = pl.add(x, x)\n"
        "    return x\n"
    )
    with pytest.raises(ParserSyntaxError, match=rf"takes {wanted}"):
        pl.parse(source)
