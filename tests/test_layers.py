"""Imports go down: the layers of ARCHITECTURE.md, read from the source with `ast`."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

import tilewright.ir
import tilewright.jit

SOURCE = Path(__file__).parent.parent / "src"

LAYERS = [
    {"garbage"},
    {"dataclass", "kinds", "late"},
    {"archive", "choices", "dtypes", "errors", "hashes", "locks", "settings", "source", "target"},
    {"ir", "cache", "abi", "boundary"},
    {"ops", "external", "devices"},
    {"frontend", "passes", "interp", "codegen"},
    {"runtime", "dist"},
    {"jit"},
    {"language", "nki", "testing"},
    {"cli", "compat"},  # compat gives the surfaces other names
]
LEVEL = {room: level for level, rooms in enumerate(LAYERS, -2) for room in rooms}

# Room -> rooms below it that it still may not see. A warm launch walks jit -> runtime only.
FORBIDDEN = {"runtime": {"ir"}, "cache": {"ir"}}

OPTIONAL = {"torch", "mpi4py", "llvmlite", "ml_dtypes"}

# Where LLVM may be imported, inside a function.
LLVM_HOMES = ("tilewright/codegen/", "tilewright/runtime/load.py", "tilewright/runtime/stub.py")

# The named exceptions: they resolve module names by importlib, when called. `_import` is that of
# `late`, the one way to import late; `warm_module` imports the user's.
DYNAMIC_IMPORTS = ("TraceContext._exclude_modules", "_import", "warm_module")


@dataclass(frozen=True)
class Import:
    """One import statement: where it is, what it names, and what surrounds it."""

    path: Path
    line: int
    target: str
    function: str  # qualified name of the enclosing function, "" at module level
    for_checking: bool  # under `if TYPE_CHECKING`

    @property
    def where(self) -> str:
        return f"{self.path.relative_to(SOURCE)}:{self.line}"

    @property
    def module(self) -> str:
        return module_of(self.path)


def module_of(path: Path) -> str:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def room_of(module: str) -> str:
    """ "tilewright.ir.core" -> "ir"; the package itself and other packages -> ""."""
    parts = module.split(".")
    return parts[1] if parts[0] == "tilewright" and len(parts) > 1 else ""


def source_files() -> list[Path]:
    return sorted((SOURCE / "tilewright").rglob("*.py"))


def imports_of(path: Path) -> Iterator[Import]:
    yield from _imports(path, ast.parse(path.read_text(encoding="utf-8")), "", "", False)


def _imports(
    path: Path, node: ast.AST, scope: str, function: str, checking: bool
) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        for target in _targets(path, child):
            yield Import(path, getattr(child, "lineno", 0), target, function, checking)
        inner, within = scope, function
        if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            inner = f"{scope}.{child.name}".lstrip(".")
            within = function if isinstance(child, ast.ClassDef) else inner
        yield from _imports(path, child, inner, within, checking or _is_type_checking(child))


def _is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")


def _targets(path: Path, node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        base = _absolute(path, node)
        return [f"{base}.{alias.name}" for alias in node.names]
    return ["<dynamic>"] if isinstance(node, ast.Call) and _imports_by_name(node.func) else []


def _imports_by_name(function: ast.expr) -> bool:
    return ast.unparse(function).endswith(("import_module", "__import__"))


def _absolute(path: Path, node: ast.ImportFrom) -> str:
    if not node.level:
        return node.module or ""
    package = module_of(path).split(".")
    drop = node.level - (path.name == "__init__.py")
    base = package[: len(package) - drop] if drop else package
    return ".".join([*base, *filter(None, [node.module])])


@cache
def all_imports() -> list[Import]:
    return [found for path in source_files() for found in imports_of(path)]


def _package(target: str) -> str:
    return target.split(".")[0]


def test_every_room_has_a_layer() -> None:
    rooms = {room_of(module_of(path)) for path in source_files()} - {""}
    private = {room for room in rooms if room.startswith("_")}
    assert not rooms - private - set(LEVEL), "a new room needs a layer in ARCHITECTURE.md and here"


def test_imports_go_strictly_down() -> None:
    wrong = [
        f"{found.where}: {room_of(found.module)} imports {found.target}"
        for found in all_imports()
        if _goes_up(room_of(found.module), room_of(found.target))
    ]
    assert not wrong, "\n".join(wrong)


def _goes_up(source: str, target: str) -> bool:
    if source not in LEVEL or target not in LEVEL or source == target:
        return False
    return LEVEL[source] <= LEVEL[target]


@pytest.mark.parametrize(
    ("source", "target", "goes_up"),
    [
        ("ops", "ir", False),
        ("ir", "ir", False),
        ("ir", "", False),
        ("ir", "ops", True),
        ("frontend", "passes", True),
        ("codegen", "interp", True),
        ("errors", "dtypes", True),
    ],
)
def test_the_rule_of_layers(source: str, target: str, goes_up: bool) -> None:
    assert _goes_up(source, target) is goes_up


def test_imports_are_found_wherever_they_hide() -> None:
    path = SOURCE / "tilewright" / "ir" / "x.py"
    tree = ast.parse(
        "from . import core\n"
        "from ..ops import arith\n"
        "if TYPE_CHECKING:\n    import torch\n"
        "class A:\n    def f(self):\n        import numpy as np; importlib.import_module('x')\n"
    )
    found = [(i.target, i.function, i.for_checking) for i in _imports(path, tree, "", "", False)]
    assert found == [
        ("tilewright.ir.core", "", False),
        ("tilewright.ops.arith", "", False),
        ("torch", "", True),
        ("numpy", "A.f", False),
        ("<dynamic>", "A.f", False),
    ]


def test_the_root_package_imports_no_room_above_the_surfaces() -> None:
    wrong = [
        f"{found.where}: {found.target}"
        for found in all_imports()
        if found.module == "tilewright" and room_of(found.target) == "cli"
    ]
    assert not wrong, "\n".join(wrong)


def test_a_warm_launch_sees_no_ir() -> None:
    wrong = [
        f"{found.where}: {found.target}"
        for found in all_imports()
        if room_of(found.target) in FORBIDDEN.get(room_of(found.module), ())
    ]
    assert not wrong, "\n".join(wrong)


def test_packages_do_not_import_each_other() -> None:
    pairs = {(room_of(i.module), room_of(i.target)): i.where for i in all_imports()}
    mutual = [
        f"{where}: {a} and {b}"
        for (a, b), where in pairs.items()
        if a and b and a < b and (b, a) in pairs
    ]
    assert not mutual, "\n".join(mutual)


def test_modules_do_not_import_in_circles() -> None:
    graph = _module_graph()
    done: set[str] = set()
    for start in graph:
        circle = _find_circle(graph, start, [], done)
        assert not circle, " -> ".join(circle or [])


def _module_graph() -> dict[str, set[str]]:
    modules = {module_of(path) for path in source_files()}
    graph: dict[str, set[str]] = {module: set() for module in modules}
    for found in all_imports():
        target = found.target if found.target in modules else found.target.rpartition(".")[0]
        if target in modules and target != found.module and not found.for_checking:
            graph[found.module].add(target)
    return graph


def _find_circle(
    graph: dict[str, set[str]], module: str, path: list[str], done: set[str]
) -> list[str] | None:
    if module in path:
        return [*path[path.index(module) :], module]
    if module in done:
        return None
    for target in sorted(graph[module]):
        circle = _find_circle(graph, target, [*path, module], done)
        if circle:
            return circle
    done.add(module)
    return None


def test_no_import_is_late_but_of_optional_packages() -> None:
    wrong = [
        f"{found.where}: {found.target} in {found.function}"
        for found in all_imports()
        if found.function
        and not found.for_checking
        and found.target != "<dynamic>"
        and _package(found.target) not in OPTIONAL
    ]
    assert not wrong, "\n".join(wrong)


def test_modules_named_at_run_time_have_one_home() -> None:
    wrong = [
        f"{found.where}: in {found.function or 'the module'}"
        for found in all_imports()
        if found.target == "<dynamic>"
        and found.function not in DYNAMIC_IMPORTS
        and room_of(found.module) != "cli"
    ]
    assert not wrong, "\n".join(wrong)


def test_llvm_has_two_homes_and_is_imported_late() -> None:
    wrong = [
        f"{found.where}: {found.target}"
        for found in all_imports()
        if _package(found.target) == "llvmlite"
        and not found.for_checking
        and not (found.function and found.where.startswith(LLVM_HOMES))
    ]
    assert not wrong, "\n".join(wrong)


def test_torch_and_mpi_are_imported_late() -> None:
    wrong = [
        f"{found.where}: {found.target}"
        for found in all_imports()
        if _package(found.target) in {"torch", "mpi4py", "jax"}
        and not found.for_checking
        and not found.function
    ]
    assert not wrong, "\n".join(wrong)


LATE_PACKAGES = sorted(
    module_of(path)
    for path in source_files()
    if path.name == "__init__.py" and "late(__name__" in path.read_text(encoding="utf-8")
)


@pytest.mark.parametrize("package", LATE_PACKAGES)
def test_no_name_of_a_package_that_imports_late_is_a_module_of_it(package: str) -> None:
    opened = importlib.import_module(package)
    modules = {each.name for each in pkgutil.iter_modules(opened.__path__)}
    shared = modules & {*getattr(opened, "__all__", ())}
    shared = {name for name in shared if not isinstance(getattr(opened, name), ModuleType)}
    assert not shared, f"{package}.{shared} would be the module or the name, by who comes first"


def test_what_is_no_name_and_no_module_is_no_attribute() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = tilewright.jit.nothing
    assert not hasattr(tilewright.ir, "nothing") and not hasattr(tilewright, "__nothing__")


def test_a_module_that_lacks_what_it_imports_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tilewright.jit.cache", None)
    monkeypatch.delitem(sys.modules, "tilewright.jit.explaining", raising=False)
    monkeypatch.delitem(vars(tilewright.jit), "explaining", raising=False)
    with pytest.raises(ModuleNotFoundError, match=r"tilewright\.jit\.cache"):
        _ = tilewright.jit.explaining


def test_dataclasses_are_ours() -> None:
    wrong = [
        found.where
        for found in all_imports()
        if found.target == "dataclasses.dataclass" and found.module != "tilewright.dataclass"
    ]
    assert not wrong, "import tilewright.dataclass instead: " + ", ".join(wrong)
