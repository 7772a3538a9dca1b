"""Programs of mma.sync: every shape and type of sm_90, sums of small integers and of random floats."""

from __future__ import annotations

from generate.dot_products import RANGES, SPECIAL
from generate.writing import GLOBAL_INDEX, Json, Program, buffer, joined, out
from tkc.ir.isa.instructions.warp_mma import REGISTER_BITS, fragment_registers

WARPS = 4

FLOATS = (
    ("m16n8k16", "f32", "bf16", "bf16"),
    ("m16n8k8", "f32", "bf16", "bf16"),
    ("m16n8k16", "f32", "f16", "f16"),
    ("m16n8k8", "f32", "f16", "f16"),
    ("m16n8k16", "f16", "f16", "f16"),
    ("m16n8k8", "f16", "f16", "f16"),
    ("m16n8k8", "f32", "tf32", "tf32"),
    ("m16n8k4", "f32", "tf32", "tf32"),
    ("m16n8k32", "f32", "e4m3", "e4m3"),
    ("m16n8k32", "f32", "e5m2", "e4m3"),
    ("m16n8k32", "f32", "e4m3", "e5m2"),
    ("m16n8k32", "f32", "e5m2", "e5m2"),
    ("m16n8k32", "f16", "e4m3", "e4m3"),
    ("m16n8k32", "f16", "e5m2", "e5m2"),
)
INTEGERS = (
    ("m16n8k32", "s8", "s8", ""),
    ("m16n8k32", "u8", "s8", ""),
    ("m16n8k32", "s8", "u8", ".satfinite"),
    ("m16n8k32", "u8", "u8", ""),
    ("m16n8k16", "s8", "s8", ""),
    ("m16n8k16", "u8", "s8", ".satfinite"),
    ("m8n8k16", "s8", "s8", ""),
    ("m8n8k16", "u8", "u8", ""),
    ("m16n8k64", "s4", "s4", ""),
    ("m16n8k64", "u4", "s4", ".satfinite"),
    ("m16n8k32", "s4", "u4", ""),
    ("m8n8k32", "s4", "s4", ""),
    ("m8n8k32", "u4", "u4", ""),
)
BITS = (
    ("m16n8k256", ".and.popc"),
    ("m16n8k256", ".xor.popc"),
    ("m16n8k128", ".and.popc"),
    ("m16n8k128", ".xor.popc"),
    ("m8n8k128", ".and.popc"),
    ("m8n8k128", ".xor.popc"),
)
SPARSE = (
    ("m16n8k32", "bf16", "0"),
    ("m16n8k32", "bf16", "1"),
    ("m16n8k16", "f16", "0"),
    ("m16n8k16", "f16", "2"),
    ("m16n8k16", "tf32", "1"),
    ("m16n8k8", "tf32", "3"),
    ("m16n8k64", "e4m3", "0"),
)


def _entry(
    p: Program, name: str, mnemonic: str, counts: dict[str, int], wide: bool, tail: str = ""
) -> None:
    """Thread after thread, registers after registers; 64-bit ones for f64."""
    prefix, size = ("d", 8) if wide else ("r", 4)
    first = {"a": 20, "b": 30, "c": 40, "d": 50}
    names = {o: [f"%{prefix}{first[o] + i}" for i in range(counts[o])] for o in "abcd"}
    loads = []
    for i, o in enumerate("abc"):
        loads.append(
            f"ld.param.u64 %d0, [{o}];\nmul.wide.u32 %d9, %r0, {size * counts[o]};\nadd.u64 %d{1 + i}, %d0, %d9;"
        )
        loads += [
            f"ld.global.b{8 * size} {r}, [%d{1 + i}+{size * j}];" for j, r in enumerate(names[o])
        ]
    listed = {o: "{" + ", ".join(r) + "}" for o, r in names.items()}
    if tail:
        loads.append(
            "ld.param.u64 %d0, [meta];\nmul.wide.u32 %d9, %r0, 4;\nadd.u64 %d0, %d0, %d9;\nld.global.b32 %r60, [%d0];"
        )
    body = joined(
        GLOBAL_INDEX,
        *loads,
        f"{mnemonic} {listed['d']}, {listed['a']}, {listed['b']}, {listed['c']}{tail};",
        f"ld.param.u64 %d0, [out];\nmul.wide.u32 %d9, %r0, {size * counts['d']};\nadd.u64 %d0, %d0, %d9;",
        *(f"st.global.b{8 * size} [%d0+{size * j}], {r};" for j, r in enumerate(names["d"])),
    )
    params = dict.fromkeys(("a", "b", "c", "out"), "u64") | ({"meta": "u64"} if tail else {})
    p.entry(name, params, body, threads=32)


