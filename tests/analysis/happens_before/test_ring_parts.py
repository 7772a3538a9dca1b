"""Items of a pipe in a loop and beside it: followed where the pipe has one slot, each of its waits missed, refused else."""

from __future__ import annotations

from pathlib import Path

import pytest
from xdsl.dialects.builtin import ModuleOp

from tests.analysis.happens_before.mutants import mutants
from tkc.analysis.happens_before import check
from tkc.diagnostics import TkcError
from tkc.driver import to_module
from tkc.job import Job

RUN = Path(__file__).parents[3] / "lit_tests/run"
BESIDE = (RUN / "items-beside.tk").read_text()


def stage(source: str, target: str) -> ModuleOp:
    return to_module(Job(source, "k.tk", target), after="insert-fences")


NEEDLESS = {
    *(
        f"proxy_fence scale.fence.{n}" for n in (0, 2, 4)
    ),  # of a read, before a copy's write that waits for it
    *(
        f"warp_sync scale.loaded.release.warp{n}" for n in ("", ".2", ".3")
    ),  # behind that of the put inside
    "bulk_wait store.drain",  # the last release waits for all stores
}


def test_what_comes_beside_a_loop_is_in_order_and_needs_each_wait_and_signal() -> None:
    module = stage(BESIDE, "sm_90a")
    assert check(module) == []
    missed = {name for name, mutant in mutants(module) if not check(mutant)}
    assert missed == NEEDLESS


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
def test_a_factor_goes_round_the_loop_and_the_last_one_behind_it(target: str) -> None:
    """Attention with its sums in the pipe of the factors: roles that become one, and accumulators handed to and fro."""
    source = (RUN / "attention.tk").read_text()
    source = source.replace("    shared l: vector[f32, BM]\n", "").replace(
        "put sums: l", "put fix: f"
    )
    source = source.replace("    pipe sums(l):    soft -> correct\n", "")
    source = source.replace("get sums, final", "get fix, final").replace("read(l)", "read(f)")
    assert check(stage(source, target)) == []


def test_a_loop_of_one_turn_behind_others_is_followed() -> None:
    """Its items are no part of a loop before it that has items of other pipes."""
    source = BESIDE.replace("            put loaded: t <- F[m, e]\n    role scale", "            for r in range(1):\n"
        "                put loaded: t <- F[m, e]\n    role scale")  # fmt: skip
    source = source.replace("            get loaded, put done: t <- read(t) - 1", "            for r in range(1):\n"
        "                get loaded, put done: t <- read(t) - 1")  # fmt: skip
    source = source.replace("            get done: H[m, e] <- t", "            for r in range(1):\n"
        "                get done: H[m, e] <- t")  # fmt: skip
    assert source.count("range(1)") == 3
    assert check(stage(source, "sm_90a")) == []


def test_of_several_slots_such_items_are_refused_with_what_to_do() -> None:
    source = BESIDE.replace("shared t: tile[f32, 128, 32]\n", "shared t: tile[f32, 128, 32] * 2\n")
    with pytest.raises(TkcError) as caught:
        to_module(Job(source, "k.tk", "sm_90a"))
    (found,) = caught.value.diagnostics
    assert found.code == "TK326"
    assert found.location is not None
    assert (found.location.line, found.location.column) == (12, 12)
    assert "give the tile one slot" in (found.help or "")


STORES = """
kernel k(X: global[f32, M, N], Y: global[f32, M, N], Z: global[f32, M, 32]):
    launch persistent
    schedule work: m, e in tiles(blocks(M, 128), blocks(32, 32))
    shared t: tile[f32, 128, 32] * 2
    pipe loaded(t): load -> scale
    role load:
        for m, e in work:
            for k in blocks(N, 32):
                put loaded: t <- X[m, k]
    role scale, warps 4:
        for m, e in work:
            Z[m, e] <- full(2)
            for k in blocks(N, 32):
                get loaded: Y[m, k] <- read(t) * 3
"""


def test_stores_in_a_loop_and_beside_it_wait_for_the_slot_that_they_fill() -> None:
    module = stage(STORES, "sm_90a")
    assert check(module) == []
    needed = {"bulk_wait", "bulk_commit", "role_barrier"}
    for name, mutant in mutants(module):
        if name.split()[0] in needed:
            assert check(mutant), name


def test_another_pipe_that_is_not_followed_does_not_refuse_a_shared_tile() -> None:
    source = BESIDE.replace(
        "    pipe loaded",
        "    shared f: tile[f32, 128, 32] * 2\n    pipe more(f): load -> scale\n    pipe loaded",
    )
    source = source.replace("            put loaded: t <- F[m, e]\n            for k", "            put more: f <- F[m, e]\n"
        "            put more: f <- F[m, e]\n            put loaded: t <- F[m, e]\n            for k")  # fmt: skip
    source = source.replace("                put loaded: t <- X[m, k]", "                put loaded: t <- X[m, k]\n"
        "                put more: f <- X[m, k]")  # fmt: skip
    source = source.replace("            get loaded, put done: t <- read(t) * 2", "            get more: x = read(f)\n"
        "            get more: y = read(f)\n            get loaded, put done: t <- read(t) * 2 + x - y")  # fmt: skip
    source = source.replace("                get loaded, put done: t <- read(t) * 3",
        "                get more, loaded, put done: t <- read(t) * 2 + read(f)")  # fmt: skip
    module = stage(source, "sm_90a")
    assert [(f.code, f.severity.value) for f in check(module)] == [("TK325", "warning")]
