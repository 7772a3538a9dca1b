"""`tkc check`: everything that is wrong with a program, and what it uses of its target."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import click

from tkc.commands.options import compile_options, session
from tkc.commands.report import Reporter
from tkc.job import Compiled


@click.command("check")
@click.argument("source", metavar="KERNEL.tk", type=click.Path())
@compile_options
def command(source: str, format: str, werror: bool, remarks: bool, **options: Any) -> None:
    """Report what is wrong with a program, and what it uses of its target.

    The diagnostics are the output: text, JSON or SARIF on standard output, exit 1 if there is an error.
    """
    reporter = Reporter(format, werror, remarks, product=True)
    with reporter.failing():
        made = session(source, reporter=reporter, **options)
        compiled = made.run()
        reporter.show(compiled.diagnostics)
        if format == "text":
            for line in summary(compiled):
                click.echo(line)
        made.finish()


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
