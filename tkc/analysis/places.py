"""Where things happen in one run of a kernel, and where each instance of an access has come to by the steps of a chain."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from xdsl.ir import SSAValue

from tkc.analysis.instances import Copy, Edited, Event, Instruction, Opened, Word
from tkc.analysis.known import (
    Access,
    Broken,
    Known,
    Like,
    closes,
    depth,
    fragment_of,
    in_registers,
    kind,
)
from tkc.analysis.phases import number, owners
from tkc.analysis.steps import (
    ARRIVALS,
    BYTES,
    STEPS,
    Acquired,
    Awaited,
    Met,
    Move,
    Rule,
    Told,
    half_of,
)
from tkc.ir.certificates import label
from tkc.ir.isa.memory import Done, Meet, Space, Touch

if TYPE_CHECKING:
    from tkc.ir.certificates import End, Link
    from tkc.ir.stage import ops as s

NOWHERE = -1
"""Of an instance of which no more happens in a run."""

Front = tuple[Known, list[int]]
"""What is known of some instances of an access, and from where on in its role's trace of each."""

Seen = dict[Word, tuple[list[int], list[int]]]
"""Of each mbarrier the phases that waits have seen complete, and where in their trace; both in order."""

Way = tuple[Copy, "Rule", tuple[list[int], ...], "list[Event]"]
"""How a step is followed: in which role's copy and its trace, by which rule, at which of its places."""


class Taken(NamedTuple):
    """A step with its number, which all chains share that begin with the same steps, and that of the step alone."""

    number: int
    link: Link
    alone: int


@dataclass
class Kinds:
    """What is the same in all runs of a kernel: what makes operations alike, and accesses by what they have in common."""

    kernel: s.KernelOp
    assumed: frozenset[str]
    named: Mapping[str, Like]
    likes: dict[Instruction, Like]
    accesses: dict[Any, Access] = field(default_factory=dict)
    numbers: dict[Any, int] = field(default_factory=dict)
    """Of steps, by the number of the step before and what they are; and of each alone."""

    def __post_init__(self) -> None:
        self.cluster = 1 if self.kernel.cluster is None else self.kernel.cluster.value.data

    def taken(self, before: int, link: Link) -> Taken:
        alone = self.numbers.setdefault(link, len(self.numbers) + 1)
        return Taken(self.numbers.setdefault((before, alone), len(self.numbers) + 1), link, alone)


def kinds_of(kernel: s.KernelOp) -> dict[str, Like]:
    """The kind of every named operation."""
    return {name: kind(op) for op in kernel.walk() if (name := label(op))}


@dataclass(eq=False)
class Instances:
    """The instances of an access in a run, in the order of its trace: where each is, its slot, what it is one of."""

    copy: Copy
    at: list[int] = field(default_factory=list[int])
    slots: list[Any] = field(default_factory=list)
    accesses: list[Access] = field(default_factory=list[Access])
    by_slot: dict[Any, list[int]] = field(default_factory=dict)
    """Their numbers."""
    fronts: dict[int, list[Front]] = field(default_factory=dict)
    """Where they have come to, by the number of the step."""
    fragments: dict[int, Any] = field(default_factory=dict)

    def add(self, at: int, access: Access, slot: Any) -> None:
        if slot in self.by_slot:
            self.by_slot[slot].append(len(self.at))
        else:
            self.by_slot[slot] = [len(self.at)]
        self.at.append(at)
        self.accesses.append(access)
        self.slots.append(slot)

    @property
    def kinds(self) -> list[Access]:
        return list(dict.fromkeys(self.accesses))


