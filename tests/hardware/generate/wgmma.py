"""Programs of wgmma: where operands lie under every descriptor, which types and sizes there are, and TMA tiles."""

from __future__ import annotations

from generate.writing import (
    Json,
    Program,
    buffer,
    copy_in,
    joined,
    out,
    u32,
    u64,
)
from tkc.ir.isa.fragments import a_fragment_8, a_fragment_16, a_fragment_32
from tkc.ir.isa.layouts import (
    SWIZZLES,
    WGMMA_DESCRIPTOR,
    Major,
    MatrixDescriptor,
    operand_address,
)

K = {"f16": 16, "bf16": 16, "tf32": 8, "e4m3": 32, "e5m2": 32, "s8": 32, "u8": 32, "b1": 256}
ELEMENT = {"f16": 16, "bf16": 16, "tf32": 32, "e4m3": 8, "e5m2": 8, "s8": 8, "u8": 8, "b1": 1}


def descriptor(d: MatrixDescriptor) -> Json:
    return u64(WGMMA_DESCRIPTOR.encode(d))


def registers_of(d: str, n: int) -> int:
    return n // 4 if d == "f16" else n // 2


def move(direction: str, count: int, address: str) -> str:
    """Loads or stores %r<64 + i> for i < count at an address, two or four at a time."""
    text, size = [], 2 if count % 4 else 4
    vec = f".v{size}"
    for i in range(0, count, size):
        listed = "{" + ", ".join(f"%r{64 + j}" for j in range(i, i + size)) + "}"
        where = f"[{address}+{4 * i}]"
        text.append(
            f"ld.global{vec}.b32 {listed}, {where};"
            if direction == "ld"
            else f"st.global{vec}.b32 {where}, {listed};"
        )
    return "\n".join(text)


def wgmma_entry(
    p: Program,
    name: str,
    n: int,
    types: tuple[str, str, str],
    rs: bool = False,
    trans: tuple[int, int] = (0, 0),
    scales: tuple[int, int] = (1, 1),
    tail: str = "",
    steps: int = 1,
    sparse: str = "",
) -> None:
    """D = A * B + C of one warpgroup; C and D are registers, thread after thread.

    Parameters: image, words, a (registers, or unused), da, db, step (added to both descriptors after each of `steps`),
    scale (scale-d of the first), c, out, and meta for a sparse A.
    """
    d, a, b = types
    count, k = registers_of(d, n), K[a] * (2 if sparse else 1)
    target = "{" + ", ".join(f"%r{64 + i}" for i in range(count)) + "}"
    left = "{%r40, %r41, %r42, %r43}" if rs else "%d20"
    more = ""
    if d != "s32":
        more = f", {scales[0]}, {scales[1]}"
        if ELEMENT[a] == 16:
            more += f", {trans[1]}" if rs else f", {trans[0]}, {trans[1]}"
    meta = f", %r44, {sparse}" if sparse else ""
    op = f"wgmma.mma_async{'.sp' if sparse else ''}.sync.aligned.m64n{n}k{k}.{d}.{a}.{b}{tail}"
    issue = []
    for step in range(steps):
        enable = "%p1" if step == 0 else "1"
        issue.append(f"{op} {target}, {left}, %d21{meta}, {enable}{more};")
        if step + 1 < steps:
            issue.append("add.u64 %d20, %d20, %d22;\nadd.u64 %d21, %d21, %d22;")
    body = joined(
        """
        mov.u32 %r4, tile;
        mov.u32 %r1, %tid.x;
        ld.param.u64 %d0, [image];
        ld.param.u32 %r13, [words];
        ld.param.u64 %d1, [a];
        ld.param.u64 %d20, [da];
        ld.param.u64 %d21, [db];
        ld.param.u64 %d22, [step];
        ld.param.u32 %r14, [scale];
        ld.param.u64 %d2, [c];
        ld.param.u64 %d3, [out];
        setp.ne.u32 %p1, %r14, 0;
        """,
        copy_in("%d0", "%r13", "COPY"),
        f"""
        fence.proxy.async.shared::cta;
        bar.sync 0;
        and.b32 %r15, %r4, 0x3ffff;
        shr.u32 %r15, %r15, 4;
        cvt.u64.u32 %d23, %r15;
        add.u64 %d20, %d20, %d23;
        add.u64 %d21, %d21, %d23;
        mul.wide.u32 %d9, %r1, {4 * count};
        add.u64 %d2, %d2, %d9;
        add.u64 %d3, %d3, %d9;
        """,
        "mul.wide.u32 %d9, %r1, 16;\nadd.u64 %d1, %d1, %d9;\nld.global.v4.b32 {%r40, %r41, %r42, %r43}, [%d1];"
        if rs
        else "",
        "ld.param.u64 %d4, [meta];\nmul.wide.u32 %d9, %r1, 4;\nadd.u64 %d4, %d4, %d9;\nld.global.b32 %r44, [%d4];"
        if sparse
        else "",
        move("ld", count, "%d2"),
        "wgmma.fence.sync.aligned;",
        *issue,
        "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;",
        move("st", count, "%d3"),
    )
    params = {
        "image": "u64",
        "words": "u32",
        "a": "u64",
        "da": "u64",
        "db": "u64",
        "step": "u64",
        "scale": "u32",
    }
    params |= {"c": "u64", "out": "u64"} | ({"meta": "u64"} if sparse else {})
    p.entry(name, params, body, registers={"word": 200})


