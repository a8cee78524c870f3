"""What every file of published kernels here needs: cases, goldens, both engines.

These files import the names of the published packages and are run under their aliases.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import neuronxcc.nki as nki
import numpy as np

CASES: dict[str, Callable[[], None]] = {}
GENERATOR = np.random.default_rng(0)


def case(function: Callable[[], None]) -> Callable[[], None]:
    """Registers a case: it runs kernels and compares them with numpy."""
    CASES[function.__name__] = function
    return function


def rnd(*shape: int, dt: Any = np.float32) -> Any:
    """Normal numbers."""
    return GENERATOR.standard_normal(shape).astype(dt)


def close(given: Any, wanted: Any, rtol: float = 1e-3, atol: float = 1e-3) -> None:
    """Raises AssertionError unless both are near."""
    a, b = np.asarray(given, np.float64), np.asarray(wanted, np.float64)
    np.testing.assert_allclose(a, b, rtol=rtol, atol=atol)


def both(kernel: Any, *args: Any, **keywords: Any) -> Any:
    """What a kernel gives; the simulator must agree."""
    given, simulated = kernel(*args, **keywords), nki.simulate_kernel(kernel, *args, **keywords)
    pairs = zip(given, simulated) if isinstance(given, tuple) else [(given, simulated)]
    for left, right in pairs:
        close(left, right, 1e-4, 1e-4)
    return given


def main() -> None:
    """Runs the cases and prints the name of each that is right."""
    for name, run in CASES.items():
        run()
        print(name)
    sys.stdout.flush()
