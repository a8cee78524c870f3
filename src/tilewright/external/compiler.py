"""The system's C++ compiler: where it is, how it is called, what it says."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from tilewright import settings
from tilewright.abi import ExternalKernel
from tilewright.dataclass import dataclass
from tilewright.errors import CompilerMissing, ExternalSourceRefused, HeaderMissing
from tilewright.external.wrapper import wrap

INCLUDE = Path(__file__).parent / "include"
NAMES = ("c++", "g++", "clang++")
FLAGS = (
    "-std=c++17",
    "-O3",
    "-march=native",
    "-ffp-contract=off",  # a * b + c rounds twice, as it does in the language
    "-fPIC",
    "-shared",
    "-pthread",
    "-fvisibility=hidden",
)
SHOWN_LINES = 40
_NO_HEADER = re.compile(r"fatal error: '?([^'\n]+?)'?(?: file not found|: No such file)")


@dataclass(frozen=True)
class Compiler:
    """A C++ compiler by its path; `identity` changes when another one is installed there."""

    path: str

    @property
    def identity(self) -> str:
        """The file behind the path: by place, size and time."""
        real = os.path.realpath(self.path)
        status = os.stat(real)
        return f"{real} {status.st_size} {status.st_mtime_ns}"

    def build(self, kernel: ExternalKernel) -> bytes:
        """The shared library of a kernel; raises HeaderMissing and ExternalSourceRefused."""
        with tempfile.TemporaryDirectory(prefix="tilewright-") as directory:
            text, made = Path(directory, "kernel.cpp"), Path(directory, "kernel.so")
            text.write_text(wrap(kernel), encoding="utf-8")
            places = [f"-I{place}" for place in (*kernel.include_dirs, INCLUDE)]
            command = [self.path, *FLAGS, *places, str(text), "-o", str(made)]
            done = subprocess.run(command, capture_output=True, text=True, errors="replace")
            if done.returncode or not made.exists():
                raise _refusal(kernel, done.stderr.replace(str(text), "<entry>"), self.path)
            return made.read_bytes()


def find_compiler() -> Compiler | None:
    """The compiler that TILEWRIGHT_CXX or CXX names, else the first one on the path, or None."""
    named = [given for given in (settings.CXX.read(), os.environ.get("CXX")) if given]
    for name in named[:1] or NAMES:
        path = shutil.which(name)
        if path is not None:
            return Compiler(path)
    return None


def require_compiler(kernel: ExternalKernel) -> Compiler:
    """The compiler; raises CompilerMissing."""
    found = find_compiler()
    if found is None:
        named = settings.CXX.read() or os.environ.get("CXX")
        tried = f"'{named}' cannot be found" if named else f"none of {', '.join(NAMES)} is here"
        raise CompilerMissing(
            f"the kernel '{kernel.function}' of {kernel.source} needs a C++ compiler; {tried}",
            hint="Install one, or name one in TILEWRIGHT_CXX.",
        )
    return found


def _refusal(kernel: ExternalKernel, said: str, compiler: str) -> ExternalSourceRefused:
    missing = _NO_HEADER.search(said)
    lines = said.strip().splitlines()
    shown = lines[:SHOWN_LINES] + [f"... and {len(lines) - SHOWN_LINES} lines more"] * (
        len(lines) > SHOWN_LINES
    )
    what = f"the C++ kernel '{kernel.function}' of {kernel.source}"
    if missing is not None:
        return HeaderMissing(
            f"{what} includes {missing.group(1)}, which is not on this machine\n"
            + "\n".join(shown),
            hint="A kernel that is to run here includes tilewright.h; name the folder of a header "
            "of your own in include_dirs=.",
        )
    return ExternalSourceRefused(f"{compiler} refuses {what}\n" + "\n".join(shown))
