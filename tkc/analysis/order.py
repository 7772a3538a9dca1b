"""What is wrong with the order of a kernel's accesses, as diagnostics with their places in the source."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from tkc.diagnostics import Diagnostic, Location, Note

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from tkc.analysis.happens_before.report import Finding


def diagnose(module: ModuleOp, profile: str = "practice") -> list[tuple[Diagnostic, Finding]]:
    """A diagnostic for each finding, in the order of the source."""
    from tkc.analysis.happens_before import check

    return rendered(check(module, profile))


def rendered(findings: Iterable[Finding]) -> list[tuple[Diagnostic, Finding]]:
    """A diagnostic for each finding, in the order of the source."""
    found: dict[tuple[object, ...], tuple[Diagnostic, Finding]] = {}
    for finding in findings:  # a statement written out several times says it once
        made = _diagnostic(finding)
        found.setdefault(
            (made.code, made.message, made.location, made.notes, made.help), (made, finding)
        )
    return sorted(found.values(), key=lambda pair: _key(pair[0].location))


def _key(location: Location | None) -> tuple[str, int, int]:
    return ("", 0, 0) if location is None else (location.file, location.line, location.column)


def _diagnostic(finding: Finding) -> Diagnostic:
    """At the later access; the earlier one and what would order them are notes."""
    here = finding.second if finding.second is not None else finding.first
    notes: list[Note] = []
    if finding.second is not None and finding.second is not finding.first:
        what = _OTHER.get(finding.code, "access")
        notes.append(Note(f"the other {what}: {finding.other}", _place(finding.first)))
    two = finding.second is not None and finding.code != "TK314"
    if finding.remedy and two:
        notes.append(Note(f"what would order them: {finding.remedy}"))
    return Diagnostic(
        finding.code,
        finding.message,
        _place(here),
        finding.severity,
        tuple(notes),
        help=_help(finding) or (None if two else finding.remedy or None),
    )


_OTHER = {"TK326": "block", "TK314": "wait"}
"""What a finding's first place is."""


def _help(finding: Finding) -> str | None:
    """The statement that is missing, and where."""
    if finding.fence is None:
        return None
    op, word, follows = finding.fence
    place = _place(op)
    where = f" {'below' if follows else 'above'} line {place.line}" if place is not None else ""
    return f"`fence proxy {word}`{where}"


def _place(op: Any) -> Location | None:
    from tkc.ir.locations import location_of

    return location_of(op) if hasattr(op, "location") else None
