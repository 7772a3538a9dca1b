"""Programs of cvt: every pattern of the 8-bit formats, a million floats to each narrower one, integers, roundings."""

from __future__ import annotations

from itertools import product

from generate.pointwise import Op, apply, pointwise
from generate.writing import Json, Program, buffer

MILLION = 1 << 20
HEAD = 32
"""CTAs of 128 threads that a short comparison runs of a million threads."""


def _million(low: int, high: int, ties: int, seed: int) -> Json:
    """A million f32: an eighth any bits, the rest with exponents around those of the target, half of them near ties."""
    part = MILLION // 8
    floats = {"kind": "floats", "format": "f32", "low": low, "high": high, "ties": ties}
    special = {"kind": "cross", "of": "f32", "place": 1, "seed": seed}
    parts = [
        {**special, "count": 1024},
        {"kind": "bits", "seed": seed + 1, "count": 1024},
        {**floats, "seed": seed + 2, "count": part - 2048},
        {"kind": "bits", "seed": seed + 3, "count": part},
        {**floats, "seed": seed + 4, "count": 6 * part},
    ]
    return {"dtype": "uint32", "count": MILLION, "make": {"kind": "parts", "of": parts}}


def _single(t: str) -> list[Op]:
    """f32 to a 16-bit float."""
    ops: list[Op] = []
    for r, mark in product(("rn", "rz"), ("", ".relu", ".satfinite", ".relu.satfinite")):
        if t == "f16" and r == "rz" and mark:
            op = f"cvt.rz{mark}.f16.f32"
        else:
            op = f"cvt.{r}{mark}.{t}.f32"
        ops.append((op, f"{op} {{d}}, {{a}};"))
    if t == "f16":
        for r in ("rm", "rp"):
            ops.append((f"cvt.{r}.f16.f32", f"cvt.{r}.f16.f32 {{d}}, {{a}};"))
        for mark in (".ftz", ".sat", ".ftz.sat"):
            ops.append((f"cvt.rn{mark}.f16.f32", f"cvt.rn{mark}.f16.f32 {{d}}, {{a}};"))
    return ops


def _pairs(t: str) -> list[Op]:
    """Two f32 to a packed pair: a is the high half."""
    return [
        (f"cvt.{r}{m}.{t}.f32", f"cvt.{r}{m}.{t}.f32 {{d}}, {{a}}, {{b}};")
        for r, m in product(("rn", "rz"), ("", ".relu", ".satfinite", ".relu.satfinite"))
    ]


def _tf32() -> list[Op]:
    names = ["rna", "rna.satfinite", "rn", "rz", "rn.relu", "rz.relu"]
    return [(f"cvt.{n}.tf32.f32", f"cvt.{n}.tf32.f32 {{d}}, {{a}};") for n in names]


def _fp8(source: str) -> list[Op]:
    operands = "{a}, {b}" if source == "f32" else "{a}"
    return [
        (
            f"cvt.rn.satfinite{m}.{t}.{source}",
            f"cvt.rn.satfinite{m}.{t}.{source} {{d}}, {operands};",
        )
        for t, m in product(("e4m3x2", "e5m2x2"), ("", ".relu"))
    ]


def _from_fp8() -> list[Op]:
    return [
        (f"cvt.rn{m}.f16x2.{t}", f"cvt.rn{m}.f16x2.{t} {{d}}, {{a}};")
        for t, m in product(("e4m3x2", "e5m2x2"), ("", ".relu"))
    ]


_INTEGERS = {
    "u8": "h",
    "s8": "h",
    "u16": "h",
    "s16": "h",
    "u32": "w",
    "s32": "w",
    "u64": "m",
    "s64": "m",
}
_SPREAD = {
    "h": "cvt.u64.u16 {l}, {h};\nmov.b64 {d}, {l};",
    "w": "cvt.u64.u32 {d}, {w};",
    "m": "mov.b64 {d}, {m};",
}


def _float_to_integer(source: str) -> list[Op]:
    """Results widened to 64 bits; 8-bit results stand in a 16-bit register, sign- or zero-extended."""
    ops: list[Op] = []
    for t, register in _INTEGERS.items():
        for r in ("rni", "rzi", "rmi", "rpi"):
            op = f"cvt.{r}.{t}.{source}"
            ops.append((op, f"{op} {{{register}}}, {{a}};\n{_SPREAD[register]}"))
        for tail in (".ftz", ".sat", ".ftz.sat") if source == "f32" else (".sat",):
            op = f"cvt.rzi{tail}.{t}.{source}"
            ops.append((op, f"{op} {{{register}}}, {{a}};\n{_SPREAD[register]}"))
    return ops


