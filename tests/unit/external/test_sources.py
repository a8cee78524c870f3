"""What a C++ file is made of, and how soon a change of it is seen."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tilewright.external import Sources


def settled(*paths: Path) -> None:
    """Makes files look as old as they are when a program has run for a while."""
    for path in (*paths, *{path.parent for path in paths}):
        os.utime(path, (1, 1))


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "common").mkdir()
    (tmp_path / "common" / "inner.h").write_text('#include "deep.h"\n')
    (tmp_path / "common" / "deep.h").write_text("int deep;\n")
    path = tmp_path / "k.cpp"
    path.write_text('#include <vector>\n#include "tilewright.h"\n  # include "inner.h"\n')
    return path


def watch(source: Path) -> Sources:
    return Sources(str(source), (str(source.parent / "common"),))


@pytest.mark.parametrize("name", ["k.cpp", "common/inner.h", "common/deep.h"])
def test_a_change_of_any_file_that_is_included_changes_the_digest(source: Path, name: str) -> None:
    files = watch(source)
    first = files.digest
    assert files.digest == first == watch(source).digest
    changed = source.parent / name
    changed.write_text(changed.read_text() + "// more\n")
    assert files.digest != first


def test_a_change_is_seen_though_size_and_time_are_the_same_at_first(source: Path) -> None:
    deep = source.parent / "common" / "deep.h"
    before = deep.stat()
    files = watch(source)
    first = files.digest
    deep.write_text("int DEEP;\n")
    os.utime(deep, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert files.digest != first


def test_a_header_that_appears_in_an_earlier_place_is_seen(source: Path) -> None:
    everything = [source, *source.parent.glob("common/*")]
    settled(*everything)
    files = watch(source)
    first = files.digest
    assert files.digest == first
    (source.parent / "inner.h").write_text("// nothing\n")
    assert files.digest != first


def test_settled_files_are_not_read_again(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settled(source, *source.parent.glob("common/*"))
    files = watch(source)
    first = files.digest
    monkeypatch.setattr(Path, "read_bytes", lambda self: pytest.fail(f"{self} is read"))
    assert files.digest == first


def test_headers_that_include_each_other_end(tmp_path: Path) -> None:
    (tmp_path / "a.h").write_text('#include "b.h"\n')
    (tmp_path / "b.h").write_text('#include "a.h"\n')
    (tmp_path / "k.cpp").write_text('#include "a.h"\n#include "b.h"\n')
    assert len(Sources(str(tmp_path / "k.cpp")).digest) == 64


def test_a_missing_source_is_a_value_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"k\.cpp of an external kernel cannot be read"):
        _ = Sources(str(tmp_path / "k.cpp")).digest
