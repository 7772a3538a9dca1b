"""Line ends and indentation as tokens: `_NEWLINE` ends a logical line, `_INDENT` and `_DEDENT` stand round a block.

A line that begins deeper than the one before opens a block; one that begins where an outer block stands closes those
between. Inside brackets line ends and indentation mean nothing.
"""

from __future__ import annotations

from tkc.diagnostics import Location
from tkc.frontend.automaton import Token
from tkc.frontend.source import MAX_DEPTH, Source

_BEGINS = {
    "KERNEL",
    "PARAM",
    "LAUNCH",
    "SCHEDULE",
    "SHARED",
    "ACCUM",
    "PIPE",
    "MAPS",
    "ROLE",
    "FOR",
    "PUT",
    "GET",
}
"""Keywords that only begin a statement: at the head of a line inside a bracket, they show that it was left open."""

_CLOSED_BY = {"LPAR": "RPAR", "LSQB": "RSQB"}
_OPENED_BY = {"RPAR": "(", "RSQB": "["}


class Layout:
    """One walk over the tokens. `levels` are the indentations of the open blocks, `opened` the open brackets."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.out: list[Token] = []
        self.levels = [""]
        self.opened: list[Token] = []
        self.skipped: Token | None = None

    def run(self, tokens: list[Token]) -> list[Token]:
        if tokens and tokens[0].type != "_NEWLINE" and (tokens[0].column or 1) > 1:
            self.source.error(
                "the first line is indented, and no block is open", self._blanks_before(tokens[0])
            )
        for token in tokens:
            kind = token.type
            if kind == "_NEWLINE":
                if token.line in self.source.torn:
                    self.opened = [t for t in self.opened if t.line != token.line]
                if self.opened:
                    self.skipped = token
                else:
                    self._newline(token)
                continue
            if kind in _CLOSED_BY:
                self.opened.append(token)
                if len(self.opened) == MAX_DEPTH + 1:
                    self.source.error(
                        f"brackets are nested more than {MAX_DEPTH} deep", self.source.at(token)
                    )
            elif kind in _OPENED_BY:
                self._close(token)
            elif self.skipped is not None and kind in _BEGINS:
                self._unclosed(token.line)
                self._newline(self.skipped)
            self.skipped = None
            self.out.append(token)
        self._unclosed()
        end = self.out[-1] if self.out else Token("_NEWLINE", "\n", 0, 1, 1)
        self.out += [self._mark("_DEDENT", end) for _ in self.levels[1:]]
        return self.out

    def _newline(self, token: Token) -> None:
        indent = token.rpartition("\n")[2].replace("\f", "")
        levels = self.levels
        if self.out and self.out[-1].type != "_NEWLINE":
            self.out.append(token)
        if indent == levels[-1]:
            return
        place = Location(self.source.file, token.end_line or 0, 1, token.end_column or 0)
        if indent.startswith(levels[-1]):
            levels.append(indent)
            self.out.append(self._mark("_INDENT", token))
            if len(levels) == MAX_DEPTH + 2:
                self.source.error(f"blocks are nested more than {MAX_DEPTH} deep", place)
        elif not levels[-1].startswith(indent):
            self.source.abandon(
                f"indented by {_blanks(indent)} inside a block that is indented by {_blanks(levels[-1])}: "
                "indent the whole file by spaces",
                place,
            )
        else:
            known = [len(level) for level in levels]
            while len(levels[-1]) > len(indent):
                levels.pop()
                self.out.append(self._mark("_DEDENT", token))
            if levels[-1] != indent:
                stands = ", ".join(map(str, known[:-1])) + f" or {known[-1]}"
                self.source.error(
                    f"indented by {_blanks(indent)}, where no block stands: expected {stands}",
                    place,
                )

    def _close(self, token: Token) -> None:
        if self.opened and _CLOSED_BY[self.opened[-1].type] == token.type:
            self.opened.pop()
        elif not self.opened:
            self.source.error(
                f"'{token}' closes nothing: no '{_OPENED_BY[token.type]}' is open",
                self.source.at(token),
            )
        else:
            last = self.opened.pop()
            closer = "]" if last == "[" else ")"
            self.source.error(
                f"'{token}' where '{closer}' should close the '{last}' of line {last.line}, column {last.column}",
                self.source.at(token),
            )

    def _unclosed(self, end: int | None = None) -> None:
        """Reports the open brackets, at a token of line `end` or the end of the text."""
        torn = [line for line in self.source.torn if end is None or line < end]
        for token in self.opened:
            if any(line >= (token.line or 0) for line in torn):
                self.source.spoilt.add(token.line or 0)  # what closes it may be in that text
            else:
                self.source.error(f"'{token}' is never closed", self.source.at(token))
        self.opened.clear()

    def _blanks_before(self, token: Token) -> Location:
        return Location(self.source.file, token.line or 0, 1, token.column or 0)

    @staticmethod
    def _mark(kind: str, after: Token) -> Token:
        line, column = after.end_line, after.end_column
        return Token(kind, "", 0, line, column, line, column)


def _blanks(indent: str) -> str:
    tabs, spaces = indent.count("\t"), indent.count(" ")
    parts = [f"{n} {word}{'s' * (n != 1)}" for n, word in ((tabs, "tab"), (spaces, "space")) if n]
    return " and ".join(parts) or "nothing"
