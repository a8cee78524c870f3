"""What a kernel reports: a status that becomes a named error, and lines it printed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilewright.abi import Fault, Manifest, Signature, decode_scalar
from tilewright.dtypes import DType
from tilewright.errors import (
    CancelledError,
    Deadlock,
    DivisionByZero,
    IndexOutOfBounds,
    InternalError,
    KernelFault,
    RuntimeShapeMismatch,
)
from tilewright.runtime.context import Context

_ERRORS: Mapping[int, tuple[type[KernelFault], str]] = {
    Fault.INDEX_OUT_OF_BOUNDS: (
        IndexOutOfBounds,
        "index {0} is outside [{1}, {2}) along dimension {3}",
    ),
    Fault.DIVISION_BY_ZERO: (DivisionByZero, "an integer is divided by zero"),
    Fault.SHAPE_MISMATCH: (RuntimeShapeMismatch, "an extent is {0}; it must be {1}"),
    Fault.ASSERTION: (KernelFault, "an assertion of the kernel does not hold"),
    Fault.DEADLOCK: (Deadlock, "every participant waits for another one"),
    Fault.RING_OVERFLOW: (KernelFault, "a ring between participants is full"),
}


def fault_error(
    status: int, context: Context, signature: Signature, manifest: Manifest
) -> BaseException:
    """The error that a non-zero status stands for, at the author's line."""
    written = _partly_written(signature)
    if status == Fault.CANCELLED:
        return CancelledError(f"{manifest.name} was interrupted; {written}")
    known = _ERRORS.get(status)
    if known is None:
        return InternalError(f"{manifest.name} returned the unknown status {status}")
    error_class, template = known
    message = template.format(*context.fault_values())
    site = manifest.sites.get(context.get("fault_op"))
    lines = None if site is None else site.lines()
    error = error_class(
        f"{manifest.name}: {message}", None if site is None else site.span, source_lines=lines
    )
    return error.with_note(written)


def _partly_written(signature: Signature) -> str:
    names = [repr(p.name) for p in signature.tensors if p.is_written and not p.implicit]
    if not names:
        return "no argument was written"
    return f"partly written, perhaps: {', '.join(names)}"


def format_prints(records: Sequence[tuple[int, ...]], lost: int, manifest: Manifest) -> list[str]:
    """The lines that print records stand for."""
    lines: list[str] = []
    for op, *words in records:
        template, kinds = manifest.prints.get(op, ("<print {0}>", ("INT64",)))
        values = [decode_scalar(w, DType.from_name(kind)) for w, kind in zip(words, kinds)]
        lines.append(template.format(*values))
    if lost:
        lines.append(f"... and {lost} more lines that did not fit ({manifest.name})")
    return lines
