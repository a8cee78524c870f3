"""What goes wrong while a kernel runs."""

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


class CancelledError(KeyboardInterrupt):
    """A running kernel was interrupted from the keyboard; outputs may be partly written."""

    code = "TW405"
