"""Litmus programs of oracle A: a text form of one line a test, and the traces that one thread may have.

A test is a row of `litmus.tsv`: memory, threads, question, expectation. Memory: `x=0` a location, `x=0@1` one that
CTA 1 owns, `b=0!` an mbarrier word, `y~x` another address of x (an alias), `s^x` the same address by another name.
A thread is `GPU.CTA: instruction; instruction; …`, threads are joined by `|`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

ORDER_OF_SCOPES = ("cta", "cluster", "gpu", "sys")
PROXIES = ("surface", "texture", "constant", "async")
SEMANTICS = ("weak", "relaxed", "acquire", "release", "acq_rel", "sc")
TURNS = 3
"""How often a thread may pass a label: spinning longer reads the same again and adds nothing."""


@dataclass(frozen=True)
class Place:
    """One name of a location: the location itself, the address, and the CTA that owns it where one does."""

    location: str
    address: str
    owner: int | None = None
    barrier: bool = False


@dataclass(frozen=True)
class Event:
    """One memory operation, fence or barrier operation. `agent` numbers the asynchronous operation that it is part of.

    `kind`: R, W (also the halves of an atomic, joined by `rmw`), F a fence, P a proxy fence (`proxy`), B a CTA barrier
    (`barrier`, `waits`, and `quorum` threads where it counts them), I the issue of an asynchronous operation, K a wait
    for a group.
    """

    thread: int
    index: int
    kind: str
    gpu: int
    cta: int
    place: Place | None = None
    value: int = 0
    sem: str = "weak"
    scope: str = ""
    proxy: str = "generic"
    rmw: int | None = None
    depends: frozenset[int] = frozenset()
    barrier: tuple[int, ...] = ()
    quorum: int = 0
    waits: bool = True
    agent: int | None = None
    family: str = ""
    completes: frozenset[int] = frozenset()
    bridges: bool = False

    @property
    def strong(self) -> bool:
        return self.kind == "F" or self.sem != "weak"


@dataclass(frozen=True)
class Thread:
    gpu: int
    cta: int
    code: tuple[tuple[str, ...], ...]
    labels: dict[str, int] = field(hash=False)


@dataclass(frozen=True)
class Test:
    """A program and what is asked of it: `exists`, `never` or `always` a conjunction of clauses of comparisons."""

    name: str
    places: dict[str, Place]
    initial: dict[str, int]
    threads: tuple[Thread, ...]
    ask: str
    clauses: tuple[tuple[tuple[str, str, str], ...], ...]


@dataclass(frozen=True)
class Trace:
    """What one thread does where its reads return these values."""

    events: tuple[Event, ...]
    registers: dict[str, int]


# Reading -------------------------------------------------------------------------------------------------------------


def read_test(name: str, memory: str, threads: str, question: str) -> Test:
    places: dict[str, Place] = {}
    initial: dict[str, int] = {}
    for word in memory.split():
        if "=" in word:
            loc, rest = word.split("=")
            barrier = rest.endswith("!")
            value, _, owner = rest.rstrip("!").partition("@")
            places[loc] = Place(loc, loc, int(owner) if owner else None, barrier)
            initial[loc] = int(value)
        elif "~" in word:
            new, old = word.split("~")
            places[new] = replace(places[old], address=new)
        else:
            new, old = word.split("^")
            places[new] = places[old]
    ask, _, condition = question.partition(" ")
    clauses = tuple(
        tuple(comparison(c) for c in clause.split(" or ")) for clause in condition.split(" and ")
    )
    return Test(
        name, places, initial, tuple(read_thread(t) for t in threads.split("|")), ask, clauses
    )


def comparison(text: str) -> tuple[str, str, str]:
    left, relation, right = text.split()
    assert relation in ("==", "!="), text
    return left, relation, right


def read_thread(text: str) -> Thread:
    where, _, body = text.strip().partition(":")
    gpu, cta = (int(n) for n in where.split("."))
    code: list[tuple[str, ...]] = []
    labels: dict[str, int] = {}
    for line in body.split(";"):
        words = tuple(line.split())
        if len(words) == 1 and words[0].endswith(":"):
            labels[words[0][:-1]] = len(code)
        elif words:
            code.append(words)
    return Thread(gpu, cta, tuple(code), labels)


def rows(text: str) -> Iterator[tuple[Test, bool, str]]:
    """Each row's test, whether its statement holds, and the source."""
    for line in text.splitlines():
        if line and not line.startswith("#"):
            source, name, memory, threads, question, expected = line.split("\t")
            yield read_test(name, memory, threads, question), expected == "yes", source


# Traces --------------------------------------------------------------------------------------------------------------


