"""The warpgroup's asynchronous matrix multiply: the rows of `tkc.ir.isa.instructions.wgmma`."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tkc.ir.ptx.families import LengthRule


def _accumulator(modifiers: Mapping[str, str]) -> Mapping[str, int]:
    """64 rows by N columns over 128 threads: N/2 elements each, two in a register where they are f16."""
    columns = re.search(r"n(\d+)", modifiers["shape"])
    registers = int(columns[1]) // (4 if modifiers["dtype"] == ".f16" else 2) if columns else 0
    return {"d": registers, "c": registers, "a": 4}


LENGTHS: Mapping[str, LengthRule] = {
    "wgmma.mma_async": _accumulator,
    "wgmma.mma_async.rs": _accumulator,
}

WIDER: frozenset[str] = frozenset()
