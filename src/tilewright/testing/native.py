"""Native code for tests: a program compiled and called, and words mode for the interpreter.

Needs a working compiler on this machine; raises ToolchainError where there is none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from tilewright.dtypes import DType
from tilewright.ir.affine import Symbol, as_expr
from tilewright.ir.builder import Builder, finish_program
from tilewright.ir.core import Block, Function, Program, Value
from tilewright.ir.enums import ParamDirection
from tilewright.ir.opdef import OPS
from tilewright.ir.types import TensorType
from tilewright.jit.artifact import Artifact
from tilewright.jit.build import build, find_target
from tilewright.jit.options import CompileOptions
from tilewright.ops import control
from tilewright.testing.chains import fma_chain

Array = npt.NDArray[Any]


def compile_native(program: Program, entry: str = "main") -> Artifact:
    """Function `entry` of a tile-level program, compiled and ready to be called."""
    return build(program, entry, CompileOptions())


def call_native(artifact: Artifact, args: Sequence[Any]) -> tuple[Any, ...]:
    """Calls compiled code; gives what the function returns, as the interpreter gives it.

    Arrays of Out and InOut parameters are written in place. Raises the faults of the program.
    """
    given = artifact.kernel.run(artifact.calling.signature, args)
    results: list[Any] = [] if given is None else [given]
    if isinstance(given, tuple):
        results = list(cast("tuple[Any, ...]", given))
    for position in artifact.calling.scalars:
        results[position] = results[position][0]
    return tuple(results)


def run_native(program: Program, entry: str, args: Sequence[Any]) -> tuple[Any, ...]:
    """Compiles and calls once: what `check_op` takes as `native`."""
    return call_native(compile_native(program, entry), args)


class CompiledWords:
    """Words mode: scalar words as compiled code computes them, contractions as fma chains."""

    def __init__(self) -> None:
        self._words: dict[tuple[str, DType], Callable[..., Any]] = {}

    def word(self, name: str, dtype: DType) -> Callable[..., Any]:
        """The scalar word `name` ("arith.exp") on arrays of `dtype`, of any one shape."""
        key = (name, dtype)
        if key not in self._words:
            self._words[key] = _compiled_word(name, dtype)
        return self._words[key]

    def matmul(self, c: Array, a: Array, b: Array, **flags: bool) -> None:
        """`loop.matmul`: c becomes the fused chain over k, in order, rounded at each step."""
        fma_chain(c, a, b, flush=find_target().instructions.has_pair_dot, **flags)


def _compiled_word(name: str, dtype: DType) -> Callable[..., Any]:
    opdef = OPS["elementwise." + name.partition(".")[2]]
    type_ = TensorType((as_expr(Symbol("n", 0, None)),), dtype)
    params = tuple(Value(type_, f"x{k}") for k in range(len(opdef.operand_names)))
    block = Block()
    builder = Builder()
    with builder, builder.inside(block):
        result = cast(Value, opdef(*params))
        control.return_((result,), ())
    body = Block(params, block.ops)
    directions = (ParamDirection.In,) * len(params)
    function = Function("word", directions, body, (result.type,))
    artifact = compile_native(finish_program("word", {"word": function}), "word")

    def call(*arrays: Any) -> Any:
        same = np.broadcast_arrays(*arrays)
        shape = same[0].shape
        flat = [np.ascontiguousarray(array).reshape(-1) for array in same]
        (given,) = call_native(artifact, flat)
        return np.reshape(given, shape)[()]

    return call
