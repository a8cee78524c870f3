"""Rows T-001 to T-059: what is traced, what runs in Python, and what a helper may return."""

from __future__ import annotations

import ast
import functools
import inspect
import math
import subprocess
import sys
import textwrap
import types
from collections.abc import Callable, Iterator
from math import ceil as host_ceil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright.nki as nki
import tilewright.nki.isa as nisa
import tilewright.nki.language as nl
from tilewright.frontend import calls
from tilewright.frontend.trace.ops import LANGUAGE
from tilewright.nki.trace import (
    CompileOpts,
    FunctionScope,
    TraceContext,
    TraceKernel,
    dont_trace,
    dont_trace_attr,
    get_cur_scope,
    nki_tensor,
)

X = np.arange(32, dtype=np.float32).reshape(4, 8)
RULE = "function without nki data as input should not return nki data"
FRESH = """
import tilewright.nki.language as nl

def fresh(n):
    return nl.full((4, n), 2.0, dtype=nl.float32)

class Maker:
    def __call__(self, n):
        return nl.full((4, n), 2.0, dtype=nl.float32)
"""
seen: list[Any] = []


@dont_trace
def note(*values: Any) -> None:
    seen.extend(values)


@dont_trace
def function_name() -> str:
    ctx = TraceContext.global_ctx
    assert ctx is not None
    return ctx.cur_function_scope().name


@pytest.fixture(autouse=True)
def forget() -> Iterator[None]:
    seen.clear()
    yield
    assert TraceContext.global_ctx is None


def fake_module(tmp_path: Path, name: str, text: str = FRESH) -> Any:
    """A module called `name`, from a file of its own, gone after the test's imports."""
    path = tmp_path / f"{name.replace('.', '_')}.py"
    path.write_text(textwrap.dedent(text))
    module = types.ModuleType(name)
    module.__file__ = str(path)
    sys.modules[name] = module
    exec(compile(path.read_text(), str(path), "exec"), module.__dict__)
    return module


def applied(body: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """What a kernel gives that stores `body(load(x), *args)`."""

    @nki.jit(**options)
    def kernel(x, *rest):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, value=body(nl.load(x), *rest))
        return out

    return kernel(X, *args)


# ---------------------------------------------------------------------------- the model


def test_the_body_builds_the_program_and_the_caller_gets_numbers() -> None:
    """T-001"""

    def body(t):
        note(isinstance(t, np.ndarray), hasattr(t, "tolist"), type(t).__name__)
        return t + 1.0

    assert np.array_equal(applied(body), X + 1)
    assert seen == [False, False, "LocalTensor"]


def test_the_body_is_walked_once_however_many_programs_run() -> None:
    """T-002"""

    @nki.jit
    def kernel(x):
        note("walked")
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        i = nl.program_id(0)
        nl.store(out[nl.ds(i, 1), :], nl.load(x[nl.ds(i, 1), :]) * 2.0)
        return out

    assert np.array_equal(kernel[4](X), 2 * X)
    assert np.array_equal(kernel[4](X), 2 * X)
    assert seen == ["walked"]


def test_calls_branches_loops_and_returns_are_decided_while_tracing() -> None:
    """T-003"""

    def helper(t, n):
        if n > 1:
            return t * 2.0
        return t

    @nki.jit
    def kernel(x, n):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        t = nl.load(x)
        for _ in range(2):
            t = helper(t, n)
        while n > 0:
            t = t + 1.0
            n -= 1
        nl.store(out, value=t)
        return out

    assert np.array_equal(kernel(X, 2), X * 4 + 2)
    text = kernel.lower(X, 2).as_python()
    assert not any(word in text for word in ("for ", "while", "if "))


