"""What this machine can do, and which settings are in force."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from importlib import metadata

from tilewright import settings
from tilewright.cache import CacheConfig, current_config
from tilewright.cache.trust import find_intruder
from tilewright.codegen import machine
from tilewright.dataclass import dataclass
from tilewright.errors import ToolchainError
from tilewright.external.compiler import find_compiler
from tilewright.jit.build import find_target
from tilewright.runtime.native import missing_assumption


@dataclass(frozen=True)
class Finding:
    """One fact; `is_fine` is false when something does not work."""

    name: str
    value: str
    is_fine: bool = True

    def __str__(self) -> str:
        return f"{'ok  ' if self.is_fine else 'FAIL'} {self.name:<18} {self.value}"


def examine() -> Iterator[Finding]:
    """Everything worth knowing, failures included."""
    yield Finding("python", f"{platform.python_implementation()} {platform.python_version()}")
    yield Finding("numpy", metadata.version("numpy"))
    yield from _toolchain()
    slow = missing_assumption()
    yield Finding("native entry", f"not used: {slow}" if slow else "in use")
    yield Finding("processors", str(os.cpu_count()))
    yield _cache()
    yield from _settings()


def _toolchain() -> Iterator[Finding]:
    try:
        target = find_target()
    except ToolchainError as error:
        yield Finding("llvm", error.message, is_fine=False)
        return
    version = metadata.version("llvmlite")
    yield Finding("llvm", f"{machine.llvm_version()} (llvmlite {version})")
    yield Finding("target", f"{target.triple} {target.cpu} ({target.isa})")
    compiler = find_compiler()
    yield Finding("c++", "none: kernels in C++ are refused" if compiler is None else compiler.path)


def _cache() -> Finding:
    try:
        policy = current_config()
    except ValueError as error:
        return Finding("cache", str(error), is_fine=False)
    if not policy.enabled:
        return Finding("cache", f"off, {policy.directory}")
    reason = find_intruder(policy.directory)
    if reason is not None:
        return Finding("cache", f"{policy.directory} is not used: {reason}", is_fine=False)
    return Finding("cache", f"on, {policy.directory}{_what_is_kept(policy)}")


def _what_is_kept(policy: CacheConfig) -> str:
    if policy.readonly:
        return ", readonly"
    closed = os.path.isdir(policy.directory) and not os.access(policy.directory, os.W_OK)
    return ", which cannot be written: what is compiled is not kept" if closed else ""


def _settings() -> Iterator[Finding]:
    for setting in settings.settings():
        found = setting.find()
        if found is None:
            continue
        variable, text = found
        try:
            setting.read()
            yield Finding(variable, f"{text!r}: {setting.meaning}")
        except ValueError as error:
            yield Finding(variable, str(error), is_fine=False)
