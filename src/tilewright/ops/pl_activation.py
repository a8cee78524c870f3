"""`pl` names of activations beyond PyPTO's catalogue: macros over elementwise ops."""

from __future__ import annotations

from tilewright.ir.core import Value
from tilewright.ir.opdef import macro
from tilewright.ops import nki_math
from tilewright.ops.adapt import require_shaped_value


@macro("pl.gelu", "pl.tensor.gelu", "pl.tile.gelu")
def gelu(input: Value) -> Value:
    """input / 2 * (1 + erf(input / sqrt(2))), the shape and float dtype of `input`.

    Compiled within 2.1 u of the exact value, relative, where `input` is positive, and within 1.4 u,
    absolute, where it is negative; u is 2**-24 for FP32, 2**-11 for FP16 and 2**-8 for BF16.
    """
    return nki_math.gelu(require_shaped_value("gelu", "input", input))


@macro("pl.silu", "pl.tensor.silu", "pl.tile.silu")
def silu(input: Value) -> Value:
    """input * sigmoid(input), the shape and float dtype of `input`.

    Compiled within 2.1 u of the exact value, relative, where `input` is positive, and within 1.4 u,
    absolute, where it is negative; u is 2**-24 for FP32, 2**-11 for FP16 and 2**-8 for BF16.
    """
    return nki_math.silu(require_shaped_value("silu", "input", input))
