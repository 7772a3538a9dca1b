"""Swizzles, matrix descriptors and scale atoms, bit by bit against worked numbers and canonical layouts."""

from __future__ import annotations

import pytest

from tkc.ir.isa.layouts import (
    DESCRIPTORS,
    SWIZZLES,
    TCGEN05_DESCRIPTOR,
    TCGEN05_WIDE_DESCRIPTOR,
    WGMMA_DESCRIPTOR,
    Major,
    MatrixDescriptor,
    SharedTile,
    cache_policy,
    descriptor_format,
    operand_address,
    operand_offset,
    padded_offset,
    scale_offset,
    scale_place,
)
from tkc.ir.isa.targets import TARGETS

CHUNKS = {
    "32B": ["01234567", "10325476"],
    "64B": ["01234567", "10325476", "23016745", "32107654"],
    "128B": [
        "01234567",
        "10325476",
        "23016745",
        "32107654",
        "45670123",
        "54761032",
        "67452301",
        "76543210",
    ],
    "128B_atom_32B": ["01234567", "23016745", "45670123", "67452301"],
    "128B_atom_64B": ["01234567", "45670123"],
    "96B": ["01234567", "10325476"],
}
"""Per 128-byte line of shared memory, which 16-byte chunk stands at each of the eight places (PTX 5.5.6)."""


