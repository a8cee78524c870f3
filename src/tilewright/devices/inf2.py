"""Inferentia2: the core of Trainium."""

from __future__ import annotations

from dataclasses import replace

from tilewright.devices.trn1 import TRN1

INF2 = replace(TRN1, name="inf2")
