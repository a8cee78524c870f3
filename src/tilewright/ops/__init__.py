"""What words there are. Importing this package registers every op and every spelling."""

from tilewright.ops import (
    access,
    arith,
    cast,
    control,
    creation,
    elementwise,
    loop,
    matmul,
    memory,
    pl_elementwise,
    pl_matmul,
    pl_memory,
    pl_reduce,
    pl_shape,
    reduce,
    shape,
)

__all__ = [
    "access",
    "arith",
    "cast",
    "control",
    "creation",
    "elementwise",
    "loop",
    "matmul",
    "memory",
    "pl_elementwise",
    "pl_matmul",
    "pl_memory",
    "pl_reduce",
    "pl_shape",
    "reduce",
    "shape",
]
