"""Pipes of one slot whose items come in several loops, or in a loop and beside it: one ring for each place of items.

Both ends of a pipe have the same items in the same order, so that an item of one block at one end is that of the same
block and turn at the other. Such items number themselves; where the slots of a ring do not tell the item (its counter
goes on in several loops), its barrier is taken for several, each with the items of one block. A wait for the slot to be
free is for all items before, the last of each block.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, replace

from tkc.analysis.happens_before.events import (
    Arrive,
    Beside,
    Choice,
    Complete,
    Event,
    Index,
    Item,
    Loop,
    Program,
    Role,
    Sometimes,
    Wait,
)

Names = tuple[Hashable, ...]
"""The loops round a block by their keys, and which each is of those alike: equal in all roles of a pipe."""
Part = tuple[Names, int]
"""A block of a pipe: the loops round it, and which it is of those in the body of the innermost."""


@dataclass(frozen=True, slots=True)
class _Place:
    """An event of a ring: the list that it stands in, the loop round it, and the names of all loops round it, innermost
    last; None: it stands under a condition."""

    event: Event
    body: list[Item]
    loop: Loop | None
    names: Names | None


def split_rings(program: Program) -> None:
    """Takes each ring apart whose items are not numbered, where that can be done."""
    unknown = {
        event.act.barrier
        for role in program.roles
        for event in role.events()
        if isinstance(event.act, Wait) and event.act.index is None
    }
    if not unknown:
        return
    places = {role: list(_places(role.body, None, ())) for role in program.roles}
    blocks = {role: _blocks(program, mine) for role, mine in places.items()}
    for key in unknown:
        mine = {
            role: [p for p in found if _barrier(p.event) == key] for role, found in places.items()
        }
        parts = _parts(program, key, mine, blocks)
        if parts is not None:
            for role, found in mine.items():
                _number(program, key, found, parts, blocks[role])


def _barrier(event: Event) -> Hashable:
    act = event.act
    return act.barrier if isinstance(act, Wait | Arrive | Complete) else None


def _places(body: list[Item], loop: Loop | None, names: Names | None) -> Iterator[_Place]:
    seen: dict[Hashable, int] = {}
    for item in body:
        if isinstance(item, Event):
            if _barrier(item) is not None:
                yield _Place(item, body, loop, names)
        elif isinstance(item, Loop):
            seen[item.key] = seen.get(item.key, -1) + 1
            inner = None
            if (
                names is not None
                and isinstance(item.key, tuple)
                and item.key[0] in ("for", "while")
            ):
                inner = (*names, (item.key, seen[item.key]))
            yield from _places(item.body, item, inner)
        else:
            for part in _inside(item):
                yield from _places(part, loop, None)


def _inside(item: Choice | Beside | Sometimes) -> list[list[Item]]:
    if isinstance(item, Choice):
        return [branch.body for branch in item.branches]
    return [item.one, item.other] if isinstance(item, Beside) else [item.body]


def _blocks(program: Program, places: list[_Place]) -> dict[Event, Part | None]:
    """The block that each event of a role belongs to: a wait begins the next one of its pipe, and an arrival is of the
    one that the role's wait at the other end of the slot has begun."""
    found: dict[Event, Part | None] = {}
    begun: dict[tuple[int, str], int] = {}
    for place in places:
        barrier = program.barriers.get(_barrier(place.event))
        name, _, side = (barrier.name if barrier is not None else "").rpartition(".")
        other = {"full": "empty", "empty": "full"}.get(side)
        if place.names is None or other is None:
            found[place.event] = None
            continue
        here = (id(place.body), f"{name}.{side}")
        if isinstance(place.event.act, Wait):
            begun[here] = begun.get(here, -1) + 1
            found[place.event] = place.names, begun[here]
        else:
            found[place.event] = place.names, begun.get((here[0], f"{name}.{other}"), 0)
    return found


def _parts(
    program: Program,
    key: Hashable,
    roles: dict[Role, list[_Place]],
    blocks: dict[Role, dict[Event, Part | None]],
) -> list[Part] | None:
    """The blocks of a ring in the order of the program; None where its ends may differ in them, or it has several
    slots."""
    if program.barriers[key].depth != 1:
        return None
    found: list[list[Part | None]] = []
    for role, mine in roles.items():
        for kinds in (Wait, Arrive | Complete):
            here = [blocks[role][p.event] for p in mine if isinstance(p.event.act, kinds)]
            if here:
                found.append(list(dict.fromkeys(here)))
    first = found[0] if found else []
    alike = all(other == first for other in found)
    parts = [part for part in first if part is not None and part[0]]
    return parts if alike and len(parts) == len(first) else None


def _number(
    program: Program,
    key: Hashable,
    places: list[_Place],
    parts: list[Part],
    blocks: dict[Event, Part | None],
) -> None:
    """Numbers what a role does to a ring, by the turns of the loop round each block."""
    barrier = program.barriers[key]
    assert isinstance(key, tuple)
    keys = {part: ((key[0], number), *key[1:]) for number, part in enumerate(parts)}
    for part in parts:
        program.barriers.setdefault(keys[part], replace(barrier))
    loops = {blocks[p.event]: p.loop for p in places}
    for place in places:
        part, act = blocks[place.event], place.event.act
        assert part is not None
        assert isinstance(act, Wait | Arrive | Complete)
        free = isinstance(act, Wait) and barrier.name.endswith(".empty")
        own = Index(loops[part], -1 if free else 0)
        place.event.act = replace(act, barrier=keys[part], index=own)
        if not free:
            continue
        assert isinstance(act, Wait)
        more: list[Item] = []
        for each in parts:
            if each != part:
                last = Index(loops[each], _last(parts, each, part))
                other = replace(act, barrier=keys[each], index=last, implied=True)
                more.append(replace(place.event, accesses=(), act=other))
        at = next(n for n, item in enumerate(place.body) if item is place.event)
        place.body[at + 1 : at + 1] = more


def _last(parts: list[Part], of: Part, at: Part) -> int:
    """Which is the last item of a block before one of another: that of this turn of a loop round both, where the block
    comes first, else that of the turn before."""
    within = at[0][: len(of[0])] == of[0]
    return 0 if within and parts.index(of) < parts.index(at) else -1
