"""Names of `nki.compiler`: memories and directives."""

from __future__ import annotations

__all__: list[str] = []
