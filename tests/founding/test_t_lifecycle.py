"""Rows T-080 to T-124 and R-001 to R-021: scopes, the cell, returns, names, types, grids."""

from __future__ import annotations

import inspect
import subprocess
import sys
import threading
import types
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import tilewright.nki as nki
import tilewright.nki.language as nl
import tilewright.nki.trace as trace
import tilewright.nki.typing as nt
from tilewright.errors import TilewrightError
from tilewright.nki.trace import (
    AlwaysFalsePredicate,
    AlwaysTruePredicate,
    CompileOpts,
    DataTile,
    DynamicScalar,
    EQScalarPredicate,
    EQTileMask,
    FunctionScope,
    KernelScope,
    KernelTensor,
    LocalTensor,
    LoopScope,
    LoopVar,
    ProgramId,
    ScalarPredicate,
    ScalarPredicateIntersection,
    ScalarPredicateUnion,
    TileIndex,
    TileMask,
    TileMaskIntersection,
    TraceContext,
    dont_trace,
    get_cur_scope,
    grid_has_multi_physical_cores,
    mask,
    nki_ctx,
    nki_ctx_or_none,
    nki_tensor,
)

X = np.arange(32, dtype=np.float32).reshape(4, 8)
OUTSIDE = "calling NKI API outside of NKI kernels is not supported."
seen: list[Any] = []


@dont_trace
def note(*values: Any) -> None:
    seen.extend(values)


@dont_trace
def context() -> TraceContext:
    ctx = TraceContext.global_ctx
    assert ctx is not None
    return ctx


@pytest.fixture(autouse=True)
def forget() -> Iterator[None]:
    seen.clear()
    yield
    assert TraceContext.global_ctx is None


def applied(body: Callable[..., Any], *args: Any, grid: Any = (), **options: Any) -> Any:
    """What a kernel gives that stores `body(load(x), *args)`."""

    @nki.jit(**options)
    def kernel(x, *rest):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, value=body(nl.load(x), *rest))
        return out

    return kernel[grid](X, *args) if grid else kernel(X, *args)


def refused(body: Callable[..., Any], *args: Any, **options: Any) -> TilewrightError:
    with pytest.raises(TilewrightError) as caught:
        applied(body, *args, **options)
    return caught.value


# ---------------------------------------------------------------------------- scopes


def chain() -> list[type]:
    scopes, scope = [], context().cur_scope
    while scope is not None:
        scopes.append(type(scope))
        scope = scope.parent_scope
    return scopes


chain.__nki_dont_trace__ = True  # type: ignore[attr-defined]


def test_the_chain_of_scopes_ends_in_one_kernel_scope() -> None:
    """T-080, R-004"""

    def helper(t):
        for i in nl.sequential_range(2):
            note(chain())
            t[...] = t + i
        return t

    def body(t):
        note(chain())
        return helper(t)

    applied(body)
    (outer, inner) = seen
    assert outer == [FunctionScope, KernelScope]
    assert inner == [LoopScope, FunctionScope, FunctionScope, KernelScope]


def test_tensors_live_in_the_scope_that_made_them() -> None:
    """T-081, T-112"""
    leaked: list[Any] = []

    def helper(t):
        mine = t + 1.0
        note(mine.root.scope.name)
        leaked.append(mine)
        return t * 2.0

    def body(t):
        u = helper(t)
        note(u.root.scope.name)
        return leaked[0]

    error = refused(body)
    assert seen == ["helper", "body"]
    assert error.code == "err_local_variable_used_out_of_scope"


def test_a_fresh_context_has_its_state() -> None:
    """T-082, T-083, T-084, T-085, T-086, T-087, T-088"""
    opts = CompileOpts()
    ctx = TraceContext(opts)
    assert ctx.opts is opts and ctx.type_system is not None
    assert ctx.cur_scope is ctx.kernel_scope and ctx.function_scope is not None
    assert ctx.cur_api is None
    assert ctx.has_collectives is False and ctx.in_exception_block is False
    assert ctx.multi_physical_cores is False
    assert TraceContext(CompileOpts(grid=(2, nl.nc(2)))).multi_physical_cores is True
    assert not grid_has_multi_physical_cores((2, nl.nc(1)))


