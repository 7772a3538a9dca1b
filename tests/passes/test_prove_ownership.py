"""Slots that go from role to role: right for every depth, trip count and schedule, and refused without a wait."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp, StringAttr

import tkc
from tkc.analysis.happens_before import check
from tkc.analysis.ownership import is_shared, owned_twice
from tkc.emulator import Poisoned
from tkc.ir.stage import ops as s

CHAIN = """
kernel k(A: global[f32, M, N], C: global[f32, M, N], D: global[f32, M]):
    param S = 1
    launch persistent
    schedule work: m in tiles(blocks(M, 128))
    shared t: tile[f32, 128, 32] * S
    shared u: tile[f32, 128, 32] * S in t
    pipe loaded(t): load -> scale
    pipe scaled(t): scale -> sum
    pipe done(u): sum -> store
    role load:
        for m in work:
            for k in blocks(N, 32):
                put loaded: t <- A[m, k]
    role scale, warps 4:
        for m in work:
            for k in blocks(N, 32):
                get loaded, put scaled: t <- read(t) * 2
    role sum, warps 4:
        for m in work:
            total = full(0)
            for k in blocks(N, 32):
                get scaled:
                    x = read(t)
                    total = total + row_sum(x)
                put done: u <- x + 1
            D[m] <- total
    role store:
        for m in work:
            for k in blocks(N, 32):
                get done: C[m, k] <- u
"""
"""Loaded, scaled in place, summed, and stored from a tile in the same place."""


@cache
def kernel(target: str, depth: int) -> tkc.Kernel:
    return tkc.compile(CHAIN, target=target, params={"S": depth})


@pytest.mark.parametrize("schedule", ["lazy", "random", "pct"])
@pytest.mark.parametrize(("target", "depth"), [("sm_90a", 1), ("sm_90a", 3), ("sm_100a", 2), ("sm_100a", 4)])  # fmt: skip
def test_a_slot_that_is_handed_on_holds_what_it_should(
    target: str, depth: int, schedule: str
) -> None:
    """No block, one block, and more blocks than slots, in several items."""
    for rows, columns in ((130, 0), (40, 20), (300, 164)):
        rng = np.random.default_rng(depth)
        a = rng.uniform(-1, 1, (rows, columns)).astype(np.float32)
        c = np.full((rows, columns), np.nan, np.float32)
        d = np.full(rows, np.nan, np.float32)
        report = kernel(target, depth).emulate(
            a, Poisoned(c), Poisoned(d), schedule=schedule, seed=depth, max_steps=2_000_000
        )
        assert not report.findings, report
        exact = 2 * a.astype(np.float64)
        np.testing.assert_allclose(c, exact + 1, rtol=1e-6)
        np.testing.assert_allclose(d, exact.sum(1), rtol=1e-4, atol=1e-4)


def without(module: ModuleOp, id: str) -> s.KernelOp:
    """The kernel of a copy in which one wait is left out."""
    copy = module.clone()
    (wait,) = (o for o in copy.walk() if isinstance(o, s.MbarrierWaitOp) and o.id.data == id)
    wait.detach()
    wait.erase()
    return next(o for o in copy.walk() if isinstance(o, s.KernelOp))


@pytest.mark.parametrize(
    ("id", "blocks"),
    [
        ("load.done.empty.loaded", ("`put loaded` of role load", "`get done` of role store")),
        ("scale.loaded.full", ("`put loaded` of role load", "`put scaled` of role scale")),
        ("sum.scaled.full", ("`put scaled` of role scale", "of role sum")),
        ("store.done.full", ("`put done` of role sum", "of role store")),
    ],
)
def test_each_wait_is_needed(id: str, blocks: tuple[str, str]) -> None:
    module = kernel("sm_90a", 3).module("insert-fences")
    whole = next(o for o in module.walk() if isinstance(o, s.KernelOp))
    assert is_shared(whole)
    assert not list(owned_twice(whole))
    found = [f for f in owned_twice(without(module, id)) if all(b in f.message for b in blocks)]
    assert found
    assert {f.code for f in found} == {"TK326"}


def test_a_kernel_whose_tiles_have_one_pipe_each_has_nothing_to_prove() -> None:
    one = CHAIN.replace(" * S in t", " * S").replace("pipe scaled(t)", "pipe scaled(v)")
    one = one.replace("    shared u", "    shared v: tile[f32, 128, 32] * S\n    shared u")
    one = one.replace("put scaled: t <- read(t)", "put scaled: v <- read(t)").replace(
        "x = read(t)", "x = read(v)"
    )
    module = tkc.compile(one, target="sm_90a").module("insert-fences")
    assert not any(is_shared(o) for o in module.walk() if isinstance(o, s.KernelOp))


TO_AND_FRO = Path(__file__).parents[2] / "lit_tests/run/accumulator-to-and-fro.tk"


def test_a_wait_that_may_miss_its_phase_proves_nothing() -> None:
    """math awaits the release of the item before, when it may have released this one already: it would wait for ever."""
    module = tkc.compile(TO_AND_FRO.read_text(), target="sm_100a").module("insert-fences").clone()
    whole = next(o for o in module.walk() if isinstance(o, s.KernelOp))
    assert not list(owned_twice(whole))
    waits = {o.id.data: o for o in module.walk() if isinstance(o, s.MbarrierWaitOp)}
    own, other = waits["math.added.empty"], waits["scale.scaled.empty"]
    more = own.clone()
    more.operands[0] = other.barriers
    more.properties["id"] = StringAttr("math.scaled.empty.added")
    block = own.parent_block()
    assert block is not None
    block.insert_op_after(more, own)
    (found,) = owned_twice(whole)
    assert found.code == "TK326"
    said = "scaled.empty may complete its next phase before the wait for a free slot of scaled (line 28) in role math"
    assert said in found.message


SUMS = """
kernel sums(A: global[bf16, M, K], B: global[bf16, N, K], C: global[f32, M, N], flag: i32):
    param DEPTH = 1
    launch persistent
    schedule work: m, n in tiles(blocks(M, 64), blocks(N, 64))
    shared a: tile[bf16, 64, 64] * 3
    shared b: tile[bf16, 64, 64] * 3
    accum  d: tile[f32, 64, 64] * DEPTH
    pipe inputs(a, b): load -> math
    pipe sum(d):       math -> scale
    pipe scaled(d):    scale -> store
    role load:
        for m, n in work:
            if m.index < flag:
                for k in blocks(K, 64):
                    put inputs:
                        a <- A[m, k]
                        b <- B[n, k]
    role math:
        for m, n in work:
            if m.index < flag:
                put sum:
                    d = 0
                    for k in blocks(K, 64):
                        get inputs: d += a @ b.T
    role scale:
        for m, n in work:
            if m.index < flag:
                BODY
    role store:
        for m, n in work:
            if m.index < flag:
                get scaled: C[m, n] <- read(d)
