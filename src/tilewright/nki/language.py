"""`nl`: the language of traced kernels."""
# ruff: noqa: F401, F403

from __future__ import annotations

from tilewright.frontend.trace_grid import ParDim as par_dim
from tilewright.frontend.trace_grid import nc, spmd_dim
from tilewright.nki._buffers import hbm, private_hbm, psum, sbuf, shared_hbm
from tilewright.nki._dtypes import *
from tilewright.nki._math import *
from tilewright.nki._matmul import *
from tilewright.nki._memory import *
from tilewright.nki._ranges import *
from tilewright.nki._reduce import *
