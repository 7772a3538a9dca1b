"""Rows of branches, thread and warp synchronisation, fences, and launch order."""

from __future__ import annotations

from tkc.ir.isa.instructions import Choice, Row, texts
from tkc.ir.isa.instructions.lanes import LANES
from tkc.ir.isa.memory import (
    Await,
    Done,
    Effect,
    Kind,
    Order,
    Proxy,
    Scope,
    Signal,
    Space,
    Touch,
)
from tkc.ir.isa.targets import Feature

_CLUSTER = frozenset({Feature.CLUSTER})
_SYNC = "parallel-synchronization-and-communication-instructions-"
_FENCE = _SYNC + "membar-fence"

_CTA_ORDER = Order(Proxy.GENERIC, Proxy.GENERIC, None, Scope.CTA)
_CLUSTER_ORDER = Order(Proxy.GENERIC, Proxy.GENERIC, None, Scope.CLUSTER)

FLOW = (
    Row("bra", "bra<uni?>", "target", {"target": "imm"}, (), {"uni": texts(".uni")},
        section="control-flow-instructions-bra", doc="jumps to a label"),
    Row("brx.idx", "brx.idx<uni?>", "index, targets", {"index": "b32", "targets": "imm"}, (),
        {"uni": texts(".uni")}, ptx=(6, 0), section="control-flow-instructions-brx-idx",
        doc="jumps to a label of a .branchtargets list, by index", emitted=False),
    Row("ret", "ret<uni?>", "", slots={"uni": texts(".uni")},
        section="control-flow-instructions-ret", doc="returns, or ends the thread in a kernel"),
    Row("exit", "exit", "", section="control-flow-instructions-exit", doc="ends the thread"),
    Row("trap", "trap", "", section="miscellaneous-instructions-trap",
        doc="aborts the grid with an error"),
    Row("call", "call<uni?>", "{?(values*), }target{?, (arguments*)}{?, prototype}",
        {"values": "any*", "target": "imm", "arguments": "any*", "prototype": "imm"}, (), {"uni": texts(".uni")},
        section="control-flow-instructions-call", doc="calls a function", emitted=False),
    Row("brkpt", "brkpt", "", section="miscellaneous-instructions-brkpt",
        doc="stops in the debugger", emitted=False),
    Row("pmevent", "pmevent<mask?>", "event", {"event": "imm"}, (), {"mask": texts(".mask")},
        section="miscellaneous-instructions-pmevent", doc="triggers performance events",
        emitted=False),
    Row("nanosleep", "nanosleep.u32", "time", {"time": "b32"}, ptx=(6, 3),
        section="miscellaneous-instructions-nanosleep",
        doc="sleeps for about `time` ns, at most twice that"),
)

_NAMED = {"id": "b32", "count": "b32"}
_ALIGNED = texts(".aligned")


def _barrier(mode: str, syntax: str, effects: tuple[Effect, ...], doc: str) -> Row:
    return Row(
        f"barrier.cta.{mode}", f"barrier.cta.{mode}<aligned?>", syntax, _NAMED, (),
        {"aligned": _ALIGNED}, effects, ptx=(7, 8),
        section=_SYNC + "bar", doc=doc, convergent=True,
    )


