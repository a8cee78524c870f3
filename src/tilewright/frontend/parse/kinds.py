"""Words that make a tile or a tensor: what they make is what their surroundings compute with."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tilewright.frontend.parse.parser import FunctionParser
from tilewright.ir.core import Value
from tilewright.ir.types import TensorType, TileType

ON_TENSORS = {
    "pl.full": "pl.tensor.full",
    "pl.ci": "pl.tensor.ci",
    "pl.arange": "pl.tensor.arange",
    "pl.random": "pl.tensor.random",
}
"""The words, as they are meant among tensors; among tiles they mean themselves."""

_OF_TILES = frozenset(
    {"load", "store", "create_tile", "create_l1", "move", "extract", "tile", "remote_load"}
    | {"tpop_from_aic", "tpop_from_aiv"}
)


def meant(p: FunctionParser, path: str, node: ast.Call) -> str:
    """The operation that a word means at its place."""
    other = ON_TENSORS.get(path)
    return other if other is not None and _is_among_tensors(p, node) else path


def _is_among_tensors(p: FunctionParser, node: ast.Call) -> bool:
    """True where a tensor can be seen and neither a tile nor anything that may give one."""
    types = [bound.type for bound in p.scope.values() if isinstance(bound, Value)]
    if any(isinstance(type_, TileType) for type_ in types):
        return False
    language = next(_path(node.func), None)
    calls = (n.func for child in p.around for n in ast.walk(child) if isinstance(n, ast.Call))
    return any(isinstance(type_, TensorType) for type_ in types) and all(
        (names := list(_path(function)))[:1] == [language] and _OF_TILES.isdisjoint(names)
        for function in calls
    )


def _path(function: ast.expr) -> Iterator[str]:
    """`pl`, `tile`, `load` of `pl.tile.load`; nothing for what is no such path."""
    if isinstance(function, ast.Attribute):
        yield from _path(function.value)
        yield function.attr
    elif isinstance(function, ast.Name):
        yield function.id
