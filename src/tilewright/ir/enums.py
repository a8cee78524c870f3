"""Enumerations of the language: memory spaces, function types, levels, layouts, modes."""

from __future__ import annotations

from enum import Enum, IntEnum


class MemorySpace(Enum):
    """Where a buffer lives; the first ten are PyPTO's, the last four NKI's."""

    DDR = "DDR"
    Vec = "Vec"
    Mat = "Mat"
    Left = "Left"
    Right = "Right"
    Acc = "Acc"
    Bias = "Bias"
    LeftScale = "LeftScale"
    RightScale = "RightScale"
    ScalarLocal = "ScalarLocal"
    Sbuf = "Sbuf"
    Psum = "Psum"
    Hbm = "Hbm"
    SharedHbm = "SharedHbm"


class FunctionType(Enum):
    """What a function is to the runtime; Opaque when not said."""

    Opaque = "Opaque"
    Orchestration = "Orchestration"
    InCore = "InCore"
    AIC = "AIC"
    AIV = "AIV"
    Group = "Group"
    Spmd = "Spmd"
    Inline = "Inline"
    Graph = "Graph"


CORES = (FunctionType.InCore, FunctionType.AIC, FunctionType.AIV)
"""The types of functions that run on a core."""


class Level(Enum):
    """Hierarchy level at which a function or scope runs."""

    AIV = "AIV"
    AIC = "AIC"
    CORE_GROUP = "CORE_GROUP"
    CHIP_DIE = "CHIP_DIE"
    CHIP = "CHIP"
    HOST = "HOST"
    CLUSTER_0 = "CLUSTER_0"
    CLUSTER_1 = "CLUSTER_1"
    CLUSTER_2 = "CLUSTER_2"
    GLOBAL = "GLOBAL"
    L2CACHE = "CHIP_DIE"  # noqa: PIE796
    PROCESSOR = "CHIP"  # noqa: PIE796
    UMA = "CHIP"  # noqa: PIE796
    NODE = "HOST"  # noqa: PIE796
    POD = "CLUSTER_0"  # noqa: PIE796


class Role(Enum):
    """Role of a function at its level."""

    Orchestrator = "Orchestrator"
    SubWorker = "SubWorker"


class ParamDirection(Enum):
    """How a function uses a parameter."""

    In = "In"
    Out = "Out"
    InOut = "InOut"


class ForKind(Enum):
    """How the iterations of a loop relate; Lanes and Together are made by passes only."""

    Sequential = "range"
    Parallel = "parallel"
    Unroll = "unroll"
    Pipeline = "pipeline"
    Spmd = "spmd"
    SplitAiv = "split_aiv"
    Lanes = "lanes"
    Together = "together"


class SplitMode(Enum):
    """How a mixed region is divided between the two vector lanes."""

    NONE = 0
    UP_DOWN = 1
    LEFT_RIGHT = 2


class TensorLayout(Enum):
    """Layout of a tensor in global memory."""

    ND = "ND"
    DN = "DN"
    NZ = "NZ"
    MX_A_ZZ = "MX_A_ZZ"
    MX_B_NN = "MX_B_NN"


class TileLayout(Enum):
    """Box layout of a tile."""

    none_box = "none_box"
    row_major = "row_major"
    col_major = "col_major"


class PadValue(Enum):
    """Value of the elements outside the valid region."""

    null = "null"
    zero = "zero"
    max = "max"
    min = "min"


class MaskPattern(IntEnum):
    """Which lanes of each group of four are taken, written from the highest lane down."""

    P0101 = 1
    P1010 = 2
    P0001 = 3
    P0010 = 4
    P0100 = 5
    P1000 = 6
    P1111 = 7


class CompactMode(Enum):
    """Compaction of a tile's storage."""

    null = "null"
    normal = "normal"
    row_plus_one = "row_plus_one"


class PipeType(Enum):
    """Execution pipe of an event."""

    MTE1 = "MTE1"
    MTE2 = "MTE2"
    MTE3 = "MTE3"
    M = "M"
    V = "V"
    S = "S"
    FIX = "FIX"
    ALL = "ALL"


class AtomicType(Enum):
    """How a store combines with what is there."""

    None_ = 0
    Add = 1


class ScopeMode(Enum):
    """Whether dependencies inside a scope are derived automatically."""

    AUTO = "AUTO"
    MANUAL = "MANUAL"


class NotifyOp(Enum):
    """How a notify combines with the signal slot."""

    AtomicAdd = 0
    Set = 1


class WaitCmp(Enum):
    """How a wait compares the signal slot."""

    Eq = 0
    Ge = 1


class ReduceOp(Enum):
    """Combining operation of a collective."""

    Sum = "Sum"
    Max = "Max"
    Min = "Min"
    Prod = "Prod"


class Effect(IntEnum):
    """What an operation does besides giving its results."""

    PURE = 0
    READ = 1
    WRITE = 2
    COMM = 3


class Rounding(Enum):
    """Rounding mode of a cast; `ROUND` is half away from zero, `RINT` half to even."""

    NONE = "none"
    RINT = "rint"
    ROUND = "round"
    FLOOR = "floor"
    CEIL = "ceil"
    TRUNC = "trunc"
    ODD = "odd"


ROUNDING_BY_CODE: tuple[Rounding, ...] = tuple(Rounding)
