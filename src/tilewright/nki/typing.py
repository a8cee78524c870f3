"""Annotations of traced kernels: `nt.tensor[4, 8]`, `nt.mutable_tensor`, `nt.scalar(tile)`."""

from __future__ import annotations

from tilewright.frontend.trace_scalars import scalar
from tilewright.frontend.trace_typing import (
    TensorAnnotation,
    immutable,
    mutable,
    mutable_tensor,
    tensor,
)

__all__ = ["TensorAnnotation", "immutable", "mutable", "mutable_tensor", "scalar", "tensor"]
