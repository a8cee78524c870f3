"""What a kernel reports: a status that becomes a named error, and lines it printed."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.abi import Fault, Manifest, Signature, decode_scalar, fault_name
from tilewright.dtypes import DType
from tilewright.errors import CancelledError, InternalError
from tilewright.errors.faults import FAULT_ERRORS
from tilewright.runtime.context import Context


def fault_error(
    status: int, context: Context, signature: Signature, manifest: Manifest
) -> BaseException:
    """The error that a non-zero status stands for, at the author's line."""
    written = _partly_written(signature)
    if status == Fault.CANCELLED:
        return CancelledError(f"{manifest.name} was interrupted; {written}")
    known = FAULT_ERRORS.get(fault_name(status))
    if known is None:
        return InternalError(f"{manifest.name} returned the unknown status {status}")
    error_class, template = known
    number = context.get("fault_op")
    message = manifest.texts.get(number, template).format(*context.fault_values())
    site = manifest.sites.get(number)
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
