"""Rows of sparse, weight-stationary and look-up tcgen05.mma and of reducing loads, of the family `tcgen05`."""

from __future__ import annotations

from collections.abc import Mapping

from tkc.ir.isa.instructions import Choice, Row, Together, texts
from tkc.ir.isa.memory import Done, Effect, Kind, Proxy, Scope, Signal, Space, Touch
from tkc.ir.isa.targets import Feature, Version

_TCGEN05 = frozenset({Feature.TCGEN05})
_SECTION = "tensorcore-5th-generation-instructions-tcgen05-"
_PAIR = texts(".cta_group::1", ".cta_group::2")
_ALONE = texts(".cta_group::1")


def _tensor(kind: Kind, operand: str, done: Done = Done.TCGEN05_COMMIT) -> Touch:
    return Touch(kind, operand, Space.TENSOR, Proxy.TENSOR, done)


def _shared(operand: str) -> Touch:
    return Touch(Kind.READ, operand, Space.SHARED, Proxy.ASYNC, Done.TCGEN05_COMMIT)


_COLLECTOR_A = texts(
    ".collector::a::fill",
    ".collector::a::use",
    ".collector::a::lastuse",
    ".collector::a::discard",
)
_COLLECTOR_WS = texts(
    *(f".collector::b{i}::{use}" for i in range(4) for use in ("fill", "use", "lastuse", "discard"))
)
_COLLECTOR_B = texts(
    *(f".collector::b::{use}" for use in ("fill", "use", "lastuse", "discard")),
    ptx=(9, 4),
    needs=frozenset({Feature.TCGEN05_COLLECTOR_B}),
)
_KINDS = (
    *texts(".kind::f16", ".kind::tf32", ".kind::f8f6f4"),
    Choice(".kind::i8", needs=frozenset({Feature.TCGEN05_I8})),
    Choice(".kind::ti16", (9, 4), frozenset({Feature.TCGEN05_TI16})),
)
_SPARSE_FP4 = frozenset({Feature.TCGEN05_SPARSE_FP4})
_VEC = frozenset({Feature.SCALE_VEC})
_BLOCK_KINDS = (
    Choice(".kind::mxf8f6f4"),
    Choice(".kind::mxf4", needs=_SPARSE_FP4),
    Choice(".kind::mxf4nvf4", (8, 7), _SPARSE_FP4, {"block": ".block16"}),
)
_BLOCKS = (
    Choice(".block32", (8, 8)),
    Choice(".block16", (8, 8), along={"kind": ".kind::mxf4nvf4"}),
    Choice(".scale_vec::1X", needs=_VEC),
    Choice(".scale_vec::2X", needs=_VEC, along={"kind": ".kind::mxf4"}),
    Choice(".scale_vec::4X", needs=_VEC, along={"kind": ".kind::mxf4nvf4"}),
)

_ACCUMULATE: tuple[Effect, ...] = (
    _shared("b_desc"),
    _tensor(Kind.READ, "d"),
    _tensor(Kind.WRITE, "d"),
)
_SCALES: tuple[Effect, ...] = (_tensor(Kind.READ, "scale_a"), _tensor(Kind.READ, "scale_b"))
_OPERANDS: Mapping[str, str] = {"d": "b32", "b_desc": "b64", "idesc": "b32", "enable": "pred"}


def _both(
    name: str,
    mnemonic: str,
    tail: str,
    operands: Mapping[str, str],
    slots: Mapping[str, tuple[Choice, ...]],
    effects: tuple[Effect, ...],
    section: str,
    doc: str,
    ptx: Version = (8, 6),
    needs: frozenset[Feature] = _TCGEN05,
    ashift: bool = False,
    together: tuple[Together, ...] = (),
) -> tuple[Row, Row]:
    """The forms with A in shared memory and, as `.ts`, in tensor memory."""
    shift = {"ashift": texts(".ashift")} if ashift else {}
    return (
        Row(
            name, mnemonic.replace("<ashift?>", ""), f"[d], a_desc, {tail}",
            {**_OPERANDS, **operands, "a_desc": "b64"}, (), slots,
            (_shared("a_desc"), *_ACCUMULATE, *effects), ptx, needs, _SECTION + section, doc,
            False, together=together,
        ),
        Row(
            f"{name}.ts", mnemonic, f"[d], [a], {tail}",
            {**_OPERANDS, **operands, "a": "b32"}, (), {**slots, **shift},
            (_tensor(Kind.READ, "a"), *_ACCUMULATE, *effects), ptx, needs, _SECTION + section,
            f"{doc}; a in tensor memory", False, together=together,
        ),
    )


_META: tuple[Effect, ...] = (_tensor(Kind.READ, "meta"),)

