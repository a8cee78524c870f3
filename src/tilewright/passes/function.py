"""Lower a function that calls nothing: tiles become loop nests, tensors become buffers.

A tensor that is returned and is the last version of a parameter is that parameter; any other
returned tensor or scalar becomes an Out buffer after the declared parameters, a scalar as one of
shape [1]. The attribute `results` says, for each returned value, which parameter holds it and how:
("tensor", position) or ("scalar", position). Attribute `strides` has the positions of parameters
whose elements are not consecutive in memory, each with its strides.

Before::

    @pl.program
    class example:
        @pl.function
        def main(self, x: pl.Tensor[[16, 64], pl.FP32], out: pl.Out[pl.Tensor[[16, 64], pl.FP32]]):
            t = pl.load(x, [0, 0], [16, 64])
            e = pl.exp(pl.row_expand_sub(t, pl.row_max(t)))
            pl.store(pl.row_expand_div(e, pl.row_sum(e)), [0, 0], out)

After::

    for r in pl.parallel(16):
        for c, (s,) in pl.loop.lanes(64, combine=["max"], init_values=(float("-inf"),)):
            s_1 = pl.loop.load(x, [r, c])
            t = pl.yield_(s_1)
        for c_1, (s_2,) in pl.loop.lanes(64, combine=["add"], init_values=(0.0,)):
            s_3 = pl.loop.load(x, [r, c_1])
            s_4 = pl.op.arith.exp(s_3 - t)
            pl.loop.store(out, [r, c_1], s_4)
            t_1 = pl.yield_(s_4)
        for c_2 in pl.loop.lanes(64):
            s_5 = pl.loop.load(out, [r, c_2])
            pl.loop.store(out, [r, c_2], s_5 / t_1)
"""

from __future__ import annotations

from typing import Any

from tilewright.errors import UnsupportedFeatureError
from tilewright.ir.affine import Expr, scaled_symbol
from tilewright.ir.builder import Builder, finish_program
from tilewright.ir.core import Block, Function, Program, Value
from tilewright.ir.enums import ParamDirection
from tilewright.ir.rewrite import copy_function
from tilewright.ir.types import BufferType, ScalarType, Shape, ShapedType, Type, buffer_of
from tilewright.ops import control, loop
from tilewright.passes.blocks import end_block, is_window_part, lower_block
from tilewright.passes.crews import communicates
from tilewright.passes.lowering import Lowering, buffer_type_of, is_window
from tilewright.passes.plan import Target, tied_root
from tilewright.passes.prune import prune
from tilewright.passes.regions import assign_all
from tilewright.passes.storage import Storage
from tilewright.passes.turned import find_turns


def lower_entry(program: Program, entry: str) -> Program:
    """The program of one loop-level function that does what `entry`, which calls nothing, does."""
    builder = Builder()
    with builder:
        lowered = FunctionLowering(builder, program[entry]).run()
    return finish_program(program.name, {entry: lowered})