def _to_integral(source: str) -> list[Op]:
    """Rounds to an integral value of the same type."""
    tails = ("", ".ftz", ".sat") if source == "f32" else ("",)
    return [
        (f"cvt.{r}{tail}.{source}.{source}", f"cvt.{r}{tail}.{source}.{source} {{d}}, {{a}};")
        for r, tail in product(("rni", "rzi", "rmi", "rpi"), tails)
    ]


def _integer_to_float(t: str) -> list[Op]:
    """A 64-bit word cut to each integer type, then converted."""
    cut = {"h": "cvt.u16.u64 {h}, {a};", "w": "cvt.u32.u64 {w}, {a};", "m": "mov.b64 {m}, {a};"}
    roundings = ("rn",) if t == "bf16" else ("rn", "rz", "rm", "rp")
    return [
        (f"cvt.{r}.{t}.{s}", f"{cut[register]}\ncvt.{r}.{t}.{s} {{d}}, {{{register}}};")
        for (s, register), r in product(_INTEGERS.items(), roundings)
        if not (t == "bf16" and s in ("u8", "s8"))  # ptxas 13.5 refuses it
    ]


def _covers(t: str, s: str) -> bool:
    """Whether integer type t has every value of s."""
    bits, source = int(t[1:]), int(s[1:])
    return (bits > source and (t[0] == "s" or s[0] == "u")) or (bits >= source and t[0] == s[0])


def _between_integers() -> list[Op]:
    """Truncates, extends or saturates a 64-bit word cut to the source type."""
    cut = {"h": "cvt.u16.u64 {h}, {a};", "w": "cvt.u32.u64 {w}, {a};", "m": "mov.b64 {m}, {a};"}
    place = {"h": "k", "w": "x", "m": "l"}
    widen = {"h": "cvt.u64.u16 {d}, {k};", "w": "cvt.u64.u32 {d}, {x};", "m": "mov.b64 {d}, {l};"}
    ops: list[Op] = []
    for (t, td), (s, sd), sat in product(_INTEGERS.items(), _INTEGERS.items(), ("", ".sat")):
        if sat and _covers(t, s):
            continue  # ptxas refuses .sat where nothing saturates
        op = f"cvt{sat}.{t}.{s}"
        ops.append((op, f"{cut[sd]}\n{op} {{{place[td]}}}, {{{sd}}};\n{widen[td]}"))
    return ops


def _between_floats() -> list[Op]:
    """From f64 and to f64, results on 64 bits."""
    ops: list[Op] = []
    for r in ("rn", "rz", "rm", "rp"):
        for tail in ("", ".ftz", ".sat"):
            ops.append(
                (
                    f"cvt.{r}{tail}.f32.f64",
                    f"cvt.{r}{tail}.f32.f64 {{w}}, {{a}};\ncvt.u64.u32 {{d}}, {{w}};",
                )
            )
        ops.append(
            (f"cvt.{r}.f16.f64", f"cvt.{r}.f16.f64 {{h}}, {{a}};\ncvt.u64.u16 {{d}}, {{h}};")
        )
    ops.append(("cvt.rn.bf16.f64", "cvt.rn.bf16.f64 {h}, {a};\ncvt.u64.u16 {d}, {h};"))
    for tail in ("", ".ftz"):
        ops.append(
            (f"cvt{tail}.f64.f32", f"cvt.u32.u64 {{w}}, {{a}};\ncvt{tail}.f64.f32 {{d}}, {{w}};")
        )
    for s in ("f16", "bf16"):
        ops.append((f"cvt.f64.{s}", f"cvt.u16.u64 {{h}}, {{a}};\ncvt.f64.{s} {{d}}, {{h}};"))
    return ops


def _widening() -> list[Op]:
    ops = [
        (f"cvt{m}.f32.{t}", f"cvt{m}.f32.{t} {{d}}, {{a}};")
        for t in ("f16", "bf16")
        for m in ("", ".ftz", ".sat")
    ]
    ops = [o for o in ops if o[0] not in ("cvt.ftz.f32.bf16", "cvt.sat.f32.bf16")]
    ops.append(("cvt.rn.f16.bf16", "cvt.rn.f16.bf16 {h}, {a};\ncvt.u32.u16 {d}, {h};"))
    ops.append(("cvt.rn.bf16.f16", "cvt.rn.bf16.f16 {h}, {a};\ncvt.u32.u16 {d}, {h};"))
    return ops


