"""The grammar's lexer and LALR automaton, run on right programs from the shipped tables without loading Lark.

The tables are Lark's (`tables.py` writes them), and so are the trees: what an automaton does with a token and what a
rule makes of its children stands in them. What it does not accept goes to Lark's parser, which goes on after a mistake.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from tkc.digests import sha256

GRAMMAR = Path(__file__).with_name("grammar.lark")
SHIPPED = Path(__file__).with_name("tables.json")


def digest(data: bytes) -> str:
    """Tells damage and change, alike on every Python (its own digest of sources is not)."""
    return sha256(data).hexdigest()[:16]


class Token(str):
    """A piece of the text, and where it stands: positions count from 1, `end_column` is one past the last character.

    Has what Lark's parser asks of a token.
    """

    __slots__ = ("column", "end_column", "end_line", "line", "start_pos", "type")

    type: str
    start_pos: int
    line: int
    column: int
    end_line: int
    end_column: int

    def __new__(
        cls,
        type: str,
        value: str,
        start_pos: int = 0,
        line: int = 0,
        column: int = 0,
        end_line: int = 0,
        end_column: int = 0,
    ) -> Token:
        made = str.__new__(cls, value)
        made.type, made.start_pos, made.line, made.column = type, start_pos, line, column
        made.end_line, made.end_column = end_line, end_column
        return made


class Unreadable(Exception):
    """No token begins at character `at` of the text, which is in line `line`."""

    def __init__(self, at: int, line: int) -> None:
        super().__init__(at, line)
        self.at, self.line = at, line


class Automaton:
    """The tables of one file; states and rules are read when something comes to them first.

    A state's row says by the kind of a token to which state it goes, or by which rule it reduces; a rule, what it is
    called, of how many children, and what is made of them (`_children`).
    """

    def __init__(self, body: bytes, builder: Any) -> None:
        lines = body.splitlines()
        head: dict[str, Any] = json.loads(lines[0][1:-1])
        self.names: list[str] = head["tokens"]
        self.first: int = head["start"]
        self.last: int = head["end"]
        self.rules: list[Any] = head["rules"]
        self.lines = lines[3:]
        self.rows: dict[int, dict[str, tuple[int, int]]] = {}
        self.ready: dict[int, tuple[Any, ...]] = {}
        self.builder = builder
        self.match = re.compile(head["pattern"]).match
        self.words: dict[str, dict[str, str]] = head["words"]
        self.ignored = frozenset[str](head["ignored"])
        self.breaks = frozenset[str](head["breaks"])

    def tokens(self, text: str) -> list[Token]:
        """All tokens of a text. Raises Unreadable where none begins."""
        found: list[Token] = []
        at, line, begin = 0, 1, 0
        while at < len(text):
            part = self.match(text, at)
            if part is None:
                raise Unreadable(at, line)
            kind, value, end = part.lastgroup or "", part.group(), part.end()
            first, column = line, at - begin + 1
            if kind in self.breaks and "\n" in value:
                line += value.count("\n")
                begin = at + value.rindex("\n") + 1
            if kind not in self.ignored:
                if kind in self.words:
                    kind = self.words[kind].get(value, kind)
                found.append(Token(kind, value, at, first, column, line, end - begin + 1))
            at = end
        return found

    def tree(self, tokens: list[Token]) -> Any:
        """What the rules make of tokens, of which the last is `$END`; None where the grammar does not have them."""
        states, values = [self.first], list[Any]()
        for token in tokens:
            kind = token.type
            while True:
                row = self.rows.get(states[-1]) or self._row(states[-1])
                if kind not in row:
                    return None
                reduces, to = row[kind]
                if not reduces:
                    states.append(to)
                    values.append(token)
                    break
                origin, size, children, make = self.ready.get(to) or self._rule(to)
                if make is None:  # its only child, which is there
                    states.pop()
                else:
                    given = values[len(values) - size :]
                    if size:
                        del states[-size:], values[-size:]
                    values.append(make(given if children is None else _children(children, given)))
                state = (self.rows.get(states[-1]) or self._row(states[-1]))[origin][1]
                states.append(state)
                if state == self.last and kind == "$END":
                    return values[-1]
        return None

    def _row(self, state: int) -> dict[str, tuple[int, int]]:
        row: list[int] = json.loads(self.lines[state][:-1])
        kinds = [self.names[i] for i in row[::3]]
        made = dict(zip(kinds, zip(row[1::3], row[2::3], strict=True), strict=True))
        return self.rows.setdefault(state, made)

    def _rule(self, number: int) -> tuple[Any, ...]:
        origin, size, called, alone, children = self.rules[number]
        make = _same if called.startswith("_") else getattr(self.builder, called, None)
        if alone:
            make = None if size == 1 and children in (None, [0]) else _only(make)
        return self.ready.setdefault(number, (origin, size, children, make))


def _children(plan: list[int | None], given: list[Any]) -> list[Any]:
    """What a rule gets: None for what is not there, a child by its number, or all of a child that is a list (~number).

    A list at the head is taken as it is and grown: a block's statements are added to one another by the thousand.
    """
    made: list[Any] = []
    for i in plan:
        if i is None:
            made.append(None)
        elif i >= 0:
            made.append(given[i])
        elif made:
            made += given[~i]
        else:
            made = given[~i]
    return made


def _same(children: list[Any]) -> list[Any]:
    return children


def _only(make: Any) -> Any:
    """A rule that is its only child, where it has one."""

    def alone(children: list[Any]) -> Any:
        return children[0] if len(children) == 1 else make(children)

    return alone


def body_of(data: bytes, grammar: bytes) -> bytes | None:
    """The tables of a file; None where they are of another grammar, cut short or damaged."""
    head, _, body = data.partition(b"\n")
    told = head.split(b" ")
    sound = len(told) == 3 and [digest(grammar), digest(body)] == [
        t.decode("latin-1") for t in told[1:]
    ]
    return body if sound else None