class FunctionLowering:
    """Lowers one function."""

    def __init__(self, builder: Builder, function: Function) -> None:
        self.function = function
        self.builder = builder
        self.strides: dict[int, Shape] = dict(function.attrs.get("strides", ()))
        self.params = [self.param(k, value) for k, value in enumerate(function.params)]
        self.directions = list(function.directions)
        self.outs: dict[Value, Storage] = {}
        self.body = Block(tuple(self.params))
        builder.block = self.body
        self.lowering = Lowering(builder)

    def param(self, position: int, value: Value) -> Value:
        """The loop-level parameter for `value`."""
        type_ = value.type
        if isinstance(type_, ScalarType):
            new = Value(type_, value.name)
            if type_.dtype.is_int():
                new.bind_symbol(value.symbol)
            return new
        if isinstance(type_, ShapedType):
            return Value(buffer_type_of(type_, self.strides.get(position)), value.name)
        raise UnsupportedFeatureError(
            f"parameter {value.name} of type {type_} cannot be passed to compiled code",
            self.function.span,
        )

    def run(self) -> Function:
        """The lowered function."""
        self.bind_params()
        self.lowering.is_watched = communicates(self.function.body)
        targets = self.place_results()
        self.lowering.turns = find_turns(self.function)
        lower_block(self.lowering, self.function.body, targets)
        results = self.store_results()
        end_block(self.lowering)
        self.lowering.deferrals[0].settle(self.lowering.scopes)
        body = Block(tuple(self.params), self.body.ops)
        written = [
            param
            for param, way in zip(self.params, self.directions, strict=True)
            if way is not ParamDirection.In
        ]
        self.builder.emit(control.return_, ((), tuple(written)), {})
        prune(body)
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
        has_parts = lowering.has_remote = any(map(is_window_part, self.function.body.walk()))
        given = zip(self.function.params, self.params, self.directions, strict=True)
        for old, new, direction in given:
            if isinstance(new.type, BufferType):
                written = direction is not ParamDirection.In or is_window(old)
                lowering.globals.add(old)
                storage = Storage(new, is_global=True, is_written=written)
                storage.is_remote = has_parts and is_window(old)
                lowering.hold(old, storage)
                self.bind_extents(new, new.type)
            else:
                lowering.define_scalar(old, new)

    def bind_extents(self, buffer: Value, type_: BufferType) -> None:
        """Symbols that alone make an extent of a parameter get their values from it."""
        known = self.lowering.scopes.extents
        for axis, extent in enumerate(type_.shape):
            found = scaled_symbol(extent) if isinstance(extent, Expr) else None
            if found is not None:
                symbol, scale, offset = found
                if symbol not in known or (scale, offset) == (1, 0) != known[symbol][2:]:
                    known[symbol] = (buffer, axis, scale, offset)

    # ------------------------------------------------------------------ results

    def place_results(self) -> dict[Value, Target]:
        """Buffers for the returned tensors that are not parameters, and what ends up there."""
        targets: dict[Value, Target] = {}
        for value in self.function.body.terminator.operands[0]:
            if isinstance(value.type, ScalarType) or tied_root(value) in self.lowering.stored:
                continue
            if value not in self.outs:
                targets[value] = Target(self.add_out(value), None)
        return targets

    def add_out(self, value: Value) -> Storage:
        """The buffer of one more returned tensor."""
        if not isinstance(value.type, ShapedType):
            raise UnsupportedFeatureError(
                f"a {value.type} cannot be returned from compiled code", self.function.span
            )
        buffer = self.add_param(buffer_type_of(value.type), value.name)
        storage = self.outs[value] = Storage(buffer)
        return storage

    def store_results(self) -> tuple[tuple[str, int], ...]:
        """Has the last versions of parameters, and the returned values, in their buffers."""
        returned, finals = self.function.body.terminator.operands
        kept: dict[Value, Storage] = {}
        for param, final in zip(self.written_params(), finals, strict=True):
            if isinstance(final.type, ShapedType):
                kept[final] = self.lowering.stored[param]
        for value in returned:
            if not isinstance(value.type, ScalarType) and value not in kept:
                kept[value] = self.out_of(value)
        assign_all(self.lowering, list(kept), list(kept.values()))
        return tuple(self.result(value, kept) for value in returned)

    def written_params(self) -> list[Value]:
        """The declared Out and InOut parameters."""
        given = zip(self.function.params, self.function.directions, strict=True)
        return [param for param, way in given if way is not ParamDirection.In]

    def out_of(self, value: Value) -> Storage:
        """The buffer in which a returned tensor is left."""
        storage = self.lowering.storage_of(value)
        declared = [self.lowering.stored.get(param) for param in self.function.params]
        if storage is not None and storage in declared:
            return storage
        return self.outs.get(value) or self.add_out(value)

    def result(self, value: Value, kept: dict[Value, Storage]) -> tuple[str, int]:
        """Where a returned value is."""
        if isinstance(value.type, ScalarType):
            return "scalar", self.store_scalar(value)
        return "tensor", self.params.index(kept[value].buffer)

    def store_scalar(self, value: Value) -> int:
        """Stores a returned scalar; the position of its buffer."""
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
