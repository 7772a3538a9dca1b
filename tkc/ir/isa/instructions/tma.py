"""Rows of asynchronous bulk and tensor copies (TMA), and of tensor maps."""

from __future__ import annotations

from collections.abc import Mapping

from tkc.ir.isa.instructions import Choice, Row, texts
from tkc.ir.isa.instructions.tma_rare import RARE
from tkc.ir.isa.memory import Await, Done, Effect, Kind, Proxy, Scope, Signal, Space, Touch
from tkc.ir.isa.targets import Feature

_TMA = frozenset({Feature.TMA})
_PAIR = frozenset({Feature.TMA_PAIR})
_GATHER = frozenset({Feature.TMA_GATHER})
_MOVE = "data-movement-and-conversion-instructions-"

_DIM = texts(".2d", ".1d", ".3d", ".4d", ".5d")
_HINT = texts(".L2::cache_hint")
_TILE = texts(".tile")
_CLUSTER_OR_CTA = (
    Choice(".shared::cluster"),
    Choice(".shared::cta", (8, 6)),
)


def _async(kind: Kind, operand: str, space: Space, done: Done) -> Touch:
    return Touch(kind, operand, space, Proxy.ASYNC, done)


_LOAD: tuple[Effect, ...] = (
    _async(Kind.READ, "map", Space.GLOBAL, Done.MBARRIER_TX),
    _async(Kind.WRITE, "dst", Space.SHARED, Done.MBARRIER_TX),
    Signal("bar", bytes_of="dst", scope=Scope.CLUSTER),
)
_STORE: tuple[Effect, ...] = (
    _async(Kind.READ, "src", Space.SHARED, Done.BULK_GROUP_READ),
    _async(Kind.WRITE, "map", Space.GLOBAL, Done.BULK_GROUP),
)

_POLICY: Mapping[str, str] = {"policy": "b64"}
_MAP: Mapping[str, str] = {"map": "b64", "coords": "b32*"}
_LOAD_OPERANDS = {"dst": "b32", **_MAP, "bar": "b32", "mask": "b16", **_POLICY}
_STORE_OPERANDS = {**_MAP, "src": "b32", **_POLICY}

_MULTICAST = (Choice(".multicast::cluster"), Choice(".multicast::cluster::16b", (9, 4)))
_CTA_GROUP = texts(".cta_group::1", ".cta_group::2", ptx=(8, 6), needs=_PAIR)

