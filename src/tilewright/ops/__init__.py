"""What words there are. Importing this package registers every op and every spelling."""

from tilewright.ops import (
    arith,
    cast,
    control,
    elementwise,
    loop,
    matmul,
    memory,
    reduce,
    shape,
)

__all__ = [
    "arith",
    "cast",
    "control",
    "elementwise",
    "loop",
    "matmul",
    "memory",
    "reduce",
    "shape",
]
