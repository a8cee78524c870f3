"""The kernels that are measured beside those of the examples, in the traced style."""

from __future__ import annotations

from typing import Any

import tilewright.nki as nki
import tilewright.nki.language as nl


def tiled_matmul(tile: int) -> Any:
    """A product in square tiles; the left operand comes transposed, as the device wants it."""

    @nki.jit
    def kernel(a_t, b):
        inner, rows = a_t.shape
        cols = b.shape[1]
        out = nl.ndarray((rows, cols), dtype=b.dtype, buffer=nl.shared_hbm)
        for i in nl.affine_range(rows // tile):
            for j in nl.affine_range(cols // tile):
                acc = nl.zeros((tile, tile), dtype=nl.float32, buffer=nl.psum)
                for k in nl.affine_range(inner // tile):
                    part = nl.ds(k * tile, tile)
                    left = nl.load(a_t[part, nl.ds(i * tile, tile)])
                    right = nl.load(b[part, nl.ds(j * tile, tile)])
                    acc += nl.matmul(left, right, transpose_x=True)
                nl.store(out[nl.ds(i * tile, tile), nl.ds(j * tile, tile)], acc)
        return out

    return kernel
