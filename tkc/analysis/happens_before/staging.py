"""Slots through which a role stores, whose numbers go on in several loops: looked at as one slot.

Each item of such a ring waits until all groups of the role but as many as leave one slot free have been read, fills a
slot, and has it copied in a group of its own. Two items in one slot are a whole ring apart, so that this wait covers
the item before in the slot, whichever slot that is; of other buffers it says no more than it says.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import replace

from xdsl.ir import SSAValue

from tkc.analysis.happens_before.events import (
    Access,
    AwaitGroup,
    Choice,
    CloseGroup,
    Event,
    Item,
    Loop,
    Program,
    Role,
    Slot,
    Sometimes,
)
from tkc.ir.isa.memory import Done
from tkc.ir.stage.structure import BufferOp


def settle(program: Program) -> None:
    """Gives accesses of such slots one slot, and the waits before them what they say of it."""
    for role in program.roles:
        unknown = {a.buffer for e in role.events() for a in e.accesses if _is_unknown(a)}
        for buffer in unknown:
            waits = list(_waits(role, buffer))
            if all(waits):
                _settle(role, buffer, {wait for wait in waits if wait is not None})


def _is_unknown(access: Access) -> bool:
    """Whether it is of a slot of the compiler's own that is not followed."""
    if access.slot is not None or not isinstance(access.buffer, SSAValue):
        return False
    owner = access.buffer.owner
    return isinstance(owner, BufferOp) and owner.staging is not None


def _waits(role: Role, buffer: Hashable) -> Iterator[Event | None]:
    """Of each place that fills the buffer, the wait before it; None where it is made otherwise."""
    for body in _bodies(role.body):
        filling = [n for n, item in enumerate(body) if _touches(item, buffer, True, deep=False)]
        for n in filling:
            before = next((i for i in reversed(body[:n]) if _parts(i, buffer)), None)
            behind = [i for i in body[n:] if _parts(i, buffer, closes=True)]
            copied = len(behind) > 1 and _touches(behind[0], buffer, False)
            closed = (
                copied and isinstance(behind[1], Event) and isinstance(behind[1].act, CloseGroup)
            )
            waits = isinstance(before, Event) and isinstance(before.act, AwaitGroup)
            yield before if waits and closed else None  # pyright: ignore[reportReturnType]


def _bodies(body: list[Item]) -> Iterator[list[Item]]:
    yield body
    for item in body:
        for inner in _inside(item):
            yield from _bodies(inner)


def _inside(item: Item) -> list[list[Item]]:
    if isinstance(item, Event):
        return []
    if isinstance(item, Loop | Sometimes):
        return [item.body]
    return [b.body for b in item.branches] if isinstance(item, Choice) else [item.one, item.other]


def _parts(item: Item, buffer: Hashable, *, closes: bool = False) -> bool:
    """Whether it copies the buffer, or waits for (`closes`: or closes) groups of bulk copies."""
    if _touches(item, buffer, False):
        return True
    act = item.act if isinstance(item, Event) else None
    if closes:
        return isinstance(act, CloseGroup) and act.done is Done.BULK_GROUP
    if not isinstance(act, AwaitGroup) or act.done is not Done.BULK_GROUP or act.of is not None:
        return False
    return act.pending < _depth(buffer)


def _depth(buffer: Hashable) -> int:
    return buffer.type.depth.data  # type: ignore[attr-defined]


def _touches(item: Item, buffer: Hashable, writes: bool, *, deep: bool = True) -> bool:
    if isinstance(item, Event):
        return any(a.buffer is buffer and a.write is writes for a in item.accesses)
    return deep and any(_touches(i, buffer, writes) for b in _inside(item) for i in b)


def _settle(role: Role, buffer: Hashable, waits: set[Event]) -> None:
    for event in role.events():
        event.accesses = tuple(
            replace(a, slot=Slot(None, (0,))) if a.buffer is buffer else a for a in event.accesses
        )
    for body in list(_bodies(role.body)):
        for wait in [e for e in body if e in waits]:
            assert isinstance(wait, Event)
            assert isinstance(wait.act, AwaitGroup)
            own = replace(wait.act, pending=0, of=buffer)
            body.insert(body.index(wait) + 1, Event(wait.name, wait.threads, (), own, wait.op))