def multiply(
    p: Program,
    name: str,
    entry: str,
    count: int,
    image: Json,
    da: MatrixDescriptor | None,
    db: MatrixDescriptor,
    a: Json | None = None,
    c: Json | None = None,
    step: int = 0,
    scale: int = 0,
    meta: Json | None = None,
    **more: object,
) -> None:
    """A launch; `count` is the registers of D. Descriptors start at the offset of the operand in the image."""
    words = image["count"] * int(image["dtype"].removeprefix("uint")) // 32
    buffers = {"image": image, "out": out("b32", 128 * count), "c": c or out("b32", 128 * count)}
    buffers["a"] = a or out("b32", 4)
    args: list[object] = [
        "image",
        u32(words),
        "a",
        descriptor(da) if da else u64(0),
        descriptor(db),
        u64(step),
        u32(scale),
    ]
    args += ["c", "out"]
    if meta:
        buffers["meta"] = meta
        args.append("meta")
    described = {
        operand: {
            "leading": d.leading,
            "stride": d.stride,
            "swizzle": d.swizzle,
            "start": d.start,
            "base_offset": d.base_offset,
        }
        for operand, d in (("da", da), ("db", db))
        if d
    }
    p.launch(name, entry, args, buffers, shared=4 * words, descriptors=described, **more)


def module(name: str, doc: str) -> Program:
    p = Program(name, doc)
    p.text(".extern .shared .align 1024 .b8 tile[];")
    return p


def _identity(bits: int) -> Json:
    """Registers of A for each of 128 threads: one where the row is the column."""
    place, values = {16: (a_fragment_16, 8), 32: (a_fragment_32, 4), 8: (a_fragment_8, 16)}[bits]
    one = {16: 0x3C00, 32: 0x3F800000, 8: 1}[bits]
    at = [
        [t * values + v, one]
        for t in range(128)
        for v in range(values)
        if place(t, v)[0] == place(t, v)[1]
    ]
    return buffer(f"b{bits}", 128 * values, "scatter", at=at)


def _numbered(kilobytes: int) -> Json:
    """An image in which every f16 is another number above the subnormal ones."""
    return buffer("b16", kilobytes * 512, "count", start=0x0400)


