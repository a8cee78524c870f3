"""`nl` as newer releases spell it: arguments by position, under their newer names.

Each is the function of `nl` of the same name, and takes its further keywords; loops are unrolled
but those whose bounds the run knows. What is not here is as in `nl`.
"""

from __future__ import annotations

import inspect
from typing import Any

from tilewright.errors.nki_tensors import UNEXPECTED_OPERAND
from tilewright.frontend.trace.ambient import refusal
from tilewright.frontend.trace.ops import NKIFunc, nki_op
from tilewright.nki import language

UNARY = """
    abs square invert logical_not exp log sqrt rsqrt tanh sigmoid relu gelu gelu_apprx_sigmoid
    gelu_apprx_tanh gelu_dx gelu_apprx_sigmoid_dx silu silu_dx softplus mish erf erf_dx
    reciprocal sin cos tan arctan ceil floor trunc negative sign transpose
"""
BINARY = """
    add subtract multiply divide maximum minimum abs_max abs_min power equal not_equal less
    less_equal greater greater_equal bitwise_and bitwise_or bitwise_xor left_shift right_shift
    logical_and logical_or logical_xor fmod mod
"""
PARAMETERS: dict[str, str] = {
    **dict.fromkeys(UNARY.split(), "x dtype?"),
    **dict.fromkeys(BINARY.split(), "x y dtype?"),
    **dict.fromkeys(("sum", "max", "min", "mean", "prod"), "x axis dtype? keepdims?"),
    **dict.fromkeys(("zeros", "ones"), "shape dtype buffer? name?"),
    **dict.fromkeys(("zeros_like", "empty_like"), "x=a dtype? buffer? name?"),
    **dict.fromkeys(("load", "load_transpose2d"), "src dtype?"),
    "all": "x axis dtype?",
    "broadcast_to": "x=src shape dtype!",
    "copy": "x=src dtype?",
    "device_print": "print_prefix=prefix tensor=x",
    "dropout": "x rate dtype?",
    "expand_dims": "x=data axis",
    "full": "shape fill_value dtype buffer? name?",
    "gather_flattened": "data indices axis! dtype?",
    "matmul": "x y transpose_x?",
    "ndarray": "shape dtype buffer? name? address!",
    "rand": "shape dtype buffer? name?",
    "rms_norm": "x w axis n epsilon? dtype? compute_dtype?",
    "shared_identity_matrix": "n dtype? dst!",
    "softmax": "x axis? dtype?",
    "store": "dst value",
    "var": "x axis dtype? keepdims!",
    "where": "condition x y dtype?",
}
"""Parameters in order, as newer=older where they differ.

A ? is optional; what a ! means is documented nowhere: nothing, or 0, is all that may be given.
"""


def _newer(name: str, written: str) -> NKIFunc[..., Any]:
    older: Any = getattr(language, name)
    words = [word.partition("=") for word in written.split()]
    names = {new.rstrip("?!"): (old or new).rstrip("?!") for new, _, old in words}
    unknown = [new.rstrip("!") for new, _, _ in words if new.endswith("!")]
    signature = inspect.Signature(
        [
            inspect.Parameter(
                new.rstrip("?!"),
                inspect.Parameter.POSITIONAL_OR_KEYWORD,
                default=None if new.endswith(("?", "!")) else inspect.Parameter.empty,
            )
            for new, _, _ in words
        ]
        + [inspect.Parameter("older", inspect.Parameter.VAR_KEYWORD)]
    )

    def function(*args: Any, **kwargs: Any) -> Any:
        given = signature.bind(*args, **kwargs).arguments
        older_keywords = given.pop("older", {})
        for each in unknown:
            if given.pop(each, None):
                wanted = {"given": repr(each), "wanted": "None: no document says what it means"}
                raise refusal(UNEXPECTED_OPERAND, op=name, name=each, **wanted)
        named = {names[each]: value for each, value in given.items()}
        return older.nki_func(**named, **older_keywords)

    function.__name__ = name
    function.__doc__ = older.__doc__
    made = nki_op(f"nl.newer.{name}")(function)
    made.__signature__ = signature  # type: ignore[attr-defined]
    return made


affine_range = sequential_range = language.static_range
globals().update({name: _newer(name, written) for name, written in PARAMETERS.items()})
__all__ = [  # pyright: ignore[reportUnsupportedDunderAll]
    *PARAMETERS,
    "affine_range",
    "sequential_range",
]
