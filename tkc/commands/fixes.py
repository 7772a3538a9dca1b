"""Writes into a source what is meant beyond doubt: other words, each kept only where the mistake is then gone, and
lines that are missing, each kept only where the analysis then finds less, and nothing new."""

from __future__ import annotations

import os
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tkc.diagnostics import Diagnostic, Edit, Severity, TkcError

if TYPE_CHECKING:
    from tkc.analysis.happens_before.report import Finding

Check = Callable[[str], Sequence[Diagnostic]]
"""What is found in a text; raises TkcError where it is no program."""


ROUNDS = 10
"""How often a text is read again for mistakes that others hid."""


def mend_words(source: str, read: Callable[[str], object]) -> Iterator[str]:
    """Puts in the words that are meant for those that mistakes name, and says which. `read` raises TkcError for a text
    with mistakes."""
    path = Path(source)
    text = path.read_bytes().decode("utf-8-sig")
    done: list[str] = []
    for _ in range(ROUNDS):
        found = _mistakes(read, text)
        edits = [d.fix for d in found if d.fix is not None]
        edits.sort(key=lambda e: (e.location.line, e.location.column), reverse=True)
        before = text
        for edit in edits:
            after = with_edit(text, edit)
            left = {(d.message, d.location) for d in _mistakes(read, after)}
            if any((d.message, d.location) in left for d in found if d.fix == edit):
                continue
            _, old, _ = _cut(_LINE_END.split(text)[2 * (edit.location.line - 1)], edit)
            done.append(f"{edit.location}: `{old}` is now `{edit.text}`")
            text = after
        if text == before:
            break
    if done:
        _write(path, text)
        yield from sorted(done)


def with_edit(text: str, edit: Edit) -> str:
    """The text with other words; its line ends stay as they are."""
    parts = _LINE_END.split(text)
    number = 2 * (edit.location.line - 1)
    before, _, after = _cut(parts[number], edit)
    parts[number] = before + edit.text + after
    return "".join(parts)


_LINE_END = re.compile(r"(\r\n|\r|\n)")


def _cut(line: str, edit: Edit) -> tuple[str, str, str]:
    first, end = edit.location.column - 1, edit.location.end_column - 1
    return line[:first], line[first:end], line[end:]


def _mistakes(read: Callable[[str], object], text: str) -> tuple[Diagnostic, ...]:
    try:
        read(text)
    except TkcError as error:
        return error.diagnostics
    return ()


@dataclass(frozen=True, order=True)
class Line:
    """A line to insert after line `after` (from 1) of the source, with `indent` blanks before it."""

    after: int
    text: str
    indent: int


def mend(source: str, found: Sequence[tuple[Diagnostic, Finding]], check: Check) -> Iterator[str]:
    """Inserts what is missing, and says what; a file is written whole or not at all."""
    path = Path(source)
    text = path.read_bytes().decode("utf-8-sig").split("\n")
    wrong = Counter(d.code for d, _ in found if d.severity is Severity.ERROR)
    kept: list[Line] = []
    for _, finding in found:
        for missing in _missing(finding, source, text):
            lines = missing if isinstance(missing, tuple) else (missing,)
            if any(line in kept for line in lines):
                continue
            after = _left(check, with_lines(text, [*kept, *lines]))
            if after is not None and after < wrong:
                kept += lines
                wrong = after
                break
    if not kept:
        yield "nothing that can be mended by itself"
        return
    _write(path, with_lines(text, kept))
    for line in sorted(kept):
        yield f"{source}:{line.after}: added `{line.text}` below"


def with_lines(text: Sequence[str], lines: Sequence[Line]) -> str:
    """The text with these lines; those after one line in their order."""
    made = list(text)
    # of two below one line, the first comes last, so that it stands above the other
    for _, line in sorted(enumerate(lines), key=lambda x: (x[1].after, x[0]), reverse=True):
        made.insert(line.after, " " * line.indent + line.text)
    return "\n".join(made)


