"""The typed IR: build it, print it, compare it, store it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tilewright
from tilewright.choices import OptimizationStrategy, PassDumpLevel
from tilewright.late import late
from tilewright.source import Span

if TYPE_CHECKING:
    from tilewright.ir import printing as printing
    from tilewright.ir.builder import Builder
    from tilewright.ir.core import (
        Block,
        Function,
        Operation,
        Program,
        Value,
        register_format_callback,
    )
    from tilewright.ir.enums import (
        AtomicType,
        CompactMode,
        ForKind,
        FunctionType,
        Level,
        MemorySpace,
        NotifyOp,
        PadValue,
        ParamDirection,
        PipeType,
        ReduceOp,
        Role,
        Rounding,
        ScopeMode,
        SplitMode,
        TensorLayout,
        TileLayout,
        WaitCmp,
    )
    from tilewright.ir.equal import (
        assert_structural_equal,
        content_hash,
        structural_equal,
        structural_hash,
    )
    from tilewright.ir.opdef import OpDef
    from tilewright.ir.printing import python_print, python_print_type
    from tilewright.ir.rewrite import Cloner
    from tilewright.ir.serializer import (
        SerializationError,
        deserialize,
        deserialize_from_file,
        serialize,
        serialize_to_file,
    )
    from tilewright.ir.types import (
        ArrayType,
        BufferType,
        DistributedTensorType,
        MemRef,
        PtrType,
        ScalarType,
        ShapedType,
        TensorType,
        TensorView,
        TileType,
        TileView,
        TupleType,
        Type,
    )
    from tilewright.ir.verifier import verify


__all__ = [
    "PassDumpLevel",
    "OptimizationStrategy",
    "ArrayType",
    "AtomicType",
    "Block",
    "BufferType",
    "Builder",
    "Cloner",
    "CompactMode",
    "DistributedTensorType",
    "ForKind",
    "Function",
    "FunctionType",
    "Level",
    "MemRef",
    "MemorySpace",
    "NotifyOp",
    "OpDef",
    "Operation",
    "PadValue",
    "ParamDirection",
    "PipeType",
    "Program",
    "PtrType",
    "ReduceOp",
    "Role",
    "Rounding",
    "ScalarType",
    "ScopeMode",
    "SerializationError",
    "ShapedType",
    "Span",
    "SplitMode",
    "TensorLayout",
    "TensorType",
    "TensorView",
    "TileLayout",
    "TileType",
    "TileView",
    "TupleType",
    "Type",
    "Value",
    "WaitCmp",
    "assert_structural_equal",
    "compile",
    "content_hash",
    "deserialize",
    "deserialize_from_file",
    "python_print",
    "python_print_type",
    "register_format_callback",
    "serialize",
    "serialize_to_file",
    "structural_equal",
    "structural_hash",
    "verify",
]

_HOMES = (
    "enums", "types", "core", "opdef", "builder", "rewrite", "equal", "printing", "serializer",
    "verifier",
)  # fmt: skip
_of_room, __dir__ = late(__name__, __all__, _HOMES)


def compile(program: Program | Function, *args: Any, **kwargs: Any) -> Any:
    """Compiles a program into a callable; see `tilewright.jit.compile` for the options."""
    return tilewright.jit.compile(program, *args, **kwargs)


_ABOVE = {"CompiledProgram": "jit", "DistributedCompiledProgram": "jit", "PassManager": "passes"}


def __getattr__(name: str) -> Any:
    """What is in this room; and what this name space also has, which is made above it."""
    home = _ABOVE.get(name)
    return _of_room(name) if home is None else getattr(getattr(tilewright, home), name)
