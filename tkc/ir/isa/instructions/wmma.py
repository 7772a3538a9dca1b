"""Rows of the older warp-level matrix instructions `wmma`, which belong to the family `wgmma`."""

from __future__ import annotations

from collections.abc import Mapping

from tkc.ir.isa.instructions import Choice, Row, texts
from tkc.ir.isa.memory import Effect, Kind, Space, Touch
from tkc.ir.isa.targets import Version

_SECTION = "warp-level-matrix-instructions-wmma-"

_K16 = ".m16n16k16"
_SHAPES = texts(_K16, ".m8n32k16", ".m32n8k16")
_TF32 = Choice(".m16n16k8", (7, 0), along={"type": ".tf32"})
_ACCUMULATORS = (*_SHAPES, Choice(".m16n16k8", (7, 0)))
"""Shapes of accumulators of single precision."""
_SPACES = (*texts(".global", ".shared"), Choice(".shared::cta", (7, 8)))
_LAYOUT = texts(".row", ".col")
_READ: tuple[Effect, ...] = (Touch(Kind.READ, "addr", Space.GENERIC),)
_WRITE: tuple[Effect, ...] = (Touch(Kind.WRITE, "addr", Space.GENERIC),)


def _load(name: str, operand: str, kinds: str, slots: Mapping[str, tuple[Choice, ...]], doc: str) -> Row:
    return Row(
        name,
        f"wmma.load{operand}.sync.aligned<layout><shape><space?><type>",
        "{d*}, [addr]{?, stride}",
        {"d": kinds, "addr": "address", "stride": "b32"},
        ("d",),
        {"layout": _LAYOUT, "space": _SPACES, **slots},
        _READ,
        (6, 0),
        section=_SECTION + "ld",
        doc=doc,
        emitted=False,
        convergent=True,
    )


def _store(
    name: str, kinds: str, types: tuple[Choice, ...], shapes: tuple[Choice, ...], doc: str
) -> Row:
    return Row(
        name,
        "wmma.store.d.sync.aligned<layout><shape><space?><type>",
        "[addr], {a*}{?, stride}",
        {"addr": "address", "a": kinds, "stride": "b32"},
        (),
        {"layout": _LAYOUT, "shape": shapes, "space": _SPACES, "type": types},
        _WRITE,
        (6, 0),
        section=_SECTION + "st",
        doc=doc,
        emitted=False,
        convergent=True,
    )


def _multiply(
    name: str,
    types: str,
    d: str,
    c: str,
    slots: Mapping[str, tuple[Choice, ...]],
    doc: str,
    ptx: Version = (6, 0),
) -> Row:
    return Row(
        name,
        f"wmma.mma.sync.aligned<alayout><blayout><shape>{types}",
        "{d*}, {a*}, {b*}, {c*}",
        {"d": d, "a": "b32*", "b": "b32*", "c": c},
        ("d",),
        {"alayout": _LAYOUT, "blayout": _LAYOUT, "shape": _SHAPES, **slots},
        ptx=ptx,
        section=_SECTION + "mma",
        doc=doc,
        emitted=False,
        convergent=True,
        pure=True,
    )


_NARROW = (
    Choice(".f16"),
    *texts(".s8", ".u8", ptx=(6, 3)),
    Choice(".bf16", (7, 0)),
    Choice(".tf32", (7, 0), along={"shape": ".m16n16k8"}),
)
_INPUT = {"shape": (*_SHAPES, _TF32), "type": _NARROW}

WMMA = (
    _load("wmma.load", "<operand>", "b32*", {"operand": texts(".a", ".b"), **_INPUT},
          "loads a fragment of a or b"),
    _load("wmma.load.c", ".c", "f32*", {"shape": _ACCUMULATORS, "type": texts(".f32")},
          "loads a fragment of c"),
    _load("wmma.load.c.packed", ".c", "b32*",
          {"shape": _SHAPES, "type": (Choice(".f16"), Choice(".s32", (6, 3)))},
          "loads a fragment of c"),
    _store("wmma.store.d", "f32*", texts(".f32"), _ACCUMULATORS, "stores a fragment of d"),
    _store("wmma.store.d.packed", "b32*", (Choice(".f16"), Choice(".s32", (6, 3))), _SHAPES,
           "stores a fragment of d"),
    _multiply("wmma.mma", ".f32.f32", "f32*", "f32*", {}, "d = a * b + c on f16"),
    _multiply("wmma.mma.f16", ".f16.f16", "b32*", "b32*", {}, "d = a * b + c on f16"),
    _multiply("wmma.mma.f32.f16", ".f32.f16", "f32*", "b32*", {}, "d = a * b + c on f16"),
    _multiply("wmma.mma.f16.f32", ".f16.f32", "b32*", "f32*", {}, "d = a * b + c on f16"),
    _multiply(
        "wmma.mma.typed", ".f32<atype><btype>.f32", "f32*", "f32*",
        {"shape": (*_SHAPES, Choice(".m16n16k8", along={"atype": ".tf32", "btype": ".tf32"})),
         **{slot: (Choice(".bf16"),
                   Choice(".tf32", along={"shape": ".m16n16k8", "atype": ".tf32", "btype": ".tf32"}))
            for slot in ("atype", "btype")}},
        "d = a * b + c on bf16 or tf32", (7, 0),
    ),
    _multiply(
        "wmma.mma.s32", ".s32<atype><btype>.s32<satfinite?>", "b32*", "b32*",
        {**{slot: (Choice(".s8", along={"atype": ".s8", "btype": ".s8"}),
                   Choice(".u8", along={"atype": ".u8", "btype": ".u8"}))
            for slot in ("atype", "btype")},
         "satfinite": texts(".satfinite")},
        "d = a * b + c on bytes", (6, 3),
    ),
)


def wmma_registers(operand: str, shape: str, kind: str) -> int:
    """Registers of one lane for operand "a", "b", "c" or "d" of a shape such as `.m16n16k16` and a type `.f16`."""
    m, _, rest = shape.removeprefix(".m").partition("n")
    n, _, k = rest.partition("k")
    if operand in ("c", "d"):
        return int(m) * int(n) // 32 // (2 if kind == ".f16" else 1)
    if kind == ".f16":
        return 8
    rows = int(m) if operand == "a" else int(n)
    bits = {".bf16": 16, ".tf32": 32, ".s8": 8, ".u8": 8}[kind]
    return rows * int(k) * bits // 1024
