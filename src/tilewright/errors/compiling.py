"""What checks and lowering refuse after a kernel has been read."""

from __future__ import annotations

from tilewright.errors.base import TilewrightError


class StaleRead(TilewrightError):
    """A version of a global tensor is read after a newer one has been written in its place.

    Bad::

        new = pl.store(t, [0, 0], out)
        old = pl.load(out_before, [0, 0], [16, 16])     # the contents are gone

    Good::

        old = pl.load(out, [0, 0], [16, 16])
        new = pl.store(t, [0, 0], out)
    """

    code = "TW301"


class VerificationError(TilewrightError):
    """A program breaks a rule of the intermediate representation.

    Bad::

        if flag:
            y = pl.yield_(a)
        else:
            y, z = pl.yield_(a, b)      # another number of values

    Good::

        if flag:
            y = pl.yield_(a)
        else:
            y = pl.yield_(b)
    """

    code = "TW302"


class PartialCodegenError(TilewrightError):
    """Some functions of a program could not be compiled; `also` holds one error for each.

    Bad::

        @pl.jit
        def entry(x: pl.Tensor[[8, 8], pl.FP32], out: pl.Out[pl.Tensor[[8, 8], pl.FP32]]):
            out[:] = pl.exp(x)                          # outside any scope

    Good::

        @pl.jit
        def entry(x: pl.Tensor[[8, 8], pl.FP32], out: pl.Out[pl.Tensor[[8, 8], pl.FP32]]):
            with pl.at(level=pl.Level.CORE_GROUP):
                out[:] = pl.exp(x)
    """

    code = "TW303"


class UnsupportedOnTarget(TilewrightError):
    """The chosen device has no instruction for this operation and element type.

    Bad::

        pl.matmul_mx(a, a_scale, b, b_scale)    # for a device of the first generation

    Good::

        pl.matmul(a, b)
    """

    code = "TW304"


class LimitExceeded(TilewrightError):
    """A program needs more of some memory, or a larger extent, than the chosen device has, or more
    threads for its participants than the system starts.

    Bad::

        t = pl.create_tile([4096, 4096], dtype=pl.FP32)

    Good::

        for i in pl.range(64):
            t = pl.load(x, [64 * i, 0], [64, 128])
    """

    code = "TW305"

    @classmethod
    def of_threads(cls, count: int, error: BaseException) -> LimitExceeded:
        """The error of participants for which no thread could be started."""
        return cls(
            f"{count} participants need a thread each, and the system starts no more: {error}",
            hint="Run fewer of them at the same time, or raise the limit (ulimit -u).",
        )


class ToolchainError(TilewrightError, RuntimeError):
    """Native code cannot be made on this machine: a part of the toolchain is missing or refuses.

    Bad::

        kernel.warmup()     # llvmlite is not installed

    Good::

        pip install tilewright      # brings llvmlite
    """

    code = "TW306"


class CompilerMissing(ToolchainError):
    """A kernel in C++ is called and this machine has no C++ compiler.

    Bad::

        @pl.jit.extern(core_type="aiv", source="scale.cpp")     # no c++, g++, clang++
        def scale(x: pl.Tensor[[8], pl.FP32], out: pl.Out[pl.Tensor[[8], pl.FP32]]): ...

    Good::

        TILEWRIGHT_CXX=/path/to/clang++ python program.py
    """

    code = "TW307"


class ExternalSourceRefused(ToolchainError):
    """The C++ compiler refuses a kernel, or its function does not take what is passed to it.

    Bad::

        int32_t scale(float *x, float *out);        // for two tensors of rank 1

    Good::

        int32_t scale(tw::Tensor<const float, 1> x, tw::Tensor<float, 1> out);
    """

    code = "TW308"


class HeaderMissing(ExternalSourceRefused):
    """A kernel in C++ includes a header that this machine does not have, such as a vendor's.

    Bad::

        #include "kernel_operator.h"

    Good::

        #include "tilewright.h"
    """

    code = "TW309"


class InternalError(TilewrightError, RuntimeError):
    """A defect of Tilewright, not of the program. Please report it with its traceback.

    Bad::

        (nothing an author does should end here)

    Good::

        (neither should this)
    """

    code = "TW999"
    remedy = "Report it, please, with the traceback that TILEWRIGHT_BACKTRACE=1 shows."
