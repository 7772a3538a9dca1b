"""Which lane holds what: register fragments of wgmma, mma, ldmatrix and tcgen05, and accumulators in tensor memory.

`t` is the thread (0..127 in a warpgroup, 0..31 in a warp), `v` the index of a value, `r` of a 32-bit register.
Integer arithmetic only, so that every function works on NumPy arrays too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

Place = tuple[int, int]
"""(row, column)."""


def accumulator_fragment(t: int, v: int) -> Place:
    """D of wgmma and of mma.sync m16n8: value `v` of 32 bits; f16 values 2i and 2i + 1 share register i."""
    return 16 * (t // 32) + t % 32 // 4 + 8 * ((v >> 1) & 1), 8 * (v // 4) + 2 * (t % 4) + (v & 1)


def a_fragment_16(t: int, v: int) -> Place:
    """A of 16-bit types, 16 columns: 8 values in 4 registers."""
    return accumulator_fragment(t, v)


def a_fragment_32(t: int, v: int) -> Place:
    """A of tf32, 8 columns: 4 values."""
    return 16 * (t // 32) + t % 32 // 4 + 8 * (v & 1), t % 4 + 4 * (v >> 1)


def a_fragment_8(t: int, v: int) -> Place:
    """A of 8-bit types, 32 columns: 16 values in 4 registers."""
    return (
        16 * (t // 32) + t % 32 // 4 + 8 * ((v >> 2) & 1),
        4 * (t % 4) + (v & 3) + 16 * (v >> 3),
    )


def b_fragment_16(t: int, v: int) -> Place:
    """B (k, n) of mma.sync m16n8k16: 4 values in 2 registers."""
    return 2 * (t % 4) + (v & 1) + 8 * (v >> 1), t // 4


def b_fragment_32(t: int, v: int) -> Place:
    """B (k, n) of mma.sync m16n8k8 on tf32: 2 values."""
    return t % 4 + 4 * v, t // 4


def b_fragment_8(t: int, v: int) -> Place:
    """B (k, n) of mma.sync m16n8k32 on 8-bit types: 8 values in 2 registers."""
    return 4 * (t % 4) + (v & 3) + 16 * (v >> 2), t // 4


def metadata_place(bits: int, depth: int, selector: int, row: int, group: int) -> Place:
    """(lane, lowest bit in its word) of the 4 bits that say which elements of a group of A's row are kept.

    For mma.sp and wgmma.sp on elements of `bits` bits and `depth` columns (of the dense matrix), row 0..15 of a warp. A
    group is 4 columns with two 2-bit numbers of the kept ones; of 32-bit elements 2 columns, with 0b0100 for the first
    and 0b1110 for the second. `selector` is the sparsity selector: which lanes of four hold it where one or two do.
    """
    half, groups = row // 8, depth // (2 if bits == 32 else 4)
    if groups == 16:
        lane, bit = half + 2 * (group // 8), 4 * (group % 8)
    else:
        lane, bit = selector * (groups // 4) + group // 4, 16 * half + 4 * (group % 4)
    return 4 * (row % 8) + lane, bit


def matrix_b16(t: int, v: int, trans: bool = False) -> Place:
    """Place in the 8x8 matrix of 16-bit half `v` of the register of ldmatrix and stmatrix m8n8."""
    along, across = 2 * (t % 4) + v, t // 4
    return (along, across) if trans else (across, along)


def turned_bytes(t: int, v: int) -> Place:
    """(row, column) in 32 rows and 16 columns of byte `v` (0..15) of the four registers in which a warp turns them:
    ldmatrix.trans brings two neighbours of two rows at a time, whose bytes are then sorted by columns.

    Which rows a matrix takes, and whether its lanes' columns are even, is such that the rows of one matrix, on either
    side, differ in their lowest three bits: no two of them share banks, in any swizzle.
    """
    lane, half, odd = t % 32, v // 8, v // 4 & 1
    return 16 * half + 4 * (lane % 4) + v % 4, 2 * (lane // 4) + (odd ^ lane // 16)


def turned_source(t: int) -> int:
    """The row, of 32, whose 16 bytes lane `t` names to ldmatrix.x4."""
    return (t & 17) + ((t & 6) << 1) + (((t ^ t >> 1) >> 1) & 2)


def turned_target(t: int) -> Place:
    """The row, of 16, and the byte in it, of 32, that lane `t` names to stmatrix.x4."""
    return 2 * (t & 7) + (((t ^ t >> 1) >> 2) & 1), t & 16


def matrix_m16n16_b8(t: int, v: int) -> Place:
    """Place of byte `v` (0..7) of the two registers of ldmatrix.m16n16.trans.b8."""
    return 4 * (t % 4) + 2 * (v >> 2) + (v & 1), t // 4 + 8 * ((v >> 1) & 1)


def matrix_m16n8_b8(t: int, v: int) -> Place:
    """Address row and byte of byte `v` (0..3) of a register of stmatrix.m16n8.trans.b8."""
    return 2 * (t % 4) + (v & 1), t // 4 + 8 * (v >> 1)


def matrix_m8n16(t: int, v: int) -> Place:
    """Place of byte `v` (0..3) of a register of ldmatrix.m8n16 with 4- or 6-bit elements, one to a byte."""
    return t // 4, 4 * (t % 4) + v


class TensorMove(NamedTuple):
    """A shape of tcgen05.ld and tcgen05.st: `.xN` moves `registers` * N registers a thread and `columns` * N columns.

    `place(t, r)` is the (lane, column) relative to the address: lanes of the warp's quadrant, or of its 16-lane half.
    """

    shape: str
    lanes: int
    registers: int
    columns: int
    most: int
    place: Callable[[int, int], Place]

    @property
    def repeats(self) -> tuple[int, ...]:
        return tuple(1 << i for i in range(self.most.bit_length()))


def _place_32x32b(t: int, r: int) -> Place:
    return t, r


def _place_16x64b(t: int, r: int) -> Place:
    return t // 4 + 8 * (t & 1), ((t >> 1) & 1) + 2 * r


def _place_16x128b(t: int, r: int) -> Place:
    return t // 4 + 8 * (r & 1), t % 4 + 4 * (r // 2)


def _place_16x256b(t: int, r: int) -> Place:
    return t // 4 + 8 * ((r >> 1) & 1), 2 * (t % 4) + (r & 1) + 8 * (r // 4)


TENSOR_MOVES: Mapping[str, TensorMove] = {
    m.shape: m
    for m in (
        TensorMove("32x32b", 32, 1, 1, 128, _place_32x32b),
        TensorMove("16x64b", 16, 1, 2, 128, _place_16x64b),
        TensorMove("16x128b", 16, 2, 4, 64, _place_16x128b),
        TensorMove("16x256b", 16, 4, 8, 32, _place_16x256b),
    )
}
"""The shapes without an offset; `split_move` places 16x32bx2."""


def split_move(t: int, r: int, offset: int) -> Place:
    """(lane, column) of register `r` of 16x32bx2: lanes 16..31 of the warp work `offset` columns further."""
    return t % 16, r + (t // 16) * offset


TENSOR_LANES = 128
QUADRANT = 32
"""Lanes of tensor memory that one warp of a warpgroup reaches by ld and st."""


def tensor_address(lane: int, column: int) -> int:
    """The 32-bit tensor-memory address: lane in bits 31:16, column in bits 15:0."""
    return lane << 16 | column


@dataclass(frozen=True, eq=False)
class AccumulatorLayout:
    """Where D of tcgen05.mma lies (PTX 9.7.16.10.5, layouts A to G): rows cut by CTA, then in runs over the lanes.

    Row m of a CTA starts at lane m % run + stride * (m // run); where N is folded, each of the `fold` parts of the
    columns lies `fold_lanes` lanes further down.
    """

    name: str
    m: int
    cta_group: int
    ws: bool
    sparse: bool
    run: int
    stride: int
    fold: int = 1
    fold_lanes: int = 0

    def __post_init__(self) -> None:
        rows = self.m // self.cta_group
        last = (rows - 1) % self.run + self.stride * ((rows - 1) // self.run)
        if last + (self.fold - 1) * self.fold_lanes >= TENSOR_LANES:
            raise ValueError(f"layout {self.name} exceeds {TENSOR_LANES} lanes")

    def place(self, m: int, n: int, columns: int) -> tuple[int, int, int]:
        """(CTA of the pair, lane, column) of element (m, n) of a tile that is `columns` wide."""
        rows, width = self.m // self.cta_group, columns // self.fold
        row = m % rows
        lane = row % self.run + self.stride * (row // self.run) + self.fold_lanes * (n // width)
        return m // rows, lane, n % width

    def width(self, columns: int) -> int:
        """Columns of tensor memory that a tile of `columns` columns takes."""
        return columns // self.fold


ACCUMULATORS = (
    AccumulatorLayout("D", 128, 1, False, False, 128, 0),
    AccumulatorLayout("D", 128, 1, False, True, 128, 0),
    AccumulatorLayout("A", 256, 2, False, False, 128, 0),
    AccumulatorLayout("A", 256, 2, False, True, 128, 0),
    AccumulatorLayout("B", 128, 2, False, False, 64, 0, 2, 64),
    AccumulatorLayout("C", 128, 2, False, True, 16, 32),
    AccumulatorLayout("F", 64, 1, False, False, 16, 32),
    AccumulatorLayout("F", 64, 1, False, True, 16, 32),
    AccumulatorLayout("D", 128, 1, True, False, 128, 0),
    AccumulatorLayout("D", 128, 1, True, True, 128, 0),
    AccumulatorLayout("E", 64, 1, True, False, 64, 0, 2, 64),
    AccumulatorLayout("E", 64, 1, True, True, 64, 0, 2, 64),
    AccumulatorLayout("G", 32, 1, True, False, 32, 0, 4, 32),
    AccumulatorLayout("G", 32, 1, True, True, 32, 0, 4, 32),
)


def accumulator_layout(
    m: int, cta_group: int = 1, ws: bool = False, sparse: bool = False
) -> AccumulatorLayout:
    """The layout of D of a tcgen05.mma; raises KeyError where there is no such shape."""
    for row in ACCUMULATORS:
        if (row.m, row.cta_group, row.ws, row.sparse) == (m, cta_group, ws, sparse):
            return row
    raise KeyError(f"no accumulator of M {m} with cta_group {cta_group}")
