"""Runs of programs over ranks that live in one process: workers that outlast a call."""

from tilewright.dist.worker import DistributedWorker, Handle

__all__ = ["DistributedWorker", "Handle"]
