"""A compiled kernel as a Python callable."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import tilewright.runtime as room
from tilewright.abi import Fault, Manifest, Signature
from tilewright.boundary import public_entry
from tilewright.errors import CancelledError, InternalError
from tilewright.runtime.arguments import Prepared, bind_arguments, prepare_call
from tilewright.runtime.code import Code
from tilewright.runtime.context import Context, free_context
from tilewright.runtime.faults import format_prints
from tilewright.runtime.native import native_runner
from tilewright.runtime.stub import Launcher
from tilewright.runtime.variants import Variant

RELEASE_GIL_NS = 2_000.0
LONG_NS = 1_000_000.0
INTERRUPTIBLE_NS = 100_000.0
"""Long enough for the stub to listen to the interrupt key, and to no other signal."""
_MASK = 0xFFFF_FFFF_FFFF_FFFF
_LONGEST = 1 << 40

_WITH_GIL = ctypes.PYFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)
_WITHOUT_GIL = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)


class Executable(Launcher):
    """A kernel in memory: calling it checks the arguments, runs it and gives what it returns.

    A call that fits takes the native entry; any other is checked in Python, and refused with one of
    the classes of `errors.arguments` or run all the same. Faults raise those of `errors.faults`.
    """

    def __init__(self, code: Code) -> None:
        self.code = code
        self.set_variants([] if code.manifest.communicates else [Variant(code)])

    @staticmethod
    def from_object(
        data: bytes,
        signature: Signature,
        manifest: Manifest | None = None,
        symbols: Mapping[str, int] | None = None,
    ) -> Executable:
        """Load object bytes; `symbols` are addresses they refer to beside the library functions."""
        return Executable(Code.from_object(data, signature, manifest, symbols))

    @property
    def signature(self) -> Signature:
        """The kernel's parameters."""
        return self.code.signature

    @property
    def manifest(self) -> Manifest:
        """The kernel's side tables."""
        return self.code.manifest

    @public_entry
    def call_slowly(self, *args: Any, **kwargs: Any) -> Any:
        """Call with every check done in Python."""
        if kwargs or len(args) != len(self.signature.explicit):
            args = bind_arguments(self.signature, self.manifest.name, args, kwargs)
        return self.run_checked(args)

    def run_checked(self, args: Sequence[object], *, copies: bool = True) -> Any:
        """Run on arguments in parameter order, with every check done in Python.

        `copies=False` refuses arrays that would have to be copied into the layout the kernel takes.
        """
        return run_checked(self.code, args, copies=copies)


def run_checked(code: Code, args: Sequence[object], *, copies: bool = True) -> Any:
    """Run a kernel on arguments in parameter order; see `Executable.run_checked`."""
    manifest = code.manifest
    prepared = prepare_call(code.signature, manifest, args, copies=copies)
    context = free_context()
    with context.taken():
        context.set("grid_end", manifest.grid.evaluate(prepared.symbols))
        context.require_arena(manifest.arena_bytes)
        if manifest.prints:
            context.require_ring()
        status = _run(code, prepared, context)
        show_prints(manifest, context)
    if status:
        raise code.fault(status)
    prepared.copy_back()
    return prepared.result


def _run(code: Code, prepared: Prepared, context: Context) -> int:
    words = (ctypes.c_uint64 * len(prepared.words))(*(word & _MASK for word in prepared.words))
    estimate = code.manifest.estimate_ns(prepared.symbols)
    status = _run_words(code, ctypes.addressof(words), context, estimate)
    while status == Fault.ARENA_TOO_SMALL:
        needed = context.fault_values()[0]
        if needed <= context.get("arena_bytes"):
            raise InternalError(f"{code.manifest.name} asks again for {needed} bytes of scratch")
        context.require_arena(needed)
        status = _run_words(code, ctypes.addressof(words), context, estimate)
    return status


def _run_words(code: Code, words: int, context: Context, estimate: float) -> int:
    if code.manifest.communicates:
        run = partial(_run_here, code, words, context, INTERRUPTIBLE_NS)
        return room.stage.run_as_participant(run, context, code.manifest)
    return _run_here(code, words, context, estimate)


def _run_here(code: Code, words: int, context: Context, estimate: float) -> int:
    native = native_runner()
    if native is None:
        return run_portably(code, words, context, estimate)
    ns = max(0, int(estimate)) if estimate < _LONGEST else _LONGEST
    return native(code.entry, words, context.address, ns)


def run_portably(code: Code, words: int, context: Context, estimate: float) -> int:
    """Run without the stub; `words` is the address of the kernel's arguments."""
    if estimate < RELEASE_GIL_NS:
        return _WITH_GIL(code.entry)(words, context.address)
    kernel = _WITHOUT_GIL(code.entry)
    if estimate < LONG_NS or threading.current_thread() is not threading.main_thread():
        return kernel(words, context.address)
    return run_interruptibly(lambda: kernel(words, context.address), context)


def run_interruptibly(kernel: Callable[[], int], context: Context) -> int:
    """Run on another thread while this one, the main one, keeps handling signals.

    A signal may come while that thread is started. Who takes the turn decides: the thread, which
    then runs the kernel to its end, or who called, and then it never runs.
    """
    status: list[int] = []
    done = threading.Event()  # an interrupted Thread.join takes the thread for finished
    turn = threading.Lock()

    def work() -> None:
        if turn.acquire(blocking=False):
            status.append(kernel())
            done.set()

    try:
        threading.Thread(target=work, daemon=True).start()
        done.wait()
    except BaseException as error:
        context.cancel()
        if not turn.acquire(blocking=False):
            done.wait()
        context.clear_cancel()
        if isinstance(error, KeyboardInterrupt):
            raise CancelledError("interrupted; outputs may be partly written") from None
        raise
    return status[0]


def show_prints(manifest: Manifest, context: Context) -> None:
    """Show what the kernel printed."""
    if manifest.prints:
        for line in format_prints(*context.drain_ring(), manifest):
            print(line)
