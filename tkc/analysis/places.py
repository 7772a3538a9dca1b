"""Where things happen in runs of a kernel, and where instances of an access have come to by the steps of a chain.

Several runs are one, each behind the one before: a place is a number in the traces of a role's copy, one after
another, and each trace has one place more, its end. There stays what does not happen any more in its run, which is
before all that the next run has.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
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
from tkc.analysis.phases import does, number, owners
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
)
from tkc.ir.isa.memory import Done, Meet, Space, Touch

if TYPE_CHECKING:
    from tkc.ir.certificates import End, Link

NOWHERE = 1 << 60
"""Beyond every place."""

Front = tuple[Known, list[int]]
"""What is known of some instances of an access, and from where on in its role's trace of each."""

Seen = dict[Word, tuple[list[int], list[int]]]
"""Of each mbarrier the phases that waits have seen complete, and where in their trace; both in order."""


@dataclass(eq=False, slots=True)
class Sites:
    """Places of operations, with the ends of traces and one after the last, and those behind them; `ends`: which of
    them are ends; `alike`: an event for which all others may stand."""

    at: list[int]
    behind: list[int]
    ends: list[int]
    alike: Event | None
    marks: dict[int, list[int]] = field(default_factory=dict)
    """Of groups that are closed meanwhile: how many have been at each place, by the identity of where they are."""


class Way(NamedTuple):
    """How a step is followed: in which role's copy and its trace, by which rule, at which of its places."""

    copy: Copy
    rule: Rule
    choices: list[Sites]


class Arrivals(NamedTuple):
    """Of each of some places: the next that tells in time, and behind which wait; where all waits are alike, one of
    them."""

    next: list[int]
    behind: list[int]
    alike: Event | None


class Moved(NamedTuple):
    """What a step adds to what is known, and where it was taken for each instance."""

    fronts: list[Front]
    took: list[int]


class Taken(NamedTuple):
    """A step with its number, which all chains share that begin with the same steps, and that of the step alone."""

    number: int
    link: Link
    alone: int


@dataclass
class Kinds:
    """What is the same in all runs: what makes operations alike, and what instances of an access have in common."""

    cluster: int
    """CTAs in a cluster."""
    assumed: frozenset[str]
    named: Mapping[str, Like]
    """Of operations by their names in certificates."""
    likes: dict[Instruction, Like]
    accesses: dict[Any, Access] = field(default_factory=dict)
    operands: dict[tuple[Instruction, str], Operand] = field(default_factory=dict)
    numbers: dict[Any, int] = field(default_factory=dict)
    """Of steps, by the number of the step before and what they are; and of each alone."""

    def taken(self, before: int, link: Link) -> Taken:
        alone = self.numbers.setdefault(link, len(self.numbers) + 1)
        return Taken(self.numbers.setdefault((before, alone), len(self.numbers) + 1), link, alone)


@dataclass(eq=False)
class Instances:
    """The instances of an access in a run, in the order of its trace: where each is, its slot, what it is one of."""

    copy: Copy
    at: list[int]
    slots: list[Any] = field(default_factory=list)
    accesses: list[Access] = field(default_factory=list[Access])
    by_slot: dict[Any, list[int]] = field(default_factory=lambda: defaultdict(list))
    """Their numbers."""
    fronts: dict[int, list[Front]] = field(default_factory=dict)
    """Where they have come to, by the number of the step."""
    fragments: dict[int, Any] = field(default_factory=dict)
    runs: list[int] = field(default_factory=list[int])
    """In which of the runs each is, where that was asked."""
    _kinds: list[Access] = field(default_factory=list[Access])

    @property
    def kinds(self) -> list[Access]:
        if not self._kinds:
            self._kinds = list(dict.fromkeys(self.accesses))
        return self._kinds


