"""Rows of the fifth-generation tensor core and its tensor memory (sm_100 family)."""

from __future__ import annotations

from tkc.ir.isa.instructions import Choice, Row, texts
from tkc.ir.isa.instructions.tcgen05_rare import RARE
from tkc.ir.isa.memory import Await, Done, Effect, Kind, Order, Proxy, Scope, Signal, Space, Touch
from tkc.ir.isa.targets import Feature

_TCGEN05 = frozenset({Feature.TCGEN05})
_SECTION = "tensorcore-5th-generation-instructions-tcgen05-"

_CTA_GROUP = texts(".cta_group::1", ".cta_group::2")


def _tensor(kind: Kind, operand: str, done: Done) -> Touch:
    return Touch(kind, operand, Space.TENSOR, Proxy.TENSOR, done)


def _shared(operand: str) -> Touch:
    return Touch(Kind.READ, operand, Space.SHARED, Proxy.ASYNC, Done.TCGEN05_COMMIT)


ALLOCATION = (
    Row(
        "tcgen05.alloc",
        "tcgen05.alloc<exclusive?><cta_group>.sync.aligned<space?>.b32",
        "[dst], columns",
        {"dst": "address", "columns": "b32"},
        (),
        {
            "exclusive": texts(".exclusive", ptx=(9, 4)),
            "cta_group": _CTA_GROUP,
            "space": texts(".shared::cta"),
        },
        (Touch(Kind.WRITE, "dst", Space.SHARED), Touch(Kind.WRITE, "columns", Space.TENSOR)),
        (8, 6),
        _TCGEN05,
        _SECTION + "alloc",
        "allocates columns (a power of two, 32..512) and writes their address to shared memory",
        convergent=True,
    ),
    Row(
        "tcgen05.dealloc",
        "tcgen05.dealloc<exclusive?><cta_group>.sync.aligned.b32",
        "taddr, columns",
        {"taddr": "b32", "columns": "b32"},
        (),
        {"exclusive": texts(".exclusive", ptx=(9, 4)), "cta_group": _CTA_GROUP},
        (Touch(Kind.WRITE, "taddr", Space.TENSOR),),
        (8, 6),
        _TCGEN05,
        _SECTION + "dealloc",
        "frees columns, as many as were allocated at this address",
        convergent=True,
    ),
    Row(
        "tcgen05.relinquish_alloc_permit",
        "tcgen05.relinquish_alloc_permit<cta_group>.sync.aligned",
        "",
        {},
        (),
        {"cta_group": _CTA_GROUP},
        (Signal("", 0),),
        (8, 6),
        _TCGEN05,
        _SECTION + "relinquish-alloc-permit",
        "gives up the right to allocate, so that another CTA of the SM may",
        convergent=True,
    ),
)

SHAPES = (".32x32b", ".16x64b", ".16x128b", ".16x256b")
_NUM = (
    *texts(".x1", ".x2", ".x4", ".x8", ".x16", ".x32"),
    *texts(".x64", ".x128", along={"shape": ".32x32b"}),
)

_NUM_FLAT = texts(".x1", ".x2", ".x4", ".x8", ".x16", ".x32", ".x64", ".x128")

MOVES = (
    Row(
        "tcgen05.ld",
        "tcgen05.ld.sync.aligned<shape><num><pack?>.b32",
        "d, [taddr]",
        {"d": "vec", "taddr": "b32"},
        ("d",),
        {"shape": texts(*SHAPES), "num": _NUM, "pack": texts(".pack::16b")},
        (_tensor(Kind.READ, "taddr", Done.TCGEN05_WAIT),),
        (8, 6),
        _TCGEN05,
        _SECTION + "ld",
        "loads tensor memory into registers, each warp from its own 32 lanes",
        convergent=True,
    ),
    Row(
        "tcgen05.ld.16x32bx2",
        "tcgen05.ld.sync.aligned.16x32bx2<num><pack?>.b32",
        "d, [taddr], offset",
        {"d": "vec", "taddr": "b32", "offset": "imm"},
        ("d",),
        {"num": _NUM_FLAT, "pack": texts(".pack::16b")},
        (_tensor(Kind.READ, "taddr", Done.TCGEN05_WAIT),),
        (8, 6),
        _TCGEN05,
        _SECTION + "ld",
        "loads two column ranges, `offset` columns apart, from 16 lanes",
        convergent=True,
    ),
    Row(
        "tcgen05.st",
        "tcgen05.st.sync.aligned<shape><num><unpack?>.b32",
        "[taddr], {a*}",
        {"taddr": "b32", "a": "any*"},
        (),
        {"shape": texts(*SHAPES), "num": _NUM, "unpack": texts(".unpack::16b")},
        (_tensor(Kind.WRITE, "taddr", Done.TCGEN05_WAIT),),
        (8, 6),
        _TCGEN05,
        _SECTION + "st",
        "stores registers to tensor memory, each warp to its own 32 lanes",
        convergent=True,
    ),
    Row(
        "tcgen05.st.16x32bx2",
        "tcgen05.st.sync.aligned.16x32bx2<num><unpack?>.b32",
        "[taddr], offset, a",
        {"taddr": "b32", "offset": "imm", "a": "vec"},
        (),
        {"num": _NUM_FLAT, "unpack": texts(".unpack::16b")},
        (_tensor(Kind.WRITE, "taddr", Done.TCGEN05_WAIT),),
        (8, 6),
        _TCGEN05,
        _SECTION + "st",
        "stores to two column ranges, `offset` columns apart, of 16 lanes",
        convergent=True,
    ),
    *(
        Row(
            f"tcgen05.wait::{which}",
            f"tcgen05.wait::{which}.sync.aligned",
            "",
            effects=(Await("", Done.TCGEN05_WAIT),),
            ptx=(8, 6),
            needs=_TCGEN05,
            section=_SECTION + "wait",
            doc=f"waits for every tcgen05.{which} of the thread",
            convergent=True,
        )
        for which in ("ld", "st")
    ),
)

