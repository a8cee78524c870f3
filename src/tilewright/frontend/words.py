"""The words of the parsed style: loops, scopes, yields and what else only the parser knows."""

from __future__ import annotations

from tilewright.frontend.surface import LoopWord, ScopeWord, Word
from tilewright.ir.enums import ForKind

RANGE = LoopWord("pl.range", ForKind.Sequential, "A loop whose iterations run in order.")
PARALLEL = LoopWord("pl.parallel", ForKind.Parallel, "A loop whose iterations are independent.")
UNROLL = LoopWord("pl.unroll", ForKind.Unroll, "A loop over constants, unrolled when compiled.")
PIPELINE = LoopWord("pl.pipeline", ForKind.Pipeline, "A loop whose stages overlap (stage=).")
LANES = LoopWord("pl.loop.lanes", ForKind.Lanes, "Loop level: the vector loop.")
TOGETHER = LoopWord(
    "pl.loop.together", ForKind.Together, "Iterations that run at the same time, a thread each."
)
SPMD = LoopWord("pl.spmd", ForKind.Spmd, "Blocks that run the same body; or a scope of them.")
SPLIT_AIV = LoopWord("pl.split_aiv", ForKind.Spmd, "The two vector lanes of a mixed region.")
WHILE = Word("pl.while_", "A loop with explicit carries, ended by pl.cond.")

YIELD = Word("pl.yield_", "Ends a region and gives its values to what encloses it.")
COND = Word("pl.cond", "The condition of a pl.while_ loop: its first statement.")
FUNC_ATTR = Word("pl.func_attr", "Attributes of a function; stands first in its body.")
STATIC_PRINT = Word("pl.static_print", "Prints its arguments while the kernel is read.")
STATIC_ASSERT = Word(
    "pl.static_assert", "Refuses the kernel when a compile-time condition is false."
)
CONST = Word("pl.const", "A literal of a given dtype: pl.const(1, pl.INT32).")
ACCESS = Word("pl.access", "An affine access: its index map, extents and mask.")
SUBMIT = Word("pl.submit", "Calls a kernel and gives its task id as well.")
SPMD_SUBMIT = Word("pl.spmd_submit", "Calls a kernel on several blocks; gives the task id as well.")

AT = ScopeWord("at", "A scope placed at a level of the machine.")
CLUSTER = ScopeWord("cluster", "A co-scheduled group of cube and vector cores.")
SCOPE = ScopeWord("scope", "A scope whose dependencies are automatic or manual.")
MANUAL_SCOPE = ScopeWord("manual_scope", "A scope without automatic dependencies.")
GRAPH = ScopeWord("graph", "A fragment recorded once and replayed.")

BLOCK_IDX = Word("pl.get_block_idx", "The index of the block that runs, in pl.spmd.")
BLOCK_NUM = Word("pl.get_block_num", "The number of blocks of pl.spmd.")
SUBBLOCK_IDX = Word("pl.get_subblock_idx", "The vector lane that runs, in pl.split_aiv.")
AIV_SHARD = Word("pl.aiv_shard", "The part of a cube core's value that a vector lane gets.")
AIC_GATHER = Word("pl.aic_gather", "The value that the cube core gets of the lanes' parts.")
NO_DEP = Word("pl.no_dep", "An argument that orders nothing.")
DUMP_TAG = Word("pl.dump_tag", "An argument whose contents are dumped.")

LOOPS = (RANGE, PARALLEL, UNROLL, PIPELINE, SPMD, SPLIT_AIV)
SCOPES = (AT, CLUSTER, SCOPE, MANUAL_SCOPE, GRAPH)
OTHERS = (
    WHILE,
    YIELD,
    COND,
    FUNC_ATTR,
    STATIC_PRINT,
    STATIC_ASSERT,
    CONST,
    ACCESS,
    SUBMIT,
    SPMD_SUBMIT,
    NO_DEP,
    DUMP_TAG,
)
BLOCK_WORDS = (BLOCK_IDX, BLOCK_NUM, SUBBLOCK_IDX)
LANE_WORDS = (AIV_SHARD, AIC_GATHER)
