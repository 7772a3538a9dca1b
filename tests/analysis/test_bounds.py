"""Slots and elements that are not there, and what nobody has written when it is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.analysis.bug_cases import GEMM, SCALED, changed
from tests.analysis.test_elements import X, Y, program
from tests.analysis.test_twins import diagnosed
from tests.analysis.twins import RING, THROUGH

COPY_OF_SCALES = "                    copy sb[slot] <- b[slot].scales\n"
BAD = {
    "a counter that does not wrap": (changed(RING, ("i = 1 - i\n    role math", "i = 2 - i\n    role math")), "slot 2"),
    "a ring that is too short": (changed(THROUGH, ("64] * 2", "64]")), "slot 1"),
    "a thread beyond the end": (program(f"4\nv[0][thread + 1] <- read({X})"), "element 128"),
    "a turn beyond the end": (
        program(f"1\nfor j in range(5): v[0][32 * j + lane] <- read({X})"), "element 159",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", BAD)
def test_what_is_not_there(what: str) -> None:
    text, said = BAD[what]
    told = [d.message for d in diagnosed(text, "sm_90a") if d.code == "TK321"]
    assert told
    assert all(said in message for message in told), told


UNDER_CONDITIONS = """\
kernel k(X: global[f32, M, N], Y: global[f32, M, N], f: i32, F: global[i32, 128]):
    launch persistent
    schedule work: m, n in tiles(M, blocks(N, 128))
    shared v: vector[f32, 64]
    role r, warps 4:
        for m, n in work:
            x = read(X[m, n.index * 128 + thread])
"""
BEYOND = """\
if f < 2: v[0][thread] <- x  # bad
if n.index < 2: v[0][thread] <- x  # bad
if f < 2: Y[m, n.index * 128 + thread] <- read(v[0][thread])  # bad
if f != 2 and thread < 100: v[0][thread] <- x  # bad
if f < 2 or m > 3:
    v[0][thread] <- x  # bad
else:
    if warp < 3: v[0][thread - 1] <- x  # bad
if f < 2:
    for j in range(3): v[0][32 * j + lane] <- x  # bad
for j in range(8):
    if f < 2: v[0][8 * j + lane] <- x  # bad
    if j < 5: v[0][8 * j + lane] <- x
    if j < 6: v[0][8 * j + lane] <- x  # bad
    if read(F[j]) < 3: v[0][8 * j + lane] <- x
for j in range(8):
    if f == j: break
    v[0][8 * j + lane] <- x
    v[0][64 + lane] <- x  # bad
i = 0
while i < f:
    if m < 3: v[0][thread] <- x  # bad
    i = i + 1
if read(F[0]) < 3: v[0][thread] <- x  # bad
if thread < f:
    v[0][thread] <- x
    v[0][thread + 64] <- x  # bad
for j in range(thread, 64, 128): v[0][j] <- x
for j in range(thread, 65, 128): v[0][j] <- x  # bad
for j in range(64 - thread): v[0][thread] <- x
while thread + i < 64:
    v[0][thread] <- x
    i = i + 128
left = 2
for j in range(5):
    if left > 0: v[0][32 * j + lane] <- x
    left = left - 1
for j in range(5):
    if j + f < 2 + f: v[0][32 * j + lane] <- x
    if j >= 2: continue
    v[0][32 * j + lane] <- x