def programs() -> list[Program]:
    found: list[Program] = []
    short = {"emulate": {"grid": [HEAD, 1, 1]}}
    for t, low, high, ties in (("f16", -27, 18, 13), ("bf16", -130 + 4, 127, 16)):
        p = Program(f"convert_{t}", f"A million f32 to {t} under every rounding and saturation.")
        labels = pointwise(p, "narrow", ["b32"], "b16", _single(t))
        apply(
            p,
            "narrow",
            "narrow",
            labels,
            {"a": _million(low, high, ties, 300)},
            "b16",
            MILLION,
            **short,
        )
        labels = pointwise(p, "pairs", ["b32", "b32"], "b32", _pairs(f"{t}x2"))
        two = {"a": _million(low, high, ties, 310), "b": _million(low, high, ties, 320)}
        apply(p, "pairs", "pairs", labels, two, "b32", MILLION, **short)
        found.append(p)
    p = Program("convert_tf32", "A million f32 to tf32 under every rounding and saturation.")
    labels = pointwise(p, "narrow", ["b32"], "b32", _tf32())
    apply(
        p, "narrow", "narrow", labels, {"a": _million(-126, 127, 13, 330)}, "b32", MILLION, **short
    )
    found.append(p)

    p = Program(
        "convert_fp8", "fp8: a million pairs of f32, all 65,536 f16 and every 8-bit pattern."
    )
    labels = pointwise(p, "narrow", ["b32", "b32"], "b16", _fp8("f32"))
    two = {"a": _million(-12, 10, 20, 340), "b": _million(-20, 17, 21, 350)}
    apply(p, "narrow", "narrow", labels, two, "b16", MILLION, **short)
    labels = pointwise(p, "halves", ["b32"], "b16", _fp8("f16x2"))
    # low half i, high half i + 32768: every pattern once
    halves = {"a": buffer("b32", 32768, "count", start=0x80000000, step=0x00010001)}
    apply(p, "halves", "halves", labels, halves, "b16", 32768, **short)
    labels = pointwise(p, "widen", ["b16"], "b32", _from_fp8())
    apply(
        p,
        "widen",
        "widen",
        labels,
        {"a": buffer("b16", 256, "count", start=0x8000, step=0x0101)},
        "b32",
        256,
    )
    found.append(p)

    p = Program(
        "convert_float_integer",
        "Floats to integers of every width and rounding, and to integral values.",
    )
    for s, width in (("f32", "b32"), ("f64", "b64"), ("f16", "b16")):
        half = [
            {"kind": "cross", "of": s, "place": 1, "seed": 360, "count": 256},
            {
                "kind": "floats",
                "format": s,
                "low": -3,
                "high": 15 if s == "f16" else 66,
                "seed": 361,
                "count": 256,
                "ties": {"f32": 20, "f64": 48, "f16": 7}[s],
            },
        ]
        data = {"dtype": f"uint{width[1:]}", "count": 512, "make": {"kind": "parts", "of": half}}
        labels = pointwise(p, f"integers_{s}", [width], "b64", _float_to_integer(s))
        apply(p, f"integers_{s}", f"integers_{s}", labels, {"a": data}, "b64", 512)
        labels = pointwise(p, f"integral_{s}", [width], width, _to_integral(s))
        apply(p, f"integral_{s}", f"integral_{s}", labels, {"a": data}, width, 512)
    found.append(p)

    p = Program("convert_integer_float", "Integers of every width to floats under every rounding.")
    words = [
        {"kind": "cross", "of": "b64", "place": 1, "seed": 370, "count": 128},
        {"kind": "bits", "seed": 371, "count": 128},
        {"kind": "floats", "format": "f32", "seed": 372, "count": 256, "low": -40, "high": 20},
    ]
    data = {"dtype": "uint64", "count": 512, "make": {"kind": "parts", "of": words}}
    for t, width in (("f32", "b32"), ("f64", "b64"), ("f16", "b16"), ("bf16", "b16")):
        labels = pointwise(p, f"to_{t}", ["b64"], width, _integer_to_float(t))
        apply(p, f"to_{t}", f"to_{t}", labels, {"a": data}, width, 512)
    labels = pointwise(p, "integers", ["b64"], "b64", _between_integers())
    apply(p, "integers", "integers", labels, {"a": data}, "b64", 128)
    found.append(p)

    p = Program("convert_floats", "Between f64, f32, f16 and bf16; every 16-bit pattern widened.")
    parts = [
        {"kind": "cross", "of": "f64", "place": 1, "seed": 380, "count": 512},
        {
            "kind": "floats",
            "format": "f64",
            "low": -155,
            "high": 130,
            "seed": 381,
            "count": 512,
            "ties": 29,
        },
        {
            "kind": "floats",
            "format": "f64",
            "low": -26,
            "high": 17,
            "seed": 382,
            "count": 512,
            "ties": 42,
        },
    ]
    data = {"dtype": "uint64", "count": 1536, "make": {"kind": "parts", "of": parts}}
    labels = pointwise(p, "doubles", ["b64"], "b64", _between_floats())
    apply(p, "doubles", "doubles", labels, {"a": data}, "b64", 1536)
    labels = pointwise(p, "widen", ["b16"], "b32", _widening())
    apply(
        p,
        "widen",
        "widen",
        labels,
        {"a": buffer("b16", 65536, "count", step=40503)},
        "b32",
        65536,
        **short,
    )
    found.append(p)
    return found