def test_python_control_flow_is_specialized_away() -> None:
    """T-004, T-071"""

    @nki.jit
    def kernel(x, n):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        t = nl.load(x)
        if n > 2:
            t = nl.exp(t)
        nl.store(out, value=t)
        return out

    hot, cold = kernel.lower(X, 3).as_python(), kernel.lower(X, 1).as_python()
    assert "exp" in hot and "exp" not in cold
    for text in (hot, cold):
        nodes = list(ast.walk(ast.parse(text)))
        assert not any(isinstance(node, (ast.If, ast.While, ast.For)) for node in nodes)


def test_the_graph_prints_its_operations_in_order() -> None:
    """T-005"""

    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        t = nl.exp(nl.load(x))
        u = nl.tanh(t)
        nl.store(out, value=u)
        return out

    text = kernel.lower(X).as_python()
    ast.parse(text)
    assert text.index("load") < text.index("exp") < text.index("tanh") < text.index("store")


def test_every_call_site_goes_through_the_context(monkeypatch: pytest.MonkeyPatch) -> None:
    """T-006"""
    called: list[str] = []
    original = TraceContext.call

    def spy(self: TraceContext, func: Any, *args: Any, **kwargs: Any) -> Any:
        called.append(getattr(func, "__name__", ""))
        return original(self, func, *args, **kwargs)

    monkeypatch.setattr(TraceContext, "call", spy)

    def g(t):
        return t + 1.0

    def f(t):
        return t * 2.0

    def h(t):
        return t - 1.0

    def two():
        return 2

    def body(t):
        def inner(u, n=two()):  # noqa: B008
            return u * float(n)

        tiles = [h(each) for each in [f(g(t)), t]]
        return inner(tiles[0]) + tiles[1]

    assert np.array_equal(applied(body), ((X + 1) * 2 - 1) * 2 + X - 1)
    for name, times in (("f", 1), ("g", 1), ("h", 2), ("two", 1), ("inner", 1)):
        assert called.count(name) == times, name


def test_four_gates_draw_the_boundary() -> None:
    """T-007"""
    ctx = TraceContext(CompileOpts())

    def plain() -> None: ...

    @dont_trace
    def marked() -> None: ...

    routes = {
        nl.add: calls.emit,
        marked: calls.run,
        nki.jit(plain): calls.recurse,
        math.ceil: calls.run,
    }
    for func, route in routes.items():
        assert next(route for gate, route in calls.GATES if gate(ctx, func)) is route
    assert not any(gate(ctx, plain) for gate, _ in calls.GATES)


def test_a_helper_of_another_module_is_inlined(tmp_path: Path) -> None:
    """T-008"""
    text = """
    def twice(t, probe):
        probe()
        return t + t
    """
    twice = fake_module(tmp_path, "user_helpers", text).twice

    @dont_trace
    def probe() -> None:
        scope = get_cur_scope()
        note((type(scope), scope.name))

    assert np.array_equal(applied(lambda t: twice(t, probe)), 2 * X)
    assert seen == [(FunctionScope, "twice")]


def test_kernel_body_effects_happen_once_while_tracing(capsys: pytest.CaptureFixture[str]) -> None:
    """T-010"""

    @nki.jit
    def kernel(x):
        print("tracing")
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, value=nl.load(x))
        return out

    kernel[2](X)
    kernel[2](X)
    assert capsys.readouterr().out.count("tracing") == 1


# ---------------------------------------------------------------------------- nki data


def test_tensors_and_tile_masks_are_nki_data_and_nothing_else_is() -> None:
    """T-012, T-013, T-014"""
    found: dict[str, bool] = {}

    @dont_trace
    def classify(**values: Any) -> None:
        found.update({name: TraceContext.is_nki_data(value) for name, value in values.items()})

    def body(t):
        i = nl.arange(8)[None, :]
        p = nl.program_id(0)
        classify(
            tile=t,
            view=t[0:2],
            less=i < 5,
            equal=i == 5,
            number=3,
            real=1.5,
            flag=True,
            text="a",
            none=None,
            array=np.zeros(3),
            shape=t.shape,
            items=[t],
            pid=p,
            index=i,
            predicate=p < 4,
        )
        return t

    applied(body)
    assert {name for name, is_data in found.items() if is_data} == {"tile", "view", "less", "equal"}
    assert len(found) == 15