"""


@pytest.mark.parametrize(("target", "depth"), [("sm_90a", 1), ("sm_100a", 1), ("sm_100a", 2)])
@pytest.mark.parametrize(
    "body",
    ["get sum: d = read(d) * 2", "get sum:\n                    d = read(d) * 2"],
    ids=["behind", "inside"],
)
def test_a_sum_that_is_changed_and_then_kept_is_handed_on(
    body: str, target: str, depth: int, seed: int
) -> None:
    """Under a condition, in one slot or two: who changes it knows that the item before has been released."""
    keep = (
        "\n                put scaled: keep d"
        if body.startswith("get sum: ")
        else "\n                    put scaled: keep d"
    )
    made = tkc.compile(SUMS.replace("BODY", body + keep), target=target, params={"DEPTH": depth})
    rng = np.random.default_rng(seed)
    a, b = (rng.uniform(-1, 1, (n, 72)).astype(ml_dtypes.bfloat16) for n in (150, 72))
    c = np.full((150, 72), np.nan, np.float32)
    report = made.emulate(a, b, c, 2, schedule="random", seed=seed, sm_count=1)
    assert not report.findings, report.findings[0]
    exact = 2 * a[:128].astype(float) @ b.astype(float).T
    np.testing.assert_allclose(c[:128], exact, atol=1e-3)
    assert np.isnan(c[128:]).all()
    assert check(made.module(after="eliminate-fences")) == []


def test_a_sum_goes_through_three_roles_that_change_it(seed: int) -> None:
    """The first of them knows that the last has read the item before."""
    text = SUMS.replace("BODY", "get sum: d = read(d) * 2\n                put scaled: keep d")
    text = text.replace(
        "scaled(d):    scale -> store",
        "scaled(d): scale -> bias\n    pipe biased(d): bias -> store",
    )
    text = text.replace("get scaled: C", "get biased: C") + (
        "    role bias:\n        for m, n in work:\n            if m.index < flag:\n"
        "                get scaled, put biased: d = read(d) + 1\n"
    )
    made = tkc.compile(text, target="sm_100a")
    rng = np.random.default_rng(seed)
    a, b = (rng.uniform(-1, 1, (n, 72)).astype(ml_dtypes.bfloat16) for n in (100, 72))
    c = np.full((100, 72), np.nan, np.float32)
    report = made.emulate(a, b, c, 2, schedule="random", seed=seed, sm_count=1)
    assert not report.findings, report.findings[0]
    np.testing.assert_allclose(c, 2 * a.astype(float) @ b.astype(float).T + 1, atol=1e-3)
