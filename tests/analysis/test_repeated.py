"""Copies, sums and products that each warp of a role does, where one thread would do."""

from __future__ import annotations

import pytest

from tests.analysis.bug_cases import changed
from tests.analysis.test_bug_cases import said
from tkc.analysis.happens_before import check
from tkc.driver import to_module
from tkc.job import Job

STORED = """\
kernel k(X: global[f32, M, N], Y: global[f32, M, N]):
    launch persistent
    schedule work: m, n in tiles(blocks(M, 128), blocks(N, 32))
    shared c: tile[f32, 128, 32] * 4
    barrier full * 4, count = 1
    role all, warps 4:
        phase = 0
        for m, n in work:
            elect:
                expect full[0], bytes(c)
                load c[0] <- X[m, n], full[0]
            wait full[0], phase
            elect warp:
                store Y[m, n] <- c[0]
                commit stores
                wait stores, read
            sync role
            phase = phase ^ 1
        elect warp: wait stores
"""
ONCE = STORED.replace("elect warp:", "elect:")
ADDED = ("Y[m, n] <-", "Y[m, n] +=")
LARGEST = ("store Y[m, n] <- c[0]", "store Y[m, n] <- c[0], max")
LOADED = (
    (
        "            elect:\n                expect",
        "            elect warp:\n                expect",
    ),
    ("* 4, count = 1", "* 4, count = 4"),
)
TWO = (
    "            elect warp:\n                store",
    "            if warp < 2:\n              elect warp:\n                store",
)


def of(text: str) -> list[tuple[str, str]]:
    return [(d.code, str(d.severity)) for d in said(text, "sm_90a")]


@pytest.mark.parametrize("changes", [(), (ADDED,)])
def test_one_thread_does_it_once(changes: tuple[tuple[str, str], ...]) -> None:
    assert of(changed(ONCE, *changes)) == []


def test_each_warp_does_it_again() -> None:
    (found,) = said(STORED, "sm_90a")
    assert (found.code, str(found.severity)) == ("TK327", "warning")
    assert "done by each of 4 threads, which all write the same" in found.message
    (found,) = said(changed(STORED, TWO), "sm_90a")
    assert "done by each of 2 threads" in found.message


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ((ADDED,), [("TK327", "error")]),
        ((LARGEST,), [("TK327", "warning")]),
        (LOADED, [("TK327", "warning")] * 2),
        ((("<- c[0]\n", "<- c[warp]\n"),), [("TK301", "error")]),
    ],
)  # fmt: skip
def test_what_comes_of_it(
    changes: tuple[tuple[str, str], ...], told: list[tuple[str, str]]
) -> None:
    text = changed(STORED, *changes)
    assert of(text.replace("f32", "i32") if LARGEST in changes else text) == told


def test_nothing_orders_the_writes_in_the_strict_model() -> None:
    module = to_module(Job(STORED, "twin.tk", "sm_90a"), after="insert-fences")
    assert "TK301" in {f.code for f in check(module, "strict")}
