"""The one door: `Builder.emit` is the only function that makes operations."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

from tilewright.dtypes import DType
from tilewright.errors import (
    ArgumentTypeMismatch,
    DTypeMismatch,
    InternalError,
    TilewrightError,
)
from tilewright.ir.core import Block, Function, Operation, Program, Value
from tilewright.ir.types import Type
from tilewright.kinds import required
from tilewright.source import Span

if TYPE_CHECKING:
    from tilewright.ir.opdef import OpDef

_ACTIVE = threading.local()


def as_types(inferred: Any) -> tuple[Type, ...]:
    """What a type rule gave, as a tuple."""
    if inferred is None:
        return ()
    return cast("tuple[Type, ...]", inferred) if isinstance(inferred, tuple) else (inferred,)


def inferred_types(op: Operation) -> tuple[Type, ...]:
    """What the type rule of an operation, which has one, says of its results."""
    assert op.opdef.infer is not None
    op.opdef.require_choices(op.attrs)
    extra = {"regions": op.regions} if op.opdef.has_regions else {}
    return as_types(op.opdef.infer(*op.operands, **op.attrs, **extra))


def require_opdef(opdef: Any) -> None:
    """Raises TypeError for what is no operation, such as the name of one."""
    if not hasattr(opdef, "infer"):
        raise TypeError(f"emit: opdef is {opdef!r}, not an OpDef such as ops.elementwise.add")


def require_operands(opdef: OpDef[..., Any], operands: tuple[Any, ...]) -> None:
    """Raises TypeError for the first operand that is no entry of an operation."""
    for entry in operands:
        for given in cast("tuple[Any, ...]", entry) if isinstance(entry, tuple) else (entry,):
            if given is not None:
                required(given, Value, f"emit: an operand of {opdef.name} is")


FINISH_HOOKS: list[Callable[[Program], None]] = []
"""Observers of every finished program (the test suite round-trips each one)."""


class Builder:
    """Emits operations at the end of the current block, typed and located.

    `span` is the author's location now; every operation emitted takes it. The builder active in
    this thread is `Builder.current()`; `with builder:` makes one active.
    """

    def __init__(self) -> None:
        self.block = Block()
        self.span: Span | None = None
        self._outer: list[Builder | None] = []

    @staticmethod
    def current() -> Builder:
        """The active builder; raises InternalError when there is none."""
        builder: Builder | None = getattr(_ACTIVE, "builder", None)
        if builder is None:
            raise InternalError("an op was emitted with no builder active")
        return builder

    def __enter__(self) -> Builder:
        self._outer.append(getattr(_ACTIVE, "builder", None))
        _ACTIVE.builder = self
        return self

    def __exit__(self, *_: object) -> None:
        _ACTIVE.builder = self._outer.pop()

    def emit(
        self,
        opdef: OpDef[..., Any],
        operands: tuple[Any, ...],
        attrs: Mapping[str, Any] | None = None,
        regions: tuple[Block, ...] = (),
        *,
        names: Sequence[str] = (),
        span: Span | None = None,
        types: tuple[Type, ...] | None = None,
    ) -> Operation:
        """Appends one operation and returns it; its results are typed by the op's rule.

        `types` stands in for the rule where it has been applied already: a copy, or a type that
        the author's annotation refines. Raises the errors of the type rule, located at the span.
        """
        attrs = {} if attrs is None else attrs
        span = span or self.span
        if types is None:
            require_opdef(opdef)
            attrs = opdef.with_flags(attrs)
            types = self._infer(opdef, operands, attrs, regions, span)
        results = tuple([Value(type_) for type_ in types])
        operation = Operation(opdef, operands, attrs, regions, results, span)
        for value in results:
            value.owner = operation
        if names:
            for value, name in zip(results, names, strict=False):
                value.name = name
        self.block.ops.append(operation)
        return operation

    def emit_known(
        self,
        opdef: OpDef[..., Any],
        operands: tuple[Any, ...],
        attrs: Mapping[str, Any],
        regions: tuple[Block, ...],
        results: tuple[Value, ...],
        span: Span | None,
    ) -> Operation:
        """Appends an operation whose results exist already (a deserialized one, verified after)."""
        types = tuple(value.type for value in results)
        operation = self.emit(opdef, operands, attrs, regions, span=span, types=types)
        operation.results = results
        for value in results:
            value.owner = operation
        return operation

    def _infer(
        self,
        opdef: OpDef[..., Any],
        operands: tuple[Any, ...],
        attrs: Mapping[str, Any],
        regions: tuple[Block, ...],
        span: Span | None,
    ) -> tuple[Type, ...]:
        if opdef.infer is None:
            raise InternalError(f"op {opdef.name} has no type rule")
        given_attrs = {**attrs, "regions": regions} if opdef.has_regions else attrs
        try:
            opdef.require_choices(attrs)
            given = opdef.infer(*operands, **given_attrs)
        except TilewrightError as error:
            if error.span is None:
                error.span = span
            raise
        except AttributeError:
            require_operands(opdef, operands)
            raise
        return as_types(given)

    def as_entry(self, given: Any) -> Any:
        """One operand entry from what a caller wrote: ints in sequences become INDEX constants."""
        if given is None or isinstance(given, Value):
            return given
        if isinstance(given, (list, tuple)):
            return tuple(map(self.index, cast("Sequence[Value | int]", given)))
        raise ArgumentTypeMismatch(f"{given!r} is not a value that an operation takes")

    def index(self, given: Value | int) -> Value:
        """`given` as an INDEX value; a Python int becomes a constant."""
        if isinstance(given, Value):
            return given
        return self.constant(given, _index_dtype())

    def constant(self, value: int | float | bool, dtype: DType) -> Value:
        """An unnamed constant of `dtype`; raises DTypeMismatch for what that cannot hold."""
        if type(value) is not float and dtype.is_float():
            value = _as_float(value, dtype)
        return self.emit(_constant_op(), (), {"value": value, "dtype": dtype}).result

    @contextmanager
    def inside(self, block: Block) -> Generator[Block]:
        """Emission goes to `block` for the duration."""
        saved, self.block = self.block, required(block, Block, "inside: block is")
        try:
            yield block
        finally:
            self.block = saved

    @contextmanager
    def located(self, span: Span | None) -> Generator[None]:
        """Operations emitted for the duration are located at `span`."""
        saved, self.span = self.span, span or self.span
        try:
            yield
        finally:
            self.span = saved


def _as_float(value: int | float, dtype: DType) -> float:
    try:
        return float(value)
    except OverflowError:
        bits = int(value).bit_length()
        raise DTypeMismatch(f"an integer of {bits} bits is beyond every {dtype}") from None


_CONSTANT: list[OpDef[..., Any]] = []


def register_constant_op(opdef: OpDef[..., Any]) -> None:
    """Called by the page of `arith.const`, the op behind `Builder.constant`."""
    _CONSTANT[:] = [opdef]


def _constant_op() -> OpDef[..., Any]:
    return _CONSTANT[0]


def _index_dtype() -> DType:
    return DType.from_name("INDEX")


def finish_program(name: str, functions: Mapping[str, Function]) -> Program:
    """A finished program; every observer in `FINISH_HOOKS` sees it."""
    program = Program(name, functions)
    for hook in FINISH_HOOKS:
        hook(program)
    return program
