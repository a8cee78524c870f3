"""What `pypto.runtime` has besides the options: run a program, run a directory, describe arrays."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np

from tilewright.dataclass import dataclass
from tilewright.dtypes import DType
from tilewright.ir.core import Program
from tilewright.jit import CompiledProgram, compile_program
from tilewright.jit.options import resolve_options
from tilewright.runtime import RunConfig


def run(program: Program, *tensors: Any, config: RunConfig | None = None) -> CompiledProgram:
    """Compiles a program, calls it with all its parameters, and gives the compiled program."""
    compiled = compile_program(program, options=resolve_options(config))
    if tensors:
        compiled(*tensors)
    return compiled


def execute_compiled(work_dir: str | Path, tensors: Sequence[Any], **options: Any) -> Any:
    """Runs what is in an output directory; `options` name a device, of which there is one."""
    del options
    return CompiledProgram.from_dir(work_dir)(*tensors)


def configure_log(*_: Any, **__: Any) -> None:
    """Accepts the settings of a log that is not kept here."""


def invalidate_binary_cache(*_: Any, **__: Any) -> None:
    """Nothing is kept beside an output directory that could be out of date."""


def to_torch_dtype(dtype: DType) -> Any:
    """The torch dtype of an element type; raises ImportError without torch."""
    import torch

    return getattr(torch, str(dtype.numpy))


def tensor_from_continuous(given: Any) -> Any:
    """What a host callback is given, as a torch tensor of the same memory; ImportError without."""
    import torch

    if not isinstance(given, np.ndarray):
        return given
    array = cast("np.ndarray[Any, Any]", given)
    same_bytes: Any = torch.from_numpy(array.view(f"i{array.itemsize}"))
    return same_bytes.view(to_torch_dtype(DType.from_numpy(array.dtype)))


def to_runtime_shape(shape: Any) -> tuple[int, ...]:
    """The extents of a shape, or of a type or array that has one, as numbers.

    Raises ValueError for an extent that only run time knows.
    """
    extents: Sequence[Any] = getattr(shape, "shape", shape)
    unknown = [extent for extent in extents if not isinstance(extent, (int, np.integer))]
    if unknown:
        raise ValueError(f"the extent {unknown[0]} is not known before run time")
    return tuple(map(int, extents))


@dataclass
class TensorSpec:
    """A tensor of a test: its name, shape, element type, first contents, and direction.

    `init_value` is a number, an array, a function of no arguments that gives one, or None.
    """

    name: str
    shape: Sequence[int]
    dtype: Any
    init_value: Any | Callable[[], Any] = None
    is_output: bool = False

    def create_tensor(self) -> Any:
        """A torch tensor where `dtype` is one of torch's, else a numpy array."""
        value = self.init_value() if callable(self.init_value) else self.init_value
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(self.dtype, torch.dtype):
            blank = torch.zeros(tuple(self.shape), dtype=self.dtype)
            return blank if value is None else blank + torch.as_tensor(value, dtype=self.dtype)
        dtype = self.dtype.numpy if isinstance(self.dtype, DType) else self.dtype
        blank = np.zeros(tuple(self.shape), dtype)
        return blank if value is None else blank + np.asarray(value, dtype)


@dataclass
class ScalarSpec:
    """A scalar of a test: its name, value and C type."""

    name: str
    value: Any
    ctype: Any = None
