"""Programs of TMA tensor stores and reductions: clipping, the 16-byte granules at the end of a row, every type."""

from __future__ import annotations

from collections.abc import Sequence

from generate.tma_loads import BITS, SWIZZLES, box_bytes
from generate.writing import Json, Program, buffer, copy_in, joined, lines, tensor_map, u32

OPS = ("add", "min", "max", "inc", "dec", "and", "or", "xor")


def _entry(p: Program, name: str, rank: int, mnemonic: str) -> None:
    """Copies `words` words of `image` to shared memory, then stores the same box at each of `stores` coordinates."""
    params = {"map": "map", "image": "u64", "places": "u64", "stores": "u32", "words": "u32"}
    point = "{" + ", ".join(f"%r{40 + i}" for i in range(rank)) + "}"
    read = "\n".join(f"ld.global.b32 %r{40 + i}, [%d2+{4 * i}];" for i in range(rank))
    body = joined(
        lines("""
            mov.u32 %r4, tile;
            ld.param.u32 %r13, [words];
            ld.param.u32 %r16, [stores];
            ld.param.u64 %d0, [image];
            ld.param.u64 %d2, [places];
            mov.b64 %d1, map;
            cvta.param.u64 %d1, %d1;
            mov.u32 %r14, %tid.x;
            setp.ne.u32 %p1, %r14, 0;
        """),
        copy_in("%d0", "%r13", "COPY"),
        lines("""
            fence.proxy.async.shared::cta;
            bar.sync 0;
            @%p1 bra DONE;
            mov.u32 %r17, 0;
            STORE:
        """),
        read,
        f"{mnemonic} [%d1, {point}], [%r4];",
        lines(f"""
            add.u64 %d2, %d2, {4 * rank};
            add.u32 %r17, %r17, 1;
            setp.lt.u32 %p2, %r17, %r16;
            @%p2 bra STORE;
            cp.async.bulk.commit_group;
            cp.async.bulk.wait_group 0;
            DONE:
        """),
    )
    p.entry(name, params, body)


def _store_entry(p: Program, rank: int) -> None:
    _entry(
        p, f"store{rank}d", rank, f"cp.async.bulk.tensor.{rank}d.global.shared::cta.tile.bulk_group"
    )


def _reduce_entry(p: Program, rank: int, op: str) -> None:
    _entry(
        p,
        f"{op}{rank}d",
        rank,
        f"cp.reduce.async.bulk.tensor.{rank}d.global.shared::cta.{op}.tile.bulk_group",
    )


def _program(name: str, doc: str) -> Program:
    p = Program(name, doc)
    p.text(".extern .shared .align 1024 .b8 tile[];")
    return p


