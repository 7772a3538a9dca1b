"""What an emulated launch says: findings with their code and place, statistics, and the ways a run ends."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tkc.diagnostics import Diagnostic, Location, Note, Severity


@dataclass(frozen=True)
class Finding:
    """One thing that went wrong: `ptx_line` counts from 1, `location` is the source line of `.loc` where there is one.

    `agents` say who (a warp and its lanes, or an engine), `accesses` which accesses of memory.
    """

    code: str
    message: str
    ptx_line: int = 0
    location: Location | None = None
    agents: tuple[str, ...] = ()
    accesses: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    severity: Severity = Severity.ERROR

    def diagnostic(self, file: str = "<ptx>") -> Diagnostic:
        """The finding in the form of the compiler's own messages."""
        place = self.location or (Location(file, self.ptx_line) if self.ptx_line else None)
        notes = [Note(text) for text in (*self.agents, *self.accesses, *self.notes)]
        if self.location is not None and self.ptx_line:
            notes.insert(0, Note("the PTX instruction", Location(file, self.ptx_line)))
        return Diagnostic(self.code, self.message, place, self.severity, tuple(notes))

    def __str__(self) -> str:
        return self.diagnostic().render()


@dataclass
class Report:
    """The outcome of one launch.

    `stats` maps words such as "instructions.arith", "bytes.tma.load" or "mbarrier.waits" to counts.
    """

    races: list[Finding] = field(default_factory=list)
    faults: list[Finding] = field(default_factory=list)
    warnings: list[Finding] = field(default_factory=list)
    hang: Finding | None = None
    steps: int = 0
    stats: dict[str, int] = field(default_factory=dict)
    printed: str = ""
    """What the kernel has printed, thread by thread."""
    ended: bool = False
    """Whether every CTA ran to its end; else a finding stopped the launch, and its outputs are not whole."""
    unwritten: list[tuple[Any, int]] = field(default_factory=list)
    """Of each array that was given as `Poisoned`: how many of its elements nobody wrote in the first run."""

    @property
    def findings(self) -> list[Finding]:
        """Errors first, then warnings."""
        hang = [self.hang] if self.hang is not None else []
        return [*self.races, *self.faults, *hang, *self.warnings]

    @property
    def clean(self) -> bool:
        """No error; warnings may be there."""
        return not self.races and not self.faults and self.hang is None

    def to_json(self) -> dict[str, Any]:
        return {
            "diagnostics": [f.diagnostic().to_json() for f in self.findings],
            "steps": self.steps,
            "stats": dict(self.stats),
            "printed": self.printed,
        }

    def count(self, name: str, by: int = 1) -> None:
        self.stats[name] = self.stats.get(name, 0) + by


class Stop(Exception):
    """Ends the launch at once: the machine turns it into a finding of its report."""

    def __init__(self, code: str, message: str, **more: Any) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.more = more
