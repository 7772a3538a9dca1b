"""Items of a ring beside the kernel's loop over its items, one after another before it or behind it: turns of one loop.

`wait full[0], 0` ahead of a loop that goes on with slot 1 is the first turn of a loop that has one more, if all that an
item takes stands there, too. So it is with all roles that share the ring, as each has as many such turns.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, replace

from tkc.analysis.happens_before.events import (
    Access,
    Arrive,
    Choice,
    Complete,
    Event,
    Index,
    Item,
    Loop,
    Program,
    Role,
    Slot,
    Wait,
    events_of,
)


@dataclass(eq=False, slots=True)
class _Plan:
    """One role: its loop, the items that stand before it and behind it, each as one turn, and what stays behind."""

    role: Role
    loop: Loop
    first: list[Item]
    before: list[list[Item]]
    behind: list[list[Item]]
    last: list[Item]

    def turns(self) -> Iterator[tuple[int, bool, list[Item]]]:
        """Each turn by its number: from the first one, or from the end of the loop."""
        yield from ((n, False, body) for n, body in enumerate(self.before))
        ahead = len(self.before)
        yield from ((ahead + n, True, body) for n, body in enumerate(self.behind))


def chain_items_beside(made: Program) -> None:
    """Takes such items and the loop for one loop, in all roles that share a ring, where all say the same."""
    mixed = {b for role in made.roles for b in _mixed(role)}
    if not mixed:
        return
    plans = [_plan(role, mixed) for role in made.roles if _touches(role.body, mixed)]
    known = [plan for plan in plans if plan is not None]
    if len(known) < len(plans) or len({(len(p.before), len(p.behind)) for p in known}) != 1:
        return
    rings = {b for plan in known for b in _rings_of(plan)}
    others = [role for role in made.roles if all(role is not p.role for p in known)]
    if any(_touches(role.body, rings) for role in others):
        return
    renumbered = [_renumbered(made, plan) for plan in known]
    if any(found is None for found in renumbered):
        return
    for plan, found in zip(known, renumbered, strict=True):
        assert found is not None
        _chain(plan, found)


def _mixed(role: Role) -> Iterator[Hashable]:
    """The barriers that a role waits for beside a loop, and in it."""
    beside = [i for i in role.body if isinstance(i, Event) and isinstance(i.act, Wait)]
    inside = {
        e.act.barrier
        for item in (role.body if beside else ())
        if isinstance(item, Loop)
        for e in events_of(item.body)
        if isinstance(e.act, Wait) and e.act.index is not None and e.act.index.loop is item
    }
    for event in beside:
        assert isinstance(event.act, Wait)
        if event.act.index is not None and event.act.barrier in inside:
            yield event.act.barrier


def _touches(body: list[Item], barriers: set[Hashable]) -> bool:
    return any(getattr(e.act, "barrier", None) in barriers for e in events_of(body))


def _plan(role: Role, mixed: set[Hashable]) -> _Plan | None:
    """How a role's body falls into turns: each begins with a wait for the barrier that it waits for first."""
    loops = [n for n, i in enumerate(role.body) if isinstance(i, Loop) and _touches([i], mixed)]
    if len(loops) != 1:
        return None
    at = loops[0]
    loop = role.body[at]
    assert isinstance(loop, Loop)
    waits = [
        e.act.barrier
        for e in events_of(loop.body)
        if isinstance(e.act, Wait) and e.act.barrier in mixed
    ]
    if loop.high <= 1 or not waits:
        return None
    first, before = _cut(role.body[:at], waits[0])
    early, behind = _cut(role.body[at + 1 :], waits[0])
    if behind:
        behind[0][:0] = early
        last, end = behind[-1], max(n for n, i in enumerate(behind[-1]) if _touches([i], mixed))
        behind[-1], rest = last[: end + 1], last[end + 1 :]
    else:
        rest = early
    if _touches([*first, *rest], mixed):
        return None
    return _Plan(role, loop, first, before, behind, rest)


def _cut(body: list[Item], barrier: Hashable) -> tuple[list[Item], list[list[Item]]]:
    """What stands before the first wait for a barrier, and from each such wait to the next."""
    first: list[Item] = []
    turns: list[list[Item]] = []
    for item in body:
        starts = isinstance(item, Event) and isinstance(item.act, Wait)
        if starts and item.act.barrier == barrier:  # pyright: ignore
            turns.append([])
        (turns[-1] if turns else first).append(item)
    return first, turns


def _rings_of(plan: _Plan) -> set[Hashable]:
    """The barriers whose items the loop counts."""
    return {
        e.act.barrier
        for e in events_of(plan.loop.body)
        if isinstance(e.act, Wait | Arrive | Complete)
        and e.act.index is not None
        and e.act.index.loop is plan.loop
    }


Offsets = dict[Event, int]


