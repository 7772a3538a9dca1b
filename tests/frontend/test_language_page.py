"""docs/language.md: it has every word of explicit synchronisation, and its programs compile."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import tkc
from tkc.frontend import commands, elements
from tkc.frontend.casts import CASTS as DTYPES_OF_REGISTERS
from tkc.frontend.explicit_program import IDENTITIES
from tkc.frontend.explicit_syntax import COMMANDS
from tkc.frontend.format import format_source
from tkc.frontend.scope import FUNCTIONS
from tkc.ir.isa.targets import FAMILIES

PAGE = (Path(__file__).parents[2] / "docs" / "language.md").read_text(encoding="utf-8")
PROGRAMS = re.findall(r"^```\n(kernel .*?)^```", PAGE, re.M | re.S)
QUOTED = {word for code in re.findall(r"`([^`\n]+)`", PAGE) for word in re.findall(r"\w+", code)}
WORDS = {
    *COMMANDS, *IDENTITIES, *commands.FENCES, *(w for of in commands.FENCES.values() for w in of), *commands.GROUPS,
    *commands.MEETINGS, *commands.SYNCS, *commands.HINTS, *(set(commands.COMBINED) - {"add"}), *commands.EACH,
    *elements.LOADS, *elements.STORES, *elements.UPDATES, *elements.SCOPES, *elements.ATOMICS,
    "bulk", "pair", "multicast", "at", "each", "bytes", "barrier", "count", "elect", "while", "range", "unroll", "part",
    "print", "assert", "break", "continue", "mask", "where", "causal", "any", "longest_first", "first", "last",
    *FUNCTIONS, *DTYPES_OF_REGISTERS, "major", "keep", "on", *FAMILIES,
}  # fmt: skip


def test_every_word_is_on_the_page() -> None:
    assert sorted(WORDS - QUOTED) == []


@pytest.mark.parametrize("program", PROGRAMS)
def test_its_programs_are_in_the_one_style(program: str) -> None:
    assert format_source(program, "page.tk") == program


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_its_programs_compile(program: str, target: str) -> None:
    tkc.compile(program, target=target).cubin()
