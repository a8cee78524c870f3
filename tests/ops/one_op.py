"""A program that applies one op to the operands of a sample, and its run at each level."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import tilewright.ops  # noqa: F401  (fills the registry)
from tilewright.dtypes import INDEX, DType
from tilewright.interp import Interpreter
from tilewright.ir.builder import Builder, finish_program
from tilewright.ir.core import Block, Function, Operation, Program, Value
from tilewright.ir.enums import ParamDirection
from tilewright.ir.opdef import OPS, OpDef, values_of
from tilewright.ir.types import ShapedType, TensorType
from tilewright.ops import control
from tilewright.ops.sampling import Arg, Sample
from tilewright.passes.pipeline import lower

SAMPLED: dict[str, tuple[Sample, ...]] = {
    name: tuple(opdef.make_samples()) for name, opdef in OPS.items() if opdef.make_samples
}


def cases(refused: bool, every_dtype: bool = True) -> list[Any]:
    """(name, sample, dtype) of every accepted, or every refused, use on every page."""
    return [
        pytest.param(name, sample, dtype, id=f"{name}-{number}-{dtype.name}")
        for name, samples in SAMPLED.items()
        for number, sample in enumerate(samples)
        for dtype in (sample.dtypes if every_dtype else sample.dtypes[:1])
        if (sample.error is not None) is refused
    ]


def with_offsets() -> list[Any]:
    """The accepted uses that have INDEX scalars among their operands."""
    return [case for case in cases(refused=False, every_dtype=False) if has_index(case.values[1])]


def has_index(sample: Sample) -> bool:
    flat = [e for entry in sample.entries for e in (entry if isinstance(entry, tuple) else [entry])]
    return any(isinstance(arg, Arg) and arg.dtype is INDEX for arg in flat)


class OneOp:
    """The program `main` of a sample, and arguments for it."""

    def __init__(self, opdef: OpDef[..., Any], sample: Sample, dtype: DType, known: bool) -> None:
        self.dtype = dtype
        self.known = known
        self.params: list[Value] = []
        self.arrays: list[Any] = []
        builder, block = Builder(), Block()
        with builder, builder.inside(block):
            entries = [self.entry(entry) for entry in sample.entries]
            opdef(*entries, **sample.attrs)
            self.operation = block.ops[-1]
            for number, result in enumerate(self.operation.results):
                result.name = f"y{number}"
            written = self.written()
            rest = [value for value in self.operation.results if value not in written.values()]
            finals = [written[param] for param in self.params if param in written]
            control.return_(rest, finals)
        directions = tuple(
            ParamDirection.InOut if param in written else ParamDirection.In for param in self.params
        )
        body = Block(tuple(self.params), block.ops)
        function = Function("main", directions, body, tuple(value.type for value in rest))
        self.program: Program = finish_program("one_op", {"main": function})

    def written(self) -> dict[Value, Value]:
        """New version of each tensor parameter that the op writes to."""
        operation: Operation = self.operation
        return {
            values_of(operation.operands[operand])[0]: operation.results[result]
            for result, operand in operation.opdef.tied.items()
            if isinstance(operation.results[result].type, TensorType)
        }

    def entry(self, given: Any) -> Any:
        if isinstance(given, (tuple, list)):
            return tuple(map(self.entry, given))
        if not isinstance(given, Arg):
            return given
        array = given.array(self.dtype, len(self.params))
        if given.kind == "scalar" and given.dtype is INDEX and self.known:
            return Builder.current().index(int(array))
        param = Value(given.type(self.dtype), f"x{len(self.params)}")
        self.params.append(param)
        self.arrays.append(array)
        return param

    def arguments(self) -> list[Any]:
        return [np.array(a) if isinstance(a, np.ndarray) else a for a in self.arrays]

    def interpreted(self) -> list[Any]:
        """Returned values, then the arguments afterwards."""
        arrays = self.arguments()
        return [*Interpreter(self.program).run("main", arrays), *arrays]

    def lowered(self) -> list[Any]:
        """The same through the loop level, interpreted in checked mode."""
        low = lower(self.program, "main")
        arrays = self.arguments()
        whole = [*arrays, *map(memory_for, low["main"].params[len(arrays) :])]
        Interpreter(low, checked=True).run("main", whole)
        results: Sequence[tuple[str, int]] = low["main"].attrs["results"]
        found = [whole[k] if kind == "tensor" else whole[k][0] for kind, k in results]
        return [*found, *arrays]


def memory_for(param: Value) -> Any:
    type_ = param.type
    assert isinstance(type_, ShapedType)
    return np.zeros(tuple(map(int, type_.shape)), type_.dtype.numpy)


def pairs(left: Sequence[Any], right: Sequence[Any]) -> Iterator[tuple[int, Any, Any]]:
    for position, (a, b) in enumerate(zip(left, right, strict=True)):
        yield position, a, b
