"""Oracle A: the executions that the PTX memory model allows (PTX ISA 9.4, chapter 8), with proxies.

Candidate executions are enumerated (reads-from, the order of fence.sc, coherence) and kept where the axioms of 8.10
hold. Nothing is shared with `tkc`. README.md says which section each relation comes from and what is not modelled.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from oracles.litmus import Event, Place, Test, Trace, Walk, domains
from oracles.relations import (
    Relation,
    acyclic,
    bits,
    closure,
    compose,
    disjoint,
    empty,
    inverse,
    union,
)

STRICT = frozenset({"A3", "A4", "A8", "A11"})
HOME = STRICT | {"A1"}
PRACTICE = STRICT | {"A1", "A2", "A5", "A6", "A7", "A9", "A12", "A13", "A14", "A15", "A20"}
"""Assumptions on asynchronous operations, by the ids of docs/memory-model.md."""

GOT = {"acquire", "acq_rel", "sc"}
PUT = {"release", "acq_rel", "sc"}


def holds(test: Test, assumptions: frozenset[str] = STRICT) -> bool:
    """Whether the test's statement is true of all executions that the model allows."""
    wanted = test.ask != "always"
    found = any(satisfied(test, e) == wanted for e in executions(test, assumptions, wanted))
    return found if test.ask == "exists" else not found


@dataclass(frozen=True)
class Execution:
    registers: dict[str, int]
    memory: dict[str, int]


def satisfied(test: Test, e: Execution) -> bool:
    def value(word: str) -> int:
        if word.lstrip("-").isdigit():
            return int(word)
        return e.registers.get(word, 0) if ":" in word else e.memory[word]

    same: dict[str, Callable[[int, int], bool]] = {"==": operator.eq, "!=": operator.ne}
    return all(any(same[r](value(a), value(b)) for a, r, b in clause) for clause in test.clauses)


def only_registers(test: Test) -> bool:
    return all(
        ":" in w or w.lstrip("-").isdigit() for c in test.clauses for a, _, b in c for w in (a, b)
    )


def executions(
    test: Test, assumptions: frozenset[str], wanted: bool | None = None
) -> Iterator[Execution]:
    """Every allowed execution; with `wanted`, only those where the question's condition has this value (known
    early)."""
    domain = domains(test)
    traces = [list(Walk(test, n, domain).traces()) for n in range(len(test.threads))]
    for choice in itertools.product(*traces):
        if not sourced(test, choice):
            continue
        registers = {f"{n}:{r}": v for n, t in enumerate(choice) for r, v in t.registers.items()}
        if wanted is not None and only_registers(test):
            if satisfied(test, Execution(registers, {})) != wanted:
                continue
        for memory in Candidate(test, choice, assumptions).memories():
            yield Execution(registers, memory)


def sourced(test: Test, traces: tuple[Trace, ...]) -> bool:
    """Whether somebody writes each value that is read."""
    held = {(loc, v) for loc, v in test.initial.items()}
    read: set[tuple[str, int]] = set()
    for trace in traces:
        for e in trace.events:
            if e.place is not None:
                (held if e.kind == "W" else read).add((e.place.location, e.value))
    return read <= held