def _launch(
    p: Program,
    name: str,
    entry: str,
    data: dict[str, Json],
    count: int,
    width: str = "b32",
    meta: Json | None = None,
    **more: object,
) -> None:
    buffers = {**data, "out": out(width, WARPS * 32 * count)}
    args: list[object] = ["a", "b", "c", "out"]
    if meta:
        buffers["meta"] = meta
        args.append("meta")
    p.launch(name, entry, args, buffers, grid=WARPS, block=32, **more)


def _fragment(t: str, registers: int, kind: str, seed: int, **make: object) -> Json:
    bits = REGISTER_BITS.get(f".{t}", 64 if t == "f64" else 32)
    return buffer(
        f"b{bits}",
        WARPS * 32 * registers * (64 if t == "f64" else 32) // bits,
        kind,
        seed=seed,
        **make,
    )


def _floats() -> Program:
    p = Program(
        "mma_floats",
        "mma.sync on floats: fragments, sums of small integers, random sums, special values.",
        "8.7",
    )
    for shape, d, a, b in FLOATS:
        row = "mma.sync.f16" if d == "f16" else "mma.sync"
        counts = dict(fragment_registers(row, f".{shape}", f".{a}"))
        name = f"{shape}_{d}_{a}_{b}"
        _entry(p, name, f"mma.sync.aligned.{shape}.row.col.{d}.{a}.{b}.{d}", counts, False)
        c_bits = 16 if d == "f16" else 32
        c_count = WARPS * 32 * counts["c"] * 32 // c_bits
        exact = {
            "a": _fragment(a, counts["a"], "small", 1100, format=a, limit=3),
            "b": _fragment(b, counts["b"], "small", 1101, format=b, limit=3),
            "c": buffer(f"b{c_bits}", c_count, "small", seed=1102, format=d, limit=9),
        }
        _launch(p, f"{name}_exact", name, exact, counts["d"])
        wide = min(RANGES[a]["wide"], RANGES[b]["wide"]) if d == "f32" else 2
        for label, span, low, high in (("narrow", 1, -4, 4), ("wide", wide, -wide, wide)):
            data = {
                o: _fragment(
                    t,
                    counts[o],
                    "floats",
                    1110 + i,
                    format="f32" if t == "tf32" else t,
                    low=-span,
                    high=span,
                )
                for i, (o, t) in enumerate((("a", a), ("b", b)))
            }
            data["c"] = buffer(
                f"b{c_bits}", c_count, "floats", seed=1120, format=d, low=low, high=high
            )
            _launch(p, f"{name}_{label}", name, data, counts["d"])
        special = {
            "a": _fragment(
                a, counts["a"], "floats", 1130, format="f32" if a == "tf32" else a, low=0, high=1
            ),
            "b": {**_fragment(b, counts["b"], "bits", 0)},
            "c": buffer(f"b{c_bits}", c_count, "floats", seed=1131, format=d, low=-2, high=2),
        }
        ordinary = {"f16": 0x3E00, "bf16": 0x3FC0, "tf32": 0x3FC00000, "e4m3": 0x3C, "e5m2": 0x3E}[
            b
        ]
        # a special value every thirteen
        values = [v for s in SPECIAL[b] for v in (s, *[ordinary] * 12)]
        special["b"]["make"] = {"kind": "list", "values": values}
        _launch(p, f"{name}_special", name, special, counts["d"])
    return p


