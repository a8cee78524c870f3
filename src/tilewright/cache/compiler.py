"""Which compiler makes an artifact: this package by its contents, and the LLVM that is installed.

Contents are what counts: times of files are the same in two versions where installers set them.
Hashing them takes longer than loading a kernel, so a root remembers the answer for as long as every
file keeps its size, times and number.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import tilewright
from tilewright.cache.store import Store

_DIGEST = 64


_of_this_process: list[str] = []


def compiler_identity(store: Store) -> str:
    """A digest of everything that turns a kernel into an object; found once in a process."""
    if not _of_this_process:
        _of_this_process.append(identity_of(Path(str(tilewright.__file__)).parent, store))
    return _of_this_process[0]


def identity_of(package: Path, store: Store) -> str:
    """The digest for the package in a directory; `store` remembers it."""
    files = sorted((*_python_files(str(package)), *_llvm_files()))
    state = hashlib.sha256()
    for path, status in files:
        facts = (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)
        state.update(f"{path} {facts}\n".encode())
    name = f"{state.hexdigest()[:32]}.compiler"
    known = store.read_note(name)
    if known is not None and len(known) == _DIGEST:
        return known
    made = _contents(str(package), files)
    store.write_note(name, made)
    return made


def _contents(package: str, files: list[tuple[str, os.stat_result]]) -> str:
    state = hashlib.sha256()
    for path, status in files:
        if path.startswith(package):
            state.update(f"{os.path.relpath(path, package)} {status.st_size}\n".encode())
            state.update(Path(path).read_bytes())
        elif path.endswith(".py"):
            state.update(Path(path).read_bytes())
        else:
            state.update(f"{os.path.basename(path)} {status.st_size}\n".encode())
    return state.hexdigest()


def _python_files(directory: str) -> Iterator[tuple[str, os.stat_result]]:
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.name.endswith(".py"):
                yield entry.path, entry.stat()
            elif entry.name != "__pycache__" and entry.is_dir():
                yield from _python_files(entry.path)


def _llvm_files() -> Iterator[tuple[str, os.stat_result]]:
    """The version of llvmlite, which is not imported, and the library that it brings."""
    spec = find_spec("llvmlite")
    if spec is None or spec.origin is None:
        return
    home = Path(spec.origin).parent
    for path in (home / "_version.py", *sorted((home / "binding").glob("*llvmlite*"))):
        if path.is_file():
            yield str(path), path.stat()
