"""Programs that load tiles by TMA under each swizzle and multiply them with the descriptors of the tables."""

from __future__ import annotations

from generate.wgmma import ELEMENT, K, module, move
from generate.writing import Json, Program, buffer, joined, out, tensor_map, wait_parity
from tkc.ir.isa.layouts import SWIZZLES, WGMMA_DESCRIPTOR, Major, SharedTile

_MAP_TYPE = {
    "bf16": "BFLOAT16",
    "f16": "FLOAT16",
    "tf32": "TFLOAT32",
    "e4m3": "UINT8",
    "s8": "UINT8",
}


def _tiles() -> Program:
    """Tiles loaded by TMA under each swizzle, multiplied along a span of K with the descriptors of the tables."""
    p = module(
        "wgmma_tiles",
        "TMA loads of A and B under each swizzle, then wgmma along a span of K, K-major and MN-major.",
    )
    p.text(".shared .align 8 .b64 full;")
    n = 64
    for element, a_mn, b_mn in (
        ("bf16", 0, 0),
        ("bf16", 1, 0),
        ("bf16", 0, 1),
        ("f16", 1, 1),
        ("tf32", 0, 0),
        ("e4m3", 0, 0),
        ("s8", 0, 0),
    ):
        for swizzle in ("32B", "64B", "128B"):
            bits, span = ELEMENT[element], SWIZZLES[swizzle].span
            k = span * 8 // bits if not (a_mn or b_mn) else 16 * 2
            d = "s32" if element == "s8" else "f32"
            name = f"{element}_{'m' if a_mn else 'k'}{'n' if b_mn else 'k'}_{swizzle}"
            _tile_entry(p, name, (d, element, element), swizzle, k, (a_mn, b_mn), n)
            args: list[object] = []
            buffers: dict[str, Json] = {"out": out("b32", 128 * n // 2)}
            for which, rows, mn in (("a", 64, a_mn), ("b", n, b_mn)):
                height, width = (k, rows) if mn else (rows, k)
                buffers[which] = buffer(
                    f"b{bits}",
                    height * width,
                    "small",
                    format=element,
                    limit=4,
                    seed=1020 + rows + mn,
                )
                box = [span * 8 // bits, height]
                args.append(
                    tensor_map(
                        which,
                        _MAP_TYPE[element],
                        [width, height],
                        [width * bits // 8],
                        box,
                        swizzle=swizzle,
                    )
                )
            p.launch(
                name,
                name,
                [*args, "out"],
                buffers,
                shared=2 * 64 * max(k, 64) * bits // 8 + 2048,
                product=[64, n, k],
            )
    return p


def _tile_entry(
    p: Program,
    name: str,
    types: tuple[str, str, str],
    swizzle: str,
    k: int,
    majors: tuple[int, int],
    n: int,
) -> None:
    bits, span = ELEMENT[types[1]], SWIZZLES[swizzle].span
    tiles = [
        SharedTile(k if mn else rows, rows if mn else k, bits, swizzle)
        for mn, rows in zip(majors, (64, n), strict=True)
    ]
    major = [Major.MN if mn else Major.K for mn in majors]
    second = -(-tiles[0].size // 1024) * 1024
    words = [
        WGMMA_DESCRIPTOR.encode(tile.descriptor(m, start))
        for tile, m, start in zip(tiles, major, (0, second), strict=True)
    ]
    per = K[types[1]]
    target = "{" + ", ".join(f"%r{64 + i}" for i in range(n // 2)) + "}"
    tail = (
        ""
        if types[0] == "s32"
        else ", 1, 1" + (f", {majors[0]}, {majors[1]}" if bits == 16 else "")
    )
    issue = []
    for i in range(k // per):
        steps = [tile.k_step(m, i * per) >> 4 for tile, m in zip(tiles, major, strict=True)]
        issue.append(f"add.u64 %d22, %d20, {steps[0]};\nadd.u64 %d23, %d21, {steps[1]};")
        issue.append(
            f"wgmma.mma_async.sync.aligned.m64n{n}k{per}.{types[0]}.{types[1]}.{types[2]} {target}, %d22, %d23,"
            f" {1 if i else 0}{tail};"
        )
    loads = []
    for tile, which, start in zip(tiles, ("%d1", "%d2"), (0, second), strict=True):
        for block in range(tile.blocks):
            loads.append(
                f"add.u32 %r20, %r4, {start + block * tile.block};\n"
                f"mov.u32 %r21, {block * span * 8 // bits};\nmov.u32 %r22, 0;\n"
                "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                f" [%r20], [{which}, {{%r21, %r22}}], [%r10];"
            )
    body = joined(
        f"""
        mov.u32 %r4, tile;
        mov.u32 %r10, full;
        mov.u32 %r1, %tid.x;
        ld.param.u64 %d3, [out];
        mov.b64 %d1, a;
        cvta.param.u64 %d1, %d1;
        mov.b64 %d2, b;
        cvta.param.u64 %d2, %d2;
        setp.eq.u32 %p1, %r1, 0;
        @%p1 mbarrier.init.shared::cta.b64 [%r10], 1;
        @%p1 fence.mbarrier_init.release.cluster;
        bar.sync 0;
        @!%p1 bra WAIT;
        mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%r10], {tiles[0].size + tiles[1].size};
        """,
        *loads,
        wait_parity("%r10", "0", "WAIT"),
        f"""
        and.b32 %r15, %r4, 0x3ffff;
        shr.u32 %r15, %r15, 4;
        cvt.u64.u32 %d24, %r15;
        add.u64 %d20, %d24, {words[0]:#x};
        add.u64 %d21, %d24, {words[1]:#x};
        mul.wide.u32 %d9, %r1, {2 * n};
        add.u64 %d3, %d3, %d9;
        """,
        "\n".join(f"mov.b32 %r{64 + i}, 0;" for i in range(n // 2)),
        "wgmma.fence.sync.aligned;",
        *issue,
        "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;",
        move("st", n // 2, "%d3"),
    )
    p.entry(name, {"a": "map", "b": "map", "out": "u64"}, body, registers={"word": 200})


def programs() -> list[Program]:
    return [_tiles()]
