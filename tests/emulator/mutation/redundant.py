"""Mutants that the manual calls redundant by their text alone: a rule each, with its section of PTX ISA 9.4.

The rules are about what a statement has to do with its neighbours, never about a kernel. What takes more than the text
(which bytes meet, what an arrival carries) is for the witness of a run (`witness.py`). A statement is looked at with what
stands before and after it (statements that touch memory or synchronise, joined by ` | `).
"""

from __future__ import annotations

import re
from typing import NamedTuple

from emulator.mutation import windows
from emulator.mutation.mutants import Mutant


class Redundant(NamedTuple):
    """Mutants of a kind whose statement and surroundings match change nothing that a rule of the manual gives."""

    kind: str
    statement: str
    section: str
    reason: str
    before: str = ""
    after: str = ""


LAST = r"(^|\| )"
"""What the statement is moved over: the last one before it."""

REDUNDANT: tuple[Redundant, ...] = (
    Redundant("move", r"^cp\.async\.(commit_group|wait_group|wait_all)", "9.7.10.28.3",
              "groups hold the cp.async of the thread, and it is moved over none",
              before=LAST + r"(?!cp\.async(?!\.bulk))[^|]*$"),
    Redundant("move", r"^cp\.async\.bulk\.(commit_group|wait_group)", "9.7.10.28.6",
              "groups hold the bulk operations of the thread, and it is moved over none",
              before=LAST + r"(?!cp\.(reduce\.)?async\.bulk)[^|]*$"),
    Redundant("move", r"^tcgen05\.wait::st", "9.7.18.6.2", "it awaits the tcgen05.st of the thread, and is moved over none",
              before=LAST + r"(?!tcgen05\.st)[^|]*$"),
    Redundant("move", r"^tcgen05\.wait::ld", "9.7.18.6.2", "it awaits the tcgen05.ld of the thread, and is moved over none",
              before=LAST + r"(?!tcgen05\.ld)[^|]*$"),
    Redundant("move", r"^wgmma\.wait_group", "9.7.17.7.3", "it awaits groups of wgmma, and is moved over no wgmma",
              before=LAST + r"(?!wgmma)[^|]*$"),
    Redundant("move", r"^fence\.proxy\.async", "9.7.15.4",
              "it orders accesses of global and shared memory, and is moved over what makes and acquires none",
              before=LAST + r"(cp\.async\.(bulk\.)?commit_group|tcgen05\.(ld|st|wait)|fence\.proxy\.async)[^|]*$"),
    Redundant("delete|move", r"^fence\.mbarrier_init", "9.7.15.3, 8.9.5",
              "the arrival at the cluster barrier right behind it releases the initialisation too",
              after=r"^(barrier\.cta\.sync[^|]* \| |bar\.sync[^|]* \| )?barrier\.cluster\.arrive(?!\S*relaxed)"),
)  # fmt: skip


def reason(mutant: Mutant) -> str:
    """The rule that calls a mutant redundant; empty where there is none."""
    for row in REDUNDANT:
        if (
            re.fullmatch(row.kind, mutant.kind)
            and re.search(row.statement, mutant.what)
            and re.search(row.before, mutant.before)
            and re.search(row.after, mutant.after)
        ):
            return f"{row.section}: {row.reason}"
    if not mutant.lines:
        return ""
    if re.match(r"(bar|barrier(\.cta)?)\.sync", mutant.what):
        over = mutant.before.rpartition(" | ")[2]
        if mutant.kind == "delete" and windows.redundant(mutant.lines, mutant.line):
            return "9.7.15.1: nothing before it conflicts with anything after it that the next barriers do not order"
        if mutant.kind == "move" and windows.redundant(mutant.lines, mutant.line, over):
            return "9.7.15.1: what it is moved over conflicts with nothing before the next barrier"
    if mutant.what.startswith("wgmma.fence") and windows.same_products(
        mutant.lines, mutant.line, mutant.kind == "move"
    ):
        return "9.7.17.7.1: products of one shape, whose registers nothing else touches between"
    return ""
