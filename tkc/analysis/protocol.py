"""Whether a kernel's barriers keep their protocol: every phase can complete, and each wait means one phase.

The order of accesses (`happens_before`) takes for granted that the wait for an item returns when that item is complete;
here that is proved.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, replace
from math import lcm

from tkc.analysis.cluster_barriers import check_cluster_barriers
from tkc.analysis.comers import all_come, number_of, threads_of
from tkc.analysis.happens_before.automaton import Part, both, within
from tkc.analysis.happens_before.clocks import bound
from tkc.analysis.happens_before.events import (
    Arrive,
    Choice,
    Complete,
    Event,
    Meet,
    Role,
    Threads,
    Turns,
    Wait,
    Who,
)
from tkc.analysis.happens_before.graph import Graph, Node, Ring, Site, covers_all, items_of
from tkc.analysis.happens_before.paths import Reach
from tkc.analysis.happens_before.report import Finding
from tkc.analysis.moments import FEW, after, finding_at, known_at, soon_after
from tkc.analysis.rates import unequal
from tkc.analysis.remedies import BRANCHES, TURNS, of_count
from tkc.diagnostics import Severity
from tkc.ir.certificates import origin


def check_barriers(graph: Graph) -> list[Finding]:
    """Barriers whose items cannot be followed, or whose phases cannot complete."""
    return [f for ring in _mbarriers(graph) for f in RingProtocol(graph, ring).findings()]


def check_laps(graph: Graph) -> list[Finding]:
    """Waits that may be two phases behind or ahead, of barriers that are right otherwise."""
    return [f for ring in _mbarriers(graph) for f in RingProtocol(graph, ring).laps()]


def _mbarriers(graph: Graph) -> list[Ring]:
    return [ring for ring in graph.rings.values() if not ring.barrier.word]


def check_meetings(graph: Graph) -> list[Finding]:
    """Barriers of threads that some of their threads do not reach, or that wait for another number of them."""
    found: list[Finding] = []
    met: dict[Hashable, dict[Role, list[Node]]] = {}
    for node in graph.nodes:
        event = node.event
        if event is None or not isinstance(event.act, Meet):
            continue
        if not all_come(node, event.act):
            found.append(
                finding_at(
                    "TK316",
                    node,
                    f"{_said(event)} all threads of role {node.role.name}"
                    f"{' or its warps' * (event.act.among == 'warp')}, but stands under a condition that only some of "
                    "them meet",
                )
            )
        if event.act.barrier is not None:
            met.setdefault(event.act.barrier, {}).setdefault(node.role, []).append(node)
    for roles in met.values():
        first = next(iter(roles.values()))[0]
        assert first.event is not None
        assert isinstance(first.event.act, Meet)
        expected = first.event.act.count or 32 * sum(r.warps for r in graph.program.roles)
        present = sum(number_of(nodes) for nodes in roles.values())
        if present != expected:
            found.append(
                finding_at(
                    "TK305",
                    first,
                    f"{first.event.told} waits for {expected} threads, but {present} of "
                    f"role{'s' * (len(roles) > 1)} {', '.join(r.name for r in roles)} come to it",
                )
            )
    return [*found, *check_cluster_barriers(graph)]


def _said(event: Event) -> str:
    """A meeting that the program has, by its name; one that the compiler made, by what it is of."""
    if origin(event.name) == "user":
        return f"{event.told} is a barrier of"
    return "this takes a barrier of"


@dataclass(eq=False, slots=True)
class RingProtocol:
    """One barrier, or ring of barriers."""

    graph: Graph
    ring: Ring

    def findings(self) -> Iterator[Finding]:
        if not (self.ring.waits or self.ring.unknown or self.ring.copies or self.ring.arrivals):
            return
        if self.ring.unknown:
            yield from self._unknown()
            return
        apart = list(self._clocks())
        yield from apart
        if all(f.severity is Severity.WARNING for f in apart):
            yield from self._arrivals()

    @property
    def _name(self) -> str:
        return self.ring.barrier.name

    @property
    def _of_a_pipe(self) -> bool:
        """Whether the compiler made it, of roles that say the same: it is right, even where its order is not known."""
        return "." in self._name

    def _uncounted(self, node: Node) -> Finding:
        """Nothing is known of the order of a pipe's items."""
        said = f"the items of pipe {self._name.rpartition('.')[0]} are not counted by one loop or condition: the "
        said += "order of this kernel's accesses is not settled, and races are not reported"
        return replace(
            finding_at("TK325", node, said),
            severity=Severity.WARNING,
            remedy="`tkc emulate` finds races by running the kernel",
        )

    def _unknown(self) -> Iterator[Finding]:
        if self._of_a_pipe:
            yield self._uncounted(self.ring.unknown[0])
            return
        for node in self.ring.unknown:
            event = node.event
            assert event is not None
            if isinstance(event.act, Wait):
                yield finding_at(
                    "TK306", node,
                    f"the phase that {event.told} waits for on {self._name} cannot be followed in role "
                    f"{node.role.name}: slot and parity have to go on from item to item, for the kernel's whole life",
                    TURNS,
                )  # fmt: skip
            else:
                yield finding_at(
                    "TK305", node,
                    f"which item of {self._name} {event.told} arrives at cannot be followed in role {node.role.name}: "
                    "its slot has to go on from item to item, for the kernel's whole life",
                    TURNS,
                )  # fmt: skip

    def _sites(self) -> Iterator[Site]:
        yield from self.ring.waits
        yield from self.ring.copies
        for sites in self.ring.arrivals.values():
            yield from sites

    def _clocks(self) -> Iterator[Finding]:
        """All count items by one clock, at one rate."""
        counted = [s for s in self._sites() if s.clock is not self.graph.kernel]
        for site in counted[1:]:
            first = counted[0]
            if site.clock is first.clock and site.rate != first.rate:
                more, fewer = sorted((site, first), key=lambda s: -s.rate)
                yield finding_at(
                    "TK305", more.node,
                    f"{_event(more).told_at} in role {more.node.role.name} goes on by {more.rate} items of "
                    f"{self._name} a turn, and {_event(fewer).told_at} in role {fewer.node.role.name} by {fewer.rate}",
                    TURNS,
                )  # fmt: skip
                return
            if site.clock is not first.clock:
                yield finding_at(
                    "TK305", site.node,
                    f"roles {first.node.role.name} and {site.node.role.name} go through the items of {self._name} "
                    "in loops of which nothing says that they turn equally often",
                )  # fmt: skip
                return
        if counted and not counted[0].clock.agreed:
            roles = list(dict.fromkeys(s.node.role.name for s in counted))
            sure = unequal(counted)
            if sure is not None:
                one, other, turns = sure
                yield finding_at(
                    "TK314", one.site.node,
                    f"role {one.site.node.role.name} goes through {one.items} items of {self._name} in "
                    f"{turns} turn{'s' * (turns != 1)} of the loop round it, and role {other.site.node.role.name} "
                    f"through {other.items}: one of them waits for ever",
                )  # fmt: skip
                return
            yield replace(
                finding_at(
                    "TK314", counted[0].node,
                    f"roles {' and '.join(roles)} go through the items of {self._name} in loops of which nothing says "
                    "that they turn equally often; if they do not, one of them waits for ever",
                ),
                severity=Severity.WARNING,
            )  # fmt: skip

    # Arrivals and bytes ----------------------------------------------------------------------------------------------

    def _arrivals(self) -> Iterator[Finding]:
        """Each item gets the arrivals that complete its phase, and the bytes that they announce."""
        rate = max((s.rate for s in self._sites()), default=1)
        kernel = [s for s in self._sites() if s.clock is self.graph.kernel]
        if kernel and len(kernel) < len(list(self._sites())):
            yield from self._prologue(kernel)
            return
        if kernel:
            items = sorted(
                {s.offset for s in kernel if not isinstance(_act(s), Wait)}
                | {s.offset for s in self.ring.waits if s.offset >= 0}
            )
        else:
            items = list(range(rate * self._period()))
        for site in (s for sites in self.ring.arrivals.values() for s in sites):
            if site.every and site.offset >= rate:
                yield finding_at(
                    "TK305", site.node,
                    f"the first items of {self._name} get no arrival: {_event(site).told_at} in role "
                    f"{site.node.role.name} begins with item {site.offset}",
                )  # fmt: skip
                return
        for site in self.ring.copies:
            if site.every and site.clock is not self.graph.kernel and not 0 <= site.offset < rate:
                yield finding_at(
                    "TK305", site.node,
                    f"{_event(site).told_at} in role {site.node.role.name} begins with item {site.offset} of "
                    f"{self._name}: the first bytes are another item's",
                )  # fmt: skip
                return
        for item in items:
            if not kernel and not any(self._matches(s, item, rate) for s in self._sites()):
                continue  # an entry of the ring that the program does not use
            total, announced, names = 0, 0, list[str]()
            for role, sites in self.ring.arrivals.items():
                given = self._of_role(role, sites, item, rate)
                if given is None and self._of_a_pipe:
                    yield self._uncounted(sites[0].node)
                    return
                if given is None:
                    yield finding_at(
                        "TK305", sites[0].node,
                        f"role {role.name} does not arrive at every item of {self._name} equally often: the condition "
                        f"round {_event(sites[0]).told_at} cannot be followed",
                        BRANCHES,
                    )  # fmt: skip
                    return
                total += given[0]
                announced += given[1]
                names.append(f"{given[0]} by role {role.name}")
            count = self.ring.barrier.count
            if total != count:
                node = self._first()
                yield finding_at(
                    "TK305", node,
                    f"a phase of {self._name} needs {count} arrival{'s' * (count != 1)}, but an item gets {total}"
                    + (f" ({', '.join(names)})" if names else ""),
                    "" if self._of_a_pipe else of_count(self._name, count, total, bool(names), bool(self.ring.copies)),
                )  # fmt: skip
                return
            yield from self._bytes(item, rate, announced)

    def _period(self) -> int:
        """After how many turns the same sites have items again."""
        if not self.graph.periods:
            return 1
        return lcm(*(s.node.turns.period for s in self._sites() if s.sometimes and s.node.turns))

    def _first(self) -> Node:
        """The node to show: an arrival, else a wait."""
        for sites in self.ring.arrivals.values():
            return sites[-1].node
        return next(iter(self._sites())).node

    def _matches(self, site: Site, item: int, rate: int) -> bool:
        if site.clock is self.graph.kernel:
            return site.offset == item
        return (site.offset - item) % rate == 0 and site.has(item)

    def _of_role(
        self, role: Role, sites: list[Site], item: int, rate: int
    ) -> tuple[int, int] | None:
        """Arrivals and bytes that a role gives an item; None where that depends."""
        mine = [s for s in sites if self._matches(s, item, rate)]
        always = [s for s in mine if s.every or s.sometimes]
        rest = [s for s in mine if s not in always]
        if any(s.offset < 0 for s in always):
            return None
        arrivals, announced = self._sum(always)
        if rest:
            cases = self.graph.cases(self._key(), role, item)
            if cases is None:
                return None
            sums = {self._sum([s for s in case if s in rest]) for case in cases}
            if len(sums) != 1:
                return None
            more = sums.pop()
            arrivals, announced = arrivals + more[0], announced + more[1]
        return arrivals, announced

    def _key(self) -> Hashable:
        return next(k for k, r in self.graph.rings.items() if r is self.ring)

    def _sum(self, sites: list[Site]) -> tuple[int, int]:
        arrivals = announced = 0
        for site in sites:
            act = _act(site)
            assert isinstance(act, Arrive)
            arrivals += act.count * threads_of(site.node)
            announced += act.bytes * threads_of(site.node)
        return arrivals, announced

    def _bytes(self, item: int, rate: int, announced: int) -> Iterator[Finding]:
        copies = [s for s in self.ring.copies if self._matches(s, item, rate)]
        by_case: dict[object, int] = {}
        always = 0
        for site in copies:
            act = _act(site)
            assert isinstance(act, Complete)
            size = act.bytes * max(1, threads_of(site.node))
            if site.every or site.sometimes:
                always += size
            else:
                case = site.node.loops[-1] if site.node.loops else None
                by_case[case] = by_case.get(case, 0) + size
        received = {always + b for b in by_case.values()} or {always}
        if received != {announced}:
            told = " or ".join(f"{b:,}" for b in sorted(received))
            node = copies[-1].node if copies else self._first()
            yield finding_at(
                "TK305", node,
                f"an item of {self._name} announces {announced:,} bytes, but its copies bring {told}: "
                "its phase cannot complete",
            )  # fmt: skip

    def _prologue(self, kernel: list[Site]) -> Iterator[Finding]:
        """Items that the kernel handles before its loop: the loop has to go on where they end."""
        node = kernel[0].node
        if self._of_a_pipe:
            yield self._uncounted(node)
            return
        yield finding_at(
            "TK305", node,
            f"{_event(kernel[0]).told_at} uses {self._name} outside the loop that goes through its items; "
            "that is not followed",
        )  # fmt: skip

    # Laps ------------------------------------------------------------------------------------------------------------

    def laps(self) -> Iterator[Finding]:
        """A wait tells one phase from the next but one only where it can be neither two behind nor two ahead."""
        depth = self.ring.barrier.depth
        yield from self._early()
        for wait in self.ring.waits:
            if (
                wait.clock is self.graph.kernel
                or self.graph.symmetry.mirrors(wait.node.role)
                or _implied(wait)
            ):
                continue
            if not self._waited_before(wait, depth):
                yield finding_at(
                    "TK306", wait.node,
                    f"{_event(wait).told_at} in role {wait.node.role.name} does not wait for every phase of "
                    f"{self._name}: parity tells a phase only from the one before",
                )  # fmt: skip
                continue
            if not self._awaited(wait, depth):
                several = threads_of(wait.node) > 32 and not self._of_a_pipe
                yield finding_at(
                    "TK306", wait.node,
                    f"{self._name} may complete its next phase before {_event(wait).told_at} in role "
                    f"{wait.node.role.name} has seen this one: no arrival or copy of the next round waits for it"
                    + ("; one warp that goes on need not wait for the others of the role: `sync role` behind the wait, "
                       "or `if warp == 0:` round the loop" if several else ""),
                )  # fmt: skip

    def _early(self) -> Iterator[Finding]:
        """An arrival at the next round of a slot must find this one complete: it comes after a wait for it, or after
        all arrivals that complete it."""
        symmetry = self.graph.symmetry
        for sites in self.ring.arrivals.values():
            for site in sites:
                if site.clock is self.graph.kernel or symmetry.repeats(site.node.role):
                    continue
                if not (site.every or site.sometimes) or self._alone(site):
                    continue
                name = symmetry.name(site.node.role, site.node.number, self.ring.barrier.owner)
                if name not in self.graph.moments:
                    self.graph.moments[name] = self._in_time(site)
                if not self.graph.moments[name]:
                    yield finding_at(
                        "TK306", site.node,
                        f"{_event(site).told_at} in role {site.node.role.name} may arrive at {self._name} for the "
                        "next round while this one is not complete: nothing before it waits for this one",
                    )  # fmt: skip

    def _in_time(self, site: Site) -> bool:
        depth, own = self.ring.barrier.depth, site.node.role
        waits = sorted(
            self.ring.waits, key=lambda w: w.node.role is not own
        )  # its own tell at once
        return all(
            any(self._follows(site, w, i - depth, depth) for w in waits)
            or self._completed(site, i - depth, depth)
            for i in range(depth, depth + site.rate * self._period())
            if site.has(i)
        )

    def _turns(self, wait: Site, item: int) -> Turns | None:
        """The turns of a wait that are like that of an item, where its loop has parts that run in some turns."""
        if wait.clock not in self.graph.periods or wait.node.path[-1] is not wait.clock:
            return None
        loop, period = self.graph.periods[wait.clock]
        return Turns(loop, period, frozenset({(item - wait.offset) // wait.rate % period}))

    def _follows(self, site: Site, wait: Site, item: int, depth: int) -> bool:
        """Whether an arrival comes after the wait, by some thread, for the item of the round before."""
        if wait.clock is self.graph.kernel or (site.offset - wait.offset - depth) % site.rate:
            return False
        if not wait.has(item):
            return False
        turns = self._turns(wait, item)
        soon = soon_after(self.graph, wait.node, turns)
        if soon is not None and self._later(soon, site, wait, depth):
            return True
        reach = after(self.graph, wait.node, True, turns)
        while not self._later(reach, site, wait, depth):
            if not reach.advance(site.node.role, FEW):
                return False
        return True

    def _completed(self, site: Site, item: int, depth: int) -> bool:
        """Whether an arrival comes after all those that complete the item of the round before, each by all of its
        threads. Nothing says so of one that copies or products make when they are done."""
        arrivals = [s for sites in self.ring.arrivals.values() for s in sites]
        if self.ring.copies or not all(s.every or s.sometimes for s in arrivals):
            return False
        return all(self._comes_behind(site, s, item, depth) for s in arrivals if s.has(item))

    def _comes_behind(self, site: Site, before: Site, item: int, depth: int) -> bool:
        """Whether an arrival comes after one at an item of the round before."""
        act = _act(before)
        if isinstance(act, Arrive) and (act.commit or act.copies):
            return False  # it arrives at some time behind its issue
        if before.clock is not site.clock or (site.offset - before.offset - depth) % site.rate:
            return False
        reach = after(self.graph, before.node, False, self._turns(before, item), by_warps=False)
        while not self._behind(reach, site, before, depth):
            if not reach.advance(site.node.role, FEW):
                return False
        return True

    def _behind(self, reach: Reach, site: Site, before: Site, depth: int) -> bool:
        counted = before.clock in before.node.path
        for state, position in known_at(reach, site.node):
            own = before.node.threads is Threads.ONE and before.node.role is site.node.role
            if (state.part == Part.FULL or own) and within(site.node.threads, state.who):
                d = bound(position, site.clock, counted)
                if d * site.rate + site.offset <= before.offset + depth:
                    return True
        return False

    def _later(self, reach: Reach, site: Site, wait: Site, depth: int) -> bool:
        return any(
            bound(position, site.clock, wait.clock in wait.node.path) * site.rate + site.offset
            <= wait.offset + depth
            for state, position in known_at(reach, site.node)
            if within(site.node.threads, state.who)
        )

    def _alone(self, site: Site) -> bool:
        """Whether one thread makes all arrivals of a barrier without bytes, so that each completes its phase."""
        return not self.ring.copies and self.ring.barrier.count == 1 and threads_of(site.node) == 1

    def _waited_before(self, wait: Site, depth: int) -> bool:
        """Whether the same threads have waited for the round before."""
        for other in self.ring.waits:
            same = other.node.role is wait.node.role and (other.every or other.sometimes)
            items = range(depth, depth + wait.rate * self._period())
            same = same and all(other.has(i - depth) for i in items if wait.has(i))
            if (
                same
                and within(wait.node.threads, other.node.threads)
                and (other.offset - wait.offset + depth) % wait.rate == 0
            ):
                return True
        if wait.every:
            return False
        peers = [
            o
            for o in self.ring.waits
            if o.node.role is wait.node.role and not o.every and o.offset == wait.offset
        ]
        told = covers_all(peers) is not None or _in_every_branch(peers)
        return told and all(within(wait.node.threads, o.node.threads) for o in peers)

    def _awaited(self, wait: Site, depth: int) -> bool:
        """Whether some arrival that the next round of the slot needs comes after the wait."""
        items = range(depth, depth + wait.rate * self._period())
        return all(self._awaited_for(wait, i, depth) for i in items if wait.has(i))

    def _awaited_for(self, wait: Site, item: int, depth: int) -> bool:
        reach = after(self.graph, wait.node, False, self._turns(wait, item))
        sites = [*(s for sites in self.ring.arrivals.values() for s in sites), *self.ring.copies]
        toward = sites[0].node.role if sites else None
        while not self._told(wait, item, depth, reach):
            if not reach.advance(toward, FEW):
                return False
        return True

    def _told(self, wait: Site, item: int, depth: int, reach: Reach) -> bool:
        # A phase also wants the bytes that were announced for it, so a copy counts as an arrival does.
        for sites in (*self.ring.arrivals.values(), self.ring.copies):
            for site in sites:
                if not (site.every or site.sometimes):
                    continue
                if (site.offset - wait.offset - depth) % site.rate or not site.has(item + depth):
                    continue
                for state, position in known_at(reach, site.node):
                    if state.part == Part.FULL and _some_know(site.node, state.who):
                        d = bound(position, site.clock, wait.clock in wait.node.path)
                        if d * site.rate + site.offset <= wait.offset + depth:
                            return True
                    elif within(reach.source.threads, state.who) and within(
                        reach.source.threads, site.node.threads
                    ):
                        d = bound(position, site.clock, wait.clock in wait.node.path)
                        if d * site.rate + site.offset <= wait.offset + depth:
                            return True
        return self._conditional(wait, depth, reach)

    def _conditional(self, wait: Site, depth: int, reach: Reach) -> bool:
        for role in self.ring.arrivals:
            cases = self.graph.cases(self._key(), role, wait.offset + depth)
            if cases and all(self._comes_after(reach, wait, case, depth) for case in cases):
                return True
        return False

    def _comes_after(self, reach: Reach, wait: Site, case: list[Site], depth: int) -> bool:
        for site in case:
            for state, position in known_at(reach, site.node):
                if not _some_know(site.node, state.who):
                    continue
                items = items_of(position, site, site.clock in wait.node.path)
                if items is None:
                    continue
                turns = bound(items, site.clock, site.clock in wait.node.path)
                offset = 0 if site.after else site.offset
                if turns * site.rate + offset <= wait.offset + depth:
                    return True
        return False


def _some_know(node: Node, who: Who) -> bool:
    """Whether some of the threads that execute a node are sure to be among others: one arrival of them is enough."""
    met = both(who, node.threads)
    return threads_of(node) > 0 and met not in (None, Threads.SOME) and getattr(met, "sure", True)


def _in_every_branch(sites: list[Site]) -> bool:
    """Whether one of the sites stands in each branch of a choice, in every turn of their clock's loop."""
    first = sites[0].node
    if len(first.loops) < 2 or any(s.node.path[-2:-1] != (s.clock,) for s in sites):
        return False
    standing = {s.node.loops[-1] for s in sites}
    return any(
        isinstance(item, Choice) and set(item.branches) <= standing for item in first.loops[-2].body
    )


def _act(site: Site) -> object:
    return _event(site).act


def _implied(wait: Site) -> bool:
    act = _act(wait)
    return isinstance(act, Wait) and act.implied


def _event(site: Site) -> Event:
    assert site.node.event is not None
    return site.node.event
