"""Compiled things on disk, by key. This room knows bytes, names and locks; it knows no IR."""

from tilewright.cache.config import CacheConfig, configure_cache, current_config
from tilewright.cache.stats import CacheStats, cache_stats
from tilewright.cache.store import Entry, State, Store
from tilewright.cache.trust import CacheWarning

__all__ = [
    "CacheConfig",
    "CacheStats",
    "CacheWarning",
    "Entry",
    "State",
    "Store",
    "cache_stats",
    "configure_cache",
    "current_config",
]
