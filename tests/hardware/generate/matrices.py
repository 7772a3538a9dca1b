"""Programs of ldmatrix, stmatrix and movmatrix in every form of sm_90."""

from __future__ import annotations

from itertools import product

from generate.writing import Program, buffer, copy_in, copy_out, fill_shared, joined, out


def _load() -> Program:
    p = Program(
        "ldmatrix",
        "ldmatrix of one, two and four matrices, straight and transposed, rows anywhere.",
    )
    p.text(".shared .align 128 .b8 room[2048];")
    for number, trans, space in product((1, 2, 4), ("", ".trans"), ("shared", "shared::cta")):
        if space != "shared" and (number, trans) != (4, ""):
            continue
        registers = "{" + ", ".join(f"%r{20 + i}" for i in range(number)) + "}"
        body = joined(
            """
            mov.u32 %r4, room;
            mov.u32 %r1, %tid.x;
            ld.param.u64 %d0, [source];
            ld.param.u64 %d1, [rows];
            ld.param.u64 %d2, [out];
            """,
            copy_in("%d0", "512", "COPY", 32),
            f"""
            bar.warp.sync 0xffffffff;
            mul.wide.u32 %d9, %r1, 4;
            add.u64 %d9, %d1, %d9;
            ld.global.b32 %r10, [%d9];
            mad.lo.u32 %r10, %r10, 16, %r4;
            ldmatrix.sync.aligned.m8n8.x{number}{trans}.{space}.b16 {registers}, [%r10];
            mul.wide.u32 %d9, %r1, {4 * number};
            add.u64 %d9, %d2, %d9;
            """,
            *(f"st.global.b32 [%d9+{4 * i}], %r{20 + i};" for i in range(number)),
        )
        name = f"x{number}{trans.replace('.', '_')}{'_cta' if space != 'shared' else ''}"
        p.entry(name, {"source": "u64", "rows": "u64", "out": "u64"}, body, threads=32)
        places = {
            "rows": {"kind": "count", "start": 0, "step": 1},
            # any 16 bytes, some of them twice
            "scattered": {"kind": "list", "values": [(i * 37 + 11) % 128 for i in range(32)]},
        }
        for where, make in places.items():
            p.launch(
                f"{name}_{where}",
                name,
                ["source", "rows", "out"],
                {
                    "source": buffer("b16", 1024, "count", start=0),
                    "rows": {"dtype": "uint32", "count": 32, "make": make},
                    "out": out("b32", 32 * number),
                },
                block=32,
            )
    return p


def _store() -> Program:
    p = Program(
        "stmatrix", "stmatrix of one, two and four matrices, straight and transposed; movmatrix."
    )
    p.text(".shared .align 128 .b8 room[2048];")
    for number, trans in product((1, 2, 4), ("", ".trans")):
        registers = "{" + ", ".join(f"%r{20 + i}" for i in range(number)) + "}"
        body = joined(
            """
            mov.u32 %r4, room;
            mov.u32 %r1, %tid.x;
            ld.param.u64 %d0, [source];
            ld.param.u64 %d1, [rows];
            ld.param.u64 %d2, [out];
            """,
            fill_shared("512", "FILL", "0xEEEEEEEE", 32),
            f"""
            bar.warp.sync 0xffffffff;
            mul.wide.u32 %d9, %r1, 4;
            add.u64 %d9, %d1, %d9;
            ld.global.b32 %r10, [%d9];
            mad.lo.u32 %r10, %r10, 16, %r4;
            mul.wide.u32 %d9, %r1, 16;
            add.u64 %d9, %d0, %d9;
            ld.global.v4.b32 {{%r20, %r21, %r22, %r23}}, [%d9];
            stmatrix.sync.aligned.m8n8.x{number}{trans}.shared.b16 [%r10], {registers};
            bar.warp.sync 0xffffffff;
            """,
            copy_out("%d2", "512", "DUMP", 32),
        )
        name = f"x{number}{trans.replace('.', '_')}"
        p.entry(name, {"source": "u64", "rows": "u64", "out": "u64"}, body, threads=32)
        scattered = [(i * 37 + 11) % 128 for i in range(32)]
        for where, values in (("rows", list(range(32))), ("scattered", scattered)):
            p.launch(
                f"{name}_{where}",
                name,
                ["source", "rows", "out"],
                {
                    "source": buffer("b16", 256, "count", start=0),
                    "rows": buffer("b32", 32, "list", values=values),
                    "out": out("b32", 512),
                },
                block=32,
            )
    body = """
        mov.u32 %r1, %tid.x;
        ld.param.u64 %d0, [source];
        ld.param.u64 %d2, [out];
        mul.wide.u32 %d9, %r1, 4;
        add.u64 %d10, %d0, %d9;
        ld.global.b32 %r10, [%d10];
        movmatrix.sync.aligned.m8n8.trans.b16 %r11, %r10;
        add.u64 %d10, %d2, %d9;
        st.global.b32 [%d10], %r11;
    """
    p.entry("movmatrix", {"source": "u64", "out": "u64"}, body, threads=32)
    p.launch(
        "movmatrix",
        "movmatrix",
        ["source", "out"],
        {"source": buffer("b16", 64, "count", start=0), "out": out("b32", 32)},
        block=32,
    )
    return p


def programs() -> list[Program]:
    return [_load(), _store()]
