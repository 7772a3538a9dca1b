"""A hazard's proof as a certificate's chains: the steps that do something, by the ids of operations."""

from __future__ import annotations

from math import inf

from tkc.analysis.happens_before.distance import distance
from tkc.analysis.happens_before.graph import Node
from tkc.analysis.happens_before.labels import Label
from tkc.analysis.happens_before.verdicts import Hazard, Judge, Place
from tkc.ir.certificates import End, Link, Order, label

SILENT = frozenset({"po", "loop", "leave", "choice"})
"""Program order: what comes next does not need saying."""

BETWEEN = "read-between"


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
    found = [entry(forward, forward if first is second else _direct(judge, second, first, hazard))]
    names = {step.start for step in hazard.chain if step.rule == BETWEEN}
    for read in others:
        if not read.access.write and str(read) in names:
            forward = _through(judge, first, read, second, hazard)
            back = forward if first is second else _through(judge, second, read, first, hazard)
            if forward is not None or back is not None:
                found.append(entry(forward, back))
    return found


Chain = tuple[Link, ...] | None


def _direct(judge: Judge, first: Place, second: Place, hazard: Hazard) -> Chain:
    there, label, rule = distance(judge.reach(first), second.node, second.access, hazard.clock)
    if there == inf or label is None:
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
