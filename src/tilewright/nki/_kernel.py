"""Traced kernels that Python calls natively once they have been traced for such arguments."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from tilewright.devices import get_device
from tilewright.errors.nki_tensors import CAPACITY_PSUM, CAPACITY_SBUF
from tilewright.frontend.parse.parser import callee
from tilewright.frontend.parse.traced import call_traced_kernel
from tilewright.frontend.trace.kernel import Call, Prepare, Specialization
from tilewright.frontend.trace.kernel import TraceKernel as TracedFunction
from tilewright.locks import make_lock
from tilewright.nki._launch import CompiledLaunch
from tilewright.nki._watch import watched
from tilewright.passes.fit import LARGEST_SHOWN, Fit, fit
from tilewright.runtime.records import MAX_VARIANTS
from tilewright.runtime.stub import Launcher
from tilewright.runtime.variants import Variant


class TraceKernel(Launcher, TracedFunction):
    """A Python function that is traced when it is called.

    `kernel(*args)` launches one program, `kernel[grid](*args)` one per point of the grid. Arrays
    go in and come out; other arguments are constants that the kernel is specialized for. A call
    like an earlier one, of arrays given by position, runs no Python while the names that the trace
    read mean the same objects.
    """

    def __init__(
        self, function: Any, opts: Any = None, *, prepare: Prepare, grid: Any = ()
    ) -> None:
        super().__init__(function, opts, prepare=prepare, grid=grid)
        self._lock = make_lock()
        self._answered: dict[Hashable, tuple[Specialization, Variant]] = {}

    def call_slowly(self, *args: Any, **kwargs: Any) -> Any:
        """One call with every check done in Python."""
        return TracedFunction.__call__(self, *args, **kwargs)

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
        if call.is_plain and not made.constants:
            self._remember(call.key, made, signature)
        return result

    def _remember(self, key: Hashable, made: Specialization, signature: Any) -> None:
        """Lets the native entry answer the next call like this one."""
        with self._lock:
            answered = self._answered.get(key)
            if answered is not None and answered[0] is made:
                return
            guards = watched(made.guard)
            if guards is None:
                return
            assert isinstance(made.launch, CompiledLaunch) and made.launch.kernel is not None
            variant = made.launch.kernel.variant(signature, guards, 0)
            if variant is None:
                return
            self._answered.pop(key, None)
            kept = list(self._answered.items())[-MAX_VARIANTS + 1 :]
            self._answered = dict(kept) | {key: (made, variant)}
            self.set_variants([v for _, v in reversed(self._answered.values())])


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


callee(TraceKernel)(call_traced_kernel)
