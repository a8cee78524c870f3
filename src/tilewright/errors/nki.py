"""Errors of the traced style: exception classes, and the form of its catalogue of named errors.

The named errors themselves are data, in nki_control.py, nki_tensors.py and nki_instructions.py.
"""

from __future__ import annotations

from tilewright.errors.base import ErrorPage, TilewrightError

REFERENCE = "docs/reference/nki-errors.md"

NKI_PAGES: dict[str, ErrorPage] = {}
"""Every named error of the traced style, by its name ("err_...")."""


class NKIError(TilewrightError):
    """A traced kernel is refused; the name of the error (`err_...`) is its `code`.

    Bad::

        nl.load(tile)               # a tile is on chip already

    Good::

        nl.load(tensor)
    """

    code = "TW500"


class NKISyntaxError(NKIError, SyntaxError):
    """A construct that traced kernels do not have.

    Bad::

        if nl.program_id(0) < 4:
            t = t + 1.0

    Good::

        nl.store(out, t + 1.0, mask=nl.program_id(0) < 4)
    """

    code = "TW501"


class NKIValueError(NKIError, ValueError):
    """An operand has a shape, extent or value that the operation does not take.

    Bad::

        nl.zeros((256, 1024), dtype=nl.float32)

    Good::

        nl.zeros((128, 1024), dtype=nl.float32)
    """

    code = "TW502"


class NKITypeError(NKIError, TypeError):
    """An operand is of a kind, memory or element type that the operation does not take.

    Bad::

        nl.store(x, value=t)        # x is a parameter that is not declared mutable

    Good::

        nl.store(out, value=t)
    """

    code = "TW503"


class NKIIndexError(NKIError, IndexError):
    """An index lies outside the tensor or grid, or index shapes do not combine.

    Bad::

        nl.load(x[nl.arange(128)[:, None], 0])      # x has 100 rows

    Good::

        nl.load(x[nl.arange(100)[:, None], 0])
    """

    code = "TW504"


class NKIRuntimeError(NKIError, RuntimeError):
    """An operation is used where it cannot be used: outside a kernel, or on another target.

    Bad::

        nl.zeros((4, 8), dtype=nl.float32)      # at module level

    Good::

        @nki.jit
        def kernel(x):
            t = nl.zeros((4, 8), dtype=nl.float32)
    """

    code = "TW505"


class NKINotImplementedError(NKIError, NotImplementedError):
    """An operation exists in the language but not on this machine.

    Bad::

        nki.baremetal(kernel)(x)        # asks for a device

    Good::

        nki.simulate_kernel(kernel, x)
    """

    code = "TW506"


def page(
    name: str, exception: type[NKIError], message: str, doc: str, hint: str | None = None
) -> ErrorPage:
    """Registers the named error `err_<name>`; its reference is the last line of what is shown."""
    code = f"err_{name}"
    assert code not in NKI_PAGES, f"{code} is declared twice"
    NKI_PAGES[code] = ErrorPage(
        code, exception, message, doc, hint, f"`tilewright explain {code}`, {REFERENCE}#{code}"
    )
    return NKI_PAGES[code]


BLOCK_DIMENSION_WARNING = (
    "warn_block_dimension_is_deprecated: the shape {shape} has dimensions before the partition "
    "dimension; use a list of tiles, or a longer free dimension"
)
