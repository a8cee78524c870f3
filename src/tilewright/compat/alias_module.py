"""Modules under another name: they hold what is given, and forward the rest to a module of ours."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


class AliasModule(ModuleType):
    """A module `name` that holds `contents` and finds everything else in `target`.

    `absent` says, for names that are missing on purpose, what there is instead.
    """

    def __init__(
        self,
        name: str,
        target: ModuleType | None = None,
        contents: Mapping[str, Any] | None = None,
        absent: Mapping[str, str] | None = None,
    ) -> None:
        of = f"of {target.__name__}" if target else "made by Tilewright"
        super().__init__(name, f"{name}: an alias {of}.")
        self.__spec__ = ModuleSpec(name, None, is_package=True)
        self.__path__ = []
        self._target = target
        self._absent = absent or {}
        if target is not None:
            self.__file__ = target.__file__
            self.__dict__.update(_surface(target))
        self.__dict__.update(contents or {})

    def __getattr__(self, name: str) -> Any:
        target = self.__dict__.get("_target")
        if name == "__all__" and target is not None:
            own = {given for given in self.__dict__ if not given.startswith("_")}
            return sorted({*own, *getattr(target, "__all__", ())})
        if target is not None and not name.startswith("__"):
            try:
                return getattr(target, name)
            except AttributeError:
                pass
        message = _no_such_name(self.__name__, name, target)
        instead = self.__dict__.get("_absent", {}).get(name)
        raise AttributeError(message if instead is None else f"{message}: {instead}")

    @property
    def stands_for(self) -> str | None:
        """The name of the module of ours that it forwards to, if there is one."""
        target = self.__dict__["_target"]
        return None if target is None else target.__name__

    def __dir__(self) -> Iterable[str]:
        own = {name for name in self.__dict__ if not name.startswith("_")}
        return sorted({*own, *(dir(self._target) if self._target else ())})

    def __repr__(self) -> str:
        return f"<alias {self.__name__}>"


def _surface(target: ModuleType) -> dict[str, Any]:
    """What the front ends read of a module to know which language it holds."""
    found = getattr(target, "__surface__", None)
    return {} if found is None else {"__surface__": found}


def _no_such_name(module: str, name: str, target: ModuleType | None) -> str:
    home = f", which is {target.__name__} here," if target else ""
    return f"Tilewright has no '{name}' in its alias '{module}'{home or ''}"


class Finder(MetaPathFinder):
    """Says which parts of an alias package there are when another one is imported."""

    def __init__(self, root: str, parts: Sequence[str]) -> None:
        self.root = root
        self.parts = parts

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> None:
        """Raises ModuleNotFoundError for what is under the root; else leaves it to others."""
        if fullname.partition(".")[0] == self.root:
            raise ModuleNotFoundError(
                f"No module named '{fullname}': Tilewright's alias '{self.root}' has "
                + ", ".join(self.parts),
                name=fullname,
            )


def link(modules: Mapping[str, ModuleType]) -> None:
    """Makes modules importable under their keys, and attributes of their parents.

    Raises ImportError when another package of the name has been imported already.
    """
    (root,) = {name.partition(".")[0] for name in modules}
    present = sys.modules.get(root)
    if isinstance(present, AliasModule):
        return
    if present is not None:
        raise ImportError(
            f"another '{root}' has been imported already, from {present.__file__}; "
            "install the alias before anything imports it"
        )
    sys.modules.update(modules)
    for name, module in modules.items():
        parent, _, last = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], last, module)
    sys.meta_path.insert(0, Finder(root, sorted(modules)))
