"""Whether all roles come to the barriers of the cluster as often as one another, and not twice without a wait."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator

from tkc.analysis.happens_before.events import Event, Item, Loop, Meet, Role
from tkc.analysis.happens_before.graph import Graph, Node
from tkc.analysis.happens_before.report import Finding
from tkc.analysis.moments import finding_at


def check_cluster_barriers(graph: Graph) -> Iterator[Finding]:
    """What is sure to be wrong with a role's arrivals at barriers of the cluster, and with its waits there."""
    coming = [n for n in graph.nodes if n.event is not None and _act(n.event) is not None]
    if not coming:
        return
    for role in dict.fromkeys(n.role for n in coming):
        arrived, halves = _wrong_halves(role.body, False)
        wrong = next(halves, None)
        if wrong is None and arrived:
            last = [n.event for n in coming if n.role is role and n.event is not None][-1]
            wrong = (
                last,
                f"{last.told} arrives at the barrier of the cluster, and role {role.name} ends without a wait",
            )
        if wrong is not None:
            event, message = wrong
            yield finding_at("TK305", graph.node_of[event], message)
            return
    yield from _more_often(coming)


def _act(event: Event) -> Meet | None:
    act = event.act
    return act if isinstance(act, Meet) and act.among == "cluster" else None


def _wrong_halves(
    body: list[Item], arrived: bool
) -> tuple[bool | None, Iterator[tuple[Event, str]]]:
    """Whether a role has arrived and not waited after a body, if that is sure; and halves in the wrong order."""
    found: list[tuple[Event, str]] = []
    state: bool | None = arrived
    for item in body:
        if state is None:
            break
        if isinstance(item, Event):
            act = _act(item)
            if act is None:
                continue
            if state and act.does != "wait":
                found.append(
                    (
                        item,
                        f"{item.told} arrives at the barrier of the cluster again before a wait for it",
                    )
                )
            state = act.does == "arrive"
        elif isinstance(item, Loop):
            after, more = _wrong_halves(item.body, state)
            found += more
            if after and not state and item.high > 1:  # what the next turn finds
                found += _wrong_halves(item.body, after)[1]
            state = state if after == state else None
        elif any(_act(event) is not None for event in Role("", [item]).events()):
            state = None
    return state, iter(found)


def _more_often(coming: list[Node]) -> Iterator[Finding]:
    """Barriers that roles which come to them in the same loops do not come to as often: a thread that has ended counts
    as one that comes, so that nobody waits for ever."""
    turns: dict[Role, Counter[Hashable]] = {}
    last: dict[Role, Node] = {}
    for node in coming:
        assert node.event is not None
        act = _act(node.event)
        if act is not None and act.does != "wait":
            keys = tuple(loop.key for loop in node.loops)
            if node.turns is not None or None in keys:
                return
            turns.setdefault(node.role, Counter())[keys] += 1
            last[node.role] = node
    first, *others = turns
    for role in others:
        mine, its = turns[first], turns[role]
        if mine.keys() == its.keys() and mine != its:
            more, fewer = (first, role) if mine.total() > its.total() else (role, first)
            yield finding_at(
                "TK305",
                last[more],
                f"role {more.name} comes to {turns[more].total()} barriers of the cluster where role {fewer.name} "
                f"comes to {turns[fewer].total()}: all threads have to come to each",
            )
            return