def _left(check: Check, text: str) -> Counter[str] | None:
    """How often each code is an error in a text; None where it is no program."""
    try:
        return Counter(d.code for d in check(text) if d.severity is Severity.ERROR)
    except TkcError:
        return None


# What may be missing -------------------------------------------------------------------------------------------------


def _missing(finding: Finding, source: str, text: list[str]) -> Iterator[Line | tuple[Line, ...]]:
    """Lines of which one may be what a finding lacks, or several together, likeliest first."""
    at = finding.second if finding.second is not None else finding.first
    unclosed = re.match(r"`(commit \w+)` behind it", finding.remedy)
    if unclosed is not None:
        for closed in _beside(finding.first, unclosed[1], True, source, text):
            yield closed
            if unclosed[1] == "commit stores":
                for end in _in_role(finding, "elect: wait stores", True, text):
                    yield closed, end
        return
    match finding.code:
        case "TK302" if finding.fence is not None:
            op, word, follows = finding.fence
            yield from _beside(op, f"fence proxy {word}", follows, source, text)
        case "TK319" if "fence" in finding.message:
            yield from _beside(at, "fence products", False, source, text)
        case "TK318":
            yield from _in_role(finding, "wait pdl", False, text)
        case "TK324" if "stores" in finding.remedy:
            yield from _in_role(finding, "elect: wait stores", True, text)
        case "TK301" | "TK309":
            yield from _before_arrivals(finding, text)
        case _:
            pass


def _line_of(op: Any, source: str) -> int:
    """The line where an operation's statement begins; 0: not in this source."""
    from tkc.ir.locations import location_of

    location = location_of(op) if hasattr(op, "location") else None
    return location.line if location is not None and location.file == source else 0


def _beside(op: Any, line: str, follows: bool, source: str, text: list[str]) -> Iterator[Line]:
    at = _line_of(op, source)
    if at:
        yield Line(_last(text, at) if follows else at - 1, line, _indent(text[at - 1]))


def _role(finding: Finding, text: list[str]) -> int:
    """The line where the role of a finding's first access begins; 0: none does. Later passes have taken its operations
    apart, so that its name has to do."""
    name = re.split(r"[ \[]", finding.roles[0])[0] if finding.roles else ""
    begins = re.compile(rf"\s*role {re.escape(name)}\b")
    return next((n for n, line in enumerate(text, 1) if name and begins.match(line)), 0)


def _in_role(finding: Finding, line: str, at_end: bool, text: list[str]) -> Iterator[Line]:
    """A line that a role begins or ends with."""
    at = _role(finding, text)
    if at:
        indent = _indent(text[at - 1])
        yield Line(_end(text, at, indent) if at_end else at, line, indent + 4)


def _before_arrivals(finding: Finding, text: list[str]) -> Iterator[Line]:
    """`sync warp` before each arrival of a lane for its warp, in the role of the earlier access."""
    at = _role(finding, text)
    if at:
        for number in range(at, _end(text, at, _indent(text[at - 1]))):
            if text[number].split("#")[0].rstrip().endswith("each = warp"):
                yield Line(number, "sync warp", _indent(text[number]))


def _end(text: list[str], line: int, indent: int) -> int:
    """The last line of the block that a line opens."""
    last = line
    for number in range(line, len(text)):
        if text[number].strip() and _indent(text[number]) <= indent:
            break
        if text[number].strip():
            last = number + 1
    return last


def _last(text: list[str], line: int) -> int:
    """The last line of the statement that begins on a line: where its brackets are closed."""
    open_ = 0
    for number in range(line, len(text) + 1):
        code = text[number - 1].split("#")[0]
        open_ += sum(code.count(c) for c in "([{") - sum(code.count(c) for c in ")]}")
        if open_ <= 0:
            return number
    return line


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _write(path: Path, text: str) -> None:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
        file.write(text)
    os.chmod(name, path.stat().st_mode & 0o777)
    os.replace(name, path)
