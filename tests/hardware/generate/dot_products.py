"""Programs that show how tensor cores sum: random floats of narrow and wide ranges, cancellations, special values."""

from __future__ import annotations

from generate.wgmma import ELEMENT, TYPES, K, module, multiply, registers_of, tight, wgmma_entry
from generate.writing import Json, Program, buffer
from tkc.ir.isa.layouts import MatrixDescriptor

N = 32

RANGES: dict[str, dict[str, int]] = {
    "f16": {"wide": 7},
    "bf16": {"wide": 12},
    "tf32": {"wide": 12},
    "e4m3": {"wide": 4},
    "e5m2": {"wide": 7},
}
"""How far exponents go from 0 in the wide data."""

SPECIAL: dict[str, list[int]] = {
    "f16": [
        0x7C00,
        0xFC00,
        0x7E00,
        0x7D01,
        0x0001,
        0x83FF,
        0x0400,
        0x7BFF,
        0xFBFF,
        0x0000,
        0x8000,
        0x3C00,
    ],
    "bf16": [
        0x7F80,
        0xFF80,
        0x7FC0,
        0x7F81,
        0x0001,
        0x807F,
        0x0080,
        0x7F7F,
        0xFF7F,
        0x0000,
        0x8000,
        0x3F80,
    ],
    "tf32": [
        0x7F800000,
        0xFF800000,
        0x7FC00000,
        0x7F802000,
        0x00002000,
        0x807FE000,
        0x00800000,
        0x7F7FE000,
        0xFF7FE000,
        0,
        0x80000000,
        0x3F800000,
    ],
    "e4m3": [0x7F, 0xFF, 0x01, 0x87, 0x08, 0x7E, 0xFE, 0x00, 0x80, 0x38],
    "e5m2": [0x7C, 0xFC, 0x7E, 0x7D, 0x01, 0x83, 0x04, 0x7B, 0xFB, 0x00, 0x80, 0x3C],
}


def _part(t: str, rows: int, span: int, seed: int) -> Json:
    # tf32 operands are whole words: the low 13 bits are random as well, to see what becomes of them
    name = "f32" if t == "tf32" else t
    return {
        "kind": "floats",
        "format": name,
        "low": -span,
        "high": span,
        "seed": seed,
        "count": rows * 256 // ELEMENT[t],
    }


def _image(a: str, b: str, span: int, seed: int, steps: int = 1) -> Json:
    count = (64 + N) * 256 // ELEMENT[a] * steps
    parts = [_part(a, 64 * steps, span, seed), _part(b, N * steps, span, seed + 50)]
    return {"dtype": f"uint{ELEMENT[a]}", "count": count, "make": {"kind": "parts", "of": parts}}


def _special_image(a: str, b: str) -> Json:
    """Ordinary A; in B one element of a row of K is special in each column, another one in every second column."""
    per, values = K[b], SPECIAL[b]
    base = {
        "kind": "floats",
        "format": "f32" if b == "tf32" else b,
        "low": 0,
        "high": 1,
        "seed": 1041,
        "count": N * per,
    }
    special = {"kind": "list", "values": values, "count": len(values)}
    middle = {**base, "count": N * per - 2 * len(values)}
    parts = [_part(a, 64, 1, 1040), special, middle, special]
    return {
        "dtype": f"uint{ELEMENT[a]}",
        "count": 64 * K[a] + N * per,
        "make": {"kind": "parts", "of": parts},
    }


_TINY: dict[str, tuple[list[int], tuple[int, int]]] = {
    "f16": ([0x0001, 0x8002, 0x0155, 0x83FF, 0x0400, 0x8401, 0x0600, 0x0200], (-14, 0)),
    "bf16": ([0x0001, 0x8002, 0x0015, 0x807F, 0x0080, 0x8081, 0x00C0, 0x0040], (100, 120)),
    "tf32": (
        [
            0x00002000,
            0x80004000,
            0x00155000,
            0x807FE000,
            0x00800000,
            0x80802000,
            0x00C00000,
            0x00400000,
        ],
        (100, 120),
    ),
    "e4m3": ([0x01, 0x82, 0x03, 0x87, 0x08, 0x89, 0x0C, 0x04], (-6, 0)),
    "e5m2": ([0x01, 0x82, 0x03, 0x81, 0x04, 0x85, 0x06, 0x02], (-14, -2)),
}
"""Words around the smallest normal number, and exponents of the other operand."""