class Candidate:
    """One choice of traces: its events, and the relations that do not depend on who reads from whom."""

    def __init__(self, test: Test, traces: tuple[Trace, ...], assumptions: frozenset[str]) -> None:
        self.assume = assumptions
        self.events: list[Event] = []
        for loc, value in test.initial.items():
            self.events.append(
                Event(-1, 0, "W", -1, -1, Place(loc, loc, barrier=test.places[loc].barrier), value)
            )
        for trace in traces:
            base = len(self.events)
            for e in trace.events:
                moved = replace(
                    e, index=base + e.index, rmw=None if e.rmw is None else base + e.rmw,
                    depends=frozenset(base + d for d in e.depends),
                    completes=frozenset(base + d for d in e.completes),
                    agent=None if e.agent is None else base + e.agent,
                )  # fmt: skip
                self.events.append(moved)
        self.n = len(self.events)
        self.all = (1 << self.n) - 1
        self.writes = [i for i, e in enumerate(self.events) if e.kind == "W"]
        self.reads = [i for i, e in enumerate(self.events) if e.kind == "R"]
        self.po = self.relate(self.program_order)
        self.strong = self.relate(self.morally_strong)
        self.rmw = empty(self.n)
        for i, e in enumerate(self.events):
            if e.rmw is not None:
                self.rmw[e.rmw] |= 1 << i

    def relate(self, test: Callable[[Event, Event, int, int], bool]) -> Relation:
        r = empty(self.n)
        for i, a in enumerate(self.events):
            for j, b in enumerate(self.events):
                if i != j and test(a, b, i, j):
                    r[i] |= 1 << j
        return r

    # Relations of the program text ---------------------------------------------------------------------------------

    @staticmethod
    def in_order(e: Event) -> bool:
        """Program order holds instructions; what an agent does is not in it (8.9.1.1)."""
        return e.agent is None or e.kind == "I"

    def program_order(self, a: Event, b: Event, i: int, j: int) -> bool:
        return a.thread == b.thread >= 0 and i < j and self.in_order(a) and self.in_order(b)

    @staticmethod
    def includes(a: Event, b: Event) -> bool:
        """Whether a's scope includes b's thread (8.5)."""
        return {
            "cta": (a.gpu, a.cta) == (b.gpu, b.cta),
            "cluster": a.gpu == b.gpu,
            "gpu": a.gpu == b.gpu,
            "sys": True,
        }.get(a.scope, False)

    def morally_strong(self, a: Event, b: Event, i: int, j: int) -> bool:
        """8.7: program order, or both strong with scopes that include each other; the same proxy; complete overlap."""
        if a.kind not in "RWF" or b.kind not in "RWF" or a.thread < 0 or b.thread < 0:
            return False
        if a.place and b.place and (a.place.address != b.place.address or a.proxy != b.proxy):
            return False
        ordered = self.program_order(a, b, i, j) or self.program_order(b, a, j, i)
        same_agent = a.agent is not None and a.agent == b.agent and a.thread == b.thread
        mutual = a.strong and b.strong and self.includes(a, b) and self.includes(b, a)
        return ordered or same_agent or mutual

    def overlap(self, i: int, j: int) -> bool:
        a, b = self.events[i].place, self.events[j].place
        return a is not None and b is not None and a.location == b.location

    # Candidates ----------------------------------------------------------------------------------------------------

    def memories(self) -> Iterator[dict[str, int]]:
        """The final memory of every allowed execution with these traces."""
        barriers = list(self.barrier_edges())
        if not barriers:
            return
        sources = [
            [w for w in self.writes if self.overlap(w, r) and self.may_read(w, r)]
            for r in self.reads
        ]
        for choice in itertools.product(*sources):
            rf = empty(self.n)
            for r, w in zip(self.reads, choice, strict=True):
                rf[w] |= 1 << r
            if not self.out_of_nowhere(rf):
                for order, meeting in itertools.product(self.fence_orders(), barriers):
                    yield from Ordered(self, rf, order, meeting).memories()

    def may_read(self, w: int, r: int) -> bool:
        a, b = self.events[w], self.events[r]
        return a.value == b.value and a.rmw != r and not self.po[r] >> w & 1

    def out_of_nowhere(self, rf: Relation) -> bool:
        """8.10.4: a cycle of reads-from and dependencies."""
        r = list(rf)
        for i, e in enumerate(self.events):
            for d in e.depends:
                r[d] |= 1 << i
        return not acyclic(r)

    def fence_orders(self) -> Iterator[Relation]:
        """Fence-SC (8.9.3): every order of the fence.sc, on the pairs that are morally strong."""
        fences = [i for i, e in enumerate(self.events) if e.kind == "F" and e.sem == "sc"]
        seen: set[tuple[int, ...]] = set()
        for order in itertools.permutations(fences):
            r = empty(self.n)
            for a, b in itertools.combinations(order, 2):
                if self.strong[a] >> b & 1:
                    r[a] |= 1 << b
            if tuple(r) not in seen:
                seen.add(tuple(r))
                yield r

    def barrier_edges(self) -> Iterator[Relation]:
        """CTA barriers: who meets whom, in every way that all can pass.

        Where a barrier counts, any that many arrivals of different threads meet; a thread that comes too late is left
        waiting, which is the end of it. Where it does not, all threads that use it take part (PTX: all of the CTA),
        as in the published tests.
        """
        arrivals: dict[tuple[object, ...], list[int]] = {}
        for i, e in enumerate(self.events):
            if e.kind == "B":
                arrivals.setdefault((e.gpu, e.cta, e.barrier), []).append(i)
        ways = [list(self.meetings(members)) for members in arrivals.values()]
        for choice in itertools.product(*ways):
            sync = empty(self.n)
            for members in itertools.chain(*choice):
                for a, b in itertools.permutations(members, 2):
                    if self.events[b].waits:
                        sync[a] |= 1 << b
            # A barrier waits for what is before the others' arrivals, not for the arrivals: a cycle is stuck.
            before = empty(self.n)
            for a, row in enumerate(self.po):
                for b in bits(row):
                    before[a] |= 1 << b
                    if self.events[b].kind == "B":
                        before[a] |= sync[b]
            if acyclic(before):
                yield sync

    def meetings(self, members: list[int]) -> Iterator[list[tuple[int, ...]]]:
        """The ways in which the arrivals at one barrier meet."""
        by_thread: dict[int, list[int]] = {}
        for i in members:
            by_thread.setdefault(self.events[i].thread, []).append(i)
        quorum = self.events[members[0]].quorum
        if not quorum:
            turns = itertools.zip_longest(*by_thread.values())
            yield [tuple(i for i in turn if i is not None) for turn in turns]
            return

        def rest(heads: dict[int, list[int]]) -> Iterator[list[tuple[int, ...]]]:
            waiting = [t for t, own in heads.items() if own]
            if len(waiting) < quorum:
                if all(not self.po[heads[t][0]] for t in waiting):
                    yield []
                return
            for chosen in itertools.combinations(waiting, quorum):
                met = tuple(heads[t][0] for t in chosen)
                after = {t: own[1:] if t in chosen else own for t, own in heads.items()}
                for more in rest(after):
                    yield [met, *more]

        yield from rest(by_thread)


