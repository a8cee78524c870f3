"""Root buffers: what every tensor of a trace is a view of. Each has one current version."""

from __future__ import annotations

from itertools import count
from typing import Any

from tilewright.dtypes import DType
from tilewright.frontend.trace.allocations import Rectangle
from tilewright.frontend.trace.scopes import Scope
from tilewright.ir.core import Value
from tilewright.ir.enums import MemorySpace
from tilewright.ir.types import ShapedType

_serials = count()

HBM_SPACES = (MemorySpace.DDR, MemorySpace.Hbm, MemorySpace.SharedHbm)
MEMORY_NAMES = {
    MemorySpace.Sbuf: "sbuf",
    MemorySpace.Psum: "psum",
    MemorySpace.Hbm: "hbm",
    MemorySpace.SharedHbm: "shared_hbm",
    MemorySpace.DDR: "hbm",
}


class Root:
    """A buffer: its current version, the scope it lives in, and what may be done with it.

    `depth` is the number of device regions that were open when it was made; `partition_axis` the
    axis that runs over partitions (dimensions before it are blocks). `mask` is where the operation
    that made it was defined (a mask, or a value of truth values); None is everywhere. `places` are
    where the author has put it. `is_loaded` says that a transfer made it.
    """

    def __init__(
        self,
        version: Value,
        space: MemorySpace,
        scope: Scope,
        *,
        depth: int = 0,
        name: str = "",
        partition_axis: int = 0,
        is_mutable: bool = True,
        is_parameter: bool = False,
        is_output: bool = False,
        places: tuple[Rectangle, ...] = (),
        mask: Any = None,
        is_loaded: bool = False,
    ) -> None:
        assert isinstance(version.type, ShapedType)
        self.type = version.type
        self.shape = tuple(map(int, version.type.shape))
        self.first = version
        self.version = version
        self.space = space
        self.scope = scope
        self.depth = depth
        self.name = name
        self.partition_axis = partition_axis
        self.is_mutable = is_mutable
        self.is_parameter = is_parameter
        self.is_output = is_output
        self.is_written = False
        self.places = places
        self.mask = mask
        self.is_loaded = is_loaded
        self.serial = next(_serials)

    @property
    def is_transferred(self) -> bool:
        """True where it holds what a transfer has brought."""
        return self.is_loaded and not self.is_written

    @property
    def dtype(self) -> DType:
        """Element type."""
        return self.type.dtype

    @property
    def is_hbm(self) -> bool:
        """True for memory outside the chip."""
        return self.space in HBM_SPACES

    @property
    def memory(self) -> str:
        """The language's name of the memory."""
        return MEMORY_NAMES[self.space]

    @property
    def label(self) -> str:
        """How messages name it."""
        return self.name or self.version.name or "tensor"

    def __repr__(self) -> str:
        return f"<Root {self.label} {list(self.shape)} in {self.memory}>"
