"""Scopes: what they keep, and what leaves them."""

from typing import Any

import numpy as np
import pytest

import tilewright.language as pl
from tilewright.errors import (
    ParserSyntaxError,
    ParserTypeError,
    UnsupportedFeatureError,
)
from tilewright.ops import control
from unit.frontend.parsed_kernels import array, execute, settled

TB = pl.Tensor[[16, 16], pl.FP32]


def scopes(function: Any) -> list[Any]:
    return [op for op in function.body.walk() if op.opdef is control.scope]


def read(header: str) -> Any:
    text = f"""
@pl.function
def f(x: pl.Tensor[[16, 16], pl.FP32], n: pl.Scalar[pl.INDEX]):
    {header}
        y = pl.exp(x)
    return y
"""
    return pl.parse(text)


def test_names_bound_in_a_scope_are_visible_after_it() -> None:
    @pl.function
    def f(x: TB) -> TB:
        with pl.at(level=pl.Level.CORE_GROUP):
            unused = pl.exp(x)
            y = pl.add(x, 1.0)
            z = pl.mul(y, 2.0)
        return pl.sub(z, y)

    x = array(16, 16)
    np.testing.assert_array_equal(execute(f, x), (x + 1) * 2 - (x + 1))
    (scope,) = scopes(f)
    assert [value.name for value in scope.results] == ["y", "z"]


def test_a_bare_store_in_a_scope_writes_the_output() -> None:
    @pl.function
    def add_three(x: TB, out: pl.Out[TB]) -> TB:
        with pl.at(level=pl.Level.CORE_GROUP):
            tile = pl.load(x, [0, 0], [16, 16])
            pl.store(pl.add(tile, 3.0), [0, 0], out)
        return out

    x, out = array(16, 16), np.zeros((16, 16), np.float32)
    execute(add_three, x, out)
    np.testing.assert_array_equal(out, x + 3)


def test_arguments_are_kept_as_written() -> None:
    f = read(
        'with pl.at(level=pl.Level.CORE_GROUP, name_hint="k", '
        "optimizations=[pl.split(pl.SplitMode.UP_DOWN), pl.cross_core_slot(slot_num=2)]):"
    )
    (scope,) = scopes(settled(f))
    given = dict(scope.attrs["attrs"])
    assert given["level"] is pl.Level.CORE_GROUP
    assert given["optimizations"][0] == pl.split(pl.SplitMode.UP_DOWN)


@pytest.mark.parametrize(
    ("header", "kind"),
    [
        ("with pl.at(pl.Level.HOST, role=pl.Role.SubWorker):", "at"),
        ("with pl.cluster():", "cluster"),
        ("with pl.scope(mode=pl.ScopeMode.MANUAL):", "scope"),
        ("with pl.manual_scope():", "manual_scope"),
        ('with pl.graph("layer"):', "graph"),
    ],
)
def test_each_scope_word_is_kept(header: str, kind: str) -> None:
    (scope,) = scopes(settled(read(header)))
    assert scope.attrs["kind"] == kind


def test_blocks_and_lanes_are_loops() -> None:
    @pl.function
    def f(x: TB, out: pl.Out[TB]) -> TB:
        for i in pl.spmd(4):
            pl.store(pl.load(x, [i * 4, 0], [4, 16]), [i * 4, 0], out)
        for lane in pl.split_aiv(2, mode=pl.SplitMode.NONE):
            pl.store(pl.load(x, [lane, 0], [1, 16]), [lane, 0], out)
        return out

    x, out = array(16, 16), np.zeros((16, 16), np.float32)
    execute(f, x, out)
    np.testing.assert_array_equal(out, x)
    assert "pl.split_aiv(2, mode=pl.SplitMode.NONE" in f.as_python()


def test_a_scope_of_blocks_runs_once_for_each() -> None:
    @pl.function
    def f(x: TB, out: pl.Out[TB]) -> TB:
        with pl.spmd(4, name_hint="rows"):
            first = pl.get_block_idx() * 4
            count = pl.tile.get_block_num()
            t = pl.mul(pl.load(x, [first, 0], [4, 16]), pl.cast(count, pl.FP32))
            written = pl.store(t, [first, 0], out)
        return written

    x, out = array(16, 16), np.zeros((16, 16), np.float32)
    execute(f, x, out)
    np.testing.assert_array_equal(out, x * 4)


def test_outside_a_loop_over_blocks_the_caller_says_which_runs() -> None:
    @pl.program
    class P:
        @pl.function(type=pl.FunctionType.InCore)
        def scale(self, x: TB, out: pl.Out[TB]) -> TB:
            first = pl.get_block_idx() * 4
            t = pl.load(x, [first, 0], [4, 16])
            out = pl.store(pl.mul(t, pl.cast(pl.get_block_num(), pl.FP32)), [first, 0], out)
            return out

        @pl.function(type=pl.FunctionType.Orchestration)
        def main(self, x: TB, out: pl.Out[TB]) -> TB:
            with pl.spmd(4):
                out = self.scale(x, out)
            return out

    assert "pl.get_block_idx()" in settled(P)["scale"].as_python()