MULTIPLIES = (
    *_both(
        "tcgen05.mma.sp", "tcgen05.mma.sp<cta_group><kind><ashift?><collector_a?><collector_b?>",
        "b_desc, [meta], idesc{?, {disable*}}, enable{?, scale_d}",
        {"meta": "b32", "disable": "b32*", "scale_d": "imm"},
        {"cta_group": _PAIR, "kind": _KINDS, "collector_a": _COLLECTOR_A,
         "collector_b": _COLLECTOR_B},
        _META, "mma-sp", "as tcgen05.mma, a with two of four values", ashift=True,
    ),
    *_both(
        "tcgen05.mma.sp.block_scale",
        "tcgen05.mma.sp<cta_group><kind>.block_scale<block?><collector_a?><collector_b?>",
        "b_desc, [meta], idesc, [scale_a], [scale_b], enable",
        {"meta": "b32", "scale_a": "b32", "scale_b": "b32"},
        {"cta_group": _PAIR, "kind": _BLOCK_KINDS, "block": _BLOCKS, "collector_a": _COLLECTOR_A,
         "collector_b": _COLLECTOR_B},
        (*_META, *_SCALES), "mma-sp", "as tcgen05.mma.block_scale, a with two of four values",
    ),
    *_both(
        "tcgen05.mma.ws", "tcgen05.mma.ws<cta_group><kind><collector?>",
        "b_desc, idesc, enable{?, zero_columns}", {"zero_columns": "b64"},
        {"cta_group": _ALONE, "kind": _KINDS, "collector": _COLLECTOR_WS},
        (), "mma-ws", "as tcgen05.mma, b kept in a collector buffer",
    ),
    *_both(
        "tcgen05.mma.ws.sp", "tcgen05.mma.ws.sp<cta_group><kind><collector?>",
        "b_desc, [meta], idesc, enable{?, zero_columns}", {"meta": "b32", "zero_columns": "b64"},
        {"cta_group": _ALONE, "kind": _KINDS, "collector": _COLLECTOR_WS},
        _META, "mma-ws-sp", "as tcgen05.mma.ws, a with two of four values",
    ),
    *_both(
        "tcgen05.mma.lut", "tcgen05.mma<cta_group>.kind::f8f6f4.decompress::lut::b<collector_a?>",
        "b_desc, [lut], idesc, enable", {"lut": "b32"},
        {"cta_group": _PAIR, "collector_a": _COLLECTOR_A},
        (_tensor(Kind.READ, "lut"),), "mma", "as tcgen05.mma, b read through a look-up table",
        (9, 4), _TCGEN05 | {Feature.TCGEN05_LUT},
    ),
    *_both(
        "tcgen05.mma.lut.block_scale",
        "tcgen05.mma<cta_group>.kind::mxf8f6f4.block_scale.decompress::lut::b<block?><collector_a?>",
        "b_desc, [lut], idesc, [scale_a], [scale_b], enable",
        {"lut": "b32", "scale_a": "b32", "scale_b": "b32"},
        {"cta_group": _PAIR, "block": texts(".block32"), "collector_a": _COLLECTOR_A},
        (_tensor(Kind.READ, "lut"), *_SCALES), "mma",
        "as tcgen05.mma.block_scale, b read through a look-up table",
        (9, 4), _TCGEN05 | {Feature.TCGEN05_LUT},
    ),
)

_NUM = texts(".x2", ".x4", ".x8", ".x16", ".x32", ".x64", ".x128")
_RED_READ: tuple[Effect, ...] = (_tensor(Kind.READ, "taddr", Done.TCGEN05_WAIT),)
_RED = {
    "num": _NUM,
    "op": texts(".max", ".min"),
    "abs": texts(".abs"),
    "nan": texts(".NaN"),
}
_RED_NEEDS = _TCGEN05 | {Feature.TCGEN05_LD_RED}

LOADS = (
    *(
        Row(
            f"tcgen05.ld.red{name}", f"tcgen05.ld.red.sync.aligned{shape}<num><op>{mods}{kind}",
            f"d, r, [taddr]{more}",
            {"d": "vec", "r": "f32" if kind == ".f32" else "b32", "taddr": "b32"}
            | ({"offset": "imm"} if more else {}),
            ("d", "r"),
            {k: v for k, v in _RED.items() if f"<{k}" in f"<num><op>{mods}"} | types,
            _RED_READ, (8, 8), _RED_NEEDS, _SECTION + "ld",
            "loads tensor memory, and reduces the columns of each lane", False, True,
        )
        for shape, more, split in ((".32x32b", "", ""), (".16x32bx2", ", offset", ".16x32bx2"))
        for name, mods, kind, types in (
            (split, "<abs?><nan?>", ".f32", {}),
            (f"{split}.int", "", "<type>", {"type": texts(".u32", ".s32")}),
        )
    ),
    Row(
        "tcgen05.ld.spcompress",
        "tcgen05.ld.spcompress.sync.aligned.32x32b<num>.max.sp::2:4<abs?>.f32.b2",
        "{meta*}, d, [taddr]",
        {"meta": "b32*", "d": "vec", "taddr": "b32"},
        ("meta", "d"),
        {"num": texts(".x32"), "abs": texts(".abs")},
        _RED_READ, (9, 4), _TCGEN05 | {Feature.TCGEN05_LD_COMPRESS}, _SECTION + "ld",
        "loads tensor memory, keeping the larger two of every four columns", False, True,
    ),
    Row(
        "tcgen05.commit.wide",
        "tcgen05.commit<cta_group>.mbarrier::arrive::one.shared::cluster"
        ".multicast::cluster::32b.b64",
        "[bar], mask",
        {"bar": "b32", "mask": "b32"},
        (),
        {"cta_group": _PAIR},
        (Signal("bar", 1, scope=Scope.CLUSTER),), (9, 4), _TCGEN05 | {Feature.MULTICAST_32},
        _SECTION + "commit", "as tcgen05.commit, to CTAs of a 32-bit mask", False,
    ),
)

RARE = (*MULTIPLIES, *LOADS)
