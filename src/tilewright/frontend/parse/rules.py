"""Rules for kinds of statements and calls, which the modules of this package register."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from tilewright.frontend.surface import Word

if TYPE_CHECKING:
    from tilewright.frontend.parse.parser import FunctionParser

StatementRule = Callable[["FunctionParser", Any], None]
CalleeRule = Callable[["FunctionParser", ast.Call, Any], Any]
STATEMENTS: dict[type[ast.stmt], StatementRule] = {}
CALLEES: dict[type[Any], CalleeRule] = {}
WORDS: dict[Word, CalleeRule] = {}
_S = TypeVar("_S", bound=StatementRule)
_C = TypeVar("_C", bound=CalleeRule)


def statement(*kinds: type[ast.stmt]) -> Callable[[_S], _S]:
    """Registers the rule for kinds of statements."""

    def register(rule: _S) -> _S:
        STATEMENTS.update(dict.fromkeys(kinds, rule))
        return rule

    return register


def callee(*kinds: type[Any]) -> Callable[[_C], _C]:
    """Registers the rule for calls of objects of these types, and of types derived from them."""

    def register(rule: _C) -> _C:
        CALLEES.update(dict.fromkeys(kinds, rule))
        return rule

    return register


def word(*words: Word) -> Callable[[_C], _C]:
    """Registers the rule for calls of these words."""

    def register(rule: _C) -> _C:
        WORDS.update(dict.fromkeys(words, rule))
        return rule

    return register
