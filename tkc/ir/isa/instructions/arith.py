"""Rows of arithmetic, logic, comparison, moves between registers, and conversions."""

from __future__ import annotations

from collections.abc import Mapping

from tkc.ir.isa.instructions import Choice, Row, texts
from tkc.ir.isa.instructions.bits import MORE
from tkc.ir.isa.instructions.conversion import CONVERSIONS
from tkc.ir.isa.targets import Feature, Version

_PACKED = frozenset({Feature.PACKED_F32})
_MINMAX3 = frozenset({Feature.MINMAX3})

_RN = {"round": ".rn"}

_INT = texts(".u16", ".s16", ".u32", ".s32", ".u64", ".s64")
_INT2 = texts(".u16x2", ".s16x2", ptx=(8, 0))
_HALF = (*texts(".f16", ".f16x2", ptx=(4, 2)), *texts(".bf16", ".bf16x2", ptx=(7, 8)))
_FLOAT = texts(".f32", ".f64")
_F32X2 = texts(".f32x2", ptx=(8, 6), needs=_PACKED)
_BITS = texts(".b16", ".b32", ".b64")
_BITS_PRED = texts(".b16", ".b32", ".b64", ".pred")

_ROUND = texts(".rn", ".rz", ".rm", ".rp", along={"type": ".f32"})
_FTZ = texts(".ftz", along={"type": ".f32"})
_SAT = texts(".sat", along={"type": ".f32"})


def _row(
    name: str,
    mnemonic: str,
    syntax: str,
    operands: Mapping[str, str],
    slots: Mapping[str, tuple[Choice, ...]],
    section: str,
    doc: str,
    results: tuple[str, ...] = ("d",),
    ptx: Version = (1, 0),
    needs: frozenset[Feature] = frozenset(),
    emitted: bool = True,
    form_of: str = "",
) -> Row:
    return Row(
        name,
        mnemonic,
        syntax,
        operands,
        results,
        slots,
        ptx=ptx,
        needs=needs,
        section=section,
        doc=doc,
        emitted=emitted,
        pure=True,
        form_of=form_of,
    )


_T2 = {"d": "type", "a": "type", "b": "type"}
_T1 = {"d": "type", "a": "type"}
_T3 = {**_T2, "c": "type"}


def _sum(name: str, doc: str) -> Row:
    return _row(
        name,
        f"{name}<round?><ftz?><sat?><type>",
        "d, a, b",
        _T2,
        {
            "round": _ROUND,
            "ftz": _FTZ,
            "sat": (*_SAT,),
            "type": (*_INT, *_INT2, *_HALF, *_FLOAT, *_F32X2) if name == "add" else (*_INT, *_HALF, *_FLOAT, *_F32X2),
        },
        f"integer-arithmetic-instructions-{name}",
        doc,
    )


def _unary(
    name: str, types: tuple[Choice, ...], section: str, doc: str, slots: Mapping[str, tuple[Choice, ...]] | None = None
) -> Row:
    slots = slots or {}
    head = "".join(f"<{s}?>" for s in slots)
    return _row(name, f"{name}{head}<type>", "d, a", _T1, {**slots, "type": types}, section, doc)


def _approx(name: str, doc: str, types: tuple[Choice, ...], ftz: tuple[Choice, ...] = _FTZ) -> Row:
    return _row(
        f"{name}.approx",
        f"{name}.approx{'<ftz?>' if ftz else ''}<type>",
        "d, a",
        _T1,
        {**({"ftz": ftz} if ftz else {}), "type": types},
        f"floating-point-instructions-{name}",
        doc,
    )


_MOVE = "data-movement-and-conversion-instructions-mov"

