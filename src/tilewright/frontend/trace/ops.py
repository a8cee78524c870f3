"""Language functions: public callables that reach the trace in flight."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Generic, ParamSpec, TypeVar, cast

from tilewright.frontend.trace.ambient import nki_ctx

P = ParamSpec("P")
R = TypeVar("R")

LANGUAGE: dict[str, NKIFunc[..., Any]] = {}
"""Every language function by its public path ("nl.add")."""


class NKIFunc(Generic[P, R]):
    """A function of the language. Called outside a kernel it refuses; inside it emits.

    `nki_func` marks it as an operation for the call gates, and is what the builder runs.
    """

    def __init__(self, function: Callable[P, R], path: str) -> None:
        functools.update_wrapper(cast("Any", self), function)
        self.nki_func = function
        self.path = path

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return cast(R, nki_ctx().sema.dispatch(self, *args, **kwargs))

    def __repr__(self) -> str:
        return f"<{self.path}>"


def nki_op(path: str) -> Callable[[Callable[P, R]], NKIFunc[P, R]]:
    """Makes the decorated function the language function `path`."""

    def declare(function: Callable[P, R]) -> NKIFunc[P, R]:
        assert path not in LANGUAGE, f"{path} is declared twice"
        LANGUAGE[path] = NKIFunc(function, path)
        return LANGUAGE[path]

    return declare
