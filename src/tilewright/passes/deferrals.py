"""Waits that come at the end of a task: the number that each slot of a signal has to reach.

The numbers are in memory of the task, an element for each slot, because a loop may defer any
number of waits. The end of the task waits for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field

from tilewright.abi import WAIT_VALUES
from tilewright.dataclass import dataclass
from tilewright.dtypes import INT32
from tilewright.ir.affine import Expr, Symbol, as_expr
from tilewright.ir.core import Operation, Value
from tilewright.ir.types import Shape
from tilewright.ops import loop, meeting
from tilewright.passes.scopes import Scopes
from tilewright.passes.storage import Storage

LEAST = -(2**31)


@dataclass
class Deferral:
    """What one operation defers: the slots, and the numbers that they have to reach."""

    op: Operation
    signal: Storage
    awaited: Value


@dataclass
class Deferrals:
    """What a task, which is the block of scope number `depth`, does after everything else."""

    depth: int
    noted: list[Deferral] = field(default_factory=list[Deferral])

    def note(self, scopes: Scopes, op: Operation, signal: Storage) -> Value:
        """The numbers that the slots of a signal have to reach because of `op`, none at first."""
        with scopes.outside(self.depth):
            awaited = loop.alloc(shape=signal.shape, dtype=INT32)
            awaited.name = "awaited"
            least = scopes.constant(LEAST, INT32)
            for_each(scopes, signal.shape, lambda at: loop.store(awaited, at, least, None))
        self.noted.append(Deferral(op, signal, awaited))
        return awaited

    def settle(self, scopes: Scopes) -> None:
        """Waits for all of them."""
        for each in self.noted:
            rank = len(each.signal.shape)
            place = f" [{', '.join(f'{{{k + 1}}}' for k in range(rank))}]"
            what = f"signal{place if rank <= WAIT_VALUES else ''} >= {{0}}"

            def wait(at: tuple[Value, ...], each: Deferral = each, what: str = what) -> None:
                number = loop.load(each.awaited, at, None)
                shown = at if len(at) <= WAIT_VALUES else ()
                meeting.wait(each.signal.buffer, at, number, shown, what=what)

            with scopes.at(scopes.current, each.op.span):
                for_each(scopes, each.signal.shape, wait)


def for_each(scopes: Scopes, shape: Shape, act: Callable[[tuple[Value, ...]], object]) -> None:
    """Acts on every element of an array."""
    places: list[Expr] = []

    def level(axis: int) -> Sequence[Value]:
        if axis == len(shape):
            act(scopes.indices(places))
            return ()
        symbol = Symbol("i", 0, as_expr(shape[axis]) - 1)

        def body() -> Sequence[Value]:
            places.append(as_expr(symbol))
            return level(axis + 1)

        scopes.loop(shape[axis], symbol, body)
        return ()

    level(0)
