"""Whether a kernel that may start before the grid ahead of it has ended waits for it before it touches global memory.

`griddepcontrol.wait` is for its thread; others know of it by a chain of releases and acquires, not through the bytes
of a copy. `launch_dependents` orders nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Set

from tkc.analysis.happens_before.automaton import TO_ACQUIRE, Part, Source, within
from tkc.analysis.happens_before.clocks import bound
from tkc.analysis.happens_before.events import Access, Event, GridWait, Threads
from tkc.analysis.happens_before.graph import Graph, Node
from tkc.analysis.happens_before.paths import Reach
from tkc.analysis.happens_before.report import Finding
from tkc.analysis.happens_before.rules import PRACTICE
from tkc.analysis.moments import FEW, finding_at
from tkc.ir.isa.memory import Space

_TENSORS = "global memory"


def check_dependent(graph: Graph, without: Set[Event] = frozenset()) -> Iterator[Finding]:
    """Accesses of global memory that nothing keeps behind a wait for the grids ahead; `without`: events that are taken
    as absent."""
    if not graph.program.dependent:
        return
    grid_waits = [n for n in graph.nodes if n.event and isinstance(n.event.act, GridWait)]
    waits = [_after(graph, n, frozenset(without)) for n in grid_waits]
    for node in graph.nodes:
        if node.event is None or graph.symmetry.mirrors(node.role):
            continue
        if all([a.space is not Space.GLOBAL for a in node.event.accesses]):
            continue
        own = [reach for reach in waits if reach.origin.role is node.role]  # what is nearest first
        if not (_ever_known(own, node) or _ever_known(waits, node)):
            yield finding_at(
                "TK318",
                node,
                f"role {node.role.name} touches global memory in {node.event.told} without knowing that the grids "
                "ahead have ended: `wait pdl` before it, in this role or in one that it then waits for",
            )


def _after(graph: Graph, node: Node, without: frozenset[Event]) -> Reach:
    """Who knows that some thread has waited."""
    assert node.event is not None
    access = Access(Space.GLOBAL, _TENSORS, True)
    source = Source(access, node.event, Threads.ONE, node.role.cta, node.role.cta, PRACTICE)
    return Reach(graph, source, node, without, most=graph.limit, whoever=True)


def _ever_known(waits: list[Reach], node: Node) -> bool:
    """Whether the threads of a node know of one of the waits, as far as these are followed until then."""
    while not any(_known(reach, node) for reach in waits):
        if not any([reach.advance(node.role, FEW) for reach in waits]):
            return False
    return True


def _known(reach: Reach, node: Node) -> bool:
    """Whether the threads of a node know it, each time that they come to it: that there was a wait, and that it was
    before."""
    kernel, wait = reach.graph.kernel, reach.origin
    if wait.turns not in (None, node.turns):
        return False
    if any(clock.low < 1 for clock in wait.path if clock not in node.path):
        return False  # a wait under a condition, or in a loop, that there may not be
    for x in reach.at(node):
        own = x.state.part == Part.FULL or node.role is reach.origin.role
        seen = x.state.name == "gen" and x.state.fence not in TO_ACQUIRE
        if seen and own and within(node.threads, x.state.who):
            if bound(x.position, kernel, True) <= 0 or _always(x.position):
                return True
    return False


def _always(position: object) -> bool:
    """Whether a position is that of the first count of its clocks."""
    return all(offset <= 0 for _, offset in position)  # pyright: ignore