def test_the_classifier_counts_subclasses_and_needs_no_trace() -> None:
    """T-015, T-016"""

    class Special(nki_tensor):
        pass

    assert TraceContext.is_nki_data(Special.__new__(Special))
    assert not TraceContext.is_nki_data(3)
    assert isinstance(vars(TraceContext)["is_nki_data"], staticmethod)


# ---------------------------------------------------------------------------- excluded modules


def test_exactly_four_modules_are_excluded() -> None:
    """T-018"""
    modules = TraceContext._exclude_modules()
    assert [m.__name__ for m in modules] == ["tilewright.nki", "tilewright.ir", "numpy", "math"]
    assert isinstance(vars(TraceContext)["_exclude_modules"], staticmethod)


def test_the_excluded_modules_are_imported_when_asked_for() -> None:
    """T-019"""
    code = (
        "import tilewright.frontend.trace.context as t, sys; "
        "assert 'tilewright.nki' not in sys.modules; print(len(t.TraceContext._exclude_modules()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "4"


def test_library_functions_fold_to_constants() -> None:
    """T-020, T-023, T-026"""

    def body(t):
        half = math.ceil(t.shape[1] / 3)
        weight = float(np.array([1.0, 2.0, 3.0]).sum()) + float(np.ceil(0.5)) + float(np.sum([1.0]))
        note(type(half), half, host_ceil(2.5))
        return t * (weight + float(half))

    assert np.array_equal(applied(body), X * 11)
    assert seen == [int, 3, 3]


def test_submodules_are_excluded_and_lookalikes_are_not(tmp_path: Path) -> None:
    """T-021, T-022"""
    inside = fake_module(tmp_path, "numpy.tw_fake").fresh
    beside = fake_module(tmp_path, "numpyish").fresh
    assert np.array_equal(applied(lambda t: t + inside(8)), X + 2)
    with pytest.raises(AssertionError, match=RULE):
        applied(lambda t: t + beside(8))


@pytest.mark.parametrize("name", ["tilewright.nkish", "tilewright.kernels", "mathematics.math"])
def test_a_name_that_begins_alike_is_the_authors(tmp_path: Path, name: str) -> None:
    """T-022"""
    module = fake_module(tmp_path, name)
    with pytest.raises(AssertionError, match=RULE):
        applied(lambda t: t + module.fresh(8))
    with pytest.raises(AssertionError, match=RULE):
        applied(lambda t: t + module.Maker()(8))


def test_methods_are_no_plain_functions_wherever_their_class_is(tmp_path: Path) -> None:
    """T-041"""
    text = """
    import tilewright.nki.language as nl

    class Maker:
        def made(self, n):
            return nl.full((4, n), 2.0, dtype=nl.float32)

        @staticmethod
        def plain(n):
            return nl.full((4, n), 2.0, dtype=nl.float32)
    """
    maker = fake_module(tmp_path, "numpy.tw_methods", text).Maker()
    assert np.array_equal(applied(lambda t: t + maker.plain(8)), X + 2)
    with pytest.raises(AssertionError, match=RULE):
        applied(lambda t: t + maker.made(8))
    assert np.array_equal(applied(lambda t: t + np.poly1d([1.0, 2.0]).deriv()(5.0)), X + 1)


def test_functions_of_the_engine_are_never_traced_again() -> None:
    """T-024"""

    def body(t):
        note(nl.sizeinbytes(nl.float32), function_name())
        return t.reshape((4, 2, 4)).reshape((4, 8))

    assert np.array_equal(applied(body), X)
    assert seen == [4, "body"]


def test_the_defining_module_counts_not_the_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """T-025, T-026, T-028"""

    def ceil(t):
        note(function_name())
        return t + 0.5

    monkeypatch.setattr(np, "my_ceil", ceil, raising=False)

    def body(t):
        return np.my_ceil(ceil(t)) * float(math.ceil(1.2))  # type: ignore[attr-defined]

    assert np.array_equal(applied(body), (X + 1) * 2)
    assert seen == ["ceil", "ceil"]


def test_callables_without_a_module_or_source_run_in_python() -> None:
    """T-027, T-050"""

    def body(t):
        parts: list[Any] = []
        parts.append(t)
        parts.extend([parts[0] + 1.0])
        n = max(len(parts), min(7, 1))
        assert isinstance(n, int)
        scaled = functools.partial(nl.multiply, parts[-1])
        return scaled(float(n)) + float(sum([1, 2]))

    assert np.array_equal(applied(body), (X + 1) * 2 + 3)


# ---------------------------------------------------------------------------- dont_trace


def test_dont_trace_marks_the_same_function_in_both_forms() -> None:
    """T-029, T-030, T-031, T-034"""

    def f(n: int) -> int:
        return n + 1

    def g(n: int) -> int:
        return n + 2

    assert dont_trace(f) is f and dont_trace()(g) is g and dont_trace(func=None)(g) is g
    assert f.__nki_dont_trace__ is True and g.__nki_dont_trace__ is True
    assert (f(1), g(1)) == (2, 3)
    assert (dont_trace.__doc__ or "").strip() == (
        "Decorator to mark a function as not being traced by NKI."
    )
    assert dont_trace_attr == "__nki_dont_trace__"


def test_the_marker_is_read_by_its_truth() -> None:
    """T-032"""

    def helper(t):
        note(function_name())
        return t

    helper.__nki_dont_trace__ = False  # type: ignore[attr-defined]
    applied(lambda t: helper(t))
    helper.__nki_dont_trace__ = True  # type: ignore[attr-defined]
    applied(lambda t: helper(t))
    assert seen == ["helper", "<lambda>"]


def test_a_marked_function_runs_with_the_real_objects() -> None:
    """T-033"""

    @dont_trace
    def plan(shape: tuple[int, ...]) -> tuple[int, ...]:
        sizes: dict[str, int] = {}

        def count() -> Iterator[int]:
            yield from shape

        try:
            raise KeyError
        except KeyError:
            sizes["rows"] = next(count())
        return sizes["rows"], shape[1]

    def body(t):
        rows, columns = plan(t.shape)
        return t * float(rows) + float(columns)

    assert np.array_equal(applied(body), X * 4 + 8)


def test_operations_in_a_marked_function_reach_the_trace() -> None:
    """T-035, T-038"""

    @dont_trace
    def conjure(n: int) -> Any:
        return nl.full((4, n), 2.0, dtype=nl.float32)

    assert np.array_equal(applied(lambda t: nl.add(t, conjure(8))), X + 2)


# ---------------------------------------------------------------------------- the gates


def test_language_functions_carry_the_marker_of_the_first_gate() -> None:
    """T-036"""
    assert nisa.tensor_copy in LANGUAGE.values()
    assert len(LANGUAGE) > 130
    assert all(hasattr(func, "nki_func") for func in LANGUAGE.values())


def test_presence_of_the_marker_counts_not_its_value() -> None:
    """T-037"""

    def odd(t):
        return t + 1.0

    for mark in (None, False, True, "op"):
        odd.nki_func = mark  # type: ignore[attr-defined]
        assert np.array_equal(applied(lambda t: odd(t)), X + 1)


def test_the_builder_gets_the_arguments_unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    """T-036, T-047"""
    from tilewright.frontend.trace.sema import Sema

    original = Sema.dispatch

    def spy(self: Sema, func: Any, *args: Any, **kwargs: Any) -> Any:
        note((func, len(args), sorted(kwargs)))
        return original(self, func, *args, **kwargs)

    monkeypatch.setattr(Sema, "dispatch", spy)
    applied(lambda t: nl.add(t, 1.0, mask=None))
    assert (nl.add, 2, ["mask"]) in seen


def test_arguments_may_be_called_as_the_engine_calls_its_own() -> None:
    """T-047"""

    def helper(t, func, *, self, ctx, args=(), kwargs=None):
        return func(t) * self + ctx

    @nki.jit
    def inner(t, func, ctx):
        return func(t) + ctx

    def body(t):
        t = helper(t, func=nl.square, self=2.0, ctx=1.0, kwargs={})
        return inner(t, func=nl.negative, ctx=3.0)

    assert np.array_equal(applied(body), 3 - (X**2 * 2 + 1))


class Private:
    __scale = 3.0

    def __init__(self) -> None:
        self.__offset = 1.0

    def __shifted(self, t):
        return t + self.__offset

    def run(self, t):
        __twice = 2.0

        def inner(u):
            return self.__shifted(u) * __twice

        return inner(t) * self.__scale


class _Derived(Private):
    def __shifted(self, t):
        return t

    def both(self, t):
        return self.run(t) + self.__shifted(t)


def test_private_names_are_those_of_their_class() -> None:
    """T-042"""

    class Local:
        def __init__(self) -> None:
            self.__factor = 2.0

        def __call__(self, t):
            return (lambda u: u * self.__factor)(t)

        @nki.jit
        def kernel(self, x):
            out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
            nl.store(out, value=nl.load(x) * self.__factor)
            return out

    assert np.array_equal(applied(Private().run), (X + 1) * 6)
    assert np.array_equal(applied(_Derived().both), (X + 1) * 6 + X)
    assert np.array_equal(applied(Local()), X * 2)
    assert np.array_equal(Local().kernel(X), X * 2)


def test_a_nested_kernel_joins_the_trace() -> None:
    """T-039, T-040, T-107"""

    @nki.jit
    def inner(t):
        note(id(TraceContext.global_ctx))
        return t * 2.0

    @nki.jit
    def make(n):
        return nl.full((4, n), 1.0, dtype=nl.float32)

    def body(t):
        note(id(TraceContext.global_ctx))
        return inner(t) + make(8)

    assert isinstance(inner, TraceKernel)
    assert np.array_equal(applied(body), 2 * X + 1)
    assert len(set(seen)) == 1 and len(seen) == 2


def test_a_whole_kernel_is_part_of_another() -> None:
    """T-039: its outputs are tensors in HBM, made at the level of the kernel."""

    @nki.jit
    def double(a):
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.load(a) * 2.0)
        return out

    @nki.jit
    def both(a):
        first = double(a)
        return first, double(first)

    @nki.jit
    def looped(a):
        for _ in nl.affine_range(2):
            double(a)
        return a

    once, twice = both(X)
    assert np.array_equal(once, 2 * X) and np.array_equal(twice, 4 * X)
    with pytest.raises(RuntimeError, match="shared_hbm"):
        looped(X)


