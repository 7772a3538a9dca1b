"""Which findings say one mistake again: they become notes of the one that says it nearest.

A wait that is missing leaves several pairs of accesses without order, a fence that is missing several without a fence.
One mistake is told once, and what else comes of it stands below it.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from xdsl.ir import Operation

from tkc.diagnostics import Diagnostic, Note, Severity
from tkc.ir.nest import around

if TYPE_CHECKING:
    from tkc.analysis.happens_before.report import Finding

Told = tuple[Diagnostic, "Finding"]

UNORDERED = frozenset({"TK301", "TK302", "TK307", "TK308", "TK309"})
"""What is said of two accesses that may meet."""
MOST = 3
"""Notes about consequences below one diagnostic."""


def told_once(found: Sequence[Told]) -> tuple[Diagnostic, ...]:
    """The diagnostics of findings, in their order, each mistake once."""
    alike: dict[Hashable, list[int]] = {}
    for n, told in enumerate(found):
        alike.setdefault(_same(*told), []).append(n)
    said: dict[int, list[int]] = {}  # by what is told: all that comes of it
    for group in alike.values():
        first, *others = sorted(group, key=lambda n: (_apart(found[n][1]), n))
        said[first] = sorted(others)
    for n in sorted(said):
        cause = next((k for k in sorted(said) if k != n and _comes_of(found[n], found[k])), None)
        if cause is not None:
            said[cause] += [n, *said.pop(n)]
    return tuple(_with(found[n][0], [found[k][0] for k in said[n]]) for n in sorted(said))


def _same(told: Diagnostic, finding: Finding) -> Hashable:
    """Equal for findings that one change mends: one fence is missing, loops of roles turn unequally, roles wait for one
    another, none knows that the grids ahead have ended, or copies of a role say the same of one place."""
    if told.code == "TK318":  # who waits for the grids ahead tells the others
        return told.code, told.severity, _kernel_of(finding.first)
    if finding.fence is not None:
        return told.code, told.severity, told.help
    if roles := re.match(r"roles (.+?) (go through|wait for one another)", told.message):
        return told.code, told.severity, frozenset(roles[1].split(" and "))
    others = tuple(note.location for note in told.notes)
    return told.code, told.severity, told.location, others, _names(told)


def _kernel_of(op: Hashable) -> Operation | None:
    """The kernel that an operation is of."""
    found = around(op) if isinstance(op, Operation) else ()
    return next((at for at in found if at.name == "stage.kernel"), None)


def _comes_of(one: Told, other: Told) -> bool:
    """Whether a finding goes where the mistake of another is mended."""
    (told, finding), (cause, its) = one, other
    if cause.severity is not Severity.ERROR or finding.first not in (its.first, its.second):
        if (told.code, cause.code) != ("TK305", "TK306"):
            return False
        return "cannot be followed" in told.message and finding.roles == its.roles
    if told.code == "TK324":  # nobody waits for it, as is said by who needs that
        return cause.code != told.code
    # an access meets itself, for want of what has to stand between
    return (
        told.code == "TK301"
        and finding.first is finding.second
        and cause.code in UNORDERED
        and its.first is not its.second
        and _names(told) <= _names(cause)
    )


def _names(told: Diagnostic) -> frozenset[str]:
    """The buffers that a message is about."""
    return frozenset(re.findall(r" of (\S+) by ", told.message))


def _apart(finding: Finding) -> int:
    """How many turns of their loop the two accesses are apart."""
    return abs(finding.witness[1] - finding.witness[0]) if finding.witness is not None else 0


def _with(told: Diagnostic, consequences: Sequence[Diagnostic]) -> Diagnostic:
    """A diagnostic with what comes of the same mistake as notes."""
    if not consequences:
        return told
    notes = [Note(f"so, too: {d.message}", d.location) for d in consequences[:MOST]]
    if len(consequences) > MOST:
        notes.append(Note(f"and {len(consequences) - MOST} more of the same"))
    return replace(told, notes=(*told.notes, *notes))
