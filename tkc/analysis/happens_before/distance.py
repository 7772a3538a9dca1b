"""From how many turns on one access comes after another."""

from __future__ import annotations

from math import inf

from tkc.analysis.happens_before import automaton
from tkc.analysis.happens_before.automaton import PENDING, Part
from tkc.analysis.happens_before.clocks import Clock, bound
from tkc.analysis.happens_before.events import Access, Threads
from tkc.analysis.happens_before.graph import Node
from tkc.analysis.happens_before.labels import Label
from tkc.analysis.happens_before.paths import Reach


def distance(
    reach: Reach, node: Node, access: Access, clock: Clock, plain: bool = False
) -> tuple[float, Label | None, str]:
    """The least d such that the access of every instance of `node` from d counts of `clock` on comes after the source;
    with the label and the rule that say so. `plain`: as if there were one proxy."""

    best: tuple[float, Label | None, str] = (inf, None, "")
    event = node.event
    assert event is not None
    source = reach.source
    same = node.role is reach.origin.role and (
        source.threads is Threads.ONE
        or (source.access.part is not None and source.access.part == access.part)
    )
    for kept in reach.labels.get(node, {}).values():
        for label in kept:
            state = label.state
            if not automaton.within(node.threads, state.who):
                continue
            if state.part != Part.FULL and not (
                same and automaton.within(source.threads, state.who)
            ):
                continue
            if plain:
                rule = "po" if state.name not in PENDING and state.fence != 2 else None
            else:
                rule = automaton.accepts(state, source, access, event, node.role.cta)
            if rule is None:
                continue
            d = bound(label.position, clock, clock in reach.origin.path)
            if d < best[0]:
                best = (d, label, rule)
    return best