_COMMON_BARRIERS = (
    Row("bar.sync", "<barrier>.sync<aligned?>", "id{?, count}", _NAMED, (),
        {"barrier": (*texts("bar", "barrier"), Choice("bar.cta", (7, 8))),
         "aligned": (Choice(".aligned", along={"barrier": "barrier"}),)},
        (_CTA_ORDER, Await("id"), Signal("id", 1)), ptx=(6, 0), section=_SYNC + "bar",
        doc="older spelling of barrier.cta.sync", emitted=False, convergent=True),
    Row("bar.arrive", "<barrier>.arrive<aligned?>", "id, count", _NAMED, (),
        {"barrier": (*texts("bar", "barrier"), Choice("bar.cta", (7, 8))),
         "aligned": (Choice(".aligned", along={"barrier": "barrier"}),)},
        (_CTA_ORDER, Signal("id", 1)), ptx=(6, 0), section=_SYNC + "bar",
        doc="older spelling of barrier.cta.arrive", emitted=False, convergent=True),
    Row("bar.red.popc", "<barrier>.red.popc<aligned?>.u32", "d, id{?, count}, p",
        {"d": "b32", **_NAMED, "p": "pred"}, ("d",),
        {"barrier": (*texts("bar", "barrier"), *texts("bar.cta", "barrier.cta", ptx=(7, 8))),
         "aligned": (Choice(".aligned", along={"barrier": "barrier"}),)},
        (_CTA_ORDER, Await("id"), Signal("id", 1)), ptx=(6, 0), section=_SYNC + "bar",
        doc="as barrier.cta.sync; counts the threads whose predicate holds", emitted=False,
        convergent=True),
    Row("bar.red", "<barrier>.red<op><aligned?>.pred", "d, id{?, count}, p",
        {"d": "pred", **_NAMED, "p": "pred"}, ("d",),
        {"barrier": (*texts("bar", "barrier"), *texts("bar.cta", "barrier.cta", ptx=(7, 8))),
         "op": texts(".and", ".or"), "aligned": (Choice(".aligned", along={"barrier": "barrier"}),)},
        (_CTA_ORDER, Await("id"), Signal("id", 1)), ptx=(6, 0), section=_SYNC + "bar",
        doc="as barrier.cta.sync; joins the predicates of the threads", emitted=False,
        convergent=True),
)

WARPS = (
    Row("bar.warp.sync", "bar.warp.sync", "mask", {"mask": "b32"}, effects=(_CTA_ORDER,),
        ptx=(6, 0), section=_SYNC + "bar-warp-sync",
        doc="waits for the lanes of the mask and orders their memory accesses", convergent=True),
    _barrier("sync", "id{?, count}", (_CTA_ORDER, Await("id"), Signal("id", 1)),
             "waits until `count` threads (a multiple of 32) have come to barrier `id` (0..15)"),
    _barrier("arrive", "id, count", (_CTA_ORDER, Signal("id", 1)),
             "comes to barrier `id` without waiting"),
    Row("elect.sync", "elect.sync", "_|p, mask", {"p": "pred", "mask": "b32"}, ("p",),
        ptx=(8, 0), needs=_CLUSTER, section=_SYNC + "elect-sync",
        doc="true in one lane of the mask, always the same one", convergent=True),
    Row("elect.sync.lane", "elect.sync", "d|p, mask", {"d": "b32", "p": "pred", "mask": "b32"},
        ("d", "p"), ptx=(8, 0), needs=_CLUSTER, section=_SYNC + "elect-sync",
        doc="as elect.sync; d is the elected lane", emitted=False, convergent=True),
    Row("setmaxnreg", "setmaxnreg<action>.sync.aligned.u32", "count", {"count": "imm"}, (),
        {"action": texts(".inc", ".dec")}, ptx=(8, 0),
        needs=frozenset({Feature.SETMAXNREG}), section="miscellaneous-instructions-setmaxnreg",
        doc="registers per thread of the warp: 24..256, a multiple of 8; every warp of a warpgroup",
        convergent=True),
)

CLUSTERS = (
    Row("barrier.cluster.arrive", "barrier.cluster.arrive<sem?><aligned?>", "", {}, (),
        {"sem": texts(".release", ".relaxed", ptx=(8, 0)), "aligned": _ALIGNED},
        (_CLUSTER_ORDER, Signal("", 1, scope=Scope.CLUSTER)), ptx=(7, 8), needs=_CLUSTER,
        section=_SYNC + "barrier-cluster", doc="comes to the cluster barrier", convergent=True),
    Row("barrier.cluster.wait", "barrier.cluster.wait<sem?><aligned?>", "", {}, (),
        {"sem": texts(".acquire", ptx=(8, 0)), "aligned": _ALIGNED},
        (_CLUSTER_ORDER, Await("")), ptx=(7, 8), needs=_CLUSTER,
        section=_SYNC + "barrier-cluster", doc="waits for every thread of the cluster",
        convergent=True),
)


def _order(first: Proxy, then: Proxy, space: Space | None = None) -> tuple[Effect, ...]:
    return (Order(first, then, space),)


