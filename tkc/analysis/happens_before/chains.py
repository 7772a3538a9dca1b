"""A hazard's proof as a certificate's chains: the steps that do something, by the ids of operations."""

from __future__ import annotations

from math import inf

from tkc.analysis.happens_before.graph import Node
from tkc.analysis.happens_before.paths import Label
from tkc.analysis.happens_before.verdicts import Hazard, Judge, Place
from tkc.ir.certificates import End, Link, Order, label

SILENT = frozenset({"po", "loop", "leave", "choice"})
"""Program order: what comes next does not need saying."""

BETWEEN = "read-between"


def end_of(node: Node) -> End:
    """A node as certificates name it."""
    event, role = node.event, node.role
    return End(label(event.op) if event is not None else "", role.name.split("[")[0].split(" ")[0], role.copy, role.cta)


def order(judge: Judge, hazard: Hazard, others: list[Place]) -> Order:
    """The certificate's entry of a hazard that is in order; `others`: the accesses of the same memory."""
    first, second = hazard.first, hazard.second
    ends = end_of(first.node), end_of(second.node)
    operands = first.access.operand, second.access.operand
    return Order(*ends, operands, first.access.owner, *_chains(judge, hazard, others))


Chain = tuple[Link, ...] | None


def _chains(judge: Judge, hazard: Hazard, others: list[Place]) -> tuple[Chain, Chain]:
    first, second, clock = hazard.first, hazard.second, hazard.clock
    if hazard.forward == -inf:  # their slots never meet
        return None, None
    if any(step.rule == BETWEEN for step in hazard.chain):
        names = {step.start for step in hazard.chain if step.rule == BETWEEN}
        for read in others:
            if read.access.write or str(read) not in names:
                continue
            forward = _through(judge, first, read, second, hazard)
            back = forward if first is second else _through(judge, second, read, first, hazard)
            if forward is not None or back is not None:
                direct = _direct(judge, first, second, hazard), _direct(judge, second, first, hazard)
                return forward or direct[0], back or direct[1]
    forward = _direct(judge, first, second, hazard)
    return forward, forward if first is second else _direct(judge, second, first, hazard)


def _direct(judge: Judge, first: Place, second: Place, hazard: Hazard) -> Chain:
    distance, label, rule = judge.distance(first, second, hazard.clock)
    if distance == inf or label is None:
        return None
    return _links(label, rule, second)


def _through(judge: Judge, first: Place, read: Place, second: Place, hazard: Hazard) -> Chain:
    there, back = _direct(judge, first, read, hazard), _direct(judge, read, second, hazard)
    if there is None or back is None:
        return None
    at = end_of(read.node)
    return (*there, Link(at, at, BETWEEN), *back)


def _links(label: Label, rule: str, end: Place) -> tuple[Link, ...]:
    found: list[Link] = []
    at: Label | None = label
    while at is not None and at.before is not None:
        if at.rule not in SILENT:
            found.append(Link(end_of(at.before.node), end_of(at.node), at.rule))
        at = at.before
    found.reverse()
    return (*found, Link(end_of(label.node), end_of(end.node), rule))

