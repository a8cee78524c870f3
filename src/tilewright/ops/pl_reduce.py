"""`pl` names of reductions: row_* over the last axis, col_* over the one before, both kept."""

from __future__ import annotations

from typing import Any

from tilewright.ir.core import Operation, Value
from tilewright.ir.opdef import OpDef
from tilewright.ir.types import ShapedType
from tilewright.ops import reduce
from tilewright.ops.adapt import Build, Render, described, publish, require_shaped_value
from tilewright.ops.rules import require_rank

Op = OpDef[..., Any]


def along(target: Op, name: str, axis: int) -> Build:
    """(input): reduces `axis` and keeps it with extent 1; scratch memory is not needed."""

    def build(input: Any, tmp_tile: Any = None) -> Value:
        value = require_shaped_value(name, "input", input)
        type_ = value.type
        assert isinstance(type_, ShapedType)
        require_rank(name, "input", type_, *range(-axis, 9))
        return target(value, axes=(type_.rank + axis,), keepdims=True)

    return described(build, name, target)


def when_along(axis: int) -> Render:
    """Renders a reduction of exactly `axis`, kept."""

    def render(operation: Operation) -> dict[str, Any] | None:
        (x,) = operation.operands
        fits = operation.attrs["axes"] == (x.type.rank + axis,) and operation.attrs["keepdims"]
        return {"input": x} if fits else None

    return render


REDUCED: tuple[tuple[Op, str], ...] = (
    (reduce.sum_, "sum"),
    (reduce.max_, "max"),
    (reduce.min_, "min"),
    (reduce.prod, "prod"),
    (reduce.argmax, "argmax"),
    (reduce.argmin, "argmin"),
)
WITHOUT_SCRATCH = ("col_max", "col_min", "col_prod")
for op_, word in REDUCED:
    for way, axis_ in (("row", -1), ("col", -2)):
        name_ = f"{way}_{word}"
        publish(
            op_,
            name_,
            along(op_, name_, axis_),
            tensor={},
            tile={"input": "tile"},
            top_without=("tmp_tile",) if name_ in WITHOUT_SCRATCH else (),
            tensor_without=("tmp_tile",),
            tile_without=("tmp_tile",) if name_ in WITHOUT_SCRATCH else (),
            render=when_along(axis_),
        )