@dataclass
class State:
    """How far a thread is: its events, its registers with the reads that each depends on, the branches taken."""

    pc: int = 0
    events: tuple[Event, ...] = ()
    registers: dict[str, tuple[int, frozenset[int]]] = field(default_factory=dict)
    control: frozenset[int] = frozenset()
    turns: dict[int, int] = field(default_factory=dict)

    def value(self, word: str) -> tuple[int, frozenset[int]]:
        if word.lstrip("-").isdigit():
            return int(word), frozenset()
        return self.registers.get(word, (0, frozenset()))


class Walk:
    """All traces of one thread, its reads returning any value that its location may hold."""

    def __init__(self, test: Test, number: int, domain: dict[str, set[int]]) -> None:
        self.test, self.number, self.domain = test, number, domain
        self.thread = test.threads[number]

    def states(self) -> Iterator[State]:
        """Every state that the thread may come to."""
        stack = [State()]
        while stack:
            state = stack.pop()
            yield state
            if state.pc < len(self.thread.code):
                stack.extend(self.step(state))

    def traces(self) -> Iterator[Trace]:
        for state in self.states():
            if state.pc == len(self.thread.code):
                yield Trace(state.events, {k: v for k, (v, _) in state.registers.items()})

    def event(self, state: State, kind: str, **fields: object) -> Event:
        fields.setdefault("depends", state.control)
        return Event(
            self.number, len(state.events), kind, self.thread.gpu, self.thread.cta, **fields
        )  # type: ignore[arg-type]

    def step(self, s: State) -> Iterator[State]:
        head, *args = self.thread.code[s.pc]
        name, *mods = head.split(".")
        sem = next((m for m in mods if m in SEMANTICS), "weak")
        scope = next((m for m in mods if m in ORDER_OF_SCOPES), "")
        proxy = next((m for m in mods if m in PROXIES), "generic")
        match name:
            case "ld":
                yield from self.read(s, args[0], args[1], sem=sem, scope=scope, proxy=proxy)
            case "st":
                value, depends = s.value(args[1])
                yield self.add(
                    s, "W", place=self.test.places[args[0]], value=value, sem=sem, scope=scope,
                    proxy=proxy, depends=depends | s.control,
                )  # fmt: skip
            case "atom" | "red":
                yield from self.atomic(s, name, mods[0], args, sem, scope)
            case "fence" if mods[0] == "proxy":
                yield self.add(s, "P", proxy=mods[1])
            case "fence":
                yield self.add(s, "F", sem=sem, scope=scope)
            case "bar":
                ids = tuple(s.value(w)[0] for w in args[0].split(":"))
                quorum = int(args[1]) if args[1:] else 0
                yield self.add(s, "B", barrier=ids, waits=mods[0] == "sync", quorum=quorum)
            case "goto" | "if":
                yield from self.jump(s, name, args)
            case "need":
                left, right = s.value(args[0])[0], s.value(args[2])[0]
                if (left == right) == (args[1] == "=="):
                    yield replace(s, pc=s.pc + 1)
            case "add":
                (a, da), (b, db) = s.value(args[1]), s.value(args[2])
                yield replace(s, pc=s.pc + 1, registers={**s.registers, args[0]: (a + b, da | db)})
            case _:
                yield from self.asynchronous(s, head, args)

    def add(self, s: State, kind: str, **fields: object) -> State:
        return replace(s, pc=s.pc + 1, events=(*s.events, self.event(s, kind, **fields)))

    def read(self, s: State, register: str, place: str, **fields: object) -> Iterator[State]:
        where = self.test.places[place]
        for value in sorted(self.domain[where.location]):
            new = self.add(s, "R", place=where, value=value, **fields)
            got = (value, frozenset({len(s.events)}))
            yield replace(new, registers={**s.registers, register: got})

    def atomic(
        self, s: State, name: str, kind: str, args: list[str], sem: str, scope: str
    ) -> Iterator[State]:
        register, place, *values = args if name == "atom" else ("_", *args)
        gets = sem in ("acquire", "acq_rel") and name == "atom"
        puts = sem in ("release", "acq_rel")
        numbers = [s.value(v) for v in values]
        for new in self.read(s, register, place, sem="acquire" if gets else "relaxed", scope=scope):
            old, read = new.registers[register][0], len(s.events)
            (value, depends), *rest = numbers
            match kind:
                case "add" | "sub":
                    value, depends = old + (value if kind == "add" else -value), depends | {read}
                case "cas":
                    if old != value:
                        yield new
                        continue
                    value, depends = rest[0][0], rest[0][1] | {read}
            done = self.event(
                new, "W", place=self.test.places[place], value=value, rmw=read, scope=scope,
                sem="release" if puts else "relaxed", depends=depends | s.control,
            )  # fmt: skip
            yield replace(new, events=(*new.events, done))

    def jump(self, s: State, name: str, args: list[str]) -> Iterator[State]:
        taken, control = True, s.control
        if name == "if":
            (a, da), (b, db) = s.value(args[0]), s.value(args[2])
            taken, control = (a == b) == (args[1] == "=="), control | da | db
        to = self.thread.labels[args[-1]] if taken else s.pc + 1
        turns = dict(s.turns)
        if taken:
            turns[s.pc] = turns.get(s.pc, 0) + 1
            if turns[s.pc] >= TURNS:
                return
        yield replace(s, pc=to, control=control, turns=turns)

    # Asynchronous operations: an issue in program order, then accesses and a completion of an agent of their own.

    def asynchronous(self, s: State, head: str, args: list[str]) -> Iterator[State]:
        agent = sum(e.kind == "I" for e in s.events)

        def pending(family: str) -> frozenset[int]:
            return frozenset(e.index for e in s.events if e.family == family)

        match head.split("."):
            case ["tma", "st"]:  # tma.st x,y v b: a copy into x and y that completes on barrier b
                s = replace(self.add(s, "I", agent=agent), pc=s.pc)
                own: list[int] = []
                for name in args[0].split(","):
                    own.append(len(s.events))
                    s = replace(
                        self.add(s, "W", place=self.test.places[name], value=s.value(args[1])[0],
                                 proxy="async", agent=agent), pc=s.pc,
                    )  # fmt: skip
                yield from self.complete(s, agent, args[2], frozenset(own), True)
            case ["mma" | "wgmma" | "bulk" as family, "ld"]:  # an asynchronous read of x into r
                s = replace(self.add(s, "I", agent=agent), pc=s.pc)
                yield from self.read(s, args[0], args[1], proxy="async", agent=agent, family=family)
            case ["commit"]:  # arrives on b once this thread's mma.ld so far are done
                s = replace(self.add(s, "I", agent=agent), pc=s.pc)
                yield from self.complete(s, agent, args[0], pending("mma"), False)
            case ["wgmma" | "bulk" as family, "wait"]:
                yield self.add(s, "K", completes=pending(family), bridges=True)
            case ["bulk", "wait", "read"]:
                yield self.add(s, "K", completes=pending("bulk"), bridges=False)
            case _:
                raise AssertionError(f"no instruction {head!r}")

    def complete(
        self, s: State, agent: int, barrier: str, accesses: frozenset[int], bridges: bool
    ) -> Iterator[State]:
        for new in self.read(
            s, "_", barrier, sem="relaxed", scope="cluster", agent=agent, completes=accesses,
            bridges=bridges,
        ):  # fmt: skip
            old, read = new.registers["_"][0], len(s.events)
            done = self.event(
                new, "W", place=self.test.places[barrier], value=old + 1, rmw=read, sem="release",
                scope="cluster", agent=agent, depends=frozenset({read}),
            )  # fmt: skip
            yield replace(new, events=(*new.events, done))