def test_a_collective_is_noticed() -> None:
    """T-086"""

    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        i = nl.program_id(0)
        note(context().has_collectives)
        t = nl.load(x[nl.ds(i, 1), :])
        total = nl.all_reduce(t, op=np.add, program_axes=[0])
        note(context().has_collectives)
        nl.store(out[nl.ds(i, 1), :], total)
        return out

    assert np.array_equal(kernel[4](X), np.broadcast_to(X.sum(0), (4, 8)))
    assert seen == [False, True]


def test_handlers_of_exceptions_are_marked() -> None:
    """T-087"""

    def body(t):
        try:
            note(context().in_exception_block)
            raise ValueError
        except ValueError:
            note(context().in_exception_block)
            t = t + 1.0
        note(context().in_exception_block)
        return t

    assert np.array_equal(applied(body), X + 1)
    assert seen == [False, True, False]


@pytest.mark.parametrize(("grid", "several"), [((4,), False), ((nl.nc(2), 2), True)])
def test_physical_cores_of_the_grid_are_noticed(grid: Any, several: bool) -> None:
    """T-088"""

    def body(t):
        note(context().multi_physical_cores)
        return t

    applied(body, grid=grid)
    assert seen == [several]


def test_the_current_scope_is_what_the_accessor_gives() -> None:
    """T-089, T-095"""

    @dont_trace
    def probe() -> None:
        note(get_cur_scope() is context().cur_scope, nki_ctx() is TraceContext.global_ctx)

    def deep(t):
        probe()
        return t

    applied(lambda t: deep(t))
    assert seen == [True, True]


def test_the_current_operation_is_restored_however_it_ends() -> None:
    """T-090"""
    ctx = TraceContext(CompileOpts())
    with ctx.nki_api_scope("outer"):
        with pytest.raises(ValueError), ctx.nki_api_scope("inner"):
            assert ctx.cur_api == "inner"
            raise ValueError
        assert ctx.cur_api == "outer"
    assert ctx.cur_api is None


def test_errors_name_the_operation() -> None:
    """T-091"""
    error = refused(lambda t: nl.load(t))
    assert error.code == "err_unsupported_memory" and "load" in error.message


# ---------------------------------------------------------------------------- the cell


def test_a_new_context_is_installed_and_returned() -> None:
    """T-092, T-093"""

    class Sub(TraceContext):
        pass

    first = TraceContext.new_ctx(CompileOpts())
    try:
        assert TraceContext.global_ctx is first and type(first) is TraceContext
        second = Sub.new_ctx(CompileOpts())
        assert TraceContext.global_ctx is second and type(second) is Sub
    finally:
        TraceContext.global_ctx.finalize()


def test_the_cell_holds_the_context_during_the_trace_only() -> None:
    """T-094, T-096"""

    def body(t):
        note(context().sema is not None, nki_ctx_or_none() is TraceContext.global_ctx)
        return t

    assert TraceContext.global_ctx is None
    applied(body)
    assert seen == [True, True] and TraceContext.global_ctx is None


def test_the_kernel_is_walked_by_a_generator_under_its_scope() -> None:
    """T-097, T-098"""

    def body(t):
        note(context().kernel_scope)
        return t

    applied(body)
    assert isinstance(seen[0], KernelScope) and seen[0].name == "kernel"
    assert inspect.isgeneratorfunction(TraceContext.trace_kernel_impl)


def test_a_function_scope_is_popped_when_the_helper_raises() -> None:
    """T-099"""

    def helper(t):
        note(context().cur_scope.depth)
        raise ValueError

    def body(t):
        note(context().cur_scope.depth)
        try:
            helper(t)
        except ValueError:
            note(context().cur_scope.depth)
        return t

    applied(body)
    assert seen == [1, 2, 1]


