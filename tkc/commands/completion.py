"""`tkc completion`: the script by which a shell completes commands, options and their values."""

from __future__ import annotations

import click

_HOW = {
    "bash": 'eval "$(tkc completion bash)" in ~/.bashrc',
    "zsh": 'eval "$(tkc completion zsh)" in ~/.zshrc',
    "fish": "tkc completion fish > ~/.config/fish/completions/tkc.fish",
}
"""Shell → how its script is put to use."""


@click.command(
    "completion", epilog="; ".join(f"{shell}: {how}" for shell, how in _HOW.items()) + "."
)
@click.argument("shell", type=click.Choice(list(_HOW)))
def command(shell: str) -> None:
    """Print a script that makes a shell complete the words of tkc."""
    from click.shell_completion import get_completion_class

    from tkc.commands.group import group

    made = get_completion_class(shell)
    assert made is not None, "click knows these shells"
    template = made(group, {}, "tkc", "_TKC_COMPLETE")
    click.echo(template.source_template % template.source_vars())
