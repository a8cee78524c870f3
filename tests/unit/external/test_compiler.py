"""The C++ compiler: how it is found, what is said when it is not, and what it refuses."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tilewright.abi import CTX, CTX_SIZE, ExternalKernel, Fault
from tilewright.errors import CompilerMissing, ExternalSourceRefused, HeaderMissing
from tilewright.external.compiler import Compiler, find_compiler, require_compiler
from unit.external.cpp import needs_compiler, write

PARAMS = ("tw::Tensor<const float, 2>", "tw::Tensor<float, 2>", "float")


def kernel(
    source: str, function: str = "scale", params: tuple[str, ...] = PARAMS
) -> ExternalKernel:
    return ExternalKernel(function, source, params)


def compiler() -> Compiler:
    found = find_compiler()
    assert found is not None
    return found


@pytest.mark.parametrize("variable", ["TILEWRIGHT_CXX", "CXX"])
def test_a_compiler_can_be_named(
    variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "own-c++"
    own.write_text("#!/bin/sh\n")
    own.chmod(0o755)
    monkeypatch.setenv(variable, str(own))
    assert find_compiler() == Compiler(str(own))
    assert str(own) in Compiler(str(own)).identity


def test_the_first_compiler_of_the_path_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_compiler() is None
    for name in ("clang++", "g++"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
        assert find_compiler() == Compiler(str(tmp_path / name))


def test_a_missing_compiler_is_named_with_what_would_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_CXX", "no-such-compiler")
    with pytest.raises(CompilerMissing, match=r"'scale' of k\.cpp .* 'no-such-compiler'") as caught:
        require_compiler(kernel("k.cpp"))
    assert caught.value.hint is not None and "TILEWRIGHT_CXX" in caught.value.hint


@needs_compiler
@pytest.mark.parametrize(
    ("include", "missing"),
    [('"kernel_operator.h"', "kernel_operator.h"), ("<acl/acl.h>", "acl/acl.h")],
)
def test_a_missing_header_is_named(tmp_path: Path, include: str, missing: str) -> None:
    source = write(tmp_path, f"#include {include}\n")
    with pytest.raises(HeaderMissing, match=f"includes {missing}, which is not") as caught:
        compiler().build(kernel(source))
    assert "scale.cpp:1:" in caught.value.message


@needs_compiler
def test_the_words_of_the_compiler_are_shown(tmp_path: Path) -> None:
    source = write(tmp_path, "int32_t scale( { }\n")
    with pytest.raises(ExternalSourceRefused, match=r"scale\.cpp:1:\d+: error: .*") as caught:
        compiler().build(kernel(source))
    assert type(caught.value) is ExternalSourceRefused


@needs_compiler
@pytest.mark.parametrize(
    "text",
    [
        "int32_t other(tw::Tensor<const float, 2>);",
        "int32_t scale(tw::Tensor<float, 2> x, tw::Tensor<float, 2> out, float f) { return 0; }",
        "int32_t scale(tw::Tensor<const float, 1>, tw::Tensor<float, 2>, float) { return 0; }",
        "int32_t scale(tw::Tensor<const double, 2>, tw::Tensor<float, 2>, float) { return 0; }",
        "int32_t scale(float *x, float *out, float factor) { return 0; }",
    ],
    ids=["absent", "input written", "rank", "dtype", "pointers"],
)
def test_a_function_that_does_not_take_the_arguments_is_refused(tmp_path: Path, text: str) -> None:
    source = write(tmp_path, f'#include "tilewright.h"\n{text}\n')
    wanted = r"a function scale\(tw::Tensor<const float, 2>, tw::Tensor<float, 2>, float\)"
    with pytest.raises(ExternalSourceRefused, match=wanted):
        compiler().build(kernel(source))


@needs_compiler
@pytest.mark.parametrize(
    "text",
    [
        "void scale(tw::Tensor<const float, 2>, tw::Tensor<const float, 2>, double) {}",
        "int scale(tw::Tensor<const float, 2>, tw::Tensor<float, 2>, float, tw::Context c);\n"
        "int scale(tw::Tensor<const float, 2>, tw::Tensor<float, 2>, float, tw::Context c)\n"
        "{ return c.fault(TW_ASSERTION); }",
        'extern "C" int32_t scale(const uint64_t *args, tw_ctx *ctx) { return 0; }',
        "template <class T> static void scale(T x, tw::Tensor<float, 2> out, float) {}",
    ],
    ids=["void", "context", "plain", "template"],
)
def test_the_ways_of_writing_a_kernel(tmp_path: Path, text: str) -> None:
    source = write(tmp_path, f'#include "tilewright.h"\n{text}\n')
    assert compiler().build(kernel(source))[:4] in (b"\x7fELF", b"\xcf\xfa\xed\xfe")


@needs_compiler
def test_the_header_has_the_layout_of_the_context(tmp_path: Path) -> None:
    fields = [name for name in CTX if name in ("arena", "arena_bytes", "cancel")]
    fields += ["fault_code", "fault_op", "fault_values"]
    checks = [f"static_assert(offsetof(tw_ctx, {n}) == {CTX[n].offset});" for n in fields]
    checks += [f"static_assert(sizeof(tw_ctx) == {CTX_SIZE});"]
    names = ("OK", "CANCELLED", "INDEX_OUT_OF_BOUNDS", "DIVISION_BY_ZERO", "SHAPE_MISMATCH",
             "ASSERTION", "EXTERNAL_STATUS", "EXTERNAL_EXCEPTION")  # fmt: skip
    checks += [f"static_assert(TW_{name} == {int(Fault[name])});" for name in names]
    text = '#include "tilewright.h"\n' + "\n".join(checks) + "\nvoid nothing() {}\n"
    assert compiler().build(kernel(write(tmp_path, text), "nothing", ()))


@needs_compiler
def test_nothing_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr("tempfile.tempdir", None)
    (tmp_path / "tmp").mkdir()
    compiler().build(kernel(write(tmp_path)))
    assert os.listdir(tmp_path / "tmp") == []
