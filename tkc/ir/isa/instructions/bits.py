"""Rows of bit counting, carries, small dot products and packed arithmetic, which belong to the family `arith`."""

from __future__ import annotations

from collections.abc import Mapping

from tkc.ir.isa.instructions import Choice, Row, texts
from tkc.ir.isa.targets import Feature, Version

_INTEGER = "integer-arithmetic-instructions-"
_CARRY = "extended-precision-arithmetic-instructions-"
_MIXED = frozenset({Feature.MIXED_FMA})
_BYTES = frozenset({Feature.BYTE_LANES})
_PAIRS = frozenset({Feature.MIXED_PACKED})


def _row(
    name: str,
    mnemonic: str,
    syntax: str,
    operands: Mapping[str, str],
    slots: Mapping[str, tuple[Choice, ...]],
    section: str,
    doc: str,
    ptx: Version = (2, 0),
    needs: frozenset[Feature] = frozenset(),
    results: tuple[str, ...] = ("d",),
    pure: bool = True,
) -> Row:
    return Row(
        name, mnemonic, syntax, operands, results, slots,
        ptx=ptx, needs=needs, section=section, doc=doc, emitted=False, pure=pure,
    )


_COUNT = {"d": "b32", "a": "type"}
_ONE = {"d": "type", "a": "type"}
_TWO = {**_ONE, "b": "type"}
_THREE = {**_TWO, "c": "type"}
_WORDS = texts(".b32", ".b64")
_SIMD = texts(".u32", ".s32")
_CARRIED = (*texts(".u32", ".s32"), *texts(".u64", ".s64", ptx=(4, 3)))

COUNTS = (
    _row("popc", "popc<type>", "d, a", _COUNT, {"type": _WORDS}, _INTEGER + "popc", "bits that are set"),
    _row("clz", "clz<type>", "d, a", _COUNT, {"type": _WORDS}, _INTEGER + "clz", "leading zero bits"),
    _row("bfind", "bfind<shiftamt?><type>", "d, a", _COUNT,
         {"shiftamt": texts(".shiftamt"), "type": texts(".u32", ".s32", ".u64", ".s64")},
         _INTEGER + "bfind", "place of the highest significant bit, ~0 if none"),
    _row("fns", "fns.b32", "d, mask, base, offset",
         {"d": "b32", "mask": "b32", "base": "b32", "offset": "b32"}, {},
         _INTEGER + "fns", "place of the n-th bit that is set", (6, 0)),
    _row("brev", "brev<type>", "d, a", _ONE, {"type": _WORDS}, _INTEGER + "brev", "bits reversed"),
    _row("bmsk", "bmsk<mode>.b32", "d, a, b", {"d": "b32", "a": "b32", "b": "b32"},
         {"mode": texts(".clamp", ".wrap")}, _INTEGER + "bmsk", "mask of b bits from bit a", (7, 6)),
    _row("szext", "szext<mode><type>", "d, a, b", {"d": "type", "a": "type", "b": "b32"},
         {"mode": texts(".clamp", ".wrap"), "type": texts(".u32", ".s32")},
         _INTEGER + "szext", "extends the low b bits", (7, 6)),
    _row("cnot", "cnot<type>", "d, a", _ONE, {"type": texts(".b16", ".b32", ".b64")},
         "logic-and-shift-instructions-cnot", "1 if a is 0, else 0"),
    _row("lop3.bool", "lop3<op>.b32", "d|p, a, b, c, table, q",
         {"d": "b32", "p": "pred", "a": "b32", "b": "b32", "c": "b32", "table": "imm", "q": "pred"},
         {"op": texts(".or", ".and")}, "logic-and-shift-instructions-lop3",
         "as lop3; p says whether the result is not 0, joined with q", (8, 2), results=("d", "p")),
)

