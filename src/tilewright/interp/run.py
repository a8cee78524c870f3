"""Calling an interpreted function: arguments in, results out, faults at the author's line."""

from __future__ import annotations

from bdb import BdbQuit
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.dtypes import INDEX
from tilewright.errors import (
    ArgumentCountMismatch,
    DTypeMismatch,
    InternalError,
    OutputOverlap,
    RankMismatch,
    ShapeMismatch,
    TilewrightError,
)
from tilewright.interp import (
    blocks,
    checked_mode,
    control,
    external,
    loop_level,
    meeting_words,
    words_mode,
)
from tilewright.interp.buffers import as_buffer, fill_with_poison
from tilewright.interp.emit import Emitter, Mode
from tilewright.interp.launching import LaunchingEmitter
from tilewright.interp.meeting import RunRanks, World
from tilewright.interp.participants import Actor, Place, as_actor
from tilewright.interp.support import overlap
from tilewright.ir.core import Function, Operation, Program, Value
from tilewright.ir.enums import ParamDirection
from tilewright.ir.stops import Stop
from tilewright.ir.types import BufferType, ScalarType, ShapedType
from tilewright.ops.facts import Facts
from tilewright.ops.pair_sides import pair_sides
from tilewright.ops.participant import participant, running_as
from tilewright.source import Span

Array = npt.NDArray[Any]
HANDLED_BY = (checked_mode, control, external, loop_level, meeting_words, words_mode, blocks)


class Interpreter:
    """One program, ready to be interpreted again and again.

    `words` supplies compiled scalar words and contractions (`word(name, dtype)(*arrays)` and
    `matmul(c, a, b, ...)`), so that whole programs compare exactly with compiled code. `checked`
    poisons fresh memory and Out parameters, and runs independent iterations, tasks and participants
    in a shuffled order, that of participants as `seed` has it; `poisons` only poisons fresh memory.
    `ranks` says how many ranks a host starts. `natives` are functions that something else runs: by
    name, what takes the arguments and gives the tuple of what the function returns. With
    `run_ranks` every function that a host starts, and every collective of its own, is one of them,
    a collective by its operation; they are run by it. At each of `stops` the author's debugger is
    entered.
    """

    def __init__(
        self,
        program: Program,
        *,
        words: Any = None,
        checked: bool = False,
        poisons: bool = False,
        seed: int = 0,
        ranks: int = 1,
        natives: Mapping[Any, Callable[..., tuple[Any, ...]]] | None = None,
        run_ranks: RunRanks | None = None,
        stops: Sequence[Stop] = (),
    ) -> None:
        program = pair_sides(program)
        self.program = program
        self.seed = seed
        self.ranks = ranks
        self.run_ranks = run_ranks
        self.facts = Facts(program)
        places: dict[Any, list[Stop]] = {}
        for stop in stops:
            places.setdefault(stop.place, []).append(stop)
        self.mode = Mode(words, checked, self.facts, places, checked or poisons)
        self._callables: dict[Any, Callable[..., tuple[Any, ...]]] = dict(natives or {})
        self._texts: dict[str, Emitter] = {}
        for name, function in program.functions.items():
            if name in self._callables:
                continue
            emitter = LaunchingEmitter(function, self.mode, self._callables)
            self._callables[name] = emitter.emit()
            self._texts[emitter.text.filename] = emitter

    def source(self, entry: str) -> str:
        """The Python text that interprets function `entry`."""
        return "\n".join(self._texts[f"<interpreted {entry}>"].text.lines)

    def run(self, entry: str, args: Sequence[Any]) -> tuple[Any, ...]:
        """Calls function `entry`; gives back what it returns.

        Arrays of Out and InOut parameters are written in place. Raises the errors of argument
        checking (ShapeMismatch, DTypeMismatch, ...) and the faults of the program, located.
        """
        function = self.program[entry]
        given = prepare_arguments(function, args, self.mode.checked)
        try:
            with np.errstate(all="ignore"), self._standing(entry):
                return self._callables[entry](*given)
        except TilewrightError as error:
            origin = self._origin(error.__traceback__)
            error.locate(origin.span if origin else None)
            raise
        except (BdbQuit, MemoryError):  # the author has left his debugger; no fault of ours
            raise
        except Exception as error:
            origin = self._origin(error.__traceback__)
            where = f" at {origin.name}" if origin else ""
            raise InternalError(
                f"interpreting {entry}{where}: {type(error).__name__}: {error}",
                origin.span if origin else None,
            ) from error

    def _standing(self, entry: str) -> AbstractContextManager[None]:
        """Makes this thread a participant where the program needs to know who runs."""
        needs = self.mode.checked or self.facts.needs_participants(entry)
        if not needs or isinstance(participant(), Actor):
            return nullcontext()
        actor = as_actor(self._line, self.seed if self.mode.checked else None)
        if self.ranks > 1 or self.facts.is_host(self.program[entry]):
            actor.size, actor.world = self.ranks, World(self.ranks, self.run_ranks)
            actor.gate = actor.world.gate
        return running_as(actor)

    def _line(self, place: Place) -> Span | None:
        """The author's line behind a line of interpreted text."""
        name, number = place
        emitter = self._texts.get(name)
        origin = None if emitter is None else emitter.text.origins[number - 1]
        return None if origin is None else origin.span

    def _origin(self, trace: TracebackType | None) -> Operation | None:
        """The operation of the innermost interpreted line in a traceback."""
        found: Operation | None = None
        while trace is not None:
            emitter = self._texts.get(trace.tb_frame.f_code.co_filename)
            if emitter is not None:
                found = emitter.text.origins[trace.tb_lineno - 1] or found
            trace = trace.tb_next
        return found


