"""Structure of an op: iteration domain, accesses and a body of scalar words, as data.

Lowering fuses ops by composing structures; only the scalar words know code generation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any

from tilewright.dataclass import dataclass
from tilewright.ir.affine import Expr, Symbol, as_expr
from tilewright.ir.affine.constraints import Constraint
from tilewright.ir.core import Value
from tilewright.ir.types import Dim, Shape


class AxisKind(Enum):
    """What the iterations of one axis of a domain have to do with each other."""

    PARALLEL = "parallel"
    REDUCE = "reduce"
    SCAN = "scan"


@dataclass(frozen=True, slots=True)
class Indirect:
    """An index that is the value of read number `read`, required to lie in [0, bound)."""

    read: int
    bound: Dim


Index = Expr | Indirect


@dataclass(eq=False, slots=True)
class Read:
    """One element of `value` per point of the domain, at `indices`; a scalar has no indices.

    Where a constraint of `mask` does not hold nothing is read and the element is 0.
    """

    value: Value
    indices: tuple[Index, ...]
    mask: tuple[Constraint, ...] = ()


class Family:
    """Plain structures that differ in the values they read alone, which have the same types.

    Each reads its values at `accesses`, and has no masks, tests or reduced axes. `traits` is what
    lowering has found out about all of them.
    """

    __slots__ = ("accesses", "traits")

    def __init__(self, accesses: tuple[tuple[Index, ...], ...]) -> None:
        self.accesses = accesses
        self.traits: Any = None


@dataclass(eq=False, slots=True)
class Structure:
    """`result[write(d)] = combine over reduced d of body(reads(d), d)`, where `writes == (write,)`.

    `dims` are the iteration symbols with extents `extents` and `kinds`. `body(scalars, index)`
    emits scalar words through the current builder: one scalar per read, then one BOOL per entry
    of `tests` (do its constraints hold here?), and one INDEX value per dim; it gives a tuple of the
    scalar. `combine` names the combining word of a reduction
    ("add", "mul", "max", "min", "and", "or", "argmax", "argmin") or is "" when there is none; for
    the last two the body gives (value, index) and the result is the index. FP16 and BF16
    contributions accumulate in FP32. Where a constraint of `write_mask` does not hold nothing is
    written. A result that is tied keeps the elements that are not written.

    An axis of kind SCAN (at most one) runs in increasing order. The body then also gets, last, what
    it gave at the point before along the axis, and at the first point the element that `initial`
    reads, whose indices do not mention the axis. An operation with a structure has one result.

    Structures of one `family` differ in the values they read alone.
    """

    dims: tuple[Symbol, ...]
    extents: Shape
    kinds: tuple[AxisKind, ...]
    reads: tuple[Read, ...]
    writes: tuple[tuple[Index, ...], ...]
    body: Callable[[tuple[Value, ...], tuple[Value, ...]], tuple[Value, ...]]
    combine: str = ""
    write_mask: tuple[Constraint, ...] = ()
    tests: tuple[tuple[Constraint, ...], ...] = ()
    initial: tuple[Read, ...] = ()
    family: Family | None = None

    def reading(self, values: Sequence[Value]) -> Structure:
        """The structure of the same family that reads `values`."""
        assert self.family is not None
        return Structure(
            self.dims,
            self.extents,
            self.kinds,
            tuple(map(Read, values, self.family.accesses)),
            self.writes,
            self.body,
            family=self.family,
        )

    @property
    def all_reads(self) -> tuple[Read, ...]:
        """The reads, and then the initial ones."""
        return (*self.reads, *self.initial) if self.initial else self.reads

    @property
    def is_pointwise(self) -> bool:
        """True when no axis is reduced or scanned."""
        return not (AxisKind.REDUCE in self.kinds or AxisKind.SCAN in self.kinds)


def domain(shape: Shape) -> tuple[Symbol, ...]:
    """Fresh iteration symbols, one per axis of `shape`, ranged by the static extents."""
    return tuple(Symbol(f"d{axis}", 0, extent - 1) for axis, extent in enumerate(shape))


def identity_map(dims: tuple[Symbol, ...]) -> tuple[Expr, ...]:
    """The access that reads element d at point d."""
    return tuple(map(as_expr, dims))


def broadcast_map(dims: tuple[Symbol, ...], shape: Shape) -> tuple[Expr, ...]:
    """The access of an operand of `shape` broadcast, numpy style, over a domain of `dims`."""
    aligned = dims[len(dims) - len(shape) :]
    return tuple(
        as_expr(0) if extent == 1 else as_expr(dim)
        for dim, extent in zip(aligned, shape, strict=True)
    )