def _integers() -> Program:
    p = Program("mma_integers", "mma.sync on 8-bit, 4-bit and 1-bit integers.")
    for shape, a, b, tail in INTEGERS:
        counts = dict(fragment_registers("mma.sync.s32", f".{shape}", f".{a}"))
        name = f"{shape}_{a}_{b}{tail.replace('.', '_')}"
        _entry(p, name, f"mma.sync.aligned.{shape}.row.col{tail}.s32.{a}.{b}.s32", counts, False)
        data = {
            o: buffer("b32", WARPS * 32 * counts[o], "bits", seed=1140 + i)
            for i, o in enumerate("ab")
        }
        edge = [0x7FFFFFFF, 0x80000000, 0x7FFFF000, 0, 5]
        data["c"] = buffer("b32", WARPS * 32 * counts["c"], "choose", values=edge, seed=1142)
        _launch(p, name, name, data, counts["d"])
    for shape, op in BITS:
        counts = dict(fragment_registers("mma.sync.s32", f".{shape}", ".b1"))
        name = f"{shape}_b1{op.replace('.', '_')}"
        _entry(p, name, f"mma.sync.aligned.{shape}.row.col.s32.b1.b1.s32{op}", counts, False)
        data = {
            o: buffer("b32", WARPS * 32 * counts[o], "bits", seed=1150 + i)
            for i, o in enumerate("abc")
        }
        _launch(p, name, name, data, counts["d"])
    return p


def _doubles() -> Program:
    p = Program("mma_doubles", "mma.sync on f64 in each shape, rounding to nearest and otherwise.")
    for shape, r in (
        ("m8n8k4", ""),
        ("m8n8k4", ".rz"),
        ("m16n8k4", ""),
        ("m16n8k8", ""),
        ("m16n8k16", ""),
        ("m16n8k16", ".rp"),
    ):
        counts = dict(fragment_registers("mma.sync.f64", f".{shape}"))
        name = f"{shape}{r.replace('.', '_')}"
        _entry(p, name, f"mma.sync.aligned.{shape}.row.col{r}.f64.f64.f64.f64", counts, True)
        for label, kind, make in (
            ("exact", "small", {"format": "f64", "limit": 9}),
            ("narrow", "floats", {"format": "f64", "low": -1, "high": 1}),
            ("wide", "floats", {"format": "f64", "low": -30, "high": 30}),
        ):
            data = {
                o: buffer("b64", WARPS * 32 * counts[o], kind, seed=1160 + i, **make)
                for i, o in enumerate("abc")
            }
            _launch(p, f"{name}_{label}", name, data, counts["d"], "b64")
    return p


def _sparse() -> Program:
    p = Program("mma_sparse", "mma.sp with two of four values of A, each selector.", "8.5")
    for shape, t, selector in SPARSE:
        counts = dict(fragment_registers("mma.sp", f".{shape}", f".{t}"))
        name = f"{shape}_{t}_{selector}"
        mnemonic = f"mma.sp::ordered_metadata.sync.aligned.{shape}.row.col.f32.{t}.{t}.f32"
        _entry(p, name, mnemonic, counts, False, f", %r60, {selector}")
        data = {
            o: _fragment(t, counts[o], "small", 1170 + i, format=t, limit=3)
            for i, o in enumerate("ab")
        }
        data["c"] = buffer(
            "b32", WARPS * 32 * counts["c"], "small", seed=1172, format="f32", limit=9
        )
        nibbles = [0x4, 0xE] if t == "tf32" else [0x4, 0x8, 0xC, 0x9, 0xD, 0xE]
        meta = buffer("b32", WARPS * 32, "choose", values=nibbles, bits=4, seed=1173)
        _launch(p, name, name, data, counts["d"], meta=meta)
    return p


def programs() -> list[Program]:
    return [_floats(), _integers(), _doubles(), _sparse()]
