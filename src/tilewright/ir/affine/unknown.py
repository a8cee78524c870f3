"""Questions that got no answer are counted: each is a run-time guard or a refusal somewhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import ParamSpec

P = ParamSpec("P")

_counters: ContextVar[tuple[Counter[str], ...]] = ContextVar("unknown_counters", default=())


@contextmanager
def counting_unknown() -> Generator[Counter[str], None, None]:
    """Counts, by question, the answers None given inside the `with` block, in this thread."""
    counter: Counter[str] = Counter()
    token = _counters.set((*_counters.get(), counter))
    try:
        yield counter
    finally:
        _counters.reset(token)


def counted(question: Callable[P, bool | None]) -> Callable[P, bool | None]:
    """`question`, with its unknown answers counted under its name."""

    @wraps(question)
    def ask(*args: P.args, **kwargs: P.kwargs) -> bool | None:
        answer = question(*args, **kwargs)
        if answer is None:
            for counter in _counters.get():
                counter[question.__name__] += 1
        return answer

    return ask
