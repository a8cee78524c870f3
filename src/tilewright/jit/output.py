"""What a compilation leaves on disk, when asked: programs, objects, dumps, reports."""

from __future__ import annotations

import itertools
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tilewright.abi import Manifest, Signature
from tilewright.errors import ToolchainError

_FORMAT = 1
_numbers = itertools.count()


def directory_for(name: str, chosen: str | None) -> Path:
    """The chosen directory, or one that no other compilation has."""
    return allocate_directory(name) if chosen is None else Path(chosen)


def allocate_directory(name: str) -> Path:
    """A directory below `build_output` that no other compilation has; it is made now."""
    stamp = time.strftime("%Y%m%d_%H%M%S")
    while True:
        path = Path("build_output") / f"{name}_{stamp}_{os.getpid()}_{next(_numbers)}"
        try:
            path.mkdir(parents=True)
        except FileExistsError:
            continue
        return path.absolute()


def write_kernel(
    directory: Path,
    name: str,
    data: bytes | None,
    program: bytes | None,
    facts: Mapping[str, Any],
) -> None:
    """Writes what `read_kernel` needs to make the callable again."""
    stem = directory / name
    if data is not None:
        stem.with_suffix(".o").write_bytes(data)
    if program is not None:
        stem.with_suffix(".tir").write_bytes(program)
    text = json.dumps({"format": _FORMAT, "name": name, **facts}, indent=1)
    stem.with_suffix(".json").write_text(text, encoding="utf-8")


def kernel_names(directory: Path) -> list[str]:
    """The kernels written in a directory; raises ToolchainError when there are none."""
    names = [path.stem for path in sorted(directory.glob("*.json"))]
    if not names:
        raise ToolchainError(f"{directory} holds no compiled kernel")
    return names


def read_kernel(directory: Path, name: str) -> tuple[bytes | None, bytes | None, dict[str, Any]]:
    """Object bytes, serialized program and facts of one kernel; raises ToolchainError."""
    stem = directory / name
    try:
        facts = json.loads(stem.with_suffix(".json").read_text(encoding="utf-8"))
        data = _read_optional(stem.with_suffix(".o"))
        program = _read_optional(stem.with_suffix(".tir"))
    except (OSError, ValueError) as error:
        raise ToolchainError(f"{directory} holds no readable kernel {name!r}: {error}") from None
    if facts.get("format") != _FORMAT:
        raise ToolchainError(f"{directory}: kernel {name!r} was written by another version")
    return data, program, facts


def _read_optional(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None


def facts_of(signature: Signature, manifest: Manifest, **more: Any) -> dict[str, Any]:
    """The facts of a kernel as plain data."""
    return {"signature": signature.to_json(), "manifest": manifest.to_json(), **more}
