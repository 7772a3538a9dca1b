"""Small programs for the analysis, written event by event."""

from __future__ import annotations

from collections.abc import Iterable

from tkc.analysis.happens_before.events import (
    Access,
    Act,
    Arrive,
    AwaitGroup,
    Barrier,
    CloseGroup,
    Complete,
    Event,
    Index,
    Item,
    Loop,
    Meet,
    Program,
    ProxyFence,
    Role,
    Slot,
    TensorFence,
    ThreadFence,
    Threads,
    Wait,
)
from tkc.analysis.happens_before.graph import build
from tkc.analysis.happens_before.rules import PRACTICE, PROFILES, STRICT
from tkc.analysis.happens_before.verdicts import Hazard, Judge, Verdict, conflicts, places
from tkc.ir.isa.memory import Done, Proxy, Scope, Sem, Space

ONE, LANE, ALL = Threads.ONE, Threads.LANE, Threads.ALL
HOME = STRICT | {"A1", "A2"}
IMPLICIT = HOME | {"A6", "A7"}
RELAXED, CLUSTER = Sem.RELAXED, Scope.CLUSTER

# Accesses of slot 0 of shared buffer `s` ------------------------------------------------------------------------------


def _shared(
    name: str,
    write: bool,
    proxy: Proxy,
    done: Done,
    threads: Threads,
    act: Act | None = None,
    owner: int = 0,
    buffer: str = "s",
    slot: Slot | None = None,
) -> Event:
    access = Access(Space.SHARED, buffer, write, slot or Slot(None, (0,)), proxy, done, name, owner)
    return Event(name, threads, (access,), act)


def st(threads: Threads = ALL, **more: object) -> Event:
    return _shared("st", True, Proxy.GENERIC, Done.NOW, threads, **more)  # pyright: ignore


def ld(threads: Threads = ALL, **more: object) -> Event:
    return _shared("ld", False, Proxy.GENERIC, Done.NOW, threads, **more)  # pyright: ignore


def tma(barrier: str = "full", index: Index | None = None, **more: object) -> Event:
    """A TMA load that completes on item 0 of a barrier."""
    act = Complete(barrier, index or Index(None, 0), 64)
    return _shared("tma", True, Proxy.ASYNC, Done.MBARRIER_TX, ONE, act, **more)  # pyright: ignore


def tma_store(**more: object) -> Event:
    return _shared("tma_store", False, Proxy.ASYNC, Done.BULK_GROUP_READ, ONE, **more)  # pyright: ignore


def mma(**more: object) -> Event:
    """tcgen05.mma or cp, as far as shared memory sees them."""
    return _shared("mma", False, Proxy.ASYNC, Done.TCGEN05_COMMIT, ONE, **more)  # pyright: ignore


def wgmma(threads: Threads = ALL, **more: object) -> Event:
    return _shared("wgmma", False, Proxy.ASYNC, Done.WGMMA_GROUP, threads, **more)  # pyright: ignore


def cp_async(threads: Threads = ALL, **more: object) -> Event:
    return _shared("cp_async", True, Proxy.GENERIC, Done.CP_ASYNC_GROUP, threads, **more)  # pyright: ignore


# Accesses of tensor memory -------------------------------------------------------------------------------------------


def tensor(what: str, threads: Threads | None = None, write: bool | None = None) -> Event:
    """`mma` writes D, `mma.a` and `mma.scale` read their operands, `cp` and `st` write, `ld` reads."""
    done = Done.TCGEN05_WAIT if what in ("ld", "st") else Done.TCGEN05_COMMIT
    writes = what not in ("ld", "mma.a", "mma.scale") if write is None else write
    who = threads if threads is not None else (ALL if what in ("ld", "st") else ONE)
    return Event(
        what, who, (Access(Space.TENSOR, "t", writes, Slot(None, (0,)), Proxy.TENSOR, done, what),)
    )


def global_(
    name: str,
    write: bool,
    proxy: Proxy = Proxy.GENERIC,
    done: Done = Done.NOW,
    act: Act | None = None,
    threads: Threads = ONE,
) -> Event:
    return Event(name, threads, (Access(Space.GLOBAL, "g", write, None, proxy, done, name),), act)


