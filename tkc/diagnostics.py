"""What goes wrong, where, and how it is printed: one table of codes for the whole compiler.

Imports the standard library only: the launcher and the emulator report through it without the compiler.
"""

from __future__ import annotations

import json
import re
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any


class Severity(StrEnum):
    ERROR = "error"
    WARNING = "warning"
    REMARK = "remark"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Location:
    """A place in a source text: `line` and `column` from 1, 0 where unknown; `end_column` is one past the last."""

    file: str
    line: int = 0
    column: int = 0
    end_column: int = 0

    def __str__(self) -> str:
        if not self.line:
            return self.file
        return (
            f"{self.file}:{self.line}:{self.column}" if self.column else f"{self.file}:{self.line}"
        )


CODES: Mapping[str, str] = {
    # TK1xx language
    "TK101": "syntax error",
    "TK102": "unknown name",
    "TK103": "name defined twice",
    "TK104": "shape mismatch",
    "TK105": "dtype mismatch",
    "TK106": "wrong kind of value",
    "TK107": "pipe used by a role that is not its end",
    "TK108": "tile used outside its put or get",
    "TK109": "roles disagree about a pipe's items",
    "TK110": "not supported yet",
    "TK111": "param has no such name or value",
    "TK112": "source cannot be read",
    "TK113": "empty program",
    "TK114": "accumulator read before it is set",
    "TK115": "operand layout that the language does not have",
    "TK116": "wrong number of values",
    "TK117": "constant expression has no value",
    "TK118": "output cannot be written",
    "TK119": "pass pipeline that cannot be read or run",
    "TK120": "option has no such value",
    "TK121": "threads that do not all reach what they do together",
    "TK122": "condition that no thread meets",
    # TK2xx resources and targets
    "TK201": "unknown target",
    "TK202": "target lacks a feature",
    "TK203": "no tensor-core shape fits",
    "TK204": "shared memory exceeded",
    "TK205": "tensor memory exceeded",
    "TK206": "registers exceeded",
    "TK207": "limit of the tensor copy engine exceeded",
    "TK208": "too many threads",
    "TK209": "barrier count exceeded",
    "TK210": "assembler refused the program",
    "TK211": "assembler notice",
    "TK212": "no assembler found",
    "TK213": "roles cannot be fused",
    "TK214": "registers spilled",
    "TK218": "layout chosen",
    "TK219": "roles and depths chosen",
    "TK220": "election kept as written",
    "TK221": "tensor memory placed",
    "TK222": "copies and products in one thread",
    "TK223": "fences left as they are",
    "TK230": "multiprocessors left idle",
    # TK3xx synchronisation
    "TK301": "accesses are not ordered",
    "TK302": "proxy fence missing",
    "TK303": "barrier used before it is initialised",
    "TK304": "barrier initialised again while in use",
    "TK305": "arrivals or bytes cannot complete a phase",
    "TK306": "phase lapped",
    "TK307": "commit or wait in another thread",
    "TK308": "wait_group count covers the wrong group",
    "TK309": "buffer reused while still read",
    "TK310": "tensor memory used outside its lifetime",
    "TK311": "tensor memory leaked",
    "TK312": "tensor memory load or store not awaited",
    "TK313": "cluster peer exits with work pending",
    "TK314": "deadlock",
    "TK315": "election under divergence",
    "TK316": "convergence required",
    "TK317": "tensor map edited while in use",
    "TK318": "dependent launch not awaited",
    "TK319": "wgmma registers touched in flight",
    "TK320": "uninitialised value reaches an output",
    "TK321": "access out of bounds",
    "TK322": "misaligned access",
    "TK323": "illegal descriptor",
    "TK324": "exit with work in flight",
    "TK325": "order of accesses not settled",
    "TK326": "slot owned by two blocks at once",
    "TK327": "several threads do what one would",
    "TK330": "cluster asked for after a refusal",
    # TK4xx launch
    "TK401": "wrong number of arguments",
    "TK402": "wrong rank",
    "TK403": "wrong dtype",
    "TK404": "wrong device",
    "TK405": "stride that the kernel cannot take",
    "TK406": "misaligned base address",
    "TK407": "shapes disagree",
    "TK408": "GPU does not fit the kernel's target",
    "TK409": "no GPU or no driver",
    "TK410": "launch failed",
    "TK411": "contract cannot be read",
    "TK412": "argument cannot be made",
    "TK413": "result differs from the expected one",
    "TK414": "launch requirement not met",
    "TK415": "step limit reached",
    "TK416": "instruction that the emulator does not cover",
    "TK417": "PTX text cannot be read",
    "TK418": "impossible launch",
    "TK419": "emulation interrupted",
    # TK5xx numerics
    "TK501": "value does not fit the dtype",
    # TK9xx ours
    "TK901": "internal error",
    "TK902": "proof that does not hold",
}


