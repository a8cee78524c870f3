"""Whether objects are what annotations say: how texts and bytes are kept from misusing an op."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Union, cast, get_args, get_origin, get_type_hints

from tilewright.errors import ArgumentCountMismatch, ArgumentTypeMismatch
from tilewright.ir.core import Value

if TYPE_CHECKING:
    from tilewright.ir.opdef import OpDef


@functools.cache
def hints_of(annotated: Callable[..., Any]) -> Mapping[str, Any]:
    """The annotations of a function or class, evaluated."""
    return get_type_hints(annotated)


def conforms(given: Any, hint: Any) -> bool:
    """True for an instance of an annotation; sequences are tuples, and numbers are no bools."""
    if hint is Any:
        return True
    origin, args = get_origin(hint), get_args(hint)
    if origin is None:
        return _is_instance(given, NoneType if hint is None else hint)
    if origin in (Union, UnionType):
        return any(conforms(given, each) for each in args)
    if origin is Mapping:
        return isinstance(given, Mapping)
    if not isinstance(given, tuple):
        return False
    items = cast("tuple[Any, ...]", given)
    if origin is tuple and args[-1] is not ...:
        return len(items) == len(args) and all(map(conforms, items, args))
    return issubclass(origin, Sequence) and all(conforms(item, args[0]) for item in items)


def _is_instance(given: Any, kind: type) -> bool:
    if isinstance(given, bool):
        return issubclass(bool, kind) and kind is not int
    return isinstance(given, (int, float)) if kind is float else isinstance(given, kind)


def require_conforming(
    opdef: OpDef[..., Any], operands: Sequence[Any], attrs: Mapping[str, Any]
) -> None:
    """Checks operand entries and attributes against the canonical form of an op.

    Raises ArgumentTypeMismatch with the parameter by name, ArgumentCountMismatch.
    """
    hints = hints_of(opdef.function)
    entries = dict(zip(opdef.operand_names, operands))
    missing = [n for n in opdef.attr_names if n not in opdef.attr_defaults and n not in attrs]
    unknown = [name for name in attrs if name not in opdef.attr_names]
    if len(operands) != len(opdef.operand_names) or missing or unknown:
        raise ArgumentCountMismatch(
            f"{opdef.name} takes {opdef.signature}; {len(operands)} operands were given, "
            f"{_listed(missing)} missing, {_listed(unknown)} unknown"
        )
    for name, given in (*entries.items(), *attrs.items()):
        hint = hints[name] if name in attrs else _without_numbers(hints[name])
        if not conforms(given, hint):
            wanted = opdef.signature.parameters[name].annotation
            raise ArgumentTypeMismatch(
                f"{opdef.name}: {name} is {described(given)}; {wanted} is accepted"
            )


@functools.cache
def _without_numbers(hint: Any) -> Any:
    """The annotation of an operand as it is in the IR, where numbers have become constants."""
    parts = tuple(_without_numbers(each) for each in get_args(hint) if each is not int)
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        return cast(Any, Union)[parts]
    return hint if origin is None or ... in parts else origin[parts]


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"


def described(given: Any) -> str:
    """What an operand or attribute is, for messages."""
    if isinstance(given, (list, tuple)):
        return f"[{', '.join(map(described, cast('list[Any]', given)))}]"
    return str(given.type) if isinstance(given, Value) else repr(given)
