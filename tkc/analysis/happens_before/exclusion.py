"""Whether no turn of a loop has both of two nodes of a role: other branches of a choice, or contrary conditions."""

from __future__ import annotations

from typing import Any

from tkc.analysis.happens_before.clocks import Clock
from tkc.analysis.happens_before.events import Choice
from tkc.analysis.happens_before.graph import Node


def exclusive(one: Node, other: Node, clock: Clock) -> bool:
    """Whether two nodes of a role stand in different branches of a choice, so that no turn of `clock` has both."""
    if one.role is not other.role or clock not in one.path or clock not in other.path:
        return False
    depth = one.path.index(clock)
    if depth >= len(one.loops) or depth >= len(other.loops):
        return False
    a, b = one.loops[depth], other.loops[depth]
    whole = one.loops[depth - 1].body if depth else one.role.body
    return a is not b and any(
        isinstance(i, Choice) and a in i.branches and b in i.branches for i in whole
    )


def contrary(one: Node, other: Node, clock: Clock) -> bool:
    """Whether two nodes of a role stand under conditions right inside a turn of `clock` of which one says the contrary
    of the other, so that no turn has both."""
    if one.role is not other.role or not one.loops or not other.loops:
        return False
    asked = [_conditions(node, clock) for node in (one, other)]
    return any((taken, *rest) in asked[1] for taken, *rest in ((not t, *r) for t, *r in asked[0]))


def _conditions(node: Node, clock: Clock) -> set[tuple[Any, ...]]:
    """The conditions inside a turn of `clock` that no loop is between, each with whether it has to hold, by what they
    have in common with equal ones in other places."""
    found: set[tuple[Any, ...]] = set()
    if clock not in node.path:
        return found
    for loop in node.loops[node.path.index(clock) :]:
        key = loop.key
        if not (
            isinstance(key, tuple) and len(key) == 3 and key[0] == "if" and type(key[1]) is bool
        ):
            break
        found.add((key[1], key[2]))
    return found
