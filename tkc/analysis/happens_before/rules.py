"""What orders what: every rule that a chain may use, with its section of the PTX manual and what it assumes.

`docs/memory-model.md` prints the rows. A profile is the set of assumptions (`ir.isa.assumptions`) that a proof may use.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tkc.ir.isa.assumptions import ACROSS, FENCED, UNHIDDEN, granted

STRICT = granted("strict")
PRACTICE = granted("practice")
PROFILES: Mapping[str, frozenset[str]] = {
    "strict": STRICT,
    UNHIDDEN: granted(UNHIDDEN),
    FENCED: granted(FENCED),
    ACROSS: granted(ACROSS),
    "practice": PRACTICE,
}


@dataclass(frozen=True, slots=True)
class Rule:
    """Why one event comes before another."""

    says: str
    section: str
    assumes: tuple[str, ...] = ()


RULES: Mapping[str, Rule] = {
    "start": Rule("the access", ""),
    "po": Rule("program order of the thread", "8.9.1"),
    "loop": Rule("program order, next iteration", "8.9.1"),
    "issue": Rule("an async operation starts after what its thread did before", "8.9.1.1"),
    "issue-wgmma": Rule("wgmma starts after what its thread acquired", "9.7.17.4", ("A8",)),
    "release": Rule("arrival, release to acquire", "8.9.4"),
    "release-remote": Rule("arrival of another CTA, release to acquire", "8.9.4", ("A2",)),
    "bytes": Rule("complete_tx of the copy, release to acquire", "9.7.10.28.2"),
    "bytes-remote": Rule("complete_tx from another CTA", "9.7.10.28.2", ("A2",)),
    "bytes-known": Rule(
        "complete_tx by a thread that knew the access complete", "8.9.1.1", ("A5",)
    ),
    "commit": Rule(
        "tcgen05.commit tracks the operation; its arrival releases it", "9.7.18.12.1", ("A4",)
    ),
    "commit-remote": Rule("tcgen05.commit to another CTA", "9.7.18.12.1", ("A2", "A4")),
    "commit-known": Rule(
        "tcgen05.commit by a thread that knew the access complete", "9.7.18.12.1", ("A5",)
    ),
    "copies": Rule(
        "cp.async.mbarrier.arrive: the thread's copies so far are complete, nothing else", "8.9.1.1"
    ),
    "group": Rule("commit_group takes the operation", "9.7.10.28.6.1"),
    "await-group": Rule("wait_group: the operation is complete", "9.7.10.28.6.2"),
    "meet": Rule("barrier of threads", "9.7.15.1"),
    "meet-cluster": Rule("barrier of the cluster", "9.7.15.3"),
    "meet-awaited": Rule(
        "barrier of threads, of awaited loads and stores of tensor memory", "9.7.15.1", ("A20",)
    ),
    "meet-warp": Rule("bar.warp.sync", "9.7.15.2"),
    "meet-warp-async": Rule("bar.warp.sync, completions", "9.7.15.2", ("A13",)),
    "whole-warpgroup": Rule("the wait covers the warpgroup's products", "9.7.17.7", ("A12",)),
    "whole-warpgroup-fence": Rule(
        "the wait covers the warpgroup's products, and holds a proxy fence", "9.7.17.4", ("A12",)
    ),
    "implicit-fence": Rule("completion holds a proxy fence", "9.7.10.28.2"),
    "implicit-fence-read": Rule(
        "completion of the reads holds a proxy fence", "9.7.10.28.2", ("A7",)
    ),
    "implicit-fence-tcgen05": Rule("completion holds a proxy fence", "9.7.18.6.5", ("A6",)),
    "proxy-fence": Rule("fence.proxy.async", "9.7.15.4"),
    "proxy-fence-others": Rule("fence.proxy.async, for other threads too", "9.7.15.4", ("A11",)),
    "half-release": Rule("fence.proxy.async::generic.release", "9.7.15.4"),
    "half-acquire": Rule("fence.proxy.async::generic.acquire", "9.7.15.4"),
    "map-release": Rule("fence.proxy.tensormap::generic.release", "9.7.15.4"),
    "map-acquire": Rule("fence.proxy.tensormap::generic.acquire", "9.7.15.4"),
    "map-read": Rule("the copy is complete, or has read its sources and its map", "9.7.10.28.6.2"),
    "mapped": Rule("the map has been acquired in this CTA", "9.7.15.4"),
    "tcgen05-wait": Rule("tcgen05.wait::ld or ::st", "9.7.18.6.4"),
    "tcgen05-before": Rule("tcgen05.fence::before_thread_sync", "9.7.18.11"),
    "tcgen05-after": Rule("tcgen05.fence::after_thread_sync", "9.7.18.11"),
    "acquire-tcgen05": Rule("an acquire orders later tcgen05 operations", "9.7.18.6.3", ("A3",)),
    "pipelined": Rule("tcgen05 operations of one thread that are pipelined", "9.7.18.6.2"),
    "pipelined-scales": Rule("mma then cp on the scales", "9.7.18.6.2", ("A9",)),
    "pipelined-a": Rule("mma reads A, then mma writes its columns", "9.7.18.6.2", ("A14",)),
    "thread-fence": Rule("fence.acq_rel", "8.8"),
    "one-proxy": Rule("same proxy, same CTA", "8.9.5"),
    "one-proxy-home": Rule("same proxy, the memory's CTA", "8.9.5", ("A1",)),
    "generic": Rule("both generic", "8.9.5"),
    "bridged": Rule("the proxies are joined by a fence", "8.9.5"),
    "read-between": Rule("a read between sees the first and comes before the second", "8.10.6"),
}
