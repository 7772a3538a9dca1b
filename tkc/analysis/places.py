"""Where things happen in runs of a kernel, and where instances of an access have come to by the steps of a chain.

Several runs are one, each behind the one before: a place is a number in the traces of a role's copy, one after
another, and each trace has one place more, its end. There stays what does not happen any more in its run, which is
before all that the next run has.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from tkc.analysis.instances import Copy, Edited, Event, Instruction, Opened
from tkc.analysis.known import (
    Access,
    Broken,
    Known,
    Like,
    depth,
    fragment_of,
    in_registers,
    kind,
)
from tkc.analysis.phases import owners
from tkc.ir.isa.memory import Done, Space, Touch
from tkc.ir.nest import around

if TYPE_CHECKING:
    from collections.abc import Set

    from xdsl.ir import Operation

    from tkc.ir.certificates import End, Link

NOWHERE = 1 << 60
"""Beyond every place."""

Front = tuple[Known, list[int]]
"""What is known of some instances of an access, and from where on in its role's trace of each."""


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
    doubtful: Set[Operation] = frozenset()
    """Loops of which it has not been seen what is true where they do not turn."""
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


class Places:
    """Where things happen in runs of a kernel."""

    def __init__(self, runs: Sequence[Mapping[Copy, list[Event]]], kinds: Kinds) -> None:
        self.all = kinds
        self.events: dict[Copy, list[Event | None]] = {}
        self.ends: dict[Copy, list[int]] = {}
        self.by_operation: dict[Copy, dict[Instruction, list[int]]] = {}
        self.alike: dict[Copy, dict[Like, list[Instruction]]] = {}
        self._places: dict[tuple[Copy, str], tuple[list[int], list[int]]] = {}
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
            alike = self._there(alike, so_named)
            mine = _merged([here[of] for of in so_named])
            every = mine if so_named == alike else _merged([here[of] for of in alike])
            found = self._places[copy, site] = mine, every
        return found

    def _there(self, alike: list[Instruction], named: list[Instruction]) -> list[Instruction]:
        """Those of some instructions that stand in no loop that may not turn, but for loops round the named one."""
        if not self.all.doubtful:
            return alike
        mine = {loop for of in named for loop in self._doubtful(of)}
        return [of for of in alike if self._doubtful(of) <= mine]

    def _doubtful(self, of: Instruction) -> set[Operation]:
        return {op for op in around(of.op) if op in self.all.doubtful}

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
        if self.all_alike(copy, found.at) is None:
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

    def latest(self, of: Instances, copy: Copy) -> list[int]:
        """The end of each instance's run in another trace."""
        ends = self.ends.get(copy, [])
        return [ends[run] for run in self.runs_of(of)] if ends else [NOWHERE] * len(of.at)

    def runs_of(self, of: Instances) -> list[int]:
        """In which run each instance is."""
        if not of.runs:
            ends = self.ends[of.copy]
            of.runs = [bisect_left(ends, at) for at in of.at]
        return of.runs

    def all_alike(self, copy: Copy, at: list[int]) -> Event | None:
        """One of the events at some places, where all are of one operation by the same threads."""
        one = self.events[copy][at[0]] if at else None
        if one is None or at is not self.by_operation[copy].get(one.of):
            return None
        return one if len(one.of.who) == 1 else alike_of([self.event(copy, n) for n in at])


def alike_of(events: Sequence[Event]) -> Event | None:
    """One of some events, where they are of one operation by the same threads."""
    first = events[0] if events else None
    if first is None or len({e.of for e in events}) > 1:
        return None
    if len(first.of.who) > 1 and len({e.threads for e in events}) > 1:
        return None
    return first


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
