"""Lowering of one function: parameters become buffers, results become more parameters.

A tensor that is returned and is the last version of a parameter is that parameter; any other
returned tensor or scalar becomes an Out buffer after the declared parameters, a scalar as one of
shape [1]. The attribute `results` says, for each returned value, which parameter holds it and how:
("tensor", position) or ("scalar", position).
"""

from __future__ import annotations

from typing import Any

from tilewright.errors import UnsupportedFeatureError
from tilewright.ir.affine import Expr
from tilewright.ir.builder import Builder
from tilewright.ir.core import Block, Function, Value
from tilewright.ir.enums import ParamDirection
from tilewright.ir.rewrite import copy_function
from tilewright.ir.types import BufferType, ScalarType, ShapedType, Type, buffer_of
from tilewright.ops import control, loop
from tilewright.passes.blocks import end_block, flush, lower_block
from tilewright.passes.inline_calls import lone_symbol
from tilewright.passes.lowering import Lowering, buffer_type_of
from tilewright.passes.plan import Target
from tilewright.passes.regions import tied_root
from tilewright.passes.storage import Storage


def lower_function(function: Function) -> Function:
    """`function`, which calls nothing, at loop level."""
    builder = Builder()
    with builder:
        return FunctionLowering(builder, function).run()


class FunctionLowering:
    """Lowers one function."""

    def __init__(self, builder: Builder, function: Function) -> None:
        self.function = function
        self.builder = builder
        self.params = [self.param(value) for value in function.params]
        self.directions = list(function.directions)
        self.outs: dict[Value, Storage] = {}
        self.body = Block(tuple(self.params))
        builder.block = self.body
        self.lowering = Lowering(builder)

    def param(self, value: Value) -> Value:
        """The loop-level parameter for `value`."""
        type_ = value.type
        if isinstance(type_, ScalarType):
            new = Value(type_, value.name)
            if type_.dtype.is_int():
                new.bind_symbol(value.symbol)
            return new
        if isinstance(type_, ShapedType):
            view = getattr(type_, "view", None)
            return Value(buffer_type_of(type_, view.stride if view else None), value.name)
        raise UnsupportedFeatureError(
            f"parameter {value.name} of type {type_} cannot be passed to compiled code",
            self.function.span,
        )

    def run(self) -> Function:
        """The lowered function."""
        self.bind_params()
        targets = self.place_results()
        lower_block(self.lowering, self.function.body, targets)
        results = self.store_results()
        end_block(self.lowering)
        body = Block(tuple(self.params), self.body.ops)
        written = [
            param
            for param, way in zip(self.params, self.directions, strict=True)
            if way is not ParamDirection.In
        ]
        self.builder.emit(control.return_, ((), tuple(written)), {})
        attrs: dict[str, Any] = {**self.function.attrs, "results": results}
        return copy_function(
            self.function,
            body,
            directions=tuple(self.directions),
            return_types=(),
            attrs=attrs,
        )

    def bind_params(self) -> None:
        """Scalars and memory of the declared parameters."""
        lowering = self.lowering
        given = zip(self.function.params, self.params, self.directions, strict=True)
        for old, new, direction in given:
            if isinstance(new.type, BufferType):
                written = direction is not ParamDirection.In
                lowering.stored[old] = Storage(new, is_global=True, is_written=written)
                self.bind_extents(new, new.type)
            else:
                lowering.define_scalar(old, new)

    def bind_extents(self, buffer: Value, type_: BufferType) -> None:
        """Symbols that are an extent of a parameter get their values from it."""
        for axis, extent in enumerate(type_.shape):
            symbol = lone_symbol(extent) if isinstance(extent, Expr) else None
            if symbol is not None:
                self.lowering.extents.setdefault(symbol, (buffer, axis))

    # ------------------------------------------------------------------ results

    def store_results(self) -> tuple[tuple[str, int], ...]:
        """Has the returned values, and the last versions of parameters, in their buffers."""
        returned, finals = self.function.body.terminator.operands
        self.check_finals(finals)
        return tuple(self.store_result(value) for value in returned)

    def place_results(self) -> dict[Value, Target]:
        """Buffers for the returned tensors that are not parameters, and what ends up there."""
        targets: dict[Value, Target] = {}
        for value in self.function.body.terminator.operands[0]:
            root = tied_root(value)
            if root in self.lowering.stored or not isinstance(value.type, ShapedType):
                continue
            if value not in self.outs:
                out = self.add_param(buffer_type_of(value.type), value.name)
                self.outs[value] = Storage(out, is_global=True)
                targets[root] = Target(self.outs[value], None)
        return targets

    def check_finals(self, finals: tuple[Value, ...]) -> None:
        """Copies the last version of a parameter to it where it is in other memory."""
        written = [
            param
            for param, way in zip(self.function.params, self.function.directions, strict=True)
            if way is not ParamDirection.In
        ]
        for param, final in zip(written, finals, strict=True):
            storage = self.lowering.stored[param]
            if isinstance(param.type, ShapedType) and (
                self.lowering.storage_of(final) is not storage
            ):
                self.lowering.assign(storage, final)

    def store_result(self, value: Value) -> tuple[str, int]:
        """Where the returned `value` goes."""
        if isinstance(value.type, ScalarType):
            return "scalar", self.store_scalar(value)
        if not isinstance(value.type, ShapedType):
            raise UnsupportedFeatureError(
                f"a {value.type} cannot be returned from compiled code", self.function.span
            )
        storage = self.lowering.storage_of(value)
        if storage is not None and storage.buffer in self.params:
            return "tensor", self.params.index(storage.buffer)
        out = self.outs.pop(value, None)
        if out is None:
            out = Storage(self.add_param(buffer_type_of(value.type), value.name), is_global=True)
        self.lowering.assign(out, value)
        return "tensor", self.params.index(out.buffer)

    def store_scalar(self, value: Value) -> int:
        """Stores a returned scalar; the position of its buffer."""
        flush(self.lowering)
        assert isinstance(value.type, ScalarType)
        out = self.add_param(buffer_of((1,), value.type.dtype), value.name)
        index = self.lowering.scopes.index(0)
        loop.store(out, (index,), self.lowering.scalar(value), None)
        return len(self.params) - 1

    def add_param(self, type_: Type, name: str) -> Value:
        """One more Out parameter."""
        taken = {param.name for param in self.params}
        free = name if name and name not in taken else f"result{len(self.params)}"
        param = Value(type_, free, self.body)
        self.params.append(param)
        self.directions.append(ParamDirection.Out)
        return param
