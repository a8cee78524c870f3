"""Tensors of a trace: kernel tensors in HBM, tensors on chip, and views of either.

A tensor is a root buffer and an access of it. Reading emits a load of the root's current version;
writing gives the root a new version.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import numpy as np

from tilewright.errors.nki_control import AMBIGUOUS_TRUTH, EXPECTED_CONSTANT
from tilewright.errors.nki_tensors import BLOCK_DIMENSION, TILE_SHAPE, UNEXPECTED_OPERAND
from tilewright.frontend.trace.ambient import current_api, nki_ctx, refusal
from tilewright.frontend.trace.roots import Root
from tilewright.frontend.trace.windows import Window, as_window
from tilewright.ir.affine.access import Access


def _binary(name: str, *, reflected: bool = False) -> Callable[..., Any]:
    def method(self: nki_tensor, other: object) -> Any:
        left, right = (other, self) if reflected else (self, other)
        return nki_ctx().sema.operator(name, left, right)

    return method


def _in_place(name: str) -> Callable[..., Any]:
    def method(self: nki_tensor, other: object) -> Any:
        return nki_ctx().sema.update_in_place(name, self, other)

    return method


INSTEAD = {
    **dict.fromkeys(("slice", "select"), "index it, `t[:, a:b]`"),
    **dict.fromkeys(("flatten_dims", "reshape_dim", "squeeze_dim"), "use `t.reshape(shape)`"),
    **dict.fromkeys(("permute", "rearrange"), "use nl.transpose, or `t.ap(pattern)`"),
    **dict.fromkeys(("indirect", "vector_select"), "index its rows by a tile"),
    "broadcast": "use `t.broadcast_to(shape)`",
    "expand_dim": "use `t.expand_dims(axis)`",
    "reinterpret_cast": "use `t.view(dtype)`",
}
"""Methods that documents of the language name without their arguments, and what would do."""


class nki_tensor:
    """A symbolic tensor: a shape and an element type, and no values while the kernel is traced."""

    __slots__ = ("_place", "_shape", "partition_axis", "root")

    def __init__(self, root: Root, place: Access | Window, partition_axis: int = 0) -> None:
        self.root = root
        self._place = place
        self.partition_axis = partition_axis
        extents = place.shape if isinstance(place, Window) else place.domain
        self._shape: tuple[int, ...] = tuple(map(int, extents))

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents."""
        return self._shape

    @property
    def access(self) -> Access:
        """Which elements of the root it is."""
        return self._place.access if isinstance(self._place, Window) else self._place

    @property
    def window(self) -> Window | None:
        """The same as a window, if it is one."""
        return self._place if isinstance(self._place, Window) else as_window(self._place)

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Element type, as numpy names it."""
        return self.root.dtype.numpy

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self.root.dtype.nbytes

    @property
    def name(self) -> str:
        """The author's name of the buffer."""
        return self.root.label

    @property
    def buffer(self) -> str:
        """The memory it lives in."""
        return self.root.memory

    @property
    def is_whole(self) -> bool:
        """True for a buffer itself, False for a view."""
        return False

    @property
    def is_indirect(self) -> bool:
        """True for a view whose rows are chosen by a tile of indices."""
        return False

    def __getattr__(self, name: str) -> NoReturn:
        message = f"a tensor of a traced kernel has no attribute '{name}'"
        raise AttributeError(f"{message}: {INSTEAD[name]}" if name in INSTEAD else message)

    def __getitem__(self, key: Any) -> nki_tensor:
        return nki_ctx().sema.subscript(self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        nki_ctx().sema.assign_item(self, key, value)

    def __iter__(self) -> Iterator[nki_tensor]:
        return (self[place] for place in range(self.shape[0]))

    def __len__(self) -> int:
        return self.shape[0]

    def reshape(self, shape: Any) -> nki_tensor:
        """A view of the elements, in row-major order, under another shape."""
        return nki_ctx().sema.reshaped(self, shape)

    def broadcast_to(self, shape: Any) -> nki_tensor:
        """A view with dimensions of extent 1 repeated to `shape`."""
        return nki_ctx().sema.broadcast(self, shape)

    def expand_dims(self, axis: int) -> nki_tensor:
        """A view with a dimension of extent 1 inserted at `axis`; partitions stay in front."""
        shape, place = list(self.shape), axis if axis >= 0 else axis + self.ndim + 1
        shape.insert(place, 1)
        if not self.root.is_hbm and not 0 < place <= self.ndim:
            raise refusal(BLOCK_DIMENSION, shape=shape)
        return self.reshape(tuple(shape))

    def ap(self, pattern: Any, **offsets: Any) -> nki_tensor:
        """A view by an access pattern: a [step, count] for each dimension, partitions first.

        Its element at i, j, ... lies `offset` + i * step + j * step + ... elements after the first,
        in row-major order. `scalar_offset`, a scalar of the run, a register or a [1, 1] tile,
        counts in steps of dimension `indirect_dim` of this tensor. `vector_offset`, a tile of
        integers with one for each index i, takes the place of the first step: it counts in steps of
        the first dimension of this tensor, which is in HBM.
        """
        return nki_ctx().sema.strided(self, pattern, **offsets)

    def astype(self, dtype: Any) -> nki_tensor:
        """A new tile with the elements converted."""
        return nki_ctx().sema.converted(self, dtype)

    def view(self, dtype: Any) -> nki_tensor:
        """The same bytes as elements of another type."""
        return nki_ctx().sema.reinterpreted(self, dtype)

    def as_tile(self) -> nki_tensor:
        """This tensor, as a tile."""
        return self

    def assert_shape(self, shape: Any) -> nki_tensor:
        """This tensor, after checking its shape."""
        wanted = tuple(shape)
        if self.shape != wanted:
            raise refusal(
                TILE_SHAPE, op="assert_shape", given=list(self.shape), wanted=list(wanted)
            )
        return self

    __add__ = _binary("add")
    __radd__ = _binary("add", reflected=True)
    __sub__ = _binary("subtract")
    __rsub__ = _binary("subtract", reflected=True)
    __mul__ = _binary("multiply")
    __rmul__ = _binary("multiply", reflected=True)
    __truediv__ = _binary("divide")
    __rtruediv__ = _binary("divide", reflected=True)
    __floordiv__ = _binary("floor_divide")
    __rfloordiv__ = _binary("floor_divide", reflected=True)
    __mod__ = _binary("mod")
    __rmod__ = _binary("mod", reflected=True)
    __pow__ = _binary("power")
    __rpow__ = _binary("power", reflected=True)
    __and__ = _binary("bitwise_and")
    __rand__ = _binary("bitwise_and", reflected=True)
    __or__ = _binary("bitwise_or")
    __ror__ = _binary("bitwise_or", reflected=True)
    __xor__ = _binary("bitwise_xor")
    __rxor__ = _binary("bitwise_xor", reflected=True)
    __lshift__ = _binary("left_shift")
    __rshift__ = _binary("right_shift")
    __lt__ = _binary("less")
    __le__ = _binary("less_equal")
    __gt__ = _binary("greater")
    __ge__ = _binary("greater_equal")
    __iadd__ = _in_place("add")
    __isub__ = _in_place("subtract")
    __imul__ = _in_place("multiply")
    __itruediv__ = _in_place("divide")
    __iand__ = _in_place("bitwise_and")
    __ior__ = _in_place("bitwise_or")
    __ixor__ = _in_place("bitwise_xor")

    def __eq__(self, other: object) -> Any:
        return NotImplemented if other is None else nki_ctx().sema.operator("equal", self, other)

    def __ne__(self, other: object) -> Any:
        return (
            NotImplemented if other is None else nki_ctx().sema.operator("not_equal", self, other)
        )

    def __neg__(self) -> nki_tensor:
        return nki_ctx().sema.unary("negative", self)

    def __pos__(self) -> nki_tensor:
        return self

    def __abs__(self) -> nki_tensor:
        return nki_ctx().sema.unary("abs", self)

    def __invert__(self) -> nki_tensor:
        return nki_ctx().sema.negated(self)

    def __hash__(self) -> int:
        return id(self)

    def __bool__(self) -> NoReturn:
        raise refusal(AMBIGUOUS_TRUTH, what=f" (in {current_api()})")

    def __float__(self) -> NoReturn:
        raise refusal(EXPECTED_CONSTANT, what="a number of Python", given=f"tensor '{self.name}'")

    __int__ = __float__

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **keywords: Any) -> Any:
        """`np.exp(tile)`, and `number * tile` for a number of numpy: the operation of that name."""
        result = NotImplemented
        if method == "__call__" and not keywords:
            result = nki_ctx().sema.ufunc(ufunc.__name__, inputs)
        if result is NotImplemented:
            found = {"given": "a tensor", "wanted": "arrays; tensors have the operations of nl"}
            raise refusal(UNEXPECTED_OPERAND, op=f"np.{ufunc.__name__}", name="x", **found)
        return result

    def __array__(self, *_: object, **__: object) -> NoReturn:
        raise TypeError("a tensor has no values while the kernel is traced")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} {list(self.shape)} {self.dtype}>"


tensor = nki_tensor


class KernelTensor(nki_tensor):
    """A tensor in HBM: a parameter, an output, or scratch memory outside the chip."""

    __slots__ = ()

    @property
    def is_whole(self) -> bool:
        return True


class LocalTensor(nki_tensor):
    """A tensor on chip."""

    __slots__ = ()

    @property
    def is_whole(self) -> bool:
        return True


class DataTile(nki_tensor):
    """A view of part of a tensor."""

    __slots__ = ()


def whole_tensor(root: Root) -> nki_tensor:
    """The tensor that is all of `root`."""
    cls = KernelTensor if root.is_hbm else LocalTensor
    return cls(root, Window.whole(root.shape), root.partition_axis)
