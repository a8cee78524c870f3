"""Compiled code beside the interpreter: every launch is run by both, and a difference is located.

The operation that differs first is found by keeping the tiles of both runs: the program is compiled
again with further outputs, a few at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

import numpy as np

from tilewright.abi import ScalarParam, Signature, TensorParam
from tilewright.dataclass import dataclass
from tilewright.errors import InternalError, TilewrightError
from tilewright.ir.core import Program
from tilewright.jit.build import build
from tilewright.jit.kernels import InterpretedKernel, NativeKernel, interpreter_of
from tilewright.jit.options import CompileOptions
from tilewright.passes.inline_calls import inline_calls
from tilewright.passes.watch_values import Watch, find_watches, watch_values
from tilewright.runtime.arguments import prepare_call
from tilewright.runtime.variants import Guard, Variant
from tilewright.runtime.views import view_array
from tilewright.source import Span

Array = np.ndarray[Any, np.dtype[Any]]
TOLERANCE = 1e-3
"""Of the largest magnitude of a tile: far above rounding, far below what a wrong element is off."""
TILE_BYTES = 1 << 24
GROUP_BYTES = 1 << 26
GROUP = 16


@dataclass(frozen=True)
class Difference:
    """Where compiled code and the interpreter part, and the element by which they were told apart.

    `iteration` counts the loops around the operation, outermost first.
    """

    what: str
    span: Span | None
    iteration: tuple[int, ...]
    element: tuple[int, ...]
    compiled: Any
    interpreted: Any

    def __str__(self) -> str:
        loops = f" in iteration {list(self.iteration)}" if self.iteration else ""
        return (
            f"{self.what} differs{loops}: element {list(self.element)} is {self.compiled} in "
            f"compiled code and {self.interpreted} in the interpreter"
        )


class ComparedKernel:
    """A compiled function that the interpreter runs, too; a difference is an InternalError."""

    def __init__(self, program: Program, entry: str, native: NativeKernel) -> None:
        self.program = program
        self.entry = entry
        self.native = native
        self.manifest = native.manifest
        self.interpreted = InterpretedKernel(program, entry, native.manifest)

    def run(self, signature: Signature, args: Sequence[object]) -> Any:
        """Runs both on the same arguments; what the compiled code gives is the result."""
        prepare_call(signature, self.manifest, args)  # refuses what neither of them takes
        before, given = _copies(signature, args), _copies(signature, args)
        expected = _arrays(signature, given, self.interpreted.run(signature, given))
        result = self.native.run(signature, args)
        found = _arrays(signature, args, result)
        for name, array in found.items():
            place = first_difference(array, expected[name])
            if place is not None:
                raise self._report(signature, before, name, (array, expected[name]), place)
        return result

    def _report(
        self,
        signature: Signature,
        args: Sequence[Any],
        name: str,
        pair: tuple[Array, Array],
        place: tuple[int, ...],
    ) -> InternalError:
        """The error for outputs that differ, at the operation where that begins."""
        outer = Difference(f"output '{name}'", None, (), place, pair[0][place], pair[1][place])
        explicit = [p.name for p in signature.explicit]
        values = dict(zip(explicit, args, strict=True))
        function = self.program[self.entry]
        values.update({n: pair[1] * 0 for n in [name] if n not in values})
        inputs = [values.get(p.name) for p in function.params]
        found = None
        if all(each is not None for each in inputs):
            found = find_difference(self.program, self.entry, inputs)
        error = InternalError(str(found or outer), found.span if found else function.span)
        return error.with_note(str(outer)) if found else error

    def variant(self, signature: Signature, guards: Sequence[Guard], epoch: int) -> Variant | None:
        """None: every call is compared."""
        return None


def _copies(signature: Signature, args: Sequence[Any]) -> list[Any]:
    pairs = zip(signature.explicit, args)
    return [a if isinstance(p, ScalarParam) else np.array(_array(a)) for p, a in pairs]


def _array(value: object) -> Array:
    """An argument or a result as numpy sees it; numpy itself does not read torch's BF16."""
    return view_array(value).as_array()


