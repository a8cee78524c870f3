"""The engine of the traced style: contexts, scopes, call gates, symbolic values."""

from __future__ import annotations

from tilewright.frontend.calls import dont_trace, dont_trace_attr
from tilewright.frontend.trace.ambient import nki_ctx, nki_ctx_or_none
from tilewright.frontend.trace.context import NkiTypeSystem, TraceContext
from tilewright.frontend.trace.function import KernelFrame
from tilewright.frontend.trace.grid import Dim, ParDim, SpmdDim, grid_has_multi_physical_cores
from tilewright.frontend.trace.index import (
    AlwaysFalseMask,
    AlwaysTrueMask,
    EQTileMask,
    TileIndex,
    TileMask,
    TileMaskIntersection,
    mask,
)
from tilewright.frontend.trace.ops import NKIFunc
from tilewright.frontend.trace.options import CompileOpts
from tilewright.frontend.trace.predicates import (
    AlwaysFalsePredicate,
    AlwaysTruePredicate,
    DynamicScalar,
    EQScalarPredicate,
    LoopVar,
    ProgramId,
    ScalarPredicate,
    ScalarPredicateIntersection,
    ScalarPredicateUnion,
)
from tilewright.frontend.trace.scopes import (
    AllocationScope,
    FunctionScope,
    IfScope,
    KernelScope,
    LoopScope,
    Scope,
    ScopeRegion,
    StmtScope,
    WhileScope,
)
from tilewright.frontend.trace.tensors import (
    DataTile,
    KernelTensor,
    LocalTensor,
    nki_tensor,
    tensor,
)
from tilewright.nki._kernel import TraceKernel


def get_cur_scope() -> Scope:
    """The scope that the trace emits into; raises outside a kernel, as `nki_ctx` does."""
    return nki_ctx().cur_scope


__all__ = [
    "AllocationScope",
    "AlwaysFalseMask",
    "AlwaysFalsePredicate",
    "AlwaysTrueMask",
    "AlwaysTruePredicate",
    "CompileOpts",
    "DataTile",
    "Dim",
    "DynamicScalar",
    "EQScalarPredicate",
    "EQTileMask",
    "FunctionScope",
    "IfScope",
    "KernelFrame",
    "KernelScope",
    "KernelTensor",
    "LocalTensor",
    "LoopScope",
    "LoopVar",
    "NKIFunc",
    "NkiTypeSystem",
    "ParDim",
    "ProgramId",
    "ScalarPredicate",
    "ScalarPredicateIntersection",
    "ScalarPredicateUnion",
    "Scope",
    "ScopeRegion",
    "SpmdDim",
    "StmtScope",
    "TileIndex",
    "TileMask",
    "TileMaskIntersection",
    "TraceContext",
    "TraceKernel",
    "WhileScope",
    "dont_trace",
    "dont_trace_attr",
    "get_cur_scope",
    "grid_has_multi_physical_cores",
    "mask",
    "nki_ctx",
    "nki_ctx_or_none",
    "nki_tensor",
    "tensor",
]
