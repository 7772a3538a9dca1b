"""Rows of atomics, reductions and asynchronous stores, which belong to the family `memory`."""

from __future__ import annotations

from tkc.ir.isa.instructions import Choice, Row, texts
from tkc.ir.isa.memory import Done, Effect, Kind, Proxy, Scope, Signal, Space, Touch
from tkc.ir.isa.targets import Feature

_SYNC = "parallel-synchronization-and-communication-instructions-"
_MOVE = "data-movement-and-conversion-instructions-"
_CLUSTER = frozenset({Feature.CLUSTER})

_UPDATE: tuple[Effect, ...] = (
    Touch(Kind.READ, "addr", Space.GENERIC),
    Touch(Kind.WRITE, "addr", Space.GENERIC),
)

_SPACES = (*texts(".global", ".shared"), *texts(".shared::cta", ".shared::cluster", ptx=(7, 8)))
_SCOPES = (*texts(".gpu", ".cta", ".sys"), Choice(".cluster", (7, 8)))
_SEM = texts(".relaxed", ".acquire", ".release", ".acq_rel", along={"scope": ".gpu"})
_RED_SEM = texts(".relaxed", ".release", along={"scope": ".gpu"})
_HINT = texts(".L2::cache_hint", ptx=(7, 4), along={"space": ".global"})

_OPS = (
    *texts(".add", ".min", ".max"),
    *texts(".and", ".or", ".xor", along={"type": ".b32"}),
    *texts(".inc", ".dec"),
)
_TYPES = (
    *texts(".u32", ".s32", ".u64"),
    Choice(".s64", along={"op": ".min"}),
    *texts(".f32", ".f64"),
    *texts(".b32", ".b64", along={"op": ".and"}),
    *texts(".f16", ".f16x2", ptx=(6, 3), along={"noftz": ".noftz"}),
    *texts(".bf16", ".bf16x2", ptx=(7, 8), along={"noftz": ".noftz"}),
)
_NOFTZ = texts(".noftz", ptx=(6, 2), along={"type": ".f16x2"})
_VEC = (
    Choice(".v2", (8, 1), along={"space": ".global", "type": ".f32"}),
    Choice(".v4", (8, 1), along={"space": ".global", "type": ".f32"}),
    Choice(".v8", (8, 1), along={"space": ".global", "noftz": ".noftz", "type": ".bf16"}),
)
_VEC_TYPES = (
    Choice(".f32", along={"vec": ".v2"}),
    *texts(".f16", ".bf16", ".f16x2", ".bf16x2", along={"noftz": ".noftz", "vec": ".v2"}),
)
_VEC_OPS = (
    Choice(".add"),
    *texts(".min", ".max", along={"noftz": ".noftz", "vec": ".v2", "type": ".f16x2"}),
)
_VEC_SLOTS = {
    "scope": _SCOPES,
    "space": texts(".global"),
    "op": _VEC_OPS,
    "noftz": texts(".noftz", along={"type": ".f16x2"}),
    "hint": _HINT,
    "vec": _VEC,
    "type": _VEC_TYPES,
}

