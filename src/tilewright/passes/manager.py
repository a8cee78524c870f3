"""The pipeline as an object, and pipelines of a user's own passes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright.choices import OptimizationStrategy
from tilewright.errors import VerificationError
from tilewright.ir.core import Function, Program
from tilewright.ir.rewrite import map_functions
from tilewright.ir.verifier import DEFAULT_PROPERTIES, IRPropertySet, verify
from tilewright.ir.verifier import IRProperty as IRProperty
from tilewright.kinds import accepts, required
from tilewright.passes import pipeline


class Pass:
    """A named change of a program: `change(program)` gives another one."""

    def __init__(self, change: Callable[[Program], Program], name: str) -> None:
        self._change = change
        self.__name__ = name

    def get_name(self) -> str:
        """What instruments see it as."""
        return self.__name__

    def __call__(self, program: Program) -> Program:
        changed = self._change(required(program, Program, f"pass {self.__name__} takes"))
        return required(changed, Program, f"pass {self.__name__} gave")

    def __repr__(self) -> str:
        return f"<pass {self.__name__}>"


@accepts(change=Callable, name=str)
def create_program_pass(change: Callable[[Program], Program], name: str = "") -> Pass:
    """A pass that changes whole programs; without `name` it is called as `change` is."""
    return Pass(change, name or change.__name__)


@accepts(change=Callable, name=str)
def create_function_pass(change: Callable[[Function], Function], name: str = "") -> Pass:
    """A pass that changes each function on its own; callees are changed before their callers."""
    title = name or change.__name__

    def checked(function: Function) -> Function:
        return required(change(function), Function, f"pass {title} gave")

    return Pass(lambda program: map_functions(program, checked), title)


@accepts(properties=IRPropertySet, program=Program, name=str)
def verify_properties(properties: IRPropertySet, program: Program, name: str = "") -> None:
    """Raises VerificationError for the first of `properties` that a program does not satisfy.

    `name` is that of the pass that gave the program, which the error then says.
    """
    try:
        verify(program, properties)
    except VerificationError as error:
        if name:
            error.with_note(f"after {name}")
        raise


@accepts(properties=IRPropertySet)
def run_verifier(properties: IRPropertySet = DEFAULT_PROPERTIES) -> Pass:
    """A pass that gives its program as it is; it raises VerificationError, as
    `verify_properties` does."""
    return create_program_pass(lambda program: verify(program, properties), "run_verifier")


class PassPipeline:
    """Passes to be run one after the other: `PassPipeline().add_pass(p).run(program)`."""

    def __init__(self) -> None:
        self.passes: list[Pass] = []

    def add_pass(self, step: Pass) -> PassPipeline:
        """Appends a pass; gives the pipeline. Raises TypeError for what cannot be called."""
        if not callable(step):
            raise TypeError(f"add_pass takes a pass, not {step!r}")
        self.passes.append(step)
        return self

    def run(self, program: Program) -> Program:
        """What the passes make of `program`, seen by the instruments of the active PassContext."""
        return pipeline.run_watched(self.passes, required(program, Program, "run takes"))


@accepts(strategy=OptimizationStrategy)
class PassManager:
    """The pipeline as an object: `PassManager.get_strategy(...).run_passes(program)`."""

    def __init__(self, strategy: OptimizationStrategy = OptimizationStrategy.Default) -> None:
        self.strategy = strategy

    @classmethod
    def get_strategy(
        cls, strategy: OptimizationStrategy = OptimizationStrategy.Default
    ) -> PassManager:
        """The pipeline of a strategy; here all strategies run the same passes."""
        return cls(strategy)

    @property
    def pass_names(self) -> Sequence[str]:
        """The passes, in order."""
        return [step.__name__ for step in pipeline.PIPELINE]

    def get_pass_names(self) -> Sequence[str]:
        """The passes, in order."""
        return self.pass_names

    def run_passes(self, program: Program, entry: str | None = None) -> Program:
        """The loop-level program of `entry`: of `main`, or else of the last function, which
        nobody calls. Raises what lowering raises."""
        required(program, Program, "run_passes takes")
        chosen = entry or ("main" if "main" in program.functions else [*program.functions][-1])
        return pipeline.lower(program, chosen)
