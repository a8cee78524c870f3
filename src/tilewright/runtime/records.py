"""How the entry stub sees things: numpy's arrays, DLPack tensors, and the runtime's own records.

Offsets are in bytes. The records are arrays of 64-bit words that `variants.py` writes and the stub
reads.
"""

from __future__ import annotations

from enum import IntEnum


def _words(*names: str) -> dict[str, int]:
    return {name: 8 * index for index, name in enumerate(names)}


# A callable instance: the object header, then its vectorcall function and its table of variants.
INSTANCE = {"type": 8, "vectorcall": 16, "table": 24}
INSTANCE_SIZE = 32
FLOAT_VALUE = 16

# numpy.ndarray and torch's DLTensor, 64-bit CPython; `stub.py` verifies the first by a probe.
NDARRAY = {"data": 16, "ndim": 24, "dims": 32, "strides": 40, "descr": 56, "flags": 64}
DLTENSOR = {
    "data": 0,
    "device": 8,
    "ndim": 16,
    "type": 20,
    "shape": 24,
    "strides": 32,
    "offset": 40,
}
DLTENSOR_WORDS = 6
DLPACK_CPU = 1
MANAGED_TENSOR = {"deleter": 16, "tensor": 32}  # DLManagedTensorVersioned

# DLPack's table of C exchange functions.
EXCHANGE = {"version": 0, "allocate": 16, "wrap": 32, "read": 40}

NPY_CONTIGUOUS, NPY_ALIGNED, NPY_WRITEABLE = 0x1, 0x100, 0x400

# Table of an instance: how many variants, then their addresses.
MAX_VARIANTS = 64

VARIANT = _words(
    "kernel",
    "owner",  # Python object with `report_status`; held while the kernel runs
    "epoch",  # the process epoch it holds in, or 0: any
    "arguments",  # how many the caller passes
    "guards",
    "guard_count",
    "params",
    "param_count",
    "pairs",
    "pair_count",
    "work",
    "work_count",
    "grid_constant",
    "grid_symbol",
    "grid_scale",
    "grid_divisor",
    "arena_bytes",
    "returns",
    "return_count",
    "returns_tuple",
)

PARAM = _words(
    "kind",
    "slot",  # word of the pointer, or of the scalar
    "descr",  # numpy dtype object
    "dlpack_type",
    "ndim",
    "dims",
    "flags",  # numpy flags that must be set
    "strides_slot",  # first stride word, or -1: contiguous
    "last_stride_is_one",
    "shift",  # log2 of the item size
    "low",
    "high",
    "zeroed",
)
PARAM_SIZE = 8 * len(PARAM)


class Kind(IntEnum):
    """What a parameter record describes."""

    TENSOR = 0
    IMPLICIT = 1
    INTEGER = 2
    FLOAT32 = 3
    FLOAT64 = 4
    BOOL = 5


DIM = _words("operation", "constant", "slot", "scale", "divisor")
DIM_SIZE = 8 * len(DIM)


class DimOperation(IntEnum):
    """How an extent meets its record; the last two are the general form of the two before."""

    STATIC = 0  # extent == constant
    BIND = 1  # word[slot] = extent
    CHECK = 2  # extent == word[slot]
    BIND_AFFINE = 3  # word[slot] = (extent - constant) / scale, a whole number >= 0
    CHECK_AFFINE = 4  # extent == (constant + scale * word[slot]) / divisor


GUARD = _words("kind", "container", "key", "expected")
GUARD_SIZE = 8 * len(GUARD)


class GuardKind(IntEnum):
    """Where a guarded word is found."""

    DICT = 0  # under a key
    WORD = 1  # at an offset in the container
    ITEM = 2  # at an offset in what a list points to


CELL_CONTENTS = 16
LIST = {"size": 16, "items": 24}
DICT_VERSION = 24  # of CPython before 3.14: a number that every change of a dict replaces

PAIR = _words("first", "second", "same_is_fine")  # parameter indices
PAIR_SIZE = 8 * len(PAIR)

WORK = _words("scaled_ns", "first", "second", "third")  # slots; ONE_SLOT holds 1
WORK_SIZE = 8 * len(WORK)
WORK_SCALE = 1024

MAX_PARAMS = 32
MAX_RANK = 8
MAX_WORDS = 128
ONE_SLOT = MAX_WORDS

# One per process; what the stub needs that differs from process to process.
EXCHANGE_TYPES = 4
PROCESS = _words(
    "epoch",
    "ndarray_type",
    "none",
    "true",
    "false",
    "long_type",
    "float_type",
    "keyboard_interrupt",
    "name_call_slowly",
    "name_report_status",
    "name_requires_grad",
    "new_from_descr",
    "thread_key",
    "cancel",  # address of the cancel word that signal handlers set
    "state",  # Python's state of the main thread, while its kernel runs without the GIL
    *(f"exchange_{what}_{i}" for i in range(EXCHANGE_TYPES) for what in ("type", "table")),
)
PROCESS_SYMBOL = "tilewright_process"
ACTIONS_SYMBOL = "tilewright_actions"
"""By signal, what was done about it before its handler was ours."""
SIGACTION_WORDS = 19
SIGNALS = 65
CANCEL, LOOK = 1, 2
"""What is in a cancel word: stop; or, for the main thread, look what its signals are."""

LARGE_RESULT = 32 << 20
"""Bytes of arrays whose memory the C library does not keep."""

CTX_MAIN_THREAD, CTX_BUSY = 1, 2  # bits of the context's `flags`

# The thread pool. Words that different threads write are on cache lines of their own.
POOL = {
    "epoch": 0,  # counts launches; workers wait for it to change
    "stop": 8,
    "workers": 16,
    "contexts": 24,  # addresses of the workers' contexts
    "spin": 32,
    "body": 64,
    "env": 72,
    "cells": 80,
    "parts": 88,  # a chunk is so small a part of the cells that are left
    "least": 96,  # and at least so many
    "caller": 104,  # context of the launching thread
    "ticket": 128,  # epoch << 32 | first cell nobody has taken
    "done": 192,  # cells that are finished, or given up
    "sleepers": 256,
    "busy": 264,
    "lock": 320,  # for those below
    "status": 328,
    "first": 336,  # lowest cell whose chunk failed
    "fault": 344,  # its fault record; the caller's own context may hold that of another chunk
}
POOL_SIZE = 384
MAX_CELLS = 1 << 30