def test_finalizing_twice_is_harmless() -> None:
    """T-100"""
    ctx = TraceContext.new_ctx(CompileOpts())
    ctx.finalize()
    assert TraceContext.global_ctx is None
    ctx.finalize()
    ctx.finalize_kernel()
    assert TraceContext.global_ctx is None


def test_operations_outside_a_kernel_are_refused_before_and_after() -> None:
    """T-101, T-102, R-002"""
    for call in (
        lambda: nl.program_id(0),
        lambda: nl.zeros((4, 8), dtype=nl.float32),
        lambda: nl.mgrid[0:4],
    ):
        with pytest.raises(RuntimeError, match=OUTSIDE) as caught:
            call()
        assert caught.value.code == "err_nki_api_outside_of_nki_kernel"
    applied(lambda t: t)
    with pytest.raises(RuntimeError, match=OUTSIDE):
        nl.add(1.0, 2.0)


def test_a_failed_trace_is_torn_down() -> None:
    """T-103"""

    def failing(t):
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        applied(failing)
    assert TraceContext.global_ctx is None
    assert np.array_equal(applied(lambda t: t), X)


def test_another_thread_sees_no_trace() -> None:
    """T-104"""

    @dont_trace
    def elsewhere() -> None:
        def ask() -> None:
            note(nki_ctx_or_none())
            try:
                nl.program_id(0)
            except RuntimeError as error:
                note(OUTSIDE in str(error))

        thread = threading.Thread(target=ask)
        thread.start()
        thread.join()

    def body(t):
        elsewhere()
        return t

    applied(body)
    assert seen == [None, True]
    assert "the (thread local) global context" in (nki_ctx.__doc__ or "")


def test_launches_of_many_threads_are_right() -> None:
    """T-105"""

    def launch(n: int) -> bool:
        @nki.jit
        def kernel(x):
            out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
            nl.store(out, value=nl.load(x) + float(n))
            return out

        return np.array_equal(kernel(X), X + n)

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(launch, range(8)))


# ---------------------------------------------------------------------------- returns


def test_returns_go_through_the_context(monkeypatch: pytest.MonkeyPatch) -> None:
    """T-108"""
    for name in ("check_return", "transfer_return_value_to_caller"):
        original = getattr(TraceContext, name)

        def spy(self: Any, value: Any, original: Any = original, name: str = name) -> Any:
            note(name)
            return original(self, value)

        monkeypatch.setattr(TraceContext, name, spy)

    def helper(t):
        return t

    applied(lambda t: helper(t))
    assert seen == ["check_return", "transfer_return_value_to_caller"] * 3


@pytest.mark.parametrize("value", [(), [], 3, "text", (1, 2)])
def test_python_values_do_not_leave_the_kernel(value: Any) -> None:
    """T-109"""

    @nki.jit
    def kernel(x):
        return value

    with pytest.raises(TilewrightError) as caught:
        kernel(X)
    assert "Returning value from top level nki kernel is not supported" in str(caught.value)


def test_returned_hbm_tensors_are_the_outputs_in_order() -> None:
    """T-110, T-111"""

    @nki.jit
    def kernel(x):
        low = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        high = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        t = nl.load(x)
        nl.store(low, t - 1.0)
        nl.store(high, t + 1.0)
        return high, low

    high, low = kernel(X)
    assert np.array_equal(high, X + 1) and np.array_equal(low, X - 1)


def test_a_helper_hands_tensors_to_its_caller() -> None:
    """T-112, T-115"""

    def split(t, flag):
        if flag:
            return t + 1.0, {"rest": t * 2.0}
        return t, {}

    def body(t):
        first, others = split(t, True)
        return first + others["rest"]

    assert np.array_equal(applied(body), X + 1 + 2 * X)


class State:
    def __init__(self, t: Any) -> None:
        self.tile = t
        self.parts = [t * 2.0, types.SimpleNamespace(third=t * 3.0)]
        self.owner = self