def _renumbered(made: Program, plan: _Plan) -> Offsets | None:
    """The items of all events of a role's turns, by the turns of the whole; None where they do not go on in one row."""
    ahead, found = len(plan.before), Offsets()
    wanted: dict[tuple[Hashable, type], set[int]] = {}
    rings = _rings_of(plan)
    if _touches([*plan.first, *plan.last], rings):
        return None
    for event in events_of(plan.loop.body):
        act = event.act
        if not isinstance(act, Wait | Arrive | Complete):
            continue
        if act.index is None or act.index.loop is not plan.loop:
            if act.barrier in rings:
                return None
            continue
        if act.index.rate != 1 or act.barrier not in made.barriers:
            return None
        offset = found[event] = _offset(made, act, act.index.offset - ahead)
        wanted.setdefault((act.barrier, type(act)), set()).add(offset)
    for number, late, body in plan.turns():
        for event in events_of(body):
            act = event.act
            if not isinstance(act, Wait | Arrive | Complete) or act.barrier not in rings:
                continue
            if act.index is None or act.index.loop is not (plan.loop if late else None):
                if act.index is None or not _of_one(made, act):
                    return None
            offset = _offset(made, act, act.index.offset - number)
            alike = [
                o for o in wanted.get((act.barrier, type(act)), ()) if _same(made, act, o, offset)
            ]
            if len(alike) != 1:
                return None
            found[event] = alike[0]
    return found


def _offset(made: Program, act: Wait | Arrive | Complete, offset: int) -> int:
    """An item by the turns of the whole. Slots and parities tell it modulo two rounds of the ring, slots alone one."""
    depth = made.barriers[act.barrier].depth
    if isinstance(act, Wait):
        return (offset + depth) % (2 * depth) - depth
    assert act.index is not None
    return offset % depth - (depth if act.index.offset < 0 else 0)


def _of_one(made: Program, act: Wait | Arrive | Complete) -> bool:
    """Whether an item is told by where it stands alone: an arrival at a ring of one slot."""
    return made.barriers[act.barrier].depth == 1 and not isinstance(act, Wait)


def _same(made: Program, act: Wait | Arrive | Complete, one: int, other: int) -> bool:
    depth = made.barriers[act.barrier].depth
    return one == other if isinstance(act, Wait) else (one - other) % depth == 0


def _chain(plan: _Plan, offsets: Offsets) -> None:
    loop, role, ahead = plan.loop, plan.role, len(plan.before)
    whole = Loop(loop.name, [], low=loop.low + ahead + len(plan.behind), high=loop.high, op=loop.op)
    whole.high = loop.high + ahead + len(plan.behind)
    turns = [Loop("item", body, ("item",), 0, 1) for body in plan.before]
    turns += [loop, *(Loop("item", body, ("item",), 0, 1) for body in plan.behind)]
    whole.key = ("chain", *(t.key for t in turns))
    for number, turn in enumerate(turns):
        turn.key, turn.low, turn.high = ("turn", number, turn.key), 0, 1
    whole.body = [Choice(turns)]
    for event, offset in offsets.items():
        act = event.act
        assert isinstance(act, Wait | Arrive | Complete)
        event.act = replace(act, index=Index(whole, offset))
    rows = _rows(loop, whole, ahead)
    counted = [(ahead, events_of(loop.body)), (len(turns) - 1, events_of(plan.last))]
    for number, late, body in plan.turns():
        for event in events_of(body) if not late else ():
            event.accesses = tuple(_moved(a, rows, number) for a in event.accesses)
        counted.append((number, events_of(body)))
    for number, events in counted:
        for event in events:
            event.accesses = tuple(_placed(a, loop, whole, number) for a in event.accesses)
    role.body[:] = [*plan.first, whole, *plan.last]


def _rows(loop: Loop, whole: Loop, ahead: int) -> dict[Hashable, set[Slot]]:
    """The slots of each buffer that the loop goes through."""
    found: dict[Hashable, set[Slot]] = {}
    for event in events_of(loop.body):
        for access in event.accesses:
            if access.slot is not None and access.slot.loop is loop:
                found.setdefault(access.buffer, set()).add(_shifted(access.slot, whole, ahead))
    return found


def _moved(access: Access, rows: dict[Hashable, set[Slot]], turn: int) -> Access:
    """An access of a turn ahead of the loop, in the slot that goes on in it."""
    slot = access.slot
    if slot is None or slot.loop is not None:
        return access
    alike = [row for row in rows.get(access.buffer, ()) if row.at(turn) == slot.at(0)]
    return replace(access, slot=alike[0]) if len(alike) == 1 else access


def _placed(access: Access, loop: Loop, whole: Loop, ahead: int) -> Access:
    if access.slot is None or access.slot.loop is not loop:
        return access
    return replace(access, slot=_shifted(access.slot, whole, ahead))


def _shifted(slot: Slot, whole: Loop, ahead: int) -> Slot:
    """The same slot by the turns of the whole, of which the loop's first is not the first."""
    if slot.before:
        return Slot(whole, slot.period, (*(slot.before[:1] * ahead), *slot.before))
    by = -ahead % len(slot.period)
    return Slot(whole, (*slot.period[by:], *slot.period[:by]))
