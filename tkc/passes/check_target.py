"""Rejects every instruction that the chosen target does not have.

Before: the module has a target (`set-target`); kernels are in the ptx dialect.

After: the module is unchanged, and each instruction, as it is spelled, assembles for the target.

Here because: only now is each instruction there; what lowers to another one on a target that lacks it has done so.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from tkc.diagnostics import Bug, Diagnostic, Note, TargetError
from tkc.ir.isa.targets import TARGETS, Target
from tkc.ir.locations import location_of
from tkc.ir.ptx.instruction import Instruction
from tkc.ir.ptx.shape import Spelling
from tkc.ir.syntax import all_inside
from tkc.ir.target import target_of


def rejection(op: Instruction, spelling: Spelling, target: Target) -> Diagnostic | None:
    """Why the target does not take the instruction, or None where it does."""
    missing = target.lacks(spelling.needs)
    if not missing:
        return None
    names = ", ".join(missing)
    having = [t.name for t in TARGETS.values() if t.has(spelling.needs)]
    return Diagnostic(
        "TK202",
        f"{spelling.mnemonic} needs {names}, which {target.name} has not",
        location_of(op),
        notes=(Note(f"targets that have it: {', '.join(having) or 'none'}"),),
    )


@dataclass(frozen=True)
class CheckTargetPass(ModulePass):
    """`check-target`."""

    name = "check-target"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = target_of(op)
        found: list[Diagnostic] = []
        accepted: set[int] = set()
        for inner in all_inside(op):
            if not isinstance(inner, Instruction):
                continue
            try:
                spelling = inner.spelling
            except ValueError as error:
                raise Bug("check-target", f"{inner.name}: {error}") from None
            # Spellings are one object each, so that each is judged once.
            if id(spelling) in accepted:
                continue
            diagnostic = rejection(inner, spelling, target)
            if diagnostic is None:
                accepted.add(id(spelling))
            else:
                found.append(diagnostic)
        if found:
            raise TargetError(tuple(dict.fromkeys(found)))
