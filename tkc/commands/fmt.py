"""`tkc fmt`: puts tile programs into the one style."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from tkc.commands.options import STDIN, read
from tkc.commands.report import Reporter
from tkc.diagnostics import TkcError


@click.command("fmt")
@click.argument("paths", metavar="FILE.tk|FOLDER|-…", nargs=-1, required=True, type=click.Path())
@click.option("--check", is_flag=True, help="Change nothing; exit 1 where a file would change.")
@click.option("--diff", is_flag=True, help="Change nothing; print what would change.")
def command(paths: tuple[str, ...], check: bool, diff: bool) -> None:
    """Put programs into the one style.

    Of a folder, every .tk file below it. `-` reads standard input and writes standard output. A file with a syntax
    error stays as it is.
    """
    reporter = Reporter()
    would = 0
    with reporter.failing():
        wrong: list[TkcError] = []
        for path in _files(paths):
            try:
                would += _one(path, check, diff)
            except TkcError as error:
                wrong.append(error)
        if wrong:
            raise TkcError(
                tuple(d for e in wrong for d in e.diagnostics),
                {name: text for e in wrong for name, text in e.sources.items()},
            )
    if check and would:
        click.echo(f"{would} file{'s' * (would > 1)} would change", err=True)
        raise click.exceptions.Exit(1)


def _files(paths: Sequence[str]) -> Iterator[str]:
    for path in paths:
        if path != STDIN and Path(path).is_dir():
            yield from map(str, sorted(Path(path).rglob("*.tk")))
        else:
            yield path


def _one(path: str, check: bool, diff: bool) -> bool:
    """Formats one file, or says what would change; whether anything would."""
    from tkc.backend.package import write_files
    from tkc.frontend.format import format_source

    name, text = read(path)
    made = format_source(text, name)
    changed = made != text
    if diff and changed:
        sys.stdout.write(_difference(text, made, name))
    if check and changed and not diff:
        click.echo(f"{name} would change", err=True)
    if check or diff:
        return changed
    if path == STDIN:
        sys.stdout.write(made)
    elif changed:
        write_files({Path(path): made})
        click.echo(f"{name} changed", err=True)
    return changed


def _difference(before: str, after: str, name: str) -> str:
    from difflib import unified_diff

    lines = unified_diff(
        before.splitlines(keepends=True), after.splitlines(keepends=True), name, name
    )
    return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)
