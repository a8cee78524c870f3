"""Traced kernels: callable, indexable by a launch grid, traced once per specialization."""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from types import FunctionType
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from tilewright.boundary import public_entry
from tilewright.dataclass import dataclass
from tilewright.errors import ArgumentCountMismatch, TilewrightError
from tilewright.errors.nki import NKIRuntimeError
from tilewright.errors.nki_control import MULTI_CORES, PARAM_NOT_HASHABLE
from tilewright.errors.nki_tensors import OPERAND_DTYPE
from tilewright.frontend.calls import KernelBase, dont_trace_attr
from tilewright.frontend.trace.ambient import nki_ctx_or_none
from tilewright.frontend.trace.capture import parameter_span
from tilewright.frontend.trace.context import TraceContext
from tilewright.frontend.trace.function import ArraySpec, KernelFrame, Print
from tilewright.frontend.trace.grid import GridDim, as_grid
from tilewright.frontend.trace.guards import Guard
from tilewright.frontend.trace.options import CompileOpts
from tilewright.frontend.trace.sequences import as_entries, holds, rebuilt
from tilewright.garbage import without_collections
from tilewright.ir.builder import finish_program
from tilewright.ir.core import Program
from tilewright.ir.enums import ParamDirection
from tilewright.ir.stops import Stop
from tilewright.ir.types import ShapedType
from tilewright.locks import make_lock
from tilewright.ops.nki_dtypes import NAMES, find_dtype

if TYPE_CHECKING:
    from typing_extensions import Self

Array = np.ndarray[Any, np.dtype[Any]]
Launch = Callable[[Sequence[Any]], None]
Prepare = Callable[[Program, Sequence[Stop]], Launch]
TRACING = make_lock()
"""One trace is in flight per process."""
MULTI_CORE_TARGETS = ("trn2", "trn3")


@dataclass(eq=False)
class Specialization:
    """One trace of a kernel: the program, where its results are, and what it depends on."""

    program: Program
    entry: str
    results: tuple[int, ...]
    returns_tuple: bool
    constants: tuple[Array, ...]
    prints: dict[int, tuple[Print, int | None]]
    guard: Guard
    prepare: Prepare
    stops: tuple[Stop, ...] = ()

    @functools.cached_property
    def launch(self) -> Launch:
        """The program made ready to run, when it is first asked for."""
        return self.prepare(self.program, self.stops)


@dataclass(frozen=True)
class Call:
    """The arguments of one call: arrays in order, and the binding with specs in their place.

    `given` holds the arrays as they were passed, `arrays` as numpy sees them; `form` is all that
    is not an array (see `form_of`), None where arrays stand in another order than parameters.
    """

    bound: inspect.BoundArguments
    given: list[Any]
    arrays: list[Array]
    key: Hashable
    form: Hashable = None

    @property
    def is_plain(self) -> bool:
        """True for a call that gives arrays by position, and nothing else."""
        return self.form == (None,) * len(self.given)

    @property
    def constants(self) -> list[Any]:
        """The arguments that are not arrays."""
        given = self.bound.arguments.values()
        return [each for each in given if not isinstance(each, ArraySpec)]


