"""Barriers of the cluster in several loops are followed; roles that do not come to them as often are told of."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from programs import changed

import tkc
from tests.analysis.twins import COPY
from tkc.analysis.happens_before import check
from tkc.driver import to_module
from tkc.job import Job

SHARED = """
kernel k(X: global[bf16, M, N], Y: global[f32, M]):
    launch persistent, cluster(2)
    schedule work: m, n in tiles(blocks(M, 128), blocks(N, 64), across = m)
    shared x: tile[bf16, 128, 64]
    barrier full, count = 1
    role load:
        phase = 0
        sync cluster
        for m, n in work:
            elect:
                expect full, bytes(x)
                if rank == 0:
                    load x <- X[m, n], full, multicast = 3
            sync cluster
            phase = phase ^ 1
        sync cluster
    role store, warps 4:
        phase = 0
        arrive cluster
        wait cluster
        for m, n in work:
            wait full, phase
            Y[m] <- row_sum(f32(read(x)))
            fence proxy shared
            sync cluster
            phase = phase ^ 1
        sync cluster
"""
"""One CTA loads for both; a barrier of the cluster gives the slot back, and others stand before and behind the loop."""
RELAXED = ("            sync cluster\n            phase = phase ^ 1\n        sync cluster\n    role store",
           "            arrive cluster, relaxed\n            wait cluster\n            phase = phase ^ 1\n        sync cluster\n    role store")  # fmt: skip


def codes(text: str) -> set[str]:
    module = to_module(Job(text, "test.tk", "sm_90a"), after="elect-single-thread")
    return {f.code for f in check(module)}


def test_those_of_a_loop_are_told_from_those_round_it() -> None:
    assert codes(SHARED) == set()
    assert codes(changed(SHARED, ("            fence proxy shared\n", ""))) == {"TK302"}
    of_reader = ("            fence proxy shared\n            sync cluster\n", "            fence proxy shared\n            arrive cluster, relaxed\n            wait cluster\n")  # fmt: skip
    assert codes(changed(SHARED, of_reader)) == {"TK301", "TK309"}
    assert codes(changed(SHARED, RELAXED)) == set()  # the loader has nothing to tell


def test_it_runs() -> None:
    kernel = tkc.compile(SHARED, target="sm_90a")
    x = np.random.default_rng().uniform(-1, 1, (512, 56)).astype(ml_dtypes.bfloat16)
    y = np.full(512, np.nan, np.float32)
    assert kernel.emulate(x, y, sm_count=4, schedule="random").clean
    sums = x.astype(np.float64).sum(axis=1).reshape(2, 2, 128)
    sums[:, 1] = sums[:, 0]  # both CTAs of a cluster get the first one's rows
    assert np.allclose(y, sums.ravel(), atol=1e-4)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("        sync cluster\n    role store", "    role store"),
        ("            sync cluster\n            phase = phase ^ 1\n        sync cluster\n    role store",
         "            sync cluster\n            sync cluster\n            phase = phase ^ 1\n        sync cluster\n    role store"),
    ],
    ids=["behind the loop", "in each turn"],
)  # fmt: skip
def test_roles_come_to_as_many(old: str, new: str) -> None:
    assert codes(changed(SHARED, (old, new))) == {"TK305"}


TICKS = changed(
    COPY,
    ("persistent\n", "persistent, cluster(2)\n"),
    ("blocks(N, 64))", "blocks(N, 64), across = m)"),
    ("    role load:\n", "    barrier tick * 2, count = 1\n    barrier tock * 2, count = 1\n    role load:\n"),
    ("            elect:\n                expect", """\
            wait tick[i], phase, relaxed
            elect:
                arrive tock[i], at = rank ^ 1, relaxed
                expect"""),
    ("            wait full[i], phase\n", """\
            wait tock[i], phase ^ 1, relaxed
            elect:
                arrive tick[i], at = rank ^ 1, relaxed
            wait full[i], phase
"""),
)  # fmt: skip
"""Roles of two CTAs keep step: a loader with the other's storing role."""


def test_a_relaxed_arrival_in_the_other_cta_keeps_its_scope() -> None:
    """It has to: PTX says `.relaxed` of another CTA's barrier with the cluster's scope only."""
    ptx = tkc.compile(TICKS, target="sm_90a").ptx
    assert ptx.count("mbarrier.arrive.relaxed.cluster.shared::cluster") == 2


def test_nobody_arrives_twice_without_a_wait() -> None:
    wait = "        wait cluster\n        for m, n in work:\n            wait full, phase\n"
    late = changed(SHARED, (wait, wait.removeprefix("        wait cluster\n")))
    assert codes(late) == {"TK305"}
    turn, never = (
        "            phase = phase ^ 1\n        sync cluster\n    role store",
        "        wait cluster\n    role store",
    )
    each = changed(
        SHARED,
        (
            f"            sync cluster\n{turn}",
            f"            arrive cluster\n            phase = phase ^ 1\n{never}",
        ),
    )
    module = to_module(Job(each, "test.tk", "sm_90a"), after="elect-single-thread")
    assert any("again before a wait" in f.message for f in check(module))  # in the next turn