TENSOR = (
    Row(
        "cp.async.bulk.tensor.load",
        "cp.async.bulk.tensor<dim><space>.global<mode?>.mbarrier::complete_tx::bytes"
        "<multicast?><cta_group?><hint?>",
        "[dst], [map, {coords*}], [bar]{?, mask}{?, policy}",
        _LOAD_OPERANDS,
        (),
        {
            "dim": _DIM,
            "space": _CLUSTER_OR_CTA,
            "mode": _TILE,
            "multicast": _MULTICAST,
            "cta_group": _CTA_GROUP,
            "hint": _HINT,
        },
        _LOAD,
        (8, 0),
        _TMA,
        _MOVE + "cp-async-bulk-tensor",
        "copies a box of a tensor to shared memory; the barrier gets the bytes of the whole box",
    ),
    Row(
        "cp.async.bulk.tensor.gather4",
        "cp.async.bulk.tensor.2d<space>.global.tile::gather4.mbarrier::complete_tx::bytes"
        "<multicast?><cta_group?><hint?>",
        "[dst], [map, {coords*}], [bar]{?, mask}{?, policy}",
        _LOAD_OPERANDS,
        (),
        {
            "space": (
                Choice(".shared::cluster", needs=_GATHER),
                Choice(".shared::cta", needs=frozenset({Feature.TMA_GATHER_CTA})),
            ),
            "multicast": _MULTICAST,
            "cta_group": _CTA_GROUP,
            "hint": _HINT,
        },
        _LOAD,
        (8, 6),
        _TMA,
        _MOVE + "cp-async-bulk-tensor",
        "copies four rows: coordinates are the column and four row numbers",
    ),
    Row(
        "cp.async.bulk.tensor.store",
        "cp.async.bulk.tensor<dim>.global.shared::cta<mode?>.bulk_group<hint?>",
        "[map, {coords*}], [src]{?, policy}",
        _STORE_OPERANDS,
        (),
        {
            "dim": _DIM,
            "mode": (*_TILE, Choice(".im2col_no_offs", along={"dim": ".3d"})),
            "hint": _HINT,
        },
        _STORE,
        (8, 0),
        _TMA,
        _MOVE + "cp-async-bulk-tensor",
        "copies a box from shared memory to a tensor; parts beyond the tensor are not written",
    ),
    Row(
        "cp.async.bulk.tensor.scatter4",
        "cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group<hint?>",
        "[map, {coords*}], [src]{?, policy}",
        _STORE_OPERANDS,
        (),
        {"hint": _HINT},
        _STORE,
        (8, 6),
        _TMA | _GATHER,
        _MOVE + "cp-async-bulk-tensor",
        "stores four rows: coordinates are the column and four row numbers",
    ),
    Row(
        "cp.reduce.async.bulk.tensor",
        "cp.reduce.async.bulk.tensor<dim>.global.shared::cta<op><mode?>.bulk_group<hint?>",
        "[map, {coords*}], [src]{?, policy}",
        _STORE_OPERANDS,
        (),
        {
            "dim": _DIM,
            "op": texts(".add", ".min", ".max", ".inc", ".dec", ".and", ".or", ".xor"),
            "mode": (*_TILE, Choice(".im2col_no_offs", along={"dim": ".3d"})),
            "hint": _HINT,
        },
        (*_STORE, _async(Kind.READ, "map", Space.GLOBAL, Done.BULK_GROUP)),
        (8, 0),
        _TMA,
        _MOVE + "cp-reduce-async-bulk-tensor",
        "reduces a box of shared memory into a tensor",
    ),
    Row(
        "cp.async.bulk.prefetch.tensor",
        "cp.async.bulk.prefetch.tensor<dim>.L2.global<mode?><hint?>",
        "[map, {coords*}]{?, policy}",
        {**_MAP, **_POLICY},
        (),
        {"dim": _DIM, "mode": _TILE, "hint": _HINT},
        (_async(Kind.READ, "map", Space.GLOBAL, Done.NOW),),
        (8, 0),
        _TMA,
        _MOVE + "cp-async-bulk-prefetch-tensor",
        "brings a box of a tensor into L2",
    ),
    Row(
        "prefetch.tensormap",
        "prefetch<space?>.tensormap",
        "[map]",
        {"map": "b64"},
        (),
        {"space": texts(".const", ".param")},
        (Touch(Kind.READ, "map", Space.GLOBAL, Proxy.TENSORMAP),),
        (8, 0),
        _TMA,
        _MOVE + "prefetch-prefetchu",
        "brings a tensor map into the cache of descriptors",
    ),
)

_BULK_STORE: tuple[Effect, ...] = (
    _async(Kind.READ, "src", Space.SHARED, Done.BULK_GROUP_READ),
    _async(Kind.WRITE, "dst", Space.GLOBAL, Done.BULK_GROUP),
)

