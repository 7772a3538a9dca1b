"""The options that every command with a compilation has, and the job and observers that they make."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tkc import cache
from tkc.commands.report import ALL, FORMATS, Reporter, remark_codes
from tkc.diagnostics import REMARKS
from tkc.driver import passes_of, read_source, run
from tkc.job import DEFAULT_TARGET, FENCES, MODELS, Compiled, Job, Observer, no_such
from tkc.passes import OPTIONAL, REQUIRED

if TYPE_CHECKING:
    from tkc.dump import Timing

F = TypeVar("F", bound=Callable[..., Any])

_PARAM = re.compile(r"([A-Za-z_]\w*)=([+-]?(?:0[xX][0-9a-fA-F_]+|[0-9][0-9_]*))")
_INT64 = range(-(2**63), 2**63)


DEFAULT_RTOL = 3e-3


def once(ctx: click.Context, param: click.Parameter, values: tuple[Any, ...]) -> Any:
    """The value of an option that may be given once, and not empty, declared with `multiple=True`."""
    if len(values) > 1:
        raise click.UsageError(
            f"{param.opts[0]} is given twice, as {values[0]} and as {values[1]}", ctx
        )
    if values and values[0] == "" and param.name != "passes":  # a pipeline may be empty
        raise click.UsageError(f"{param.opts[0]} is given without a value", ctx)
    return values[0] if values else None


def _needed(ctx: click.Context, param: click.Parameter, given: bool) -> None:
    """Says that a pass cannot be left out, where somebody tries."""
    if given:
        name = param.opts[0].removeprefix("--no-")
        told = f"{name} cannot be left out: the passes after it need its work"
        raise click.UsageError(f"{told}; those that can are {', '.join(OPTIONAL)}", ctx)


def _tolerance(ctx: click.Context, param: click.Parameter, value: float) -> float:
    if 0 <= value < float("inf"):
        return value
    raise click.BadParameter(f"{value}: expected a number that is not below 0", ctx, param)


def data_options(command: F) -> F:
    """The options of a command that runs a kernel: what is saved, what is compared, and how closely."""
    for option in (
        click.option(
            "--rtol",
            type=float,
            default=DEFAULT_RTOL,
            callback=_tolerance,
            show_default=True,
            help="Largest relative error (Frobenius).",
        ),
        click.option(
            "--expect",
            multiple=True,
            metavar="C=ref.npy",
            help="Compare an argument with a file after the run; a list with C=ref.npz, or with one"
            " array, whose first axis numbers its own.",
        ),
        click.option(
            "--out",
            multiple=True,
            metavar="C=c.npy",
            help="Save an argument after the run; a list as C=c.npz.",
        ),
    ):
        command = option(command)
    return command


def parse_params(words: tuple[str, ...]) -> dict[str, int]:
    """`("BM=64", …)` as a dictionary; a word that is no NAME=INT, or a name given twice, is wrong usage."""
    params: dict[str, int] = {}
    for word in words:
        match = _PARAM.fullmatch(word)
        if match is None:
            raise click.UsageError(f"-D {word}: expected NAME=INT, as in -D BM=64")
        name, value = match[1], _integer(match[2])
        if value not in _INT64:
            raise click.UsageError(f"-D {word}: the value does not fit 64 bits")
        if params.get(name, value) != value:
            raise click.UsageError(f"-D {name} is given twice, as {params[name]} and as {value}")
        params[name] = value
    return params


def _integer(text: str) -> int:
    try:
        return int(text, 16 if "x" in text.lower() else 10)
    except ValueError:
        raise click.UsageError(f"-D: {text[:40]} is no integer") from None


STDIN = "-"
"""The source that is read from standard input."""


def read(source: str) -> tuple[str, str]:
    """What messages call a source, and its text; TkcError where there is none."""
    from tkc.driver import source_text

    if source != STDIN:
        return shown_path(source), read_source(Path(source))
    return "<stdin>", source_text(sys.stdin.buffer.read(), "<stdin>")


def shown_path(path: str) -> str:
    """A file's name as diagnostics and `.loc` lines write it: bytes that are no UTF-8 are escaped."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


