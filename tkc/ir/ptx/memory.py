"""Loads, stores, address conversions and matrix moves: the rows of `tkc.ir.isa.instructions.memory`."""

from __future__ import annotations

from collections.abc import Mapping

from tkc.ir.ptx.families import LengthRule


def _matrices(operand: str, registers: int = 1) -> LengthRule:
    """`.x4` moves four matrices; one of 8x8 16-bit elements is a register a thread."""
    return lambda modifiers: {operand: registers * int(modifiers["num"][2:])}


LENGTHS: Mapping[str, LengthRule] = {
    "ldmatrix": _matrices("d"),
    "ldmatrix.b8": _matrices("d", 2),
    "ldmatrix.narrow": _matrices("d"),
    "stmatrix": _matrices("a"),
    "stmatrix.b8": _matrices("a"),
}

WIDER = frozenset({"ld", "ld.vec", "ld.param", "ld.param.vec", "st", "st.vec"})