def _tiny_image(t: str) -> Json:
    """A of subnormal and barely normal numbers, B of ordinary ones, so that sums show how subnormals are aligned."""
    words, (low, high) = _TINY[t]
    per = 256 // ELEMENT[t]
    parts = [
        {"kind": "choose", "values": words, "seed": 1080, "count": 64 * per},
        {
            "kind": "floats",
            "format": "f32" if t == "tf32" else t,
            "low": low,
            "high": high,
            "seed": 1081,
            "count": N * per,
        },
    ]
    return {
        "dtype": f"uint{ELEMENT[t]}",
        "count": (64 + N) * per,
        "make": {"kind": "parts", "of": parts},
    }


def _infinite_image(t: str) -> Json:
    """Rows of A of signs, zeros and an infinity, columns of B alike: infinite, undefined and cancelling sums, zeros."""
    infinity = {"f16": 0x7C00, "bf16": 0x7F80, "tf32": 0x7F800000, "e5m2": 0x7C}[t]
    one = {"f16": 0x3C00, "bf16": 0x3F80, "tf32": 0x3F800000, "e5m2": 0x3C}[t]
    sign, per = 1 << (ELEMENT[t] - 1), 256 // ELEMENT[t]
    # row r of A: all +0, all -0, an infinity of either sign at place 0 or 1, ones
    first: dict[int, dict[int, int]] = {
        0: {},
        1: {},
        2: {0: infinity},
        3: {0: infinity | sign},
        4: {1: infinity},
        5: {0: infinity, 1: infinity | sign},
    }
    base = {1: sign, 6: one, 7: one | sign}
    rows = []
    for row in range(64):
        kind = row % 8
        rows += [first.get(kind, {}).get(k, base.get(kind, 0)) for k in range(per)]
    columns = []
    for column in range(N):
        kind = column % 8
        columns += [
            {
                0: 0,
                1: sign,
                2: one,
                3: one | sign,
                4: infinity if k == 0 else one,
                5: infinity if k == 1 else 0,
                6: one if k % 2 else one | sign,
                7: (infinity | sign) if k == 0 else 0,
            }[kind]
            for k in range(per)
        ]
    return buffer(f"b{ELEMENT[t]}", (64 + N) * per, "list", values=rows + columns)


_ZEROED: dict[str, tuple[int, int, int, int]] = {
    "f16": (0x7BFF, 0x0400, 0x1400, 1),
    "bf16": (0x7F7F, 0x3580, 0x3580, 1),
    "tf32": (0x7F7FE000, 0x35800000, 0x35800000, 1 << 13),
    "e4m3": (0x7E, 0x08, 0x08, 1),
    "e5m2": (0x7B, 0x04, 0x14, 1),
}
"""A large word, small words for A and B, and the lowest mantissa bit."""


def _zeroed_image(t: str) -> Json:
    """Zeros of A meet large numbers of B, small numbers meet small ones: does a product of 0 take part in aligning?"""
    large, left, right, unit = _ZEROED[t]
    per, kinds = 256 // ELEMENT[t], (2 if t == "e5m2" else 3)
    mantissas = [(7 * i * i + 3 * i + 1) % (1 << kinds) * unit for i in range(997)]
    rows = [
        0 if k % 2 == 0 else left | mantissas[(r * 31 + k) % 997]
        for r in range(64)
        for k in range(per)
    ]
    columns = [
        large if k % 2 == 0 and n % 4 else right | mantissas[(n * 29 + k) % 997]
        for n in range(N)
        for k in range(per)
    ]
    return buffer(f"b{ELEMENT[t]}", (64 + N) * per, "list", values=rows + columns)


def _c(d: str, low: int, high: int, seed: int) -> Json:
    count = registers_of(d, N) * 128
    if d == "f16":
        return buffer("b16", 2 * count, "floats", format="f16", low=low, high=high, seed=seed)
    return buffer("b32", count, "floats", format="f32", low=low, high=high, seed=seed)


