"""The parser of IR text that gives each operation its place in the text, where it names none itself."""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import LocationAttr
from xdsl.ir import Operation
from xdsl.parser import Parser

from tkc.ir.locations import file_location


class LocatedParser(Parser):
    """A parser whose operations know their line: what has no `loc(...)` gets the place of its first token."""

    _line_start = 0
    _line = 1
    _placed = False
    """Whether a location stood where one was last looked for; after an operation that is its own, `unknown` too."""

    def parse_optional_location(self) -> LocationAttr | None:
        found = super().parse_optional_location()
        self._placed = found is not None
        return found

    def parse_operation(self) -> Operation:
        span = self._current_token.span
        # Counted on from the last operation: a span counts from the top of the file every time.
        text: Any = span.input.content
        start = span.input.get_start_of_line(span.start)
        if start >= self._line_start:
            self._line += text.count(span.input.newline, self._line_start, start)
        else:
            self._line = text.count(span.input.newline, 0, start) + 1
        self._line_start = start
        place = (span.input.name, self._line + span.line_offset, span.start - start + 1)
        op = super().parse_operation()
        if not self._placed:
            op.location = file_location(*place)
        return op