@pytest.mark.parametrize("name", CHUNKS)
def test_swizzle_moves_the_documented_chunks(name: str):
    swizzle = SWIZZLES[name]
    for line, chunks in enumerate(CHUNKS[name]):
        found = [swizzle.physical(line * 128 + 16 * place) % 128 // 16 for place in range(8)]
        assert "".join(map(str, found)) == chunks


@pytest.mark.parametrize("swizzle", SWIZZLES.values(), ids=lambda s: s.name)
def test_swizzle_is_its_own_inverse_and_repeats(swizzle):
    period = range(4096)
    assert sorted(map(swizzle.physical, period)) == list(period)
    for address in period:
        assert swizzle.physical(swizzle.physical(address)) == address
        assert (
            swizzle.physical(address + swizzle.period) == swizzle.physical(address) + swizzle.period
        )
        inside = address % swizzle.atom
        assert swizzle.physical(address) == swizzle.physical(address - inside) + inside
    if swizzle.terms:
        shorter = swizzle.period // 2
        assert any(swizzle.physical(a + shorter) != swizzle.physical(a) + shorter for a in period)
    assert swizzle.align % swizzle.period == 0


def test_flip_swaps_halves_of_every_other_line():
    swizzle = SWIZZLES["128B_atom_32B_flip_8B"]
    assert [swizzle.physical(a) for a in (0, 8, 128, 136)] == [0, 8, 128 + 32 + 8, 128 + 32]


K128 = SharedTile(128, 64, 16, "128B")
WORKED = [
    (K128, Major.K, 0x4000404000010000, 0x4000004000010000),
    (SharedTile(64, 32, 16, "64B"), Major.K, 0x8000402000010000, 0x8000002000010000),
    (SharedTile(64, 16, 16, "32B"), Major.K, 0xC000401000010000, 0xC000001000010000),
    (SharedTile(64, 128, 16, "128B"), Major.MN, 0x4000404002000000, 0x4000004002000000),
    (SharedTile(128, 128, 8, "128B"), Major.K, 0x4000404000010000, 0x4000004000010000),
    (SharedTile(128, 256, 4, "128B"), Major.K, 0x4000404000010000, 0x4000004000010000),
]


@pytest.mark.parametrize(("tile", "major", "blackwell", "hopper"), WORKED)
@pytest.mark.parametrize("start", [0, 0x400, 0x2000, 0x38C00])
def test_worked_descriptors(
    tile: SharedTile, major: Major, blackwell: int, hopper: int, start: int
):
    descriptor = tile.descriptor(major, start)
    assert TCGEN05_DESCRIPTOR.encode(descriptor) == blackwell + (start >> 4)
    assert WGMMA_DESCRIPTOR.encode(descriptor) == hopper + (start >> 4)


def test_scale_atom_descriptor():
    atom = MatrixDescriptor(0, 0, 128, "none")
    assert TCGEN05_DESCRIPTOR.encode(atom) == 0x0000400800000000


@pytest.mark.parametrize("row", DESCRIPTORS, ids=lambda r: r.name)
def test_descriptors_decode_what_they_encode(row):
    for swizzle in row.swizzles:
        for start, leading, stride, base in (
            (0, 16, 1024, 0),
            (0x2000, 8192, 512, 5),
            (16, 0, 0x3FF0, 7),
        ):
            descriptor = MatrixDescriptor(start, leading, stride, swizzle, base)
            assert row.decode(row.encode(descriptor)) == descriptor
    with pytest.raises(ValueError, match="no swizzle 96B"):
        row.encode(MatrixDescriptor(0, 0, 0, "96B"))


def test_addresses_wrap_at_the_window():
    rank_one = MatrixDescriptor(1 << 24 | 0x1000, 16, 1024, "128B")
    assert WGMMA_DESCRIPTOR.decode(WGMMA_DESCRIPTOR.encode(rank_one)).start == 0x1000
    high = MatrixDescriptor(0x48000, 16, 1024, "128B")
    assert TCGEN05_DESCRIPTOR.decode(TCGEN05_DESCRIPTOR.encode(high)).start == 0x8000
    assert TCGEN05_WIDE_DESCRIPTOR.decode(TCGEN05_WIDE_DESCRIPTOR.encode(high)).start == 0x48000


def test_illegal_descriptors_are_refused():
    with pytest.raises(ValueError, match=r"version \(bits 46-48\) is 0, expected 1"):
        TCGEN05_DESCRIPTOR.decode(0x4000004000010000)
    with pytest.raises(ValueError, match="bits 46 are set"):
        WGMMA_DESCRIPTOR.decode(0x4000404000010000)
    with pytest.raises(ValueError, match="swizzle code 3 has no meaning"):
        TCGEN05_DESCRIPTOR.decode(0x6000404000010000)
    with pytest.raises(ValueError, match="start 8 is no multiple of 16"):
        TCGEN05_DESCRIPTOR.encode(MatrixDescriptor(8, 16, 1024, "128B"))


def test_format_of_each_target():
    assert descriptor_format(TARGETS["sm_90a"].features) is WGMMA_DESCRIPTOR
    assert descriptor_format(TARGETS["sm_100f"].features) is TCGEN05_DESCRIPTOR
    assert descriptor_format(TARGETS["sm_107a"].features) is TCGEN05_WIDE_DESCRIPTOR
    with pytest.raises(KeyError):
        descriptor_format(TARGETS["sm_120a"].features)


def layout(shape, stride):
    """A CuTe layout as a function of nested coordinates flattened left to right."""

    def flat(x):
        return [z for y in x for z in flat(y)] if isinstance(x, tuple) else [x]

    extents, steps = flat(shape), flat(stride)

    def offset(index: int) -> int:
        total = 0
        for extent, step in zip(extents, steps, strict=True):
            total += index % extent * step
            index //= extent
        return total

    return offset


@pytest.mark.parametrize("bits", [8, 16, 32])
@pytest.mark.parametrize("swizzle", ["none", "32B", "64B", "128B"])
@pytest.mark.parametrize("major", list(Major))
def test_operands_are_the_canonical_layouts(bits: int, swizzle: str, major: Major):
    """The manual's table of canonical layouts, in elements of `bits` bits, with LBO 8192 and SBO 16384 bytes."""
    t = 128 // bits
    lbo, sbo = 8192 * 8 // bits, 16384 * 8 // bits
    wide = {"none": 1, "32B": 2, "64B": 4, "128B": 8}[swizzle]
    if major is Major.K:
        rows = layout((8, 4), (wide * t, sbo))
        columns = layout((t, 2), (1, lbo if swizzle == "none" else t))
    elif swizzle == "none":
        rows, columns = layout((t, 1, 4), (1, t, sbo)), layout((8, 2), (t, lbo))
    else:
        rows, columns = layout((t, wide, 2), (1, t, lbo)), layout((8, 2), (wide * t, sbo))
    descriptor = MatrixDescriptor(0, 8192, 16384, swizzle)
    for mn in range(32 if major is Major.K else (4 if swizzle == "none" else 2 * wide) * t):
        for k in range(2 * t if major is Major.K else 16):
            assert (
                operand_offset(descriptor, major, bits, mn, k) * 8 == (rows(mn) + columns(k)) * bits
            )


def test_tf32_mn_major_has_groups_of_four():
    descriptor = MatrixDescriptor(0, 8192, 512, "128B_atom_32B")
    rows, columns = layout((4, 8, 2), (1, 4, 2048)), layout((4, 2), (32, 128))
    for mn in range(64):
        for k in range(8):
            assert operand_offset(descriptor, Major.MN, 32, mn, k) == 4 * (rows(mn) + columns(k))


@pytest.mark.parametrize("base", [0x400, 0x2400])
@pytest.mark.parametrize(
    ("tile", "major", "k"),
    [
        (SharedTile(64, 128, 16, "128B"), Major.K, 16),
        (SharedTile(64, 64, 16, "64B"), Major.K, 16),
        (SharedTile(32, 32, 16, "32B"), Major.K, 16),
        (SharedTile(32, 64, 16, "none"), Major.K, 16),
        (SharedTile(64, 128, 8, "128B"), Major.K, 32),
        (SharedTile(32, 128, 16, "128B"), Major.MN, 16),
        (SharedTile(32, 64, 16, "32B"), Major.MN, 16),
        (SharedTile(32, 64, 16, "none"), Major.MN, 16),
        (SharedTile(64, 256, 8, "128B"), Major.MN, 32),
        (SharedTile(16, 64, 32, "128B_atom_32B"), Major.MN, 8),
    ],
)
def test_slices_read_what_the_copy_engine_wrote(tile: SharedTile, major: Major, k: int, base: int):
    """Every K slice's descriptor, and every M/N offset, reaches the element that the tile's own layout put there."""
    physical = SWIZZLES[tile.swizzle].physical
    depth, width = (tile.columns, tile.rows) if major is Major.K else (tile.rows, tile.columns)
    mn_unit = 8 if major is Major.K else tile.span * 8 // tile.bits
    for k0 in range(0, depth, k):
        for mn0 in range(0, width, mn_unit):
            start = base + tile.k_step(major, k0) + tile.mn_step(major, mn0)
            descriptor = tile.descriptor(major, start)
            for kk in range(k):
                for mn in range(width - mn0):
                    row, column = (mn0 + mn, k0 + kk) if major is Major.K else (k0 + kk, mn0 + mn)
                    wanted = physical(base + tile.offset(row, column))
                    assert operand_address(descriptor, major, tile.bits, mn, kk) == wanted


def test_documented_k_steps():
    assert [K128.k_step(Major.K, k) for k in (0, 16, 32, 48)] == [0, 32, 64, 96]
    assert SharedTile(128, 128, 16, "128B").k_step(Major.K, 64) == 128 * 128
    assert SharedTile(64, 128, 16, "128B").k_step(Major.MN, 16) == 2048
    assert SharedTile(64, 128, 8, "128B").k_step(Major.MN, 32) == 4096


def test_tile_sizes_are_bijections():
    for tile in (K128, SharedTile(16, 64, 32, "128B_atom_32B"), SharedTile(8, 32, 16, "none")):
        offsets = {tile.offset(r, c) for r in range(tile.rows) for c in range(tile.columns)}
        assert len(offsets) == tile.rows * tile.columns
        assert (
            max(offsets) + tile.bits // 8 == tile.size == tile.rows * tile.columns * tile.bits // 8
        )
    with pytest.raises(ValueError, match="no swizzle 256B"):
        SharedTile(8, 8, 16, "256B")
    with pytest.raises(ValueError, match="no whole number of 128-byte spans"):
        SharedTile(8, 96, 16, "128B")


def test_padded_elements_own_sixteen_bytes():
    assert [padded_offset(4, i) for i in (0, 1, 15, 16)] == [(0, 0), (0, 4), (7, 4), (16, 0)]
    assert [padded_offset(6, i) for i in (1, 4, 15, 17)] == [(0, 6), (3, 0), (11, 2), (16, 6)]


def test_scale_atoms():
    places = {scale_offset(m, k, 1): (m, k) for m in range(128) for k in range(4)}
    assert sorted(places) == list(range(512))
    for offset, (m, k) in places.items():
        assert scale_place(m, k) == (offset // 16, offset % 16 // 4, offset % 4)
    assert scale_offset(128, 0, 3) == 3 * 512
    assert scale_offset(0, 4, 3) == 512


@pytest.mark.parametrize(
    ("policy", "value"),
    [
        (("evict_first",), 0x12F0000000000000),
        (("evict_last",), 0x14F0000000000000),
        (("evict_normal",), 0x16F0000000000000),
        (("unchanged",), 0x10F0000000000000),
        (("unchanged", "unchanged", 1), 0x1000000000000000),
    ],
)
def test_cache_policies(policy, value):
    assert cache_policy(*policy) == value


def test_cache_policy_refuses():
    with pytest.raises(ValueError, match="no cache priority evict_never"):
        cache_policy("evict_never")
    with pytest.raises(ValueError, match=r"17/16, expected 1\.\.16"):
        cache_policy("evict_first", sixteenths=17)


def test_a_span_may_hold_less_than_it_is_wide() -> None:
    """384 4-bit columns in two spans of 96 bytes: steps of 48 bytes lie in one span, and no two elements meet."""
    tile = SharedTile(16, 384, 4, "128B", 96)
    assert (tile.blocks, tile.block, tile.size) == (2, 16 * 128, 2 * 16 * 128)
    assert [tile.k_step(Major.K, k) for k in (0, 96, 192, 288)] == [0, 48, 2048, 2096]
    places = {tile.offset(row, column) for row in range(16) for column in range(0, 384, 2)}
    assert len(places) == 16 * 192
    assert all(place % 128 < 96 for place in places)
    assert max(places) < tile.size
