"""Replace each call by the body of its callee, and each scope by what it encloses.

Before::

    @pl.program
    class example:
        @pl.function
        def double(self, x: pl.Tensor[[4, 8], pl.FP32]) -> pl.Tensor[[4, 8], pl.FP32]:
            return pl.add(x, x)

        @pl.function
        def main(self, a: pl.Tensor[[4, 8], pl.FP32]) -> pl.Tensor[[4, 8], pl.FP32]:
            with pl.at(level=pl.Level.CORE_GROUP):
                b = self.double(a)
            return b

After::

    @pl.program
    class example:
        @pl.function
        def main(self, a: pl.Tensor[[4, 8], pl.FP32]) -> pl.Tensor[[4, 8], pl.FP32]:
            b = pl.add(a, a)
            return b
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.errors import UnsupportedFeatureError
from tilewright.ir.affine import as_expr, scaled_symbol
from tilewright.ir.builder import Builder, finish_program
from tilewright.ir.core import Block, Function, Operation, Program, Value
from tilewright.ir.enums import FunctionType, ParamDirection
from tilewright.ir.rewrite import Cloner, copy_function
from tilewright.ir.types import ShapedType
from tilewright.ops import control, external, memory, pipe
from tilewright.ops.cast import cast
from tilewright.ops.extents import constant_of, expr_of
from tilewright.ops.pair_sides import pair_sides
from tilewright.passes import sides
from tilewright.passes.cores import BLOCKS, REPLACED, Around, Loops, crossing
from tilewright.passes.drop_carries import without_carries
from tilewright.passes.givens import Givens
from tilewright.source import Span

TREATED = {
    control.scope,
    control.call,
    control.for_,
    external.body,
    cast,
    pipe.gather,
    memory.assemble,
    *REPLACED,
}
"""Operations that something else may stand for; any other is copied."""


class Inliner(Cloner):
    """A cloner that puts the bodies of callees and scopes in the place of calls and scopes."""

    def __init__(
        self,
        builder: Builder,
        program: Program,
        active: tuple[str, ...],
        *,
        fresh_symbols: bool = False,
    ) -> None:
        super().__init__(builder, fresh_symbols=fresh_symbols)
        self.program = program
        self.active = active
        self.loops: Loops = ()
        self.call_span: Span | None = None
        self.side: int | None = None
        self.givens: Givens | None = None
        self.lane: Value | None = None
        self.in_group = False
        self.entered: list[Operation] = []

    def clone(self, op: Operation) -> Operation:
        if op.opdef not in TREATED:
            return super().clone(op)
        if op.opdef is control.scope:
            self.flatten(op)
            return op
        if op.opdef is control.call:
            self.inline(op)
            return op
        if op.opdef is external.body:
            self.call_external(op)
            return op
        if op.opdef is memory.assemble:
            return self.assemble(op)
        if self.replaced(op) or self.folded(op):
            return op
        if op.opdef is not control.for_ or op.attrs["kind"] not in BLOCKS:
            return super().clone(op)
        self.entered.append(op)
        try:
            return super().clone(op)
        finally:
            self.entered.pop()

    def replaced(self, op: Operation) -> bool:
        """True when something else stands for what `op` gives."""
        rule = REPLACED.get(op.opdef)
        if rule is None:
            same = crossing(op, self.value)
            if same is not None:
                self.mapping[op.result] = same
            return same is not None
        found = rule(op, self.around())
        if found is not None:
            self.mapping[op.result] = found
            if op.result.has_symbol:
                self.symbols[op.result.symbol] = expr_of(found)
        return True

    def folded(self, op: Operation) -> bool:
        """True for the conversion of a number that stands for an operation: another number."""
        if op.opdef is not cast or op.operands[0].op is None:
            return False
        number = constant_of(self.value(op.operands[0]))
        if number is None or op.operands[0].op.opdef not in REPLACED:
            return False
        self.bind(op.result, self.builder.constant(number, op.attrs["dtype"]))
        return True

    def around(self) -> Loops:
        """The loops over blocks and lanes around this place, outermost first."""
        inner = (
            Around(
                op.attrs["kind"], self.value(op.regions[0].params[0]), self.value(op.operands[1])
            )
            for op in self.entered
        )
        return (*self.loops, *inner)

    def flatten(self, op: Operation) -> None:
        """The operations of a scope, in its place."""
        (region,) = op.regions
        self.run(region, is_group=self.in_group or op.attrs["kind"] == "cluster")
        for old, new in zip(op.results, region.terminator.operands[0], strict=True):
            self.bind(old, self.value(new))

    def run(self, block: Block, *, is_group: bool) -> None:
        """The operations of a callee or scope, without its end; sides run at the same time."""
        *ops, end = block.ops
        if is_group:
            sides.emit_group(self, ops, end)
            return
        for each in ops:
            self.clone(each)

    def body(self, block: Block) -> None:
        if not self.in_group:
            super().body(block)
            return
        self.run(block, is_group=True)
        self.clone(block.terminator)

    def clone_in_group(self, ops: Sequence[Operation]) -> None:
        """What a group does itself; calls in the regions of it run at the same time again."""
        outer, self.in_group = self.in_group, True
        for op in ops:
            self.clone(op)
        self.in_group = outer

    def entry_block(self, function: Function) -> Block:
        """A copy of the body of `function`."""
        copy = Block(self.params(function.body))
        with self.builder.inside(copy):
            self.run(function.body, is_group=function.func_type is FunctionType.Group)
            self.clone(function.body.terminator)
        return copy

    def for_side(self, side: int, givens: Givens) -> Inliner:
        """A cloner like this one that leaves the calls of the other side of a group out."""
        arm = Inliner(self.builder, self.program, self.active, fresh_symbols=True)
        arm.mapping, arm.symbols = dict(self.mapping), dict(self.symbols)
        arm.loops, arm.call_span, arm.side = self.around(), self.call_span, side
        arm.givens = givens
        return arm

    def leave_out(self, op: Operation) -> None:
        """Nothing for a call that another participant makes; what it writes is as it is."""
        args, tied = op.operands[0], op.attrs["tied_args"]
        for result, position in zip(op.results[len(op.results) - len(tied) :], tied):
            self.mapping[result] = self.value(args[position])
        if self.givens is not None:
            self.givens.receive(op, self)

    def assemble(self, op: Operation) -> Operation:
        """The write of a part, but one of another participant, who has changed the part."""
        side = None if self.givens is None else self.givens.versions.doers.get(op)
        if side in (None, self.side):
            return super().clone(op)
        self.mapping[op.result] = self.value(op.operands[0])
        return op

    def inline(self, op: Operation) -> None:
        """The operations of a callee, in the place of the call."""
        if self.side is None:
            self.expand(op)
        elif sides.side_of(self, op) != self.side:
            self.leave_out(op)
        else:
            self.expand(op)
            if self.givens is not None:
                self.givens.send(op, self)

    def expand(self, op: Operation) -> None:
        """A call of this participant."""
        callee = self.callee(op)
        args = tuple(map(self.value, op.operands[0]))
        inner = Inliner(self.builder, self.program, (*self.active, callee.name), fresh_symbols=True)
        inner.loops = self.around()
        inner.call_span = self.call_span or op.span
        for param, arg in zip(callee.params, args, strict=True):
            inner.mapping[param] = arg
            if param.has_symbol:
                inner.symbols[param.symbol] = expr_of(arg)
            match_extents(inner, param, arg)
        inner.run(callee.body, is_group=callee.func_type is FunctionType.Group)
        returned, finals = callee.body.terminator.operands
        news = [*map(inner.value, returned), *tied_finals(op, callee, inner, finals)]
        for old, new in zip(op.results, news, strict=True):
            self.bind(old, new)

    def call_external(self, op: Operation) -> None:
        """The kernel of a function in C++, at the line of its call."""
        function = self.program[self.active[-1]]
        attrs = external.kernel_of(function)
        places: tuple[int, ...] = attrs["places"]
        params = [function.params[place] for place in places]
        given = tuple(map(self.value, params))
        count = sum(way is not ParamDirection.In for way in function.directions)
        operands = (given[:count], given[count:])
        span = self.call_span or op.span
        call = self.builder.emit(external.kernel, operands, attrs, span=span)
        for param, result in zip(params, call.results):
            result.name = param.name
            self.mapping[param] = result

    def callee(self, op: Operation) -> Function:
        """The function that `op` calls; raises UnsupportedFeatureError when it is recursive."""
        name = op.attrs["callee"]
        if name in self.active:
            raise UnsupportedFeatureError(f"{name} calls itself", op.span)
        found = self.program.get_function(name)
        if found is None:
            raise UnsupportedFeatureError(f"{name} has no body in this program", op.span)
        return found


def match_extents(inner: Inliner, param: Value, arg: Value) -> None:
    """Symbols that alone make extents of `param` are what the extents of `arg` say."""
    if not isinstance(param.type, ShapedType) or not isinstance(arg.type, ShapedType):
        return
    for mine, given in zip(param.type.shape, arg.type.shape, strict=True):
        found = None if isinstance(mine, int) else scaled_symbol(mine)
        if found is not None and found[0] not in inner.symbols:
            symbol, scale, offset = found
            inner.symbols[symbol] = as_expr((as_expr(given) - offset) // scale)


def tied_finals(
    op: Operation, callee: Function, inner: Inliner, finals: tuple[Value, ...]
) -> list[Value]:
    """The new versions of the tied arguments of a call."""
    written = [
        position
        for position, direction in enumerate(callee.directions)
        if direction is not ParamDirection.In
    ]
    news: dict[int, Value] = dict(enumerate(map(inner.value, callee.params)))
    news.update(zip(written, map(inner.value, finals), strict=True))
    return [news[position] for position in op.attrs["tied_args"]]


def inline_function(program: Program, function: Function) -> Function:
    """A copy of `function` without calls and scopes."""
    builder = Builder()
    with builder:
        cloner = Inliner(builder, program, (function.name,))
        body = cloner.entry_block(function)
    kept = {name: a for name, a in function.attrs.items() if name not in external.FACTS}
    is_group = function.func_type is FunctionType.Group
    func_type = FunctionType.Opaque if is_group else function.func_type
    return copy_function(function, body, attrs=kept, func_type=func_type)


def inline_calls(program: Program, entry: str) -> Program:
    """A program of one function: `entry` with everything that it calls inside it."""
    program = pair_sides(program)
    inlined = without_carries(inline_function(program, program[entry]))
    return finish_program(program.name, {entry: inlined})
