"""Rows of the warpgroup's asynchronous matrix multiply (sm_90a)."""

from __future__ import annotations

from tkc.ir.isa.instructions import Choice, Row, Together, texts
from tkc.ir.isa.instructions.warp_mma import WARP_MMA
from tkc.ir.isa.instructions.wmma import WMMA
from tkc.ir.isa.memory import Await, Done, Effect, Kind, Order, Proxy, Signal, Space, Touch
from tkc.ir.isa.targets import Feature

_WGMMA = frozenset({Feature.WGMMA})
_SECTION = "asynchronous-warpgroup-level-matrix-instructions-wgmma-"

_BF16 = {"dtype": ".f32", "atype": ".bf16", "btype": ".bf16"}
_TF32 = {"dtype": ".f32", "atype": ".tf32", "btype": ".tf32"}
_FP8 = {"dtype": ".f32", "atype": ".e4m3", "btype": ".e4m3"}
_S8 = {"dtype": ".s32", "atype": ".s8", "btype": ".s8"}
_B1 = {"dtype": ".s32", "atype": ".b1", "btype": ".b1", "op": ".and.popc"}

N_FLOAT = tuple(range(8, 257, 8))
"""N of the floating-point shapes."""
N_INTEGER = (8, 16, 24, *range(32, 257, 16))
"""N of the integer shapes."""

_SHAPES = (
    *(Choice(f".m64n{n}k16", along=_BF16) for n in N_FLOAT),
    *(Choice(f".m64n{n}k8", along=_TF32) for n in N_FLOAT),
    *(Choice(f".m64n{n}k32", along=_FP8) for n in N_FLOAT),
    *(Choice(f".m64n{n}k256", along=_B1) for n in N_INTEGER),
)

_K16 = {"shape": ".m64n64k16"}
_K32 = {"shape": ".m64n64k32"}
_TYPES = {
    "dtype": (
        Choice(".f32"),
        Choice(".f16", along={"atype": ".f16", "btype": ".f16"}),
        Choice(".s32", along={**_K32, **_S8}),
    ),
    "atype": (
        Choice(".bf16", along={"btype": ".bf16"}),
        Choice(".f16", along={"btype": ".f16"}),
        Choice(".tf32", along={"shape": ".m64n64k8", "btype": ".tf32"}),
        *texts(".e4m3", ".e5m2", along={**_K32, "btype": ".e4m3"}),
        *(Choice(t, along={**_K32, "dtype": ".s32", "btype": t}) for t in (".s8", ".u8")),
        Choice(".b1", along={"shape": ".m64n64k256", **_B1}),
    ),
    "btype": (
        Choice(".bf16", along={"atype": ".bf16"}),
        Choice(".f16", along={"atype": ".f16"}),
        Choice(".tf32", along={"shape": ".m64n64k8", "atype": ".tf32"}),
        *texts(".e4m3", ".e5m2", along={**_K32, "atype": ".e4m3"}),
        *(Choice(t, along={**_K32, "dtype": ".s32", "atype": t}) for t in (".s8", ".u8")),
        Choice(".b1", along={"shape": ".m64n64k256", **_B1}),
    ),
    "satfinite": texts(".satfinite", along={**_K32, **_S8}),
    "op": texts(".and.popc", along={"shape": ".m64n64k256", **_B1}),
}

_MIXED_INTEGERS = tuple(
    Together({"atype": a, "btype": b}, (8, 4))
    for a, b in ((".s8", ".u8"), (".u8", ".s8"))
)


def _group_read(operand: str) -> Touch:
    return Touch(Kind.READ, operand, Space.SHARED, Proxy.ASYNC, Done.WGMMA_GROUP)


def _registers(kind: Kind, operand: str) -> Touch:
    return Touch(kind, operand, Space.REGISTER, Proxy.ASYNC, Done.WGMMA_GROUP)


_OPERANDS = {
    "d": "vec",
    "c": "vec",
    "b_desc": "b64",
    "scale_d": "pred",
    "scale_a": "imm",
    "scale_b": "imm",
    "trans_a": "imm",
    "trans_b": "imm",
}
_MNEMONIC = "wgmma.mma_async.sync.aligned<shape><dtype><atype><btype><satfinite?><op?>"
_EFFECTS: tuple[Effect, ...] = (
    _group_read("b_desc"),
    _registers(Kind.READ, "c"),
    _registers(Kind.WRITE, "d"),
)

