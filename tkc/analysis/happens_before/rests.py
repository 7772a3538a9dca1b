"""What a proof rests on: the operations without which it would not stand."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

from xdsl.ir import Operation

from tkc.analysis.happens_before.automaton import implies
from tkc.analysis.happens_before.chains import BETWEEN, SILENT
from tkc.analysis.happens_before.distance import distance
from tkc.analysis.happens_before.events import (
    Arrive,
    AwaitGroup,
    Event,
    ProxyFence,
    TensorFence,
    ThreadFence,
    Wait,
)
from tkc.analysis.happens_before.graph import CHOICE, Node
from tkc.analysis.happens_before.labels import Group, Label
from tkc.analysis.happens_before.lasting import behind, entered, lasting
from tkc.analysis.happens_before.paths import Reach
from tkc.analysis.happens_before.verdicts import Hazard, Judge, Place, Verdict

Fence = ProxyFence | TensorFence | ThreadFence


def rests_on(judge: Judge, hazard: Hazard, others: list[Place]) -> frozenset[Operation] | None:
    """The fences, arrivals and waits without which a proof may not stand; None where there is none, or where a way that
    it says is not found any more. `others`: the accesses of the same memory."""
    if hazard.forward == -inf:
        return frozenset()
    if hazard.verdict is not Verdict.ORDERED:
        return None
    first, second = hazard.first, hazard.second
    between = [step.start for step in hazard.chain if step.rule == BETWEEN]
    reads = [x for x in others if between and not x.access.write and str(x) in between]
    used, through = set[Operation](), 0
    directions = {(first, second): hazard.forward, (second, first): hazard.back}
    for (start, end), far in directions.items():
        direct = _of_way(judge, hazard, start, end)
        if direct is None and far < inf:
            return None
        used.update(direct or ())
        for read in reads:
            ways = _of_way(judge, hazard, start, read), _of_way(judge, hazard, read, end)
            through += None not in ways
            used.update(*(way for way in ways if way is not None))
    return frozenset(used) if through >= len(between) else None


def _of_way(judge: Judge, hazard: Hazard, start: Place, end: Place) -> frozenset[Operation] | None:
    """What the way from one access to another rests on; None where there is none."""
    reach = judge.reach(start)
    _, label, _ = distance(reach, start, end, hazard.clock)
    if label is None:
        return None
    key = label, start.node
    if key not in reach.rests:
        reach.rests[key] = _of_label(judge, reach, label, start.node)
    return reach.rests[key]


def _of_label(judge: Judge, reach: Reach, label: Label, origin: Node) -> frozenset[Operation]:
    """What all chains rest on by which a label has become known: it has the same steps for ever, and of an event only
    the kind is asked."""
    used, left, seen = set[Operation](), [label], set[Label]()
    if (first := entered(label)) and (after := behind(reach, first)):
        left += [x for x in (lasting(reach, first, after),) if x is not None]
    while left:
        at = left.pop()
        while at.before is not None and at not in seen:
            seen.add(at)
            before = at.before
            start = before.node if before.before is not None else origin
            used |= _of_step(start, at.node, at.rule)
            if at.rule == CHOICE:
                left += _in_branches(reach, at)
            elif at.rule not in SILENT and _gathered(judge, start):
                for node, known in _together(reach, at, start):
                    used |= _of_step(node, at.node, at.rule)
                    left.append(known)
            at = before
    return frozenset(used)


def _of_step(node: Node, then: Node, rule: str) -> set[Operation]:
    """What one step rests on."""
    found: set[Operation] = set()
    act = node.event.act if node.event is not None else None
    if (isinstance(act, Fence) and rule != "po") or (
        isinstance(act, Arrive | AwaitGroup) and rule not in SILENT
    ):
        found.add(node.event.op)  # pyright: ignore
    if then.event is not None and isinstance(then.event.act, Wait) and rule not in SILENT:
        found.add(then.event.op)
    return found


def _in_branches(reach: Reach, label: Label) -> Iterator[Label]:
    """What all branches of a choice knew, of what a label behind it says."""
    clocks = tuple([clock for clock, _ in label.position])
    for state, branches in reach.choices.get((label.node, clocks), {}).items():
        if implies(state, label.state):
            for known in branches.values():
                yield from (one for _, one in known)


def _together(reach: Reach, label: Label, arrival: Node) -> Iterator[tuple[Node, Label]]:
    """The arrivals that make up the items of a barrier, by one of which a label has come, and what each knew."""
    act = arrival.event.act if arrival.event is not None else None
    assert isinstance(act, Arrive)
    for site, known in reach.groups.get(
        Group(arrival.role, act.barrier, label.state[:3]), {}
    ).items():
        yield from ((site.node, one) for _, one in known)


def _gathered(judge: Judge, node: Node) -> bool:
    """Whether a node is an arrival that makes up the items of its barrier only together with others."""
    if node.event is None or not isinstance(node.event.act, Arrive):
        return False
    sites = judge.graph.sites_of.get(node, ())
    return not all(site.every or site.sometimes for _, site in sites)


def steps_of(hazard: Hazard) -> list[Event]:
    """The events on a hazard's chain."""
    nodes = [n for step in hazard.chain if step.nodes is not None for n in step.nodes]
    return [n.event for n in nodes if n.event is not None]
