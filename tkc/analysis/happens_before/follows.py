"""What follows from knowing something of an access at a node, whatever from when on: kept for all accesses alike."""

from __future__ import annotations

from dataclasses import dataclass, field

from tkc.analysis.happens_before.automaton import State
from tkc.analysis.happens_before.clocks import Clock
from tkc.analysis.happens_before.events import Arrive, Complete, Meet, Turns
from tkc.analysis.happens_before.graph import Node, Site
from tkc.analysis.happens_before.ways import Ways


@dataclass(eq=False, slots=True)
class Told:
    """What an arrival or a copy hands on, and at which items; `cases`: with others, in each case that an item may be.

    `waits`: who knows of it, by the clock of the item: how many turns later, in which of them, and what.
    """

    act: Arrive | Complete
    site: Site
    state: State
    rule: str
    cases: list[list[Site]] | None = None
    waits: dict[Clock, list[tuple[Site, int, Turns | None, State, str]]] = field(
        default_factory=dict
    )


@dataclass(eq=False, slots=True)
class Follows:
    """What follows from knowing something at a node, whatever from when on."""

    ways: list[tuple[State, str, Ways]]
    told: list[Told]
    met: tuple[Meet, list[tuple[State, str]]] | None = None


@dataclass(eq=False, slots=True)
class Alike:
    """What is the same for accesses that become known by the same steps."""

    steps: dict[tuple[Node, State], Follows] = field(default_factory=dict)
    ways: dict[tuple[State, bool], Ways] = field(default_factory=dict)
    told: dict[tuple[Node, State], list[Told]] = field(default_factory=dict)
    """What nodes tell of a state that add nothing to it."""
