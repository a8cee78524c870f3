"""Annotations of tensors: their shape, and whether a parameter may be written."""

from __future__ import annotations

from typing import Any

from tilewright.dataclass import dataclass
from tilewright.frontend.trace.views import static_shape


@dataclass(frozen=True)
class TensorAnnotation:
    """`tensor`, `tensor[4, 8]` or `mutable_tensor`."""

    shape: tuple[int, ...] | None = None
    is_mutable: bool = False

    def __getitem__(self, shape: Any) -> TensorAnnotation:
        return TensorAnnotation(static_shape(shape), self.is_mutable)


tensor = TensorAnnotation()
mutable_tensor = TensorAnnotation(is_mutable=True)
mutable = mutable_tensor
immutable = tensor
