"""Synchronisation through words of memory: strong loads and stores, atomics, and fences beside them (PTX 8.8)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tkc.emulator.agents import SCOPES
from tkc.emulator.clocks import Clock
from tkc.emulator.completions import Completions
from tkc.emulator.lanes import SELECT, Vec

if TYPE_CHECKING:
    from tkc.emulator.cta import Cta
    from tkc.emulator.instruction import Instruction
    from tkc.emulator.machine import Machine
    from tkc.emulator.spaces import Region
    from tkc.emulator.warp import Warp


class Words(Completions):
    """What was released through each word, and who acquires it."""

    def __init__(self, machine: Machine, model: str) -> None:
        super().__init__(machine, model)
        self.words: dict[tuple[int, int], dict[tuple[int, Cta], Clock]] = {}
        """By word what was released there, by the scope of it and the CTA that did."""
        self._order: dict[int, tuple[int, bool, bool, bool]] = {}

    def semantics(self, ins: Instruction) -> tuple[int, bool, bool, bool]:
        """(scope of a strong access or 0, acquires, releases, reads and writes at once)."""
        found = self._order.get(id(ins))
        if found is None:
            name = ins.row.name.partition(".")[0]
            sem, scope = ins.mod("sem"), SCOPES.get(ins.mod("scope", "gpu"), 3)
            changes = name in ("atom", "red")
            if name not in ("ld", "st", "atom", "red") or (not changes and sem in ("", "weak")):
                found = (0, False, False, False)
            else:
                if sem in ("volatile", "mmio"):
                    scope = 4
                found = (
                    scope,
                    sem in ("acquire", "acq_rel") and name != "red",
                    sem in ("release", "acq_rel"),
                    changes,
                )
            self._order[id(ins)] = found
        return found

    def see(
        self,
        w: Warp,
        ins: Instruction,
        region: Region,
        offsets: Vec,
        where: Vec | None,
        acquires: bool,
    ) -> None:
        lanes = SELECT[w.mask] if where is None else SELECT[w.mask][where]
        masks: dict[int, int] = {}
        for lane, offset in zip(lanes.tolist(), offsets.tolist(), strict=False):
            if (id(region), offset) in self.words:
                masks[offset] = masks.get(offset, 0) | 1 << lane
        scope = self.semantics(ins)[0]
        for offset, mask in masks.items():
            for (told, cta), clock in self.words[id(region), offset].items():
                if _covers(scope, w.cta, cta) and _covers(told, cta, w.cta):
                    self.learn(w, mask, clock, acquires)

    def tell(
        self,
        w: Warp,
        ins: Instruction,
        region: Region,
        offsets: Vec,
        where: Vec | None,
        releases: bool,
        changes: bool,
    ) -> None:
        mine = self.of(w)
        ready = any(p.ready is not None and p.mask & w.mask for p in mine.parts)
        if not releases and not ready and (changes or not self.words):
            return
        lanes = SELECT[w.mask] if where is None else SELECT[w.mask][where]
        masks: dict[int, int] = {}
        for lane, offset in zip(lanes.tolist(), offsets.tolist(), strict=False):
            masks[offset] = masks.get(offset, 0) | 1 << lane
        for offset, mask in masks.items():
            key = (id(region), offset)
            if not releases and not ready:
                self.words.pop(key, None)
                continue
            told = Clock(mine.components)
            self.publish(w, mask, told, releases)
            # What changes a word goes on with what was released there; what writes it anew does not (8.9.2).
            held = self.words.setdefault(key, {}) if changes else {}
            self.words[key] = held
            mark = (self.semantics(ins)[0], w.cta)
            if mark in held:
                told.join(held[mark])
            held[mark] = told


def _covers(scope: int, cta: Cta, other: Cta) -> bool:
    """Whether a scope, seen from one CTA, has the threads of another one in it (8.5)."""
    return scope >= 3 or cta is other or (scope == 2 and cta.cluster is other.cluster)
