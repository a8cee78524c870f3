"""Where compile time goes: an active profiler sums the stages of every compilation."""

from __future__ import annotations

import threading

from tilewright.runtime import process


class CompileProfiler:
    """`with CompileProfiler() as p:` measures the stages of every compilation inside it.

    `seconds` are the times by stage, over all compilations.
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def add(self, stage: str, seconds: float) -> None:
        """Counts time spent in a stage."""
        self.seconds[stage] = self.seconds.get(stage, 0.0) + seconds

    def __enter__(self) -> CompileProfiler:
        _ACTIVE.stack.append(self)
        process.bump_epoch()
        return self

    def __exit__(self, *_: object) -> None:
        _ACTIVE.stack.pop()
        process.bump_epoch()

    @staticmethod
    def current() -> CompileProfiler | None:
        """The innermost active profiler of this thread, or None."""
        return _ACTIVE.stack[-1] if _ACTIVE.stack else None


class _Active(threading.local):
    def __init__(self) -> None:
        self.stack: list[CompileProfiler] = []


_ACTIVE = _Active()
