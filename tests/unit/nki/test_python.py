"""Kernel bodies are Python: its statements and expressions keep their meaning."""

from __future__ import annotations

import bdb
import contextlib
import dataclasses
import functools
import linecache
import math
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

import tilewright.nki as nki
import tilewright.nki.language as nl
from tilewright.errors import TilewrightError

X = np.arange(32, dtype=np.float32).reshape(4, 8)
COUNT = 0


def applied(body: Any, *args: Any) -> Any:
    """What a kernel gives that stores `body(load(x), *args)`."""

    @nki.jit
    def kernel(x, *rest):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, value=body(nl.load(x), *rest))
        return out

    return kernel(X, *args)


def assignments(t):
    a, (b, *c) = 1.0, (2.0, 3.0, 4.0)
    first = second = t + a
    box = {"n": 0.0}
    box["n"] += b
    [u, v] = [first * box["n"], second]
    del second
    return u + v + sum(c) + (n := len(c)) + n


def functions(t):
    total = 0.0

    def add(n, *more, scale=2.0, **rest):
        nonlocal total
        total += n * scale + sum(more) + sum(rest.values())
        return total

    add(1.0, 2.0, scale=3.0, extra=4.0)
    add(*[1.0], **dict(scale=1.0))  # noqa: C408
    square = lambda z, k=t: z * z + k * 0.0  # noqa: E731
    return square(t) + total


def generators(t):
    def rows() -> Iterator[Any]:
        for i in range(2):
            yield t * float(i + 1)

    def nothing() -> Iterator[Any]:
        yield from ()

    return functools.reduce(lambda a, b: a + b, [*rows(), *nothing()])


def comprehensions(t):
    table = {i: t + float(i) for i in range(4) if i % 2}
    pairs = [(i, j) for i in range(2) for j in range(i + 1)]
    chosen = sorted(table.items(), key=lambda item: -item[0])
    return chosen[0][1] + float(len(pairs)) + float(max({len(p) for p in pairs}))


def exceptions(t):
    log: list[str] = []
    try:
        try:
            raise KeyError("x")
        except (KeyError, ValueError) as error:
            log.append(str(error))
            t = t + 1.0
        else:
            t = t * 100.0
        finally:
            log.append("done")
    finally:
        t = t + float(len(log))
    return t


@contextlib.contextmanager
def doubled(values: list[Any]) -> Iterator[list[Any]]:
    values.append(2.0)
    yield values
    values.append(3.0)


def managers(t):
    values: list[Any] = []
    with doubled(values) as inside, contextlib.suppress(ZeroDivisionError):
        t = t * inside[0]
        values[0] / 0
    return t + float(len(values))


def formats(t):
    name = f"{t.shape[0]:>3}-{'a' if t.ndim == 2 else 'b'}"
    assert name == "  4-a", f"unexpected {name!r}"
    return t + float(len(name))


def matches(t, mode):
    match mode:
        case {"scale": scale}:
            return t * scale
        case (a, b):
            return t + a + b
        case _:
            return t


def classes(t):
    class Pair:
        def __init__(self, left: Any, right: Any) -> None:
            self.left = left
            self.right = right

        def __add__(self, other: Any) -> Any:
            return Pair(self.left + other, self.right)

    pair = Pair(t, 2.0) + 1.0
    pair.right *= 2.0
    return pair.left * pair.right


def recursion(t, depth):
    return t if depth == 0 else recursion(t + 1.0, depth - 1)


def globals_too(t):
    global COUNT
    COUNT += 1
    return t + float("COUNT" in globals()) + float("t" in locals())


def conditions(t):
    flags = [0 < t.shape[0] <= 4 < 5, 3 not in (1, 2), t is not None, not [], (t.ndim or 5) == 2]
    return t + float(sum(flags)) + (1.0 if all(flags) and True else 0.0)


CASES: list[tuple[Any, tuple[Any, ...], Any]] = [
    (assignments, (), (X + 1) * 2 + (X + 1) + 7 + 2 + 2),
    (functions, (), X * X + 9 + 1),
    (generators, (), 3 * X),
    (comprehensions, (), X + 3 + 3 + 2),
    (exceptions, (), X + 3),
    (managers, (), X * 2 + 2),
    (formats, (), X + 5),
    (matches, ((1.0, 2.0),), X + 3),
    (classes, (), (X + 1) * 4),
    (recursion, (3,), X + 3),
    (globals_too, (), X + 2),
    (conditions, (), X + 6),
]


