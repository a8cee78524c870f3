"""Keywords of decorators as options of a trace."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from tilewright import settings
from tilewright.devices import ALIASES, DEVICES
from tilewright.errors.nki import NKIValueError
from tilewright.frontend.trace.options import CompileOpts

CHOICES: dict[str, tuple[Any, ...]] = {
    "builtin_range": ("unroll", "sequential"),
    "platform_target": (*DEVICES, *ALIASES),
    "enable_cache": (None, True, False),
    "dtype_policy": ("precise", "legacy"),
}
"""Values of options that are not True or False."""
OPTION_NAMES = tuple(sorted({each.name for each in fields(CompileOpts)} - {"grid", "extra"}))


def with_keywords(base: CompileOpts, given: dict[str, Any]) -> CompileOpts:
    """`base`, or the `opts` given, changed by the other keywords of a decorator."""
    given = dict(given)
    base = given.pop("opts", base)
    given.pop("grid", None)
    options = {name: getattr(base, name) for name in OPTION_NAMES}
    options.update({name: value for name, value in given.items() if name in OPTION_NAMES})
    options["platform_target"] = settings.PLATFORM_TARGET.read() or options["platform_target"]
    options["checked"] = options["checked"] or settings.SIMULATOR.read()
    require_choices(options)
    extra = tuple((k, repr(v)) for k, v in sorted(given.items()) if k not in OPTION_NAMES)
    return CompileOpts(**options, extra=(*base.extra, *extra))


def require_choices(options: dict[str, Any]) -> None:
    """Raises NKIValueError for an option whose value is none of its choices."""
    for name, value in options.items():
        choices = CHOICES.get(name, (True, False))
        if value not in choices:
            allowed = ", ".join(map(repr, choices))
            raise NKIValueError(f"option {name} of a kernel is {value!r}; it may be {allowed}")
