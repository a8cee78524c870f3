"""Native entries of traced kernels: which calls they answer, and what they remember."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from tilewright.frontend.trace.kernel import Specialization
from tilewright.locks import make_lock
from tilewright.nki._launch import CompiledLaunch
from tilewright.nki._watch import watched
from tilewright.runtime.records import MAX_VARIANTS
from tilewright.runtime.stub import Launcher
from tilewright.runtime.variants import Variant

MISSED = object()
"""What an `Entry` gives for a call that none of its variants fits."""


class Answers(Launcher):
    """A callable that answers natively what it remembers, newest first."""

    def __init__(self) -> None:
        self._lock = make_lock()
        self._answered: dict[Hashable, tuple[Specialization, Variant]] = {}
        self._unwatchable: Specialization | None = None

    def remember(self, key: Hashable, made: Specialization, signature: Any) -> None:
        """Answers the next call like this one natively, while what the trace read is the same."""
        with self._lock:
            answered = self._answered.get(key)
            if answered is not None and answered[0] is made:
                return
            guards = None if made is self._unwatchable else watched(made.guard)
            if guards is None:
                self._unwatchable = made
                return
            assert isinstance(made.launch, CompiledLaunch) and made.launch.kernel is not None
            variant = made.launch.kernel.variant(signature, guards, 0)
            if variant is None:
                return
            self._answered.pop(key, None)
            kept = list(self._answered.items())[-MAX_VARIANTS + 1 :]
            self._answered = dict(kept) | {key: (made, variant)}
            self.set_variants([v for _, v in reversed(self._answered.values())])


class Entry(Answers):
    """Answers calls of one form: keywords and numbers are as they were, and arrays are given.

    `constants` are the arrays that the kernel itself holds; they follow those of the call.
    """

    def __init__(self, constants: tuple[Any, ...]) -> None:
        super().__init__()
        self.constants = constants

    def call_slowly(self, *args: Any, **kwargs: Any) -> Any:
        """No variant fits."""
        return MISSED
