"""Diagnostics that a text expects in its own comments, as `mlir-opt --verify-diagnostics` has them.

    %0 = ... // expected-error {{the message has this in it}}
    // expected-warning @+1 {{on the next line}}
    // expected-error @below {{on the next line that expects nothing itself}}     also @above, @-2, @unknown (no place)
    // expected-error-re {{of {{[0-9]+}} bytes}}                                  inner braces hold a regular expression

`// error: TEXT` is the short form of the first. Every error and warning must be expected; a remark or a note need not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tkc.diagnostics import Diagnostic, Severity

_COMMENT = re.compile(
    r"expected-(error|warning|remark|note)(-re)?\s*(?:@\s*([+-]\d+|above|below|unknown))?\s*\{\{(.*)\}\}\s*$"
)
_SHORT = re.compile(r"(?://|#)\s*error:\s*(.*?)\s*$")
_INNER = re.compile(r"\{\{(.*?)\}\}")


@dataclass(frozen=True)
class Expected:
    """One diagnostic that must come: on `line` (0: without a place), with what `pattern` finds in its message."""

    severity: Severity
    line: int
    text: str
    pattern: re.Pattern[str]
    written: int
    """The line of the comment."""


@dataclass(frozen=True)
class Said:
    """One message as it came: a diagnostic's own or a note's; line 0 where it has no place."""

    severity: Severity
    line: int
    message: str


def expected(text: str) -> list[Expected]:
    """What the comments of a text ask for."""
    lines = text.splitlines()
    found: list[Expected] = []
    for number, line in enumerate(lines, 1):
        match = _COMMENT.search(line)
        if match is not None:
            kind, regex, where, wanted = match.groups()
            pattern = _regex(wanted) if regex else re.escape(wanted)
            at = _line(lines, number, where)
            found.append(Expected(Severity(kind), at, wanted, re.compile(pattern), number))
        elif short := _SHORT.search(line):
            pattern = re.compile(re.escape(short[1]))
            found.append(Expected(Severity.ERROR, number, short[1], pattern, number))
    return found


def _regex(text: str) -> str:
    parts = _INNER.split(text)
    return "".join(part if i % 2 else re.escape(part) for i, part in enumerate(parts))


def _line(lines: Sequence[str], number: int, where: str | None) -> int:
    if where is None:
        return number
    if where == "unknown":
        return 0
    if where in ("above", "below"):
        step = 1 if where == "below" else -1
        at = number + step
        while 1 <= at <= len(lines) and _COMMENT.search(lines[at - 1]):
            at += step
        return at
    return number + int(where)


def said(diagnostics: Sequence[Diagnostic]) -> Iterator[Said]:
    """The messages of diagnostics with their codes, and of their notes."""
    for d in diagnostics:
        line = d.location.line if d.location else 0
        yield Said(d.severity, line, f"{d.message} [{d.code}]")
        for note in d.notes:
            yield Said(Severity.NOTE, note.location.line if note.location else 0, note.message)


def differences(text: str, found: Sequence[Said], file: str) -> list[str]:
    """A sentence for each diagnostic that did not come and for each error or warning that nobody expects."""
    left = list(found)
    wrong: list[str] = []
    for want in expected(text):
        match = next(
            (
                s
                for s in left
                if (s.severity, s.line) == (want.severity, want.line)
                and want.pattern.search(s.message)
            ),
            None,
        )
        if match is not None:
            left.remove(match)
            continue
        place = "this line" if want.line == want.written else f"line {want.line}"
        place = place if want.line else "no line"
        wrong.append(
            f"{file}:{want.written}: expected {_article(want.severity)} with {want.text!r} on {place}"
        )
    wrong += [
        f"{file}:{s.line}: unexpected {s.severity}: {s.message}"
        for s in left
        if s.severity in (Severity.ERROR, Severity.WARNING)
    ]
    return wrong


def _article(severity: Severity) -> str:
    return f"{'an' if severity is Severity.ERROR else 'a'} {severity}"


def pieces(text: str, split: bool) -> Iterator[str]:
    """The text, or its pieces between lines `// -----` or `# -----`, each behind as many empty lines as it stood; one
    in which nothing stands is none."""
    if not split:
        yield text
        return
    before = 0
    found = re.split(r"^(?://|#) -----[ \t]*(?:\r?\n|\Z)", text, flags=re.MULTILINE)
    for piece in found:
        if piece.strip() or len(found) == 1:
            yield "\n" * before + piece
        before += piece.count("\n") + 1
