"""Fences that stand in each of several ways of a program: a proof's chain names one of them, and all are needed.

Each program is right with every fence. With those that `eliminate-fences` leaves it must run without a finding, and the
same program with its fences taken out must not.
"""

from __future__ import annotations

import numpy as np
import pytest

import tkc
from tkc.analysis.happens_before.proofs import Proofs
from tkc.diagnostics import listening
from tkc.driver import to_module
from tkc.ir.certificates import read
from tkc.ir.stage import ops as s
from tkc.job import Job

STAGED = """
kernel t(X: global[f32, M, N], Y: global[f32, M, N]):
    launch persistent
    schedule work: m, n in tiles(blocks(M, 128), blocks(N, 32))
    shared v: tile[f32, 128, 32] * 2
    shared w: tile[f32, 128, 32]
    barrier full * 2, count = 1
    role all, warps 4:
        i = 0
        phase = 0
        for m, n in work:
            elect:
                wait stores, read
                expect full[i], bytes(v)
                load v[i] <- X[m, n], full[i]
            wait full[i], phase
            sync role
            w <- read(v[i]) * 2
{fences}
            sync role
            elect:
                store Y[m, n] <- w
                commit stores
            i = i ^ 1
            if i == 0:
                phase = phase ^ 1
        elect:
            wait stores
"""

WAYS = {
    "both": "if m.index % 2 == 0:\n    fence proxy shared\nelse:\n    fence proxy shared",
    "three": (
        "if m.index % 3 == 0:\n    fence proxy shared\nelse:\n"
        "    if m.index % 3 == 1:\n        fence proxy shared\n    else:\n        fence proxy shared"
    ),
    "one of two needed": (
        "if m.index % 2 == 0:\n    fence proxy shared\nelse:\n    fence proxy shared\nfence proxy shared"
    ),
}

LATE = """
kernel t(X: global[f32, M, N], Y: global[f32, M]):
    launch persistent
    schedule work: m in blocks(M, 128)
    shared v: tile[f32, 128, 32] * 3
    barrier fl * 3, count = 1
    barrier empty * 3, count = 4
    role load:
        slot = 0
        phase = 0
        for m in work:
            for n in blocks(N, 32):
                wait empty[slot], phase ^ 1
                elect:
                    expect fl[slot], bytes(v)
                    load v[slot] <- X[m, n], fl[slot]
                slot += 1
                if slot == 3:
                    slot = 0
                    phase = phase ^ 1
    role out, warps 4:
        slot = 0
        phase = 0
        before = 0
        for m in work:
            s = full(0.0)
            for n in blocks(N, 32):
                wait fl[slot], phase
                s = s + row_sum(read(v[slot]))
                if not n.first:
                    fence proxy shared
                    sync warp
                    arrive empty[before], each = warp
                before = slot
                slot += 1
                if slot == 3:
                    slot = 0
                    phase = phase ^ 1
            if N > 0:
                fence proxy shared
                sync warp
                arrive empty[before], each = warp
            Y[m] <- s
"""
"""Slots are given back one turn late, by two arrivals that each need the fence before them."""


def staged(way: str) -> str:
    return STAGED.format(fences="\n".join(" " * 12 + line for line in WAYS[way].splitlines()))


def emulated(text: str, shape: tuple[int, int], model: str = "practice", **options: str):
    kernel = tkc.compile(text, target="sm_90a", model=model, **options)
    x = np.random.default_rng().uniform(-1, 1, shape).astype(np.float32)
    y = np.full(shape if "Y: global[f32, M, N]" in text else shape[:1], np.nan, np.float32)
    report = kernel.emulate(x, y, sm_count=1)
    return report, x.astype(float), y.astype(float)


@pytest.mark.parametrize("model", ["practice", "strict"])
@pytest.mark.parametrize("way", WAYS)
def test_a_store_keeps_a_fence_on_every_way_to_it(way: str, model: str) -> None:
    report, x, y = emulated(staged(way), (300, 96), model)
    assert not report.findings
    np.testing.assert_allclose(y, 2 * x)


@pytest.mark.parametrize("model", ["practice", "strict"])
def test_a_late_release_keeps_the_fence_of_each_arrival(model: str) -> None:
    report, x, y = emulated(LATE, (300, 256), model)
    assert not report.findings
    np.testing.assert_allclose(y, x.sum(1), atol=1e-4)


@pytest.mark.parametrize("text", [staged("both"), LATE], ids=["staged", "late"])
def test_without_the_fences_there_is_a_race(text: str) -> None:
    bare = text.replace("fence proxy shared", "pass = 0")
    report, _, _ = emulated(bare, (300, 256), fences="as-written")
    assert {f.code for f in report.races} == {"TK302"}


def test_the_analysis_lets_all_but_what_is_needed_go() -> None:
    module = to_module(Job(staged("one of two needed"), "t.tk", "sm_90a"), after="insert-fences")
    [kernel] = [op for op in module.body.block.ops if isinstance(op, s.KernelOp)]
    proofs = Proofs(kernel)
    assert len(proofs.events) == 3
    gone, left = proofs.removable(list(proofs.events))
    assert len(gone) == 2
    assert left.settled


OWN = {
    "after both": "w <- read(v[i]) * 2\nif m.index % 2 == 0:\n    fence proxy shared\nelse:\n    fence proxy shared",
    "in each": (
        "if m.index % 2 == 0:\n    w <- read(v[i]) * 2\n    fence proxy shared\n"
        "else:\n    w <- read(v[i]) + read(v[i])\n    fence proxy shared"
    ),
}


@pytest.mark.parametrize("way", OWN)
def test_a_proof_through_a_fence_at_a_branch_s_end_is_followed(way: str) -> None:
    """The fence after the wait goes; the chains of the certificate lead through those of the branches, of which a run
    may take one."""
    body = "\n".join(" " * 12 + line for line in OWN[way].splitlines())
    text = STAGED.format(fences=body).replace("            w <- read(v[i]) * 2\n", "", 1)
    text = text.replace(
        "wait full[i], phase\n", "wait full[i], phase\n            fence proxy shared\n"
    )
    with listening() as heard:
        module = to_module(Job(text, "t.tk", "sm_90a"), after="eliminate-fences")
    assert [d.message for d in heard if d.code == "TK902"] == []
    fences = [x.verdict for x in read(module)[0].sites if "fence" in x.id]
    assert fences == ["removed", "kept", "kept"]
    report, x, y = emulated(text, (300, 96))
    assert not report.findings
    np.testing.assert_allclose(y, 2 * x)