@pytest.mark.parametrize(("body", "args", "want"), CASES, ids=[c[0].__name__ for c in CASES])
def test_python_keeps_its_meaning(body: Any, args: tuple[Any, ...], want: Any) -> None:
    assert np.array_equal(applied(body, *args), want)


def test_annotations_in_the_body_are_there_to_be_read() -> None:
    read: list[Any] = []

    def body(t):
        @dataclasses.dataclass
        class Point:
            x: float
            y: list[float] = dataclasses.field(default_factory=list)

        class Pair(NamedTuple):
            first: float
            second: float = 2.0

        @functools.singledispatch
        def scaled(n):
            return n

        @scaled.register
        def _(n: int):
            return n * 3.0

        read.append((repr(Point(1.0)), Pair(1.0), scaled.__qualname__))
        return t + Point(1.0).x + Pair(1.0).second + scaled(1)

    assert np.array_equal(applied(body), X + 6)
    here = "test_annotations_in_the_body_are_there_to_be_read.<locals>.body.<locals>."
    assert read == [(f"{here}Point(x=1.0, y=[])", (1.0, 2.0), f"{here}scaled")]


def test_a_kernel_of_a_class_and_with_defaults() -> None:
    class Model:
        scale = 2.0

        def run(self, t):
            return t * self.scale

        @staticmethod
        def shift(t, by=1.0):
            return t + by

        @classmethod
        def twice(cls, t):
            return t * cls.scale

    model = Model()
    got = applied(lambda t: model.twice(model.shift(model.run(t))))
    assert np.array_equal(got, (X * 2 + 1) * 2)


def test_two_lambdas_of_one_line_are_told_apart() -> None:
    f, g = (lambda t: t + 1.0), (lambda t: t * 2.0)
    assert np.array_equal(applied(lambda t: g(f(t))), (X + 1) * 2)


def test_errors_of_the_author_are_not_wrapped() -> None:
    def body(t):
        return {}["missing"]

    with pytest.raises(KeyError, match="missing"):
        applied(body)


def test_a_traceback_shows_the_line_of_the_author() -> None:
    def body(t):
        raise ValueError("here")

    with pytest.raises(ValueError) as caught:
        applied(body)
    assert caught.traceback[-1].lineno == body.__code__.co_firstlineno
    assert str(caught.traceback[-1].path) == __file__


def test_breakpoint_stops_in_the_authors_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    stopped: list[tuple[str, int, list[str]]] = []

    def hook() -> None:
        frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
        stopped.append((frame.f_code.co_filename, frame.f_lineno, sorted(frame.f_locals)))

    monkeypatch.setattr(sys, "breakpointhook", hook)

    @nki.dont_trace
    def outside(n):
        breakpoint()
        return n + 1

    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        tile = nl.load(x)
        breakpoint()
        nl.store(out, tile * outside(1))
        return out

    x = np.ones((4, 8), np.float32)
    assert np.array_equal(kernel(x), 2 * x)
    first = kernel.function.__code__.co_firstlineno
    assert [name for name, *_ in stopped] == [__file__] * 2
    assert stopped[0][1] == first + 4
    assert {"out", "tile", "x"} <= set(stopped[0][2]) and "n" in stopped[1][2]


