"""The click group of all commands, which imports a command's module when that command is asked for."""

from __future__ import annotations

import sys
from importlib import import_module

import click

from tkc.commands import COMMANDS
from tkc.diagnostics import nearest


class _Commands(click.Group):
    """Knows its commands from the table; the list of commands loads none of them."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        from tkc.commands.report import with_values

        return super().parse_args(ctx, with_values(args))

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        row = COMMANDS.get(cmd_name)
        return import_module(row[0]).command if row else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in COMMANDS and not name.startswith("-"):
            near = nearest(name, tuple(COMMANDS))
            hint = f"; did you mean {near}?" if near else f"; there are {', '.join(COMMANDS)}"
            raise click.UsageError(f"no command {name}{hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])


def _print_version(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if not value or ctx.resilient_parsing:
        return
    from tkc.version import __version__

    click.echo(f"tkc {__version__}")
    click.echo(_xdsl_version())
    click.echo(f"Python {sys.version.split()[0]}")
    click.echo(_ptxas_version())
    ctx.exit()


def _xdsl_version() -> str:
    from importlib.metadata import PackageNotFoundError, version
    from importlib.util import find_spec

    if find_spec("xdsl") is None:
        return "xdsl not found: packaged kernels can be launched, none can be compiled"
    try:
        return f"xdsl {version('xdsl')}"
    except PackageNotFoundError:
        return "xdsl of unknown version"


def _ptxas_version() -> str:
    import re
    import subprocess

    from tkc.backend.tools import find

    path = find("ptxas")
    if path is None:
        return "ptxas not found"
    done = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
    version = re.search(r"\bV(\d[\d.]*)", done.stdout)
    return f"ptxas {version[1] if version else 'of unknown version'}"


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Print the versions of tkc and of what it is built on.",
)
def group() -> None:
    """A compiler from a tile language to PTX."""
