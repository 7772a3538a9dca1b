"""Warps of one role that part by a condition and meet again, or among themselves, at numbered barriers."""

from __future__ import annotations

import numpy as np
import pytest

import tkc
from tests.analysis.bug_cases import changed
from tests.analysis.test_twins import diagnosed
from tkc.diagnostics import Severity

HEAD = """\
kernel k(X: global[f32, M, N], Y: global[f32, M, N]):
    launch persistent
    schedule work: m, n in tiles(M, blocks(N, 64))
    shared v: vector[f32, 64]
    role r, warps 4:
        for m, n in work:
"""
HANDED = f"""{HEAD}            if warp < 2:
                v[0][thread] <- read(X[m, n.index * 64 + thread])
                sync 3, 128
                sync 4, 128
            else:
                sync 3, 128
                Y[m, n.index * 64 + thread - 64] <- read(v[0][127 - thread])
                sync 4, 128
"""
"""Two warps write what two others read."""
WRITTEN = "                sync 3, 128\n                sync 4, 128\n            else"
LAST = "                sync 4, 128\n"
ARRIVING = changed(
    HANDED,
    (WRITTEN, WRITTEN.replace("sync 3", "arrive 3")),
    ("read(v[0][127 - thread])\n                sync 4", "read(v[0][127 - thread])\n                arrive 4"),
)  # fmt: skip
"""Who has written, or read, does not wait for the others before it needs what they do."""
AMONG = f"""{HEAD}            if warp < 2:
                v[0][thread] <- read(X[m, n.index * 64 + thread])
                sync 3, 64
                Y[m, n.index * 64 + thread] <- read(v[0][63 - thread])
                sync 3, 64
"""
"""Two warps meet, and the others go on."""
RIGHT = {"handed over": HANDED, "arriving": ARRIVING, "among two": AMONG}


@pytest.mark.parametrize("what", RIGHT)
def test_right_programs_are_silent_and_right(what: str) -> None:
    assert [d.message for d in diagnosed(RIGHT[what], "sm_90a")] == []
    x = np.random.default_rng(41_000_001).standard_normal((5, 192)).astype(np.float32)
    y = np.full_like(x, np.nan)
    report = tkc.compile(RIGHT[what], target="sm_90a").emulate(x, y)
    assert not report.findings
    np.testing.assert_array_equal(y, x.reshape(5, 3, 64)[:, :, ::-1].reshape(5, 192))


WRONG = {
    "one does not come": (HANDED, [("127 - thread])\n" + LAST, "127 - thread])\n")], "TK305"),
    "read too early": (HANDED, [(WRITTEN, WRITTEN.replace("sync 3, 128\n                ", "")), ("else:\n                sync 3, 128\n", "else:\n")], "TK301"),
    "written too early": (HANDED, [(LAST + "            else", "            else"), ("thread])\n" + LAST, "thread])\n")], "TK309"),
    "each half by itself": (HANDED.replace("128", "64").replace("64 - thread", "127 - thread"), [], "TK305"),
    "writes on without a wait": (ARRIVING, [(LAST + "            else", "            else"), ("                arrive 4, 128\n", "")], "TK309"),
    "arrives twice": (ARRIVING, [("arrive 3, 128\n" + LAST, "arrive 3, 128\n                arrive 4, 128\n"), ("thread])\n                arrive 4", "thread])\n                sync 4")], "TK309"),
    "three come": (AMONG, [("warp < 2", "warp < 3"), ("f32, 64]", "f32, 96]")], "TK305"),
    "read before they meet": (AMONG, [("                sync 3, 64\n                Y", "                Y")], "TK301"),
    "written before they meet": (AMONG, [("63 - thread])\n                sync 3, 64\n", "63 - thread])\n")], "TK309"),
    "one half comes twice": (HANDED, [("                sync 3, 128\n                sync 4", "                sync 3, 128\n                sync 3, 128\n                sync 4")], "TK314"),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_wrong_ones_are_told(what: str) -> None:
    text, changes, code = WRONG[what]
    told = [d for d in diagnosed(changed(text, *changes), "sm_90a") if d.severity is Severity.ERROR]
    assert code in {d.code for d in told}, told
