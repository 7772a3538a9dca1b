"""How the instances of an access move along a chain: at once where the places of a step are alike, else one by one."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from xdsl.ir import SSAValue

from tkc.analysis.hiding import Hiding
from tkc.analysis.instances import Copy, Edited, Event, Word
from tkc.analysis.known import (
    Access,
    Broken,
    Known,
    closes,
)
from tkc.analysis.phases import does, number
from tkc.analysis.places import NOWHERE, Front, Instances, Kinds, Places, Taken, alike_of
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
from tkc.ir.isa.memory import Done, Meet

if TYPE_CHECKING:
    from tkc.ir.certificates import End

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


class Run(Places):
    """Runs of a kernel, in which steps are taken by the rules of a model."""

    def __init__(self, runs: Sequence[Mapping[Copy, list[Event]]], kinds: Kinds) -> None:
        super().__init__(runs, kinds)
        self.why = ""
        """Why the last step that did not hold does not."""
        self.trails: dict[tuple[int, int, Known, int], tuple[Known, int, int]] | None = None
        """Of an instance after a step, by numbers, what is known and where: that before it, and where it was taken."""
        self._ways: dict[int, Way] = {}
        self._sites: dict[int, Sites] = {}
        self._arrivals: dict[tuple[int, int, int], Arrivals | None] = {}
        self._waits: dict[End, tuple[SSAValue | None, Seen]] = {}
        self._meetings: dict[tuple[Copy, str, int, str], list[int]] = {}
        self._closings: dict[tuple[Copy, Done, frozenset[int]], list[int]] = {}
        alone = kinds.cluster == 1 or "A15" in kinds.assumed
        self._hiding = None if alone else Hiding(self.events)

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
            alike = self.all_alike(copy, at)
            found = Sites([*every, NOWHERE], [*behind, NOWHERE], among, alike)
            self._sites[id(at)] = found
        return found

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
                last = [sites.ends[n] for n in self.runs_of(of)]
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
                other = Copy(end.role, end.copy, end.cta)
                hidden = self._hiding is not None and self._hiding.hides(
                    Copy(*taken.link.start[1:]), at, other, there
                )
                return _then(move, self.event(other, there), hidden), there + 1
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
        """What the places of a step tell, one after another; None where they do not all tell of the same, or some may
        hide others."""
        if self._hiding is not None:
            return None
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
            one = alike_of(alike)
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


def _then(move: Told | Met, event: Event, hidden: bool = False) -> Known | Broken:
    """What is known by an event of another role, which has been told or met."""
    key = event.of, event.threads, hidden
    found = move.after.get(key)
    if found is None:
        try:
            found = move.then(event) if isinstance(move, Met) else move.then(event, hidden)
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
