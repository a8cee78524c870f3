"""Libraries of C++ kernels: built once for their contents, kept on disk, found again."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import astuple, replace
from pathlib import Path
from typing import Any

import pytest

from tilewright.abi import ExternalKernel
from tilewright.cache import CacheConfig, State, Store, configure_cache
from tilewright.errors import ToolchainError
from tilewright.external import address_of, library, prepare
from tilewright.external.compiler import Compiler
from unit.external.cpp import SCALE, needs_compiler, write

pytestmark = needs_compiler
PARAMS = ("tw::Tensor<const float, 2>", "tw::Tensor<float, 2>", "float")


@pytest.fixture
def root(tmp_path: Path) -> Any:
    configure_cache(CacheConfig(enabled=True, root=tmp_path / "cache"))
    yield tmp_path / "cache"
    configure_cache(None)


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The functions whose libraries are built during a test."""
    done: list[str] = []
    build = Compiler.build

    def counted(self: Compiler, kernel: ExternalKernel) -> bytes:
        done.append(kernel.function)
        return build(self, kernel)

    monkeypatch.setattr(Compiler, "build", counted)
    return done


def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a fresh process knows."""
    monkeypatch.setattr(library, "_prepared", {})
    monkeypatch.setattr(library, "_loaded", {})


def test_one_library_for_the_same_contents(tmp_path: Path, builds: list[str]) -> None:
    kernel = ExternalKernel("scale", write(tmp_path), PARAMS)
    first = prepare(kernel)
    assert prepare(kernel) is first
    again = ExternalKernel("scale", write(tmp_path, SCALE, "same.cpp"), PARAMS)
    assert prepare(again).contents == first.contents
    write(tmp_path, SCALE + "// edited\n")
    assert prepare(kernel).library != first.library
    assert len(builds) == 3


def test_a_fresh_process_takes_it_from_the_disk(
    tmp_path: Path, root: Path, builds: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = ExternalKernel("scale", write(tmp_path), PARAMS)
    made = prepare(kernel)
    forget(monkeypatch)
    assert prepare(kernel) == made
    forget(monkeypatch)
    monkeypatch.setenv("TILEWRIGHT_CXX", "no-such-compiler")
    assert address_of(made)
    assert builds == ["scale"]
    entry = Store(root).find(made.library, State.READY)
    assert entry is not None and entry.kernel == "scale"


def test_a_library_that_was_removed_is_built_again(
    tmp_path: Path, root: Path, builds: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = prepare(ExternalKernel("scale", write(tmp_path), PARAMS))
    assert Store(root).prune(max_bytes=0)
    forget(monkeypatch)
    assert address_of(made)
    assert builds == ["scale"] * 2
    assert Store(root).prune(max_bytes=0)
    forget(monkeypatch)
    write(tmp_path, SCALE + "// edited\n")
    with pytest.raises(ToolchainError, match=r"is gone, and .*scale\.cpp has changed"):
        address_of(made)


def test_a_readonly_cache_is_read_and_not_written(
    tmp_path: Path, root: Path, builds: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    configure_cache(CacheConfig(enabled=True, root=root, readonly=True))
    made = prepare(ExternalKernel("scale", write(tmp_path), PARAMS))
    assert address_of(made) and not root.exists() and builds == ["scale"]


def test_a_damaged_entry_is_built_anew(
    tmp_path: Path, root: Path, builds: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = prepare(ExternalKernel("scale", write(tmp_path), PARAMS))
    path = Store(root).path(made.library, State.READY)
    path.write_bytes(path.read_bytes()[:-100])
    forget(monkeypatch)
    assert address_of(made) and builds == ["scale"] * 2


def test_libraries_survive_as_data() -> None:
    kernel = ExternalKernel("f", "f.cpp", PARAMS, ("include",), "c", "l")
    for each in (kernel, replace(kernel, source="vector.cpp", cube=kernel)):
        assert ExternalKernel.from_json(json.loads(json.dumps(astuple(each)))) == each


PROCESS = """
import sys
from tilewright.abi import ExternalKernel
from tilewright.cache import CacheConfig, configure_cache
from tilewright.external import prepare
configure_cache(CacheConfig(enabled=True, root=sys.argv[2]))
print(prepare(ExternalKernel("scale", sys.argv[1], tuple(sys.argv[3:]))).library)
"""


def test_processes_that_want_the_same_library_agree(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROCESS, write(tmp_path), str(tmp_path / "cache"), *PARAMS]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    said = {process.communicate()[0] for process in running}
    assert len(said) == 1 and all(process.returncode == 0 for process in running)
    assert len(Store(tmp_path / "cache").files()) == 1
