"""A hang says what a person needs: which wait, what the barrier lacks, and who is not there."""

from __future__ import annotations

import re

import numpy as np
import pytest
from emulator.kernels import launch
from emulator.races.test_tensor import FILLED, FREE, LD, MMA, SYNC, WLD, commit
from emulator.races.test_tensor import START as TENSOR
from emulator.races.twins import HEAD, LOAD, init, wait

RANKED = ".reg .b32 rank; mov.u32 rank, %cluster_ctarank; setp.eq.u32 q, rank, 1; setp.eq.u32 p, w, 1; and.pred q, q, p;"
CLUSTER = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
SLOT = ".shared .align 8 .b32 slot[2]; .reg .b32 s; mov.u32 s, slot;"
ALLOC = "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32"
ARRIVE = "mbarrier.arrive.shared::cta.b64 _,"

HANGS: dict[str, tuple[str, int, int, str, tuple[str, ...]]] = {
    "an arrival too few": (
        f"{HEAD}{init(f=2)} @first {ARRIVE} [f]; {wait('f', 0)} ret;",
        64, 1, "sm_90a", ("mbarrier full at .*1 of 2 arrivals.*warp 0 has arrived at line .*, and waits for it",),
    ),
    "the other parity": (
        f"{HEAD}{init()} @first {ARRIVE} [f]; {wait('f', 0)} {wait('f', 1)} ret;",
        64, 1, "sm_90a", ("phase 0 is over and nothing of phase 1 has come: parity 0 would let the wait pass",),
    ),
    "the first phase of an empty slot": (
        f"{HEAD}{init()} @!first bra E; {wait('e', 0)} {LOAD} {wait('f', 0)} E: ret;",
        64, 1, "sm_90a", ("mbarrier empty at .*nothing has come: parity 1 lets a first wait pass.*nobody has arrived",),
    ),
    "bytes that do not come": (
        f"{HEAD}{init()} @!first bra N; {LOAD.replace('1024;', '2048;', 1)} N: {wait('f', 0)} ret;",
        64, 1, "sm_90a", ("1024 bytes pending .2048 bytes were expected in this phase, 1024 have come",),
    ),
    "a commit to another mbarrier": (
        f"{TENSOR.replace('{filled}', FILLED)} @!q bra N; {MMA} {commit('e')} N: {wait('f', 0)} {LD} {WLD} {SYNC} {FREE}",
        128, 1, "sm_100a",
        ("mbarrier full at .*nobody has arrived on it yet", "mbarrier empty at .*has had arrivals, and nobody has waited"),
    ),
    "a warp that does not come to the cluster barrier": (
        f"{HEAD}{RANKED} @q bra E; {CLUSTER} E: bar.sync 0; ret;",
        64, 2, "sm_90a", (r"not at the cluster barrier: CTA \(1, 0, 0\) warp 1, which waits for barrier 0",),
    ),
    "a warp that has ended": (
        f"{HEAD} setp.lt.u32 q, t, 32; @q bra E; bar.sync 1, 64; E: ret;",
        64, 1, "sm_90a", (r"not at CTA \(0, 0, 0\) barrier 1: CTA \(0, 0, 0\) warp 0, which has ended",),
    ),
    "a barrier of more threads than there are": (
        f"{HEAD} bar.sync 1, 96; ret;", 64, 1, "sm_90a", ("barrier 1 waits for 96 threads, and the CTA has 64",),
    ),
    "columns that nobody gives back": (
        f"{HEAD}{SLOT} {ALLOC} [s], 512; {ALLOC} [s+4], 128; ret;",
        32, 1, "sm_100a", ("columns 0 .. 511 are held since line",),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", HANGS)
@pytest.mark.parametrize("schedule", ["eager", "lazy", "random", "pct"])
def test_a_hang_says_what_is_missing(name: str, schedule: str, seed: int) -> None:
    body, block, cluster, target, notes = HANGS[name]
    data = np.zeros(1024, np.uint32)
    options = {"cluster": cluster, "grid": cluster, "target": target, "seed": seed}
    report = launch(body, data, data.copy(), block=block, schedule=schedule, **options)
    assert report.hang is not None
    assert report.hang.code == "TK314"
    said = "\n".join(report.hang.notes)
    for note in notes:
        assert re.search(note, said), said