INTEGERS = (
    _row("sad", "sad<type>", "d, a, b, c", _THREE,
         {"type": texts(".u32", ".s32", ".u16", ".s16", ".u64", ".s64")},
         _INTEGER + "sad", "c plus the distance of a and b"),
    _row("mul24", "mul24<part><type>", "d, a, b", _TWO,
         {"part": texts(".lo", ".hi"), "type": texts(".u32", ".s32")},
         _INTEGER + "mul24", "product of 24-bit integers"),
    _row("mad24", "mad24<part><type>", "d, a, b, c", _THREE,
         {"part": texts(".lo", ".hi"), "type": texts(".u32", ".s32")},
         _INTEGER + "mad24", "product of 24-bit integers plus c"),
    _row("dp4a", "dp4a<atype><btype>", "d, a, b, c", {"d": "b32", "a": "b32", "b": "b32", "c": "b32"},
         {"atype": texts(".u32", ".s32"), "btype": texts(".u32", ".s32")},
         _INTEGER + "dp4a", "dot product of four bytes plus c", (5, 0)),
    _row("dp2a", "dp2a<part><atype><btype>", "d, a, b, c",
         {"d": "b32", "a": "b32", "b": "b32", "c": "b32"},
         {"part": texts(".lo", ".hi"), "atype": texts(".u32", ".s32"), "btype": texts(".u32", ".s32")},
         _INTEGER + "dp2a", "dot product of two halves with two bytes plus c", (5, 0)),
    *(
        _row(f"{name}{lanes}", f"{name}{lanes}<type><atype><btype><mode?>", "d, a, b, c",
             {"d": "b32", "a": "b32", "b": "b32", "c": "b32"},
             {"type": _SIMD, "atype": _SIMD, "btype": _SIMD, "mode": texts(".sat", ".add")},
             f"simd-video-instructions-vadd{lanes}-vsub{lanes}-vavrg{lanes}-vabsdiff{lanes}-vmin{lanes}-vmax{lanes}",
             f"{doc} of {lanes} parts; .add: their sum plus c", (3, 0))
        for name, doc in (
            ("vadd", "sum"), ("vsub", "difference"), ("vabsdiff", "distance"),
            ("vmin", "smaller one"), ("vmax", "larger one"),
        )
        for lanes in (2, 4)
    ),
    *(
        _row(f"{name}.cc", f"{name}.cc<type>", "d, a, b", _TWO, {"type": _CARRIED},
             _CARRY + f"{name}-cc", f"{name} that sets the carry flag", pure=False)
        for name in ("add", "sub")
    ),
    *(
        _row(name, f"{name}<cc?><type>", "d, a, b", _TWO, {"cc": texts(".cc"), "type": _CARRIED},
             _CARRY + name, f"{name[:3]} with the carry flag", pure=False)
        for name in ("addc", "subc")
    ),
    _row("mad.cc", "mad<part>.cc<type>", "d, a, b, c", _THREE,
         {"part": texts(".lo", ".hi"), "type": _CARRIED},
         _CARRY + "mad-cc", "mad that sets the carry flag", (3, 0), pure=False),
    _row("madc", "madc<part><cc?><type>", "d, a, b, c", _THREE,
         {"part": texts(".lo", ".hi"), "cc": texts(".cc"), "type": _CARRIED},
         _CARRY + "madc", "mad with the carry flag", (3, 0), pure=False),
    _row("slct", "slct<ftz?><type><ctype>", "d, a, b, c",
         {"d": "type", "a": "type", "b": "type", "c": "ctype"},
         {"ftz": texts(".ftz", along={"ctype": ".f32"}),
          "type": texts(".b32", ".u32", ".s32", ".f32", ".b64", ".u64", ".s64", ".f64", ".b16", ".u16", ".s16"),
          "ctype": texts(".s32", ".f32")},
         "comparison-and-selection-instructions-slct", "a where c >= 0, else b"),
    _row("set", "set<compare><ftz?><type><from>", "d, a, b", {"d": "type", "a": "from", "b": "from"},
         {"compare": texts(".eq", ".ne", ".lt", ".le", ".gt", ".ge")
          + texts(".equ", ".neu", ".ltu", ".leu", ".gtu", ".geu", ".num", ".nan", along={"from": ".f32"}),
          "ftz": texts(".ftz", along={"from": ".f32"}),
          "type": (*texts(".u32", ".s32", ".f32"),
                   Choice(".f16", (4, 2), along={"from": ".f16"}),
                   Choice(".bf16", (7, 8), along={"from": ".bf16"}),
                   *texts(".u16", ".s16", ptx=(6, 5), along={"from": ".f16"})),
          "from": (*texts(".u32", ".s32", ".u64", ".s64", ".u16", ".s16", ".f32", ".f64"),
                   *texts(".b16", ".b32", ".b64"),
                   Choice(".f16", (4, 2)), Choice(".bf16", (7, 8), along={"type": ".u32"}))},
         "comparison-and-selection-instructions-set", "all ones or 1.0 where the comparison holds"),
    _row("set.x2", "set<compare><ftz?><type><from>", "d, a, b", {"d": "b32", "a": "b32", "b": "b32"},
         {"compare": texts(".eq", ".ne", ".lt", ".le", ".gt", ".ge", ".equ", ".neu", ".ltu", ".leu",
                           ".gtu", ".geu", ".num", ".nan"),
          "ftz": texts(".ftz"),
          "type": (*texts(".u32", ".s32", ptx=(6, 5)), Choice(".f16x2", along={"from": ".f16x2"}),
                   Choice(".bf16x2", (7, 8), along={"from": ".bf16x2"})),
          "from": (Choice(".f16x2", along={"type": ".f16x2"}),
                   Choice(".bf16x2", (7, 8), along={"type": ".bf16x2"}))},
         "half-precision-comparison-instructions-set", "1.0 in each half where the comparison holds", (4, 2)),
)

