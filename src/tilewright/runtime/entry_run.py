"""The part of the stub that runs a kernel: the GIL, and signals while it runs.

Python handles signals on the main thread only. While that is in a kernel that may be long for a
person, handlers of ours set the kernel's cancel word; where the kernel polls it, it asks `attend`,
which takes the GIL, lets Python handle what came, and cancels the kernel if that raises.
"""

from __future__ import annotations

from tilewright.abi import CTX, Fault
from tilewright.runtime.assembler import Function, Module, Word
from tilewright.runtime.records import (
    ACTIONS_SYMBOL,
    CANCEL,
    CTX_BUSY,
    CTX_MAIN_THREAD,
    LOOK,
    PROCESS,
    PROCESS_SYMBOL,
    SIGACTION_WORDS,
)

_SA_SIGINFO, _SA_ONSTACK = 4, 0x08000000
_LAST_FLAGS_WORD = 17  # struct sigaction: handler, 16 words of mask, then flags
_ACTION_BYTES = 8 * SIGACTION_WORDS
_RELEASE_GIL_NS, _LONG_NS, _VERY_LONG_NS = 2_000, 50_000, 1_000_000
_INTERRUPT = 2
_OTHERS = (1, 10, 12, 14, 15, 17, 26, 27)
"""The other signals that programs handle: HUP, USR1, USR2, ALRM, TERM, CHLD, VTALRM, PROF."""


def process_word(f: Function, name: str) -> Word:
    """A word of the process table."""
    return f.load(f.outside(PROCESS_SYMBOL), PROCESS[name])


def write_run(module: Module) -> Function:
    """run(kernel, words, context, ns): the status, or -1 with a Python error set.

    A kernel of more than about 2 microseconds runs without the GIL. On the main thread, one of more
    than 50 also listens to the interrupt key, and one of more than 1,000 to every signal.
    """
    _write_attend(module)
    _write_give_up(module)
    listening = _write_listening(module)
    f = module.function("tilewright_run", 4)
    kernel, words, context, work = f.parameters
    with f.when(work < _RELEASE_GIL_NS):
        f.ret(f.call_pointer(kernel, words, context, result="i32"))
    flags = f.load(context, CTX["flags"].offset)
    with f.when((work < _LONG_NS) | ((flags & CTX_MAIN_THREAD) == 0)):
        f.ret(_without_gil(f, kernel, words, context))
    outer, cancel = process_word(f, "cancel"), f.load(context, CTX["cancel"].offset)
    f.store(context, flags | CTX_BUSY, CTX["flags"].offset)
    status = f.call_function(listening, kernel, words, context, work)
    f.store(cancel, 0, size=4)
    f.store(context, flags, CTX["flags"].offset)
    f.store(f.outside(PROCESS_SYMBOL), outer, PROCESS["cancel"])
    f.call("PyThread_tss_set", process_word(f, "thread_key"), context, result="i32")
    f.ret(status)
    return f


def _write_listening(module: Module) -> Function:
    """listening(kernel, words, context, ns): run while handlers of ours set the cancel word."""
    listen, forget = _write_listen(module, _write_handler(module))
    f = module.function("tilewright_listening", 4, exported=False)
    kernel, words, context, work = f.parameters
    before = f.array((1 + len(_OTHERS)) * SIGACTION_WORDS)
    cancel = f.load(context, CTX["cancel"].offset)
    f.store(cancel, 0, size=4)
    f.store(f.outside(PROCESS_SYMBOL), cancel, PROCESS["cancel"])
    _for_signals(f, listen, before, work)
    status = f.variable(-1)
    with f.when(f.call("PyErr_CheckSignals", result="i32") == 0):
        f.store(f.outside(PROCESS_SYMBOL), cancel, PROCESS["cancel"])  # a handler may run kernels
        status.set(_without_gil(f, kernel, words, context))
    _for_signals(f, forget, before, work)
    with f.when(status.get() == Fault.CANCELLED):
        f.call("PyErr_CheckSignals", result="i32")  # who polls the word itself asks nobody
    with f.when(f.call("PyErr_Occurred") == 0):
        f.ret(status.get())
    interrupt = process_word(f, "keyboard_interrupt")
    is_interrupt = f.call("PyErr_ExceptionMatches", interrupt, result="i32") != 0
    with f.when(is_interrupt & (status.get() == Fault.CANCELLED)):
        f.call("PyErr_Clear", result="void")
        f.ret(status.get())
    f.ret(-1)
    return f