class TraceKernel(KernelBase):
    """A Python function that is traced when it is called.

    `kernel(*args)` launches one program, `kernel[grid](*args)` one per point of the grid. Arrays
    go in and come out; other arguments are constants that the kernel is specialized for.
    """

    def __init__(
        self,
        function: FunctionType,
        opts: CompileOpts | None = None,
        *,
        prepare: Prepare,
        grid: tuple[GridDim, ...] = (),
    ) -> None:
        self.__name__ = function.__name__
        self.__qualname__ = function.__qualname__
        functools.update_wrapper(self, function)
        self.function = function
        self.opts = opts or CompileOpts()
        self.grid = grid
        self.prepare = prepare
        self.signature = inspect.signature(function)
        self.collects = {each.name: each.kind for each in self.signature.parameters.values()}
        self.gridded: dict[Any, Self] = {}
        self.specializations: dict[Hashable, Specialization] = {}

    def __deepcopy__(self, memo: Any) -> Self:
        """Itself, as of a function."""
        return self

    def __copy__(self) -> Self:
        return self

    def __reduce__(self) -> str | tuple[Any, ...]:
        """By its name, as a function is pickled; a grid follows the kernel."""
        if not self.grid:
            return self.__qualname__
        return operator.getitem, (self.remade(self.opts, ()), self.grid)

    def __repr__(self) -> str:
        grid = f"[{', '.join(str(dim.size) for dim in self.grid)}]" if self.grid else ""
        return f"<kernel {self.__qualname__}{grid}>"

    def __get__(self, owner: Any, cls: type | None = None) -> Any:
        """Of a class, the kernel; of an instance, a kernel whose first argument is the instance."""
        return self if owner is None else BoundKernel(self, owner)

    def __getitem__(self, grid: Any) -> Self:
        try:
            return self.gridded[grid]
        except (KeyError, TypeError):
            return self._on_grid(grid)

    @public_entry
    def _on_grid(self, grid: Any) -> Self:
        """The kernel launched over a grid; the same for the same grid."""
        dims = as_grid(grid)
        kernel = self.gridded.get(dims)
        if kernel is None:
            kernel = self.remade(self.opts, dims)
            kernel.specializations = self.specializations
            self.gridded[dims] = kernel
        if all(map(is_int, as_entries(grid))):
            self.gridded[grid] = kernel
        return kernel

    def with_options(self, **options: Any) -> Self:
        """The kernel under other options."""
        return self.remade(replace(self.opts, **options), self.grid)

    def remade(self, opts: CompileOpts, grid: tuple[GridDim, ...]) -> Self:
        """The same kernel under other options, or on another grid."""
        return type(self)(self.function, opts, prepare=self.prepare, grid=grid)

    @public_entry
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Launches the kernel; gives the arrays that it returns (a tuple if it returns one)."""
        ctx = nki_ctx_or_none()
        if ctx is not None:
            if getattr(self, dont_trace_attr, False):
                raise NKIRuntimeError(
                    f"kernel '{self.__name__}' cannot be launched while another is traced",
                    hint="call it without dont_trace, so that it becomes part of the trace",
                )
            return ctx.call_kernel(self, args, kwargs)
        call = self._prepare(args, kwargs)
        return self.run(self._specialize(call), call)

    @public_entry
    def lower(self, *args: Any, **kwargs: Any) -> Program:
        """The program that the kernel is for these arguments, without running it."""
        return self.specialize(*args, **kwargs).program

    @public_entry
    def specialize(self, *args: Any, **kwargs: Any) -> Specialization:
        """The trace for these arguments, made if there is none."""
        return self._specialize(self._prepare(args, kwargs))

    @public_entry
    def compile(self, *args: Any, **kwargs: Any) -> Callable[..., Any]:
        """The kernel made ready for arguments like these; call it with arrays of their shapes."""
        self._specialize(self._prepare(args, kwargs))
        return self

    def as_python(self, *args: Any, **kwargs: Any) -> str:
        """The text of `lower(*args)`."""
        return self.lower(*args, **kwargs).as_python()

    # ------------------------------------------------------------------ specializing

    def _prepare(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
        try:
            bound = self.signature.bind(*args, **kwargs)
        except TypeError as error:
            raise ArgumentCountMismatch(
                f"{self.__name__}: {error}", hint=f"It is {self.__name__}{self.signature}."
            ) from None
        bound.apply_defaults()
        passed: list[tuple[Any, Array]] = []
        keys: list[Hashable] = []
        for name, given in bound.arguments.items():
            try:
                bound.arguments[name] = self._argument(name, given, passed, keys)
            except TilewrightError as error:
                raise error.locate(parameter_span(self.function, name)) from None
        values, arrays = [given for given, _ in passed], [array for _, array in passed]
        form, found = form_of(args, kwargs)
        in_order = len(found) == len(values) and all(map(operator.is_, found, values))
        key = (self.grid, self.opts, tuple(keys))
        return Call(bound, values, arrays, key, form if in_order else None)

    def _argument(
        self, name: str, given: Any, passed: list[tuple[Any, Array]], keys: list[Hashable]
    ) -> Any:
        if self.collects.get(name) is inspect.Parameter.VAR_KEYWORD:
            keys.append(tuple(given))
            return {key: self._argument(key, each, passed, keys) for key, each in given.items()}
        if isinstance(given, tuple) and holds(is_array, cast(Any, given)):
            items = cast("tuple[Any, ...]", given)
            keys.append((type(items), len(items)))
            return rebuilt(items, [self._argument(name, each, passed, keys) for each in items])
        return self._one_argument(name, cast(Any, given), passed, keys)

    def _one_argument(
        self, name: str, given: Any, passed: list[tuple[Any, Array]], keys: list[Hashable]
    ) -> Any:
        if not is_array(given):
            keys.append(constant_key(name, given))
            return given
        array = self.as_array(name, given)
        dtype = find_dtype(array.dtype)
        if dtype is None:
            supported = ", ".join(NAMES.values())
            raise OPERAND_DTYPE(op=self.__name__, name=name, given=array.dtype, supported=supported)
        passed.append((given, array))
        keys.append((array.shape, dtype))
        return ArraySpec(array.shape, dtype)

    def as_array(self, name: str, given: Any) -> Array:
        """An argument as numpy sees it, without a copy."""
        return np.asarray(given)

    def _specialize(self, call: Call) -> Specialization:
        found = self.specializations.get(call.key)
        if found is not None and found.guard.holds():
            return found
        with TRACING:
            found = self._trace(call)
        self.specializations[call.key] = found
        return found

    @without_collections()
    def _trace(self, call: Call) -> Specialization:
        if TraceContext.global_ctx is not None:
            raise NKIRuntimeError(
                f"kernel '{self.__name__}' is called inside a trace that another thread owns"
            )
        ctx = TraceContext.new_ctx(replace(self.opts, grid=self.grid))
        try:
            if ctx.multi_physical_cores and self.opts.platform_target not in MULTI_CORE_TARGETS:
                place = parameter_span(self.function)
                raise MULTI_CORES(span=place, target=self.opts.platform_target)
            frame = KernelFrame(self.function, call.bound, self.grid)
            function = ctx.trace_kernel(self.__name__, frame)
            roots = ctx.kernel.roots
            return Specialization(
                finish_program(self.__name__, {function.name: function}),
                function.name,
                tuple(roots.index(root) for root in ctx.kernel.results),
                ctx.kernel.returns_tuple,
                tuple(ctx.kernel.constants.values()),
                {
                    roots.index(root): (shown, shown.reached and roots.index(shown.reached))
                    for root, shown in ctx.kernel.prints.items()
                },
                ctx.watch.guard(call.constants),
                self.prepare,
                tuple(ctx.stops),
            )
        finally:
            ctx.finalize()

    # ------------------------------------------------------------------ running

    def run(self, made: Specialization, call: Call) -> Any:
        """Launches what a call was specialized to; gives the arrays that the kernel returns."""
        function = made.program[made.entry]
        given = [*call.arrays, *made.constants]
        for param, direction in zip(function.params, function.directions):
            if direction is ParamDirection.Out:
                assert isinstance(param.type, ShapedType)
                given.append(poisoned(param.type) if self.opts.checked else unwritten(param.type))
        for _, flags in made.prints.values():
            if flags is not None:
                given[flags].fill(0)
        made.launch(given)
        show_all(
            (shown, given[place], None if flags is None else given[flags])
            for place, (shown, flags) in made.prints.items()
        )
        results = tuple(given[place] for place in made.results)
        if made.returns_tuple:
            return results
        return results[0] if results else None


class BoundKernel:
    """A kernel of a class, of one instance: which is its first argument, a constant."""

    def __init__(self, kernel: TraceKernel, owner: Any) -> None:
        self.kernel = kernel
        self.owner = owner

    def __getitem__(self, grid: Any) -> BoundKernel:
        return BoundKernel(self.kernel[grid], self.owner)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Launches the kernel, or joins the trace that calls it."""
        return self.kernel(self.owner, *args, **kwargs)

    def lower(self, *args: Any, **kwargs: Any) -> Program:
        """The program that the kernel is for these arguments, without running it."""
        return self.kernel.lower(self.owner, *args, **kwargs)

    def as_python(self, *args: Any, **kwargs: Any) -> str:
        """The text of `lower(*args)`."""
        return self.kernel.as_python(self.owner, *args, **kwargs)

    def __repr__(self) -> str:
        return f"<{self.kernel!r} of {self.owner!r}>"


