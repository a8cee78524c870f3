"""Annotations of traced kernels: `nt.tensor[4, 8]`, `nt.mutable_tensor`, `nt.scalar(tile)`."""

from __future__ import annotations

from tilewright.frontend.trace.scalars import scalar
from tilewright.frontend.trace.typing import (
    TensorAnnotation,
    immutable,
    mutable,
    mutable_tensor,
    tensor,
)

__all__ = ["TensorAnnotation", "immutable", "mutable", "mutable_tensor", "scalar", "tensor"]
