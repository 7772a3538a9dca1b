"""Loads, stores, address conversions and matrix moves: the rows of `tkc.ir.isa.instructions.memory`."""

from __future__ import annotations

from collections.abc import Mapping

from tkc.ir.ptx.families import LengthRule


def _vector(operand: str) -> LengthRule:
    """`.v4` moves four values."""
    return lambda modifiers: {operand: int(modifiers["vec"][2:])}


def _matrices(operand: str) -> LengthRule:
    """`.x4` moves four 8x8 matrices of 16-bit elements, one register each."""
    return lambda modifiers: {operand: int(modifiers["num"][2:])}


LENGTHS: Mapping[str, LengthRule] = {
    "ld.vec": _vector("d"),
    "ld.param.vec": _vector("d"),
    "st.vec": _vector("a"),
    "ldmatrix": _matrices("d"),
    "stmatrix": _matrices("a"),
}

WIDER = frozenset({"ld", "ld.vec", "ld.param", "ld.param.vec", "st", "st.vec"})
