"""Arithmetic, logic, comparisons, conversions and moves: the rows of `tkc.ir.isa.instructions.arith`."""

from __future__ import annotations

from collections.abc import Mapping

from tkc.ir.ptx.families import LengthRule

LENGTHS: Mapping[str, LengthRule] = {}

WIDER = frozenset({"cvt"})
