"""What arrays hold, for a kernel that updates them and is to run more than once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


class Contents:
    """The elements of arrays, which `restore` puts back before the kernel runs again."""

    def __init__(self, arrays: Sequence[Array]) -> None:
        self._held: list[tuple[Array, Array]] = [(array, array.copy()) for array in arrays]

    def restore(self) -> None:
        """Gives every array the elements that it had."""
        for array, held in self._held:
            np.copyto(array, held)