_ASYNC_BOTH = (
    Order(Proxy.GENERIC, Proxy.ASYNC, None, Scope.CTA),
    Order(Proxy.ASYNC, Proxy.GENERIC, None, Scope.CTA),
)

FENCES = (
    Row("fence.proxy.async", "fence.proxy.async<space?>", "", {}, (),
        {"space": texts(".shared::cta", ".shared::cluster", ".global")}, _ASYNC_BOTH,
        ptx=(8, 0), needs=_CLUSTER, section=_FENCE,
        doc="joins the generic and the async proxy, in one space or in all"),
    Row("fence.proxy.async::generic",
        "fence.proxy.async::generic<sem><restrict>.cluster", "", {}, (),
        {"sem": (Choice(".acquire", along={"restrict": ".sync_restrict::shared::cluster"}),
                 Choice(".release", along={"restrict": ".sync_restrict::shared::cta"})),
         "restrict": (Choice(".sync_restrict::shared::cluster", along={"sem": ".acquire"}),
                      Choice(".sync_restrict::shared::cta", along={"sem": ".release"}),
                      Choice(".sync_restrict::shared::cluster::read", (9, 4),
                             along={"sem": ".release"}))},
        _ASYNC_BOTH, ptx=(8, 6), needs=_CLUSTER, section=_FENCE,
        doc="one-way fence between the proxies on shared memory"),
    Row("fence.proxy.alias", "fence.proxy.alias", "",
        effects=_order(Proxy.GENERIC, Proxy.GENERIC), ptx=(7, 0), section=_FENCE,
        doc="orders accesses of one place through different virtual addresses"),
    Row("fence.proxy.tensormap.acquire",
        "fence.proxy.tensormap::generic.acquire<scope>", "[map], size",
        {"map": "b64", "size": "imm"}, (),
        {"scope": texts(".gpu", ".cta", ".cluster", ".sys")},
        (Order(Proxy.GENERIC, Proxy.TENSORMAP, Space.GLOBAL, Scope.GPU),),
        ptx=(8, 3), needs=_CLUSTER, section=_FENCE,
        doc="makes an edited tensor map (128 bytes) visible to later tensor copies"),
    Row("fence.proxy.tensormap.release",
        "fence.proxy.tensormap::generic.release<scope>", "", {}, (),
        {"scope": texts(".gpu", ".cta", ".cluster", ".sys")},
        (Order(Proxy.GENERIC, Proxy.TENSORMAP, Space.GLOBAL, Scope.GPU),),
        ptx=(8, 3), needs=_CLUSTER, section=_FENCE,
        doc="publishes edits of tensor maps"),
    Row("fence.mbarrier_init", "fence.mbarrier_init.release.cluster", "",
        effects=(Order(Proxy.GENERIC, Proxy.ASYNC, Space.BARRIER, Scope.CLUSTER),),
        ptx=(8, 0), needs=_CLUSTER, section=_FENCE,
        doc="publishes initialised mbarriers to the cluster and to the copy engine"),
    Row("fence", "fence<sem><scope>", "", {}, (),
        {"sem": (*texts(".acq_rel", ".sc"), *texts(".acquire", ".release", ptx=(8, 6))),
         "scope": (*texts(".cta", ".gpu", ".sys"), Choice(".cluster", (7, 8), _CLUSTER))},
        (Order(Proxy.GENERIC, Proxy.GENERIC, None, Scope.SYS),),
        ptx=(6, 0), section=_FENCE, doc="orders memory accesses of the thread at a scope"),
    Row("fence.restricted", "fence<sem><restrict>.cluster", "", {}, (),
        {"sem": (Choice(".acquire", along={"restrict": ".sync_restrict::shared::cluster"}),
                 Choice(".release", along={"restrict": ".sync_restrict::shared::cta"})),
         "restrict": (Choice(".sync_restrict::shared::cluster", along={"sem": ".acquire"}),
                      Choice(".sync_restrict::shared::cta", along={"sem": ".release"}))},
        (Order(Proxy.GENERIC, Proxy.GENERIC, Space.SHARED, Scope.CLUSTER),), ptx=(8, 6),
        needs=_CLUSTER, section=_FENCE,
        doc="orders what shared memory of the cluster or of the CTA synchronises", emitted=False),
    Row("membar", "membar<scope>", "", {}, (), {"scope": texts(".cta", ".gl", ".sys")},
        (Order(Proxy.GENERIC, Proxy.GENERIC, None, Scope.SYS),), ptx=(1, 4), section=_FENCE,
        doc="older spelling of fence.sc (.gl is the GPU)", emitted=False),
    Row("membar.proxy.alias", "membar.proxy.alias", "",
        effects=_order(Proxy.GENERIC, Proxy.GENERIC), ptx=(7, 5), section=_FENCE,
        doc="older spelling of fence.proxy.alias", emitted=False),
)

