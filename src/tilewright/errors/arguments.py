"""Arguments and operands that do not fit: of an operation, and of a kernel when it is called."""

from tilewright.errors.base import TilewrightError


class ArgumentError(TilewrightError):
    """An argument does not fit its parameter; the classes below say in which way.

    Bad::

        kernel("x.npy")

    Good::

        kernel(numpy.load("x.npy"))
    """

    code = "TW200"


class ArgumentCountMismatch(ArgumentError, TypeError):
    """Too few or too many arguments, or a keyword that the callee does not have.

    Bad::

        add_three(x)                # def add_three(x, out)

    Good::

        add_three(x, out)
    """

    code = "TW201"


class ArgumentTypeMismatch(ArgumentError, TypeError):
    """An argument of the wrong kind: a tensor for a scalar, a tile for a tensor.

    Bad::

        y = pl.tile.exp(tensor)

    Good::

        y = pl.tile.exp(pl.load(tensor, [0, 0], [16, 16]))
    """

    code = "TW202"


class DTypeMismatch(ArgumentError, TypeError):
    """An element type differs from the one required, or two operands' types do not combine.

    Bad::

        kernel(numpy.zeros((16, 16)))                     # float64, declared pl.FP32

    Good::

        kernel(numpy.zeros((16, 16), numpy.float32))
    """

    code = "TW203"


class RankMismatch(ArgumentError, ValueError):
    """A number of dimensions differs from the one required.

    Bad::

        pl.load(matrix, [0], [16])

    Good::

        pl.load(matrix, [0, 0], [16, 16])
    """

    code = "TW204"


class ShapeMismatch(ArgumentError, ValueError):
    """An extent differs from the one required, or cannot be proven equal to it.

    Bad::

        pl.add(tile_16x16, tile_16x32)

    Good::

        pl.add(tile_16x16, pl.slice(tile_16x32, [16, 16], [0, 0]))
    """

    code = "TW205"


class StrideMismatch(ArgumentError, ValueError):
    """An array is laid out in memory in a way that the kernel was not compiled for.

    Bad::

        kernel(x.T)

    Good::

        kernel(numpy.ascontiguousarray(x.T))
    """

    code = "TW206"


class ByteOrderMismatch(ArgumentError, ValueError):
    """An array's bytes are not in the order of this machine.

    Bad::

        kernel(x.astype(">f4"))

    Good::

        kernel(x.astype(numpy.float32))
    """

    code = "TW207"


class ReadOnlyOutput(ArgumentError, ValueError):
    """An array that the kernel writes cannot be written.

    Bad::

        out.flags.writeable = False
        kernel(x, out)

    Good::

        kernel(x, out.copy())
    """

    code = "TW208"


class OutputOverlap(ArgumentError, ValueError):
    """An array that the kernel writes shares memory with another argument.

    Bad::

        kernel(buffer[:64], buffer[32:96])

    Good::

        kernel(buffer[:64], buffer[64:128])
    """

    code = "TW209"
