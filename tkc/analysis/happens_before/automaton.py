"""What is known of an access at a moment: its proxy state, whose threads' parts, and by which threads.

Memory states (`State.name`): `gen` known to the generic proxy; `raw` an async access that is complete; `async` joined
to the async proxy of CTA `n`; `half` released by the unidirectional fence, `acquired` by its other half, for what the
threads that executed it issue; `edited` published to the tensormap proxy, `mapped` acquired for CTA `n`; `bulk`,
`wgmma`, `cp` under way, `n` groups closed since; `tc` a tcgen05 read of shared memory under way. Tensor memory:
`issued`, `ld`, `st` under way; `done`; `before` after before_thread_sync; `after` needs after_thread_sync; `met`
beyond bar.sync without a fence before it; `pipe…` still under way, handed to another thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from tkc.analysis.happens_before.events import (
    Access,
    AwaitGroup,
    CloseGroup,
    Event,
    MapFence,
    ProxyFence,
    Some,
    TensorFence,
    ThreadFence,
    Threads,
    Who,
)
from tkc.ir.isa.assumptions import PIPELINED
from tkc.ir.isa.memory import Done, Proxy, Scope, Sem, Space


class Part:
    """Whose parts of an access a thread knows: its own, its warp's, every thread's."""

    OWN, WARP, FULL = 0, 1, 2


class Fence:
    """What fences of threads (8.9.4) have done, or have to do: of a CTA's scope, or of a wider one that tells other
    CTAs."""

    NONE, RELEASED, MISSING, MISSING_WIDE, RELEASED_WIDE = range(5)


TO_ACQUIRE = (Fence.MISSING, Fence.MISSING_WIDE)
"""An acquire fence is still missing."""


class State(NamedTuple):
    """`fence` is one of `Fence`."""

    name: str
    n: int
    fence: int
    part: int
    who: Who


def of(state: State, who: Who) -> State:
    """The same, known by some threads."""
    return state if state.who is who else State(state.name, state.n, state.fence, state.part, who)


def implies(more: State, less: State) -> bool:
    """Whether one state says all that another does: of all threads what that says of some, of later groups."""
    if (more.name, more.fence) != (less.name, less.fence):
        return False
    if more.n != less.n and not (more.name in GROUPS.values() and more.n > less.n):
        return False
    return (more.part, more.who) in ((less.part, less.who), (Part.FULL, Threads.ALL))


GROUPS = {
    Done.BULK_GROUP: "bulk",
    Done.BULK_GROUP_READ: "bulk",
    Done.WGMMA_GROUP: "wgmma",
    Done.CP_ASYNC_GROUP: "cp",
}
PENDING = frozenset({"bulk", "wgmma", "cp", "tc", "issued", "ld", "st", "tx", "acquired"})
"""What is not handed on to other threads."""
MOST_GROUPS = 9
"""Closed groups are counted up to here."""

ONE, WARP, LANE, ALL, SOME = Threads

_MEET: dict[tuple[Threads, Threads], Threads] = {
    (WARP, ONE): ONE, (WARP, LANE): ONE, (LANE, WARP): ONE, (WARP, WARP): WARP, (LANE, LANE): LANE,
}  # fmt: skip


def both(who: Who, others: Who) -> Who | None:
    """The threads in both sets; None where that is not known."""
    if others is ALL:
        return who
    if who is ALL:
        return others
    if isinstance(who, Some) or isinstance(others, Some):
        return who if within(who, others) else others if within(others, who) else None
    if who is SOME or others is SOME:
        return None
    if who is ONE or others is ONE:
        return ONE
    return _MEET[who, others]


def within(threads: Who, who: Who) -> bool:
    """Whether all of `threads` are in `who`."""
    if who is ALL:
        return True
    if isinstance(threads, Some):
        if threads is who or within(threads.of, who):
            return True
        known = isinstance(who, Some) and threads.members is not None and who.members is not None
        return known and threads.members <= who.members  # pyright: ignore[reportOptionalOperand]
    if isinstance(who, Some):
        return threads in who.holds
    if who is SOME:
        return False
    return threads is who or threads is ONE


def disjoint(one: Who, other: Who) -> bool:
    """Whether no thread is surely in both sets, each of whole warps."""
    if isinstance(one, Some) and isinstance(other, Some):
        known = one.members is not None and other.members is not None
        return known and not one.members & other.members  # pyright: ignore[reportOptionalOperand]
    some, named = (one, other) if isinstance(one, Some) else (other, one)
    return isinstance(some, Some) and named is WARP and some.warps > 0 and WARP not in some.holds


def whole(state: State, source: Who) -> bool:
    """Whether those who know something, of whom there are some, know, together, every thread's part."""
    if state.part == Part.FULL:
        return state.who.sure if isinstance(state.who, Some) else state.who is not SOME
    if state.part == Part.WARP:
        return state.who in (LANE, ALL)
    return within(source, state.who)


