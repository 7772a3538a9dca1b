"""A program's text, places in it, and what was found wrong with it."""

from __future__ import annotations

from functools import cached_property

from tkc.diagnostics import Collector, Edit, Location, Note
from tkc.frontend.automaton import Token
from tkc.frontend.syntax import Elsewhere, Span

MAX_ERRORS = 20
"""After so many a run stops: what follows is mostly consequence."""

MAX_DEPTH = 100
"""Levels of blocks, of brackets, and of operators inside one another."""


MAX_QUOTED = 80
"""Characters of the program that a message quotes."""


def clipped(text: str) -> str:
    return text if len(text) <= MAX_QUOTED else text[:MAX_QUOTED] + "…"


class Source:
    """The text with `\\n` as line end and without a byte-order mark; `found` collects diagnostics."""

    def __init__(self, text: str, file: str) -> None:
        text = text.removeprefix("\ufeff")
        self.text = text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text
        self.file = file
        self.found = Collector()
        self.spoilt: set[int] = set()
        self.torn: set[int] = set()
        """Lines of which a text without an end has taken the rest, closing brackets with it."""
        self.abandoned = False

    def of(self, span: Span) -> Source:
        """The file that a place is in."""
        return span.source if isinstance(span, Elsewhere) else self

    def place(self, span: Span) -> Location:
        return Location(self.of(span).file, span[0], span[1], span[3] if span[0] == span[2] else 0)

    def at(self, token: Token) -> Location:
        one_line = token.type != "_NEWLINE" and token.line == token.end_line
        return Location(
            self.file, token.line or 0, token.column or 0, token.end_column or 0 if one_line else 0
        )

    def excerpt(self, span: Span) -> str:
        """The text at a place, of its first line only, and not more than a message can quote."""
        end = span.end_column - 1 if span.line == span.end_line else None
        return clipped(self.of(span).lines[span.line - 1][span.column - 1 : end].rstrip())

    def whole(self, span: Span) -> bool:
        """Whether an excerpt is all that stands there."""
        return span.line == span.end_line and span.end_column - span.column <= MAX_QUOTED

    def edit(self, span: Span, text: str) -> Edit | None:
        """Puts a text in the place of what stands there; None for a place that is not the kernel's alone: a function
        is called from elsewhere, too."""
        if isinstance(span, Elsewhere) or span.line != span.end_line:
            return None
        top = next((x for x in self.lines[span.line - 1 :: -1] if x[:1].strip(" \t#")), "")
        return Edit(self.place(span), text) if top.startswith("kernel") else None

    def error(self, message: str, place: Location, *notes: Note) -> None:
        """A syntax error. Its line is spoilt: what the parser then says of it is a consequence."""
        self.spoilt.add(place.line)
        if not self.full:
            self.found.error("TK101", message, place, *notes)

    def abandon(self, message: str, place: Location) -> None:
        """A mistake after which the structure of the text is a guess: the parser is not tried."""
        if not self.abandoned:
            self.error(message, place)
        self.abandoned = True

    @cached_property
    def lines(self) -> list[str]:
        return self.text.split("\n")

    @property
    def full(self) -> bool:
        return len(self.found.diagnostics) >= MAX_ERRORS
