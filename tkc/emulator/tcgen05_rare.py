"""The rarer forms of tcgen05: weight-stationary multiplies, loads that reduce, wide commits (PTX 9.7.16)."""

from __future__ import annotations

from typing import Any

from tkc.emulator.instruction import Builder

SEMANTICS: dict[str, Builder] = {}

_ = Any