class Run:
    """One run of a kernel, in which steps are taken by the rules of a model."""

    def __init__(self, traces: Mapping[Copy, list[Event]], kinds: Kinds) -> None:
        self.traces, self.all = traces, kinds
        self.by_operation: dict[Copy, dict[Instruction, list[int]]] = {}
        self.alike: dict[Copy, dict[Like, list[Instruction]]] = {}
        self.why = ""
        """Why the last step that did not hold does not."""
        self.trails: dict[tuple[int, Known, int], tuple[Known, int, int]] | None = None
        """Of a step's number, what is known after it and where: what and where before it, and where it was taken."""
        self._places: dict[tuple[Copy, str], tuple[list[int], list[int]]] = {}
        self._ways: dict[int, Way] = {}
        self._waits: dict[End, tuple[SSAValue | None, Seen]] = {}
        self._told: dict[tuple[int, int], dict[int, int | Broken]] = {}
        self._meetings: dict[tuple[Copy, str, int, str], list[int]] = {}
        self._closings: dict[tuple[Copy, Done, frozenset[int]], list[int]] = {}
        self._instances: dict[tuple[End, str, int], Instances] = {}
        for copy, trace in traces.items():
            here = self.by_operation[copy] = dict[Instruction, list[int]]()
            for at, event in enumerate(trace):
                if event.of in here:
                    here[event.of].append(at)
                else:
                    here[event.of] = [at]
            alike, likes = self.alike.setdefault(copy, {}), kinds.likes
            for of in here:
                if of not in likes:
                    likes[of] = kind(of.op)
                alike.setdefault(likes[of], []).append(of)

    # Where things happen -------------------------------------------------------------------------------------------

    def places(self, copy: Copy, site: str) -> tuple[list[int], list[int]]:
        """Where a named operation happens in a trace, and where any like it does, which another branch may have."""
        found = self._places.get((copy, site))
        if found is None:
            named = self.all.named
            if site not in named:
                raise Broken(f"{site} is not in the program")
            here = self.by_operation.get(copy, {})
            alike = self.alike.get(copy, {}).get(named[site], [])
            so_named = [of for of in alike if of.name == site]
            mine = _merged([here[of] for of in so_named])
            every = mine if so_named == alike else _merged([here[of] for of in alike])
            found = self._places[copy, site] = mine, every
        return found

    def instances(self, end: End, operand: str, owner: int) -> Instances:
        """Those of an operand's access to the memory of CTA `owner`."""
        key = end, operand, owner
        found = self._instances.get(key)
        if found is None:
            found = self._instances[key] = self._find(end, operand, owner)
        return found

    def _find(self, end: End, operand: str, owner: int) -> Instances:
        copy = Copy(end.role, end.copy, end.cta)
        found, trace, known = Instances(copy), self.traces.get(copy, []), self.all.accesses
        operands: dict[Instruction, Operand] = {}
        slotted: dict[Access, tuple[int, ...] | None] = {}
        for at in self.places(copy, end.site)[0] if end.site in self.all.named else []:
            event = trace[at]
            if event.of not in operands:
                operands[event.of] = _operand(event, end, operand)
            one = operands[event.of]
            what = one.what(event)
            key = event.of, event.threads, copy, operand, owner, *what
            access = known.get(key)
            if access is None:
                access = known[key] = self._made(copy, event, end, one, owner)
            if access not in slotted:
                slotted[access] = _slotted(access, event)
            asked = slotted[access]
            slot = _slot(access, event) if asked is None else _first(event, asked)
            found.add(at, access, slot)
        return found

    def _made(self, copy: Copy, event: Event, end: End, operand: Operand, owner: int) -> Access:
        name, touch = operand.name, operand.touch
        done, value = touch.done, event.value(name)
        if done is Done.TCGEN05_COMMIT and touch.space is Space.SHARED and in_registers(event):
            done = Done.WGMMA_GROUP
        if touch.space is not Space.GLOBAL and owner not in owners(
            event, copy.cta, self.all.cluster, name
        ):
            raise Broken(f"{end.site} does not touch memory of CTA {owner}")
        at_home = "A1" in self.all.assumed and touch.space is Space.SHARED
        home = owner if at_home else copy.cta
        buffer = value.buffer if isinstance(value, Opened) else getattr(event.op, name)
        if touch.space is Space.MAP and isinstance(value, Edited):
            buffer = value.maps
        return Access(copy, event, name, touch, done, home, buffer)

    def fragment(self, of: Instances, i: int) -> Any:
        """How the elements of an instance fall on threads, and where."""
        if i not in of.fragments:
            of.fragments[i] = fragment_of(of.accesses[i], self.traces[of.copy][of.at[i]])
        return of.fragments[i]

    # Steps -----------------------------------------------------------------------------------------------------------

    def start(self, of: Instances) -> list[Front]:
        """Where the instances of an access are when they have been issued."""
        if 0 not in of.fronts:
            kinds = of.kinds
            of.fronts[0] = [
                (
                    access.start,
                    of.at
                    if len(kinds) == 1
                    else [
                        at if a is access else NOWHERE
                        for at, a in zip(of.at, of.accesses, strict=True)
                    ],
                )
                for access in kinds
            ]
        return of.fronts[0]

    def step(self, taken: Taken, of: Instances, fronts: list[Front]) -> list[Front]:
        """What one step adds to what is known of each instance, where the certificate says or at the next place that is
        alike (the step of another branch, or of the next loop)."""
        found = of.fronts.get(taken.number)
        if found is None:
            found = list[Front]()
            copy, rule, choices, trace = self._way(taken)
            for known, places in fronts:
                if known.copy == copy:
                    for after, new in self._moved(taken, rule, of, known, places, choices, trace):
                        _add(found, after, new)
                else:
                    self.why = f"{taken.link.start} is not where the chain has come to"
            of.fronts[taken.number] = found
        return found

    def _way(self, taken: Taken) -> Way:
        found = self._ways.get(taken.alone)
        if found is None:
            link = taken.link
            copy = Copy(link.start.role, link.start.copy, link.start.cta)
            named, others = self.places(copy, link.start.site)
            rule = STEPS.get(link.rule)
            if rule is None:
                raise Broken(f"{link.rule} cannot be followed")
            choices = (named,) if len(named) == len(others) else (named, others)
            found = self._ways[taken.alone] = copy, rule, choices, self.traces.get(copy, [])
        return found

    def _moved(
        self,
        taken: Taken,
        rule: Rule,
        of: Instances,
        known: Known,
        places: list[int],
        choices: tuple[list[int], ...],
        trace: list[Event],
    ) -> list[Front]:
        moves = known.moves.setdefault(taken.number, {})
        fronts: dict[tuple[int, Known], list[int]] = {}
        for i, here in enumerate(places):
            if here < 0:
                continue
            before = NOWHERE
            for choice, sites in enumerate(choices):
                next_one = bisect_left(sites, here)
                if before >= 0 and sites[next_one] == before:
                    continue  # the next one that is alike is the one that is named
                for at in sites[next_one:] if next_one else sites:
                    event = trace[at]
                    move = moves.get((event.of, event.threads), moves)
                    if move is moves:
                        move = moves[event.of, event.threads] = self._move(
                            rule, taken, known, event
                        )
                    after, there = move, at + 1
                    if type(move) is not Known:
                        after, there = self._taken(taken, move, of, i, event, at)
                    if after is None:
                        continue
                    if isinstance(after, Broken):
                        self.why = str(after)
                        break
                    before = at
                    new = fronts.get((choice, after))
                    if new is None:
                        new = fronts[choice, after] = [NOWHERE] * len(places)
                    new[i] = there
                    if self.trails is not None:
                        self.trails.setdefault((taken.number, after, there), (known, here, at))
                    break
        return [(after, new) for (_, after), new in fronts.items()]

    def _move(self, rule: Rule, taken: Taken, known: Known, event: Event) -> Move:
        try:
            return rule(self.all.assumed, taken.link, known, event)
        except Broken as error:
            return error

    def _taken(
        self, taken: Taken, move: Move, of: Instances, i: int, event: Event, at: int
    ) -> tuple[Known | Broken | None, int]:
        """What is known of an instance after an event, and from where on; None: it passes the event by."""
        match move:
            case Known() | None | Broken():
                return move, at + 1
            case Told():
                if move.own and at != of.at[i]:
                    return None, at
                there = self._reached(taken, move.which, event, at)
                if isinstance(there, Broken):
                    return there, at
                if there < 0:
                    return None, at
                end = taken.link.end
                wait = self.traces[Copy(end.role, end.copy, end.cta)][there]
                return _then(move, wait), there + 1
            case Awaited():
                over = self._closed(of, i, move.group, at) > move.pending
                return (move.after if over else None), at + 1
            case Acquired():
                mine = event.value("array") == Edited(move.buffer, of.slots[i])
                return (move.after if mine else None), at + 1
            case Met():
                start = taken.link.start
                mine = self._met(Copy(start.role, start.copy, start.cta), move, "arrive")
                theirs = self._met(move.other, move, "wait")
                turn = bisect_left(mine, at)
                if turn >= len(theirs):
                    return None, at
                # at the meeting itself, which may be the next step, too: among the warps of the other role
                return _then(move, self.traces[move.other][theirs[turn]]), theirs[turn]

    def _reached(self, taken: Taken, which: int, event: Event, at: int) -> int | Broken:
        """The first wait of a step's end that sees a phase complete which an event tells."""
        known = self._told.setdefault((taken.alone, which), {})
        if at not in known:
            words = (
                list(event.arrivals)
                if which == ARRIVALS
                else [(w, p) for w, p, owner in event.completions if which in (BYTES, owner)]
            )
            known[at] = self._wait(taken.link, words)
        return known[at]

    def _wait(self, link: Link, words: list[tuple[Word, int]]) -> int | Broken:
        barriers, seen = self._waits_of(link.end)
        first, about = NOWHERE, False
        for word, phase in words if len(words) == 1 else dict(words).items():
            if word in seen:
                phases, where = seen[word]
                after = bisect_left(phases, phase)
                if after < len(where) and (first < 0 or where[after] < first):
                    first = where[after]
            about = about or word.barriers is barriers
        return first if about else Broken(f"{link.end} does not wait for {link.start}")

    def _waits_of(self, end: End) -> tuple[SSAValue | None, Seen]:
        """The waits like a named one in its trace: on which barriers, and what they have seen."""
        found = self._waits.get(end)
        if found is None:
            copy, seen = Copy(end.role, end.copy, end.cta), Seen()
            for at in self.places(copy, end.site)[1]:
                waited = self.traces[copy][at].waited
                if waited is not None:
                    phases, where = seen.setdefault(waited[0], ([], []))
                    phases.append(waited[1])
                    where.append(at)
            found = self._waits[end] = self.all.named[end.site].barriers, seen
        return found

    def _met(self, copy: Copy, move: Met, half: str) -> list[int]:
        """Where a copy takes part in meetings of a number, as one who arrives or waits."""
        key = copy, move.among, move.barrier, half
        found = self._meetings.get(key)
        if found is None:
            found = self._meetings[key] = [
                at
                for at, e in enumerate(self.traces.get(copy, []))
                if any(isinstance(r, Meet) and r.among == move.among for r in e.of.effects)
                if number(e.op, "number") == move.barrier and half_of(e) in ("sync", half)
            ]
        return found

    def _closed(self, of: Instances, i: int, group: Done, at: int) -> int:
        """How many groups the threads of an instance have closed since, up to a place of their trace."""
        threads = of.accesses[i].threads
        key = of.copy, group, threads
        places = self._closings.get(key)
        if places is None:
            trace, here = self.traces[of.copy], self.by_operation[of.copy]
            closing = [at for one, at in here.items() if closes(one, group)]
            places = sorted(n for at in closing for n in at if threads <= trace[n].threads)
            self._closings[key] = places
        return bisect_left(places, at) - bisect_left(places, of.at[i])