def domains(test: Test) -> dict[str, set[int]]:
    """Which values each location may hold: the initial ones, and what any trace writes, until nothing is new.

    A sum can grow for ever round a cycle of threads, but a location grows no oftener than there are additions to it, or
    values that come through registers.
    """
    code = [words for t in test.threads for words in t.code]
    through = sum(
        words[0] == "add" or (words[0].startswith("st") and words[2][0] == "r") for words in code
    )
    most = dict.fromkeys(test.initial, 1 + through)
    for head, *args in code:
        if head.startswith(("atom.add", "atom.sub", "red.add", "red.sub")):
            most[test.places[args[head.startswith("atom")]].location] += 1
        elif head in ("tma.st", "commit"):
            most[test.places[args[-1]].location] += 1
        elif head.startswith("st"):
            most[test.places[args[0]].location] += 1
        elif head.startswith("atom"):
            most[test.places[args[1]].location] += 1
    domain = {loc: {v} for loc, v in test.initial.items()}
    while True:
        found: dict[str, set[int]] = {loc: set() for loc in domain}
        for number in range(len(test.threads)):
            for state in Walk(test, number, domain).states():
                for e in state.events:
                    if e.kind == "W" and e.place is not None:
                        found[e.place.location].add(e.value)
        grown = {loc for loc, values in found.items() if values - domain[loc] and most[loc]}
        if not grown:
            return domain
        for loc in grown:
            most[loc] -= 1
            domain[loc] |= found[loc]
