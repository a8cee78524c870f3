"""Arrays computed from positions alone: triangles, and counter-based random bits."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from tilewright.dtypes import FP32, INDEX, INT32, UINT32, UINT64, DType
from tilewright.errors import DTypeMismatch, RankMismatch
from tilewright.ir.core import Value
from tilewright.ir.enums import MemorySpace
from tilewright.ir.opdef import op, spelled
from tilewright.ir.structure import Read, Structure, domain
from tilewright.ir.types import Shape, Type, render_dims
from tilewright.ops import arith, shape
from tilewright.ops.adapt import as_dtype, as_scalar, as_shape, never
from tilewright.ops.cast import cast
from tilewright.ops.rules import placed_type, require_scalar, require_static
from tilewright.ops.sampling import NUMBERS, fails, index, sample, scalar
from tilewright.ops.shape import rearrangement
from tilewright.ops.words import is_numeric, require_dtype

Scalars = tuple[Value, ...]


@op("memory.tri")
def tri(
    diagonal: Value,
    *,
    shape: Shape,
    dtype: DType,
    upper: bool = False,
    space: MemorySpace = MemorySpace.Vec,
) -> Value:
    """1 where j <= i + diagonal in [R, C], else 0; with `upper` 1 where j >= i + diagonal."""
    ...


@tri.type_rule
def tri_type(
    diagonal: Value, *, shape: Shape, dtype: DType, upper: bool, space: MemorySpace
) -> Type:
    if require_scalar("tri", "diagonal", diagonal).dtype is not INDEX:
        raise DTypeMismatch(f"tri: diagonal is {diagonal.type}, not a pl.INDEX scalar")
    if len(shape) != 2:
        raise RankMismatch(f"tri: shape {render_dims(shape)} has {len(shape)} axes, not 2")
    return placed_type(shape, require_dtype("tri", dtype, is_numeric), space)


@tri.reference
def tri_numpy(diagonal: Any, *, shape: Any, dtype: DType, upper: bool, space: MemorySpace) -> Any:
    row, column = np.indices(tuple(map(int, shape)))
    inside = column >= row + diagonal if upper else column <= row + diagonal
    return inside.astype(dtype.numpy)


@tri.structure
def tri_loops(
    diagonal: Value, *, shape: Shape, dtype: DType, upper: bool, space: MemorySpace
) -> Structure:
    def body(scalars: Scalars, index: Scalars) -> Scalars:
        row, column = index
        edge = arith.add(row, scalars[0])
        inside = arith.ge(column, edge) if upper else arith.le(column, edge)
        return (cast(inside, dtype=dtype),)

    return rearrangement(shape, domain(shape), Read(diagonal, ()), body=body)


tri.samples(
    lambda: [
        *(sample(index(1), shape=(4, 7), dtype=dtype) for dtype in NUMBERS),
        sample(index(-2), shape=(5, 5), dtype=FP32, upper=True),
        fails(DTypeMismatch, scalar(1, INT32), shape=(4, 7), dtype=FP32),
        fails(RankMismatch, index(0), shape=(7,), dtype=FP32),
    ]
)


def tri_spelling(
    diagonal: Any,
    shape: Sequence[Any],
    valid_shape: Sequence[Any] | None = None,
    dtype: Any = INT32,
    upper: bool = False,
) -> Value:
    """A tile of 1 where j <= i + diagonal (`upper`: j >= i + diagonal), else 0."""
    offset = as_scalar("tri", "diagonal", diagonal, INDEX)
    tile = tri(offset, shape=as_shape(shape), dtype=as_dtype(dtype), upper=upper)
    return tile if valid_shape is None else _set_valid(tile, list(valid_shape))


_set_valid = shape.set_valid
spelled(tri, "pl.tri", "pl.tile.tri", render=never)(tri_spelling)


# ------------------------------------------------------------------------------------ random bits

MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
WORDS = 4


@op("memory.random")
def random(
    key: Sequence[Value],
    counter: Sequence[Value],
    *,
    shape: Shape,
    dtype: DType = UINT32,
    rounds: int = 10,
    space: MemorySpace = MemorySpace.DDR,
) -> Value:
    """Philox-4x32 bits: element n, in row-major order, is word n % 4 of block counter + n // 4.

    `key` is two and `counter` four UINT32 scalars, the first the lowest word; `shape` is static.
    """
    ...


@random.type_rule
def random_type(
    key: Sequence[Value],
    counter: Sequence[Value],
    *,
    shape: Shape,
    dtype: DType,
    rounds: int,
    space: MemorySpace,
) -> Type:
    if (len(key), len(counter)) != (2, WORDS):
        raise RankMismatch(f"random: {len(key)} key and {len(counter)} counter words, not 2 and 4")
    for value in (*key, *counter):
        if require_scalar("random", "a word", value).dtype is not UINT32:
            raise DTypeMismatch(f"random: a word is {value.type}, not pl.UINT32")
    if dtype not in (UINT32, INT32):
        raise DTypeMismatch(f"random: {dtype} is not pl.UINT32 or pl.INT32")
    return placed_type(require_static("random", "shape", shape), dtype, space)


@random.reference
def random_numpy(
    key: Any, counter: Any, *, shape: Any, dtype: DType, rounds: int, space: MemorySpace
) -> Any:
    count = prod(map(int, shape))
    blocks = np.arange(-(-count // WORDS), dtype=np.uint64)
    words: list[Any] = []
    carry: Any = blocks
    for word in counter:
        total = carry + np.uint64(word)
        words.append(total & np.uint64(0xFFFFFFFF))
        carry = total >> np.uint64(32)
    keys = [int(word) for word in key]
    for _ in range(rounds):
        words = _numpy_round(words, keys)
        keys = [(k + step) & 0xFFFFFFFF for k, step in zip(keys, KEY_STEPS, strict=True)]
    bits = np.stack(words, axis=-1)
    flat: Any = np.reshape(bits, -1)[:count].astype(np.uint32)
    return np.reshape(flat.view(dtype.numpy), shape)


def _numpy_round(words: list[Any], keys: list[int]) -> list[Any]:
    c0, c1, c2, c3 = words
    low, high = np.uint64(0xFFFFFFFF), np.uint64(32)
    first, second = (np.uint64(m) * c for m, c in zip(MULTIPLIERS, (c0, c2), strict=True))
    return [
        (second >> high) ^ c1 ^ np.uint64(keys[0]),
        second & low,
        (first >> high) ^ c3 ^ np.uint64(keys[1]),
        first & low,
    ]


def u32(value: int) -> Value:
    """A UINT32 constant."""
    return arith.const(value=value, dtype=UINT32)


def multiply(multiplier: int, word: Value) -> tuple[Value, Value]:
    """(high, low) words of a 64-bit product."""
    wide = arith.mul(cast(word, dtype=UINT64), arith.const(value=multiplier, dtype=UINT64))
    high = arith.shr(wide, arith.const(value=32, dtype=UINT64))
    return cast(high, dtype=UINT32), cast(wide, dtype=UINT32)


def philox_round(words: Sequence[Value], keys: Sequence[Value]) -> list[Value]:
    """One round on four words."""
    c0, c1, c2, c3 = words
    high0, low0 = multiply(MULTIPLIERS[0], c0)
    high1, low1 = multiply(MULTIPLIERS[1], c2)
    return [
        arith.xor(arith.xor(high1, c1), keys[0]),
        low1,
        arith.xor(arith.xor(high0, c3), keys[1]),
        low0,
    ]


def advanced(counter: Sequence[Value], block: Value) -> list[Value]:
    """The 128-bit counter `block` further on."""
    words = [arith.add(counter[0], block)]
    carry = arith.lt(words[0], block)
    for word in counter[1:]:
        words.append(arith.add(word, cast(carry, dtype=UINT32)))
        carry = arith.and_(carry, arith.eq(words[-1], u32(0)))
    return words


@random.structure
def random_loops(
    key: Sequence[Value],
    counter: Sequence[Value],
    *,
    shape: Shape,
    dtype: DType,
    rounds: int,
    space: MemorySpace,
) -> Structure:
    extents = require_static("random", "shape", shape)

    def body(scalars: Scalars, index: Scalars) -> Scalars:
        keys: list[Value] = list(scalars[:2])
        position = cast(arith.const(value=0, dtype=INDEX), dtype=UINT32)
        for extent, at in zip(extents, index, strict=True):
            position = arith.add(arith.mul(position, u32(extent)), cast(at, dtype=UINT32))
        words = advanced(scalars[2:], arith.shr(position, u32(2)))
        for _ in range(rounds):
            words = philox_round(words, keys)
            keys = [arith.add(k, u32(step)) for k, step in zip(keys, KEY_STEPS, strict=True)]
        lane = arith.and_(position, u32(3))
        chosen = words[3]
        for number in (2, 1, 0):
            chosen = arith.select(arith.eq(lane, u32(number)), words[number], chosen)
        return (cast(chosen, dtype=dtype),)

    reads = tuple(Read(value, ()) for value in (*key, *counter))
    return rearrangement(shape, domain(shape), *reads, body=body)


random.samples(
    lambda: [
        sample(words_of(0, 0), words_of(0, 0, 0, 0), shape=(3, 7)),
        sample(
            words_of(7, 2**32 - 1), words_of(2**32 - 2, 2**32 - 1, 5, 6), shape=(41,), dtype=INT32
        ),
        sample(words_of(1, 2), words_of(3, 4, 5, 6), shape=(2, 5), rounds=7),
        fails(RankMismatch, words_of(1), words_of(3, 4, 5, 6), shape=(2, 5)),
        fails(DTypeMismatch, words_of(1, 2), words_of(3, 4, 5, 6), shape=(2, 5), dtype=FP32),
    ]
)


def words_of(*values: int) -> tuple[Any, ...]:
    """UINT32 scalars of a variadic operand."""
    return tuple(scalar(value, UINT32) for value in values)


def as_words(*given: Any) -> tuple[Value, ...]:
    """Numbers and scalars as UINT32 scalars."""
    return tuple(as_scalar("random", "a word", each, UINT32) for each in given)


def random_tensor(
    key0: Any,
    key1: Any,
    counter0: Any,
    counter1: Any,
    counter2: Any,
    counter3: Any,
    shape: Sequence[Any],
    dtype: Any = UINT32,
    rounds: int = 10,
) -> Value:
    """A tensor of counter-based random bits (Philox-4x32)."""
    words = as_words(counter0, counter1, counter2, counter3)
    return random(
        as_words(key0, key1), words, shape=as_shape(shape), dtype=as_dtype(dtype), rounds=rounds
    )


def random_tile(
    key0: Any,
    key1: Any,
    counter0: Any,
    counter1: Any,
    counter2: Any,
    counter3: Any,
    shape: Sequence[Any],
    valid_shape: Sequence[Any] | None = None,
    dtype: Any = UINT32,
    rounds: int = 10,
) -> Value:
    """A tile of counter-based random bits (Philox-4x32)."""
    tile = random(
        as_words(key0, key1),
        as_words(counter0, counter1, counter2, counter3),
        shape=as_shape(shape),
        dtype=as_dtype(dtype),
        rounds=rounds,
        space=MemorySpace.Vec,
    )
    return tile if valid_shape is None else _set_valid(tile, list(valid_shape))


spelled(random, "pl.tensor.random", render=never)(random_tensor)
spelled(random, "pl.random", "pl.tile.random", render=never)(random_tile)