def _then(move: Told | Met, event: Event) -> Known | Broken:
    """What is known by an event of another role, which has been told or met."""
    key = event.of, event.threads
    found = move.after.get(key)
    if found is None:
        try:
            found = move.then(event)
        except Broken as error:
            found = error
        move.after[key] = found
    return found


def _add(fronts: list[Front], known: Known, places: list[int]) -> None:
    """Adds what is known of some instances; each thing known of an instance once."""
    for other, theirs in fronts:
        if other.same(known):
            places = [NOWHERE if p == q else p for p, q in zip(places, theirs, strict=True)]
    if not fronts or any(p >= 0 for p in places):
        fronts.append((known, places))


def _merged(places: Sequence[list[int]]) -> list[int]:
    """Several lists in order as one."""
    return places[0] if len(places) == 1 else sorted(n for at in places for n in at)


class Operand(NamedTuple):
    """An operand that an instruction touches; `asked`: where the values are on which depends what is touched."""

    name: str
    touch: Touch
    asked: tuple[int, ...]

    def what(self, event: Event) -> tuple[Any, ...]:
        """What tells instances of an access apart, but for who and when: buffers, and whose memory."""
        if not self.asked:
            return ()
        values = event.values
        return tuple([_buffer(values[i]) for i in self.asked])