def run(
    program: Program,
    entry: str,
    args: Sequence[Any],
    *,
    words: Any = None,
    checked: bool = False,
) -> tuple[Any, ...]:
    """Interprets one call of function `entry` of `program` and gives back what it returns.

    `args` are numpy arrays and scalars, one per parameter; see `Interpreter`.
    """
    return Interpreter(program, words=words, checked=checked).run(entry, args)


def prepare_arguments(function: Function, args: Sequence[Any], poison: bool) -> list[Any]:
    """`args` as interpreted functions take them; raises the error that an argument deserves."""
    if len(args) != len(function.params):
        raise ArgumentCountMismatch(
            f"{function.name} takes {len(function.params)} arguments but {len(args)} were given"
        )
    given = [_argument(param, arg) for param, arg in zip(function.params, args, strict=True)]
    for param, direction, array in zip(function.params, function.directions, given, strict=True):
        if direction is ParamDirection.In or not isinstance(param.type, ShapedType):
            continue
        if sum(overlap(array, other) for other in given) > 1:
            raise OutputOverlap(f"{function.name}: {param.name} overlaps another argument")
        if poison and direction is ParamDirection.Out:
            fill_with_poison(array)
    return [
        as_buffer(array) if isinstance(param.type, BufferType) else array
        for param, array in zip(function.params, given, strict=True)
    ]


def _argument(param: Value, given: Any) -> Any:
    type_ = param.type
    if isinstance(type_, ScalarType):
        return int(given) if type_.dtype is INDEX else type_.dtype.numpy.type(given)
    if not isinstance(type_, ShapedType):
        return given
    array: Array = np.asarray(given)
    if array.dtype != type_.dtype.numpy:
        raise DTypeMismatch(f"{param.name}: {array.dtype} was given for {type_}")
    if array.ndim != len(type_.shape):
        raise RankMismatch(f"{param.name}: an array of rank {array.ndim} was given for {type_}")
    for axis, (extent, wanted) in enumerate(zip(array.shape, type_.shape)):
        if isinstance(wanted, int) and extent != wanted:
            raise ShapeMismatch(f"{param.name}: axis {axis} is {extent}, but {type_} is declared")
    return array
