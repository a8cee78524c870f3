"""Kernels in C++: the body that stands for one, and its call once functions are inlined."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tilewright.abi import ExternalKernel
from tilewright.dtypes import INDEX, DType
from tilewright.ir.core import Function, Operation, Value
from tilewright.ir.enums import Effect, ParamDirection
from tilewright.ir.opdef import op
from tilewright.ir.types import ScalarType, ShapedType, Type

VECTOR_LANES = 2
FACTS = frozenset(
    {"external_source", "external_name", "vector_source", "vector_lanes", "include_dirs"}
)
"""Attributes of a function in C++ that say what its body is."""

CPP_TYPES = {
    "FP32": "float",
    "TF32": "float",
    "FP64": "double",
    "FP16": "tw::float16",
    "BF16": "tw::bfloat16",
    "BOOL": "bool",
    "INDEX": "int64_t",
    "TASK_ID": "int64_t",
    **{f"{sign}INT{bits}": f"{sign.lower()}int{bits}_t"
       for sign in ("", "U") for bits in (8, 16, 32, 64)},
}  # fmt: skip
"""Element types that C++ has; the others are bytes there."""


@op("external.body", effect=Effect.WRITE)
def body() -> None:
    """The body of a function in C++: it writes the Out and InOut parameters in place."""


@body.type_rule
def body_type() -> None: ...


@op("external.kernel", effect=Effect.WRITE, tied={0: 0})
def kernel(
    written: Sequence[Value],
    read: Sequence[Value],
    *,
    function: str,
    source: str,
    include_dirs: tuple[str, ...] = (),
    places: tuple[int, ...] = (),
    cube: tuple[Any, ...] = (),
    shares: tuple[tuple[int, ...], ...] = (),
    first: int = 0,
    lanes: int = 1,
) -> Any:
    """Calls C++ function `function` of file `source`; gives the new version of each of `written`.

    Its parameter `places[k]` is entry k of `written`, followed by `read`: tensors, tiles and
    scalars. It is called for each of `lanes` lanes. With `cube`, the function, source and folders
    of another kernel, these are the vector side of a mixed kernel and `cube` is its cube side:
    they can wait for each other, and side `first` begins. `shares` are the numbers of the
    parameters that the cube and the vector side take; empty when both take all.
    """
    ...


@kernel.type_rule
def kernel_type(
    written: Sequence[Value],
    read: Sequence[Value],
    *,
    function: str,
    source: str,
    include_dirs: tuple[str, ...],
    places: tuple[int, ...],
    cube: tuple[Any, ...],
    shares: tuple[tuple[int, ...], ...],
    first: int,
    lanes: int,
) -> tuple[Type, ...]:
    return tuple(value.type for value in written)


@op("loop.external", effect=Effect.WRITE)
def on_buffers(
    written: Sequence[Value],
    read: Sequence[Value],
    *,
    function: str,
    source: str,
    include_dirs: tuple[str, ...] = (),
    places: tuple[int, ...] = (),
    cube: tuple[Any, ...] = (),
    shares: tuple[tuple[int, ...], ...] = (),
    first: int = 0,
    lanes: int = 1,
) -> None:
    """`external.kernel` on buffers and scalars: `written` and `read` share no memory."""


@on_buffers.type_rule
def on_buffers_type(
    written: Sequence[Value],
    read: Sequence[Value],
    *,
    function: str,
    source: str,
    include_dirs: tuple[str, ...],
    places: tuple[int, ...],
    cube: tuple[Any, ...],
    shares: tuple[tuple[int, ...], ...],
    first: int,
    lanes: int,
) -> None: ...


def arguments(operation: Operation) -> list[tuple[Value, bool]]:
    """What a call passes, in the order of the parameters, and whether each is written."""
    written, read = operation.operands
    given = [*((value, True) for value in written), *((value, False) for value in read)]
    by_place = dict(zip(operation.attrs["places"], given, strict=True))
    return [by_place[place] for place in range(len(given))]


def around(operation: Operation) -> tuple[int, ...]:
    """The words after those of the parameters: lane, lanes, side, sides; see `tw_word`."""
    return (0, operation.attrs["lanes"], operation.attrs["first"], 0)


def external_kernel(operation: Operation) -> ExternalKernel:
    """What an operation calls, with the C++ types of its parameters."""
    params = tuple([_cpp_type(value.type, written) for value, written in arguments(operation)])
    a = operation.attrs
    one = ExternalKernel(a["function"], a["source"], params, a["include_dirs"])
    if not a["cube"]:
        return one
    function, source, folders = a["cube"]
    taken: Sequence[int] = a["shares"][0] if a["shares"] else range(len(params))
    cube = ExternalKernel(function, source, tuple([params[place] for place in taken]), folders)
    return replace(one, cube=cube, shares=a["shares"])


def _cpp_type(type_: Type, is_written: bool) -> str:
    if not isinstance(type_, ShapedType):
        return CPP_TYPES[scalar_dtype(type_).name]
    element = CPP_TYPES.get(type_.dtype.name, "uint8_t")
    return f"tw::Tensor<{'' if is_written else 'const '}{element}, {type_.rank}>"


def scalar_dtype(type_: Type) -> DType:
    """The element type of a scalar; that of an index for what is no scalar."""
    return type_.dtype if isinstance(type_, ScalarType) else INDEX


def is_external(function: Function) -> bool:
    """True for a function whose body is in C++."""
    return any(operation.opdef is body for operation in function.body.ops)


def kernel_of(function: Function) -> dict[str, Any]:
    """The kernel of a function in C++, as attributes of `kernel`.

    A mixed function has two sources, for its cube and its vector core. With `vector_lanes` the
    vector source runs for each lane.
    """
    written = [k for k, way in enumerate(function.directions) if way is not ParamDirection.In]
    read = [k for k, way in enumerate(function.directions) if way is ParamDirection.In]
    attrs = function.attrs
    name, folders = attrs.get("external_name", function.name), tuple(attrs.get("include_dirs", ()))
    sources = attrs["external_source"], attrs.get("vector_source")
    return {
        "function": name,
        "source": sources[1] or sources[0],
        "include_dirs": folders,
        "places": (*written, *read),
        "cube": (name, sources[0], folders) if sources[1] else (),
        "shares": (),
        "first": 0,
        "lanes": VECTOR_LANES if attrs.get("vector_lanes") else 1,
    }
