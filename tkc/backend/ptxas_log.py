"""What an assembler says, read: errors at `.tk` lines, notices by code, and each kernel's registers and spills.

ptxas, nvPTXCompiler and the driver's JIT print the same sentences; only the name of the input differs.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Collection
from dataclasses import dataclass, field

from tkc.diagnostics import Diagnostic, Location, Note, TkcError

PTX_FILE = "<ptx>"
"""What stands for the PTX text in locations."""


@dataclass(frozen=True, slots=True)
class Resources:
    """What one kernel takes: registers a thread, bytes of static shared memory, stack and spills, named barriers."""

    registers: int = 0
    spill_stores: int = 0
    spill_loads: int = 0
    stack: int = 0
    shared: int = 0
    barriers: int = 0


@dataclass(frozen=True, slots=True)
class Notice:
    """A remark of the assembler that costs speed or drops a directive; `name` is what `allow` takes."""

    name: str
    message: str
    ptx_line: int | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """A log in parts. `errors` are (PTX line or None, sentence)."""

    errors: tuple[tuple[int | None, str], ...] = ()
    notices: tuple[Notice, ...] = ()
    kernels: dict[str, Resources] = field(default_factory=dict)


_MESSAGE = re.compile(
    r"^(?:ptxas|nvPTXCompiler|nvlink)?\s*(?P<input>.*?)"
    r"(?:,?\s*line (?P<line>\d+);)?\s*(?P<level>error|fatal|warning|info)\s*:\s*(?P<text>.*)$"
)
_CODE = re.compile(r"^\((C\d{4})\)\s*")
_IN_TEXT = re.compile(r"\bline (\d+)\b")
_COSTLY = re.compile(
    r"Potential Performance Loss|\bignored\b|\bserialized\b|\binjected\b", re.IGNORECASE
)
_KERNEL = re.compile(r"Compiling entry function '([^']+)'")
_PROPERTIES = re.compile(
    r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads"
)
_USED = re.compile(r"Used (\d+) registers")
_BARRIERS = re.compile(r"used (\d+) barriers")
_SHARED = re.compile(r"(\d+) bytes smem")
_ABORTED = "Ptx assembly aborted due to errors"


def read(log: str) -> Report:
    """The parts of a log (`-v`)."""
    errors: list[tuple[int | None, str]] = []
    notices: list[Notice] = []
    kernels: dict[str, Resources] = {}
    kernel = ""
    spills = (0, 0, 0)
    for raw in log.splitlines():
        if found := _PROPERTIES.search(raw):
            spills = (int(found[1]), int(found[2]), int(found[3]))
            continue
        message = _MESSAGE.match(raw)
        if message is None:
            continue
        text, level = message["text"], message["level"]
        line = int(message["line"]) if message["line"] else None
        if line is None and (inside := _IN_TEXT.search(text)):
            line = int(inside[1])
        if level in ("error", "fatal"):
            if not text.startswith(_ABORTED):
                errors.append((line, text))
        elif code := _CODE.match(text):
            notices.append(Notice(code[1], text[code.end() :], line))
        elif level == "warning":
            notices.append(Notice("warning", text, line))
        elif _COSTLY.search(text):
            notices.append(Notice("notice", text, line))
        elif found := _KERNEL.search(text):
            kernel, spills = found[1], (0, 0, 0)
        elif kernel and (found := _USED.search(text)):
            barriers, shared = _BARRIERS.search(text), _SHARED.search(text)
            kernels[kernel] = Resources(
                int(found[1]),
                spills[1],
                spills[2],
                spills[0],
                int(shared[1]) if shared else 0,
                int(barriers[1]) if barriers else 0,
            )
    return Report(tuple(errors), tuple(notices), kernels)


class LineMap:
    """PTX line → source place, by the nearest `.loc` before it in the same function."""

    def __init__(self, ptx: str) -> None:
        self.lines = ptx.splitlines()
        files = {
            m[1]: m[2] for m in re.finditer(r'^\s*\.file\s+(\d+)\s+"([^"]*)"', ptx, re.MULTILINE)
        }
        self._at: list[int] = []
        self._places: list[Location | None] = []
        for number, text in enumerate(self.lines, 1):
            if found := re.match(r"\s*\.loc\s+(\d+)\s+(\d+)(?:\s+(\d+))?", text):
                place = Location(files.get(found[1], PTX_FILE), int(found[2]), int(found[3] or 0))
            elif re.search(r"\.(entry|func)\b", text):
                place = None  # a new function: what was said of the last one no longer holds
            else:
                continue
            self._at.append(number)
            self._places.append(place)

    def place(self, line: int) -> Location | None:
        """The source place of a PTX line (from 1); None before the first `.loc` of its function."""
        index = bisect_right(self._at, line) - 1
        return self._places[index] if index >= 0 else None

    def diagnostic(
        self, code: str, message: str, line: int | None, help: str | None = None
    ) -> Diagnostic:
        """A diagnostic at the source line, with the PTX line as a note; at the PTX line where no source is known."""
        if line is None or not 1 <= line <= len(self.lines):
            return Diagnostic(code, message, help=help)
        here = Location(PTX_FILE, line)
        place = self.place(line)
        if place is None:
            return Diagnostic(code, message, here, help=help)
        return Diagnostic(
            code, message, place, notes=(Note("in this line of the PTX text", here),), help=help
        )


def refusal(report: Report, ptx: str, tool: str) -> TkcError:
    """TK210 for every error of a log."""
    lines = LineMap(ptx)
    # The assembler reports pass by pass; a reader wants the order of the text, and each mistake once.
    errors = sorted(dict.fromkeys(report.errors), key=lambda e: e[0] or 0)
    found = [lines.diagnostic("TK210", f"{tool}: {_sentence(text)}", line) for line, text in errors]
    return TkcError(
        tuple(found) or (Diagnostic("TK210", f"{tool} refused the program without a reason"),),
        {PTX_FILE: ptx},
    )


def reject_notices(report: Report, ptx: str, allow: Collection[str]) -> None:
    """Raises TkcError with TK211 for each notice and TK214 for each spill that `allow` does not name."""
    lines = LineMap(ptx)
    found = [
        lines.diagnostic(
            "TK211", f"{_sentence(n.message)} ({n.name})", n.ptx_line, f"allow it by name: {n.name}"
        )
        for n in report.notices
        if n.name not in allow
    ]
    found += [
        Diagnostic(
            "TK214",
            f"kernel {name} spills registers: {r.spill_stores} bytes of stores, {r.spill_loads} of loads,"
            f" at {r.registers} registers",
            help="allow it by name: spills",
        )
        for name, r in report.kernels.items()
        if (r.spill_stores or r.spill_loads) and "spills" not in allow
    ]
    if found:
        raise TkcError(tuple(found), {PTX_FILE: ptx})


def unsupported(report: Report) -> str | None:
    """The sentence that says that the tool does not know the target or the `.version`; None where it does."""
    for _, text in report.errors:
        if "Unsupported .version" in text or "for option 'gpu-name'" in text:
            return text
    return None


def _sentence(text: str) -> str:
    """The assembler's sentence in the form of ours: no code in front, lower case, no period."""
    text = _CODE.sub("", text)
    lowered = text[:1].lower() + text[1:] if text[1:2].islower() else text
    return lowered.rstrip(".")
