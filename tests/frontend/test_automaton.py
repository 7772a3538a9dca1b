"""The automaton reads as Lark does: the same tokens and trees, and it stops where Lark stops."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from lark.exceptions import UnexpectedCharacters, UnexpectedToken

from tkc.frontend.automaton import Token, Unreadable
from tkc.frontend.layout import Layout
from tkc.frontend.source import Source
from tkc.frontend.tokens import parser, reader

ROOT = Path(__file__).parents[2]
FILES = sorted([*ROOT.glob("examples/*.tk"), *ROOT.glob("lit_tests/**/*.tk")])


def by_lark(text: str) -> list[Token] | tuple[int, int]:
    """Lark's tokens of a text, or the character and the line where it has none."""
    session: Any = parser().parse_interactive(text)
    try:
        return [
            Token(t.type, t.value, t.start_pos, t.line, t.column, t.end_line, t.end_column)
            for t in session.lexer_thread.lex(session.parser_state)
        ]
    except UnexpectedCharacters as e:
        place: Any = e
        return place.pos_in_stream, place.line


def by_automaton(text: str) -> list[Token] | tuple[int, int]:
    try:
        return reader().tokens(text)
    except Unreadable as e:
        return e.at, e.line


def all_of(token: Token) -> tuple[Any, ...]:
    return str(token), *[getattr(token, name) for name in Token.__slots__]


def same(text: str) -> bool:
    """Compares a text's tokens and its tree; says whether there is one."""
    tokens = by_automaton(text)
    other = by_lark(text)
    if isinstance(tokens, tuple) or isinstance(other, tuple):
        assert tokens == other
        return False
    assert list(map(all_of, tokens)) == list(map(all_of, other))
    laid = [*Layout(Source(text, "")).run(tokens), Token("$END", "")]
    session: Any = parser().parse_interactive()
    tree: Any = None
    try:
        for token in laid:
            tree = session.feed_token(token)
    except UnexpectedToken:
        tree = None
    found = reader().tree(laid)
    assert found == tree
    assert repr(found) == repr(tree)  # tuples compare equal whatever they are called
    return found is not None


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_the_same_of_a_program_and_of_it_spoilt(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    same(text if text.endswith("\n") else f"{text}\n")
    chance = random.Random(path.name)
    pieces = text.split(" ")
    for _ in range(3):
        some = pieces.copy()
        way, i, j = chance.randrange(3), chance.randrange(len(some)), chance.randrange(len(some))
        if way == 0:
            some[i], some[j] = some[j], some[i]
        elif way == 1:
            del some[i]
        else:
            some.insert(i, chance.choice(["(", "]", ":", "'", "if", "\n", "1.", "é", "->", ";"]))
        same(" ".join(some) + "\n")


def test_both_outcomes_are_met() -> None:
    assert same("kernel k(A: f32):\n    x = 1\n")
    assert same("\n")
    assert not same("kernel k(A: f32):\n    x = = 1\n")
    assert not same("kernel k(A: f32):\n    x = $\n")


def test_a_right_program_needs_no_lark() -> None:
    """Lark takes longer to load than a small program to compile."""
    import os
    import subprocess
    import sys

    example = ROOT / "examples" / "gemm_bf16.tk"
    code = (
        "import sys; from pathlib import Path; import tkc;"
        f"tkc.compile(Path({str(example)!r}), target='sm_90a'); print('lark' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
        env={**os.environ, "TKC_CACHE": "off"},
    )
    assert done.stdout == "False\n"