@pytest.mark.parametrize("function", [math.sqrt, np.linalg.norm, np.array])
def test_builtins_and_functions_of_libraries_run_in_python(function: Any) -> None:
    """T-041"""
    ctx = TraceContext(CompileOpts())
    route = next(route for gate, route in calls.GATES if gate(ctx, function))
    assert route is calls.run


def test_a_helper_runs_in_a_scope_of_its_own() -> None:
    """T-042, T-099"""

    def helper(t):
        note(function_name())
        return t

    def body(t):
        t = helper(t)
        note(function_name())
        return t

    applied(body)
    assert seen == ["helper", "body"]


def test_an_operation_marked_dont_trace_is_still_traced() -> None:
    """T-043"""

    def loud(t):
        raise RuntimeError("ran although it carries nki_func")

    loud.nki_func = nl.exp.nki_func  # type: ignore[attr-defined]
    loud.__nki_dont_trace__ = True  # type: ignore[attr-defined]
    assert np.allclose(applied(lambda t: loud(t * 0.0)), 1.0)


def test_callable_objects_skip_the_module_gate(tmp_path: Path) -> None:
    """T-044"""
    maker = fake_module(tmp_path, "numpy.tw_fake2").Maker()
    with pytest.raises(AssertionError, match=RULE):
        applied(lambda t: t + maker(8))


