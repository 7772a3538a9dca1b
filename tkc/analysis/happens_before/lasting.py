"""Whether what a wait in a branch tells lasts: an item is awaited in whichever branch of a choice its turn takes, so
that in later turns a branch knows only what each of them comes to know."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tkc.analysis.happens_before.automaton import State, implies
from tkc.analysis.happens_before.events import Arrive, Complete, Wait
from tkc.analysis.happens_before.graph import CHOICE, Node
from tkc.analysis.happens_before.labels import Label, as_early

if TYPE_CHECKING:
    from tkc.analysis.happens_before.paths import Reach

STEPS_OF_A_ROLE = frozenset({"po", "loop", "leave", CHOICE})


def entered(label: Label) -> Label | None:
    """What was known first in the branch that a label is in, where others told it there and not before the choice."""
    at = label
    while at.before is not None and at.rule != CHOICE:
        told = at.rule not in STEPS_OF_A_ROLE and _tells(at.before.node, at.node)
        if told or at.before.node.role is not at.node.role:
            return at
        at = at.before
    return None


def behind(reach: Reach, first: Label) -> Node | None:
    """The node after the outermost choice of which what was told first holds in a turn of one branch alone; none, where
    the access is in that branch, and it is about the access's own turn."""
    path, counted = first.node.path, first.position[-1][0]
    if counted not in path or path[-1] is counted:
        return None
    graph = reach.graph
    inner = first.node.loops[path.index(counted) :]
    branch = next((loop for loop in inner if loop in graph.after_choice), None)
    if branch is None:
        return None
    at_home = graph.clock_of[branch] in reach.origin.path
    own = at_home and all(offset == 0 for _, offset in first.position)
    return None if own else graph.after_choice[branch]


def lasting(reach: Reach, first: Label, after: Node) -> Label | None:
    """What is known after a choice, whichever branch a turn took, that says all that one of them was told first."""
    clocks = tuple([clock for clock, _ in first.position])
    for (state, counted), kept in reach.labels.get(after, {}).items():
        if counted == clocks and _says(state, first.state):
            for label in kept:
                if as_early(label.position, first.position):
                    return label
    return None


def _tells(one: Node, other: Node) -> bool:
    """Whether a wait may be for what a node of its own role arrives at, or copies."""
    acts = [n.event.act if n.event is not None else None for n in (one, other)]
    return isinstance(acts[0], Arrive | Complete) and isinstance(acts[1], Wait)


def _says(more: State, less: State) -> bool:
    """Whether a state says all that another does, and lacks no fence that this one has not to have."""
    return more.fence in (0, less.fence) and implies(more._replace(fence=less.fence), less)
