"""The `dataclass` of the standard library, which looks at a class when that is first used.

The library looks at annotations, and writes and compiles up to six functions a class, while a
module is imported: 0.2 to 0.4 ms each time a process starts, and most classes of a process are
never used. Here `__init__` is compiled when a class has more than some instances, and the others
are plain functions over the names of the fields. `fields`, `replace` and `__dataclass_fields__`
are the library's, who looks at a class when they are asked for. Every annotation is a field.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import MISSING, Field, FrozenInstanceError
from functools import cached_property, partial
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any, cast

__all__ = ["dataclass"]


class _Factory:
    """The default of a parameter whose value a factory makes."""

    def __repr__(self) -> str:
        return "<factory>"


_FACTORY = _Factory()
_set = object.__setattr__


def _made(
    cls: type | None = None, /, *, frozen: bool = False, eq: bool = True, slots: bool = False
) -> Any:
    """`dataclasses.dataclass`, with the options that this project uses."""
    if cls is None:
        return partial(_made, frozen=frozen, eq=eq, slots=slots)
    cls.__doc__ = cls.__doc__ or cls.__name__  # else the library reads the signature for it
    known = _Known(cls, frozen)
    made: Any = _with_slots(cls) if slots else cls
    known.made = made
    made.__known__ = known
    for name in _OF_THE_LIBRARY:
        setattr(made, name, _Late(name, known, partial(_Known.looked_at, known, name)))
    methods: dict[str, Any] = {"__repr__": _repr}
    if eq:
        methods["__eq__"] = _Late("__eq__", known, known.equality)
        methods["__hash__"] = _Late("__hash__", known, known.hashing) if frozen else None
    if frozen:
        methods |= _refusals(known)
        methods |= _states(known) if slots else {}
    if "__init__" not in vars(made):
        made.__init__ = _LateInit(known)
    for name, method in methods.items():
        if not _is_written(made, name):
            setattr(made, name, method)
    return made


def _with_slots(cls: type) -> type:
    """The class with a slot for every field that no base has one for."""
    names = [name for base in (*_bases(cls), cls) for name in base.__annotations__]
    taken = {slot for base in cls.__mro__[1:-1] for slot in vars(base).get("__slots__", ())}
    dropped = {*names, "__dict__", "__weakref__"}
    namespace = {name: value for name, value in vars(cls).items() if name not in dropped}
    namespace["__slots__"] = tuple(name for name in dict.fromkeys(names) if name not in taken)
    made = type(cls)(cls.__name__, cls.__bases__, namespace)
    made.__qualname__ = cls.__qualname__
    return made


def _bases(cls: Any) -> Iterator[Any]:
    """The dataclasses that a class derives from, the last one first."""
    return (base for base in cls.__mro__[-1:0:-1] if "__known__" in vars(base))


def _is_written(cls: type, name: str) -> bool:
    """True for a method of the author's; without a hash of his, Python writes None beside `==`."""
    found = vars(cls).get(name, MISSING)
    return found is not MISSING and not (name == "__hash__" and found is None)


if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:
    dataclass = _made


_OF_THE_LIBRARY = ("__dataclass_fields__", "__dataclass_params__", "__match_args__")


class _Known:
    """What is known of a class: what stood in it, and the rest as soon as somebody wants it."""

    made: Any

    def __init__(self, written: type, is_frozen: bool) -> None:
        self.written = written
        self.is_frozen = is_frozen
        values = vars(written)
        self.own = {name: values.get(name, MISSING) for name in written.__annotations__}

    @cached_property
    def fields(self) -> dict[str, Field[Any]]:
        """Every field, those of the bases first. Only the library gives them names and types."""
        own: dict[str, Any] = {}
        for cls in (*_bases(self.made), self.made):
            own |= cls.__known__.own
        return {name: _field(value) for name, value in own.items()}

    @cached_property
    def parameters(self) -> list[str]:
        """Those of `__init__`."""
        return [name for name, field in self.fields.items() if field.init]

    @cached_property
    def defaults(self) -> dict[str, Any]:
        """The defaults of fields."""
        own = self.fields.items()
        return {name: field.default for name, field in own if field.default is not MISSING}

    @cached_property
    def factories(self) -> dict[str, Callable[[], Any]]:
        """What makes the defaults of fields."""
        own = [(name, field.default_factory) for name, field in self.fields.items()]
        return {name: make for name, make in own if make is not MISSING}

    @cached_property
    def has_later_step(self) -> bool:
        """True when there is something to do once the fields are filled."""
        return hasattr(self.made, "__post_init__")

    def completed(self, given: dict[str, Any], named: dict[str, Any]) -> dict[str, Any]:
        """The value of every field; none when `named` does not fit."""
        if given.keys() & named.keys() or not named.keys() <= {*self.parameters}:
            return {}
        values = self.defaults | given | named
        missing = self.factories.keys() - values.keys()
        return values | {name: self.factories[name]() for name in missing}

    def values(self) -> Callable[[Any], tuple[Any, ...]]:
        """Gives the values that are compared, as a tuple."""
        names = [name for name, field in self.fields.items() if field.compare]
        if not names:
            return lambda self: ()
        get = attrgetter(*names)
        return get if len(names) > 1 else lambda self: (get(self),)

    def equality(self) -> Callable[[Any, Any], Any]:
        """`__eq__`."""
        values = self.values()

        def __eq__(self: Any, other: Any) -> Any:
            if other.__class__ is self.__class__:
                return values(self) == values(other)
            return NotImplemented

        return __eq__

    def hashing(self) -> Callable[[Any], int]:
        """`__hash__`."""
        values = self.values()

        def __hash__(self: Any) -> int:
            return hash(values(self))

        return __hash__

    def looked_at(self, name: str) -> Any:
        """What the library says of the class."""
        if self.made is self.written:
            for late in _OF_THE_LIBRARY:
                delattr(self.written, late)
        dataclasses.dataclass(init=False, repr=False, eq=False)(self.written)
        for late in _OF_THE_LIBRARY:
            setattr(self.made, late, vars(self.written)[late])
        return getattr(self.made, name)


