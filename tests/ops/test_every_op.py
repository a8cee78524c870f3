"""Derived from the pages: every op × sample × dtype. Nobody writes these by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ops.one_op import SAMPLED, cases
from tilewright.dtypes import DType
from tilewright.ir.builder import Builder
from tilewright.ir.core import Operation, Value
from tilewright.ir.enums import Effect
from tilewright.ir.opdef import OPS, OpDef
from tilewright.ir.types import ScalarType, ShapedType
from tilewright.ops.sampling import Arg, Sample

WITHOUT_SAMPLES = (
    "arith.",
    "array.",
    "control.",
    "external.",
    "host.",
    "loop.",
    "prefetch.",
    "task.current",
)
"""Families tested elsewhere: scalar words through their elementwise ops, the others by hand."""


def map_entry(entry: Any, change: Any) -> Any:
    if isinstance(entry, Arg):
        return change(entry)
    return None if entry is None else tuple(map(change, entry))


def value_of(arg: Arg, dtype: DType) -> Value:
    """An operand; INDEX scalars are constants, so that windows are known."""
    type_ = arg.type(dtype)
    if isinstance(type_, ScalarType) and type_.dtype.is_int():
        return Builder.current().constant(int(arg.array(dtype)), type_.dtype)
    return Value(type_, "x")


def emit(opdef: OpDef[..., Any], sample: Sample, dtype: DType) -> Operation:
    entries = [map_entry(entry, lambda arg: value_of(arg, dtype)) for entry in sample.entries]
    entries += [None] * (len(opdef.operand_names) - len(entries))
    attrs = {**opdef.attr_defaults, **sample.attrs}
    return Builder.current().emit(opdef, tuple(entries), attrs)


def arrays(sample: Sample, dtype: DType) -> list[Any]:
    seeds = iter(range(100))
    return [map_entry(entry, lambda arg: arg.array(dtype, next(seeds))) for entry in sample.entries]


def evaluate(opdef: OpDef[..., Any], operation: Operation, inputs: list[Any]) -> tuple[Any, ...]:
    inputs = inputs + [None] * (len(opdef.operand_names) - len(inputs))
    assert opdef.evaluate is not None, f"{opdef.name} has no reference"
    result = opdef.evaluate(*inputs, **operation.attrs)
    return result if isinstance(result, tuple) else (result,)


@pytest.mark.parametrize("name", sorted(OPS))
def test_every_op_says_what_it_does(name: str) -> None:
    assert OPS[name].__doc__, f"{name} has no docstring"


@pytest.mark.parametrize("name", sorted(OPS))
def test_every_op_has_samples(name: str) -> None:
    accepted = any(sample.error is None for sample in SAMPLED.get(name, ()))
    elsewhere = name.startswith((*WITHOUT_SAMPLES, "comm.")) or OPS[name].effect is Effect.COMM
    assert accepted or elsewhere


@pytest.mark.parametrize(("name", "sample", "dtype"), cases(refused=False))
def test_the_type_rule_agrees_with_the_meaning(name: str, sample: Sample, dtype: DType) -> None:
    opdef = OPS[name]
    with Builder():
        operation = emit(opdef, sample, dtype)
        found = evaluate(opdef, operation, arrays(sample, dtype))
    assert len(found) == len(operation.results)
    for array, value in zip(found, operation.results, strict=True):
        type_ = value.type
        assert isinstance(type_, (ShapedType, ScalarType))
        assert np.asarray(array).dtype == type_.dtype.numpy
        assert np.shape(array) == (type_.shape if isinstance(type_, ShapedType) else ())


@pytest.mark.parametrize(("name", "sample", "dtype"), cases(refused=True))
def test_a_bad_use_is_refused_by_name(name: str, sample: Sample, dtype: DType) -> None:
    assert sample.error is not None
    with Builder(), pytest.raises(sample.error) as caught:
        emit(OPS[name], sample, dtype)
    assert type(caught.value) is sample.error


def same_entry(given: Any, wanted: Any) -> bool:
    """The same operands: constants by value, other values by identity."""
    if isinstance(given, tuple):
        return len(given) == len(wanted) and all(map(same_entry, given, wanted))
    if given is wanted:
        return True
    ops = [value.op if isinstance(value, Value) else None for value in (given, wanted)]
    return None not in ops and ops[0].attrs == ops[1].attrs and ops[0].name == "arith.const"


@pytest.mark.parametrize(("name", "sample", "dtype"), cases(refused=False))
def test_the_printed_call_builds_the_same_op(name: str, sample: Sample, dtype: DType) -> None:
    opdef = OPS[name]
    with Builder() as builder:
        operation = emit(opdef, sample, dtype)
        for spelling in opdef.spellings:
            arguments = spelling.arguments(operation) if spelling.path.startswith("pl") else None
            if arguments is not None:
                spelling.build(**arguments)
                again = builder.block.ops[-1]
                assert again.opdef is opdef, spelling.path
                assert dict(again.attrs) == dict(operation.attrs), spelling.path
                assert same_entry(again.operands, operation.operands), spelling.path
                types = [value.type for value in operation.results]
                assert [value.type for value in again.results] == types
                return
