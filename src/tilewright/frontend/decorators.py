"""The decorators of the parsed style: @pl.function, @pl.program, @pl.inline."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from types import FrameType, FunctionType
from typing import Any, TypeVar, overload

from tilewright.boundary import deprecate, public_entry
from tilewright.errors import ParserSyntaxError
from tilewright.frontend import capture
from tilewright.frontend.inline import InlineFunction
from tilewright.frontend.namespace import Snapshot
from tilewright.frontend.options import Options
from tilewright.frontend.program import (
    FunctionSource,
    ProgramReader,
    Standalone,
    read_function,
    require_plain_body,
)
from tilewright.garbage import without_collections
from tilewright.ir.core import Function, Program
from tilewright.ir.enums import FunctionType as FunctionKind
from tilewright.ir.enums import Level, Role

_F = TypeVar("_F", bound=Callable[..., Any])


class PendingMethod:
    """A @pl.function or @pl.inline of a class body; @pl.program reads it."""

    def __init__(self, function: FunctionType, options: Options, inline: bool = False) -> None:
        self.function = function
        self.options = options
        self.inline = inline
        self.__name__ = function.__name__
        self.__doc__ = function.__doc__

    def __call__(self, *_: Any, **__: Any) -> Any:
        raise ParserSyntaxError(
            f"'{self.__name__}' is part of a program",
            hint="Decorate its class with @pl.program and compile the program.",
        )


def source_of(
    function: FunctionType,
    options: Options,
    enclosing: Mapping[str, Any],
    *,
    snapshot: Snapshot | None = None,
) -> FunctionSource:
    """A live function as something to read: its definition and the names it sees."""
    found = capture.capture_function(function)
    names = (snapshot or Snapshot()).namespace(function, enclosing)
    return FunctionSource(
        found.node,
        names,
        found.source,
        options,
        evaluated=capture.annotations_of(function),
        is_method=capture.is_method(function) and _takes_self(function),
    )


def _takes_self(function: FunctionType) -> bool:
    """True where the first parameter means the program."""
    return function.__code__.co_varnames[:1] == ("self",)


@overload
def function(func: Callable[..., Any], /) -> Function: ...
@overload
def function(
    *,
    type: FunctionKind = ...,
    level: Level | None = ...,
    role: Role | None = ...,
    attrs: Mapping[str, Any] | None = ...,
    auto_scope: bool = ...,
    strict_ssa: bool = ...,
    external_source: str | None = ...,
) -> Callable[[Callable[..., Any]], Function]: ...
def function(
    func: Callable[..., Any] | None = None,
    /,
    *,
    type: FunctionKind = FunctionKind.Opaque,
    level: Level | None = None,
    role: Role | None = None,
    attrs: Mapping[str, Any] | None = None,
    auto_scope: bool = True,
    strict_ssa: bool = False,
    external_source: str | None = None,
) -> Any:
    """Reads a function of the parsed style; its body never runs as Python.

    Outside a class it gives an `ir.Function`; in the class of a @pl.program it marks a function
    of the program. Raises the author errors of `tilewright.errors`.
    """
    if attrs is not None:
        deprecate("attrs= of @pl.function is deprecated; write pl.func_attr({...}) in its body")
    options = Options(type, level, role, attrs, auto_scope, strict_ssa, external_source)
    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    if func is None:
        return partial(_declare, options=options, frame=frame)
    return _declare(func, options, frame)


@public_entry
@without_collections()
def _declare(func: Any, options: Options, frame: FrameType) -> Any:
    _require_function(func, "function")
    if capture.is_method(func):
        return PendingMethod(func, options)
    around = Standalone()
    source = source_of(func, options, capture.enclosing_locals(frame))
    return read_function(source, callees=around)


def _require_function(func: Any, word: str) -> None:
    if not isinstance(func, FunctionType) or func.__name__ == "<lambda>":
        raise ParserSyntaxError(f"@pl.{word} decorates a 'def', not {func!r}")


def inline(func: Callable[..., Any]) -> Any:
    """A helper whose statements are read in place at each call; no function is added."""
    _require_function(func, "inline")
    assert isinstance(func, FunctionType)
    if capture.is_method(func):
        return PendingMethod(func, Options(), inline=True)
    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    return inline_of(func, capture.enclosing_locals(frame))


@public_entry
def inline_of(func: FunctionType, enclosing: Mapping[str, Any]) -> InlineFunction:
    """A live function as an inline helper."""
    source = source_of(func, Options(), enclosing)
    capture.require_plain(source.node, source.source)
    found = capture.CapturedFunction(source.node, source.source)
    return InlineFunction(func.__name__, found, source.names, dict(source.evaluated))


@overload
def program(cls: type, /) -> Program: ...
@overload
def program(*, strict_ssa: bool = ...) -> Callable[[type], Program]: ...
def program(cls: type | None = None, /, *, strict_ssa: bool = False) -> Any:
    """Reads the functions of a class as one program.

    The class statement is found by the lines of its methods; ParserSyntaxError names every
    candidate line when several definitions fit.
    """
    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    read = partial(_read_program, frame=frame, strict_ssa=strict_ssa)
    return read if cls is None else read(cls)


@public_entry
@without_collections()
def _read_program(cls: Any, frame: FrameType, strict_ssa: bool) -> Program:
    if not isinstance(cls, type):
        raise ParserSyntaxError(f"@pl.program decorates a class, not {cls!r}")
    enclosing = capture.enclosing_locals(frame)
    members = [item for item in vars(cls).values() if isinstance(item, PendingMethod)]
    _require_decorated(cls)
    functions = [member.function for member in members]
    found = capture.capture_class(cls, functions, frame)
    require_plain_body(found.node, found.source)
    snapshot = Snapshot()
    sources: list[FunctionSource] = []
    inlines: dict[str, InlineFunction] = {}
    for member in members:
        if member.inline:
            inlines[member.__name__] = inline_of(member.function, enclosing)
            continue
        options = member.options
        if strict_ssa:
            options = replace(options, strict_ssa=True)
        sources.append(source_of(member.function, options, enclosing, snapshot=snapshot))
    return ProgramReader(cls.__name__, sources, inlines=inlines).read()


def _require_decorated(cls: type) -> None:
    for name, item in vars(cls).items():
        if isinstance(item, FunctionType):
            raise ParserSyntaxError(
                f"'{name}' of program '{cls.__name__}' is not decorated",
                hint="Decorate it with @pl.function, or move it out of the class.",
            )
        is_other = callable(item) or hasattr(item, "__get__")
        if is_other and not isinstance(item, PendingMethod) and not name.startswith("__"):
            kind = item.__class__.__name__
            raise ParserSyntaxError(
                f"'{name}' of program '{cls.__name__}' is a {kind}, not a method "
                "that @pl.function or @pl.inline marks",
                hint="Give it 'self' and one decorator, or move it out of the class.",
            )
