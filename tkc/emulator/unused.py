"""Loads whose value only guarded instructions use: compilers load in all threads and store in one.

In a thread in which the guard is false the value goes nowhere, and it does not matter which one was read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tkc.emulator.instruction import Instruction
    from tkc.emulator.program import Program

CARRIES = frozenset({"arith", "bits", "logic", "float", "conversion", "narrow", "elementwise"})
"""Families whose instructions make registers of registers, and nothing else."""


class Uses:
    """Who reads each register slot of a program, and how often each is written."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.readers: dict[int, list[Instruction]] = {}
        self.writes: dict[int, int] = {}
        for segment in program.segments:
            for ins in (*segment.instructions, segment.last):
                if ins is None:
                    continue
                for slot in ins.sources:
                    self.readers.setdefault(slot, []).append(ins)
                for slot in ins.dests:
                    self.writes[slot] = self.writes.get(slot, 0) + 1
        self._guards: dict[int, tuple[int, bool] | None] = {}

    def guard(self, load: Instruction) -> tuple[int, bool] | None:
        """(predicate slot, negated) that guards every use of what a load gives; None where there is no such guard."""
        key = id(load)
        if key not in self._guards:
            self._guards[key] = self._find(load)
        return self._guards[key]

    def _find(self, load: Instruction) -> tuple[int, bool] | None:
        found: tuple[int, bool] | None = None
        todo, seen = list(load.dests), set(load.dests)
        while todo:
            for ins in self.readers.get(todo.pop(), ()):
                guard = self._guard_of(ins)
                if guard is not None:
                    if found not in (None, guard):
                        return None
                    found = guard
                elif ins.family in CARRIES and ins.dests:
                    fresh = [d for d in ins.dests if d not in seen]
                    seen.update(fresh)
                    todo += fresh
                else:
                    return None
        # A guard that is set once still holds what it held then.
        return found if found is not None and self.writes.get(found[0], 0) == 1 else None

    def _guard_of(self, ins: Instruction) -> tuple[int, bool] | None:
        guard = ins.statement.guard
        if guard is None:
            return None
        register = self.program.register(ins.statement.scope, guard[0])
        return (self.program.slot(register), guard[1]) if register is not None else None
