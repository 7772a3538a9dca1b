"""Programs of integer arithmetic, bit fields, logic, shifts, carries and small dot products."""

from __future__ import annotations

from itertools import product

from generate.pointwise import Op, apply, crossed, pointwise
from generate.writing import Program, buffer

_COMPARE = ("eq", "ne", "lt", "le", "gt", "ge")


def _arithmetic(bits: int) -> list[Op]:
    ops: list[Op] = []
    for sign in "us":
        t = f".{sign}{bits}"
        for name in ("add", "sub", "mul.lo", "mul.hi", "min", "max"):
            ops.append((f"{name}{t}", f"{name}{t} {{d}}, {{a}}, {{b}};"))
        for name in ("mad.lo", "mad.hi", "sad"):
            ops.append((f"{name}{t}", f"{name}{t} {{d}}, {{a}}, {{b}}, {{c}};"))
        ops.append((f"shr{t}", f"and.b32 {{w}}, {{w}}, 127;\nshr{t} {{d}}, {{a}}, {{w}};"))
        # a divisor of zero has no defined quotient: it is made odd
        ops.append((f"div{t}", f"or.b{bits} {{t}}, {{b}}, 1;\ndiv{t} {{d}}, {{a}}, {{t}};"))
        ops.append((f"rem{t}", f"or.b{bits} {{t}}, {{b}}, 1;\nrem{t} {{d}}, {{a}}, {{t}};"))
        for c in _COMPARE:
            ops.append(
                (
                    f"setp.{c}{t}",
                    f"setp.{c}{t} {{p}}, {{a}}, {{b}};\nselp.b{bits} {{d}}, {{a}}, {{c}}, {{p}};",
                )
            )
    for name in ("and", "or", "xor"):
        ops.append((f"{name}.b{bits}", f"{name}.b{bits} {{d}}, {{a}}, {{b}};"))
    ops.append((f"not.b{bits}", f"not.b{bits} {{d}}, {{a}};"))
    ops.append((f"cnot.b{bits}", f"cnot.b{bits} {{d}}, {{a}};"))
    ops.append((f"abs.s{bits}", f"abs.s{bits} {{d}}, {{a}};"))
    ops.append((f"neg.s{bits}", f"neg.s{bits} {{d}}, {{a}};"))
    ops.append((f"shl.b{bits}", f"and.b32 {{w}}, {{w}}, 127;\nshl.b{bits} {{d}}, {{a}}, {{w}};"))
    return ops


def _low_word(ops: list[Op], bits: int) -> list[Op]:
    """Puts the low 32 bits of c, the amount of a shift, into {w} first where an op reads it."""
    low = {16: "cvt.u32.u16 {w}, {c};", 32: "mov.b32 {w}, {c};", 64: "cvt.u32.u64 {w}, {c};"}[bits]
    return [(label, f"{low}\n{text}" if "{w}" in text else text) for label, text in ops]


