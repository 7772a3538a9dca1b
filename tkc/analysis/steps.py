"""What each rule of a chain adds to what is known of an access, at the event that it is about.

A rule looks at what instances of an access have in common and at one event of those that are alike, and gives a `Move`:
what is known afterwards, and what has to be asked of each instance. `moves.Run` takes the moves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from xdsl.ir import SSAValue

from tkc.analysis.instances import Copy, Event
from tkc.analysis.known import (
    ACQUIRED,
    AFTER,
    BEFORE,
    COMPLETE,
    EDITED,
    GENERIC,
    HALF,
    JOINED,
    MAPPED,
    MET,
    MISSING,
    PENDING,
    PIPE,
    PIPE_AFTER,
    PIPE_BEFORE,
    RELEASED,
    WIDE_MISSING,
    WIDE_RELEASED,
    Access,
    Broken,
    Known,
    all_know,
    expect,
    over,
    parts,
    text,
    those,
)
from tkc.analysis.phases import does, number
from tkc.ir.certificates import Link
from tkc.ir.isa.fences import ONE_WAY, form
from tkc.ir.isa.memory import Await, Done, Kind, Meet, Proxy, Scope, Sem, Signal, Space, Touch
from tkc.ir.stage import ops as s
from tkc.ir.stage.elements import CopiesArriveOp
from tkc.ir.stage.explicit import FenceOp
from tkc.ir.stage.maps import MapAcquireOp, MapReleaseOp

ARRIVALS, BYTES = -2, -1
"""Which of the barriers that an event tells are meant; a CTA's number: those of the bytes that fill its memory."""


@dataclass(frozen=True, slots=True)
class Awaited:
    """So, where so many groups have been closed since that the wait is for the access's own."""

    after: Known | Broken
    group: Done
    pending: int


@dataclass(frozen=True, slots=True)
class Acquired:
    """So, where the event is about the tensor map that the access has edited."""

    after: Known
    buffer: SSAValue


@dataclass(frozen=True, slots=True)
class Told:
    """Known from where a wait of the step's end sees a phase complete that the event tells; `then`: what, by that wait,
    and whether others may hide the event from it. `own`: of the event that is the access itself alone."""

    which: int
    then: Callable[[Event, bool], Known]
    own: bool = False
    after: dict[object, Known | Broken] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Met:
    """Known at the meeting of the same number in the trace of `other`; `then`: what, by its event there."""

    among: str
    barrier: int
    other: Copy
    then: Callable[[Event], Known]
    after: dict[object, Known | Broken] = field(default_factory=dict)


Move = Known | Awaited | Acquired | Told | Met | Broken | None
"""None: such an event is passed by; Broken: the chain does not hold where it is the next one."""

Rule = Callable[[frozenset[str], Link, Known, Event], Move]
"""By what is assumed, a step, what is known and an event; raises Broken as well as giving it."""


def await_group(assumed: frozenset[str], link: Link, known: Known, event: Event) -> Move:
    """wait_group: this thread's group is among those that are over; or tcgen05.wait."""
    x = known.source
    threads = those(known, event)
    if x.done is Done.TCGEN05_WAIT:
        if not any(
            isinstance(r, Await | Touch) and r.done is Done.TCGEN05_WAIT for r in event.of.effects
        ):
            raise Broken(f"{link.start} waits for no tcgen05.ld or st")
        expect(known, "ld", "st")
        return known.then(state=COMPLETE, threads=threads)
    group = Done.BULK_GROUP if x.done is Done.BULK_GROUP_READ else x.done
    if not any(isinstance(r, Await) and r.done is group for r in event.of.effects):
        raise Broken(f"{link.start} does not wait for the group")
    expect(known, "group")
    reads_only = "read" in event.op.properties
    if reads_only and x.done is Done.BULK_GROUP:
        raise Broken("a wait for reads does not wait for writes")
    if known.copy != x.copy:
        return None
    try:
        after = _group_over(link, known, event, group, reads_only)
    except Broken as error:
        after = error
    return Awaited(after, group, number(event.op, "pending"))


