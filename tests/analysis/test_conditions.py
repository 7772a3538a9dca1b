"""Items under conditions: in some turns of a loop, in both branches, in what one of two roles takes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.analysis.happens_before.mutants import mutants
from tests.analysis.test_twins import diagnosed
from tests.analysis.twins import LOAD
from tkc.analysis.happens_before import check
from tkc.diagnostics import Severity
from tkc.driver import to_module
from tkc.job import Job

HEAD = """\
kernel some(X: global[bf16, M, N], Y: global[bf16, M, N]):
    launch persistent
    schedule work: m, n in tiles(blocks(M, 128), blocks(N, 64))
"""
PIPE = HEAD + "    shared x: tile[bf16, 128, 64] * 3\n    pipe inputs(x): load -> math\n"
LOADED = (
    PIPE
    + """\
    role load:
        for m, n in work:
            put inputs: x <- X[m, n]
"""
)
ROWS = """\
kernel some(X: global[bf16, M, N], S: global[f32, M], Y: global[bf16, M, N]):
    launch persistent
    schedule work: m in blocks(M, 128)
    shared x: tile[bf16, 128, 64] * 2
    pipe inputs(x): load -> math
    role load:
        for m in work:
            for n in blocks(N, 64):
                put inputs: x <- X[m, n]
"""
TWICE = "Y[m, n] <- bf16(f32(read(x)) * 2)\n"

DECLARED = {
    "a get in each branch": PIPE + """\
    role load:
        for m, n in work:
            if n.index % 2 == 0:
                put inputs: x <- X[m, n]
            else:
                put inputs: x <- X[m, n]
    role math, warps 4:
        for m, n in work:
            if n.index % 2 == 0:
                get inputs: Y[m, n] <- bf16(f32(read(x)) * 2)
            else:
                get inputs: Y[m, n] <- bf16(f32(read(x)) * 3)
""",
    "stores in each branch of a get": LOADED + """\
    role math, warps 4:
        for m, n in work:
            get inputs:
                if n.index % 2 == 0:
                    Y[m, n] <- bf16(f32(read(x)) * 2)
                else:
                    Y[m, n] <- bf16(f32(read(x)) * 3)
""",
    "a family, each its items": HEAD + """\
    shared x[2]: tile[bf16, 128, 64] * 2
    pipe inputs[i](x[i]): load -> math[i]
    role load:
        for m, n in work:
            for i in 0, 1:
                if m.index % 2 == i:
                    put inputs[i]: x[i] <- X[m, n]
    role math[i in 0, 1], warps 4:
        for m, n in work:
            if m.index % 2 == i:
                get inputs[i]: Y[m, n] <- bf16(f32(read(x[i])) * 2)
""",
    "the last of three": PIPE + """\
    role load:
        for m, n in work:
            for i in range(3):
                put inputs: x <- X[m, n]
    role math, warps 4:
        for m, n in work:
            for i in range(3):
                get inputs:
                    if i == 2: Y[m, n] <- bf16(f32(read(x)) * 2)
""",
    "a store that only some launches do": LOADED + """\
    role math, warps 4:
        for m, n in work:
            get inputs:
                if M > 300: Y[m, n] <- bf16(f32(read(x)) * 2)
""",
    "a store under a condition, of what is read before it": ROWS + """\
    role math, warps 4:
        for m in work:
            s = full(0)
            for n in blocks(N, 64):
                get inputs:
                    v = f32(read(x))
                    s = s + row_sum(v)
                    if n.first: Y[m, n] <- bf16(v + s)
            S[m] <- s
""",
    "a store under a condition beside one that always comes": LOADED + """\
    role math, warps 4:
        for m, n in work:
            get inputs:
                Y[m, n] += bf16(f32(read(x)) * 2)
                if M > 300: Y[m, n] += read(x)
""",
    "two stores in one branch and one in another": LOADED + """\
    role math, warps 4:
        for m, n in work:
            get inputs:
                if M > 300:
                    Y[m, n] += read(x)
                else:
                    Y[m, n] += bf16(f32(read(x)) * 2)
                    Y[m, n] += read(x)
""",
    "a store that some items leave out": LOADED + """\
    role math, warps 4:
        for m, n in work:
            get inputs:
                if n.index == 1: continue
                Y[m, n] <- bf16(f32(read(x)) * 2)
""",
}  # fmt: skip

TURNS = (
    HEAD
    + f"""\
    shared x: tile[bf16, 128, 64] * 2
    barrier full * 2, count = 1
    barrier empty * 2, count = 1
{LOAD}    role store[r in 0, 1]:
        i = 0
        phase = 0
        for m, n in work:
            if i == r:
                wait full[i], phase
                elect:
                    store Y[m, n] <- x[i]
                    commit stores
                    wait stores, read
                    arrive empty[i]
            phase = phase ^ i
            i = 1 - i
        elect: wait stores