LAUNCH = (
    Row("griddepcontrol.launch_dependents", "griddepcontrol.launch_dependents", "",
        effects=(Order(Proxy.GENERIC, Proxy.GENERIC, Space.GLOBAL, Scope.GPU),),
        ptx=(7, 8), needs=frozenset({Feature.GRID_DEPENDENCY}),
        section=_SYNC + "griddepcontrol",
        doc="lets the dependent grid start once every CTA has said so or ended"),
    Row("griddepcontrol.wait", "griddepcontrol.wait", "",
        effects=(Order(Proxy.GENERIC, Proxy.GENERIC, Space.GLOBAL, Scope.GPU), Await("")),
        ptx=(7, 8), needs=frozenset({Feature.GRID_DEPENDENCY}),
        section=_SYNC + "griddepcontrol",
        doc="waits until the prerequisite grids have ended and their writes are visible"),
)

_LAUNCH_CONTROL = frozenset({Feature.LAUNCH_CONTROL})
_CLC = _SYNC + "clusterlaunchcontrol-"

LAUNCH_CONTROL = (
    Row("clusterlaunchcontrol.try_cancel",
        "clusterlaunchcontrol.try_cancel.async<space?>.mbarrier::complete_tx::bytes<multicast?>.b128",
        "[dst], [bar]", {"dst": "address", "bar": "address"}, (),
        {"space": texts(".shared::cta"),
         "multicast": (Choice(".multicast::cluster::all",
                              needs=frozenset({Feature.LAUNCH_CONTROL_MULTICAST})),)},
        (Touch(Kind.WRITE, "dst", Space.SHARED, Proxy.ASYNC, Done.MBARRIER_TX),
         Signal("bar", bytes_of="dst", scope=Scope.CLUSTER)),
        ptx=(8, 6), needs=_LAUNCH_CONTROL, section=_CLC + "try-cancel",
        doc="asks for a cluster that has not been launched; 16 bytes of answer arrive at `dst`"),
    Row("clusterlaunchcontrol.query_cancel.is_canceled",
        "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128", "p, answer",
        {"p": "pred", "answer": "b128"}, ("p",), ptx=(8, 6), needs=_LAUNCH_CONTROL,
        section=_CLC + "query-cancel", doc="whether the answer holds a cluster", pure=True),
    Row("clusterlaunchcontrol.query_cancel.get_first_ctaid",
        "clusterlaunchcontrol.query_cancel.get_first_ctaid<axis>.b32.b128", "d, answer",
        {"d": "b32", "answer": "b128"}, ("d",), {"axis": texts("::x", "::y", "::z")},
        ptx=(8, 6), needs=_LAUNCH_CONTROL, section=_CLC + "query-cancel",
        doc="one coordinate of the first CTA of the cluster in the answer", pure=True),
    Row("clusterlaunchcontrol.query_cancel.get_first_ctaid.v4",
        "clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128", "{d*}, answer",
        {"d": "b32*", "answer": "b128"}, ("d",),
        ptx=(8, 6), needs=_LAUNCH_CONTROL, section=_CLC + "query-cancel",
        doc="the first CTA of the cluster in the answer; the fourth value is undefined",
        emitted=False, pure=True),
)

ROWS = (*FLOW, *WARPS, *_COMMON_BARRIERS, *LANES, *CLUSTERS, *FENCES, *LAUNCH, *LAUNCH_CONTROL)
