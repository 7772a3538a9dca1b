"""Two stores of one role to one place of a tensor, which the copy engine may complete in either order."""

from __future__ import annotations

from textwrap import indent

import pytest

from tests.analysis.test_twins import diagnosed

HEAD = """\
kernel twice(Y: global[f32, M, N]):
    schedule work: m, n in tiles(blocks(M, 128), blocks(N, 64))
    shared a: tile[f32, 128, 64]
    shared b: tile[f32, 128, 64]
    role math, warps 4:
        for m, n in work:
            elect:
                wait stores, read
            sync role
            a <- 1
            b <- 2
            fence proxy shared
            sync role
"""
TAIL = """\
        elect:
            wait stores
"""
FIRST = "elect:\n    store Y[m, n] <- a\n    commit stores\n"
SECOND = "elect:\n    store Y[m, n] <- b\n    commit stores\n"
ADDED = SECOND.replace("<-", "+=")
DONE, READ = "elect:\n    wait stores\n", "elect:\n    wait stores, read\n"


def under(condition: str, *body: str) -> str:
    return f"{condition}:\n{indent(''.join(body), '    ')}"


def told(*body: str) -> list[str]:
    text = HEAD + indent("".join(body), " " * 12) + TAIL
    return [d.code for d in diagnosed(text, "sm_90a")]


WRONG = {
    "plain": (FIRST, SECOND),
    "a sum behind a store": (FIRST, ADDED),
    "only the sources awaited": (FIRST, READ, SECOND),
    "under one condition": (under("if M > 300", FIRST, SECOND),),
    "a sum under one condition": (under("if M > 300", FIRST, ADDED),),
    "sources awaited under a condition": (under("if M > 300", FIRST, READ, SECOND),),
    "one of them under another condition, too": (
        under("if M > 300", FIRST, under("if N > 300", SECOND)),
    ),
    "under a condition and the same again": (under("if M > 300", FIRST), under("if M > 300", SECOND)),
    "under one that says the same in other words": (
        under("if n.index > M", FIRST), under("if not M >= n.index", ADDED)
    ),
    "sources awaited between the two": (
        under("if M > 300", FIRST), READ, under("if M > 300", SECOND)
    ),
    "one of them under a condition": (FIRST, under("if M > 300", SECOND)),
}  # fmt: skip
RIGHT = {
    "awaited": (FIRST, DONE, SECOND),
    "awaited under one condition": (under("if M > 300", FIRST, DONE, SECOND),),
    "in two branches": (under("if M > 300", FIRST), under("else", SECOND)),
    "awaited under the first of two that ask the same": (
        under("if M > 300", FIRST, DONE), under("if M > 300", SECOND)
    ),
    "awaited between two that ask the same": (
        under("if M > 300", FIRST), DONE, under("if M > 300", SECOND)
    ),
    "under two that ask the contrary": (under("if M > 300", FIRST), under("if M <= 300", SECOND)),
    "under conditions of which nothing is known": (
        under("if M > 300", FIRST), under("if N > 300", SECOND)
    ),
    "of which both add": (under("if M > 300", FIRST.replace("<-", "+="), ADDED),),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_nothing_orders_them(name: str) -> None:
    assert told(*WRONG[name]) == ["TK308"]


@pytest.mark.parametrize("name", RIGHT)
def test_no_finding(name: str) -> None:
    assert told(*RIGHT[name]) == []