def _bits32() -> list[Op]:
    # places and lengths beyond 255 are not defined
    place = "and.b32 {w}, {b}, 255;\nand.b32 {x}, {c}, 255;\n"
    ops: list[Op] = []
    for name in (
        "popc.b32",
        "clz.b32",
        "brev.b32",
        "bfind.u32",
        "bfind.s32",
        "bfind.shiftamt.u32",
        "bfind.shiftamt.s32",
    ):
        ops.append((name, f"{name} {{d}}, {{a}};"))
    for t in ("u32", "s32"):
        ops.append((f"bfe.{t}", f"{place}bfe.{t} {{d}}, {{a}}, {{w}}, {{x}};"))
        for mode in ("clamp", "wrap"):
            ops.append((f"szext.{mode}.{t}", f"szext.{mode}.{t} {{d}}, {{a}}, {{b}};"))
        for part in ("lo", "hi"):
            ops.append((f"mul24.{part}.{t}", f"mul24.{part}.{t} {{d}}, {{a}}, {{b}};"))
            ops.append((f"mad24.{part}.{t}", f"mad24.{part}.{t} {{d}}, {{a}}, {{b}}, {{c}};"))
    ops.append(("bfi.b32", f"{place}bfi.b32 {{d}}, {{a}}, {{b}}, {{x}}, 9;"))
    ops.append(("bfi.b32.place", f"{place}bfi.b32 {{d}}, {{a}}, {{b}}, {{x}}, {{w}};"))
    for mode in ("clamp", "wrap"):
        ops.append((f"bmsk.{mode}.b32", f"bmsk.{mode}.b32 {{d}}, {{a}}, {{b}};"))
        for way in "lr":
            ops.append(
                (f"shf.{way}.{mode}.b32", f"shf.{way}.{mode}.b32 {{d}}, {{a}}, {{b}}, {{c}};")
            )
    for mode in ("", ".f4e", ".b4e", ".rc8", ".ecl", ".ecr", ".rc16"):
        ops.append((f"prmt.b32{mode}", f"prmt.b32{mode} {{d}}, {{a}}, {{b}}, {{c}};"))
    for table in (0x96, 0xE8, 0x1B, 0x80, 0xCA, 0x00, 0xFF):
        ops.append((f"lop3.{table:#x}", f"lop3.b32 {{d}}, {{a}}, {{b}}, {{c}}, {table:#x};"))
    for name in ("or", "and"):
        ops.append(
            (
                f"lop3.{name}",
                f"setp.lt.s32 {{q}}, {{c}}, 0;\nlop3.{name}.b32 {{t}}|{{p}}, {{a}}, {{b}}, {{c}}, 0x80, {{q}};\n"
                "selp.b32 {d}, {t}, 0xABCD, {p};",
            )
        )
    for a, b in product(("u32", "s32"), repeat=2):
        ops.append((f"dp4a.{a}.{b}", f"dp4a.{a}.{b} {{d}}, {{a}}, {{b}}, {{c}};"))
        for part in ("lo", "hi"):
            ops.append((f"dp2a.{part}.{a}.{b}", f"dp2a.{part}.{a}.{b} {{d}}, {{a}}, {{b}}, {{c}};"))
    ops.append(
        (
            "fns.b32",
            "and.b32 {w}, {b}, 31;\nand.b32 {x}, {c}, 15;\nsub.u32 {x}, {x}, 7;\nfns.b32 {d}, {a}, {w}, {x};",
        )
    )
    for t in ("u32", "s32"):
        ops.append(
            (
                f"add.sat.{t}" if t == "s32" else "add.wide",
                "add.sat.s32 {d}, {a}, {b};" if t == "s32" else "add.u32 {d}, {a}, {a};",
            )
        )
    ops.append(("sub.sat.s32", "sub.sat.s32 {d}, {a}, {b};"))
    ops.append(("mad.hi.sat.s32", "mad.hi.sat.s32 {d}, {a}, {b}, {c};"))
    ops.append(("add.u16x2", "add.u16x2 {d}, {a}, {b};"))
    for name in ("min", "max"):
        for t in ("u16x2", "s16x2"):
            ops.append((f"{name}.{t}", f"{name}.{t} {{d}}, {{a}}, {{b}};"))
        ops.append((f"{name}.relu.s16x2", f"{name}.relu.s16x2 {{d}}, {{a}}, {{b}};"))
        ops.append((f"{name}.relu.s32", f"{name}.relu.s32 {{d}}, {{a}}, {{b}};"))
    ops.append(("slct.b32.s32", "slct.b32.s32 {d}, {a}, {b}, {c};"))
    for t in ("u8", "s8", "u4", "s4", "u2", "s2"):
        ops.append((f"cvt.pack.{t}", f"cvt.pack.sat.{t}.s32.b32 {{d}}, {{a}}, {{b}}, {{c}};"))
    for t in ("u16", "s16"):
        ops.append((f"cvt.pack.{t}", f"cvt.pack.sat.{t}.s32 {{d}}, {{a}}, {{b}};"))
    for c in _COMPARE:
        ops.append((f"set.{c}.u32.s32", f"set.{c}.u32.s32 {{d}}, {{a}}, {{b}};"))
        ops.append((f"set.{c}.f32.u32", f"set.{c}.f32.u32 {{d}}, {{a}}, {{b}};"))
    return ops


