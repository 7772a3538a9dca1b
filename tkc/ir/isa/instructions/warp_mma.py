"""Rows of the warp-level matrix multiply `mma.sync`, which belong to the family `wgmma`."""

from __future__ import annotations

from collections.abc import Mapping

from tkc.ir.isa.instructions import Choice, Row, texts
from tkc.ir.isa.targets import Feature, Version

_SECTION = "warp-level-matrix-instructions-mma"
_TYPED = "<shape>.row.col<kind?><satfinite?>"


def _along(shape: str, a: str, b: str = "", **more: str) -> Mapping[str, str]:
    return {"shape": shape, "atype": a, "btype": b or a, **more}


def _row(
    name: str,
    tail: str,
    kinds: str,
    slots: Mapping[str, tuple[Choice, ...]],
    doc: str,
    mnemonic: str = "mma.sync.aligned",
    syntax: str = "{d*}, {a*}, {b*}, {c*}",
    extra: Mapping[str, str] | None = None,
    ptx: Version = (7, 0),
) -> Row:
    registers = "f64*" if kinds == "f64*" else "b32*"
    return Row(
        name,
        f"{mnemonic}{tail}",
        syntax,
        {"d": kinds, "a": registers, "b": registers, "c": kinds, **(extra or {})},
        ("d",),
        slots,
        ptx=ptx,
        section=_SECTION,
        doc=doc,
        emitted=False,
        convergent=True,
        pure=True,
    )


_K16, _K8, _K32 = ".m16n8k16", ".m16n8k8", ".m16n8k32"
_FP8 = (8, 4)

_FLOAT_TYPES = {
    slot: (
        Choice(".bf16", along=_along(_K16, ".bf16")),
        Choice(".f16", along=_along(_K16, ".f16")),
        Choice(".tf32", along=_along(_K8, ".tf32")),
        *(Choice(t, _FP8, along=_along(_K32, t)) for t in (".e4m3", ".e5m2")),
    )
    for slot in ("atype", "btype")
}
_KIND = {
    "kind": (
        Choice(
            ".kind::f8f6f4",
            (8, 6),
            frozenset({Feature.NARROW_CVT}),
            _along(_K32, ".e4m3"),
        ),
    )
}
_FLOAT_SHAPES = (
    Choice(_K16, along=_along(_K16, ".bf16")),
    Choice(_K8, along=_along(_K8, ".bf16")),
    Choice(".m16n8k4", along=_along(".m16n8k4", ".tf32")),
    Choice(_K32, _FP8, along=_along(_K32, ".e4m3")),
)
_INTEGER_TYPES = {
    slot: (
        *(Choice(t, along=_along(_K32, t)) for t in (".s8", ".u8")),
        *(Choice(t, along=_along(".m16n8k64", t)) for t in (".s4", ".u4")),
        Choice(".b1", along=_along(".m16n8k256", ".b1", op=".and.popc")),
    )
    for slot in ("atype", "btype")
}
_INTEGER_SHAPES = (
    Choice(_K32, along=_along(_K32, ".s8")),
    Choice(_K16, along=_along(_K16, ".s8")),
    Choice(".m16n8k64", along=_along(".m16n8k64", ".s4")),
    *(
        Choice(shape, along=_along(shape, ".b1", op=".and.popc"))
        for shape in (".m16n8k128", ".m16n8k256", ".m8n8k128")
    ),
    Choice(".m8n8k16", along=_along(".m8n8k16", ".s8")),
    Choice(".m8n8k32", along=_along(".m8n8k32", ".s4")),
)
_SPARSE_FLOAT_TYPES = {
    slot: (
        Choice(".bf16", along=_along(_K32, ".bf16")),
        Choice(".f16", along=_along(_K32, ".f16")),
        Choice(".tf32", along=_along(_K16, ".tf32")),
        *(Choice(t, _FP8, along=_along(".m16n8k64", t)) for t in (".e4m3", ".e5m2")),
    )
    for slot in ("atype", "btype")
}
_SPARSE_SHAPES = (
    Choice(_K32, along=_along(_K32, ".bf16")),
    Choice(_K16, along=_along(_K16, ".bf16")),
    Choice(_K8, along=_along(_K8, ".tf32")),
    Choice(".m16n8k64", _FP8, along=_along(".m16n8k64", ".e4m3")),
)

