"""Alias packages: published programs run unmodified under the names that they import.

    import tilewright.compat
    tilewright.compat.install("pypto")          # or "neuronxcc", which brings `nki` as well

    python -m tilewright.compat pypto -- script.py ...

A name that Tilewright lacks raises AttributeError (ImportError where it is imported), and says so.
"""

from __future__ import annotations

from tilewright.compat.aliases import ALIASES, install

__all__ = ["ALIASES", "install"]
