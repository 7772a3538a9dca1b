"""`tkc check`: everything that is wrong with a program, and what it uses of its target."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import click
from click.exceptions import Exit

from tkc.commands.options import compile_options, session
from tkc.commands.report import Reporter
from tkc.diagnostics import TkcError
from tkc.driver import run
from tkc.job import Compiled, Job


@click.command("check")
@click.argument("source", metavar="KERNEL.tk", type=click.Path())
@click.option(
    "--verify-diagnostics",
    is_flag=True,
    help="Succeed where exactly the errors and warnings come that `# expected-error {{TEXT}}` comments name.",
)
@click.option(
    "--split-input-file",
    is_flag=True,
    help="With --verify-diagnostics: take each piece between `# -----` lines by itself.",
)
@compile_options
def command(
    source: str,
    format: str,
    werror: bool,
    remarks: frozenset[str],
    verify_diagnostics: bool,
    split_input_file: bool,
    **options: Any,
) -> None:
    """Report what is wrong with a program, and what it uses of its target.

    The diagnostics are the output: text, JSON or SARIF on standard output, exit 1 if there is an error.
    """
    reporter = Reporter(format, werror, remarks, product=True)
    if split_input_file and not verify_diagnostics:
        raise click.UsageError("--split-input-file takes --verify-diagnostics")
    with reporter.failing():
        if verify_diagnostics:
            verify(session(source, reporter=reporter, **options).job, split_input_file)
            return
        made = session(source, reporter=reporter, **options)
        compiled = made.run()
        reporter.show(compiled.diagnostics)
        if format == "text":
            for line in summary(compiled):
                click.echo(line)
        made.finish()


def verify(job: Job, split: bool) -> None:
    """Ends the command with exit 1 where the diagnostics are not those that the program's comments name."""
    from tkc.expectations import differences, pieces, said

    wrong: list[str] = []
    for text in pieces(job.text, split):
        try:
            found = run(replace(job, text=text)).diagnostics
        except TkcError as error:
            found = error.diagnostics
        wrong += differences(text, list(said(found)), job.file)
    for line in wrong:
        click.echo(line)
    if wrong:
        raise Exit(1)


def summary(compiled: Compiled) -> Iterator[str]:
    """What each kernel uses, beside what the target has."""
    from tkc.ir.isa.targets import TARGETS

    target = TARGETS[compiled.job.target]
    for kernel in compiled.contract["kernels"]:
        yield f"{kernel['entry']} for {target.name}, PTX {kernel['ptx_version']}"
        yield from _row("params", ", ".join(f"{k} = {v}" for k, v in kernel["params"].items()))
        yield from _row("threads", f"{_product(kernel['block'])} of {target.max_threads}")
        yield from _row(
            "shared memory", f"{kernel['shared_bytes']:,} of {target.shared_per_cta:,} bytes"
        )
        if target.tensor_columns:
            yield from _row(
                "tensor memory", f"{kernel['tensor_columns']} of {target.tensor_columns} columns"
            )
        yield from _row("cluster", _cluster(kernel["cluster"]))


def _row(name: str, text: str) -> Iterator[str]:
    if text:
        yield f"  {name:<16}{text}"


def _product(sizes: list[int]) -> int:
    total = 1
    for size in sizes:
        total *= size
    return total


def _cluster(cluster: Mapping[str, Any]) -> str:
    return "" if _product(cluster["size"]) == 1 else f"{_product(cluster['size'])} CTAs"