@dataclass(frozen=True, slots=True)
class Source:
    """The access whose order is followed: its event, the CTA that issues it and the CTA whose access it counts as."""

    access: Access
    event: Event
    threads: Who
    cta: int
    home: int
    assumed: frozenset[str]


def memory_of(access: Access) -> int | None:
    """The CTA whose shared memory an access touches: a fence of `.shared::cta` joins accesses of its own CTA's."""
    return access.owner if access.space is Space.SHARED else None


def home_of(access: Access, cta: int, assumed: frozenset[str]) -> int:
    """The CTA that an access counts for (A1: the owner of the memory)."""
    return access.owner if "A1" in assumed and access.space is Space.SHARED else cta


def start(source: Source) -> Iterator[State]:
    """The states right after the access was issued, in program order of its threads."""
    access = source.access
    name = _started(access)
    if name is not None:
        yield State(name, 0, 0, Part.OWN, source.threads)


def _started(access: Access) -> str | None:
    if access.space is Space.TENSOR:
        return {
            Done.TCGEN05_COMMIT: "issued",
            Done.TCGEN05_WAIT: "st" if access.write else "ld",
        }.get(access.done, "done")
    match access.done:
        case Done.NOW:
            return "gen" if access.proxy is Proxy.GENERIC else "raw"
        case Done.MBARRIER_TX:
            return None
        case Done.TCGEN05_COMMIT:
            return "tc"
        case _:
            return GROUPS[access.done]


def completed(source: Source, rule: str) -> Iterator[tuple[str, str]]:
    """The states of an access that is complete, and the rule: its completion may hold a proxy fence (S4: for it
    alone)."""
    access = source.access
    if access.space is Space.TENSOR:
        yield "done", rule
        return
    if access.proxy is Proxy.GENERIC:
        yield "gen", rule
        return
    if access.proxy is Proxy.TENSORMAP:
        yield "gen", "map-read"
        return
    match access.done:  # first what needs no other fence
        case Done.TCGEN05_COMMIT:
            if "A6" in source.assumed:
                yield "gen", "implicit-fence-tcgen05"
        case Done.BULK_GROUP_READ:
            if "A7" in source.assumed:
                yield "gen", "implicit-fence-read"
        case _:
            yield "gen", "implicit-fence"
    yield "raw", rule


def step(
    state: State, event: Event, threads: Who, source: Source, cta: int
) -> Iterator[tuple[State, str]]:
    """What an event adds to what is known, for the threads that execute it."""
    who = both(state.who, threads)
    if who is None:
        return
    act = event.act
    if isinstance(act, CloseGroup):
        if GROUPS[act.done] == state.name and state.n < MOST_GROUPS:
            yield state._replace(n=state.n + 1, who=who), "group"
    elif isinstance(act, AwaitGroup):
        yield from _await_group(state, act, who, source)
    elif isinstance(act, ProxyFence):
        yield from _proxy_fence(state, act, who, source, cta)
    elif isinstance(act, MapFence):
        yield from _map_fence(state, act, who, source, cta)
    elif isinstance(act, TensorFence):
        yield from _tensor_fence(state, act, who, source)
    elif isinstance(act, ThreadFence):
        yield from _thread_fence(state, act, who)


def _thread_fence(state: State, act: ThreadFence, who: Who) -> Iterator[tuple[State, str]]:
    wide = act.scope is not Scope.CTA
    if act.sem in (Sem.RELEASE, Sem.ACQ_REL) and state.name not in PENDING:
        if wide and state.fence in (Fence.NONE, Fence.RELEASED):
            yield state._replace(fence=Fence.RELEASED_WIDE, who=who), "thread-fence"
        elif state.fence == Fence.NONE:
            yield state._replace(fence=Fence.RELEASED, who=who), "thread-fence"
    if act.sem in (Sem.ACQUIRE, Sem.ACQ_REL):
        if state.fence == Fence.MISSING or (wide and state.fence == Fence.MISSING_WIDE):
            yield state._replace(fence=Fence.NONE, who=who), "thread-fence"
            if wide and act.sem is Sem.ACQ_REL:  # it ends one pattern and begins another (8.8)
                yield state._replace(fence=Fence.RELEASED_WIDE, who=who), "thread-fence"


