"""Whether the chains of a certificate put each pair of accesses in order, in the program as it is now.

Runs the roles on small numbers (`instances`) and follows each chain from every instance of the first access: which threads
know of which threads' parts of it, and through which proxy. Shares the tables of rules and assumptions with the analysis
that made the chains, and no code.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from xdsl.ir import SSAValue

from tkc.analysis.happens_before.rules import PROFILES, RULES
from tkc.analysis.instances import Copy, Event, Opened, Unknown, Word, number, owners, runs
from tkc.ir.certificates import Certificate, End, Link, Order
from tkc.ir.isa.fences import form
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
from tkc.ir.stage.explicit import FenceOp
from tkc.ir.stage.types import Home


class Broken(Exception):
    """Why a chain does not hold."""


def wrong(certificate: Certificate, kernel: s.KernelOp) -> dict[int, str]:
    """The pairs of a certificate whose chains do not hold in a kernel, and why; all of them where it cannot be run."""
    if not certificate.orders:
        return {}
    found: dict[int, str] = {}
    for i, order in enumerate(certificate.orders):
        try:
            _allowed(order, PROFILES[order.model])
        except Broken as error:
            found[i] = str(error)
    try:
        for sizes, traces in runs(kernel):
            all_runs = {m: Run(kernel, traces, m) for m in {o.model for o in certificate.orders}}
            for numbers, pair in _pairs(certificate).items():
                try:
                    all_runs[pair.order.model].check(pair)
                except Broken as error:
                    one = pair.order
                    why = f"{one.first} and {one.second}: {error} ({sizes})"
                    found |= {i: why for i in numbers if i not in found}
    except Unknown as error:
        return dict.fromkeys(range(len(certificate.orders)), f"the kernel cannot be run on small numbers: {error}")
    return found


@dataclass
class Pair:
    """Two accesses with every chain that a certificate has for them: of a loop's turns each may have its own."""

    order: Order
    forward: list[tuple[Link, ...]]
    back: list[tuple[Link, ...]]


def _pairs(certificate: Certificate) -> dict[tuple[int, ...], Pair]:
    found: dict[Any, tuple[list[int], Pair]] = {}
    for i, order in enumerate(certificate.orders):
        chains = order.forward, order.back
        ends = [(order.first, order.operands[0]), (order.second, order.operands[1])]
        key = (*ends, order.owner, order.model)
        turned = (*ends[::-1], order.owner, order.model)
        if turned in found and key not in found:
            key, chains = turned, chains[::-1]
        numbers, pair = found.setdefault(key, ([], Pair(order, [], [])))
        numbers.append(i)
        for chain, known in zip(chains, (pair.forward, pair.back), strict=True):
            if chain is not None and chain not in known:
                known.append(chain)
    return {tuple(numbers): pair for numbers, pair in found.values()}


def _allowed(order: Order, assumed: frozenset[str]) -> None:
    for rule in order.rules():
        if rule not in RULES:
            raise Broken(f"no rule is called {rule}")
        beyond = set(RULES[rule].assumes) - assumed
        if beyond:
            raise Broken(f"{rule} assumes {', '.join(sorted(beyond))}, which the model does not")


# What is known of an access -------------------------------------------------------------------------------------------

UNDER_WAY = {
    Done.MBARRIER_TX: "tx", Done.TCGEN05_COMMIT: "tracked", Done.BULK_GROUP: "group", Done.BULK_GROUP_READ: "group",
    Done.WGMMA_GROUP: "group", Done.CP_ASYNC_GROUP: "group",
}  # fmt: skip
GENERIC, COMPLETE, JOINED = "generic", "complete", "joined"
"""Known to the generic proxy; complete, as its own proxy knows; joined to the async proxy of CTA `cta`."""
BEFORE, AFTER, PIPE_BEFORE, PIPE_AFTER, PIPE = "before", "after", "pipe-before", "pipe-after", "pipe"
PENDING = frozenset({"tx", "tracked", "group", "ld", "st"})

