"""Checked mode runs tasks in any order that their declared dependencies allow."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright.language as pl
from dist.running import array, run, zeros
from tilewright import ir
from tilewright.runtime import RunConfig

T = pl.Tensor[[16, 16], pl.FP32]
INCORE, ORCHESTRATION = pl.FunctionType.InCore, pl.FunctionType.Orchestration


@pl.function(type=INCORE)
def double(x: T, out: pl.Out[T]) -> T:
    return pl.store(pl.mul(pl.load(x, [0, 0], [16, 16]), 2.0), [0, 0], out)


@pl.function(type=INCORE)
def add_one(x: pl.InOut[T]) -> T:
    return pl.store(pl.add(pl.load(x, [0, 0], [16, 16]), 1.0), [0, 0], x)


def program(body: Any) -> ir.Program:
    """A program whose orchestration is `body`."""
    return ir.Program("P", {"double": double, "add_one": add_one, "main": body})


def results(node: Any, *args: Any) -> set[bool]:
    """Whether checked mode gives what program order gives, over several shapes of the program."""
    wanted = zeros(16, 16)
    run(node, *args, wanted)
    found = zeros(16, 16)
    run(node, *args, found, checked=True)
    return {bool(np.array_equal(wanted, found))}


def test_data_flow_orders_tasks_by_itself() -> None:
    @pl.function(type=ORCHESTRATION)
    def main(x: T, out: pl.Out[T]) -> T:
        a = pl.create_tensor([16, 16], pl.FP32)
        b = pl.create_tensor([16, 16], pl.FP32)
        a = double(x, a)
        b = double(a, b)
        b = add_one(b)
        out = double(b, out)
        return out

    assert results(program(main), array(16, 16)) == {True}


def chained(linked: bool) -> ir.Program:
    """A chain of submitted tasks in a manual scope, with or without its dependencies."""
    if linked:

        @pl.function(type=ORCHESTRATION)
        def main(x: T, out: pl.Out[T]) -> T:
            a = pl.create_tensor([16, 16], pl.FP32)
            b = pl.create_tensor([16, 16], pl.FP32)
            with pl.manual_scope():
                a, first = pl.submit(double, x, a)
                b, second = pl.submit(double, a, b, deps=[first])
                b, third = pl.submit(add_one, b, deps=[second])
                out, last = pl.submit(double, b, out, deps=[third])
            return out

    else:

        @pl.function(type=ORCHESTRATION)
        def main(x: T, out: pl.Out[T]) -> T:
            a = pl.create_tensor([16, 16], pl.FP32)
            b = pl.create_tensor([16, 16], pl.FP32)
            with pl.manual_scope():
                a, first = pl.submit(double, x, a)
                b, second = pl.submit(double, a, b)
                b, third = pl.submit(add_one, b)
                out, last = pl.submit(double, b, out)
            return out

    return program(main)


def test_declared_dependencies_order_tasks_in_a_manual_scope() -> None:
    assert results(chained(linked=True), array(16, 16)) == {True}


def test_a_missing_dependency_shows_as_a_wrong_result() -> None:
    assert results(chained(linked=False), array(16, 16)) == {False}


def test_both_are_right_in_program_order_and_natively() -> None:
    x = array(16, 16)
    for linked in (True, False):
        out = zeros(16, 16)
        ir.compile(chained(linked))(x, out)
        np.testing.assert_array_equal(out, (4 * x + 1) * 2)


def test_a_compiled_program_is_checked_on_request() -> None:
    compiled = ir.compile(chained(linked=False))
    x, out = array(16, 16), zeros(16, 16)
    compiled(x, out, config=RunConfig(checked=True))
    assert not np.array_equal(out, (4 * x + 1) * 2)


def test_an_argument_that_orders_nothing_shows_too() -> None:
    @pl.function(type=ORCHESTRATION)
    def main(x: T, out: pl.Out[T]) -> T:
        a = pl.create_tensor([16, 16], pl.FP32)
        b = pl.create_tensor([16, 16], pl.FP32)
        c = pl.create_tensor([16, 16], pl.FP32)
        a = double(x, a)
        b = double(pl.no_dep(a), b)
        c = double(pl.no_dep(b), c)
        out = double(pl.no_dep(c), out)
        return out

    assert "pl.no_dep(a)" in main.as_python()
    assert results(program(main), array(16, 16)) == {False}


def test_ids_in_arrays_and_joins_are_dependencies() -> None:
    @pl.function(type=ORCHESTRATION)
    def main(x: T, out: pl.Out[T]) -> T:
        a = pl.create_tensor([16, 16], pl.FP32)
        b = pl.create_tensor([16, 16], pl.FP32)
        ids = pl.array.create(2, pl.TASK_ID)
        with pl.manual_scope():
            a, first = pl.submit(double, x, a)
            ids[0] = first
            b, second = pl.submit(double, x, b)
            ids[1] = second
            joined = pl.system.task_dummy(deps=[ids, None, pl.system.task_invalid()])
            with pl.at(level=pl.Level.CORE_GROUP, deps=[joined]) as last:
                t = pl.add(pl.load(a, [0, 0], [16, 16]), pl.load(b, [0, 0], [16, 16]))
                a = pl.store(t, [0, 0], a)
            out, end = pl.submit(double, a, out, deps=[last])
        return out

    assert "as last:" in main.as_python()
    assert results(program(main), array(16, 16)) == {True}


def test_loops_over_blocks_are_tasks() -> None:
    @pl.function(type=ORCHESTRATION)
    def main(x: T, out: pl.Out[T]) -> T:
        a = pl.create_tensor([16, 16], pl.FP32)
        with pl.manual_scope():
            a, first = pl.submit(double, x, a)
            for i in pl.spmd(4, deps=[first]):
                a = pl.store(pl.neg(pl.load(a, [i * 4, 0], [4, 16])), [i * 4, 0], a)
            with pl.spmd(2, deps=[first]) as second:
                row = pl.get_block_idx()
                out = pl.store(pl.load(x, [row, 0], [1, 16]), [row, 0], out)
        out = double(a, out)
        return out

    node = program(main)
    ir.assert_structural_equal(pl.parse(node.as_python()), node)
    x = array(16, 16)
    out = zeros(16, 16)
    run(node, x, out)
    np.testing.assert_array_equal(out, -4 * x)


def test_a_tensor_that_is_not_tracked_orders_nothing() -> None:
    @pl.function(type=ORCHESTRATION)
    def main(x: T, out: pl.Out[T]) -> T:
        a = pl.create_tensor([16, 16], pl.FP32, manual_dep=True)
        b = pl.create_tensor([16, 16], pl.FP32, manual_dep=True)
        c = pl.create_tensor([16, 16], pl.FP32, manual_dep=True)
        d = pl.create_tensor([16, 16], pl.FP32, manual_dep=True)
        a = double(x, a)
        b = double(a, b)
        c = double(b, c)
        d = double(c, d)
        out = double(d, out)
        return out

    assert results(program(main), array(16, 16)) == {False}


@pytest.mark.parametrize("n", [2, 3])
def test_a_task_whose_predicate_is_false_leaves_what_it_would_write(n: int) -> None:
    @pl.function(type=ORCHESTRATION)
    def main(x: T, n: pl.Scalar[pl.INDEX], out: pl.InOut[T]) -> T:
        out, tid = pl.submit(double, x, out, predicate=n == 3)
        return out

    node = ir.Program("P", {"double": double, "main": main})
    ir.assert_structural_equal(pl.parse(node.as_python()), node)
    x = array(16, 16)
    for options in ({}, {"checked": True}):
        out = zeros(16, 16)
        run(node, x, n, out, **options)
        np.testing.assert_array_equal(out, 2 * x if n == 3 else 0 * x)