def _k_major_cases() -> dict[str, MatrixDescriptor]:
    cases: dict[str, MatrixDescriptor] = {}
    for name, leading, stride in (
        ("tight", 128, 256),
        ("columns", 1024, 128),
        ("apart", 4096, 1536),
        ("odd", 144, 1040),
        ("zero", 0, 256),
        ("back", 128, 0),
    ):
        cases[f"none_{name}"] = MatrixDescriptor(0, leading, stride, "none")
    cases["none_start"] = MatrixDescriptor(4096 + 16, 128, 256, "none")
    for swizzle in ("32B", "64B", "128B"):
        span = SWIZZLES[swizzle].span
        for leading in (0, 16, 1024):
            cases[f"{swizzle}_leading{leading}"] = MatrixDescriptor(0, leading, 8 * span, swizzle)
        cases[f"{swizzle}_apart"] = MatrixDescriptor(2048, 16, 8 * span + 1024, swizzle)
        cases[f"{swizzle}_odd"] = MatrixDescriptor(0, 16, 8 * span + 16, swizzle)
        cases[f"{swizzle}_overlap"] = MatrixDescriptor(0, 16, 4 * span, swizzle)
        for step in range(32, span, 32):
            cases[f"{swizzle}_step{step}"] = MatrixDescriptor(step, 16, 8 * span, swizzle)
        cases[f"{swizzle}_half_step"] = MatrixDescriptor(16, 16, 8 * span, swizzle)
        for row in (1, 2, 3, 4, 7):
            start = row * span
            cases[f"{swizzle}_row{row}"] = MatrixDescriptor(start, 16, 8 * span, swizzle)
            cases[f"{swizzle}_row{row}_based"] = MatrixDescriptor(
                start, 16, 8 * span, swizzle, (start >> 7) & 7
            )
        cases[f"{swizzle}_based"] = MatrixDescriptor(0, 16, 8 * span, swizzle, 3)
        cases[f"{swizzle}_shifted"] = MatrixDescriptor(384, 16, 8 * span, swizzle)
        cases[f"{swizzle}_shifted_based"] = MatrixDescriptor(384, 16, 8 * span, swizzle, 3)
    return cases


def _mn_major_cases() -> dict[str, MatrixDescriptor]:
    cases: dict[str, MatrixDescriptor] = {}
    for name, leading, stride in (
        ("tight", 128, 256),
        ("swapped", 2048, 128),
        ("apart", 4096, 512),
        ("odd", 1040, 144),
    ):
        cases[f"none_{name}"] = MatrixDescriptor(0, leading, stride, "none")
    for swizzle in ("32B", "64B", "128B"):
        span = SWIZZLES[swizzle].span
        cases[f"{swizzle}_tight"] = MatrixDescriptor(0, 16 * span, 8 * span, swizzle)
        cases[f"{swizzle}_far"] = MatrixDescriptor(0, 64 * span, 8 * span, swizzle)
        cases[f"{swizzle}_swapped"] = MatrixDescriptor(0, 8 * span, 4096, swizzle)
        cases[f"{swizzle}_start"] = MatrixDescriptor(16 * span, 32 * span, 8 * span, swizzle)
        cases[f"{swizzle}_rows4"] = MatrixDescriptor(4 * span, 64 * span, 8 * span, swizzle)
        cases[f"{swizzle}_column16"] = MatrixDescriptor(16, 64 * span, 8 * span, swizzle)
    return cases