PIPELINED: Mapping[tuple[str, str, str, str], str] = {
    ("mma", "source", "mma", "source"): "pipelined",
    ("scaled_mma", "source", "scaled_mma", "source"): "pipelined",
    ("copy_scales", "destination", "copy_scales", "destination"): "pipelined",
    ("copy_scales", "destination", "scaled_mma", "scale_a"): "pipelined",
    ("copy_scales", "destination", "scaled_mma", "scale_b"): "pipelined",
    ("scaled_mma", "scale_a", "copy_scales", "destination"): "pipelined-scales",
    ("scaled_mma", "scale_b", "copy_scales", "destination"): "pipelined-scales",
    ("mma", "a", "mma", "source"): "pipelined-a",
}
"""tcgen05 operations of one thread that keep order, and by which rule (PTX 9.7.18.6.2)."""


@dataclass(frozen=True)
class Access:
    """One instance: where in which role's trace, and what it does."""

    copy: Copy
    at: int
    event: Event
    operand: str
    touch: Touch
    done: Done
    home: int

    @property
    def tensor(self) -> bool:
        return self.touch.space is Space.TENSOR


@dataclass(frozen=True)
class Known:
    """What is known of an access, and where: at `at` in the trace of `copy` (not before), each thread of `threads` knows
    the parts of the threads that it lists. `fence`: 1 after a release fence, 2 where an acquire fence is missing."""

    source: Access
    copy: Copy
    at: int
    state: str
    threads: Mapping[int, frozenset[int]]
    cta: int = -1
    fence: int = 0
    trail: tuple[tuple[Copy, int], ...] = ()
    """The events on the way, by their places in the traces."""


