"""Loops over blocks and lanes as Python: told apart by index, or run together where they meet."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

from tilewright.errors import UnsupportedFeatureError
from tilewright.interp import control as plain
from tilewright.interp.emit import Emitter, handles, tuple_text
from tilewright.interp.meeting import Crew
from tilewright.interp.participants import Actor, run_together
from tilewright.interp.rings import Group
from tilewright.interp.support import NAMESPACE
from tilewright.ir.core import Block, Operation, Value
from tilewright.ir.enums import ForKind
from tilewright.ops import control
from tilewright.ops.facts import BLOCKS
from tilewright.ops.participant import Participant, participant, running_as, title

Place = Callable[[Actor, int], None]
FIELDS = ("rank", "size", "block", "blocks", "lane", "lanes")


@contextmanager
def one_of(lanes: bool, index: int, count: int) -> Generator[None]:
    """This thread runs one block, or lane, for the duration."""
    me = participant()
    one = me if isinstance(me, Actor) else Participant()
    before = {name: getattr(me, name) for name in FIELDS}
    now = {"lane": index, "lanes": count} if lanes else {"block": index, "blocks": count}
    vars(one).update({**before, **now})
    try:
        with running_as(one):
            yield
    finally:
        vars(one).update(before)


def run_blocks(
    crew: str, body: Callable[..., None], steps: range, carried: tuple[Any, ...]
) -> None:
    """Runs the iterations of a loop at the same time, as what `crew` calls them."""
    me = participant()
    assert isinstance(me, Actor)
    rank = f" of rank {me.rank}" if me.size > 1 else ""
    place = GROUPED[crew](len(steps))
    actors: list[Actor] = []
    jobs: list[Callable[[], None]] = []
    for position, index in enumerate(steps):
        actor = Actor(me.stage, me, title(crew, index) + rank, me.locate)
        place(actor, position)
        actors.append(actor)
        jobs.append(lambda index=index: body(index, *carried))
    if jobs:
        run_together(actors, jobs)


def as_blocks(count: int) -> Place:
    """Blocks that meet."""
    crew = Crew(count)

    def place(actor: Actor, position: int) -> None:
        actor.crew, actor.block, actor.blocks = crew, position, count

    return place


def as_lanes(count: int) -> Place:
    """Lanes that meet."""
    crew = Crew(count)

    def place(actor: Actor, position: int) -> None:
        actor.crew, actor.lane, actor.lanes = crew, position, count

    return place


def as_sides(count: int) -> Place:
    """The sides of a group: the cube core, then vector lanes."""
    group = Group(count - 1)

    def place(actor: Actor, position: int) -> None:
        actor.group, actor.is_cube = group, position == 0
        actor.lane, actor.lanes = max(0, position - 1), count - 1

    return place


GROUPED: dict[str, Callable[[int], Place]] = {
    "block": as_blocks,
    "lane": as_lanes,
    "side": as_sides,
}


def require_same(carried: tuple[Any, ...], given: tuple[Any, ...]) -> None:
    """Blocks that run together write into what they share; a whole new value has no place."""
    for before, after in zip(carried, given):
        if before is not after:
            raise UnsupportedFeatureError(
                "blocks that wait for each other write parts of a tensor; one of them replaces it",
                hint="Write with pl.store or out[a:b] = value instead of binding a new value.",
            )


NAMESPACE.update({"one_of": one_of, "run_blocks": run_blocks, "require_same": require_same})


@handles(control.for_)
def emit_for(e: Emitter, op: Operation) -> None:
    """A loop over blocks or lanes where that matters; any other as ever."""
    facts, region = e.mode.facts, op.regions[0]
    if op.attrs["kind"] is ForKind.Together:
        emit_together(e, op, dict(op.attrs["attrs"])["crew"])
    elif op.attrs["kind"] not in BLOCKS or facts is None:
        plain.emit_for(e, op)
    elif facts.region_waits(region):
        emit_together(e, op, "lane" if op.attrs["kind"] is ForKind.SplitAiv else "block")
    elif facts.region_asks_who(region):
        emit_told_apart(e, op)
    else:
        plain.emit_for(e, op)


def _steps(e: Emitter, op: Operation) -> str:
    return f"range({', '.join(map(e.name, op.operands[:3]))})"


def emit_told_apart(e: Emitter, op: Operation) -> None:
    """One iteration after the other, each knowing which it is."""
    index, *carried = op.regions[0].params
    carries = plain.enter_loop(e, op.operands[3], op.results, carried)
    steps = e.text.fresh("steps")
    e.text.line(f"{steps} = {_steps(e, op)}")
    lanes = op.attrs["kind"] is ForKind.SplitAiv
    shuffles = e.mode.checked and not carried
    order = f"shuffled({steps})" if shuffles else steps
    with (
        e.suite(f"for {e.define(index)} in {order}:"),
        e.suite(f"with one_of({lanes}, {steps}.index({e.name(index)}), len({steps})):"),
    ):
        e.assign(carries, e.block(op.regions[0]))


def emit_together(e: Emitter, op: Operation, crew: str) -> None:
    """A function per iteration, all run at the same time on the same carried tensors."""
    region = op.regions[0]
    if any(not hasattr(value.type, "shape") for value in op.results):
        raise UnsupportedFeatureError(
            "blocks that wait for each other cannot carry scalars",
            op.span,
            "Bind a scalar of each block in the body of the loop; write what they share.",
        )
    carries = plain.enter_loop(e, op.operands[3], op.results)
    name = e.text.fresh("block")
    emit_function(e, name, region)
    e.text.line(f"run_blocks({crew!r}, {name}, {_steps(e, op)}, {tuple_text(carries)})")


def emit_function(e: Emitter, name: str, region: Block) -> None:
    """A nested function of the region's parameters, which must give them back."""
    params = e.define_all(region.params)
    with e.suite(f"def {name}({', '.join(params)}):"):
        given = e.block(region)
        e.text.line(f"require_same({tuple_text(params[1:])}, {tuple_text(given)})")


def region_inputs(region: Block) -> list[Value]:
    """What a region uses of what is defined around it, in order of use."""
    inner: set[Value] = set(region.params)
    for op in region.walk():
        inner.update(op.results)
        for block in op.regions:
            inner.update(block.params)
    outer = (value for op in region.walk() for value in op.inputs if value not in inner)
    return list(dict.fromkeys(outer))
