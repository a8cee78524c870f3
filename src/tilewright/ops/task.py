"""Tasks and cores: task ids, which block or lane runs, how many cores there are.

A task id says who must be done before whom. Compiled code runs tasks in program order, where ids
carry nothing; checked mode makes graphs of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from tilewright.dtypes import INDEX, TASK_ID
from tilewright.errors import ParserTypeError
from tilewright.ir.core import Value
from tilewright.ir.enums import Effect
from tilewright.ir.opdef import op
from tilewright.ir.types import ArrayType, ScalarType, TaskIdType, Type
from tilewright.ops.participant import participant
from tilewright.ops.sampling import fails, sample, scalar

NO_TASK = 0
"""The id of no task."""
CLUSTERS = 8
"""Cube clusters of the machine that programs see: the same everywhere, so results are too."""
LANES = 2
"""Vector cores of one cluster."""


@op("task.current", effect=Effect.READ)
def current() -> Value:
    """The id of the task that the innermost scope around this place makes."""
    ...


@current.type_rule
def current_type() -> Type:
    return TaskIdType


@current.reference
def current_numpy() -> Any:
    return np.int64(NO_TASK)


@op("task.invalid")
def invalid() -> Value:
    """The id of no task: a dependency on it is none."""
    ...


@invalid.type_rule
def invalid_type() -> Type:
    return TaskIdType


@invalid.reference
def invalid_numpy() -> Any:
    return np.int64(NO_TASK)


invalid.samples(lambda: [sample()])


@invalid.spelling("pl.system.task_invalid")
def task_invalid() -> Value:
    """The task id of no task."""
    return invalid()


@op("task.dummy", effect=Effect.READ)
def dummy(deps: Sequence[Value]) -> Value:
    """The id of a task that does nothing once all of `deps` (ids and arrays of ids) are done."""
    ...


@dummy.type_rule
def dummy_type(deps: Sequence[Value]) -> Type:
    require_task_ids("task_dummy", deps)
    return TaskIdType


def require_task_ids(name: str, deps: Sequence[Value]) -> None:
    """Raises ParserTypeError unless every dependency is a task id or an array of them."""
    for value in deps:
        if not isinstance(value.type, (ScalarType, ArrayType)) or value.type.dtype is not TASK_ID:
            raise ParserTypeError(f"{name}: deps= takes task ids, not {value.type}")


@dummy.reference
def dummy_numpy(deps: Any) -> Any:
    return np.int64(NO_TASK)


dummy.samples(
    lambda: [
        sample(()),
        sample((scalar(0, TASK_ID), scalar(0, TASK_ID))),
        fails(ParserTypeError, (scalar(0, INDEX),)),
    ]
)


@dummy.spelling("pl.system.task_dummy")
def task_dummy(*, deps: Any) -> Value:
    """A task that only joins `deps`: task ids, arrays of them, None for no task."""
    return dummy(given_ids(deps))


def given_ids(deps: Any) -> list[Value]:
    """The task ids of a deps= argument; None stands for no task."""
    items = list(cast("Sequence[Any]", deps if isinstance(deps, (list, tuple)) else [deps]))
    for item in items:
        if item is not None and not isinstance(item, Value):
            raise ParserTypeError(f"deps= takes task ids, not {item!r}")
    return [item for item in items if item is not None]


# ------------------------------------------------------------------------------------------ cores


@op("core.block_index", effect=Effect.READ)
def block_index() -> Value:
    """The index of the block that runs this: 0 where nothing runs in blocks."""
    ...


@block_index.type_rule
def block_index_type() -> Type:
    return ScalarType(INDEX)


@block_index.reference
def block_index_numpy() -> Any:
    return np.int64(participant().block)


block_index.samples(lambda: [sample()])


@block_index.spelling("pl.get_block_idx", "pl.tile.get_block_idx", "pl.tensor.get_block_idx")
def get_block_idx() -> Value:
    """The index of the block that runs, as INDEX."""
    return block_index()


@op("core.block_count", effect=Effect.READ)
def block_count() -> Value:
    """How many blocks run this: 1 where nothing runs in blocks."""
    ...


@block_count.type_rule
def block_count_type() -> Type:
    return ScalarType(INDEX)


@block_count.reference
def block_count_numpy() -> Any:
    return np.int64(participant().blocks)


block_count.samples(lambda: [sample()])


@block_count.spelling("pl.get_block_num", "pl.tile.get_block_num", "pl.tensor.get_block_num")
def get_block_num() -> Value:
    """The number of blocks that run, as INDEX."""
    return block_count()


@op("core.lane_index", effect=Effect.READ)
def lane_index() -> Value:
    """The index of the vector lane that runs this: 0 where there is one only."""
    ...


@lane_index.type_rule
def lane_index_type() -> Type:
    return ScalarType(INDEX)


@lane_index.reference
def lane_index_numpy() -> Any:
    return np.int64(participant().lane)


lane_index.samples(lambda: [sample()])


@lane_index.spelling(
    "pl.get_subblock_idx", "pl.tile.get_subblock_idx", "pl.tensor.get_subblock_idx"
)
def get_subblock_idx() -> Value:
    """The index of the vector lane that runs, as INDEX."""
    return lane_index()


@op("core.cluster_count")
def cluster_count() -> Value:
    """Cube clusters of the current run."""
    ...


@cluster_count.type_rule
def cluster_count_type() -> Type:
    return ScalarType(INDEX)


@cluster_count.reference
def cluster_count_numpy() -> Any:
    return np.int64(CLUSTERS)


cluster_count.samples(lambda: [sample()])


@cluster_count.spelling("pl.system.available_cluster_count")
def available_cluster_count() -> Value:
    """Cube clusters of the current run, as INDEX."""
    return cluster_count()


@op("core.vector_count")
def vector_count() -> Value:
    """Vector cores of the current run."""
    ...


@vector_count.type_rule
def vector_count_type() -> Type:
    return ScalarType(INDEX)


@vector_count.reference
def vector_count_numpy() -> Any:
    return np.int64(CLUSTERS * LANES)


vector_count.samples(lambda: [sample()])


@vector_count.spelling("pl.system.available_aiv_count")
def available_aiv_count() -> Value:
    """Vector cores of the current run, as INDEX."""
    return vector_count()
