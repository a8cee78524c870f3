"""The one way to import late: a package imports a module of its own when that is first named.

A kernel that is found on disk needs little of this project. What compiles is not imported by the
modules that decide whether to compile; they name it through its package.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence
from typing import Any

from tilewright.garbage import importing


def late(
    package: str, public: Sequence[str] = (), homes: Sequence[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package.

    A name in `public` comes from the first of the modules `homes` that has it; any other is a
    module of the package. No public name is that of a module.
    """

    def __getattr__(name: str) -> Any:
        if name in public:
            found = _find(package, name, homes)
            setattr(sys.modules[package], name, found)
            return found
        if not name.startswith("__"):
            module = f"{package}.{name}"
            try:
                return _import(module)
            except ModuleNotFoundError as error:
                if error.name != module:
                    raise
        raise AttributeError(f"module '{package}' has no attribute '{name}'")

    def __dir__() -> list[str]:
        return sorted({*vars(sys.modules[package]), *public})

    return __getattr__, __dir__


def _find(package: str, name: str, homes: Sequence[str]) -> Any:
    modules = (_import(f"{package}.{home}") for home in homes)
    return next(getattr(module, name) for module in modules if hasattr(module, name))


@importing()
def _import(module: str) -> Any:
    return importlib.import_module(module)
