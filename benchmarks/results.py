"""What is kept of a run: a JSON file per release, a plot, and the compact table of the README."""

from __future__ import annotations

import json
import platform
from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path

from benchmarks.harness import Row
from tilewright.codegen.machine import host_target

VERSION = version("tilewright")
DIRECTORY = Path(__file__).parent / "results"


def path_of(version: str = VERSION) -> Path:
    """The file of a release."""
    return DIRECTORY / f"{version}.json"


def save(rows: Sequence[Row]) -> Path:
    """Writes the file of this release."""
    target = host_target()
    kept = {
        "version": VERSION,
        "machine": {"cpu": target.cpu, "isa": target.isa, "system": platform.system()},
        "python": platform.python_version(),
        "rows": [asdict(row) for row in rows],
    }
    DIRECTORY.mkdir(exist_ok=True)
    path = path_of()
    path.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


def load(path: Path) -> list[Row]:
    """The rows of a file."""
    return [Row(**row) for row in json.loads(path.read_text("utf-8"))["rows"]]