def is_array(given: Any) -> bool:
    """True for numpy arrays and what converts to them without a copy: the tensors of frameworks."""
    if isinstance(given, np.ndarray):
        return True
    looks = hasattr(given, "__array__") and hasattr(given, "shape") and hasattr(given, "dtype")
    return looks and not isinstance(given, np.generic)


def form_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Hashable, list[Any]]:
    """A call without its arrays, and those: for each argument its name and, if it is none, value.

    The form is None where something in it has no hash.
    """
    form: list[Hashable] = []
    arrays: list[Any] = []
    for name, given in (*((None, each) for each in args), *kwargs.items()):
        if is_array(given):
            arrays.append(given)
            form.append(name)
            continue
        if not is_hashable(given):
            return None, arrays
        form.append((name, constant_key("", given)))
    return tuple(form), arrays


def is_hashable(given: Any) -> bool:
    """True for what has a hash; writable memory says so by a ValueError."""
    try:
        hash(given)
    except (TypeError, ValueError):
        return False
    return True


def constant_key(name: str, given: Any) -> Hashable:
    """What identifies a constant argument; refuses what is not hashable."""
    if not is_hashable(given):
        raise PARAM_NOT_HASHABLE(name=name, type=type(given).__name__)
    return cast(Any, type(given)), repr(given) if isinstance(given, float) else given


