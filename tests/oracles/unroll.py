"""Runs a small instance of a role program to the end and writes down what happened, as a graph of events.

Every loop is unrolled. A warp is two threads: lane 0, and one that stands for the other 31. Asynchronous operations
are an issue in program order, accesses of their own, and a completion. Events are numbered in the order of one run,
so that every edge goes from a lower number to a higher one. Whether other runs pair arrivals and waits the same way
is asked afterwards (`protocol`): then the graph is that of every run.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeVar

from oracles.roles import EACH, Barrier, Buffer, For, If, Op, Program, Role, Statement

OTHERS = 31
"""Lanes that the second thread of a warp stands for."""


WAITING = {
    "wait",
    "sync",
    "warp_sync",
    "cluster_wait",
    "cluster_sync",
    "wgmma",
    "wgmma_wait",
}
CONVERGING = {"wgmma", "wgmma_commit", "wgmma_wait", "tld", "tst", "wait_ld", "wait_st"}
"""`.sync.aligned`: a warp's threads wait for one another, which orders no memory."""


class Thread(NamedTuple):
    role: str
    cta: int
    warp: int
    lane: int


class Cell(NamedTuple):
    """One entry of a buffer or barrier, that of one CTA where each has it (`name@0`); for barriers `phase` is the one
    meant."""

    name: str
    slot: int
    phase: int = 0

    def of(self, cta: int) -> Cell:
        """The same entry of another CTA, where each has it."""
        name, at, _ = self.name.partition("@")
        return self._replace(name=f"{name}@{cta}") if at else self


@dataclass(eq=False, slots=True)
class Access:
    """What an operation does to one entry. `issue`: the event of the thread that starts it (itself where synchronous).

    `done`: events at which it is known to be complete, with the assumption that the implicit fence there rests on
    ("" where there is none, "E3" where PTX states it) and the assumption that the completion itself rests on.
    """

    event: int
    site: int
    op: str
    cell: Cell
    write: bool
    proxy: str
    issue: int
    thread: Thread
    instance: tuple[int, ...]
    shared_out: bool = False
    """Every thread of the role takes part, each with its own rows."""
    share: int | None = None
    """Which half of the entry it is of; None: the whole."""
    done: list[tuple[int, str, str]] = field(default_factory=list)


class Step(NamedTuple):
    op: Op
    cells: tuple[Cell, ...]
    instance: tuple[int, ...]
    """Its site, how often its role has been there in this CTA, and the CTA."""
    by: str
    """Who of the role executes it."""


class Arrival(NamedTuple):
    event: int
    thread: Thread
    release: bool
    scope: str
    agent: bool


class Waited(NamedTuple):
    event: int
    thread: Thread
    acquire: bool
    scope: str
    cell: Cell
    seen: int
    site: int


@dataclass
class Word:
    """An mbarrier: which phase is under way, what it still misses, and who arrived in each."""

    count: int
    phase: int = 0
    missing: int = 0
    copies: float = 0
    overrun: bool = False
    takes_bytes: bool = False
    arrivals: dict[int, list[Arrival]] = field(default_factory=lambda: defaultdict(list))

    def __post_init__(self) -> None:
        self.missing = self.count

    @property
    def unfinished(self) -> bool:
        return self.missing != self.count or self.copies != 0

    def arrive(self, a: Arrival | None, weight: int, copies: float) -> None:
        if a is not None:
            self.arrivals[self.phase].append(a)
        self.missing -= weight
        self.copies += copies
        self.takes_bytes |= copies != 0
        self.overrun |= self.missing < 0
        if self.missing <= 0 and self.copies == 0:
            self.phase += 1
            self.missing = self.count


class Stuck(Exception):
    """The instance cannot go on: nobody can pass what they wait for."""


@dataclass
class Run:
    """The graph: `after[e]` lists (event, class) with class po, done (completion), issue (ends a path), sync, warp,
    exec (order in time only) or converge (the same, by a warp's convergence)."""

    program: Program
    trips: Mapping[str, int]
    threads: list[Thread] = field(default_factory=list)
    owner: list[Thread] = field(default_factory=list)
    site: list[int] = field(default_factory=list)
    edges: list[tuple[int, int, str]] = field(default_factory=list)
    accesses: list[Access] = field(default_factory=list)
    buffers: dict[str, Buffer] = field(default_factory=dict)
    """Those of each CTA, by the names of their cells."""
    words: dict[tuple[str, int], Word] = field(default_factory=dict)
    waits: list[Waited] = field(default_factory=list)
    fences: list[tuple[int, Op]] = field(default_factory=list)
    completions: list[tuple[int, int]] = field(default_factory=list)
    """Issue event and completion event of an operation; of one for several CTAs one for each."""

    def event(self, thread: Thread, site: int, after: int | None = None, kind: str = "po") -> int:
        e = len(self.owner)
        self.owner.append(thread)
        self.site.append(site)
        if after is not None:
            self.edges.append((after, e, kind))
        return e