def test_a_marked_kernel_is_a_launch_of_its_own() -> None:
    """T-045"""

    @nki.jit
    def inner(t):
        return t

    inner.__nki_dont_trace__ = True  # type: ignore[attr-defined]
    with pytest.raises(RuntimeError, match="cannot be launched while another is traced"):
        applied(lambda t: inner(t))


def test_a_kernel_of_an_excluded_module_is_traced(tmp_path: Path) -> None:
    """T-046"""
    text = """
    import tilewright.nki as nki

    @nki.jit
    def inner(t, probe):
        probe()
        return t * 3.0
    """
    inner = fake_module(tmp_path, "numpy.tw_kernels", text).inner
    probe = dont_trace(lambda: note(function_name()))
    assert np.array_equal(applied(lambda t: inner(t, probe)), 3 * X)
    assert seen == ["inner"]


def test_arguments_pass_every_gate_unchanged() -> None:
    """T-047"""

    @dont_trace
    def live(a: int, *, b: int = 0) -> float:
        return float(a + b)

    def helper(t, *, scale):
        return t * scale

    assert np.array_equal(applied(lambda t: helper(t, scale=live(1, b=2))), X * 3)


# ---------------------------------------------------------------------------- return consistency


def make(n):
    return nl.zeros((4, n), dtype=nl.float32)


