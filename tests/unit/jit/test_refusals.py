"""What an author does wrong around @pl.jit is refused with what would do."""

# ruff: noqa: RET504
from __future__ import annotations

import functools
from collections.abc import Callable
from enum import Enum, IntEnum
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tilewright.language as pl
from tilewright import errors
from tilewright.cache import CacheConfig, configure_cache
from tilewright.runtime import RunConfig

F32 = np.float32
X = np.ones((4, 16), F32)


class Color(Enum):
    RED = 1


class Size(IntEnum):
    SMALL = 4


config, table, numbers, plain = SimpleNamespace(rows=4), {"n": 4}, np.ones(3), lambda t: t
SCALE = 2.0


def using(body: str) -> Any:
    """A kernel whose one statement reads a name that this module has."""
    import linecache

    text = (
        "@pl.jit\ndef k(x: pl.Tensor[[4, 16], pl.FP32]) -> pl.Tensor[[4, 16], pl.FP32]:\n"
        f"    with pl.at(level=pl.Level.CORE_GROUP):\n        r = {body}\n    return r\n"
    )
    name = f"<kernel {body}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    names = dict(globals())
    exec(compile(text, name, "exec"), names)
    return names["k"]


@pytest.mark.parametrize(
    "body, hint",
    [
        ("pl.mul(x, config.rows)", "give what is used of it a name, ROWS = config.rows"),
        ("pl.mul(x, table['n'])", "object of type dict, which has no form"),
        ("pl.mul(x, numbers)", "object of type ndarray, which has no form"),
        ("pl.mul(x, Color.RED)", "give the value a name, RED = Color.RED.value"),
        ("pl.mul(x, Size.SMALL.value)", "give the value a name, SMALL = Size.SMALL.value"),
        ("plain(x)", "decorate it with @pl.jit.inline"),
        ("pl.mul(x, SCLAE)", "Did you mean 'SCALE'"),
    ],
)
def test_a_name_without_a_form_in_kernels_says_what_would_do(body: str, hint: str) -> None:
    with pytest.raises(errors.UndefinedVariableError) as caught:
        using(body)(X)
    assert hint in str(caught.value)


@pl.jit
def constants(x: pl.Tensor[[4, 16], pl.FP32], n: pl.constexpr = 8) -> pl.Tensor[[4, 16], pl.FP32]:
    with pl.at(level=pl.Level.CORE_GROUP):
        r = pl.add(x, n)
    return r


@pytest.mark.parametrize(
    "value, hint",
    [
        (object(), "Numbers, strings"),
        ({"a": 1}, "Numbers, strings"),
        (pl.RUNTIME, "pl.Scalar"),
        (RunConfig(), "by name: config="),
    ],
)
def test_a_constant_without_a_form_is_refused_by_its_parameter(value: Any, hint: str) -> None:
    for call in (constants, constants.compile, constants.key):
        with pytest.raises(errors.ArgumentTypeMismatch, match="parameter 'n' is given") as caught:
            call(X, value)
        assert hint in str(caught.value)


def starred(*x: Any) -> Any: ...


def keyed(x: Any, **more: Any) -> Any: ...


async def waiting(x: Any) -> Any: ...


def yielding(x: Any) -> Any:
    yield x


@pytest.mark.parametrize(
    "function, reason",
    [
        (starred, "fixed number of parameters"),
        (keyed, "fixed number of parameters"),
        (waiting, "coroutine"),
        (yielding, "generator"),
        (plain, "lambda"),
        (len, "decorates a function"),
        (functools.partial(yielding), "decorates a function"),
        (Color, "decorates a function"),
        (constants, "twice"),
    ],
)
def test_what_no_kernel_can_be_made_of_is_refused_at_once(
    function: Callable[..., Any], reason: str
) -> None:
    for decorate in (pl.jit, pl.jit.inline, pl.jit()):
        with pytest.raises(errors.ParserSyntaxError, match=reason):
            decorate(function)


def bind(statement: str) -> Any:
    """A kernel that declares an axis dynamic by a statement."""
    import linecache

    text = (
        "@pl.jit\ndef k(x: pl.Tensor, out: pl.Out[pl.Tensor]):\n"
        f"    {statement}\n    out.bind_dynamic(0, M)\n"
        "    with pl.at(level=pl.Level.CORE_GROUP):\n        out[:] = pl.add(x, 1.0)\n"
        "    return out\n"
    )
    name = f"<kernel {statement}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    names = {"pl": pl, "M": pl.dynamic("M"), "AXIS": 0, "n": 5}
    exec(compile(text, name, "exec"), names)
    return names["k"]