@dataclass(eq=False, repr=False)
class Session:
    """One compilation of a command: what to compile, who watches, how to report."""

    job: Job
    reporter: Reporter
    observers: list[Observer] = field(default_factory=list[Observer])
    timing: Timing | None = None

    def run(self) -> Compiled:
        """Compiles; raises TkcError where there are errors (or warnings, under `-Werror`)."""
        if not self.observers:
            from tkc.cached_run import run_cached

            compiled = run_cached(self.job)
        else:
            compiled = run(self.job, self.observers)
        self.reporter.check(compiled.diagnostics)
        return compiled

    @contextmanager
    def phase(self, name: str) -> Generator[None]:
        """Gives the block a row in the time table."""
        began = perf_counter()
        yield
        if self.timing is not None:
            self.timing.phase(name, perf_counter() - began)

    def finish(self) -> None:
        """Prints the time table, where it was asked for."""
        if self.timing is not None:
            from tkc.clock import seconds_since_start

            sys.stderr.write(self.timing.table(seconds_since_start()))


def _remarks(ctx: click.Context, param: click.Parameter, words: tuple[str, ...]) -> frozenset[str]:
    try:
        return remark_codes(words)
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, param) from None


def _complete_remarks(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    return [name for name in (*REMARKS, ALL) if name.startswith(incomplete)]


def complete_targets(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from tkc.ir.isa.targets import TARGETS

    return [name for name in TARGETS if name.startswith(incomplete)]


def _complete_passes(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from tkc.passes import PASSES

    return [name for name in ("frontend", *PASSES) if name.startswith(incomplete)]


_OPTIONS = (
    click.option(
        "--target",
        multiple=True,
        callback=once,
        metavar="TARGET",
        shell_complete=complete_targets,
        help=f"The GPU to compile for: sm_90a, sm_100a, … [{DEFAULT_TARGET}]",
    ),
    click.option(
        "-D", "params", multiple=True, metavar="NAME=INT", help="Set a param of the kernel."
    ),
    click.option(
        "--kernel",
        multiple=True,
        callback=once,
        metavar="NAME",
        help="Take one kernel of the file.",
    ),
    click.option(
        "-I",
        "search",
        multiple=True,
        metavar="DIR",
        type=click.Path(),
        help="Look for imported files here, too.",
    ),
    click.option(
        "-p",
        "--passes",
        multiple=True,
        callback=once,
        metavar="PIPELINE",
        help="Run these passes instead of the target's own.",
    ),
    *(
        click.option(
            f"--no-{name}",
            "without",
            multiple=True,
            flag_value=name,
            help=f"Leave the pass {name} out.",
        )
        for name in OPTIONAL
    ),
    *(
        click.option(
            f"--no-{name}", is_flag=True, hidden=True, expose_value=False, callback=_needed
        )
        for name in sorted(REQUIRED)
    ),
    click.option(
        "--fences",
        multiple=True,
        callback=once,
        type=click.Choice(FENCES),
        help=f"Which fences to keep: those that are needed, all, or those and the program's own [{FENCES[0]}]",
    ),
    click.option(
        "--trap-hangs",
        multiple=True,
        callback=once,
        type=float,
        metavar="[=SECONDS]",
        help="Let a wait for an mbarrier that lasts so long [10] say what for, and stop.",
    ),
    click.option(
        "--dump",
        multiple=True,
        callback=once,
        metavar="DIR",
        type=click.Path(),
        help="Write the IR after every pass into a folder.",
    ),
    click.option(
        "--print-ir-before",
        multiple=True,
        metavar="PASS",
        shell_complete=_complete_passes,
        help="Print the IR before a pass.",
    ),
    click.option(
        "--print-ir-after",
        multiple=True,
        metavar="PASS",
        shell_complete=_complete_passes,
        help="Print the IR after a pass.",
    ),
    click.option("--print-ir-before-all", is_flag=True, help="Print the IR before every pass."),
    click.option("--print-ir-after-all", is_flag=True, help="Print the IR after every pass."),
    click.option("--print-debuginfo", is_flag=True, help="Print the IR with source locations."),
    click.option("--timing", is_flag=True, help="Print what each step took."),
    click.option(
        "--verify-each", is_flag=True, help="Verify the IR after every pass, not only at the end."
    ),
    click.option(
        "--no-cache",
        is_flag=True,
        help="Compile anew, and keep nothing of it; TKC_CACHE=off says so for every command.",
    ),
    click.option("-Werror", "werror", is_flag=True, help="Treat warnings as errors."),
    click.option(
        "--remarks",
        multiple=True,
        callback=_remarks,
        metavar="[=CATEGORY,…]",
        shell_complete=_complete_remarks,
        help="Show what the compiler chose and why: all of it, or with --remarks=CATEGORY "
        + ", or ".join(f"{name}: {about}" for name, (about, _) in REMARKS.items())
        + ".",
    ),
    click.option(
        "--format", type=click.Choice(FORMATS), default="text", help="How diagnostics are printed."
    ),
)


def model_option(function: F) -> F:
    """`--model`, of commands that prove something."""
    return click.option(
        "--model",
        type=click.Choice(MODELS),
        default=MODELS[0],
        show_default=True,
        help="What proofs of order may rest on: what shipped kernels rely on, or documents only.",
    )(function)


def compile_options(function: F) -> F:
    """Gives a command every option of a compilation; `session` takes them as keyword arguments."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def session(
    source: str,
    *,
    target: str | None,
    params: tuple[str, ...],
    kernel: str | None,
    passes: str | None,
    dump: str | None,
    print_ir_before: tuple[str, ...],
    print_ir_after: tuple[str, ...],
    print_ir_before_all: bool,
    print_ir_after_all: bool,
    print_debuginfo: bool,
    timing: bool,
    verify_each: bool,
    search: tuple[str, ...],
    without: tuple[str, ...],
    no_cache: bool,
    fences: str | None,
    trap_hangs: float | None,
    reporter: Reporter,
    model: str = MODELS[0],
) -> Session:
    """Reads the source and makes the session; raises TkcError for a source or a target that is not there."""
    chosen = parse_params(params)
    _check_target(DEFAULT_TARGET if target is None else target)
    file, text = read(source)
    reporter.sources[file] = text
    job = Job(
        text,
        file,
        DEFAULT_TARGET if target is None else target,
        kernel,
        chosen,
        fences or FENCES[0],
        model,
        passes=passes,
        verify_each=verify_each,
        search=search,
        without=without,
        trap_hangs=trap_hangs,
    )
    if no_cache:
        cache.switch_off()
    made = Session(job, reporter)
    if dump is not None:
        from tkc.dump import Dump

        made.observers.append(Dump(Path(dump), job))
    if print_ir_before or print_ir_after or print_ir_before_all or print_ir_after_all:
        from tkc.dump import IrPrinter

        _check_passes(job, (*print_ir_before, *print_ir_after))
        made.observers.append(
            IrPrinter(
                sys.stderr,
                print_ir_before,
                print_ir_after,
                print_ir_before_all,
                print_ir_after_all,
                print_debuginfo,
            )
        )
    if timing:
        from tkc.clock import seconds_since_start, start_up_seconds
        from tkc.dump import Timing

        made.timing = Timing(start_up_seconds())
        made.timing.phase("command line", seconds_since_start() - start_up_seconds())
        made.observers.append(made.timing)
    return made


def _check_target(target: str) -> None:
    """A wrong target is reported before a wrong file."""
    Job("", "", target)


def _check_passes(job: Job, names: tuple[str, ...]) -> None:
    """A name after `--print-ir-…=` that no pass of the pipeline has is wrong usage, with the names that there are."""
    known = ("frontend", *(p.name for p in passes_of(job)))
    for name in names:
        if name not in known:
            raise no_such("TK119", "pass of this pipeline", name, known)
