"""Several items of a pipe in one turn of a condition, or in each of its branches."""

from __future__ import annotations

import pytest

from tests.analysis.happens_before.mutants import mutants
from tests.analysis.test_twins import diagnosed
from tkc.analysis.happens_before import check
from tkc.driver import to_module
from tkc.job import Job

HEAD = """\
kernel k(X: global[f32, M, N], Z: global[f32, M, N], Y: global[f32, M, N], w: i32):
    launch persistent
    schedule work: m in tiles(blocks(M, 64))
    shared t: tile[f32, 64, 32] * DEPTH
    pipe p(t): load -> math
"""
PUTS = "{0}put p: t <- X[m, j]\n{0}put p: t <- Z[m, j]\n"
GETS = "{0}get p: x = read(t)\n{0}get p: z = read(t)\n{0}Y[m, j] <- x * 2 - z\n"


def kernel(depth: int, put: str, get: str, condition: str = "j.index < w") -> str:
    """Both roles do the same in the loop over j, under a condition that `IF` stands for, and by `PUT` and `GET`."""
    made = HEAD.replace("DEPTH", str(depth))
    for role, body in (("load", put), ("math, warps 2", get)):
        made += f"    role {role}:\n        for m in work:\n            for j in blocks(N, 32):\n"
        made += body.replace("IF", f"{' ' * 16}if {condition}:\n")
    return made


def under(block: str) -> str:
    return "IF" + block.format(" " * 20)


def both(block: str) -> str:
    inner = block.format(" " * 20)
    return "IF" + inner + " " * 16 + "else:\n" + inner


RIGHT = {
    f"{name}, depth {depth}": kernel(depth, of(PUTS), of(GETS))
    for name, of in (("under a condition", under), ("in both branches", both))
    for depth in (1, 2, 3, 4)
}


@pytest.mark.parametrize("what", RIGHT)
def test_two_items_a_turn_are_silent(what: str) -> None:
    assert [d.message for d in diagnosed(RIGHT[what], "sm_90a")] == []


@pytest.mark.parametrize("what", [name for name in RIGHT if name[-1] in "23"])
def test_each_barrier_that_is_left_out_is_told(what: str) -> None:
    module = to_module(Job(RIGHT[what], "twin.tk", "sm_90a"), after="insert-fences")
    tried = [
        (name, m) for name, m in mutants(module) if name.startswith("mbarrier") and ".p." in name
    ]
    assert len(tried) >= 8
    assert [name for name, mutant in tried if not check(mutant)] == []


@pytest.mark.parametrize(
    ("put", "get"),
    [
        (under(PUTS) + PUTS.format(" " * 16).splitlines()[0] + "\n", under(GETS) + "{}get p: Y[m, j] <- read(t)\n".format(" " * 16)),
        (under(PUTS) + under(PUTS), under(GETS) + under(GETS)),
    ],
    ids=["two and one", "under two conditions"],
)  # fmt: skip
@pytest.mark.parametrize("depth", [1, 2])
def test_what_cannot_be_counted_is_no_mistake(depth: int, put: str, get: str) -> None:
    """Told as unsettled, not as a barrier that is broken."""
    second = (
        put.replace("IF", "FIRST", 1)
        .replace("IF", f"{' ' * 16}if j.index > 3:\n")
        .replace("FIRST", "IF")
    )
    third = (
        get.replace("IF", "FIRST", 1)
        .replace("IF", f"{' ' * 16}if j.index > 3:\n")
        .replace("FIRST", "IF")
    )
    assert {d.code for d in diagnosed(kernel(depth, second, third), "sm_90a")} <= {"TK325"}
