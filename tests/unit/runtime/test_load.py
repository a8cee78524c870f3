"""Objects in memory: relocations, pages, outside functions, damage."""

from __future__ import annotations

import ctypes
import gc
import mmap
from collections.abc import Callable
from pathlib import Path

import pytest

from tilewright.archive import join
from tilewright.errors import ToolchainError
from tilewright.runtime.elf import ElfImage
from tilewright.runtime.load import (
    JitImage,
    LinkedImage,
    LoadedObject,
    compile_text,
    has_own_loader,
    load_object,
    resolve_symbol,
)

TEXT = """
@table = internal constant [4 x float] [float 1.0, float 2.0, float 3.0, float 4.0]
@pointers = internal constant [2 x ptr] [ptr @zeroed, ptr @counter]
@zeroed = internal global [300 x i64] zeroinitializer
@counter = internal global i64 41
@given = external global i64
declare i64 @given_function(i64)
declare float @expf(float)

define float @lookup(i64 %i) {
  %p = getelementptr [4 x float], ptr @table, i64 0, i64 %i
  %v = load float, ptr %p
  ret float %v
}
define i64 @count() {
  %slot = getelementptr [2 x ptr], ptr @pointers, i64 0, i64 1
  %p = load volatile ptr, ptr %slot
  %v = load i64, ptr %p
  %w = add i64 %v, 1
  store i64 %w, ptr %p
  ret i64 %w
}
define i64 @outside() {
  %v = load i64, ptr @given
  %w = call i64 @given_function(i64 %v)
  ret i64 %w
}
define float @exponential(float %x) {
  %v = call float @expf(float %x)
  ret float %v
}
"""

I64 = ctypes.c_int64
double_it = ctypes.CFUNCTYPE(I64, I64)(lambda v: 2 * v)
outside_word = I64(21)
SYMBOLS = {
    "given": ctypes.addressof(outside_word),
    "given_function": ctypes.cast(double_it, ctypes.c_void_p).value or 0,
}
LOADERS: list[Callable[..., LoadedObject]] = [JitImage]
if has_own_loader():
    LOADERS.append(load_object)


@pytest.fixture(scope="module")
def data() -> bytes:
    return compile_text(TEXT, passes=0)


@pytest.mark.parametrize("loader", LOADERS)
def test_code_data_and_outside_symbols_are_connected(
    data: bytes, loader: Callable[..., LoadedObject]
) -> None:
    image = loader(data, SYMBOLS)
    f32 = ctypes.c_float
    assert ctypes.CFUNCTYPE(f32, I64)(image.address("lookup"))(2) == 3.0
    count = ctypes.CFUNCTYPE(I64)(image.address("count"))
    assert [count(), count()] == [42, 43]
    assert ctypes.CFUNCTYPE(I64)(image.address("outside"))() == 42
    assert ctypes.CFUNCTYPE(f32, f32)(image.address("exponential"))(0.0) == 1.0


@pytest.mark.parametrize("loader", LOADERS)
def test_an_unknown_name_is_a_key_error(data: bytes, loader: Callable[..., LoadedObject]) -> None:
    with pytest.raises(KeyError, match="nothing"):
        loader(data, SYMBOLS).address("nothing")


own = pytest.mark.skipif(not has_own_loader(), reason="objects are loaded by LLVM here")


@own
def test_each_image_has_its_own_data(data: bytes) -> None:
    images = [load_object(data, SYMBOLS) for _ in range(2)]
    counts = [ctypes.CFUNCTYPE(I64)(image.address("count"))() for image in images]
    assert counts == [42, 42]


@own
def test_no_page_is_writable_and_executable(data: bytes) -> None:
    image = load_object(data, SYMBOLS)
    at = image.address("count")
    for line in Path("/proc/self/maps").read_text().splitlines():
        start, _, rest = line.partition("-")
        end, rights = rest.split()[:2]
        if int(start, 16) <= at < int(end, 16):
            assert rights.startswith("r-x")
            return
    pytest.fail("the code is in no page")


@own
def test_pages_are_returned_when_the_image_dies(data: bytes) -> None:
    image = load_object(data, SYMBOLS)
    page = image.address("count") // mmap.PAGESIZE * mmap.PAGESIZE

    def is_mapped() -> bool:
        maps = Path("/proc/self/maps").read_text().splitlines()
        ranges = [line.split()[0].split("-") for line in maps]
        return any(int(a, 16) <= page < int(b, 16) for a, b in ranges)

    assert is_mapped()
    del image
    gc.collect()
    assert not is_mapped()


@own
def test_what_is_not_an_object_is_refused(data: bytes) -> None:
    for damaged in (b"", b"\x7fELF", b"x" * 100, data[:16] + b"\x03" + data[17:]):
        with pytest.raises(ToolchainError, match="not an x86-64 ELF"):
            ElfImage(damaged, resolve_symbol)


@own
def test_an_outside_function_nobody_offers_is_named(data: bytes) -> None:
    with pytest.raises(ToolchainError, match="'given"):
        load_object(data)


MAIN = """
declare hidden i64 @twice(i64)
define i64 @four_times(i64 %x) {
  %y = call i64 @twice(i64 %x)
  %z = call i64 @twice(i64 %y)
  ret i64 %z
}
"""
OTHER = """
@two = internal constant i64 2
define hidden i64 @twice(i64 %x) {
  %two = load volatile i64, ptr @two
  %y = mul i64 %x, %two
  ret i64 %y
}
"""


@pytest.mark.parametrize("loader", LOADERS)
def test_objects_of_an_archive_call_each_other(loader: Callable[..., LoadedObject]) -> None:
    data = join([compile_text(MAIN, passes=0), compile_text(OTHER, passes=0)])
    images = [loader(data, {}) for _ in range(2)]
    for image in images:
        assert ctypes.CFUNCTYPE(I64, I64)(image.address("four_times"))(5) == 20
    with pytest.raises(ToolchainError, match="cut short"):
        loader(data[:-8], {})


@own
def test_what_kernels_share_is_in_memory_once() -> None:
    other = compile_text(OTHER, passes=0)
    images = [LinkedImage(compile_text(MAIN, passes=0), [other], {}) for _ in range(2)]
    first, second = (image.others[0] for image in images)
    assert first is second


def test_only_known_library_functions_resolve() -> None:
    assert resolve_symbol("memcpy") and resolve_symbol("fmaf")
    with pytest.raises(ToolchainError, match="'system'"):
        resolve_symbol("system")
