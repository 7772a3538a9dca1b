"""Which roles of a program do the same, so that what holds of two accesses holds of every two like them.

Copies of a role for several warpgroups may change places where they are alike, and CTAs of a cluster (of which each
gets the number of another, by exclusive or) where all their roles are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from operator import attrgetter
from typing import Any

from tkc.analysis.happens_before.events import (
    Access,
    Beside,
    Choice,
    Event,
    Index,
    Item,
    Loop,
    Program,
    Role,
    Slot,
    Sometimes,
    Threads,
    Turns,
)
from tkc.ir.isa.memory import Space


@dataclass(eq=False, slots=True)
class Symmetry:
    """`shapes`: equal numbers for roles that do the same, each seen from its own CTA; `swaps`: by which numbers those
    of CTAs may be changed, whose barriers are equal, too."""

    program: Program
    shapes: dict[Role, int] = field(init=False)
    swaps: list[int] = field(init=False)
    drawn: dict[Role, Hashable] = field(init=False)
    """What roles that do the same have in common, and few others."""
    repeated: frozenset[Role] = field(init=False)
    """Copies that do what the first of them does."""
    mirrored: frozenset[Role] = field(init=False)
    """These, and roles of CTAs of which one looked at before may have the number."""
    least: dict[tuple[int, ...], tuple[int, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        roles = self.program.roles
        at = {(r.declared or r.name, r.copy, r.cta): r for r in roles}
        drawn = self.drawn = {r: _sketch(r) for r in roles}
        swaps = [k for k in {r.cta for r in roles} if k and _alike(at, k, drawn)]
        # roles of CTAs that are not alike are never taken for one another
        likely = Counter((drawn[r], r.cta if not swaps else None) for r in roles)
        known: dict[Hashable, int] = {}
        self.shapes = {
            r: known.setdefault(
                _Shape(r).whole() if likely[drawn[r], r.cta if not swaps else None] > 1 else r,
                len(known),
            )
            for r in roles
        }
        self.swaps = [k for k in swaps if _alike(at, k, self.shapes) and self._same_barriers(k)]
        firsts = {(r.declared, r.cta, self.shapes[r]) for r in roles if not r.copy}
        self.repeated = frozenset(
            r for r in roles if r.copy and (r.declared, r.cta, self.shapes[r]) in firsts
        )
        self.mirrored = self.repeated | {
            r for r in roles if any(r.cta ^ k < r.cta for k in self.swaps)
        }

    def _same_barriers(self, swap: int) -> bool:
        rows: dict[int, Counter[Hashable]] = {}
        for key, barrier in self.program.barriers.items():
            name = key[0] if isinstance(key, tuple) else key
            row = (name, barrier.name, barrier.depth, barrier.count, id(barrier.op))
            rows.setdefault(barrier.owner, Counter())[row] += 1
        return all(rows.get(cta ^ swap) == row for cta, row in rows.items())

    def repeats(self, role: Role) -> bool:
        """Whether a copy of a role does what the first of them does, so that what is said of that is said of it. Where
        one thread acts for all warpgroups of a role, only the first of them has it."""
        return role in self.repeated

    def mirrors(self, role: Role) -> bool:
        """Whether a role does, and hears of others, what one looked at before it does: the first of its copies, or that
        of a CTA which may have this one's number. Of other units nothing is said."""
        return role in self.mirrored

    def name(self, role: Role, number: int, cta: int) -> tuple[Hashable, ...]:
        """What places of roles have in common that do the same there, with one CTA each."""
        return self.shapes[role], number, self.ctas(role.cta, cta)

    def ctas(self, *numbers: int) -> tuple[int, ...]:
        """CTAs by the least numbers that they may have."""
        if not self.swaps:
            return numbers
        found = self.least.get(numbers)
        if found is None:
            found = min(tuple([n ^ k for n in numbers]) for k in (0, *self.swaps))
            self.least[numbers] = found
        return found


def _alike(at: Mapping[tuple[str, int, int], Role], swap: int, of: Mapping[Role, Hashable]) -> bool:
    """Whether every role has a fellow in the CTA of the number that a swap gives its own, with which it has something
    in common."""
    for (name, copy, cta), role in at.items():
        other = at.get((name, copy, cta ^ swap))
        if other is None or of[other] != of[role]:
            return False
    return True


