"""What is public exists, and says what it is."""

from __future__ import annotations

import ast
import importlib
import inspect
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

SOURCE = Path(__file__).parent.parent / "src"


@cache
def trees() -> dict[str, ast.Module]:
    """Every module that has no underscore in its path, parsed."""
    found: dict[str, ast.Module] = {}
    for path in sorted((SOURCE / "tilewright").rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        names = parts[:-1] if parts[-1] == "__init__" else parts
        if not any(name.startswith("_") for name in names):
            found[".".join(names)] = ast.parse(path.read_text(encoding="utf-8"))
    return found


def declares_all(tree: ast.Module) -> bool:
    targets = [t for node in tree.body if isinstance(node, ast.Assign) for t in node.targets]
    return any(isinstance(t, ast.Name) and t.id in ("__all__", "__surface__") for t in targets)


def surfaces() -> list[str]:
    return [name for name, tree in trees().items() if declares_all(tree)]


def test_every_module_says_what_it_is() -> None:
    silent = [name for name, tree in trees().items() if tree.body and not ast.get_docstring(tree)]
    assert not silent, "modules without docstring: " + ", ".join(silent)


@pytest.mark.parametrize("name", surfaces())
def test_every_public_name_exists_once(name: str) -> None:
    module = importlib.import_module(name)
    missing = [public for public in module.__all__ if not hasattr(module, public)]
    assert not missing
    assert len(set(module.__all__)) == len(module.__all__)


@pytest.mark.parametrize("name", surfaces())
def test_every_public_function_and_class_is_documented(name: str) -> None:
    module = importlib.import_module(name)
    silent = [public for public in module.__all__ if not documented(module, public)]
    assert not silent, f"{name}: no docstring: " + ", ".join(silent)


def documented(module: ModuleType, public: str) -> bool:
    value = getattr(module, public)
    if inspect.isclass(value):
        return bool(value.__dict__.get("__doc__"))
    return bool(value.__doc__) if inspect.isroutine(value) else True
