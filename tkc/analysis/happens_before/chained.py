"""Loops in a row that one role counts as one, for a slot that goes on from one to the next, are one in the others that
share items with them, too: else nothing would say that they turn equally often."""

from __future__ import annotations

from collections.abc import Hashable, Iterator

from tkc.analysis.happens_before.events import Beside, Choice, Event, Item, Loop, Program, Sometimes


def chain_alike(made: Program) -> None:
    """Loops that stand as those of a chain do, and hold nothing but events, become such a chain; which comes first of
    two that a chain has is no longer said, so that less is in order, and nothing more."""
    chains = [
        (loop, branches)
        for role in made.roles
        for body in _bodies(role.body)
        for loop in body
        if isinstance(loop, Loop) and (branches := _branches(loop))
    ]
    for role in made.roles if chains else ():
        for body in list(_bodies(role.body)):
            for chain, branches in chains:
                _chain(body, chain, branches)


def _branches(loop: Loop) -> list[Loop]:
    """The loops of a chain; none where it is another loop."""
    if not (isinstance(loop.key, tuple) and loop.key[:1] == ("chain",)):
        return []
    (choice,) = loop.body
    assert isinstance(choice, Choice)
    return choice.branches


def _chain(body: list[Item], chain: Loop, branches: list[Loop]) -> None:
    wanted = [b.key[2] if isinstance(b.key, tuple) else None for b in branches]
    for start in range(len(body) - len(wanted) + 1):
        loops = [x for x in body[start : start + len(wanted)] if _plain(x)]
        if [x.key for x in loops] != wanted or not _barriers(loops) & _barriers(branches):
            continue
        whole = Loop(chain.name, [Choice(loops)], chain.key, op=chain.op)
        whole.low, whole.high = sum(x.low for x in loops), sum(x.high for x in loops)
        for loop, branch in zip(loops, branches, strict=True):
            loop.key, loop.low, loop.high = branch.key, 0, 1
        body[start : start + len(wanted)] = [whole]
        return


def _plain(item: Item) -> bool:
    """Whether it is a counted loop that holds nothing but events."""
    return (
        isinstance(item, Loop)
        and isinstance(item.key, tuple)
        and item.key[:1] == ("for",)
        and all(isinstance(e, Event) for e in item.body)
    )


def _barriers(loops: list[Loop]) -> set[Hashable]:
    events = (e for loop in loops for e in loop.body if isinstance(e, Event))
    found = {getattr(e.act, "barrier", None) for e in events}
    return found - {None}


def _bodies(body: list[Item]) -> Iterator[list[Item]]:
    """All lists of items that a role has."""
    yield body
    for item in body:
        match item:
            case Event():
                continue
            case Choice():
                inner = [b.body for b in item.branches]
            case Beside():
                inner = [item.one, item.other]
            case Loop() | Sometimes():
                inner = [item.body]
        for one in inner:
            yield from _bodies(one)
