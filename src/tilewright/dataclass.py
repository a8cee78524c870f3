"""The `dataclass` of the standard library, whose methods are written when they are first wanted.

The library writes and compiles up to six functions a class while a module is imported, 0.2 to
0.4 ms each time a process starts. Here `__init__` is compiled when a class has more than a few
instances, and the others are plain functions over the names of the fields. Fields, `replace`,
`fields` and `__dataclass_fields__` are the library's.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import MISSING, Field, FrozenInstanceError
from functools import partial
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

__all__ = ["dataclass"]

_Fields = tuple["Field[Any]", ...]


class _Factory:
    """The default of a parameter whose value a factory makes."""

    def __repr__(self) -> str:
        return "<factory>"


_FACTORY = _Factory()


def _made(
    cls: type | None = None, /, *, frozen: bool = False, eq: bool = True, slots: bool = False
) -> Any:
    """`dataclasses.dataclass`, with the options that this project uses."""
    if cls is None:
        return partial(_made, frozen=frozen, eq=eq, slots=slots)
    cls.__doc__ = cls.__doc__ or cls.__name__  # else the library reads the signature for it
    declare: Any = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots)
    made: Any = declare(cls)
    own: _Fields = dataclasses.fields(made)
    methods: dict[str, Any] = {"__repr__": _repr}
    if "__init__" not in vars(made):
        made.__init__ = _LateInit(made, frozen)
    if eq:
        methods |= _comparisons(own, frozen)
    if frozen:
        methods |= _refusals(made, own)
        methods |= _states(own) if slots else {}
    for name, method in methods.items():
        if not _is_written(made, name):
            setattr(made, name, method)
    return made


def _is_written(cls: type, name: str) -> bool:
    """True for a method of the author's; without a hash of his, Python writes None beside `==`."""
    found = vars(cls).get(name, MISSING)
    return found is not MISSING and not (name == "__hash__" and found is None)


if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:
    dataclass = _made


_FEW = 4
"""Instances that are filled field by field: compiling `__init__` pays for more of them."""


class _LateInit:
    """`__init__` of a class with few instances; later, or looked at, it is a compiled function."""

    def __init__(self, owner: Any, frozen: bool) -> None:
        self.owner = owner
        self.frozen = frozen
        self.filled = 0

    def __get__(self, instance: Any, cls: Any = None) -> Any:
        if instance is not None and self.filled < _FEW:
            self.filled += 1
            return partial(self._fill, instance)
        init: Any = _compiled_init(self.owner, self.frozen)
        self.owner.__init__ = init
        return init if instance is None else init.__get__(instance, cls)

    def _fill(self, instance: Any, /, *args: Any, **kwargs: Any) -> None:
        own: dict[str, Field[Any]] = self.owner.__dataclass_fields__
        names = [field.name for field in own.values() if field.init]
        values = dict(zip(names, args)) | kwargs
        values = {**{n: f.default for n, f in own.items() if f.default is not MISSING}, **values}
        for name, field in own.items():
            if name not in values and field.default_factory is not MISSING:
                values[name] = field.default_factory()
        given = [*names[: len(args)], *kwargs]
        fits = len(args) + len(kwargs) == len({*given}) and {*given} <= {*names}
        if not fits or values.keys() != own.keys():
            _compiled_init(self.owner, self.frozen)(instance, *args, **kwargs)  # which refuses
            return
        for name, value in values.items():
            object.__setattr__(instance, name, value)
        if hasattr(instance, "__post_init__"):
            instance.__post_init__()


def _compiled_init(owner: Any, frozen: bool) -> Callable[..., None]:
    names: dict[str, Any] = {"_FACTORY": _FACTORY, "_set": object.__setattr__}
    names["__name__"] = owner.__module__
    own: dict[str, Field[Any]] = owner.__dataclass_fields__
    parameters = [_parameter(field, names) for field in own.values() if field.init]
    lines = [line for field in own.values() for line in _assignment(field, frozen, names)]
    if hasattr(owner, "__post_init__"):
        lines.append("self.__post_init__()")
    body = "\n ".join(lines or ["pass"])
    exec(f"def __init__(self, {', '.join(parameters)}):\n {body}", names)
    init = names["__init__"]
    init.__qualname__ = f"{owner.__qualname__}.__init__"
    init.__annotations__ = {f.name: f.type for f in own.values() if f.init} | {"return": None}
    return init


def _parameter(field: Field[Any], names: dict[str, Any]) -> str:
    if field.default_factory is not MISSING:
        names[f"_new_{field.name}"] = field.default_factory
        return f"{field.name}=_FACTORY"
    if field.default is not MISSING:
        names[f"_default_{field.name}"] = field.default
        return f"{field.name}=_default_{field.name}"
    return field.name


def _assignment(field: Field[Any], frozen: bool, names: dict[str, Any]) -> Iterator[str]:
    name = field.name
    value = name
    if field.default_factory is not MISSING:
        names[f"_new_{name}"] = field.default_factory
        made = f"_new_{name}()"
        value = f"{made} if {name} is _FACTORY else {name}" if field.init else made
    elif not field.init:
        return
    yield f"_set(self, {name!r}, {value})" if frozen else f"self.{name} = {value}"


def _values(own: _Fields) -> Callable[[Any], tuple[Any, ...]]:
    """Gives the values of fields as a tuple."""
    names = [field.name for field in own]
    if not names:
        return lambda self: ()
    get = attrgetter(*names)
    return get if len(names) > 1 else lambda self: (get(self),)


@recursive_repr()
def _repr(self: Any) -> str:
    shown = (field.name for field in dataclasses.fields(self) if field.repr)
    fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in shown)
    return f"{type(self).__qualname__}({fields})"


def _comparisons(own: _Fields, frozen: bool) -> dict[str, Any]:
    values = _values(tuple(field for field in own if field.compare))

    def __eq__(self: Any, other: Any) -> Any:
        if other.__class__ is self.__class__:
            return values(self) == values(other)
        return NotImplemented

    def __hash__(self: Any) -> int:
        return hash(values(self))

    return {"__eq__": __eq__, "__hash__": __hash__ if frozen else None}


def _refusals(cls: type, own: _Fields) -> dict[str, Any]:
    names = {field.name for field in own}

    def refuse(self: Any, name: str, value: Any = None) -> None:
        if type(self) is cls or name in names:
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        object.__setattr__(self, name, value)

    def refuse_deletion(self: Any, name: str) -> None:
        if type(self) is cls or name in names:
            raise FrozenInstanceError(f"cannot delete field {name!r}")
        object.__delattr__(self, name)

    return {"__setattr__": refuse, "__delattr__": refuse_deletion}


def _states(own: _Fields) -> dict[str, Any]:
    """How copies and pickles of frozen instances without a namespace are filled."""
    values = _values(own)

    def __getstate__(self: Any) -> tuple[Any, ...]:
        return values(self)

    def __setstate__(self: Any, state: tuple[Any, ...]) -> None:
        for field, value in zip(own, state):
            object.__setattr__(self, field.name, value)

    return {"__getstate__": __getstate__, "__setstate__": __setstate__}
