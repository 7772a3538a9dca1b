"""Rows of `cvt`, which belong to the family `arith`."""

from __future__ import annotations

from collections.abc import Mapping

from tkc.ir.isa.instructions import Choice, Row, texts
from tkc.ir.isa.targets import Feature, Version

_NARROW = frozenset({Feature.NARROW_CVT})
_STOCHASTIC = frozenset({Feature.CVT_STOCHASTIC})
_S2F6 = frozenset({Feature.CVT_S2F6})
_UE5M3 = frozenset({Feature.UE5M3})
_SCALED = frozenset({Feature.CVT_SCALED})

_SECTION = "data-movement-and-conversion-instructions-cvt"

_INT = texts(".u32", ".s32", ".u64", ".s64", ".u16", ".s16", ".u8", ".s8")

_RN16 = {"round": ".rn", "from": ".f32"}
_RZI = {"round": ".rzi", "type": ".u32"}

_RELU = texts(".relu")
_HALF_PAIR = (Choice(".f16x2"), Choice(".bf16x2", (9, 2)))


def _narrow(
    name: str,
    mnemonic: str,
    syntax: str,
    operands: Mapping[str, str],
    slots: Mapping[str, tuple[Choice, ...]],
    doc: str,
    ptx: Version = (8, 6),
    needs: frozenset[Feature] = _NARROW,
) -> Row:
    return Row(
        name, mnemonic, syntax, operands, ("d",), slots,
        ptx=ptx, needs=needs, section=_SECTION, doc=doc, pure=True,
    )