def _for_signals(f: Function, do: Function, before: Word, work: Word) -> None:
    f.call_function(do, _INTERRUPT, before)
    with f.when(work >= _VERY_LONG_NS):
        for number, signal in enumerate(_OTHERS, 1):
            f.call_function(do, signal, before + number * _ACTION_BYTES)


def _without_gil(f: Function, kernel: Word, words: Word, context: Word) -> Word:
    state = f.call("PyEval_SaveThread")
    with f.when((f.load(context, CTX["flags"].offset) & CTX_MAIN_THREAD) != 0):
        f.store(f.outside(PROCESS_SYMBOL), state, PROCESS["state"])
    status = f.call_pointer(kernel, words, context, result="i32")
    f.call("PyEval_RestoreThread", state, result="void")
    return status


def _write_attend(module: Module) -> None:
    """attend(context): 0 to go on, CANCELLED to stop, with a Python error set on the main thread.

    The threads that help it go on until it knows.
    """
    f = module.function("tilewright_attend", 1, result="i32")
    (context,) = f.parameters
    cancel = f.load(context, CTX["cancel"].offset)
    word = f.atomic_load(cancel, size=4)
    with f.when((word != 0) & (word != LOOK)):
        f.ret(Fault.CANCELLED)
    is_main = (f.load(context, CTX["flags"].offset) & CTX_MAIN_THREAD) != 0
    with f.when(is_main & (word == LOOK)):
        f.store(cancel, 0, size=4)
        f.call("PyEval_RestoreThread", process_word(f, "state"), result="void")
        raised = f.call("PyErr_CheckSignals", result="i32")
        f.call("PyEval_SaveThread")
        with f.when(raised != 0):
            f.store(cancel, CANCEL, size=4)
            f.ret(Fault.CANCELLED)
    f.ret(0)


def _write_give_up(module: Module) -> None:
    """give_up(context): CANCELLED."""
    module.function("tilewright_give_up", 1, result="i32").ret(Fault.CANCELLED)


def _write_listen(module: Module, handler: Function) -> tuple[Function, Function]:
    """listen(signal, before): our handler, where the program has one; `before` is what there was.

    forget(signal, before): as it was, unless the program has changed it meanwhile.
    """
    f = module.function("tilewright_listen", 2, result="void", exported=False)
    signal, before = f.parameters
    f.call("sigaction", signal, 0, before, result="i32")
    found, ours = f.load(before), f.address_of(handler)
    with f.when((found == 0) | (found == 1)):
        f.ret()  # ignored, or a command to die
    with f.when(found != ours):
        action = f.array(SIGACTION_WORDS)
        f.call("memcpy", _action_of(f, signal), before, _ACTION_BYTES)
        f.call("memset", action, 0, _ACTION_BYTES)
        f.store(action, ours)
        f.store(action, _SA_SIGINFO | _SA_ONSTACK, 8 * _LAST_FLAGS_WORD, 4)
        f.call("sigaction", signal, action, 0, result="i32")
    f.ret()
    listen = f
    f = module.function("tilewright_forget", 2, result="void", exported=False)
    signal, before = f.parameters
    now = f.array(SIGACTION_WORDS)
    found, ours = f.load(before), f.address_of(handler)
    with f.when((found != 0) & (found != 1) & (found != ours)):
        f.call("sigaction", signal, 0, now, result="i32")
        with f.when(f.load(now) == ours):
            f.call("sigaction", signal, before, 0, result="i32")
    f.ret()
    return listen, f


def _action_of(f: Function, signal: Word) -> Word:
    return f.outside(ACTIONS_SYMBOL) + signal * _ACTION_BYTES


def _write_handler(module: Module) -> Function:
    """handler(signal, info, context): set the cancel word, then do what was done before."""
    f = module.function("tilewright_on_signal", 3, result="void")
    signal = (f.parameters[0] << 32) >> 32  # an int
    word = process_word(f, "cancel")
    with f.when(f.load(word, size=4) == 0):
        f.store(word, LOOK, size=4)
    before = f.load(_action_of(f, signal))
    with f.when((before != 0) & (before != 1)):
        f.call_pointer(before, *f.parameters, result="void")
    f.ret()
    return f
