"""Runs a text as a program of its own, under alias packages."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path


def run_under(aliases: list[str], text: str, directory: Path, *arguments: str) -> str:
    """What `python -m tilewright.compat ALIASES -- script ARGUMENTS` writes to stdout."""
    script = directory / "published.py"
    script.write_text(textwrap.dedent(text), encoding="utf-8")
    command = [sys.executable, "-m", "tilewright.compat", *aliases, "--", str(script), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=directory)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()
