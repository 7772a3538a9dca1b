"""Words in global memory by which one role tells another: followed where one constant is released once."""

from __future__ import annotations

import numpy as np
import pytest

import tkc
from tests.analysis.bug_cases import changed
from tests.analysis.test_bug_cases import said

TOLD = """\
kernel k(X: global[f32, M, N], Y: global[f32, M, N], F: global[i32, M]):
    launch persistent
    schedule work: m in tiles(M)
    role one, warps 2:
        for m in work:
            Y[m, thread] <- read(X[m, thread])
            sync role
            elect: F[m] <- 1, release, gpu
    role two, warps 2:
        for m in work:
            while read(F[m], acquire, gpu) != 1: f = 0
            Y[m, thread + 64] <- read(Y[m, 63 - thread])
"""
SPIN = "            while read(F[m], acquire, gpu) != 1: f = 0\n"
BY_ONE = f"            elect:\n    {SPIN}            sync role\n"
TWICE = (
    "F[m] <- 1, release, gpu\n",
    "F[m] <- 1, release, gpu\n            elect: F[m] <- 1, release, gpu\n",
)


@pytest.mark.parametrize(
    "text",
    [
        TOLD,
        changed(TOLD, (SPIN, BY_ONE)),
        changed(TOLD, ("acquire, gpu) != 1", "acquire, gpu) == 0")),
        changed(TOLD, ("acquire, gpu) != 1", "acquire, gpu) < 1")),
        changed(TOLD, ("acquire, gpu)", "acquire, sys)")),
    ],
)  # fmt: skip
def test_what_a_word_tells_is_in_order(text: str) -> None:
    assert said(text, "sm_90a") == ()


SLIPS = {
    "relaxed wait": ((("acquire", "relaxed"),), "TK301", "error"),
    "relaxed store": ((("release", "relaxed"),), "TK301", "error"),
    "others have not met": ((("            sync role\n", ""),), "TK301", "error"),
    "told before": (
        (("            sync role\n            elect: F[m] <- 1, release, gpu\n", ""),
         ("            Y[m, thread] <- read(X", "            elect: F[m] <- 1, release, gpu\n            Y[m, thread] <- read(X")),
        "TK301", "error",
    ),
    "one waits, all read": (((SPIN, f"            elect:\n    {SPIN}"),), "TK301", "error"),
    "read ahead of the wait": (((SPIN, "            x = read(Y[m, 63 - thread])\n" + SPIN),), "TK309", "error"),
    "another word": ((("while read(F[m]", "while read(F[m + 1]"),), "TK325", "warning"),
    "one word for all": ((("while read(F[m]", "while read(F[0]"), ("elect: F[m]", "elect: F[0]")), "TK325", "warning"),
    "another value": ((("!= 1", "!= 2"),), "TK325", "warning"),
    "a wait that 0 ends": ((("!= 1", "> 1"),), "TK325", "warning"),
    "two stores": ((TWICE,), "TK325", "warning"),
    "a value that counts": ((("<- 1, release", "<- m, release"), ("!= 1", "!= m")), "TK325", "warning"),
}  # fmt: skip


@pytest.mark.parametrize("what", SLIPS)
def test_what_a_word_does_not_tell(what: str) -> None:
    """What is not followed is a warning; what is, an error where it does not order."""
    changes, code, severity = SLIPS[what]
    found = said(changed(TOLD, *changes), "sm_90a")
    assert (code, severity) in {(d.code, str(d.severity)) for d in found}, found


def test_it_runs() -> None:
    kernel = tkc.compile(TOLD, target="sm_90a")
    x = np.random.default_rng().uniform(-1, 1, (5, 128)).astype(np.float32)
    y, flags = np.full_like(x, np.nan), np.zeros(5, np.int32)
    assert kernel.emulate(x, y, flags, schedule="random").clean
    assert np.array_equal(y, np.concatenate([x[:, :64], x[:, 63::-1]], axis=1))


AXES = """\
kernel k(X: global[f32, M, 64], Y: global[f32, M, N, 128], F: global[i32, M, N]):
    launch persistent
    schedule work: m, n in tiles(M, N)
    role one, warps 2:
        for m, n in work:
            Y[m, n, thread] <- read(X[m, thread])
            sync role
            elect: F[m, n] <- 1, release, gpu
    role two, warps 2:
        for m, n in work:
            while read(F[m, n], acquire, gpu) != 1: f = 0
            Y[m, n, thread + 64] <- read(Y[m, n, 63 - thread])
"""


def test_a_word_is_of_one_turn_of_all_axes() -> None:
    """`F[m]` is there for every n: whoever waits for the second is let through by the first."""
    assert said(AXES, "sm_90a") == ()
    [found] = said(
        changed(AXES, ("F[m, n] <-", "F[m, 0] <-"), ("read(F[m, n]", "read(F[m, 0]")), "sm_90a"
    )
    assert (found.code, str(found.severity)) == ("TK325", "warning")
    assert any("`F[m, n]` in `for m, n in work`" in note.message for note in found.all_notes)
