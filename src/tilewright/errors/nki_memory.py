"""Named errors of the traced style: explicit allocations."""

from __future__ import annotations

from tilewright.errors.nki import NKIRuntimeError, NKIValueError, page

ALLOCATION_RANGE = page(
    "allocation_out_of_range",
    NKIValueError,
    "the allocation of '{name}' takes {given} of {memory}; {available} are there",
    """An explicit allocation lies in the memory: in partitions, banks and bytes that exist.

    Bad::

        t = nl.ndarray((128, 512), dtype=nl.float32, buffer=ncc.sbuf.mod_alloc(base_addr=300_000))

    Good::

        t = nl.ndarray((128, 512), dtype=nl.float32, buffer=ncc.sbuf.mod_alloc(base_addr=0))
    """,
)
ALLOCATION_OVERLAP = page(
    "allocation_overlap",
    NKIRuntimeError,
    "'{name}' is written where '{other}' lies, which is read afterwards: both take {where}",
    """Explicit allocations share memory only if what one holds has been read before the other is
    written. Looked for with the option `check_allocation=True`.

    Bad::

        a = nl.ndarray((128, 512), dtype=nl.float32, buffer=ncc.sbuf.mod_alloc(base_addr=0))
        b = nl.ndarray((128, 512), dtype=nl.float32, buffer=ncc.sbuf.mod_alloc(base_addr=1024))

    Good::

        a = nl.ndarray((128, 512), dtype=nl.float32, buffer=ncc.sbuf.mod_alloc(base_addr=0))
        b = nl.ndarray((128, 512), dtype=nl.float32, buffer=ncc.sbuf.mod_alloc(base_addr=2048))
    """,
    "give them other addresses, or read the first before the second is written",
)