def _arrays(signature: Signature, args: Sequence[Any], result: Any) -> dict[str, Array]:
    """What a call wrote or returned, by parameter name."""
    pairs = zip(signature.explicit, args)
    found = {p.name: _array(a) for p, a in pairs if isinstance(p, TensorParam) and p.is_written}
    results = cast("tuple[Any, ...]", result) if isinstance(result, tuple) else (result,)
    for index, value in zip(signature.returns, results):
        found[signature.params[index].name] = _array(value)
    return found


def first_difference(left: Array, right: Array) -> tuple[int, ...] | None:
    """The first element by which two arrays differ more than rounding explains, or None."""
    if left.dtype.kind in "iub":
        differs = left != right
    else:
        a, b = left.astype(np.float64), right.astype(np.float64)
        finite = np.abs(b[np.isfinite(b)])
        margin = TOLERANCE * float(finite.max(initial=0.0))
        with np.errstate(all="ignore"):
            near = np.abs(a - b) <= margin
        differs = ~((a == b) | (np.isnan(a) & np.isnan(b)) | near)
    places = np.argwhere(differs)
    return tuple(map(int, places[0])) if len(places) else None


def find_difference(program: Program, entry: str, args: Sequence[Any]) -> Difference | None:
    """The operation of `entry` whose tile differs first when it runs on `args`, or None.

    `args` has one numpy array or scalar per parameter; none of them is changed.
    """
    inlined = inline_calls(program, entry)
    watches = find_watches(inlined[entry], TILE_BYTES)
    found: list[tuple[tuple[int, ...], Difference]] = []
    for group in _groups(watches):
        found += _differences(inlined, entry, group, args)
    return min(found, key=lambda each: each[0])[1] if found else None


def _groups(watches: Sequence[Watch]) -> Iterator[list[Watch]]:
    group: list[Watch] = []
    for watch in watches:
        full = sum(each.nbytes for each in group) + watch.nbytes > GROUP_BYTES
        if group and (full or len(group) == GROUP):
            yield group
            group = []
        group.append(watch)
    if group:
        yield group


def _differences(
    program: Program, entry: str, group: Sequence[Watch], args: Sequence[Any]
) -> list[tuple[tuple[int, ...], Difference]]:
    """What differs among the tiles of a group, each with its place in the order of execution."""
    watched = watch_values(program, entry, group)
    try:
        artifact = build(watched, entry, CompileOptions())
    except TilewrightError:
        return []
    kept = [np.zeros(tuple(map(int, w.type.shape)), w.type.dtype.numpy) for w in group]
    compiled, interpreted = ([np.array(a) for a in (*args, *kept)] for _ in range(2))
    interpreter_of(watched).run(entry, interpreted)
    artifact.kernel.run(artifact.calling.signature, compiled)
    found: list[tuple[tuple[int, ...], Difference]] = []
    for watch, left, right in zip(group, compiled[len(args) :], interpreted[len(args) :]):
        place = first_difference(left, right)
        if place is not None:
            found.append((_when(watch, place), _difference(watch, place, left, right)))
    return found


def _when(watch: Watch, place: tuple[int, ...]) -> tuple[int, ...]:
    """Sorts by time: positions in blocks, each followed by the iteration."""
    order: list[int] = []
    for position, loop in watch.steps:
        order += [position, place[loop] if 0 <= loop < len(watch.trips) else 0]
    return tuple(order)


def _difference(watch: Watch, place: tuple[int, ...], left: Array, right: Array) -> Difference:
    op = watch.operation
    count = len(watch.trips)
    what = f"{op.opdef.name}"
    return Difference(what, op.span, place[:count], place[count:], left[place], right[place])
