"""Kernels in the style of published ones, unmodified under the alias, with numpy goldens."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent / "published"
FILES = sorted(path.stem for path in HERE.glob("*.py") if path.stem != "common")


@pytest.mark.parametrize("name", FILES)
def test_every_case_of_the_file_is_right(name: str) -> None:
    script = HERE / f"{name}.py"
    command = [sys.executable, "-m", "tilewright.compat", "neuronxcc", "nki", "--", str(script)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=HERE)
    assert done.returncode == 0, done.stdout + done.stderr
    cases = re.findall(r"^@case\ndef (\w+)", script.read_text("utf-8"), re.MULTILINE)
    assert cases and done.stdout.split() == cases
