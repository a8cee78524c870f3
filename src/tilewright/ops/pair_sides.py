"""A cube and a vector kernel in C++ of one group become the sides of one mixed kernel.

They take turns, the one that is called first begins, and they may wait for each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

from tilewright.ir.builder import Builder, finish_program
from tilewright.ir.core import Block, Function, Operation, Program
from tilewright.ir.rewrite import Cloner, rewrite_function
from tilewright.ops import external
from tilewright.ops.external_pairs import Pair, find_pairs, group_blocks, is_cluster, is_group
from tilewright.ops.facts import Facts


def pair_sides(program: Program) -> Program:
    """`program`, with the pairs of its groups and clusters as one operation each."""
    changed = {
        name: rewrite_function(function, lambda b, function=function: Pairing(b, program, function))
        for name, function in program.functions.items()
        if any(find_pairs(program, block) for block in group_blocks(function))
    }
    return finish_program(program.name, {**program.functions, **changed}) if changed else program


class Pairing(Cloner):
    """A cloner that makes pairs of calls."""

    def __init__(self, builder: Builder, program: Program, function: Function) -> None:
        super().__init__(builder)
        self.facts = Facts(program)
        self.in_group = is_group(function)

    def clone(self, op: Operation) -> Operation:
        outer = self.in_group
        self.in_group |= is_cluster(op)
        copy = super().clone(op)
        self.in_group = outer
        return copy

    def body(self, block: Block) -> None:
        pairs: Mapping[Operation, Pair] = {}
        if self.in_group:
            pairs = find_pairs(self.facts.program, block)
        firsts = {pair.first.op for pair in pairs.values()}
        for op in block.ops:
            if op in pairs:
                self.emit_pair(pairs[op])
            elif op not in firsts:
                self.clone(op)

    def emit_pair(self, pair: Pair) -> None:
        """The operation that stands for both calls, at the line of the first."""
        roots = {call: pair.roots(call) for call in (pair.first, pair.second)}
        written = list(
            dict.fromkeys(given[k] for call, given in roots.items() for k in call.written)
        )
        read = [v for v in dict.fromkeys(chain(*roots.values())) if v not in written]
        values = [*written, *read]
        operands = (tuple(map(self.value, written)), tuple(map(self.value, read)))
        attrs = self.mixed(pair, [[*map(values.index, roots[call])] for call in pair.calls])
        attrs["places"] = tuple(range(len(values)))
        made = self.builder.emit(external.kernel, operands, attrs, span=pair.first.op.span)
        for call, given in roots.items():
            for result, number in call.positions():
                self.bind(result, made.results[written.index(given[number])])

    def mixed(self, pair: Pair, shares: Sequence[Sequence[int]]) -> dict[str, Any]:
        """The attributes of the kernel of a pair."""
        cube, vector = (external.kernel_of(call.function) for call in pair.calls)
        return {
            **vector,
            "cube": (cube["function"], cube["source"], cube["include_dirs"]),
            "shares": tuple(map(tuple, shares)),
            "first": int(pair.first.is_vector),
            "lanes": max(vector["lanes"], self.facts.lanes(pair.calls[1].function.name)),
        }
