"""Every element of a matmul is one fused chain over k: the same for any blocks, layout, ISA."""

import ctypes
import itertools
import re
from dataclasses import replace
from typing import Any

import llvmlite.binding as binding
import numpy as np
import pytest

from tilewright.codegen.machine import assembly
from tilewright.codegen.matmul import require_matmul
from tilewright.codegen.matmul_plan import PARAMETERS, Matmul, workspace_bytes
from tilewright.codegen.text import Module, Text
from tilewright.target import ISAS, PORTABLE_CPUS, Target
from tilewright.testing.chains import fma_chain
from unit.codegen.native_code import NUMPY, Loaded, available_isas, new_module, pointer, same_bits

Array = np.ndarray[Any, Any]


class NativeMatmul:
    """A matmul function that can be called with arrays."""

    def __init__(self, spec: Matmul, isa: str) -> None:
        self.spec = spec
        module = new_module(isa)()
        symbol = require_matmul(module, spec)
        text = Text(module, f"define void @entry({PARAMETERS}) #0")
        text.do(f"call fastcc void {symbol}({PARAMETERS})")
        text.do("ret void")
        module.add(text)
        self.text = module.finish()
        self.loaded = Loaded(self.text, isa)
        self.work = np.zeros(workspace_bytes(spec, module.isa) + 64, np.uint8)
        p, i = ctypes.c_void_p, ctypes.c_int64
        self.function = ctypes.CFUNCTYPE(None, p, i, p, i, p, i, i, i, i, p, ctypes.c_bool)(
            self.loaded.address("entry")
        )

    def __call__(self, c: Array, a: Array, b: Array, accumulate: bool = False) -> Array:
        m, n = c.shape
        k = a.shape[1]
        size = a.itemsize
        lda = a.strides[0 if self.spec.a_major == "k" else 1] // size
        ldb = b.strides[0 if self.spec.b_major == "n" else 1] // b.itemsize
        ldc = c.strides[0] // c.itemsize
        self.function(
            pointer(c),
            ldc,
            pointer(a),
            lda,
            pointer(b),
            ldb,
            m,
            n,
            k,
            pointer(self.work),
            accumulate,
        )
        return c


def chain(c: Array, a: Array, b: Array) -> Array:
    """The meaning: fused steps in order, by rounding to odd in binary64."""
    total = c.copy()
    for k in range(a.shape[1]):
        if total.dtype == np.int32:
            total += a[:, k : k + 1].astype(np.int32) * b[k : k + 1].astype(np.int32)
        else:
            total = fused(
                a[:, k : k + 1].astype(np.float32), b[k : k + 1].astype(np.float32), total
            )
    return total


def fused(x: Array, y: Array, z: Array) -> Array:
    """x*y + z with one rounding to binary32."""
    product, addend = x.astype(np.float64) * y.astype(np.float64), z.astype(np.float64)
    total = product + addend
    back = total - product
    error = (product - (total - back)) + (addend - back)
    bits = total.view(np.int64)
    step = np.where((error > 0) == (total > 0), 1, -1)
    bits = bits + np.where((error != 0) & (bits & 1 == 0), step, 0)
    return bits.view(np.float64).astype(np.float32)


def random_matrix(
    rng: np.random.Generator, rows: int, columns: int, dtype: str, major: int
) -> Array:
    """A random matrix; `major` 1 is row-major, 0 column-major."""
    kind = np.dtype(NUMPY[dtype])
    if kind.kind in "iu":
        info = np.iinfo(kind)
        values = rng.integers(info.min, info.max, (rows, columns), dtype=kind, endpoint=True)
    else:
        values = rng.normal(size=(rows, columns)).astype(kind)
    return np.ascontiguousarray(values) if major else np.asfortranarray(values)


def operands(spec: Matmul, m: int, n: int, k: int) -> tuple[Array, Array, Array]:
    """C, A, B of the right layouts."""
    rng = np.random.default_rng(m * 10007 + n * 101 + k)
    a = random_matrix(rng, m, k, spec.a_dtype, int(spec.a_major == "k"))
    b = random_matrix(rng, k, n, spec.b_dtype, int(spec.b_major == "n"))
    result = "INT32" if spec.element == "i32" else "FP32"
    return random_matrix(rng, m, n, result, 1), a, b


def check(spec: Matmul, m: int, n: int, k: int, isa: str, accumulate: bool) -> None:
    c, a, b = operands(spec, m, n, k)
    start = c if accumulate else np.zeros_like(c)
    got = NativeMatmul(spec, isa)(c.copy(), a, b, accumulate)
    assert same_bits(got, chain(start, a, b)), (spec, isa)


