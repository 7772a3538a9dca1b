"""Programs of atomics and reductions: every operation and type in global and shared memory, vectors, contention."""

from __future__ import annotations

from generate.writing import GLOBAL_INDEX, Json, Program, buffer, joined, out

OPERATIONS: dict[str, tuple[str, ...]] = {
    "add": (
        "u32",
        "s32",
        "u64",
        "f32",
        "f64",
        "noftz.f16",
        "noftz.bf16",
        "noftz.f16x2",
        "noftz.bf16x2",
    ),
    "min": ("u32", "s32", "u64", "s64"),
    "max": ("u32", "s32", "u64", "s64"),
    "inc": ("u32",),
    "dec": ("u32",),
    "and": ("b32", "b64"),
    "or": ("b32", "b64"),
    "xor": ("b32", "b64"),
    "exch": ("b32", "b64"),
    "cas": ("b16", "b32", "b64"),
}
_PREFIX = {16: "h", 32: "r", 64: "d"}


def _bits(t: str) -> int:
    last = t.rsplit(".", 1)[-1]
    return 32 if last.endswith("x2") else int(last.lstrip("bfsu"))


def _format(t: str) -> str:
    last = t.rsplit(".", 1)[-1]
    return last if last in ("f16", "bf16", "f32", "f64") else f"b{_bits(t)}"


def _pair(t: str, n: int, seed: int) -> tuple[Json, Json]:
    """What memory holds before, and what comes."""
    name = f"uint{_bits(t)}"
    if t.endswith("x2"):
        return tuple(
            {"dtype": name, "count": n, "make": {"kind": "bits", "seed": seed + i}}
            for i in range(2)
        )  # type: ignore[return-value]
    return tuple(  # type: ignore[return-value]
        {
            "dtype": name,
            "count": n,
            "make": {"kind": "cross", "of": _format(t), "place": i, "seed": seed},
        }
        for i in range(2)
    )


def _single() -> list[Program]:
    found = []
    for space in ("global", "shared"):
        p = Program(
            f"atomic_{space}",
            f"Every atomic and its type in {space} memory, one thread to a place: old and new value.",
        )
        p.text(".shared .align 16 .b8 room[8192];")
        for op, types in OPERATIONS.items():
            for t in types:
                bits = _bits(t)
                reg, size = _PREFIX[bits], bits // 8
                place = "%d6" if space == "global" else "%r4"
                third = f", %{reg}12" if op == "cas" else ""
                name = f"{op}_{t.replace('.', '_')}"
                body = joined(
                    GLOBAL_INDEX,
                    f"""
                    ld.param.u64 %d0, [memory];
                    ld.param.u64 %d1, [value];
                    ld.param.u64 %d2, [old];
                    mul.wide.u32 %d9, %r0, {size};
                    add.u64 %d6, %d0, %d9;
                    add.u64 %d7, %d1, %d9;
                    add.u64 %d8, %d2, %d9;
                    ld.global.b{bits} %{reg}11, [%d7];
                    """,
                    f"not.b{bits} %{reg}12, %{reg}11;" if op == "cas" else "",
                    f"""
                    mov.u32 %r4, room;
                    mad.lo.u32 %r4, %r2, {size}, %r4;
                    ld.global.b{bits} %{reg}13, [%d6];
                    st.shared.b{bits} [%r4], %{reg}13;
                    """
                    if space == "shared"
                    else "",
                    # every other thread of cas compares with what is there
                    f"and.b32 %r5, %r0, 1;\nsetp.eq.u32 %p1, %r5, 0;\n@%p1 ld.global.b{bits} %{reg}11, [%d6];"
                    if op == "cas"
                    else "",
                    f"atom.{space}.{op}.{t} %{reg}10, [{place}], %{reg}11{third};",
                    f"st.global.b{bits} [%d8], %{reg}10;",
                    f"ld.shared.b{bits} %{reg}13, [%r4];\nst.global.b{bits} [%d6], %{reg}13;"
                    if space == "shared"
                    else "",
                )
                p.entry(name, {"memory": "u64", "value": "u64", "old": "u64"}, body)
                before, comes = _pair(t, 512 if bits < 64 else 256, 920)
                p.launch(
                    name,
                    name,
                    ["memory", "value", "old"],
                    {"memory": before, "value": comes, "old": out(f"b{bits}", before["count"])},
                    ["memory", "old"],
                    grid=before["count"] // 128,
                )
        found.append(p)
    return found