FLOATS = (
    _row("copysign", "copysign<type>", "d, a, b", _TWO, {"type": texts(".f32", ".f64")},
         "floating-point-instructions-copysign", "b with the sign of a"),
    _row("testp", "testp<what><type>", "p, a", {"p": "pred", "a": "type"},
         {"what": texts(".finite", ".infinite", ".number", ".notanumber", ".normal", ".subnormal"),
          "type": texts(".f32", ".f64")},
         "floating-point-instructions-testp", "tests the class of a float", results=("p",)),
    *(
        _row(f"{name}.mixed", f"{name}<round?><sat?>.f32<from>", "d, a, c",
             {"d": "f32", "a": "from", "c": "f32"},
             {"round": texts(".rn", ".rz", ".rm", ".rp"), "sat": texts(".sat"),
              "from": texts(".f16", ".bf16")},
             f"mixed-precision-floating-point-instructions-{name}",
             f"{name} of a half and a float", (8, 6), _MIXED)
        for name in ("add", "sub")
    ),
    _row("fma.mixed", "fma<round><sat?>.f32<from>", "d, a, b, c",
         {"d": "f32", "a": "from", "b": "from", "c": "f32"},
         {"round": texts(".rn", ".rz", ".rm", ".rp"), "sat": texts(".sat"),
          "from": texts(".f16", ".bf16")},
         "mixed-precision-floating-point-instructions-fma",
         "product of halves plus a float, rounded once", (8, 6), _MIXED),
    _row("add.u8x4", "add<type>", "d, a, b", {"d": "b32", "a": "b32", "b": "b32"},
         {"type": texts(".u8x4", ".s8x4")}, _INTEGER + "add", "four bytes at a time", (9, 2), _BYTES),
    _row("add.f32x2.half", "add.rn.f32x2<from>.f32x2", "d, a, b", {"d": "b64", "a": "from", "b": "b64"},
         {"from": texts(".bf16x2", ".f16x2")},
         "mixed-precision-floating-point-instructions-add",
         "a pair of halves plus a pair of floats", (9, 4), _PAIRS),
    _row("fma.f32x2.half", "fma.rn.f32x2<from>.f32x2.f32x2", "d, a, b, c",
         {"d": "b64", "a": "from", "b": "b64", "c": "b64"}, {"from": texts(".bf16x2", ".f16x2")},
         "mixed-precision-floating-point-instructions-fma",
         "a pair of halves times a pair of floats plus one", (9, 4), _PAIRS),
)

MORE = (*COUNTS, *INTEGERS, *FLOATS)