def test_objects_of_the_author_take_their_tensors_with_them() -> None:
    """T-112"""

    def begin(t):
        return State(t + 1.0)

    def update(state):
        state.tile = state.tile + 1.0
        return state

    def body(t):
        state = update(begin(t))
        return state.tile + state.parts[0] + state.parts[1].third

    assert np.array_equal(applied(body), (X + 2) + 5 * (X + 1))


def test_a_kernel_may_return_nothing() -> None:
    """T-113"""

    @nki.jit(kernel_return=False)
    def kernel(x, out):
        nl.store(out, nl.load(x) + 1.0)

    @nki.jit
    def silent(x):
        nl.load(x)

    @nki.jit
    def annotated(x, out: nt.mutable_tensor):
        nl.store(out, nl.load(x) + 1.0)

    for each in (kernel, annotated):
        target = np.zeros_like(X)
        assert each(X, target) is None and np.array_equal(target, X + 1)
    assert silent(X) is None


def test_an_on_chip_tile_is_no_output() -> None:
    """T-114"""

    @nki.jit
    def kernel(x):
        return nl.load(x)

    with pytest.raises(TilewrightError, match="not an output in HBM"):
        kernel(X)


# ---------------------------------------------------------------------------- names


def warned(kernel: Any) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        kernel(X)
    found = [each for each in caught if issubclass(each.category, SyntaxWarning)]
    assert all(each.filename == __file__ for each in found)
    return [str(each.message) for each in found]


def test_shadowing_a_tensor_of_another_shape_warns() -> None:
    """T-116, T-117"""

    @nki.jit
    def kernel(x):
        out = nl.ndarray((4, 4), dtype=x.dtype, buffer=nl.shared_hbm)
        acc = nl.zeros((4, 8), dtype=nl.float32)
        for _ in nl.affine_range(1):
            acc = nl.zeros((4, 4), dtype=nl.float32)
            nl.store(out, value=acc)
        return out

    @nki.jit
    def walrus(x):
        out = nl.ndarray((4, 4), dtype=x.dtype, buffer=nl.shared_hbm)
        acc = nl.zeros((4, 8), dtype=nl.float32)
        for _ in nl.affine_range(1):
            nl.store(out, value=(acc := nl.zeros((4, 4), dtype=nl.float32)))  # noqa: F841
        return out

    for each in (kernel, walrus):
        assert warned(each) == [
            "shadowing local tensor 'acc' with a new object, use 'acc[...] =' "
            "if you want to update the existing object"
        ]


def test_updates_in_place_and_names_of_ones_own_do_not_warn() -> None:
    """T-118, T-119"""

    def helper(t):
        acc = nl.sum(t, axis=1)
        return t + acc * 0.0

    @nki.jit
    def kernel(x):
        out = nl.ndarray((4, 8), dtype=x.dtype, buffer=nl.shared_hbm)
        acc = nl.zeros((4, 8), dtype=nl.float32)
        t = nl.load(x)
        for _ in nl.sequential_range(3):
            acc[...] = acc + t
            t = nl.load(x)
        acc = helper(acc)
        nl.store(out, acc)
        return out

    assert warned(kernel) == []
    assert np.array_equal(kernel(X), 3 * X)


def test_annotations_state_shapes() -> None:
    """T-121, T-122"""

    def wrong(t):
        u: nt.tensor[4, 16] = t + 1.0
        return u

    def right(t):
        u: nt.tensor[4, 8] = t + 1.0
        return u

    def quoted(t):
        u: "nt.tensor[4, 16]" = t + 1.0  # noqa: UP037
        return u

    def prose(t):
        u: "the sum, of four rows" = t + 1.0  # noqa: F722 # pyright: ignore
        v: NotYetKnown = u  # noqa: F821 # pyright: ignore
        return v

    for each in (wrong, quoted):
        error = refused(each)
        assert isinstance(error, TypeError) and error.code == "err_annotation_shape_mismatch"
        assert "does not match the expected shape of [4, 16]" in str(error)
    for each in (right, prose):
        assert np.array_equal(applied(each), X + 1)


