"""The reduction registers of engines, which instructions of one kind share in a kernel."""

from __future__ import annotations

from typing import Any, NoReturn

from tilewright.dtypes import FP32
from tilewright.errors.nki_instructions import REGISTERS_UNSET
from tilewright.errors.nki_tensors import UNEXPECTED_OPERAND
from tilewright.frontend.trace import access as trace_access
from tilewright.frontend.trace.ambient import current_api, nki_ctx, refusal
from tilewright.frontend.trace.scopes import IfScope
from tilewright.frontend.trace.tensors import nki_tensor
from tilewright.ir.core import Value
from tilewright.ir.enums import MemorySpace
from tilewright.nki._enums import reduce_cmd as commands
from tilewright.nki._operands import result_tile, tile_value
from tilewright.ops import creation
from tilewright.ops.nki_alu import apply, identity_of


def write_tile(target: nki_tensor, value: Value, mask: object = None) -> None:
    """Writes a value to an on-chip tile, converted and reshaped."""
    trace_access.assign(nki_ctx().sema, target, result_tile(value, target.root.dtype, mask))


def require_command(given: object, start: object = None) -> None:
    """Refuses what is no member of `nisa.reduce_cmd`: its number, for instance.

    `start` is the operand `reduce_init`, which `load_reduce` begins with, and nothing else does.
    """
    if not isinstance(given, commands):
        _refuse("reduce_cmd", repr(given), "a member of nisa.reduce_cmd")
    if given is commands.load_reduce and start is None:
        _refuse("reduce_cmd", str(given), "a command that needs no reduce_init")
    if given is not commands.load_reduce and start is not None:
        _refuse("reduce_init", "given", f"None, as {given} loads nothing: load_reduce does")


def _refuse(name: str, given: str, wanted: str) -> NoReturn:
    raise refusal(UNEXPECTED_OPERAND, op=current_api(), name=name, given=given, wanted=wanted)


def run_command(
    kind: str, name: str, total: Value, rows: int, command: commands, start: Value | None = None
) -> None:
    """What `command` does with the registers of a kind, given the reduction `total` of a tile.

    `total` has an element for each of `rows` partitions, combined by `name`; `start` is a number or
    has one for each, which `load_reduce` begins with.
    """
    if command is commands.reset:
        pmax = nki_ctx().device.pmax
        nothing = identity_of(name, FP32)
        neutral = creation.full(shape=(pmax, 1), dtype=FP32, value=nothing, space=MemorySpace.Sbuf)
        _overwrite(kind, neutral, pmax)
    elif command is commands.reset_reduce:
        _overwrite(kind, total, rows)
    elif start is not None:
        _overwrite(kind, apply(name, total, start), rows)
    elif command is commands.reduce:
        present = registers(kind, rows)
        write_tile(present, apply(name, tile_value(present, FP32), total))


def registers(kind: str, rows: int) -> nki_tensor:
    """The registers of the first `rows` partitions; refuses those that nothing has set."""
    found = nki_ctx().registers.get(kind)
    if found is None or found[1] < rows:
        which = "them" if found is None else f"more than {found[1]}"
        raise refusal(REGISTERS_UNSET, op=current_api(), rows=rows, which=which)
    return found[0][0:rows]


def _overwrite(kind: str, value: Value, rows: int) -> None:
    """New contents of the first `rows` registers, that need no old ones.

    The registers are made anew, so that iterations which begin so are independent, unless the loops
    around have used those there are, an arm that may not be taken overwrites them, or some keep
    what this region has set. They live as long as the innermost loop, whichever function has set
    them. What only an arm sets is 0 where that is not taken.
    """
    ctx = nki_ctx()
    found, around = ctx.registers.get(kind), ctx.regions
    if found is not None and not found[0].root.scope.is_alive:
        found = None
    in_arm = bool(around) and isinstance(around[-1], IfScope)
    if in_arm and found is None:
        found = ctx.outermost_tile((ctx.device.pmax, 1), FP32), rows
    if found is None or not (in_arm or _stays(found, rows)):
        found = _made(kind, rows), rows
    tile, held = found
    ctx.registers[kind] = tile, max(held, rows)
    write_tile(tile[0:rows], value)


def _stays(found: tuple[nki_tensor, int], rows: int) -> bool:
    """True for registers that loops around have used, or of which this region has set more."""
    root, around = found[0].root, nki_ctx().regions
    is_used = any(root in region.outer for region in around)
    return is_used or (rows < found[1] and root.depth == len(around))


def _made(kind: str, rows: int) -> nki_tensor:
    """New registers of all partitions, of which the first `rows` are set at once."""
    ctx = nki_ctx()
    form: Any = {"shape": (ctx.device.pmax, 1), "dtype": FP32, "space": MemorySpace.Sbuf}
    is_all = rows == ctx.device.pmax
    made = ctx.sema.tile(creation.create(**form) if is_all else creation.full(value=0.0, **form))
    made.root.name = f"{kind} registers"
    made.root.scope = ctx.regions[-1] if ctx.regions else ctx.kernel_scope
    return made
