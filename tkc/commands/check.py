"""`tkc check`: everything that is wrong with a program, and what it uses of its target."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click
from click.exceptions import Exit

from tkc.commands.options import STDIN, Session, compile_options, model_option, session
from tkc.commands.report import Reporter
from tkc.diagnostics import Diagnostic, TkcError, once
from tkc.driver import front, run
from tkc.dump import Watcher
from tkc.job import Compiled, Job, Step

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from tkc.analysis.happens_before.report import Finding


WRITTEN = "insert-fences"
"""The pass after which the stage level says all that a program does: barriers, phases and fences."""
LEFT = {"minimal": "eliminate-fences", "as-written": "eliminate-fences"}
"""The pass after which what is left of its fences is judged, where `--fences` asks for that."""


def _complete_codes(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from tkc.commands.explanations import codes

    return [code for code in codes() if code.startswith(incomplete)]


@click.command("check")
@click.argument("source", metavar="KERNEL.tk", type=click.Path(), required=False)
@click.option(
    "--verify-diagnostics",
    is_flag=True,
    help="Succeed where exactly the errors and warnings come that `# expected-error {{TEXT}}` comments name.",
)
@click.option(
    "--split-input-file",
    is_flag=True,
    help="Take each piece between `# -----` lines by itself.",
)
@compile_options
@model_option
@click.option(
    "--fix",
    is_flag=True,
    help="Write into the source what is meant beyond doubt: what `fix:` says, missing fences and waits.",
)
@click.option(
    "--explain",
    metavar="CODE",
    shell_complete=_complete_codes,
    help="Show what a code means, with a bad and a good program.",
)
def command(
    source: str | None,
    format: str,
    werror: bool,
    remarks: frozenset[str],
    verify_diagnostics: bool,
    split_input_file: bool,
    model: str,
    fix: bool,
    explain: str | None,
    **options: Any,
) -> None:
    """Report what is wrong with a program, and what it uses of its target.

    Every pair of conflicting accesses is proved to be in order for all sizes, or reported. The diagnostics are the
    output: text, JSON or SARIF on standard output, exit 1 if there is an error. What is judged is the program as
    written, with every fence that the compiler adds; with --fences minimal or as-written given, what is left once the
    fences went that are not needed, which `tkc explain` shows. A source of `-` is standard input.
    """
    if explain is not None:
        from tkc.commands.explanations import page

        click.echo(page(explain))
        return
    if source is None:
        raise click.UsageError("give a KERNEL.tk, or --explain CODE")
    reporter = Reporter(format, werror, remarks, product=True)
    if fix and source == STDIN:
        raise click.UsageError("--fix writes into the source, and standard input is no file")
    if split_input_file and fix:
        raise click.UsageError("--fix mends one program: it does not go with --split-input-file")
    with reporter.failing():
        if verify_diagnostics:
            verify(
                session(source, reporter=reporter, model=model, **options).job,
                split_input_file,
                model,
            )
            return
        if split_input_file:
            check_pieces(
                session(source, reporter=reporter, model=model, **options).job, reporter, model
            )
            return
        if fix:
            from tkc.commands.fixes import mend_words

            job = session(source, reporter=reporter, model=model, **options).job
            for line in mend_words(source, lambda text: front(replace(job, text=text))):
                click.echo(line, err=format != "text")
        made, order, compiled = ordered(source, reporter, model, options)
        if fix and order.found:
            from tkc.commands.fixes import mend

            for line in mend(source, order.found, partial(found_in, made.job, model)):
                click.echo(line, err=format != "text")
            made, order, compiled = ordered(source, reporter, model, options)
        reporter.check((*compiled.diagnostics, *order.diagnostics))
        reporter.show((*compiled.diagnostics, *order.diagnostics))
        if format == "text":
            for line in summary(compiled):
                click.echo(line)
        made.finish()


def ordered(
    source: str, reporter: Reporter, model: str, options: Mapping[str, Any]
) -> tuple[Session, Order, Compiled]:
    """Compiles, looking at the order of accesses on the way."""
    made = session(source, reporter=reporter, model=model, **options)
    order = Order(model, judged=LEFT.get(options.get("fences") or "", WRITTEN))
    made.observers.append(order)
    with order.beside_errors():
        return made, order, made.run()


def found_in(job: Job, model: str, text: str) -> tuple[Diagnostic, ...]:
    """What is wrong with the order of accesses in another text, consequences told apart."""
    order = Order(model)
    run(replace(job, text=text), [order])
    return tuple(d for d, _ in order.found)


@dataclass
class Order(Watcher):
    """Looks at the stage level on its way, and keeps what is wrong with the order of accesses."""

    model: str
    found: list[tuple[Diagnostic, Finding]] = field(
        default_factory=list["tuple[Diagnostic, Finding]"]
    )
    judged: str = WRITTEN
    """The pass after which it looks."""

    def after(self, module: ModuleOp, step: Step, seconds: float) -> None:
        from tkc.analysis.order import diagnose

        if step.name == self.judged:
            self.found = diagnose(module, self.model)

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        if not self.found:
            return ()
        from tkc.analysis.consequences import told_once

        return told_once(self.found)

    @contextmanager
    def beside_errors(self) -> Generator[None]:
        """An error of a later pass does not hide what was found before it."""
        try:
            yield
        except TkcError as error:
            mine = (d for d in self.diagnostics if not _said_again(d, error.diagnostics))
            error.diagnostics = tuple(dict.fromkeys((*mine, *error.diagnostics)))
            raise


def _said_again(told: Diagnostic, later: Iterable[Diagnostic]) -> bool:
    """Whether a pass refuses what threads do together where only some come, in the words of the program: it stops at
    the first, and others stand under the same condition, or are told once that is mended."""
    return told.code == "TK316" and any(d.code == "TK121" for d in later)


def check_pieces(job: Job, reporter: Reporter, model: str) -> None:
    """Each piece as a program of its own: what is wrong with all of them, then what each one uses."""
    from tkc.expectations import pieces

    found: list[Diagnostic] = []
    used: list[str] = []
    for text in pieces(job.text, split=True):
        order = Order(model)
        try:
            with order.beside_errors():
                compiled = run(replace(job, text=text), [order])
            found += [*compiled.diagnostics, *order.diagnostics]
            used += summary(compiled)
        except TkcError as error:
            found += error.diagnostics
    reporter.check(found)
    reporter.show(found)
    if reporter.format == "text":
        for line in used:
            click.echo(line)


def verify(job: Job, split: bool, model: str) -> None:
    """Ends the command with exit 1 where the diagnostics are not those that the program's comments name."""
    from tkc.expectations import differences, pieces, said

    wrong: list[str] = []
    for text in pieces(job.text, split):
        order = Order(model)
        try:
            with order.beside_errors():
                compiled = run(replace(job, text=text), [order])
                found = once((*compiled.diagnostics, *order.diagnostics))
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
