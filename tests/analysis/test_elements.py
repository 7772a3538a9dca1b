"""Single elements of vectors and tensors: which threads, roles and work units may meet at one, and which do not."""

from __future__ import annotations

from textwrap import indent

import pytest

from tests.analysis.test_twins import diagnosed
from tkc.diagnostics import Severity

HEAD = """\
kernel elements(X: global[f32, M, N], Y: global[f32, M, N], T: global[f32, 128]):
    launch persistent
    schedule work: m, n in tiles(M, blocks(N, 128))
    shared v: vector[f32, 128]
    shared w: vector[f32, 128] * 2
    shared flag: vector[i32, 4]
"""
X = "X[m, n.index * 128 + thread]"
Y = "Y[m, n.index * 128 + thread]"


def program(*roles: str) -> str:
    """A kernel of the lines of each role's loop over the tiles; the first line of each says its warps."""
    made = HEAD
    for number, lines in enumerate(roles):
        warps, _, body = lines.strip("\n").partition("\n")
        made += f"    role r{number}, warps {warps}:\n        for m, n in work:\n"
        made += indent(body, " " * 12) + "\n"
    return made


GOOD = {
    "each thread its own": program(f"4\nv[0][thread] <- read({X})\n{Y} <- read(v[0][thread])"),
    "another thread's, behind a barrier, and back": program(
        f"4\nv[0][thread] <- read({X})\nsync role\n{Y} <- read(v[0][127 - thread])\nsync role"
    ),
    "two slots and one barrier": program(
        f"4\nw[m % 2][thread] <- read({X})\nsync role\n{Y} <- read(w[m % 2][127 - thread])\nsync role"
    ),
    "a permutation": program(
        f"4\nv[0][thread ^ 5] <- read({X})\n{Y} <- read(v[0][(thread % 32 + 32 * (thread // 32)) ^ 5])"
    ),
    "one of the warps": program(f"4\nif warp == 2: v[0][lane] <- read({X})\nsync role"),
    "in turns of which none has both": program(
        f"4\nif m > 7: v[0][thread] <- read({X})\nif m <= 7: {Y} <- read(v[0][127 - thread])\nsync role"
    ),
    "half the threads": program(
        f"4\nif thread < 64:\n    v[0][thread] <- read({X})\n    {Y} <- read(v[0][thread])"
    ),
    "one value by all": program("4\nflag[0][1] <- 7"),
    "two roles, two halves": program(
        f"2\nv[0][thread] <- read({X})\n{Y} <- read(v[0][thread])",
        f"2\nv[0][64 + thread] <- read({X.replace('thread', '64 + thread')})\n"
        f"{Y.replace('thread', '64 + thread')} <- read(v[0][64 + thread])",
    ),
    "odd and even": program(
        f"1\nv[0][2 * lane] <- read({X})", f"1\nv[0][2 * lane + 1] <- read({X})"
    ),
    "a stride, two ways": program(
        f"2\nfor j in range(2): v[0][64 * j + thread] <- read({X})\n"
        f"for j in range(thread, 128, 64): {Y} <- read(v[0][j])"
    ),
    "a phase in shared memory, two barriers": program(
        f"4\np = read(flag[0][0])\nsync role\nif thread == 0: flag[0][0] <- p + 1\nif p > 3: {Y} <- 1.0\nsync role"
    ).replace(
        "        for m", "        if thread == 0: flag[0][0] <- 0\n        sync role\n        for m"
    ),
    "one work unit": program(f"4\nif unit == 0: T[thread] <- read({X})"),
    "atomic in all work units": program(f"4\natomic_add(T[thread], read({X}))"),
    "a constant by all work units": program("4\nT[thread] <- 1.0"),
    "in place": program(f"4\n{Y} <- read({Y}) * 2"),
    "where only the data says": program(
        f"1\nif lane == 3: flag[0][m % 4] <- 1\nsync warp\n{Y} <- 1.0"
    ),
}

