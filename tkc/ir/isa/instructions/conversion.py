"""Rows of `cvt`, which belong to the family `arith`."""

from __future__ import annotations

from tkc.ir.isa.instructions import Choice, Row, texts
from tkc.ir.isa.targets import Feature

_NARROW = frozenset({Feature.NARROW_CVT})
_STOCHASTIC = frozenset({Feature.CVT_STOCHASTIC})
_S2F6 = frozenset({Feature.CVT_S2F6})
_UE5M3 = frozenset({Feature.UE5M3})
_SCALED = frozenset({Feature.CVT_SCALED})

_SECTION = "data-movement-and-conversion-instructions-cvt"

_INT = texts(".u32", ".s32", ".u64", ".s64", ".u16", ".s16", ".u8", ".s8")

_RN16 = {"round": ".rn", "from": ".f32"}
_RZI = {"round": ".rzi", "type": ".u32"}

CONVERSIONS = (
    Row(
        "cvt",
        "cvt<round?><ftz?><sat?><relu?><type><from>",
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
)