BULK = (
    Row(
        "cp.async.bulk.load",
        "cp.async.bulk<space>.global.mbarrier::complete_tx::bytes<multicast?><hint?>",
        "[dst], [src], bytes, [bar]{?, mask}{?, policy}",
        {"dst": "b32", "src": "b64", "bytes": "b32", "bar": "b32", "mask": "b16", **_POLICY},
        (),
        {"space": _CLUSTER_OR_CTA, "multicast": _MULTICAST, "hint": _HINT},
        (
            _async(Kind.READ, "src", Space.GLOBAL, Done.MBARRIER_TX),
            _async(Kind.WRITE, "dst", Space.SHARED, Done.MBARRIER_TX),
            Signal("bar", bytes_of="bytes", scope=Scope.CLUSTER),
        ),
        (8, 0),
        _TMA,
        _MOVE + "cp-async-bulk",
        "copies bytes from global to shared memory; addresses and size are multiples of 16",
    ),
    Row(
        "cp.async.bulk.cluster",
        "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes",
        "[dst], [src], bytes, [bar]",
        {"dst": "b32", "src": "b32", "bytes": "b32", "bar": "b32"},
        (),
        {},
        (
            _async(Kind.READ, "src", Space.SHARED, Done.MBARRIER_TX),
            _async(Kind.WRITE, "dst", Space.SHARED, Done.MBARRIER_TX),
            Signal("bar", bytes_of="bytes", scope=Scope.CLUSTER),
        ),
        (8, 0),
        _TMA,
        _MOVE + "cp-async-bulk",
        "copies bytes to the shared memory of another CTA of the cluster",
    ),
    Row(
        "cp.async.bulk.store",
        "cp.async.bulk.global.shared::cta.bulk_group<hint?><mask?>",
        "[dst], [src], bytes{?, policy}{?, byte_mask}",
        {"dst": "b64", "src": "b32", "bytes": "b32", **_POLICY, "byte_mask": "b16"},
        (),
        {
            "hint": _HINT,
            "mask": texts(".cp_mask", ptx=(8, 6), needs=frozenset({Feature.BULK_MASK})),
        },
        _BULK_STORE,
        (8, 0),
        _TMA,
        _MOVE + "cp-async-bulk",
        "copies bytes from shared to global memory; addresses and size are multiples of 16",
    ),
    Row(
        "cp.reduce.async.bulk",
        "cp.reduce.async.bulk.global.shared::cta.bulk_group<hint?><op><noftz?><type>",
        "[dst], [src], bytes{?, policy}",
        {"dst": "b64", "src": "b32", "bytes": "b32", **_POLICY},
        (),
        {
            "hint": _HINT,
            "op": texts(".add", ".min", ".max", ".inc", ".dec")
            + texts(".and", ".or", ".xor", along={"type": ".b32"}),
            "noftz": texts(".noftz", along={"type": ".bf16"}),
            "type": (
                *texts(".u32", ".s32", ".u64", ".f32", ".f64"),
                Choice(".s64", along={"op": ".min"}),
                *texts(".f16", ".bf16", along={"noftz": ".noftz"}),
                *texts(".b32", ".b64", along={"op": ".and"}),
            ),
        },
        (*_BULK_STORE, _async(Kind.READ, "dst", Space.GLOBAL, Done.BULK_GROUP)),
        (8, 0),
        _TMA,
        _MOVE + "cp-reduce-async-bulk",
        "reduces an array of shared memory into global memory",
    ),
    Row(
        "cp.async.bulk.prefetch",
        "cp.async.bulk.prefetch.L2.global<hint?>",
        "[src], bytes{?, policy}",
        {"src": "b64", "bytes": "b32", **_POLICY},
        (),
        {"hint": _HINT},
        (_async(Kind.READ, "src", Space.GLOBAL, Done.NOW),),
        (8, 0),
        _TMA,
        _MOVE + "cp-async-bulk-prefetch",
        "brings bytes into L2",
    ),
)

GROUPS = (
    Row(
        "cp.async.bulk.commit_group",
        "cp.async.bulk.commit_group",
        "",
        effects=(Signal("", 0),),
        ptx=(8, 0),
        needs=_TMA,
        section=_MOVE + "cp-async-bulk-commit-group",
        doc="gathers the bulk stores of the thread since the last commit into a group",
    ),
    Row(
        "cp.async.bulk.wait_group",
        "cp.async.bulk.wait_group",
        "count",
        {"count": "imm"},
        effects=(Await("", Done.BULK_GROUP),),
        ptx=(8, 0),
        needs=_TMA,
        section=_MOVE + "cp-async-bulk-wait-group",
        doc="waits until at most `count` of the newest groups have not been written",
    ),
    Row(
        "cp.async.bulk.wait_group.read",
        "cp.async.bulk.wait_group.read",
        "count",
        {"count": "imm"},
        effects=(Await("", Done.BULK_GROUP_READ),),
        ptx=(8, 0),
        needs=_TMA,
        section=_MOVE + "cp-async-bulk-wait-group",
        doc="waits until at most `count` of the newest groups still read their sources",
    ),
)

ROWS = (*TENSOR, *BULK, *GROUPS, *RARE)
