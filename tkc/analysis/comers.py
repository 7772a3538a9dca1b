"""How many threads of a role come to an event, and whether those are all that a barrier is of."""

from __future__ import annotations

from tkc.analysis.happens_before.events import Meet, Some, Threads, Who
from tkc.analysis.happens_before.graph import Node


def threads_of(node: Node) -> int:
    """How many threads execute a node; those that are not known count as none."""
    if isinstance(node.threads, Some):
        return len(node.threads.members or ())
    known: dict[Who, int] = {
        Threads.ONE: 1, Threads.WARP: 32, Threads.LANE: node.role.warps, Threads.ALL: 32 * node.role.warps,
    }  # fmt: skip
    return known.get(node.threads, 0)


def all_come(node: Node, act: Meet) -> bool:
    """Whether all threads come that a barrier is of: of a numbered one, and of those of warps, whole warps may."""
    if node.threads is Threads.ALL or node.role.warps * 32 <= threads_of(node):
        return True
    some = act.among == "warp" or (act.among == "cta" and act.count > 0)
    warps = node.threads is Threads.WARP or (
        isinstance(node.threads, Some) and node.threads.warps > 0
    )
    return some and warps


def number_of(nodes: list[Node]) -> int:
    """How many threads of a role come to a barrier in one place or another."""
    if any(n.threads is Threads.ALL for n in nodes):
        return 32 * nodes[0].role.warps
    named: set[int] = set()
    for node in nodes:
        if isinstance(node.threads, Some):
            named |= node.threads.members or set[int]()
        elif node.threads is Threads.WARP:
            named |= {-1 - lane for lane in range(32)}
    return len(named)
