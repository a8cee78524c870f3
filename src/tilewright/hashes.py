"""Hashes of 32 bytes, of the standard library but without OpenSSL, which takes 3 ms to load."""

from __future__ import annotations

from functools import partial

try:
    from _blake2 import blake2b  # where hashlib has it from
except ImportError:
    from hashlib import blake2b

blake = partial(blake2b, digest_size=32)
"""A hash object as hashlib makes them, BLAKE2b, of the bytes that are given."""
