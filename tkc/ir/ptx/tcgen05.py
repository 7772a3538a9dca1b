"""Tensor memory and the fifth-generation tensor core: the rows of `tkc.ir.isa.instructions.tcgen05`."""

from __future__ import annotations

from collections.abc import Mapping

from tkc.ir.ptx.families import LengthRule

_REGISTERS = {".32x32b": 1, ".16x64b": 1, ".16x128b": 2, ".16x256b": 4}
"""Registers of one repetition of a shape (PTX 9.7.18.8, table of tcgen05.ld)."""


def _moved(operand: str) -> LengthRule:
    """`.16x256b.x8` moves 4 * 8 registers a thread."""
    return lambda modifiers: {
        operand: _REGISTERS[modifiers.get("shape", ".32x32b")] * int(modifiers["num"][2:])
    }


LENGTHS: Mapping[str, LengthRule] = {
    "tcgen05.ld": _moved("d"),
    "tcgen05.ld.16x32bx2": _moved("d"),
    "tcgen05.st": _moved("a"),
    "tcgen05.st.16x32bx2": _moved("a"),
}

WIDER: frozenset[str] = frozenset()
