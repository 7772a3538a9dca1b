"""Barriers in shared memory: the rows of `tkc.ir.isa.instructions.mbarrier`."""

from __future__ import annotations

from collections.abc import Mapping

from tkc.ir.ptx.families import LengthRule

LENGTHS: Mapping[str, LengthRule] = {}

WIDER: frozenset[str] = frozenset()
