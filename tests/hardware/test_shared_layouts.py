"""Recorded copies, descriptors and fragments against the layout tables, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
from hardware.inputs import Words
from hardware.recorded import Recorded, find, launches

from tkc.ir.isa.fragments import accumulator_fragment, matrix_b16
from tkc.ir.isa.layouts import SWIZZLES, WGMMA_DESCRIPTOR, Major, MatrixDescriptor, operand_address
from tkc.ir.isa.numbers import FLOATS
from tkc.ir.isa.tensormap import MAP_TYPES, TiledMap

UNTOUCHED = 0xA5


def tiled(m: dict) -> TiledMap:
    return TiledMap(
        MAP_TYPES[m["type"]],
        *(tuple(m[f]) for f in ("sizes", "strides", "box", "element_strides")),
        m["swizzle"],
        m["interleave"],
        m["fill"],
    )


def coordinates(r: Recorded) -> list[int]:
    """The signed coordinates of a load, innermost first."""
    rank = len(r.map()["sizes"])
    words = [a["value"] for a in r.launch["args"] if a.get("scalar") == "uint32"][:rank]
    return [w - (1 << 32) if w >> 31 else w for w in words]


def copied(element: Words, type_name: str) -> Words:
    """The bytes of an element after a load: tf32 is rounded to nearest; all else stays, also subnormals of FTZ."""
    if not type_name.startswith("TFLOAT32"):
        return element
    word = FLOATS["tf32"].encode(float(element.view(np.float32)[0]))
    return np.array([word], np.uint32).view(np.uint8)


def loaded(r: Recorded) -> Words:
    """What shared memory holds after a load, made from the tables: bytes, untouched ones as the program filled them."""
    m = tiled(r.map())
    sizes = [a["value"] for a in r.launch["args"] if a.get("scalar") == "uint32"]
    offset, words = sizes[-2], sizes[-1]
    source = r.inputs()["source"].view(np.uint8)
    # with interleave axis 0 counts units of 16 or 32 bytes
    width = {"none": m.type.bits // 8, "16B": 16, "32B": 32}[m.interleave]
    result = np.full(4 * words, UNTOUCHED, np.uint8)
    first, steps = coordinates(r), m.element_strides
    swizzle = SWIZZLES[m.swizzle]
    for row, index in enumerate(np.ndindex(*reversed(m.counts[1:]))):
        outer = index[::-1]
        at = [f + i * s for f, i, s in zip(first[1:], outer, steps[1:], strict=True)]
        inside = all(0 <= c < size for c, size in zip(at, m.sizes[1:], strict=True))
        for column in range(m.counts[0]):
            x = first[0] + column
            byte = x * width + sum(c * s for c, s in zip(at, m.strides, strict=True))
            start = offset + row * m.row_pitch + column * width
            places = swizzle.physical(start + np.arange(width))  # type: ignore[arg-type]
            if inside and 0 <= x < m.sizes[0]:
                result[places] = copied(source[byte : byte + width], m.type.name)
            else:
                fill = 0x7FF7 if m.fill == "nan" else 0
                result[places] = np.full(16, fill, "<u2").view(np.uint8)[:width]
    return result


LOADS = tuple(f"tma_load_{n}" for n in ("swizzle", "ranks", "fills", "strides", "interleave"))
EXACT = [r for r in launches(*LOADS) if r.ran]


@pytest.mark.parametrize("r", EXACT, ids=lambda r: r.name)
def test_a_load_places_every_byte_as_the_tables_say(r: Recorded) -> None:
    found = r.whole().view(np.uint8)
    wrong = np.flatnonzero(found != loaded(r))
    assert not len(wrong), f"{len(wrong)} of {len(found)} bytes, first at {wrong[:8]}"


@pytest.mark.parametrize("r", list(launches("tma_load_counts")), ids=lambda r: r.launch["name"])
def test_a_barrier_gets_the_bytes_that_the_table_counts(r: Recorded) -> None:
    words = r.whole()
    m = tiled(r.map())
    assert int(words[0]) * 16 == m.transaction_bytes
    touched = np.flatnonzero(words[1:].view(np.uint8) != UNTOUCHED)
    assert touched[-1] < m.shared_bytes


@pytest.mark.parametrize(
    "r", [r for r in launches("tma_store_edge") if r.ran], ids=lambda r: r.launch["name"]
)
def test_a_store_writes_whole_granules(r: Recorded) -> None:
    """Rows end anywhere; a store writes every 16 bytes that have a byte inside, and no row beyond the others."""
    m = r.map()
    width = MAP_TYPES[m["type"]].bits // 8
    row, rows = m["sizes"][0] * width, m["sizes"][1]
    image = r.inputs()["image"].view(np.uint8).reshape(3, 32)
    wanted = np.full((4, 3, 64), 0xEE, np.uint8)
    for k, start in enumerate((0, 16, 32, 48)):
        for x in range(start, min(start + 32, 64), 16):
            if x < row:
                wanted[k, :rows, x : x + 16] = image[:rows, x - start : x - start + 16]
    assert (r.whole("target").view(np.uint8).reshape(4, 3, 64) == wanted).all()


def described(r: Recorded, which: str) -> MatrixDescriptor:
    d = r.launch["descriptors"][which]
    return MatrixDescriptor(d["start"], d["leading"], d["stride"], d["swizzle"], d["base_offset"])


def fragment(words: Words, columns: int) -> Words:
    """D of one warpgroup as a matrix, from the registers of each thread."""
    table = words.reshape(128, -1)
    matrix = np.zeros((64, columns), words.dtype)
    threads = np.arange(128)
    for v in range(table.shape[1]):
        matrix[accumulator_fragment(threads, v)] = table[:, v]  # type: ignore[arg-type]
    return matrix


PROBES = list(launches("wgmma_descriptor_a", "wgmma_descriptor_b", "wgmma_descriptor_widths"))


@pytest.mark.parametrize("r", PROBES, ids=lambda r: r.name)
def test_an_operand_lies_where_its_descriptor_says(r: Recorded) -> None:
    """One operand is the identity, so D is the other one, each element a number that tells its address."""
    which = r.launch["probe"]
    descriptor = described(r, f"d{which}")
    major = Major.MN if r.launch["entry"] in ("n_major", "m_major") else Major.K
    image = r.inputs()["image"]
    bits = image.itemsize * 8
    words = r.whole()
    columns = words.size // 64
    d = fragment(words, columns)
    k_size = 256 // bits
    rows = 64 if which == "a" else columns
    mn, k = np.meshgrid(np.arange(rows), np.arange(k_size), indexing="ij")
    wanted = image[operand_address(descriptor, major, bits, mn, k) // image.itemsize]  # type: ignore[arg-type]
    if bits == 16:
        wanted = wanted.view(np.float16).astype(np.float32).view(np.uint32)
    found = d[:, :k_size] if which == "a" else d[:k_size].T
    assert (found == wanted).all(), f"{(found != wanted).mean():.0%} of the elements lie elsewhere"


@pytest.mark.parametrize("r", PROBES[:4], ids=lambda r: r.name)
def test_the_descriptor_word_is_what_the_program_was_given(r: Recorded) -> None:
    words = [a["value"] for a in r.launch["args"] if a.get("scalar") == "uint64"]
    assert WGMMA_DESCRIPTOR.encode(described(r, f"d{r.launch['probe']}")) in words


@pytest.mark.parametrize("r", list(launches("wgmma_tiles")), ids=lambda r: r.launch["name"])
def test_tiles_multiply_under_every_swizzle(r: Recorded) -> None:
    """TMA loads and descriptors fit together: D is the product of the arrays in global memory."""
    m, n, k = r.launch["product"]
    element, majors, _ = r.launch["name"].split("_")
    buffers = r.inputs()
    a, b = (small(buffers[x], element) for x in "ab")
    a = a.reshape(k, m).T if majors[0] == "m" else a.reshape(m, k)
    b = b.reshape(k, n).T if majors[1] == "n" else b.reshape(n, k)
    d = fragment(r.whole(), n)
    found = d.view(np.int32) if element == "s8" else d.view(np.float32)
    assert (found == a @ b.T).all()


def small(words: Words, element: str) -> Words:
    """The values of words of small integers."""
    if element == "s8":
        return words.view(np.int8).astype(np.int64)
    if element == "bf16":
        return (words.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    if element == "e4m3":
        import ml_dtypes

        return words.view(ml_dtypes.float8_e4m3fn).astype(np.float64)
    return words.view({"f16": np.float16, "tf32": np.float32}[element]).astype(np.float64)


@pytest.mark.parametrize("r", list(launches("ldmatrix")), ids=lambda r: r.launch["name"])
def test_ldmatrix_gives_each_lane_its_elements(r: Recorded) -> None:
    buffers = r.inputs()
    source, rows = buffers["source"], buffers["rows"]
    number = int(r.launch["name"][1])
    words = r.whole().view(np.uint16).reshape(32, number, 2)
    for lane in range(32):
        for matrix in range(number):
            for v in range(2):
                row, column = matrix_b16(lane, v, "trans" in r.launch["name"])
                assert words[lane, matrix, v] == source[int(rows[8 * matrix + row]) * 8 + column]


@pytest.mark.parametrize(
    "r",
    [r for r in launches("stmatrix") if r.launch["entry"] != "movmatrix"],
    ids=lambda r: r.launch["name"],
)
def test_stmatrix_puts_elements_where_ldmatrix_finds_them(r: Recorded) -> None:
    buffers = r.inputs()
    source, rows = buffers["source"].reshape(32, 4, 2), buffers["rows"]
    number = int(r.launch["name"][1])
    wanted = np.full(1024, 0xEEEE, np.uint16)
    for lane in range(32):
        for matrix in range(number):
            for v in range(2):
                row, column = matrix_b16(lane, v, "trans" in r.launch["name"])
                wanted[int(rows[8 * matrix + row]) * 8 + column] = source[lane, matrix, v]
    assert (r.whole().view(np.uint16) == wanted).all()


def test_movmatrix_transposes() -> None:
    r = find("stmatrix", "movmatrix")
    given, found = r.inputs()["source"].reshape(8, 8), r.whole().view(np.uint16).reshape(8, 8)
    assert (found == given.T).all()
