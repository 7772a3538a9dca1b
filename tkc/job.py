"""What is to be compiled, what was made of it, and who may watch: the words between the driver and its callers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from tkc.diagnostics import Diagnostic, Note, TkcError, nearest

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

DEFAULT_TARGET = "sm_100a"
FENCES = ("minimal", "conservative", "as-written")
MODELS = ("practice", "strict")
MOST_SECONDS = 3600
"""The longest that `trap_hangs` lets a wait last."""


@dataclass(frozen=True)
class Job:
    """What is to be compiled and how; `passes` replaces the target's own pipeline (text in xDSL's syntax)."""

    text: str
    file: str
    target: str = DEFAULT_TARGET
    kernel: str | None = None
    params: Mapping[str, int] = field(default_factory=dict[str, int])
    fences: str = "minimal"
    model: str = "practice"
    passes: str | None = None
    verify_each: bool = False
    search: tuple[str, ...] = ()
    """Folders in which imports are looked for, after the file's own."""
    without: tuple[str, ...] = ()
    """Passes that are left out."""
    trap_hangs: float | None = None
    """Seconds after which a wait for an mbarrier says so and traps; None: it waits for ever."""

    def __post_init__(self) -> None:
        from tkc.ir.isa.targets import TARGETS

        for what in ("text", "file", "target", "fences", "model"):
            _expect_text(what, getattr(self, what))
        for what in ("kernel", "passes"):
            if getattr(self, what) is not None:
                _expect_text(what, getattr(self, what))
        if self.target not in TARGETS:
            raise no_such("TK201", "target", self.target, tuple(TARGETS))
        if self.fences not in FENCES:
            raise no_such("TK120", "choice of fences", self.fences, FENCES)
        if self.model not in MODELS:
            raise no_such("TK120", "memory model", self.model, MODELS)
        if self.trap_hangs is not None and not 0 <= self.trap_hangs <= MOST_SECONDS:
            raise TkcError.at(
                "TK120",
                f"waits that give up after {self.trap_hangs:g} s; expected 0 to {MOST_SECONDS} s",
            )
        if self.trap_hangs is not None and self.passes is not None:
            raise TkcError.at(
                "TK120",
                "waits that give up are an option of a pass, and the passes are given: "
                f"`lower-stage-to-ptx{{trap-hangs={round(self.trap_hangs * 1e9)}}}` among them says so, in ns",
            )

    @property
    def pipeline(self) -> str:
        """The passes that this job runs, as text; those in `without` too."""
        if self.passes is not None:
            return self.passes
        from tkc.passes import pipeline

        limit = None if self.trap_hangs is None else round(self.trap_hangs * 1e9)
        return pipeline(self.target, self.fences, self.model, limit)


def _expect_text(what: str, value: object) -> None:
    if not isinstance(value, str):
        raise TkcError.at("TK120", f"{what} is {value!r}, {type(value).__name__}; expected a text")


class Step(NamedTuple):
    """One pass of a run: its place (the front end is 0, the first pass 1), its name, and the pipeline after it."""

    place: int
    name: str
    rest: str


class Observer(Protocol):
    """Sees a run as it goes; every method may look at the module and none may change it."""

    def begin(self, module: ModuleOp, step: Step, seconds: float) -> None:
        """The front end has made the module."""
        ...

    def before(self, module: ModuleOp, step: Step) -> None: ...

    def after(self, module: ModuleOp, step: Step, seconds: float) -> None: ...

    def phase(self, name: str, seconds: float) -> None:
        """Work that is no pass took this long: loading passes, verifying, printing."""
        ...

    def end(self, compiled: Compiled) -> None: ...


@dataclass(eq=False, repr=False)
class Compiled:
    """What a run made. `again` gives the module after a pass, by running to there anew; "frontend" is before any.

    `module` is None where the rest was kept from an earlier run.
    """

    job: Job
    module: ModuleOp | None
    ptx: str
    contract: dict[str, Any]
    again: Callable[[str | None], ModuleOp]
    diagnostics: tuple[Diagnostic, ...] = ()
    """Warnings and remarks, in the order found."""


def no_such(code: str, what: str, word: str, known: Sequence[str]) -> TkcError:
    near = nearest(word, known)
    hint = f"; did you mean {near}?" if near else ""
    return TkcError.at(
        code, f"no {what} is called {word}{hint}", None, Note(f"there are {', '.join(known)}")
    )
