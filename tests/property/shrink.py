"""Smaller choices that still fail: recorded decisions, cut and lowered step by step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

Fails = Callable[["Recorded"], bool]


class Recorded:
    """Decisions taken from a list; after its end every decision is the least one."""

    def __init__(self, numbers: Sequence[int]) -> None:
        self.numbers = numbers
        self.taken: list[int] = []

    def randint(self, a: int, b: int, /) -> int:
        position = len(self.taken)
        given = self.numbers[position] if position < len(self.numbers) else 0
        self.taken.append(min(given, b - a))
        return a + self.taken[-1]


class Recording:
    """Decisions of a seed, remembered as distances from the least one."""

    def __init__(self, seed: int) -> None:
        self._rng = Random(seed)
        self.taken: list[int] = []

    def randint(self, a: int, b: int, /) -> int:
        self.taken.append(self._rng.randint(0, b - a))
        return a + self.taken[-1]


def shrink(numbers: Sequence[int], fails: Fails, attempts: int = 2000) -> list[int]:
    """The least decisions found, in at most `attempts` attempts, for which `fails` holds."""
    best, left = list(numbers), attempts
    while left > 0:
        before = list(best)
        size = max(1, len(best) // 2)
        while size and left > 0:
            best, used = _pass(best, size, fails, left)
            left -= used
            size //= 2
        if best == before:
            break
    return best


def _pass(best: list[int], size: int, fails: Fails, left: int) -> tuple[list[int], int]:
    """One sweep that drops chunks of `size` decisions, or lowers them."""
    used, start = 0, 0
    while start < len(best) and used < left:
        for chunk in _smaller(best[start : start + size]):
            candidate = Recorded(best[:start] + chunk + best[start + size :])
            used += 1
            if fails(candidate) and _order(candidate.taken) < _order(best):
                best = _trimmed(candidate.taken)
                break
        else:
            start += size
    return best, used


def _smaller(chunk: list[int]) -> list[list[int]]:
    lowered = [[0] * len(chunk)] if any(chunk) else []
    halved = [[number // 2 for number in chunk]] if len(chunk) == 1 and chunk[0] > 1 else []
    less = [[chunk[0] - 1]] if len(chunk) == 1 and chunk[0] > 1 else []
    return [[], *lowered, *halved, *less]


def _order(numbers: list[int]) -> tuple[int, list[int]]:
    trimmed = _trimmed(numbers)
    return len(trimmed), trimmed


def _trimmed(numbers: list[int]) -> list[int]:
    end = len(numbers)
    while end and numbers[end - 1] == 0:
        end -= 1
    return numbers[:end]
