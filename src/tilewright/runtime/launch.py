"""A compiled kernel as a Python callable."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Mapping, Sequence

from tilewright.abi import Fault, Manifest, Signature
from tilewright.errors import CancelledError, InternalError
from tilewright.runtime.arguments import Prepared, bind_arguments, prepare_call
from tilewright.runtime.context import Context, current_context
from tilewright.runtime.faults import fault_error, format_prints
from tilewright.runtime.load import LoadedObject, load_object

RELEASE_GIL_NS = 2_000.0
LONG_NS = 1_000_000.0

_WITH_GIL = ctypes.PYFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)
_WITHOUT_GIL = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)


class Executable:
    """A kernel in memory.

    Calling it checks the arguments, runs it and gives what its signature returns. The code stays
    loaded while the executable lives.
    """

    def __init__(self, image: LoadedObject, signature: Signature, manifest: Manifest) -> None:
        self.image = image
        self.signature = signature
        self.manifest = manifest
        self.entry = image.address(manifest.symbol)
        self._with_gil = _WITH_GIL(self.entry)
        self._without_gil = _WITHOUT_GIL(self.entry)

    @staticmethod
    def from_object(
        data: bytes,
        signature: Signature,
        manifest: Manifest | None = None,
        symbols: Mapping[str, int] | None = None,
    ) -> Executable:
        """Load object bytes; `symbols` are addresses they refer to beside the library functions."""
        return Executable(load_object(data, symbols), signature, manifest or Manifest())

    def __call__(self, *args: object, **kwargs: object) -> object:
        """Run the kernel; raises the classes of `errors.arguments` and `errors.faults`."""
        if kwargs or len(args) != len(self.signature.explicit):
            args = bind_arguments(self.signature, self.manifest.name, args, kwargs)
        return self.run_checked(args)

    def run_checked(self, args: Sequence[object], *, copies: bool = True) -> object:
        """Run on arguments in parameter order, with every check done in Python.

        `copies=False` refuses arrays that would have to be copied into the layout the kernel takes.
        """
        prepared = prepare_call(self.signature, self.manifest, args, copies=copies)
        context = current_context()
        self._enter(context, prepared.symbols)
        status = self._run(prepared, context)
        self.finish(context)
        if status:
            raise fault_error(status, context, self.signature, self.manifest)
        prepared.copy_back()
        return prepared.result

    def _enter(self, context: Context, symbols: Mapping[str, int]) -> None:
        context.set("grid_end", self.manifest.grid.evaluate(symbols))
        context.require_arena(self.manifest.arena_bytes)
        context.clear_cancel()
        if self.manifest.prints:
            context.require_ring()

    def _run(self, prepared: Prepared, context: Context) -> int:
        words = (ctypes.c_uint64 * len(prepared.words))(
            *(word & 0xFFFF_FFFF_FFFF_FFFF for word in prepared.words)
        )
        estimate = self.manifest.estimate_ns(prepared.symbols)
        status = self._run_words(ctypes.addressof(words), context, estimate)
        while status == Fault.ARENA_TOO_SMALL:
            self._grow_arena(context)
            status = self._run_words(ctypes.addressof(words), context, estimate)
        return status

    def _grow_arena(self, context: Context) -> None:
        needed = context.fault_values()[0]
        if needed <= context.get("arena_bytes"):
            raise InternalError(f"{self.manifest.name} asks for an arena of {needed} bytes again")
        context.require_arena(needed)

    def _run_words(self, words: int, context: Context, estimate: float) -> int:
        if estimate < RELEASE_GIL_NS:
            return self._with_gil(words, context.address)
        if estimate < LONG_NS or threading.current_thread() is not threading.main_thread():
            return self._without_gil(words, context.address)
        return run_interruptibly(lambda: self._without_gil(words, context.address), context)

    def finish(self, context: Context) -> None:
        """Show what the kernel printed."""
        if self.manifest.prints:
            for line in format_prints(*context.drain_ring(), self.manifest):
                print(line)


def run_interruptibly(kernel: Callable[[], int], context: Context) -> int:
    """Run on another thread while this one, the main one, keeps handling signals."""
    status: list[int] = []
    worker = threading.Thread(target=lambda: status.append(kernel()), daemon=True)
    worker.start()
    try:
        worker.join()
    except KeyboardInterrupt:
        _stop(worker, context)
        raise CancelledError(
            "the kernel was interrupted; its outputs may be partly written"
        ) from None
    except BaseException:
        _stop(worker, context)
        raise
    return status[0]


def _stop(worker: threading.Thread, context: Context) -> None:
    context.cancel()
    worker.join()