def _operand(event: Event, end: End, operand: str) -> Operand:
    rows = (r for r in event.of.effects if isinstance(r, Touch) and r.operand == operand)
    touch = next(rows, None)
    if touch is None:
        raise Broken(f"{end.site} does not touch {operand}")
    of = event.of
    named = [p for n in ("mask", touch.at) if n and (p := of.place(n)) is not None]
    held = [i for i, v in enumerate(event.values) if isinstance(v, Opened | Edited)]
    return Operand(operand, touch, tuple(dict.fromkeys([*named, *held])))


def _buffer(value: Any) -> Any:
    """What a value is of, where it is a slot of something."""
    if isinstance(value, Opened):
        return value.buffer
    return value.maps if isinstance(value, Edited) else value


def _slotted(access: Access, event: Event) -> tuple[int, ...] | None:
    """Which operands of an access say its slot, the first that has a number; None where it is found otherwise."""
    special = isinstance(event.value(access.operand), Opened | Edited)
    if special or access.touch.space is Space.GLOBAL or depth(access.buffer) == 1:
        return None
    names = f"{access.operand}_slot", "slot"
    return tuple(p for name in names if (p := event.of.place(name)) is not None)


def _first(event: Event, places: tuple[int, ...]) -> Any:
    for place in places:
        if (found := event.values[place]) is not None:
            return found
    raise Broken("a slot that is not known")


def _slot(access: Access, event: Event) -> Any:
    """Which slot an access touches; of a tensor, its coordinates."""
    value = event.value(access.operand)
    if isinstance(value, Opened):
        return 0 if depth(access.buffer) == 1 else value.slot
    if isinstance(value, Edited) and access.touch.space is Space.MAP:
        return value.slot
    if access.touch.space is Space.GLOBAL:
        return event.coordinates
    if depth(access.buffer) == 1:
        return 0
    return _first(
        event,
        tuple(
            p for n in (f"{access.operand}_slot", "slot") if (p := event.of.place(n)) is not None
        ),
    )
