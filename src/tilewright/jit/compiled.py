"""A compiled program as a callable, with its two ways of being called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import tilewright.jit as room
from tilewright.abi import ScalarParam, Signature, TensorParam
from tilewright.boundary import public_entry
from tilewright.errors import (
    ArgumentCountMismatch,
    ArgumentError,
    InvalidOperationError,
)
from tilewright.ir.core import Program
from tilewright.jit.artifact import Artifact
from tilewright.jit.kernels import Kernel, NativeKernel
from tilewright.jit.options import CompileOptions, Execution, execution_of, require_run_config
from tilewright.jit.signature import Calling
from tilewright.runtime.config import RunConfig
from tilewright.runtime.stub import Launcher
from tilewright.runtime.variants import Guard, Variant

if TYPE_CHECKING:
    from pathlib import Path


class CompiledProgram(Launcher):
    """A compiled function.

    Called with all parameters it writes Out and InOut arrays in place; called with inputs only it
    allocates the Out arrays. Either way it gives what the function returns. Raises the classes of
    `tilewright.errors` for arguments that do not fit.
    """

    def __init__(
        self,
        artifact: Artifact,
        options: CompileOptions | None = None,
        *,
        output_dir: Path | None = None,
    ) -> None:
        self.artifact = artifact
        self.options = options or CompileOptions()
        self.in_place = artifact.calling
        self._output_dir = output_dir
        self._is_prepared = False
        self._sub_builds: dict[str, CompiledProgram] = {artifact.entry: self}

    # What it is

    @property
    def name(self) -> str:
        """The function's name."""
        return self.artifact.entry

    @property
    def program(self) -> Program | None:
        """The IR it was compiled from; None when it was restored from a cache."""
        return self.artifact.program

    @property
    def kernel(self) -> Kernel:
        """What runs it."""
        return self.artifact.kernel

    @property
    def signature(self) -> Signature:
        """Its parameters, all of them."""
        return self.in_place.signature

    @cached_property
    def by_return(self) -> Calling | None:
        """How it is called with inputs only; None where it returns nothing or cannot be."""
        return self.in_place.returning() if self.signature.returns else None

    @property
    def param_names(self) -> list[str]:
        """The parameters of a call, in order."""
        return [param.name for param in self.signature.explicit]

    @property
    def output_param_names(self) -> list[str]:
        """The Out and InOut parameters, in order."""
        return [
            p.name for p in self.signature.explicit if isinstance(p, TensorParam) and p.is_written
        ]

    @property
    def platform(self) -> str:
        """The legacy name of the target."""
        options = self.options
        config = RunConfig(backend_type=options.backend, execution_mode=options.mode)
        assert config.platform is not None
        return config.platform

    @property
    def timings(self) -> Mapping[str, float]:
        """Seconds of compilation by stage."""
        return self.artifact.timings.seconds

    @property
    def unknown_answers(self) -> Mapping[str, int]:
        """How often the affine engine could not decide a question, by question."""
        return self.artifact.timings.unknown

    def __repr__(self) -> str:
        return f"<compiled {self.name}({', '.join(self.param_names)})>"

    def __reduce__(self) -> Any:
        raise TypeError(
            f"compiled object '{self.name}' cannot be pickled: its code is in this process. Send "
            "the kernel itself, or save() the object and load it with CompiledProgram.from_dir()"
        )

    # Calling it

    def variants_of(
        self, guards: Sequence[Guard] = (), epoch: int = 0, *, allocates: bool = True
    ) -> list[Variant]:
        """The ways the native entry can call it, while the guards hold and in this epoch.

        Calls that leave the outputs out are among them where `allocates` says so.
        """
        if self.in_place.scalars:
            return []
        ways = [self.in_place, *([self.by_return] if allocates and self._has_short_form else [])]
        made = (
            self.kernel.variant(way.signature, guards, epoch) for way in ways if way is not None
        )
        return [variant for variant in made if variant is not None]

    @property
    def _has_short_form(self) -> bool:
        short = self.by_return
        return short is not None and len(short.signature.explicit) < len(self.signature.explicit)

    def load(self) -> CompiledProgram:
        """Loads the machine code, so that the first call does not."""
        self.set_variants(self.variants_of())
        self._is_prepared = True
        return self

    def prepare(self) -> CompiledProgram:
        """Another name of `load`."""
        return self.load()

    def explain(self) -> str:
        """What runs how: one kernel, or several, or the interpreter, and why."""
        together = getattr(self.kernel, "together", None)
        if together is not None:
            return together.explain(self.name)
        how = "one kernel" if isinstance(self.kernel, NativeKernel) else "interpreted, as asked for"
        return f"{self.name}: {how}"

    @property
    def graphs(self) -> Mapping[str, Any]:
        """For each Graph function that is launched: how often it was recorded and replayed."""
        together = getattr(self.kernel, "together", None)
        return {} if together is None else together.graphs

    def call_slowly(self, *args: Any, config: Any = None, **kwargs: Any) -> Any:
        """One call with every check done in Python; `config` has controls of the run."""
        if not self._is_prepared:
            self.load()
        return self.run(args, kwargs, config)

    @public_entry
    def run(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], config: Any = None) -> Any:
        """`call_slowly` without making the next call quick."""
        require_run_config(config)
        if config is not None and execution_of(config) not in ("native", self.options.execution):
            return self.executed(execution_of(config))(*args, **kwargs)
        if kwargs:
            args = self._ordered(args, kwargs)
        calling = self._calling(len(args), args)
        result = self.kernel.run(calling.signature, args)
        return self._unwrapped(calling, result)

    def _calling(self, count: int, args: Sequence[Any]) -> Calling:
        whole = len(self.signature.explicit)
        if count == whole:
            return self.in_place
        short = self.by_return
        if short is not None and count == len(short.signature.explicit):
            return short
        raise self._wrong_count(count)

    def _wrong_count(self, count: int) -> ArgumentError:
        names = self.param_names
        whole = len(names)
        inputs = [
            p.name
            for p in self.signature.explicit
            if isinstance(p, ScalarParam) or p.direction != "out"
        ]
        if self.by_return is None and self.signature.returns and count == len(inputs):
            return self._dynamic_output()
        ways = f"{whole} (in-place)"
        if self.by_return is not None and len(inputs) != whole:
            ways += f" or {len(inputs)} (return)"
        return ArgumentCountMismatch(
            f"{self.name} expects {ways} arguments, got {count}. Parameters: {names}",
            hint=f"Call it as {self.name}({', '.join(names)}).",
        )

    def _dynamic_output(self) -> ArgumentError:
        shapes = ((p.name, p.shape) for p in self.signature.tensors if p.direction == "out")
        open_ones = [name for name, shape in shapes if not all(e.is_static for e in shape)]
        return ArgumentCountMismatch(
            f"{self.name}: output '{open_ones[0]}' cannot be allocated, "
            "because no input determines its shape",
            hint=f"Pass an array for '{open_ones[0]}'.",
        )

    def _ordered(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, ...]:
        """Arguments by position and by name, in parameter order."""
        names = self.param_names
        values = dict(zip(names, args))
        unknown = [name for name in kwargs if name not in names]
        twice = [name for name in kwargs if name in values]
        if unknown or twice or len(args) > len(names):
            wrong = (unknown or twice or [str(len(args))])[0]
            what = "has no parameter" if unknown else "got two values for parameter"
            raise ArgumentCountMismatch(
                f"{self.name} {what} '{wrong}'. Parameters: {names}",
                hint=f"Call it as {self.name}({', '.join(names)}).",
            )
        values.update(kwargs)
        return tuple(values[name] for name in names if name in values)

    def _unwrapped(self, calling: Calling, result: Any) -> Any:
        """What the call gives: scalars as Python numbers."""
        if not calling.scalars:
            return result
        if not isinstance(result, tuple):
            return result[0].item()
        items: tuple[Any, ...] = result  # pyright: ignore[reportUnknownVariableType]
        return tuple(v[0].item() if i in calling.scalars else v for i, v in enumerate(items))

    @public_entry
    def validate_ir(
        self,
        rtol: float = 5e-2,
        atol: float = 5e-2,
        *,
        args: Sequence[Any] | None = None,
        seed: int = 0,
    ) -> Mapping[str, float]:
        """Runs the program after each pass, as its dump says it, and compares the outputs.

        `args` are numpy arrays and scalars for all parameters; without them they are small random
        numbers, dynamic dimensions 8. Gives the greatest difference by pass. Raises
        VerificationError naming the first pass after which an output differs by more than
        `atol + rtol * |output|`, and InvalidOperationError for a program restored from a cache.
        """
        given = args or room.validating.random_arguments(self.signature, seed)
        return room.validating.validate(self._source(), self.name, given, rtol, atol)

    def _source(self) -> Program:
        if self.program is None:
            raise InvalidOperationError(
                f"{self.name} was restored from the cache and has no IR to check",
                hint="Compile it with the cache disabled.",
            )
        return self.program

    def executed(self, execution: Execution) -> CompiledProgram:
        """The same program in the interpreter, checked or not, or compared with it.

        Only what is one kernel can be compared. Raises InvalidOperationError for a program that was
        restored from a cache.
        """
        program, ranks = self._source(), self.options.ranks
        if execution != "compare":
            is_checked = execution == "checked"
            made = room.build.interpreted(program, self.name, checked=is_checked, ranks=ranks)
        elif isinstance(self.kernel, NativeKernel):
            kernel = room.comparing.ComparedKernel(program, self.name, self.kernel)
            made = replace(self.artifact, kernel=kernel)
        else:
            made = self.artifact
        return CompiledProgram(made, replace(self.options, execution=execution))

    # Programs with several entries

    def add_entry(self, other: CompiledProgram) -> None:
        """Makes another function of the same program reachable by its name."""
        self._sub_builds[other.name] = other

    def __getitem__(self, name: str) -> CompiledProgram:
        found = self._sub_builds.get(name)
        if found is None:
            raise KeyError(f"no entry {name!r}; entries are {', '.join(self._sub_builds)}")
        return found

    @property
    def entries(self) -> tuple[CompiledProgram, ...]:
        """Every function that can be called."""
        return tuple(self._sub_builds.values())

    # On disk

    @property
    def saved_in(self) -> Path | None:
        """Where its files are, if they have been written."""
        return self._output_dir

    @property
    def output_dir(self) -> Path:
        """Where its files are; written when first asked for."""
        if self._output_dir is None:
            self.save(room.output.allocate_directory(self.name))
        assert self._output_dir is not None
        return self._output_dir

    def save(self, directory: str | Path) -> Path:
        """Writes the program, the object and what is known about it."""
        path = room.saving.Path(directory)
        room.saving.save(self, path)
        self._output_dir = path
        return path

    @staticmethod
    def from_dir(directory: str | Path) -> CompiledProgram:
        """The compiled program whose files are in a directory; raises ToolchainError."""
        return joined(room.saving.load(room.saving.Path(directory)))


class SeveralEntries(CompiledProgram):
    """A program with several functions to call, none of them `main`: `compiled["name"](...)`."""

    def __init__(self, entries: Sequence[CompiledProgram]) -> None:
        first = entries[0]
        super().__init__(first.artifact, first.options, output_dir=first.saved_in)
        for entry in entries:
            self.add_entry(entry)

    def load(self) -> CompiledProgram:
        """Loads the machine code of every entry."""
        for entry in self.entries:
            entry.load()
        return self

    def run(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], config: Any = None) -> Any:
        """Raises InvalidOperationError: which function is meant is not known."""
        names = ", ".join(entry.name for entry in self.entries)
        raise InvalidOperationError(
            f"the program has several functions to call, {names}, and none is named 'main'",
            hint=f"Choose one: compiled[{self.name!r}](...).",
        )


def joined(entries: Sequence[CompiledProgram]) -> CompiledProgram:
    """One object for the functions of a program that are called from outside; `main` is called
    when none is chosen."""
    chosen = (
        entries[0] if len(entries) == 1 else next((e for e in entries if e.name == "main"), None)
    )
    if chosen is None:
        return SeveralEntries(entries)
    for entry in entries:
        chosen.add_entry(entry)
    return chosen
