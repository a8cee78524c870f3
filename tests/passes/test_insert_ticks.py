"""Clocks around nests: every moment belongs to one of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tilewright.nki as nki
import tilewright.nki.language as nl
from tilewright.ir.core import Block, Operation
from tilewright.ir.enums import ForKind
from tilewright.jit.build import lower
from tilewright.ops import control, loop
from tilewright.passes.insert_ticks import SHARED, insert_ticks

X = np.ones((4, 64, 128), np.float32)


def by_pages(x: Any) -> Any:
    """A loop over pages with several nests inside."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for n in nl.affine_range(4):
        tile = nl.load(x[n])
        nl.store(out[n], nl.exp(tile) / nl.sum(nl.exp(tile), axis=1, keepdims=True))
    return out


def by_products(x: Any) -> Any:
    """A loop with products inside."""
    out = nl.ndarray((4, 128, 128), dtype=x.dtype, buffer=nl.shared_hbm)
    for n in nl.affine_range(4):
        tile = nl.load(x[n])
        nl.store(out[n], nl.matmul(tile, tile, transpose_x=True))
    return out


def at_once(x: Any) -> Any:
    """One nest, with nothing around it."""
    out = nl.ndarray((64, 128), dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.exp(nl.load(x[0])))
    return out


def ticked(kernel: Callable[..., Any]) -> tuple[Block, Block]:
    """The body of a lowered kernel without clocks, and with them."""
    program = nki.jit(kernel).specialize(X).program
    (entry,) = program.functions
    lowered = lower(program, entry)
    return lowered[entry].body, insert_ticks(lowered, entry).program[entry].body


def shared(body: Block) -> list[Operation]:
    return [op for op in body.walk() if op.attrs.get("kind") in SHARED]


def around_clocks(body: Block) -> Iterator[Operation]:
    for op in body.walk():
        if op.opdef is control.for_ and any(i.opdef is loop.tick for i in op.regions[0].walk()):
            yield op


@pytest.mark.parametrize("kernel", [by_pages, by_products])
def test_loops_around_clocks_run_in_order_with_all_that_is_inside(kernel: Any) -> None:
    plain, clocked = ticked(kernel)
    assert shared(plain)
    around = list(around_clocks(clocked))
    assert around and all(op.attrs["kind"] is ForKind.Sequential for op in around)
    assert not any(shared(op.regions[0]) for op in around)


def test_a_nest_with_nothing_around_it_is_shared_as_without_clocks() -> None:
    plain, clocked = ticked(at_once)
    assert not list(around_clocks(clocked))
    assert len(shared(clocked)) == len(shared(plain)) > 0
