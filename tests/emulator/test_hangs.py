"""A hang says what a person needs: which wait, what the barrier lacks, and who is not there."""

from __future__ import annotations

import re

import numpy as np
import pytest
from emulator.kernels import launch
from emulator.races.test_clusters import FAR, RANK
from emulator.races.test_tensor import FILLED, FREE, LD, MMA, SYNC, WLD, commit
from emulator.races.test_tensor import START as TENSOR
from emulator.races.twins import HEAD, LOAD, init, wait

WIDE = ".acquire.cluster"
RANKED = ".reg .b32 rank; mov.u32 rank, %cluster_ctarank; setp.eq.u32 q, rank, 1; setp.eq.u32 p, w, 1; and.pred q, q, p;"
CLUSTER = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
PUBLISH = f"@first fence.mbarrier_init.release.cluster; {CLUSTER}"
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
    "an arrival at the CTA's own mbarrier instead of the leader's": (
        f"{HEAD}{RANK}{FAR} {init(f=2)} {PUBLISH} @first mbarrier.arrive.release.cluster.shared::cluster.b64 _, [f];"
        f" @!q bra E; {wait('f', 0, WIDE)} E: {CLUSTER} ret;",
        64, 2, "sm_90a",
        (r"CTA \(0, 0, 0\) mbarrier full at .*1 of 2 arrivals.*; nobody who is left comes to an arrival on it",
         r"CTA \(1, 0, 0\) mbarrier full at .*has had arrivals, and nobody has waited"),
    ),
    "bytes of which the peer's half does not come": (
        f"{HEAD}{RANK}{FAR} {init()} {PUBLISH} @!first bra E; {LOAD.replace('1024;', '2048;', 1)} @q bra E;"
        f" cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [far], [at+4096], 1024, [farf]; E:"
        f" {wait('f', 0, WIDE)} {CLUSTER} ret;",
        64, 2, "sm_90a", (r"CTA \(1, 0, 0\) mbarrier full .*1024 bytes pending \(2048 bytes were expected",),
    ),
    "an arrival that the peer leaves out, and a lane that waits for it": (
        f"{HEAD}{RANK}{FAR} {init(e=2)} {PUBLISH} mapa.shared::cluster.u32 o, e, peer; setp.eq.u32 p, t, 32;"
        f" @p {ARRIVE} [e]; and.pred p, p, q; @p mbarrier.arrive.release.cluster.shared::cluster.b64 _, [o];"
        f" @!first bra E; {wait('e', 0, WIDE)} E: {CLUSTER} ret;",
        64, 2, "sm_90a",
        (r"mbarrier empty at .*1 of 2 arrivals", r"not at the cluster barrier: CTA \(0, 0, 0\) lanes 0x1 of warp 0, which waits"),
    ),
    "two CTAs that wait for each other": (
        f"{HEAD}{RANK}{FAR} {init()} {PUBLISH} @!first bra E; {wait('f', 0, WIDE)}\n"
        f" mbarrier.arrive.release.cluster.shared::cluster.b64 _, [farf]; E: {CLUSTER} ret;",
        64, 2, "sm_90a", (r"could still arrive: CTA \(0, 0, 0\).*; CTA \(1, 0, 0\).* after its wait, at line",),
    ),
    "a pair of which one CTA allocates": (
        f"{HEAD}{RANK} {SLOT} setp.eq.u32 q, rank, 0; @!q bra E; {ALLOC.replace('::1', '::2')} [s], 64; E: {CLUSTER} ret;",
        32, 2, "sm_100a", (r"CTA \(0, 0, 0\) has allocated, and CTA \(1, 0, 0\) has not: both CTAs of a pair must come",),
    ),
    "a CTA of a cluster that has ended": (
        f"{HEAD}{RANK}{FAR} {init()} {PUBLISH} @!q bra E; {wait('f', 0, WIDE)} E: ret;",
        64, 2, "sm_90a", (r"nobody has arrived on it yet; nobody who is left comes to an arrival on it",),
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
