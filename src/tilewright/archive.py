"""Several objects as one: the archive format that `ar` reads, without an index."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

MAGIC = b"!<arch>\n"
HEADER = 60
END = b"`\n"


def join(objects: Sequence[bytes]) -> bytes:
    """An archive of `objects`; a single one is itself."""
    if len(objects) == 1:
        return objects[0]
    return MAGIC + b"".join(map(_member, range(len(objects)), objects))


def _member(number: int, data: bytes) -> bytes:
    """One object with its header, to an even length."""
    fields = f"{f'{number}.o/':<16}{0:<12}{0:<6}{0:<6}{644:<8}{len(data):<10}"
    return fields.encode() + END + data + b"\n" * (len(data) % 2)


def split(data: bytes) -> list[bytes]:
    """The objects of an archive, or the single one; raises ValueError when it is cut short."""
    return list(_members(data)) if data.startswith(MAGIC) else [data]


def _members(data: bytes) -> Iterator[bytes]:
    at = len(MAGIC)
    while at < len(data):
        header = data[at : at + HEADER]
        if not header.endswith(END):
            raise ValueError("an archive of objects is damaged")
        size = int(header[48:58])
        at += HEADER
        if at + size > len(data):
            raise ValueError("an archive of objects is cut short")
        yield data[at : at + size]
        at += size + size % 2
