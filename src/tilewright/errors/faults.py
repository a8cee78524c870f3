"""What goes wrong while a kernel runs."""

from collections.abc import Mapping

from tilewright.errors.base import TilewrightError


class KernelFault(TilewrightError, RuntimeError):
    """A running kernel stopped; outputs may be partly written.

    Bad::

        kernel(x, indices=[10**9], out=out)

    Good::

        kernel(x, indices=[0], out=out)
    """

    code = "TW400"


class IndexOutOfBounds(KernelFault, IndexError):
    """An index that is known only at run time lies outside its tensor.

    Bad::

        pl.gather(x, dim=0, index=rows)     # rows holds 64, x has 64 rows

    Good::

        pl.gather(x, dim=0, index=pl.minimum(rows, 63))
    """

    code = "TW401"
    remedy = (
        "Keep it inside, or cut the tile off at the border: "
        "valid_shape= of pl.load, mask= of nl.load."
    )


class DivisionByZero(KernelFault, ZeroDivisionError):
    """Native code reports that an integer is divided by zero.

    Only code that is not ours does: in the language, `x // 0` and `x % 0` are 0.

    Bad::

        return 17;                          // FAULT_DIVISION_BY_ZERO, in C++

    Good::

        out[i] = n == 0 ? 0 : total / n;
    """

    code = "TW402"


class RuntimeShapeMismatch(KernelFault, ValueError):
    """Two extents that must agree turn out to differ when the kernel runs.

    Bad::

        y = pl.reshape(x, [M, 4])           # x is [N, 8] with N = 2, and M is 5

    Good::

        y = pl.reshape(x, [2 * N, 4])
    """

    code = "TW403"


class Deadlock(KernelFault):
    """Every participant waits for another one; the notes name the line at which each is blocked.

    Bad::

        pld.system.wait(signal, [0], 1, cmp=pld.WaitCmp.Ge)         # on every rank
        pld.system.notify(signal, peer, [0], 1, op=pld.NotifyOp.Set)

    Good::

        pld.system.notify(signal, peer, [0], 1, op=pld.NotifyOp.Set)
        pld.system.wait(signal, [0], 1, cmp=pld.WaitCmp.Ge)
    """

    code = "TW404"


class ExternalKernelFailed(KernelFault):
    """A kernel in C++ returned a status other than TW_OK, or threw an exception.

    Bad::

        int32_t scale(tw::Tensor<float, 1> x) { return 3; }

    Good::

        int32_t scale(tw::Tensor<float, 1> x) { return TW_OK; }
    """

    code = "TW406"


class ZeroStep(KernelFault, ValueError):
    """The step of a loop, which is known only at run time, is 0.

    Bad::

        kernel(x, step=0)                   # for i in pl.range(0, 8, step)

    Good::

        kernel(x, step=1)
    """

    code = "TW407"


class OutOfMemory(KernelFault, MemoryError):
    """A running kernel makes a tensor or tile for which there is no memory.

    Bad::

        t = pl.create_tensor([n * n, n * n], dtype=pl.FP32)         # where n is 10**6

    Good::

        t = pl.create_tensor([n, 64], dtype=pl.FP32)
    """

    code = "TW408"


class CancelledError(KeyboardInterrupt):
    """A running kernel was interrupted from the keyboard; outputs may be partly written."""

    code = "TW405"


_SIDES = "every side has ended or waits: side {0}, where 0 is the cube core and 1 + n lane n,"
_ALONE = (
    "a C++ kernel has no other side: it needs core_type='mixed', or a kernel of the other core "
    "that is called next to it in a pl.FunctionType.Group or pl.cluster()"
)
FAULT_ERRORS: Mapping[str, tuple[type[KernelFault], str]] = {
    "INDEX_OUT_OF_BOUNDS": (
        IndexOutOfBounds,
        "index {0} is outside [{1}, {2}) along dimension {3}",
    ),
    "DIVISION_BY_ZERO": (DivisionByZero, "an integer is divided by zero"),
    "SHAPE_MISMATCH": (RuntimeShapeMismatch, "an extent is {0}; it must be {1}"),
    "NO_SUCH_RANK": (IndexOutOfBounds, "rank {0} of {1}"),
    "NOT_AS_REQUIRED": (RuntimeShapeMismatch, "something is not as required"),
    "ZERO_STEP": (ZeroStep, "the step of a loop is 0"),
    "NO_MEMORY": (OutOfMemory, "{0:,} bytes of scratch memory are not to be had"),
    "ASSERTION": (KernelFault, "an assertion of the kernel does not hold"),
    "DEADLOCK": (Deadlock, "every participant waits for another one"),
    "RING_OVERFLOW": (KernelFault, "a ring between participants is full"),
    "NO_OTHER_SIDE": (Deadlock, _ALONE),
    "SIDES_PUSH": (Deadlock, f"{_SIDES} for a free slot in pipe {{1}}, which has {{2}}"),
    "SIDES_POP": (Deadlock, f"{_SIDES} for a tile in pipe {{1}}"),
    "SIDES_EVENT": (Deadlock, f"{_SIDES} for event {{1}}"),
    "SIDES_MEET": (Deadlock, f"{_SIDES} for all to meet"),
    "TILE_MISMATCH": (RuntimeShapeMismatch, "a tile of {0} bytes was pushed, not one of {1}"),
    "EXTERNAL_STATUS": (ExternalKernelFailed, "a kernel in C++ returned the status {0}"),
    "EXTERNAL_EXCEPTION": (ExternalKernelFailed, "a kernel in C++ threw an exception"),
}
"""What a fault is raised as, by its name, with the text that its values complete."""