def _group_over(link: Link, known: Known, event: Event, group: Done, reads_only: bool) -> Known:
    x, threads = known.source, those(known, event)
    rule, state = link.rule, COMPLETE
    if x.touch.proxy is Proxy.GENERIC or _of_map(link, x):
        state = GENERIC
    elif rule == "implicit-fence-read":
        state = GENERIC
    elif rule in ("implicit-fence", "whole-warpgroup-fence"):
        if reads_only:
            raise Broken("the implicit fence is stated for full completion only")
        state = GENERIC
    if group is Done.WGMMA_GROUP:  # products are a warp's, or by A12 the warpgroup's
        everyone = rule.startswith("whole-warpgroup")
        threads = {
            t: frozenset(u for u in x.threads if everyone or u // 2 == t // 2)
            for t in event.threads & set(known.threads)
        }
    return known.then(state=state, threads=threads)


def proxy_fence(assumed: frozenset[str], link: Link, known: Known, event: Event) -> Move:
    op, x = event.op, known.source
    row = form(op.space.data) if isinstance(op, s.ProxyFenceOp) else None
    if row is None or x.touch.space not in row.covers:
        raise Broken(f"{link.start} is no fence of this space")
    threads = those(known, event)
    if link.rule == "proxy-fence":
        threads = {t: own & {t} for t, own in threads.items()}
    cta = known.copy.cta
    if row.reach is Scope.CTA and cta != x.owner:
        raise Broken(f"{link.start} is of its own CTA's memory")
    if known.fence in MISSING:
        raise Broken(f"{link.start} comes before what the wait acquires")
    if known.state == COMPLETE and cta == x.home:
        return known.then(state=GENERIC, threads=threads, fence=0)
    if known.state == GENERIC:
        return known.then(state=JOINED, cta=cta, threads=threads, fence=0)
    raise Broken(f"{link.start} joins nothing to a proxy here")


def one_way_fence(assumed: frozenset[str], link: Link, known: Known, event: Event) -> Move:
    """The release half, of a thread's own accesses in its CTA; the acquire half, which joins them to this one's."""
    op, x = event.op, known.source
    half = ONE_WAY.get(op.space.data) if isinstance(op, s.ProxyFenceOp) else None
    rule = "half-release" if half is not None and half.releases else "half-acquire"
    if half is None or rule != link.rule or x.touch.space is not Space.SHARED:
        raise Broken(f"{link.start} is no {link.rule}")
    threads = those(known, event)
    if half.releases:
        if half.reads and x.touch.kind is not Kind.READ:
            raise Broken(f"{link.start} releases what reads only")
        expect(known, GENERIC)
        if known.copy != x.copy or x.touch.proxy is not Proxy.GENERIC:
            raise Broken(f"{link.start} releases what its own thread accesses only")
        threads = {t: own & {t} for t, own in threads.items()}
        return known.then(state=HALF, threads=threads)
    expect(known, HALF)
    cta = known.copy.cta
    return known.then(state=ACQUIRED, cta=cta, threads=threads, fence=0)


def map_fence(assumed: frozenset[str], link: Link, known: Known, event: Event) -> Move:
    """The release of an edit that its threads know of; the acquire of that map for what its CTA copies."""
    op, x = event.op, known.source
    if x.touch.space is not Space.MAP or x.touch.kind is not Kind.WRITE or known.fence in MISSING:
        raise Broken(f"{link.start} is about edits of tensor maps")
    threads = those(known, event)
    if link.rule == "map-release":
        expect(known, GENERIC)
        if not isinstance(op, MapReleaseOp):
            raise Broken(f"{link.start} is no {link.rule}")
        return known.then(state=EDITED, threads=threads)
    expect(known, EDITED)
    if not isinstance(op, MapAcquireOp):
        raise Broken(f"{link.start} is no {link.rule}")
    return Acquired(known.then(state=MAPPED, cta=known.copy.cta, threads=threads), x.buffer)


def tensor_fence(assumed: frozenset[str], link: Link, known: Known, event: Event) -> Move:
    op = event.op
    if not isinstance(op, s.Tcgen05FenceOp) or not known.source.tensor:
        raise Broken(f"{link.start} is no fence of tensor memory")
    before = op.side.data.startswith("before")
    moves = (
        {COMPLETE: BEFORE, "tracked": PIPE_BEFORE}
        if before
        else {AFTER: COMPLETE, PIPE_AFTER: PIPE}
    )
    if known.state not in moves:
        raise Broken(f"{link.start} has nothing to order")
    threads = those(known, event)
    if before and known.source.done is Done.TCGEN05_WAIT:  # of a thread's own loads and stores
        threads = {t: own & {t} for t, own in threads.items()}
    return known.then(state=moves[known.state], threads=threads)


def thread_fence(assumed: frozenset[str], link: Link, known: Known, event: Event) -> Move:
    op = event.op
    if not isinstance(op, FenceOp) or known.state in PENDING:
        raise Broken(f"{link.start} is no fence of threads")
    sem, wide = op.sem.data, (text(event, "scope") or Scope.CTA) != Scope.CTA
    if known.fence in MISSING and sem in (Sem.ACQUIRE, Sem.ACQ_REL):
        if known.fence == WIDE_MISSING and not wide:
            raise Broken(f"{link.start} does not reach another CTA")
        released = WIDE_RELEASED if wide and sem == Sem.ACQ_REL else 0
        return known.then(fence=released, threads=those(known, event))
    if known.fence in (0, *RELEASED) and sem in (Sem.RELEASE, Sem.ACQ_REL):
        fence = WIDE_RELEASED if wide or known.fence == WIDE_RELEASED else RELEASED[0]
        return known.then(fence=fence, threads=those(known, event))
    raise Broken(f"{link.start} has nothing to order")


def meet(assumed: frozenset[str], link: Link, known: Known, event: Event) -> Move:
    """Threads meet: lanes, a role, or several roles at a numbered barrier or the cluster's."""
    among = next((r.among for r in event.of.effects if isinstance(r, Meet)), None)
    if among is None or known.state in PENDING or known.fence in MISSING:
        raise Broken(f"{link.start} lets nobody know of this")
    if among == "warp":
        return _lanes(link, known, event)
    other, half = Copy(link.end.role, link.end.copy, link.end.cta), does(event.op)
    if half == "wait":  # whoever is told there knows already
        return known if other == known.copy else None
    together, state = parts(known, event), _met(link, known)
    if other == known.copy and half == "sync":
        return known.then(state=state, threads=all_know(event.threads, together), fence=0)
    if event.op.properties.get("sem") is not None:
        raise Broken("a relaxed arrival publishes nothing")
    if among == "named" and other.cta != known.copy.cta:
        raise Broken("a meeting of other threads")

    def then(met: Event) -> Known:
        if does(met.op) == "arrive":
            raise Broken(f"role {other.role} arrives there, and waits for nobody")
        threads = all_know(met.threads, together)
        return known.then(copy=other, state=state, threads=threads, fence=0)

    return Met(among, number(event.op, "number"), other, then)


def _met(link: Link, known: Known) -> str:
    """What is known after threads have met: of tensor memory it is handed on, but orders nothing by itself."""
    x = known.source
    if not x.tensor:
        return known.state
    if (
        link.rule == "meet-awaited"
        and x.done is Done.TCGEN05_WAIT
        and known.state in (COMPLETE, MET)
    ):
        return COMPLETE
    return MET if known.state in (COMPLETE, MET) else over(x, known.state, relaxed=True)


def _lanes(link: Link, known: Known, event: Event) -> Known:
    plain = not known.source.tensor and known.source.touch.proxy is Proxy.GENERIC
    if not plain and link.rule != "meet-warp-async":
        raise Broken("completions are not ordered by bar.warp.sync here")
    threads: dict[int, frozenset[int]] = {}
    for t in event.threads:
        mates = [u for u in event.threads if u // 2 == t // 2]
        threads[t] = frozenset().union(*(known.threads.get(u, frozenset()) for u in mates))
    return known.then(threads=threads, fence=0)


def release(assumed: frozenset[str], link: Link, known: Known, event: Event) -> Move:
    """An arrival by threads that know, to a wait that sees its phase complete."""
    x = known.source
    if known.state in PENDING:
        raise Broken("an arrival tells nothing of what is under way")
    if isinstance(event.op, s.Tcgen05CommitOp | CopiesArriveOp) or any(
        isinstance(r, Signal) and r.bytes_of for r in event.of.effects
    ):
        raise Broken(f"{link.start} releases only what it tracks")
    relaxed = text(event, "sem") == Sem.RELAXED
    if known.fence in MISSING:
        raise Broken("an acquire fence is missing before this arrival")
    if relaxed and not x.tensor and known.fence not in RELEASED and known.state != HALF:
        raise Broken("a relaxed arrival publishes nothing")

    def then(wait: Event, hidden: bool) -> Known:
        hidden = hidden and _hidden(assumed, known)
        relaxed_wait = text(wait, "sem") == Sem.RELAXED
        far = False
        if link.end.cta != known.copy.cta:
            wide = Scope.CTA not in (
                text(event, "scope") or Scope.CTA,
                text(wait, "scope") or Scope.CTA,
            )
            by_itself = x.touch.proxy is Proxy.GENERIC or x.done in STORES
            far = (not x.tensor and by_itself) or "A2" not in assumed
            if not wide and far:
                raise Broken("CTA scope does not reach another CTA")
            narrow = known.fence not in (WIDE_RELEASED, 0) and known.state != HALF
            if relaxed and far and not x.tensor and narrow:
                raise Broken("a fence of CTA scope does not reach another CTA")
        state = over(x, known.state, relaxed or relaxed_wait or hidden, acquires="A3" in assumed)
        missing = WIDE_MISSING if far else MISSING[0]
        fence = missing if relaxed_wait and not x.tensor and known.state != HALF else 0
        threads = all_know(wait.threads, parts(known, event))
        return known.then(copy=_at_end(link), state=state, threads=threads, fence=fence)

    return Told(ARRIVALS, then)


def _hidden(assumed: frozenset[str], known: Known) -> bool:
    """Of tensor memory, that a hidden arrival orders in time alone, as a relaxed one; of others it tells nothing."""
    x = known.source
    if "A2" in assumed and x.touch.proxy is not Proxy.GENERIC and x.done not in STORES:
        return False
    if not x.tensor and known.state != HALF:
        raise Broken("an arrival or a wait of CTA scope may hide this arrival (A15)")
    return x.tensor


def _at_end(link: Link) -> Copy:
    return Copy(link.end.role, link.end.copy, link.end.cta)


def copied(assumed: frozenset[str], link: Link, known: Known, event: Event) -> Move:
    """A copy's own completion, or that of a later copy by a thread that knew."""
    x = known.source
    if link.rule == "bytes-known":
        _known_complete(known)
        return _completed(assumed, link, known, BYTES, COMPLETE)
    if known.state != "tx":
        return None
    which = BYTES if "A1" not in assumed or x.source_of_copy else x.home
    implied = link.rule == "implicit-fence" or _of_map(link, x)
    return _completed(assumed, link, known, which, GENERIC if implied else COMPLETE, own=True)


def commit(assumed: frozenset[str], link: Link, known: Known, event: Event) -> Move:
    """tcgen05.commit tracks the earlier operations of its thread."""
    x = known.source
    if not isinstance(event.op, s.Tcgen05CommitOp):
        raise Broken(f"{link.start} is no commit")
    if "reads" in event.op.properties and (x.operand, x.touch.space) != ("a", Space.SHARED):
        raise Broken(f"{link.start} tells of first operands alone")
    if link.rule == "commit-known":
        _known_complete(known)
        return _completed(assumed, link, known, ARRIVALS, COMPLETE)
    expect(known, "tracked")
    if known.copy != x.copy or not x.threads <= event.threads or x.done is not Done.TCGEN05_COMMIT:
        raise Broken("the commit of another thread")
    state = GENERIC if link.rule == "implicit-fence-tcgen05" else COMPLETE
    return _completed(assumed, link, known, ARRIVALS, state)


def implicit_fence(assumed: frozenset[str], link: Link, known: Known, event: Event) -> Move:
    """The proxy fence that completion of a copy or of a group holds; that it has read its tensor map."""
    if known.source.done is Done.MBARRIER_TX:
        return copied(assumed, link, known, event)
    return await_group(assumed, link, known, event)


def _known_complete(known: Known) -> None:
    x = known.source
    whole = any(all_of >= x.threads for all_of in known.threads.values())
    if (
        known.state != COMPLETE
        or known.fence in MISSING
        or x.touch.proxy is not Proxy.ASYNC
        or x.touch.space is not Space.SHARED
        or not whole
    ):
        raise Broken("nothing that A5 speaks of")


def _completed(
    assumed: frozenset[str], link: Link, known: Known, which: int, state: str, own: bool = False
) -> Told:
    def then(wait: Event, hidden: bool) -> Known:
        hidden = hidden and _hidden(assumed, known)
        relaxed = text(wait, "sem") == Sem.RELAXED
        far = link.end.cta != known.copy.cta and "A2" not in assumed
        if far and (text(wait, "scope") or Scope.CTA) == Scope.CTA:
            raise Broken("CTA scope does not reach another CTA")
        missing = WIDE_MISSING if far else MISSING[0]
        fence = missing if relaxed and not known.source.tensor else 0
        after = state
        if known.source.tensor:
            after = over(known.source, BEFORE, relaxed or hidden, acquires="A3" in assumed)
        threads = all_know(wait.threads, known.source.threads)
        return known.then(copy=_at_end(link), state=after, threads=threads, fence=fence)

    return Told(which, then, own)


STORES = (Done.BULK_GROUP, Done.BULK_GROUP_READ)
"""Groups of stores, which a thread awaits by itself."""


def _of_map(link: Link, x: Access) -> bool:
    """Whether a step is about what completion of a copy says of the tensor map that it has read."""
    if link.rule != "map-read":
        return False
    if x.touch.space is not Space.MAP or x.touch.proxy is not Proxy.TENSORMAP:
        raise Broken(f"{link.start} reads no tensor map")
    return True


STEPS: Mapping[str, Rule] = {
    "await-group": await_group,
    "implicit-fence-read": await_group,
    "whole-warpgroup": await_group,
    "whole-warpgroup-fence": await_group,
    "tcgen05-wait": await_group,
    "implicit-fence": implicit_fence,
    "proxy-fence": proxy_fence,
    "proxy-fence-others": proxy_fence,
    "half-release": one_way_fence,
    "half-acquire": one_way_fence,
    "map-release": map_fence,
    "map-acquire": map_fence,
    "map-read": implicit_fence,
    "tcgen05-before": tensor_fence,
    "tcgen05-after": tensor_fence,
    "thread-fence": thread_fence,
    "meet": meet,
    "meet-awaited": meet,
    "meet-warp": meet,
    "meet-warp-async": meet,
    "release": release,
    "release-remote": release,
    "acquire-tcgen05": release,
    "bytes": copied,
    "bytes-remote": copied,
    "bytes-known": copied,
    "commit": commit,
    "commit-remote": commit,
    "commit-known": commit,
    "implicit-fence-tcgen05": commit,
}
"""How each rule is followed."""
