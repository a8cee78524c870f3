"""What `pypto.debug` and `pypto.runtime.debug` have: programs as Python, and what is not here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tilewright.errors import UnsupportedOnTarget
from tilewright.ir.core import Function, Program
from tilewright.jit import driver

_HEAD = '''\
"""{name}, interpreted: a reference for what compiled code gives."""

import tilewright.language as pl
from tilewright.jit import compile_program

program = pl.parse({text!r})
'''

_FUNCTION = """

_{name} = compile_program(program, {name!r}, execution="interpret")


def {name}(*args):
    # {params}: all of them, or inputs only
    return _{name}(*args)
"""


def torch_codegen(node: Program | Function, check_shapes: bool = False) -> str:
    """Python text that runs a program or function in the interpreter, as a golden model.

    `exec` it and call the function of its name, or `run` for the main one, with tensors of torch or
    numpy; shapes are checked in any case. Outputs are written in place, as in a compiled call.
    """
    del check_shapes
    names = [node.name] if isinstance(node, Function) else driver.entry_names(node)
    functions = {node.name: node} if isinstance(node, Function) else node.functions
    lines = [_HEAD.format(name=node.name, text=node.as_python())]
    for name in names:
        params = ", ".join(param.name for param in functions[name].params)
        lines.append(_FUNCTION.format(name=name, params=params))
    return "".join([*lines, f"\n\nrun = {names[0]}\n"])


def rebuild_kernel_cpp_from_pto(directory: str | Path, *_: Any, **__: Any) -> None:
    """Raises UnsupportedOnTarget: kernels are compiled from their IR, and no C++ is generated."""
    raise UnsupportedOnTarget(
        f"{directory} has no C++ that could be built again: kernels are compiled from their IR",
        hint="Compile the program again, or call CompiledProgram.from_dir(directory).",
    )