BAD = {
    "another thread's": (program(f"4\nv[0][thread] <- read({X})\n{Y} <- read(v[0][127 - thread])"), "TK301", "127"),
    "another thread's, by data": (
        program(f"4\nv[0][thread] <- read({X})\n{Y} <- read(v[0][(thread + m) % 128])"), "TK301", "m) % 128",
    ),
    "in turns of which one has both": (
        program(f"4\nif m > 7: v[0][thread] <- read({X})\nif m <= 8: {Y} <- read(v[0][127 - thread])\nsync role"),
        "TK301", "m <= 8",
    ),
    "both where a number is none": (
        program(f"4\nif not (a > 3.0): v[0][thread] <- read({X})\nif not (a <= 3.0): {Y} <- read(v[0][127 - thread])\nsync role")
        .replace("128]):", "128], a: f32):"), "TK301", "(a <= 3.0)",
    ),
    "no way back": (
        program(f"4\nv[0][thread] <- read({X})\nsync role\n{Y} <- read(v[0][127 - thread])"), "TK309", "v[0][thread] <-",
    ),
    "four warps, one element": (program(f"4\nv[0][lane] <- read({X})\nsync role"), "TK301", "v[0][lane]"),
    "neighbours": (program(f"4\nv[0][thread // 2] <- read({X})\nsync role"), "TK301", "thread // 2"),
    "lanes are not one another": (
        program(f"1\nif lane == 0: v[0][3] <- read({X})\nif lane == 5: {Y} <- read(v[0][3])"), "TK301", "lane == 5",
    ),
    "a phase in shared memory (MBR-11)": (
        program(f"4\np = read(flag[0][0])\nsync role\nif thread == 0: flag[0][0] <- p + 1\nif p > 3: {Y} <- 1.0"),
        "TK301", "read(flag",
    ),
    "two roles": (program(f"4\nv[0][thread] <- read({X})", f"4\n{Y} <- read(v[0][thread])"), "TK301", "read(v"),
    "two roles, halves that overlap": (
        program(f"2\nv[0][thread] <- read({X})", f"2\nv[0][63 + thread] <- read({X})"), "TK301", "63 + thread",
    ),
    "two roles at a tensor": (program(f"4\n{Y} <- read({X})", f"4\nif read({Y}) > 0.0: T[0] <- 1.0"), "TK301", "read(Y"),
    "all work units": (program(f"4\nT[thread] <- read({X})"), "TK301", "T[thread]"),
    "a neighbour's row": (
        program(f"4\n{Y} <- read({X})\nsync role\nif read({Y.replace('[m', '[m + 1')}) > 0.0: T[0] <- 1.0"),
        "TK301", "m + 1",
    ),
    "a row of another tile": (
        program(f"4\n{Y} <- read({X})\nsync role\nif read(Y[0, thread]) > 0.0: T[0] <- 1.0"), "TK301", "Y[0, thread]",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", GOOD)
def test_what_cannot_meet_is_silent(what: str) -> None:
    assert [d.message for d in diagnosed(GOOD[what], "sm_90a")] == []


@pytest.mark.parametrize("what", BAD)
def test_what_may_meet_is_told(what: str) -> None:
    text, code, line = BAD[what]
    found = diagnosed(text, "sm_90a")
    lines = text.splitlines()
    shown = [lines[d.location.line - 1] for d in found if d.code == code and d.location]
    assert any(line in one for one in shown), [(d.code, d.message) for d in found]


STORED = """\
kernel stored(X: global[f32, M, N], Y: global[f32, M, N], T: global[f32, M, N]):
    launch persistent
    schedule work: m, n in tiles(M, blocks(N, 128))
    shared v: vector[f32, 128]
    barrier full, count = 1
    barrier done, count = 1
    role copy:
        phase = 0
        for m, n in work:
            elect:
                wait stores, read
                expect full, bytes(v)
                load v <- X[m, n], full
            wait full, phase
            elect:
                store Y[m, n] <- v, bulk
                commit stores
                wait stores
                arrive done
            phase = phase ^ 1
    role look, warps 4:
        phase = 0
        for m, n in work:
            wait done, phase
            T[m, n.index * 128 + thread] <- read(Y[m, n.index * 128 + thread])
            phase = phase ^ 1
"""
"""A bulk store that one role awaits before another reads what it wrote."""


def test_a_store_by_the_copy_engine_and_a_load_of_another_role() -> None:
    assert {d.code for d in diagnosed(STORED, "sm_90a")} <= {"TK306"}
    early = STORED.replace(
        "                wait stores\n                arrive done\n",
        "                arrive done\n",
    )
    assert {d.code for d in diagnosed(early, "sm_90a")} & {"TK308", "TK309", "TK301"}
    none = STORED.replace("            wait done, phase\n", "").replace(
        "                arrive done\n", ""
    )
    assert "TK301" in {d.code for d in diagnosed(none, "sm_90a")}


# Words between roles --------------------------------------------------------------------------------------------------

FLAGS = """\
kernel k(X: global[f32, M, N], Y: global[f32, M, N]):
    launch persistent
    schedule work: m, n in tiles(M, blocks(N, 128))
    shared v: vector[f32, 128]
    shared told: vector[i32, 2]
    role one, warps 4:
        turn = 0
        if thread == 0:
            told[0][0] <- 0
        for m, n in work:
            v[0][thread] <- read(X[m, n.index * 128 + thread])
            sync role
            turn = turn + 1
            if thread == 0: told[0][0] <- turn, release, cta
            seen = 0
            while seen < turn:
                seen = read(told[0][1], acquire, cta)
            sync role
    role two, warps 4:
        turn = 0
        if thread == 0:
            told[0][1] <- 0
        for m, n in work:
            turn = turn + 1
            seen = 0
            while seen < turn:
                seen = read(told[0][0], acquire, cta)
            Y[m, n.index * 128 + thread] <- read(v[0][127 - thread])
            sync role
            if thread == 0: told[0][1] <- turn, release, cta
"""
"""Two roles tell one another by words: right, and not followed."""


def test_words_between_roles_are_a_warning() -> None:
    found = diagnosed(FLAGS, "sm_90a")
    assert {(d.code, d.severity) for d in found} == {("TK325", Severity.WARNING)}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("            while seen < turn:\n                seen = read(told[0][0], acquire, cta)\n            Y", "            Y"),
        ("release, cta", "relaxed, cta"),
    ],
)  # fmt: skip
def test_what_no_word_can_order_is_an_error(old: str, new: str) -> None:
    assert old in FLAGS
    found = diagnosed(FLAGS.replace(old, new), "sm_90a")
    lines = FLAGS.replace(old, new).splitlines()
    shown = [lines[d.location.line - 1] for d in found if d.code == "TK301" and d.location]
    assert any("read(v[0]" in line for line in shown)
