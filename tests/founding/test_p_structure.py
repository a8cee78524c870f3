"""Rows P-004 to P-018: who owns what in the room of the driver."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import tilewright.language as pl
from tilewright.frontend import capture
from tilewright.jit import _ast_analysis, specializer
from tilewright.jit.decorator import JITFunction, jit

ROOM = Path(specializer.__file__).parent
MODULES = (
    "decorator",
    "_arguments",
    "_ast_analysis",
    "_call_binding",
    "_tensor_meta",
    "specializer",
    "_specialize_body",
    "_specialize_values",
    "_specialize_types",
    "_source",
    "cache",
    "_persistent",
)


@pl.jit
def one(x: pl.Tensor[[8, 8], pl.FP32], out: pl.Out[pl.Tensor[[8, 8], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.add(x, 1.0)
    return out


@pl.jit
def two(x: pl.Tensor[[8, 8], pl.FP32], out: pl.Out[pl.Tensor[[8, 8], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.add(x, one)
    return out


def test_p004_the_public_names_are_in_decorator() -> None:
    assert pl.jit is jit and isinstance(one, JITFunction)


@pytest.mark.parametrize("name", MODULES)
def test_p006_p014_every_module_imports_alone_and_without_torch(name: str) -> None:
    program = (
        "import sys; sys.modules['torch'] = None\n"
        f"import tilewright.jit.{name}\n"
        "print('tilewright.jit.decorator' in sys.modules, 'llvmlite' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False,
        env={"PYTHONPATH": ":".join(sys.path)},
    )  # fmt: skip
    assert done.stdout.split() == [str(name == "decorator"), "False"], done.stderr


def test_p005_p015_only_decorator_keeps_compiled_objects_and_locks() -> None:
    for path in ROOM.glob("*.py"):
        tree = ast.parse(path.read_text("utf-8"))
        names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        assert ("make_lock" in names) is (path.stem == "decorator"), path.name
        assert "_compiled" not in names or path.stem == "decorator", path.name


def test_p007_a_file_is_parsed_once_and_its_tree_is_not_changed() -> None:
    first, second = one.definition.info, two.definition.info
    assert first.captured.source is second.captured.source
    before = ast.dump(first.node)
    one.compile()
    one.source()
    assert ast.dump(first.node) == before
    assert capture.parse_file(__file__) is capture.parse_file(__file__)


def test_p010_errors_are_at_the_authors_line() -> None:
    with pytest.raises(Exception, match="one") as caught:
        two.compile()
    span = caught.value.span
    assert span.file == __file__
    assert "pl.add(x, one)" in Path(__file__).read_text("utf-8").splitlines()[span.line - 1]


def test_p013_the_types_of_specialization_are_importable_from_specializer() -> None:
    from tilewright.jit import _specialize_types as home

    for name in ("DynDim", "ShapeDim", "TensorMeta"):
        assert getattr(specializer, name) is getattr(home, name)


def test_p018_patching_the_owner_affects_every_user(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    plain = _ast_analysis.analyse
    monkeypatch.setattr(_ast_analysis, "analyse", lambda f: (asked.append(f.__name__), plain(f))[1])

    @pl.jit
    def fresh(x: pl.Tensor[[8, 8], pl.FP32], out: pl.Out[pl.Tensor[[8, 8], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = pl.add(x, 1.0)
        return out

    fresh.compile()
    assert asked == ["fresh"]
