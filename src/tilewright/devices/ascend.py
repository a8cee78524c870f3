"""Ascend cores of two generations: one vector memory, and those around the matrix unit.

The sizes are assumed: the documents of the language name these memories and give no sizes. Change
them here where you know better, or pass a model of your own to `fit`.
"""

from __future__ import annotations

from tilewright.devices.memory import CoreModel, Memory
from tilewright.ir.enums import MemorySpace

KB = 1024
A2A3 = CoreModel(
    "a2a3",
    {
        MemorySpace.Vec: Memory("Vec", 192 * KB),
        MemorySpace.Mat: Memory("Mat", 512 * KB),
        MemorySpace.Left: Memory("Left", 64 * KB),
        MemorySpace.Right: Memory("Right", 64 * KB),
        MemorySpace.Acc: Memory("Acc", 128 * KB),
        MemorySpace.Bias: Memory("Bias", 1 * KB),
    },
)
A5 = CoreModel(
    "a5",
    {
        MemorySpace.Vec: Memory("Vec", 248 * KB),
        MemorySpace.Mat: Memory("Mat", 512 * KB),
        MemorySpace.Left: Memory("Left", 64 * KB),
        MemorySpace.Right: Memory("Right", 64 * KB),
        MemorySpace.Acc: Memory("Acc", 256 * KB),
        MemorySpace.Bias: Memory("Bias", 4 * KB),
    },
)