@pytest.mark.parametrize(
    "statement, message",
    [
        ("x.bind_dynamic(2, M)", r"bind_dynamic\(2, M\): argument 'x' has 2 dimensions"),
        ("y.bind_dynamic(0, M)", "'y' is no parameter"),
        ("x.bind_dynamic(0, 5)", r"(?s)the number of an axis.*pl.dynamic"),
        ("x.bind_dynamic(AXIS, M)", r"(?s)the number of an axis.*x.bind_dynamic\(0"),
        ("x.bind_dynamic(0, Q)", r"(?s)'Q' is no dynamic dimension.*Q = pl.dynamic"),
        ("x.bind_dynamic(0, n)", r"(?s)'n' is no dynamic dimension"),
        ("if True: x.bind_dynamic(0, M)", "not in a block"),
        ("x.bind_dynamic(axis=0, dim=M)", "bind_dynamic is a statement"),
    ],
)
def test_a_declaration_that_declares_nothing_is_refused(statement: str, message: str) -> None:
    with pytest.raises(errors.TilewrightError, match=message):
        bind(statement)(X, X.copy())


def test_axes_are_counted_from_the_end_too() -> None:
    kernel = bind("x.bind_dynamic(-2, M)")
    for count in (3, 5):
        x = np.ones((count, 16), F32)
        assert (kernel(x, np.empty_like(x)) == 2).all()
    assert len(kernel._compiled) == 1


def test_a_dimension_is_named_by_a_string() -> None:
    with pytest.raises(errors.ParserError, match=r'pl.dynamic\("N"\)'):
        pl.dynamic(3)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [int, float, bool])
def test_a_python_type_as_annotation_says_which_type_would_do(kind: type) -> None:
    @pl.jit
    def k(x: pl.Tensor[[4, 16], pl.FP32], n: kind) -> pl.Tensor[[4, 16], pl.FP32]:
        with pl.at(level=pl.Level.CORE_GROUP):
            r = pl.mul(x, 2.0)
        return r

    with pytest.raises(errors.ParserTypeError, match=r"(?s)not a type.*pl.Scalar"):
        k(X, 3)


@pl.jit.inline
def ping(t):
    return pong(t)


@pl.jit.inline
def pong(t):
    return ping(t)


@pl.jit
def endless(x: pl.Tensor[[4, 16], pl.FP32]) -> pl.Tensor[[4, 16], pl.FP32]:
    with pl.at(level=pl.Level.CORE_GROUP):
        r = ping(x)
    return r


def test_helpers_that_expand_each_other_are_refused_in_few_lines() -> None:
    with pytest.raises(errors.ParserSyntaxError, match="expands itself") as caught:
        endless.compile()
    assert len(str(caught.value).splitlines()) < 30


@pl.jit
def two(
    x: pl.Tensor[[4, 16], pl.FP32],
    y: pl.Tensor[[4, 16], pl.FP32],
    out: pl.Out[pl.Tensor[[4, 16], pl.FP32]],
):
    with pl.at(level=pl.Level.CORE_GROUP):
        out[:] = pl.add(x, y)
    return out


def test_positions_fill_parameters_from_the_first_as_in_python() -> None:
    with pytest.raises(errors.ArgumentCountMismatch, match="expects 3"):
        two(X, X, X, x=X)
    with pytest.raises(errors.ArgumentCountMismatch, match="two values for parameter 'x'"):
        two(X, X, x=X)
    for call in (lambda: two(X, y=X, x=X), lambda: two(X, X, X, y=X), lambda: two(X, x=X, y=X)):
        with pytest.raises(errors.ArgumentCountMismatch):
            call()
    assert (two(X, y=X) == 2).all() and (two(y=X, x=X) == 2).all()
    assert (two(X, X, out=np.empty_like(X)) == 2).all()


@pytest.mark.parametrize("given", [{"out": X}, {"x": X, "out": X}, {"y": X, "out": X}])
def test_an_output_never_stands_for_an_input_that_is_not_given(given: dict[str, Any]) -> None:
    missing = "y" if "x" in given else "x"
    with pytest.raises(errors.ArgumentCountMismatch, match=f"nothing for parameter '{missing}'"):
        two(**given)


@pytest.mark.parametrize("dtype", [object, ">f4", "U4", "M8[s]", [("a", "f4")]])
def test_an_element_type_that_the_language_lacks_is_named(dtype: Any) -> None:
    @pl.jit
    def copy(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        return out

    array = np.zeros((4, 16), dtype)
    with pytest.raises(errors.DTypeMismatch) as raised:
        copy(array, X)
    assert f"argument 'x' has elements of type {array.dtype}" in str(raised.value)


def test_policies_are_checked_where_they_are_given() -> None:
    with pytest.raises(TypeError, match="a CacheConfig is accepted"):
        configure_cache("yes")  # type: ignore[arg-type]
    missing = CacheConfig(enabled=True, extra_source_paths=("/no/such/file",))
    with pytest.raises(ValueError, match="extra_source_paths: '/no/such/file' cannot be read"):
        using("pl.add(x, 1.0)").compile(X, config=RunConfig(cache_config=missing))
