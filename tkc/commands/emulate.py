"""`tkc emulate`: runs a kernel on the CPU, ours or anybody's PTX, and reports what is wrong with it."""

from __future__ import annotations

import gc
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.exceptions import Exit

from tkc.commands.options import compile_options, session
from tkc.commands.report import Reporter
from tkc.commands.run import DEFAULT_RTOL, check_names, packaged
from tkc.diagnostics import Diagnostic, Severity, TkcError
from tkc.job import no_such

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tkc.commands.plain_launch import PlainLaunch
    from tkc.commands.statistics import Row
    from tkc.emulator import Report
    from tkc.emulator.watch import Counter, Watch
    from tkc.kernel import Kernel

    Arrays = dict[str, tuple[NDArray[Any], str]]

COMPILED = "<ptx>"
"""What messages call the PTX of a kernel that was compiled for this run; `tkc compile -o` writes the same text."""


def _dims(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[int, ...] | None:
    """One to three positive numbers, x first: `4`, `4,2` or `4x2x1`."""
    if value is None:
        return None
    if not re.fullmatch(r"[1-9]\d{0,9}([,x][1-9]\d{0,9}){0,2}", value):
        raise click.BadParameter(
            f"{value!r}: expected one to three positive numbers, as in 4,2", ctx, param
        )
    return tuple(int(number) for number in re.split("[,x]", value))


@dataclass(frozen=True)
class Settings:
    """How the emulator runs, whatever it runs."""

    schedule: str
    seed: int
    model: str
    max_steps: int | None


@dataclass
class Emulation:
    """One launch, ready to run: `how` are `tkc.emulate`'s keywords, None where a size of 0 leaves nothing to launch."""

    name: str
    ptx: str
    file: str
    how: dict[str, Any] | None
    arrays: Arrays
    diagnostics: tuple[Diagnostic, ...] = ()


@dataclass
class Outcome:
    """What became of it. `compared` are the sentences for what is as expected."""

    report: Report
    diagnostics: list[Diagnostic]
    compared: list[str] = field(default_factory=list[str])
    rows: list[Row] = field(default_factory=list["Row"])
    trace: str | None = None
    cut: bool = False


@click.command("emulate")
@click.argument("source", metavar="KERNEL.tk|KERNEL.ptx|LAUNCH.json", type=click.Path())
@click.argument("words", metavar="ARGUMENT…", nargs=-1)
@click.option("--out", multiple=True, metavar="C=c.npy", help="Save an argument after the run.")
@click.option(
    "--expect", multiple=True, metavar="C=ref.npy", help="Compare an argument with a file."
)
@click.option(
    "--rtol",
    type=float,
    default=DEFAULT_RTOL,
    show_default=True,
    help="Largest relative error (Frobenius).",
)
@click.option(
    "--launch",
    metavar="FILE.json",
    type=click.Path(path_type=Path),
    help="How a PTX text is launched: a launch contract, or a plain launch.",
)
@click.option("--entry", metavar="NAME", help="Take one kernel of the PTX text.")
@click.option("--grid", metavar="X,Y,Z", callback=_dims, help="CTAs of a PTX kernel.")
@click.option(
    "--block",
    metavar="X,Y,Z",
    callback=_dims,
    help="Threads of a CTA [what the kernel's .reqntid says].",
)
@click.option("--cluster", metavar="X,Y,Z", callback=_dims, help="CTAs of a cluster [1].")
@click.option(
    "--shared-bytes",
    type=click.IntRange(min=0),
    metavar="N",
    help="Dynamic shared memory of a CTA [0].",
)
@click.option(
    "--schedule",
    default="eager",
    show_default=True,
    metavar="NAME",
    help="When asynchronous work completes: eager (at once), lazy (last) or random.",
)
@click.option(
    "--seed", type=int, default=0, show_default=True, metavar="N", help="Of random choices."
)
@click.option(
    "--model",
    default="practice",
    show_default=True,
    metavar="NAME",
    help="The memory model: practice, or strict.",
)
@click.option(
    "--sm-count",
    type=click.IntRange(min=1),
    metavar="N",
    help="Multiprocessors of the GPU, for grids that follow from them [132].",
)
@click.option(
    "--max-steps", type=click.IntRange(min=1), metavar="N", help="Stop after so many instructions."
)
@click.option("--stats", is_flag=True, help="Say what was executed, moved and waited for.")
@click.option(
    "--trace",
    metavar="FILE.json",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write a trace for ui.perfetto.dev or chrome://tracing.",
)
@compile_options
def command(
    source: str,
    words: tuple[str, ...],
    out: tuple[str, ...],
    expect: tuple[str, ...],
    rtol: float,
    launch: Path | None,
    schedule: str,
    seed: int,
    model: str,
    sm_count: int | None,
    max_steps: int | None,
    stats: bool,
    trace: Path | None,
    format: str,
    werror: bool,
    remarks: bool,
    **options: Any,
) -> None:
    """Run a kernel on the CPU and report what is wrong with it: ours, or any PTX for sm_90a and later.

    An ARGUMENT is A=a.npy, 'A=random(512,256,seed=3)', 'C=empty(512,256)' (poisoned), 'C=zeros(512,256)' or n=7.
    Arguments of a PTX text stand in its parameters' order and have a dtype: 'A=f16:random(64,32)', n=i32:7,
    'A=map(f16:random(64,32), box=32x16)' (a tensor map), B=@A (the same array), p=null.

    Exit 1 where there is a finding, or a result differs from the expected one.
    """
    from tkc.arguments import parse_files

    # A grid of many CTAs makes many cycles of objects, and commands run without the collector.
    gc.enable()
    reporter = Reporter(format, werror, remarks, product=format != "text")
    plain = {
        name: options.pop(name) for name in ("entry", "grid", "block", "cluster", "shared_bytes")
    }
    with reporter.failing():
        settings = Settings(schedule, seed, model, max_steps)
        _check_settings(settings)
        saved, expected = parse_files(out, "--out"), parse_files(expect, "--expect")
        emulation = _prepare(source, words, launch, sm_count, plain, options, reporter)
        check_names((*saved, *expected), emulation.arrays)
        outcome = _run(emulation, settings, stats, trace, reporter)
        _look_at_results(emulation, outcome, saved, expected, rtol)
        _say(emulation, outcome, stats, reporter)


def _check_settings(settings: Settings) -> None:
    """A wrong word is said before anything is compiled."""
    from tkc.emulator.machine import MODELS, SCHEDULES

    if settings.schedule not in SCHEDULES:
        raise no_such("TK120", "schedule", settings.schedule, SCHEDULES)
    if settings.model not in MODELS:
        raise no_such("TK120", "memory model", settings.model, MODELS)


# What to run


def _prepare(
    source: str,
    words: Sequence[str],
    launch: Path | None,
    sm_count: int | None,
    plain: dict[str, Any],
    options: dict[str, Any],
    reporter: Reporter,
) -> Emulation:
    """The launch that the words of the command line mean."""
    path = Path(source)
    numbers = {name: value for name, value in plain.items() if name != "entry"}
    if path.suffix not in (".ptx", ".json"):
        if launch is not None:
            raise click.UsageError(
                "--launch is for a PTX text; a .tk source says how it is launched"
            )
        _refuse_numbers(numbers, source)
        options["kernel"] = _entry(plain["entry"], options["kernel"])
        made = session(source, reporter=reporter, **options)
        compiled = made.run()
        from tkc.kernel import Kernel

        emulation = _ours(Kernel.of(compiled), words, sm_count, COMPILED)
        emulation.diagnostics = compiled.diagnostics
        made.finish()
        return emulation
    _refuse_options(options, source)
    entry = _entry(plain["entry"], options["kernel"])
    file = launch if path.suffix == ".ptx" else path
    if file is None or _is_plain(file):
        return _foreign(path, file, words, {**plain, "entry": entry}, reporter, sm_count)
    _refuse_numbers(numbers, str(file))
    if path.suffix == ".json":
        return _ours(packaged(source, entry), words, sm_count, COMPILED)
    return _ours(_with_text(file, path, entry), words, sm_count, str(path))


def _entry(entry: str | None, kernel: str | None) -> str | None:
    if entry is not None and kernel is not None and entry != kernel:
        raise click.UsageError(f"--entry {entry} and --kernel {kernel}: choose one")
    return entry or kernel


def _refuse_numbers(numbers: Mapping[str, Any], source: str) -> None:
    for name, value in numbers.items():
        if value is not None:
            option = name.replace("_", "-")
            raise click.UsageError(f"--{option} is for a PTX text alone; {source} says it")


_FOR_SOURCES = {
    "target": "--target",
    "params": "-D",
    "passes": "--passes",
    "dump": "--dump",
    "print_ir_before": "--print-ir-before",
    "print_ir_after": "--print-ir-after",
    "print_ir_before_all": "--print-ir-before-all",
    "print_ir_after_all": "--print-ir-after-all",
    "print_debuginfo": "--print-debuginfo",
    "timing": "--timing",
    "verify_each": "--verify-each",
}
"""Options of a compilation, which a compiled kernel cannot have."""


def _refuse_options(options: Mapping[str, Any], source: str) -> None:
    for name, option in _FOR_SOURCES.items():
        if options[name]:
            raise click.UsageError(f"{option} is for a .tk source; {source} is compiled already")


def _is_plain(file: Path) -> bool:
    from tkc.backend.schema import is_object
    from tkc.commands.plain_launch import SCHEMA, read_json

    value = read_json(file)
    return is_object(value) and value.get("schema") == SCHEMA


def _with_text(contract: Path, ptx: Path, entry: str | None) -> Kernel:
    """The kernel of a contract with the text of another file, such as an edited one."""
    from tkc.backend.package import read_contract
    from tkc.driver import read_source
    from tkc.kernel import Kernel, choose

    kernels = read_contract(contract)["kernels"]
    return Kernel(choose(kernels, entry, str(contract)), read_source(ptx))


def _ours(kernel: Kernel, words: Sequence[str], sm_count: int | None, file: str) -> Emulation:
    """A kernel with a contract, on the arguments of the words."""
    from tkc import arguments
    from tkc.emulator import Poisoned
    from tkc.kernel import EMULATED_SMS

    specs = arguments.parse(words)
    values, symbols = arguments.make(specs, kernel.contract)
    arrays: Arrays = {}
    given: list[Any] = []
    for argument, value in zip(kernel.contract["arguments"], values, strict=True):
        name = argument["name"]
        if not argument.get("scalar"):
            arrays[name] = value, argument["dtype"]
            if isinstance(specs[name], arguments.Empty):
                value = Poisoned(value)
        given.append(value)
    how = kernel.emulation(*given, sm_count=sm_count or EMULATED_SMS, **symbols)
    return Emulation(kernel.name, kernel.ptx, file, how, arrays)


def _foreign(
    path: Path,
    file: Path | None,
    words: Sequence[str],
    plain: Mapping[str, Any],
    reporter: Reporter,
    sm_count: int | None,
) -> Emulation:
    """A PTX text with a plain launch, from a file or from the command line."""
    from tkc.commands import plain_launch
    from tkc.driver import read_source
    from tkc.emulator.launch import load

    launch = plain_launch.read(file) if file is not None else plain_launch.PlainLaunch()
    said = {name: value for name, value in plain.items() if value is not None}
    launch = plain_launch.parse_words(words, replace(launch, **said))
    text_path = path if path.suffix == ".ptx" else launch.ptx
    if text_path is None:
        raise TkcError.at("TK411", f'{path}: names no PTX text; expected "ptx": "FILE.ptx"')
    text = read_source(text_path)
    name = str(text_path)
    reporter.sources[name] = text
    program = load(text, launch.entry, name)
    directives = program.function.directives
    block = launch.block or directives.get("reqntid")
    if launch.grid is None or block is None:
        raise click.UsageError(_needs_launch(path, launch))
    made = plain_launch.make(launch)
    how = {
        "entry": program.function.name,
        "grid": launch.grid,
        "block": block,
        "cluster": launch.cluster,
        "shared_bytes": launch.shared_bytes,
        "args": made.args,
        "sm_count": sm_count,
    }
    return Emulation(program.function.name, text, name, how, made.arrays)


def _needs_launch(path: Path, launch: PlainLaunch) -> str:
    missing = "--grid" if launch.grid is None else "--block"
    beside = path.with_suffix(".json")
    hint = f" {beside} lies beside it." if path.suffix == ".ptx" and beside.is_file() else ""
    return (
        f"{path} does not say how it is launched; give --launch FILE.json, or {missing} and the"
        f" arguments in order.{hint}"
    )


# Running it


def _run(
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
            file=emulation.file,
            watch=watch,
        )
    found = [finding.diagnostic(emulation.file) for finding in report.findings]
    outcome = Outcome(report, [*emulation.diagnostics, *found])
    if isinstance(watch, Counter):
        _count(watch, recorded, trace, outcome, reporter)
    return outcome


def _read_sources(names: Any, folder: Path, sources: dict[str, str]) -> None:
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
    watch: Counter, recorded: Any, trace: Path | None, outcome: Outcome, reporter: Reporter
) -> None:
    """The rows of the statistics, and the trace."""
    from tkc.backend.package import write_files
    from tkc.commands import statistics

    warps = watch.warps()
    roles = statistics.roles_of_warps(warps, reporter.sources)
    outcome.rows = statistics.rows(warps, roles)
    if trace is not None:
        write_files({trace: recorded.text(reporter.sources, roles)})
        outcome.trace, outcome.cut = str(trace), recorded.cut


def _look_at_results(
    emulation: Emulation,
    outcome: Outcome,
    saved: Mapping[str, str],
    expected: Mapping[str, str],
    rtol: float,
) -> None:
    """Saves outputs, and compares them where the launch has come to its end."""
    from tkc import arguments

    for name, file in saved.items():
        arguments.save(file, emulation.arrays[name][0])
    if not outcome.report.ended:
        return
    try:
        outcome.compared = arguments.check_expected(emulation.arrays, expected, rtol)
    except TkcError as error:
        outcome.diagnostics.extend(error.diagnostics)


# What is said


def _say(emulation: Emulation, outcome: Outcome, stats: bool, reporter: Reporter) -> None:
    """Prints findings, statistics and comparisons, and ends the command with its exit code."""
    shown = reporter.promote(outcome.diagnostics)
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
        "warps": [row.to_json() for row in outcome.rows],
        "compared": outcome.compared,
        "trace": outcome.trace,
    }


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
