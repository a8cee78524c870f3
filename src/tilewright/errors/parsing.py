"""What the parsed style refuses while it reads a function."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from types import new_class
from typing import Any

from tilewright.errors.base import TilewrightError
from tilewright.errors.location import Location


class ParserError(TilewrightError):
    """The parsed style cannot read this; the classes below say why.

    Raised directly by a failing `pl.static_assert` and by what has no class of its own.

    Bad::

        pl.static_assert(ROWS % 16 == 0, "ROWS must be a multiple of 16")   # ROWS = 20

    Good::

        ROWS = 32
    """

    code = "TW100"


class ParserSyntaxError(ParserError):
    """A statement is well-formed Python, but stands where the language does not allow it.

    Bad::

        for i, (acc,) in pl.range(4, init_values=(zero,)):
            pl.yield_(pl.add(acc, x))            # the result gets no name

    Good::

        for i, (acc,) in pl.range(4, init_values=(zero,)):
            acc = pl.yield_(pl.add(acc, x))
    """

    code = "TW101"


class SourceUnavailable(ParserSyntaxError, OSError):
    """The source of a function or class that is to be read is nowhere: it was typed at an
    interactive prompt, or run by a bare `exec`.

    Bad::

        exec("@pl.jit\\ndef kernel(x): ...")

    Good::

        from kernels import kernel              # a file, or a cell of a notebook
    """

    code = "TW108"


class ParserTypeError(ParserError, TypeError):
    """An annotation is missing, is no type, or disagrees with the value it annotates.

    Bad::

        y: pl.Tensor[[64], pl.FP32] = pl.exp(x)     # x has shape [32]

    Good::

        y: pl.Tensor[[32], pl.FP32] = pl.exp(x)
    """

    code = "TW102"


class UndefinedVariableError(ParserError):
    """A name is bound neither in the body before this line nor around the function.

    Bad::

        y = pl.add(x, bais)

    Good::

        y = pl.add(x, bias)
    """

    code = "TW103"


class SSAViolationError(ParserError):
    """A name is bound twice in a function that asked for single assignment (`strict_ssa=True`).

    Bad::

        y = pl.exp(x)
        y = pl.mul(y, 2.0)

    Good::

        y = pl.exp(x)
        z = pl.mul(y, 2.0)
    """

    code = "TW104"

    def __init__(
        self,
        message: str,
        span: Location | None = None,
        hint: str | None = None,
        note: str | None = None,
        source_lines: Sequence[str] | None = None,
        *,
        previous_span: Location | None = None,
    ) -> None:
        super().__init__(message, span, hint, note, source_lines)
        self.previous_span = previous_span
        if previous_span is not None:
            self.with_note("previous definition is here", previous_span)


class UnsupportedFeatureError(ParserError):
    """A piece of Python that the language does not have.

    Bad::

        total += x

    Good::

        total = total + x
    """

    code = "TW105"


UnsupportedSyntax = UnsupportedFeatureError


class InvalidOperationError(ParserError):
    """There is no such operation, or it does not take these arguments.

    Bad::

        y = pl.matmull(a, b)

    Good::

        y = pl.matmul(a, b)
    """

    code = "TW106"


def as_invalid_operation(error: TilewrightError) -> TilewrightError:
    """The same error, which `except InvalidOperationError` catches now, too.

    What a type rule says of an operation in a parsed body (`ShapeMismatch`, a ValueError) keeps its
    class, its code and its page. Other errors, which speak of no argument, stay as they are.
    """
    if isinstance(error, (TypeError, ValueError)) and not isinstance(error, ParserError):
        object.__setattr__(error, "__class__", _blended(type(error)))
    return error


@cache
def _blended(cls: type[TilewrightError]) -> type[TilewrightError]:
    def reduce(self: TilewrightError) -> tuple[Any, ...]:
        return _revived, (cls, self.args, vars(self))

    bases: tuple[type, ...] = (cls, InvalidOperationError)
    facts = {"__module__": cls.__module__, "__doc__": cls.__doc__, "is_listed": False}
    return new_class(cls.__name__, bases, None, lambda body: body.update(facts, __reduce__=reduce))


def _revived(
    cls: type[TilewrightError], args: tuple[Any, ...], facts: dict[str, Any]
) -> TilewrightError:
    error = _blended(cls)(*args)
    vars(error).update(facts)
    return error


class ScopeIsolationError(ParserError):
    """A name bound inside a scope is used after the scope has ended without leaving it.

    Bad::

        for i, (s,) in pl.range(4, init_values=(zero,)):
            part = pl.load(x, [i, 0], [1, 64])
            s = pl.yield_(pl.add(s, part))
        pl.store(part, [0, 0], out)

    Good::

        pl.store(s, [0, 0], out)
    """

    code = "TW107"