def test_the_simulator_stops_at_every_iteration_with_numbers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stopped: list[tuple[str, str, int, dict[str, Any]]] = []

    def hook() -> None:
        frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
        names = {k: np.copy(v) for k, v in frame.f_locals.items() if not callable(v)}
        code = frame.f_code
        stopped.append((code.co_filename, code.co_name, frame.f_lineno, names))

    monkeypatch.setattr(sys, "breakpointhook", hook)

    def helper(t, by):
        breakpoint()
        return t * by

    @nki.jit
    def kernel(x, by):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        total = nl.zeros((2, 8), dtype=x.dtype)
        breakpoint()
        for i in nl.sequential_range(2):
            tile = nl.load(x[nl.ds(2 * i, 2)])
            breakpoint()
            total[...] = nl.add(total, helper(tile, by))
            nl.store(out[nl.ds(2 * i, 2)], total)
        return out

    want = np.cumsum(3.0 * X.reshape(2, 2, 8), axis=0).reshape(4, 8)
    assert np.array_equal(nki.simulate_kernel(kernel, X, 3.0), want)
    first = kernel.function.__code__.co_firstlineno
    assert [name for name, *_ in stopped] == [__file__] * 5
    assert [called for _, called, *_ in stopped] == ["kernel", *["kernel", "helper"] * 2]
    assert [line - first for _, called, line, _ in stopped if called == "kernel"] == [4, 7, 7]
    start, one, in_helper, two, _ = (names for *_, names in stopped)
    assert np.array_equal(start["total"], np.zeros((2, 8))) and start["by"] == 3.0
    assert (one["i"], two["i"]) == (0, 1)
    assert np.array_equal(one["tile"], X[:2]) and np.array_equal(two["tile"], X[2:])
    assert np.array_equal(two["total"], 3 * X[:2]) and np.array_equal(two["x"], X)
    assert np.array_equal(in_helper["t"], X[:2]) and in_helper["by"] == 3.0


def test_the_simulator_shows_views_as_their_elements(monkeypatch: pytest.MonkeyPatch) -> None:
    stopped: list[dict[str, Any]] = []

    def hook() -> None:
        names = sys._getframe(1).f_locals  # pyright: ignore[reportPrivateUsage]
        shown = ("rows", "part", "edge", "turned", "one")
        stopped.append({name: np.copy(names[name]) for name in shown})

    monkeypatch.setattr(sys, "breakpointhook", hook)

    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        tile = nl.load(x)
        for i in nl.sequential_range(2):
            p, f = nl.arange(3)[:, None], nl.arange(8)[None, :]
            rows = x[nl.ds(2 * i, 2)]
            part = tile[0:3, nl.ds(4 * i, 4)]
            edge = x[2 * i + p, f]
            turned = tile.reshape((4, 2, 4))[:, i]
            one = x[i, 3:4]
            breakpoint()
            del rows, part, edge, turned, one
            nl.store(out[nl.ds(2 * i, 2)], tile[nl.ds(2 * i, 2)])
        return out

    assert np.array_equal(nki.simulate_kernel(kernel, X), X)
    padded = np.concatenate([X, np.zeros((1, 8))])
    for i, shown in enumerate(stopped):
        assert np.array_equal(shown["rows"], X[2 * i : 2 * i + 2])
        assert np.array_equal(shown["part"], X[:3, 4 * i : 4 * i + 4])
        assert np.array_equal(shown["edge"], padded[2 * i : 2 * i + 3])
        assert np.array_equal(shown["turned"], X.reshape(4, 2, 4)[:, i])
        assert np.array_equal(shown["one"].ravel(), X[i, 3:4])
    assert len(stopped) == 2


def test_leaving_the_debugger_leaves_the_simulator(monkeypatch: pytest.MonkeyPatch) -> None:
    def quit_at_once() -> None:
        raise bdb.BdbQuit

    monkeypatch.setattr(sys, "breakpointhook", quit_at_once)

    @nki.jit
    def kernel(x):
        breakpoint()
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.load(x))
        return out

    with pytest.raises(bdb.BdbQuit):
        nki.simulate_kernel(kernel, X)


def traced_note(body: Any, kind: type[Exception]) -> str:
    """The note of the exception that tracing `body` raises."""

    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, body(nl.load(x)))
        return out

    with pytest.raises(kind) as caught:
        kernel(X)
    return "\n".join(getattr(caught.value, "__notes__", ()))


@pytest.mark.skipif(sys.version_info < (3, 11), reason="exceptions take notes since 3.11")
def test_an_expression_of_several_lines_is_shown_from_its_first() -> None:
    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(  # here
            out,
            nl.zeros((4, 4), nl.float32),
        )
        return out

    with pytest.raises(TilewrightError) as caught:
        kernel(X)
    span = caught.value.span
    assert span is not None and linecache.getline(__file__, span.line).strip().endswith("# here")


