"""Which compiler makes an artifact: this package by its contents, and the LLVM that is installed.

Contents are what counts: times of files are the same in two versions where installers set them.
Hashing them takes longer than loading a kernel, so a root remembers the answer for as long as every
file keeps its size, times and number.
"""

from __future__ import annotations

import os
from importlib.util import find_spec

import tilewright
import tilewright.cache as room
from tilewright.cache.reader import Reader, read_whole
from tilewright.hashes import blake

_DIGEST = 64
_Facts = tuple[str, int, int, int, int]
"""Path, size, times and number of a file."""

_of_this_process: list[str] = []


def compiler_identity(reader: Reader) -> str:
    """A digest of everything that turns a kernel into an object; found once in a process."""
    if not _of_this_process:
        package = os.path.dirname(str(tilewright.__file__))
        _of_this_process.append(identity_of(package, reader))
    return _of_this_process[0]


def identity_of(package: str | os.PathLike[str], reader: Reader) -> str:
    """The digest for the package in a directory; the root of `reader` remembers it."""
    package, files = os.fspath(package), _llvm_files()
    _add_python_files(package, files)
    files.sort()
    name = f"{blake(repr(files).encode()).hexdigest()[:32]}.compiler"
    known = reader.read_note(name)
    if known is not None and len(known) == _DIGEST:
        return known
    made = _contents(package, files)
    room.Store(reader.directory, readonly=reader.readonly).write_note(name, made)
    return made


def _contents(package: str, files: list[_Facts]) -> str:
    state = blake()
    for path, size, *_ in files:
        if path.startswith(package):
            state.update(f"{os.path.relpath(path, package)} {size}\n".encode())
            state.update(read_whole(path))
        elif path.endswith(".py"):
            state.update(read_whole(path))
        else:
            state.update(f"{os.path.basename(path)} {size}\n".encode())
    return state.hexdigest()


def _add_python_files(directory: str, files: list[_Facts]) -> None:
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.name.endswith(".py"):
                files.append(_facts(entry.path, entry.stat()))
            elif entry.name != "__pycache__" and entry.is_dir():
                _add_python_files(entry.path, files)


def _facts(path: str, status: os.stat_result) -> _Facts:
    return path, status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino


def _llvm_files() -> list[_Facts]:
    """The version of llvmlite, which is not imported, and the library that it brings."""
    spec = find_spec("llvmlite")
    if spec is None or spec.origin is None:
        return []
    home = os.path.dirname(spec.origin)
    libraries = os.path.join(home, "binding")
    paths = [os.path.join(home, "_version.py")]
    paths += [os.path.join(libraries, name) for name in os.listdir(libraries) if "llvmlite" in name]
    return [_facts(path, os.stat(path)) for path in paths if os.path.isfile(path)]