def unroll(program: Program, trips: Mapping[str, int]) -> Run:
    """The graph of one run with these trip counts. Raises Stuck where the roles wait for each other."""
    return _Machine(program, trips).run()


Declared = TypeVar("Declared", Buffer, Barrier)


def placed(declared: Mapping[str, Declared]) -> dict[str, Declared]:
    """What is declared, once for each CTA where each has it."""
    found: dict[str, Declared] = {}
    for name, one in declared.items():
        if one.cta == EACH:
            found |= {f"{name}@{cta}": replace(one, cta=cta) for cta in (0, 1)}
        else:
            found[name] = one
    return found


def steps(program: Program, role: Role, cta: int, trips: Mapping[str, int]) -> Iterator[Step]:
    """The role's operations in order, in one CTA, with the entries that they touch."""
    counters: dict[str, int] = defaultdict(int, rank=cta)
    seen: dict[int, int] = defaultdict(int)
    by = {op.site: op.by for _, op in program.ops()}

    def cell(op: Op, name: str, index: str) -> Cell:
        declared = program.buffers.get(name) or program.barriers[name]
        if index.isdigit():
            slot, phase = int(index), 0
        else:
            phase, slot = divmod(counters[index], declared.depth)
        own = f"{name}@{cta}" if declared.cta == EACH else name
        return Cell(own, slot, phase - ("lag" in op.words))

    def go(body: list[Statement]) -> Iterator[Step]:
        for s in body:
            if isinstance(s, For):
                if s.by_counter:
                    counter, modulus, more = s.by_counter
                    turns = counters[counter] % modulus + more
                else:
                    turns = int(trips.get(s.trips, s.trips))
                for _ in range(turns):
                    yield from go(s.body)
            elif isinstance(s, If):
                here = counters[s.counter] % s.modulus == s.remainder
                yield from go(s.then if here else s.otherwise)
            elif s.name == "step":
                counters[s.counter] += 1
            elif s.name == "reset":
                counters[s.counter] = 0
            else:
                seen[s.site] += 1
                cells = tuple(cell(s, e.name, e.index) for e in s.entries)
                yield Step(s, cells, (s.site, seen[s.site], cta), by[s.site])

    return go(role.body)


@dataclass
class _Local:
    """What belongs to one thread: its last event, and the asynchronous operations that it has not waited for."""

    steps: list[Step]
    at: int = 0
    met: int = -1
    last: int | None = None
    groups: dict[str, list[list[Access]]] = field(default_factory=lambda: defaultdict(lambda: [[]]))
    tracked: list[Access] = field(default_factory=list)
    pending: dict[str, list[Access]] = field(default_factory=lambda: defaultdict(list))
    turns: dict[object, int] = field(default_factory=lambda: defaultdict(int))