v[0][f + thread] <- x  # bad
if f < 2: v[0][(f + thread) % 64] <- x
"""


def test_a_condition_that_keeps_no_index_within() -> None:
    """Told at each statement that is sure to leave its vector if it runs, and at no other."""
    lines = [*UNDER_CONDITIONS.splitlines(), *(" " * 12 + n for n in BEYOND.splitlines())]
    found = diagnosed("\n".join(lines) + "\n", "sm_90a")
    told = {d.location.line for d in found if d.code == "TK321" and d.location}
    assert sorted(told) == [n for n, line in enumerate(lines, 1) if line.endswith("# bad")]


@pytest.mark.parametrize("condition", ["j < 4", "32 * j + lane < 128"])
def test_what_a_condition_keeps_within(condition: str) -> None:
    text = program(f"1\nfor j in range(5):\n    if {condition}: v[0][32 * j + lane] <- read({X})")
    assert [d.message for d in diagnosed(text, "sm_90a") if d.code == "TK321"] == []


SLICE = "read(d[i], j * WIDTH, WIDTH)"


@pytest.mark.parametrize(
    ("old", "new", "column"),
    [
        ("", "", None),
        (SLICE, "read(d[i], j * WIDTH + 1, WIDTH)", "column 256 of d, which has 256"),
        (SLICE, "read(d[i], j * WIDTH - 8, WIDTH)", "column -8 of d, which has 256"),
        ("for j in range(BN // WIDTH):", "for j in range(BN // WIDTH + 1):", "column 319 of d"),
        ("if K > 0", "if n.index > 0", None),
        (SLICE + " if K > 0", "read(d[i], j * WIDTH + 1, WIDTH) if n.index > 0", "column 256 of d"),
    ],
)
def test_columns_of_an_accumulator_that_are_not_there(
    old: str, new: str, column: str | None
) -> None:
    text = changed(GEMM, (old, new)) if old else GEMM
    told = [d.message for d in diagnosed(text, "sm_100a") if d.code == "TK321"]
    assert len(told) == (column is not None)
    assert all(str(column) in message for message in told), told


@pytest.mark.parametrize(
    ("keep", "said"), [("not k.first", 0), ("k.first", 1), ("k.index != 0", 0), ("k.index == 1", 0)]
)
def test_an_accumulator_that_nothing_clears(keep: str, said: int) -> None:
    told = diagnosed(changed(GEMM, ("not k.first", keep)), "sm_100a")
    assert sum(d.code == "TK320" and "nothing clears it" in d.message for d in told) == said


REGISTERS = (Path(__file__).parents[2] / "examples/gemm_bf16_level2_sm90.tk").read_text()
IN_ROWS = ("for j in unroll(BN // WIDTH):", "for j in range(BN // WIDTH):")
OF_REGISTERS = "read(d, j * WIDTH, WIDTH)"
PRODUCT = "                mma d += a[slot] @ b[slot].T, not k.first\n"


@pytest.mark.parametrize(
    ("changes", "code", "said"),
    [
        ([IN_ROWS], None, ""),
        ([IN_ROWS, (OF_REGISTERS, "read(d, j * WIDTH + 1, WIDTH)")], "TK321", "column 256 of d, which has 256"),
        ([IN_ROWS, (OF_REGISTERS, "read(d, j * WIDTH - 8, WIDTH)")], "TK321", "column -8 of d, which has 256"),
        ([("unroll(BN // WIDTH)", "range(BN // WIDTH + 1)")], "TK321", "column 319 of d, which has 256"),
        ([("not k.first", "k.first")], "TK320", "adds to d in the first turn of its loop, and nothing clears it"),
        ([("not k.first", "0 < 1")], "TK320", "adds to d in the first turn of its loop, and nothing clears it"),
        ([("not k.first", "k.index != 0")], None, ""),
        ([(PRODUCT, "")], "TK320", "`read` in role math reads d, which nothing writes"),
    ],
)  # fmt: skip
def test_accumulators_in_registers(
    changes: list[tuple[str, str]], code: str | None, said: str
) -> None:
    """The same mistakes, at the same place and in the same words, as of those in tensor memory."""
    told = [
        d for d in diagnosed(changed(REGISTERS, *changes), "sm_90a") if d.code in ("TK320", "TK321")
    ]
    assert [d.code for d in told] == [code] * (code is not None)
    for d in told:
        assert said in d.message
        line = changed(REGISTERS, *changes).split("\n")[d.location.line - 1]
        assert "read(d" in line or "mma d" in line


UNWRITTEN = {
    "nothing writes": (program(f"4\n{Y} <- read(v[0][thread])"), "nothing writes", "sm_90a"),
    "only later turns write": (
        program(f"4\n{Y} <- read(v[0][thread])\nsync role\nv[0][thread] <- read({X})\nsync role"), "later turns", "sm_90a",
    ),
    "scales of one slot alone": (
        changed(SCALED, (COPY_OF_SCALES, COPY_OF_SCALES.replace("sb[slot]", "sb[0]"))),
        "reads slot 1 of sb, which nothing writes", "sm_100a",
    ),
    "scales a turn late": (
        changed(SCALED, (COPY_OF_SCALES, ""), ("                    commit empty", COPY_OF_SCALES + "                    commit empty")),
        "later turns", "sm_100a",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", UNWRITTEN)
def test_what_nobody_has_written(what: str) -> None:
    text, said, target = UNWRITTEN[what]
    assert any(said in d.message for d in diagnosed(text, target) if d.code == "TK320")


def test_what_is_written_before_the_loop_is_there() -> None:
    late = UNWRITTEN["only later turns write"][0]
    assert (
        diagnosed(
            changed(late, ("        for m", "        v[0][thread] <- 0.0\n        for m")), "sm_90a"
        )
        == []
    )


FILLED = """\
kernel k(X: global[f32, M, N], Y: global[f32, M, N]):
    launch persistent
    schedule work: m, n in tiles(M, blocks(N, 64))
    shared v: vector[f32, 64] * 2
    role one, warps 2:
        i = 0
        for m, n in work:
            sync 4, 128
            v[i][thread] <- read(X[m, n.index * 64 + thread])
            sync 3, 128
            i = 1 - i
    role two, warps 2:
        i = 0
        for m, n in work:
            sync 4, 128
            sync 3, 128
            Y[m, n.index * 64 + thread] <- read(v[i][63 - thread])
            i = 1 - i
"""
MEETINGS = "            sync 4, 128\n            sync 3, 128\n"
READ = "            Y[m, n.index * 64 + thread] <- read(v[i][63 - thread])\n"
EARLY = "reads what only later turns write"
UNFILLED = {
    "the slot of the turn after": (("read(v[i]", "read(v[1 - i]"), EARLY),
    "ahead of both meetings": ((MEETINGS + READ, READ + MEETINGS), EARLY),
    "an element that nobody fills": (("v[i][thread] <-", "if thread > 0: v[i][thread] <-"), "reads element 0 of v"),
    "every other element": (("v[i][thread] <-", "if thread % 2 == 0: v[i][thread] <-"), "reads element 63 of v, which nothing writes"),
}  # fmt: skip


@pytest.mark.parametrize("what", UNFILLED)
def test_elements_are_read_before_anybody_writes_them(what: str) -> None:
    assert [d.message for d in diagnosed(FILLED, "sm_90a")] == []
    change, words = UNFILLED[what]
    found = diagnosed(changed(FILLED, change), "sm_90a")
    assert any(d.code == "TK320" and words in d.message for d in found), found