MOVES = (
    _row("mov", "mov<type>", "d, a", _T1,
         {"type": texts(".b16", ".b32", ".b64", ".u16", ".u32", ".u64", ".s16", ".s32", ".s64",
                        ".f32", ".f64", ".pred")},
         _MOVE, "copies a register, an immediate, a special register or the address of a symbol"),
    _row("mov.imm", "mov<type>", "d, value", {"d": "type", "value": "imm"},
         {"type": texts(".b16", ".b32", ".b64", ".u16", ".u32", ".u64", ".s16", ".s32", ".s64",
                        ".f32", ".f64", ".pred")},
         _MOVE, "loads an immediate", form_of="mov"),
    _row("mov.symbol", "mov<type>", "d, symbol", {"d": "type", "symbol": "imm"},
         {"type": texts(".b32", ".b64", ".u32", ".u64")},
         _MOVE, "takes the address of a variable in its own state space", form_of="mov"),
    _row("mov.special", "mov<type>", "d, register", {"d": "type", "register": "imm"},
         {"type": texts(".u32", ".u64", ".b32", ".b64")},
         _MOVE, "reads a special register such as %tid.x", form_of="mov"),
    _row("mov.b32_to_f32", "mov.b32", "d, a", {"d": "f32", "a": "b32"}, {}, _MOVE,
         "the same bits as a float", form_of="mov"),
    _row("mov.f32_to_b32", "mov.b32", "d, a", {"d": "b32", "a": "f32"}, {}, _MOVE,
         "the bits of a float", form_of="mov"),
    _row("mov.b64_to_f64", "mov.b64", "d, a", {"d": "f64", "a": "b64"}, {}, _MOVE,
         "the same bits as a double", form_of="mov"),
    _row("mov.f64_to_b64", "mov.b64", "d, a", {"d": "b64", "a": "f64"}, {}, _MOVE,
         "the bits of a double", form_of="mov"),
    _row("mov.pack", "mov<type>", "d, {parts*}", {"d": "type", "parts": "any*"},
         {"type": (*texts(".b32", ".b64", ".b16"), Choice(".b128", (8, 3)))},
         _MOVE, "joins parts into one register, lowest bits first"),
    _row("mov.unpack", "mov<type>", "{parts*}, a", {"parts": "any*", "a": "type"},
         {"type": (*texts(".b32", ".b64", ".b16"), Choice(".b128", (8, 3)))},
         _MOVE, "splits a register into parts, lowest bits first", results=("parts",)),
)

INTEGER = (
    _sum("add", "a + b"),
    _sum("sub", "a - b"),
    _row("mul", "mul<round?><ftz?><sat?><type>", "d, a, b", _T2,
         {"round": _ROUND, "ftz": _FTZ, "sat": _SAT, "type": (*_FLOAT, *_HALF, *_F32X2)},
         "floating-point-instructions-mul", "a * b on floats"),
    _row("mul.lo", "mul.lo<type>", "d, a, b", _T2, {"type": _INT},
         "integer-arithmetic-instructions-mul", "low half of a * b"),
    _row("mul.hi", "mul.hi<type>", "d, a, b", _T2, {"type": _INT},
         "integer-arithmetic-instructions-mul", "high half of a * b"),
    _row("mul.wide", "mul.wide<type>", "d, a, b", {"d": "b64", "a": "type", "b": "type"},
         {"type": texts(".u32", ".s32")},
         "integer-arithmetic-instructions-mul", "whole 64-bit product"),
    _row("mul.wide.16", "mul.wide<type>", "d, a, b", {"d": "b32", "a": "type", "b": "type"},
         {"type": texts(".u16", ".s16")},
         "integer-arithmetic-instructions-mul", "whole 32-bit product"),
    _row("mad.lo", "mad.lo<type>", "d, a, b, c", _T3, {"type": _INT},
         "integer-arithmetic-instructions-mad", "low half of a * b, plus c"),
    _row("mad.hi", "mad.hi<sat?><type>", "d, a, b, c", _T3,
         {"sat": texts(".sat", along={"type": ".s32"}), "type": _INT},
         "integer-arithmetic-instructions-mad", "high half of a * b, plus c"),
    _row("mad.wide", "mad.wide<type>", "d, a, b, c",
         {"d": "b64", "a": "type", "b": "type", "c": "b64"}, {"type": texts(".u32", ".s32")},
         "integer-arithmetic-instructions-mad", "whole 64-bit product plus c"),
    _row("mad.wide.16", "mad.wide<type>", "d, a, b, c",
         {"d": "b32", "a": "type", "b": "type", "c": "b32"}, {"type": texts(".u16", ".s16")},
         "integer-arithmetic-instructions-mad", "whole 32-bit product plus c"),
    _row("div", "div<round?><ftz?><type>", "d, a, b", _T2,
         {"round": texts(".rn", ".rz", ".rm", ".rp", ".approx", ".full", along={"type": ".f32"}),
          "ftz": texts(".ftz", along={"type": ".f32", "round": ".rn"}),
          "type": (*_INT, *texts(".f32", ".f64", along=_RN))},
         "integer-arithmetic-instructions-div",
         "a / b; integers toward zero, .approx within 2 ulp, .full within 2 ulp over the full range"),
    _row("rem", "rem<type>", "d, a, b", _T2, {"type": _INT},
         "integer-arithmetic-instructions-rem", "remainder with the sign of a"),
    _unary("abs", (*texts(".s16", ".s32", ".s64"), *_FLOAT, *_HALF),
           "integer-arithmetic-instructions-abs", "absolute value", {"ftz": _FTZ}),
    _unary("neg", (*texts(".s16", ".s32", ".s64"), *_FLOAT, *_HALF),
           "integer-arithmetic-instructions-neg", "-a", {"ftz": _FTZ}),
    *(
        _row(name, f"{name}<ftz?><relu?><nan?><xorsign?><type>", "d, a, b", _T2,
             {"ftz": _FTZ, "relu": texts(".relu", ptx=(8, 0), along={"type": ".s32"}),
              "nan": texts(".NaN", ptx=(7, 0), along={"type": ".f32"}),
              "xorsign": texts(".xorsign.abs", ptx=(7, 2), along={"type": ".f32"}),
              "type": (*_INT, *_FLOAT, *texts(".f16", ".f16x2", ptx=(7, 0)),
                       *texts(".bf16", ".bf16x2", ptx=(7, 0)), *_INT2)},
             f"integer-arithmetic-instructions-{name}", doc)
        for name, doc in (("min", "smaller of a and b"), ("max", "larger of a and b"))
    ),
    *(
        _row(f"{name}3", f"{name}<ftz?><nan?>.f32", "d, a, b, c",
             {"d": "f32", "a": "f32", "b": "f32", "c": "f32"},
             {"ftz": texts(".ftz"), "nan": texts(".NaN")},
             f"floating-point-instructions-{name}", doc, ptx=(8, 8), needs=_MINMAX3)
        for name, doc in (("min", "smallest of three"), ("max", "largest of three"))
    ),
)

