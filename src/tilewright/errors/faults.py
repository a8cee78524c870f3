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
    """An integer is divided by zero.

    Bad::

        blocks = total // size      # size = 0

    Good::

        blocks = total // pl.max(size, 1)
    """

    code = "TW402"


class RuntimeShapeMismatch(KernelFault, ValueError):
    """Two extents that must agree turn out to differ when the kernel runs.

    Bad::

        kernel(x, y)        # both declared [N, 64]; x has 16 rows, y has 17

    Good::

        kernel(x, y[:16])
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
