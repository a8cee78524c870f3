"""Parts: what is written into a slice of a parameter, or a view of a tensor, is written there."""

from __future__ import annotations

from typing import Any

from tilewright.errors import InvalidOperationError, StaleRead
from tilewright.frontend.parse.parser import FunctionParser
from tilewright.ir.affine import as_expr, less_equal
from tilewright.ir.core import Operation, Value
from tilewright.ir.enums import AtomicType
from tilewright.ir.types import DistributedTensorType, ShapedType
from tilewright.ops import arith, memory, shape
from tilewright.ops.control import tied_pairs
from tilewright.ops.extents import DIM_OPS, as_dims
from tilewright.ops.view import VIEWS, restored


def write_back(p: FunctionParser) -> None:
    """A write into a part of a parameter writes the parameter."""
    ops = p.builder.block.ops
    op = ops[-1] if ops else None
    if op is None or not op.opdef.tied:
        return
    if op.opdef is memory.assemble and p.state.unwritten:
        p.state.unwritten.discard(_seen_through(op.operands[1]))
    for result, operand in op.opdef.tied.items():
        part = op.operands[operand]
        if isinstance(part, Value):
            put_back(p, part, op.results[result])


def put_back(p: FunctionParser, part: Value, new: Value) -> None:
    """Puts the new contents of a part that was sliced from a parameter into the parameter.

    A part of a window is that memory itself.
    """
    if isinstance(part.type, DistributedTensorType):
        return
    op = slice_behind(part) if part in p.versions.parts else None
    if op is None or not _is_reachable(p, op.operands[0]):
        return
    if p.state.unwritten is not None:
        p.state.defer(part, new)
        return
    whole = op.operands[0]
    newest, start = p.versions.newest(whole), len(p.builder.block.ops)
    _require_untouched(p, op, part, newest)
    if op.opdef is shape.slice_:
        _require_leading_drops(p, op)
        value = memory.assemble(newest, new, _offsets(op))
    else:
        value = _assembled_view(op, newest, new)
    p.state.put_back.add(p.builder.block.ops[-1])
    if not p.versions.is_owned(newest):
        p.state.implied.update(p.builder.block.ops[start:])
    p.settle(p.builder.block.ops[-1])
    p.rebind(newest, value)
    if whole is not newest:
        p.rebind(whole, value)
    put_back(p, newest, value)


def _is_reachable(p: FunctionParser, whole: Value) -> bool:
    """True for what a name may be read by; raises StaleRead for a tensor that is another by now."""
    if p.versions.is_owned(whole) or any(bound is whole for bound in p.scope.values()):
        return True
    if whole.name:
        raise StaleRead(
            f"A view of '{whole.name}' is written, which is another tensor by now",
            p.builder.span,
            "View it again where it is written.",
        )
    return False


def _assembled_view(op: Operation, newest: Value, new: Value) -> Value:
    """`newest` with the contents of a view of all of it."""
    source = restored(op, new)
    rank = len(shape.shape_of(source))
    value = memory.assemble(newest, source, [0] * rank)
    if value.type != newest.type:
        raise InvalidOperationError(
            f"A view of '{newest.name}' cannot be written: only a part of it is valid",
            op.span,
            f"Write '{newest.name}' itself.",
        )
    return value


def root_of_part(p: FunctionParser, part: Any) -> int | None:
    """The root that `part` is a part of; None for other values."""
    op = slice_behind(part) if isinstance(part, Value) and part in p.versions.parts else None
    if op is None:
        return None
    root = p.versions.root(op.operands[0])
    return root_of_part(p, op.operands[0]) if root is None else root


def is_same_part(p: FunctionParser, a: Any, b: Any) -> bool:
    """True for two contents of one part: the same window of versions of one root."""
    if root_of_part(p, a) is None or root_of_part(p, b) is None:
        return False
    return _is_same_window(p, a, b)


def _is_same_window(p: FunctionParser, a: Value, b: Value) -> bool:
    if a in p.versions.roots or b in p.versions.roots:
        return p.versions.root(a) == p.versions.root(b)
    one, other = ((slice_behind(x) if x in p.versions.parts else None) for x in (a, b))
    if one is None or other is None or one.opdef is not other.opdef or one.attrs != other.attrs:
        return False
    windows = one.operands[1:] == other.operands[1:]
    return windows and _is_same_window(p, one.operands[0], other.operands[0])


