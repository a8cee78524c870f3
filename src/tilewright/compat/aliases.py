"""Which alias packages there are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import ModuleType

from tilewright.compat import neuron, pypto
from tilewright.compat.alias_module import link

Modules = Mapping[str, ModuleType]

ALIASES: Mapping[str, tuple[Callable[[], Modules], ...]] = {
    "pypto": (pypto.modules,),
    "neuronxcc": (neuron.modules, neuron.new_modules),
    "nki": (neuron.new_modules,),
}
"""The modules of each alias, made when it is installed."""


def install(*names: str) -> None:
    """Makes alias packages importable: "pypto", "neuronxcc" (with `nki`), "nki".

    Installing twice changes nothing. Raises ValueError for another name and ImportError when the
    package it stands for has been imported already.
    """
    unknown = [name for name in names if name not in ALIASES]
    if unknown or not names:
        raise ValueError(f"no alias {(unknown or ['given'])[0]!r}; choose from {list(ALIASES)}")
    for name in names:
        for make in ALIASES[name]:
            link(make())