class Run:
    """Runs of a kernel, in which steps are taken by the rules of a model."""

    def __init__(self, runs: Sequence[Mapping[Copy, list[Event]]], kinds: Kinds) -> None:
        self.all = kinds
        self.events: dict[Copy, list[Event | None]] = {}
        self.ends: dict[Copy, list[int]] = {}
        self.by_operation: dict[Copy, dict[Instruction, list[int]]] = {}
        self.alike: dict[Copy, dict[Like, list[Instruction]]] = {}
        self.why = ""
        """Why the last step that did not hold does not."""
        self.trails: dict[tuple[int, int, Known, int], tuple[Known, int, int]] | None = None
        """Of an instance after a step, by numbers, what is known and where: that before it, and where it was taken."""
        self._places: dict[tuple[Copy, str], tuple[list[int], list[int]]] = {}
        self._ways: dict[int, Way] = {}
        self._sites: dict[int, Sites] = {}
        self._arrivals: dict[tuple[int, int, int], Arrivals | None] = {}
        self._waits: dict[End, tuple[SSAValue | None, Seen]] = {}
        self._meetings: dict[tuple[Copy, str, int, str], list[int]] = {}
        self._closings: dict[tuple[Copy, Done, frozenset[int]], list[int]] = {}
        self._instances: dict[tuple[End, str, int], Instances] = {}
        for copy in runs[0]:
            self._join(copy, [traces[copy] for traces in runs])

    def _join(self, copy: Copy, traces: list[list[Event]]) -> None:
        joined = self.events[copy] = list[Event | None]()
        ends = self.ends[copy] = list[int]()
        here = self.by_operation[copy] = defaultdict[Instruction, list[int]](list)
        for trace in traces:
            for at, event in enumerate(trace, len(joined)):
                here[event.of].append(at)
            joined += trace
            ends.append(len(joined))
            joined.append(None)
        likes = self.all.likes
        alike = self.alike[copy] = defaultdict[Like, list[Instruction]](list)
        for of in here:
            if of not in likes:
                likes[of] = kind(of.op)
            alike[likes[of]].append(of)

    def event(self, copy: Copy, at: int) -> Event:
        found = self.events[copy][at]
        assert found is not None, "the end of a trace"
        return found

    def run_of(self, copy: Copy, at: int) -> int:
        """In which of the runs a place is."""
        return bisect_left(self.ends[copy], at)

    # Where things happen -------------------------------------------------------------------------------------------

    def places(self, copy: Copy, site: str) -> tuple[list[int], list[int]]:
        """Where a named operation happens in a trace, and where any like it does, which another branch may have."""
        found = self._places.get((copy, site))
        if found is None:
            named = self.all.named
            if site not in named:
                raise Broken(f"{site} is not in the program")
            here = self.by_operation.get(copy, {})
            alike = self.alike[copy].get(named[site], []) if copy in self.alike else []
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
        if copy not in self.events:
            raise Broken(f"no role runs as {copy.role}.{copy.copy}.{copy.cta}")
        found = Instances(copy, self.places(copy, end.site)[0])
        if not found.at:
            return found
        trace = self.events[copy]
        events = [e for at in found.at if (e := trace[at]) is not None]
        if self._all_alike(copy, found.at) is None:
            for event in events:
                self._add(found, [event], end, operand, owner)
        else:
            self._add(found, events, end, operand, owner)
        for i, slot in enumerate(found.slots):
            if slot is None:
                raise Broken("a slot that is not known")
            found.by_slot[slot].append(i)
        return found

    def _add(
        self, found: Instances, events: list[Event], end: End, operand: str, owner: int
    ) -> None:
        """Adds instances that are alike, unless they are of several buffers."""
        event, all_of = events[0], self.all
        one = all_of.operands.get((event.of, operand))
        if one is None:
            one = all_of.operands[event.of, operand] = _operand(event, end, operand)
        what = [_buffer(event.values[i]) for i in one.asked]
        if one.asked and len(events) > 1:
            if any([_buffer(e.values[i]) for i in one.asked] != what for e in events):
                for each in events:
                    self._add(found, [each], end, operand, owner)
                return
        key = event.of, event.threads, found.copy, operand, owner, *what
        access = all_of.accesses.get(key)
        if access is None:
            access = all_of.accesses[key] = self._made(found.copy, event, end, one, owner)
        found.accesses += [access] * len(events)
        asked = _slotted(access, event)
        if asked is None:
            found.slots += [_slot(access, e) for e in events]
        else:
            found.slots += [e.values[asked] for e in events]

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
        return Access(copy, event, name, touch, done, home, owner, buffer)

    def fragment(self, of: Instances, i: int) -> Any:
        """How the elements of an instance fall on threads, and where."""
        if i not in of.fragments:
            of.fragments[i] = fragment_of(of.accesses[i], self.event(of.copy, of.at[i]))
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
            way = self._way(taken)
            for front in fronts:
                if front[0].copy == way.copy:
                    for after, new in self._moved(taken, way, of, front):
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
            sites = [self._site(copy, at) for at in choices]
            found = self._ways[taken.alone] = Way(copy, rule, sites)
        return found

    def _site(self, copy: Copy, at: list[int]) -> Sites:
        found = self._sites.get(id(at))
        if found is None:
            ends = self.ends.get(copy, [])
            every = sorted([*at, *ends])
            among = [bisect_left(every, end) for end in ends]
            behind = [n + 1 for n in every]
            for n in among:
                behind[n] -= 1
            alike = self._all_alike(copy, at)
            found = Sites([*every, NOWHERE], [*behind, NOWHERE], among, alike)
            self._sites[id(at)] = found
        return found

    def _all_alike(self, copy: Copy, at: list[int]) -> Event | None:
        """One of the events at some places, where all are of one operation by the same threads."""
        one = self.events[copy][at[0]] if at else None
        if one is None or at is not self.by_operation[copy].get(one.of):
            return None
        return one if len(one.of.who) == 1 else _alike([self.event(copy, n) for n in at])

    def _moved(self, taken: Taken, way: Way, of: Instances, front: Front) -> list[Front]:
        found: list[Front] = []
        before: list[int] = []
        for sites in way.choices:
            moved = None
            if sites.alike is not None and self.trails is None:
                move = self._move(taken, way, front[0], sites.alike)
                moved = self._at_once(taken, move, of, front, sites, before)
            if moved is None:
                moved = self._one_by_one(taken, way, of, front, sites, before)
            before = moved.took
            found += moved.fronts
        return found

    def _move(self, taken: Taken, way: Way, known: Known, event: Event) -> Move:
        """What a step adds to what is known, at an event that is one of many alike."""
        moves = known.moves.setdefault(taken.number, {})
        key = event.of, event.threads
        if key not in moves:
            try:
                moves[key] = way.rule(self.all.assumed, taken.link, known, event)
            except Broken as error:
                moves[key] = error
        return moves[key]

    def _at_once(
        self,
        taken: Taken,
        move: Move,
        of: Instances,
        front: Front,
        sites: Sites,
        before: list[int],
    ) -> Moved | None:
        """Moves all instances, where the step's places are alike; None where each has to be looked at. Those whose next
        place is the one that was taken `before` stay behind."""
        at, after = sites.at, move
        first = [bisect_left(at, here) for here in front[1]]
        if before:
            last = len(at) - 1
            first = [last if at[n] == b else n for n, b in zip(first, before, strict=True)]
        match move:
            case Known():
                took, to = [at[n] for n in first], [sites.behind[n] for n in first]
            case Told():
                arrivals = self._told_at(taken, move.which, sites)
                if arrivals is None:
                    return None
                next_one, behind = arrivals.next, arrivals.behind
                if move.own:
                    first = [
                        n if next_one[n] == x else -1 for n, x in zip(first, of.at, strict=True)
                    ]
                took, to = [next_one[n] for n in first], [behind[n] for n in first]
                if arrivals.alike is not None:
                    after = _then(move, arrivals.alike)
            case Awaited():
                closings = self._closings_of(front[0].source, move.group)
                marks = sites.marks.get(id(closings))
                if marks is None:
                    marks = sites.marks[id(closings)] = [bisect_left(closings, n) for n in at]
                last = [sites.ends[n] for n in self._runs_of(of)]
                many = [bisect_left(closings, x) + move.pending for x in of.at]
                first = [
                    max(n, min(bisect_right(marks, m), end))
                    for n, m, end in zip(first, many, last, strict=True)
                ]
                took, to = [at[n] for n in first], [sites.behind[n] for n in first]
                after = move.after
            case None | Broken():
                took = to = [NOWHERE] * len(first)
            case _:
                return None
        if isinstance(after, Broken):
            self.why = str(after)
        if not isinstance(after, Known):
            return Moved([], [NOWHERE] * len(first))
        return Moved([(after, to)], took)

    def latest(self, of: Instances, copy: Copy) -> list[int]:
        """The end of each instance's run in another trace."""
        ends = self.ends.get(copy, [])
        return [ends[run] for run in self._runs_of(of)] if ends else [NOWHERE] * len(of.at)

    def _runs_of(self, of: Instances) -> list[int]:
        """In which run each instance is."""
        if not of.runs:
            ends = self.ends[of.copy]
            of.runs = [bisect_left(ends, at) for at in of.at]
        return of.runs

    def _one_by_one(
        self,
        taken: Taken,
        way: Way,
        of: Instances,
        front: Front,
        sites: Sites,
        before: list[int],
    ) -> Moved:
        known, places = front
        fronts: dict[Known, list[int]] = {}
        took = [NOWHERE] * len(places)
        for i, here in enumerate(places):
            next_one = bisect_left(sites.at, here)
            if before and sites.at[next_one] == before[i]:
                continue  # the next one that is alike is the one that is named
            for at in sites.at[next_one:-1]:
                event = self.events[way.copy][at]
                if event is None:
                    break
                move = self._move(taken, way, known, event)
                after, there = self._taken(taken, move, of, i, event, at)
                if after is None:
                    continue
                if isinstance(after, Broken):
                    self.why = str(after)
                    break
                took[i] = at
                fronts.setdefault(after, [NOWHERE] * len(places))[i] = there
                if self.trails is not None:
                    self.trails[taken.number, i, after, there] = known, here, at
                break
        return Moved([*fronts.items()], took)

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
                there = self._reached(taken, move.which, event)
                if isinstance(there, Broken):
                    return there, at
                if there >= NOWHERE:
                    return None, at
                end = taken.link.end
                wait = self.event(Copy(end.role, end.copy, end.cta), there)
                return _then(move, wait), there + 1
            case Awaited():
                closings = self._closings_of(of.accesses[i], move.group)
                closed = bisect_left(closings, at) - bisect_left(closings, of.at[i])
                over = closed > move.pending
                return (move.after if over else None), at + 1
            case Acquired():
                mine = event.value("array") == Edited(move.buffer, of.slots[i])
                return (move.after if mine else None), at + 1
            case Met():
                start = taken.link.start
                copy = Copy(start.role, start.copy, start.cta)
                there = self._same_meeting(copy, move, at)
                if there is None:
                    return None, at
                # at the meeting itself, which may be the next step, too: among the warps of the other role
                return _then(move, self.event(move.other, there)), there

    def _told_at(self, taken: Taken, which: int, sites: Sites) -> Arrivals | None:
        """What the places of a step tell, one after another; None where they do not all tell of the same."""
        key = taken.alone, which, id(sites)
        if key not in self._arrivals:
            start, end = taken.link.start, taken.link.end
            here, other = Copy(*start[1:]), Copy(*end[1:])
            trace, waits, waiting = self.events[here], self.ends.get(other, []), self.events[other]
            told = self._waits_of(end)
            found, alike = Arrivals([NOWHERE], [NOWHERE], None), list[Event]()
            after, behind = NOWHERE, NOWHERE
            left = len(waits)
            for at in sites.at[-2::-1]:
                event = trace[at]
                if event is None:
                    left -= 1
                    after, behind = at, waits[left] if waits else NOWHERE
                else:
                    there = _first_told(event, which, *told)
                    if there < 0:
                        found = None
                        break
                    if there < NOWHERE:
                        after, behind = at, there + 1
                        alike.append(waiting[there])
                found.next.append(after)
                found.behind.append(behind)
            one = _alike(alike)
            if found is not None and (one is not None or not alike):
                found.next.reverse()
                found.behind.reverse()
                found = found._replace(alike=one)
            else:
                found = None
            self._arrivals[key] = found
        return self._arrivals[key]

    def _reached(self, taken: Taken, which: int, event: Event) -> int | Broken:
        """The first wait of a step's end that sees a phase complete which an event tells."""
        there = _first_told(event, which, *self._waits_of(taken.link.end))
        if there < 0:
            return Broken(f"{taken.link.end} does not wait for {taken.link.start}")
        return there

    def _waits_of(self, end: End) -> tuple[SSAValue | None, Seen]:
        """The waits like a named one in its trace: on which barriers, and what they have seen."""
        found = self._waits.get(end)
        if found is None:
            copy, seen = Copy(end.role, end.copy, end.cta), Seen()
            for at in self.places(copy, end.site)[1]:
                deed = self.event(copy, at).deed
                if deed is not None and deed.word is not None:
                    phases, where = seen.setdefault(deed.word, ([], []))
                    phases.append(deed.seen)
                    where.append(at)
            found = self._waits[end] = self.all.named[end.site].barriers, seen
        return found

    def _same_meeting(self, copy: Copy, move: Met, at: int) -> int | None:
        """Where the other role comes to the meeting at which a copy is; None where it does not in this run."""
        run = self.run_of(copy, at)
        mine = self._met(copy, move, "arrive")
        turn = bisect_left(mine, at) - bisect_left(mine, self._begin(copy, run))
        # who comes to a numbered barrier leaves with the phase that it arrives at, whether or not it waited before
        theirs = self._met(move.other, move, "arrive" if move.among == "named" else "wait")
        turn += bisect_left(theirs, self._begin(move.other, run))
        if turn >= len(theirs) or self.run_of(move.other, theirs[turn]) > run:
            return None
        return theirs[turn]

    def _begin(self, copy: Copy, run: int) -> int:
        return self.ends[copy][run - 1] + 1 if run and copy in self.ends else 0

    def _met(self, copy: Copy, move: Met, half: str) -> list[int]:
        """Where a copy takes part in meetings of a number, as one who arrives or waits."""
        key = copy, move.among, move.barrier, half
        found = self._meetings.get(key)
        if found is None:
            found = self._meetings[key] = [
                at
                for at, e in enumerate(self.events.get(copy, []))
                if e is not None
                if any(isinstance(r, Meet) and r.among == move.among for r in e.of.effects)
                if number(e.op, "number") == move.barrier and does(e.op) in ("sync", half)
            ]
        return found

    def _closings_of(self, x: Access, group: Done) -> list[int]:
        """Where the threads of an access close groups of theirs."""
        key = x.copy, group, x.threads
        found = self._closings.get(key)
        if found is None:
            here = self.by_operation[x.copy]
            closing = [at for one, at in here.items() if closes(one, group)]
            found = sorted(
                n for at in closing for n in at if x.threads <= self.event(x.copy, n).threads
            )
            self._closings[key] = found
        return found