_COPY: tuple[Effect, ...] = (
    _shared("desc"),
    _tensor(Kind.WRITE, "taddr", Done.TCGEN05_COMMIT),
)
_DECOMPRESS = texts(".b8x16.b4x16_p64", ".b8x16.b6x16_p32", along={"shape": ".128x256b"})

COPIES = (
    Row(
        "tcgen05.cp",
        "tcgen05.cp<cta_group><shape><decompress?>",
        "[taddr], desc",
        {"taddr": "b32", "desc": "b64"},
        (),
        {
            "cta_group": _CTA_GROUP,
            "shape": texts(
                ".128x256b",
                ".128x128b",
                ".4x256b",
                ".64x128b.warpx2::02_13",
                ".64x128b.warpx2::01_23",
                ".32x128b.warpx4",
            ),
            "decompress": _DECOMPRESS,
        },
        _COPY,
        (8, 6),
        _TCGEN05,
        _SECTION + "cp",
        "copies shared memory that a matrix descriptor names into tensor memory",
    ),
    Row(
        "tcgen05.shift",
        "tcgen05.shift<cta_group>.down",
        "[taddr]",
        {"taddr": "b32"},
        (),
        {"cta_group": _CTA_GROUP},
        (
            _tensor(Kind.READ, "taddr", Done.TCGEN05_COMMIT),
            _tensor(Kind.WRITE, "taddr", Done.TCGEN05_COMMIT),
        ),
        (8, 6),
        _TCGEN05 | {Feature.TCGEN05_SHIFT},
        _SECTION + "shift",
        "moves the rows of a 32-byte wide matrix down by one",
    ),
)

_COLLECTOR_A = texts(
    ".collector::a::fill",
    ".collector::a::use",
    ".collector::a::lastuse",
    ".collector::a::discard",
)
_COLLECTOR_B = texts(
    ".collector::b::fill",
    ".collector::b::use",
    ".collector::b::lastuse",
    ".collector::b::discard",
    ptx=(9, 4),
    needs=frozenset({Feature.TCGEN05_COLLECTOR_B}),
)
_KINDS = (
    *texts(".kind::f16", ".kind::tf32", ".kind::f8f6f4"),
    Choice(".kind::i8", needs=frozenset({Feature.TCGEN05_I8})),
    Choice(".kind::ti16", (9, 4), frozenset({Feature.TCGEN05_TI16})),
)
_MMA_OPERANDS = {
    "d": "b32",
    "b_desc": "b64",
    "idesc": "b32",
    "disable": "b32*",
    "enable": "pred",
    "scale_d": "imm",
}
_ACCUMULATE: tuple[Effect, ...] = (
    _shared("b_desc"),
    _tensor(Kind.READ, "d", Done.TCGEN05_COMMIT),
    _tensor(Kind.WRITE, "d", Done.TCGEN05_COMMIT),
)
_FROM_SHARED = _shared("a_desc")
_FROM_TENSOR = _tensor(Kind.READ, "a", Done.TCGEN05_COMMIT)

_MMA = "tcgen05.mma<cta_group><kind><ashift?><collector_a?><collector_b?>"
_MMA_TAIL = "b_desc, idesc{?, {disable*}}, enable{?, scale_d}"
_MMA_SLOTS = {
    "cta_group": _CTA_GROUP,
    "kind": _KINDS,
    "collector_a": _COLLECTOR_A,
    "collector_b": _COLLECTOR_B,
}

