"""What is measured, and how: `python -m benchmarks [NAME ...]`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))
