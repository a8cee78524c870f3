# ruff: noqa: RET504  (kernels are language, not Python)
"""Rows R-034 to R-042: control flow, scopes, external kernels, what errors refer to."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright.language as pl
import tilewright.nki as nki
import tilewright.nki.language as nl
from tilewright import errors, ir
from tilewright.errors import (
    ParserError,
    ParserSyntaxError,
    ParserTypeError,
    SSAViolationError,
    TilewrightError,
    UnsupportedFeatureError,
)
from tilewright.ir.enums import ForKind
from tilewright.nki.trace import TraceContext, TraceKernel
from tilewright.ops import control
from unit.frontend.parsed_kernels import execute, settled

F32 = np.float32
NUMBERS = "n: pl.Scalar[pl.INDEX], m: pl.Scalar[pl.INDEX]"
MATRIX = "x: pl.InOut[pl.Tensor[[16, 16], pl.FP32]]"


def read(signature: str, *body: str, options: str = "") -> Any:
    head = [f"@pl.function{options}", f"def f({signature}):"]
    return pl.parse("\n".join([*head, *(f"    {line}" for line in body)]) + "\n", "<row>")


def native_and_interpreted(f: Any, *args: Any) -> Any:
    """The result of a function of scalars, after both ways of running it agree."""
    want, got = execute(f, *args), ir.compile(f)(*args)
    assert got == want
    return want


# ---- branches and loops --------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "want"), [(3, 4), (-3, -6)])
def test_r_034_both_arms_of_a_branch_yield(n: int, want: int) -> None:
    f = read(
        NUMBERS,
        "if n > 0:",
        "    y = pl.yield_(n + 1)",
        "else:",
        "    y = pl.yield_(n * 2)",
        "return y",
    )
    assert native_and_interpreted(f, n, 0) == want


def test_r_034_arms_yield_equally_many_values_of_equal_types() -> None:
    with pytest.raises(ParserError):
        read(NUMBERS, "if n > 0:", "    y = pl.yield_(n)", "else:", "    y, z = pl.yield_(n, m)")
    with pytest.raises(ParserError):
        read(NUMBERS, "if n > 0:", "    y = pl.yield_(n)", "else:", "    y = pl.yield_(0.5)")


@pytest.mark.parametrize("n", [0, 1, 7])
def test_r_034_a_loop_with_carries(n: int) -> None:
    body = (
        "for i, (a, b) in pl.range(n, init_values=(m, n)):",
        "    a, b = pl.yield_(a + i, b * 2)",
        "return a, b",
    )
    assert tuple(execute(read(NUMBERS, *body), n, 5)) == (5 + sum(range(n)), n * 2**n)


@pytest.mark.parametrize("n", [0, 5])
def test_r_034_a_natural_while_and_an_explicit_one_agree(n: int) -> None:
    natural = read(NUMBERS, "s = m", "while n > 0:", "    s = s + n", "    n = n - 1", "return s")
    explicit = read(
        NUMBERS,
        "for (k, s) in pl.while_(init_values=(n, m)):",
        "    pl.cond(k > 0)",
        "    k, s = pl.yield_(k - 1, s + k)",
        "return s",
    )
    want = 10 + sum(range(n + 1))
    assert native_and_interpreted(natural, n, 10) == want
    assert native_and_interpreted(explicit, n, 10) == want


def test_r_034_the_condition_comes_first() -> None:
    with pytest.raises(ParserSyntaxError, match=r"must begin with pl\.cond"):

        @pl.function
        def f(n: pl.INT64) -> pl.INT64:
            for (k,) in pl.while_(init_values=(n,)):
                j = k - 1
                pl.cond(k > 0)
                k = pl.yield_(j)
            return k

    with pytest.raises(ParserSyntaxError, match=r"must begin with pl\.cond"):
        read(NUMBERS, "for (k,) in pl.while_(init_values=(n,)):", "    k = pl.yield_(k - 1)")


def test_r_034_a_bare_yield_of_carries_is_refused() -> None:
    with pytest.raises(ParserSyntaxError) as caught:
        read(NUMBERS, "for i, (a,) in pl.range(4, init_values=(n,)):", "    pl.yield_(a + i)")
    assert "pl.yield_" in str(caught.value)


@pytest.mark.parametrize("condition", ["n", "x", "1.5"])
def test_r_034_conditions_are_boolean_scalars(condition: str) -> None:
    with pytest.raises(ParserError):
        read(
            f"{MATRIX}, {NUMBERS}",
            f"if {condition}:",
            "    y = n + 1",
            "else:",
            "    y = n",
            "z = y",
        )


def kinds(f: Any) -> list[ForKind]:
    return [op.attrs["kind"] for op in f.body.walk() if op.opdef is control.for_]


@pytest.mark.parametrize(
    ("loop", "kind", "count"),
    [
        ("pl.range(4)", ForKind.Sequential, 4),
        ("pl.range(2, 8)", ForKind.Sequential, 6),
        ("pl.range(1, 8, 3)", ForKind.Sequential, 3),
        ("pl.parallel(4)", ForKind.Parallel, 4),
        ("pl.parallel(2, 8, 2)", ForKind.Parallel, 3),
        ("pl.pipeline(0, 4, 1, stage=2)", ForKind.Pipeline, 4),
    ],
)
def test_r_035_loop_forms(loop: str, kind: ForKind, count: int) -> None:
    f = read(
        MATRIX, f"for i in {loop}:", "    x[i, 0:16] = pl.add(pl.slice(x, [1, 16], [i, 0]), 1.0)"
    )
    assert kinds(settled(f)) == [kind]
    x = np.zeros((16, 16), F32)
    ir.compile(f)(x)
    assert x[:, 0].sum() == count == x[:, 15].sum()


def test_r_035_unrolled_loops_have_constant_bounds() -> None:
    f = read(
        MATRIX,
        "for i in pl.unroll(3):",
        "    x[i, 0:16] = pl.add(pl.slice(x, [1, 16], [i, 0]), 1.0)",
    )
    x = np.zeros((16, 16), F32)
    ir.compile(f)(x)
    assert x.sum() == 3 * 16
    with pytest.raises(ParserError):
        read(f"{MATRIX}, {NUMBERS}", "for i in pl.unroll(n):", "    y = i")


@pytest.mark.parametrize("loop", ["range(4)", "[1, 2]", "pl.exp(x)"])
def test_r_035_other_iterables_are_refused(loop: str) -> None:
    with pytest.raises(ParserError, match=r"pl\.range"):
        read(MATRIX, f"for i in {loop}:", "    y = i")


# ---- scopes --------------------------------------------------------------------------------------

SCOPES = {
    "at": ("with pl.at(level=pl.Level.CORE_GROUP):", "    x[:] = pl.add(x, 1.0)"),
    "at, named": (
        "with pl.at(level=pl.Level.CORE_GROUP, name_hint='work'):",
        "    x[:] = pl.add(x, 1.0)",
    ),
    "at, with hints": (
        "with pl.at(level=pl.Level.CORE_GROUP, optimizations=[pl.split(pl.SplitMode.UP_DOWN, "
        "slot_num=2), pl.cross_core_slot(slot_num=4)]):",
        "    x[:] = pl.add(x, 1.0)",
    ),
    "cluster": (
        "with pl.cluster():",
        "    with pl.at(level=pl.Level.CORE_GROUP):",
        "        x[:] = pl.add(x, 1.0)",
    ),
    "spmd": (
        "for i in pl.spmd(4):",
        "    x[i * 4 : i * 4 + 4, 0:16] = pl.full([4, 16], pl.FP32, 1.0)",
    ),
    "scope": (
        "with pl.scope(mode=pl.ScopeMode.MANUAL):",
        "    with pl.at(level=pl.Level.CORE_GROUP):",
        "        x[:] = pl.add(x, 1.0)",
    ),
    "manual_scope": (
        "with pl.manual_scope():",
        "    with pl.at(level=pl.Level.CORE_GROUP):",
        "        x[:] = pl.add(x, 1.0)",
    ),
}


@pytest.mark.parametrize("name", SCOPES)
def test_r_036_scopes_print_parse_and_run(name: str) -> None:
    f = read(MATRIX, *SCOPES[name], options="(auto_scope=False)" if "scope" in name else "")
    word = name.partition(",")[0]
    assert f"pl.{word}(" in settled(f).as_python()
    ir.assert_structural_equal(ir.deserialize(ir.serialize(f)), f)
    x = np.zeros((16, 16), F32)
    ir.compile(f)(x)
    assert (x == 1).all()


@pytest.mark.parametrize(
    ("bounds", "says"),
    [
        ("1.5", r"The stop of pl.range is 1.5, not an integer scalar"),
        ("0, 8, x", r"The step of pl.range is pl.Tensor\[\[8\], pl.FP32\], not an integer"),
        ("'a', 8", "The start of pl.range is 'a', not an integer scalar"),
    ],
)
def test_r_035_bounds_are_integers(bounds: str, says: str) -> None:
    with pytest.raises(ParserTypeError, match=says):
        read("x: pl.Tensor[[8], pl.FP32]", f"for i in pl.range({bounds}):", "    y = i")


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("for i in pl.range(4, foo=3)", "pl.range has no argument 'foo'"),
        ("for i in pl.spmd(4, block=3)", "pl.spmd has no argument 'block'"),
        ("for i in pl.loop.lanes(4, foo=3)", "pl.loop.lanes has no argument 'foo'"),
        ("for i in pl.spmd(0)", "core_num is 0; a positive count is accepted"),
        ("for i in pl.spmd(core_num=-1)", "core_num is -1; a positive count is accepted"),
        ("for i in pl.split_aiv(3, mode=pl.SplitMode.NONE)", "n is 3; 2, the number of"),
        ("for i in pl.pipeline(4)", "pl.pipeline needs stage="),
        ("for i in pl.pipeline(4, stage=0)", "stage is 0; a positive constant is accepted"),
        ("for i in pl.pipeline(4, stage=True)", "stage is True; a positive constant is accepted"),
        ("with pl.at(level=pl.Level.CORE_GROUP, dumps=[3])", "dumps is [3]; a list of tensors"),
        ("with pl.at(level=pl.Level.CHIP, no_dep_args=3)", "no_dep_args is 3; a list of tensors"),
        ("with pl.at()", "pl.at needs level="),
        ("with pl.at(level=3)", "level is 3; a pl.Level is accepted"),
        ("with pl.scope(mode=1)", "mode is 1; a pl.ScopeMode is accepted"),
        ("with pl.cluster(name_hint=2)", "name_hint is 2; a string is accepted"),
        ("with pl.at(level=pl.Level.CHIP) as (a, b)", "'(a, b)' cannot name the task of a scope"),
        ("y = pl.range(3)\n    if True", "pl.range is no value: it heads a statement"),
        ("pl.at(level=pl.Level.CHIP)\n    if True", "pl.at is no value: it heads a statement"),
        ("y = max(x, x)\n    if True", "max(...) of tensors or tiles is not that of their"),
        ("y = x[x]\n    if True", "an index is an integer, not pl.Tensor[[8], pl.FP32]"),
    ],
)
def test_r_035_r_036_what_a_word_takes_is_checked(word: str, says: str) -> None:
    with pytest.raises(ParserError, match=re.escape(says)):
        read("x: pl.Tensor[[8], pl.FP32]", f"{word}:", "    y = pl.add(x, 1.0)")


CALLS = """
V = pl.Tensor[[8], pl.FP32]
@pl.program
class P:
    @pl.function
    def k(self, a: pl.InOut[V]) -> V:
        a[:] = pl.exp(a)
        return a

    @pl.function
    def narrow(self, a: pl.INT8) -> pl.INT8:
        return a + 1

    @pl.function
    def two(self, a: V) -> tuple[V, V]:
        return pl.exp(a), pl.mul(a, 2.0)

    @pl.function
    def main(self, x: pl.InOut[V], n: pl.INT64, i: pl.INDEX):
        y = {call}
