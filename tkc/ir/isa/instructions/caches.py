"""Rows of cp.async, prefetches and cache policies, which belong to the family `memory`."""

from __future__ import annotations

from tkc.ir.isa.instructions import Choice, Row, texts
from tkc.ir.isa.memory import Await, Done, Effect, Kind, Proxy, Signal, Space, Touch

_MOVE = "data-movement-and-conversion-instructions-"

_HINT = texts(".L2::cache_hint", ptx=(7, 4))
_SIZE = texts(".L2::64B", ".L2::128B", ".L2::256B", ptx=(7, 4))
_SHARED = (Choice(".shared"), Choice(".shared::cta", (7, 8)))

_COPY: tuple[Effect, ...] = (
    Touch(Kind.READ, "src", Space.GLOBAL, Proxy.GENERIC, Done.CP_ASYNC_GROUP),
    Touch(Kind.WRITE, "dst", Space.SHARED, Proxy.GENERIC, Done.CP_ASYNC_GROUP),
)


def _copy(name: str, syntax: str, doc: str, last: dict[str, str]) -> Row:
    return Row(
        name,
        "cp.async<cache><space>.global<hint?><prefetch?>",
        syntax,
        {"dst": "b32", "src": "b64", "size": "imm", **last, "policy": "b64"},
        (),
        {"cache": texts(".ca", ".cg"), "space": _SHARED, "hint": _HINT, "prefetch": _SIZE},
        _COPY,
        (7, 0),
        section=_MOVE + "cp-async",
        doc=doc,
        emitted=False,
    )


COPIES = (
    _copy("cp.async", "[dst], [src], size{?, src_size}{?, policy}",
          "copies 4, 8 or 16 bytes (.cg: 16); beyond `src_size` bytes it writes zeros",
          {"src_size": "b32"}),
    _copy("cp.async.ignore", "[dst], [src], size, ignore{?, policy}",
          "copies 4, 8 or 16 bytes, or writes zeros where `ignore` holds", {"ignore": "pred"}),
    Row("cp.async.commit_group", "cp.async.commit_group", "", effects=(Signal("", 0),),
        ptx=(7, 0), section=_MOVE + "cp-async-commit-group",
        doc="gathers the thread's cp.async since the last commit into a group", emitted=False),
    Row("cp.async.wait_group", "cp.async.wait_group", "count", {"count": "imm"},
        effects=(Await("", Done.CP_ASYNC_GROUP),), ptx=(7, 0),
        section=_MOVE + "cp-async-wait-group",
        doc="waits until at most `count` of the newest groups are in flight", emitted=False),
    Row("cp.async.wait_all", "cp.async.wait_all", "",
        effects=(Await("", Done.CP_ASYNC_GROUP),), ptx=(7, 0),
        section=_MOVE + "cp-async-wait-group",
        doc="waits for every cp.async of the thread", emitted=False),
)

_PRIMARY = texts(
    ".L2::evict_last", ".L2::evict_first", ".L2::evict_normal", ".L2::evict_unchanged"
)
_SECONDARY = texts(".L2::evict_first", ".L2::evict_unchanged")
_ADDRESS: tuple[Effect, ...] = (Touch(Kind.READ, "addr", Space.GLOBAL),)

CACHES = (
    Row("prefetch", "prefetch<space?><level>", "[addr]", {"addr": "b64"}, (),
        {"space": texts(".global", ".local"),
         "level": (*texts(".L1", ".L2"),
                   *texts(".L2::evict_last", ".L2::evict_normal", ptx=(7, 4), along={"space": ".global"}))},
        _ADDRESS, (2, 0), section=_MOVE + "prefetch-prefetchu",
        doc="brings a line into a cache", emitted=False),
    Row("prefetchu", "prefetchu.L1", "[addr]", {"addr": "b64"}, effects=_ADDRESS, ptx=(2, 0),
        section=_MOVE + "prefetch-prefetchu", doc="brings a line into the uniform cache",
        emitted=False),
    Row("discard", "discard<space?>.L2", "[addr], size", {"addr": "b64", "size": "imm"}, (),
        {"space": texts(".global")}, (Touch(Kind.WRITE, "addr", Space.GLOBAL),), (7, 4),
        section=_MOVE + "discard", doc="destroys 128 bytes without writing them back",
        emitted=False),
    Row("applypriority", "applypriority<space?>.L2::evict_normal", "[addr], size",
        {"addr": "b64", "size": "imm"}, (), {"space": texts(".global")}, _ADDRESS, (7, 4),
        section=_MOVE + "applypriority", doc="sets the priority of 128 bytes in L2",
        emitted=False),
    Row("createpolicy.fractional", "createpolicy.fractional<primary><secondary?>.b64",
        "d{?, fraction}", {"d": "b64", "fraction": "imm"}, ("d",),
        {"primary": _PRIMARY, "secondary": _SECONDARY}, ptx=(7, 4),
        section=_MOVE + "createpolicy",
        doc="a cache policy: a fraction of accesses gets the primary priority", pure=True),
    Row("createpolicy.range", "createpolicy.range<space?><primary><secondary?>.b64",
        "d, [addr], primary_size, total_size",
        {"d": "b64", "addr": "b64", "primary_size": "b32", "total_size": "b32"}, ("d",),
        {"space": texts(".global"), "primary": _PRIMARY, "secondary": _SECONDARY}, ptx=(7, 4),
        section=_MOVE + "createpolicy", doc="a cache policy by address range", emitted=False,
        pure=True),
    Row("createpolicy.cvt", "createpolicy.cvt.L2.b64", "d, a", {"d": "b64", "a": "b64"}, ("d",),
        ptx=(7, 4), section=_MOVE + "createpolicy",
        doc="a cache policy from the access property of the runtime", emitted=False, pure=True),
)

ADDRESSES = (
    Row("isspacep", "isspacep<space>", "p, a", {"p": "pred", "a": "b64"}, ("p",),
        {"space": (*texts(".global", ".shared", ".local", ".const"),
                   *texts(".shared::cta", ".shared::cluster", ptx=(7, 8)), Choice(".param", (7, 7)))},
        ptx=(2, 0), section=_MOVE + "isspacep",
        doc="whether a generic address lies in a space", emitted=False, pure=True),
    Row("mapa.generic", "mapa.u64", "d, a, rank", {"d": "b64", "a": "b64", "rank": "b32"}, ("d",),
        ptx=(7, 8), section=_MOVE + "mapa",
        doc="generic address of the same variable in the CTA of the given rank", emitted=False,
        pure=True),
    Row("mapa.u64", "mapa.shared::cluster.u64", "d, a, rank", {"d": "b64", "a": "b64", "rank": "b32"},
        ("d",), ptx=(7, 8), section=_MOVE + "mapa",
        doc="64-bit shared address of the same variable in the CTA of the given rank",
        emitted=False, pure=True),
    Row("getctarank", "getctarank.shared::cluster<type>", "d, a", {"d": "b32", "a": "type"}, ("d",),
        {"type": texts(".u32", ".u64")}, ptx=(7, 8), section=_MOVE + "getctarank",
        doc="rank of the CTA that an address belongs to", emitted=False, pure=True),
    Row("getctarank.generic", "getctarank.u64", "d, a", {"d": "b32", "a": "b64"}, ("d",),
        ptx=(7, 8), section=_MOVE + "getctarank",
        doc="rank of the CTA that a generic address belongs to", emitted=False, pure=True),
)
