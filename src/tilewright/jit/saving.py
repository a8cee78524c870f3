"""Compiled programs as files: written when asked for, and read back as callables."""

from __future__ import annotations

import time
from pathlib import Path

import tilewright.jit as room
from tilewright.abi import Manifest, Signature
from tilewright.ir.core import Program
from tilewright.ir.serializer import deserialize, serialize
from tilewright.jit import output
from tilewright.jit.artifact import Artifact
from tilewright.jit.compiled import CompiledProgram
from tilewright.jit.kernels import NativeKernel
from tilewright.jit.signature import Calling
from tilewright.passes import diagnostics


def save(compiled: CompiledProgram, path: Path) -> None:
    """Writes the program, the objects and what is known about them."""
    path.mkdir(parents=True, exist_ok=True)
    if compiled.program is not None:
        text = compiled.program.as_python()
        (path / "program.py").write_text(text, encoding="utf-8")
        _write_hints(compiled, compiled.program, path)
    for each in compiled.entries:
        _write(each, path)


def _write_hints(compiled: CompiledProgram, program: Program, path: Path) -> None:
    """Writes the performance hints, if there are any."""
    with compiled.options.checks():
        hints = diagnostics.hints(program)
    if hints:
        (path / "perf_hints.log").write_text("\n".join([*hints, ""]), encoding="utf-8")


def _write(compiled: CompiledProgram, path: Path) -> None:
    """Writes one function's own files."""
    kernel = compiled.kernel
    data = kernel.data if isinstance(kernel, NativeKernel) else None
    program = serialize(compiled.program) if compiled.program is not None else None
    facts = output.facts_of(
        compiled.signature,
        kernel.manifest,
        scalars=list(compiled.in_place.scalars),
        saved=time.time(),
    )
    output.write_kernel(path, compiled.name, data, program, facts)
    if compiled.artifact.text is not None:
        (path / f"{compiled.name}.ll").write_text(compiled.artifact.text, encoding="utf-8")


def load(path: Path) -> list[CompiledProgram]:
    """The functions of the compiled program whose files are in a directory, each by itself.

    Raises ToolchainError for a directory without.
    """
    return [_load(path, name) for name in output.kernel_names(path)]


def _load(path: Path, name: str) -> CompiledProgram:
    data, saved, facts = output.read_kernel(path, name)
    signature = Signature.from_json(facts["signature"])
    calling = Calling(signature, tuple(facts["scalars"]))
    program = deserialize(saved) if saved is not None else None
    assert program is None or isinstance(program, Program)
    if data is None:
        assert program is not None
        return CompiledProgram(room.build.interpreted(program, name), output_dir=path)
    kernel = NativeKernel(data, signature, Manifest.from_json(facts["manifest"]))
    return CompiledProgram(Artifact(name, calling, kernel, program), output_dir=path)