def _await_group(
    state: State, act: AwaitGroup, who: Who, source: Source
) -> Iterator[tuple[State, str]]:
    if act.done is Done.TCGEN05_WAIT:
        if state.name in ("ld", "st"):
            yield state._replace(name="done", who=who), "tcgen05-wait"
        return
    if GROUPS[act.done] != state.name or state.n <= act.pending:
        return
    if act.of is not None and act.of is not source.access.buffer:
        return
    if act.read and source.access.done is Done.BULK_GROUP:
        return
    # products are the warp's (S6), so that any of its threads waits for what all of them read
    part = max(state.part, Part.WARP) if state.name == "wgmma" else state.part
    for name, rule in completed(source, "await-group"):
        if rule == "implicit-fence-read" and not act.read:
            rule = "implicit-fence"
        yield State(name, 0, 0, part, who), rule
        if state.name == "wgmma" and "A12" in source.assumed:
            whole = "whole-warpgroup" + "-fence" * (rule != "await-group")
            yield State(name, 0, 0, Part.FULL, who), whole
    full = act.done is Done.BULK_GROUP and not act.read
    if full and source.access.done is Done.BULK_GROUP_READ and "A7" not in source.assumed:
        yield State("gen", 0, 0, state.part, who), "implicit-fence"


def issued(state: State, event: Event, threads: Who, source: Source) -> Iterator[tuple[State, str]]:
    """What a product of a warpgroup adds to what is known of a moment.

    It is complete only after all warps of its group have come to it, so that who has waited for its group (A12) comes
    after what they all did before. A wait for groups without products tells nothing of other warps.
    """
    if whole(state, source.threads):
        closed = isinstance(event.act, CloseGroup)
        yield State("wgmma", int(closed), 0, Part.FULL, threads), "po"


def _proxy_fence(
    state: State, act: ProxyFence, who: Who, source: Source, cta: int
) -> Iterator[tuple[State, str]]:
    access = source.access
    if access.space in (Space.TENSOR, Space.MAP):
        return
    if act.space is not None and act.space is not access.space:
        return
    if act.space is Space.SHARED and not (act.cluster or act.half) and cta != access.owner:
        return  # `.shared::cta` is of this CTA's memory
    if act.half == "release":
        mine = access.proxy is Proxy.GENERIC  # what has only become known to it is not its thread's
        mine = mine and state.part == Part.OWN and within(source.threads, who)
        mine = mine and not (act.reads and access.write)
        if state.name == "gen" and state.n == 0 and mine and cta == source.cta:
            yield state._replace(name="half", who=who), "half-release"
        return
    if act.half == "acquire":
        if state.name == "half":
            yield state._replace(name="acquired", n=cta, fence=Fence.NONE, who=who), "half-acquire"
        return
    others = state.part != Part.OWN
    if state.fence in TO_ACQUIRE or (others and "A11" not in source.assumed):
        return  # nothing has been acquired yet
    state = state._replace(
        fence=Fence.NONE
    )  # what a fence of threads before this one releases, it does not
    rule = "proxy-fence-others" if others else "proxy-fence"
    if state.name == "raw" and cta == source.home:
        yield state._replace(name="gen", who=who), rule
    # what is known of a complete async access as such (`raw`) holds wherever this one would, in its own CTA
    if state.name == "gen" and (access.proxy is Proxy.GENERIC or cta != source.home):
        yield state._replace(name="async", n=cta, who=who), rule


def _map_fence(
    state: State, act: MapFence, who: Threads, source: Source, cta: int
) -> Iterator[tuple[State, str]]:
    """A release of edits that its thread knows of; an acquire of that map, which holds for the CTA."""
    access = source.access
    if access.space is not Space.MAP or access.proxy is not Proxy.GENERIC:
        return
    if act.half == "release":
        others = state.part != Part.OWN
        if state.name == "gen" and not (others and "A11" not in source.assumed):
            yield state._replace(name="edited", who=who), "map-release"
    elif state.name == "edited" and state.fence not in TO_ACQUIRE:
        if act.buffer is access.buffer and act.slot is not None and act.slot == access.slot:
            yield state._replace(name="mapped", n=cta, who=who), "map-acquire"


