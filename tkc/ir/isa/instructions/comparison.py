"""Rows of comparisons and of what chooses by them, which belong to the family `arith`."""

from __future__ import annotations

from collections.abc import Mapping

from tkc.ir.isa.instructions import Choice, Row, texts

_FTZ = texts(".ftz", along={"type": ".f32"})
_INTEGERS = texts(".u16", ".s16", ".u32", ".s32", ".u64", ".s64")
_FLOAT = texts(".f32", ".f64")
_BITS = texts(".b16", ".b32", ".b64")


def _row(
    name: str,
    mnemonic: str,
    syntax: str,
    operands: Mapping[str, str],
    slots: Mapping[str, tuple[Choice, ...]],
    section: str,
    doc: str,
    results: tuple[str, ...] = ("d",),
    emitted: bool = True,
) -> Row:
    return Row(
        name, mnemonic, syntax, operands, results, slots,
        section=section, doc=doc, emitted=emitted, pure=True,
    )  # fmt: skip


_COMPARE = texts(".eq", ".ne", ".lt", ".le", ".gt", ".ge")
_COMPARE_SETP = (
    *_COMPARE,
    *texts(".lo", ".ls", ".hi", ".hs", along={"type": ".u32"}),
    *texts(".equ", ".neu", ".ltu", ".leu", ".gtu", ".geu", ".num", ".nan", along={"type": ".f32"}),
)
_BOOL = texts(".and", ".or", ".xor")
_SETP_BOTH = (*texts(".u32", ".s32", ".u64", ".s64", ".u16", ".s16"), *_FLOAT, *_BITS)
_SETP_TYPES = (*_SETP_BOTH, Choice(".f16", (4, 2)), Choice(".bf16", (7, 8)))
_PACKED_HALF = (Choice(".f16x2", (4, 2)), Choice(".bf16x2", (7, 8)))
_COMPARE_PACKED = (
    *_COMPARE,
    *texts(".equ", ".neu", ".ltu", ".leu", ".gtu", ".geu", ".num", ".nan"),
)
_SETP = "comparison-and-selection-instructions-setp"

COMPARISON = (
    _row(
        "setp",
        "setp<compare><ftz?><type>",
        "p, a, b",
        {"p": "pred", "a": "type", "b": "type"},
        {"compare": _COMPARE_SETP, "ftz": _FTZ, "type": _SETP_TYPES},
        _SETP,
        "compares; ordered comparisons with a NaN are false",
        results=("p",),
    ),
    _row(
        "setp.bool",
        "setp<compare><bool><ftz?><type>",
        "p, a, b, c",
        {"p": "pred", "a": "type", "b": "type", "c": "pred"},
        {"compare": _COMPARE_SETP, "bool": _BOOL, "ftz": _FTZ, "type": _SETP_TYPES},
        _SETP,
        "compares and joins with a predicate (`!c` negates it)",
        results=("p",),
    ),
    _row(
        "setp.both",
        "setp<compare><ftz?><type>",
        "p|q, a, b",
        {"p": "pred", "q": "pred", "a": "type", "b": "type"},
        {"compare": _COMPARE_SETP, "ftz": _FTZ, "type": _SETP_BOTH},
        _SETP,
        "compares; q is the opposite",
        results=("p", "q"),
        emitted=False,
    ),
    _row(
        "setp.bool.both",
        "setp<compare><bool><ftz?><type>",
        "p|q, a, b, c",
        {"p": "pred", "q": "pred", "a": "type", "b": "type", "c": "pred"},
        {"compare": _COMPARE_SETP, "bool": _BOOL, "ftz": _FTZ, "type": _SETP_BOTH},
        _SETP,
        "compares and joins; q joins the opposite",
        results=("p", "q"),
        emitted=False,
    ),
    _row(
        "setp.x2",
        "setp<compare><ftz?><type>",
        "p|q, a, b",
        {"p": "pred", "q": "pred", "a": "b32", "b": "b32"},
        {"compare": _COMPARE_PACKED, "ftz": texts(".ftz"), "type": _PACKED_HALF},
        _SETP,
        "compares halves: p the low ones, q the high ones",
        results=("p", "q"),
    ),
    _row(
        "setp.bool.x2",
        "setp<compare><bool><ftz?><type>",
        "p|q, a, b, c",
        {"p": "pred", "q": "pred", "a": "b32", "b": "b32", "c": "pred"},
        {"compare": _COMPARE_PACKED, "bool": _BOOL, "ftz": texts(".ftz"), "type": _PACKED_HALF},
        _SETP,
        "compares halves and joins each",
        results=("p", "q"),
        emitted=False,
    ),
    _row(
        "selp",
        "selp<type>",
        "d, a, b, p",
        {"d": "type", "a": "type", "b": "type", "p": "pred"},
        {"type": (*_INTEGERS, *_BITS, *_FLOAT)},
        "comparison-and-selection-instructions-selp",
        "a where p, else b",
    ),
)
