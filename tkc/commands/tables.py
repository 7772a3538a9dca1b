"""Tables on standard output: as wide as the terminal, or as they need where there is none."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence


def print_table(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], numbers: int = 0
) -> None:
    """Prints rows of text; the last `numbers` columns are set to the right."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    made = Table(title=title, title_justify="left", title_style="bold", header_style="bold")
    for at, column in enumerate(columns):
        right = at >= len(columns) - numbers
        made.add_column(column, overflow="fold", justify="right" if right else "left")
    for row in rows:
        made.add_row(*(Text(cell) for cell in row))
    Console(file=sys.stdout, width=None if sys.stdout.isatty() else 140).print(made)
