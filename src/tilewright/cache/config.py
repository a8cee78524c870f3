"""Whether and where compiled kernels are kept: one policy, never merged from several."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tilewright import settings
from tilewright.dataclass import dataclass

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class CacheConfig:
    """A cache policy. `root` None is the user's cache directory.

    A `readonly` root is never written, not even with locks. The contents of the files in
    `extra_source_paths` and the text `extra_fingerprint` become part of every key. When the entries
    take more than `max_bytes`, those unused for longest are removed; 0 sets no bound.
    """

    enabled: bool = False
    root: str | Path | None = None
    readonly: bool = False
    extra_source_paths: tuple[str | Path, ...] = ()
    extra_fingerprint: str | None = None
    max_bytes: int = settings.CACHE_MAX_BYTES.default

    @property
    def directory(self) -> str:
        """The root that is used."""
        return default_root() if self.root is None else os.path.expanduser(self.root)


def default_root() -> str:
    """Where kernels are kept when nothing else is said."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(home, "tilewright", "jit")


_configured: list[CacheConfig] = []


def configure_cache(config: CacheConfig | None) -> None:
    """Sets the policy of this process; None goes back to the environment's.

    Raises TypeError for anything but a CacheConfig.
    """
    require_config("configure_cache", config)
    _configured[:] = [] if config is None else [config]


def current_config(explicit: CacheConfig | None = None) -> CacheConfig:
    """The policy of a request: its own, else the process's, else the environment's.

    Raises ValueError for an environment variable that cannot be understood.
    """
    if explicit is not None:
        require_config("cache_config", explicit)
        return explicit
    return _configured[0] if _configured else _from_environment()


def require_config(what: str, given: object) -> None:
    """Raises TypeError unless a policy, or None, is given."""
    if given is not None and not isinstance(given, CacheConfig):
        raise TypeError(
            f"{what}: {given!r} is no cache policy; a CacheConfig is accepted, such as "
            'CacheConfig(enabled=True, root="kernels")'
        )


def _from_environment() -> CacheConfig:
    return CacheConfig(
        enabled=settings.CACHE.read(),
        root=settings.CACHE_DIR.read(),
        readonly=settings.CACHE_READONLY.read(),
        max_bytes=settings.CACHE_MAX_BYTES.read(),
    )
