"""Launch grids: integers, physical cores, and products of both."""

from __future__ import annotations

import operator
from enum import Enum
from math import prod

from tilewright.dataclass import dataclass
from tilewright.errors.nki import NKITypeError, NKIValueError
from tilewright.frontend.trace.sequences import as_entries


class AxisType(Enum):
    """What a factor of a grid axis is spread over."""

    Serial = "serial"
    Shard = "shard"
    Pipeline = "pipeline"


@dataclass(frozen=True)
class Dim:
    """A factor of a grid axis; `*` composes factors and never multiplies them out."""

    extent: int
    axis_type: AxisType = AxisType.Serial

    def __mul__(self, other: object) -> SpmdDim:
        return spmd_dim(self, other)

    def __rmul__(self, other: object) -> SpmdDim:
        return spmd_dim(other, self)

    @property
    def factors(self) -> tuple[Dim, ...]:
        """This factor alone."""
        return (self,)

    @property
    def size(self) -> int:
        """Number of programs along it."""
        return self.extent


@dataclass(frozen=True)
class ParDim(Dim):
    """The partition dimension of a tensor's shape (`nl.par_dim`)."""

    def __index__(self) -> int:
        return self.extent

    def __mul__(self, other: object) -> SpmdDim:
        raise TypeError("a partition dimension is no factor of a grid")


@dataclass(frozen=True)
class SpmdDim:
    """A grid axis composed of factors, the outermost first."""

    factors: tuple[Dim, ...]

    def __mul__(self, other: object) -> SpmdDim:
        return spmd_dim(self, other)

    def __rmul__(self, other: object) -> SpmdDim:
        return spmd_dim(other, self)

    @property
    def size(self) -> int:
        """Number of programs along it."""
        return prod(factor.extent for factor in self.factors)


GridDim = Dim | SpmdDim


def nc(cores: int) -> Dim:
    """A factor that is spread over `cores` physical cores."""
    return Dim(cores, AxisType.Shard)


def cc_pipeline(stages: int) -> Dim:
    """A factor whose programs form a pipeline of collectives."""
    return Dim(stages, AxisType.Pipeline)


def as_grid_dim(given: object) -> GridDim:
    """An axis of a grid; raises NKITypeError for what is none, NKIValueError for an empty one."""
    if isinstance(given, (Dim, SpmdDim)):
        return given
    if isinstance(given, bool) or not hasattr(given, "__index__"):
        raise NKITypeError(
            f"a launch grid has no dimension {given!r}",
            hint="Write numbers of programs: kernel[2, nl.nc(2)](x).",
        )
    extent = operator.index(given)  # type: ignore[call-overload]
    if extent < 1:
        raise NKIValueError(
            f"a launch grid dimension must be at least 1, got {extent}",
            hint="Do not launch the kernel where there is nothing to do.",
        )
    return Dim(extent)


def spmd_dim(*given: object) -> SpmdDim:
    """One grid axis that is the product of factors: `spmd_dim(nc(2), 4)`."""
    return SpmdDim(tuple(factor for each in given for factor in as_grid_dim(each).factors))


def as_grid(given: object) -> tuple[GridDim, ...]:
    """A launch grid from what stands between the brackets."""
    return tuple(as_grid_dim(dim) for dim in as_entries(given))


def grid_has_multi_physical_cores(grid: object) -> bool:
    """True when the grid, as it is written in the brackets, spans more than one physical core."""
    factors = [factor for dim in as_grid(grid) for factor in dim.factors]
    return any(f.axis_type is AxisType.Shard and f.extent > 1 for f in factors)