REMARKS: Mapping[str, tuple[str, frozenset[str]]] = {
    "swizzle": ("swizzles of shared tiles, and how accesses meet the banks", frozenset({"TK218"})),
    "elections": (
        "conditions that one thread passes, and elections made of them",
        frozenset({"TK220"}),
    ),
    "roles": ("warps of roles, and how often accumulators are held", frozenset({"TK219"})),
    "columns": ("which columns of tensor memory hold what", frozenset({"TK221"})),
    "copies": ("copies of block scales that join the products, or why not", frozenset({"TK222"})),
    "fences": ("fences that are left as they are, and why", frozenset({"TK223"})),
}
"""Category of `--remarks=` → what its remarks are about, and their codes; every code of a remark is in one."""


@dataclass(frozen=True, slots=True)
class Note:
    """A second place or a hint that belongs to a diagnostic."""

    message: str
    location: Location | None = None


@dataclass(frozen=True, slots=True)
class Edit:
    """Text to put in the place of what stands at a location: on one line, of which the end is known."""

    location: Location
    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One finding: a stable code, a severity, one sentence, its place, notes, and how to mend it.

    `fix` is what `tkc check --fix` writes into the source, `help` says in words what a reader can do.
    """

    code: str
    message: str
    location: Location | None = None
    severity: Severity = Severity.ERROR
    notes: tuple[Note, ...] = ()
    fix: Edit | None = None
    help: str | None = None

    def __post_init__(self) -> None:
        if self.code not in CODES:
            raise KeyError(f"no diagnostic code {self.code}")
        if self.severity is Severity.REMARK:
            if not any(self.code in codes for _, codes in REMARKS.values()):
                raise KeyError(f"no category of remarks has {self.code}")

    def render(self, sources: Mapping[str, str] | None = None) -> str:
        """The diagnostic as text: place, sentence, source line with a caret, notes."""
        head = f"{self.location}: " if self.location else ""
        lines = [f"{head}{self.severity}: {self.message} [{self.code}]"]
        lines += _excerpt(self.location, sources)
        for note in self.notes:
            place = f"{note.location}: " if note.location else ""
            lines.append(f"{place}note: {note.message}")
            lines += _excerpt(note.location, sources)
        if self.help:
            lines.append(f"help: {self.help}")
        if self.fix:
            lines.append(f"fix: {self.fix}")
        return "\n".join(lines)

    @property
    def all_notes(self) -> tuple[Note, ...]:
        """The notes, with the help as one of them."""
        return (*self.notes, Note(f"help: {self.help}")) if self.help else self.notes

    def to_json(self) -> dict[str, Any]:
        return {
            "code": self.code,
            "severity": str(self.severity),
            "message": self.message,
            "location": _location_json(self.location),
            "notes": [
                {"message": n.message, "location": _location_json(n.location)}
                for n in self.all_notes
            ],
            "fix": str(self.fix) if self.fix else None,
        }


def _location_json(location: Location | None) -> dict[str, Any] | None:
    if location is None:
        return None
    return {"file": location.file, "line": location.line, "column": location.column}


EXCERPT = 200
"""Characters of a source line that are shown, round the caret."""


def _excerpt(location: Location | None, sources: Mapping[str, str] | None) -> list[str]:
    """The source line and the caret line below it, tabs kept so that the caret stands right."""
    if location is None or not location.line or not sources or location.file not in sources:
        return []
    lines = sources[location.file].split("\n")
    if location.line > len(lines):
        return []
    text = lines[location.line - 1].rstrip("\r")
    if not location.column:
        return [f"    {text[:EXCERPT]}"]
    start = location.column - 1
    if len(text) > EXCERPT:
        first = max(0, min(start - EXCERPT // 2, len(text) - EXCERPT))
        text = text[first : first + EXCERPT]
        location = replace(
            location,
            column=location.column - first,
            end_column=max(0, location.end_column - first),
        )
    before = text[: location.column - 1]
    pad = "".join("\t" if c == "\t" else " " for c in before)
    width = (
        max(1, min(location.end_column, len(text) + 1) - location.column)
        if location.end_column
        else 1
    )
    return [f"    {text}", f"    {pad}{'^' * width}"]


def to_json(diagnostics: Sequence[Diagnostic]) -> str:
    """`"schema": "tkc-diagnostics/1"`."""
    return json.dumps(
        {"schema": "tkc-diagnostics/1", "diagnostics": [d.to_json() for d in diagnostics]}, indent=2
    )


_NUMBER = re.compile(r"\b\d+\b")


def once(found: Sequence[Diagnostic]) -> tuple[Diagnostic, ...]:
    """The first of those that say the same of the same places but for numbers: a statement that is written out several
    times (`unroll`, families, functions) is one mistake."""
    if len(found) < 2:
        return tuple(found)
    kept: dict[Any, Diagnostic] = {}
    for d in found:
        others = tuple(note.location for note in d.notes)
        told = (d.code, d.severity, d.location, others, _NUMBER.sub("0", d.message))
        kept.setdefault(told if d.location else d, d)
    return tuple(kept.values())


@dataclass(eq=False)
class TkcError(Exception):
    """The user's program, data or environment is at fault: exit code 1. Holds one or more diagnostics."""

    diagnostics: tuple[Diagnostic, ...]
    sources: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.diagnostics = once(self.diagnostics)

    @classmethod
    def at(
        cls,
        code: str,
        message: str,
        location: Location | None = None,
        *notes: Note,
        help: str | None = None,
    ) -> TkcError:
        return cls((Diagnostic(code, message, location, notes=notes, help=help),))

    def render(self) -> str:
        return "\n".join(d.render(self.sources) for d in self.diagnostics)

    def __str__(self) -> str:
        return self.render()


