"""From how many turns on one access comes after another."""

from __future__ import annotations

from math import inf

from tkc.analysis.happens_before import automaton
from tkc.analysis.happens_before.areas import own
from tkc.analysis.happens_before.automaton import PENDING, TO_ACQUIRE, Part
from tkc.analysis.happens_before.clocks import Clock, bound
from tkc.analysis.happens_before.events import Access, Threads
from tkc.analysis.happens_before.graph import Node
from tkc.analysis.happens_before.labels import Label
from tkc.analysis.happens_before.paths import Reach


def _own(first: Access, second: Access) -> bool:
    """Whether what a thread touches by one of two accesses of a role, no other of its threads touches by the other."""
    elements = first.element and second.element
    return (
        elements
        and first.area is not None
        and second.area is not None
        and own(first.area, second.area)
    )


def distance(
    reach: Reach, node: Node, access: Access, clock: Clock, plain: bool = False
) -> tuple[float, Label | None, str]:
    """The least d such that the access of every instance of `node` from d counts of `clock` on comes after the source;
    with the label and the rule that say so. `plain`: as if there were one proxy."""

    best: tuple[float, Label | None, str] = (inf, None, "")
    event = node.event
    assert event is not None
    source = reach.source
    home = node.role is reach.origin.role
    mine = home and source.threads is not Threads.ONE and _own(source.access, access)
    same = home and (
        source.threads is Threads.ONE
        or mine
        or (source.access.part is not None and source.access.part == access.part)
    )
    for kept in reach.labels.get(node, {}).values():
        for label in kept:
            state = label.state
            all_know = automaton.within(source.threads, state.who)
            if not automaton.within(node.threads, state.who) and not (mine and all_know):
                continue
            if state.part != Part.FULL and not (same and all_know):
                continue
            if plain:
                rule = "po" if state.name not in PENDING and state.fence not in TO_ACQUIRE else None
            else:
                rule = automaton.accepts(state, source, access, event, node.role.cta)
            if rule is None:
                continue
            path = reach.origin.path
            d = bound(label.position, clock, clock in path, path)
            if d < best[0]:
                best = (d, label, rule)
    return best
