"""What the text says of values: loads that only guarded instructions use, and stores of zeros.

Compilers load in all threads and store in one: in a thread in which the guard is false the value goes nowhere, and it
does not matter which one was read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tkc.emulator.syntax import Address, Name, Number, Vector

if TYPE_CHECKING:
    from tkc.emulator.instruction import Instruction
    from tkc.emulator.program import Program
    from tkc.emulator.syntax import Operand

CARRIES = frozenset({"arith", "bits", "logic", "float", "conversion", "narrow", "elementwise"})
"""Families whose instructions make registers of registers, and nothing else."""


class Uses:
    """Who reads each register slot of a program, and who writes it."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.readers: dict[int, list[Instruction]] = {}
        self.writers: dict[int, list[Instruction]] = {}
        for segment in program.segments:
            for ins in (*segment.instructions, segment.last):
                if ins is None:
                    continue
                for slot in ins.sources:
                    self.readers.setdefault(slot, []).append(ins)
                for slot in ins.dests:
                    self.writers.setdefault(slot, []).append(ins)
        self._guards: dict[int, tuple[int, bool] | None] = {}

    def guard(self, load: Instruction) -> tuple[int, bool] | None:
        """(predicate slot, negated) that guards every use of what a load gives; None where there is no such guard."""
        key = id(load)
        if key not in self._guards:
            self._guards[key] = self._find(load)
        return self._guards[key]

    def zeros(self, ins: Instruction, depth: int = 4) -> bool:
        """Whether a store, or a move, takes constant zeros alone."""
        operands = [o for o in ins.statement.operands if not isinstance(o, Address)]
        if not ins.row.name.startswith("st"):
            operands = operands[1:]
        flat = [p for o in operands for p in (o.items if isinstance(o, Vector) else (o,))]
        return bool(flat) and all(self._zero(ins, operand, depth) for operand in flat)

    def _zero(self, ins: Instruction, operand: Operand, depth: int) -> bool:
        if isinstance(operand, Number):
            return operand.value == 0 and operand.kind != "decimal"
        if not isinstance(operand, Name) or operand.offset or not depth:
            return False
        register = self.program.register(ins.statement.scope, operand.text)
        if register is None:
            return False
        makers = self.writers.get(self.program.slot(register), [])
        return bool(makers) and all(
            m.row.name in ("mov", "mov.pack") and self.zeros(m, depth - 1) for m in makers
        )

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
        return found if found is not None and len(self.writers.get(found[0], ())) == 1 else None

    def _guard_of(self, ins: Instruction) -> tuple[int, bool] | None:
        guard = ins.statement.guard
        if guard is None:
            return None
        register = self.program.register(ins.statement.scope, guard[0])
        return (self.program.slot(register), guard[1]) if register is not None else None
