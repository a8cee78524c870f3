"""`pypto` as a name of the parsed style, with the parts that published programs import."""

from __future__ import annotations

from types import ModuleType, SimpleNamespace
from typing import Any

import tilewright
from tilewright import cache, errors, ir, jit, language, passes, runtime
from tilewright.compat.alias_module import AliasModule
from tilewright.compat.pypto_debug import rebuild_kernel_cpp_from_pto, torch_codegen
from tilewright.compat.pypto_devices import (
    BenchmarkResult,
    ChipWorker,
    DeviceTensor,
    StackedDeviceTensor,
    benchmark,
    pto_isa_include_dir,
)
from tilewright.compat.pypto_runtime import (
    ScalarSpec,
    TensorSpec,
    configure_log,
    execute_compiled,
    invalidate_binary_cache,
    run,
    tensor_from_continuous,
    to_runtime_shape,
    to_torch_dtype,
)
from tilewright.dist import DistributedWorker
from tilewright.dtypes import DataType
from tilewright.jit import _specialize_types, compiled, decorator, specializer
from tilewright.jit import cache as keys
from tilewright.language import distributed
from tilewright.runtime import BackendType, DistributedConfig, OptimizationStrategy

Contents = dict[str, Any]


def set_backend_type(backend_type: BackendType) -> None:
    """Accepts an accelerator family; all of them run on the CPU here. Raises ValueError."""
    BackendType(backend_type)


class DfxOpts(SimpleNamespace):
    """Options of on-device tracing, which has nothing to trace here."""


def _diagnostics() -> Contents:
    names = (
        "ParserError",
        "ParserSyntaxError",
        "ParserTypeError",
        "UndefinedVariableError",
        "SSAViolationError",
        "UnsupportedFeatureError",
        "InvalidOperationError",
        "ScopeIsolationError",
    )
    return {name: getattr(errors, name) for name in names}


def _top() -> Contents:
    return {
        "DataType": DataType,
        "Error": errors.TilewrightError,
        "InternalError": errors.InternalError,
        "PartialCodegenError": errors.PartialCodegenError,
        "CacheConfig": cache.CacheConfig,
        "configure_cache": cache.configure_cache,
        "cache_stats": cache.cache_stats,
    }


def _runtime() -> Contents:
    return {
        "run": run,
        "execute_compiled": execute_compiled,
        "TensorSpec": TensorSpec,
        "ScalarSpec": ScalarSpec,
        "CacheConfig": cache.CacheConfig,
        "CompileProfiler": jit.CompileProfiler,
        "CompiledProgram": jit.CompiledProgram,
        "DistributedCompiledProgram": jit.DistributedCompiledProgram,
        "DistributedWorker": DistributedWorker,
        "ChipWorker": ChipWorker,
        "DeviceTensor": DeviceTensor,
        "StackedDeviceTensor": StackedDeviceTensor,
        "benchmark": benchmark,
        "BenchmarkResult": BenchmarkResult,
        "pto_isa_include_dir": pto_isa_include_dir,
    }


def _ir() -> Contents:
    return {
        "CompiledProgram": jit.CompiledProgram,
        "DistributedCompiledProgram": jit.DistributedCompiledProgram,
        "DistributedConfig": DistributedConfig,
        "OptimizationStrategy": OptimizationStrategy,
        "PassManager": passes.PassManager,
        "PassDumpLevel": runtime.PassDumpLevel,
    }


_OPERATION = "an Operation says what it is by `name` and has `operands`, `attrs` and `results`"
_ABSENT = {
    **dict.fromkeys(("Call", "Submit", "EvalStmt", "AssignStmt", "Op", "MakeTuple"), _OPERATION),
    "GlobalVar": "an Operation named 'control.call' names the function it calls in attrs['callee']",
    **dict.fromkeys(
        ("ForStmt", "WhileStmt", "IfStmt", "ReturnStmt", "YieldStmt"),
        "an Operation named 'control.for', 'control.if' and so on has its bodies in `regions`",
    ),
    "SeqStmts": "a Block has its operations in `ops`; `block.walk()` visits those of regions, too",
    **dict.fromkeys(
        ("Var", "IterArg", "Expr", "TupleGetItemExpr"),
        "a Value has a `name`, a `type` and an `owner`, the Operation or Block that makes it",
    ),
    **dict.fromkeys(
        ("ConstInt", "ConstFloat", "ConstBool"),
        "a constant is the result of an Operation named 'arith.const'",
    ),
    "IRBuilder": "`Builder` makes operations, and `pl.parse` reads text",
    "IRVisitor": "`function.body.walk()` visits every operation",
    "IRMutator": "`Cloner` copies a program with changes",
}
"""Classes of nodes that are not here: there is one IR, and it has other classes."""


def _parts() -> dict[str, tuple[ModuleType | None, Contents]]:
    """What each part forwards to, and what it holds besides."""
    backend = {"BackendType": BackendType, "set_backend_type": set_backend_type}
    builds = {
        "CompiledProgram": jit.CompiledProgram,
        "DistributedCompiledProgram": jit.DistributedCompiledProgram,
        "DistributedConfig": DistributedConfig,
    }
    return {
        "": (None, _top()),
        ".language": (language, {}),
        ".language.distributed": (distributed, {}),
        ".language.parser": (None, _diagnostics()),
        ".language.parser.diagnostics": (None, _diagnostics()),
        ".runtime": (runtime, _runtime()),
        ".runtime.runner": (None, {"RunConfig": runtime.RunConfig, "_DfxOpts": DfxOpts}),
        ".runtime.distributed_runner": (
            None,
            {
                "DistributedWorker": DistributedWorker,
                "_tensor_from_continuous": tensor_from_continuous,
            },
        ),
        ".runtime.log_config": (None, {"configure_log": configure_log}),
        ".runtime.debug": (None, {}),
        ".runtime.debug.replay": (None, {"invalidate_binary_cache": invalidate_binary_cache}),
        ".runtime.debug.pto_rebuild": (
            None,
            {"rebuild_kernel_cpp_from_pto": rebuild_kernel_cpp_from_pto},
        ),
        ".debug": (None, {"torch_codegen": torch_codegen}),
        ".ir": (ir, _ir()),
        ".ir.compiled_program": (
            compiled,
            {**builds, "_to_torch_dtype": to_torch_dtype, "_to_runtime_shape": to_runtime_shape},
        ),
        ".ir.distributed_compiled_program": (None, builds),
        ".ir.printer": (ir.printing, {}),
        ".ir.pass_manager": (
            None,
            {"PassManager": passes.PassManager, "OptimizationStrategy": OptimizationStrategy},
        ),
        ".passes": (passes, {"VerificationError": errors.VerificationError}),
        ".backend": (None, backend),
        ".jit": (jit, {}),
        ".jit.cache": (keys, {}),
        ".jit.decorator": (decorator, {}),
        ".jit.specializer": (specializer, {}),
        ".jit._specialize_types": (_specialize_types, {}),
        ".pypto_core": (None, {"DataType": DataType}),
        ".pypto_core.ir": (ir, _ir()),
        ".pypto_core.passes": (passes, {"VerificationError": errors.VerificationError}),
    }


def modules() -> dict[str, ModuleType]:
    """The alias package, parents before their parts."""
    made: dict[str, ModuleType] = {
        f"pypto{part}": AliasModule(
            f"pypto{part}", target, contents, _ABSENT if target is ir else None
        )
        for part, (target, contents) in _parts().items()
    }
    made["pypto"].__dict__["__version__"] = getattr(tilewright, "__version__", "0.1.0")
    return made
