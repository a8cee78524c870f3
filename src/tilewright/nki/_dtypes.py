"""`nl`: element types, and questions about them."""

from __future__ import annotations

from typing import Any

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
bfloat16: np.dtype[Any] = BY_NAME["bfloat16"].numpy
float8_e4m3: np.dtype[Any] = BY_NAME["float8_e4m3"].numpy
float8_e4m3fn: np.dtype[Any] = BY_NAME["float8_e4m3fn"].numpy
float8_e5m2: np.dtype[Any] = BY_NAME["float8_e5m2"].numpy
float8_e8m0fnu: np.dtype[Any] = BY_NAME["float8_e8m0fnu"].numpy
bool_ = np.dtype(np.bool_)
tfloat32: DType = TF32
