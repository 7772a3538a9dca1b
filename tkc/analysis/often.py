"""Whether all roles come to a barrier of threads as often as one of them waits there: else that one waits for ever.

Loops that turn equally often are one, and so are conditions that ask the same. What stands in every branch of a
condition stands beside it, and what is in a loop of a known number of turns, beside it so many times.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, replace
from itertools import permutations

from tkc.analysis.happens_before.automaton import disjoint
from tkc.analysis.happens_before.events import Loop, Meet
from tkc.analysis.happens_before.graph import Graph, Node
from tkc.analysis.happens_before.report import Finding
from tkc.analysis.moments import finding_at
from tkc.analysis.remedies import BRANCHES
from tkc.diagnostics import Severity

Under = tuple[Hashable, ...]
"""What of the loops and branches round a place others may have in common with it, the outermost first."""


@dataclass(eq=False, slots=True)
class Team:
    """The threads of a role that come to a barrier together: `needs` tells how often, up to their last wait."""

    nodes: list[Node]

    @property
    def waits(self) -> list[Node]:
        return [n for n in self.nodes if _act(n).does != "arrive"]

    @property
    def arrives(self) -> list[Node]:
        return [n for n in self.nodes if _act(n).does != "wait"]

    @property
    def needs(self) -> list[Node]:
        """The arrivals without those behind all that waits."""
        last = self.waits[-1]
        return [
            n
            for n in self.arrives
            if n.number <= last.number or n.loops[:1] == last.loops[:1] != ()
        ]


def check_often(graph: Graph) -> Iterator[Finding]:
    """Roles that may come to a barrier of a CTA's threads less often than others wait there."""
    coming: dict[Hashable, list[Node]] = {}
    for node in graph.nodes:
        act = None if node.event is None else node.event.act
        if isinstance(act, Meet) and act.among == "cta" and act.barrier is not None:
            coming.setdefault(act.barrier, []).append(node)
    for nodes in coming.values():
        yield from _of_one(graph, _teams(nodes))


def _of_one(graph: Graph, teams: list[Team]) -> Iterator[Finding]:
    for waiting, other in permutations(teams, 2):
        if not waiting.waits or graph.symmetry.mirrors(waiting.nodes[0].role):
            continue
        wanted, given = (_often(graph, n) for n in (waiting.needs, other.arrives))
        short = [under for under, often in wanted.items() if often > given[under]]
        if short:
            yield _finding(waiting, other, short + [u for u in given if given[u] > wanted[u]])
            return


def _teams(nodes: list[Node]) -> list[Team]:
    """Roles, and parts of a role where each part comes by itself."""
    found: list[Team] = []
    for node in nodes:
        mine = [
            t for t in found
            if any(n.role is node.role and not disjoint(n.threads, node.threads) for n in t.nodes)
        ]  # fmt: skip
        found = [t for t in found if t not in mine]
        found.append(Team([*(n for t in mine for n in t.nodes), node]))
    return found


def _often(graph: Graph, nodes: list[Node]) -> Counter[Under]:
    """How often some threads come to a barrier, by what that stands under."""
    found = Counter[Under]()
    for node in nodes:
        under: list[Hashable] = []
        times = 1
        for loop in node.loops:
            if loop.low == loop.high:
                times *= loop.low
            else:
                under.append(_name(graph, loop))
        if node.turns is not None:
            under.append(("turns", node.turns.period, node.turns.rest))
        found[tuple(under)] += times
    _join_branches(found)
    return found


def _name(graph: Graph, loop: Loop) -> Hashable:
    """Equal for loops that turn equally often, and for branches that are taken together."""
    clock = graph.clock_of[loop]
    return loop.key if _asks(loop.key) or not clock.agreed else clock


def _asks(key: Hashable) -> bool:
    return isinstance(key, tuple) and key[:1] == ("if",)


def _join_branches(found: Counter[Under]) -> None:
    """Takes out of both branches of a condition what both have, the innermost first."""
    for under in sorted(found, key=len, reverse=True):
        for at in reversed(range(len(under))):
            other = _contrary(under[at])
            if other is None:
                continue
            beside = (*under[:at], other, *under[at + 1 :])
            both = min(found[under], found[beside])
            if both > 0:
                found[under] -= both
                found[beside] -= both
                found[*under[:at], *under[at + 1 :]] += both


def _contrary(key: Hashable) -> Hashable | None:
    if _asks(key) and len(key) == 3 and isinstance(key[1], bool):  # pyright: ignore
        return ("if", not key[1], key[2])  # pyright: ignore
    if isinstance(key, tuple) and key[:1] == ("turns",) and key[1] == 2:
        return ("turns", 2, frozenset({0, 1}) - key[2])
    return None


def _act(node: Node) -> Meet:
    assert node.event is not None
    assert isinstance(node.event.act, Meet)
    return node.event.act


def _finding(waiting: Team, other: Team, unlike: list[Under]) -> Finding:
    """An error, but for loops in equal places, which may turn equally often: of these it is a warning."""
    here, there = waiting.waits[0], other.nodes[0]
    assert here.event is not None
    loops = len({len(under) for under in unlike}) == 1 and not any(map(_asked, unlike))
    found = finding_at(
        "TK314", here,
        f"{here.event.told} in role {here.role.name} waits for {_who(here, there)}, of which nothing says that it "
        "comes as often; if it does not, the wait is for ever",
        "" if loops else BRANCHES,
    )  # fmt: skip
    return replace(found, severity=Severity.WARNING) if loops else found


def _asked(under: Under) -> bool:
    return any(_asks(k) or (isinstance(k, tuple) and k[:1] == ("turns",)) for k in under)


def _who(here: Node, there: Node) -> str:
    return f"role {there.role.name}" if there.role is not here.role else "the rest of it"
