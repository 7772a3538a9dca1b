"""Rows of the rarer bulk and tensor copies and of edits of tensor maps, which belong to the family `tma`."""

from __future__ import annotations

from collections.abc import Mapping

from tkc.ir.isa.instructions import Choice, Row, texts
from tkc.ir.isa.memory import Await, Done, Effect, Kind, Order, Proxy, Scope, Signal, Space, Touch
from tkc.ir.isa.targets import Feature, Version

_TMA = frozenset({Feature.TMA})
_MOVE = "data-movement-and-conversion-instructions-"
_DIM = texts(".2d", ".1d", ".3d", ".4d", ".5d")
_HINT = texts(".L2::cache_hint")
_TILE = texts(".tile")


def _async(kind: Kind, operand: str, space: Space, done: Done) -> Touch:
    return Touch(kind, operand, space, Proxy.ASYNC, done)


_LOAD: tuple[Effect, ...] = (
    _async(Kind.READ, "map", Space.GLOBAL, Done.MBARRIER_TX),
    _async(Kind.WRITE, "dst", Space.SHARED, Done.MBARRIER_TX),
    Signal("bar", bytes_of="dst", scope=Scope.CLUSTER),
)
_BULK_LOAD: tuple[Effect, ...] = (
    _async(Kind.READ, "src", Space.GLOBAL, Done.MBARRIER_TX),
    _async(Kind.WRITE, "dst", Space.SHARED, Done.MBARRIER_TX),
    Signal("bar", bytes_of="bytes", scope=Scope.CLUSTER),
)
_READ_MAP: tuple[Effect, ...] = (_async(Kind.READ, "map", Space.GLOBAL, Done.NOW),)
_READ_SRC: tuple[Effect, ...] = (_async(Kind.READ, "src", Space.GLOBAL, Done.NOW),)


def _row(
    name: str,
    mnemonic: str,
    syntax: str,
    operands: Mapping[str, str],
    slots: Mapping[str, tuple[Choice, ...]],
    effects: tuple[Effect, ...],
    section: str,
    doc: str,
    ptx: Version = (8, 0),
    needs: frozenset[Feature] = frozenset(),
    results: tuple[str, ...] = (),
    convergent: bool = False,
) -> Row:
    return Row(
        name, mnemonic, syntax, operands, results, slots, effects, ptx, _TMA | needs,
        _MOVE + section, doc, False, convergent,
    )


_WIDE_MASK = frozenset({Feature.MULTICAST_32})
_OVERRIDE = frozenset({Feature.TMA_OVERRIDE})
_PRIORITY = frozenset({Feature.L2_PRIORITY})
_BARRIER = {"dst": "b32", "map": "b64", "coords": "b32*", "bar": "b32"}

