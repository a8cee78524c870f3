"""One op against its own page: type rule, reference and, where asked for, native code."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from tilewright.dtypes import INDEX, DType
from tilewright.errors import InternalError, ShapeMismatch
from tilewright.interp import Interpreter
from tilewright.ir.builder import Builder, finish_program
from tilewright.ir.core import Block, Function, Operation, Program, Value
from tilewright.ir.enums import ParamDirection
from tilewright.ir.opdef import OpDef
from tilewright.ir.types import ScalarType, ShapedType, TensorType, TileType, Type
from tilewright.ops import control
from tilewright.ops.sampling import Arg, Sample
from tilewright.testing.compare import assert_same_values

Runner = Callable[[Program, str, Sequence[Any]], Sequence[Any]]


def check_op(
    op: OpDef[..., Any],
    *operands: Any,
    operand_kind: str = "tile",
    operand_dtype: DType | None = None,
    native: Runner | None = None,
    **attrs: Any,
) -> tuple[Any, ...]:
    """Checks one use of `op` and gives its results, as numpy arrays.

    `operands`: numpy arrays (tiles, or tensors with `operand_kind="tensor"`), numpy scalars, None
    for an absent operand, a tuple of ints or scalars for a variadic one, or `Arg`s of a page's
    samples, which take `operand_dtype`. The results of the reference must have the shapes and
    dtypes that the type rule gives. `native(program, entry, arrays)` runs compiled code, which
    must agree with the reference to the bit, or within the ULPs that the page states. Raises
    AssertionError, or the error of the type rule.
    """
    program, arrays = one_op_program(
        op, operands, attrs, operand_kind=operand_kind, operand_dtype=operand_dtype
    )
    types = program["main"].return_types
    results = Interpreter(program).run("main", _copies(arrays))
    for position, (given, type_) in enumerate(zip(results, types, strict=True)):
        _require_type(f"{op.name}: result {position}", given, type_)
    if native is not None:
        compiled = native(program, "main", _copies(arrays))
        for position, pair in enumerate(zip(compiled, results, strict=True)):
            assert_same_values(*pair, f"{op.name}: native result {position}", op.ulp)
    return results


def one_op_program(
    op: OpDef[..., Any],
    operands: Sequence[Any],
    attrs: dict[str, Any],
    *,
    operand_kind: str = "tile",
    operand_dtype: DType | None = None,
    constant_indices: bool = False,
) -> tuple[Program, list[Any]]:
    """A program whose function "main" applies `op` once, and the arrays to call it with.

    INDEX operands are parameters or, with `constant_indices`, constants: some ops accept only
    offsets that the types know.
    """
    params: list[Value] = []
    arrays: list[Any] = []
    builder = Builder()
    block = Block()
    with builder, builder.inside(block):
        known = [as_constants(given) if constant_indices else given for given in operands]
        entries = [_entry(given, operand_kind, operand_dtype, params, arrays) for given in known]
        given = op(*entries, **attrs)
        results = _values(given)
        written = _written(block.ops[-1])
        control.return_(results, [written[param] for param in params if param in written])
    body = Block(tuple(params), block.ops)
    types = tuple(value.type for value in results)
    directions = tuple(
        ParamDirection.InOut if param in written else ParamDirection.In for param in params
    )
    return finish_program("one_op", {"main": Function("main", directions, body, types)}), arrays


def sample_program(op: OpDef[..., Any], sample: Sample, dtype: DType) -> tuple[Program, list[Any]]:
    """`one_op_program` of a page's sample, with constant offsets where the op asks for them."""
    attrs = dict(sample.attrs)
    try:
        return one_op_program(op, sample.entries, attrs, operand_dtype=dtype)
    except ShapeMismatch:
        return one_op_program(op, sample.entries, attrs, operand_dtype=dtype, constant_indices=True)


def as_constants(given: Any) -> Any:
    """An entry with the number of each INDEX operand in its place."""
    if isinstance(given, (tuple, list)):
        return tuple(map(as_constants, cast("Sequence[Any]", given)))
    is_index = isinstance(given, Arg) and given.kind == "scalar" and given.dtype is INDEX
    return Builder.current().index(int(given.array(INDEX))) if is_index else given


def _written(operation: Operation) -> dict[Value, Value]:
    """The new version of each tensor parameter that the op writes to."""
    pairs = (
        (operation.operands[operand], operation.results[result])
        for result, operand in operation.opdef.tied.items()
    )
    return {old: new for old, new in pairs if isinstance(new.type, TensorType)}


def _values(given: Any) -> tuple[Value, ...]:
    if given is None:
        return ()
    return (given,) if isinstance(given, Value) else tuple(given)


def _entry(
    given: Any, kind: str, dtype: DType | None, params: list[Value], arrays: list[Any]
) -> Any:
    if given is None or isinstance(given, (int, Value)):
        return given
    if isinstance(given, (tuple, list)):
        items = cast("Sequence[Any]", given)
        return tuple(_entry(item, kind, dtype, params, arrays) for item in items)
    type_, array = _typed(given, kind, dtype, len(params))
    value = Value(type_, f"x{len(params)}")
    params.append(value)
    arrays.append(array)
    return value


def _typed(given: Any, kind: str, dtype: DType | None, seed: int) -> tuple[Type, Any]:
    if isinstance(given, Arg):
        if dtype is None and given.dtype is None:
            raise InternalError("check_op: the operand leaves its dtype open; pass operand_dtype=")
        chosen = given.dtype or cast(DType, dtype)
        return given.type(chosen), given.array(chosen, seed)
    array = np.asarray(given)
    element = DType.from_numpy(array.dtype)
    if array.ndim == 0:
        return ScalarType(element), array[()]
    make = TensorType if kind == "tensor" else TileType
    return make(array.shape, element), array


def _copies(arrays: Sequence[Any]) -> list[Any]:
    return [copy.copy(array) for array in arrays]


def _require_type(what: str, given: Any, type_: Type) -> None:
    if not isinstance(type_, (ShapedType, ScalarType)):
        return
    array = np.asarray(given)
    wanted = type_.dtype.numpy
    if array.dtype != wanted:
        raise AssertionError(f"{what} has dtype {array.dtype}, but its type is {type_}")
    shape = type_.shape if isinstance(type_, ShapedType) else ()
    fits = array.ndim == len(shape) and all(
        not isinstance(extent, int) or extent == size
        for extent, size in zip(shape, array.shape, strict=True)
    )
    if not fits:
        raise AssertionError(f"{what} has shape {array.shape}, but its type is {type_}")
