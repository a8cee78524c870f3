"""What public functions take, checked at the call: TypeError says which argument is of no use."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any, TypeVar, cast, get_args

Given = TypeVar("Given")
Target = TypeVar("Target", bound=Callable[..., Any])


def required(given: Given, kind: Any, what: str) -> Given:
    """`given`, which `what` says the part of; raises TypeError unless it is of a kind.

    A kind is a class or a union of some; a list of one kind stands for some of it.
    """
    if isinstance(kind, list):
        (one,) = cast("list[Any]", kind)
        for each in cast("Iterable[Any]", required(given, Iterable, what)):
            required(each, one, f"{what} some of")
    elif not isinstance(given, kind):
        raise TypeError(f"{what} {given!r}, not a {_name(kind)}")
    return given


def _name(kind: Any) -> str:
    names = [each.__name__ for each in get_args(kind) or (kind,)]
    return " or ".join(names).replace("NoneType", "None")


def accepts(**kinds: Any) -> Callable[[Target], Target]:
    """A decorator that checks what arguments are given, by name; of a class, those that make one.

    Those left out are not looked at.
    """

    def decorate(target: Target) -> Target:
        if not isinstance(target, type):
            return checked(target, target.__name__, kinds)
        made: Any = target
        made.__init__ = checked(made.__init__, made.__name__, kinds)
        return made

    return decorate


def checked(function: Any, title: str, kinds: dict[str, Any]) -> Any:
    """`function`, called with arguments of `kinds` alone; it is called `title` where they are of
    others."""
    names = function.__code__.co_varnames
    table = [(names.index(name), name, kind) for name, kind in kinds.items()]

    @functools.wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        for place, name, kind in table:
            if place < len(args):
                required(args[place], kind, f"{title}: {name} is")
            elif name in options:
                required(options[name], kind, f"{title}: {name} is")
        return function(*args, **options)

    return call