COPIES = (
    _row("cp.async.bulk.tensor.load.wide",
         "cp.async.bulk.tensor<dim>.shared::cluster.global<mode?>.mbarrier::complete_tx::bytes"
         ".multicast::cluster::32b<cta_group?><hint?>",
         "[dst], [map, {coords*}], [bar], mask{?, policy}",
         {**_BARRIER, "mask": "b32", "policy": "b64"},
         {"dim": _DIM, "mode": _TILE, "cta_group": texts(".cta_group::1", ".cta_group::2"),
          "hint": _HINT},
         _LOAD, "cp-async-bulk-tensor", "as the load, to CTAs of a 32-bit mask", (9, 4), _WIDE_MASK),
    _row("cp.async.bulk.tensor.load.override",
         "cp.async.bulk.tensor<dim>.shared::cta.global<mode?>.mbarrier::complete_tx::bytes"
         ".override::global_address<hint?>",
         "[dst], [map, address, {coords*}], [bar]{?, policy}",
         {**_BARRIER, "address": "b64", "policy": "b64"},
         {"dim": _DIM, "mode": _TILE, "hint": _HINT},
         _LOAD, "cp-async-bulk-tensor", "as the load, from another base address", (9, 4), _OVERRIDE),
    _row("cp.async.bulk.tensor.im2col",
         "cp.async.bulk.tensor<dim><space>.global.im2col.mbarrier::complete_tx::bytes"
         "<multicast?><cta_group?><hint?>",
         "[dst], [map, {coords*}], [bar], {offsets*}{?, mask}{?, policy}",
         {**_BARRIER, "offsets": "b16*", "mask": "b16", "policy": "b64"},
         {"dim": texts(".3d", ".4d", ".5d"),
          "space": (Choice(".shared::cluster"), Choice(".shared::cta", (8, 6))),
          "multicast": (Choice(".multicast::cluster"), Choice(".multicast::cluster::16b", (9, 4))),
          "cta_group": texts(".cta_group::1", ".cta_group::2", ptx=(8, 6),
                             needs=frozenset({Feature.TMA_PAIR})),
          "hint": _HINT},
         _LOAD, "cp-async-bulk-tensor", "copies the pixels under a filter tap of a convolution"),
    _row("cp.async.bulk.prefetch.tensor.gather4",
         "cp.async.bulk.prefetch.tensor.2d.L2.global.tile::gather4<hint?>",
         "[map, {coords*}]{?, policy}", {"map": "b64", "coords": "b32*", "policy": "b64"},
         {"hint": _HINT}, _READ_MAP, "cp-async-bulk-prefetch-tensor",
         "brings four rows into L2", (8, 6), frozenset({Feature.TMA_GATHER})),
    _row("cp.async.bulk.prefetch.tensor.keep",
         "cp.async.bulk.prefetch.tensor<dim>.L2.global<mode?>.L2::evict_last", "[map, {coords*}]",
         {"map": "b64", "coords": "b32*"}, {"dim": _DIM, "mode": _TILE}, _READ_MAP,
         "cp-async-bulk-prefetch-tensor", "brings a box into L2, to be evicted last", (9, 4),
         _PRIORITY),
    _row("cp.async.bulk.prefetch.keep", "cp.async.bulk.prefetch.L2.global.L2::evict_last",
         "[src], bytes", {"src": "b64", "bytes": "b32"}, {}, _READ_SRC,
         "cp-async-bulk-prefetch", "brings bytes into L2, to be evicted last", (9, 4), _PRIORITY),
    _row("applypriority.async.bulk",
         "applypriority.async.bulk.global.bulk_group.L2::evict_normal", "[src], bytes",
         {"src": "b64", "bytes": "b32"}, {}, _READ_SRC, "applypriority-async-bulk",
         "sets the priority of bytes in L2", (9, 4), _PRIORITY),
    _row("applypriority.async.bulk.tensor",
         "applypriority.async.bulk.tensor<dim>.global<mode?>.bulk_group.L2::evict_normal",
         "[map, {coords*}]", {"map": "b64", "coords": "b32*"}, {"dim": _DIM, "mode": _TILE},
         _READ_MAP, "applypriority-async-bulk-tensor", "sets the priority of a box in L2", (9, 4),
         _PRIORITY),
    _row("cp.async.bulk.load.ignore_oob",
         "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes.ignore_oob<hint?>",
         "[dst], [src], bytes, ignore_left, ignore_right, [bar]{?, policy}",
         {"dst": "b32", "src": "b64", "bytes": "b32", "ignore_left": "b32", "ignore_right": "b32",
          "bar": "b32", "policy": "b64"},
         {"hint": _HINT}, _BULK_LOAD, "cp-async-bulk",
         "copies bytes; up to 15 at each end may be left undefined", (9, 2)),
    _row("cp.reduce.async.bulk.cluster",
         "cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes<op><type>",
         "[dst], [src], bytes, [bar]", {"dst": "b32", "src": "b32", "bytes": "b32", "bar": "b32"},
         {"op": texts(".add", ".min", ".max", ".inc", ".dec")
          + texts(".and", ".or", ".xor", along={"type": ".b32"}),
          "type": (*texts(".u32", ".s32", ".u64"), Choice(".b32", along={"op": ".and"}))},
         (_async(Kind.READ, "src", Space.SHARED, Done.MBARRIER_TX),
          _async(Kind.READ, "dst", Space.SHARED, Done.MBARRIER_TX),
          _async(Kind.WRITE, "dst", Space.SHARED, Done.MBARRIER_TX),
          Signal("bar", bytes_of="bytes", scope=Scope.CLUSTER)),
         "cp-reduce-async-bulk", "reduces an array into another CTA's shared memory"),
    _row("cp.async.bulk.wait_group.async",
         "cp.async.bulk.wait_group.sync_restrict::proxy::async", "count", {"count": "imm"}, {},
         (Await("", Done.BULK_GROUP),), "cp-async-bulk-wait-group",
         "as wait_group, for later accesses of the async proxy alone", (9, 5)),
)

