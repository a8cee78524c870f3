"""Enumerations of `nisa`."""

from __future__ import annotations

from enum import Enum


class engine(Enum):
    """The engine that runs an instruction."""

    unknown = 0
    tensor = 1
    scalar = 2
    gpsimd = 3
    dma = 4
    vector = 5
    sync = 6


class nc_version(Enum):
    """Generation of the core."""

    gen2 = 2
    gen3 = 3
    gen4 = 4


class reduce_cmd(Enum):
    """What an instruction does with the reduction registers."""

    idle = 0
    reset = 1
    reduce = 2
    reset_reduce = 3
    load_reduce = 4


class dge_mode(Enum):
    """Who makes the descriptors of a transfer."""

    none = 0
    swdge = 1
    hwdge = 2
    unknown = 3


class oob_mode(Enum):
    """What happens to an index that lies outside."""

    error = 0
    skip = 1


class matmul_perf_mode(Enum):
    """How the tensor engine is used."""

    none = "none"
    double_row = "double_row"


tensor_engine = engine.tensor
vector_engine = engine.vector
scalar_engine = engine.scalar
gpsimd_engine = engine.gpsimd
dma_engine = engine.dma
sync_engine = engine.sync
unknown_engine = engine.unknown
