"""Mangled programs: a module that verifies, or an error with a place; never anything else."""

from __future__ import annotations

import random
import re
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from programs import EXAMPLES, GEMM

from tkc.diagnostics import TkcError
from tkc.frontend import compile_source

SEEDS = [p.read_text(encoding="utf-8") for p in sorted(EXAMPLES.glob("*.tk"))]
TOKEN = re.compile(r"\n *|[A-Za-z_]\w*|\d+|<-|->|\+=|//|#[^\n]*| +|[^\s\w]")
PIECES = [TOKEN.findall(text) for text in SEEDS]
POOL = [
    *sorted({piece for pieces in PIECES for piece in pieces}),
    "if", "else", "elif", "not", "and", "or", "where", "as", "0x", "1.5", "1e400", "\t", "\r\n", "\x00", "é", '"', "'",
    "{", "}", "\\", "99999999999", "-", "%", "==", ".T", ".part", "inf", "cdiv", "min", "f16", "e4m3", "f32", "f32(",
]  # fmt: skip
WORDS = [piece for piece in POOL if re.match(r"\w", piece)]


def check(text: str) -> bool:
    """Whether the text compiles; fails where the front end does anything but compile or report."""
    found: TkcError | None = None
    try:
        compile_source(text, "k.tk").verify()
    except TkcError as error:
        found = error
    if found is None:
        return True
    lines = re.sub("\r\n?", "\n", text.removeprefix("\ufeff")).split("\n")
    assert found.diagnostics
    for d in found.diagnostics:
        assert d.message
        assert d.location is not None
        assert 1 <= d.location.line <= len(lines) + 1
        row = lines[d.location.line - 1] if d.location.line <= len(lines) else ""
        assert 1 <= d.location.column <= len(row) + 1
    assert found.render()
    return False


def mangle(pieces: list[str], choose: random.Random, words_only: bool) -> str:
    """A program after a few deletions, insertions, swaps and repetitions of its tokens."""
    pieces = list(pieces)
    for _ in range(choose.choice([1, 1, 1, 2, 3, 6])):
        at = choose.randrange(len(pieces))
        if words_only:
            at = choose.choice([i for i, piece in enumerate(pieces) if re.match(r"\w", piece)])
            pieces[at] = choose.choice(WORDS)
            continue
        match choose.randrange(6):
            case 0:
                pieces[at : at + 1] = []
            case 1:
                pieces.insert(at, choose.choice(POOL))
            case 2:
                pieces[at] = choose.choice(POOL)
            case 3:
                other = choose.randrange(len(pieces))
                pieces[at], pieces[other] = pieces[other], pieces[at]
            case 4:
                pieces[at] = choose.choice(pieces)
            case _:
                pieces[at:at] = pieces[at : at + choose.randrange(20)]
    return "".join(pieces)


@given(st.sampled_from(PIECES), st.randoms(use_true_random=False), st.booleans())
@settings(
    max_examples=150, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
def test_mangled_programs(pieces: list[str], choose: random.Random, words_only: bool) -> None:
    check(mangle(pieces, choose, words_only))


@given(st.text(max_size=200))
@settings(max_examples=100, deadline=None, derandomize=True)
def test_any_text(text: str) -> None:
    check(text)
    check("kernel k():\n    " + text)


@given(st.binary(max_size=100))
@settings(max_examples=50, deadline=None, derandomize=True)
def test_bytes_read_as_text(data: bytes) -> None:
    check(data.decode("latin-1"))
    check(data.decode("utf-8", "surrogateescape"))


def test_every_prefix_of_a_program() -> None:
    text = GEMM
    assert not any(check(text[:n]) for n in range(0, text.index("role store"), 23))


@pytest.mark.soak
def test_many_mangled_programs(seed: int) -> None:
    choose = random.Random(seed)
    end = time.monotonic() + 120
    right = total = 0
    while time.monotonic() < end:
        total += 1
        right += check(mangle(choose.choice(PIECES), choose, choose.random() < 0.4))
    assert 0 < right < total
