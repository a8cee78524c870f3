"""What is kept under a key, and how it stands in its file: with a checksum, and no code."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import field
from enum import Enum
from typing import Any, cast

import msgpack

from tilewright.dataclass import dataclass
from tilewright.hashes import blake

MAGIC = b"tilewright-cache-4\n"
_DIGEST = 32


class State(Enum):
    """How far an entry has come: its text is known, or its machine code."""

    GENERATED = "generated"
    READY = "ready"


@dataclass(frozen=True)
class Entry:
    """What is kept under one key: payloads by name, and the key's parts and their details, for
    explanations."""

    digest: str
    state: State
    parts: tuple[tuple[str, str], ...]
    payloads: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    created: float = 0.0
    details: tuple[tuple[str, str], ...] = ()

    @property
    def kernel(self) -> str:
        """The kernel's name."""
        return dict(self.parts).get("kernel", "?")


class InvalidEntry(Exception):
    """A file is no entry, or a damaged one; the message says which."""


def encode(entry: Entry) -> bytes:
    """An entry as the bytes of its file."""
    body = cast(
        bytes,
        msgpack.packb(
            {
                "digest": entry.digest,
                "state": entry.state.value,
                "parts": [list(part) for part in entry.parts],
                "payloads": dict(entry.payloads),
                "created": entry.created or time.time(),
                "details": [list(detail) for detail in entry.details],
            }
        ),
    )
    return MAGIC + blake(body).digest() + body


def decode(data: bytes) -> Entry:
    """The entry in a file's bytes; raises InvalidEntry."""
    start = len(MAGIC) + _DIGEST
    body = data[start:]
    if not data.startswith(MAGIC):
        raise InvalidEntry("it is no entry of this version")
    if blake(body).digest() != data[len(MAGIC) : start]:
        raise InvalidEntry("its checksum is wrong")
    try:
        fields = cast("dict[str, Any]", msgpack.unpackb(body))
        return Entry(
            fields["digest"],
            State(fields["state"]),
            tuple((name, text) for name, text in fields["parts"]),
            fields["payloads"],
            fields["created"],
            tuple((name, text) for name, text in fields["details"]),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidEntry(f"it cannot be read: {error}") from error


def file_name(digest: str, state: State) -> str:
    """How the file of an entry is called."""
    return f"{digest}.{state.value}"
