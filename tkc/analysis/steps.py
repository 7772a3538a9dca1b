"""What each rule of a chain adds to what is known of an access, at the event that it is about."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from xdsl.ir import SSAValue

from tkc.analysis.instances import Copy, Edited, Event, Instruction, Word
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
    Like,
    all_know,
    expect,
    kind,
    over,
    parts,
    text,
    those,
)
from tkc.analysis.phases import does, number
from tkc.ir.certificates import End, Link, label
from tkc.ir.isa.fences import ONE_WAY, form
from tkc.ir.isa.memory import (
    Await,
    Close,
    Done,
    Kind,
    Meet,
    Proxy,
    Scope,
    Sem,
    Signal,
    Space,
    Touch,
)
from tkc.ir.stage import ops as s
from tkc.ir.stage.elements import CopiesArriveOp
from tkc.ir.stage.explicit import FenceOp
from tkc.ir.stage.maps import MapAcquireOp, MapReleaseOp

Seen = dict[Word, tuple[list[int], list[int]]]
"""Of each mbarrier the phases that waits have seen complete, and where in their trace; both in order."""


@dataclass
class Steps:
    """The roles' events in one run, and what is assumed; `kinds`: what makes named operations alike."""

    traces: Mapping[Copy, list[Event]]
    assumed: frozenset[str]
    kinds: Mapping[str, Like]
    likes: dict[Instruction, Like] = field(default_factory=dict)
    """The kinds of the operations that happen, of all runs of a kernel."""
    by_operation: dict[Copy, dict[Instruction, list[int]]] = field(default_factory=dict)
    """Where each operation happens in a trace."""
    known_places: dict[tuple[Copy, str], tuple[list[int], list[int]]] = field(default_factory=dict)
    waits: dict[End, tuple[Copy, SSAValue | None, Seen]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.alike: dict[Copy, dict[Like, list[Instruction]]] = {}
        for copy, trace in self.traces.items():
            here = self.by_operation[copy] = {}
            for at, event in enumerate(trace):
                if event.of in here:
                    here[event.of].append(at)
                else:
                    here[event.of] = [at]
            alike = self.alike[copy] = {}
            for of in here:
                if of not in self.likes:
                    self.likes[of] = kind(of.op)
                alike.setdefault(self.likes[of], []).append(of)
        self.closings: dict[tuple[Copy, Done, frozenset[int]], list[int]] = {}

    def places(self, copy: Copy, site: str) -> tuple[list[int], list[int]]:
        """Where a named operation happens in a trace, and where any like it does, which another branch may have."""
        found = self.known_places.get((copy, site))
        if found is None:
            if site not in self.kinds:
                raise Broken(f"{site} is not in the program")
            here = self.by_operation.get(copy, {})
            alike = self.alike.get(copy, {}).get(self.kinds[site], [])
            so_named = [of for of in alike if of.name == site]
            named = _merged([here[of] for of in so_named])
            every = named if so_named == alike else _merged([here[of] for of in alike])
            found = self.known_places[copy, site] = named, every
        return found

    def waits_of(self, end: End) -> tuple[Copy, SSAValue | None, Seen]:
        """The waits like a named one in its trace: whose, on which barriers, and what they have seen."""
        found = self.waits.get(end)
        if found is None:
            copy, seen = Copy(end.role, end.copy, end.cta), Seen()
            for at in self.places(copy, end.site)[1]:
                waited = self.traces[copy][at].waited
                if waited is not None:
                    phases, where = seen.setdefault(waited[0], ([], []))
                    phases.append(waited[1])
                    where.append(at)
            found = self.waits[end] = copy, self.kinds[end.site].barriers, seen
        return found

    def closed(self, x: Access, group: Done, at: int) -> int:
        """How many groups the threads of an access have closed since, up to a place of their trace."""
        key = x.copy, group, x.event.threads
        if key not in self.closings:
            trace = self.traces[x.copy]
            closing = [at for of, at in self.by_operation[x.copy].items() if closes(of, group)]
            self.closings[key] = sorted(
                n for at in closing for n in at if x.event.threads <= trace[n].threads
            )
        places = self.closings[key]
        return bisect_left(places, at) - bisect_left(places, x.at)

    def await_group(self, link: Link, known: Known, event: Event, at: int) -> Known | None:
        """wait_group: this thread's group is among those that are over; or tcgen05.wait."""
        x = known.source
        threads = those(known, event)
        if x.done is Done.TCGEN05_WAIT:
            if not any(
                isinstance(r, Await | Touch) and r.done is Done.TCGEN05_WAIT
                for r in event.of.effects
            ):
                raise Broken(f"{link.start} waits for no tcgen05.ld or st")
            expect(known, "ld", "st")
            return known.then(at=at + 1, state=COMPLETE, threads=threads)
        group = Done.BULK_GROUP if x.done is Done.BULK_GROUP_READ else x.done
        if not any(isinstance(r, Await) and r.done is group for r in event.of.effects):
            raise Broken(f"{link.start} does not wait for the group")
        expect(known, "group")
        reads_only = "read" in event.op.properties
        if reads_only and x.done is Done.BULK_GROUP:
            raise Broken("a wait for reads does not wait for writes")
        if known.copy != x.copy or self.closed(x, group, at) <= number(event.op, "pending"):
            return None
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
                t: frozenset(u for u in x.event.threads if everyone or u // 2 == t // 2)
                for t in event.threads & set(known.threads)
            }
        return known.then(at=at + 1, state=state, threads=threads)

    def proxy_fence(self, link: Link, known: Known, event: Event, at: int) -> Known | None:
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
            return known.then(at=at + 1, state=GENERIC, threads=threads, fence=0)
        if known.state == GENERIC:
            return known.then(at=at + 1, state=JOINED, cta=cta, threads=threads, fence=0)
        raise Broken(f"{link.start} joins nothing to a proxy here")

    def one_way_fence(self, link: Link, known: Known, event: Event, at: int) -> Known | None:
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
            return known.then(at=at + 1, state=HALF, threads=threads)
        expect(known, HALF)
        cta = known.copy.cta
        return known.then(at=at + 1, state=ACQUIRED, cta=cta, threads=threads, fence=0)

    def map_fence(self, link: Link, known: Known, event: Event, at: int) -> Known | None:
        """The release of an edit that its threads know of; the acquire of that map for what its CTA copies."""
        op, x = event.op, known.source
        if (
            x.touch.space is not Space.MAP
            or x.touch.kind is not Kind.WRITE
            or known.fence in MISSING
        ):
            raise Broken(f"{link.start} is about edits of tensor maps")
        threads = those(known, event)
        if link.rule == "map-release":
            expect(known, GENERIC)
            if not isinstance(op, MapReleaseOp):
                raise Broken(f"{link.start} is no {link.rule}")
            return known.then(at=at + 1, state=EDITED, threads=threads)
        expect(known, EDITED)
        if not isinstance(op, MapAcquireOp):
            raise Broken(f"{link.start} is no {link.rule}")
        if event.value("array") != Edited(x.buffer, x.slot):  # of another map, in this turn
            return None
        return known.then(at=at + 1, state=MAPPED, cta=known.copy.cta, threads=threads)

    def tensor_fence(self, link: Link, known: Known, event: Event, at: int) -> Known | None:
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
        return known.then(at=at + 1, state=moves[known.state], threads=threads)

    def thread_fence(self, link: Link, known: Known, event: Event, at: int) -> Known | None:
        op = event.op
        if not isinstance(op, FenceOp) or known.state in PENDING:
            raise Broken(f"{link.start} is no fence of threads")
        sem, wide = op.sem.data, (text(event, "scope") or Scope.CTA) != Scope.CTA
        if known.fence in MISSING and sem in (Sem.ACQUIRE, Sem.ACQ_REL):
            if known.fence == WIDE_MISSING and not wide:
                raise Broken(f"{link.start} does not reach another CTA")
            return known.then(at=at + 1, fence=0, threads=those(known, event))
        if known.fence in (0, *RELEASED) and sem in (Sem.RELEASE, Sem.ACQ_REL):
            fence = WIDE_RELEASED if wide or known.fence == WIDE_RELEASED else RELEASED[0]
            return known.then(at=at + 1, fence=fence, threads=those(known, event))
        raise Broken(f"{link.start} has nothing to order")

    def meet(self, link: Link, known: Known, event: Event, at: int) -> Known | None:
        """Threads meet: lanes, a role, or several roles at a numbered barrier or the cluster's."""
        among = next((r.among for r in event.of.effects if isinstance(r, Meet)), None)
        if among is None or known.state in PENDING or known.fence in MISSING:
            raise Broken(f"{link.start} lets nobody know of this")
        if among == "warp":
            return self._lanes(link, known, event, at)
        other, half = Copy(link.end.role, link.end.copy, link.end.cta), does(event.op)
        if half == "wait":  # whoever is told there knows already
            return known.then(at=at + 1) if other == known.copy else None
        together = parts(known, event)
        state = self._met(link, known)
        if other == known.copy and half == "sync":
            together_known = all_know(event.threads, together)
            return known.then(at=at + 1, state=state, threads=together_known, fence=0)
        return self._elsewhere(known, event, at, among, other, state, together)

    def _met(self, link: Link, known: Known) -> str:
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

    def _lanes(self, link: Link, known: Known, event: Event, at: int) -> Known:
        plain = not known.source.tensor and known.source.touch.proxy is Proxy.GENERIC
        if not plain and link.rule != "meet-warp-async":
            raise Broken("completions are not ordered by bar.warp.sync here")
        threads: dict[int, frozenset[int]] = {}
        for t in event.threads:
            mates = [u for u in event.threads if u // 2 == t // 2]
            threads[t] = frozenset().union(*(known.threads.get(u, frozenset()) for u in mates))
        return known.then(at=at + 1, threads=threads, fence=0)

    def _elsewhere(
        self,
        known: Known,
        event: Event,
        at: int,
        among: str,
        other: Copy,
        state: str,
        together: frozenset[int],
    ) -> Known | None:
        if event.op.properties.get("sem") is not None:
            raise Broken("a relaxed arrival publishes nothing")
        which = number(event.op, "number")

        def meetings(copy: Copy, half: str) -> list[int]:
            found: list[int] = []
            for at, e in enumerate(self.traces[copy]):
                if (
                    any(isinstance(r, Meet) and r.among == among for r in e.of.effects)
                    and number(e.op, "number") == which
                ):
                    if does(e.op) in ("sync", half):
                        found.append(at)
            return found

        # who comes to a numbered barrier leaves with the phase that it arrives at, whether or not it waited before
        half = "arrive" if among == "named" else "wait"
        mine, theirs = meetings(known.copy, "arrive"), meetings(other, half)
        if at not in mine or (among == "named" and other.cta != known.copy.cta):
            raise Broken("a meeting of other threads")
        turn = mine.index(at)
        if turn >= len(theirs):
            return None
        at = theirs[turn]
        if does(self.traces[other][at].op) == "arrive":
            raise Broken(f"role {other.role} arrives there, and waits for nobody")
        threads = all_know(self.traces[other][at].threads, together)
        # at the meeting itself, which may be the next step, too: among the warps of the other role
        return known.then(copy=other, at=at, state=state, threads=threads, fence=0)

    def release(self, link: Link, known: Known, event: Event, at: int) -> Known | None:
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
        found = self._wait(link, event.arrivals)
        if found is None:
            return None
        copy, at, wait = found
        relaxed_wait = text(wait, "sem") == Sem.RELAXED
        far = False
        if copy.cta != known.copy.cta:
            wide = Scope.CTA not in (
                text(event, "scope") or Scope.CTA,
                text(wait, "scope") or Scope.CTA,
            )
            by_itself = x.touch.proxy is Proxy.GENERIC or x.done in STORES
            far = (not x.tensor and by_itself) or "A2" not in self.assumed
            if not wide and far:
                raise Broken("CTA scope does not reach another CTA")
            narrow = known.fence not in (WIDE_RELEASED, 0) and known.state != HALF
            if relaxed and far and not x.tensor and narrow:
                raise Broken("a fence of CTA scope does not reach another CTA")
        state = over(x, known.state, relaxed or relaxed_wait, acquires="A3" in self.assumed)
        missing = WIDE_MISSING if far else MISSING[0]
        fence = missing if relaxed_wait and not x.tensor and known.state != HALF else 0
        threads = all_know(wait.threads, parts(known, event))
        return known.then(copy=copy, at=at + 1, state=state, threads=threads, fence=fence)

    def bytes(self, link: Link, known: Known, event: Event, at: int) -> Known | None:
        """A copy's own completion, or that of a later copy by a thread that knew."""
        x = known.source
        if link.rule == "bytes-known":
            self._known_complete(known)
            words = [(w, p) for w, p, _ in event.completions]
            state = COMPLETE
        else:
            if event is not x.event or known.state != "tx":
                return None
            words = [
                (w, p)
                for w, p, owner in event.completions
                if owner == x.home or "A1" not in self.assumed or x.source_of_copy
            ]
            implied = link.rule == "implicit-fence" or _of_map(link, x)
            state = GENERIC if implied else COMPLETE
        return self._completed(link, known, words, state)

    def commit(self, link: Link, known: Known, event: Event, at: int) -> Known | None:
        """tcgen05.commit tracks the earlier operations of its thread."""
        x = known.source
        if not isinstance(event.op, s.Tcgen05CommitOp):
            raise Broken(f"{link.start} is no commit")
        if "reads" in event.op.properties and (x.operand, x.touch.space) != ("a", Space.SHARED):
            raise Broken(f"{link.start} tells of first operands alone")
        if link.rule == "commit-known":
            self._known_complete(known)
            return self._completed(link, known, event.arrivals, COMPLETE)
        expect(known, "tracked")
        if (
            known.copy != x.copy
            or not x.event.threads <= event.threads
            or x.done is not Done.TCGEN05_COMMIT
        ):
            raise Broken("the commit of another thread")
        state = GENERIC if link.rule == "implicit-fence-tcgen05" else COMPLETE
        return self._completed(link, known, event.arrivals, state)

    def implicit_fence(self, link: Link, known: Known, event: Event, at: int) -> Known | None:
        """The proxy fence that completion of a copy or of a group holds; that it has read its tensor map."""
        if known.source.done is Done.MBARRIER_TX:
            return self.bytes(link, known, event, at)
        return self.await_group(link, known, event, at)

    def _known_complete(self, known: Known) -> None:
        x = known.source
        whole = any(all_of >= x.event.threads for all_of in known.threads.values())
        if (
            known.state != COMPLETE
            or known.fence in MISSING
            or x.touch.proxy is not Proxy.ASYNC
            or x.touch.space is not Space.SHARED
            or not whole
        ):
            raise Broken("nothing that A5 speaks of")

    def _completed(
        self, link: Link, known: Known, words: list[tuple[Word, int]], state: str
    ) -> Known | None:
        found = self._wait(link, words)
        if found is None:
            return None
        copy, at, wait = found
        relaxed = text(wait, "sem") == Sem.RELAXED
        if (
            copy.cta != known.copy.cta
            and "A2" not in self.assumed
            and (text(wait, "scope") or Scope.CTA) == Scope.CTA
        ):
            raise Broken("CTA scope does not reach another CTA")
        far = copy.cta != known.copy.cta and "A2" not in self.assumed
        missing = WIDE_MISSING if far else MISSING[0]
        fence = missing if relaxed and not known.source.tensor else 0
        if known.source.tensor:
            state = over(known.source, BEFORE, relaxed, acquires="A3" in self.assumed)
        threads = all_know(wait.threads, known.source.event.threads)
        return known.then(copy=copy, at=at + 1, state=state, threads=threads, fence=fence)

    def _wait(self, link: Link, words: list[tuple[Word, int]]) -> tuple[Copy, int, Event] | None:
        """The first wait of the link's end that sees one of these phases complete."""
        copy, barriers, seen = self.waits_of(link.end)
        first, about = -1, False
        for word, phase in words if len(words) == 1 else dict(words).items():
            if word in seen:
                phases, where = seen[word]
                after = bisect_left(phases, phase)
                if after < len(where) and (first < 0 or where[after] < first):
                    first = where[after]
            about = about or word.barriers is barriers
        if not about:
            raise Broken(f"{link.end} does not wait for {link.start}")
        return None if first < 0 else (copy, first, self.traces[copy][first])


def _merged(places: list[list[int]]) -> list[int]:
    """Several lists in order as one."""
    return places[0] if len(places) == 1 else sorted(n for at in places for n in at)


STORES = (Done.BULK_GROUP, Done.BULK_GROUP_READ)
"""Groups of stores, which a thread awaits by itself."""


def kinds_of(kernel: s.KernelOp) -> dict[str, Like]:
    """The kind of every named operation."""
    return {label(op): kind(op) for op in kernel.walk() if label(op)}


def _of_map(link: Link, x: Access) -> bool:
    """Whether a step is about what completion of a copy says of the tensor map that it has read."""
    if link.rule != "map-read":
        return False
    if x.touch.space is not Space.MAP or x.touch.proxy is not Proxy.TENSORMAP:
        raise Broken(f"{link.start} reads no tensor map")
    return True


def closes(of: Instruction, group: Done) -> bool:
    """Whether an operation closes a group of its threads; a product of wgmma that is not alone is one of its own."""
    if any(isinstance(r, Close) and r.done is group for r in of.effects):
        return True
    product = group is Done.WGMMA_GROUP and of.op.name == "stage.mma"
    return product and "alone" not in of.op.properties


Step = Callable[[Steps, Link, Known, Event, int], "Known | None"]

STEPS: Mapping[str, Step] = {
    "await-group": Steps.await_group,
    "implicit-fence-read": Steps.await_group,
    "whole-warpgroup": Steps.await_group,
    "whole-warpgroup-fence": Steps.await_group,
    "tcgen05-wait": Steps.await_group,
    "implicit-fence": Steps.implicit_fence,
    "proxy-fence": Steps.proxy_fence,
    "proxy-fence-others": Steps.proxy_fence,
    "half-release": Steps.one_way_fence,
    "half-acquire": Steps.one_way_fence,
    "map-release": Steps.map_fence,
    "map-acquire": Steps.map_fence,
    "map-read": Steps.implicit_fence,
    "tcgen05-before": Steps.tensor_fence,
    "tcgen05-after": Steps.tensor_fence,
    "thread-fence": Steps.thread_fence,
    "meet": Steps.meet,
    "meet-awaited": Steps.meet,
    "meet-warp": Steps.meet,
    "meet-warp-async": Steps.meet,
    "release": Steps.release,
    "release-remote": Steps.release,
    "acquire-tcgen05": Steps.release,
    "bytes": Steps.bytes,
    "bytes-remote": Steps.bytes,
    "bytes-known": Steps.bytes,
    "commit": Steps.commit,
    "commit-remote": Steps.commit,
    "commit-known": Steps.commit,
    "implicit-fence-tcgen05": Steps.commit,
}
"""How each rule is followed."""