class Ordered:
    """A candidate with reads-from and Fence-SC chosen: causality, and the coherence orders that it leaves."""

    def __init__(
        self, c: Candidate, rf: Relation, fence_order: Relation, barriers: Relation
    ) -> None:
        self.c, self.rf, self.fence_order, self.n = c, rf, fence_order, c.n
        self.barriers = barriers
        # Observation (8.9.2) follows morally strong reads through atomics.
        step = [a & b for a, b in zip(rf, c.strong, strict=True)]
        self.obs = self.observe(step)
        self.base = self.base_causality(self.obs, waive=False)

    def observe(self, step: Relation) -> Relation:
        through = closure(union(step, self.c.rmw))
        reads = sum(1 << r for r in self.c.reads)
        return [row & reads if self.c.events[i].kind == "W" else 0 for i, row in enumerate(through)]

    # Synchronisation (8.9.4) and base causality (8.9.5) --------------------------------------------------------------

    def releases(self) -> dict[int, list[int]]:
        """Write of a release pattern (8.8) -> the first operations of its patterns."""
        c, found = self.c, dict[int, list[int]]()
        for w in c.writes:
            e = c.events[w]
            if not e.strong:
                continue
            first = [w] if e.sem in PUT else []
            for i, a in enumerate(c.events):
                if c.po[i] >> w & 1:
                    same = a.kind == "W" and a.sem in PUT and a.place == e.place
                    if same or (a.kind == "F" and a.sem in PUT):
                        first.append(i)
            found[w] = first
        return found

    def acquires(self) -> dict[int, list[int]]:
        """Read of an acquire pattern (8.8) -> the last operations of its patterns."""
        c, found = self.c, dict[int, list[int]]()
        for r in c.reads:
            e = c.events[r]
            if not e.strong:
                continue
            last = [r] if e.sem in GOT else []
            for i, a in enumerate(c.events):
                if c.po[r] >> i & 1:
                    same = a.kind == "R" and a.sem in GOT and a.place == e.place
                    if same or (a.kind == "F" and a.sem in GOT):
                        last.append(i)
            found[r] = last
        return found

    def base_causality(self, obs: Relation, waive: bool) -> Relation:
        """`waive`: A2, a wait of CTA scope also takes what arrives on its own barrier from elsewhere."""
        c = self.c
        sync = union(self.fence_order, self.barriers)
        acquires = self.acquires()
        for w, firsts in self.releases().items():
            for r in bits(obs[w]):
                for x, y in itertools.product(firsts, acquires.get(r, [])):
                    place = c.events[w].place
                    if c.strong[x] >> y & 1 or (waive and place is not None and place.barrier):
                        sync[x] |= 1 << y
        edges = union(c.po, sync)
        for i, e in enumerate(c.events):
            for access in e.completes:
                edges[access] |= 1 << i
            if e.rmw is not None and e.agent is not None:
                edges[e.rmw] |= 1 << i
        return closure(edges)

    def issue(self) -> Relation:
        """From an issue to what its agent does: the end of a path, never its middle (8.9.1.1)."""
        r = empty(self.n)
        for i, e in enumerate(self.c.events):
            if e.kind == "I":
                for j, a in enumerate(self.c.events):
                    if (
                        a.agent == e.agent
                        and a.thread == e.thread
                        and a.proxy == "async"
                        and a.kind in "RW"
                    ):
                        r[i] |= 1 << j
        return r

    def completions(self) -> Relation:
        """A5: from an issue to the completion of its agent, for asynchronous accesses of the same bytes."""
        r = empty(self.n)
        for i, e in enumerate(self.c.events):
            if e.kind == "I":
                for j, a in enumerate(self.c.events):
                    if a.agent == e.agent and a.thread == e.thread and a.rmw is not None:
                        r[i] |= 1 << j
        return r

    # Proxies (8.9.5; ISCA'22 for all but alias; A1, A5, A6, A7 for async) --------------------------------------------

    def causality(self) -> Relation:
        c = self.c
        issue = self.issue()

        def ends(base: Relation) -> Relation:
            return union(base, issue, compose(base, issue))

        generic = ends(self.base)
        asynchronous, same_bytes = generic, generic
        base_of_async = self.base
        if "A2" in c.assume and any(e.kind == "I" for e in c.events):
            step = [
                a & (b | self.on_barriers(i))
                for i, (a, b) in enumerate(zip(self.rf, c.strong, strict=True))
            ]
            base_of_async = self.base_causality(self.observe(step), waive=True)
            asynchronous = same_bytes = ends(base_of_async)
        if "A5" in c.assume:
            same_bytes = ends(closure(union(base_of_async, self.completions())))
        preserved = empty(self.n)
        for x, e in enumerate(c.events):
            if e.kind in "RW" and e.thread >= 0:
                reach = asynchronous if e.proxy == "async" else generic
                preserved[x] = self.preserved(x, reach, same_bytes)
            elif e.kind not in "RW":
                preserved[x] = generic[x]
        return union(preserved, compose(self.obs, preserved))

    def on_barriers(self, w: int) -> int:
        place = self.c.events[w].place
        return self.c.all if place is not None and place.barrier else 0

    def place_of(self, e: Event) -> tuple[int, int]:
        """The CTA that performs an access: the issuing thread's, under A1 the owner's."""
        if e.proxy == "async" and "A1" in self.c.assume and e.place and e.place.owner is not None:
            return e.gpu, e.place.owner
        return e.gpu, e.cta

    def fences(self, after: int, proxy: str, where: tuple[int, int]) -> int:
        return sum(
            1 << i for i in bits(after)
            if (f := self.c.events[i]).kind == "P" and f.proxy == proxy and (f.gpu, f.cta) == where
        )  # fmt: skip

    def preserved(self, x: int, reach: Relation, same_bytes: Relation) -> int:
        """What follows x in proxy-preserved base causality."""
        c, e = self.c, self.c.events[x]
        assert e.place is not None
        after = self.follow(reach, 1 << x)
        if e.proxy == "generic":
            visible = after | 1 << x
        else:
            visible = self.follow(reach, self.fences(after, e.proxy, self.place_of(e))
                                  | self.implicit(x))  # fmt: skip
            visible |= self.fences(after, e.proxy, self.place_of(e)) | self.implicit(x)
        aliases = sum(
            1 << i
            for i in bits(visible)
            if c.events[i].kind == "P" and c.events[i].proxy == "alias"
        )
        renamed = self.follow(reach, aliases)
        result = 0
        for y, f in enumerate(c.events):
            if f.kind not in "RW":
                result |= after & 1 << y
                continue
            assert f.place is not None
            if y == x or f.thread < 0 or f.place.location != e.place.location:
                continue
            seen = visible if f.place.address == e.place.address else renamed
            if f.proxy == "generic":
                yes = bool(seen >> y & 1)
            else:
                fences = self.fences(seen, f.proxy, self.place_of(f))
                yes = bool(self.follow(reach, fences) >> y & 1)
            if f.proxy == e.proxy != "generic" and f.place.address == e.place.address:
                if self.place_of(e) == self.place_of(f):
                    chain = same_bytes if e.proxy == "async" else reach
                    yes = yes or bool(chain[x] >> y & 1)
            if yes:
                result |= 1 << y
        return result

    def implicit(self, x: int) -> int:
        """Completions of x that make its own access visible to the generic proxy (E3, A6, A7)."""
        return sum(
            1 << i for i, e in enumerate(self.c.events)
            if x in e.completes and (e.bridges or ("A7" if e.kind == "K" else "A6") in self.c.assume)
        )  # fmt: skip

    @staticmethod
    def follow(reach: Relation, mask: int) -> int:
        result = 0
        for i in bits(mask):
            result |= reach[i]
        return result

    # Axioms (8.10) ---------------------------------------------------------------------------------------------------

    def memories(self) -> Iterator[dict[str, int]]:
        c = self.c
        if any(self.base[b] >> a & 1 for a, row in enumerate(self.fence_order) for b in bits(row)):
            return
        cause = self.causality()
        if not disjoint(inverse(cause), self.rf):  # Causality (i)
            return
        writes = sum(1 << w for w in c.writes)
        must = empty(self.n)
        for w in c.writes:
            for v in c.writes:
                if w != v and c.overlap(w, v) and (c.events[w].thread < 0 or cause[w] >> v & 1):
                    must[w] |= 1 << v
        assert all(row & ~writes == 0 for row in must)
        for co in self.coherence_orders(closure(must)):
            if self.axioms(co, cause):
                yield from self.final(co)

    def coherence_orders(self, co: Relation) -> Iterator[Relation]:
        """Coherence relates what causality does and every morally strong pair (8.9.6); others may stay unrelated."""
        if any(row >> i & 1 for i, row in enumerate(co)):
            return
        c = self.c
        for a, b in itertools.combinations(c.writes, 2):
            if c.overlap(a, b) and c.strong[a] >> b & 1 and not (co[a] >> b & 1 or co[b] >> a & 1):
                for x, y in ((a, b), (b, a)):
                    more = list(co)
                    more[x] |= 1 << y
                    yield from self.coherence_orders(closure(more))
                return
        yield co

    def axioms(self, co: Relation, cause: Relation) -> bool:
        c = self.c
        fr = compose(inverse(self.rf), co)
        for i, row in enumerate(
            self.rf
        ):  # what reads the initial value is before every other write
            if c.events[i].thread < 0:
                for r in bits(row):
                    fr[r] |= sum(1 << w for w in c.writes if w != i and c.overlap(w, r))
        fr = [row & ~c.rmw[i] for i, row in enumerate(fr)]
        if not disjoint(inverse(cause), fr):  # Causality (ii)
            return False
        com = union(self.rf, co, fr)
        local = [
            sum(1 << j for j in bits(row) if c.overlap(i, j) and c.strong[i] >> j & 1)
            for i, row in enumerate(c.po)
        ]
        strong = [row & c.strong[i] for i, row in enumerate(com)]
        if not acyclic(union(strong, local, c.rmw)):  # SC per location
            return False
        between = compose(
            [row & c.strong[i] for i, row in enumerate(fr)],
            [row & c.strong[i] for i, row in enumerate(co)],
        )
        return disjoint(between, c.rmw)  # Atomicity

    def final(self, co: Relation) -> Iterator[dict[str, int]]:
        c = self.c
        last: dict[str, set[int]] = {}
        for w in c.writes:
            if not co[w]:
                place = c.events[w].place
                assert place is not None
                last.setdefault(place.location, set()).add(c.events[w].value)
        for values in itertools.product(*last.values()):
            yield dict(zip(last, values, strict=True))
