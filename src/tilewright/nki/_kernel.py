"""Traced kernels that Python calls natively once they have been traced for such arguments."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from tilewright.devices import get_device
from tilewright.errors.nki_memory import CAPACITY_PSUM, CAPACITY_SBUF
from tilewright.errors.nki_tensors import UNEXPECTED_OPERAND
from tilewright.frontend.trace.kernel import Call, Prepare, Specialization, form_of
from tilewright.frontend.trace.kernel import TraceKernel as TracedFunction
from tilewright.frontend.trace.readings import install_array_reader
from tilewright.ir.enums import ParamDirection
from tilewright.nki._answers import MISSED, Answers, Entry
from tilewright.nki._launch import CompiledLaunch
from tilewright.passes.fitting import LARGEST_SHOWN, Fit, fit
from tilewright.runtime.views import NotAnArray, view_array

MAX_FORMS = 64
"""Forms of calls that one kernel remembers."""


class TraceKernel(Answers, TracedFunction):
    """A Python function that is traced when it is called.

    `kernel(*args)` launches one program, `kernel[grid](*args)` one per point of the grid. Arrays
    go in and come out; other arguments are constants that the kernel is specialized for. A call
    like an earlier one, of arrays given by position, runs no Python while the names that the trace
    read mean the same objects; one with keywords or constants looks its form up first.
    """

    def __init__(
        self, function: Any, opts: Any = None, *, prepare: Prepare, grid: Any = ()
    ) -> None:
        Answers.__init__(self)
        TracedFunction.__init__(self, function, opts, prepare=prepare, grid=grid)
        self._entries: dict[Hashable, Entry] = {}

    def call_slowly(self, *args: Any, **kwargs: Any) -> Any:
        """A call that is no variant of the kernel itself: of a known form, or with every check."""
        if self._entries:
            form, arrays = form_of(args, kwargs)
            entry = self._entries.get(form)
            if entry is not None:
                result = entry(*arrays, *entry.constants)
                if result is not MISSED:
                    return result
        return TracedFunction.__call__(self, *args, **kwargs)

    def as_array(self, name: str, given: Any) -> np.ndarray[Any, Any]:
        """An argument as numpy sees it, also where its library converts no such elements."""
        try:
            return view_array(given).as_array()
        except NotAnArray as reason:
            found: dict[str, Any] = {"given": str(reason), "wanted": "an array to share"}
            raise UNEXPECTED_OPERAND(op=self.__name__, name=name, **found) from None

    def updated_arrays(self, *args: Any, **kwargs: Any) -> list[np.ndarray[Any, Any]]:
        """The arrays among the arguments that a launch updates in place."""
        call = self._prepare(args, kwargs)
        made = self._specialize(call)
        pairs = zip(call.arrays, made.program[made.entry].directions)
        return [array for array, direction in pairs if direction is ParamDirection.InOut]

    def fit(self, *args: Any, **kwargs: Any) -> Fit:
        """How the tiles of this call use the on-chip memories of the kernel's target."""
        return fit(self.lower(*args, **kwargs), get_device(self.opts.platform_target))

    def _trace(self, call: Call) -> Specialization:
        made = super()._trace(call)
        if self.opts.check_capacity:
            require_capacity(fit(made.program, get_device(self.opts.platform_target)))
        return made

    def run(self, made: Specialization, call: Call) -> Any:
        """Launches what a call was specialized to; the runtime allocates what it can."""
        launch = made.launch
        if not isinstance(launch, CompiledLaunch) or made.prints or self.opts.checked:
            return super().run(made, call)
        kernel = launch.kernel
        if kernel is None:
            return super().run(made, call)
        signature = launch.returning(made.results, made.returns_tuple)
        result = kernel.run(signature, [*call.given, *made.constants])
        if call.form is not None:
            self._entry(call, made).remember(call.key, made, signature)
        return result

    def _entry(self, call: Call, made: Specialization) -> Answers:
        """What answers the next call like this one: the kernel itself if it has arrays alone."""
        if call.is_plain and not made.constants:
            return self
        entry = self._entries.get(call.form)
        if entry is None or entry.constants is not made.constants:
            kept = list(self._entries.items())[-MAX_FORMS + 1 :]
            entry = Entry(made.constants)
            self._entries = dict(kept) | {call.form: entry}
        return entry


def require_capacity(found: Fit) -> None:
    """Raises `err_stack_overflow_sbuf` or `_psum` at the line where a memory is too small."""
    for peak in found.peaks:
        if peak.fits:
            continue
        memory, needed, available = peak.memory, peak.nbytes, peak.memory.capacity
        page = CAPACITY_SBUF
        if memory.granule > 1:
            page, needed, available = (
                CAPACITY_PSUM,
                *(n // memory.granule for n in (needed, available)),
            )
        error = page(span=peak.span, needed=needed, available=available)
        for tile in peak.tiles[:LARGEST_SHOWN]:
            error.with_note(f"{tile.name} takes {tile.nbytes:,} bytes per partition", tile.span)
        raise error


def read_array(given: Any) -> np.ndarray[Any, Any]:
    """The elements of an array of any library, also of one that follows gradients."""
    detach = getattr(given, "detach", None)
    return view_array(given if detach is None else detach()).as_array()


install_array_reader(read_array)
