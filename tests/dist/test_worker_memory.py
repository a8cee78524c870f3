"""Memory of a worker: of numpy or of torch, as its dtype is, and copied either way."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilewright.dist.worker import DistributedWorker
from tilewright.dtypes import BF16, FP32


@pytest.fixture
def worker() -> Any:
    with DistributedWorker(lambda *args: args, ranks=2) as made:
        yield made


@pytest.mark.parametrize("dtype", [FP32, BF16, np.float32])
def test_memory_is_zero_at_first_and_holds_what_is_copied(worker: Any, dtype: Any) -> None:
    memory = worker.alloc_stacked_tensor([3], dtype)
    assert memory.shape == (2, 3) and not memory.any()
    worker.copy_to(memory, np.arange(6).reshape(2, 3).astype(memory.dtype))
    back = np.zeros_like(memory)
    worker.copy_from(memory, back)
    assert back.astype(np.float32).ravel().tolist() == [0, 1, 2, 3, 4, 5]


@pytest.mark.torch
@pytest.mark.parametrize("name", ["float32", "bfloat16"])
def test_a_dtype_of_torch_gives_memory_of_torch(worker: Any, name: str) -> None:
    torch = pytest.importorskip("torch")
    dtype = getattr(torch, name)
    memory = worker.alloc_stacked_tensor([3], dtype)
    assert isinstance(memory, torch.Tensor) and memory.dtype is dtype and memory.shape == (2, 3)
    worker.copy_to(memory, torch.arange(6).reshape(2, 3).to(dtype))
    back = torch.zeros(2, 3, dtype=dtype)
    worker.copy_from(memory, back)
    assert back.float().flatten().tolist() == [0, 1, 2, 3, 4, 5]
    if name == "float32":
        host = np.zeros((2, 3), np.float32)
        worker.copy_from(memory, host)
        assert host.ravel().tolist() == [0, 1, 2, 3, 4, 5]
