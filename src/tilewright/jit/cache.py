"""Keys: what selects an artifact, as an ordered list of named parts."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.ir.types import Type
from tilewright.jit._arguments import Parameter
from tilewright.jit._specialize_values import render_value
from tilewright.jit._tensor_meta import meta_of
from tilewright.jit.options import CompileOptions


@dataclass(frozen=True)
class Key:
    """The parts of a key, in order; two requests with equal parts share an artifact."""

    parts: tuple[tuple[str, str], ...]

    @property
    def digest(self) -> str:
        """One hash of all parts, each with its name and length."""
        state = hashlib.sha256()
        for name, text in self.parts:
            state.update(f"{len(name)}:{name}{len(text)}:{text}".encode())
        return state.hexdigest()

    def differences(self, other: Key) -> list[tuple[str, str, str]]:
        """Name, this text and the other's, for each part that differs."""
        mine, theirs = dict(self.parts), dict(other.parts)
        names = dict.fromkeys((*mine, *theirs))
        return [
            (name, mine.get(name, ""), theirs.get(name, ""))
            for name in names
            if mine.get(name) != theirs.get(name)
        ]

    def extended(self, parts: Iterable[tuple[str, str]]) -> Key:
        """The key with more parts."""
        return Key((*self.parts, *parts))


def make_key(
    name: str,
    source: str,
    parameters: Sequence[Parameter],
    types: Mapping[str, Type],
    constants: Mapping[str, Any],
    options: CompileOptions,
) -> Key:
    """The key of a request. `source` is the digest of every function and folded name.

    Typed parameters are covered by `source`; a bare one contributes what its argument gave it.
    """
    parts = [("kernel", name), ("source", source)]
    parts += [(f"constant {n}", render_value(value) or "?") for n, value in constants.items()]
    parts += [
        (f"argument {p.name}", _type_text(types[p.name]))
        for p in parameters
        if p.kind == "bare" and p.name in types
    ]
    return Key((*parts, *options.key_parts))


def _type_text(type_: Type) -> str:
    meta = meta_of(type_)
    return str(type_) if meta is None else meta.key
