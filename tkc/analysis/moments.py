"""What comes after a moment of a role, in fact: whatever proxies, and waits that wait for themselves."""

from __future__ import annotations

from collections.abc import Iterator

from tkc.analysis.circles import Circles
from tkc.analysis.guards import LANES
from tkc.analysis.happens_before.automaton import PENDING, Source, State, both
from tkc.analysis.happens_before.clocks import Position, bound
from tkc.analysis.happens_before.events import Access, Meet, Some, Threads, Turns, Wait, Who
from tkc.analysis.happens_before.graph import Graph, Node, Site
from tkc.analysis.happens_before.labels import Label
from tkc.analysis.happens_before.paths import Reach
from tkc.analysis.happens_before.report import Finding
from tkc.analysis.happens_before.rules import PRACTICE
from tkc.analysis.remedies import FREE
from tkc.ir.isa.memory import Space

FEW = 2
"""Labels that are followed at a time where most questions are answered after few."""


def after(
    graph: Graph,
    node: Node,
    any_thread: bool = False,
    turns: Turns | None = None,
    by_warps: bool = True,
) -> Reach:
    """What comes after a node's event: as an access through the generic proxy that every later one would have to see.

    `any_thread`: after the event of any of its threads, and by any of several arrivals. `turns`: those of the event's
    loop that are asked about. `by_warps`: the event is one that the lanes of a warp go through together, a wait.
    """
    key = (node, any_thread, turns, by_warps)
    if key not in graph.moments:
        source = _moment(node, any_thread, graph.assumed, by_warps)
        graph.moments[key] = Reach(
            graph, source, node, any_site=any_thread, moment=True, most=graph.limit,
            turns=turns or node.turns,
        )  # fmt: skip
    return graph.moments[key]


def soon_after(graph: Graph, node: Node, turns: Turns | None) -> Reach | None:
    """The first of what comes after a wait of any thread, as far as it has been followed to find deadlocks."""
    return graph.moments.get(node) if turns in (None, node.turns) else None


def _moment(
    node: Node, any_thread: bool, assumed: frozenset[str] = PRACTICE, by_warps: bool = True
) -> Source:
    event = node.event
    assert event is not None
    threads = node.threads
    if any_thread and node.threads in _KNOWN:
        threads = Threads.ONE
    elif by_warps and "A23" in assumed:
        threads = _by_warps(node)
    access = Access(Space.BARRIER, "moment", True)
    return Source(access, event, threads, node.role.cta, node.role.cta, PRACTICE)


_KNOWN = frozenset[Who]({Threads.ONE, Threads.WARP, Threads.LANE, Threads.ALL})
_ONE_OF_A_WARP: dict[Who, Who] = {Threads.ALL: Threads.LANE, Threads.WARP: Threads.ONE}


