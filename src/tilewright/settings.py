"""Environment variables, read each time they are asked for.

Every variable is spelled `TILEWRIGHT_<NAME>`; `PYPTO_<NAME>` is read when that one is not set. A
value that cannot be understood is a ValueError that names the variable, the value and what is
accepted.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache, cached_property
from typing import Any, Generic, TypeVar

from tilewright.dataclass import dataclass

T = TypeVar("T")

PREFIXES = ("TILEWRIGHT_", "PYPTO_")

_registry: dict[str, Setting[Any]] = {}


def settings() -> tuple[Setting[Any], ...]:
    """Every setting there is, by name."""
    return tuple(_registry[name] for name in sorted(_registry))


@dataclass(frozen=True)
class Setting(Generic[T]):
    """One variable: what it means, its default, what it accepts and how a value is read."""

    name: str
    default: T
    accepts: str
    parse: Callable[[str], T]
    meaning: str
    published: str = ""  # what others call it who give it no prefix of these

    def __post_init__(self) -> None:
        assert self.name not in _registry, f"setting {self.name} is declared twice"
        _registry[self.name] = self

    @cached_property
    def variables(self) -> tuple[str, ...]:
        """Its spellings, the one that counts first."""
        names = [prefix + self.name for prefix in PREFIXES]
        return (*names, self.published) if self.published else tuple(names)

    def find(self) -> tuple[str, str] | None:
        """The variable that is set and its text, the `TILEWRIGHT_` spelling first."""
        for variable in self.variables:
            text = _read(variable)
            if text is not None:
                return variable, text
        return None

    def read(self) -> T:
        """The value now; raises ValueError when it is not one of those accepted."""
        found = self.find()
        if found is None:
            return self.default
        variable, text = found
        try:
            return self.parse(text)
        except (ValueError, KeyError):
            raise ValueError(f"{variable}={text!r}: {self.accepts} is accepted") from None


def _read(variable: str) -> str | None:
    """`os.environ.get`, which spends two microseconds on a variable that is not set."""
    variables = getattr(os.environ, "_data", None)
    if isinstance(variables, dict) and _encoded(variable) not in variables:
        return None
    return os.environ.get(variable)


@cache
def _encoded(variable: str) -> Any:
    return getattr(os.environ, "encodekey", str)(variable)


def _flag(text: str) -> bool:
    return {"0": False, "1": True}[text]


def _path(text: str) -> str | None:
    return os.path.expanduser(text) if text else None


def _level(*names: str) -> Callable[[str], str]:
    return lambda text: {name: name for name in names}[text.lower()]


def _count(least: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        number = int(text)
        if number < least:
            raise ValueError
        return number

    return parse


def flag(name: str, default: bool, meaning: str) -> Setting[bool]:
    """A setting that is exactly 0 or 1."""
    return Setting(name, default, "0 or 1", _flag, meaning)


def switch(name: str, meaning: str, published: str = "") -> Setting[bool]:
    """A setting that is 1 when on; empty, like 0, counts as not set."""
    return Setting(name, False, "0 or 1", lambda text: _flag(text or "0"), meaning, published)


def path(name: str, meaning: str) -> Setting[str | None]:
    """A setting that is a path; empty counts as not set."""
    return Setting[str | None](name, None, "a path", _path, meaning)


def text(name: str, meaning: str, published: str = "") -> Setting[str]:
    """A setting that is any text; empty counts as not set."""
    return Setting(name, "", "a text", str, meaning, published)


def level(name: str, default: str, names: tuple[str, ...], meaning: str) -> Setting[str]:
    """A setting that is one of a few words, in any case."""
    return Setting(name, default, " or ".join(names), _level(*names), meaning)


def count(name: str, default: int, least: int, meaning: str) -> Setting[int]:
    """A setting that is a whole number of at least `least`."""
    return Setting(name, default, f"a whole number >= {least}", _count(least), meaning)


CACHE = flag("CACHE", False, "keep compiled kernels on disk")
CACHE_DIR = path("CACHE_DIR", "where compiled kernels are kept")
CACHE_READONLY = flag("CACHE_READONLY", False, "read kernels from disk, write none")
CACHE_MAX_BYTES = count("CACHE_MAX_BYTES", 1 << 30, 0, "bytes of kernels kept on disk; 0 is any")
PROG_BUILD_DIR = path("PROG_BUILD_DIR", "write the outputs of every compilation here")
EMIT_PTO_LOC = switch("EMIT_PTO_LOC", "keep source locations in compiled kernels")
COMPILE_PROFILING = switch("COMPILE_PROFILING", "report where compile time goes")
VERIFY_LEVEL = level(
    "VERIFY_LEVEL", "basic", ("none", "basic", "roundtrip"), "how much is verified between passes"
)
WARNING_LEVEL = level(
    "WARNING_LEVEL",
    "pre_pipeline",
    ("none", "pre_pipeline", "post_pass", "post_pipeline"),
    "when diagnostics are looked for",
)
LOG_LEVEL = level(
    "LOG_LEVEL", "warning", ("debug", "info", "warning", "error"), "what is worth a log line"
)
NUM_THREADS = count("NUM_THREADS", 0, 0, "threads a kernel may use; 0 is the processors there are")
RESULT_POOL_BYTES = count(
    "RESULT_POOL_BYTES", 128 << 20, 0, "bytes kept of large results that nobody uses any more"
)
COMPARE = switch("COMPARE", "run the interpreter beside compiled code, and compare")
BACKTRACE = switch("BACKTRACE", "show our frames in tracebacks", published="PTO_BACKTRACE")
CXX = text("CXX", "the compiler of external C++ kernels")
FAST_LAUNCH = flag("FAST_LAUNCH", True, "use the native entry stub where it is known to work")
SIMULATOR = switch("SIMULATOR", "run traced kernels in the interpreter", published="NKI_SIMULATOR")
PLATFORM_TARGET = text(
    "PLATFORM_TARGET",
    "the device whose limits traced kernels keep, whatever they say themselves",
    published="NEURON_PLATFORM_TARGET_OVERRIDE",
)
TARGET_ISA = text("TARGET_ISA", "an instruction set to compile for, of those this machine runs")
