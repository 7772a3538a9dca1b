"""Text to syntax tree: tokens, then layout, then the LALR automaton, and after a mistake Lark's parser.

A right program goes through the automaton once. Otherwise it is fed to Lark's parser line by line: a line that fails is
explained and left out, and where a block hangs from it a header stands in, so that mistakes inside the block are found
too.
"""

from __future__ import annotations

from typing import Any

from tkc.diagnostics import Location
from tkc.frontend.automaton import Token
from tkc.frontend.layout import Layout
from tkc.frontend.source import MAX_DEPTH, Source
from tkc.frontend.syntax import File, Span, Word
from tkc.frontend.tokens import parser, reader, tokenize


def parse(source: Source) -> File | None:
    """The tree, or None where the text is wrong; then `source.found` says how."""
    tokens = Layout(source).run(tokenize(source))
    if not source.found.diagnostics:
        tree = reader().tree([*tokens, _end(tokens)])
        if tree is not None:
            _check_depth(source, tree, tokens)
            return None if source.found.diagnostics else tree
    if not source.abandoned:
        _Recovery(source, tokens).run()
    return None


def _end(tokens: list[Token]) -> Token:
    if not tokens:
        return Token("$END", "", 0, 1, 1, 1, 1)
    last = tokens[-1]
    return Token("$END", "", last.start_pos, last.line, last.column, last.end_line, last.end_column)


def _check_depth(source: Source, tree: File, tokens: list[Token]) -> None:
    """Refuses what a recursive walk of the tree could not follow; looks only where a line is long enough for it."""
    run = longest = 0
    for token in tokens:
        run = 0 if token.type == "_NEWLINE" else run + 1
        longest = max(longest, run)
    if longest <= MAX_DEPTH:
        return
    work: list[tuple[Any, int, Span]] = [(tree, 0, Span(1, 1, 1, 1))]
    while work:
        node, depth, span = work.pop()
        span = getattr(node, "span", span)
        if depth > 3 * MAX_DEPTH:
            source.error(
                f"operators or blocks are nested more than {MAX_DEPTH} deep", source.place(span)
            )
            return
        work += [
            (n, depth + 1, span)
            for n in node
            if isinstance(n, tuple) and not isinstance(n, Span | Word)
        ]


def _unexpected() -> type[Exception]:
    """What Lark's parser raises at a token that cannot come there."""
    from lark.exceptions import UnexpectedToken

    return UnexpectedToken


class _Recovery:
    """Feeds line by line, explains each that fails, and goes on after it. The tree that results is thrown away."""

    def __init__(self, source: Source, tokens: list[Token]) -> None:
        self.source = source
        self.tokens = tokens
        self.session: Any = parser().parse_interactive()
        self.session.parser_state.parse_conf.callbacks = {}

    def run(self) -> None:
        lines = self._lines()
        skip = 0
        for number, line in enumerate(lines):
            if self.source.full:
                return
            kind = line[0].type
            if skip or (kind == "_INDENT" and not self._takes("_INDENT")):
                if not skip:
                    self._report_indent(line[0], lines, number)
                skip += (kind == "_INDENT") - (kind == "_DEDENT")
                continue
            if kind != "_INDENT" and self._takes("_INDENT"):
                self._report_missing_block(lines, number)
                self._feed("_INDENT NAME _NEWLINE _DEDENT")
            follows = lines[number + 1][0].type if number + 1 < len(lines) else ""
            self._line(line, block_follows=follows == "_INDENT")

    def _lines(self) -> list[list[Token]]:
        """Logical lines with their `_NEWLINE`; `_INDENT`, `_DEDENT` and the end each alone."""
        lines: list[list[Token]] = []
        line: list[Token] = []
        for token in [*self.tokens, _end(self.tokens)]:
            line.append(token)
            if token.type in ("_NEWLINE", "_INDENT", "_DEDENT", "$END"):
                lines.append(line)
                line = []
        return lines

    def _line(self, line: list[Token], block_follows: bool) -> None:
        state = self.session.parser_state
        states, values = list(state.state_stack), list(state.value_stack)
        outermost = self._takes("KERNEL")
        at = 0
        try:
            for at, token in enumerate(line):  # noqa: B007
                self.session.feed_token(token)
            return
        except _unexpected():
            if not self.source.spoilt.intersection(t.line for t in line):
                from tkc.frontend.slips import explain

                explain(self.source, self.session, line, at)
        state.state_stack[:], state.value_stack[:] = states, values
        if block_follows:
            self._feed(
                "KERNEL NAME LPAR RPAR COLON _NEWLINE" if outermost else "IF NAME COLON _NEWLINE"
            )
        elif not outermost and line[-1].type == "_NEWLINE":
            self._feed("NAME _NEWLINE")

    def _report_indent(self, token: Token, lines: list[list[Token]], number: int) -> None:
        place = Location(self.source.file, token.line or 0, 1, token.column or 0)
        if not self.source.spoilt & {place.line}:
            above = f"line {lines[number - 1][0].line}" if number else "the line above"
            self.source.error(f"indented deeper than {above}, which opens no block", place)

    def _report_missing_block(self, lines: list[list[Token]], number: int) -> None:
        header = next(line for line in reversed(lines[:number]) if line[-1].type == "_NEWLINE")
        if not self.source.spoilt.intersection(t.line for t in header):
            text = self.source.lines[(header[0].line or 1) - 1].strip()
            self.source.error(
                f"expected an indented block after `{text}`", self.source.at(header[0])
            )

    def _takes(self, kind: str) -> bool:
        """Whether a token of the kind could come next."""
        try:
            self.session.parser_state.copy(deepcopy_values=False).feed_token(Token(kind, ""))
        except _unexpected():
            return False
        return True

    def _feed(self, kinds: str) -> None:
        for kind in kinds.split():
            self.session.feed_token(Token(kind, "x", 0, 1, 1, 1, 1))