WARP_MMA = (
    _row("mma.sync", _TYPED.replace("<satfinite?>", "") + ".f32<atype><btype>.f32", "f32*",
         {"shape": _FLOAT_SHAPES, **_KIND, **_FLOAT_TYPES}, "d = a * b + c in f32"),
    _row("mma.sync.f16", _TYPED.replace("<satfinite?>", "") + ".f16<atype><btype>.f16", "b32*",
         {"shape": (Choice(_K16, along=_along(_K16, ".f16")), Choice(_K8, along=_along(_K8, ".f16")),
                    Choice(_K32, (8, 7), along=_along(_K32, ".e4m3"))),
          **_KIND,
          **{slot: (Choice(".f16", along=_along(_K16, ".f16")),
                    *(Choice(t, (8, 7), along=_along(_K32, t)) for t in (".e4m3", ".e5m2")))
             for slot in ("atype", "btype")}},
         "d = a * b + c in f16, two values to a register"),
    _row("mma.sync.s32", "<shape>.row.col<satfinite?>.s32<atype><btype>.s32<op?>", "b32*",
         {"shape": _INTEGER_SHAPES, "satfinite": texts(".satfinite"), **_INTEGER_TYPES,
          "op": (Choice(".and.popc", (7, 1), along=_along(".m16n8k256", ".b1")),
                 Choice(".xor.popc", along=_along(".m16n8k256", ".b1")))},
         "d = a * b + c in s32"),
    _row("mma.sync.f64", "<shape>.row.col<round?>.f64.f64.f64.f64", "f64*",
         {"shape": (Choice(".m8n8k4"), *texts(".m16n8k4", _K8, _K16, ptx=(7, 8))),
          "round": texts(".rn", ".rz", ".rm", ".rp")},
         "d = a * b + c in f64"),
    _row("mma.sp", "<shape>.row.col.f32<atype><btype>.f32", "f32*",
         {"metadata": texts("::ordered_metadata", ptx=(8, 5)), "shape": _SPARSE_SHAPES,
          **_SPARSE_FLOAT_TYPES},
         "d = a * b + c in f32, a with two of four values", "mma.sp<metadata?>.sync.aligned",
         "{d*}, {a*}, {b*}, {c*}, meta, selector", {"meta": "b32", "selector": "imm"}, (7, 1)),
)

REGISTER_BITS: Mapping[str, int] = {
    ".bf16": 16,
    ".f16": 16,
    ".tf32": 32,
    ".e4m3": 8,
    ".e5m2": 8,
    ".s8": 8,
    ".u8": 8,
    ".s4": 4,
    ".u4": 4,
    ".b1": 1,
}
"""Bits of an element of A or B in a register; f64 operands have registers of their own."""


def fragment_registers(row: str, shape: str, atype: str = "") -> Mapping[str, int]:
    """Registers of `d`, `a`, `b` and `c` of one lane of `mma.sync` row `row` under a shape such as `.m16n8k16`."""
    m, _, rest = shape.removeprefix(".m").partition("n")
    n, _, k = rest.partition("k")
    rows, columns, depth = int(m), int(n), int(k)
    bits = REGISTER_BITS.get(atype, 64)
    stored = depth // 2 if row == "mma.sp" else depth
    per_register = 64 if row == "mma.sync.f64" else 32
    d = rows * columns // 32 // (2 if row == "mma.sync.f16" else 1)
    return {
        "d": d,
        "c": d,
        "a": rows * stored * bits // per_register // 32,
        "b": columns * depth * bits // per_register // 32,
    }
