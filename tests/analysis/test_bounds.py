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