def _field(value: Any) -> Field[Any]:
    return cast(Any, value) if isinstance(value, Field) else dataclasses.field(default=value)


class _Late:
    """An attribute of a class that is made when it is first wanted."""

    def __init__(self, name: str, known: _Known, make: Callable[[], Any]) -> None:
        self.name = name
        self.known = known
        self.make = make

    def __get__(self, instance: Any, cls: Any = None) -> Any:
        value: Any = self.make()
        setattr(self.known.made, self.name, value)
        bind: Any = getattr(value, "__get__", None)
        return value if bind is None else bind(instance, cls)


_FEW = 32
"""Instances that are filled from a mapping: compiling `__init__` pays for more of them."""


class _LateInit:
    """`__init__` of a class with few instances; later, or looked at, it is a compiled function."""

    def __init__(self, known: _Known) -> None:
        self.known = known
        self.filled = 0

    def __get__(self, instance: Any, cls: Any = None) -> Any:
        if instance is not None and self.filled < _FEW:
            self.filled += 1
            return partial(self._fill, instance)
        init: Any = _compiled_init(self.known)
        self.known.made.__init__ = init
        return init if instance is None else init.__get__(instance, cls)

    def _fill(self, instance: Any, /, *args: Any, **kwargs: Any) -> None:
        known = self.known
        values = dict(zip(known.parameters, args))
        if kwargs or len(args) != len(known.fields):
            values = known.completed(values, kwargs)
        if len(values) != len(known.fields) or len(args) > len(known.parameters):
            _compiled_init(known)(instance, *args, **kwargs)  # which refuses
            return
        for name, value in values.items():
            _set(instance, name, value)
        if known.has_later_step:
            instance.__post_init__()


def _compiled_init(known: _Known) -> Callable[..., None]:
    names: dict[str, Any] = {"_FACTORY": _FACTORY, "_set": _set}
    names["__name__"] = known.made.__module__
    parameters = [_parameter(name, known.fields[name], names) for name in known.parameters]
    lines = [line for item in known.fields.items() for line in _assignment(known, *item, names)]
    if known.has_later_step:
        lines.append("self.__post_init__()")
    body = "\n ".join(lines or ["pass"])
    exec(f"def __init__(self, {', '.join(parameters)}):\n {body}", names)
    init = names["__init__"]
    init.__qualname__ = f"{known.made.__qualname__}.__init__"
    kinds: dict[str, Any] = {}
    for cls in (*_bases(known.made), known.made):
        kinds |= cls.__annotations__
    init.__annotations__ = {name: kinds[name] for name in known.parameters} | {"return": None}
    return init


def _parameter(name: str, field: Field[Any], names: dict[str, Any]) -> str:
    if field.default_factory is not MISSING:
        names[f"_new_{name}"] = field.default_factory
        return f"{name}=_FACTORY"
    if field.default is not MISSING:
        names[f"_default_{name}"] = field.default
        return f"{name}=_default_{name}"
    return name


def _assignment(
    known: _Known, name: str, field: Field[Any], names: dict[str, Any]
) -> Iterator[str]:
    value = name
    if field.default_factory is not MISSING:
        names[f"_new_{name}"] = field.default_factory
        made = f"_new_{name}()"
        value = f"{made} if {name} is _FACTORY else {name}" if field.init else made
    elif not field.init:
        return
    yield f"_set(self, {name!r}, {value})" if known.is_frozen else f"self.{name} = {value}"


@recursive_repr()
def _repr(self: Any) -> str:
    known: _Known = self.__known__
    shown = (name for name, field in known.fields.items() if field.repr)
    fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in shown)
    return f"{type(self).__qualname__}({fields})"


def _refusals(known: _Known) -> dict[str, Any]:
    def is_fixed(self: Any, name: str) -> bool:
        return type(self) is known.made or name in known.fields

    def refuse(self: Any, name: str, value: Any = None) -> None:
        if is_fixed(self, name):
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        _set(self, name, value)

    def refuse_deletion(self: Any, name: str) -> None:
        if is_fixed(self, name):
            raise FrozenInstanceError(f"cannot delete field {name!r}")
        object.__delattr__(self, name)

    return {"__setattr__": refuse, "__delattr__": refuse_deletion}


def _states(known: _Known) -> dict[str, Any]:
    """How copies and pickles of frozen instances without a namespace are filled."""

    def __getstate__(self: Any) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in known.fields)

    def __setstate__(self: Any, state: tuple[Any, ...]) -> None:
        for name, value in zip(known.fields, state):
            _set(self, name, value)

    return {"__getstate__": __getstate__, "__setstate__": __setstate__}