_SCALED = "tcgen05.mma<cta_group><kind>.block_scale<block?><collector_a?><collector_b?>"
_SCALED_TAIL = "b_desc, idesc, [scale_a], [scale_b], enable"
_SCALED_OPERANDS = {
    "d": "b32",
    "b_desc": "b64",
    "idesc": "b32",
    "scale_a": "b32",
    "scale_b": "b32",
    "enable": "pred",
}
_VEC = frozenset({Feature.SCALE_VEC})
_SCALED_SLOTS = {
    "cta_group": _CTA_GROUP,
    "kind": (
        *texts(".kind::mxf8f6f4", ".kind::mxf4"),
        Choice(".kind::mxf4nvf4", (8, 7), along={"block": ".block16"}),
    ),
    "block": (
        Choice(".block32", (8, 8)),
        Choice(".block16", (8, 8), along={"kind": ".kind::mxf4nvf4"}),
        Choice(".scale_vec::1X", needs=_VEC),
        Choice(".scale_vec::2X", needs=_VEC, along={"kind": ".kind::mxf4"}),
        Choice(".scale_vec::4X", needs=_VEC, along={"kind": ".kind::mxf4nvf4"}),
    ),
    "collector_a": _COLLECTOR_A,
    "collector_b": _COLLECTOR_B,
}
_SCALES: tuple[Effect, ...] = (
    _tensor(Kind.READ, "scale_a", Done.TCGEN05_COMMIT),
    _tensor(Kind.READ, "scale_b", Done.TCGEN05_COMMIT),
)

MULTIPLIES = (
    Row(
        "tcgen05.mma",
        _MMA.replace("<ashift?>", ""),
        f"[d], a_desc, {_MMA_TAIL}",
        {**_MMA_OPERANDS, "a_desc": "b64"},
        (),
        _MMA_SLOTS,
        (_FROM_SHARED, *_ACCUMULATE),
        (8, 6),
        _TCGEN05,
        _SECTION + "mma",
        "d = a * b + (enable ? d : 0) in tensor memory, both operands in shared memory",
    ),
    Row(
        "tcgen05.mma.ts",
        _MMA,
        f"[d], [a], {_MMA_TAIL}",
        {**_MMA_OPERANDS, "a": "b32"},
        (),
        {**_MMA_SLOTS, "ashift": texts(".ashift")},
        (_FROM_TENSOR, *_ACCUMULATE),
        (8, 6),
        _TCGEN05,
        _SECTION + "mma",
        "d = a * b + (enable ? d : 0), a in tensor memory",
    ),
    Row(
        "tcgen05.mma.block_scale",
        _SCALED,
        f"[d], a_desc, {_SCALED_TAIL}",
        {**_SCALED_OPERANDS, "a_desc": "b64"},
        (),
        _SCALED_SLOTS,
        (_FROM_SHARED, *_ACCUMULATE, *_SCALES),
        (8, 6),
        _TCGEN05,
        _SECTION + "mma",
        "as tcgen05.mma, each block of K scaled by factors in tensor memory",
    ),
    Row(
        "tcgen05.mma.block_scale.ts",
        _SCALED,
        f"[d], [a], {_SCALED_TAIL}",
        {**_SCALED_OPERANDS, "a": "b32"},
        (),
        _SCALED_SLOTS,
        (_FROM_TENSOR, *_ACCUMULATE, *_SCALES),
        (8, 6),
        _TCGEN05,
        _SECTION + "mma",
        "as tcgen05.mma.ts, each block of K scaled by factors in tensor memory",
    ),
)

ORDERING = (
    Row(
        "tcgen05.commit",
        "tcgen05.commit<cta_group>.mbarrier::arrive::one<restrict?><space?><multicast?>.b64",
        "[bar]{?, mask}",
        {"bar": "address", "mask": "b16"},
        (),
        {
            "cta_group": _CTA_GROUP,
            "restrict": texts(
                ".sync_restrict::shared::read::mma::a",
                ptx=(9, 4),
                needs=frozenset({Feature.TCGEN05_COMMIT_READ}),
            ),
            "space": texts(".shared::cluster"),
            "multicast": (
                Choice(".multicast::cluster", along={"space": ".shared::cluster"}),
                Choice(".multicast::cluster::16b", (9, 4), along={"space": ".shared::cluster"}),
            ),
        },
        (Signal("bar", 1, scope=Scope.CLUSTER),),
        (8, 6),
        _TCGEN05,
        _SECTION + "commit",
        "one arrival on the barrier when every earlier mma, cp and shift of the thread is done",
    ),
    Row(
        "tcgen05.fence::before_thread_sync",
        "tcgen05.fence::before_thread_sync",
        "",
        effects=(Order(Proxy.TENSOR, Proxy.GENERIC, Space.TENSOR),),
        ptx=(8, 6),
        needs=_TCGEN05,
        section=_SECTION + "fence",
        doc="orders earlier tcgen05 of the thread before a later synchronisation",
    ),
    Row(
        "tcgen05.fence::after_thread_sync",
        "tcgen05.fence::after_thread_sync",
        "",
        effects=(Order(Proxy.GENERIC, Proxy.TENSOR, Space.TENSOR),),
        ptx=(8, 6),
        needs=_TCGEN05,
        section=_SECTION + "fence",
        doc="orders later tcgen05 of the thread after an earlier synchronisation",
    ),
)

ROWS = (*ALLOCATION, *MOVES, *COPIES, *MULTIPLIES, *ORDERING, *RARE)
