"""`nl`: element types. Those that numpy has from an extension load it when first named."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.dtypes import TF32, DType
from tilewright.ops.nki_dtypes import BY_NAME

int8 = np.dtype(np.int8)
int16 = np.dtype(np.int16)
int32 = np.dtype(np.int32)
uint8 = np.dtype(np.uint8)
uint16 = np.dtype(np.uint16)
uint32 = np.dtype(np.uint32)
float16 = np.dtype(np.float16)
float32 = np.dtype(np.float32)
bool_ = np.dtype(np.bool_)
tfloat32: DType = TF32

if TYPE_CHECKING:
    bfloat16: np.dtype[Any]
    float8_e4m3: np.dtype[Any]
    float8_e4m3fn: np.dtype[Any]
    float8_e5m2: np.dtype[Any]
    float8_e8m0fnu: np.dtype[Any]

EXTENSIONS = ("bfloat16", "float8_e4m3", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu")


def __getattr__(name: str) -> np.dtype[Any]:
    if name not in EXTENSIONS:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    return BY_NAME[name].numpy
