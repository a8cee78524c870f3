"""The function that a trace builds: parameters, outputs, the launch grid around the body."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Container, Sequence
from types import FunctionType
from typing import TYPE_CHECKING, Any, cast

from tilewright.dataclass import dataclass
from tilewright.dtypes import INT32, DType
from tilewright.errors.nki_control import PROGRAM_ID_AXIS
from tilewright.frontend.trace.ambient import refusal
from tilewright.frontend.trace.grid import GridDim
from tilewright.frontend.trace.loops import close_loop, open_loop
from tilewright.frontend.trace.predicates import ProgramId
from tilewright.frontend.trace.roots import Root
from tilewright.frontend.trace.scopes import LoopScope
from tilewright.frontend.trace.sequences import holds, rebuilt
from tilewright.frontend.trace.tensors import nki_tensor, whole_tensor
from tilewright.frontend.trace.typing import TensorAnnotation
from tilewright.ir.affine import Symbol, as_expr
from tilewright.ir.core import Block, Function, Operation, Value
from tilewright.ir.enums import ForKind, MemorySpace, ParamDirection
from tilewright.ir.enums import FunctionType as Kind
from tilewright.ir.types import ShapedType, TensorType
from tilewright.ops import control, creation, memory
from tilewright.ops.nki_dtypes import find_dtype

if TYPE_CHECKING:
    from tilewright.frontend.trace.context import TraceContext


@dataclass(frozen=True)
class ArraySpec:
    """What a trace knows of an array argument."""

    shape: tuple[int, ...]
    dtype: DType


def is_spec(given: object) -> bool:
    """True for what stands for an array."""
    return isinstance(given, ArraySpec)


@dataclass(frozen=True)
class Print:
    """A `device_print`: what stands before the tile, and which loops are around it.

    `number` says where it stands among the prints of the kernel and the loops that have any, whose
    numbers are `loops`. `reached` is the output that is not 0 where the statement ran; None where
    it always does.
    """

    prefix: str
    number: int
    loops: tuple[int, ...]
    reached: Root | None = None


@dataclass(frozen=True)
class KernelFrame:
    """One call of a kernel to be traced: arguments with arrays as `ArraySpec`s, and the grid."""

    function: Any
    bound: inspect.BoundArguments
    grid: tuple[GridDim, ...] = ()


class KernelFunction:
    """Collects parameters and outputs during the walk, and makes the function at its end."""

    def __init__(self, ctx: TraceContext) -> None:
        self.ctx = ctx
        self.name = "kernel"
        self.grid: tuple[GridDim, ...] = ()
        self.inputs: list[Root] = []
        self.constants: dict[Root, Any] = {}
        self.outputs: list[Root] = []
        self.prints: dict[Root, Print] = {}
        self._numbers: dict[LoopScope | Root, int] = {}
        self.results: list[Root] = []
        self.returns_tuple = False
        self.axes: list[LoopScope] = []
        self.doc: str | None = None
        self.allocates: bool | None = None
        """Whether its author says where on the chip tensors lie; None while no tensor tells."""

    # ------------------------------------------------------------------ parameters

    def bind_parameters(self, name: str, frame: KernelFrame) -> inspect.BoundArguments:
        """The arguments with tensors in place of array specs."""
        self.name = name
        self.grid = frame.grid
        self.doc = inspect.getdoc(frame.function)
        annotations = parameter_annotations(frame.function)
        bound = frame.bound.signature.bind(*frame.bound.args, **frame.bound.kwargs)
        for parameter, given in bound.arguments.items():
            mutable = self._is_mutable(annotations.get(parameter))
            bound.arguments[parameter] = self._argument(parameter, given, mutable)
        return bound

    def _is_mutable(self, annotation: Any) -> bool:
        if not self.ctx.opts.kernel_return:
            return True
        return isinstance(annotation, TensorAnnotation) and annotation.is_mutable

    def _argument(self, name: str, given: Any, mutable: bool) -> Any:
        if isinstance(given, ArraySpec):
            return self._input(name, given, mutable)
        if not holds(is_spec, given):
            return given
        if isinstance(given, dict):
            named = cast("dict[str, Any]", given)
            return {key: self._argument(key, each, mutable) for key, each in named.items()}
        named = [(f"{name}_{place}", each) for place, each in enumerate(given)]
        return rebuilt(given, [self._argument(*each, mutable) for each in named])

    def _input(self, name: str, spec: ArraySpec, mutable: bool) -> nki_tensor:
        value = Value(TensorType(spec.shape, spec.dtype), name)
        root = Root(
            value,
            MemorySpace.Hbm,
            self.ctx.kernel_scope,
            name=name,
            is_mutable=mutable,
            is_parameter=True,
        )
        self.inputs.append(root)
        return whole_tensor(root)

    def mutable_parameters(self) -> list[Root]:
        """Parameters that are declared mutable."""
        return [root for root in self.inputs if root.is_mutable]

    def new_output(self, shape: tuple[int, ...], dtype: DType, space: MemorySpace) -> Root:
        """A tensor that the caller allocates."""
        value = Value(TensorType(shape, dtype))
        root = Root(value, space, self.ctx.kernel_scope, is_output=True)
        self.outputs.append(root)
        return root

    def new_constant(self, array: Any) -> Root:
        """A tensor in HBM that is passed along with every launch."""
        dtype = find_dtype(array.dtype)
        assert dtype is not None
        value = Value(TensorType(array.shape, dtype), f"constant_{len(self.constants)}")
        root = Root(
            value, MemorySpace.Hbm, self.ctx.kernel_scope, is_mutable=False, is_parameter=True
        )
        self.constants[root] = array
        return root

    def print_value(self, prefix: str, value: Value) -> None:
        """Keeps a tile of every iteration of the loops around, to be printed after the launch.

        Of a loop whose length only the run knows, the last iteration is kept.
        """
        loops = [r for r in self.ctx.regions if isinstance(r, LoopScope) and r.trip is not None]
        reached = None
        if len(loops) < len(self.ctx.regions):
            one = creation.full(shape=(1, 1), dtype=INT32, value=1, space=MemorySpace.Sbuf)
            reached = self._kept(one, loops)
        root = self._kept(value, loops)
        around = tuple(self._numbers.setdefault(loop, len(self._numbers)) for loop in loops)
        number = self._numbers[root] = len(self._numbers)
        self.prints[root] = Print(prefix, number, around, reached)

    def _kept(self, value: Value, loops: Sequence[LoopScope]) -> Root:
        """An output with a tile of every iteration of `loops`."""
        assert isinstance(value.type, ShapedType)
        trips = tuple(loop.trip for loop in loops if loop.trip is not None)
        extents = tuple(int(extent) for extent in value.type.shape)
        root = self.new_output((*trips, *extents), value.type.dtype, MemorySpace.Hbm)
        sema = self.ctx.sema
        offsets = [sema.scalar(as_expr(loop.symbol)) for loop in loops]
        offsets += [sema.index(0) for _ in extents]
        sema.advance(root, memory.store(value, tuple(offsets), sema.version_of(root)))
        return root

    @property
    def roots(self) -> list[Root]:
        """The root of each parameter, in order."""
        return [*self.inputs, *self.constants, *self.outputs]

    def is_result(self, root: Root) -> bool:
        """True for what may be returned: outputs, and parameters that are updated."""
        return root.is_output or (root.is_parameter and root.is_mutable)

    # ------------------------------------------------------------------ the grid

    def open_grid(self) -> None:
        """Opens one region per axis of the launch grid, around the whole body."""
        for axis, dim in enumerate(self.grid):
            symbol = Symbol(f"program_{axis}", 0, dim.size - 1)
            self.axes.append(open_loop(self.ctx, symbol, dim.size, is_affine=False))

    def close_grid(self) -> None:
        """Closes the regions of the grid, innermost first."""
        for scope in reversed(self.axes):
            kind = ForKind.Sequential if scope.has_dependence else ForKind.Spmd
            assert scope.trip is not None
            close_loop(self.ctx, scope, scope.trip, kind)

    def program_id(self, axis: int) -> ProgramId:
        """The index of the running program along an axis (negative counts from the end)."""
        ndim = len(self.grid)
        if not -max(ndim, 1) <= axis < max(ndim, 1):
            raise refusal(PROGRAM_ID_AXIS, axis=axis, ndim=ndim)
        if not ndim:
            return ProgramId(0, 0, 1)
        place = axis % ndim
        return ProgramId(self.axes[place].symbol, place, self.grid[place].size)

    # ------------------------------------------------------------------ the end

    def function(self) -> Function:
        """The finished function; output versions are the finals of its Out and InOut parameters."""
        roots = self.roots
        block = self.ctx.sema.block
        directions = tuple(map(self._direction, roots))
        written = [r for r, d in zip(roots, directions) if d is not ParamDirection.In]
        params = tuple(root.first for root in roots)
        for place, root in enumerate(self.outputs):
            root.first.name = root.first.name or f"out_{place}"
        taken: set[str] = set()
        for param in params:
            param.name = unused(param.name, taken)
            taken.add(param.name)
        control.return_((), tuple(root.version for root in written))
        drop_unused(block, self.ctx.sema.consumed)
        body = Block(params, block.ops)
        return Function(self.name, directions, body, (), func_type=Kind.InCore, doc=self.doc)

    @staticmethod
    def _direction(root: Root) -> ParamDirection:
        if root.is_output:
            return ParamDirection.Out
        return ParamDirection.InOut if root.is_mutable and root.is_written else ParamDirection.In


def unused(name: str, taken: Container[str]) -> str:
    """`name`, or the first of `name_1`, `name_2`, ... that is not taken."""
    numbered = (f"{name}_{number}" for number in itertools.count(1))
    return next(each for each in itertools.chain((name,), numbered) if each not in taken)


def parameter_annotations(function: FunctionType) -> dict[str, Any]:
    """The annotations of a function; strings are evaluated where that is possible."""
    found: dict[str, Any] = {}
    for name, annotation in function.__annotations__.items():
        found[name] = evaluated(annotation, function) if isinstance(annotation, str) else annotation
    return found


def evaluated(text: str, function: FunctionType) -> Any:
    """A postponed annotation, or None when it means nothing here."""
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or ()))
    names = {name: cell.cell_contents for name, cell in cells.items() if _is_filled(cell)}
    try:
        return eval(text, function.__globals__, names)
    except Exception:
        return None


def _is_filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False


def drop_unused(block: Block, candidates: Sequence[Operation]) -> None:
    """Removes pure operations whose only use was fused into another operation."""
    if not candidates:
        return
    used = {value for op in block.walk() for value in op.inputs}
    dead = {op for op in candidates if op.result not in used}
    if dead:
        _remove(block, dead)


def _remove(block: Block, dead: set[Operation]) -> None:
    block.ops[:] = [op for op in block.ops if op not in dead]
    for op in block.ops:
        for region in op.regions:
            _remove(region, dead)