def _wgmma() -> Program:
    p = module(
        "wgmma_numbers",
        "How wgmma sums: D of random floats, exponents narrow and wide, C small, large and cancelling.",
    )
    for types in TYPES:
        d, a, b = types
        if d == "s32" or (a, b) == ("e5m2", "e4m3"):
            continue
        name, count = f"{d}_{a}_{b}", registers_of(d, N)
        wgmma_entry(p, name, N, types)
        wide = max(RANGES[a]["wide"], RANGES[b]["wide"]) if d == "f32" else 2
        wide = min(wide, RANGES[a]["wide"], RANGES[b]["wide"]) if a != b else wide
        da, db = tight(64, 0), tight(N, 2048)
        multiply(
            p,
            f"{name}_narrow",
            name,
            count,
            _image(a, b, 1, 1050),
            da,
            db,
            c=_c(d, -4, 4, 1051),
            scale=0,
        )
        multiply(
            p,
            f"{name}_wide",
            name,
            count,
            _image(a, b, wide, 1052),
            da,
            db,
            c=_c(d, -wide, wide, 1053),
            scale=1,
        )
        if d == "f32":
            multiply(
                p,
                f"{name}_large",
                name,
                count,
                _image(a, b, 1, 1054),
                da,
                db,
                c=_c(d, 4, 12, 1055),
                scale=1,
            )
        multiply(
            p,
            f"{name}_special",
            name,
            count,
            _special_image(a, b),
            da,
            db,
            c=_c(d, -4, 4, 1056),
            scale=1,
        )
        if a == b:
            multiply(p, f"{name}_zeroed", name, count, _zeroed_image(a), da, db, scale=0)
            tiny = _c(d, -14 if d == "f16" else -40, -10, 1057)
            multiply(
                p,
                f"{name}_tiny",
                name,
                count,
                _tiny_image(a),
                da,
                db,
                c=tiny,
                scale=0 if a in ("bf16", "tf32") else 1,
            )
        if a == b and a != "e4m3":
            zeros = buffer(
                "b16",
                2 * count * 128,
                "choose",
                values=[0, 0x8000, 0x3C00, 0x7C00, 0xFC00],
                seed=1058,
            )
            if d == "f32":
                zeros = buffer(
                    "b32",
                    count * 128,
                    "choose",
                    values=[0, 1 << 31, 0x3F800000, 0x7F800000, 0xFF800000],
                    seed=1058,
                )
            multiply(
                p, f"{name}_infinite", name, count, _infinite_image(a), da, db, c=zeros, scale=1
            )
    for types in (("f32", "bf16", "bf16"), ("f32", "e4m3", "e4m3"), ("f16", "f16", "f16")):
        name = f"chain_{types[0]}_{types[1]}"
        wgmma_entry(p, name, N, types, steps=4)
        # four slices of K one after the other: A takes 2048 bytes each, B 1024 used of 2048
        bits = ELEMENT[types[1]]
        parts = [_part(types[1], 64 * 4, 1, 1060), _part(types[1], 64 * 4, 1, 1061)]
        image = {
            "dtype": f"uint{bits}",
            "count": 128 * 4 * 256 // bits,
            "make": {"kind": "parts", "of": parts},
        }
        db = MatrixDescriptor(8192, 128, 256, "none")
        multiply(
            p, name, name, registers_of(types[0], N), image, tight(64, 0), db, step=128, scale=0
        )
    return p


def _sparse() -> Program:
    p = module(
        "wgmma_sparse",
        "wgmma with two of four values of A, from shared memory and registers, either selector.",
    )
    for types in (
        ("f32", "bf16", "bf16"),
        ("f32", "tf32", "tf32"),
        ("f32", "e4m3", "e5m2"),
        ("s32", "s8", "s8"),
    ):
        d, a, b = types
        bits, count = ELEMENT[a], registers_of(d, N)
        parts = [
            {
                "kind": "small",
                "format": t,
                "limit": 3,
                "seed": 1070 + i,
                "count": rows * 256 // bits,
            }
            for i, (t, rows) in enumerate(((a, 64), (b, 2 * N)))
        ]
        image = {
            "dtype": f"uint{bits}",
            "count": (64 + 2 * N) * 256 // bits,
            "make": {"kind": "parts", "of": parts},
        }
        nibbles = [0x4, 0xE] if a == "tf32" else [0x4, 0x8, 0xC, 0x9, 0xD, 0xE]
        meta = buffer("b32", 128, "choose", values=nibbles, bits=4, seed=1072)
        # B is 64 bytes of K for each of its rows: four 16-byte columns
        db = MatrixDescriptor(2048, 128, 512, "none")
        selectors = ("0", "1") if bits > 8 else ("0",)
        for selector in selectors:
            name = f"{a}_{selector}"
            wgmma_entry(p, name, N, types, sparse=selector)
            multiply(p, name, name, count, image, tight(64, 0), db, meta=meta)
            wgmma_entry(p, f"{name}_rs", N, types, rs=True, sparse=selector)
            registers = buffer(f"b{bits}", 512 * 32 // bits, "small", format=a, limit=3, seed=1073)
            multiply(p, f"{name}_rs", f"{name}_rs", count, image, None, db, a=registers, meta=meta)
    return p


def programs() -> list[Program]:
    return [_wgmma(), _sparse()]
