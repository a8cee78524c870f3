"""Nests that look like others of their kernel become functions, so that LLVM compiles one of each.

What differs between two such nests, buffers and places in them, comes through an environment.
Whether two functions are one is decided by their text (`Module.share`); here it is guessed, so that
nests without an equal stay where they are.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator

from tilewright.codegen.work import Work, estimate_one
from tilewright.ir.core import Block, Operation
from tilewright.ops import arith, control, loop
from tilewright.ops.touches import is_pure

LEAST_NS = 1_000
"""A call takes some ten nanoseconds: what is over soon stays in place."""

PLACELESS = (
    control.for_,
    control.if_,
    control.while_,
    loop.alloc,
    loop.copy,
    loop.load,
    loop.matmul,
    loop.store,
)
"""Operations that may do something and whose code does not name the author's line."""


def find_repeated(body: Block) -> frozenset[Operation]:
    """The nests of `body`, inner ones too, that look like another and are worth a call."""
    alike: dict[Hashable, list[Operation]] = {}
    for op in body.walk():
        if op.opdef is control.for_ and not op.operands[3]:
            alike.setdefault(looks(op), []).append(op)
    groups = [nests for look, nests in alike.items() if look and len(nests) > 1]
    return frozenset(nest for nests in groups if is_lasting(nests[0]) for nest in nests)


def is_lasting(nest: Operation) -> bool:
    """Whether a nest runs long enough for a call, or may."""
    work: Work = estimate_one(nest)
    return any(work) or work.get((), 0.0) >= LEAST_NS


def looks(op: Operation) -> Hashable:
    """What operations that are written alike have in common; None for what is written once."""
    inner = tuple(part for region in op.regions for part in map(looks, region.ops))
    if None in inner or not (is_pure(op) or op.opdef in PLACELESS or op.opdef.terminator):
        return None
    return (op.opdef, *own_looks(op), *inner)


def own_looks(op: Operation) -> Iterator[Hashable]:
    """What tells an operation from others of its kind: numbers and the layout of memory."""
    if op.opdef is arith.const:
        yield op.attrs["value"]
    for value in op.inputs:
        if value.op is not None and value.op.opdef is arith.const:
            yield value.op.attrs["value"]
        elif op.opdef in PLACELESS:
            yield value.type
