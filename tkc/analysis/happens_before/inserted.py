"""A graph that has been built, with fences that are put in later, and after operations have got other forms."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise

from xdsl.ir import Operation

from tkc.analysis.happens_before.events import (
    Arrive,
    Beside,
    Choice,
    Event,
    Item,
    Loop,
    ProxyFence,
    Sometimes,
    Wait,
)
from tkc.analysis.happens_before.graph import PLAIN, Graph, Node, has_halves
from tkc.analysis.happens_before.matters import Matters
from tkc.analysis.happens_before.nodes import straighten
from tkc.analysis.happens_before.operations import proxy_fence, restated
from tkc.ir.certificates import label


def put_before(graph: Graph, fences: Mapping[Operation, Operation]) -> dict[Operation, list[Event]]:
    """Puts a fence in front of each of some operations; gives its events, one wherever the operation has some."""
    found: dict[Operation, list[Event]] = {}
    for role in graph.program.roles:
        for body in list(_bodies(role.body)):
            for last, event in pairwise([None, *body]):
                if not isinstance(event, Event) or event.op not in fences:
                    continue
                if isinstance(last, Event) and last.op is event.op:
                    continue  # another event of the same execution
                fence = fences[event.op]
                made = Event(label(fence), event.threads, (), proxy_fence(fence), fence)
                _put(graph, body, event, made)
                found.setdefault(fence, []).append(made)
    graph.one_way = has_halves(graph.program)
    return found


def restate(graph: Graph, changed: Iterable[Operation]) -> None:
    """Gives events what their operations now do, which may have got another space, scope or order, and forgets what the
    graph has kept of what they did and whom they told."""
    away, nodes = set(changed), set[Node]()
    for role in graph.program.roles:
        for event in role.events():
            if event.op in away:
                event.act = restated(event)
                node = graph.node_of[event]
                node.restate()
                nodes.add(node)
    acts = {type(node.event.act) for node in nodes if node.event is not None}
    if ProxyFence in acts:
        _refence(graph)
    handed = not acts.isdisjoint({Arrive, Wait})
    for alike in graph.alike.values():
        for kept in (alike.steps, alike.told):
            for node, state in list(kept):
                if handed or node in nodes:
                    del kept[node, state]


def _refence(graph: Graph) -> None:
    """Forgets what asks for spaces and halves of proxy fences: where searches stop that nobody asks for chains."""
    graph.one_way = has_halves(graph.program)
    for what in [what for what in graph.ways if isinstance(what, Matters)]:
        del graph.ways[what]
    for key in [key for key, alike in graph.alike.items() if alike.brief]:
        del graph.alike[key]


def _put(graph: Graph, body: list[Item], event: Event, fence: Event) -> None:
    """Adds a fence in front of an event of a body, and to program order: the threads that come to the one come to the
    other."""
    node = graph.node_of[event]
    body.insert(body.index(event), fence)
    made = Node(node.role, fence, node.path, node.threads, node.loops, node.turns)
    for before in graph.nodes:
        before.next = [(made if n is node else n, kind, clock) for n, kind, clock in before.next]
    made.next = [(node, PLAIN, None)]
    graph.nodes.insert(graph.nodes.index(node), made)
    graph.node_of[fence] = made
    straighten(graph.nodes)
    graph.ways.clear()
    graph.alike.clear()
    graph.entries.clear()


def _bodies(body: list[Item]) -> Iterator[list[Item]]:
    """A body, and those in it."""
    yield body
    for item in body:
        if isinstance(item, Choice):
            inner = [branch.body for branch in item.branches]
        elif isinstance(item, Beside):
            inner = [item.one, item.other]
        else:
            inner = [item.body] if isinstance(item, Loop | Sometimes) else []
        for one in inner:
            yield from _bodies(one)
