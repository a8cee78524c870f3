"""Published kernels run under the names that they import."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

PROGRAM = """
import numpy as np
import tilewright.compat.neuron
tilewright.compat.neuron.install()
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import neuronxcc.nki.typing as nt
from neuronxcc.nki.isa.constants import oob_mode
from neuronxcc.nki.language import par_dim
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


def test_a_published_program_runs_unmodified_after_install(tmp_path: Path) -> None:
    script = tmp_path / "published.py"
    script.write_text(textwrap.dedent(PROGRAM))
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip()) == (0, "ran"), done.stderr
