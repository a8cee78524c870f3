"""`python -m tilewright.compat NAME ... -- script.py ARGS`, or `-- -m module ARGS`."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Sequence
from pathlib import Path

from tilewright.compat.alias_module import AliasModule
from tilewright.compat.aliases import ALIASES, install
from tilewright.errors.authored import text_for_author

USAGE = f"usage: python -m tilewright.compat {{{','.join(ALIASES)}}} ... -- script.py [arguments]"


def main(arguments: Sequence[str] | None = None) -> int:
    """Installs aliases and runs a script under them.

    Gives 1 when the script fails, which is shown as its author would see it, and 2 when the command
    is malformed.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    split = given.index("--") if "--" in given else len(given)
    names, command = given[:split], given[split + 1 :]
    if not names or not command or any(name not in ALIASES for name in names):
        print(USAGE, file=sys.stderr)
        return 2
    if command[0] != "-m" and not Path(command[0]).exists():
        print(f"{command[0]} does not exist\n{USAGE}", file=sys.stderr)
        return 2
    install(*names)
    try:
        _run(command)
    except Exception as error:
        print(text_for_author(error), file=sys.stderr)
        return 1
    return 0


def _run(command: list[str]) -> None:
    if command[0] == "-m":
        sys.argv = command[1:]
        sys.path.insert(0, "")
        module = sys.modules.get(command[1])
        own = module.stands_for if isinstance(module, AliasModule) else None
        runpy.run_module(own or command[1], run_name="__main__", alter_sys=True)
        return
    sys.argv = command
    sys.path.insert(0, str(Path(command[0]).resolve().parent))
    runpy.run_path(command[0], run_name="__main__")


if __name__ == "__main__":
    sys.exit(main())
