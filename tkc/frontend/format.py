"""Puts a program's text into the one style: spaces, indentation, alignment, blank lines; words and comments stay.

Lines stay lines, and what stands in brackets over several lines stays so: only the author knows where to break. Words
are spaced as the examples are; blocks are indented by 4; lines in brackets stand below what follows the bracket. Names
of neighbouring tiles, ends of neighbouring pipes and comments beside neighbouring lines stand below one another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, cast

from tkc.diagnostics import Bug, TkcError
from tkc.frontend.automaton import Token
from tkc.frontend.layout import Layout
from tkc.frontend.parse import parse
from tkc.frontend.source import Source
from tkc.frontend.syntax import Span
from tkc.frontend.tokens import tokenize

INDENT = 4

_TIGHT_BEFORE = frozenset({"COMMA", "SEMICOLON", "COLON", "RPAR", "RSQB", "DOT"})
_TIGHT_AFTER = frozenset({"LPAR", "LSQB", "DOT"})
_ENDS_A_VALUE = frozenset({"NAME", "INTEGER", "FLOAT", "TEXT", "RPAR", "RSQB"})
_OPENING = frozenset({"LPAR", "LSQB"})
_CLOSING = frozenset({"RPAR", "RSQB"})
_MARKS = frozenset({"_NEWLINE", "_INDENT", "_DEDENT"})


def format_source(text: str, file: str) -> str:
    """The text in the one style; TkcError with every syntax error where it does not parse."""
    source = Source(text, file)
    tree = parse(source)
    if tree is None:
        raise TkcError(tuple(source.found.diagnostics), {file: source.text})
    lines = _read(source)
    _settle_comments(lines)
    made = "".join(f"{line}\n" for line in _write(_without_surplus(lines)))
    again = Source(made, file)
    if bare(parse(again)) != bare(tree) or comments(made) != comments(source.text):
        raise Bug("the formatter", f"{file} would change its meaning")
    return made


def bare(tree: Any) -> Any:
    """A syntax tree without places: equal for texts that mean the same."""
    if not isinstance(tree, tuple):
        return tree
    parts = cast("tuple[Any, ...]", tree)
    return (type(parts).__name__, *(bare(part) for part in parts if not isinstance(part, Span)))


def comments(text: str) -> list[str]:
    """The comments of a text in order; a `#` always begins one, as no text has one."""
    return [line[line.index("#") :].rstrip() for line in text.split("\n") if "#" in line]


@dataclass
class Line:
    """One line of the text: its words, the blocks it stands in, its comment, and where it began."""

    tokens: list[Token]
    comment: str
    column: int
    depth: int = 0
    goes_on: bool = False
    """Whether it stands in a bracket of a line above."""

    @property
    def empty(self) -> bool:
        return not self.tokens and not self.comment

    @property
    def kind(self) -> str:
        return self.tokens[0].type if self.tokens and not self.goes_on else ""


def _read(source: Source) -> list[Line]:
    """Every line, with the depth of its block where it has words."""
    lines: list[Line] = []
    for text in source.lines:
        code, mark, said = text.partition("#")
        column = len(text) - len(text.lstrip())
        comment = f"#{said}".rstrip() if mark else ""
        lines.append(Line([], comment, column if code.strip() or mark else 0))
    depth, opened, starts = 0, 0, True
    for token in Layout(source).run(tokenize(source)):
        if token.type in _MARKS:
            depth += (token.type == "_INDENT") - (token.type == "_DEDENT")
            starts = starts or token.type == "_NEWLINE"
            continue
        line = lines[(token.line or 1) - 1]
        if not line.tokens:
            line.depth, line.goes_on = depth, not starts
        starts = False
        opened += (token.type in _OPENING) - (token.type in _CLOSING)
        line.tokens.append(token)
    _mark_brackets(lines)
    return lines


def _mark_brackets(lines: list[Line]) -> None:
    """Comments and empty lines within brackets go on, too."""
    opened = 0
    for line in lines:
        if not line.tokens:
            line.goes_on = opened > 0
        opened += sum((t.type in _OPENING) - (t.type in _CLOSING) for t in line.tokens)


def _settle_comments(lines: list[Line]) -> None:
    """A comment alone on its line belongs to the block below it, or to one that ends there if it stands as deep."""
    levels: list[int] = []
    following: list[int] = []
    depth = 0
    for line in reversed(lines):
        if line.tokens and not line.goes_on:
            depth = line.depth
        following.append(depth)
    following.reverse()
    for line, least in zip(lines, following, strict=True):
        if line.tokens and not line.goes_on:
            levels[line.depth :] = [line.column]
        elif line.comment and not line.tokens and not line.goes_on:
            inner = [d for d, column in enumerate(levels) if d > least and column <= line.column]
            line.depth = max([least, *inner])


def _without_surplus(lines: list[Line]) -> list[Line]:
    """No blank line at the start or end, in brackets or after a header; one before a kernel; one at most elsewhere."""
    kept: list[Line] = []
    for line in lines:
        if line.empty:
            if kept and not line.goes_on and not kept[-1].empty:
                kept.append(line)
            continue
        before = kept[-2] if len(kept) > 1 and kept[-1].empty else kept[-1] if kept else None
        if before is not None and kept[-1].empty and _opens(before, line):
            kept.pop()
        if line.kind in ("KERNEL", "DEF"):
            at = len(kept)
            while at and kept[at - 1].comment and not kept[at - 1].tokens:
                at -= 1
            if at and not kept[at - 1].empty:
                kept.insert(at, Line([], "", 0))
        kept.append(line)
    while kept and kept[-1].empty:
        kept.pop()
    return kept


def _opens(header: Line, line: Line) -> bool:
    return line.depth > header.depth and not line.goes_on


@dataclass
class _Row:
    """A line as text, in pieces between which blanks may be put to align it."""

    line: Line
    indent: int
    code: str = ""
    stops: dict[str, int] = field(default_factory=dict)
    """Name of an alignment → the place in `code` where its blanks go."""


def _write(lines: list[Line]) -> Iterator[str]:
    rows = _rows(lines)
    for stop, joined in _ALIGNED.items():
        _align(rows, stop, joined)
    width = {id(row): len(row.code) for row in rows}
    for run in _runs(rows, lambda row: bool(row.code and row.line.comment)):
        widest = max(width[id(row)] for row in run)
        for row in run:
            row.code = row.code.ljust(widest)
    for row in rows:
        if row.line.comment:
            blanks = "  " if row.code else " " * row.indent
            yield f"{row.code}{blanks}{row.line.comment}"
        else:
            yield row.code


def _rows(lines: list[Line]) -> list[_Row]:
    """Each line's words with single blanks, indented."""
    rows: list[_Row] = []
    opened: list[int] = []
    """Columns at which lines within each open bracket stand."""
    before: Token | None = None
    base = 0
    for line in lines:
        if not line.goes_on:
            base, before, opened = INDENT * line.depth, None, []
        inside = opened[:-1] if line.tokens and line.tokens[0].type in _CLOSING else opened
        closes = inside is not opened
        indent = (inside[-1] if inside else base) if closes else (opened[-1] if opened else base)
        row = _Row(line, indent)
        code = " " * indent if line.tokens else ""
        for at, token in enumerate(line.tokens):
            if at and _spaced(before, token, line, at):
                code += " "
            if line.kind in _STOPS:
                _STOPS[line.kind](row, line, at, len(code))
            code += str(token)
            if token.type in _OPENING:
                last = at == len(line.tokens) - 1
                opened.append(indent + INDENT if last else len(code))
            elif token.type in _CLOSING and opened:
                opened.pop()
            before = token
        row.code = code
        rows.append(row)
    return rows