def test_the_lane_index_is_that_of_the_lanes() -> None:
    @pl.function
    def f(x: TB, out: pl.Out[TB]) -> TB:
        for lane in pl.split_aiv(2, mode=pl.SplitMode.NONE):
            pl.store(pl.load(x, [lane, 0], [1, 16]), [pl.get_subblock_idx(), 0], out)
        return out

    x, out = array(16, 16), np.zeros((16, 16), np.float32)
    execute(f, x, out)
    np.testing.assert_array_equal(out[:2], x[:2])


def test_tasks_are_submitted_in_program_order() -> None:
    @pl.program
    class P:
        @pl.function(type=pl.FunctionType.InCore)
        def double(self, x: TB, out: pl.Out[TB]) -> TB:
            return pl.store(pl.mul(pl.load(x, [0, 0], [16, 16]), 2.0), [0, 0], out)

        @pl.function(type=pl.FunctionType.Orchestration)
        def main(self, x: TB, out: pl.Out[TB]) -> TB:
            ids = pl.array.create(2, pl.TASK_ID)
            tmp = pl.create_tensor([16, 16], pl.FP32)
            with pl.manual_scope():
                once, first = pl.submit(self.double, x, tmp, deps=[None])
                ids[0] = first
                twice, second = pl.submit(self.double, pl.no_dep(once), out, deps=[ids, first])
            joined = pl.system.task_dummy(deps=[second, pl.system.task_invalid()])
            with pl.at(level=pl.Level.CORE_GROUP, deps=[joined], no_dep_args=[x]):
                unused = pl.exp(x)
            return twice

    x, out = array(16, 16), np.zeros((16, 16), np.float32)
    execute(P, x, out)
    np.testing.assert_array_equal(out, x * 4)


def test_dependencies_are_task_ids() -> None:
    with pytest.raises(ParserTypeError, match="deps= takes task ids"):
        read("with pl.at(level=pl.Level.CORE_GROUP, deps=[n]):")
    with pytest.raises(ParserSyntaxError, match="has no argument 'predicate'"):
        read("with pl.at(level=pl.Level.CORE_GROUP, predicate=n == 3):")


def test_blocks_are_none_when_their_predicate_is_false() -> None:
    @pl.function
    def f(x: TB, n: pl.Scalar[pl.INDEX], out: pl.InOut[TB]) -> TB:
        for i in pl.spmd(4, predicate=n == 3):
            out = pl.store(pl.load(x, [i * 4, 0], [4, 16]), [i * 4, 0], out)
        return out

    x = array(16, 16)
    for n in (2, 3):
        out = np.zeros((16, 16), np.float32)
        execute(f, x, n, out)
        np.testing.assert_array_equal(out, x if n == 3 else 0 * x)


def test_a_task_id_names_a_scope() -> None:
    @pl.function
    def f(x: TB) -> TB:
        with pl.at(level=pl.Level.CORE_GROUP) as first:
            y = pl.exp(x)
        with pl.at(level=pl.Level.CORE_GROUP, deps=[first, None]):
            z = pl.exp(y)
        return z

    assert len(scopes(f)[1].operands[0]) == 1


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("with pl.at(level=pl.Level.CORE_GROUP, nam_hint='x'):", "no argument 'nam_hint'"),
        ("with pl.range(4):", "does not open a scope"),
        ("with pl.cluster(3):", "does not open a scope"),
    ],
)
def test_a_malformed_scope_is_refused(header: str, message: str) -> None:
    with pytest.raises(ParserSyntaxError, match=message):
        read(header)


def test_core_scopes_do_not_nest() -> None:
    with pytest.raises(ParserSyntaxError, match="cannot stand inside another"):

        @pl.function
        def f(x: TB) -> TB:
            with pl.at(level=pl.Level.CORE_GROUP):
                with pl.at(level=pl.Level.CORE_GROUP):
                    y = pl.exp(x)
            return y


@pytest.mark.parametrize(
    "around",
    [
        'with pl.graph("outer"):',
        "with pl.at(level=pl.Level.CORE_GROUP):",
        "with pl.cluster():",
        "with pl.spmd(4):",
        "for i in pl.spmd(4):",
    ],
)
def test_graphs_are_recorded_outside_of_what_runs_on_cores(around: str) -> None:
    with pytest.raises(ParserSyntaxError, match="cannot stand inside pl"):
        read(f'{around}\n        with pl.graph("inner"): z = pl.exp(x)')


def test_other_contexts_are_refused() -> None:
    with pytest.raises(UnsupportedFeatureError, match="Unsupported context"):
        read("with open('x'):")