class TargetError(TkcError):
    """The target lacks a feature that the program needs."""


@dataclass(eq=False)
class Bug(Exception):
    """The compiler broke its own invariant: exit code 3. The driver writes a reproducer and sets `reproducer`."""

    where: str
    message: str
    reproducer: str | None = None

    def __str__(self) -> str:
        text = f"internal error in {self.where}: {self.message} [TK901]"
        return f"{text}\nreproducer: {self.reproducer}" if self.reproducer else text


@dataclass
class Collector:
    """Gathers diagnostics of one run, so that one run reports several mistakes."""

    diagnostics: list[Diagnostic] = field(default_factory=list)

    def error(
        self,
        code: str,
        message: str,
        location: Location | None = None,
        *notes: Note,
        fix: Edit | None = None,
        help: str | None = None,
    ) -> None:
        made = Diagnostic(code, message, location, Severity.ERROR, notes, fix, help)
        self.diagnostics.append(made)

    def stop_on_errors(self, sources: Mapping[str, str] | None = None) -> None:
        errors = [d for d in self.diagnostics if d.severity is Severity.ERROR]
        if errors:
            raise TkcError(tuple(errors), dict(sources or {}))


_listener: ContextVar[list[Diagnostic] | None] = ContextVar("listener", default=None)


def report(diagnostic: Diagnostic) -> None:
    """Hands a warning or remark to whoever runs the compiler; it is dropped where nobody listens."""
    heard = _listener.get()
    if heard is not None:
        heard.append(diagnostic)


@contextmanager
def listening() -> Generator[list[Diagnostic]]:
    """Collects in order what is reported inside the block, in this thread and its tasks."""
    heard: list[Diagnostic] = []
    token = _listener.set(heard)
    try:
        yield heard
    finally:
        _listener.reset(token)


def nearest(word: str, known: Sequence[str]) -> str | None:
    """The known name that is most like `word`, None where none is; for "did you mean" hints."""
    from difflib import get_close_matches

    lowered = {name.lower(): name for name in known}
    found = get_close_matches(word.lower(), list(lowered), n=1, cutoff=0.5)
    return lowered[found[0]] if found else None