def _tensor_fence(
    state: State, act: TensorFence, who: Who, source: Source
) -> Iterator[tuple[State, str]]:
    if source.access.space is not Space.TENSOR:
        return
    if act.before:
        # of loads and stores a thread's own, not those that a meeting of its lanes has told it of
        own = source.access.done is not Done.TCGEN05_WAIT or state.part == Part.OWN
        known = {"done": "before", "issued": "pipe-before"}
        if state.name in known and own:
            yield state._replace(name=known[state.name], who=who), "tcgen05-before"
    else:
        known = {"after": "done", "pipe-after": "pipe"}
        if state.name in known:
            yield state._replace(name=known[state.name], who=who), "tcgen05-after"


# Crossing to other threads -------------------------------------------------------------------------------------------


def release(
    state: State,
    source: Source,
    sem: Sem,
    scope: Scope,
    wait_sem: Sem,
    wait_scope: Scope,
    crossing: bool,
) -> tuple[State, str] | None:
    """What a waiter knows after an arrival by those who knew `state`, before its threads are put in; None: nothing."""
    if state.name in PENDING or not whole(state, source.threads):
        return None
    relaxed_release = sem is Sem.RELAXED
    relaxed_acquire = wait_sem is Sem.RELAXED
    cluster = scope is not Scope.CTA and wait_scope is not Scope.CTA
    if source.access.space is Space.TENSOR:
        name = _tensor_over(state.name, relaxed_release or relaxed_acquire, source)
        if name is None or (crossing and not cluster and "A2" not in source.assumed):
            return None
        rule = "acquire-tcgen05" if name == "done" else "release"
        return State(name, 0, 0, Part.FULL, ALL), rule
    rule = "release"
    if crossing and not cluster:
        if not told_at_cta_scope(source.access.proxy, source.access.done):
            return None
        if "A2" not in source.assumed:
            return None
        rule = "release-remote"
    if state.name == "half":
        return State("half", state.n, 0, Part.FULL, ALL), rule
    wide = crossing and not (
        told_at_cta_scope(source.access.proxy, source.access.done) and "A2" in source.assumed
    )
    enough = (Fence.RELEASED_WIDE,) if wide else (Fence.RELEASED, Fence.RELEASED_WIDE)
    if state.fence in TO_ACQUIRE or (relaxed_release and state.fence not in enough):
        return None
    missing = Fence.MISSING_WIDE if wide else Fence.MISSING
    fence = missing if relaxed_acquire else Fence.NONE
    return State(state.name, state.n, fence, Part.FULL, ALL), rule


def told_at_cta_scope(proxy: Proxy, done: Done) -> bool:
    """Whether an arrival of CTA scope tells another CTA of such an access of shared memory (A2): of what copies
    and products have completed, not of what a thread did, nor of groups of stores, which it awaits by itself."""
    return proxy is not Proxy.GENERIC and done not in (Done.BULK_GROUP, Done.BULK_GROUP_READ)


def acquired(
    state: State, source: Source, rule: str, sem: Sem, crossing: bool, narrow: bool
) -> tuple[State, str] | None:
    """What a wait knows of an operation whose completion itself arrives (complete_tx, tcgen05.commit).

    `crossing`: it is another CTA's; `narrow`: and the wait acquires at CTA scope (A2)."""
    if narrow:
        rule = {"bytes": "bytes-remote", "commit": "commit-remote"}.get(rule, rule)
    if source.access.space is Space.TENSOR:
        over = _tensor_over("before", sem is Sem.RELAXED, source)
        return None if over is None else (state._replace(name=over), rule)
    missing = Fence.MISSING_WIDE if crossing and "A2" not in source.assumed else Fence.MISSING
    return state._replace(fence=missing if sem is Sem.RELAXED else Fence.NONE), rule


def _tensor_over(name: str, relaxed: bool, source: Source) -> str | None:
    """What is known of tensor memory beyond an arrival and a wait."""
    if name == "pipe-before":
        return "pipe-after"
    if name not in ("done", "before", "after", "met"):
        return None
    if not relaxed and "A3" in source.assumed:
        return "done"
    return "after" if name in ("before", "after") else None


def tracked(state: State, source: Source) -> Iterator[tuple[str, str]]:
    """What the arrival of tcgen05.commit says of an access of its thread."""
    if state.name == "tc" and "A4" in source.assumed:
        yield from completed(source, "commit")
    elif state.name == "issued" and "A4" in source.assumed:
        yield "done", "commit"
    elif known_complete(state, source):
        yield "raw", "commit-known"