def test_data_must_not_originate_in_a_helper() -> None:
    """T-051, T-052"""
    with pytest.raises(AssertionError, match=RULE) as caught:
        applied(lambda t: t + make(8))
    assert type(caught.value) is AssertionError
    relaxed = applied(lambda t: t + make(8), check_return_consistency=False)
    assert np.array_equal(relaxed, X)


def test_the_check_is_a_plain_assertion(tmp_path: Path) -> None:
    """T-053"""
    script = tmp_path / "kernel.py"
    script.write_text(
        textwrap.dedent("""
        import numpy as np
        import tilewright.nki as nki, tilewright.nki.language as nl

        def make(n):
            return nl.ones((4, n), dtype=nl.float32)

        @nki.jit
        def kernel(x):
            out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
            nl.store(out, value=nl.load(x) + make(8))
            return out

        print(float(kernel(np.zeros((4, 8), np.float32))[0, 0]))
        """)
    )
    done = subprocess.run([sys.executable, "-O", str(script)], capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip()) == (0, "1.0"), done.stderr


def test_arguments_are_searched_by_position_and_keyword_not_inside_containers() -> None:
    """T-054, T-055"""

    def through(n, t=None):
        return t + float(n)

    def shape_of(t):
        return t.shape[1]

    def of_list(items):
        return items[0] + 1.0

    assert np.array_equal(applied(lambda t: through(1, t) + through(1, t=t)), 2 * X + 2)
    assert np.array_equal(applied(lambda t: t * float(shape_of(t))), X * 8)
    with pytest.raises(AssertionError, match=RULE):
        applied(lambda t: of_list([t]))


def test_containers_of_tensors_are_not_data_and_masks_are() -> None:
    """T-056, T-057"""

    def make2(n):
        return nl.zeros((4, n), dtype=nl.float32), nl.ones((4, n), dtype=nl.float32)

    def mask_of(n):
        return nl.arange(8)[None, :] < n

    assert np.array_equal(applied(lambda t: t + make2(8)[1]), X + 1)
    with pytest.raises(AssertionError, match=RULE):
        applied(lambda t: nl.add(t, 1.0, mask=mask_of(5)))


def test_the_rule_is_documented_where_it_is_checked() -> None:
    """T-059"""
    assert "never originate" in (inspect.getdoc(calls.require_consistent) or "")
