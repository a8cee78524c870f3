"""Compiled things on disk, by key. This room knows bytes, names and locks; it knows no IR."""

from typing import TYPE_CHECKING

from tilewright.cache.config import CacheConfig, configure_cache, current_config
from tilewright.cache.entries import Entry, State
from tilewright.cache.reader import Reader
from tilewright.cache.stats import CacheStats, cache_stats
from tilewright.cache.trust import CacheWarning
from tilewright.late import late

if TYPE_CHECKING:
    from tilewright.cache.store import Store

__all__ = [
    "CacheConfig",
    "CacheStats",
    "CacheWarning",
    "Entry",
    "Reader",
    "State",
    "Store",
    "cache_stats",
    "configure_cache",
    "current_config",
]

__getattr__, __dir__ = late(__name__, __all__, ("store",))
