# ruff: noqa: RET504  (kernels are language, not Python)
"""Rows P-019 to P-043: names fold into the program, and every folded name is in the key."""

from __future__ import annotations

import threading
import types
from typing import Any

import numpy as np
import pytest

import tilewright.language as pl
import tilewright.language.distributed as pld
from tilewright import errors
from tilewright.jit import _source, specializer
from tilewright.jit.decorator import JITFunction

F32 = np.float32
ROWS, FILL = 8, 2.5
BLOCK = 32
UNUSED, STEP = 1, 100
SHAPE, CORNERS = [8, 16], ((0, 0), (8, 16))
THING = object()
DEEP = 2.0
FLAG, NOTHING, MODE = True, None, "rint"
SIZE = 64


def ones(rows: int = 16, columns: int = 16) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    return np.ones((rows, columns), F32), np.zeros((rows, columns), F32)


@pl.jit
def scaled(x: pl.Tensor[[16, 32], pl.FP32], out: pl.Out[pl.Tensor[[ROWS, 32], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [ROWS, 32])
        pl.store(pl.mul(t, FILL), [0, 0], out)
    return out


def test_p019_inherited_names_become_their_values() -> None:
    text = scaled.source()
    assert "ROWS" not in text and "FILL" not in text and "2.5" in text
    x = np.random.default_rng(0).random((16, 32), F32)
    out = np.zeros((8, 32), F32)
    scaled(x, out)
    np.testing.assert_array_equal(out, x[:8] * F32(2.5))


@pl.jit
def every_literal(x: pl.Tensor[[16, 16], pl.FP32], out: pl.Out[pl.Tensor[[16, 16], pl.FP16]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        t = pl.load(x, [0, 0], [16, 16])
        if FLAG:
            t = pl.mul(t, FILL)
        pl.static_assert(NOTHING is None, MODE)
        pl.store(pl.cast(t, pl.FP16, mode=MODE), [0, 0], out)
    return out


def test_p020_every_kind_of_literal_folds() -> None:
    text = every_literal.source()
    assert not {"FLAG", "NOTHING", "MODE", "FILL"} & set(text.replace("(", " ").split())
    x, _ = ones()
    out = np.zeros((16, 16), np.float16)
    every_literal(x, out)
    assert (out == 2.5).all()


def converter(kind: Any, space: Any, combine: Any) -> Any:
    @pl.jit
    def k(x: pl.Tensor[[16, 16], pl.FP32], out: pl.Out[pl.Tensor[[16, 16], pl.FP16]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            t = pl.load(x, [0, 0], [16, 16], target_memory=space)
            pl.static_assert(combine == pld.ReduceOp.Max)
            pl.store(pl.cast(t, kind), [0, 0], out)
        return out

    return k


def test_p021_p022_dtypes_and_enumerations_fold_to_their_names() -> None:
    k = converter(pl.FP16, pl.Mem.Vec, pld.ReduceOp.Max)
    text = k.source()
    assert "pl.FP16" in text and "pl.MemorySpace.Vec" in text and "pld.ReduceOp.Max" in text
    assert k.compile().program.functions["k"].return_types[0].dtype is pl.FP16


def test_p023_lists_and_tuples_of_these_fold() -> None:
    @pl.jit
    def k(x: pl.Tensor[[16, 16], pl.FP32], out: pl.Out[pl.Tensor[[16, 16], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            pl.store(pl.load(x, CORNERS[0], SHAPE), CORNERS[0], out)
        return out

    assert "[8, 16]" in k.source() and "((0, 0), (8, 16))" in k.source()
    x, out = ones()
    k(x, out)
    assert out.sum() == 8 * 16


@pl.jit
def uses_an_object(x: pl.Tensor[[16, 16], pl.FP32], out: pl.Out[pl.Tensor[[16, 16], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        pl.store(pl.add(pl.load(x, [0, 0], [16, 16]), THING), [0, 0], out)
    return out


def test_p024_a_value_without_source_form_is_reported_by_its_name() -> None:
    with pytest.raises(errors.ParserError, match="THING") as caught:
        uses_an_object.compile()
    assert caught.value.span is not None and caught.value.span.file == __file__


def test_p025_names_come_from_module_and_enclosing_functions_and_closures_win() -> None:
    BLOCK = 4

    @pl.jit
    def k(x: pl.Tensor[[16, 16], pl.FP32], out: pl.Out[pl.Tensor[[16, 16], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            pl.store(pl.mul(pl.load(x, [0, 0], [BLOCK, 16]), FILL), [0, 0], out)
        return out

    x, out = ones()
    k(x, out)
    assert out.sum() == 4 * 16 * 2.5


@pl.jit
def hides_step(x: pl.Tensor[[16, 16], pl.FP32], out: pl.Out[pl.Tensor[[16, 16], pl.FP32]]):
    STEP = 3.0
    with pl.at(level=pl.Level.CORE_GROUP):
        pl.store(pl.add(pl.load(x, [0, 0], [16, 16]), STEP), [0, 0], out)
    return out


def test_p026_p029_only_what_is_read_is_in_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    first = hides_step.compile()
    monkeypatch.setitem(globals(), "UNUSED", 2)
    assert hides_step.compile() is first
    monkeypatch.setitem(globals(), "STEP", 200)
    assert hides_step.compile() is first
    x, out = ones()
    hides_step(x, out)
    assert (out == 4.0).all()


@pl.jit.inline
def leaf(t: pl.Tile[[16, 16], pl.FP32, pl.MemorySpace.Vec]) -> pl.Tile:
    return pl.mul(t, DEEP)


@pl.jit.inline
def middle(t: pl.Tile[[16, 16], pl.FP32, pl.MemorySpace.Vec]) -> pl.Tile:
    return leaf(t)


@pl.jit
def top(x: pl.Tensor[[16, 16], pl.FP32], out: pl.Out[pl.Tensor[[16, 16], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        pl.store(middle(pl.load(x, [0, 0], [16, 16])), [0, 0], out)
    return out


def test_p027_constants_of_helpers_of_helpers_are_in_the_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x, out = ones()
    first = top.compile()
    top(x, out)
    assert (out == 2).all()
    monkeypatch.setitem(globals(), "DEEP", 5.0)
    top(x, out)
    assert (out == 5).all() and top.compile() is not first


@pl.jit
def head(x: pl.Tensor[[128, 128], pl.FP32]) -> pl.Tensor[[BLOCK, 128], pl.FP32]:
    with pl.at(level=pl.Level.CORE_GROUP):
        part = pl.slice(x, [BLOCK, 128], [0, 0])
    return part


def test_p028_p031_p176_a_rebound_constant_makes_another_artifact(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x = np.random.default_rng(1).random((128, 128), F32)
    first = head.compile()
    np.testing.assert_array_equal(head(x), x[:32])
    monkeypatch.setitem(globals(), "BLOCK", 64)
    second = head.compile()
    assert first is not second and "[64, 128]" in second.program.as_python()
    np.testing.assert_array_equal(head(x), x[:64])
    monkeypatch.setitem(globals(), "BLOCK", 32)
    assert head.compile() is first
    np.testing.assert_array_equal(head(x), x[:32])


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [(1, int("1"), True), (1, 1.0, False), (1, True, False), (0.0, -0.0, False)],
)
def test_p030_the_key_compares_typed_texts(
    monkeypatch: pytest.MonkeyPatch, left: Any, right: Any, same: bool
) -> None:
    @pl.jit
    def k(x: pl.Tensor[[16, 16], pl.FP32], out: pl.Out[pl.Tensor[[16, 16], pl.FP32]]):
        pl.static_print(SIZE)
        with pl.at(level=pl.Level.CORE_GROUP):
            pl.store(pl.load(x, [0, 0], [16, 16]), [0, 0], out)
        return out

    monkeypatch.setitem(globals(), "SIZE", left)
    first = k.key().digest
    monkeypatch.setitem(globals(), "SIZE", right)
    assert (k.key().digest == first) is same


def test_p012_p018_key_and_specialization_render_with_the_same_function(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from tilewright.jit import _specialize_values

    plain = _specialize_values.render_value
    monkeypatch.setattr(
        _specialize_values, "render_value", lambda v: "7.0" if v == FILL else plain(v)
    )

    @pl.jit
    def k(x: pl.Tensor[[16, 16], pl.FP32], out: pl.Out[pl.Tensor[[16, 16], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            pl.store(pl.mul(pl.load(x, [0, 0], [16, 16]), FILL), [0, 0], out)
        return out

    patched = k.key().digest
    assert "7.0" in k.source()
    monkeypatch.undo()
    k._graph = None
    assert k.key().digest != patched


def test_p016_p037_one_snapshot_per_request(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    plain = _source.RequestNamespace.__init__
    monkeypatch.setattr(
        _source.RequestNamespace, "__init__", lambda self: (made.append(1), plain(self))[1]
    )
    top._graph = None
    top.compile()
    assert len(made) == 1


def test_p032_a_rebinding_during_compilation_is_for_the_next_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    @pl.jit
    def k(x: pl.Tensor[[64, 16], pl.FP32]) -> pl.Tensor[[BLOCK, 16], pl.FP32]:
        with pl.at(level=pl.Level.CORE_GROUP):
            part = pl.slice(x, [BLOCK, 16], [0, 0])
        return part

    plain = specializer.Specializer.program

    def rebind_first(self: Any, *args: Any) -> Any:
        monkeypatch.setitem(globals(), "BLOCK", 16)
        return plain(self, *args)

    monkeypatch.setattr(specializer.Specializer, "program", rebind_first)
    assert "[32, 16]" in k.compile().program.as_python()
    assert "[16, 16]" in k.compile().program.as_python()


HELPER_TEXT = """
import tilewright.language as pl
BLOCK = {block}
@pl.jit.inline
def part(x):
    return pl.load(x, [0, 0], [BLOCK, 16])
"""


def module_with(tmp_path: Any, name: str, block: int) -> types.ModuleType:
    path = tmp_path / f"{name}.py"
    path.write_text(HELPER_TEXT.format(block=block), encoding="utf-8")
    module = types.ModuleType(name)
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), module.__dict__)
    return module


def test_p033_each_helper_has_its_own_names(tmp_path: Any) -> None:
    one, two = module_with(tmp_path, "one", 4), module_with(tmp_path, "two", 8)

    @pl.jit
    def k(x: pl.Tensor[[16, 16], pl.FP32], out: pl.Out[pl.Tensor[[16, 16], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            pl.store(one.part(x), [0, 0], out)
            pl.store(two.part(x), [8, 0], out)
        return out

    x, out = ones()
    k(x, out)
    assert out[:8].sum() == 4 * 16 and out[8:].sum() == 8 * 16


@pl.jit.inline
def plus_one(t):
    return pl.add(t, 1.0)


@pl.jit.inline
def plus_two(t):
    return pl.add(t, 2.0)


helper = plus_one


@pl.jit
def uses_helper(x: pl.Tensor[[16, 16], pl.FP32], out: pl.Out[pl.Tensor[[16, 16], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        pl.store(helper(pl.load(x, [0, 0], [16, 16])), [0, 0], out)
    return out


def test_p034_a_rebound_helper_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    x, out = ones()
    uses_helper(x, out)
    assert (out == 2).all()
    monkeypatch.setitem(globals(), "helper", plus_two)
    uses_helper(x, out)
    assert (out == 3).all()


def test_p035_concurrent_requests_keep_their_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong: list[Any] = []

    def call() -> None:
        for _ in range(20):
            x, out = ones()
            uses_helper(x, out)
            if out[0, 0] not in (2.0, 3.0) or not (out == out[0, 0]).all():
                wrong.append(out)

    threads = [threading.Thread(target=call) for _ in range(2)]
    for thread in threads:
        thread.start()
    for number in range(50):
        monkeypatch.setitem(globals(), "helper", (plus_one, plus_two)[number % 2])
    for thread in threads:
        thread.join()
    assert not wrong


def make_helper(**options: Any) -> JITFunction:
    @pl.jit.inline(**options)
    def same(t):
        return pl.add(t, 1.0)

    return same


def test_p036_attributes_of_helpers_are_in_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "helper", make_helper())
    first = uses_helper.compile()
    monkeypatch.setitem(globals(), "helper", make_helper(auto_scope=False))
    assert uses_helper.compile() is not first
    monkeypatch.setitem(globals(), "helper", make_helper(auto_scope=True))
    assert uses_helper.compile() is first


def test_p038_an_empty_cell_hides_a_global() -> None:
    def factory() -> JITFunction:
        @pl.jit
        def k(x: pl.Tensor[[16, 16], pl.FP32], out: pl.Out[pl.Tensor[[16, 16], pl.FP32]]):
            with pl.at(level=pl.Level.CORE_GROUP):
                pl.store(pl.load(x, [0, 0], [ROWS, 16]), [0, 0], out)
            return out

        if k is None:
            ROWS = 3
        return k

    with pytest.raises(errors.UndefinedVariableError, match="ROWS"):
        factory().compile()


def test_p039_annotations_are_read_once_while_their_names_stay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reads: list[int] = []
    plain = specializer.Member.signature
    monkeypatch.setattr(
        specializer.Member, "signature", lambda self, c: (reads.append(1), plain(self, c))[1]
    )
    scaled._graph = None
    scaled.compile()
    scaled.compile()
    assert len(reads) == 1


def test_p041_closures_have_no_part_of_their_own_in_the_key() -> None:
    names = [name for name, _ in scaled.key().parts]
    assert names[:2] == ["kernel", "source"] and not any("closure" in name for name in names)
