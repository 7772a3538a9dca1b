"""From how many turns on one access comes after another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING

from tkc.analysis.guards import LANES
from tkc.analysis.happens_before import areas, automaton
from tkc.analysis.happens_before.automaton import PENDING, TO_ACQUIRE, Part
from tkc.analysis.happens_before.clocks import Clock, bound
from tkc.analysis.happens_before.events import Access, Threads
from tkc.analysis.happens_before.labels import Label
from tkc.analysis.happens_before.lasting import behind, entered, lasting
from tkc.analysis.happens_before.paths import Reach

if TYPE_CHECKING:
    from tkc.analysis.happens_before.verdicts import Place


def own(first: Access, second: Access, lanes: int = 1) -> bool:
    """Whether what a thread touches by one of two accesses of a role, no other of its threads touches by the other;
    with the `lanes` of a warp: no thread of another warp."""
    elements = first.element and second.element
    return (
        elements
        and first.area is not None
        and second.area is not None
        and areas.own(first.area, second.area, lanes)
    )


@dataclass(eq=False, slots=True)
class _Measured:
    """The least distance by the labels looked at so far. `doubtful`: those of which nothing says so far that they hold
    in more turns than those of one branch (`lasting.py`)."""

    best: tuple[float, Label | None, str] = (inf, None, "")
    looked: int = 0
    doubtful: list[tuple[float, Label, str]] = field(default_factory=list[tuple[float, Label, str]])


def distance(
    reach: Reach, first: Place, second: Place, clock: Clock, plain: bool = False
) -> tuple[float, Label | None, str]:
    """The least d such that the second access comes after the first, whose labels `reach` is, from d counts of `clock`
    on; with the label and the rule that say so. `plain`: as if there were one proxy."""
    key = (first, second, clock, plain)
    found = reach.measured.get(key)
    if found is None:
        found = reach.measured[key] = _Measured()
        begun = list(_begun(reach, first, second))
        if begun:
            _measure(found, begun, reach, first, second, clock, plain)
    labels = reach.at(second.node)
    if len(labels) > found.looked:
        _measure(found, labels[found.looked :], reach, first, second, clock, plain)
        found.looked = len(labels)
    if found.doubtful:
        for way in list(found.doubtful):
            if holds_on(reach, way[1]):
                found.doubtful.remove(way)
                found.best = min(found.best, way, key=lambda w: w[0])
    return found.best


def holds_on(reach: Reach, label: Label) -> bool:
    """Whether a label holds from its position on, and not only in turns of one branch."""
    first = entered(label)
    after = behind(reach, first) if first is not None else None
    return after is None or first is None or lasting(reach, first, after) is not None


def known_at(reach: Reach, first: Place, second: Place) -> list[Label]:
    """What is known of the first access where the second is, so far."""
    return [*_begun(reach, first, second), *reach.at(second.node)]


def _begun(reach: Reach, first: Place, second: Place) -> Iterator[Label]:
    """What is known at an access that stands between the first and what its labels begin with; where any proof will
    do, also in other turns of one body, whose steps need not be followed for what was known to begin with."""
    one, other = first.node, second.node
    if other in reach.graph.entry(one)[1]:
        for label in reach.begun:
            yield Label(other, label.state, label.position, "po", label)
    elif reach.hasty and one.role is other.role and one.loops == other.loops:
        if one.turns is None and other.turns is None:
            later = int(one.segment is not other.segment or one.place >= other.place)
            for label in reach.begun:
                yield Label(other, label.state, ((one.path[-1], later),), "po", label)


def _measure(
    found: _Measured, labels: list[Label], reach: Reach, first: Place, second: Place, clock: Clock, plain: bool
) -> None:  # fmt: skip
    """Looks at more labels."""
    node, access, event, threads = second.node, second.access, second.event, first.node.threads
    home = node.role is first.node.role
    mine = home and threads is not Threads.ONE and own(first.access, access)
    same = home and (
        threads is Threads.ONE
        or mine
        or (first.access.part is not None and first.access.part == access.part)
    )
    path, counted, cta = first.node.path, clock in first.node.path, node.role.cta
    for label in labels:
        state = label.state
        all_know = automaton.within(threads, state.who)
        if not automaton.within(node.threads, state.who) and not (mine and all_know):
            continue
        if state.part != Part.FULL and not (same and all_know):
            of_warp = reach.hasty and home and state.part == Part.WARP
            if not (of_warp and own(first.access, access, LANES)):
                continue
        if plain:
            rule = "po" if state.name not in PENDING and state.fence not in TO_ACQUIRE else None
        else:
            rule = automaton.accepts(state, reach.source, first.access, access, event, cta)
        if rule is None:
            continue
        d = bound(label.position, clock, counted, path)
        if d < found.best[0]:
            if reach.graph.after_choice and not holds_on(reach, label):
                found.doubtful.append((d, label, rule))
                continue
            found.best = (d, label, rule)