def _carries(bits: int) -> list[Op]:
    t = f".u{bits}"
    ops: list[Op] = []
    for first, second in (("add", "addc"), ("sub", "subc")):
        ops.append(
            (
                f"{second}{t}",
                f"{first}.cc{t} {{t}}, {{a}}, {{b}};\n{second}{t} {{d}}, {{c}}, {{a}};",
            )
        )
        ops.append(
            (
                f"{second}.cc{t}",
                f"{first}.cc{t} {{t}}, {{a}}, {{b}};\n{second}.cc{t} {{u}}, {{c}}, {{b}};\n"
                f"{second}{t} {{d}}, {{a}}, {{c}};",
            )
        )
    for part in ("lo", "hi"):
        ops.append(
            (
                f"madc.{part}{t}",
                f"mad.{part}.cc{t} {{t}}, {{a}}, {{b}}, {{c}};\nmadc.hi{t} {{d}}, {{a}}, {{b}}, {{t}};",
            )
        )
    return ops


def _logic_of_predicates() -> list[Op]:
    """What joins comparisons: bool modifiers, two results, logic of predicates, guards."""
    ops: list[Op] = []
    first = "setp.lt.s32 {q}, {c}, 7;\n"
    for b in ("and", "or", "xor"):
        ops.append(
            (
                f"setp.lt.{b}.s32",
                f"{first}setp.lt.{b}.s32 {{p}}, {{a}}, {{b}}, {{q}};\nselp.b32 {{d}}, 1, 2, {{p}};",
            )
        )
        ops.append(
            (
                f"setp.gt.{b}.u32 p|q",
                f"{first}setp.gt.{b}.u32 {{p}}|%p3, {{a}}, {{b}}, !{{q}};\n"
                "selp.b32 {t}, 1, 0, {p};\nselp.b32 {d}, 2, 0, %p3;\nor.b32 {d}, {d}, {t};",
            )
        )
        ops.append(
            (
                f"{b}.pred",
                f"{first}setp.ge.u32 {{p}}, {{a}}, {{b}};\n{b}.pred {{p}}, {{p}}, {{q}};\n"
                "selp.b32 {d}, {a}, {b}, {p};",
            )
        )
    ops.append(
        (
            "setp p|q",
            "setp.le.u32 {p}|{q}, {a}, {b};\nselp.b32 {t}, 16, 0, {p};\nselp.b32 {d}, 3, 0, {q};\n"
            "or.b32 {d}, {d}, {t};",
        )
    )
    ops.append(
        ("not.pred", "setp.eq.s32 {p}, {a}, {b};\nnot.pred {p}, {p};\nselp.b32 {d}, {a}, {c}, {p};")
    )
    ops.append(
        (
            "guards",
            "setp.lt.u32 {p}, {a}, {b};\nmov.b32 {d}, 5;\n@{p} add.u32 {d}, {d}, {a};\n@!{p} sub.u32 {d}, {d}, {c};",
        )
    )
    return ops


def _wide() -> list[Op]:
    """32-bit sources, 64-bit results."""
    ops: list[Op] = []
    for t in ("u32", "s32"):
        ops.append((f"mul.wide.{t}", f"mul.wide.{t} {{d}}, {{a}}, {{b}};"))
        ops.append(
            (
                f"mad.wide.{t}",
                f"mul.wide.u32 {{t}}, {{b}}, {{c}};\nmad.wide.{t} {{d}}, {{a}}, {{b}}, {{t}};",
            )
        )
    ops.append(("mov.b64 pack", "mov.b64 {d}, {{{a}, {b}}};"))
    ops.append(
        (
            "mov.b64 unpack",
            "mov.b64 {t}, {{{a}, {b}}};\nmov.b64 {{{w}, {x}}}, {t};\nmov.b64 {d}, {{{x}, {w}}};",
        )
    )
    ops.append(
        (
            "mov.b128",
            "mov.b64 {t}, {{{a}, {b}}};\nmov.b64 {u}, {{{c}, {a}}};\nmov.b128 %q0, {{{t}, {u}}};\n"
            "mov.b128 {{{l}, {m}}}, %q0;\nxor.b64 {d}, {l}, {m};\nadd.u64 {d}, {d}, {m};",
        )
    )
    return ops