def _alike(events: Sequence[Event]) -> Event | None:
    """One of some events, where they are of one operation by the same threads."""
    first = events[0] if events else None
    if first is None or len({e.of for e in events}) > 1:
        return None
    if len(first.of.who) > 1 and len({e.threads for e in events}) > 1:
        return None
    return first


def _first_told(event: Event, which: int, barriers: SSAValue | None, seen: Seen) -> int:
    """The first of some waits that sees a phase complete which an event tells; NOWHERE where none does, -1 where they
    are about other barriers."""
    deed = event.deed
    first = -1
    if deed is None or deed.phases is None:
        return first
    for (word, _, _, owner), phase in zip(deed.tells, deed.phases, strict=True):
        if which == ARRIVALS:
            if owner is not None:
                continue
        elif owner is None or which not in (BYTES, owner):
            continue
        if word.barriers is barriers and first < 0:
            first = NOWHERE
        if word in seen:
            phases, where = seen[word]
            after = bisect_left(phases, phase)
            if after < len(where) and (first < 0 or where[after] < first):
                first = where[after]
    return first


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
    if places and min(places) < NOWHERE:
        fronts.append((known, places))


def _merged(places: Sequence[list[int]]) -> list[int]:
    """Several lists in order as one."""
    return places[0] if len(places) == 1 else sorted(chain.from_iterable(places))


class Operand(NamedTuple):
    """An operand that an instruction touches; `asked`: where the values are by which its instances differ: buffers, and
    whose memory."""

    name: str
    touch: Touch
    asked: tuple[int, ...]


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


def _slotted(access: Access, event: Event) -> int | None:
    """Which operand of an access is its slot; None where it is found otherwise."""
    special = isinstance(event.value(access.operand), Opened | Edited)
    if special or access.touch.space is Space.GLOBAL or depth(access.buffer) == 1:
        return None
    own = event.of.place(f"{access.operand}_slot")
    return event.of.place("slot") if own is None else own


def _slot(access: Access, event: Event) -> Any:
    """Which slot an access touches; of a tensor, its coordinates; None where it is not known."""
    value = event.value(access.operand)
    if isinstance(value, Opened):
        return 0 if depth(access.buffer) == 1 else value.slot
    if isinstance(value, Edited) and access.touch.space is Space.MAP:
        return value.slot
    if access.touch.space is Space.GLOBAL:
        return event.coordinates
    return 0 if depth(access.buffer) == 1 else None
