"""Several objects as one file."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tilewright.archive import join, split


@pytest.mark.parametrize("objects", [[b"abc"], [b"abc", b"de"], [b"", b"x" * 1001, b"yy", b"\n"]])
def test_what_is_joined_comes_apart_again(objects: list[bytes]) -> None:
    assert split(join(objects)) == objects


def test_one_object_is_itself() -> None:
    assert join([b"\x7fELF..."]) == b"\x7fELF..."


@pytest.mark.parametrize("cut", [9, 40, 69, 75])
def test_what_is_damaged_is_refused(cut: int) -> None:
    with pytest.raises(ValueError, match="archive"):
        split(join([b"abcdef", b"ghijkl"])[:cut])


@pytest.mark.skipif(shutil.which("ar") is None, reason="there is no ar here")
def test_ar_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "objects.a"
    path.write_bytes(join([b"first", b"second"]))
    shown = subprocess.run(["ar", "p", path, "1.o"], capture_output=True, check=True)
    assert shown.stdout == b"second"
