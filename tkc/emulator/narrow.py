"""Conversions between floats and pairs of 8-, 6- and 4-bit values, and packed saturating ones (PTX 9.7.9.22)."""

from __future__ import annotations

from typing import Any

import numpy as np

from tkc.emulator.conversion import f32_to_half, widen
from tkc.emulator.formats import FORMATS
from tkc.emulator.instruction import Builder, Instruction, Step
from tkc.emulator.lanes import F16, F32, F64, S32, U8, U16, U32, UNSIGNED, Vec, view
from tkc.emulator.rounding import bf16_to_f32, f32_to_bf16

_FOUR_BITS = ("e2m1x2",)
"""Pairs that share one byte; the others take a byte for each value."""


def _join_codes(high: Vec, low: Vec, kind: str) -> Vec:
    if kind in _FOUR_BITS:
        return (high << np.uint8(4) | low).astype(U8)
    return high.astype(U16) << np.uint16(8) | low


def _halves_to_f32(x: Vec, kind: str) -> tuple[Vec, Vec]:
    """(high, low) of a packed pair of halves as float32."""
    bits = view(x, U32)
    low, high = bits.astype(U16), (bits >> np.uint32(16)).astype(U16)
    if kind.startswith("bf16"):
        return bf16_to_f32(high), bf16_to_f32(low)
    return high.view(F16).astype(F32), low.view(F16).astype(F32)


def _cvt_narrow(i: Instruction) -> Step:
    """Floats to a pair of narrow values, from two f32 or one packed pair of halves."""
    kind = _narrow_type(i)
    target = FORMATS[kind.removesuffix("x2")]
    relu = i.has("relu")
    mode = next((m for m in ("rz", "rp") if f".{m}." in i.statement.mnemonic), "rn")
    satfinite = "satfinite" in i.statement.mnemonic
    d, bits = i.dst_wide("d")
    if i.given("hi"):
        hi, lo = i.src("hi", F32), i.src("lo", F32)
    else:
        hi, lo = i.src("a", U32), -1
    source = i.mod("from") or "bf16x2"

    def run(w: Any) -> None:
        R = w.R
        if lo >= 0:
            high, low = view(R[hi], F32), view(R[lo], F32)
        else:
            high, low = _halves_to_f32(R[hi], source)
        codes = _join_codes(
            target.encode(high, mode, satfinite, relu),
            target.encode(low, mode, satfinite, relu),
            kind,
        )
        w.put(d, widen(codes, bits) if bits else codes)

    return run


def _cvt_from_narrow(i: Instruction) -> Step:
    """A pair of narrow values to a packed pair of halves, exactly."""
    kind = _narrow_type(i)
    to = i.mod("type") if i.mod("type") in ("f16x2", "bf16x2") else "bf16x2"
    source = FORMATS[kind.removesuffix("x2")]
    scales = i.src("scales", U16) if i.given("scales") else -1
    relu = i.has("relu")
    d = i.dst("d", 32)
    a, _ = i.src_wide("a", U8 if kind in _FOUR_BITS else U16)
    half = to.removesuffix("x2")

    def run(w: Any) -> None:
        x = w.R[a]
        codes = x.view(UNSIGNED[8 * x.dtype.itemsize]).astype(U16)
        if kind in _FOUR_BITS:
            low, high = codes & np.uint16(0xF), (codes >> np.uint16(4)) & np.uint16(0xF)
        else:
            low, high = codes & np.uint16(0xFF), codes >> np.uint16(8)
        values = [source.decode(c.astype(U8)) for c in (low, high)]
        if scales >= 0:
            both = view(w.R[scales], U16)
            factors = [FORMATS["ue8m0"].decode(x.astype(U8)) for x in (both, both >> np.uint16(8))]
            values = [
                (v.astype(F64) * f.astype(F64)).astype(F32)
                for v, f in zip(values, factors, strict=True)
            ]
        parts = [f32_to_half(v, half, "rn", False, relu).astype(U32) for v in values]
        w.put(d, parts[1] << np.uint32(16) | parts[0])

    return run


def _narrow_type(i: Instruction) -> str:
    """The narrow type of a conversion, which is a modifier or a fixed part of the mnemonic."""
    for word in i.statement.mnemonic.split("."):
        if word.removesuffix("x2") in FORMATS:
            return word
    raise ValueError("has no narrow type")


# Fixed point with six bits behind the point


def _to_fixed(i: Instruction) -> Step:
    hi, lo = i.src("hi", F32), i.src("lo", F32)
    d = i.dst("d", 16)
    relu = i.has("relu")

    def code(x: Vec) -> Vec:
        scaled = np.rint(np.where(np.isnan(x), 0, x.astype(F64)) * 64)
        return np.clip(scaled, 0 if relu else -128, 127).astype(np.int8).view(U8).astype(U16)

    return lambda w: w.put(d, code(view(w.R[hi], F32)) << np.uint16(8) | code(view(w.R[lo], F32)))


def _from_fixed(i: Instruction) -> Step:
    a, d = i.src("a", U16), i.dst("d", 32)
    relu = i.has("relu")

    def run(w: Any) -> None:
        raw = np.ascontiguousarray(view(w.R[a], U16)).view(np.int8).astype(F32) / F32.type(64)
        w.put(d, f32_to_bf16(np.maximum(raw, F32.type(0)) if relu else raw).view(U32))

    return run


def _pack(i: Instruction) -> Step:
    """Saturates two integers and packs them below the low bits of a third."""
    kind = i.type
    bits = int(kind[1:])
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if kind[0] == "s" else (0, (1 << bits) - 1)
    d, a, b = i.dst("d", 32), i.src("a", S32), i.src("b", S32)
    c = i.src("c", U32) if i.given("c") else -1
    mask = np.uint32((1 << bits) - 1)

    def run(w: Any) -> None:
        top, bottom = (
            np.clip(view(w.R[s], S32), low, high).astype(S32).view(U32) & mask for s in (a, b)
        )
        result = top << np.uint32(bits) | bottom
        if c >= 0:
            result |= view(w.R[c], U32) << np.uint32(2 * bits)
        w.put(d, result)

    return run


_TO_NARROW = (
    "cvt.fp8x2",
    "cvt.fp8x2.half",
    "cvt.fp8x2.rz",
    "cvt.fp6x2",
    "cvt.fp6x2.half",
    "cvt.fp4x2",
    "cvt.fp4x2.half",
    "cvt.ue8m0x2",
    "cvt.ue8m0x2.half",
    "cvt.ue5m3x2",
)
_FROM_NARROW = (
    "cvt.half.fp8x2",
    "cvt.half.fp6x2",
    "cvt.half.fp4x2",
    "cvt.half.ue8m0x2",
    "cvt.half.ue5m3x2",
    "cvt.half.scaled",
)

SEMANTICS: dict[str, Builder] = {
    **dict.fromkeys(_TO_NARROW, _cvt_narrow),
    **dict.fromkeys(_FROM_NARROW, _cvt_from_narrow),
    "cvt.s2f6x2": _to_fixed,
    "cvt.half.s2f6x2": _from_fixed,
    "cvt.pack": _pack,
    "cvt.pack.16": _pack,
}