_REPLACE = frozenset({Feature.TENSORMAP_REPLACE})
_PLACE = texts(".shared::cta", ".global")
_EDIT: tuple[Effect, ...] = (Touch(Kind.WRITE, "map", Space.GENERIC),)

MAPS = (
    _row("tensormap.replace", "tensormap.replace.tile<field><space?>.b1024.b32", "[map], value",
         {"map": "address", "value": "b32"}, {"field": texts(".rank"), "space": _PLACE}, _EDIT,
         "tensormap-replace", "edits a 32-bit field of a tensor map (the rank minus one)", (8, 3),
         _REPLACE),
    _row("tensormap.replace.code", "tensormap.replace.tile<field><space?>.b1024.b32",
         "[map], value", {"map": "address", "value": "imm"},
         {"field": (*texts(".elemtype", ".interleave_layout", ".swizzle_mode", ".fill_mode"),
                    Choice(".swizzle_atomicity", (8, 6), frozenset({Feature.TMA_GATHER_CTA}))),
          "space": _PLACE},
         _EDIT, "tensormap-replace", "edits a field that holds a code", (8, 3), _REPLACE),
    _row("tensormap.replace.address",
         "tensormap.replace.tile.global_address<space?>.b1024.b64", "[map], value",
         {"map": "address", "value": "b64"}, {"space": _PLACE}, _EDIT, "tensormap-replace",
         "edits the base address of a tensor map", (8, 3), _REPLACE),
    _row("tensormap.replace.axis", "tensormap.replace.tile<field><space?>.b1024.b32",
         "[map], axis, value", {"map": "address", "axis": "imm", "value": "b32"},
         {"field": texts(".box_dim", ".global_dim", ".element_stride"), "space": _PLACE}, _EDIT,
         "tensormap-replace", "edits a 32-bit field of one axis", (8, 3), _REPLACE),
    _row("tensormap.replace.stride", "tensormap.replace.tile.global_stride<space?>.b1024.b64",
         "[map], axis, value", {"map": "address", "axis": "imm", "value": "b64"},
         {"space": _PLACE}, _EDIT, "tensormap-replace", "edits the stride of one axis, in bytes",
         (8, 3), _REPLACE),
    _row("tensormap.cp_fenceproxy",
         "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release<scope>.sync.aligned",
         "[dst], [src], size", {"dst": "b64", "src": "b32", "size": "imm"},
         {"scope": texts(".gpu", ".cta", ".cluster", ".sys")},
         (Touch(Kind.READ, "src", Space.SHARED), Touch(Kind.WRITE, "dst", Space.GLOBAL),
          Order(Proxy.GENERIC, Proxy.TENSORMAP, Space.GLOBAL, Scope.GPU)),
         "tensormap-cp-fenceproxy", "copies a map (128 bytes) to global memory and publishes it",
         (8, 3), convergent=True),
    _row("tensormap.query", "tensormap.query.alloc_class_large.b1024", "p, [map]",
         {"p": "pred", "map": "b64"}, {}, (Touch(Kind.READ, "map", Space.GLOBAL),),
         "tensormap-query", "whether a map has the large allocation class", (9, 5), _REPLACE,
         ("p",)),
)

RARE = (*COPIES, *MAPS)
