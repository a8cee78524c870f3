"""Named errors of the traced style: what fits on the chip, and where it lies."""

from __future__ import annotations

from tilewright.errors.nki import NKIRuntimeError, NKISyntaxError, NKIValueError, page

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
MIXED_ALLOCATION = page(
    "mixed_allocation",
    NKISyntaxError,
    "this tensor is placed by {this}, and others of the kernel by {others}",
    """A kernel leaves all of its tensors on the chip to the compiler, or places all of them itself.

    Bad::

        a = nl.ndarray((128, 512), dtype=nl.float32, buffer=ncc.sbuf.mod_alloc(base_addr=0))
        b = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)

    Good::

        a = nl.ndarray((128, 512), dtype=nl.float32, buffer=ncc.sbuf.mod_alloc(base_addr=0))
        b = nl.ndarray((128, 512), dtype=nl.float32, buffer=ncc.sbuf.mod_alloc(base_addr=2048))
    """,
    "give every tensor a place, or none",
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
START_PARTITION = page(
    "start_partition_exceed_arch_limit",
    NKIValueError,
    "{op}: operand '{name}' takes {count} partitions from partition {start} on; so many start at "
    "{supported}",
    """Engines reach partitions in quadrants of 32: an operand of up to 32 partitions starts at 0,
    32, 64 or 96, of up to 64 at 0 or 64, a larger one at 0. Loads, stores and copies by DMA reach
    any partition.

    Bad::

        nl.exp(t[16:48])

    Good::

        nl.exp(t[32:64])
    """,
    "start at one of those, or move it there with nisa.dma_copy, which reaches any partition",
)
CAPACITY_SBUF = page(
    "stack_overflow_sbuf",
    NKIRuntimeError,
    "the kernel needs {needed} bytes of SBUF per partition, {available} are available",
    """The tensors that live at the same time do not fit.

    Bad::

        t = nl.zeros((128, 100_000), dtype=nl.float32)

    Good::

        t = nl.zeros((128, 10_000), dtype=nl.float32)
    """,
    "work on smaller tiles",
)
CAPACITY_PSUM = page(
    "stack_overflow_psum",
    NKIRuntimeError,
    "the kernel needs {needed} banks of PSUM, {available} are available",
    """The accumulators that live at the same time do not fit.

    Bad::

        acc = [nl.zeros((128, 512), dtype=nl.float32, buffer=nl.psum) for _ in range(9)]

    Good::

        acc = [nl.zeros((128, 512), dtype=nl.float32, buffer=nl.psum) for _ in range(8)]
    """,
    "copy results to SBUF before starting the next accumulation",
)
