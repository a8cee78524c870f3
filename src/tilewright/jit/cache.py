"""Keys: what selects an artifact, as an ordered list of named parts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any

from tilewright.dataclass import dataclass
from tilewright.hashes import blake
from tilewright.ir.types import Type
from tilewright.jit._arguments import Parameter
from tilewright.jit._graph import Graph
from tilewright.jit._specialize_values import render_value
from tilewright.jit._tensor_meta import meta_of
from tilewright.jit.options import CompileOptions


@dataclass(frozen=True)
class Key:
    """The parts of a key, in order; two requests with equal parts share an artifact.

    `details` are what the digest of a part was made of; they say what differs, and select nothing.
    """

    parts: tuple[tuple[str, str], ...]
    details: tuple[tuple[str, str], ...] = field(default=(), compare=False)

    @property
    def digest(self) -> str:
        """One hash of all parts, each with its name and length."""
        state = blake()
        for name, text in self.parts:
            state.update(f"{len(name)}:{name}{len(text)}:{text}".encode())
        return state.hexdigest()

    def differences(self, other: Key) -> list[tuple[str, str, str]]:
        """Name, this text and the other's, for each part that differs; details where known."""
        differing = _differences(self.parts, other.parts)
        detailed = _differences(self.details, other.details)
        if not detailed or not any(name == SOURCE for name, _, _ in differing):
            return differing
        return [*detailed, *(part for part in differing if part[0] != SOURCE)]

    def extended(self, parts: Iterable[tuple[str, str]]) -> Key:
        """The key with more parts."""
        return Key((*self.parts, *parts), self.details)


SOURCE = "source"
"""The part that covers every function and every name they inherit; `details` take it apart."""


def _differences(
    before: Iterable[tuple[str, str]], after: Iterable[tuple[str, str]]
) -> list[tuple[str, str, str]]:
    mine, theirs = dict(before), dict(after)
    return [
        (name, mine.get(name, ""), theirs.get(name, ""))
        for name in dict.fromkeys((*mine, *theirs))
        if mine.get(name) != theirs.get(name)
    ]


def make_key(
    name: str,
    graph: Graph,
    parameters: Sequence[Parameter],
    types: Mapping[str, Type],
    constants: Mapping[str, Any],
    options: CompileOptions,
) -> Key:
    """The key of a request.

    Typed parameters are covered by the graph; a bare one contributes what its argument gave it.
    """
    parts = [("kernel", name), (SOURCE, graph.digest)]
    parts += [(f"constant {n}", render_value(value) or "?") for n, value in constants.items()]
    parts += [
        (f"argument {p.name}", _type_text(types[p.name]))
        for p in parameters
        if p.kind == "bare" and p.name in types
    ]
    return Key((*parts, *options.key_parts), graph.facts)


def _type_text(type_: Type) -> str:
    meta = meta_of(type_)
    return str(type_) if meta is None else meta.key
