"""TraceContext: one trace of one kernel. It walks the body once and builds the IR.

Exactly one trace is in flight per process: `TraceContext.global_ctx` is the cell that holds it.
"""

from __future__ import annotations

import importlib
import math
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from types import FunctionType, ModuleType
from typing import Any, ClassVar

import numpy

from tilewright.devices import get_device
from tilewright.dtypes import DType
from tilewright.errors import InvalidOperationError, ParserSyntaxError, TilewrightError
from tilewright.errors.nki_control import (
    AMBIGUOUS_TRUTH,
    CONDITION_ON_ARANGE,
    DEVICE_LOOP_EXIT,
    DYNAMIC_CONTROL_FLOW,
    LOGIC_OR,
    MUTABLE_NOT_RETURNED,
    NESTED_GRID,
    OUTPUT_NOT_WRITTEN,
    TOP_LEVEL_RETURN,
)
from tilewright.errors.nki_tensors import ANNOTATION_SHAPE
from tilewright.frontend import calls
from tilewright.frontend.trace import inline, loops
from tilewright.frontend.trace.allocations import Uses
from tilewright.frontend.trace.ambient import IN_FLIGHT, install_context_type, refusal
from tilewright.frontend.trace.block_places import Touch, spoiled_blocks
from tilewright.frontend.trace.capture import return_span
from tilewright.frontend.trace.compare import compare_chain
from tilewright.frontend.trace.function import KernelFrame, KernelFunction
from tilewright.frontend.trace.grid import grid_has_multi_physical_cores
from tilewright.frontend.trace.guards import Watch
from tilewright.frontend.trace.held import tensors_in
from tilewright.frontend.trace.index import TileIndex, TileMaskUnion, mask
from tilewright.frontend.trace.options import CompileOpts
from tilewright.frontend.trace.predicates import ALWAYS, ScalarPredicate
from tilewright.frontend.trace.random import RandomNumbers
from tilewright.frontend.trace.rewrite import rewritten
from tilewright.frontend.trace.roots import Root
from tilewright.frontend.trace.scopes import (
    DeviceRegion,
    FunctionScope,
    IfScope,
    KernelScope,
    Scope,
    WhileScope,
)
from tilewright.frontend.trace.sema import Sema
from tilewright.frontend.trace.sequences import as_items, items_of
from tilewright.frontend.trace.spans import (
    author_frame,
    current_span,
    raised_at,
    starts_trace,
    warn_author,
)
from tilewright.frontend.trace.tensors import KernelTensor, nki_tensor, whole_tensor
from tilewright.frontend.trace.typing import TensorAnnotation
from tilewright.ir.affine.constraints import Constraint
from tilewright.ir.core import Block, Function
from tilewright.ir.enums import MemorySpace
from tilewright.ir.stops import Stop
from tilewright.ops import creation
from tilewright.ops.nki_dtypes import promote
from tilewright.source import Span

SYMBOLIC = (nki_tensor, ScalarPredicate)
"""What a branch cannot depend on."""


class NkiTypeSystem:
    """Which category a value belongs to; the highest category of two operands decides."""

    @staticmethod
    def category(value: object) -> str:
        """The category of one value."""
        if isinstance(value, nki_tensor):
            return "tensor"
        if isinstance(value, mask):
            return "mask"
        if isinstance(value, TileIndex):
            return "tile_index"
        return "scalar" if hasattr(value, "expr") else "other"

    promote = staticmethod(promote)


