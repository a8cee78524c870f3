"""Published kernels run under the names that they import."""

from __future__ import annotations

from pathlib import Path

import pytest

from unit.compat.running import run_under

ENTRIES = """
import numpy as np
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import neuronxcc.nki.typing as nt
from neuronxcc.nki.isa.constants import dge_mode, engine, nc_version, oob_mode, reduce_cmd
from neuronxcc.nki.language import par_dim
from neuronxcc.nki.compiler.backends.neuron.TraceContext import TraceContext, dont_trace
from neuronxcc.nki.compiler.backends.neuron.TraceKernel import TraceKernel
from neuronxcc.nki.compiler.backends.neuron.tensor import KernelTensor
import nki as new

def fresh(n):
    return nl.zeros((par_dim(4), n), dtype=nl.float32)

@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    acc = fresh(8)
    for i in range(4):
        if i < 2:
            acc[...] = acc + nl.load(x, name="a")
        else:
            acc[...] = acc * 2.0
    nl.store(out, acc)
    return out

x = np.arange(32, dtype=np.float32).reshape(4, 8)
want = 8 * x
assert isinstance(kernel, TraceKernel) and TraceContext.global_ctx is None
assert dont_trace(fresh) is fresh
assert np.array_equal(kernel(x), want)
assert np.array_equal(nki.simulate_kernel(kernel[1], x), want)
assert np.array_equal(new.simulate(kernel)(x), want)

@nki.benchmark(warmup=1, iters=1)
def timed(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(1, precise_schedule=True):
        if i == 0:
            nl.store(out, nl.load(x))
    return out

assert np.array_equal(timed(x), x)

nki_jit = nki.trace

@nki_jit
def inner(t):
    return t + 1.0

@nki.jit(mode="simulation")
def outer(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.hbm)
    nl.store(out, inner(nl.load(x)))
    return out

assert np.array_equal(outer(x), x + 1)
print("ran")
"""

FRAMEWORK = """
import array
import numpy as np
import neuronxcc.nki as nki
import neuronxcc.nki.language as nl

class Kernel(nki.FrameworkKernel):
    def is_framework_tensor(self, t):
        return isinstance(t, array.array)
    def map_framework_tensor(self, t):
        return (4, len(t) // 4), t.typecode
    def translate_to_neuron_dtype(self, _dtype):
        return {"f": nl.float32, "i": nl.int32}[_dtype]
    def make_framework_tensor(self, made):
        return array.array("f", made.ravel())

def body(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for i in range(2):
        if i == nl.program_id(0):
            nl.store(out[nl.ds(2 * i, 2)], nl.load(x[nl.ds(2 * i, 2)]) + 1.0)
    return out

kernel = Kernel(body, grid=(2,))
x = array.array("f", range(32))
assert kernel(x) == array.array("f", range(1, 33))
assert kernel.dump_config(x)["inputs"] == [{"name": "x", "shape": [4, 8], "dtype": "float32"}]
print("ran")
"""

TILED = """
import math
import numpy as np
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


@nki.jit
def tiled_softmax(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    rows, columns = a.shape
    i_p = nl.arange(nl.tile_size.pmax)[:, None]
    i_f = nl.arange(columns)[None, :]
    for i in nl.affine_range(math.ceil(rows / nl.tile_size.pmax)):
        inside = i * nl.tile_size.pmax + i_p < rows
        tile = nl.load(a[i * nl.tile_size.pmax + i_p, i_f], mask=inside)
        largest = nl.max(tile, axis=[1], keepdims=True, mask=inside)
        shifted = nl.exp(nl.subtract(tile, largest, mask=inside), mask=inside)
        total = nl.sum(shifted, axis=[1], keepdims=True, mask=inside)
        shares = nl.divide(shifted, total, mask=inside)
        nl.store(out[i * nl.tile_size.pmax + i_p, i_f], shares, mask=inside)
    return out


@nki.jit
def tiled_matmul(lhs_t, rhs):
    k, m = lhs_t.shape
    _, n = rhs.shape
    out = nl.ndarray((m, n), dtype=lhs_t.dtype, buffer=nl.shared_hbm)
    for im in nl.affine_range(m // 128):
        for i_n in nl.affine_range(n // 256):
            acc = nl.zeros((nl.par_dim(128), 256), nl.float32, buffer=nl.psum)
            for ik in nl.affine_range(k // 128):
                left = nl.load(lhs_t[nl.ds(ik * 128, 128), nl.ds(im * 128, 128)])
                right = nl.load(rhs[nl.ds(ik * 128, 128), nl.ds(i_n * 256, 256)])
                acc += nisa.nc_matmul(left, right)
            nl.store(out[nl.ds(im * 128, 128), nl.ds(i_n * 256, 256)], value=nl.copy(acc))
    return out


@nki.jit
def blocks(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    i = nl.program_id(0)
    nl.store(out[i * 32 : (i + 1) * 32, :], nl.load(x[i * 32 : (i + 1) * 32, :]) * 2.0)
    return out


rng = np.random.default_rng(0)
a = rng.standard_normal((200, 64)).astype(np.float32)
e = np.exp(a - a.max(axis=1, keepdims=True))
np.testing.assert_allclose(tiled_softmax(a), e / e.sum(axis=1, keepdims=True), rtol=1e-5)
left, right = (rng.standard_normal(s).astype(np.float32) for s in ((256, 128), (256, 512)))
np.testing.assert_allclose(tiled_matmul(left, right), left.T @ right, rtol=1e-4, atol=1e-4)
np.testing.assert_array_equal(blocks[4](a[:128]), 2 * a[:128])
print("ran")
"""

MISSING = """
import neuronxcc.nki.language as nl
try:
    nl.no_such_function
except AttributeError as error:
    assert "has no 'no_such_function' in its alias 'neuronxcc.nki.language'" in str(error)
try:
    import neuronxcc.starfish
except ModuleNotFoundError as error:
    assert "Tilewright's alias 'neuronxcc' has neuronxcc, neuronxcc.nki" in str(error)
    print("ran")
"""


TEXTS = {"entries": ENTRIES, "framework": FRAMEWORK, "tiled": TILED, "missing": MISSING}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_a_published_kernel_runs_unmodified(text: str, tmp_path: Path) -> None:
    assert run_under(["neuronxcc"], text, tmp_path) == "ran"


def test_the_newer_name_can_be_installed_alone(tmp_path: Path) -> None:
    text = """
        import sys
        import numpy as np
        import nki
        import nki.language as nl

        @nki.jit
        def double(x):
            out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
            nl.store(out, nl.load(x) * 2.0)
            return out

        x = np.ones((4, 8), np.float32)
        assert np.array_equal(double(x), 2 * x) and "neuronxcc" not in sys.modules
        print("ran")
    """
    assert run_under(["nki"], text, tmp_path) == "ran"


@pytest.mark.torch
def test_a_kernel_takes_and_gives_tensors_of_torch(tmp_path: Path) -> None:
    text = """
        import torch
        import neuronxcc.nki as nki
        import neuronxcc.nki.language as nl

        @nki.jit
        def double(x):
            out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
            nl.store(out, nl.load(x) * 2.0)
            return out

        x = torch.ones(4, 8)
        got = double(x)
        assert isinstance(got, torch.Tensor) and torch.equal(got, 2 * x)
        print("ran")
    """
    assert run_under(["neuronxcc"], text, tmp_path) == "ran"