"""
)
"""Two roles take turns at the items of a ring."""

IN_PLACE = (
    HEAD
    + """\
    shared x: tile[bf16, 128, 64] * 2
    barrier full * 2, count = 1
    role all, warps 4:
        i = 0
        phase = 0
        for m, n in work:
            elect:
                wait stores <= 1, read
                fence proxy shared
                expect full[i], bytes(x)
                load x[i] <- X[m, n], full[i]
            wait full[i], phase
            if n.index % 2 == 0:
                x[i] <- bf16(f32(read(x[i])) * 2)
            else:
                x[i] <- bf16(f32(read(x[i])) * 3)
            fence proxy shared
            sync role
            elect:
                store Y[m, n] <- x[i]
                commit stores
            phase = phase ^ i
            i = 1 - i
        elect: wait stores
"""
)
"""A slot is rewritten by the threads that have read it."""


@pytest.mark.parametrize("what", DECLARED)
@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
def test_declared_items_under_conditions_are_in_order(what: str, target: str) -> None:
    assert [d.message for d in diagnosed(DECLARED[what], target)] == []


@pytest.mark.parametrize("text", [TURNS, IN_PLACE], ids=["turns", "in place"])
def test_items_that_are_spelled_out_are_in_order(text: str) -> None:
    assert [d.message for d in diagnosed(text, "sm_90a")] == []


@pytest.mark.parametrize(
    ("text", "old", "new", "codes"),
    [
        (TURNS, "            wait empty[i], phase ^ 1\n", "", {"TK309", "TK301"}),
        (TURNS, "if i == r", "if i == 0", {"TK305"}),
        (TURNS, "                wait full[i], phase\n", "", {"TK301"}),
        (TURNS, "wait stores, read\n", "wait stores <= 1, read\n", {"TK308"}),
        (TURNS, "                    arrive empty[i]\n", "                    if r == 0: arrive empty[i]\n", {"TK305"}),
        (IN_PLACE, "            fence proxy shared\n            sync role\n", "            sync role\n", {"TK302"}),
        (IN_PLACE, "x[i] <- bf16(f32(read(x[i])) * 3)", "x[1 - i] <- bf16(f32(read(x[i])) * 3)", {"TK308", "TK309"}),
    ],
)  # fmt: skip
def test_slips_in_them_are_found(text: str, old: str, new: str, codes: set[str]) -> None:
    assert text.count(old) == 1
    assert codes & {d.code for d in diagnosed(text.replace(old, new), "sm_90a")}


ONE_ARRIVES = (
    HEAD
    + f"""\
    shared x: tile[bf16, 128, 64] * 2
    barrier full * 2, count = 1
    barrier empty * 2, count = 1
{LOAD}    role math, warps 4:
        i = 0
        phase = 0
        for m, n in work:
            wait full[i], phase
            v = f32(read(x[i])) * 2
            fence proxy shared
            if n.index * M > 1000:
                sync role
                sync role
            else:
                sync role
            elect: arrive empty[i]
            Y[m, n] <- bf16(v)
            phase = phase ^ i
            i = 1 - i
"""
)
"""A thread tells of what all have read, after a meeting in either branch of a condition."""


def test_a_meeting_in_each_branch_tells_all() -> None:
    assert [d.message for d in diagnosed(ONE_ARRIVES, "sm_90a")] == []


@pytest.mark.parametrize("kept", ["sync role\n                sync role\n", "sync role\n"])
def test_a_meeting_in_one_branch_tells_nothing_of_the_other(kept: str) -> None:
    one, other = ONE_ARRIVES.split("            else:\n")
    one = one.replace("sync role\n                sync role\n", kept)
    text = one + "            else:\n" + other.replace("sync role\n", "j = i\n", 1)
    assert {"TK309"} <= {d.code for d in diagnosed(text, "sm_90a")}


def test_stores_that_are_not_even_wait_for_all_before() -> None:
    text = DECLARED["a store under a condition beside one that always comes"]
    module = to_module(Job(text, "uneven.tk", "sm_90a"), after="insert-fences")
    first, second = [
        [(f.code, f.message.rpartition(", ")[2]) for f in check(without)]
        for name, without in mutants(module)
        if name.startswith("bulk_wait") and "drained" in name
    ]
    assert first == [("TK309", "where M <= 300")]
    assert (
        second == []
    )  # where it comes, each store has its own slot, and the first wait is for all


def test_turns_without_one_of_their_synchronisations() -> None:
    text = (Path(__file__).parents[2] / "lit_tests" / "run" / "turns.tk").read_text(
        encoding="utf-8"
    )
    module = to_module(Job(text, "turns.tk", "sm_90a"), after="insert-fences")
    assert check(module) == []
    silent = {name for name, without in mutants(module) if not check(without)}
    assert silent == {
        "proxy_fence add[0].fence.0", "proxy_fence add[1].fence.0", "warp_sync total.parts[0].release.warp",
    }  # fmt: skip


def test_a_pipe_that_is_not_followed_is_a_warning() -> None:
    text = (Path(__file__).parents[2] / "lit_tests" / "run" / "conditions.tk").read_text(
        encoding="utf-8"
    )
    found = diagnosed(text, "sm_90a")
    assert [(d.code, d.severity) for d in found] == [("TK325", Severity.WARNING)]


STRAIGHT = """\
kernel turns(X: global[f32, M, N], Y: global[f32, M, N]):
    param BM = 128, BN = 32, STAGES = 4
    launch persistent
    schedule work: m, n in tiles(blocks(M, BM), blocks(N, BN))
    shared a: tile[f32, BM, BN] * STAGES
    pipe ring(a): load -> add[2] by turns
    role load:
        for m, n in work:
            put ring: a <- X[m, n]
    role add[i in 0, 1]:
        for m, n in work:
            get ring: Y[m, n] <- read(a) * (2 + i)