class TraceContext:
    """The state of a trace: scopes, the semantic builder, and every decision the body asks for."""

    global_ctx: ClassVar[TraceContext | None] = None

    def __init__(self, opts: CompileOpts) -> None:
        self.opts = opts
        self.device = get_device(opts.platform_target)
        self.type_system = NkiTypeSystem()
        self.thread = threading.get_ident()
        self.kernel_scope = KernelScope("kernel")
        self.cur_scope: Scope = self.kernel_scope
        self.function_scope: Scope = self.kernel_scope
        self.body_scope: Scope = self.kernel_scope
        self.cur_api: str | None = None
        self.has_collectives = False
        self.in_exception_block = False
        self.multi_physical_cores = grid_has_multi_physical_cores(opts.grid)
        self.regions: list[DeviceRegion] = []
        self.blocks: list[Block] = []
        self.watch = Watch()
        self.registers: dict[str, tuple[nki_tensor, int]] = {}
        self.random = RandomNumbers(self)
        self.left: TilewrightError | None = None
        self.returned_at: Span | None = None
        self.uses = Uses() if opts.check_allocation else None
        self.touches: list[Touch] = []
        self.stops: list[Stop] = []
        self.sema = Sema(self)
        self.kernel = KernelFunction(self)
        self.exclude_modules = self._exclude_modules()

    # ------------------------------------------------------------------ the cell

    @classmethod
    def new_ctx(cls, opts: CompileOpts) -> TraceContext:
        """Builds a context and installs it as `TraceContext.global_ctx`; one before it ends."""
        ctx = cls(opts)
        if TraceContext.global_ctx is not None:
            TraceContext.global_ctx.finalize()
        TraceContext.global_ctx = ctx
        IN_FLIGHT["trace"] = True
        ctx.sema.__enter__()
        return ctx

    def finalize(self) -> None:
        """Ends the trace, however it went; harmless when it has ended already."""
        for region in reversed(self.regions):
            region.is_alive = False
        self.regions.clear()
        self.finalize_kernel()

    def finalize_kernel(self) -> None:
        """Closes the kernel's scope and clears the cell."""
        self.kernel_scope.is_alive = False
        self.cur_scope = self.function_scope = self.kernel_scope
        if TraceContext.global_ctx is self:
            self.sema.__exit__()
            TraceContext.global_ctx = None
            IN_FLIGHT["trace"] = False

    @staticmethod
    def is_nki_data(v: object) -> bool:
        """True for a symbolic tensor or a tile mask, and nothing else."""
        return isinstance(v, (nki_tensor, mask))

    @staticmethod
    def _exclude_modules() -> tuple[ModuleType, ModuleType, ModuleType, ModuleType]:
        """The modules whose functions run in Python: the language, the IR, numpy and math."""
        return (
            importlib.import_module("tilewright.nki"),
            importlib.import_module("tilewright.ir"),
            numpy,
            math,
        )

    # ------------------------------------------------------------------ walking the kernel

    def trace_kernel(self, name: str, frame: KernelFrame) -> Function:
        """Walks the body of a kernel and gives the function that it builds."""
        try:
            for _ in self.trace_kernel_impl(name, frame):
                pass
        except TilewrightError as error:
            place = self.returned_at or return_span(frame.function)
            raise error.locate(place) from error.__cause__
        except Exception as error:
            note_place(error)
            raise
        return self.kernel.function()

    @starts_trace
    def trace_kernel_impl(self, name: str, frame: KernelFrame) -> Generator[str, None, None]:
        """The walk, a step at a time: parameters, body, return."""
        self.kernel_scope.name = name
        bound = self.kernel.bind_parameters(name, frame)
        self.kernel.open_grid()
        yield "parameters"
        self.watch.enter(frame.function)
        body = rewritten(frame.function, self, predicated=self.opts.predicated_if)
        self.body_scope = self.cur_scope
        result = body(*bound.args, **bound.kwargs)
        self.require_back_in(self.body_scope)
        yield "body"
        self.check_return(result)
        self.kernel.close_grid()
        self.require_apart()
        yield "return"

    def require_apart(self) -> None:
        """Refuses explicit allocations that overlap while both are in use, where that is asked."""
        found = list(self.uses.overlaps()) if self.uses is not None else []
        found += spoiled_blocks(self.touches)
        if found:
            found[0].also = found[1:]
            raise found[0]

    def inlined(
        self, plain: FunctionType, args: Any, kwargs: Any, *, is_kernel: bool = False
    ) -> Any:
        """The body of a helper, or of another kernel, traced under a scope of its own."""
        self.watch.enter(plain)
        try:
            body = rewritten(plain, self, predicated=self.opts.predicated_if)
        except ParserSyntaxError:
            body = plain
        scope = self.new_function_scope(plain.__name__, None)
        scope.is_kernel = is_kernel
        try:
            result = body(*args, **kwargs)
            self.require_back_in(scope)
            return self.check_return(result)
        finally:
            self.leave_function_scope(scope)

    def call(self, func: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """One call expression of the body; see `calls.GATES`."""
        if func is range and not kwargs:
            return self.builtin_range(*args)
        func, args, kwargs = calls.unwrapped(self, func, args, kwargs)
        return calls.call(self, func, args, kwargs)

    def call_kernel(self, kernel: Any, args: Any, kwargs: Any) -> Any:
        """A traced kernel called by another: its body, in this trace."""
        if kernel.grid:
            raise refusal(NESTED_GRID, name=kernel.__name__)
        return self.inlined(kernel.function, args, kwargs, is_kernel=True)

    def call_with_tiles(self, name: str, function: Callable[..., Any], args: Sequence[Any]) -> Any:
        """An inline helper of the parsed style: its operations, in this trace."""
        return inline.call_with_tiles(self, name, function, args)

    def call_function(self, function: Any, args: Any, kwargs: Any) -> Any:
        """A function of the parsed style: its operations, in this trace."""
        return inline.call_function(self, function, args, kwargs)

    # ------------------------------------------------------------------ scopes

    def new_function_scope(self, name: str, stack_frame: object) -> FunctionScope:
        """Pushes the scope of a helper, called at `stack_frame`; usable in a `with` statement."""
        scope = FunctionScope(name, self.cur_scope, self.leave_function_scope)
        self.cur_scope = self.function_scope = scope
        return scope

    def leave_function_scope(self, scope: FunctionScope) -> None:
        """Pops the scope of a helper; what it did not return is dead."""
        scope.is_alive = False
        assert scope.parent_scope is not None
        self.cur_scope = scope.parent_scope
        self.function_scope = self.cur_function_scope()

    def cur_function_scope(self) -> Scope:
        """The innermost helper's scope, or the kernel's."""
        scope: Scope | None = self.cur_scope
        while scope is not None and not isinstance(scope, (FunctionScope, KernelScope)):
            scope = scope.parent_scope
        return scope or self.kernel_scope

    @property
    def is_kernel_level(self) -> bool:
        """True in the body of the kernel, and of one that it calls there: in no loop, no arm."""
        scope: Scope | None = self.cur_scope
        while scope is not None:
            if isinstance(scope, FunctionScope) and not scope.is_kernel:
                return False
            scope = scope.parent_scope
        return len(self.regions) == len(self.kernel.axes)

    def enter_region(self, scope: DeviceRegion) -> None:
        """Opens a device region: emission goes to its block."""
        self.regions.append(scope)
        self.blocks.append(self.sema.block)
        self.sema.block = scope.block
        self.cur_scope = scope

    def leave_region(self, scope: DeviceRegion) -> None:
        """Closes a device region: what was made inside is dead."""
        assert self.regions[-1] is scope, "regions nest"
        self.regions.pop()
        self.sema.block = self.blocks.pop()
        scope.is_alive = False
        assert scope.parent_scope is not None
        self.cur_scope = scope.parent_scope

    def outermost_tile(self, shape: tuple[int, ...], dtype: DType) -> nki_tensor:
        """A tile of zeros that is made before all loops and lives as long as the kernel."""
        depth = len(self.kernel.axes)
        block = self.blocks[depth] if len(self.regions) > depth else self.sema.block
        with self.sema.inside(block):
            zeros = creation.full(shape=shape, dtype=dtype, value=0.0, space=MemorySpace.Sbuf)
        return whole_tensor(Root(zeros, MemorySpace.Sbuf, self.kernel_scope, depth=depth))

    def facts(self) -> list[Constraint]:
        """What the guards around the current place say."""
        single = [region.predicates[0] for region in self.regions if len(region.predicates) == 1]
        return [constraint for conjunction in single for constraint in conjunction]

    def note_left(self, scope: DeviceRegion) -> None:
        """A device region was left by `break`, `return` or an exception."""
        if scope in self.regions and self.left is None:
            self.left = refusal(DEVICE_LOOP_EXIT, what="break or return")

    def require_back_in(self, scope: Scope) -> None:
        """Refuses a device loop or arm that was left half way: the function began in `scope`."""
        if self.left is not None:
            raise self.left
        if self.cur_scope is not scope:
            raise refusal(DEVICE_LOOP_EXIT, what="break or return")

    @contextmanager
    def if_scope(self, predicates: ScalarPredicate) -> Generator[IfScope]:
        """A scope guarded by `predicates.predicates`; by nothing where there are none."""
        terms = getattr(predicates, "predicates", ALWAYS)
        yield from self._plain_scope(IfScope("if", self.cur_scope, Block(), terms))

    @contextmanager
    def while_scope(self, cnd: object) -> Generator[WhileScope]:
        """The scope of a loop whose condition is `cnd`."""
        yield from self._plain_scope(WhileScope("while", self.cur_scope, Block()))

    def _plain_scope(self, scope: Any) -> Generator[Any]:
        outer, self.cur_scope = self.cur_scope, scope
        try:
            yield scope
        finally:
            scope.is_alive = False
            self.cur_scope = outer

    @contextmanager
    def nki_api_scope(self, name: str) -> Generator[None]:
        """`cur_api` is `name` for the duration."""
        outer, self.cur_api = self.cur_api, name
        try:
            yield
        finally:
            self.cur_api = outer

    def mark(self) -> tuple[Scope, int]:
        """Where a `try` statement stands."""
        return self.cur_scope, len(self.regions)

    @contextmanager
    def exception_block(self, mark: tuple[Scope, int]) -> Generator[None]:
        """A handler: device regions that the exception left are dropped."""
        scope, depth = mark
        while len(self.regions) > depth:
            self.leave_region(self.regions[-1])
        self.cur_scope = scope
        self.function_scope = self.cur_function_scope()
        outer, self.in_exception_block = self.in_exception_block, True
        try:
            yield
        finally:
            self.in_exception_block = outer

    @property
    def no_active_exception(self) -> bool:
        """True outside exception handlers."""
        return not self.in_exception_block

    # ------------------------------------------------------------------ control flow

    def eval_if_cnd(self, cnd: Any) -> bool:
        """A condition as a Python bool; refuses what depends on device data."""
        if isinstance(cnd, TileMaskUnion):
            raise refusal(CONDITION_ON_ARANGE)
        if isinstance(cnd, SYMBOLIC):
            what = f"the tensor '{cnd.name}'" if isinstance(cnd, nki_tensor) else f"`{cnd}`"
            raise refusal(DYNAMIC_CONTROL_FLOW, what=what)
        return bool(cnd)

    def if_cnd_generator(self, cnd: Any) -> Iterator[bool]:
        """The arms to trace: the one that is taken, or both where the device decides."""
        is_guard = isinstance(cnd, ScalarPredicate) and self.sema.is_affine(cnd.terms)
        if is_guard and self.opts.predicated_if:
            return loops.trace_arms(self, cnd)
        return iter((self.eval_if_cnd(cnd),))

    def while_loop(self) -> loops.WhileLoop:
        """The state of one `while` statement."""
        return loops.WhileLoop(self)

    def iterate(self, iterable: Any, name: str) -> Any:
        """What a `for` statement iterates; a device loop's variable gets the author's name."""
        if isinstance(iterable, loops.DeviceRange):
            return loops.trace_loop(self, iterable, name)
        return iterable

    annotate_iter = iterate

    def host_items(self, iterable: Any) -> Any:
        """What a comprehension iterates, which makes a container of Python."""
        if isinstance(iterable, loops.BuiltinRange):
            return iterable.numbers
        return self.iterate(iterable, "")

    def builtin_range(self, *args: Any) -> Any:
        """`range` in a kernel: Python ints, or a device loop where a bound or option says so."""
        concrete = all(hasattr(arg, "__index__") for arg in args)
        if concrete and self.opts.builtin_range == "unroll":
            return range(*args)
        return loops.BuiltinRange(*args) if concrete else loops.SequentialRange(*args)

    def stops_later(self, names: dict[str, Any]) -> bool:
        """Whether a `breakpoint()` is for the interpreter, which then stops where it stands."""
        frame, span = author_frame(), current_span()
        if not self.opts.checked or frame is None or span is None:
            return False
        shown = {name: self.sema.shown(value) for name, value in names.items()}
        block, code = self.sema.block, frame.f_code
        stop = Stop(block, tuple(block.ops), shown, span, code.co_name, frame.f_globals)
        self.stops.append(stop)
        return True

    def check_and(self, value: Any) -> Any:
        """An operand of `and` whose truth Python is about to ask for."""
        return self._check_logic(value, "and")

    def check_or(self, value: Any) -> Any:
        """An operand of `or`."""
        if isinstance(value, mask):
            raise refusal(LOGIC_OR, what="masks")
        return self._check_logic(value, "or")

    def check_not(self, value: Any) -> Any:
        """The operand of `not`."""
        return self._check_logic(value, "not")

    def _check_logic(self, value: Any, word: str) -> Any:
        if isinstance(value, nki_tensor):
            raise refusal(AMBIGUOUS_TRUTH, what=f" (operand of `{word}`)")
        return value

    compare_chain = staticmethod(compare_chain)

    # ------------------------------------------------------------------ returns

    def returning(self, value: Any) -> Any:
        """What a `return` statement gives; that of the kernel is where its results are refused."""
        if self.cur_scope is self.body_scope:
            self.returned_at = current_span()
        return value

    def check_return(self, return_value: Any) -> Any:
        """What a function hands to its caller."""
        return self.transfer_return_value_to_caller(return_value)

    def transfer_return_value_to_caller(self, return_value: Any) -> Any:
        """A helper's tensors move to the caller's scope; the kernel's become outputs."""
        if isinstance(self.cur_function_scope(), KernelScope):
            return self.kernel_return(return_value)
        return self.return_from_function(return_value)

    def return_from_function(self, return_value: Any) -> Any:
        """Hoists the tensors in a return value into the caller's scope."""
        scope = self.cur_function_scope()
        caller = scope.parent_scope
        assert caller is not None
        for tensor in tensors_in(return_value):
            if tensor.root.scope is scope:
                tensor.root.scope = caller
        return return_value

    def kernel_return(self, return_value: Any) -> Any:
        """Registers what the kernel returns; Python values are refused."""
        if return_value is not None:
            self.add_kernel_return_values(list(as_items(return_value) or (return_value,)))
            self._require_mutable_returned()
        self.kernel.returns_tuple = isinstance(return_value, (tuple, list))
        return return_value

    def add_kernel_return_values(self, values: list[Any]) -> None:
        """Makes HBM tensors outputs, in order."""
        for value in values:
            if not isinstance(value, KernelTensor) or not self.kernel.is_result(value.root):
                raise refusal(TOP_LEVEL_RETURN, what=describe_return(value))
            if not value.root.is_written:
                raise refusal(OUTPUT_NOT_WRITTEN, name=value.root.label)
            self.kernel.results.append(value.root)

    def _require_mutable_returned(self) -> None:
        for root in self.kernel.mutable_parameters():
            if self.opts.kernel_return and root not in self.kernel.results:
                raise refusal(MUTABLE_NOT_RETURNED, name=root.label)

    # ------------------------------------------------------------------ names

    def bind_name(self, name: Any, value: Any) -> Any:
        """`name = value` (or several at once): names tensors, and warns where one is shadowed."""
        if isinstance(name, str):
            if name and isinstance(value, nki_tensor):
                self.warn_object_shadowing(name, value)
                self.sema.name_tensor(value, name)
        else:
            for each, item in zip(name, items_of(value) or ()):
                self.bind_name(each, item)
        return value

    def warn_object_shadowing(self, name: str, value: nki_tensor) -> None:
        """Warns when an outer tensor's name is bound to one of another shape or element type."""
        if self.cur_scope is self.body_scope:
            return
        old = author_locals().get(name)
        if not isinstance(old, nki_tensor) or self.is_the_same_scope(old.root):
            return
        if (old.shape, old.dtype) != (value.shape, value.dtype) and self.is_outer(old.root):
            warn_author(
                f"shadowing {self.describe(old)} with a new object, use '{name}[...] =' "
                "if you want to update the existing object",
                SyntaxWarning,
            )

    @staticmethod
    def describe(tensor: nki_tensor) -> str:
        """How the shadowing warning names a tensor."""
        return f"{'tensor' if tensor.root.is_hbm else 'local tensor'} '{tensor.name}'"

    def is_the_same_scope(self, root: Root) -> bool:
        """True for a tensor of the current scope."""
        return root.scope is self.cur_scope

    def is_outer(self, root: Root) -> bool:
        """True for a living tensor of a scope around the current one."""
        return root.scope.is_alive and root.scope.encloses(self.cur_scope)

    def is_out_of_scope(self, root: Root) -> bool:
        """True for a tensor whose scope has ended."""
        return not root.scope.is_alive

    def annotate(self, name: str, value: Any, annotation: Callable[[], Any]) -> Any:
        """`name: annotation = value`; Python asks for no name in it to be known."""
        if isinstance(value, nki_tensor):
            try:
                stated = annotation()
            except NameError:
                stated = None
            self.annotate_object(name, value, stated)
        return value

    def annotate_object(self, name: str, value: nki_tensor, annotation: Any) -> None:
        """Checks the shape that an annotation states, then binds the name."""
        shape = annotation.shape if isinstance(annotation, TensorAnnotation) else None
        if shape is not None and tuple(shape) != value.shape:
            raise refusal(ANNOTATION_SHAPE, name=name, given=list(value.shape), wanted=list(shape))
        self.bind_name(name, value)


def note_place(error: Exception) -> None:
    """Adds to an exception of Python what the author's expression was."""
    span, add_note = raised_at(error), getattr(error, "add_note", None)
    if span is not None and add_note is not None:
        where = "raised while a kernel was traced, where its author has written"
        add_note(str(InvalidOperationError(where, span)))


def author_locals() -> dict[str, Any]:
    """The local names of the author's function that runs now."""
    frame = author_frame()
    return {} if frame is None else frame.f_locals


def describe_return(value: Any) -> str:
    """How a message names what cannot be returned."""
    if isinstance(value, nki_tensor):
        return f"the tensor '{value.name}' in {value.buffer}, which is not an output in HBM"
    return f"a value of type {type(value).__name__}"


install_context_type(TraceContext)
