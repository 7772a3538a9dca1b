"""Words in global memory by which one role tells another: a release of a constant, for which a loop of acquires waits.

Such a word is a barrier of one arrival, with one item: whoever leaves the loop has seen the one value that is ever
stored there. That is so where nobody else writes the tensor, each turn of the loops round both has a word of its own by
equal formulas, and words are 0 when the kernel starts, for which the wait goes on.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import NamedTuple

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Operation, SSAValue

from tkc.analysis.happens_before.events import (
    Access,
    Arrive,
    Barrier,
    Event,
    Index,
    Item,
    Loop,
    Program,
    Threads,
    Wait,
)
from tkc.analysis.happens_before.properties import scope_of, sem_of, word
from tkc.ir.isa.memory import Sem, Space
from tkc.ir.stage.elements import LoadElementOp, StoreElementOp
from tkc.ir.stage.explicit import WhileOp
from tkc.ir.stage.scalar import SCALARS, ArithOp, ConstOp

ACQUIRES, RELEASES = frozenset({"acquire"}), frozenset({"release"})


class _Site(NamedTuple):
    """An event that stores or awaits a word: the list that it, or its loop, stands in, which it is there, and the loops
    round it."""

    event: Event
    body: list[Item]
    item: Item
    loops: tuple[Loop, ...]


def follow_words(made: Program) -> None:
    """Adds what is known by words as arrivals at barriers, and waits for them."""
    waits = [site for role in made.roles for site in _waits(role.body, ())]
    tensors = {site.event.accesses[0].buffer for site in waits}
    for tensor in tensors:
        stores = [site for role in made.roles for site in _stores(role.body, (), tensor)]
        writes = [a for _, a, _ in made.accesses() if a.buffer is tensor and a.write]
        if len(stores) == len(writes) == 1:
            mine = [site for site in waits if site.event.accesses[0].buffer is tensor]
            if all(_alike(stores[0], site) for site in mine):
                _follow(made, tensor, stores[0], mine)


def _follow(made: Program, tensor: Hashable, store: _Site, waits: list[_Site]) -> None:
    key = ("word", tensor)
    made.barriers[key] = Barrier("", word=True)
    for site in (store, *waits):
        op = site.event.op
        index = Index(site.loops[-1] if site.loops else None)
        act = (
            Arrive(key, index, sem=sem_of(op, Sem.RELEASE), scope=scope_of(op))
            if site is store
            else Wait(key, index, sem_of(op, Sem.ACQUIRE), scope_of(op))
        )
        at = next(n for n, item in enumerate(site.body) if item is site.item)
        site.body.insert(at + 1, Event(site.event.name, site.event.threads, (), act, op))


def _waits(body: list[Item], loops: tuple[Loop, ...]) -> Iterator[_Site]:
    """The loops that do nothing but wait for a word."""
    for item in body:
        if not isinstance(item, Loop):
            continue
        events = item.body
        if isinstance(item.op, WhileOp) and len(events) == 1 and isinstance(events[0], Event):
            event = events[0]
            if isinstance(event.op, LoadElementOp) and word(event.op, "sem") in ACQUIRES:
                yield _Site(event, body, item, loops)
        elif item.high > 1:
            yield from _waits(item.body, (*loops, item))


def _stores(body: list[Item], loops: tuple[Loop, ...], tensor: Hashable) -> Iterator[_Site]:
    for item in body:
        if isinstance(item, Loop) and item.high > 1:
            yield from _stores(item.body, (*loops, item), tensor)
        elif isinstance(item, Event) and any(a.write and a.buffer is tensor for a in item.accesses):
            yield _Site(item, body, item, loops)


def _alike(store: _Site, wait: _Site) -> bool:
    """Whether a wait in a turn of its loops is for what the store does in the same turn of its own, and in no other."""
    one, other = store.event.accesses[0], wait.event.accesses[0]
    keys = [tuple(loop.key for loop in site.loops) for site in (store, wait)]
    op = store.event.op
    return (
        isinstance(op, StoreElementOp)
        and word(op, "sem") in RELEASES
        and store.event.threads is Threads.ONE
        and keys[0] == keys[1]
        and None not in keys[0]
        and one.part == other.part
        and all(_of_its_own(site.event.accesses[0], site.loops) for site in (store, wait))
        and _ends(wait, _constant(op.source))
    )


def _of_its_own(access: Access, loops: tuple[Loop, ...]) -> bool:
    """Whether each turn of the loops round an access touches another element, one for all threads."""
    area = access.area
    return (
        access.space is Space.GLOBAL
        and area is not None
        and not area.asked
        and all(axis is not None and len(set(axis.offsets)) == 1 for axis in area.axes)
        and all(loop in access.apart for loop in loops)
    )


def _ends(wait: _Site, value: int | None) -> bool:
    """Whether a loop ends when it has read the value, and goes on while the word is 0."""
    op = wait.item.op if isinstance(wait.item, Loop) else None
    last = op.test.block.last_op if isinstance(op, WhileOp) else None
    if value is None or last is None:
        return False
    load = wait.event.op
    tests = [_tested(last.operands[0], load, seen) for seen in (value, 0)]
    return tests[0] == 0 and tests[1] not in (0, None)


def _tested(value: SSAValue, load: Operation, seen: int) -> int | None:
    """A condition of what was read and constants; None where it is of more."""
    if value.owner is load:
        return seen
    if isinstance(value.owner, ArithOp):
        parts = [_tested(v, load, seen) for v in value.owner.inputs]
        kind = value.owner.kind.data
        if None in parts or kind in ("div", "mod", "cdiv"):
            return None
        return int(SCALARS[kind].of(*parts))
    return _constant(value)


def _constant(value: SSAValue) -> int | None:
    op = value.owner
    if isinstance(op, ConstOp) and isinstance(op.constant, IntegerAttr):
        return (
            abs(op.constant.value.data)
            if op.constant.type.width.data == 1
            else op.constant.value.data
        )
    return None
