"""Names that documents of the language mention without saying what they mean.

They do not exist here: a guess would give numbers that are wrong elsewhere. Asking for one raises
an AttributeError which says so, and what would do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NoReturn

RANDOM = "use nl.rand, nl.random_seed and nl.dropout, whose generator is documented"
BLOCK_SCALED = "use nisa.nc_matmul on tiles of nl.float8_e4m3, nl.float8_e5m2 or nl.bfloat16"
FOUR_PACKED = "use nl.float8_e4m3fn or nl.float8_e5m2, one element each"
ONE_RANK = "use nki.collectives, whose groups are of one rank"
INDICES = "use nisa.max8, nisa.nc_find_index8 and nisa.nc_match_replace8"
TILES = "use nl.mgrid and nl.tile_size"

LANGUAGE: Mapping[str, str] = {
    "gemm_grid": TILES,
    "gemm_stationary_grid": TILES,
    "bypass": "use nl.copy",
    "average": "use nl.mean",
    "float4_e2m1fn_x4": FOUR_PACKED,
    "float8_e4m3fn_x4": FOUR_PACKED,
    "float8_e5m2_x4": FOUR_PACKED,
}
INSTRUCTIONS: Mapping[str, str] = {
    "activate2": "use nisa.tensor_scalar, then nisa.activation",
    "exponential": "use nisa.activation_reduce with nl.exp",
    "rng": RANDOM,
    "rand2": RANDOM,
    "set_rng_seed": RANDOM,
    "rand_get_state": RANDOM,
    "rand_set_state": RANDOM,
    "dma_compute": "use nisa.dma_copy, then nisa.tensor_tensor",
    "quantize_mx": BLOCK_SCALED,
    "nc_matmul_mx": BLOCK_SCALED,
    "tensor_scalar_cumulative": "use nisa.tensor_tensor_scan",
    "nc_n_gather": "use nl.gather_flattened",
    "nonzero_with_count": INDICES,
    "topk": INDICES,
    "sendrecv": ONE_RANK,
    "core_barrier": "use nl.sync_program",
    "get_nc_sub_version": "use nisa.get_nc_version",
}
PACKAGE: Mapping[str, str] = {
    "MemoryRegion": "use nl.sbuf, nl.psum, nl.hbm and nl.shared_hbm",
    "NkiInstruction": "instructions stay in the order in which they are written",
    "NkiValidationError": "catch tilewright.errors.TilewrightError",
}


def refusing(module: str, absent: Mapping[str, str]) -> Callable[[str], Any]:
    """`__getattr__` of `module`: says of the names in `absent` what would do."""

    def __getattr__(name: str) -> NoReturn:
        refuse(module, name, absent)

    return __getattr__


def refuse(module: str, name: str, absent: Mapping[str, str]) -> NoReturn:
    """Raises AttributeError: `module` has no attribute `name`, and why if that is in `absent`."""
    message = f"module '{module}' has no attribute '{name}'"
    instead = absent.get(name)
    raise AttributeError(message if instead is None else f"{message}: {undocumented(instead)}")


def undocumented(instead: str) -> str:
    """Why a name is absent, and what there is instead."""
    return f"what it does is documented nowhere; {instead}"
