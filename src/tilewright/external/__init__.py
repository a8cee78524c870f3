"""Kernels in C++: their sources as parts of keys, the compiler, the libraries, their calls."""

from tilewright.external.calling import run
from tilewright.external.library import address_of, prepare
from tilewright.external.sources import Sources, watched

__all__ = ["Sources", "address_of", "prepare", "run", "watched"]