# Synchronisation -----------------------------------------------------------------------------------------------------


def at(item: int | Index) -> Index:
    return Index(None, item) if isinstance(item, int) else item


def arrive(
    barrier: str = "full",
    item: int | Index = 0,
    threads: Threads = ONE,
    sem: Sem = Sem.RELEASE,
    scope: Scope = Scope.CTA,
    count: int = 1,
    bytes: int = 0,
) -> Event:
    return Event(
        f"arrive {barrier}", threads, (), Arrive(barrier, at(item), count, bytes, False, sem, scope)
    )


def commit(barrier: str = "full", item: int | Index = 0) -> Event:
    return Event(f"commit {barrier}", ONE, (), Arrive(barrier, at(item), 1, 0, True))


def wait(
    barrier: str = "full",
    item: int | Index = 0,
    threads: Threads = ALL,
    sem: Sem = Sem.ACQUIRE,
    scope: Scope = Scope.CTA,
) -> Event:
    return Event(f"wait {barrier}", threads, (), Wait(barrier, at(item), sem, scope))


def fence(threads: Threads = ALL, space: Space | None = Space.SHARED, half: str = "") -> Event:
    return Event("fence" + half, threads, (), ProxyFence(space, half=half))


def before(threads: Threads = ALL) -> Event:
    return Event("before", threads, (), TensorFence(True))


def after(threads: Threads = ALL) -> Event:
    return Event("after", threads, (), TensorFence(False))


def acq_rel(threads: Threads = ALL, scope: Scope = Scope.CTA) -> Event:
    return Event("fence.acq_rel", threads, (), ThreadFence(Sem.ACQ_REL, scope))


def sync(among: str = "role") -> Event:
    return Event("sync", ALL, (), Meet(among))


def bar(item: int | Index = 0, barrier: str = "bar") -> Event:
    """bar.sync of the CTA."""
    return Event("bar", ALL, (), Meet("cta", barrier, at(item)))


def close(done: Done, threads: Threads = ONE) -> Event:
    return Event("close", threads, (), CloseGroup(done))


def await_group(done: Done, pending: int = 0, read: bool = False, threads: Threads = ONE) -> Event:
    return Event("await", threads, (), AwaitGroup(done, pending, read))


def role(name: str, *body: Item, warps: int = 4, cta: int = 0) -> Role:
    return Role(name, list(body), warps, cta)


def loop(
    name: str, *body: Item, low: int = 0, high: float = float("inf"), key: object = ""
) -> Loop:
    return Loop(name, list(body), key or name, low, high)  # pyright: ignore


def program(*roles: Role, barriers: Iterable[Barrier] = ()) -> Program:
    known = {b.name: b for b in barriers}
    for r in roles:
        for event in r.events():
            name = getattr(event.act, "barrier", None)
            if name is not None and name != "bar":
                known.setdefault(name, Barrier(name))
    return Program("test", list(roles), dict(known))


# Verdicts ------------------------------------------------------------------------------------------------------------


def hazards(made: Program, assumed: frozenset[str] | str = PRACTICE) -> list[Hazard]:
    judge = Judge(build(made), PROFILES[assumed] if isinstance(assumed, str) else assumed)
    return [
        judge.hazard(a, b, here)
        for here in places(judge.graph).values()
        for a, b in conflicts(here)
        if a is not b
    ]


def verdict(made: Program, assumed: frozenset[str] | str = PRACTICE) -> str:
    """The worst verdict on pairs of different accesses."""
    order = [Verdict.UNORDERED, Verdict.WRONG_PROXY, Verdict.ORDERED]
    return min((h.verdict for h in hazards(made, assumed)), key=order.index).value


def direct(made: Program, assumed: frozenset[str], first: str, second: str) -> bool:
    """Whether a chain leads from one event to another, without a read between."""
    judge = Judge(build(made), assumed)
    for here in places(judge.graph).values():
        for a in here:
            for b in here:
                if a.event.name == first and b.event.name == second and a is not b:
                    return judge.distance(a, b, judge.graph.kernel)[0] <= 0
    raise AssertionError(f"no {first} and {second}")
