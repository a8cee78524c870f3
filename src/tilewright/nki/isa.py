"""`nisa`: instructions of traced kernels."""

from __future__ import annotations