def test_the_return_that_ran_is_where_results_are_refused() -> None:
    @nki.jit
    def kernel(x, early):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.load(x))
        if early:
            return out, 3  # early
        return (  # late
            out,
            early,
        )

    for early, place in ((True, "# early"), (False, "# late")):
        with pytest.raises(TilewrightError, match="Returning value from top level") as caught:
            kernel(X, early)
        span = caught.value.span
        assert span is not None and linecache.getline(__file__, span.line).strip().endswith(place)


def test_exceptions_of_python_say_where_the_author_was() -> None:
    def endless(t, n):
        return endless(t + 1.0, n)

    def first(t):
        return [1.0, 2.0][nl.program_id(0)]  # type: ignore[call-overload]

    note = traced_note(lambda t: nl.sum(t), TypeError)  # type: ignore[call-arg]
    assert "nl.sum(t)" in note and "^^^^^^^^^" in note and f"{__file__}:" in note
    assert "[1.0, 2.0][nl.program_id(0)]" in traced_note(first, TypeError)
    missing: Any = lambda t: nl.exponent(t)  # type: ignore[attr-defined]  # noqa: E731
    assert "nl.exponent" in traced_note(missing, AttributeError)
    assert traced_note(lambda t: endless(t, 1), RecursionError).count("called from here") == 15


def test_functions_of_numpy_are_the_operations_of_that_name() -> None:
    def body(t):
        total = np.exp(t * 0.1) + np.maximum(t, np.float32(3)) + np.float32(2) * t
        return np.add(total, 1.0) + np.absolute(t)

    want = np.exp(X * 0.1) + np.maximum(X, 3) + 2 * X + 1 + np.abs(X)
    np.testing.assert_allclose(applied(body), want, rtol=1e-5)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (lambda t: np.add.reduce(t), "np.add: operand 'x' is a tensor"),
        (lambda t: np.ones(8) + t, "np.add: operand 'x' is a tensor"),
        (lambda t: np.frexp(t), "np.frexp: operand 'x' is a tensor"),
        (lambda t: math.exp(t), "must be known while the kernel is traced, got tensor"),
        (lambda t: int(t), "must be known while the kernel is traced, got tensor"),
    ],
)
def test_tensors_have_no_values_for_host_code(body: Any, message: str) -> None:
    with pytest.raises(TilewrightError) as caught:
        applied(body)
    assert message in caught.value.message
    assert caught.value.span is not None and caught.value.span.file == __file__


def test_refusals_that_no_statement_causes_point_at_the_definition() -> None:
    def returns_tile(x):
        nl.load(x)
        return nl.load(x)

    def writes_nothing(x):
        nl.load(x)
        return nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)

    def takes_list(x, items):
        return x

    places: dict[str, int | None] = {}
    for function, more in ((returns_tile, ()), (writes_nothing, ()), (takes_list, ([1],))):
        with pytest.raises(TilewrightError) as caught:
            nki.jit(function)(X, *more)
        span = caught.value.span
        first = function.__code__.co_firstlineno
        places[function.__name__] = None if span is None else span.line - first
    assert places == {"returns_tile": 2, "writes_nothing": 2, "takes_list": 0}


def test_a_range_outside_of_loops_is_numbers_even_where_loops_are_of_the_device() -> None:
    seen: list[Any] = []

    @nki.jit(builtin_range="sequential")
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        tiles = [nl.load(x[i : i + 1]) for i in range(4)]
        first, *rest = (tile * float(i) for i, tile in zip(range(4), tiles))
        seen.extend([list(range(3)), [*reversed(range(3))], len(range(2, 9, 3)), range(5)[-1]])
        total = nl.zeros((1, 8), dtype=x.dtype)
        for i, tile in enumerate([first, *rest]):
            total[...] = total + tile * float(i)
        for i in range(4):
            seen.append(type(i).__name__)
            nl.store(out[nl.ds(i, 1)], total)
        return out

    want = sum(i * i * X[i] for i in range(4))
    np.testing.assert_allclose(kernel(X), np.broadcast_to(want, X.shape))
    assert seen == [[0, 1, 2], [2, 1, 0], 3, 4, "LoopVar"]
