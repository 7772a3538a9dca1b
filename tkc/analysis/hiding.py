"""Whether a wait may read an arrival through others of its phase that are not morally strong with it (8.9.2; A15)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from tkc.analysis.instances import Copy, Event, Word
from tkc.analysis.known import text
from tkc.ir.isa.memory import Scope
from tkc.ir.stage import ops as s


class Arrival(NamedTuple):
    """Who arrives, or brings bytes, and where in its trace; `narrow`: at CTA scope."""

    copy: Copy
    at: int
    threads: frozenset[int]
    narrow: bool


@dataclass(eq=False)
class Hiding:
    """The arrivals of runs; `events`: the traces, with the ends of runs as None."""

    events: Mapping[Copy, Sequence[Event | None]]

    @cached_property
    def arrivals(self) -> dict[tuple[Word, int], list[Arrival]]:
        """By barrier and phase."""
        found: dict[tuple[Word, int], list[Arrival]] = {}
        for copy, trace in self.events.items():
            for at, event in enumerate(trace):
                for word, phase, owner in event.told() if event is not None else ():
                    assert event is not None
                    commit = isinstance(event.op, s.Tcgen05CommitOp)
                    narrow = owner is None and not commit and _narrow(event)
                    arrival = Arrival(copy, at, event.threads, narrow)
                    found.setdefault((word, phase), []).append(arrival)
        return found

    def hides(self, copy: Copy, at: int, waiting: Copy, there: int) -> bool:
        """Whether a wait may read an arrival through one of another CTA, where one of them or the wait reaches no
        further than its CTA. What one thread does before the arrival comes before it, and hides nothing."""
        event, wait = self.events[copy][at], self.events[waiting][there]
        assert event is not None
        assert wait is not None
        assert wait.waited is not None
        word, seen = wait.waited
        ctas, narrow = {copy.cta, waiting.cta}, _narrow(wait)
        for told, first, _ in event.told():
            for phase in range(first, seen + 1) if told is word else ():
                for other in self.arrivals.get((word, phase), ()):
                    mine = other.copy == copy and other.threads == event.threads
                    if not (mine and len(event.threads) == 1 and other.at < at):
                        ctas.add(other.copy.cta)
                        narrow |= other.narrow
        return narrow and len(ctas) > 1


def _narrow(event: Event) -> bool:
    return (text(event, "scope") or Scope.CTA) == Scope.CTA