def _spaced(before: Token | None, token: Token, line: Line, at: int) -> bool:
    """Whether a blank stands between two words of a line."""
    assert before is not None
    if before.type in _TIGHT_AFTER or token.type in _TIGHT_BEFORE:
        return False
    if _ends_on(line.tokens[:at]):  # a value follows: `on(sm_90) (n)`, `on(sm_90) -n`
        return True
    if token.type in _OPENING:
        if before.type == "ON":
            return False
        if before.type not in _ENDS_A_VALUE:
            return True
        # `warps (n)` and `on(sm_90) warps (n)` are settings with a value, and no calls.
        earlier = line.tokens[: at - 1]
        starts = bool(earlier) and (earlier[-1].type == "COMMA" or _ends_on(earlier))
        return line.kind == "ROLE" and starts
    if before.type in ("MINUS", "PLUS"):
        earlier = line.tokens[at - 2] if at > 1 else None
        joins = earlier is not None and earlier.type in _ENDS_A_VALUE
        return joins and not _ends_on(line.tokens[: at - 1])
    return True


def _ends_on(tokens: list[Token]) -> bool:
    """Whether words end in `on(...)`."""
    at = len(tokens) - 1
    if at < 0 or tokens[at].type != "RPAR":
        return False
    while at > 0 and tokens[at].type != "LPAR":
        at -= 1
    return at > 0 and tokens[at - 1].type == "ON"


def _stop_at_name(row: _Row, line: Line, at: int, place: int) -> None:
    if at == 1:
        row.stops["name"] = place


def _stop_after_colon(row: _Row, line: Line, at: int, place: int) -> None:
    if at and line.tokens[at - 1].type == "COLON":
        row.stops["ends"] = place


_STOPS: dict[str, Callable[[_Row, Line, int, int], None]] = {
    "SHARED": _stop_at_name,
    "ACCUM": _stop_at_name,
    "PIPE": _stop_after_colon,
}
_ALIGNED: dict[str, Callable[[_Row], bool]] = {
    "name": lambda row: "name" in row.stops,
    "ends": lambda row: "ends" in row.stops,
}


def _align(rows: list[_Row], stop: str, joined: Callable[[_Row], bool]) -> None:
    for run in _runs(rows, joined):
        widest = max(row.stops[stop] for row in run)
        for row in run:
            place = row.stops[stop]
            row.code = row.code[:place] + " " * (widest - place) + row.code[place:]


def _runs(rows: list[_Row], joined: Callable[[_Row], bool]) -> Iterator[list[_Row]]:
    """Neighbouring rows of one depth that are to be aligned."""
    run: list[_Row] = []
    for row in rows:
        if run and not (joined(row) and row.line.depth == run[-1].line.depth):
            yield run
            run = []
        if joined(row):
            run.append(row)
    if run:
        yield run
