"""Whether a role may arrive twice at a numbered barrier of threads before another has come once.

A barrier counts threads, not roles: two arrivals of one role would complete a phase that belongs to both.
"""

from __future__ import annotations

from collections.abc import Iterator

from tkc.analysis.happens_before.automaton import PENDING, disjoint, within
from tkc.analysis.happens_before.clocks import bound
from tkc.analysis.happens_before.distance import holds_on
from tkc.analysis.happens_before.events import Meet
from tkc.analysis.happens_before.graph import Graph, Site
from tkc.analysis.happens_before.report import Finding
from tkc.analysis.moments import after, finding_at


def check_numbered(graph: Graph) -> Iterator[Finding]:
    """Arrivals that follow an arrival without a wait, and that nothing keeps behind the other roles' arrivals."""
    for sites in graph.meetings.values():
        coming = [s for s in sites if _act(s).does != "wait" and _act(s).among == "cta"]
        counted = [s for s in coming if s.clock is not graph.kernel]
        for site in counted:
            mine = [s for s in counted if _one_team(s, site)]
            before = [s for s in mine if (s.offset - site.offset + 1) % site.rate == 0]
            if graph.symmetry.mirrors(site.node.role) or any(
                _act(s).does == "sync" for s in before
            ):
                continue
            others = [s for s in counted if not _one_team(s, site)]
            early = [
                s for s in others
                if s.rate == site.rate and (s.offset - site.offset + 1) % site.rate == 0
                and not _comes_after(graph, site, s)
            ]  # fmt: skip
            if early:
                assert site.node.event is not None
                other = early[0].node
                who = (
                    f"role {other.role.name}"
                    if other.role is not site.node.role
                    else "the rest of it"
                )
                yield finding_at(
                    "TK306", site.node,
                    f"{site.node.event.told} in role {site.node.role.name} may arrive for the next phase before {who} "
                    "has come to this one: the barrier counts threads, not roles",
                )  # fmt: skip
                return


def _one_team(one: Site, other: Site) -> bool:
    """Whether the same threads come to two places, or some that come to both."""
    here, there = one.node, other.node
    return here.role is there.role and not disjoint(here.threads, there.threads)


def _act(site: Site) -> Meet:
    assert site.node.event is not None
    assert isinstance(site.node.event.act, Meet)
    return site.node.event.act


def _comes_after(graph: Graph, site: Site, other: Site) -> bool:
    """Whether an arrival comes after the other role's at the phase before."""
    reach = after(graph, other.node, any_thread=_act(other).does == "sync").run()
    counted = other.clock in other.node.path
    return any(
        bound(label.position, site.clock, counted) * site.rate + site.offset <= other.offset + 1
        for label in reach.at(site.node)
        if label.state.name not in PENDING
        and within(site.node.threads, label.state.who)  # each thread that comes counts
        and (not graph.after_choice or holds_on(reach, label))
    )
