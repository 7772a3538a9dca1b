"""Programs of arithmetic on f32, f64, f16 and bf16, single and packed, with every rounding and modifier."""

from __future__ import annotations

from itertools import product

from generate.pointwise import Op, apply, crossed, pointwise
from generate.writing import Program, buffer

ROUNDINGS = ("rn", "rz", "rm", "rp")
COMPARISONS = (
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "equ",
    "neu",
    "ltu",
    "leu",
    "gtu",
    "geu",
    "num",
    "nan",
)


def _sums(t: str, roundings: tuple[str, ...], tails: tuple[str, ...]) -> list[Op]:
    ops: list[Op] = []
    for r, tail in product(roundings, tails):
        for name in ("add", "sub", "mul"):
            op = f"{name}.{r}{tail}.{t}"
            ops.append((op, f"{op} {{d}}, {{a}}, {{b}};"))
        op = f"fma.{r}{tail}.{t}"
        ops.append((op, f"{op} {{d}}, {{a}}, {{b}}, {{c}};"))
    return ops


def _min_max(t: str, tails: tuple[str, ...]) -> list[Op]:
    return [
        (f"{name}{tail}.{t}", f"{name}{tail}.{t} {{d}}, {{a}}, {{b}};")
        for name in ("min", "max")
        for tail in tails
    ]


def _unary(names: tuple[str, ...], t: str) -> list[Op]:
    return [(f"{n}.{t}", f"{n}.{t} {{d}}, {{a}};") for n in names]


def _single() -> list[Op]:
    ops = _sums("f32", ROUNDINGS, ("", ".ftz")) + _sums("f32", ("rn",), (".sat", ".ftz.sat"))
    ops += _min_max("f32", ("", ".ftz", ".NaN", ".ftz.NaN", ".xorsign.abs", ".NaN.xorsign.abs"))
    ops += _unary(("neg", "abs", "neg.ftz", "abs.ftz"), "f32")
    ops.append(("copysign.f32", "copysign.f32 {d}, {a}, {b};"))
    ops.append(("slct.b32.f32", "slct.b32.f32 {d}, {a}, {b}, {c};"))
    ops.append(("slct.ftz.b32.f32", "slct.ftz.b32.f32 {d}, {a}, {b}, {c};"))
    return ops


def _divisions(t: str) -> list[Op]:
    tails = ("", ".ftz") if t == "f32" else ("",)
    ops: list[Op] = []
    for r, tail in product(ROUNDINGS, tails):
        ops.append((f"div.{r}{tail}.{t}", f"div.{r}{tail}.{t} {{d}}, {{a}}, {{b}};"))
        ops += _unary((f"rcp.{r}{tail}", f"sqrt.{r}{tail}"), t)
    return ops


def _comparisons(t: str, tails: tuple[str, ...], select: str) -> list[Op]:
    ops: list[Op] = []
    for c, tail in product(COMPARISONS, tails):
        ops.append((f"setp.{c}{tail}.{t}", f"setp.{c}{tail}.{t} {{p}}, {{a}}, {{b}};\n{select}"))
    return ops


def _classes(t: str, select: str) -> list[Op]:
    kinds = ("finite", "infinite", "number", "notanumber", "normal", "subnormal")
    return [(f"testp.{k}.{t}", f"testp.{k}.{t} {{p}}, {{a}};\n{select}") for k in kinds]


def _sets() -> list[Op]:
    ops: list[Op] = []
    for c in ("lt", "ne", "geu", "nan", "num"):
        for t in ("u32", "s32", "f32"):
            ops.append((f"set.{c}.{t}.f32", f"set.{c}.{t}.f32 {{d}}, {{a}}, {{b}};"))
        ops.append((f"set.{c}.ftz.f32.f32", f"set.{c}.ftz.f32.f32 {{d}}, {{a}}, {{b}};"))
    ops.append(
        (
            "setp.lt.and.f32",
            "setp.gt.f32 {q}, {c}, 0f00000000;\nsetp.lt.and.f32 {p}, {a}, {b}, {q};\nselp.b32 {d}, 1, 0, {p};",
        )
    )
    ops.append(
        (
            "setp.lt.or.f32 p|q",
            "setp.gt.f32 {q}, {c}, 0f00000000;\nsetp.lt.or.f32 {p}|%p3, {a}, {b}, {q};\n"
            "selp.b32 {t}, 1, 0, {p};\nselp.b32 {d}, 2, 0, %p3;\nor.b32 {d}, {d}, {t};",
        )
    )
    return ops


