"""The words of ranks: where they may stand, and what a program of ranks is given."""

from __future__ import annotations

import re
from typing import Any

import pytest

import tilewright.language as pl
from tilewright import ir
from tilewright.errors import ParserError
from tilewright.runtime import DistributedConfig

RANK_WORDS = """
@pl.program
class P:
    @pl.function(type=pl.FunctionType.InCore)
    def chip(
        self,
        w: pl.InOut[pld.DistributedTensor[[2, 64], pl.{dtype}]],
        s: pl.InOut[pld.DistributedTensor[[2, 2], pl.INT32]],
    ):
        {chip}
    @pl.function(level=pl.Level.HOST, role=pl.Role.Orchestrator)
    def main(self, x: pl.Tensor[[2, 1, 64], pl.FP32]):
        w = pld.window(pld.alloc_window_buffer(512), [2, 64], dtype=pl.{dtype})
        s = pld.window(pld.alloc_window_buffer(16), [2, 2], dtype=pl.INT32)
        {main}
"""


@pytest.mark.parametrize(
    ("chip", "main", "dtype", "message"),
    [
        ("n = pld.world_size()", "pass", "FP32", "world_size() is for HOST functions"),
        ("w = pld.allreduce(w)", "pass", "FP32", "without a signal is for HOST functions"),
        ("pass", "for i in pl.range(2): pld.allreduce(w)", "FP32", "stands in a loop"),
        ("pass", "pld.allreduce(w, s, mode='ring')", "FP16", "a HOST function exchanges FP32"),
        ("pass", "pld.allgather(x[0], w, s)", "FP16", "FP"),
        ("w = pld.allreduce(w, s, mode='ring')", "w = pld.allreduce(w)", "FP16", ""),
    ],
)
def test_words_of_ranks_stand_where_they_may(
    chip: str, main: str, dtype: str, message: str
) -> None:
    text = RANK_WORDS.format(chip=chip, main=main, dtype=dtype)
    if not message:
        assert pl.parse(text)
        return
    with pytest.raises(ParserError, match=re.escape(message)) as caught:
        pl.parse(text)
    assert caught.value.span is not None


@pytest.mark.parametrize("devices", [[], [-1], ["a"]])
def test_devices_are_numbers_from_0_on(devices: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        DistributedConfig(device_ids=devices)


def test_callbacks_are_those_that_the_host_calls() -> None:
    program = pl.parse_program("""
@pl.program
class P:
    @pl.function(level=pl.Level.HOST, role=pl.Role.SubWorker)
    def check(self, y: pl.Tensor[[8], pl.FP32]): ...
    @pl.function(level=pl.Level.HOST, role=pl.Role.Orchestrator)
    def main(self, y: pl.Tensor[[8], pl.FP32]):
        self.check(y)
""")
    assert program["check"].requires_runtime_binding
    assert not program["main"].requires_runtime_binding
    compiled = ir.compile(program, distributed_config=DistributedConfig(device_ids=[0, 1]))
    with pytest.raises(ValueError, match="no host callback 'main'; it calls check"):
        compiled.prepare(callbacks={"check": print, "main": print})