def store(
    p: Program,
    name: str,
    entry: str,
    described: Json,
    places: Sequence[Sequence[int]],
    image: Json,
    target: Json,
    room: int = 0,
) -> None:
    """`room`: bytes of shared memory that are read, where these are more than the box has."""
    words = -(-max(box_bytes(described), room) // 4)
    flat = [c % (1 << 32) for place in places for c in place]
    p.launch(
        name,
        entry,
        [described, "image", "places", u32(len(places)), u32(words)],
        {
            "target": target,
            "image": {**image, "count": words},
            "places": buffer("b32", len(flat), "list", values=flat),
        },
        ["target"],
        shared=4 * words,
    )


def _image(seed: int = 700) -> Json:
    return buffer("b32", 0, "bits", seed=seed)


def _untouched(count: int) -> Json:
    return buffer("b8", count, "fill", value=0xEE)


def _edges() -> Program:
    """The end of a row: what a store writes behind the innermost extent."""
    p = _program(
        "tma_store_edge",
        "TMA stores at the end of rows that are no multiple of 16 bytes, at any start.",
    )
    _store_entry(p, 3)
    for type_name in ("UINT8", "BFLOAT16", "FLOAT32", "UINT64"):
        size_of = BITS[type_name] // 8
        for row in (1, 2, 3, 4, 7, 8, 12, 15, 16, 17, 18, 20, 24, 28, 31, 32, 33, 36, 40, 47):
            if row % size_of:
                continue
            # slab k takes the store that starts at starts[k]; each has 3 rows of 64 bytes, the tensor 2 of them
            starts = [s // size_of for s in (0, 16, 32, 48)]
            box = [32 // size_of, 3, 1]
            tensor = tensor_map(
                "target", type_name, [row // size_of, 2, len(starts)], [64, 192], box
            )
            places = [(c, 0, k) for k, c in enumerate(starts)]
            store(
                p,
                f"{type_name}_{row}",
                "store3d",
                tensor,
                places,
                _image(),
                _untouched(192 * len(starts)),
            )
    return p


def _swizzled() -> Program:
    p = _program("tma_store_swizzle", "TMA stores from swizzled boxes, whole and clipped.")
    _store_entry(p, 2)
    _store_entry(p, 3)
    for swizzle in SWIZZLES:
        span = {"none": 128, "32B": 32, "64B": 64, "128B": 128}[swizzle]
        tensor = tensor_map("target", "UINT8", [256, 20], [256], [span, 16], swizzle=swizzle)
        store(
            p, f"{swizzle}_inside", "store2d", tensor, [(16, 2)], _image(710), _untouched(256 * 20)
        )
        for row in (span // 2 + 2, span - 6, span - 20):
            clipped = tensor_map(
                "target",
                "BFLOAT16",
                [row // 2, 13, 2],
                [256, 256 * 16],
                [span // 2, 16, 1],
                swizzle=swizzle,
            )
            store(
                p,
                f"{swizzle}_clipped_{row}",
                "store3d",
                clipped,
                [(0, 0, 0), (8, 5, 1)],
                _image(711),
                _untouched(256 * 32),
            )
        narrow = tensor_map("target", "UINT8", [256, 20], [256], [span // 2, 16], swizzle=swizzle)
        store(
            p,
            f"{swizzle}_narrow",
            "store2d",
            narrow,
            [(16, 2)],
            _image(712),
            _untouched(256 * 20),
            span * 16,
        )
    return p


def _ranks() -> Program:
    p = _program(
        "tma_store_ranks",
        "TMA stores of 1 to 5 dimensions, inside, clipped above and below, outside.",
    )
    sizes, box, at = [40, 7, 5, 4, 3], [16, 4, 3, 2, 2], [8, 2, 1, 1, 0]
    for rank in range(1, 6):
        _store_entry(p, rank)
        pitch, strides = 96, []
        for i in range(1, rank):
            strides.append(pitch)
            pitch *= sizes[i] + 1
        target = _untouched(max(pitch, 96))
        tensor = tensor_map("target", "UINT16", sizes[:rank], strides, box[:rank])
        cases = {
            "inside": at[:rank],
            "beyond": [s - b // 2 for s, b in zip(sizes[:rank], box, strict=False)],
            "outside": [s + 8 for s in sizes[:rank]],
            "far_beyond": [(1 << 31) - 16, *[(1 << 31) - 1] * (rank - 1)],
        }
        for name, place in cases.items():
            store(
                p,
                f"rank{rank}_{name}",
                f"store{rank}d",
                tensor,
                [place],
                _image(720 + rank),
                target,
            )
    strided = tensor_map("target", "UINT8", [48, 40], [64], [32, 24], [1, 3])
    store(p, "stride", "store2d", strided, [(16, 7)], _image(729), _untouched(64 * 40))
    store(p, "stride_beyond", "store2d", strided, [(32, 30)], _image(729), _untouched(64 * 40))
    inner = tensor_map("target", "UINT8", [48, 40], [64], [32, 8], [2, 1])
    store(p, "stride_inner", "store2d", inner, [(16, 7)], _image(729), _untouched(64 * 40))
    return p


def _refused() -> Program:
    p = _program(
        "tma_store_refused",
        "TMA stores and reductions that fault, or do not: negative starts, starts off 16 bytes.",
    )
    _store_entry(p, 2)
    _reduce_entry(p, 2, "add")
    _reduce_entry(p, 2, "xor")
    tensor = tensor_map("target", "UINT8", [60, 8], [64], [32, 4])
    for x, y in ((-16, 0), (0, -1), (-16, -1), (-32, 0), (1, 0), (8, 0)):
        store(p, f"store_{x}_{y}", "store2d", tensor, [(x, y)], _image(735), _untouched(512))
    words = tensor_map("target", "UINT32", [15, 8], [64], [8, 4])
    for x, y in ((-4, 0), (0, -1), (1, 0)):
        store(
            p,
            f"add_{x}_{y}",
            "add2d",
            words,
            [(x, y)],
            _image(735),
            buffer("b32", 128, "count", start=0),
        )
    signed = tensor_map("target", "INT64", [8, 4], [64], [8, 4])
    for op in ("add", "xor"):
        store(
            p,
            f"INT64_{op}",
            f"{op}2d",
            signed,
            [(0, 0)],
            _image(735),
            buffer("b64", 32, "bits", seed=736),
        )
    return p


def _takes(type_name: str, op: str) -> bool:
    """Whether the element type has the reduction (PTX: the table of cp.reduce.async.bulk.tensor)."""
    floating = "FLOAT" in type_name
    if op == "add":
        return type_name in (
            "UINT32",
            "INT32",
            "UINT64",
            "FLOAT16",
            "BFLOAT16",
            "FLOAT32",
            "FLOAT32_FTZ",
        )
    if op in ("inc", "dec"):
        return type_name == "UINT32"
    if op in ("min", "max"):
        return type_name in ("UINT32", "INT32", "UINT64", "INT64", "FLOAT16", "BFLOAT16")
    return not floating and type_name in ("UINT32", "INT32", "UINT64")


def _reductions() -> Program:
    p = _program(
        "tma_reduce",
        "TMA reductions of every operation and type, inside and across the end of rows.",
    )
    for op in OPS:
        _reduce_entry(p, 2, op)
    for type_name in (
        "UINT32",
        "INT32",
        "UINT64",
        "INT64",
        "FLOAT16",
        "BFLOAT16",
        "FLOAT32",
        "FLOAT32_FTZ",
    ):
        size_of = BITS[type_name] // 8
        width = f"b{8 * size_of}"
        name = {"FLOAT16": "f16", "BFLOAT16": "bf16", "FLOAT32": "f32", "FLOAT32_FTZ": "f32"}.get(
            type_name, width
        )
        for op in OPS:
            if not _takes(type_name, op):
                continue
            for row in (64, 64 - size_of):
                tensor = tensor_map(
                    "target", type_name, [row // size_of, 5], [96], [64 // size_of, 8]
                )
                image = buffer("b32", 0, "bits", seed=741)
                if name in ("f16", "bf16", "f32"):
                    image = {"dtype": "uint32", "count": 0, "make": {"kind": "bits", "seed": 742}}
                target = {
                    "dtype": f"uint{8 * size_of}",
                    "count": 96 * 5 // size_of,
                    "make": {"kind": "cross", "of": name, "place": 0, "seed": 743},
                }
                store(p, f"{type_name}_{op}_{row}", f"{op}2d", tensor, [(0, 0)], image, target)
    # the same place several times: integers commute, so the order does not matter
    tensor = tensor_map("target", "UINT32", [16, 4], [64], [16, 4])
    target = buffer("b32", 64, "count", start=100)
    store(p, "repeated_add", "add2d", tensor, [(0, 0)] * 5, _image(744), target)
    store(
        p,
        "repeated_inc",
        "inc2d",
        tensor,
        [(0, 0)] * 5,
        buffer("b32", 0, "fill", value=102),
        target,
    )
    tiny = [0x00000001, 0x80000001, 0x007FFFFF, 0x80400000, 0x00800000, 0x80800001, 0, 0x80000000]
    for type_name in ("FLOAT32", "FLOAT32_FTZ"):
        whole = tensor_map("target", type_name, [16, 4], [64], [16, 4])
        before = buffer("b32", 64, "choose", values=tiny, seed=747)
        image = buffer("b32", 0, "choose", values=tiny, seed=748)
        store(p, f"{type_name}_tiny", "add2d", whole, [(0, 0)], image, before)
    near = tensor_map("target", "FLOAT32", [15, 4], [64], [16, 4])
    floats = buffer("b32", 64, "floats", format="f32", low=-4, high=4, seed=745)
    for x in (0, 4, 8, 12):
        store(
            p,
            f"float_near_{x}",
            "add2d",
            near,
            [(x, 1)],
            buffer("b32", 0, "floats", format="f32", low=-4, high=4, seed=746),
            floats,
        )
    return p


def programs() -> list[Program]:
    return [_edges(), _swizzled(), _ranks(), _refused(), _reductions()]
