"""Signatures: parameters with their types and directions, return types."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from typing import Any

from tilewright.dataclass import dataclass
from tilewright.errors import ParserTypeError
from tilewright.frontend.annotations import (
    BARE,
    Directed,
    DynVar,
    as_type,
    as_types,
    require_direction,
)
from tilewright.frontend.capture import FunctionNode, require_plain
from tilewright.frontend.namespace import Namespace
from tilewright.frontend.typing import TypeEvaluator
from tilewright.ir.core import Value
from tilewright.ir.enums import ParamDirection
from tilewright.ir.types import ScalarType, Type
from tilewright.source import SourceText


@dataclass(frozen=True)
class Signature:
    """Parameters as values, their directions, and the declared return types (None: undeclared)."""

    params: tuple[Value, ...]
    directions: tuple[ParamDirection, ...]
    returns: tuple[Type, ...] | None

    @property
    def names(self) -> list[str]:
        return [param.name for param in self.params]


class SignatureReader:
    """Reads the parameters of one `def`.

    `evaluated` holds annotations that Python evaluated already, `param_types` the types of
    parameters whose annotation leaves them open (bare `pl.Tensor`).
    """

    def __init__(
        self,
        names: Namespace,
        source: SourceText,
        *,
        evaluated: Mapping[str, Any] | None = None,
        param_types: Mapping[str, Type] | None = None,
        declare: dict[str, DynVar] | None = None,
    ) -> None:
        self.scalars: dict[str, Value] = {}
        self.evaluated: Mapping[str, Any] = evaluated or {}
        self.param_types: Mapping[str, Type] = param_types or {}
        self.types = TypeEvaluator(names, source, scope=self.scalars, declare=declare)

    def read(self, node: FunctionNode, *, skip: int = 0) -> Signature:
        """The signature of `node` without its first `skip` parameters (`self`)."""
        arguments = self._arguments(node)[skip:]
        known: dict[str, tuple[Value, ParamDirection]] = {}
        for argument in _mentioned_first(arguments):
            known[argument.arg] = self._param(argument)
        params = [known[argument.arg] for argument in arguments]
        returns = self._returns(node)
        return Signature(tuple(v for v, _ in params), tuple(d for _, d in params), returns)

    def _arguments(self, node: FunctionNode) -> list[ast.arg]:
        spec = node.args
        require_plain(node, self.types.source)
        return [*spec.posonlyargs, *spec.args, *spec.kwonlyargs]

    def _param(self, argument: ast.arg) -> tuple[Value, ParamDirection]:
        direction, given = ParamDirection.In, self._annotation(argument)
        if isinstance(given, Directed):
            direction, given = given.direction, given.inner
        if given in BARE and argument.arg in self.param_types:
            type_ = self.param_types[argument.arg]
        else:
            node = argument.annotation or argument
            type_ = self.types.computed(node, as_type, given)
        self.types.computed(argument, require_direction, argument.arg, direction, type_)
        value = Value(type_, argument.arg)
        if isinstance(type_, ScalarType):
            self.scalars[argument.arg] = value
        return value, direction

    def _annotation(self, argument: ast.arg) -> Any:
        name = argument.arg
        if argument.annotation is None:
            if name in self.param_types:
                return self.param_types[name]
            raise ParserTypeError(
                f"Parameter '{name}' has a missing type annotation",
                self.types.span(argument),
                f"Write '{name}: pl.Tensor[[...], pl.FP32]' or another type of the language.",
            )
        evaluated = self.evaluated.get(name)
        if evaluated is not None and not isinstance(evaluated, str):
            return evaluated
        return self.types.annotation(argument.annotation)

    def _returns(self, node: FunctionNode) -> tuple[Type, ...] | None:
        if node.returns is None:
            return None
        given = self.evaluated.get("return")
        if given is None or isinstance(given, str):
            given = self.types.annotation(node.returns)
        if given in BARE:
            return None
        return self.types.computed(node.returns, as_types, given)


def _mentioned_first(arguments: Sequence[ast.arg]) -> list[ast.arg]:
    """Parameters that the types of others mention, as extents, come before those."""
    known = {argument.arg for argument in arguments}

    def mentions(argument: ast.arg) -> bool:
        parts = list(ast.walk(argument))
        names = {part.id for part in parts if isinstance(part, ast.Name)}
        quoted = [part.value for part in parts if isinstance(part, ast.Constant)]
        words = {w for text in quoted if isinstance(text, str) for w in re.findall(r"\w+", text)}
        return not known.isdisjoint(names | words)

    return sorted(arguments, key=mentions)