WGMMA = (
    Row(
        "wgmma.fence",
        "wgmma.fence.sync.aligned",
        "",
        effects=(Order(Proxy.GENERIC, Proxy.ASYNC, Space.REGISTER),),
        ptx=(8, 0),
        needs=_WGMMA,
        section=_SECTION + "fence",
        doc="orders register accesses before it to the wgmma after it",
        convergent=True,
    ),
    Row(
        "wgmma.mma_async",
        _MNEMONIC,
        "d, a_desc, b_desc, scale_d{?, scale_a, scale_b}{?, trans_a, trans_b}",
        {**_OPERANDS, "a_desc": "b64"},
        ("d",),
        {"shape": _SHAPES, **_TYPES},
        (_group_read("a_desc"), *_EFFECTS),
        (8, 0),
        _WGMMA,
        _SECTION + "mma-async",
        "d = a * b + (scale_d ? d : 0), both operands in shared memory",
        convergent=True,
        tied={"d": "c"},
        together=_MIXED_INTEGERS,
    ),
    Row(
        "wgmma.mma_async.rs",
        _MNEMONIC,
        "d, {a*}, b_desc, scale_d{?, scale_a, scale_b}{?, trans_b}",
        {k: v for k, v in {**_OPERANDS, "a": "b32*"}.items() if k != "trans_a"},
        ("d",),
        {"shape": _SHAPES, **_TYPES},
        (_registers(Kind.READ, "a"), *_EFFECTS),
        (8, 0),
        _WGMMA,
        _SECTION + "mma-async",
        "d = a * b + (scale_d ? d : 0), a in registers",
        convergent=True,
        tied={"d": "c"},
        together=_MIXED_INTEGERS,
    ),
    Row(
        "wgmma.commit_group",
        "wgmma.commit_group.sync.aligned",
        "",
        effects=(Signal("", 0),),
        ptx=(8, 0),
        needs=_WGMMA,
        section=_SECTION + "commit-group",
        doc="gathers the wgmma of the warpgroup since the last commit into a group",
        convergent=True,
    ),
    Row(
        "wgmma.wait_group",
        "wgmma.wait_group.sync.aligned",
        "count",
        {"count": "imm"},
        effects=(Await("", Done.WGMMA_GROUP),),
        ptx=(8, 0),
        needs=_WGMMA,
        section=_SECTION + "wait-group",
        doc="waits until at most `count` of the newest groups are in flight",
        convergent=True,
    ),
)

_SPARSE_SHAPES = (
    *(Choice(f".m64n{n}k32", along=_BF16) for n in N_FLOAT),
    *(Choice(f".m64n{n}k16", along=_TF32) for n in N_FLOAT),
    *(Choice(f".m64n{n}k64", along=_FP8) for n in N_FLOAT),
)
_K64 = {"shape": ".m64n64k64"}
_SPARSE_TYPES = {
    "dtype": (
        Choice(".f32"),
        Choice(".f16", along={"atype": ".f16", "btype": ".f16"}),
        Choice(".s32", along={**_K64, **_S8}),
    ),
    **{
        slot: (
            *(Choice(t, along={"atype": t, "btype": t}) for t in (".bf16", ".f16")),
            Choice(".tf32", along={"shape": ".m64n64k16", "atype": ".tf32", "btype": ".tf32"}),
            *(Choice(t, along={**_K64, "atype": t, "btype": t}) for t in (".e4m3", ".e5m2")),
            *(
                Choice(t, along={**_K64, "dtype": ".s32", "atype": t, "btype": t})
                for t in (".s8", ".u8")
            ),
        )
        for slot in ("atype", "btype")
    },
    "satfinite": texts(".satfinite", along={**_K64, **_S8}),
}

SPARSE = (
    Row(
        "wgmma.mma_async.sp",
        "wgmma.mma_async.sp.sync.aligned<shape><dtype><atype><btype><satfinite?>",
        "d, a_desc, b_desc, meta, selector, scale_d{?, scale_a, scale_b}{?, trans_a, trans_b}",
        {**_OPERANDS, "a_desc": "b64", "meta": "b32", "selector": "imm"},
        ("d",),
        {"shape": _SPARSE_SHAPES, **_SPARSE_TYPES},
        (_group_read("a_desc"), *_EFFECTS),
        (8, 2),
        _WGMMA,
        _SECTION + "mma-async-sp",
        "as wgmma.mma_async, a with two of four values",
        emitted=False,
        convergent=True,
        tied={"d": "c"},
        together=_MIXED_INTEGERS,
    ),
    Row(
        "wgmma.mma_async.sp.rs",
        "wgmma.mma_async.sp.sync.aligned<shape><dtype><atype><btype><satfinite?>",
        "d, {a*}, b_desc, meta, selector, scale_d{?, scale_a, scale_b}{?, trans_b}",
        {
            **{k: v for k, v in _OPERANDS.items() if k != "trans_a"},
            "a": "b32*",
            "meta": "b32",
            "selector": "imm",
        },
        ("d",),
        {"shape": _SPARSE_SHAPES, **_SPARSE_TYPES},
        (_registers(Kind.READ, "a"), *_EFFECTS),
        (8, 2),
        _WGMMA,
        _SECTION + "mma-async-sp",
        "as wgmma.mma_async.rs, a with two of four values",
        emitted=False,
        convergent=True,
        tied={"d": "c"},
        together=_MIXED_INTEGERS,
    ),
)

ROWS = (*WGMMA, *SPARSE, *WARP_MMA, *WMMA)
