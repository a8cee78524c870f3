"""Compile a finished program: which function is called, what is written, what is warned about."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import tilewright.jit as room
from tilewright.boundary import public_entry
from tilewright.cache import CacheConfig, current_config
from tilewright.errors import InvalidOperationError, UnsupportedFeatureError
from tilewright.external import watched
from tilewright.ir.core import Function, Program
from tilewright.ir.enums import FunctionType
from tilewright.ir.equal import content_hash
from tilewright.jit._persistent import obtain
from tilewright.jit.cache import Key
from tilewright.jit.compiled import CompiledProgram, joined
from tilewright.jit.distributed import DistributedCompiledProgram
from tilewright.jit.options import CompileOptions, resolve_options
from tilewright.jit.together import build_together, find_reason, waits_for_others
from tilewright.ops import control, external
from tilewright.ops.facts import Facts, find_foreign
from tilewright.passes import diagnostics
from tilewright.runtime.config import RunConfig

if TYPE_CHECKING:
    from pathlib import Path


def compile_program(
    program: Program | Function,
    entry: str | None = None,
    options: CompileOptions | None = None,
    **config: Any,
) -> CompiledProgram:
    """Compiles a program (or a lone function) into a callable.

    `entry` names the function to call; by default that is `main`, else the program's only
    orchestration, else the only function that no other one calls. Where several remain, each is
    compiled, and `compiled["name"]` chooses. `config` are options of a RunConfig; `cache_config`
    among them says whether and where the machine code is kept.
    """
    if isinstance(program, Function):
        entry = entry or program.name
        program = _program_of(program)
    if not isinstance(program, Program):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"a Program or a Function is compiled, not {program!r}")
    options = options or resolve_options(RunConfig(**config) if config else None)
    names = [entry] if entry is not None else entry_names(program)
    is_written = options.output_dir is not None or options.is_fresh
    directory = room.output.directory_for(program.name, options.output_dir) if is_written else None
    report(program, options)
    policy = current_config(config.get("cache_config"))
    compiled = joined([_compile_entry(program, name, options, directory, policy) for name in names])
    if directory is not None:
        compiled.save(directory)
    return compiled


def report(program: Program, options: CompileOptions) -> None:
    """Warns about the program, as the options and the active context ask."""
    with options.checks():
        diagnostics.report(program)


def _compile_entry(
    program: Program,
    entry: str,
    options: CompileOptions,
    directory: Path | None,
    policy: CacheConfig,
) -> CompiledProgram:
    if program.get_function(entry) is None:
        raise InvalidOperationError(
            f"program '{program.name}' has no function '{entry}'",
            hint=f"Its functions are {', '.join(program.functions)}.",
        )
    if options.execution == "compare":
        native = replace(options, execution="native")
        return _compile_entry(program, entry, native, directory, policy).executed("compare")
    reason = find_reason(program, entry, options) if options.execution == "native" else None
    if reason is not None:
        return _several(program, entry, options, reason)
    try:
        return _alone(program, entry, options, directory, policy)
    except UnsupportedFeatureError as error:
        if options.execution != "native" or not waits_for_others(Facts(program), entry):
            raise
        why = f"its participants wait for each other in a way that is not compiled: {error.message}"
        return _several(program, entry, options, why)


def _alone(
    program: Program,
    entry: str,
    options: CompileOptions,
    directory: Path | None,
    policy: CacheConfig,
) -> CompiledProgram:
    """A program that is one kernel."""
    is_plain = not options.is_fresh and options.execution == "native"
    if not policy.enabled or not is_plain or find_foreign(program, entry) is not None:
        return CompiledProgram(room.build.build(program, entry, options, directory), options)
    parts = (
        ("kernel", entry),
        ("program", content_hash(program)),
        ("C++ sources", source_contents(program)),
        *options.key_parts,
    )
    artifact = obtain(
        Key(parts), policy, lambda: (program, room.build.generate(program, entry, options))
    )
    artifact.program = program
    return CompiledProgram(artifact, options)


def source_contents(program: Program) -> str:
    """Digests of the files of its functions in C++, as they are now."""
    functions = filter(external.is_external, program.functions.values())
    kernels = map(external.kernel_of, functions)
    sources = ((s, k["include_dirs"]) for k in kernels for s in (k["cube"], k["source"]) if s)
    return " ".join(watched(*source).digest for source in sources)


def _several(program: Program, entry: str, options: CompileOptions, reason: str) -> CompiledProgram:
    """A program that is more than one kernel."""
    artifact = build_together(program, entry, options, reason, options.ranks)
    is_distributed = options.distributed is not None or Facts(program).is_host(program[entry])
    make = DistributedCompiledProgram if is_distributed else CompiledProgram
    return make(artifact, options)


def _program_of(function: Function) -> Program:
    functions: dict[str, Function] = {}

    def add(each: Function) -> None:
        for callee in each.callees.values():
            add(callee)
        functions.setdefault(each.name, each)

    add(function)
    return Program(function.name, functions, function.span)


def entry_names(program: Program) -> list[str]:
    """The functions of a program that are called from outside, the main one first."""
    functions = program.functions
    called = {
        op.attrs["callee"]
        for function in functions.values()
        for op in function.body.walk()
        if op.opdef is control.call
    }
    roots = [name for name in functions if name not in called]
    orchestrations = [
        name for name in roots if functions[name].func_type is FunctionType.Orchestration
    ]
    chosen = orchestrations or roots or list(functions)
    if "main" in functions:
        chosen = ["main", *(name for name in chosen if name != "main" and name in orchestrations)]
    if not chosen:
        raise InvalidOperationError(f"program '{program.name}' has no functions")
    return chosen


@public_entry
def compile(
    program: Program | Function,
    output_dir: str | Path | None = None,
    strategy: Any = None,
    dump_passes: Any = False,
    backend_type: Any = None,
    skip_ptoas: bool = False,
    verification_level: Any = None,
    diagnostic_phase: Any = None,
    disabled_diagnostics: Any = None,
    memory_planner: Any = None,
    enable_pypto_l0c_double_buffer: bool | None = None,
    profiling: bool = False,
    platform: str | None = None,
    distributed_config: Any = None,
    analyze_auto_scopes_for_deps: bool = False,
    emit_source_loc: bool | None = None,
    dump_ptoas_passes: bool = False,
    runtime: Any = None,
    execution_mode: Any = None,
    execution: str | None = None,
) -> CompiledProgram:
    """Compiles a program: `ir.compile(program)(*arrays)`.

    `output_dir` is where its files go (by default nothing is written until `output_dir` of the
    result is read). `execution="interpret"` runs the program in numpy, `"checked"` looks for
    missing dependencies and unwritten memory while it does. Raises author errors, located.
    """
    del skip_ptoas, enable_pypto_l0c_double_buffer
    given: dict[str, Any] = {
        "save_kernels_dir": None if output_dir is None else str(output_dir),
        "strategy": strategy,
        "dump_passes": dump_passes,
        "backend_type": backend_type,
        "verification_level": verification_level,
        "diagnostic_phase": diagnostic_phase,
        "disabled_diagnostics": disabled_diagnostics,
        "memory_planner": memory_planner,
        "compile_profiling": profiling,
        "platform": platform,
        "distributed_config": distributed_config,
        "analyze_auto_scopes_for_deps": analyze_auto_scopes_for_deps,
        "emit_source_loc": emit_source_loc,
        "dump_ptoas_passes": dump_ptoas_passes,
        "runtime": runtime,
        "execution_mode": execution_mode,
        "execution": execution,
    }
    config = RunConfig(**{name: value for name, value in given.items() if value is not None})
    return compile_program(program, options=resolve_options(config))