CONVERSIONS = (
    Row(
        "cvt",
        "cvt<round?><ftz?><sat?><relu?><satfinite?><type><from>",
        "d, a",
        {"d": "type", "a": "from"},
        ("d",),
        {
            "round": (
                *texts(".rn", ".rz", along={"type": ".f32", "from": ".s32"}),
                *texts(".rm", ".rp", along={"type": ".f32", "from": ".s32"}),
                *texts(".rni", ".rzi", ".rmi", ".rpi", along={"type": ".s32", "from": ".f32"}),
            ),
            "ftz": texts(".ftz", along={"type": ".s32", "from": ".f32", "round": ".rzi"}),
            "sat": texts(".sat", along={"type": ".u8", "from": ".s32"}),
            "relu": texts(".relu", ptx=(7, 0), along={"type": ".f16", **_RN16}),
            "satfinite": texts(".satfinite", ptx=(8, 1), along={"type": ".f16", **_RN16}),
            "type": (
                *_INT,
                Choice(".f16", along=_RN16),
                Choice(".bf16", (7, 0), along=_RN16),
                Choice(".f32", along={"from": ".f16"}),
                Choice(".f64", along={"from": ".f32"}),
            ),
            "from": (
                *_INT,
                *texts(".f16", ".f32", ".f64", along=_RZI),
                Choice(".bf16", (7, 1), along={"type": ".f32"}),
            ),
        },
        section=_SECTION,
        doc="converts; integers truncate or extend, floats to integers saturate",
        pure=True,
    ),
    Row(
        "cvt.x2",
        "cvt<round><relu?><satfinite?><type>.f32",
        "d, hi, lo",
        {"d": "type", "hi": "f32", "lo": "f32"},
        ("d",),
        {
            "round": texts(".rn", ".rz"),
            "relu": texts(".relu"),
            "satfinite": texts(".satfinite", ptx=(8, 1)),
            "type": texts(".bf16x2", ".f16x2"),
        },
        ptx=(7, 0),
        section=_SECTION,
        doc="two floats to one packed pair; the first source is the high half",
        pure=True,
    ),
    Row(
        "cvt.tf32",
        "cvt<round><relu?><satfinite?>.tf32.f32",
        "d, a",
        {"d": "b32", "a": "f32"},
        ("d",),
        {
            "round": (
                Choice(".rna", (7, 0)),
                *texts(".rn", ".rz", ptx=(7, 8)),
            ),
            "relu": texts(".relu", ptx=(7, 8), along={"round": ".rn"}),
            "satfinite": texts(".satfinite", ptx=(8, 1)),
        },
        section=_SECTION,
        doc="rounds a float to tf32 (8 exponent, 10 mantissa bits)",
        pure=True,
    ),
    Row(
        "cvt.fp8x2",
        "cvt.rn.satfinite<relu?><type>.f32",
        "d, hi, lo",
        {"d": "type", "hi": "f32", "lo": "f32"},
        ("d",),
        {"relu": texts(".relu"), "type": texts(".e4m3x2", ".e5m2x2")},
        ptx=(7, 8),
        section=_SECTION,
        doc="two floats to two fp8 bytes; the first source is the high byte",
        pure=True,
    ),
    Row(
        "cvt.fp8x2.half",
        "cvt.rn.satfinite<relu?><type><from>",
        "d, a",
        {"d": "type", "a": "from"},
        ("d",),
        {
            "relu": texts(".relu"),
            "type": texts(".e4m3x2", ".e5m2x2"),
            "from": (
                Choice(".f16x2"),
                Choice(".bf16x2", (9, 1), _NARROW),
            ),
        },
        ptx=(7, 8),
        section=_SECTION,
        doc="a packed pair of halves to two fp8 bytes",
        pure=True,
    ),
    Row(
        "cvt.half.fp8x2",
        "cvt.rn<relu?><type><from>",
        "d, a",
        {"d": "type", "a": "from"},
        ("d",),
        {
            "relu": texts(".relu"),
            "type": (
                Choice(".f16x2"),
                Choice(".bf16x2", (9, 2), _NARROW),
            ),
            "from": texts(".e4m3x2", ".e5m2x2"),
        },
        ptx=(7, 8),
        section=_SECTION,
        doc="two fp8 bytes to a packed pair of halves, exactly",
        pure=True,
    ),
    _narrow(
        "cvt.fp6x2", "cvt.rn.satfinite<relu?><type>.f32", "d, hi, lo",
        {"d": "type", "hi": "f32", "lo": "f32"},
        {"relu": _RELU, "type": texts(".e2m3x2", ".e3m2x2")},
        "two floats to two fp6 bytes; the first source is the high byte",
    ),
    _narrow(
        "cvt.fp6x2.half", "cvt.rn.satfinite<relu?><type><from>", "d, a",
        {"d": "type", "a": "from"},
        {"relu": _RELU, "type": texts(".e2m3x2", ".e3m2x2"), "from": texts(".f16x2", ".bf16x2")},
        "a packed pair of halves to two fp6 bytes", (9, 1),
    ),
    _narrow(
        "cvt.half.fp6x2", "cvt.rn<relu?><type><from>", "d, a",
        {"d": "type", "a": "from"},
        {"relu": _RELU, "type": _HALF_PAIR, "from": texts(".e2m3x2", ".e3m2x2")},
        "two fp6 bytes to a packed pair of halves, exactly",
    ),
    _narrow(
        "cvt.fp4x2", "cvt.rn.satfinite<relu?>.e2m1x2.f32", "d, hi, lo",
        {"d": "b8", "hi": "f32", "lo": "f32"}, {"relu": _RELU},
        "two floats to one byte of fp4; the first source is the high half",
    ),
    _narrow(
        "cvt.fp4x2.half", "cvt.rn.satfinite<relu?>.e2m1x2<from>", "d, a",
        {"d": "b8", "a": "from"}, {"relu": _RELU, "from": texts(".f16x2", ".bf16x2")},
        "a packed pair of halves to one byte of fp4", (9, 1),
    ),
    _narrow(
        "cvt.half.fp4x2", "cvt.rn<relu?><type>.e2m1x2", "d, a",
        {"d": "type", "a": "b8"}, {"relu": _RELU, "type": _HALF_PAIR},
        "one byte of fp4 to a packed pair of halves, exactly",
    ),
    _narrow(
        "cvt.ue8m0x2", "cvt<round><satfinite?>.ue8m0x2.f32", "d, hi, lo",
        {"d": "b16", "hi": "f32", "lo": "f32"},
        {"round": texts(".rz", ".rp"), "satfinite": texts(".satfinite")},
        "two floats to two powers of two",
    ),
    _narrow(
        "cvt.ue8m0x2.half", "cvt<round><satfinite?>.ue8m0x2.bf16x2", "d, a",
        {"d": "b16", "a": "b32"},
        {"round": texts(".rz", ".rp"), "satfinite": texts(".satfinite")},
        "a pair of bf16 to two powers of two",
    ),
    _narrow(
        "cvt.half.ue8m0x2", "cvt.rn.bf16x2.ue8m0x2", "d, a", {"d": "b32", "a": "b16"}, {},
        "two powers of two to a pair of bf16, exactly",
    ),
    _narrow(
        "cvt.half.scaled", "cvt.rn<relu?>.scaled::n2::ue8m0.bf16x2<from>", "d, a, scales",
        {"d": "b32", "a": "from", "scales": "b16"},
        {"relu": _RELU, "from": texts(".e4m3x2", ".e5m2x2", ".e2m1x2", ".e2m3x2", ".e3m2x2")},
        "two narrow floats to bf16, each multiplied by a power of two", (9, 2),
    ),
    _narrow(
        "cvt.rs.x4", "cvt.rs<relu?>.satfinite<type>.f32", "d, {a*}, random",
        {"d": "type", "a": "f32*", "random": "b32"},
        {"relu": _RELU, "type": texts(".e4m3x4", ".e5m2x4", ".e2m3x4", ".e3m2x4", ".e2m1x4")},
        "four floats to four narrow floats, rounded stochastically", (8, 7), _STOCHASTIC,
    ),
    _narrow(
        "cvt.rs.x2", "cvt.rs<relu?><satfinite?><type>.f32", "d, hi, lo, random",
        {"d": "type", "hi": "f32", "lo": "f32", "random": "b32"},
        {"relu": _RELU, "satfinite": texts(".satfinite"), "type": texts(".bf16x2", ".f16x2")},
        "two floats to a packed pair, rounded stochastically", (8, 7), _STOCHASTIC,
    ),
    _narrow(
        "cvt.s2f6x2", "cvt.rn.satfinite<relu?>.s2f6x2.f32", "d, hi, lo",
        {"d": "b16", "hi": "f32", "lo": "f32"}, {"relu": _RELU},
        "two floats to two 8-bit fixed-point numbers", (9, 1), _S2F6,
    ),
    _narrow(
        "cvt.half.s2f6x2", "cvt.rn<satfinite?><relu?>.bf16x2.s2f6x2", "d, a",
        {"d": "b32", "a": "b16"}, {"satfinite": texts(".satfinite"), "relu": _RELU},
        "two 8-bit fixed-point numbers to a pair of bf16", (9, 1), _S2F6,
    ),
    _narrow(
        "cvt.fp8x2.rz", "cvt.rz.satfinite<type>.f32", "d, hi, lo",
        {"d": "type", "hi": "f32", "lo": "f32"}, {"type": texts(".e4m3x2", ".e5m2x2")},
        "two floats to two fp8 bytes, toward zero", (9, 4), _UE5M3,
    ),
    _narrow(
        "cvt.ue5m3x2", "cvt.rp.satfinite.ue5m3x2.f32", "d, hi, lo",
        {"d": "b16", "hi": "f32", "lo": "f32"}, {},
        "two floats to two ue5m3 scales", (9, 4), _UE5M3,
    ),
    _narrow(
        "cvt.half.ue5m3x2", "cvt.rn.bf16x2.ue5m3x2", "d, a", {"d": "b32", "a": "b16"}, {},
        "two ue5m3 scales to a pair of bf16, exactly", (9, 4), _UE5M3,
    ),
    _narrow(
        "cvt.scaled", "cvt.rn.satfinite.scaled::n1::ue8m0<type>.f32", "d, hi, lo, scale",
        {"d": "type", "hi": "f32", "lo": "f32", "scale": "b8"},
        {"type": texts(".e4m3x2", ".e5m2x2", ".e2m1x2")},
        "two floats, multiplied by a power of two, to narrow floats; keep the scale out of constants",
        (9, 4), _SCALED,
    ),
    Row(
        "cvt.pack", "cvt.pack.sat<type>.s32.b32", "d, a, b, c",
        {"d": "b32", "a": "b32", "b": "b32", "c": "b32"}, ("d",),
        {"type": texts(".u8", ".s8", ".u4", ".s4", ".u2", ".s2")},
        ptx=(6, 5), section=_SECTION + "-pack", doc="saturates two integers and appends c",
        emitted=False, pure=True,
    ),
    Row(
        "cvt.pack.16", "cvt.pack.sat<type>.s32", "d, a, b",
        {"d": "b32", "a": "b32", "b": "b32"}, ("d",), {"type": texts(".u16", ".s16")},
        ptx=(6, 5), section=_SECTION + "-pack", doc="saturates two integers to 16 bits each",
        emitted=False, pure=True,
    ),
)
