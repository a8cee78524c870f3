"""C++ kernels for the tests, and what skips them where no compiler is."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilewright.external.compiler import find_compiler

needs_compiler = pytest.mark.skipif(find_compiler() is None, reason="there is no C++ compiler")

SCALE = """\
#include "tilewright.h"

int32_t scale(tw::Tensor<const float, 2> x, tw::Tensor<float, 2> out, float factor) {
    for (int64_t i = 0; i < x.shape(0); ++i)
        for (int64_t j = 0; j < x.shape(1); ++j) out(i, j) = factor * x(i, j);
    return TW_OK;
}
"""


def write(directory: Path, text: str = SCALE, name: str = "scale.cpp") -> str:
    """A source file; its path."""
    path = directory / name
    path.write_text(text)
    return str(path)