def _bits64() -> list[Op]:
    ops: list[Op] = []
    for name in (
        "popc.b64",
        "clz.b64",
        "bfind.u64",
        "bfind.s64",
        "bfind.shiftamt.u64",
        "bfind.shiftamt.s64",
    ):
        ops.append((name, f"{name} {{w}}, {{a}};\ncvt.u64.u32 {{d}}, {{w}};"))
    ops.append(("brev.b64", "brev.b64 {d}, {a};"))
    # places and lengths beyond 255 are not defined
    place = "cvt.u32.u64 {w}, {b};\nand.b32 {w}, {w}, 255;\n"
    length = "cvt.u32.u64 {x}, {c};\nand.b32 {x}, {x}, 255;\n"
    for t in ("u64", "s64"):
        ops.append(
            (
                f"bfe.{t}",
                f"{place}{length}bfe.{t} {{d}}, {{a}}, {{w}}, {{x}};",
            )
        )
    ops.append(("bfi.b64", f"{length}bfi.b64 {{d}}, {{a}}, {{b}}, {{x}}, 11;"))
    ops.append(("slct.b64.s32", "cvt.u32.u64 {w}, {c};\nslct.b64.s32 {d}, {a}, {b}, {w};"))
    return ops


def programs() -> list[Program]:
    found: list[Program] = []
    for bits in (16, 32, 64):
        p = Program(
            f"integer_{bits}", f"Integer arithmetic, comparison, logic and shifts on {bits} bits."
        )
        width, n = f"b{bits}", 512
        labels = pointwise(p, "arithmetic", [width] * 3, width, _low_word(_arithmetic(bits), bits))
        apply(
            p,
            "arithmetic",
            "arithmetic",
            labels,
            crossed("abc", width, n, 100 + bits, width),
            width,
            n,
        )
        found.append(p)
    p = Program(
        "integer_fields",
        "Bit fields, permutations, three-input logic, funnel shifts, dot products of bytes.",
    )
    labels = pointwise(p, "fields", ["b32"] * 3, "b32", _bits32())
    apply(p, "specials", "fields", labels, crossed("abc", "b32", 512, 7, "b32"), "b32", 512)
    # lengths and places of fields, amounts of shifts and selectors that are small
    small = {
        "a": buffer("b32", 256, "bits", seed=71),
        "b": buffer("b32", 256, "count", start=0, step=37),
        "c": buffer("b32", 256, "count", start=0, step=5),
    }
    apply(p, "small", "fields", labels, small, "b32", 256)
    selectors = {
        "a": buffer("b32", 256, "fill", value=0x8081C2A3),
        "b": buffer("b32", 256, "fill", value=0x14F5E6D7),
        "c": buffer("b32", 256, "bits", seed=72),
    }
    apply(p, "selectors", "fields", labels, selectors, "b32", 256)
    found.append(p)
    p = Program("integer_carry", "Carries across additions, subtractions and products.")
    for bits in (32, 64):
        labels = pointwise(p, f"carry_{bits}", [f"b{bits}"] * 3, f"b{bits}", _carries(bits))
        apply(
            p,
            f"carry_{bits}",
            f"carry_{bits}",
            labels,
            crossed("abc", f"b{bits}", 512, 40 + bits, f"b{bits}"),
            f"b{bits}",
            512,
        )
    found.append(p)
    p = Program(
        "integer_wide", "Products of double width, joined and split registers, 64-bit fields."
    )
    labels = pointwise(p, "wide", ["b32"] * 3, "b64", _wide())
    apply(p, "wide", "wide", labels, crossed("abc", "b32", 512, 9, "b32"), "b64", 512)
    labels = pointwise(p, "fields_64", ["b64"] * 3, "b64", _bits64())
    apply(p, "fields_64", "fields_64", labels, crossed("abc", "b64", 512, 11, "b64"), "b64", 512)
    small64 = {
        "a": buffer("b64", 256, "bits", seed=73),
        "b": buffer("b64", 256, "count", start=0, step=37),
        "c": buffer("b64", 256, "count", start=0, step=5),
    }
    apply(p, "fields_64_small", "fields_64", labels, small64, "b64", 256)
    found.append(p)
    p = Program("predicates", "Comparisons joined with predicates, two results, guards.")
    labels = pointwise(p, "predicates", ["b32"] * 3, "b32", _logic_of_predicates())
    apply(p, "predicates", "predicates", labels, crossed("abc", "b32", 512, 13, "b32"), "b32", 512)
    found.append(p)
    return found