def is_int(given: Any) -> bool:
    """True for an int, as the extent of a grid that needs no conversion."""
    return type(given) is int


def unwritten(type_: ShapedType) -> Array:
    """A fresh output, whose elements are arbitrary until the kernel writes them."""
    return np.empty(tuple(int(extent) for extent in type_.shape), type_.dtype.numpy)


def poisoned(type_: ShapedType) -> Array:
    """A fresh output: NaN, or the value 4, where the kernel leaves elements unwritten."""
    shape = tuple(int(extent) for extent in type_.shape)
    fill = np.nan if type_.dtype.is_float() else 4
    return np.full(shape, fill).astype(type_.dtype.numpy)


def show_all(prints: Iterable[tuple[Print, Array, Array | None]]) -> None:
    """Prints what every `device_print` kept, in the order in which the kernel came to it."""
    for _, prefix, tile in sorted(
        (event for each in prints for event in _shown(*each)), key=operator.itemgetter(0)
    ):
        print(prefix, tile)


def _shown(shown: Print, array: Array, reached: Array | None) -> Iterator[tuple[Any, str, Array]]:
    """When, after which prefix, and what: for each iteration that reached the statement."""
    for index in product(*map(range, array.shape[: len(shown.loops)])):
        if reached is None or reached[index].any():
            yield (*zip(shown.loops, index), (shown.number, 0)), shown.prefix, array[index]
