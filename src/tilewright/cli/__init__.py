"""The command line: `tilewright run | show | ops | explain | cache | doctor`."""

import importlib
from typing import Any


def main() -> Any:
    """Runs the command line of this process."""
    return importlib.import_module("tilewright.cli.app").app()