"""
"""Two roles take the items of a schedule in turn; each stores through slots that only its own turns step."""


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
@pytest.mark.parametrize("depth", [2, 4, 6])
def test_turns_straight_in_a_schedule(target: str, depth: int) -> None:
    text = STRAIGHT.replace("STAGES = 4", f"STAGES = {depth}")
    assert [d.message for d in diagnosed(text, target)] == []


def test_turns_straight_in_a_schedule_without_one_of_their_synchronisations() -> None:
    module = to_module(Job(STRAIGHT, "turns.tk", "sm_90a"), after="insert-fences")
    found = {name: {f.code for f in check(without)} for name, without in mutants(module)}
    assert found["mbarrier_wait load.ring.empty"] == {"TK301", "TK309"}
    for i in (0, 1):
        assert "TK301" in found[f"mbarrier_wait add[{i}].ring.full"]
        assert "TK305" in found[f"mbarrier_arrive add[{i}].ring.release"]
        assert "TK302" in found[f"proxy_fence add[{i}].fence.3"]
        assert "TK309" in found[f"bulk_wait add[{i}].add[{i}].staging.drained"]
    silent = {name for name, codes in found.items() if not codes}
    assert silent == {f"proxy_fence add[{i}].fence.{n}" for i in (0, 1) for n in (0, 1, 2)} | {
        f"warp_sync add[{i}].ring.release.warp" for i in (0, 1)
    }


IN_A_ROW = """\
kernel rows(X: global[f32, M, N], Y: global[f32, M, C], O: global[f32, M, N], P: global[f32, M, C]):
    launch persistent
    schedule work: m in tiles(blocks(M, 64))
    shared x: tile[f32, 64, 32] * 2
    shared y: tile[f32, 64, 32] * 2
    pipe p(x): load -> math
    pipe q(y): load -> math
    role load:
        for m in work:
            for n in blocks(N, 32):
                put p: x <- X[m, n]
            for c in blocks(C, 32):
                put q: y <- Y[m, c]
    role math, warps 2:
        for m in work:
            for n in blocks(N, 32):
                get p: O[m, n] <- read(x) * 2
            for c in blocks(C, 32):
                get q: P[m, c] <- read(y) + 1
"""
"""Stores of both loops go through the same slots, which count on from one to the next; the loader's loops share nothing."""


@pytest.mark.parametrize(
    "text",
    [IN_A_ROW, IN_A_ROW.replace("blocks(C, 32)", "blocks(32, 32)").replace("M, C]", "M, 32]")],
)
def test_loops_in_a_row_that_only_one_role_counts_as_one(text: str) -> None:
    assert [d.message for d in diagnosed(text, "sm_90a")] == []


def test_loops_in_a_row_without_one_of_their_synchronisations() -> None:
    module = to_module(Job(IN_A_ROW, "rows.tk", "sm_90a"), after="insert-fences")
    found = {name: {f.code for f in check(without)} for name, without in mutants(module)}
    for pipe in "pq":
        assert found[f"mbarrier_wait load.{pipe}.empty"] == {"TK301", "TK309"}
        assert "TK301" in found[f"mbarrier_wait math.{pipe}.full"]
        assert "TK305" in found[f"mbarrier_arrive math.{pipe}.release"]
    assert all(codes for name, codes in found.items() if name.startswith("bulk_wait"))