def _vectors() -> Program:
    p = Program(
        "atomic_vector",
        "Reductions and atomics of neighbouring values, reductions without an answer.",
    )
    cases = {
        "v2_f32": ("red.global.add.v2.f32 [%d6], {%r10, %r11};", "f32", 0),
        "v4_f32": ("red.global.add.v4.f32 [%d6], {%r10, %r11, %r12, %r13};", "f32", 0),
        "v2_f16x2": ("red.global.add.noftz.v2.f16x2 [%d6], {%r10, %r11};", "b32", 0),
        "v4_bf16x2": ("red.global.add.noftz.v4.bf16x2 [%d6], {%r10, %r11, %r12, %r13};", "b32", 0),
        "v4_f16x2_min": (
            "red.global.min.noftz.v4.f16x2 [%d6], {%r10, %r11, %r12, %r13};",
            "b32",
            0,
        ),
        "v8_bf16": (
            "red.global.add.noftz.v8.bf16 [%d6], {%h10, %h11, %h12, %h13, %h14, %h15, %h16, %h17};",
            "b32",
            0,
        ),
        "atom_v4_f32": (
            "atom.global.add.v4.f32 {%r20, %r21, %r22, %r23}, [%d6], {%r10, %r11, %r12, %r13};",
            "f32",
            4,
        ),
        "atom_v2_f16x2_max": (
            "atom.global.max.noftz.v2.f16x2 {%r20, %r21}, [%d6], {%r10, %r11};",
            "b32",
            2,
        ),
        "red_s32": ("red.relaxed.gpu.global.min.s32 [%d6], %r10;", "b32", 0),
        "red_f32": ("red.release.gpu.global.add.f32 [%d6], %r10;", "f32", 0),
        "red_b64": ("mov.b64 %d10, {%r10, %r11};\nred.global.xor.b64 [%d6], %d10;", "b32", 0),
        "exch_b128": (
            "mov.b64 %d10, {%r10, %r11};\nmov.b64 %d11, {%r12, %r13};\nmov.b128 %q0, {%d10, %d11};\n"
            "atom.global.exch.b128 %q1, [%d6], %q0;\nmov.b128 {%d12, %d13}, %q1;\n"
            "mov.b64 {%r20, %r21}, %d12;\nmov.b64 {%r22, %r23}, %d13;",
            "b32",
            4,
        ),
    }
    for name, (text, of, answers) in cases.items():
        halves = "\n".join(
            f"mov.b32 {{%h{10 + 2 * i}, %h{11 + 2 * i}}}, %r{10 + i};" for i in range(4)
        )
        body = joined(
            GLOBAL_INDEX,
            """
            ld.param.u64 %d0, [memory];
            ld.param.u64 %d1, [value];
            ld.param.u64 %d2, [old];
            mul.wide.u32 %d9, %r0, 16;
            add.u64 %d6, %d0, %d9;
            add.u64 %d7, %d1, %d9;
            add.u64 %d8, %d2, %d9;
            ld.global.v4.b32 {%r10, %r11, %r12, %r13}, [%d7];
            """,
            halves,
            text,
            *(f"st.global.b32 [%d8+{4 * i}], %r{20 + i};" for i in range(answers)),
        )
        p.entry(name, {"memory": "u64", "value": "u64", "old": "u64"}, body)
        make = {"kind": "cross", "of": of, "seed": 930}
        p.launch(
            name,
            name,
            ["memory", "value", "old"],
            {
                "memory": {"dtype": "uint32", "count": 512, "make": {**make, "place": 0}},
                "value": {"dtype": "uint32", "count": 512, "make": {**make, "place": 1}},
                "old": out("b32", 512),
            },
            ["memory", "old"],
        )
    return p


def _contended() -> Program:
    """All threads of several CTAs at few places; integer results do not depend on the order."""
    p = Program("atomic_contended", "Atomics of all threads of four CTAs on the same places.")
    p.text(".shared .align 16 .b32 room[8];")
    ops = ("add.u32", "min.s32", "max.u32", "and.b32", "or.b32", "xor.b32", "inc.u32", "dec.u32")
    body = joined(
        GLOBAL_INDEX,
        """
        ld.param.u64 %d0, [source];
        ld.param.u64 %d1, [out];
        mul.wide.u32 %d9, %r0, 4;
        add.u64 %d9, %d0, %d9;
        ld.global.b32 %r10, [%d9];
        mov.u32 %r4, room;
        setp.ge.u32 %p1, %r2, 8;
        @%p1 bra READY;
        mad.lo.u32 %r5, %r2, 4, %r4;
        mov.b32 %r6, 0x00FF00FF;
        st.shared.b32 [%r5], %r6;
        READY:
        bar.sync 0;
        """,
        *(f"red.global.{op} [%d1+{4 * i}], %r10;" for i, op in enumerate(ops[:6])),
        *(f"red.global.{op} [%d1+{4 * (6 + i)}], 1000;" for i, op in enumerate(ops[6:])),
        *(f"red.shared.{op} [%r4+{4 * i}], %r10;" for i, op in enumerate(ops[:6])),
        """
        bar.sync 0;
        @%p1 bra DONE;
        ld.shared.b32 %r11, [%r5];
        mov.u32 %r12, %ctaid.x;
        mad.lo.u32 %r12, %r12, 8, %r2;
        add.u32 %r12, %r12, 8;
        mul.wide.u32 %d9, %r12, 4;
        add.u64 %d9, %d1, %d9;
        st.global.b32 [%d9], %r11;
        DONE:
        """,
    )
    p.entry("contended", {"source": "u64", "out": "u64"}, body)
    p.launch(
        "contended",
        "contended",
        ["source", "out"],
        {
            "source": buffer("b32", 512, "bits", seed=940),
            "out": buffer("b32", 40, "fill", value=0x1234),
        },
        grid=4,
    )
    return p


def programs() -> list[Program]:
    return [*_single(), _vectors(), _contended()]
