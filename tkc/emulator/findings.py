"""Pairs that nothing orders: which of them do harm, and what is reported of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tkc.emulator.agents import Op
from tkc.emulator.clocks import ORDER, Clock
from tkc.emulator.events import LANE_BITS, SEVERAL, Who
from tkc.emulator.lanes import SELECT, Vec
from tkc.emulator.races import PRODUCTS, Pair, assumptions_of, describe, in_order
from tkc.emulator.unused import Uses
from tkc.emulator.view import View
from tkc.emulator.words import Words
from tkc.ir.isa.assumptions import notes_on
from tkc.ir.isa.memory import Kind

if TYPE_CHECKING:
    from tkc.emulator.instruction import Instruction
    from tkc.emulator.machine import Machine
    from tkc.emulator.report import Finding
    from tkc.emulator.spaces import Region
    from tkc.emulator.warp import Warp


MOST = 200
"""Pairs that one launch reports."""


class Findings(Words):
    """Judges conflicts, and reports each pair of places once."""

    def __init__(self, machine: Machine, model: str) -> None:
        super().__init__(machine, model)
        self.issues: dict[int, int] = {}
        """When the loads and stores of tensor memory were issued."""
        self.pairs: set[tuple[Any, ...]] = set()
        self.reported: dict[tuple[str, int], tuple[str, ...]] = {}
        """By code and line, what practice rests on if it finds nothing there."""
        self._uses: Uses | None = None

    def conflict(self, view: View, before: Kind, now: Kind, codes: Vec, last: Vec) -> None:
        """Accesses of `codes` do not come before that of the view: a finding for each pair of instructions.

        `last` are the writes that stood there.
        """
        events = self.events
        numbers, first = np.unique(codes >> LANE_BITS, return_index=True)
        for number, at in zip(numbers.tolist(), first.tolist(), strict=True):
            if view.ignored and number in view.ignored:
                continue
            old, new = events.who[number], events.who[view.event]
            assert old is not None
            assert new is not None
            pair = Pair(view, number, int(codes[at]) & SEVERAL, before, now, old, new)
            if self.harmless(pair, int(last[at])):
                continue
            pair = in_order(self, pair)
            code, message, notes = describe(self, pair)
            if code == "TK302" and self._copy_unfenced(pair):
                self._warn(code, message, pair, notes)
            else:
                self.raced(code, message, pair.old, pair.new, pair.place, notes)

    def overwritten(
        self,
        w: Warp,
        ins: Instruction,
        region: Region,
        offsets: Vec,
        values: Vec,
        where: Vec | None,
    ) -> None:
        """Lanes of one store name one place and bring different values, of which any may stay (equal: A16)."""
        if region.space in ("local", "param") or self.semantics(ins)[0]:
            return
        lanes = SELECT[w.mask] if where is None else SELECT[w.mask][where]
        first: dict[int, int] = {}
        for at, place in enumerate(offsets.tolist()):
            before = first.setdefault(place, at)
            if np.array_equal(values[before], values[at]):
                continue
            old, new = (self.who(ins, w, 1 << int(lanes[n]), Kind.WRITE) for n in (before, at))
            message = f"one instruction writes different values of several lanes to one place of {region.name}"
            notes = (
                "cheapest order: lanes of one store have none; an offset that differs between them, one lane only,"
                " or an atomic operation",
            )
            self.raced("TK301", message, old, new, str(region.name), notes)
            return

    def raced(
        self, code: str, message: str, old: Who, new: Who, place: str, notes: tuple[str, ...]
    ) -> None:
        """Reports a pair, once for two places of the source and the instructions there."""
        key = (code, self._place(old), self._place(new))
        if key not in self.pairs and len(self.pairs) < MOST:
            self.pairs.add(key)
            self.reported.setdefault((code, new.ins.line), assumptions_of(old, new))
            self.machine.raced((code, message, notes), (new, old), place, False)

    def _copy_unfenced(self, pair: Pair) -> bool:
        """A27: whether a product reads what cp.async of its CTA has written, or zeros in place of that."""
        old, new = pair.old, pair.new
        if (
            "A27" not in self.grants
            or (pair.before, pair.now) != (Kind.WRITE, Kind.READ)
            or not new.ins.row.name.startswith(PRODUCTS)
            or not pair.view.home == pair.view.performer == self.events.rank[pair.number]
        ):
            return False
        if isinstance(old.agent, Op):
            return old.agent.name == "cp.async"
        handed = old.agent.clock.handed >= self.events.time[pair.number]
        return handed and old.ins.row.name.startswith("st") and self.uses.zeros(old.ins)

    def _warn(self, code: str, message: str, pair: Pair, notes: tuple[str, ...]) -> None:
        """A pair that practice takes, and no document: one warning for copies, and one for what threads store."""
        key = (code, "A27", isinstance(pair.old.agent, Op))
        if key not in self.pairs:
            self.pairs.add(key)
            said = code, message, (*notes, *notes_on(("A27",)))
            self.machine.raced(said, (pair.new, pair.old), pair.place, True)

    @property
    def uses(self) -> Uses:
        if self._uses is None:
            self._uses = Uses(self.machine.program)
        return self._uses

    def rests_on(self, finding: Finding) -> tuple[str, ...]:
        """The assumptions without which a pair is one: those of practice that its accesses call for."""
        if finding.code == "TK312" and (finding.code, finding.ptx_line) not in self.reported:
            return ("A21",)
        if finding.code == "TK303":
            return ("A26",)
        return self.reported.get((finding.code, finding.ptx_line), ("A1", "A2"))

    def _place(self, who: Who) -> Any:
        source = self.machine.program.location(who.ins.statement)
        return (source or who.ins.line, who.ins.row.name)

    def known_by_order(self, clock: Clock, number: int) -> bool:
        """Whether an event comes before in base causality, whatever else is missing."""
        times = clock.fit()[ORDER]
        return bool(times[int(self.events.component[number])] >= self.events.time[number])

    def harmless(self, pair: Pair, last: int) -> bool:
        """Whether a pair that is not ordered changes nothing, by one of the profile's assumptions."""
        old, new = pair.old, pair.new
        threads = not isinstance(old.agent, Op), not isinstance(new.agent, Op)
        if pair.lane == SEVERAL and old.agent is new.agent and pair.before is Kind.WRITE:
            # Each of the lanes has written the place itself; of a matrix the others have written parts.
            return not new.mask & ~old.mask and not old.ins.row.name.startswith("stmatrix")
        if (
            (pair.before, pair.now) == (Kind.WRITE, Kind.WRITE)
            and old.ins is new.ins
            and "A16" in self.grants
        ):
            together = all(threads) or (not any(threads) and old.agent.warp is new.agent.warp)
            if together and self._changes_nothing():
                return True
        if not threads[0]:
            return False
        if new.ins.row.name == "tcgen05.alloc" and old.agent is new.agent:
            # All lanes of the warp write the word, each after its own reads (PTX 9.7.18.6.1).
            return True
        events, grants = self.events, self.grants
        if (
            old.ins.row.name == "tcgen05.alloc"
            and "A30" in grants
            and self._ordered(pair, any_of=True)
        ):
            return True
        if not threads[1]:
            writer = events.who[last >> LANE_BITS]
            word = writer is not None and writer.ins.row.name == "tcgen05.alloc"
            return word and "A19" in grants and self._ordered(pair)
        if (
            "A22" in grants
            and old.agent is new.agent
            and (old.ins.row.name, new.ins.row.name) == ("ldmatrix", "stmatrix")
        ):
            return True
        strong = (
            self.semantics(new.ins)[0] if pair.before is Kind.READ else events.strong[pair.number]
        )
        if (
            "A18" in grants
            and Kind.READ in (pair.before, pair.now)
            and strong
            and pair.view.home is None
        ):
            return True
        if "A17" in grants:
            if pair.before is Kind.READ:
                return self._unused(old, self._late_lanes(pair))
            if pair.now is Kind.READ:
                return self._unused(new, new.mask)
        return False

    def _late_lanes(self, pair: Pair) -> int:
        """The lanes of the first access that do not come before the second."""
        lanes = SELECT[pair.old.mask] if pair.lane == SEVERAL else np.array([pair.lane])
        times = self.events.time[pair.number]
        at = int(self.events.component[pair.number]) + lanes
        late = lanes[pair.view.clock.fit()[ORDER].take(at, mode="clip") < times]
        mask = sum(1 << int(lane) for lane in late)
        new = pair.new
        if pair.old.agent is new.agent and new.mask & (new.mask - 1) == 0:
            mask &= ~new.mask
        return mask

    def _ordered(self, pair: Pair, any_of: bool = False) -> bool:
        """Whether all the threads, or any of them, that made the first access are known to have."""
        times = pair.view.clock.fit()[ORDER]
        known = times[self.lane_component(pair.number, pair.lane)] >= self.events.time[pair.number]
        return bool(known.any() if any_of else known.all())

    def _changes_nothing(self) -> bool:
        """Whether the write at hand writes what is there already."""
        same = self.machine.memory.writing
        return same is not None and same()

    def _unused(self, who: Who, lanes: int) -> bool:
        """Whether lanes that read use nothing of it."""
        guard = self.uses.guard(who.ins)
        if guard is None:
            return False
        held = who.agent.R[guard[0]]
        if held is None:
            return False
        return not (~held if guard[1] else held) & lanes

    def lane_component(self, number: int, lane: int) -> list[int]:
        """The components that stand for an access: several where several lanes made it."""
        start = int(self.events.component[number])
        if lane != SEVERAL:
            return [start + lane]
        who = self.events.who[number]
        assert who is not None
        return [start + int(x) for x in SELECT[who.mask]]