def taken_again(p: FunctionParser, part: Value) -> Value:
    """The same part of the newest version of its root, at the end of the block."""
    op = slice_behind(part)
    assert op is not None
    whole = op.operands[0]
    newest = taken_again(p, whole) if p.versions.root(whole) is None else p.versions.newest(whole)
    made = p.builder.emit(op.opdef, (newest, *op.operands[1:]), op.attrs, span=op.span)
    p.settle(made)
    p.state.implied.add(made)
    return made.result


def slice_behind(value: Value) -> Operation | None:
    """The slice or view that gave `value`, or what writes made it of; None for others."""
    while value.op is not None:
        if value.op.opdef in (shape.slice_, *VIEWS):
            return value.op
        earlier = dict(tied_pairs(value.op)).get(value)
        if earlier is None:
            return None
        value = earlier
    return None


def _offsets(op: Operation) -> tuple[Value, ...]:
    return op.operands[op.opdef.operand_names.index("offset")]


def _require_leading_drops(p: FunctionParser, op: Operation) -> None:
    """What is written into a part needs no other shape when only leading axes were dropped."""
    dropped = op.attrs["drop_dims"]
    if dropped != tuple(range(len(dropped))):
        raise InvalidOperationError(
            "A part that drops inner axes cannot be written",
            op.span,
            "Keep the axis with a slice of length 1: x[:, i:i + 1].",
        )


def _require_untouched(p: FunctionParser, op: Operation, part: Value, newest: Value) -> None:
    """Since a part was sliced, only it and parts disjoint from it may have been written."""
    whole = op.operands[0]
    while p.versions.version(newest) is not p.versions.version(whole):
        last = newest.op
        if last is None or last not in p.state.put_back:
            raise _touched(op, whole)
        is_part = part in (last.operands[1], _seen_through(last.operands[1]))
        if not is_part and not _are_disjoint(op, last):
            raise _touched(op, whole)
        newest = last.operands[0]


def _seen_through(value: Value) -> Value:
    """What `value` is a view of."""
    while value.op is not None and value.op.opdef in VIEWS:
        value = value.op.operands[0]
    return value


def _touched(op: Operation, whole: Value) -> StaleRead:
    return StaleRead(
        f"A part of '{whole.name}' is written after '{whole.name}' itself was",
        op.span,
        "Slice it again after the write.",
    )


def _are_disjoint(op: Operation, last: Operation) -> bool:
    """True when what was put back last provably lies beside the slice."""
    source = last.operands[1].type
    assert isinstance(source, ShapedType)
    if op.opdef is not shape.slice_:
        return False
    starts, others = as_dims(_offsets(op)), as_dims(last.operands[2])
    extents = op.attrs["shape"]
    lengths = (*[1] * (len(others) - source.rank), *source.shape)
    return any(
        less_equal(as_expr(a) + m, b) or less_equal(as_expr(b) + n, a)
        for a, m, b, n in zip(starts, extents, others, lengths)
    )


def repeated_write(p: FunctionParser) -> Value | None:
    """The target of a window write that has just been made with the same source and place.

    Printed text spells out the write of a part back into its parameter, which reading a call
    has done already.
    """
    ops = p.builder.block.ops
    op = ops[-1] if ops else None
    if op is None or op.opdef is not memory.assemble or op.attrs.get("atomic") is AtomicType.Add:
        return None
    target, source, offset = op.operands[:3]
    last = target.op
    while last in p.state.put_back and not _is_same(last.operands[1], source):
        is_of_one = _seen_through(last.operands[1]).op is _seen_through(source).op
        last = last.operands[0].op if is_of_one else None
    if last is None or last not in p.state.put_back:
        return None
    if as_dims(last.operands[2]) != as_dims(offset):
        return None
    p.state.implied.discard(last)
    root = p.versions.root(target)
    if root is not None:
        p.versions.advance(root, target)
    return target


def _is_same(a: Value, b: Value) -> bool:
    """True for the same value, and for equal views of the same value."""
    if a is b:
        return True
    if a.op is None or b.op is None or a.op.opdef is not b.op.opdef or a.op.attrs != b.op.attrs:
        return False
    inputs = a.op.inputs, b.op.inputs
    return a.op.opdef in (*VIEWS, *DIM_OPS, arith.const) and all(map(_is_same, *inputs))
