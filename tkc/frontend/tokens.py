"""Text to tokens, by the grammar's own terminals; characters that begin none are reported and read as blanks."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from tkc.diagnostics import Location
from tkc.frontend import automaton
from tkc.frontend.automaton import Automaton, Token, Unreadable
from tkc.frontend.build import Builder
from tkc.frontend.source import Source, clipped
from tkc.frontend.synonyms import elsewhere

_RUN = re.compile(
    r"""[0-9.][\w.]*|"[^"\n]*"?|'[^'\n]*'|\u201c[^\u201d\n]*\u201d|[^\W\d]\w*|\|\||.""", re.DOTALL
)
"""What a person sees as one wrong thing, from its first character."""

_WORD = re.compile(r"\w")

_INSTEAD = {
    "'": "a transpose is written `.T`, and a text stands between double quotes",
    '"': "a text stands between two quotes on one line, and has no `#`",
    "{": "blocks are made by indentation, not by braces",
    "}": "blocks are made by indentation, not by braces",
    "\\": "a line goes on inside brackets, not after a backslash",
    "!": "a negation is written `not`",
    "|": "`or` joins conditions",
    "?": "a choice is written `x if condition else y`",
    "\u2212": "write `-`", "\u2013": "write `-`", "\u2014": "write `-`", "\u00d7": "write `*`", "\u00b7": "write `*`",
    "\u2190": "write `<-`", "\u2192": "write `->`", "\u2264": "write `<=`", "\u2265": "write `>=`",
    "\u201c": "write `\"`", "\u201d": "write `\"`", "\u00a0": "write a plain space",
}  # fmt: skip


@cache
def reader() -> Automaton:
    """What reads right programs, by the shipped tables, or by new ones where those do not fit the grammar; its rules
    make the syntax tree."""
    try:
        data = automaton.SHIPPED.read_bytes()
    except OSError:
        data = b""
    body = automaton.body_of(data, automaton.GRAMMAR.read_bytes())
    if body is None:
        from tkc.frontend.tables import text

        body = text().encode().partition(b"\n")[2]
    return Automaton(body, Builder())


@cache
def parser() -> Any:
    """The Lark parser of the grammar, which goes on after a mistake."""
    from tkc.frontend.tables import load

    return load(Builder())


def tokenize(source: Source) -> list[Token]:
    """All tokens of the text."""
    text = source.text if source.text.endswith("\n") else source.text + "\n"
    while True:
        try:
            return reader().tokens(text)
        except Unreadable as e:
            start = e.at
            while start and text[e.at].isalpha() and _WORD.match(text, start - 1):
                start -= 1  # the lexer has taken the ASCII beginning of the name
            match = _RUN.match(text, start)
            run = match.group() if match else text[start]
            column = start - text.rfind("\n", 0, start)
            place = Location(source.file, e.line, column, column + len(run))
            source.error(_explain(clipped(run)), place)
            if run[0] == '"':
                source.torn.add(e.line)
            if source.full:
                source.abandoned = True
                return []
            text = text[:start] + " " * len(run) + text[start + len(run) :]


def _explain(run: str) -> str:
    """What to say of characters that begin no token."""
    first = run[0]
    if (first.isdigit() and first.isascii()) or (first == "." and len(run) > 1):
        return f"`{run}` is not a number"
    if meant := elsewhere(run):
        return f"no statement `{run}`: {meant}"
    if first == "_":
        return f"`{run}` cannot be a name: names begin with a letter"
    if first in _INSTEAD:
        shown = run if first != "\u00a0" else "U+00A0"
        what = "characters" if len(run) > 1 else "character"
        return f"unexpected {what} `{shown}`: {_INSTEAD[first]}"
    if first.isalpha():
        return f"`{run}` cannot be a name: names are made of ASCII letters, digits and `_`"
    return (
        f"unexpected character `{first}`"
        if first.isprintable()
        else f"unexpected character U+{ord(first):04X}"
    )
