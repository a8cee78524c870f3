"""What makes two requests one: never a kernel made for something else, never a needless second one.

Each case changes something between two calls; the second must be answered for what is there then.
"""

# ruff: noqa: RET504
from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tilewright.language as pl
from tilewright import errors
from tilewright.cache import CacheConfig
from tilewright.runtime import MemoryPlanner, PassDumpLevel, RunConfig

F32 = np.float32
X = np.ones((16, 16), F32)
M, O = pl.dynamic("M"), pl.dynamic("M")
SHAPE = [8, 16]
NESTED = ([8, 16], [0, 0])


def rows(count: int, columns: int = 16) -> Any:
    return np.ones((count, columns), F32)


# ---- constants -----------------------------------------------------------------------------------


@pl.jit
def by_list(x: pl.Tensor[[16, 16], pl.FP32]) -> pl.Tensor[SHAPE, pl.FP32]:
    with pl.at(level=pl.Level.CORE_GROUP):
        r = pl.slice(x, SHAPE, [0, 0])
    return r


@pl.jit
def by_nested(x: pl.Tensor[[16, 16], pl.FP32]) -> pl.Tensor[NESTED[0], pl.FP32]:
    with pl.at(level=pl.Level.CORE_GROUP):
        r = pl.slice(x, NESTED[0], NESTED[1])
    return r


@pytest.mark.parametrize("kernel, items", [(by_list, SHAPE), (by_nested, NESTED[0])])
def test_a_list_that_is_changed_in_place_is_another_constant(kernel: Any, items: Any) -> None:
    try:
        for count in (8, 8, 4, 4, 8):
            items[0] = count
            assert kernel(X).shape == (count, 16)
        assert len(kernel._compiled) == 2
        items.append(1)
        with pytest.raises(errors.TilewrightError):
            kernel(X)
    finally:
        items[:] = [8, 16]


def test_a_list_that_stays_costs_no_look_in_python(monkeypatch: pytest.MonkeyPatch) -> None:
    by_list(X)
    monkeypatch.setattr(type(by_list), "_request", None)
    assert by_list(X).shape == (8, 16)


class Base:
    FACTOR = 2.0


class Settings(Base):
    class Inner:
        ROWS = 8


@pl.jit
def by_class(x: pl.Tensor[[16, 16], pl.FP32]) -> pl.Tensor[[Settings.Inner.ROWS, 16], pl.FP32]:
    with pl.at(level=pl.Level.CORE_GROUP):
        r = pl.mul(pl.slice(x, [Settings.Inner.ROWS, 16], [0, 0]), Settings.FACTOR)
    return r


def test_attributes_of_classes_are_constants_inherited_ones_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert (by_class(X) == 2).all()
    monkeypatch.setattr(Base, "FACTOR", 3.0)
    assert (by_class(X) == 3).all()
    monkeypatch.setattr(Settings, "FACTOR", 4.0, raising=False)
    assert (by_class(X) == 4).all()
    monkeypatch.setattr(Settings.Inner, "ROWS", 4)
    assert by_class(X).shape == (4, 16)
    monkeypatch.setattr(type(by_class), "_request", None)
    assert by_class(X).shape == (4, 16)


class Meta(type):
    @property
    def FACTOR(cls) -> float:
        return 2.0 + len(calls)


class Computed(metaclass=Meta):
    pass


calls: list[int] = []


@pl.jit
def by_computed(x: pl.Tensor[[16, 16], pl.FP32]) -> pl.Tensor[[16, 16], pl.FP32]:
    with pl.at(level=pl.Level.CORE_GROUP):
        r = pl.mul(x, Computed.FACTOR)
    return r


def test_a_computed_attribute_is_read_at_each_call() -> None:
    assert (by_computed(X) == 2).all()
    calls.append(1)
    assert (by_computed(X) == 3).all()


def test_a_default_that_is_a_list_is_read_as_it_is() -> None:
    shape = [8, 16]

    @pl.jit
    def k(x: pl.Tensor[[16, 16], pl.FP32], size: pl.constexpr = shape):
        with pl.at(level=pl.Level.CORE_GROUP):
            r = pl.slice(x, size, [0, 0])
        return r

    assert k(X).shape == (8, 16)
    shape[0] = 4
    assert k(X).shape == (4, 16)


def test_an_alias_of_an_operation_may_mean_another_one() -> None:
    word = pl.mul

    @pl.jit
    def k(x: pl.Tensor[[16, 16], pl.FP32]) -> pl.Tensor[[16, 16], pl.FP32]:
        with pl.at(level=pl.Level.CORE_GROUP):
            r = word(x, 3.0)
        return r

    assert (k(X) == 3).all()
    word = pl.add
    assert (k(X) == 4).all()


# ---- what Python evaluated when a function was defined -------------------------------------------


def with_default(number: float) -> Any:
    @pl.jit.inline
    def scaled(t, s=number):
        return pl.mul(t, s)

    return scaled