def _by_warps(node: Node) -> Who:
    """The lanes of a warp go through waits together (A23), so that one stands for them."""
    if isinstance(node.threads, Some) and node.threads.members:
        first = {t // LANES: t for t in sorted(node.threads.members, reverse=True)}
        return Some(node.threads, frozenset(first.values()))
    threads = _ONE_OF_A_WARP.get(node.threads, node.threads)
    return Threads.ONE if node.role.warps == 1 and threads is Threads.LANE else threads


def known_at(reach: Reach, node: Node) -> Iterator[tuple[State, Position]]:
    """What is known at a node, and from when on."""
    for label in reach.at(node):
        if label.state.name not in PENDING:  # products behind the moment are still under way
            yield label.state, label.position


def deadlocks(graph: Graph) -> list[Finding]:
    """Waits that come after themselves: a cycle of waits in which no slot is left over."""
    found: list[Finding] = []
    seen: set[Node] = set()
    circles = Circles(graph)
    for ring in graph.rings.values():
        for wait in ring.waits:
            if wait.node in seen or graph.symmetry.mirrors(wait.node.role):
                continue
            if not circles.may_have(wait):
                continue
            if not list(_behind_itself(graph, wait, False)):
                continue
            labels = list(_behind_itself(graph, wait, True))
            if not labels:  # it stops more often, and may find less
                continue
            nodes = [
                n
                for _, n, rule in labels[0].chain(wait.node)
                if rule not in ("po", "loop", "leave", "choice")
            ]
            seen |= set(nodes)
            roles = list(dict.fromkeys(n.role.name for n in [wait.node, *nodes]))
            awaited = list(
                dict.fromkeys(
                    n.event.told_at
                    for n in [wait.node, *nodes]
                    if n.event is not None and isinstance(n.event.act, Wait)
                )
            )
            found.append(
                finding_at(
                    "TK314",
                    wait.node,
                    f"roles {' and '.join(roles)} wait for one another for ever: {', '.join(awaited)} "
                    "each come before what completes the other, with no slot left over",
                    FREE if all("." not in at for at in awaited) else "",
                )
            )
    return found or list(_crosswise(graph, circles))


def _crosswise(graph: Graph, circles: Circles) -> Iterator[Finding]:
    """A barrier of threads that a role only comes to when another, which waits for it there, has gone on."""
    for sites in graph.meetings.values():
        for here in sites:
            act = _met(here)
            if act.among != "cta" or act.does != "sync" or here.after:
                continue
            if graph.symmetry.mirrors(here.node.role) or not circles.may_have(here):
                continue
            reach = _going_on(graph, here)
            for there in sites:
                if _met(there).does != "wait" and _too_late(reach, here, there):
                    yield finding_at(
                        "TK314",
                        here.node,
                        f"roles {here.node.role.name} and {there.node.role.name} wait for one another for ever: "
                        f"{_told(there)} in role {there.node.role.name} comes after {_told(here)} in role "
                        f"{here.node.role.name}, which waits for it",
                    )
                    return


def _met(site: Site) -> Meet:
    assert site.node.event is not None
    assert isinstance(site.node.event.act, Meet)
    return site.node.event.act


def _told(site: Site) -> str:
    assert site.node.event is not None
    return site.node.event.told_at


def _going_on(graph: Graph, site: Site) -> Reach:
    """What comes after a wait of any of its threads, for any that it waits for."""
    return Reach(
        graph, _moment(site.node, True), site.node, any_site=True, moment=True, most=graph.back,
        turns=site.node.turns, chains=False,
    ).run()  # fmt: skip


def _too_late(reach: Reach, here: Site, there: Site) -> bool:
    """Whether an arrival for the phase of a wait, or for one before, comes after the wait."""
    if there.node is here.node or there.after or there.clock is not here.clock:
        return False
    counted = here.clock in here.node.path
    return any(
        bound(label.position, there.clock, counted) * there.rate + there.offset <= here.offset
        for label in reach.at(there.node)
        if both(label.state.who, there.node.threads) is not None
    )


def _behind_itself(graph: Graph, wait: Site, chains: bool) -> Iterator[Label]:
    """What says that a wait comes after itself; with or without the `chains` to show it by."""
    source = _moment(wait.node, True)
    reach = Reach(
        graph, source, wait.node, any_site=True, moment=True, most=graph.back, turns=wait.node.turns,
        chains=chains,
    )  # fmt: skip
    if not chains:
        graph.moments[wait.node] = reach
    for label in reach.run().at(wait.node):
        late = bound(label.position, wait.clock, wait.clock in wait.node.path) > 0
        # a warp does not wait for another's wait
        if not late and both(label.state.who, wait.node.threads) is not None:
            yield label


def finding_at(code: str, node: Node, message: str, remedy: str = "") -> Finding:
    """A finding about one event; `remedy`: what mends it."""
    event = node.event
    assert event is not None
    return Finding(
        code,
        message,
        "protocol",
        event.op if event.op is not None else event,
        remedy=remedy,
        roles=(node.role.name,),
    )