LOGIC = (
    *(
        _row(name, f"{name}<type>", "d, a, b", _T2, {"type": _BITS_PRED},
             f"logic-and-shift-instructions-{name}", f"bitwise {name}")
        for name in ("and", "or", "xor")
    ),
    _unary("not", _BITS_PRED, "logic-and-shift-instructions-not", "bitwise complement"),
    _row("shl", "shl<type>", "d, a, b", {"d": "type", "a": "type", "b": "b32"}, {"type": _BITS},
         "logic-and-shift-instructions-shl", "a shifted left by b; 0 from the width on"),
    _row("shr", "shr<type>", "d, a, b", {"d": "type", "a": "type", "b": "b32"},
         {"type": (*_INT, *_BITS)},
         "logic-and-shift-instructions-shr", "a shifted right by b, filled by the sign of signed types"),
    _row("shf", "shf<side><mode>.b32", "d, a, b, c",
         {"d": "b32", "a": "b32", "b": "b32", "c": "b32"},
         {"side": texts(".l", ".r"), "mode": texts(".wrap", ".clamp")},
         "logic-and-shift-instructions-shf", "funnel shift of b:a by c", ptx=(3, 1)),
    _row("lop3", "lop3.b32", "d, a, b, c, table",
         {"d": "b32", "a": "b32", "b": "b32", "c": "b32", "table": "imm"}, {},
         "logic-and-shift-instructions-lop3",
         "any function of three bits; the table is the function of 0xf0, 0xcc, 0xaa", ptx=(4, 3)),
    _row("prmt", "prmt.b32<mode?>", "d, a, b, c", {"d": "b32", "a": "b32", "b": "b32", "c": "b32"},
         {"mode": texts(".f4e", ".b4e", ".rc8", ".ecl", ".ecr", ".rc16")},
         "data-movement-and-conversion-instructions-prmt",
         "picks four of the eight bytes of b:a; bit 3 of a selector spreads the sign", ptx=(2, 0)),
    _row("bfe", "bfe<type>", "d, a, start, length",
         {"d": "type", "a": "type", "start": "b32", "length": "b32"},
         {"type": texts(".u32", ".s32", ".u64", ".s64")},
         "integer-arithmetic-instructions-bfe", "extracts a bit field", ptx=(2, 0)),
    _row("bfi", "bfi<type>", "d, a, b, start, length",
         {"d": "type", "a": "type", "b": "type", "start": "b32", "length": "b32"},
         {"type": texts(".b32", ".b64")},
         "integer-arithmetic-instructions-bfi", "inserts the low bits of a into b", ptx=(2, 0)),
)

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
    _row("setp", "setp<compare><ftz?><type>", "p, a, b", {"p": "pred", "a": "type", "b": "type"},
         {"compare": _COMPARE_SETP, "ftz": _FTZ, "type": _SETP_TYPES},
         _SETP, "compares; ordered comparisons with a NaN are false", results=("p",)),
    _row("setp.bool", "setp<compare><bool><ftz?><type>", "p, a, b, c",
         {"p": "pred", "a": "type", "b": "type", "c": "pred"},
         {"compare": _COMPARE_SETP, "bool": _BOOL, "ftz": _FTZ, "type": _SETP_TYPES},
         _SETP, "compares and joins with a predicate (`!c` negates it)", results=("p",)),
    _row("setp.both", "setp<compare><ftz?><type>", "p|q, a, b",
         {"p": "pred", "q": "pred", "a": "type", "b": "type"},
         {"compare": _COMPARE_SETP, "ftz": _FTZ, "type": _SETP_BOTH},
         _SETP, "compares; q is the opposite", results=("p", "q"), emitted=False),
    _row("setp.bool.both", "setp<compare><bool><ftz?><type>", "p|q, a, b, c",
         {"p": "pred", "q": "pred", "a": "type", "b": "type", "c": "pred"},
         {"compare": _COMPARE_SETP, "bool": _BOOL, "ftz": _FTZ, "type": _SETP_BOTH},
         _SETP, "compares and joins; q joins the opposite", results=("p", "q"), emitted=False),
    _row("setp.x2", "setp<compare><ftz?><type>", "p|q, a, b",
         {"p": "pred", "q": "pred", "a": "b32", "b": "b32"},
         {"compare": _COMPARE_PACKED, "ftz": texts(".ftz"), "type": _PACKED_HALF},
         _SETP, "compares halves: p the low ones, q the high ones", results=("p", "q")),
    _row("setp.bool.x2", "setp<compare><bool><ftz?><type>", "p|q, a, b, c",
         {"p": "pred", "q": "pred", "a": "b32", "b": "b32", "c": "pred"},
         {"compare": _COMPARE_PACKED, "bool": _BOOL, "ftz": texts(".ftz"), "type": _PACKED_HALF},
         _SETP, "compares halves and joins each", results=("p", "q"), emitted=False),
    _row("selp", "selp<type>", "d, a, b, p",
         {"d": "type", "a": "type", "b": "type", "p": "pred"},
         {"type": (*_INT, *_BITS, *_FLOAT)},
         "comparison-and-selection-instructions-selp", "a where p, else b"),
)