"""


@pytest.mark.parametrize(
    ("call", "says"),
    [
        ("pl.submit(self.k, x, foo=1)", "pl.submit has no argument 'foo'"),
        ("pl.submit(self.k, x, core_num=2)", "pl.submit has no argument 'core_num'"),
        ("pl.submit(self.k, x, name_hint=4)", "name_hint is 4; a string is accepted"),
        ("pl.submit(self.k, x, allow_early_resolve=4)", "allow_early_resolve is 4; True or False"),
        ("pl.spmd_submit(self.k, x)", "pl.spmd_submit needs core_num="),
        ("pl.spmd_submit(self.k, x, core_num=0)", "core_num is 0; a positive count"),
        ("pl.spmd_submit(self.k, x, core_num=2, sync_start=3)", "sync_start is 3; True or False"),
        ("self.k(n)", "parameter 'a': expects"),
        ("self.narrow(n)", "expects pl.Scalar[pl.INT8], got pl.Scalar[pl.INT64]"),
        ("self.narrow(i + 1)", ""),
        ("self.k(self.two(x))", "2 values stand where one is wanted"),
    ],
)
def test_r_037_what_a_call_is_given_is_checked(call: str, says: str) -> None:
    text = CALLS.format(call=call)
    if not says:
        settled(pl.parse_program(text))
        return
    with pytest.raises(TilewrightError, match=re.escape(says)) as caught:
        pl.parse_program(text)
    assert caught.value.span is not None


def test_r_035_a_yield_outside_is_shown_where_it_stands() -> None:
    with pytest.raises(ParserSyntaxError, match="outside a loop or branch") as caught:
        read("x: pl.Tensor[[8], pl.FP32]", "y = pl.exp(x)", "y = pl.yield_(y)")
    assert caught.value.span is not None and caught.value.span.line == 4


@pytest.mark.parametrize("around", ["for a in pl.split_aiv(2, mode=MODE)", "with SPLIT"])
def test_r_036_lanes_are_divided_once(around: str) -> None:
    mode = pl.SplitMode.NONE
    with pytest.raises(ParserSyntaxError, match="which divides the lanes") as caught:
        if around.startswith("for"):

            @pl.function
            def f(x: pl.InOut[pl.Tensor[[16, 16], pl.FP32]]) -> pl.Tensor[[16, 16], pl.FP32]:
                with pl.at(level=pl.Level.CORE_GROUP):
                    for _ in pl.split_aiv(2, mode=mode):
                        for _ in pl.split_aiv(2, mode=mode):
                            x[:] = pl.exp(x)
                return x

        else:

            @pl.function
            def g(x: pl.InOut[pl.Tensor[[16, 16], pl.FP32]]) -> pl.Tensor[[16, 16], pl.FP32]:
                with pl.at(level=pl.Level.CORE_GROUP, optimizations=[pl.split(mode)]):
                    for _ in pl.split_aiv(2, mode=mode):
                        x[:] = pl.exp(x)
                return x

    assert caught.value.span is not None


def test_r_036_a_scope_of_automatic_dependencies_is_placed_by_hand_where_none_is_made() -> None:
    with pytest.raises(ParserSyntaxError, match="opens a scope of automatic dep") as caught:

        @pl.function
        def f(x: pl.Tensor[[8], pl.FP32]) -> pl.Tensor[[8], pl.FP32]:
            with pl.scope():
                y = pl.exp(x)
            return y

    assert "auto_scope=False" in str(caught.value)

    @pl.function(auto_scope=False)
    def g(x: pl.Tensor[[8], pl.FP32]) -> pl.Tensor[[8], pl.FP32]:
        with pl.scope():
            y = pl.exp(x)
        return y

    settled(g)


def test_r_036_blocks_may_be_counted_by_keyword() -> None:
    for head in ("for i in", "with"):
        f = read(MATRIX, f"{head} pl.spmd(core_num=2):", "    y = pl.add(x, 1.0)")
        assert (
            f.as_python()
            == read(MATRIX, f"{head} pl.spmd(2):", "    y = pl.add(x, 1.0)").as_python()
        )


def test_r_034_a_return_may_say_that_it_returns_nothing() -> None:
    assert read(NUMBERS, "y = n + m", "return None").return_types == ()


def test_r_036_scopes_do_not_nest_in_a_core() -> None:
    with pytest.raises(ParserError):
        read(
            MATRIX,
            "with pl.at(level=pl.Level.CORE_GROUP):",
            "    with pl.at(level=pl.Level.CORE_GROUP):",
            "        x[:] = pl.add(x, 1.0)",
        )


def test_r_036_scopes_do_not_nest_through_a_helper() -> None:
    @pl.inline
    def scaled(x: pl.Tensor[[16, 16], pl.FP32]) -> pl.Tensor[[16, 16], pl.FP32]:
        with pl.at(level=pl.Level.CORE_GROUP):
            y = pl.mul(x, 2.0)
        return y

    @pl.function
    def outside(x: pl.Tensor[[16, 16], pl.FP32]) -> pl.Tensor[[16, 16], pl.FP32]:
        return scaled(x)

    assert settled(outside)
    with pytest.raises(ParserSyntaxError, match="cannot stand inside another one"):

        @pl.function
        def inside(x: pl.Tensor[[16, 16], pl.FP32]) -> pl.Tensor[[16, 16], pl.FP32]:
            with pl.at(level=pl.Level.CORE_GROUP):
                y = scaled(x)
            return y


@pytest.mark.parametrize("kind", ["InCore", "AIC", "AIV"])
def test_r_036_a_kernel_of_one_core_opens_no_scope(kind: str) -> None:
    def of_type(body: Callable[..., Any]) -> Any:
        return pl.function(type=pl.FunctionType[kind])(body)

    def placed(x: pl.Tensor[[16, 16], pl.FP32]):
        with pl.at(level=pl.Level.CORE_GROUP):
            y = pl.mul(x, 2.0)
        return y

    def ordered(x: pl.Tensor[[16, 16], pl.FP32]):
        with pl.manual_scope():
            y = pl.mul(x, 2.0)
        return y

    def counted(x: pl.InOut[pl.Tensor[[16, 16], pl.FP32]]):
        for i in pl.spmd(16):
            x[i : i + 1, :] = pl.mul(x[i : i + 1, :], 2.0)

    for body, word in ((placed, "pl.at"), (ordered, "pl.manual_scope"), (counted, "pl.spmd")):
        says = f"{word} opens a scope in a function of type {kind}, which runs on one core"
        with pytest.raises(ParserSyntaxError, match=re.escape(says)):
            of_type(body)


# ---- break, continue, parse-time words, strict SSA -----------------------------------------------


def test_r_037_break_and_continue_leave_sequential_loops() -> None:
    f = read(
        NUMBERS,
        "s = m",
        "for i in pl.range(100):",
        "    if i == n:",
        "        break",
        "    if i % 2 == 0:",
        "        continue",
        "    s = s + i",
        "return s",
    )
    assert native_and_interpreted(f, 8, 0) == 1 + 3 + 5 + 7


LEFT_EARLY: dict[str, tuple[tuple[str, ...], int]] = {
    "break, then what the last yield gave": (
        (
            "for i, (s,) in pl.range(100, init_values=(m,)):",
            "    if i == n:",
            "        break",
            "    s = pl.yield_(s + i)",
            "return s",
        ),
        2 + 0 + 1 + 2 + 3 + 4,
    ),
    "continue, with several": (
        (
            "for i, (s, p) in pl.range(n, init_values=(m, 1)):",
            "    if i % 2 == 0:",
            "        continue",
            "    a, b = pl.yield_(s + i, p * 2)",
            "return a + b",
        ),
        2 + 1 + 3 + 4,
    ),
    "rebound before it": (
        (
            "for i, (s,) in pl.range(100, init_values=(m,)):",
            "    s = s + 1",
            "    if s > n:",
            "        break",
            "    r = pl.yield_(s)",
            "return r",
        ),
        5,
    ),
    "the name of what it starts with": (
        (
            "for i, (m,) in pl.range(100, init_values=(m,)):",
            "    if i == n:",
            "        break",
            "    r = pl.yield_(m + 1)",
            "return m * 100 + r",
        ),
        200 + 7,
    ),
    "while": (
        (
            "for (s,) in pl.while_(init_values=(m,)):",
            "    pl.cond(s < 1000)",
            "    if s > n * 4:",
            "        break",
            "    s = pl.yield_(s * 2)",
            "return s",
        ),
        32,
    ),
}


@pytest.mark.parametrize("name", LEFT_EARLY)
def test_r_037_a_loop_that_carries_may_be_left(name: str) -> None:
    body, expected = LEFT_EARLY[name]
    f = read(NUMBERS, *body)
    settled(f)
    assert native_and_interpreted(f, 5, 2) == expected


@pytest.mark.parametrize("end", ["pl.yield_(s)", "a, b = pl.yield_(s, s)", "t = s"])
def test_r_037_a_loop_that_carries_says_what_it_yields(end: str) -> None:
    loop = ("for i, (s,) in pl.range(4, init_values=(m,)):", "    if i == n:", "        break")
    with pytest.raises(UnsupportedFeatureError, match="names what it carries one by one"):
        read(NUMBERS, *loop, f"    {end}", "return m")


@pytest.mark.parametrize("word", ["break", "continue"])
@pytest.mark.parametrize("loop", ["pl.parallel(4)", "pl.unroll(4)"])
def test_r_037_other_loops_are_not_left(loop: str, word: str) -> None:
    with pytest.raises(ParserError, match=word):
        read(NUMBERS, f"for i in {loop}:", "    if i == n:", f"        {word}")


def test_r_037_break_outside_a_loop_is_refused() -> None:
    with pytest.raises((ParserError, SyntaxError)):
        read(NUMBERS, "break")


def test_r_037_static_words_run_while_the_kernel_is_read(
    capsys: pytest.CaptureFixture[str],
) -> None:
    f = read(MATRIX, "pl.static_print('rows', x.shape[0])", "pl.static_assert(x.shape[0] == 16)")
    assert "rows 16" in capsys.readouterr().out
    assert [op.name for op in f.body.stmts] == ["control.return"]
    with pytest.raises(ParserError, match="eight rows"):
        read(MATRIX, "pl.static_assert(x.shape[0] == 8, 'eight rows')")


def test_r_038_strict_ssa_refuses_rebinding_and_says_where_the_first_is() -> None:
    with pytest.raises(SSAViolationError, match="'y'") as caught:
        read(NUMBERS, "y = n + 1", "y = y + 1", options="(strict_ssa=True)")
    assert caught.value.span is not None and caught.value.span.line == 4
    assert caught.value.previous_span is not None and caught.value.previous_span.line == 3
    settled(read(NUMBERS, "y = n + 1", "y = y + 1"))


@pytest.mark.parametrize("statement", ["y += 1", "assert n > 0", "del n", "import os", "global n"])
def test_r_034_statements_of_python_that_the_language_lacks_are_refused(statement: str) -> None:
    with pytest.raises(UnsupportedFeatureError):
        read(NUMBERS, "y = n + 1", statement)


# ---- placement -----------------------------------------------------------------------------------


def test_r_039_operations_in_an_entry_outside_a_scope_are_refused() -> None:
    @pl.jit
    def entry(x: pl.Tensor[[8, 8], pl.FP32], out: pl.Out[pl.Tensor[[8, 8], pl.FP32]]):
        out[:] = pl.exp(x)
        return out

    message = r"Misplaced tensor op .* should be inside InCore block"
    with pytest.raises(TilewrightError, match=message) as caught:
        entry.compile()
    assert caught.value.span is not None and caught.value.span.file == __file__


# ---- external kernels ----------------------------------------------------------------------------

SOURCE = """
extern "C" int kernel(const unsigned long long* args, void* ctx) { return 0; }
"""


def external(kind: str, source: str, body: str = "...") -> Any:
    text = (
        "@pl.program\nclass P:\n"
        f"    @pl.function(type=pl.FunctionType.{kind}, external_source={source!r})\n"
        f"    def f(self, x: pl.Tensor[[8], pl.FP32], out: pl.Out[pl.Tensor[[8], pl.FP32]]):\n"
        f"        {body}\n"
    )
    return pl.parse_program(text, str(Path(source).parent / "program.py"))


@pytest.fixture
def cpp(tmp_path: Path) -> Path:
    path = tmp_path / "kernel.cpp"
    path.write_text(SOURCE)
    return path


@pytest.mark.parametrize("kind", ["AIC", "AIV"])
def test_r_040_core_functions_may_be_external(kind: str, cpp: Path) -> None:
    assert Path(external(kind, str(cpp))["f"].attrs["external_source"]) == cpp


@pytest.mark.parametrize("kind", ["Opaque", "InCore", "Orchestration", "Group"])
def test_r_040_other_functions_may_not(kind: str, cpp: Path) -> None:
    with pytest.raises(ParserSyntaxError, match="AIC and AIV functions only"):
        external(kind, str(cpp))


@pytest.mark.parametrize("body", ["out[:] = x", "return out", "pass"])
def test_r_040_the_body_is_an_ellipsis(body: str, cpp: Path) -> None:
    with pytest.raises(ParserSyntaxError, match=r"is '\.\.\.'"):
        external("AIV", str(cpp), body)


def test_r_040_a_missing_source_is_a_value_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="does not exist"):
        external("AIV", str(tmp_path / "missing.cpp"))


def test_r_040_a_relative_path_starts_at_the_defining_file(cpp: Path) -> None:
    text = (
        "import tilewright.language as pl\n"
        "@pl.function(type=pl.FunctionType.AIV, external_source='kernel.cpp')\n"
        "def f(x: pl.Tensor[[8], pl.FP32], out: pl.Out[pl.Tensor[[8], pl.FP32]]): ...\n"
    )
    (cpp.parent / "defining.py").write_text(text)
    names: dict[str, Any] = {}
    exec(compile(text, str(cpp.parent / "defining.py"), "exec", dont_inherit=True), names)
    assert Path(names["f"].attrs["external_source"]) == cpp


@pytest.mark.parametrize(
    ("core_type", "sources"),
    [
        ("mixed", {"aic_source": "kernel.cpp"}),
        ("aiv", {}),
        ("aiv", {"source": "missing.cpp"}),
        ("vector", {"source": "kernel.cpp"}),
    ],
)
def test_r_041_external_jit_kernels_need_the_sources_of_their_cores(
    core_type: str, sources: dict[str, str], cpp: Path
) -> None:
    given = {name: str(cpp.parent / path) for name, path in sources.items()}
    with pytest.raises(ValueError):

        @pl.jit.extern(core_type=core_type, **given)
        def f(x: pl.Tensor[[8], pl.FP32], out: pl.Out[pl.Tensor[[8], pl.FP32]]): ...


def test_r_041_editing_the_source_changes_the_key(cpp: Path) -> None:
    @pl.jit.extern(core_type="aiv", source=str(cpp), include_dirs=[str(cpp.parent)])
    def foreign(x: pl.Tensor[[8], pl.FP32], out: pl.Out[pl.Tensor[[8], pl.FP32]]): ...

    @pl.jit
    def entry(x: pl.Tensor[[8], pl.FP32], out: pl.Out[pl.Tensor[[8], pl.FP32]]):
        out = foreign(x, out)
        return out

    first = entry.key()
    assert entry.key() == first
    cpp.write_text(SOURCE + "// edited\n")
    assert entry.key() != first


# ---- the traced style ----------------------------------------------------------------------------


@nki.jit
def doubled(x):  # type: ignore[no-untyped-def]
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(x) * 2.0)
    return out


def test_r_042_the_stages_of_a_traced_kernel_can_be_seen() -> None:
    x = np.ones((4, 8), F32)
    assert isinstance(doubled, TraceKernel)
    assert isinstance(doubled.lower(x), ir.Program)
    assert "elementwise" in doubled.lower(x).as_python() or "pl." in doubled.lower(x).as_python()
    np.testing.assert_array_equal(doubled.compile(x)(x), 2 * x)
    assert TraceContext.global_ctx is None


def test_r_042_named_errors_end_with_a_reference() -> None:
    @nki.jit
    def branches(x):  # type: ignore[no-untyped-def]
        t = nl.load(x)
        if t[0, 0] > 0:
            t = t * 2.0
        return t

    with pytest.raises(errors.TilewrightError) as caught:
        branches(np.ones((4, 8), F32))
    last = str(caught.value).strip().splitlines()[-1]
    assert "err_" in last and ("docs/" in last or "reference" in last)


@pytest.mark.parametrize("own", ["", "t = pl.load(x, [0], [8])\n        pl.store(t, [0], out)"])
def test_r_041_a_group_is_all_external_or_not_at_all(own: str, cpp: Path) -> None:
    params = "self, x: pl.Tensor[[8], pl.FP32], out: pl.Out[pl.Tensor[[8], pl.FP32]]"
    source = f", external_source={str(cpp)!r}"
    text = (
        "@pl.program\nclass P:\n"
        f"    @pl.function(type=pl.FunctionType.AIC{source})\n    def cube({params}): ...\n"
        f"    @pl.function(type=pl.FunctionType.AIV{'' if own else source})\n"
        f"    def vector({params}):\n        {own or '...'}\n"
        f"    @pl.function(type=pl.FunctionType.Group)\n    def group({params}):\n"
        "        self.cube(x, out)\n        self.vector(x, out)\n"
    )
    if not own:
        assert pl.parse_program(text)["group"].func_type is pl.FunctionType.Group
        return
    with pytest.raises(ParserSyntaxError, match=r"'cube', which is in C\+\+, and 'vector'"):
        pl.parse_program(text)
