"""Every pass, run: what it gives is printed, read back, interpreted and compared with the input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any, cast

import numpy as np

from tilewright.abi import ScalarParam, Signature, TensorParam
from tilewright.dtypes import DType
from tilewright.errors import VerificationError
from tilewright.frontend.text import parse_program
from tilewright.ir.core import Program
from tilewright.ir.enums import ParamDirection
from tilewright.ir.types import ShapedType
from tilewright.jit.kernels import interpreter_of
from tilewright.passes import pipeline
from tilewright.passes.instruments import CallbackInstrument

Array = np.ndarray[Any, np.dtype[Any]]
DYNAMIC_EXTENT = 8
"""What a dynamic dimension is where no arguments are given."""


def validate(
    program: Program, entry: str, args: Sequence[Any], rtol: float, atol: float
) -> dict[str, float]:
    """The greatest difference, by pass, between what its program and `program` give for `args`.

    Raises VerificationError for the first pass beyond the tolerances.
    """
    expected = _run(program, entry, args, None)
    found: dict[str, float] = {}
    for name, dumped in _dumps(program, entry):
        given = _run(parse_program(dumped.as_python()), entry, args, expected)
        found[name] = max(map(_distance, given, expected), default=0.0)
        for number, pair in enumerate(zip(given, expected)):
            if not np.allclose(*map(_wide, pair), rtol=rtol, atol=atol, equal_nan=True):
                raise VerificationError(
                    f"{entry}: after {name}, output {number} differs from that of the program as "
                    f"written by up to {_distance(*pair):.3g}"
                )
    return found


def _dumps(program: Program, entry: str) -> list[tuple[str, Program]]:
    """The program as it goes into the pipeline, and as each pass gives it."""
    seen = [("pipeline_input", program)]
    watch = CallbackInstrument(after_pass=lambda name, given: seen.append((name, given)))
    pipeline.lower(program, entry, [watch])
    return seen


def _run(
    program: Program, entry: str, args: Sequence[Any], expected: Sequence[Array] | None
) -> list[Array]:
    """What a function returns, and then what it leaves in its Out and InOut parameters.

    At the lowest level what it returns is in parameters, some of them behind those of `args`.
    """
    function = program[entry]
    given: list[Any] = [copy(each) for each in args]
    places: Sequence[tuple[str, int]] | None = function.attrs.get("results")
    if places is not None:
        made = dict(zip((position for _, position in places), expected or ()))
        behind = function.params[len(args) :]
        for position, param in enumerate(behind, len(args)):
            assert isinstance(param.type, ShapedType)
            given.append(np.zeros(made[position].shape or (1,), param.type.dtype.numpy))
    results: Sequence[Any] = interpreter_of(program).run(entry, given)
    if places is not None:
        results = [given[at][0] if kind == "scalar" else given[at] for kind, at in places]
    ways = zip(given, function.directions[: len(args)])
    written = [each for each, way in ways if way is not ParamDirection.In]
    return [np.asarray(each) for each in (*results, *written)]


def _wide(array: Array) -> Array:
    return array.astype(np.float64)


def _distance(given: Array, wanted: Array) -> float:
    """The greatest difference of two arrays where both are finite."""
    a, b = _wide(given), _wide(wanted)
    both = np.isfinite(a) & np.isfinite(b)
    return float(np.abs(a[both] - b[both]).max(initial=0.0))


def random_arguments(signature: Signature, seed: int) -> list[Any]:
    """Arguments for every parameter that a caller gives: small numbers, never negative integers."""
    random = np.random.default_rng(seed)
    extents: Mapping[str, int] = dict.fromkeys(_symbols(signature), DYNAMIC_EXTENT)
    given: list[Any] = []
    for param in signature.explicit:
        if isinstance(param, ScalarParam):
            number = extents.get(param.name, 1)
            given.append(param.dtype.numpy.type(number))
        else:
            shape = tuple(extent.evaluate(extents) for extent in param.shape)
            given.append(_random(random, shape, param.dtype))
    return given


def _symbols(signature: Signature) -> set[str]:
    tensors = [param for param in signature.params if isinstance(param, TensorParam)]
    return {name for t in tensors for extent in t.shape for name in extent.symbols}


def _random(random: np.random.Generator, shape: tuple[int, ...], dtype: DType) -> Array:
    whole = dtype.is_int() or dtype.kind == "bool"
    made = random.integers(0, 2, shape) if whole else random.standard_normal(shape)
    return cast("Array", made).astype(dtype.numpy)
