"""The example that opens the guide does what it says."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

GUIDE = Path(__file__).parents[3] / "docs" / "guide" / "jit.md"


def test_the_first_example_of_the_guide_runs(tmp_path: Path) -> None:
    example = re.findall(r"```python\n(.*?)```", GUIDE.read_text("utf-8"), re.S)[0]
    path = tmp_path / "example.py"
    path.write_text(example, encoding="utf-8")
    names: dict[str, object] = {"__name__": "example"}
    exec(compile(example, str(path), "exec"), names)
    np.testing.assert_array_equal(names["out"], 2)
    np.testing.assert_array_equal(names["y"], 2)
