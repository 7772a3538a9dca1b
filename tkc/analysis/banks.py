"""How a warp's loads and stores of a shared tile meet the banks, in the layout that the tile has."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from tkc.ir.isa.banks import least, wavefronts
from tkc.ir.isa.dtypes import DTYPES
from tkc.ir.isa.fragments import turned_source, turned_target
from tkc.ir.isa.layouts import SWIZZLES, SharedTile
from tkc.ir.stage.types import BufferType, FragmentLayout, FragmentType

INSTRUCTIONS = 8
"""Neighbouring instructions that are looked at: after 128 bytes of a row, or 8 rows, every pattern repeats."""

Place = tuple[int, int]
"""The row and the byte in it that a lane names."""


class Prediction(NamedTuple):
    """What one warp instruction costs: the turns that it takes, and those that would do without conflicts."""

    instruction: str
    wavefronts: int
    least: int

    @property
    def conflicts(self) -> int:
        return self.wavefronts - self.least

    def __str__(self) -> str:
        turns = f"{self.instruction} in {self.wavefronts} wavefront{'s' * (self.wavefronts > 1)}"
        if not self.conflicts:
            return f"{turns}, without bank conflicts"
        return f"{turns}, {self.conflicts} of them for bank conflicts"


def predict(
    buffer: BufferType, fragment: FragmentType, *, store: bool, transposed: bool = False
) -> Prediction | None:
    """The worst instruction of a warp that loads `fragment` from a slot or stores it there.

    None for a vector, and for a dtype that threads do not touch.
    """
    bits = DTYPES[buffer.dtype.data].bits
    turned = fragment.layout.data == FragmentLayout.TURNED
    if len(buffer.shape) == 1 or (bits not in (16, 32) and not turned):
        return None
    rows, columns = buffer.elements // buffer.shape[-1], buffer.shape[-1]
    tile = SharedTile(rows, columns, bits, buffer.swizzle.data)
    return _predict(tile, FragmentLayout(fragment.layout.data), store, transposed)


@cache
def _predict(
    tile: SharedTile, layout: FragmentLayout, store: bool, transposed: bool
) -> Prediction | None:
    size = tile.bits // 8
    swizzle = SWIZZLES[tile.swizzle]
    worst: Prediction | None = None
    for number in range(INSTRUCTIONS):
        name, width, places = instruction(layout, tile.bits, number, store, transposed)
        addresses = [
            swizzle.physical(tile.offset(row, byte // size))
            for row, byte in places
            if row < tile.rows and byte < tile.columns * size
        ]
        if not addresses:
            break
        found = Prediction(name, wavefronts(addresses, width), least(len(addresses), width))
        if worst is None or found.conflicts > worst.conflicts:
            worst = found
    return worst


def instruction(
    layout: FragmentLayout, bits: int, number: int, store: bool, transposed: bool
) -> tuple[str, int, list[Place]]:
    """Name, bytes a lane, and each lane's place for instruction `number` of an access that starts at row 0, byte 0.

    As `passes/lowering/shared.py` and `transposes.py` write them; a test runs their code against this.
    """
    way = "st" if store else "ld"
    lanes = range(32)
    if layout is FragmentLayout.TURNED and store:
        named = [turned_target(lane) for lane in lanes]
        return "stmatrix.x4", 16, [(16 * number + row, byte) for row, byte in named]
    if layout is FragmentLayout.TURNED:
        return "ldmatrix.x4.trans", 16, [(turned_source(lane), 16 * number) for lane in lanes]
    if layout is FragmentLayout.WGMMA and not transposed:
        if bits == 16:
            places = [(lane & 15, 32 * number + (lane & 16)) for lane in lanes]
            return f"{way}matrix.x4", 16, places
        places = [(lane >> 2, 32 * number + 8 * (lane & 3)) for lane in lanes]
        return f"{way}.v2.b32", 8, places
    if layout is FragmentLayout.WGMMA:
        if bits == 16:
            column = [16 * number + (lane & 7) + (lane & 16) // 2 for lane in lanes]
            return "stmatrix.x4.trans", 16, [(column[lane], 2 * (lane & 8)) for lane in lanes]
        return "st.b32", 4, [(8 * number + 2 * (lane & 3), 4 * (lane >> 2)) for lane in lanes]
    held = range(16) if layout is FragmentLayout.HALF_ROWS and store else lanes
    row = [lane & 15 if layout is FragmentLayout.HALF_ROWS else lane for lane in held]
    if transposed:
        return f"st.b{bits}", bits // 8, [(number, bits // 8 * r) for r in row]
    return f"{way}.v4.b32", 16, [(r, 16 * number) for r in row]