# ---------------------------------------------------------------------------- accessors


def test_three_accessors(monkeypatch: pytest.MonkeyPatch) -> None:
    """R-001, R-003"""
    assert nki_ctx_or_none() is None
    for accessor in (nki_ctx, get_cur_scope):
        with pytest.raises(RuntimeError, match=OUTSIDE):
            accessor()
    with pytest.raises(TypeError):
        nki_ctx(allow_none=True)  # type: ignore[call-arg]
    ctx = TraceContext(CompileOpts())
    monkeypatch.setattr(trace, "nki_ctx", lambda: ctx)
    assert trace.get_cur_scope() is ctx.cur_scope


# ---------------------------------------------------------------------------- types


def test_what_comparisons_give() -> None:
    """R-010, R-011"""

    def body(t):
        i = nl.arange(8)[None, :]
        p = nl.program_id(0)
        note(t > 1.0, t == t, i < 5, i == 5, p < 5, p == 5)
        return t

    applied(body)
    tile, equal, ordered, same, less, identical = seen
    assert all(isinstance(v, nki_tensor) and v.dtype == np.int8 for v in (tile, equal))
    assert isinstance(ordered, TileMaskIntersection) and isinstance(same, EQTileMask)
    assert isinstance(less, ScalarPredicateIntersection)
    assert isinstance(identical, EQScalarPredicate)
    assert issubclass(EQTileMask, TileMask) and issubclass(TileMask, mask)


def test_masks_and_predicates_have_an_algebra() -> None:
    """R-012, R-014"""

    def body(t):
        i = nl.arange(8)[None, :]
        p = nl.program_id(0)
        note((p < 5) & (p > 1), (p < 5) | (p > 9), ~((p < 5) & (p > 1)), (p < 5) & True)
        note((p < 5) & False, (p < 5) | True, (i < 5) & (i > 1), (i < 3) | (i > 5), ~(i < 5))
        return t

    applied(body)
    both, either, complement, same, never, always, tile, union, inverse = seen
    assert isinstance(both, ScalarPredicateIntersection) and len(both.terms[0]) == 2
    assert isinstance(either, ScalarPredicateUnion)
    assert isinstance(complement, ScalarPredicateUnion) and len(complement.terms) == 2
    assert isinstance(same, ScalarPredicateIntersection)
    assert isinstance(never, AlwaysFalsePredicate) and isinstance(always, AlwaysTruePredicate)
    assert isinstance(tile, TileMaskIntersection) and isinstance(inverse, TileMaskIntersection)
    assert isinstance(union, ScalarPredicateUnion)
    with pytest.raises(TypeError, match="mask is an abstract class"):
        mask()


def test_the_complement_of_a_tensor_is_element_wise_and_not_is_refused() -> None:
    """R-012"""
    assert np.array_equal(applied(lambda t: nl.where(~(t > 5.0), t, 0.0)), np.where(X > 5, 0, X))
    error = refused(lambda t: not (t > 5.0))
    assert error.code == "err_ambiguous_tensor_truth_value" and isinstance(error, ValueError)


def test_chained_comparisons_are_conjunctions() -> None:
    """R-013"""

    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        i, j = nl.mgrid[0:4, 0:8]
        nl.store(out[i, j], nl.load(x[i, j]) * 0.0)
        nl.store(out[i, j], nl.load(x[i, j]), mask=(2 <= j < 6))
        return out

    want = np.zeros_like(X)
    want[:, 2:6] = X[:, 2:6]
    assert np.array_equal(kernel(X), want)
    assert applied(lambda t: t + (1.0 if 0 < t.shape[0] < 5 else 0.0))[0, 0] == 1.0


