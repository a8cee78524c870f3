"""Kernels in C++: called by way of ctypes, the library that compiled code calls, too."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from tilewright import external as libraries
from tilewright.interp.emit import Emitter, handles, tuple_text
from tilewright.ir.core import Operation, Value
from tilewright.ir.types import BufferType
from tilewright.ops import external


@handles(external.body)
def emit_body(e: Emitter, op: Operation) -> None:
    """The kernel of the function on its parameters, which it writes in place."""
    attrs = external.kernel_of(e.function)
    params = e.function.params
    count = len(e.written_params())
    places: tuple[int, ...] = attrs["places"]
    given = [params[place] for place in places]
    operands = (tuple(given[:count]), tuple(given[count:]))
    call = Operation(external.kernel, operands, attrs, (), (), op.span)
    emit_run(e, call, [e.name(value) for value in params])


@handles(external.kernel)
def emit_kernel(e: Emitter, op: Operation) -> None:
    """One kernel; it writes the memory of the versions that it replaces."""
    written, read = op.operands
    names = [e.handed(value) for value in written]
    results = e.define_all(op.results)
    e.assign(results, names)
    emit_run(e, op, _in_order(op, [*results, *(e.name(value) for value in read)]))


@handles(external.on_buffers)
def emit_on_buffers(e: Emitter, op: Operation) -> None:
    """One kernel on buffers."""
    values: list[Value] = [*op.operands[0], *op.operands[1]]
    emit_run(e, op, _in_order(op, [_array_text(e, value) for value in values]))


def emit_run(e: Emitter, op: Operation, args: Sequence[str]) -> None:
    """The call; `args` are the texts of all arguments, in the order of the parameters."""
    dtypes = [external.scalar_dtype(value.type) for value, _ in external.arguments(op)]
    around = external.around(op)
    call: Any = partial(libraries.run, external.external_kernel(op), dtypes, around)
    e.text.line(f"{e.text.constant(call, 'f')}({tuple_text(args)})")


def _array_text(e: Emitter, value: Value) -> str:
    name = e.name(value)
    return f"{name}.array()" if isinstance(value.type, BufferType) else name


def _in_order(op: Operation, names: Sequence[str]) -> list[str]:
    by_place = dict(zip(op.attrs["places"], names, strict=True))
    return [by_place[place] for place in range(len(names))]
