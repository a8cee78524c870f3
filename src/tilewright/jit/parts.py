"""Parts of windows that a host gives to kernels: where their elements are in memory.

A kernel works on a part where it is, for other ranks reach it meanwhile. So one that is given
columns is compiled for the strides that they have.
"""

from __future__ import annotations

from collections.abc import Iterable

from tilewright.dataclass import dataclass
from tilewright.ir.core import Function, Operation, Program, Value
from tilewright.ir.rewrite import copy_function
from tilewright.ir.types import DistributedTensorType, Shape, row_major_strides
from tilewright.ops import comm, control, shape
from tilewright.ops.control import LOOPS, tied_pairs
from tilewright.ops.shape import shape_of


@dataclass
class Parts:
    """What is given to callees: by position, the strides of all parts of windows there.

    They are None where they are not known, or not the same in every call.
    """

    of: dict[str, dict[int, Shape | None]]

    def are_known(self, name: str) -> bool:
        """True when function `name` can be compiled for what it is given."""
        return None not in self.of.get(name, {}).values()

    def placed(self, program: Program, name: str) -> Program:
        """`program` whose function `name` finds parameters where they are."""
        function = program[name]
        strides = [
            (position, given)
            for position, given in self.of.get(name, {}).items()
            if given != row_major_strides(shape_of(function.params[position]))
        ]
        if not strides:
            return program
        attrs = {**function.attrs, "strides": tuple(strides)}
        changed = copy_function(function, function.body, attrs=attrs)
        return Program(program.name, {**program.functions, name: changed}, program.span)


def find_parts(functions: Iterable[Function]) -> Parts:
    """What `functions` give to those that they call."""
    found: dict[str, dict[int, Shape | None]] = {}
    for function in functions:
        sources = find_sources(function)
        for op in function.body.walk():
            args: tuple[Value, ...] = op.operands[0] if op.opdef is control.call else ()
            for position, value in enumerate(args):
                if isinstance(value.type, DistributedTensorType):
                    given = found.setdefault(op.attrs["callee"], {})
                    strides = strides_of(value, sources)
                    same = given.setdefault(position, strides) == strides
                    given[position] = strides if same else None
    return Parts(found)


def find_sources(function: Function) -> dict[Value, list[Value]]:
    """The windows that the windows of loops and branches are, as versions are one memory."""
    found: dict[Value, list[Value]] = {}
    for op in function.body.walk():
        for value, heir in handed_on(op):
            found.setdefault(heir, []).append(value)
    return found


def handed_on(op: Operation) -> list[tuple[Value, Value]]:
    """Pairs of a value that an operation has and another name of it in or after its regions."""
    if op.opdef in LOOPS:
        inits: tuple[Value, ...] = op.operands[-1]
        heads = [region.params[len(region.params) - len(inits) :] for region in op.regions]
        return [pair for names in (*heads, op.results) for pair in zip(inits, names)]
    if op.opdef in (control.if_, control.scope):
        ends = [region.terminator.operands[0] for region in op.regions]
        return [pair for given in ends for pair in zip(given, op.results)]
    return [(old, new) for new, old in tied_pairs(op)]


def strides_of(value: Value, sources: dict[Value, list[Value]]) -> Shape | None:
    """How far the elements of a window, or of a part of one, are apart, by axis, if it is known.

    An axis of extent 1 has the stride that it would have in memory without gaps.
    """
    if value in sources:
        first, *others = (strides_of(source, sources) for source in sources[value])
        return first if all(other == first for other in others) else None
    op = value.op
    if op is not None and op.opdef is comm.window:
        return row_major_strides(shape_of(value))
    if op is None or op.opdef is not shape.slice_:
        return None
    whole = strides_of(op.operands[0], sources)
    if whole is None:
        return None
    drop: tuple[int, ...] = op.attrs["drop_dims"]
    kept = [stride for axis, stride in enumerate(whole) if axis not in drop]
    extents = shape_of(value)
    dense = row_major_strides(extents)
    return tuple(d if n == 1 else s for n, s, d in zip(extents, kept, dense))