SIZES = [
    (1, 1, 1),
    (1, 200, 33),
    (3, 17, 5),
    (8, 48, 64),
    (13, 100, 19),
    (9, 57, 7),
    (37, 50, 530),
    (40, 530, 9),
]


@pytest.mark.parametrize("isa", available_isas())
@pytest.mark.parametrize("size", SIZES)
def test_static_matmul_is_one_fused_chain(size: tuple[int, int, int], isa: str) -> None:
    for accumulate in (False, True):
        check(Matmul("FP32", "FP32", *size), *size, isa, accumulate)


@pytest.mark.parametrize("isa", available_isas())
@pytest.mark.parametrize("size", [*SIZES, (45, 533, 515), (2, 3, 0)])
def test_dynamic_matmul_has_the_same_bits(size: tuple[int, int, int], isa: str) -> None:
    check(Matmul("FP32", "FP32", None, None, None), *size, isa, True)


@pytest.mark.parametrize("isa", available_isas())
@pytest.mark.parametrize(("a_major", "b_major"), [("m", "n"), ("k", "k"), ("m", "k")])
def test_transposed_operands_have_the_same_bits(a_major: str, b_major: str, isa: str) -> None:
    for m, n, k in [(9, 50, 37), (33, 100, 16)]:
        check(Matmul("FP32", "FP32", m, n, k, a_major, b_major), m, n, k, isa, False)
        check(Matmul("FP32", "FP32", None, None, None, a_major, b_major), m, n, k, isa, True)


@pytest.mark.parametrize("isa", available_isas())
@pytest.mark.parametrize("size", [(1, 40, 700), (1, 1, 300), (2, 33, 17), (5, 64, 0), (8, 35, 257)])
def test_few_rows_take_columns_as_they_are(size: tuple[int, int, int], isa: str) -> None:
    m, _, k = size
    for dtype, a_major in [("FP32", "k"), ("FP32", "m"), ("INT32", "k")]:
        known = Matmul(dtype, dtype, *size, a_major, "k", ldb=k)
        for spec in (known, replace(known, n=None, k=None, ldb=None), replace(known, m=None)):
            check(spec, *size, isa, m % 2 == 0)


NARROW = [
    ("FP16", "FP16"),
    ("BF16", "BF16"),
    ("INT8", "INT8"),
    ("UINT8", "INT8"),
    ("INT16", "INT16"),
    ("FP32", "BF16"),
    ("FP8E5M2", "FP16"),
    ("FP32", "INT8"),
    ("INT32", "INT16"),
]


@pytest.mark.parametrize("pair", NARROW)
def test_few_rows_take_narrow_numbers_as_they_are(pair: tuple[str, str]) -> None:
    for size, majors in itertools.product(
        [(1, 40, 333), (8, 37, 131)], [("k", "n"), ("k", "k"), ("m", "n")]
    ):
        m, n, k = size
        known = Matmul(*pair, *size, *majors, ldb=n if majors[1] == "n" else k)
        check(known, *size, available_isas()[0], m == 1)
        if m > 1:
            check(replace(known, n=None, k=None, ldb=None), *size, available_isas()[0], True)


def test_few_rows_of_narrow_numbers_are_not_packed_first() -> None:
    for pair, major in itertools.product(NARROW, "nk"):
        module = new_module(available_isas()[0])()
        require_matmul(module, Matmul(*pair, 8, 64, 448, "k", major, ldb=448))
        assert not re.search(r"tilewright\.(pack|group)\.", module.finish()), (pair, major)


