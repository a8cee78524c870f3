"""What a program needs to be run: who waits for whom, who starts whom, who asks which it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tilewright.ir.core import Block, Function, Operation, Program
from tilewright.ir.enums import Effect, ForKind, FunctionType, Level, Role, SplitMode
from tilewright.ir.types import DistributedTensorType
from tilewright.ops import comm, control, host, pipe, sync, task

WHO = (task.block_index, task.block_count, task.lane_index)
"""Operations that ask which block or lane runs."""

MEETINGS = (sync.all_, sync.wait, pipe.push, pipe.pop, pipe.gather)
"""Operations at which the cores of one rank may wait for each other."""

ALONE = (comm.alloc_window, comm.window, pipe.reserve, pipe.import_peer, pipe.initialize)
"""Communication that waits for nobody."""

BLOCKS = (ForKind.Spmd, ForKind.SplitAiv)
Test = Callable[[Operation], bool]


def asks_who(op: Operation) -> bool:
    """True for an operation that asks which block or lane runs."""
    return op.opdef in WHO


def waits(op: Operation) -> bool:
    """True for an operation at which cores of one rank may wait for each other."""
    if op.opdef is pipe.gather:
        return op.attrs["mode"] is not SplitMode.NONE
    return op.opdef in MEETINGS


def communicates(op: Operation) -> bool:
    """True for an operation that other ranks or cores take part in."""
    hints = (sync.set_ffts_, sync.invalidate, host.python)
    is_comm = op.opdef.effect is Effect.COMM and op.opdef not in (*ALONE, *hints)
    return waits(op) if op.opdef is pipe.gather else is_comm


def is_host_collective(op: Operation) -> bool:
    """True for communication that a host starts on every rank, if a host does it."""
    windows = any(isinstance(value.type, DistributedTensorType) for value in op.inputs)
    return windows and op.opdef.effect is Effect.COMM and op.opdef is not comm.window


class Facts:
    """Answers about the functions of one program, looked up through calls."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._answers: dict[tuple[str, Test], bool] = {}

    def _any(self, name: str, test: Test) -> bool:
        """True when a call of `name` may run an operation that `test` says yes to."""
        key = (name, test)
        if key not in self._answers:
            self._answers[key] = any(map(test, self.ops_of(name)))
        return self._answers[key]

    def asks_who(self, name: str) -> bool:
        """True when function `name` asks which block or lane runs."""
        return self._any(name, asks_who)

    def waits(self, name: str) -> bool:
        """True when cores of one rank that run `name` may wait for each other."""
        return self._any(name, waits)

    def communicates(self, name: str) -> bool:
        """True when others take part in what `name` does."""
        return self._any(name, communicates)

    def ops_of(self, name: str) -> Iterator[Operation]:
        """Every operation that a call of function `name` may run."""
        for function in self.reachable(name):
            yield from function.body.walk()

    def reachable(self, name: str) -> list[Function]:
        """Function `name` and what it calls, directly or not."""
        found: dict[str, Function] = {}
        pending = [name]
        while pending:
            current = pending.pop()
            function = self.program.get_function(current)
            if current in found or function is None:
                continue
            found[current] = function
            pending += callees(function.body)
        return list(found.values())

    def region_asks_who(self, region: Block) -> bool:
        """True when something in a region asks which block or lane runs."""
        return any(map(asks_who, region.walk())) or any(map(self.asks_who, callees(region)))

    def region_waits(self, region: Block) -> bool:
        """True when blocks that run a region may wait for each other."""
        return any(map(waits, region.walk())) or any(map(self.waits, callees(region)))

    def is_launch(self, op: Operation) -> bool:
        """True for a call that starts a rank, or one side of a group."""
        return op.opdef is control.call and ("device" in dict(op.attrs["attrs"]))

    def is_group(self, function: Function) -> bool:
        """True for a function whose cube and vector functions run at the same time."""
        return function.func_type is FunctionType.Group

    def is_host(self, function: Function) -> bool:
        """True for a function that starts ranks."""
        is_orchestrator = function.level is Level.HOST and function.role is not Role.SubWorker
        return is_orchestrator or any(map(self.is_launch, function.body.walk()))

    def needs_participants(self, name: str) -> bool:
        """True when a call of `name` needs several participants, or to know which one it is."""
        functions = self.reachable(name)
        groups = any(self.is_group(f) or self.is_host(f) for f in functions)
        clusters = any(
            op.opdef is control.scope and op.attrs["kind"] == "cluster" for op in self.ops_of(name)
        )
        return groups or clusters or self.communicates(name) or self.asks_who(name)

    def lanes(self, name: str) -> int:
        """The vector lanes that run function `name`: two when it is divided or asks which it is."""
        function = self.program[name]
        divided = any(
            op.attrs.get("split") or op.opdef is task.lane_index for op in self.ops_of(name)
        )
        wanted = function.attrs.get("dual_aiv_dispatch", False) or function.attrs.get("split")
        return 2 if divided or wanted not in (False, None, SplitMode.NONE) else 1


def callees(region: Block) -> list[str]:
    """The functions that a region calls."""
    return [op.attrs["callee"] for op in region.walk() if op.opdef is control.call]


def find_foreign(program: Program, entry: str) -> Function | None:
    """A function that `entry` calls, directly or not, and whose body is host Python."""
    pending, seen = [entry], set[str]()
    while pending:
        name = pending.pop()
        function = program.get_function(name)
        if function is None or name in seen:
            continue
        seen.add(name)
        for op in function.body.walk():
            if op.opdef is host.python:
                return function
            if op.opdef is control.call:
                pending.append(op.attrs["callee"])
    return None
