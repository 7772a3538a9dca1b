"""What a proof rests on: the operations without which it would not stand."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

from xdsl.ir import Operation

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
from tkc.analysis.happens_before.graph import Node
from tkc.analysis.happens_before.labels import Label
from tkc.analysis.happens_before.lasting import behind, entered
from tkc.analysis.happens_before.verdicts import Hazard, Judge, Place, Verdict

Fence = ProxyFence | TensorFence | ThreadFence


def rests_on(judge: Judge, hazard: Hazard, others: list[Place]) -> frozenset[Operation] | None:
    """The fences, arrivals and waits without which a proof would not stand; None where it has several ways, of which a
    chain names one: where branches meet, or where arrivals of several sites make up an item. `others`: the accesses of
    the same memory."""
    if hazard.forward == -inf:
        return frozenset()
    if hazard.verdict is not Verdict.ORDERED:
        return None
    used: set[Operation] = set()
    for start, end in _ways(hazard, others):
        reach = judge.reach(start)
        _, label, _ = distance(reach, start, end, hazard.clock)
        if label is None:
            continue
        if (first := entered(label)) and behind(reach, first):
            return None  # and on what other branches say
        key = label, start.node
        if key not in reach.rests:
            reach.rests[key] = _of_chain(judge, label, start.node)
        of_chain = reach.rests[key]
        if of_chain is None:
            return None
        used |= of_chain
    return frozenset(used)


def _of_chain(judge: Judge, label: Label, origin: Node) -> frozenset[Operation] | None:
    """What the chain of a label rests on: it has the same steps for ever, and of an event only the kind is asked."""
    used: set[Operation] = set()
    for node, then, rule in label.chain(origin):
        act = node.event.act if node.event is not None else None
        told = isinstance(act, Arrive) and rule not in SILENT
        if rule == "choice" or (told and _gathered(judge, node)):
            return None
        if told or (isinstance(act, Fence) and rule != "po"):
            used.add(node.event.op)  # pyright: ignore
        elif isinstance(act, AwaitGroup) and rule not in SILENT:
            used.add(node.event.op)  # pyright: ignore
        if then.event is not None and isinstance(then.event.act, Wait) and rule not in SILENT:
            used.add(then.event.op)
    return frozenset(used)


def _ways(hazard: Hazard, others: list[Place]) -> Iterator[tuple[Place, Place]]:
    """From where to where the chains of a proof go: there and back, each also by a read that stands between."""
    first, second = hazard.first, hazard.second
    names = {step.start for step in hazard.chain if step.rule == BETWEEN}
    reads = [read for read in others if not read.access.write and str(read) in names]
    for start, end in {(first, second): None, (second, first): None}:
        yield start, end
        for read in reads:
            yield start, read
            yield read, end


def _gathered(judge: Judge, node: Node) -> bool:
    """Whether an arrival makes up the items of its barrier only together with others."""
    sites = judge.graph.sites_of.get(node, ())
    return not all(site.every or site.sometimes for _, site in sites)


def steps_of(hazard: Hazard) -> list[Event]:
    """The events on a hazard's chain."""
    nodes = [n for step in hazard.chain if step.nodes is not None for n in step.nodes]
    return [n.event for n in nodes if n.event is not None]
