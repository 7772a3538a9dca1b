"""`tkc emulate`: runs a kernel on the CPU, ours or anybody's PTX, and reports what is wrong with it."""

from __future__ import annotations

import gc
import re
from pathlib import Path
from typing import Any

import click

from tkc.commands.emulation import NUMBERS, prepare
from tkc.commands.options import compile_options, data_options
from tkc.commands.outcome import Settings, look_at_results, run, say
from tkc.commands.report import Reporter
from tkc.commands.run import check_names
from tkc.job import no_such


def _dims(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[int, ...] | None:
    """One to three positive numbers, x first: `4`, `4,2` or `4x2x1`."""
    if value is None:
        return None
    if not re.fullmatch(r"[1-9]\d{0,9}([,x][1-9]\d{0,9}){0,2}", value):
        raise click.BadParameter(
            f"{value!r}: expected one to three positive numbers, as in 4,2", ctx, param
        )
    return tuple(int(number) for number in re.split("[,x]", value))


def _complete_schedules(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from tkc.emulator.machine import SCHEDULES

    return [name for name in SCHEDULES if name.startswith(incomplete)]


@click.command("emulate")
@click.argument("source", metavar="KERNEL.tk|KERNEL.ptx|LAUNCH.json", type=click.Path())
@click.argument("words", metavar="ARGUMENT…", nargs=-1)
@data_options
@click.option(
    "--launch",
    metavar="FILE.json",
    type=click.Path(path_type=Path),
    help="How a PTX text is launched: a launch contract, or a plain launch.",
)
@click.option("--entry", metavar="NAME", help="Take one kernel of the PTX text.")
@click.option(
    "--array",
    "more",
    multiple=True,
    metavar="A=DATA",
    help="An array that is no parameter itself, for @A to name.",
)
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
    "--dependent",
    is_flag=True,
    default=None,
    help="The grid ahead may still run: what touches global memory has waited for it (griddepcontrol.wait).",
)
@click.option(
    "--schedule",
    default="eager",
    show_default=True,
    metavar="NAME",
    shell_complete=_complete_schedules,
    help="When asynchronous work completes: eager (at once), lazy (last), random, or pct (random priorities).",
)
@click.option(
    "--seed", type=int, default=0, show_default=True, metavar="N", help="Of random choices."
)
@click.option(
    "--runs",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    metavar="N",
    help="Launch with N seeds, from --seed on, and report what any of them finds.",
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
    more: tuple[str, ...],
    schedule: str,
    seed: int,
    runs: int,
    model: str,
    sm_count: int | None,
    max_steps: int | None,
    stats: bool,
    trace: Path | None,
    format: str,
    werror: bool,
    remarks: frozenset[str],
    **options: Any,
) -> None:
    """Run a kernel on the CPU and report what is wrong with it: ours, or any PTX for sm_90a and later.

    An ARGUMENT is A=a.npy, 'A=random(512,256,seed=3)', 'C=empty(512,256)' (poisoned), 'C=zeros(512,256)', n=7 or
    'x=[1,2,3]'. A list of arrays is 'A=[random(130,72),random(7,72)]', A=a.npz, or one array whose first axis numbers
    them.

    Arguments of a PTX text stand in its parameters' order and have a dtype: 'A=f16:random(64,32)', n=i32:7,
    'A=map(f16:random(64,32), box=32x16)' (a tensor map), B=@A (the same array), p=null.

    Exit 1 where there is a finding, or a result differs from the expected one.
    """
    from tkc.argument_words import parse_files
    from tkc.arguments import check_files, check_readable

    # A grid of many CTAs makes many cycles of objects, and commands run without the collector.
    gc.enable()
    reporter = Reporter(format, werror, remarks, product=format != "text")
    plain = {name: options.pop(name) for name in NUMBERS}
    plain["array"] = more or None
    with reporter.failing():
        settings = Settings(schedule, seed, model, max_steps, runs)
        _check_settings(settings)
        saved, expected = parse_files(out, "--out"), parse_files(expect, "--expect")
        emulation = prepare(source, words, launch, sm_count, plain, options, reporter)
        check_names((*saved, *expected), emulation.arrays)
        lists = [name for name, (value, _) in emulation.arrays.items() if isinstance(value, list)]
        check_files(saved, lists, "--out")
        check_readable(expected.values())
        outcome = run(emulation, settings, stats, trace, reporter)
        look_at_results(emulation, outcome, saved, expected, rtol)
        say(emulation, outcome, stats, reporter)


def _check_settings(settings: Settings) -> None:
    """A wrong word is said before anything is compiled."""
    from tkc.emulator.machine import SCHEDULES
    from tkc.ir.isa.assumptions import MODELS

    if settings.schedule not in SCHEDULES:
        raise no_such("TK120", "schedule", settings.schedule, SCHEDULES)
    if settings.model not in MODELS:
        raise no_such("TK120", "memory model", settings.model, MODELS)
