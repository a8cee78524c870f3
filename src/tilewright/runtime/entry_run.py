"""The part of the stub that runs a kernel: the GIL, and the interrupt key while it runs."""

from __future__ import annotations

from tilewright.abi import CTX, Fault
from tilewright.runtime.assembler import Function, Module, Word
from tilewright.runtime.records import (
    CTX_MAIN_THREAD,
    OLD_ACTION_SYMBOL,
    PROCESS,
    PROCESS_SYMBOL,
    SIGACTION_WORDS,
)

_SIGINT, _SA_SIGINFO, _SA_ONSTACK = 2, 4, 0x08000000
_LAST_FLAGS_WORD = 17  # struct sigaction: handler, 16 words of mask, then flags
_RELEASE_GIL_NS, _LONG_NS = 2_000, 50_000


def process_word(f: Function, name: str) -> Word:
    """A word of the process table."""
    return f.load(f.outside(PROCESS_SYMBOL), PROCESS[name])


def write_run(module: Module) -> Function:
    """run(kernel, words, context, ns): the status, or -1 with a Python error set.

    A kernel of more than about 2 microseconds runs without the GIL; one that may be long for a
    person also listens to the interrupt key, if this is the main thread.
    """
    handler = _write_handler(module)
    f = module.function("tilewright_run", 4)
    kernel, words, context, work = f.parameters
    with f.when(work < _RELEASE_GIL_NS):
        f.ret(f.call_pointer(kernel, words, context, result="i32"))
    main = f.load(context, CTX["flags"].offset) & CTX_MAIN_THREAD
    with f.when((work < _LONG_NS) | (main == 0)):
        f.ret(_without_gil(f, kernel, words, context))
    old = f.outside(OLD_ACTION_SYMBOL)
    cancel = f.load(context, CTX["cancel"].offset)
    f.store(cancel, 0, size=4)
    f.store(f.outside(PROCESS_SYMBOL), cancel, PROCESS["cancel"])
    _install_handler(f, handler, old)
    pending = f.call("PyErr_CheckSignals", result="i32")
    with f.when(pending != 0):
        f.call("sigaction", _SIGINT, old, 0, result="i32")
        f.ret(-1)
    status = _without_gil(f, kernel, words, context)
    f.call("sigaction", _SIGINT, old, 0, result="i32")
    f.store(cancel, 0, size=4)
    with f.when(status == Fault.CANCELLED):
        _prefer_own_interrupt(f)
    f.ret(status)
    return f


def _without_gil(f: Function, kernel: Word, words: Word, context: Word) -> Word:
    state = f.call("PyEval_SaveThread")
    status = f.call_pointer(kernel, words, context, result="i32")
    f.call("PyEval_RestoreThread", state, result="void")
    return status


def _install_handler(f: Function, handler: Function, old: Word) -> None:
    """Our handler for SIGINT, unless the program ignores it or takes it as a command to die."""
    action = f.array(SIGACTION_WORDS)
    f.call("memset", action, 0, 8 * SIGACTION_WORDS)
    f.store(action, f.address_of(handler))
    f.store(action, _SA_SIGINFO | _SA_ONSTACK, 8 * _LAST_FLAGS_WORD, 4)
    f.call("sigaction", _SIGINT, action, old, result="i32")
    with f.when((f.load(old) == 0) | (f.load(old) == 1)):
        f.call("sigaction", _SIGINT, old, 0, result="i32")


def _prefer_own_interrupt(f: Function) -> None:
    """Let Python's handler speak: an error other than KeyboardInterrupt is the one to raise."""
    with f.when(f.call("PyErr_CheckSignals", result="i32") != 0):
        interrupt = process_word(f, "keyboard_interrupt")
        with f.when(f.call("PyErr_ExceptionMatches", interrupt, result="i32") == 0):
            f.ret(-1)
        f.call("PyErr_Clear", result="void")


def _write_handler(module: Module) -> Function:
    """handler(signal, info, context): set the cancel word, then do what was done before."""
    f = module.function("tilewright_on_interrupt", 3, result="void")
    f.store(process_word(f, "cancel"), 1, size=4)
    before = f.load(f.outside(OLD_ACTION_SYMBOL))
    with f.when((before != 0) & (before != 1)):
        f.call_pointer(before, *f.parameters, result="void")
    f.ret()
    return f