def test_classes_of_symbolic_values() -> None:
    """R-015"""

    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        t = nl.load(x)
        note(x, out, t, t[0:2], nl.program_id(0), nl.arange(4)[:, None])
        for i in nl.sequential_range(1):
            note(i)
            t[...] = t + 0.0
        nl.store(out, t)
        return out

    kernel(X)
    wanted = (KernelTensor, KernelTensor, LocalTensor, DataTile, ProgramId, TileIndex, LoopVar)
    assert tuple(map(type, seen)) == wanted
    assert issubclass(ProgramId, DynamicScalar) and issubclass(LoopVar, DynamicScalar)
    assert not issubclass(ScalarPredicate, mask)


# ---------------------------------------------------------------------------- grids


def test_a_grid_launches_every_program() -> None:
    """R-016"""

    @nki.jit
    def kernel(x):
        out = nl.ndarray((6, 8), dtype=nl.float32, buffer=nl.shared_hbm)
        i, j = nl.program_id(0), nl.program_id(1)
        note(nl.num_programs(), nl.num_programs(0), nl.num_programs((0, 1)), nl.program_ndim())
        row = nl.zeros((1, 8), dtype=nl.float32) + (10 * i + j)
        nl.store(out[nl.ds(3 * i + j, 1), :], row)
        return out

    got = kernel[2, 3](X)
    assert got[:, 0].tolist() == [0, 1, 2, 10, 11, 12]
    assert seen == [6, 2, 6, 2]
    assert applied(lambda t: t * float(nl.program_ndim()))[3, 7] == 0.0


def test_program_ids_are_symbolic_and_their_axis_is_checked() -> None:
    """R-017"""

    def body(t):
        note(nl.program_id(-1), nl.program_id(1))
        return t

    applied(body, grid=(2, 3))
    last, second = seen
    assert isinstance(last, ProgramId) and last.dtype == np.uint64
    assert (last.axis, last.num_programs) == (second.axis, second.num_programs) == (1, 3)
    error = refused(lambda t: t + nl.program_id(3), grid=(2,))
    assert isinstance(error, IndexError) and error.code == "err_program_id_axis_out_of_bounds"


def test_grid_dimensions_compose() -> None:
    """R-018"""
    assert (nl.nc(2) * 8).size == 16 and (8 * nl.nc(2)).size == 16
    assert nl.spmd_dim(nl.nc(2), 2) == nl.nc(2) * 2 != nl.spmd_dim(2, nl.nc(2))
    assert grid_has_multi_physical_cores((nl.nc(2) * 2,))
    assert not grid_has_multi_physical_cores((nl.nc(1), nl.cc_pipeline(2) * 4))
    assert np.array_equal(applied(lambda t: t + 1.0, grid=(nl.nc(2) * 2,)), X + 1)
    error = refused(lambda t: t, grid=(nl.nc(2),), platform_target="trn1")
    assert isinstance(error, RuntimeError) and error.code == "err_multi_cores_spmd_not_supported"


def test_a_nested_kernel_has_no_grid_of_its_own() -> None:
    """R-019, R-021"""

    @nki.jit
    def inner(t):
        return t * 2.0

    assert np.array_equal(applied(lambda t: inner(t)), 2 * X)
    assert refused(lambda t: inner[4, 4](t)).code == "err_nested_kernel_with_spmd_grid"


def test_outputs_are_made_at_the_top_level() -> None:
    """R-020"""

    def helper(t):
        return nl.ndarray((4, 8), dtype=nl.float32, buffer=nl.shared_hbm)

    def loop(t):
        for _ in nl.affine_range(1):
            nl.ndarray((4, 8), dtype=nl.float32, buffer=nl.shared_hbm)
        return t

    for body in (lambda t: helper(t), loop):
        error = refused(body)
        assert isinstance(error, RuntimeError)
        assert error.code == "err_shared_hbm_must_in_kernel_level"


def test_the_text_of_a_named_error_ends_with_its_reference() -> None:
    """R-042"""
    text = str(refused(lambda t: nl.load(t)))
    assert text.endswith("docs/reference/nki-errors.md#err_unsupported_memory")


def test_importing_the_language_needs_no_framework() -> None:
    """T-019"""
    code = "import sys, tilewright.nki; print({'torch', 'jax', 'llvmlite'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
