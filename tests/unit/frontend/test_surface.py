"""Public names say how they are called, and hold what annotations and arguments need."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import tilewright
import tilewright.language as pl
from tilewright import compat, ir
from tilewright.dtypes import ALL
from tilewright.errors import ParserTypeError
from tilewright.frontend.surface import OpName

OPERATIONS = [
    (path, getattr(home, name))
    for path, home in (("pl", pl), ("pl.tile", pl.tile), ("pl.tensor", pl.tensor))
    for name in dir(home)
    if isinstance(getattr(home, name), OpName)
]


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("add", "(lhs, rhs)"),
        ("matmul", "(lhs, rhs, out_dtype=None, a_trans=False, b_trans=False, c_matrix_nz=False)"),
        ("cast", "(input, target_type, mode='round')"),
    ],
)
def test_an_operation_says_how_it_is_called(name: str, form: str) -> None:
    signature = inspect.signature(getattr(pl, name))
    bare = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
    assert str(inspect.Signature(bare)) == form


def test_every_operation_has_a_signature_and_its_own_name() -> None:
    assert len(OPERATIONS) > 300
    for path, operation in OPERATIONS:
        assert isinstance(inspect.signature(operation), inspect.Signature)
        assert repr(operation) == f"{path}.{operation.__name__}"


@pytest.mark.parametrize("home", ["tilewright", "pypto"])
def test_a_star_import_gives_the_language(home: str) -> None:
    compat.install("pypto")
    names: dict[str, object] = {}
    exec(f"from {home}.language import *\nfrom {home}.language.distributed import *", names)
    assert {"add", "range", "Tensor", "FP32", "jit", "function", "tile", "parse"} <= names.keys()
    assert {"allreduce", "world_size", "DistributedTensor", "ReduceOp"} <= names.keys()
    own = {name for name in (*dir(pl.tensor), *dir(pl.tile)) if hasattr(pl, name)}
    assert own <= names.keys() and names["add"] is pl.add
    assert {"Any", "annotations"}.isdisjoint(names)


def test_element_types_are_instances_and_attributes_of_one_class() -> None:
    for dtype in ALL:
        assert isinstance(dtype, tilewright.DataType)
        assert getattr(tilewright.DataType, dtype.name) is dtype is getattr(pl, dtype.name)
    with pytest.raises(AttributeError, match=r"no element type 'FP12'; there are .*FP32"):
        _ = tilewright.DataType.FP12


def test_hints_are_optimizations_and_nothing_else_is_taken_for_one() -> None:
    assert isinstance(pl.split(pl.SplitMode.UP_DOWN), pl.Split)
    assert isinstance(pl.cross_core_slot(slot_num=2), pl.CrossCoreSlot)
    assert issubclass(pl.Split, pl.Optimization) and issubclass(pl.CrossCoreSlot, pl.Optimization)
    with pytest.raises(ParserTypeError, match=r"optimizations is \[3\]; a list of pl.split"):
        pl.parse(
            "@pl.function\ndef f(x: pl.Tensor[[8], pl.FP32]):\n"
            "    with pl.at(level=pl.Level.CORE_GROUP, optimizations=[3]):\n"
            "        y = pl.add(x, 1.0)\n"
        )


def test_words_that_head_loops_and_scopes_have_classes() -> None:
    assert isinstance(pl.range, pl.RangeIterator) and isinstance(pl.while_, pl.WhileIterator)
    assert isinstance(pl.at, pl.AtContext) and isinstance(pl.cluster, pl.ClusterContext)
    assert isinstance(pl.spmd, pl.SpmdContext) and isinstance(pl.split_aiv, pl.SplitAivContext)


@pytest.mark.parametrize("pattern", list(pl.MaskPattern))
def test_lane_patterns_have_names(pattern: pl.MaskPattern) -> None:
    assert pl.tile.MaskPattern is pl.tensor.MaskPattern is pl.MaskPattern
    f = pl.parse(
        "@pl.function\ndef f(x: pl.Tensor[[2, 8], pl.FP32]):\n"
        f"    return pl.gather(x, mask_pattern=pl.tile.MaskPattern.{pattern.name})\n"
    )
    x = np.arange(16, dtype=np.float32).reshape(2, 8)
    taken = [lane for lane in range(8) if pattern.name[-1 - lane % 4] == "1"]
    np.testing.assert_array_equal(ir.compile(f)(x), x[:, taken])