_EX2_HALF = (
    *texts(".f16", ".f16x2", ptx=(7, 0)),
    *texts(".bf16", ".bf16x2", ptx=(7, 8), along={"ftz": ".ftz"}),
)

FLOAT = (
    _row("fma", "fma<round><ftz?><sat?><relu?><type>", "d, a, b, c", _T3,
         {"round": texts(".rn", ".rz", ".rm", ".rp"), "ftz": _FTZ, "sat": _SAT,
          "relu": texts(".relu", ptx=(7, 0), along={"type": ".f16x2"}),
          "type": (*_FLOAT, *texts(".f16", ".f16x2", ptx=(4, 2)),
                   *texts(".bf16", ".bf16x2", ptx=(7, 0)), *_F32X2)},
         "floating-point-instructions-fma", "a * b + c, rounded once", ptx=(2, 0)),
    _approx("ex2", "2 to the a; 2 ulp on f32", (*texts(".f32"), *_EX2_HALF)),
    _approx("lg2", "log2(a)", texts(".f32")),
    _approx("rcp", "1 / a; 1 ulp on f32", (*texts(".f32"), *texts(".f64", along={"ftz": ".ftz"}))),
    _approx("rsqrt", "1 / sqrt(a)", (*texts(".f32"), *texts(".f64"))),
    _approx("sqrt", "sqrt(a)", texts(".f32")),
    _approx("sin", "sine of radians; absolute error 2^-20.5 in [-pi, pi]", texts(".f32")),
    _approx("cos", "cosine of radians; absolute error 2^-20.5 in [-pi, pi]", texts(".f32")),
    _approx("tanh", "hyperbolic tangent; relative error 2^-11 on f32",
            (*texts(".f32", ".f16", ".f16x2", ptx=(7, 0)), *texts(".bf16", ".bf16x2", ptx=(7, 8))),
            ()),
    _row("sqrt", "sqrt<round><ftz?><type>", "d, a", _T1,
         {"round": texts(".rn", ".rz", ".rm", ".rp"), "ftz": _FTZ, "type": _FLOAT},
         "floating-point-instructions-sqrt", "sqrt(a), rounded"),
    _row("rcp", "rcp<round><ftz?><type>", "d, a", _T1,
         {"round": texts(".rn", ".rz", ".rm", ".rp"), "ftz": _FTZ, "type": _FLOAT},
         "floating-point-instructions-rcp", "1 / a, rounded"),
)

ROWS = (*MOVES, *INTEGER, *LOGIC, *COMPARISON, *FLOAT, *MORE, *CONVERSIONS)
