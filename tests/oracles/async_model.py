"""Oracle B: whether every two conflicting accesses of a small instance are ordered, proxies and all.

Works on the graph of `unroll`, one bit an event. README.md says which section or assumption each step rests on.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations, starmap
from operator import lt

from oracles.ptx_model import HOME, PRACTICE, STRICT
from oracles.relations import bits
from oracles.roles import Program
from oracles.unroll import Access, Arrival, Run, Stuck, Thread, Waited, Word, unroll

PROFILES = {"strict": STRICT, "home": HOME, "implicit": HOME | {"A6", "A7"}, "practice": PRACTICE}

PIPELINED = {("mma", "mma", True), ("cp", "mma", True), ("cp", "mma", False)}
"""tcgen05 operations of one thread that stay in order (9.7.18.6.2): first, then, and whether the first one's access
writes."""


@dataclass(frozen=True, order=True)
class Finding:
    """`kind`: unordered, proxy (ordered, but for the proxies), deadlock, phase (arrivals of two phases can mix), lap
    (a wait can miss its phase, or pass on an older one), overrun (more arrivals than the count), unfinished (a
    phase that lacks arrivals or copies at the end)."""

    kind: str
    sites: tuple[int, ...]
    where: str = ""


RACES = {"unordered", "proxy"}


def judge(
    program: Program,
    profile: str = "practice",
    trips: Iterable[Mapping[str, int]] = ({},),
    soon: bool = False,
) -> set[Finding]:
    """What is wrong with the program at any of these trip counts; nothing where it is right. `soon`: up to the first
    one where something besides races is."""
    found: set[Finding] = set()
    for counts in trips:
        if soon and any(f.kind not in RACES and f.kind != "lap" for f in found):
            break
        try:
            run = unroll(program, counts)
        except Stuck:
            found.add(Finding("deadlock", ()))
            continue
        found |= set(Graph(run, PROFILES[profile]).findings())
    return found


class Graph:
    """The relations of one run: `time` (what must happen before what) and causality, for generic and other sources."""

    def __init__(self, run: Run, assume: frozenset[str]) -> None:
        self.run, self.assume = run, assume
        self.n = len(run.owner)
        self.fences: dict[str, list[tuple[int, frozenset[str], str]]] = defaultdict(list)
        self.thread_fences: dict[Thread, list[tuple[int, str]]] = defaultdict(list)
        for e, op in run.fences:
            self.fences[op.name].append((e, op.words, op.space))
            if op.name == "thread_fence":
                self.thread_fences[run.owner[e]].append((e, op.scope))
        self.joining: dict[tuple[int, str], int] = {}
        waited = [
            (a.event, w.event) for w in run.waits for p in range(w.seen + 1)
            for a in self.word(w).arrivals[p]
        ]  # fmt: skip
        done = [e for e in run.edges if not e[2].startswith("done") or self.counts(e[2])]
        self.time = self.reach([(a, b) for a, b, kind in done if kind != "converge"] + waited)
        self.converged = self.time
        if any(kind == "converge" for _, _, kind in done):
            self.converged = self.reach([(a, b) for a, b, _ in done] + waited)
        edges = [(a, b) for a, b, kind in run.edges if self.counts(kind)]
        lanes = [(a, b) for a, b, kind in run.edges if kind == "warp"]
        strong, waived = self.synchronised()
        self.generic = self.reach(edges + lanes + strong)
        # What an asynchronous access may use besides, or may not.
        waived, lanes_too = (waived if "A2" in assume else []), (lanes if "A13" in assume else [])
        alike = not waived and len(lanes_too) == len(lanes)
        edges += strong + waived + lanes_too
        self.other = self.same_bytes = self.generic if alike else self.reach(edges)
        # Of groups of stores an arrival of CTA scope tells no other CTA.
        self.of_groups = self.other
        if waived:
            remote = {*waived}
            self.of_groups = self.reach([e for e in edges if e not in remote])
        # Tensor memory: what follows has to be behind an acquire (A3), for which a barrier of threads does not do.
        # What a thread does behind one still comes after what it did before.
        met = {
            (a, b) for a, b, kind in run.edges
            if kind == "sync" and run.owner[a] != run.owner[b]
        }  # fmt: skip
        self.unmet = self.reach([e for e in edges if e not in met]) if met else self.other
        self.acquired: dict[int, int] = {}
        self.bridges: dict[tuple[int, int, int], int] = {}
        self.acquires = sum(1 << w.event for w in run.waits if w.acquire)
        self.acquires |= sum(1 << e for e, _, _ in self.fences["thread_fence"])
        if "A5" in assume and run.completions:
            self.same_bytes = self.reach(edges + run.completions)
        self.agents = {done for _, done in run.completions}

    def counts(self, kind: str) -> bool:
        return kind in ("po", "sync", "done") or (
            kind.startswith("done") and kind[4:] in self.assume
        )

    def reach(self, edges: list[tuple[int, int]]) -> list[int]:
        """What each event comes before; edges go up in number, so one pass from the last is a closure."""
        assert all(starmap(lt, edges))
        reach = [0] * self.n
        for a, b in sorted(edges, reverse=True):
            reach[a] |= reach[b] | 1 << b
        return reach

    # Synchronisation through mbarriers (8.8, 8.9.4, 9.7.15.16) -------------------------------------------------------

    def word(self, w: Waited) -> Word:
        return self.run.words[w.cell.name, w.cell.slot]

    def synchronised(self) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        """Edges from arrivals to the waits that saw their phase: those of the model, and those that need A2."""
        strong: list[tuple[int, int]] = []
        waived: list[tuple[int, int]] = []
        for w in self.run.waits:
            arrivals = [a for p in range(w.seen + 1) for a in self.word(w).arrivals[p]]
            lasts = [(w.event, w.scope)] if w.acquire else []
            lasts += self.thread_fence(w.thread, w.event, later=True)
            for a in arrivals:
                firsts = [(a.event, a.scope)] if a.release else []
                if not a.agent:
                    firsts += self.thread_fence(a.thread, a.event, later=False)
                observed = self.observed(a, w, arrivals)
                for x, xs in firsts:
                    for y, ys in lasts:
                        same = a.thread.cta == w.thread.cta
                        if observed and (same or "cta" not in (xs, ys)):
                            strong.append((x, y))
                        else:
                            waived.append((x, y))
        return strong, waived

    def observed(self, a: Arrival, w: Waited, arrivals: list[Arrival]) -> bool:
        """Whether the wait reads the arrival through morally strong steps only, whoever comes in between."""

        def strong(one: Thread, its: str, other: Thread, others: str) -> bool:
            return one.cta == other.cta or "cta" not in (its, others)

        if not strong(a.thread, a.scope, w.thread, w.scope):
            return False
        if "A15" in self.assume or len({w.thread.cta, *(z.thread.cta for z in arrivals)}) == 1:
            return True
        between = [z for z in arrivals if not self.time_before(z.event, a.event)]
        chain = [(z.thread, z.scope) for z in between] + [(w.thread, w.scope)]
        return all(strong(*p, *q) for p, q in combinations(chain, 2))

    def time_before(self, a: int, b: int) -> bool:
        return bool(self.time[a] >> b & 1)

    def must_precede(self, a: int, b: int) -> bool:
        """As `time_before`, where a warp's convergence counts, too."""
        return bool(self.converged[a] >> b & 1)

    def thread_fence(self, t: Thread, at: int, later: bool) -> list[tuple[int, str]]:
        """The thread's own fences nearest to an event, on the side asked for, one of each scope."""
        mine = self.thread_fences.get(t)
        if mine is None:
            return []
        side = [f for f in mine if (f[0] > at if later else f[0] < at)]
        nearest = {scope: e for e, scope in sorted(side, reverse=later)}
        return [(e, scope) for scope, e in nearest.items()]

    # Proxies (8.9.5, ISCA'22, E1–E4) ---------------------------------------------------------------------------------

    def place(self, a: Access) -> int:
        """The CTA that performs an access."""
        buffer = self.run.buffers[a.cell.name]
        owned = buffer.home != "global" and "A1" in self.assume
        return buffer.cta if owned else a.thread.cta

    def covers(self, space: str, fence: int, a: Access) -> bool:
        buffer = self.run.buffers[a.cell.name]
        if space == "any" or buffer.home == "global":
            return space in ("any", "global")
        return space == "shared::cluster" or (
            space == "shared::cta" and buffer.cta == self.run.owner[fence].cta
        )

    def proxy_fences(self, after: int, a: Access) -> Iterator[int]:
        """The fences among `after` that join the generic proxy and a's, in the CTA where a is performed."""
        place = self.place(a)
        key = (place, a.cell.name)
        joining = self.joining.get(key)
        if joining is None:
            joining = self.joining[key] = sum(
                1 << e
                for e, _, space in self.fences["fence"]
                if self.run.owner[e].cta == place and self.covers(space, e, a)
            )
        return bits(after & joining)

    def visible(self, x: Access) -> tuple[int, int]:
        """Events that x is before in base causality, and those at which the generic proxy sees it."""
        if x.proxy == "generic":
            after = self.generic[x.event] | 1 << x.event
            return after, after
        reach = self.following(x)
        raw = reach[x.event]
        seen = 0
        for e in self.proxy_fences(raw, x):
            seen |= reach[e] | 1 << e
        for e, bridge, rests in x.done:
            if (bridge == "E3" or bridge in self.assume) and (not rests or rests in self.assume):
                seen |= reach[e] | 1 << e
        return raw, seen

    def following(self, x: Access) -> list[int]:
        """What comes after each event by ways that tell of an access."""
        if x.proxy == "generic":
            return self.generic
        return self.of_groups if x.op == "store" else self.other

    def before(self, x: Access, raw: int, seen: int, y: Access) -> bool:
        """Whether x is ordered before y."""
        if x.proxy == "tensor" or y.proxy == "tensor":
            return self.in_tensor_memory(x, y)
        if y.proxy == "generic":
            return bool(seen >> y.issue & 1)
        if self.bridged(x, seen, y) >> y.issue & 1:
            return True
        if x.proxy == "generic":
            return self.paired_fences(x, y)
        if self.place(x) != self.place(y):
            return False
        direct = (self.following(x) if x.op == "store" else self.same_bytes)[x.event] >> y.issue & 1
        return bool(direct) or (y.op in ("mma", "cp") and self.after_relaxed_wait(x, y))

    def bridged(self, x: Access, seen: int, y: Access) -> int:
        """What comes after a fence that joins x, where the generic proxy sees it, to y's proxy."""
        key = (id(x), seen, self.place(y))
        if key not in self.bridges:  # accesses that meet are of one entry
            reach = self.following(x)
            after = 0
            for fence in self.proxy_fences(seen, y):
                after |= reach[fence]
            self.bridges[key] = after
        return self.bridges[key]

    def after_acquire(self, e: int) -> int:
        """What comes after an event by ways that a barrier of threads is no part of, or so after an acquire."""
        if e not in self.acquired:
            after = self.unmet[e]
            for a in bits(self.other[e] & self.acquires):
                after |= self.unmet[a]
            self.acquired[e] = after
        return self.acquired[e]

    def own(self, name: str, t: Thread, above: int = -1, below: int | None = None) -> list[int]:
        top = self.n if below is None else below
        return [
            e for e, _, _ in self.fences[name] if self.run.owner[e] == t and above < e < top
        ]  # fmt: skip

    def paired_fences(self, x: Access, y: Access) -> bool:
        """E2: a release half by the accessing thread, any synchronisation, an acquire half by the issuing thread."""
        halves = [
            e for e, words, _ in self.fences["fence_release"]
            if self.run.owner[e] == x.thread and e > x.issue == x.event and not ("read" in words and x.write)
        ]  # fmt: skip
        ends = self.own("fence_acquire", y.thread, below=y.issue)
        return any(self.time_before(a, b) for a in halves for b in ends)

    def after_relaxed_wait(self, x: Access, y: Access) -> bool:
        """tcgen05.fence::after_thread_sync behind a wait that need not acquire (9.7.18.6.3)."""
        ends = self.own("after", y.thread, below=y.issue)
        return any(self.time_before(e, a) for e, _, rests in x.done if not rests for a in ends)

    def in_tensor_memory(self, x: Access, y: Access) -> bool:
        """9.7.18.6: pipelined pairs, completions, and tcgen05.fence around synchronisation of any kind."""
        listed = (x.op, y.op, x.write) in PIPELINED
        listed |= "A9" in self.assume and (x.op, y.op, x.write) == ("mma", "cp", False)
        listed |= "A14" in self.assume and (x.op, y.op, x.write, y.write) == (
            "mma",
            "mma",
            False,
            True,
        )
        if listed and x.thread == y.thread and x.issue < y.issue:
            return True
        ends = self.own("after", y.thread, below=y.issue)
        if listed and self.joined(self.own("before", x.thread, above=x.issue), ends):
            return True
        for e, _, _ in x.done:
            if x.op in ("tld", "tst") and "A20" in self.assume and self.other[e] >> y.issue & 1:
                return True
            if self.after_acquire(e) >> y.issue & 1:
                return True
            agent = e in self.agents
            starts = [e] if agent else self.own("before", x.thread, above=e)
            if self.joined(starts, ends):
                return True
        return False

    def joined(self, starts: list[int], ends: list[int]) -> bool:
        return any(self.time_before(a, b) for a in starts for b in ends)

    # Verdicts --------------------------------------------------------------------------------------------------------

    def findings(self) -> Iterator[Finding]:
        yield from self.protocol()
        cells: dict[tuple[str, int], list[Access]] = defaultdict(list)
        for a in self.run.accesses:
            cells[a.cell.name, a.cell.slot].append(a)
        for accesses in cells.values():
            if any(a.write for a in accesses):
                yield from self.races(accesses)

    @staticmethod
    def conflict(x: Access, y: Access) -> bool:
        """Whether two accesses of an entry touch the same bytes: the threads of a role share out what all of them
        access."""
        if x.instance == y.instance or not (x.write or y.write):
            return False
        if None not in (x.share, y.share) and x.share != y.share:
            return False
        shared_out = (
            x.shared_out
            and y.shared_out
            and (x.thread.role, x.thread.cta) == (y.thread.role, y.thread.cta)
        )
        return not shared_out or x.thread == y.thread

    def races(self, accesses: list[Access]) -> Iterator[Finding]:
        order: dict[int, int] = dict.fromkeys(range(len(accesses)), 0)
        pairs = [
            (i, j) for i, j in combinations(range(len(accesses)), 2)
            if self.conflict(accesses[i], accesses[j])
        ]  # fmt: skip
        sights = [self.visible(x) for x in accesses]
        raws = [raw for raw, _ in sights]
        for i, j in pairs:
            if accesses[i].issue > accesses[j].issue:
                i, j = j, i
            x, y = accesses[i], accesses[j]
            if x.issue < y.issue and self.before(x, *sights[i], y):
                order[i] |= 1 << j
        reads = sum(1 << i for i, a in enumerate(accesses) if not a.write)
        for i, j in pairs:
            x, y = accesses[i], accesses[j]
            if order[i] >> j & 1 or order[j] >> i & 1:
                continue
            if (
                x.write
                and y.write
                and (self.between(i, j, order, reads) or self.between(j, i, order, reads))
            ):
                continue
            plain = raws[i] >> y.issue & 1 or raws[j] >> x.issue & 1
            kind = "proxy" if plain and "tensor" not in (x.proxy, y.proxy) else "unordered"
            yield Finding(kind, tuple(sorted((x.site, y.site))), x.cell.name)

    @staticmethod
    def between(i: int, j: int, order: dict[int, int], reads: int) -> bool:
        """A read that takes the first write's value and comes before the second (S2)."""
        return any(order[r] >> j & 1 for r in bits(order[i] & reads))

    def protocol(self) -> Iterator[Finding]:
        """Whether another run could pair arrivals and waits in another way."""
        # Which phase it is nobody minds of a slot for which nobody waits: each arrival counts once, whenever it comes.
        # Not so with bytes: an arrival at a phase that lacks nothing else is one too many.
        waited = {(w.cell.name, w.cell.slot) for w in self.run.waits}
        for (name, slot), word in self.run.words.items():
            if word.overrun:
                yield Finding("overrun", (), name)
            if word.unfinished:
                yield Finding("unfinished", (), name)
            for n in range(word.phase if word.takes_bytes or (name, slot) in waited else 0):
                for a in word.arrivals[n]:
                    for b in word.arrivals[n + 1]:
                        if not self.must_precede(a.event, b.event):
                            sites = sorted((self.run.site[a.event], self.run.site[b.event]))
                            yield Finding("phase", tuple(sites), name)
        for w in self.run.waits:
            word, n = self.word(w), w.seen
            may_miss = word.phase > n + 1 and not any(
                self.must_precede(w.event, b.event) for b in word.arrivals[n + 1]
            )
            too_early = n >= 1 and not all(
                self.must_precede(a.event, w.event) for a in word.arrivals[n - 1]
            )
            if may_miss or too_early:
                yield Finding("lap", (w.site,), w.cell.name)
