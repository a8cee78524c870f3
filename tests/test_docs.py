"""What the documentation shows runs and prints what it says; the reference is what pages say."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

import pytest

from tilewright.external.compiler import find_compiler

ROOT = Path(__file__).parent.parent
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs" / "guide").glob("*.md")),
]
LINK = re.compile(r"\]\(([\w./-]+)(?:#[^)]*)?\)")
CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.MULTILINE | re.DOTALL)
MARK = "\x1e"


@dataclass
class Snippet:
    """A fenced block of Python, and the text block after it: what it prints."""

    first: int
    lines: list[str]
    printed: str | None = None


@dataclass
class Page:
    """The snippets of a page, and a program of them all, each line where it is in the page."""

    path: Path
    snippets: list[Snippet] = field(default_factory=list[Snippet])

    def program(self) -> str:
        count = len(self.path.read_text("utf-8").splitlines())
        lines = [""] * count
        for snippet in self.snippets:
            end = snippet.first + len(snippet.lines)
            lines[snippet.first : end] = snippet.lines
            lines[end] = f"print({MARK!r}, end='', flush=True)"
        return "\n".join(lines) + "\n"


def read_page(path: Path) -> Page:
    page = Page(path)
    kind, start, block = "", 0, list[str]()
    before = ""
    for number, line in enumerate(path.read_text("utf-8").splitlines()):
        fence = line.startswith("```")
        if fence and not kind:
            kind, start, block = line.removeprefix("```") or "plain", number + 1, []
        elif fence:
            if kind == "python":
                page.snippets.append(Snippet(start, block))
            elif kind == "text" and before == "python":
                page.snippets[-1].printed = "\n".join(block)
            before, kind = kind, ""
        elif kind:
            block.append(line)
    return page


def run(page: Page, directory: Path) -> list[str]:
    """What each snippet of a page prints."""
    script = directory / f"{page.path.stem}.py"
    script.write_text(page.program(), "utf-8")
    environment = {**os.environ, "TILEWRIGHT_CACHE_DIR": str(directory / "cache")}
    done = subprocess.run(
        [sys.executable, script.name], capture_output=True, text=True, cwd=directory,
        env=environment,
    )  # fmt: skip
    assert done.returncode == 0, f"{page.path.name} fails:\n{done.stdout}\n{done.stderr}"
    return done.stdout.replace(f"{directory}{os.sep}", "").split(MARK)[:-1]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_every_snippet_runs_and_prints_what_the_page_says(path: Path, tmp_path: Path) -> None:
    page = read_page(path)
    if not page.snippets:
        pytest.skip("no snippets")
    if path.stem == "cpp-kernels" and find_compiler() is None:
        pytest.skip("there is no C++ compiler")
    for snippet, printed in zip(page.snippets, run(page, tmp_path), strict=True):
        if snippet.printed is not None:
            assert printed.strip() == snippet.printed.strip(), f"{path.name}:{snippet.first}"


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


GENERATED = ("ops.md", "nki.md", "errors.md", "nki-errors.md")


@pytest.mark.parametrize("name", GENERATED)
def test_the_reference_is_what_the_pages_say(name: str) -> None:
    made = generator().PAGES[name]()
    kept = (ROOT / "docs" / "reference" / name).read_text("utf-8")
    assert made == kept, f"run `python docs/generate.py`: docs/reference/{name} is out of date"


def documents() -> list[Path]:
    return [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]


@pytest.mark.parametrize("path", documents(), ids=lambda path: path.name)
def test_links_lead_somewhere(path: Path) -> None:
    targets = LINK.findall(CODE.sub("", path.read_text("utf-8")))
    missing = [target for target in targets if not (path.parent / target).exists()]
    assert not missing, f"{path.name} links to {missing}"


SOURCE = ROOT / "src" / "tilewright"
MAP = ROOT / "ARCHITECTURE.md"
PATH = re.compile(r"`((?:tests/)?[a-z_]+/[a-z_*]+(?:\.py)?)`")


def test_the_map_names_every_room() -> None:
    text = MAP.read_text("utf-8")
    rooms = [path for path in SOURCE.iterdir() if path.suffix == ".py" or path.is_dir()]
    names = {path.stem for path in rooms if not path.name.startswith("__")}
    assert {name for name in names if f"`{name}`" not in text} == set()


@pytest.mark.parametrize("path", [MAP, ROOT / "CONTRIBUTING.md"], ids=lambda path: path.name)
def test_the_files_it_names_exist(path: Path) -> None:
    missing = [name for name in PATH.findall(path.read_text("utf-8")) if not _exists(name)]
    assert not missing, f"{path.name} names {missing}"


def _exists(name: str) -> bool:
    home = ROOT if name.startswith(("tests/", "benchmarks/")) else SOURCE
    return any(any(home.glob(pattern)) for pattern in (name, f"{name}.py", f"{name}*.py"))