def known_complete(state: State, source: Source) -> bool:
    """A5: an async write that the thread of a later async operation knew complete, for async accesses of its bytes."""
    return (
        state.name == "raw"
        and state.fence not in TO_ACQUIRE
        and "A5" in source.assumed
        and source.access.proxy is Proxy.ASYNC
        and source.access.space is Space.SHARED
        and whole(state, source.threads)
    )


# Meetings ------------------------------------------------------------------------------------------------------------


def meet_role(state: State, source: Source, relaxed: bool = False) -> Iterator[tuple[State, str]]:
    """All threads of the role meet."""
    if state.name in PENDING or not whole(state, source.threads) or state.fence in TO_ACQUIRE:
        return
    name = state.name
    if source.access.space is Space.TENSOR:
        # bar.sync hands it on for a later release, but orders no tcgen05 operation behind it without both fences
        if (
            name in ("done", "met")
            and source.access.done is Done.TCGEN05_WAIT
            and "A20" in source.assumed
        ):
            yield State("done", state.n, 0, Part.FULL, ALL), "meet-awaited"
            return
        over = _tensor_over(name, True, source)
        name = over if over is not None else "met"
    yield State(name, state.n, 0, Part.FULL, ALL), "meet"


def meet_warp(state: State, source: Source, by: Who, only: bool) -> Iterator[tuple[State, str]]:
    """The lanes of each warp meet; `by`: who comes; `only`: there is one warp. Fences of threads are of those before
    what they know now, and of those who have waited themselves."""
    if state.name in PENDING or state.fence in TO_ACQUIRE:
        return
    plain = source.access.space is not Space.TENSOR and source.access.proxy is Proxy.GENERIC
    if not plain and "A13" not in source.assumed:
        return
    rule = "meet-warp" if plain else "meet-warp-async"
    part, who = state.part, state.who
    if only:
        if whole(state, source.threads):
            part, who = Part.FULL, ALL
    elif part == Part.FULL:
        who = {ONE: WARP, LANE: ALL}.get(who, who)
    elif part == Part.WARP:
        who = {ONE: WARP, LANE: ALL}.get(who, who)
    elif within(source.threads, who):
        if source.threads is ONE or source.threads is WARP:
            part, who = Part.FULL, WARP
        elif source.threads in (LANE, ALL):
            part, who = Part.WARP, ALL
        elif by is ALL and isinstance(
            source.threads, Some
        ):  # whichever: each lane knows those of its warp
            part, who = Part.WARP, ALL
        elif isinstance(source.threads, Some) and isinstance(who, Some) and who.warps:
            part = Part.FULL if who.warps == 1 else Part.WARP
    if (part, who) != (state.part, state.who):
        yield State(state.name, state.n, 0, part, who), rule


# The end -------------------------------------------------------------------------------------------------------------


def accepts(
    state: State, source: Source, first: Access, access: Access, event: Event, cta: int
) -> str | None:
    """The rule by which what is known of an access, as of `source`, orders it before one of this event, or None."""
    if access.space is Space.TENSOR:
        if state.name == "done":
            return "po"
        return _pipelined(source, first, access) if state.name in ("issued", "pipe") else None
    if state.fence in TO_ACQUIRE:
        return None
    if access.proxy is Proxy.GENERIC:
        return "generic" if state.name == "gen" else None
    if access.proxy is Proxy.TENSORMAP:
        return "mapped" if state.name == "mapped" and state.n == cta else None
    home = home_of(access, cta, source.assumed)
    if state.name in ("async", "acquired") and state.n == home:
        return "bridged"
    if state.name == "raw" and source.access.proxy is access.proxy and source.home == home:
        return "one-proxy" if source.cta == cta else "one-proxy-home"
    return None


_PIPED = {"A9": "pipelined-scales", "A14": "pipelined-a"}


def _pipelined(source: Source, before: Access, after: Access) -> str | None:
    """Whether the tensor core's pipe keeps two operations of one thread in order; a product's own accumulator, as what
    both write, and what one reads and the other writes, are different pairs."""
    for pair in PIPELINED:
        kinds = before.what.split(".")[0], after.what.split(".")[0]
        if kinds != (pair.first, pair.then) or not (pair.needs in source.assumed or not pair.needs):
            continue
        if kinds == ("mma", "mma"):
            fits = before.write and after.write if pair.same else not before.write and after.write
        else:
            fits = True
        if fits:
            return _PIPED.get(pair.needs, "pipelined")
    return None