ATOMICS = (
    Row(
        "atom",
        "atom<sem?><scope?><space?><op><noftz?><hint?><type>",
        "d, [addr], a{?, policy}",
        {"d": "type", "addr": "address", "a": "type", "policy": "b64"},
        ("d",),
        {
            "sem": _SEM,
            "scope": _SCOPES,
            "space": _SPACES,
            "op": _OPS,
            "noftz": _NOFTZ,
            "hint": _HINT,
            "type": _TYPES,
        },
        _UPDATE,
        section=_SYNC + "atom",
        doc="updates memory in one step; d is the old value",
    ),
    Row(
        "atom.exch",
        "atom<sem?><scope?><space?>.exch<hint?><type>",
        "d, [addr], a{?, policy}",
        {"d": "type", "addr": "address", "a": "type", "policy": "b64"},
        ("d",),
        {
            "sem": _SEM,
            "scope": _SCOPES,
            "space": _SPACES,
            "hint": _HINT,
            "type": (*texts(".b32", ".b64"), Choice(".b128", (8, 3))),
        },
        _UPDATE,
        section=_SYNC + "atom",
        doc="swaps memory with a; d is the old value",
    ),
    Row(
        "atom.cas",
        "atom<sem?><scope?><space?>.cas<type>",
        "d, [addr], a, b",
        {"d": "type", "addr": "address", "a": "type", "b": "type"},
        ("d",),
        {
            "sem": _SEM,
            "scope": _SCOPES,
            "space": _SPACES,
            "type": (*texts(".b32", ".b64"), Choice(".b16", (6, 3)), Choice(".b128", (8, 3))),
        },
        _UPDATE,
        section=_SYNC + "atom",
        doc="stores b where memory holds a; d is the old value",
    ),
    Row(
        "atom.vec",
        "atom<sem?><scope?><space><op><noftz?><hint?><vec><type>",
        "{d*}, [addr], {a*}{?, policy}",
        {"d": "type*", "addr": "b64", "a": "type*", "policy": "b64"},
        ("d",),
        {"sem": _SEM, **_VEC_SLOTS},
        _UPDATE,
        ptx=(8, 1),
        section=_SYNC + "atom",
        doc="updates neighbouring values, each in one step",
        emitted=False,
    ),
    Row(
        "red",
        "red<sem?><scope?><space?><op><noftz?><hint?><type>",
        "[addr], a{?, policy}",
        {"addr": "address", "a": "type", "policy": "b64"},
        (),
        {
            "sem": _RED_SEM,
            "scope": _SCOPES,
            "space": _SPACES,
            "op": _OPS,
            "noftz": _NOFTZ,
            "hint": _HINT,
            "type": _TYPES,
        },
        _UPDATE,
        section=_SYNC + "red",
        doc="updates memory in one step without an answer",
    ),
    Row(
        "red.vec",
        "red<sem?><scope?><space><op><noftz?><hint?><vec><type>",
        "[addr], {a*}{?, policy}",
        {"addr": "b64", "a": "type*", "policy": "b64"},
        (),
        {"sem": _RED_SEM, **_VEC_SLOTS},
        _UPDATE,
        ptx=(8, 1),
        section=_SYNC + "red",
        doc="updates neighbouring values, each in one step, without an answer",
        emitted=False,
    ),
)

_ASYNC: tuple[Effect, ...] = (
    Touch(Kind.WRITE, "addr", Space.SHARED, Proxy.ASYNC, Done.MBARRIER_TX),
    Signal("bar", bytes_of="a", scope=Scope.CLUSTER),
)

ASYNC = (
    Row(
        "st.async",
        "st.async<weak?>.shared::cluster.mbarrier::complete_tx::bytes<type>",
        "[addr], a, [bar]",
        {"addr": "b32", "a": "type", "bar": "b32"},
        (),
        {
            "weak": texts(".weak"),
            "type": (
                *texts(".b32", ".b64", ".u32", ".u64", ".s32", ".s64", ".f32", ".f64"),
                Choice(".b128", (9, 2)),
            ),
        },
        _ASYNC,
        (8, 1),
        _CLUSTER,
        _MOVE + "st-async",
        "stores to another CTA's shared memory; its barrier gets the bytes",
        emitted=False,
    ),
    Row(
        "st.async.vec",
        "st.async<weak?>.shared::cluster.mbarrier::complete_tx::bytes<vec><type>",
        "[addr], {a*}, [bar]",
        {"addr": "b32", "a": "type*", "bar": "b32"},
        (),
        {
            "weak": texts(".weak"),
            "vec": texts(".v2", ".v4"),
            "type": (
                *texts(".b32", ".u32", ".s32", ".f32"),
                *texts(".b64", ".u64", ".s64", ".f64", along={"vec": ".v2"}),
            ),
        },
        _ASYNC,
        (8, 1),
        _CLUSTER,
        _MOVE + "st-async",
        "stores neighbouring values to another CTA's shared memory",
        emitted=False,
    ),
    Row(
        "red.async",
        "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes<op><type>",
        "[addr], a, [bar]",
        {"addr": "b32", "a": "type", "bar": "b32"},
        (),
        {
            "op": (
                *texts(".add", ".min", ".max", ".inc", ".dec", along={"type": ".u32"}),
                *texts(".and", ".or", ".xor", along={"type": ".b32"}),
            ),
            "type": (*texts(".u32", ".s32"), Choice(".b32", along={"op": ".and"}), Choice(".u64")),
        },
        (Touch(Kind.READ, "addr", Space.SHARED, Proxy.ASYNC, Done.MBARRIER_TX), *_ASYNC),
        (8, 1),
        _CLUSTER,
        _SYNC + "red-async",
        "updates another CTA's shared memory; its barrier gets the bytes",
        emitted=False,
    ),
    Row(
        "st.bulk",
        "st.bulk<weak?><space?>",
        "[addr], bytes, value",
        {"addr": "address", "bytes": "b64", "value": "imm"},
        (),
        {"weak": texts(".weak"), "space": texts(".shared::cta")},
        (Touch(Kind.WRITE, "addr", Space.SHARED),),
        (8, 6),
        frozenset({Feature.BULK_STORE}),
        _MOVE + "st-bulk",
        "fills shared memory with zeros",
        emitted=False,
    ),
)
