"""`tkc opt`: passes on IR text, the same program as `tkc-opt`."""

from __future__ import annotations

import click


@click.command(
    "opt",
    context_settings={"ignore_unknown_options": True, "help_option_names": []},
    add_help_option=False,
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def command(ctx: click.Context, arguments: tuple[str, ...]) -> None:
    """Run passes on IR text; `tkc opt --help` lists the options."""
    from tkc.opt import main

    ctx.exit(main(list(arguments)))
