"""How tiles lie in shared memory: swizzles, the matrix descriptors of wgmma and tcgen05, and block-scale atoms.

Every function here is plain integer arithmetic without branches on coordinates, so that it works on NumPy arrays too.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from tkc.ir.isa.bitfields import BitField, Word
from tkc.ir.isa.targets import Feature


class Swizzle(NamedTuple):
    """A bijection of shared addresses that XORs high address bits onto lower ones; it is its own inverse.

    `terms` are (shift, mask): the physical address is `a ^ ((a >> shift) & mask)` for each, on the absolute address.
    `span` is the width in bytes of the rows it permutes, `atom` the bytes that move together, `period` the distance
    after which the pattern repeats, `align` what the base of a tile must be aligned to. `driver` is the number in
    cuTensorMapEncodeTiled; `mode` and `atomicity` those of tensormap.replace (PTX 9.7.9.27, tables of section 5.5).
    A copy puts rows that are narrower than the span one span apart all the same.
    """

    name: str
    span: int
    atom: int
    terms: tuple[tuple[int, int], ...]
    period: int
    align: int
    driver: int | None
    mode: int
    atomicity: int = 0
    needs: frozenset[Feature] = frozenset()

    def physical(self, address: int, start: int = 0) -> int:
        """The address where the byte of logical address `address` lies (and back); the pattern starts at `start`."""
        result = address
        for shift, mask in self.terms:
            result = result ^ (((address - start) >> shift) & mask)
        return result


_ATOMS = frozenset({Feature.TMA_NARROW})

SWIZZLES: Mapping[str, Swizzle] = {
    s.name: s
    for s in (
        Swizzle("none", 16, 16, (), 16, 128, 0, 0),
        Swizzle("32B", 32, 16, ((3, 0x10),), 256, 256, 1, 1),
        Swizzle("64B", 64, 16, ((3, 0x30),), 512, 512, 2, 2),
        Swizzle("128B", 128, 16, ((3, 0x70),), 1024, 1024, 3, 3),
        Swizzle("128B_atom_32B", 128, 32, ((2, 0x60),), 512, 1024, 4, 3, 1, _ATOMS),
        Swizzle(
            "128B_atom_32B_flip_8B", 128, 8, ((2, 0x60), (4, 0x08)), 512, 1024, 5, 3, 2, _ATOMS
        ),
        Swizzle("128B_atom_64B", 128, 64, ((1, 0x40),), 256, 1024, 6, 3, 3, _ATOMS),
        Swizzle(
            "96B", 96, 16, ((3, 0x10),), 256, 256, None, 4, 0, frozenset({Feature.SWIZZLE_96B})
        ),
    )
}
"""By name. For "none", `span` is the 16-byte row of the canonical unswizzled operand; a copy has no limit there."""


class Major(StrEnum):
    """Which index of an operand is contiguous in shared memory."""

    K = "k"
    MN = "mn"


class MatrixDescriptor(NamedTuple):
    """What a 64-bit shared-memory matrix descriptor says; `start`, `leading` and `stride` in bytes.

    The swizzle's pattern is that of absolute addresses, or, with a `base_offset`, of addresses less 128 times that
    (so found on an H200: a tile that starts 128 * n bytes into a pattern says n).
    """

    start: int
    leading: int
    stride: int
    swizzle: str
    base_offset: int = 0
    leading_absolute: bool = False
    half: int = 0


class DescriptorFormat(NamedTuple):
    """How one generation packs a `MatrixDescriptor` (PTX: matrix descriptor format of wgmma and of tcgen05)."""

    name: str
    needs: frozenset[Feature]
    word: Word
    swizzles: Mapping[str, int]
    window: int
    """Bytes of shared memory that the address fields reach; addresses are taken modulo this."""

    def encode(self, descriptor: MatrixDescriptor) -> int:
        """The 64-bit word; raises ValueError where the generation cannot say this."""
        code = self.swizzles.get(descriptor.swizzle)
        if code is None:
            has = ", ".join(self.swizzles)
            raise ValueError(f"{self.name} has no swizzle {descriptor.swizzle}: one of {has}")
        values = {
            "start": descriptor.start % self.window,
            "leading": descriptor.leading % self.window,
            "stride": descriptor.stride % self.window,
            "base_offset": descriptor.base_offset,
            "swizzle": code,
        }
        if descriptor.leading_absolute:
            values["leading_absolute"] = 1
        if descriptor.half:
            values["half"] = descriptor.half
        return self.word.encode(values)

    def decode(self, word: int) -> MatrixDescriptor:
        """What the word says; raises ValueError for illegal bits or an unknown swizzle code."""
        values = self.word.decode(word)
        names = {code: name for name, code in self.swizzles.items()}
        name = names.get(values["swizzle"])
        if name is None:
            raise ValueError(f"{self.name}: swizzle code {values['swizzle']} has no meaning")
        return MatrixDescriptor(
            values["start"],
            values["leading"],
            values["stride"],
            name,
            values["base_offset"],
            bool(values.get("leading_absolute", 0)),
            values.get("half", 0),
        )


def _tcgen05(
    name: str, needs: frozenset[Feature], address_bits: int, half: bool
) -> DescriptorFormat:
    fields = [
        BitField("start", 0, address_bits, 16),
        BitField("leading", 16, address_bits, 16),
        BitField("stride", 32, 14, 16),
        BitField("version", 46, 3, fixed=1),
        BitField("base_offset", 49, 3, doc="(start of the pattern >> 7) & 7; 0 if aligned to it"),
        BitField("leading_absolute", 52, 1, doc="`leading` is an address (K of 48 bytes)"),
        BitField("swizzle", 61, 3),
    ]
    if half:
        fields.append(BitField("half", 53, 1, doc="which half of a look-up table"))
    codes = {"none": 0, "128B_atom_32B": 1, "128B": 2, "64B": 4, "32B": 6}
    return DescriptorFormat(
        name, needs, Word(f"{name} descriptor", 64, tuple(fields)), codes, 16 << address_bits
    )


WGMMA_DESCRIPTOR = DescriptorFormat(
    "wgmma",
    frozenset({Feature.WGMMA}),
    Word(
        "wgmma descriptor",
        64,
        (
            BitField("start", 0, 14, 16),
            BitField("leading", 16, 14, 16),
            BitField("stride", 32, 14, 16),
            BitField(
                "base_offset", 49, 3, doc="(start of the pattern >> 7) & 7; 0 if aligned to it"
            ),
            BitField("swizzle", 62, 2),
        ),
    ),
    {"none": 0, "128B": 1, "64B": 2, "32B": 3},
    1 << 18,
)
TCGEN05_DESCRIPTOR = _tcgen05("tcgen05", frozenset({Feature.TCGEN05}), 14, False)
TCGEN05_WIDE_DESCRIPTOR = _tcgen05(
    "tcgen05 (19-bit addresses)", frozenset({Feature.TCGEN05, Feature.TENSOR_COLUMNS_576}), 15, True
)

DESCRIPTORS = (TCGEN05_WIDE_DESCRIPTOR, TCGEN05_DESCRIPTOR, WGMMA_DESCRIPTOR)
"""Most specific first."""


def descriptor_format(features: Collection[Feature]) -> DescriptorFormat:
    """The format of a target with these features; raises KeyError where it has no such descriptors."""
    for candidate in DESCRIPTORS:
        if candidate.needs.issubset(features):
            return candidate
    raise KeyError("the target reads no matrix descriptors")


@dataclass(frozen=True)
class SharedTile:
    """A tile of `rows` x `columns` elements of `bits` bits, columns contiguous, as the copy engine writes it.

    The tile is cut into blocks of one span of columns; a block holds all rows, one span each. With K contiguous an
    operand is K-major and rows are M or N; otherwise rows are K. `bits` counts what one element takes in shared memory.
    `used`: the bytes of each span that hold data, all of them where it is 0.
    """

    rows: int
    columns: int
    bits: int
    swizzle: str
    used: int = 0

    def __post_init__(self) -> None:
        if self.swizzle not in SWIZZLES:
            raise ValueError(f"no swizzle {self.swizzle}: one of {', '.join(SWIZZLES)}")
        if self.columns * self.bits % (8 * self.held) and self.columns * self.bits > 8 * self.held:
            raise ValueError(
                f"{self.columns} columns of {self.bits} bits are no whole number of {self.held}-byte spans"
            )

    @property
    def span(self) -> int:
        """Bytes of one row of one block."""
        return SWIZZLES[self.swizzle].span

    @property
    def held(self) -> int:
        """Bytes of data of one row of one block."""
        return self.used or self.span

    @property
    def block(self) -> int:
        """Bytes of one block."""
        return self.rows * self.span

    @property
    def blocks(self) -> int:
        return -(-self.columns * self.bits // (8 * self.held))

    @property
    def size(self) -> int:
        """Bytes of the tile, whole spans."""
        return self.blocks * self.block

    def offset(self, row: int, column: int) -> int:
        """Logical byte offset of an element; `SWIZZLES[...].physical(base + offset)` is where it lies."""
        byte = column * self.bits // 8
        return (byte // self.held) * self.block + row * self.span + byte % self.held

    def descriptor(self, major: Major, start: int = 0) -> MatrixDescriptor:
        """The descriptor of this tile as an operand, at shared address `start`.

        The leading offset of a K-major swizzled tile is ignored by the hardware and written as 16, as libraries do.
        """
        group = 8 * self.span
        if self.swizzle == "none":
            if major is Major.K:
                return MatrixDescriptor(start, self.block, 128, "none")
            return MatrixDescriptor(start, 128, self.block, "none")
        if major is Major.K:
            return MatrixDescriptor(start, 16, group, self.swizzle)
        if SWIZZLES[self.swizzle].atom == 32:
            group = 4 * self.span
        return MatrixDescriptor(start, self.block if self.blocks > 1 else 16, group, self.swizzle)

    def k_step(self, major: Major, k: int) -> int:
        """Bytes from the start of the tile to the slice that begins at K index `k`; add `>> 4` to the descriptor."""
        return self.offset(0, k) if major is Major.K else self.offset(k, 0)

    def mn_step(self, major: Major, mn: int) -> int:
        """Bytes to the slice that begins at M or N index `mn` (a multiple of 8 rows, or of a span)."""
        return self.offset(mn, 0) if major is Major.K else self.offset(0, mn)


def operand_offset(descriptor: MatrixDescriptor, major: Major, bits: int, mn: int, k: int) -> int:
    """Logical byte offset, from the descriptor's start, of the operand element (mn, k) (PTX: canonical layouts).

    `bits` is what an element takes in shared memory; of several elements in one byte the lower one comes first.
    """
    swizzle = SWIZZLES[descriptor.swizzle]
    leading, stride = descriptor.leading, descriptor.stride
    if descriptor.swizzle == "none":
        if major is Major.K:
            byte = k * bits // 8
            return (mn % 8) * 16 + (mn // 8) * stride + byte % 16 + (byte // 16) * leading
        byte = mn * bits // 8
        return byte % 16 + (byte // 16) * stride + (k % 8) * 16 + (k // 8) * leading
    if major is Major.K:
        return (mn % 8) * swizzle.span + (mn // 8) * stride + k * bits // 8
    byte = mn * bits // 8
    group = 4 if swizzle.atom == 32 else 8
    inner = byte % swizzle.span + (byte // swizzle.span) * leading
    return inner + (k % group) * swizzle.span + (k // group) * stride


def operand_address(descriptor: MatrixDescriptor, major: Major, bits: int, mn: int, k: int) -> int:
    """Physical shared address of the first byte of operand element (mn, k)."""
    logical = descriptor.start + operand_offset(descriptor, major, bits, mn, k)
    return SWIZZLES[descriptor.swizzle].physical(logical, descriptor.base_offset << 7)


def padded_offset(bits: int, index: int) -> tuple[int, int]:
    """(byte, bit within it) of 4- or 6-bit element `index` of a padded row: 16 elements own a 16-byte slot."""
    bit = index % 16 * bits
    return index // 16 * 16 + bit // 8, bit % 8


SCALE_ATOM_ROWS = 128
SCALE_ATOM_SCALES = 4
SCALE_ATOM_BYTES = 512
"""One atom of block scales: 128 rows of 4 consecutive scales."""

SCALE_ATOMS = "scale_atoms"
"""The layout of block scales: in shared memory whole atoms, those of 128 rows after one another; in tensor memory the
columns of each atom, those of 4 scales after one another (`scale_column`)."""

PADDED = "128B_padded"
"""The layout of 4- and 6-bit elements beside 8-bit ones: 16 of them own a 16-byte slot (`padded_offset`), so that one
takes 8 bits of a row, and rows have the 128-byte swizzle."""


SHORT, SHORT_SPAN = "128B_of_96", 96
"""The layout of 4-bit operands whose products take 48 bytes of K: a span of 128 bytes holds two of them and a gap, so
that none lies in two spans, for which a descriptor would have to name both (PTX: leading dimension offset mode)."""


def swizzle_of(layout: str) -> str:
    """The swizzle of a layout of shared memory, which most are called by."""
    return {SCALE_ATOMS: "none", PADDED: "128B", SHORT: "128B"}.get(layout, layout)


def held_span(layout: str) -> int:
    """Bytes of each span that hold data, 0 where all do."""
    return SHORT_SPAN if layout == SHORT else 0


SCALE_ATOM = MatrixDescriptor(0, 0, 128, "none")
"""One atom as tcgen05.cp 32x128b reads it: 32 rows of 16 bytes, without a gap."""


def scale_offset(row: int, k: int, groups: int) -> int:
    """Byte of the scale of row `row` and scale index `k` in global memory; `groups` = atoms along K (cuBLAS layout)."""
    atom = (row // 128) * groups + k // 4
    return atom * SCALE_ATOM_BYTES + row % 32 * 16 + row % 128 // 32 * 4 + k % 4


def scale_column(row: int, k: int, rows: int, scales: int = 0) -> int:
    """The first of the 4 columns of the atom with row `row` and scale `k`, of a tile of `rows` rows.

    A product takes the atoms of all its rows side by side (PTX: scale factor layouts of tcgen05.mma), and the next 4
    scales of all its rows behind them (CUTLASS: tmem_sf_frg, whose steps of 96 for sm_103a go on so). With `scales`, as
    many as a row has, each 128 rows lie by themselves: for products that take 128 rows at a time.
    """
    if scales:
        return row // SCALE_ATOM_ROWS * scale_column(0, scales, 1) + scale_column(0, k, 1)
    return 4 * (k // SCALE_ATOM_SCALES * -(-rows // SCALE_ATOM_ROWS) + row // SCALE_ATOM_ROWS)


def alignment(layout: str) -> int:
    """Bytes that a slot of shared memory with this layout is aligned to."""
    return SWIZZLES[swizzle_of(layout)].align


def scale_place(row: int, k: int) -> tuple[int, int, int]:
    """(lane within each quadrant, column, byte) of a scale of one atom after tcgen05.cp 32x128b.warpx4."""
    return row % 32, row // 32, k % 4


_PRIORITY = {"unchanged": 0, "evict_first": 2, "evict_last": 4, "evict_normal": 6}


def cache_policy(primary: str, secondary: str = "unchanged", sixteenths: int = 16) -> int:
    """The 64-bit value of `createpolicy.fractional`: `sixteenths`/16 of accesses get `primary`, the rest `secondary`.

    `primary` is one of unchanged, evict_first, evict_last, evict_normal; `secondary` unchanged or evict_first.
    """
    if primary not in _PRIORITY:
        raise ValueError(f"no cache priority {primary}: one of {', '.join(_PRIORITY)}")
    if secondary not in ("unchanged", "evict_first"):
        raise ValueError(f"no secondary priority {secondary}: unchanged or evict_first")
    if not 1 <= sixteenths <= 16:
        raise ValueError(f"fraction is {sixteenths}/16, expected 1..16")
    second = 1 if secondary == "evict_first" else 0
    return (0x100 | (_PRIORITY[primary] | second) << 4 | (sixteenths - 1)) << 52
