"""Writes missing proxy fences into a source: a line after the statement whose accesses the fence has to follow."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tkc.diagnostics import Diagnostic

if TYPE_CHECKING:
    from tkc.analysis.happens_before.report import Finding


@dataclass(frozen=True, order=True)
class Line:
    """A line to insert after line `after` (from 1) of the source, indented like line `at`."""

    after: int
    text: str
    at: int


def mend(source: str, found: Sequence[tuple[Diagnostic, Finding]]) -> Iterator[str]:
    """Inserts what is missing, and says what; a file is written whole or not at all."""
    path = Path(source)
    text = path.read_bytes().decode("utf-8-sig").split("\n")
    lines = sorted(
        {x for _, finding in found for x in _missing(finding, source, text)}, reverse=True
    )
    if not lines:
        yield "nothing that can be mended by itself"
        return
    for line in lines:
        text.insert(line.after, _indent(text[min(line.at, len(text)) - 1]) + line.text)
    _write(path, "\n".join(text))
    for line in reversed(lines):
        yield f"{source}:{line.after}: added `{line.text}` below"


def _missing(finding: Finding, source: str, text: list[str]) -> Iterator[Line]:
    """The fence of TK302, by the threads of the generic access: below it, or above it where it comes second."""
    from tkc.ir.locations import location_of

    if finding.code != "TK302" or finding.fence is None:
        return
    op, word, follows = finding.fence
    location = location_of(op)
    if location is not None and location.file == source and location.line:
        after = _last(text, location.line) if follows else location.line - 1
        yield Line(after, f"fence proxy {word}", location.line)


def _last(text: list[str], line: int) -> int:
    """The last line of the statement that begins on a line: where its brackets are closed."""
    open_ = 0
    for number in range(line, len(text) + 1):
        code = text[number - 1].split("#")[0]
        open_ += sum(code.count(c) for c in "([{") - sum(code.count(c) for c in ")]}")
        if open_ <= 0:
            return number
    return line


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def _write(path: Path, text: str) -> None:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
        file.write(text)
    os.chmod(name, path.stat().st_mode & 0o777)
    os.replace(name, path)
