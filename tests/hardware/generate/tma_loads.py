"""Programs of TMA tensor loads: every swizzle, rank, type, fill, interleave, element stride and start coordinate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from generate.writing import (
    Json,
    Program,
    buffer,
    copy_out,
    fill_shared,
    joined,
    lines,
    out,
    tensor_map,
    u32,
    wait_parity,
)

BITS = {
    "UINT8": 8,
    "UINT16": 16,
    "UINT32": 32,
    "INT32": 32,
    "UINT64": 64,
    "INT64": 64,
    "FLOAT16": 16,
    "FLOAT32": 32,
    "FLOAT64": 64,
    "BFLOAT16": 16,
    "FLOAT32_FTZ": 32,
    "TFLOAT32": 32,
    "TFLOAT32_FTZ": 32,
}
SWIZZLES = ("none", "32B", "64B", "128B")
ATOMS = ("128B_atom_32B", "128B_atom_32B_flip_8B", "128B_atom_64B")


def coordinate_names(rank: int) -> list[str]:
    return [f"c{i}" for i in range(rank)]


def load_coordinates(rank: int) -> str:
    return "\n".join(f"ld.param.u32 %r{40 + i}, [c{i}];" for i in range(rank))


def coordinates(rank: int) -> str:
    return "{" + ", ".join(f"%r{40 + i}" for i in range(rank)) + "}"


def _entry(p: Program, rank: int) -> None:
    """Fills shared memory with a pattern, loads one box at `offset`, waits for `bytes`, dumps `words` words."""
    params = {"map": "map", "out": "u64", **dict.fromkeys(coordinate_names(rank), "u32")}
    params |= {"bytes": "u32", "offset": "u32", "words": "u32"}
    body = joined(
        lines("""
            mov.u32 %r4, tile;
            mov.u32 %r10, full;
            ld.param.u32 %r11, [bytes];
            ld.param.u32 %r12, [offset];
            ld.param.u32 %r13, [words];
            ld.param.u64 %d0, [out];
            mov.b64 %d1, map;
            cvta.param.u64 %d1, %d1;
            mov.u32 %r14, %tid.x;
            setp.eq.u32 %p1, %r14, 0;
        """),
        load_coordinates(rank),
        fill_shared("%r13", "FILL"),
        lines("""
            @%p1 mbarrier.init.shared::cta.b64 [%r10], 1;
            @%p1 fence.mbarrier_init.release.cluster;
            fence.proxy.async.shared::cta;
            bar.sync 0;
            add.u32 %r15, %r4, %r12;
            @!%p1 bra WAIT;
            mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%r10], %r11;
        """),
        f"cp.async.bulk.tensor.{rank}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
        f" [%r15], [%d1, {coordinates(rank)}], [%r10];",
        wait_parity("%r10", "0", "WAIT"),
        copy_out("%d0", "%r13", "DUMP"),
    )
    p.entry(f"load{rank}d", params, body)


def _count_entry(p: Program, rank: int) -> None:
    """As the loader, but tells how many bytes the barrier got: word 0 of `out` is that number over 16, the box follows.

    The copy is given a millisecond; then the one arrival is made, then 16 bytes at a time are expected until the
    phase ends.
    """
    params = {
        "map": "map",
        "out": "u64",
        **dict.fromkeys(coordinate_names(rank), "u32"),
        "words": "u32",
    }
    body = joined(
        lines("""
            mov.u32 %r4, tile;
            mov.u32 %r10, full;
            ld.param.u32 %r13, [words];
            ld.param.u64 %d0, [out];
            mov.b64 %d1, map;
            cvta.param.u64 %d1, %d1;
            mov.u32 %r14, %tid.x;
            setp.eq.u32 %p1, %r14, 0;
        """),
        load_coordinates(rank),
        fill_shared("%r13", "FILL"),
        lines("""
            @%p1 mbarrier.init.shared::cta.b64 [%r10], 1;
            @%p1 fence.mbarrier_init.release.cluster;
            fence.proxy.async.shared::cta;
            bar.sync 0;
            @!%p1 bra READY;
        """),
        f"cp.async.bulk.tensor.{rank}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
        f" [%r4], [%d1, {coordinates(rank)}], [%r10];",
        lines("""
            nanosleep.u32 1000000;
            mov.u32 %r20, 0;
            mbarrier.arrive.shared::cta.b64 _, [%r10];
            COUNT:
            mbarrier.test_wait.parity.shared::cta.b64 %p2, [%r10], 0;
            @%p2 bra COUNTED;
            mbarrier.expect_tx.shared::cta.b64 [%r10], 16;
            add.u32 %r20, %r20, 1;
            setp.lt.u32 %p3, %r20, 16384;
            @%p3 bra COUNT;
            COUNTED:
            st.global.b32 [%d0], %r20;
            READY:
            bar.sync 0;
            add.u64 %d0, %d0, 4;
        """),
        copy_out("%d0", "%r13", "DUMP"),
    )
    p.entry(f"count{rank}d", params, body)


def loader(name: str, doc: str, ranks: Sequence[int]) -> Program:
    p = Program(name, doc)
    p.text(".extern .shared .align 1024 .b8 tile[];\n.shared .align 8 .b64 full;")
    for rank in ranks:
        _entry(p, rank)
    return p


def count_bytes(
    p: Program, name: str, described: Json, at: Sequence[int], source: Json, words: int
) -> None:
    """A launch that counts what the barrier gets; not emulated, since it waits for the copy by the clock."""
    args = [described, "out", *(u32(c) for c in at), u32(words)]
    p.launch(
        name,
        f"count{len(at)}d",
        args,
        {"source": source, "out": out("b32", words + 1)},
        shared=4 * words,
        emulate=None,
    )


def box_bytes(described: Json) -> int:
    """Bytes of a box as it lies in shared memory, element strides taken into account."""
    m, count = described["map"], 1
    for i, (extent, stride) in enumerate(zip(m["box"], m["element_strides"], strict=True)):
        # without interleave the innermost element stride is ignored
        count *= -(-extent // stride) if i or m["interleave"] != "none" else extent
    return count * BITS[m["type"]] // 8


def load(
    p: Program,
    name: str,
    described: Json,
    at: Sequence[int],
    source: Json,
    offset: int = 0,
    count: int | None = None,
    room: int = 0,
    **more: Any,
) -> None:
    """A launch that loads the box at coordinates `at`; `count` is what the barrier expects."""
    bytes_ = box_bytes(described) if count is None else count
    words = (offset + bytes_ + room) // 4 + 16
    p.launch(
        name,
        f"load{len(at)}d",
        [described, "out", *(u32(c) for c in at), u32(bytes_), u32(offset), u32(words)],
        {"source": source, "out": out("b32", words)},
        shared=4 * words,
        **more,
    )


def _bytes(count: int, seed: int = 600) -> Json:
    return buffer("b8", count, "bits", seed=seed)


def _swizzles() -> Program:
    p = loader(
        "tma_load_swizzle",
        "TMA loads of 2-D boxes under each swizzle: full spans, narrow rows, shifted bases.",
        [2],
    )
    spans = {"none": 128, "32B": 32, "64B": 64, "128B": 128}
    for swizzle in SWIZZLES:
        span = spans[swizzle]
        full = tensor_map(
            "source", "UINT8", [span * 2, 32], [span * 2], [span, 32], swizzle=swizzle
        )
        load(p, f"{swizzle}_full", full, [span, 0], _bytes(span * 64))
        two = tensor_map("source", "BFLOAT16", [128, 24], [256], [span // 2, 16], swizzle=swizzle)
        load(p, f"{swizzle}_bf16", two, [16, 4], _bytes(256 * 24))
        four = tensor_map("source", "FLOAT32", [64, 24], [256], [span // 4, 16], swizzle=swizzle)
        load(
            p,
            f"{swizzle}_f32",
            four,
            [4, 4],
            buffer("b32", 64 * 24, "floats", format="f32", low=-20, high=20, seed=601),
        )
        for offset in (128, 256, 384, 512, 640, 1024):
            load(p, f"{swizzle}_base{offset}", full, [0, 0], _bytes(span * 64), offset=offset)
        for inner in range(16, span, 16):
            if inner in (16, 32, 48, 64, 96, 112):
                narrow = tensor_map(
                    "source", "UINT8", [256, 20], [256], [inner, 20], swizzle=swizzle
                )
                load(
                    p,
                    f"{swizzle}_inner{inner}",
                    narrow,
                    [32, 0],
                    _bytes(256 * 20),
                    room=span * 20 - inner * 20,
                )
    return p


def _atoms() -> Program:
    p = loader(
        "tma_load_atoms",
        "TMA loads with the 128-byte swizzles of larger atoms, where the driver makes such maps.",
        [2],
    )
    for swizzle in ATOMS:
        full = tensor_map("source", "UINT8", [256, 32], [256], [128, 32], swizzle=swizzle)
        load(p, swizzle, full, [128, 0], _bytes(256 * 32))
    return p


def _ranks() -> Program:
    p = loader(
        "tma_load_ranks",
        "TMA loads of 1 to 5 dimensions, inside, across and outside of the tensor.",
        [1, 2, 3, 4, 5],
    )
    sizes, box = [40, 7, 5, 4, 3], [16, 4, 3, 2, 2]
    at = [8, 2, 1, 1, 0]
    for rank in range(1, 6):
        pitch, strides = 96, []
        for i in range(1, rank):
            strides.append(pitch)
            pitch *= sizes[i] + 1
        tensor = tensor_map("source", "UINT16", sizes[:rank], strides, box[:rank])
        source = _bytes(max(pitch, 96), 610 + rank)
        load(p, f"rank{rank}", tensor, at[:rank], source)
        load(
            p,
            f"rank{rank}_beyond",
            tensor,
            [s - b // 2 for s, b in zip(sizes[:rank], box, strict=False)],
            source,
        )
        load(p, f"rank{rank}_before", tensor, [-(b // 2) for b in box[:rank]], source)
        load(p, f"rank{rank}_outside", tensor, [s + 8 for s in sizes[:rank]], source)
        load(p, f"rank{rank}_far", tensor, [-(1 << 31)] * rank, source)
        load(
            p,
            f"rank{rank}_far_beyond",
            tensor,
            [(1 << 31) - 16, *[(1 << 31) - 1] * (rank - 1)],
            source,
        )
    one = tensor_map("source", "UINT8", [300], [], [256])
    for x in (32, 48, -16, 288):
        load(p, f"rank1_256_at_{x}", one, [x], _bytes(300))
    swizzled = tensor_map("source", "BFLOAT16", [64, 6, 5], [128, 1024], [64, 3, 4], swizzle="128B")
    load(p, "rank3_swizzled", swizzled, [0, 1, 1], _bytes(1024 * 5))
    load(p, "rank3_swizzled_beyond", swizzled, [24, 4, 3], _bytes(1024 * 5))
    return p


def _fills() -> Program:
    p = loader(
        "tma_load_fills",
        "TMA loads across the edges of a tensor: zeros and NaN, of every type and any row length.",
        [1, 2],
    )
    for type_name, bits in BITS.items():
        size, inner = 11, 512 // bits
        pitch = -(-size * bits // 8 // 16) * 16 + 16
        floating = "FLOAT" in type_name
        for fill in ("zero", "nan") if floating else ("zero",):
            tensor = tensor_map("source", type_name, [size, 3], [pitch], [inner, 4], fill=fill)
            # floats as they come: subnormals and NaN with payloads too; rows start at a multiple of 16 bytes
            for x, y in ((0, 0), (-1, -1), (1, 2), (-4, 0)):
                load(
                    p,
                    f"{type_name}_{fill}_{x}_{y}",
                    tensor,
                    [x * 128 // bits, y],
                    _bytes(pitch * 3, 620),
                )
    for swizzle, inner in (("32B", 16), ("64B", 32), ("128B", 64)):
        tensor = tensor_map(
            "source", "FLOAT16", [27, 9], [64], [inner, 8], swizzle=swizzle, fill="nan"
        )
        load(p, f"swizzled_{swizzle}", tensor, [8, 3], _bytes(64 * 9, 621))
    # floats that flushing and rounding change: subnormals, ties, NaN with payloads, numbers near the largest
    words = {"kind": "cross", "of": "f32", "place": 1, "seed": 623, "count": 64}
    ties = {
        "kind": "floats",
        "format": "f32",
        "low": -3,
        "high": 3,
        "ties": 13,
        "seed": 624,
        "count": 64,
    }
    edges = {"dtype": "uint32", "count": 128, "make": {"kind": "parts", "of": [words, ties]}}
    for type_name in ("FLOAT32", "FLOAT32_FTZ", "TFLOAT32", "TFLOAT32_FTZ"):
        load(p, f"{type_name}_edges", tensor_map("source", type_name, [128], [], [128]), [0], edges)
    for size in (1, 15, 16, 17, 31):
        tensor = tensor_map("source", "UINT8", [size], [], [32])
        load(p, f"bytes_{size}", tensor, [0], _bytes(64, 622))
        load(p, f"bytes_{size}_at_16", tensor, [16], _bytes(64, 622))
    return p


def _strides() -> Program:
    p = loader(
        "tma_load_strides",
        "TMA loads with element strides, and rows that overlap or repeat.",
        [2, 3],
    )
    source = _bytes(64 * 64, 630)
    for sx, sy in ((1, 2), (1, 3), (2, 1), (4, 4), (1, 8), (8, 1)):
        # an axis of stride s takes a box of count * s
        tensor = tensor_map("source", "UINT8", [48, 40], [64], [32, 24], [sx, sy])
        load(p, f"stride_{sx}_{sy}", tensor, [0, 0], source)
        load(p, f"stride_{sx}_{sy}_inside", tensor, [16, 7], source)
        load(p, f"stride_{sx}_{sy}_beyond", tensor, [32, 30], source)
        load(p, f"stride_{sx}_{sy}_before", tensor, [-16, -5], source)
    uneven = tensor_map("source", "UINT8", [48, 40], [64], [32, 23], [1, 4])
    load(p, "stride_uneven", uneven, [0, 0], source)
    deep = tensor_map("source", "UINT16", [24, 10, 6], [64, 640], [8, 6, 4], [1, 2, 3])
    load(p, "stride_deep", deep, [8, 1, 1], source)
    repeated = tensor_map("source", "UINT8", [64, 16], [0], [32, 8])
    load(p, "stride_zero", repeated, [16, 3], source)
    overlapping = tensor_map("source", "UINT8", [64, 16], [16], [32, 8])
    load(p, "overlapping", overlapping, [16, 3], source)
    swizzled = tensor_map("source", "BFLOAT16", [32, 40], [64], [32, 32], [1, 2], swizzle="64B")
    load(p, "stride_swizzled", swizzled, [0, 3], source)
    return p


def _interleaved() -> Program:
    """Axis 0 counts units of 16 or 32 bytes, the second outermost axis is the slice: a box has one slice of it."""
    p = loader(
        "tma_load_interleave",
        "TMA loads of interleaved tensors: 16 or 32 bytes of channels side by side.",
        [3, 4, 5],
    )
    source = buffer("b16", 32768, "count", start=0)
    for interleave, swizzle, unit in (("16B", "none", 16), ("16B", "32B", 16), ("32B", "32B", 32)):
        for rank in (3, 4, 5):
            # the driver asks for an inner box of whole 16 bytes, counted as if it were elements
            sizes, box = [12, 5, 4, 3, 2][:rank], [8, 3, 2, 2, 2][:rank]
            pitch, strides = 14 * unit, []
            for i in range(1, rank):
                strides.append(pitch)
                pitch *= sizes[i]
            count = unit
            for i, extent in enumerate(box):
                count *= 1 if i == rank - 2 else extent
            tensor = tensor_map(
                "source", "UINT16", sizes, strides, box, interleave=interleave, swizzle=swizzle
            )
            places = {
                "inside": [1] * rank,
                "beyond": [s - 1 for s in sizes],
                "before": [-1, *[0] * (rank - 2), -1],
            }
            for name, at in places.items():
                load(
                    p,
                    f"{interleave}_{swizzle}_{rank}_{name}",
                    tensor,
                    at,
                    source,
                    count=count,
                    room=count,
                )
    return p


def _counts() -> Program:
    """What a barrier gets, and where interleaved boxes come from: each 16-bit element of the source is its number."""
    p = Program(
        "tma_load_counts",
        "How many bytes a barrier gets from TMA loads: narrow, clipped, strided, interleaved boxes.",
    )
    p.text(".extern .shared .align 1024 .b8 tile[];\n.shared .align 8 .b64 full;")
    for rank in (2, 3, 4, 5):
        _count_entry(p, rank)
    numbered = buffer("b16", 65536, "count", start=0)
    for swizzle, inner in (("none", 48), ("32B", 16), ("64B", 48), ("128B", 16), ("128B", 96)):
        tensor = tensor_map("source", "UINT8", [256, 64], [256], [inner, 20], swizzle=swizzle)
        count_bytes(p, f"{swizzle}_{inner}", tensor, [0, 0], numbered, 1024)
        count_bytes(p, f"{swizzle}_{inner}_outside", tensor, [256, 60], numbered, 1024)
    for sy, rows in ((3, 24), (4, 23), (8, 1), (5, 6)):
        strided = tensor_map("source", "UINT8", [256, 64], [256], [32, rows], [1, sy])
        count_bytes(p, f"stride_{sy}_{rows}", strided, [0, 0], numbered, 1024)
    strides = [512, 8192, 24576, 49152]
    for interleave, swizzle, unit in (
        ("16B", "none", 8),
        ("16B", "32B", 8),
        ("16B", "128B", 8),
        ("32B", "32B", 16),
    ):
        for rank in (3, 4, 5):
            sizes, box = [4 * unit, 12, 10, 6, 3][:rank], [unit, 4, 3, 2, 2][:rank]
            tensor = tensor_map(
                "source",
                "UINT16",
                sizes,
                strides[: rank - 1],
                box,
                interleave=interleave,
                swizzle=swizzle,
            )
            for first in (0, 1) if rank < 5 else (0,):
                count_bytes(
                    p,
                    f"{interleave}_{swizzle}_{rank}_{first}",
                    tensor,
                    [first, *[1] * (rank - 1)],
                    numbered,
                    4096,
                )
            if rank == 4:
                wide = tensor_map(
                    "source",
                    "UINT16",
                    sizes,
                    strides[:3],
                    [2 * unit, *box[1:]],
                    interleave=interleave,
                    swizzle=swizzle,
                )
                count_bytes(p, f"{interleave}_{swizzle}_wide", wide, [0, 1, 1, 1], numbered, 4096)
    return p


def _refused() -> Program:
    """Copies that the hardware refuses; each launch ends with an error."""
    p = loader(
        "tma_load_refused",
        "TMA loads that fault: rows that start off 16 bytes, shared addresses off 128 bytes.",
        [2],
    )
    for type_name, x in (
        ("UINT8", 1),
        ("UINT8", 8),
        ("UINT8", -3),
        ("BFLOAT16", 4),
        ("FLOAT32", 3),
        ("UINT64", 1),
    ):
        tensor = tensor_map("source", type_name, [128, 8], [1024], [512 // BITS[type_name], 4])
        load(p, f"{type_name}_at_{x}", tensor, [x, 0], _bytes(8192))
    tensor = tensor_map("source", "UINT8", [256, 8], [256], [64, 4])
    for offset in (16, 64):
        load(p, f"shared_{offset}", tensor, [0, 0], _bytes(8192), offset=offset)
    return p


def programs() -> list[Program]:
    return [
        _swizzles(),
        _atoms(),
        _ranks(),
        _fills(),
        _strides(),
        _interleaved(),
        _counts(),
        _refused(),
    ]