class _Machine:
    def __init__(self, program: Program, trips: Mapping[str, int]) -> None:
        self.r = Run(program, trips)
        self.program = program
        self.local: dict[Thread, _Local] = {}
        for role in program.roles:
            for cta in (0, 1) if role.cta == EACH else (role.cta,):
                todo = list(steps(program, role, cta, trips))
                for warp in range(role.warps):
                    for lane in range(2):
                        t = Thread(role.name, cta, warp, lane)
                        self.local[t] = _Local([s for s in todo if does(t, s.by)])
        self.r.threads = list(self.local)
        self.r.buffers = placed(program.buffers)
        for name, b in placed(program.barriers).items():
            for slot in range(b.depth):
                self.r.words[name, slot] = Word(b.count)
        self.meeting: dict[object, dict[Thread, int]] = defaultdict(dict)
        self.relaxed: set[int] = set()
        self.members: dict[object, list[Thread]] = {}

    def run(self) -> Run:
        idle = 0
        while any(mine.at < len(mine.steps) for mine in self.local.values()):
            moved = False
            for t, mine in self.local.items():
                while mine.at < len(mine.steps) and self.do(t, mine, mine.steps[mine.at]):
                    mine.at += 1
                    moved = True
            # To arrive somewhere is no step yet, and one operation may have two places to arrive at.
            idle = 0 if moved else idle + 1
            if idle > 2:
                raise Stuck
        return self.r

    # Each of these does one operation of one thread, or returns False where the thread has to wait.

    def do(self, t: Thread, mine: _Local, s: Step) -> bool:
        name = s.op.name
        if name in CONVERGING and mine.met != mine.at:
            whole = self.team(t, s.by, t.warp)
            key = ("converge", t.role, t.cta, t.warp, s.by)
            if not self.join(key, t, mine, s, whole, "converge"):
                return False
            mine.met = mine.at
        if name in WAITING:
            return getattr(self, name)(t, mine, s)
        getattr(self, name, self.plain)(t, mine, s)
        return True

    def plain(self, t: Thread, mine: _Local, s: Step) -> int:
        mine.last = self.r.event(t, s.op.site, mine.last)
        return mine.last

    def touch(
        self, t: Thread, s: Step, event: int, issue: int, cell: Cell, write: bool, proxy: str
    ) -> Access:
        where = Cell(cell.name, cell.slot)
        shared_out = s.by == "all" and s.op.name != "wgmma"
        share = t.cta if "share" in s.op.words else None
        a = Access(
            event,
            s.op.site,
            s.op.name,
            where,
            write,
            proxy,
            issue,
            t,
            s.instance,
            shared_out,
            share,
        )
        self.r.accesses.append(a)
        return a

    def start(self, t: Thread, s: Step, issue: int, cell: Cell, write: bool, proxy: str) -> Access:
        """An access of an asynchronous operation that `issue` started."""
        return self.touch(
            t, s, self.r.event(t, s.op.site, issue, "issue"), issue, cell, write, proxy
        )

    def finish(self, a: Access, event: int, bridge: str = "", rests: str = "") -> None:
        a.done.append((event, bridge, rests))
        self.r.edges.append((a.event, event, "done" + rests))

    def complete(self, issue: int, done: int) -> None:
        """An operation completes after it was issued, though that hands nothing on."""
        self.r.completions.append((issue, done))
        self.r.edges.append((issue, done, "exec"))

    # Plain accesses and fences

    def ld(self, t: Thread, mine: _Local, s: Step) -> None:
        e = self.plain(t, mine, s)
        self.touch(t, s, e, e, s.cells[0], False, "generic")

    def st(self, t: Thread, mine: _Local, s: Step) -> None:
        e = self.plain(t, mine, s)
        self.touch(t, s, e, e, s.cells[0], True, "generic")

    def fence(self, t: Thread, mine: _Local, s: Step) -> None:
        self.r.fences.append((self.plain(t, mine, s), s.op))

    fence_release = fence_acquire = thread_fence = before = after = fence

    # The copy engine

    def tma(self, t: Thread, mine: _Local, s: Step) -> None:
        issue = self.plain(t, mine, s)
        filled, barrier, *sources = s.cells
        everywhere, part = "both" in s.op.words, -0.5 if "share" in s.op.words else -1
        for cta in s.op.targets(t.cta):
            into = filled.of(cta) if everywhere else filled
            accesses = [self.start(t, s, issue, into, True, "async")]
            accesses += [self.start(t, s, issue, c, False, "async") for c in sources]
            self.arrived(t, s, issue, accesses, barrier.of(cta), part)

    def copy(self, t: Thread, mine: _Local, s: Step) -> None:
        issue = self.plain(t, mine, s)
        (cta,) = s.op.targets(t.cta)
        into, source, barrier = s.cells
        accesses = [self.start(t, s, issue, source, False, "async")]
        accesses += [self.start(t, s, issue, into.of(cta), True, "async")]
        self.arrived(t, s, issue, accesses, barrier.of(cta), -1)

    def arrived(
        self, t: Thread, s: Step, issue: int, accesses: list[Access], c: Cell, copies: float
    ) -> None:
        """The bytes of a copy's accesses complete on a barrier."""
        done = self.r.event(t, s.op.site)
        for a in accesses:
            self.finish(a, done, "E3")
        self.complete(issue, done)
        self.arrive_at(c, Arrival(done, t, True, "cluster", True), 0, copies)

    def store(self, t: Thread, mine: _Local, s: Step) -> None:
        issue = self.plain(t, mine, s)
        group = mine.groups["bulk"][-1]
        group.append(self.start(t, s, issue, s.cells[0], False, "async"))
        group += [self.start(t, s, issue, c, True, "async") for c in s.cells[1:]]

    def bulk_commit(self, t: Thread, mine: _Local, s: Step) -> None:
        self.plain(t, mine, s)
        mine.groups["bulk"].append([])

    def bulk_wait(self, t: Thread, mine: _Local, s: Step) -> None:
        e = self.plain(t, mine, s)
        for a in closed(mine.groups["bulk"], s.op.number):
            if "read" not in s.op.words:
                self.finish(a, e, "E3")
            elif not a.write:
                self.finish(a, e, "A7")

    def cpasync(self, t: Thread, mine: _Local, s: Step) -> None:
        issue = self.plain(t, mine, s)
        mine.pending["cp"].append(self.start(t, s, issue, s.cells[0], True, "generic"))

    def cpasync_wait(self, t: Thread, mine: _Local, s: Step) -> None:
        e = self.plain(t, mine, s)
        for a in mine.pending.pop("cp", []):
            self.finish(a, e)

    def cpasync_arrive(self, t: Thread, mine: _Local, s: Step) -> None:
        issue = self.plain(t, mine, s)
        done = self.r.event(t, s.op.site, issue, "exec")
        for a in mine.pending["cp"]:
            self.finish(a, done)
        self.arrive_at(s.cells[0], Arrival(done, t, True, "cta", False), weight(t), 0)

    # Products

    def mma(self, t: Thread, mine: _Local, s: Step) -> None:
        issue = self.plain(t, mine, s)
        mine.tracked.append(self.start(t, s, issue, s.cells[0], True, "tensor"))
        for c in s.cells[1:]:
            tensor = self.r.buffers[c.name].home == "tensor"
            mine.tracked.append(self.start(t, s, issue, c, False, "tensor" if tensor else "async"))

    cp = mma

    def commit(self, t: Thread, mine: _Local, s: Step) -> None:
        issue = self.plain(t, mine, s)
        for cta in s.op.targets(t.cta):  # each learns of it by itself
            done = self.r.event(t, s.op.site)
            for a in mine.tracked:
                self.finish(a, done, "A6" if a.proxy == "async" else "")
            self.complete(issue, done)
            self.arrive_at(s.cells[0].of(cta), Arrival(done, t, True, "cluster", True), 1, 0)

    def wgmma(self, t: Thread, mine: _Local, s: Step) -> bool:
        """A warpgroup's: nobody goes on before all are there, though that orders nothing."""
        if not self.meet(t, s):
            return False
        issue = self.plain(t, mine, s)
        if t.lane == 0:
            for c in s.cells:
                mine.groups["wgmma"][-1].append(self.start(t, s, issue, c, False, "async"))
        return True

    def wgmma_commit(self, t: Thread, mine: _Local, s: Step) -> None:
        self.plain(t, mine, s)
        mine.groups["wgmma"].append([])

    def wgmma_wait(self, t: Thread, mine: _Local, s: Step) -> bool:
        if not self.meet(t, s):
            return False
        e = self.plain(t, mine, s)
        for u in self.team(t):
            last = len(mine.groups["wgmma"]) - 1 - s.op.number
            for group in self.local[u].groups["wgmma"][: max(last, 0)]:
                for a in group:
                    self.finish(a, e, "E3", "" if u.warp == t.warp else "A12")
        return True

    # Tensor memory

    def tld(self, t: Thread, mine: _Local, s: Step) -> None:
        write = s.op.name == "tst"
        issue = self.plain(t, mine, s)
        mine.pending[s.op.name].append(self.start(t, s, issue, s.cells[0], write, "tensor"))

    tst = tld

    def wait_ld(self, t: Thread, mine: _Local, s: Step) -> None:
        e = self.plain(t, mine, s)
        for a in mine.pending.pop("t" + s.op.name[-2:], []):
            self.finish(a, e)

    wait_st = wait_ld

    # Barriers

    def arrive_at(self, c: Cell, a: Arrival, weight: int, copies: float) -> None:
        self.r.words[c.name, c.slot].arrive(a, weight, copies)

    def arrive(self, t: Thread, mine: _Local, s: Step) -> None:
        e = self.plain(t, mine, s)
        a = Arrival(e, t, "relaxed" not in s.op.words, s.op.scope, False)
        for cta in s.op.targets(t.cta):
            self.arrive_at(s.cells[0].of(cta), a, weight(t), 0)

    def expect(self, t: Thread, mine: _Local, s: Step) -> None:
        e = self.plain(t, mine, s)
        a = Arrival(e, t, "relaxed" not in s.op.words, s.op.scope, False)
        # The bytes are announced before the arrival, so that they count for the same phase.
        (cta,) = s.op.targets(t.cta)
        cell = s.cells[0].of(cta)
        word = self.r.words[cell.name, cell.slot]
        word.copies += s.op.number
        word.arrive(a, 1, 0)

    def wait(self, t: Thread, mine: _Local, s: Step) -> bool:
        c = s.cells[0]
        word = self.r.words[c.name, c.slot]
        if word.phase % 2 == c.phase % 2:
            return False
        e = self.plain(t, mine, s)
        acquire = "relaxed" not in s.op.words
        self.r.waits.append(Waited(e, t, acquire, s.op.scope, c, word.phase - 1, s.op.site))
        return True

    def team(self, t: Thread, by: str = "all", warp: int | None = None) -> list[Thread]:
        """Those of a thread's role, or of one warp of it, who execute what `by` do."""
        key = ("team", t.role, t.cta, by, warp)
        found = self.members.get(key)
        if found is None:
            role = [u for u in self.local if (u.role, u.cta) == (t.role, t.cta)]
            found = [u for u in role if warp in (None, u.warp) and does(u, by)]
            self.members[key] = found
        return found

    def meet(self, t: Thread, s: Step) -> bool:
        """Whether the whole role has come to this operation."""
        whole = self.team(t, s.by)
        self.meeting[s.instance].setdefault(t, 0)
        return len(self.meeting[s.instance]) == len(whole)

    def sync(self, t: Thread, mine: _Local, s: Step) -> bool:
        number = s.op.number
        key = ("sync", t.cta, number or t.role)
        whole = self.users(
            key, lambda u, o: u.cta == t.cta and o.name == "sync" and o.number == number
            and (number or u.role == t.role)
        )  # fmt: skip
        return self.join(key, t, mine, s, whole, "sync")

    def warp_sync(self, t: Thread, mine: _Local, s: Step) -> bool:
        key = ("warp", t.role, t.cta, t.warp)
        return self.join(key, t, mine, s, self.team(t, warp=t.warp), "warp")

    def users(self, key: object, uses: Callable[[Thread, Op], object]) -> list[Thread]:
        if key not in self.members:
            self.members[key] = [
                u for u, mine in self.local.items() if any(uses(u, s.op) for s in mine.steps)
            ]
        return self.members[key]

    def join(
        self,
        key: tuple[object, ...],
        t: Thread,
        mine: _Local,
        s: Step,
        whole: list[Thread],
        kind: str,
    ) -> bool:
        """Arrives at a barrier the first time it is asked, and leaves it once all have arrived."""
        arrived = self.meeting[(*key, mine.turns[key])]
        if t not in arrived:
            arrived[t] = self.plain(t, mine, s)
        if len(arrived) < len(whole):
            return False
        mine.turns[key] += 1
        left = self.plain(t, mine, s)
        self.r.edges += [(e, left, kind) for e in arrived.values()]
        return True

    def cluster_arrive(self, t: Thread, mine: _Local, s: Step) -> None:
        turn = ("cluster", mine.turns["arrive"])
        mine.turns["arrive"] += 1
        self.meeting[turn][t] = self.plain(t, mine, s)
        if "relaxed" in s.op.words:
            self.relaxed.add(self.meeting[turn][t])

    def cluster_wait(self, t: Thread, mine: _Local, s: Step) -> bool:
        turn = ("cluster", mine.turns["wait"])
        whole = self.users("cluster", lambda u, o: o.name in ("cluster_arrive", "cluster_sync"))
        arrived = self.meeting[turn]
        if len(arrived) < len(whole):
            return False
        mine.turns["wait"] += 1
        e = self.plain(t, mine, s)
        self.r.edges += [(a, e, "exec" if a in self.relaxed else "sync") for a in arrived.values()]
        return True

    def cluster_sync(self, t: Thread, mine: _Local, s: Step) -> bool:
        if mine.met != mine.at:
            self.cluster_arrive(t, mine, s)
            mine.met = mine.at
        return self.cluster_wait(t, mine, s)


def does(t: Thread, by: str) -> bool:
    return by == "all" or (t.lane == 0 and (by == "lane" or t.warp == 0))


def weight(t: Thread) -> int:
    """Arrivals that a thread stands for."""
    return OTHERS if t.lane else 1


def closed(groups: list[list[Access]], pending: int) -> list[Access]:
    """The accesses of all groups but the open one and the `pending` last closed ones."""
    return [a for g in groups[: max(len(groups) - 1 - pending, 0)] for a in g]
