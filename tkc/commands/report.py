"""Diagnostics as text, JSON or SARIF, and the exit code that follows from them."""

from __future__ import annotations

import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import IO, Any

from click.exceptions import Exit

from tkc.diagnostics import (
    CODES,
    REMARKS,
    Bug,
    Diagnostic,
    Edit,
    Severity,
    TkcError,
    nearest,
    to_json,
)

FORMATS = ("text", "json", "sarif")

_SARIF_LEVEL = {
    Severity.ERROR: "error",
    Severity.WARNING: "warning",
    Severity.REMARK: "note",
    Severity.NOTE: "note",
}


ALL = "all"


VALUES_LEFT_OUT = {"--remarks": ALL, "--trap-hangs": "10"}
"""What an option alone means, whose value may be left out."""


def with_values(words: Sequence[str]) -> list[str]:
    """The words of a command line with `--remarks` alone as `--remarks=all`, and so on: the values may be left out."""
    end = words.index("--") if "--" in words else len(words)
    values = VALUES_LEFT_OUT
    return [f"{w}={values[w]}" if w in values and i < end else w for i, w in enumerate(words)]


def remark_codes(words: Sequence[str]) -> frozenset[str]:
    """The codes of the categories in `--remarks=swizzle,roles`; ValueError for one that is not there."""
    found: frozenset[str] = frozenset()
    for word in (w.strip() for words_ in words for w in words_.split(",")):
        if word != ALL and word not in REMARKS:
            near = nearest(word, (*REMARKS, ALL))
            known = ", ".join((*REMARKS, ALL))
            hint = f"; did you mean {near}?" if near else ""
            raise ValueError(f"no remarks are called {word}{hint or f'; there are {known}'}")
        found |= {c for n, (_, codes) in REMARKS.items() if word in (n, ALL) for c in codes}
    return found


@dataclass(eq=False, repr=False)
class Reporter:
    """Prints diagnostics once, in one form, and decides whether they fail the command."""

    format: str = "text"
    werror: bool = False
    remarks: frozenset[str] = frozenset()
    """Codes of the remarks that are shown."""
    product: bool = False
    """Whether the diagnostics are what the command is for: then they go to standard output, even if there are none."""
    sources: dict[str, str] = field(default_factory=dict[str, str])

    def promote(self, found: Sequence[Diagnostic]) -> tuple[Diagnostic, ...]:
        """What is to be shown: remarks only where asked for, warnings as errors under `-Werror`."""
        shown = (d for d in found if d.severity is not Severity.REMARK or d.code in self.remarks)
        return tuple(
            replace(d, severity=Severity.ERROR)
            if self.werror and d.severity is Severity.WARNING
            else d
            for d in shown
        )

    def check(self, found: Sequence[Diagnostic]) -> None:
        """Raises the errors among the diagnostics (warnings under `-Werror`), with everything else beside them."""
        shown = self.promote(found)
        if any(d.severity is Severity.ERROR for d in shown):
            raise TkcError(shown, dict(self.sources))

    def show(self, found: Sequence[Diagnostic], sources: Mapping[str, str] | None = None) -> None:
        """Prints what is to be shown; text says nothing where there is nothing to say."""
        shown = self.promote(found)
        stream = sys.stdout if self.product else sys.stderr
        if self.format == "text":
            for diagnostic in shown:
                stream.write(diagnostic.render(sources or self.sources) + "\n")
        elif shown or self.product:
            stream.write((to_json(shown) if self.format == "json" else to_sarif(shown)) + "\n")

    @contextmanager
    def failing(self) -> Generator[None]:
        """Shows the errors of the block and ends the command with their exit code."""
        try:
            yield
        except TkcError as error:
            self.show(error.diagnostics, {**self.sources, **error.sources})
            raise Exit(exit_code(error)) from None
        except Bug as error:
            if self.format == "text":
                raise
            note = f"; reproducer: {error.reproducer}" if error.reproducer else ""
            self.show((Diagnostic("TK901", f"{error.where}: {error.message}{note}"),))
            raise Exit(3) from None


USAGE = frozenset({"TK119", "TK120", "TK201"})
"""Mistakes that the words of the command line show by themselves."""


def exit_code(error: TkcError) -> int:
    """2 where only the command line is wrong, else 1."""
    return 2 if all(d.code in USAGE and d.location is None for d in error.diagnostics) else 1


def print_error(error: TkcError | Bug, stream: IO[str]) -> int:
    """Prints an error that no reporter has taken, as text; returns its exit code."""
    stream.write(f"{error}\n")
    return 3 if isinstance(error, Bug) else exit_code(error)


def to_sarif(diagnostics: Sequence[Diagnostic]) -> str:
    """SARIF 2.1.0: one run, a rule for each code that occurs."""
    import json

    from tkc.version import __version__

    codes = sorted({d.code for d in diagnostics})
    rules = [{"id": code, "shortDescription": {"text": CODES[code]}} for code in codes]
    driver = {"name": "tkc", "version": __version__, "rules": rules}
    log = {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": driver},
                "columnKind": "unicodeCodePoints",
                "results": [_sarif_result(d, codes.index(d.code)) for d in diagnostics],
            }
        ],
    }
    return json.dumps(log, indent=2)


def _sarif_result(diagnostic: Diagnostic, rule: int) -> dict[str, Any]:
    result: dict[str, Any] = {
        "ruleId": diagnostic.code,
        "ruleIndex": rule,
        "level": _SARIF_LEVEL[diagnostic.severity],
        "message": {"text": diagnostic.message},
        "locations": _sarif_places(diagnostic),
    }
    related = [
        {"id": i, "message": {"text": note.message}, **(_sarif_place(note) or {})}
        for i, note in enumerate(diagnostic.all_notes)
    ]
    if related:
        result["relatedLocations"] = related
    if diagnostic.fix:
        result["fixes"] = [_sarif_fix(diagnostic.fix)]
    return result


def _sarif_fix(fix: Edit) -> dict[str, Any]:
    """What `tkc check --fix` writes, as a replacement of a region (SARIF 2.1.0, 3.55 to 3.57)."""
    place = _sarif_place(fix)
    assert place is not None
    physical = place["physicalLocation"]
    replacement = {"deletedRegion": physical["region"], "insertedContent": {"text": fix.text}}
    change = {"artifactLocation": physical["artifactLocation"], "replacements": [replacement]}
    return {"description": {"text": f"write `{fix.text}`"}, "artifactChanges": [change]}


def _sarif_places(diagnostic: Diagnostic) -> list[dict[str, Any]]:
    place = _sarif_place(diagnostic)
    return [place] if place else []


def _uri(file: str) -> str:
    """A file's name as a URI reference: a relative one has no scheme, an absolute one is `file:`."""
    from urllib.parse import quote

    return f"file://{quote(file)}" if file.startswith("/") else quote(file)


def _sarif_place(at: Any) -> dict[str, Any] | None:
    """The physical location of a diagnostic or note, None where it has none."""
    location = at.location
    if location is None:
        return None
    physical: dict[str, Any] = {"artifactLocation": {"uri": _uri(location.file)}}
    if location.line:
        physical["region"] = {"startLine": location.line}
        if location.column:
            physical["region"]["startColumn"] = location.column
        if location.end_column:
            physical["region"]["endColumn"] = location.end_column
    return {"physicalLocation": physical}