def test_defaults_of_helpers_are_part_of_the_key() -> None:
    helper = with_default(2.0)

    @pl.jit
    def k(x: pl.Tensor[[16, 16], pl.FP32]) -> pl.Tensor[[16, 16], pl.FP32]:
        with pl.at(level=pl.Level.CORE_GROUP):
            r = helper(x)
        return r

    assert (k(X) == 2).all()
    helper = with_default(5.0)
    assert (k(X) == 5).all()


def undecorated(count: int) -> Any:
    """A function whose extents only its evaluated annotations know."""

    def k(x: pl.Tensor[[count, 16], pl.FP32], out: pl.Out[pl.Tensor[[count, 16], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = pl.add(x, 1.0)
        return out

    return k


def test_evaluated_annotations_are_part_of_the_key(tmp_path: Path) -> None:
    config = RunConfig(cache_config=CacheConfig(enabled=True, root=tmp_path))
    for count in (8, 16):
        kernel = pl.jit(undecorated(count))
        assert kernel.compile(config=config)(rows(count)).shape == (count, 16)


def contract(count: int) -> Any:
    def h(t: pl.Tile[[count, 16], pl.FP32, pl.Mem.Vec]) -> pl.Tile:
        return pl.mul(t, 2.0)

    return pl.jit.inline(h)


def test_the_contract_of_a_tile_parameter_is_part_of_the_key() -> None:
    helper = contract(8)

    @pl.jit
    def k(x: pl.Tensor[[8, 16], pl.FP32], out: pl.Out[pl.Tensor[[8, 16], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            pl.store(helper(pl.load(x, [0, 0], [8, 16])), [0, 0], out)
        return out

    assert (k(rows(8)) == 2).all()
    helper = contract(4)
    with pytest.raises(errors.ShapeMismatch, match="expects shape dimension 0 = 4, got 8"):
        k(rows(8))


@pl.jit
def two_dimensions(
    x: pl.Tensor[[M, 4], pl.FP32],
    y: pl.Tensor[[O, 4], pl.FP32],
    out: pl.Out[pl.Tensor[[M, 4], pl.FP32]],
):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.add(x, 1.0)
    return out


def test_one_dimension_is_not_two_of_the_same_label(monkeypatch: pytest.MonkeyPatch) -> None:
    assert two_dimensions(rows(3, 4), rows(5, 4)).shape == (3, 4)
    monkeypatch.setitem(two_dimensions.__wrapped__.__globals__, "O", M)
    with pytest.raises(errors.ShapeMismatch):
        two_dimensions(rows(3, 4), rows(5, 4))
    monkeypatch.undo()
    assert two_dimensions(rows(3, 4), rows(5, 4)).shape == (3, 4)


# ---- arguments -----------------------------------------------------------------------------------


@pl.jit
def typed(
    x: pl.Tensor[[16, 16], pl.FP32], n: pl.constexpr = 8, s: pl.constexpr = 2.0
) -> pl.Tensor[[16, 16], pl.FP32]:
    with pl.at(level=pl.Level.CORE_GROUP):
        r = pl.add(pl.mul(x, s), n)
    return r


def test_constants_are_told_apart_by_type() -> None:
    for given in ({}, {"n": 1}, {"n": True}, {"s": 1}, {"s": 1.0}, {"n": 1}, {"s": 1.0}):
        assert (typed(X, **given) == given.get("s", 2.0) + given.get("n", 8)).all()
    assert len(typed._compiled) == 5


def sign_of(kernel: Any) -> bool:
    return bool(np.signbit(kernel(X)[0, 0]))


def test_the_sign_of_zero_is_part_of_the_key() -> None:
    zero = -0.0

    @pl.jit
    def k(x: pl.Tensor[[16, 16], pl.FP32]) -> pl.Tensor[[16, 16], pl.FP32]:
        with pl.at(level=pl.Level.CORE_GROUP):
            r = pl.mul(x, zero)
        return r

    assert sign_of(k)
    zero = 0.0
    assert not sign_of(k)


def test_a_sample_may_be_a_tensor_of_the_meta_device() -> None:
    class Described:
        shape, dtype = (16, 16), "torch.float32"

    assert typed.compile(Described()) is typed.compile(X)


# ---- options -------------------------------------------------------------------------------------


def adding() -> Any:
    @pl.jit
    def k(x: pl.Tensor[[16, 16], pl.FP32], out: pl.Out[pl.Tensor[[16, 16], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = pl.add(x, 1.0)
        return out

    return k


def files(root: Path) -> list[Path]:
    return [path for path in root.rglob("*") if path.is_file()]


FRESH: list[dict[str, Any]] = [
    {"dump_passes": True},
    {"dump_passes": PassDumpLevel.CONCISE},
    {"dump_ptoas_passes": True},
    {"compile_profiling": True},
    {"save_kernels_dir": "out"},
    {"verification_level": "none"},
]


@pytest.mark.parametrize("options", FRESH, ids=lambda options: next(iter(options)))
def test_diagnostic_requests_touch_no_entry_on_disk_or_in_memory(
    options: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    root = tmp_path / "root"
    policy = CacheConfig(enabled=True, root=root)
    kernel = adding()
    fresh = [kernel.compile(config=RunConfig(cache_config=policy, **options)) for _ in range(2)]
    assert fresh[0] is not fresh[1] and not kernel._compiled and not files(root)
    plain = kernel.compile(config=RunConfig(cache_config=policy))
    before = [(path, path.stat().st_mtime_ns) for path in files(root)]
    again = kernel.compile(config=RunConfig(cache_config=policy, **options))
    assert again is not plain and kernel.compile() is plain
    assert before == [(path, path.stat().st_mtime_ns) for path in files(root)]


def refused(action: Callable[[], Any]) -> tuple[type, str]:
    with pytest.raises(Exception) as caught:
        action()
    return caught.type, str(caught.value)


@pytest.mark.parametrize(
    "options", [{"memory_planner": MemoryPlanner.PTOAS}, {"cache_config": "x"}, {"execution": "no"}]
)
def test_wrong_options_are_the_same_error_on_a_hit_as_on_a_miss(options: dict[str, Any]) -> None:
    from tilewright.passes import PassContext

    kernel = adding()
    config = RunConfig(**options)
    ways = (
        lambda: kernel(X, config=config),
        lambda: kernel.compile(X, config=config),
        lambda: kernel.warmup(config=config),
        lambda: kernel.explain(X, config=config),
    )
    with PassContext(memory_planner=MemoryPlanner.PYPTO):
        errors_of_a_miss = {refused(way) for way in ways}
        kernel(X)
        assert {refused(way) for way in ways} == errors_of_a_miss
    assert len(errors_of_a_miss) == 1


def test_another_mapping_for_the_environment_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = adding()
    kernel(X)
    kernel(X)
    monkeypatch.setattr(os, "environ", {**os.environ, "TILEWRIGHT_PROG_BUILD_DIR": str(tmp_path)})
    kernel(X)
    assert files(tmp_path)


def test_variables_that_ask_for_nothing_cost_one_careful_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kernel = adding()
    out = np.empty_like(X)
    kernel(X, out)
    made = kernel.compile()
    monkeypatch.setenv("AN_UNRELATED_VARIABLE", "1")
    kernel(X, out)
    assert len(kernel.variants) == 2 and kernel.compile() is made
    with monkeypatch.context() as blind:
        blind.setattr(type(kernel), "call_slowly", None)
        assert kernel(X, out) is out


# ---- explanations --------------------------------------------------------------------------------


def test_explain_names_what_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("settings_of_a_kernel")
    module.SCALE, module.helper = 2.0, with_default(2.0)  # type: ignore[attr-defined]

    @pl.jit
    def q(x: pl.Tensor, n: pl.constexpr = 1) -> pl.Tensor[[16, 16], pl.FP32]:
        with pl.at(level=pl.Level.CORE_GROUP):
            r = pl.mul(module.helper(x), module.SCALE)
        return r

    assert "nothing has been compiled" in q.explain(X)
    q(X)
    assert "reuses" in q.explain(X)
    assert "constant n: 1 -> 2" in q.explain(X, n=2)
    assert "argument x: FP32[16,16]ND -> FP32[8,16]ND" in q.explain(X[:8])
    assert "execution: native -> interpret" in q.explain(X, config=RunConfig(execution="interpret"))
    assert "pass dumps" in q.explain(X, config=RunConfig(dump_passes=True))
    module.SCALE = 2  # type: ignore[attr-defined]
    assert "module.SCALE in q: 2.0 -> 2" in q.explain(X)
    module.SCALE, module.helper = 2.0, with_default(5.0)  # type: ignore[attr-defined]
    assert "default of s in scaled: 2.0 -> 5.0" in q.explain(X)
    monkeypatch.setenv("TILEWRIGHT_EMIT_PTO_LOC", "1")
    assert "source locations: False -> True" in q.explain(X)
    assert len(q._compiled) == 1, "explaining compiles nothing"


# ---- threads -------------------------------------------------------------------------------------


def test_calls_during_rebinding_are_of_one_time() -> None:
    number = 0.0

    @pl.jit
    def k(x: pl.Tensor[[4, 16], pl.FP32]) -> pl.Tensor[[4, 16], pl.FP32]:
        with pl.at(level=pl.Level.CORE_GROUP):
            r = pl.add(x, number)
        return r

    wrong: list[Any] = []
    stop = threading.Event()

    def call() -> None:
        while not stop.is_set():
            low = number
            found = np.unique(k(rows(4)) - 1).tolist()
            if len(found) != 1 or not low <= found[0] <= number:
                wrong.append((low, found, number))

    threads = [threading.Thread(target=call) for _ in range(3)]
    for thread in threads:
        thread.start()
    for step in range(25):
        number = float(step)
        time.sleep(0.02)
    stop.set()
    for thread in threads:
        thread.join()
    assert not wrong
