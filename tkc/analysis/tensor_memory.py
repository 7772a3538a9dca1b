"""How a tile lies in tensor memory: which columns its row blocks take."""

from __future__ import annotations

from tkc.ir.isa.dtypes import DTYPES
from tkc.ir.stage.types import BufferType

LANES = 128
"""Lanes of tensor memory; one holds one row of an M = 128 accumulator (PTX 9.7.18.1)."""


def row_blocks(type: BufferType) -> int:
    """Pieces of up to 128 rows that lie beside one another."""
    return -(-type.shape[0] // LANES)


def columns_of(type: BufferType) -> int:
    """32-bit columns of one slot; row blocks lie one after another."""
    return row_blocks(type) * type.shape[1] * DTYPES[type.dtype.data].bits // 32
