"""Rows of branches, thread and warp synchronisation, fences, and launch order."""

from __future__ import annotations

from tkc.ir.isa.instructions import Choice, Row, texts
from tkc.ir.isa.memory import Await, Effect, Order, Proxy, Scope, Signal, Space
from tkc.ir.isa.targets import Feature

_CLUSTER = frozenset({Feature.CLUSTER})
_SYNC = "parallel-synchronization-and-communication-instructions-"
_FENCE = _SYNC + "membar-fence"

_CTA_ORDER = Order(Proxy.GENERIC, Proxy.GENERIC, None, Scope.CTA)
_CLUSTER_ORDER = Order(Proxy.GENERIC, Proxy.GENERIC, None, Scope.CLUSTER)

FLOW = (
    Row("bra", "bra<uni?>", "target", {"target": "imm"}, (), {"uni": texts(".uni")},
        section="control-flow-instructions-bra", doc="jumps to a label"),
    Row("ret", "ret<uni?>", "", slots={"uni": texts(".uni")},
        section="control-flow-instructions-ret", doc="returns, or ends the thread in a kernel"),
    Row("exit", "exit", "", section="control-flow-instructions-exit", doc="ends the thread"),
    Row("trap", "trap", "", section="miscellaneous-instructions-trap",
        doc="aborts the grid with an error"),
)

_NAMED = {"id": "b32", "count": "b32"}
_ALIGNED = texts(".aligned")


def _barrier(mode: str, syntax: str, effects: tuple[Effect, ...], doc: str) -> Row:
    return Row(
        f"barrier.cta.{mode}", f"barrier.cta.{mode}<aligned?>", syntax, _NAMED, (),
        {"aligned": _ALIGNED}, effects, ptx=(7, 8),
        section=_SYNC + "bar", doc=doc, convergent=True,
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
                      Choice(".sync_restrict::shared::cta", along={"sem": ".release"}))},
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

ROWS = (*FLOW, *WARPS, *CLUSTERS, *FENCES, *LAUNCH)
