"""Calls published names on numpy arrays: as tiles, as tensors, through the interpreter."""

from __future__ import annotations

from typing import Any

import numpy as np

import tilewright.ops  # noqa: F401  (fills the registry)
from tilewright.dtypes import DType
from tilewright.frontend.operations import emit_call
from tilewright.interp import Interpreter
from tilewright.ir.builder import Builder, finish_program
from tilewright.ir.core import Block, Function, Operation, Value
from tilewright.ir.enums import MemorySpace, ParamDirection
from tilewright.ir.types import ScalarType, TensorType, Type
from tilewright.ops import control
from tilewright.ops.rules import tile_type


class Given:
    """An array as an operand of a chosen type."""

    def __init__(self, array: Any, type_: Type) -> None:
        self.array = array
        self.type = type_


def tile(
    array: Any, valid: tuple[int, ...] | None = None, space: MemorySpace = MemorySpace.Vec
) -> Given:
    array = np.asarray(array)
    return Given(array, tile_type(array.shape, DType.from_numpy(array.dtype), space, valid))


def tensor(array: Any) -> Given:
    array = np.asarray(array)
    return Given(array, TensorType(array.shape, DType.from_numpy(array.dtype)))


def scalar(value: Any, dtype: DType) -> Given:
    return Given(dtype.numpy.type(value), ScalarType(dtype))


class Call:
    """A program of one published call."""

    def __init__(self, path: str, *args: Any, **kwargs: Any) -> None:
        self.params: list[Value] = []
        self.arrays: list[Any] = []
        builder, self.block = Builder(), Block()
        with builder, builder.inside(self.block):
            given = emit_call(path, self.convert(args), self.convert(kwargs))
            self.results = (given,) if isinstance(given, Value) else tuple(given)
            control.return_(self.results, ())

    def convert(self, given: Any) -> Any:
        if isinstance(given, dict):
            return {name: self.convert(each) for name, each in given.items()}
        if isinstance(given, (tuple, list)):
            return [self.convert(each) for each in given]
        if not isinstance(given, Given):
            return given
        param = Value(given.type, f"x{len(self.params)}")
        self.params.append(param)
        self.arrays.append(given.array)
        return param

    @property
    def ops(self) -> list[Operation]:
        return [op for op in self.block.ops[:-1] if op.name != "arith.const"]

    @property
    def type(self) -> Any:
        return self.results[0].type

    def run(self) -> Any:
        directions = (ParamDirection.In,) * len(self.params)
        body = Block(tuple(self.params), self.block.ops)
        types = tuple(value.type for value in self.results)
        program = finish_program("call", {"main": Function("main", directions, body, types)})
        found = Interpreter(program).run("main", [np.array(each) for each in self.arrays])
        return found[0] if len(found) == 1 else found


def run(path: str, *args: Any, **kwargs: Any) -> Any:
    """The value of a published call."""
    return Call(path, *args, **kwargs).run()