@dataclass
class Run:
    """One run of a kernel, and the chains that are followed in it."""

    kernel: s.KernelOp
    traces: Mapping[Copy, list[Event]]
    model: str
    where: dict[tuple[Copy, str], list[int]] = field(default_factory=dict[tuple[Copy, str], list[int]])
    alike: dict[tuple[Copy, str, SSAValue | None], list[int]] = field(
        default_factory=dict[tuple[Copy, str, "SSAValue | None"], list[int]]
    )

    why: str = ""
    """What was wrong with the last chain that did not hold."""

    def __post_init__(self) -> None:
        self.assumed = PROFILES[self.model]
        cluster = self.kernel.cluster
        self.cluster = 1 if cluster is None else cluster.value.data
        for copy, trace in self.traces.items():
            for at, event in enumerate(trace):
                self.where.setdefault((copy, event.name), []).append(at)
                self.alike.setdefault((copy, *_kind(event)), []).append(at)

    # Pairs -----------------------------------------------------------------------------------------------------------

    def check(self, pair: Pair) -> None:
        """Raises Broken where two instances that touch the same slot are in no order."""
        order = pair.order
        firsts = self._accesses(order.first, order.operands[0], order.owner)
        alone = (order.first, order.operands[0]) == (order.second, order.operands[1])
        seconds = firsts if alone else self._accesses(order.second, order.operands[1], order.owner)
        self._same_memory(firsts, seconds)
        by_slot: dict[Any, tuple[list[Access], list[Access]]] = {}
        for side, accesses in ((0, firsts), (1, seconds)):
            for access in accesses:
                by_slot.setdefault(self._slot(access), ([], []))[side].append(access)
        for ones, others in by_slot.values():
            if not ones or not others:
                continue
            forward = [self._earliest(pair.forward, x, others[0]) for x in ones]
            back = forward if alone else [self._earliest(pair.back, y, ones[0]) for y in others]
            for i, x in enumerate(ones):
                for j, y in enumerate(others):
                    same = x.copy == y.copy and x.at == y.at
                    if not same and not (y.at >= forward[i] or x.at >= back[j]):
                        raise Broken(self._why(pair, i, j, x, y))

    def _earliest(self, chains: list[tuple[Link, ...]], x: Access, y: Access) -> float:
        """From where on in its role the second access comes after an instance of the first, by any of the chains."""
        best = float("inf")
        for chain in chains:
            try:
                best = min(best, self._follow(list(chain), x, y))
            except Broken as error:
                self.why = str(error)
        return best

    def _why(self, pair: Pair, i: int, j: int, x: Access, y: Access) -> str:
        why, self.why = self.why, ""
        told = f": {why}" if why else "" if pair.forward or pair.back else ": they were said never to meet"
        return f"nothing orders instance {i} of the first and {j} of the second{told}"

    def _same_memory(self, firsts: list[Access], seconds: list[Access]) -> None:
        buffers = {self._buffer(a) for a in (*firsts, *seconds)}
        if len(buffers) > 1:
            raise Broken("the two do not touch the same memory")
        if firsts and seconds and Kind.WRITE not in (firsts[0].touch.kind, seconds[0].touch.kind):
            raise Broken("neither writes")

    def _buffer(self, access: Access) -> SSAValue:
        value = access.event.value(access.operand)
        return value.buffer if isinstance(value, Opened) else getattr(access.event.op, access.operand)

    def _slot(self, access: Access) -> Any:
        """Which slot an instance touches; of a tensor, its coordinates."""
        event = access.event
        value = event.value(access.operand)
        if isinstance(value, Opened):
            return 0 if _depth(value.buffer) == 1 else value.slot
        if access.touch.space is Space.GLOBAL:
            return tuple(
                v for o, v in zip(event.op.operands, event.values, strict=True) if o in tuple(getattr(event.op, "coordinates", ()))
            )
        if _depth(getattr(event.op, access.operand)) == 1:
            return 0
        for name in (f"{access.operand}_slot", "slot"):
            if (found := event.value(name)) is not None:
                return found
        raise Broken("a slot that is not known")

    def _accesses(self, end: End, operand: str, owner: int) -> list[Access]:
        copy = Copy(end.role, end.copy, end.cta)
        found: list[Access] = []
        for at in self.where.get((copy, end.site), ()):
            event = self.traces[copy][at]
            touch = next((r for r in event.rows() if isinstance(r, Touch) and r.operand == operand), None)
            if touch is None:
                raise Broken(f"{end.site} does not touch {operand}")
            done = touch.done
            if done is Done.TCGEN05_COMMIT and touch.space is Space.SHARED and _in_registers(event):
                done = Done.WGMMA_GROUP
            if touch.space is not Space.GLOBAL and owner not in owners(event, copy.cta, self.cluster):
                raise Broken(f"{end.site} does not touch memory of CTA {owner}")
            home = owner if "A1" in self.assumed and touch.space is Space.SHARED else copy.cta
            found.append(Access(copy, at, event, operand, touch, done, home))
        return found

    # Chains ----------------------------------------------------------------------------------------------------------

    def _follow(self, chain: list[Link], x: Access, y: Access) -> float:
        if any(link.rule == "read-between" for link in chain):
            cut = next(i for i, link in enumerate(chain) if link.rule == "read-between")
            return self._through(chain[:cut], chain[cut].start, chain[cut + 1 :], x, y)
        known = self._known(chain[:-1], x)
        return self._accepted(chain[-1].rule, known, y).at if known else float("inf")

    def _known(self, steps: list[Link], x: Access) -> list[Known]:
        """What the steps of a chain say of an instance, the earliest first; nothing where one no longer happens."""
        known = [self._start(x)]
        for link in [step for step in steps if step.rule != "group"]:  # groups are counted where they are awaited
            known = self._step(link, known)
            if not known:
                return []
        return sorted(known, key=lambda k: k.at)

    def _accepted(self, rule: str, known: list[Known], y: Access) -> Known:
        """The earliest of what is known that orders the access."""
        why = Broken("a chain that does not lead to the access")
        for found in known:
            try:
                if found.copy != y.copy:
                    raise Broken("a chain that does not lead to the access")
                self._accept(rule, found, y)
            except Broken as error:
                why = error
            else:
                return found
        raise why

    def trail(self, order: Order, forward: bool) -> list[tuple[Copy, int]]:
        """The events of a chain from the first instance for which it leads to one of the other access; none, where it
        does so for none."""
        ends = [(order.first, order.operands[0]), (order.second, order.operands[1])]
        chain = order.forward if forward else order.back
        if chain is None or any(step.rule == "read-between" for step in chain):
            return []
        xs, ys = (self._accesses(*end, order.owner) for end in (ends if forward else ends[::-1]))
        for x in xs:
            for y in ys:
                if self._slot(x) != self._slot(y) or (x.copy == y.copy and y.at <= x.at):
                    continue
                known = [k for k in self._known(list(chain[:-1]), x) if k.copy == y.copy and k.at <= y.at]
                if known:
                    return [*known[0].trail, (y.copy, y.at)]
        return []

    def _through(self, there: list[Link], read: End, back: list[Link], x: Access, y: Access) -> float:
        """By a read of the first's value, through the same proxy, that comes before the second."""
        operand = self._operand_of(read, x)
        reads = [r for r in self._accesses(read, operand, x.home) if self._slot(r) == self._slot(x)]
        if not reads:
            return float("inf")
        if reads[0].touch.kind is Kind.WRITE or reads[0].touch.proxy is not x.touch.proxy:
            raise Broken("a read between that does not see the first")
        from_there = self._follow(there, x, reads[0])
        first = next((r for r in reads if r.at >= from_there), None)
        return float("inf") if first is None else self._follow(back, first, y)

    def _operand_of(self, end: End, x: Access) -> str:
        copy = Copy(end.role, end.copy, end.cta)
        for at in self.where.get((copy, end.site), ()):
            event = self.traces[copy][at]
            for row in event.rows():
                if isinstance(row, Touch) and getattr(event.op, row.operand) is self._buffer(x):
                    return row.operand
        raise Broken("a read between of other memory")

    def _start(self, x: Access) -> Known:
        own = {t: frozenset({t}) for t in x.event.threads}
        if x.tensor:
            waits = "st" if x.touch.kind is Kind.WRITE else "ld"
            state = {Done.TCGEN05_COMMIT: "tracked", Done.TCGEN05_WAIT: waits}.get(x.done, COMPLETE)
        else:
            state = UNDER_WAY.get(x.done, GENERIC if x.touch.proxy is Proxy.GENERIC else COMPLETE)
        return Known(x, x.copy, x.at, state, own, trail=((x.copy, x.at),))

    def _step(self, link: Link, known: list[Known]) -> list[Known]:
        """What one step adds to each thing known, where the certificate says or at the next place that is alike (the step
        of another branch, or of the next loop); none: no more of it happens in this run."""
        copy = Copy(link.start.role, link.start.copy, link.start.cta)
        named = self.where.get((copy, link.start.site))
        if not named:
            raise Broken(f"{link.start} is not in the program")
        take = STEPS.get(link.rule)
        if take is None:
            raise Broken(f"{link.rule} cannot be followed")
        trace = self.traces[copy]
        found: dict[Any, Known] = {}
        why: Broken | None = None
        for one in known:
            if one.copy != copy:
                why = Broken(f"{link.start} is not where the chain has come to")
                continue
            for sites in (named, self.alike[(copy, *_kind(trace[named[0]]))]):
                try:
                    more = self._next(take, link, one, sites, trace)
                except Broken as error:
                    why = error
                    continue
                if more is not None:
                    found.setdefault((more.copy, more.at, more.state, more.fence, tuple(more.threads.items())), more)
        if not found and why is not None:
            raise why
        return list(found.values())

    def _next(self, take: Step, link: Link, known: Known, sites: list[int], trace: list[Event]) -> Known | None:
        for at in sites[bisect_left(sites, known.at) :]:
            more = take(self, link, replace(known, at=at), trace[at])
            if more is not None:
                told = () if more.copy == known.copy else ((more.copy, more.at - 1),)
                return replace(more, trail=(*known.trail, (known.copy, at), *told))
        return None

    # Steps -----------------------------------------------------------------------------------------------------------

    def await_group(self, link: Link, known: Known, event: Event) -> Known | None:
        """wait_group: this thread's group is among those that are over; or tcgen05.wait."""
        x = known.source
        threads = _those(known, event)
        if x.done is Done.TCGEN05_WAIT:
            if not any(isinstance(r, Await | Touch) and r.done is Done.TCGEN05_WAIT for r in event.rows()):
                raise Broken(f"{link.start} waits for no tcgen05.ld or st")
            _expect(known, "ld", "st")
            return replace(known, at=known.at + 1, state=COMPLETE, threads=threads)
        kind = Done.BULK_GROUP if x.done is Done.BULK_GROUP_READ else x.done
        if not any(isinstance(r, Await) and r.done is kind for r in event.rows()):
            raise Broken(f"{link.start} does not wait for the group")
        _expect(known, "group")
        reads_only = "read" in event.op.properties
        if reads_only and x.done is Done.BULK_GROUP:
            raise Broken("a wait for reads does not wait for writes")
        closed = 0
        for between in self.traces[known.copy][x.at : known.at]:
            closes = any(isinstance(r, Close) and r.done is kind for r in between.rows())
            closes |= kind is Done.WGMMA_GROUP and between.op.name == "stage.mma" and "alone" not in between.op.properties
            closed += closes and x.event.threads <= between.threads
        if closed <= number(event.op, "pending"):
            return None
        rule, state = link.rule, COMPLETE
        if x.touch.proxy is Proxy.GENERIC:
            state = GENERIC
        elif rule == "implicit-fence-read":
            state = GENERIC
        elif rule == "implicit-fence":
            if reads_only:
                raise Broken("the implicit fence is stated for full completion only")
            state = GENERIC
        if rule == "whole-warpgroup" or (link.rule == "await-group" and not threads):
            threads = {t: x.event.threads for t in event.threads & set(known.threads)}
        return replace(known, at=known.at + 1, state=state, threads=threads)

    def proxy_fence(self, link: Link, known: Known, event: Event) -> Known | None:
        op, x = event.op, known.source
        row = form(op.space.data) if isinstance(op, s.ProxyFenceOp) else None
        if row is None or x.touch.space not in row.covers:
            raise Broken(f"{link.start} is no fence of this space")
        threads = _those(known, event)
        if link.rule == "proxy-fence":
            threads = {t: parts & {t} for t, parts in threads.items()}
        cta = known.copy.cta
        if known.state == COMPLETE and cta == x.home:
            return replace(known, at=known.at + 1, state=GENERIC, threads=threads)
        if known.state == GENERIC:
            return replace(known, at=known.at + 1, state=JOINED, cta=cta, threads=threads)
        raise Broken(f"{link.start} joins nothing to a proxy here")

    def tensor_fence(self, link: Link, known: Known, event: Event) -> Known | None:
        op = event.op
        if not isinstance(op, s.Tcgen05FenceOp) or not known.source.tensor:
            raise Broken(f"{link.start} is no fence of tensor memory")
        before = op.side.data.startswith("before")
        moves = {COMPLETE: BEFORE, "tracked": PIPE_BEFORE} if before else {AFTER: COMPLETE, PIPE_AFTER: PIPE}
        if known.state not in moves:
            raise Broken(f"{link.start} has nothing to order")
        return replace(known, at=known.at + 1, state=moves[known.state], threads=_those(known, event))

    def thread_fence(self, link: Link, known: Known, event: Event) -> Known | None:
        op = event.op
        if not isinstance(op, FenceOp) or known.state in PENDING:
            raise Broken(f"{link.start} is no fence of threads")
        sem = op.sem.data
        if known.fence == 2 and sem in (Sem.ACQUIRE, Sem.ACQ_REL):
            return replace(known, at=known.at + 1, fence=0, threads=_those(known, event))
        if known.fence == 0 and sem in (Sem.RELEASE, Sem.ACQ_REL):
            return replace(known, at=known.at + 1, fence=1, threads=_those(known, event))
        raise Broken(f"{link.start} has nothing to order")

    def meet(self, link: Link, known: Known, event: Event) -> Known | None:
        """Threads meet: lanes, a role, or several roles at a numbered barrier or the cluster's."""
        among = next((r.among for r in event.rows() if isinstance(r, Meet)), None)
        if among is None or known.state in PENDING or known.fence == 2:
            raise Broken(f"{link.start} lets nobody know of this")
        if among == "warp":
            return self._lanes(link, known, event)
        parts = _parts(known, event)
        state = _over(known.source, known.state, relaxed=True)
        other = Copy(link.end.role, link.end.copy, link.end.cta)
        if other == known.copy:
            return replace(known, at=known.at + 1, state=state, threads=dict.fromkeys(event.threads, parts))
        return self._elsewhere(known, event, among, other, state, parts)

    def _lanes(self, link: Link, known: Known, event: Event) -> Known:
        plain = not known.source.tensor and known.source.touch.proxy is Proxy.GENERIC
        if not plain and link.rule != "meet-warp-async":
            raise Broken("completions are not ordered by bar.warp.sync here")
        threads: dict[int, frozenset[int]] = {}
        for t in event.threads:
            mates = [u for u in event.threads if u // 2 == t // 2]
            threads[t] = frozenset().union(*(known.threads.get(u, frozenset()) for u in mates))
        return replace(known, at=known.at + 1, threads=threads)

    def _elsewhere(self, known: Known, event: Event, among: str, other: Copy, state: str, parts: frozenset[int]) -> Known | None:
        if event.op.properties.get("sem") is not None:
            raise Broken("a relaxed arrival publishes nothing")
        which = number(event.op, "number")

        def meetings(copy: Copy, half: str) -> list[int]:
            found: list[int] = []
            for at, e in enumerate(self.traces[copy]):
                if any(isinstance(r, Meet) and r.among == among for r in e.rows()) and number(e.op, "number") == which:
                    does = "arrive" if "arrives" in e.op.properties else _text(e, "does") or "sync"
                    if does in ("sync", half):
                        found.append(at)
            return found

        mine, theirs = meetings(known.copy, "arrive"), meetings(other, "wait")
        if known.at not in mine or (among == "named" and other.cta != known.copy.cta):
            raise Broken("a meeting of other threads")
        turn = mine.index(known.at)
        if turn >= len(theirs):
            return None
        at = theirs[turn]
        threads = dict.fromkeys(self.traces[other][at].threads, parts)
        return replace(known, copy=other, at=at + 1, state=state, threads=threads)

    def release(self, link: Link, known: Known, event: Event) -> Known | None:
        """An arrival by threads that know, to a wait that sees its phase complete."""
        x = known.source
        if known.state in PENDING:
            raise Broken("an arrival tells nothing of what is under way")
        if isinstance(event.op, s.Tcgen05CommitOp) or any(isinstance(r, Signal) and r.bytes_of for r in event.rows()):
            raise Broken(f"{link.start} releases only what it tracks")
        relaxed = _text(event, "sem") == Sem.RELAXED
        if relaxed and known.fence != 1:
            raise Broken("a relaxed arrival publishes nothing")
        found = self._wait(link, [(w, p) for w, p in event.arrivals], known)
        if found is None:
            return None
        copy, at, wait = found
        relaxed_wait = _text(wait, "sem") == Sem.RELAXED
        if copy.cta != known.copy.cta:
            wide = Scope.CTA not in (_text(event, "scope") or Scope.CTA, _text(wait, "scope") or Scope.CTA)
            if not wide and ((not x.tensor and x.touch.proxy is Proxy.GENERIC) or "A2" not in self.assumed):
                raise Broken("CTA scope does not reach another CTA")
        state = _over(x, known.state, relaxed or relaxed_wait, acquires="A3" in self.assumed)
        fence = 2 if relaxed_wait and not x.tensor else 0
        threads = dict.fromkeys(wait.threads, _parts(known, event))
        return replace(known, copy=copy, at=at + 1, state=state, threads=threads, fence=fence)

    def bytes(self, link: Link, known: Known, event: Event) -> Known | None:
        """A copy's own completion, or that of a later copy by a thread that knew."""
        x = known.source
        if link.rule == "bytes-known":
            self._known_complete(known)
            words = [(w, p) for w, p, _ in event.completions]
            state = COMPLETE
        else:
            if event is not x.event or known.state != "tx":
                return None
            words = [(w, p) for w, p, owner in event.completions if owner == x.home or "A1" not in self.assumed]
            state = GENERIC if link.rule == "implicit-fence" else COMPLETE
        return self._completed(link, known, words, state)

    def commit(self, link: Link, known: Known, event: Event) -> Known | None:
        """tcgen05.commit tracks the earlier operations of its thread."""
        x = known.source
        if not isinstance(event.op, s.Tcgen05CommitOp):
            raise Broken(f"{link.start} is no commit")
        if link.rule == "commit-known":
            self._known_complete(known)
            return self._completed(link, known, event.arrivals, COMPLETE)
        _expect(known, "tracked")
        if known.copy != x.copy or not x.event.threads <= event.threads or x.done is not Done.TCGEN05_COMMIT:
            raise Broken("the commit of another thread")
        state = GENERIC if link.rule == "implicit-fence-tcgen05" else COMPLETE
        return self._completed(link, known, event.arrivals, state)

    def implicit_fence(self, link: Link, known: Known, event: Event) -> Known | None:
        """The proxy fence that completion of a copy or of a group holds."""
        if known.source.done is Done.MBARRIER_TX:
            return self.bytes(link, known, event)
        return self.await_group(link, known, event)

    def _known_complete(self, known: Known) -> None:
        x = known.source
        whole = any(parts >= x.event.threads for parts in known.threads.values())
        if known.state != COMPLETE or x.touch.proxy is not Proxy.ASYNC or x.touch.space is not Space.SHARED or not whole:
            raise Broken("nothing that A5 speaks of")

    def _completed(self, link: Link, known: Known, words: list[tuple[Word, int]], state: str) -> Known | None:
        found = self._wait(link, words, known)
        if found is None:
            return None
        copy, at, wait = found
        relaxed = _text(wait, "sem") == Sem.RELAXED
        if copy.cta != known.copy.cta and "A2" not in self.assumed and (_text(wait, "scope") or Scope.CTA) == Scope.CTA:
            raise Broken("CTA scope does not reach another CTA")
        fence = 2 if relaxed and not known.source.tensor else 0
        if known.source.tensor:
            state = _over(known.source, BEFORE, relaxed, acquires="A3" in self.assumed)
        threads = dict.fromkeys(wait.threads, known.source.event.threads)
        return replace(known, copy=copy, at=at + 1, state=state, threads=threads, fence=fence)

    def _wait(self, link: Link, words: list[tuple[Word, int]], known: Known) -> tuple[Copy, int, Event] | None:
        """The first wait of the link's end that sees one of these phases complete."""
        copy = Copy(link.end.role, link.end.copy, link.end.cta)
        phases = dict(words)
        named = self.where.get((copy, link.end.site))
        if not named or self.traces[copy][named[0]].waited is None:
            raise Broken(f"{link.end} is no wait")
        barriers = self.traces[copy][named[0]].waited
        assert barriers is not None
        if all(w.barriers is not barriers[0].barriers for w in phases):
            raise Broken(f"{link.end} does not wait for {link.start}")
        for at in self.alike[(copy, *_kind(self.traces[copy][named[0]]))]:
            event = self.traces[copy][at]
            if event.waited is not None and event.waited[0] in phases and event.waited[1] >= phases[event.waited[0]]:
                return copy, at, event
        return None

    # The end ---------------------------------------------------------------------------------------------------------

    def _accept(self, rule: str, known: Known, y: Access) -> None:
        """Whether what is known orders the access: in its proxy, and for all threads' parts."""
        x = known.source
        if x.tensor:
            self._accept_tensor(rule, known, y)
        else:
            ways = {
                "generic": known.state == GENERIC and y.touch.proxy is Proxy.GENERIC,
                "bridged": known.state == JOINED and y.touch.proxy is Proxy.ASYNC and known.cta == y.home,
                "one-proxy": known.state == COMPLETE and y.touch.proxy is x.touch.proxy is Proxy.ASYNC and x.home == y.home
                and x.copy.cta == y.copy.cta,
                "one-proxy-home": known.state == COMPLETE and y.touch.proxy is x.touch.proxy is Proxy.ASYNC
                and x.home == y.home,
            }  # fmt: skip
            if not ways.get(rule, False) or known.fence == 2:
                raise Broken(f"{rule} does not join the {x.touch.proxy} and the {y.touch.proxy} proxy here")
        own = known.copy == x.copy and self._same_part(x, y)
        for t in y.event.threads:
            needed = frozenset({t}) & x.event.threads if own else x.event.threads
            if not needed <= known.threads.get(t, frozenset()):
                raise Broken("not all threads that access know of all threads' parts")

    def _accept_tensor(self, rule: str, known: Known, y: Access) -> None:
        x = known.source
        if rule == "po" and known.state == COMPLETE:
            return
        names = (x.event.op.name, x.operand, y.event.op.name, y.operand)
        pair = PIPELINED.get(tuple(n.removeprefix("stage.") for n in names))  # pyright: ignore
        if pair != rule or known.state not in ("tracked", PIPE):
            raise Broken(f"{rule} does not order these")
        if known.state == "tracked" and (known.copy != x.copy or x.event.threads != y.event.threads):
            raise Broken("pipelined only within a thread")

    def _same_part(self, x: Access, y: Access) -> bool:
        """Whether a thread's part of the second is its part of the first: the same fragment at the same place."""
        one, other = _fragment(x.event), _fragment(y.event)
        return one is not None and one == other


def _kind(event: Event) -> tuple[str, SSAValue | None]:
    """What makes two places alike: the operation, and the barriers that it is about."""
    return event.op.name, getattr(event.op, "barriers", None)


def _fragment(event: Event) -> Any:
    """How an event's elements fall on threads, and where; None where it moves no fragment."""
    op = event.op
    if "transposed" in op.properties or event.value("column") is None:
        return None
    for name in ("value", "source"):
        found = getattr(op, name, None)
        if isinstance(found, SSAValue) and hasattr(found.type, "layout"):
            return found.type.layout, found.type.dims, event.value("column"), event.value("row")  # pyright: ignore
    return None


def _those(known: Known, event: Event) -> dict[int, frozenset[int]]:
    """What is known of the threads that execute an event."""
    return {t: parts for t, parts in known.threads.items() if t in event.threads}


def _parts(known: Known, event: Event) -> frozenset[int]:
    """What the threads that execute an event know together."""
    return frozenset().union(*_those(known, event).values())


def _expect(known: Known, *states: str) -> None:
    if known.state not in states:
        raise Broken(f"the access is not under way as {' or '.join(states)}")


def _over(x: Access, state: str, relaxed: bool, acquires: bool = False) -> str:
    """What another thread knows of an access of tensor memory after it has been told; of others the same."""
    if not x.tensor:
        return state
    if state == PIPE_BEFORE:
        return PIPE_AFTER
    if state in (COMPLETE, BEFORE, AFTER) and not relaxed and acquires:
        return COMPLETE
    if state in (BEFORE, AFTER):
        return AFTER
    raise Broken("tcgen05 operations need a fence here")


def _text(event: Event, name: str) -> str:
    found = event.op.properties.get(name)
    return found.data if found is not None and hasattr(found, "data") else ""  # pyright: ignore


def _depth(buffer: SSAValue) -> int:
    return buffer.type.depth.data  # pyright: ignore


def _in_registers(event: Event) -> bool:
    source = event.value("source")
    return isinstance(source, Opened) and source.buffer.type.home.data == Home.REGISTER  # pyright: ignore


Step = Callable[[Run, Link, Known, Event], "Known | None"]

STEPS: Mapping[str, Step] = {
    "await-group": Run.await_group,
    "implicit-fence-read": Run.await_group,
    "whole-warpgroup": Run.await_group,
    "tcgen05-wait": Run.await_group,
    "implicit-fence": Run.implicit_fence,
    "proxy-fence": Run.proxy_fence,
    "proxy-fence-others": Run.proxy_fence,
    "tcgen05-before": Run.tensor_fence,
    "tcgen05-after": Run.tensor_fence,
    "thread-fence": Run.thread_fence,
    "meet": Run.meet,
    "meet-warp": Run.meet,
    "meet-warp-async": Run.meet,
    "release": Run.release,
    "release-remote": Run.release,
    "acquire-tcgen05": Run.release,
    "bytes": Run.bytes,
    "bytes-remote": Run.bytes,
    "bytes-known": Run.bytes,
    "commit": Run.commit,
    "commit-remote": Run.commit,
    "commit-known": Run.commit,
    "implicit-fence-tcgen05": Run.commit,
}
"""How each rule is followed."""