@pytest.mark.parametrize("start", range(1, 16, 5))
@pytest.mark.parametrize(("dtype", "k"), [("FP32", 320), ("BF16", 576), ("INT8", 1088)])
def test_columns_that_begin_inside_a_line(dtype: str, k: int, start: int) -> None:
    spec = Matmul(dtype, dtype, 3, 20, k, "k", "k", ldb=k)
    c, a, b = operands(spec, 3, 20, k)
    memory = np.zeros(20 * k + 128, b.dtype)
    first = (-memory.ctypes.data // b.itemsize + start) % (64 // b.itemsize)
    moved = memory[first : first + b.size].reshape(20, k)
    moved[:] = b.T
    got = NativeMatmul(spec, available_isas()[0])(c.copy(), a, moved.T)
    assert same_bits(got, chain(np.zeros_like(c), a, b))


@pytest.mark.parametrize("isa", available_isas())
@pytest.mark.parametrize("dtype", ["FP16", "BF16", "FP8E4M3", "FP8E5M2", "INT8", "UINT8", "INT16"])
def test_narrow_operands_widen_exactly(dtype: str, isa: str) -> None:
    for a_major, b_major in [("k", "n"), ("m", "k")]:
        m, n, k = 11, 70, 45
        check(Matmul(dtype, dtype, m, n, k, a_major, b_major), m, n, k, isa, True)
        check(Matmul(dtype, dtype, None, None, None, a_major, b_major), m, n, k, isa, False)


WIDER = [("FP32", "INT8"), ("UINT8", "FP32"), ("FP32", "FP16"), ("INT32", "INT8")]


@pytest.mark.parametrize("pair", WIDER)
@pytest.mark.parametrize("majors", [("k", "n"), ("m", "k")])
def test_one_operand_may_be_wider(majors: tuple[str, str], pair: tuple[str, str]) -> None:
    for isa in available_isas()[:2]:
        check(Matmul(*pair, 11, 70, 45, *majors), 11, 70, 45, isa, True)


@pytest.mark.parametrize("size", [(1, 40, 33), (3, 17, 64), (37, 50, 35)])
@pytest.mark.parametrize("majors", [("k", "n"), ("k", "k")])
def test_denormal_bf16_beside_fp32_is_no_zero(
    majors: tuple[str, str], size: tuple[int, int, int]
) -> None:
    m, n, k = size
    c, a, b = bf16_operands(TINY, m, n, k, majors, 1.0)
    wanted, wide = c.copy(), a.astype(np.float32)
    fma_chain(wanted, wide, b.astype(np.float32))
    for isa in available_isas():
        native = NativeMatmul(Matmul("FP32", "BF16", *size, *majors), isa)
        assert same_bits(native(c.copy(), wide, b), wanted)


@pytest.mark.parametrize("pair", [("INT8", "UINT8"), ("UINT8", "INT8"), ("INT8", "INT8")])
def test_bytes_of_both_kinds_multiply_exactly(pair: tuple[str, str]) -> None:
    for size in [(1, 40, 3), (11, 70, 45), (9, 100, 2100), (40, 530, 66)]:
        for majors in [("k", "n"), ("m", "n"), ("k", "k")]:
            check(Matmul(*pair, *size, *majors), *size, available_isas()[0], True)
            check(Matmul(*pair, None, None, None, *majors), *size, available_isas()[0], False)


SPECIAL = [0.0, -0.0, 1.0, -1.5, np.inf, -np.inf, np.nan, 2.0**-126, 2.0**-130, -(2.0**-133)]
TINY = [1.0, 2.0**-63, -(2.0**-64), 2.0**-126, 3 * 2.0**-127, 2.0**-128, -0.0, 0.0]
"""Products of these lie around the least normal number."""


def bf16_operands(
    values: list[float], m: int, n: int, k: int, majors: tuple[str, str], share: float
) -> tuple[Array, Array, Array]:
    """C, A, B of which `share` of the elements are from `values`, the others are small."""
    rng = np.random.default_rng(m + 100 * n + k)

    def matrix(rows: int, columns: int, kind: Any, major: bool) -> Array:
        chosen: Array = rng.choice(np.array(values), (rows, columns))
        usual: Array = rng.integers(-4, 5, (rows, columns))
        mixed: Array = np.where(rng.random((rows, columns)) < share, chosen, usual).astype(kind)
        return np.ascontiguousarray(mixed) if major else np.asfortranarray(mixed)

    bf16 = NUMPY["BF16"]
    return (
        matrix(m, n, np.float32, True),
        matrix(m, k, bf16, majors[0] == "k"),
        matrix(k, n, bf16, majors[1] == "n"),
    )


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("isa", available_isas())
@pytest.mark.parametrize("majors", [("k", "n"), ("m", "n"), ("k", "k"), ("m", "k")])
def test_products_of_bf16_are_chains_without_denormals(majors: tuple[str, str], isa: str) -> None:
    flush = new_module(isa)().isa.has_pair_dot
    dynamic = NativeMatmul(Matmul("BF16", "BF16", None, None, None, *majors), isa)
    for m, n, k in [(1, 1, 1), (1, 40, 3), (11, 70, 45), (10, 100, 66), (3, 17, 2113)]:
        static = NativeMatmul(Matmul("BF16", "BF16", m, n, k, *majors), isa) if m > 3 else dynamic
        for values, share in [(SPECIAL, 0.02), (SPECIAL, 0.7), (TINY, 1.0)]:
            c, a, b = bf16_operands(values, m, n, k, majors, share)
            for accumulate in (False, True):
                wanted: Array = c.copy()
                fma_chain(wanted, a, b, accumulate=accumulate, flush=flush)
                for native in (dynamic, static):
                    assert same_bits(native(c.copy(), a, b, accumulate), wanted), (m, n, k, values)


def test_pairs_are_multiplied_where_the_machine_can() -> None:
    for isa in available_isas():
        native = NativeMatmul(Matmul("BF16", "BF16", 8, 48, 64), isa)
        assert ("dpbf16ps" in native.text) == new_module(isa)().isa.has_pair_dot


def test_what_comes_from_far_is_asked_for_in_time() -> None:
    isa = new_module(available_isas()[0])
    for spec, is_asked in [
        (Matmul("FP32", "FP32", 1, None, 4096, ldb=4096), True),
        (Matmul("FP32", "FP32", 7, 4096, 4096, ldb=4096), True),
        (Matmul("FP32", "FP32", 1, 4096, None, ldb=4096), True),
        (Matmul("FP32", "FP32", 1, 512, 512, ldb=512), False),
        (Matmul("FP32", "FP32", 512, 4096, 4096, ldb=4096), False),
        (Matmul("FP32", "FP32", None, 512, 512, "k", "n", 512), True),
        (Matmul("FP32", "FP32", 1024, 512, 512, "m", "n", 1024), True),
        (Matmul("FP32", "FP32", 128, 128, 64, "k", "n", 64), False),
        (Matmul("BF16", "BF16", None, None, None), True),
        (Matmul("INT8", "INT8", None, 256, 1024, "k", "n", 1024), True),
        (Matmul("FP32", "FP32", 256, 256, 256, "k", "n", 256), False),
        (Matmul("BF16", "BF16", 64, 64, 64, "k", "n", 64), False),
    ]:
        module = isa()
        require_matmul(module, spec)
        assert ("@llvm.prefetch" in module.finish()) == is_asked, spec


WORDS_OF_ISA = {
    "avx512": (r"vfmadd\d+ps\s.*%zmm", r"fmla"),
    "avx2": (r"vfmadd\d+ps\s.*%ymm", r"%zmm|fmla"),
    "baseline": (r"%xmm", r"vfmadd|%[yz]mm|fmla"),
    "aarch64": (r"fmla\s+v\d+\.4s", r"%xmm"),
}
PROCESSORS = {**PORTABLE_CPUS, "avx512": "sapphirerapids"}
SPILLED = re.compile(r"%[xyz]mm\d+, -?\d*\(%rsp\)|st[rp]\s+q\d+.*\[sp")


@pytest.mark.parametrize("name", WORDS_OF_ISA)
def test_every_row_of_the_table_is_compiled_for_its_machine(name: str) -> None:
    """Also where this machine is none; sums stay in registers where those multiply and add."""
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    module = Module(ISAS[name])
    symbol = require_matmul(module, Matmul("FP32", "FP32", 60, 192, 256, lda=256, ldb=192))
    text = Text(module, f"define void @entry({PARAMETERS}) #0")
    text.do(f"call fastcc void {symbol}({PARAMETERS})")
    text.do("ret void")
    module.add(text)
    machine = "aarch64" if name == "aarch64" else "x86_64"
    target = Target(f"{machine}-unknown-linux-gnu", PROCESSORS[name], "", name)
    written = assembly(module.finish(), target)
    blocks = re.findall(r"^\"?tilewright\.block.*?\.Lfunc_end", written, re.DOTALL | re.MULTILINE)
    has, has_not = WORDS_OF_ISA[name]
    assert blocks
    for block in blocks:
        assert re.search(has, block)
        assert not re.search(has_not, block)
        assert not (ISAS[name].has_fma and SPILLED.search(block))


def test_known_strides_change_no_bit() -> None:
    isa = available_isas()[0]
    c, a, b = operands(Matmul("FP32", "FP32", 20, 64, 40), 20, 64, 40)
    plain = NativeMatmul(Matmul("FP32", "FP32", 20, 64, 40), isa)(c.copy(), a, b)
    known = NativeMatmul(Matmul("FP32", "FP32", 20, 64, 40, lda=40, ldb=64), isa)(c.copy(), a, b)
    assert same_bits(plain, known)


def test_matmul_stays_inside_its_result() -> None:
    rng = np.random.default_rng(0)
    big = np.full((40, 200), 7, np.float32)
    a = rng.normal(size=(13, 21)).astype(np.float32)
    b = rng.normal(size=(21, 61)).astype(np.float32)
    for spec in (Matmul("FP32", "FP32", 13, 61, 21), Matmul("FP32", "FP32", None, None, None)):
        big[:] = 7
        window = big[5:18, 8:69]
        NativeMatmul(spec, available_isas()[0])(window, a, b)
        assert same_bits(window.copy(), chain(np.zeros((13, 61), np.float32), a, b))
        window[:] = 7
        assert (big == 7).all()