def _half(t: str) -> list[Op]:
    """On b16 or b32 registers, whichever t has."""
    bf16 = t.startswith("bf16")
    tails = ("",) if bf16 else ("", ".ftz", ".sat", ".ftz.sat")
    ops: list[Op] = []
    for tail in tails:
        for name in ("add", "sub", "mul"):
            ops.append((f"{name}.rn{tail}.{t}", f"{name}.rn{tail}.{t} {{d}}, {{a}}, {{b}};"))
        ops.append((f"fma.rn{tail}.{t}", f"fma.rn{tail}.{t} {{d}}, {{a}}, {{b}}, {{c}};"))
    for tail in (".relu",) if bf16 else (".relu", ".ftz.relu"):
        ops.append((f"fma.rn{tail}.{t}", f"fma.rn{tail}.{t} {{d}}, {{a}}, {{b}}, {{c}};"))
    marks = (
        ("", ".NaN", ".xorsign.abs", ".NaN.xorsign.abs")
        if bf16
        else ("", ".ftz", ".NaN", ".ftz.NaN", ".xorsign.abs", ".NaN.xorsign.abs")
    )
    ops += _min_max(t, marks)
    ops += _unary(("neg", "abs"), t)
    return ops


def _half_compare(t: str) -> list[Op]:
    """Packed comparisons with two results, and set, on b32 registers."""
    ops: list[Op] = []
    for c in ("lt", "eq", "neu", "ge", "nan", "num"):
        ops.append(
            (
                f"setp.{c}.{t}",
                f"setp.{c}.{t} {{p}}|{{q}}, {{a}}, {{b}};\nselp.b32 {{t}}, 1, 0, {{p}};\n"
                "selp.b32 {d}, 16, 0, {q};\nor.b32 {d}, {d}, {t};",
            )
        )
        ops.append((f"set.{c}.{t}.{t}", f"set.{c}.{t}.{t} {{d}}, {{a}}, {{b}};"))
    return ops


def _half_set(t: str) -> list[Op]:
    ops: list[Op] = []
    for c in ("lt", "ne", "geu", "nan"):
        ops.append((f"set.{c}.{t}.{t}", f"set.{c}.{t}.{t} {{d}}, {{a}}, {{b}};"))
        ops.append(
            (
                f"setp.{c}.{t}",
                f"setp.{c}.{t} {{p}}, {{a}}, {{b}};\nselp.b16 {{d}}, {{a}}, {{c}}, {{p}};",
            )
        )
    return ops


def programs() -> list[Program]:
    found: list[Program] = []
    n = 1408  # 34 specials squared is 1156

    p = Program(
        "float_f32",
        "Arithmetic on f32 under every rounding, flushing and saturating; minima and maxima with NaN.",
    )
    labels = pointwise(p, "single", ["b32"] * 3, "b32", _single())
    apply(p, "single", "single", labels, crossed("abc", "f32", n, 200, "b32"), "b32", n)
    found.append(p)

    p = Program(
        "float_f32_divide", "Quotients, reciprocals and square roots on f32 under every rounding."
    )
    labels = pointwise(p, "divide", ["b32"] * 2, "b32", _divisions("f32"))
    apply(p, "divide", "divide", labels, crossed("ab", "f32", n, 210, "b32"), "b32", n)
    found.append(p)

    p = Program(
        "float_f32_compare", "Comparisons of f32 with NaN, tests of classes, set and selections."
    )
    chosen = "selp.b32 {d}, 1, 0, {p};"
    ops = _comparisons("f32", ("", ".ftz"), chosen) + _classes("f32", chosen) + _sets()
    labels = pointwise(p, "compare", ["b32"] * 3, "b32", ops)
    apply(p, "compare", "compare", labels, crossed("abc", "f32", n, 220, "b32"), "b32", n)
    found.append(p)

    p = Program(
        "float_f64", "Arithmetic on f64 under every rounding, comparisons, minima and maxima."
    )
    ops = (
        _sums("f64", ROUNDINGS, ("",))
        + _divisions("f64")
        + _min_max("f64", ("",))
        + _unary(("neg", "abs"), "f64")
    )
    ops.append(("copysign.f64", "copysign.f64 {d}, {a}, {b};"))
    ops += _comparisons("f64", ("",), "selp.b64 {d}, {a}, {c}, {p};") + _classes(
        "f64", "selp.b64 {d}, 1, 0, {p};"
    )
    labels = pointwise(p, "double", ["b64"] * 3, "b64", ops)
    apply(p, "double", "double", labels, crossed("abc", "f64", n, 230, "b64"), "b64", n)
    found.append(p)

    for t in ("f16", "bf16"):
        p = Program(
            f"float_{t}", f"Arithmetic, minima, maxima and comparisons on {t}, single and packed."
        )
        labels = pointwise(p, "single", ["b16"] * 3, "b16", _half(t) + _half_set(t))
        apply(p, "single", "single", labels, crossed("abc", t, n, 240, "b16"), "b16", n)
        labels = pointwise(
            p, "packed", ["b32"] * 3, "b32", _half(f"{t}x2") + _half_compare(f"{t}x2")
        )
        # the two halves are unrelated special values
        packed = {name: buffer("b32", 512, "bits", seed=250 + i) for i, name in enumerate("abc")}
        apply(p, "packed", "packed", labels, packed, "b32", 512)
        found.append(p)
    return found