def _probes() -> list[Program]:
    """A times B where one of them is the identity: D says which address every element of the other came from."""

    def fits(d: MatrixDescriptor, major: Major, extent: int, size: int) -> bool:
        last = (operand_address(d, major, 16, mn, k) for mn in range(extent) for k in range(16))
        return max(last) + 2 <= size

    b = module(
        "wgmma_descriptor_b",
        "Where B lies: D is B read through descriptors, K-major and N-major, every f16 a number.",
    )
    wgmma_entry(b, "k_major", 64, ("f32", "f16", "f16"), rs=True)
    wgmma_entry(b, "n_major", 128, ("f32", "f16", "f16"), rs=True, trans=(0, 1))
    for name, d in _k_major_cases().items():
        assert fits(d, Major.K, 64, 32768), name
        multiply(b, f"k_{name}", "k_major", 32, _numbered(32), None, d, _identity(16), probe="b")
    for name, d in _mn_major_cases().items():
        assert fits(d, Major.MN, 128, 49152), name
        multiply(b, f"n_{name}", "n_major", 64, _numbered(48), None, d, _identity(16), probe="b")
    a = module(
        "wgmma_descriptor_a",
        "Where A lies: D is A read through descriptors, K-major and M-major, every f16 a number.",
    )
    wgmma_entry(a, "k_major", 16, ("f32", "f16", "f16"))
    wgmma_entry(a, "m_major", 16, ("f32", "f16", "f16"), trans=(1, 0))
    # B is the identity, K-major without a swizzle, at the end of the image
    at = [[(n % 8) * 8 + (n // 8) * 128 + (n // 8) * 64 + n % 8, 0x3C00] for n in range(16)]
    for majors, cases, size in (("k", _k_major_cases(), 32), ("m", _mn_major_cases(), 40)):
        for name, d in cases.items():
            assert fits(d, Major.K if majors == "k" else Major.MN, 64, size * 1024), name
            parts = [
                {"kind": "count", "start": 0x0400, "count": size * 512},
                {"kind": "scatter", "at": at, "count": 256},
            ]
            image = {
                "dtype": "uint16",
                "count": size * 512 + 256,
                "make": {"kind": "parts", "of": parts},
            }
            multiply(
                a,
                f"{majors}_{name}",
                f"{majors}_major",
                8,
                image,
                d,
                MatrixDescriptor(size * 1024, 128, 256, "none"),
                probe="a",
            )
    w = module(
        "wgmma_descriptor_widths",
        "Where B lies for tf32 and bytes: D is B read through descriptors.",
    )
    wgmma_entry(w, "tf32", 64, ("f32", "tf32", "tf32"), rs=True)
    wgmma_entry(w, "bytes", 64, ("s32", "u8", "u8"), rs=True)
    for name, d in _k_major_cases().items():
        if name.endswith(
            ("tight", "apart", "odd", "step32", "half_step", "row3", "row3_based", "leading1024")
        ):
            words = buffer("b32", 8192, "count", start=0x3F800000, step=0x2000)
            multiply(w, f"tf32_{name}", "tf32", 32, words, None, d, _identity(32), probe="b")
            for part, shift in (("low", 0), ("high", 8)):
                image = buffer("b8", 32768, "place", shift=shift)
                multiply(
                    w, f"bytes_{name}_{part}", "bytes", 32, image, None, d, _identity(8), probe="b"
                )
    return [b, a, w]


def tight(rows: int, start: int) -> MatrixDescriptor:
    """K-major without a swizzle: 16-byte columns one after the other."""
    return MatrixDescriptor(start, 128, 256, "none")


def _small_image(types: tuple[str, str, str], n: int, seed: int, limit: int = 3) -> Json:
    """A (64 rows) and B (n rows), 32 bytes each, of small integers: every sum is exact."""
    _, a, b = types
    if a == "b1":
        return buffer("b32", (64 + n) * 8, "bits", seed=seed)
    bits = ELEMENT[a]
    parts = [
        {
            "kind": "small",
            "format": t,
            "limit": limit,
            "low": 0 if t == "u8" else -limit,
            "seed": seed + i,
            "count": rows * 256 // bits,
        }
        for i, (t, rows) in enumerate(((a, 64), (b, n)))
    ]
    return {
        "dtype": f"uint{bits}",
        "count": (64 + n) * 256 // bits,
        "make": {"kind": "parts", "of": parts},
    }


TYPES: tuple[tuple[str, str, str], ...] = (
    ("f32", "f16", "f16"),
    ("f16", "f16", "f16"),
    ("f32", "bf16", "bf16"),
    ("f32", "tf32", "tf32"),
    *((d, a, b) for d in ("f32", "f16") for a in ("e4m3", "e5m2") for b in ("e4m3", "e5m2")),
    *(("s32", a, b) for a in ("s8", "u8") for b in ("s8", "u8")),
    ("s32", "b1", "b1"),
)


def _kinds() -> Program:
    p = module(
        "wgmma_types",
        "Every type of wgmma, A from shared memory and from registers, sums of small integers.",
    )
    for types in TYPES:
        d, a, b = types
        name, tail = f"{d}_{a}_{b}", ".and.popc" if a == "b1" else ""
        count = registers_of(d, 32)
        c_format = {"f32": ("b32", "f32"), "f16": ("b16", "f16"), "s32": ("b32", "s32")}[d]
        c = buffer(
            c_format[0],
            128 * count * 32 // int(c_format[0][1:]),
            "small",
            format=c_format[1],
            limit=9,
            seed=1003,
        )
        image = _small_image(types, 32, 1000)
        wgmma_entry(p, name, 32, types, tail=tail)
        for scale in (0, 1):
            multiply(
                p,
                f"{name}_{scale}",
                name,
                count,
                image,
                tight(64, 0),
                tight(32, 2048),
                c=c,
                scale=scale,
            )
        wgmma_entry(p, f"{name}_rs", 32, types, rs=True, tail=tail)
        bits = ELEMENT[a]
        registers = buffer("b32", 512, "bits", seed=1004)
        if bits > 1:
            low = 0 if a == "u8" else -3
            registers = buffer(
                f"b{bits}", 512 * 32 // bits, "small", format=a, limit=3, low=low, seed=1004
            )
        multiply(
            p,
            f"{name}_rs",
            f"{name}_rs",
            count,
            image,
            None,
            tight(32, 2048),
            a=registers,
            c=c,
            scale=1,
        )
    signed = ("f32", "bf16", "bf16")
    for sa, sb in ((-1, 1), (1, -1), (-1, -1)):
        name = f"signs_{'m' if sa < 0 else 'p'}{'m' if sb < 0 else 'p'}"
        wgmma_entry(p, name, 32, signed, scales=(sa, sb))
        c = buffer("b32", 2048, "small", format="f32", limit=9, seed=1003)
        multiply(
            p,
            name,
            name,
            16,
            _small_image(signed, 32, 1000),
            tight(64, 0),
            tight(32, 2048),
            c=c,
            scale=1,
        )
    for a, b in (("s8", "s8"), ("u8", "s8")):
        wgmma_entry(p, f"saturate_{a}", 32, ("s32", a, b), tail=".satfinite")
        wgmma_entry(p, f"wrap_{a}", 32, ("s32", a, b))
        c = buffer(
            "b32",
            2048,
            "choose",
            values=[0x7FFFFFFF, 0x80000000, 0x7FFF0000, 0x8000FFFF, 0],
            seed=1005,
        )
        for name in (f"saturate_{a}", f"wrap_{a}"):
            image = buffer("b8", (64 + 32) * 32, "bits", seed=1006)
            multiply(p, name, name, 16, image, tight(64, 0), tight(32, 2048), c=c, scale=1)
    return p


def _sizes() -> list[Program]:
    found = []
    for types, sizes in (
        (("f32", "bf16", "bf16"), (8, 16, 24, 40, 72, 96, 128, 136, 192, 248, 256)),
        (("f16", "f16", "f16"), (8, 24, 64, 256)),
        (("f32", "e4m3", "e4m3"), (8, 56, 128, 256)),
        (("s32", "s8", "u8"), (8, 24, 48, 112, 224, 256)),
        (("f32", "tf32", "tf32"), (8, 88, 256)),
    ):
        p = module(f"wgmma_sizes_{types[1]}", f"wgmma of {types[1]} with N from 8 to 256.")
        for n in sizes:
            wgmma_entry(p, f"n{n}", n, types)
            image = _small_image(types, n, 1010 + n)
            multiply(
                p,
                f"n{n}",
                f"n{n}",
                registers_of(types[0], n),
                image,
                tight(64, 0),
                tight(n, 2048),
            )
        found.append(p)
    return found


def programs() -> list[Program]:
    return [*_probes(), _kinds(), *_sizes()]
