"""What became of an emulated launch: findings, comparisons, statistics, a trace, and the exit code."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.exceptions import Exit

from tkc.commands.emulation import Emulation
from tkc.commands.report import Reporter
from tkc.diagnostics import Diagnostic, Severity, TkcError

if TYPE_CHECKING:
    from tkc.commands.statistics import Row
    from tkc.emulator import Report
    from tkc.emulator.trace import Trace
    from tkc.emulator.watch import Counter, Watch


@dataclass(frozen=True)
class Settings:
    """How the emulator runs, whatever it runs."""

    schedule: str
    seed: int
    model: str
    max_steps: int | None
    runs: int = 1


@dataclass
class Outcome:
    """What became of it. `compared` are the sentences for what is as expected."""

    report: Report
    diagnostics: list[Diagnostic]
    compared: list[str] = field(default_factory=list[str])
    rows: list[Row] = field(default_factory=list["Row"])
    trace: str | None = None
    cut: bool = False

    @contextmanager
    def keeping(self) -> Generator[None]:
        """Keeps an error of the block beside what was found: a file that cannot be written loses no finding."""
        try:
            yield
        except TkcError as error:
            self.diagnostics.extend(error.diagnostics)


def run(
    emulation: Emulation, settings: Settings, stats: bool, trace: Path | None, reporter: Reporter
) -> Outcome:
    """Runs the launch, and gathers what was found."""
    from tkc.commands.progress import progress
    from tkc.emulator import Report, emulate
    from tkc.emulator.launch import load
    from tkc.emulator.trace import Trace
    from tkc.emulator.watch import Counter, Watch

    how = emulation.how
    if how is None:
        return Outcome(Report(ended=True), list(emulation.diagnostics))
    reporter.sources.setdefault(emulation.file, emulation.ptx)
    program = load(emulation.ptx, how["entry"], emulation.file)
    _read_sources(program.module.files.values(), Path(emulation.file).parent, reporter.sources)
    recorded = Trace() if trace is not None else None
    watch: Watch = Counter(recorded) if stats or recorded is not None else Watch()
    x, y, z = (*how["grid"], 1, 1)[:3]
    with progress(watch, emulation.name, x * y * z):
        report = emulate(
            emulation.ptx,
            **how,
            schedule=settings.schedule,
            seed=settings.seed,
            model=settings.model,
            max_steps=settings.max_steps,
            runs=settings.runs,
            file=emulation.file,
            watch=watch,
        )
    found = [finding.diagnostic(emulation.file) for finding in report.findings]
    outcome = Outcome(report, [*emulation.diagnostics, *found])
    if isinstance(watch, Counter):
        _count(watch, recorded, trace, outcome, reporter)
    return outcome


def _read_sources(names: Iterable[str], folder: Path, sources: dict[str, str]) -> None:
    """The source files that `.file` names, where they can be read from here or from beside the text."""
    for name in names:
        for path in (Path(name), folder / name):
            if name in sources:
                break
            try:
                sources[name] = path.read_text(encoding="utf-8")
            except (OSError, ValueError):
                continue


def _count(
    watch: Counter, recorded: Trace | None, trace: Path | None, outcome: Outcome, reporter: Reporter
) -> None:
    """The rows of the statistics, and the trace."""
    from tkc.backend.package import write_files
    from tkc.commands import statistics

    warps = watch.warps()
    roles = statistics.roles_of_warps(warps, reporter.sources)
    outcome.rows = statistics.rows(warps, roles)
    if trace is not None and recorded is not None:
        text = recorded.text(reporter.sources, roles)
        with outcome.keeping():
            write_files({trace: text})
            outcome.trace, outcome.cut = str(trace), recorded.cut


def look_at_results(
    emulation: Emulation,
    outcome: Outcome,
    saved: Mapping[str, str],
    expected: Mapping[str, str],
    rtol: float,
) -> None:
    """Saves outputs, and compares them where the launch has come to its end."""
    from tkc import arguments
    from tkc.comparison import check_expected

    for name, file in saved.items():
        with outcome.keeping():
            arguments.save(file, emulation.arrays[name][0])
    if outcome.report.ended:
        with outcome.keeping():
            outcome.compared = check_expected(emulation.arrays, expected, rtol)


def say(emulation: Emulation, outcome: Outcome, stats: bool, reporter: Reporter) -> None:
    """Prints findings, statistics and comparisons, and ends the command with its exit code."""
    shown = reporter.promote(outcome.diagnostics)
    if reporter.format == "text":
        click.echo(outcome.report.printed, nl=False)
    if reporter.format == "json":
        document = {
            "schema": "tkc-diagnostics/1",
            "diagnostics": [d.to_json() for d in shown],
            "emulation": _facts(emulation, outcome),
        }
        click.echo(json.dumps(document, indent=2))
    else:
        reporter.show(outcome.diagnostics)
    if reporter.format == "text":
        for line in outcome.compared:
            click.echo(line)
        for name, (missing, size) in _unwritten(emulation, outcome).items():
            click.echo(f"{name}: {missing:,} of {size:,} elements were never written")
        if stats:
            from tkc.commands.statistics import print_statistics

            print_statistics(outcome.report.stats, outcome.rows)
        click.echo(_summary(emulation, outcome, shown))
    if any(d.severity is Severity.ERROR for d in shown):
        raise Exit(1)


def _facts(emulation: Emulation, outcome: Outcome) -> dict[str, Any]:
    """The `emulation` of a JSON document."""
    how, report = emulation.how or {}, outcome.report
    return {
        "entry": emulation.name,
        **{key: list(how[key]) for key in ("grid", "block", "cluster") if key in how},
        "ended": report.ended,
        "steps": report.steps,
        "stats": report.stats,
        "printed": report.printed,
        "warps": [row.to_json() for row in outcome.rows],
        "compared": outcome.compared,
        "unwritten": {n: missing for n, (missing, _) in _unwritten(emulation, outcome).items()},
        "trace": outcome.trace,
    }


def _unwritten(emulation: Emulation, outcome: Outcome) -> dict[str, tuple[int, int]]:
    """Of each output that was given as empty, how many of its elements nobody wrote, where any; and how many it has."""
    if not outcome.report.ended:
        return {}
    left = [(array, missing) for array, missing in outcome.report.unwritten if missing]
    found: dict[str, tuple[int, int]] = {}
    for name, arrays in emulation.arrays.items():
        mine = [(a, missing) for a, missing in left if any(a is x for x in _each(arrays[0]))]
        if mine:
            size = sum(x.size for x in _each(arrays[0]))
            found[name] = sum(missing for _, missing in mine), size
    return found


def _each(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list) else [value]  # pyright: ignore[reportUnknownArgumentType,reportUnknownVariableType]


def _summary(emulation: Emulation, outcome: Outcome, shown: Sequence[Diagnostic]) -> str:
    """One line: `gemm: 4 CTAs, 12,552 steps, nothing found`."""
    how = emulation.how
    if how is None:
        return f"{emulation.name}: a size is 0, nothing to launch"
    x, y, z = (*how["grid"], 1, 1)[:3]
    counts = [
        f"{number} {severity}{'s' if number > 1 else ''}"
        for severity in (Severity.ERROR, Severity.WARNING)
        if (number := sum(d.severity is severity for d in shown))
    ]
    found = ", ".join(counts) or "nothing found"
    ended = "" if outcome.report.ended else " before it was stopped"
    text = f"{emulation.name}: {_ctas(x * y * z)}, {outcome.report.steps:,} steps{ended}, {found}"
    if outcome.trace is not None:
        text += f"; {outcome.trace}{' (its beginning)' if outcome.cut else ''} shows it"
    return text


def _ctas(count: int) -> str:
    return f"{count:,} CTA{'s' if count > 1 else ''}"
