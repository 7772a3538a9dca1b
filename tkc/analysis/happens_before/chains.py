"""A hazard's proof as a certificate's chains: the steps that do something, by the ids of operations."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from itertools import islice, zip_longest
from math import inf

from tkc.analysis.happens_before.automaton import implies
from tkc.analysis.happens_before.clocks import Position
from tkc.analysis.happens_before.distance import distance
from tkc.analysis.happens_before.events import Arrive
from tkc.analysis.happens_before.graph import CHOICE, Node
from tkc.analysis.happens_before.labels import Label, earliest
from tkc.analysis.happens_before.lasting import behind, entered, lasting
from tkc.analysis.happens_before.paths import Reach
from tkc.analysis.happens_before.verdicts import Hazard, Judge, Place
from tkc.ir.certificates import End, Link, Order, label

SILENT = frozenset({"po", "loop", "leave", CHOICE})
"""Program order: what comes next does not need saying."""

BETWEEN = "read-between"

MOST_WAYS = 8
"""Chains of one pair in one direction: arrivals of several sites make up the items of a barrier, and branches of a
choice come to know the same in several ways."""


def end_of(node: Node) -> End:
    """A node as certificates name it."""
    event, role = node.event, node.role
    return End(
        label(event.op) if event is not None else "",
        role.declared or role.name,
        role.copy,
        role.cta,
    )


def orders(judge: Judge, hazard: Hazard, others: list[Place], model: str) -> list[Order]:
    """The certificate's entries of a hazard that is in order; `others`: the accesses of the same memory."""
    first, second = hazard.first, hazard.second
    operands = first.access.operand, second.access.operand

    def entry(forward: Chain, back: Chain) -> Order:
        return Order(
            end_of(first.node),
            end_of(second.node),
            operands,
            first.access.owner,
            forward,
            back,
            model,
        )

    if hazard.forward == -inf:  # their slots never meet
        return [entry(None, None)]
    forward = _direct(judge, first, second, hazard)
    back = forward if first is second else _direct(judge, second, first, hazard)
    found = [entry(*ways) for ways in zip_longest(forward, back)] or [entry(None, None)]
    names = {step.start for step in hazard.chain if step.rule == BETWEEN}
    for read in others:
        if not read.access.write and str(read) in names:
            through = _through(judge, first, read, second, hazard)
            back = through if first is second else _through(judge, second, read, first, hazard)
            found += [entry(*ways) for ways in zip_longest(through, back)]
    return found


Chain = tuple[Link, ...] | None


def _direct(judge: Judge, first: Place, second: Place, hazard: Hazard) -> list[tuple[Link, ...]]:
    """The chains from an access to the other; none where there is no such way."""
    reach = judge.reach(first)
    there, label, rule = distance(reach, first, second, hazard.clock)
    if there == inf or label is None:
        return []
    last = Link(end_of(label.node), end_of(second.node), rule)
    ways = dict.fromkeys(islice(_ways(reach, label, first.node), MOST_WAYS))
    found = [(*steps, last) for steps in ways]
    for steps in islice(_by_choice(reach, label, first.node), MOST_WAYS):
        found.append((*steps, last))
    return found


def _by_choice(reach: Reach, label: Label, origin: Node) -> Iterator[tuple[Link, ...]]:
    """The steps for turns later than that of the branch that a label has been told in: by what holds after the choice,
    then those of the branch, less the fences that this has behind it."""
    first = entered(label)
    after = behind(reach, first) if first is not None else None
    known = lasting(reach, first, after) if first is not None and after is not None else None
    if known is None or first is None:
        return
    steps: list[Link] = []
    at = label
    while at is not first and at.before is not None:
        fenced = at.rule == "thread-fence" and known.state.fence != first.state.fence
        if at.rule not in SILENT and not fenced:
            steps.insert(0, Link(end_of(at.before.node), end_of(at.node), at.rule))
        at = at.before
    for before in _ways(reach, known, origin):
        yield (*before, *steps)


def _through(
    judge: Judge, first: Place, read: Place, second: Place, hazard: Hazard
) -> list[tuple[Link, ...]]:
    at = end_of(read.node)
    ways = _direct(judge, first, read, hazard), _direct(judge, read, second, hazard)
    both = [(*there, Link(at, at, BETWEEN), *back) for there in ways[0] for back in ways[1]]
    return both[:MOST_WAYS]


def _ways(reach: Reach, label: Label, origin: Node) -> Iterator[tuple[Link, ...]]:
    """The steps of a label's chain; and where it goes through an arrival of one of several sites, or a branch of a
    choice, those through each of the others, whose items or turns it does not have."""
    steps: list[Link] = []
    turns: list[tuple[Label, tuple[Link, ...], int]] = []
    at = label
    while at.before is not None:
        if at.rule == CHOICE:
            turns += [(other, (), len(steps)) for other in _in_other_branches(reach, at)]
        elif at.rule not in SILENT:
            turns += [
                (other, (Link(end_of(other.node), end_of(at.node), at.rule),), len(steps))
                for other in _beside(reach, at)
            ]
            start = at.before.node if at.before.before is not None else origin
            steps.append(Link(end_of(start), end_of(at.node), at.rule))
        at = at.before
    steps.reverse()
    yield tuple(steps)
    for other, link, left in turns:
        for before in _ways(reach, other, origin):
            yield (*before, *link, *steps[len(steps) - left :])


def _in_other_branches(reach: Reach, label: Label) -> Iterator[Label]:
    """What the other branches of a choice knew, of which a label behind it follows one: those that came to know it by
    steps of other forms. Steps of the same forms need no telling: a step of one branch stands for its like in another.
    """
    told = label.before
    assert told is not None
    given: dict[Node, list[tuple[Position, Label]]] = {}
    for (node, _), store in reach.choices.items():
        for state, branches in store.items() if node is label.node else ():
            for end, known in branches.items() if implies(state, label.state) else ():
                if end is not told.node:
                    given.setdefault(end, []).extend(known)
    mine = _forms(told)
    for known in given.values():
        for first in earliest(position for position, _ in known):
            other = next(one for at, one in known if at == first)
            if _forms(other) != mine:
                yield other


def _forms(label: Label) -> list[tuple[Hashable, ...]]:
    """The forms of the steps that led to a label: their rules, and how the acts at both ends order."""
    found: list[tuple[Hashable, ...]] = []
    while label.before is not None:
        if label.rule not in SILENT:
            found.append((label.rule, *_form(label.before.node), *_form(label.node)))
        label = label.before
    return found


def _form(node: Node) -> tuple[Hashable, ...]:
    act = node.event.act if node.event is not None else None
    return type(act), *(getattr(act, name, None) for name in ("barrier", "sem", "scope"))


def _beside(reach: Reach, label: Label) -> Iterator[Label]:
    """What the other sites knew whose arrivals make up the items of a barrier, where a label came by one of them."""
    before = label.before
    act = before.node.event.act if before is not None and before.node.event is not None else None
    if before is None or not isinstance(act, Arrive):
        return
    for group, sites in reach.groups.items():
        told = (before.node.role, act.barrier, label.state[:3])
        if group != told or not any(site.node is before.node for site in sites):
            continue
        for site, known in sites.items():
            if site.node is not before.node:
                first = earliest(position for position, _ in known)
                yield from (next(one for at, one in known if at == f) for f in first)