def _sketch(role: Role) -> Hashable:
    return role.warps, role.copies, tuple([(e.name, id(e.op)) for e in role.events()])


def alone(role: Role) -> Hashable:
    """All that a role does, of whichever CTAs the barriers are: equal for two whose own steps order the same."""
    return _Shape(role, True).whole()


@cache
def _fields_of(act: Any) -> tuple[Callable[[object], tuple[Hashable, ...]], list[tuple[int, str]]]:
    """The class and the fields of an act, and where in them those are that each CTA or role sees in its own way."""
    names = ["__class__", *(each.name for each in fields(act))]
    seen = [(n, x) for n, x in enumerate(names) if x in ("barrier", "index", "slot", "owner")]
    if len(names) == 1:
        return lambda one: (one.__class__,), seen
    return attrgetter(*names), seen


class _Shape:
    """All that a role does, seen from its own CTA; `alone`: of whichever CTAs the barriers are."""

    def __init__(self, role: Role, alone: bool = False) -> None:
        self.role, self.alone = role, alone
        self.loops: dict[Loop | None, int | None] = {None: None}
        self.first: dict[int, int] = {}

    def whole(self) -> Hashable:
        return self.role.warps, self.role.copies, self._items(self.role.body)

    def _items(self, items: Iterable[Item]) -> Hashable:
        return tuple([self._item(item) for item in items])

    def _item(self, item: Item) -> Hashable:
        match item:
            case Event():
                threads = item.threads if isinstance(item.threads, Threads) else id(item.threads)
                accesses = tuple([self._access(a) for a in item.accesses])
                return "event", item.name, id(item.op), threads, accesses, self._act(item.act)
            case Loop():
                self.loops[item] = len(self.loops)
                guard = item.guard and (item.guard[0], self._loop(item.guard[1]))
                inside = self._items(item.body)
                return "loop", item.key, item.low, item.high, guard, id(item.op), inside
            case Choice():
                return "choice", self._items(item.branches)
            case Beside():
                return "beside", self._items(item.one), self._items(item.other)
            case Sometimes():
                return "sometimes", self._turns(item.turns), self._items(item.body)

    def _loop(self, loop: Loop | None) -> Hashable:
        return self.loops.get(loop, id(loop))

    def _turns(self, turns: Turns) -> Hashable:
        return self._loop(turns.loop), turns.period, turns.rest

    def _cta(self, number: object) -> object:
        return number ^ self.role.cta if isinstance(number, int) else number

    def _access(self, access: Access) -> Hashable:
        """What of an access its order depends on; which bytes it touches is asked of each two."""
        owner = 0 if access.space is Space.GLOBAL else self._cta(access.owner)
        return (
            access.space, id(access.buffer), access.write, self._slot(access.buffer, access.slot), access.proxy,
            access.done, access.what, owner, access.operand, access.element, id(access.storage), access.ring,
            tuple([self._loop(x) for x in access.distinct]),
        )  # fmt: skip

    def _slot(self, buffer: object, slot: Slot | None) -> Hashable:
        """A slot as so many further than the one of the buffer that the role is at first."""
        if slot is None:
            return None
        first = self.first.setdefault(id(buffer), slot.at(0))
        before, period = ([n - first for n in row] for row in (slot.before, slot.period))
        return self._loop(slot.loop), tuple(before), tuple(period)

    def _act(self, act: object) -> Hashable:
        """An act by its fields, with CTAs as they are seen from this one."""
        if act is None:
            return None
        of, seen_from_here = _fields_of(type(act))
        found: list[Hashable] = list(of(act))
        for place, name in seen_from_here:
            value = found[place]
            if name == "barrier" and isinstance(value, tuple):
                found[place] = value[0], None if self.alone else self._cta(value[1])
            elif name == "owner":
                found[place] = self._cta(value)
            elif isinstance(value, Index):
                found[place] = self._loop(value.loop), value.offset, value.rate
            elif isinstance(value, Slot):
                found[place] = self._slot(getattr(act, "buffer", None), value)
        return tuple(found)
