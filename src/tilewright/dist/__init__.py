"""Runs of programs over ranks that live in one process: workers that outlast a call."""

from typing import TYPE_CHECKING

from tilewright.late import late

if TYPE_CHECKING:
    from tilewright.dist.worker import DistributedWorker, Handle

__all__ = ["DistributedWorker", "Handle"]

__getattr__, __dir__ = late(__name__, __all__, ("worker",))
