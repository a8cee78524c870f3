"""Targets: what the host is, what it may be restricted to, what text becomes."""

from __future__ import annotations

import threading

import pytest

from tilewright.codegen.machine import compile_text, detect_host, host_target, llvm_version
from tilewright.codegen.text import Text
from tilewright.target import AARCH64, Target, infer_isa, restrict_target
from unit.codegen.native_code import available_isas, new_module

ADD = "define i64 @f(i64 %x) {\n %y = add i64 %x, 1\n ret i64 %y\n}\n"


def test_the_host_has_a_known_instruction_set() -> None:
    host = detect_host()
    assert host.isa in available_isas()
    assert host.instructions.name == host.isa
    assert llvm_version().count(".") == 2


def test_the_environment_restricts_the_target(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_TARGET_ISA", "baseline")
    assert host_target().isa == "baseline"
    assert host_target().cpu == "x86-64"
    monkeypatch.setenv("TILEWRIGHT_TARGET_ISA", "")
    assert host_target() == detect_host()
    monkeypatch.setenv("TILEWRIGHT_TARGET_ISA", "riscv")
    with pytest.raises(ValueError, match="riscv"):
        host_target()


def test_a_target_is_never_raised() -> None:
    small = Target("x86_64-linux", "x86-64", "", "baseline")
    with pytest.raises(ValueError, match="avx2"):
        restrict_target(small, "avx2")
    assert restrict_target(small, "baseline") is small


def test_instruction_sets_follow_from_features() -> None:
    assert infer_isa("x86_64-linux", frozenset()) == "baseline"
    assert infer_isa("x86_64-linux", frozenset({"avx2", "fma", "f16c", "bmi2"})) == "avx2"
    assert infer_isa("arm64-apple-macosx", frozenset()) == "aarch64"


def test_wrong_text_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="expected"):
        compile_text("define i64 @f( {", detect_host())


def test_text_compiles_on_many_threads_to_the_same_bytes() -> None:
    found: list[bytes] = []
    threads = [
        threading.Thread(target=lambda: found.append(compile_text(ADD, detect_host())))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 1
    assert found[0][:4] == b"\x7fELF"


def test_wide_registers_are_asked_for() -> None:
    module = new_module(available_isas()[0])()
    text = Text(module, "define void @f() #0")
    text.do("ret void")
    module.add(text)
    width = 8 * module.isa.vector_bytes
    assert f'"prefer-vector-width"="{width}"' in module.finish()


def test_other_architectures_have_no_byte_dots() -> None:
    assert not Target("aarch64-linux", "generic", "", "aarch64").instructions.has_byte_dot
    assert not AARCH64.is_x86
