"""What a C++ file is made of, itself and the headers beside it, by content.

Headers count that `#include` names and that lie beside the file that names them or in one of the
`include_dirs`; those of the system belong to the compiler, and tilewright.h is ours. Folders in
which a header was looked for in vain are watched, too.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from functools import cache
from os import stat

from tilewright.hashes import blake

_INCLUDE = rb'^[ \t]*#[ \t]*include[ \t]*(["<])([^">\n]+)[">]'
OWN_HEADER = "tilewright.h"
_SETTLED_NS = 100_000_000
"""A file is known to be unchanged by its time only when it was this old as it was read."""

Stamp = tuple[int, int, int] | None


class Sources:
    """The files behind one kernel; `digest` follows their contents."""

    def __init__(self, source: str, include_dirs: tuple[str, ...] = ()) -> None:
        self.source = source
        self.include_dirs = include_dirs
        self._stamps: list[tuple[str, Stamp]] = []
        self._digest = ""
        self._is_settled = False

    @property
    def digest(self) -> str:
        """The contents as they are now, in hexadecimal; raises ValueError without the file."""
        if not self._is_settled or not self._is_same():
            self._read()
        return self._digest

    def _is_same(self) -> bool:
        return all(stamp(path) == before for path, before in self._stamps)

    def _read(self) -> None:
        start = time.time_ns()
        state = blake()
        stamps: dict[str, Stamp] = {}
        for name, data in self._files(stamps):
            state.update(f"{name} {len(data)}\n".encode() + data)
        newest = max((s[0] for s in stamps.values() if s), default=0)
        self._stamps, self._digest = list(stamps.items()), state.hexdigest()
        self._is_settled = newest < start - _SETTLED_NS

    def _files(self, stamps: dict[str, Stamp]) -> Iterator[tuple[str, bytes]]:
        """Each file once, by the name in its include, with its bytes; fills `stamps`."""
        pending = [("", self.source)]
        stamps[self.source] = stamp(self.source)
        while pending:
            name, path = pending.pop()
            data = _contents(path)
            yield name, data
            for quote, included in re.findall(_INCLUDE, data, re.MULTILINE):
                text = os.fsdecode(included)
                if text == OWN_HEADER:
                    continue
                beside = [os.path.dirname(path)] if quote == b'"' else []
                found = self._find(text, [*beside, *self.include_dirs], stamps)
                if found is not None:
                    pending.append((text, found))

    def _find(self, name: str, places: list[str], stamps: dict[str, Stamp]) -> str | None:
        """The file that an include names, unless it is known already or of the system."""
        for place in places:
            path = os.path.normpath(os.path.join(place, name))
            if path in stamps:
                return None
            found = stamp(path)
            if found is not None:
                stamps[path] = found
                return path
            folder = os.path.dirname(path)
            stamps.setdefault(folder, stamp(folder))
        return None


def stamp(path: str) -> Stamp:
    """What tells one version of a file from another without reading it; None for no file."""
    try:
        status = stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def _contents(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise ValueError(f"the source {path} of an external kernel cannot be read") from error


@cache
def watched(source: str, include_dirs: tuple[str, ...]) -> Sources:
    """The files of a kernel, remembered from one request to the next."""
    return Sources(source, include_dirs)
