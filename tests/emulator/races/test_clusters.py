"""Races across the CTAs of a cluster, at the end of a CTA, of tensor maps, and of the registers of wgmma."""

from __future__ import annotations

import re

import numpy as np
import pytest
from emulator.kernels import launch
from emulator.races.twins import FENCE, HEAD, SCHEDULES, Twin, both_asked_of, init, wait

from tkc.emulator import Report, TensorMap

CLUSTER = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
RELAXED = "barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.aligned;"
RANK = ".reg .b32 rank, peer, far, farf; mov.u32 rank, %cluster_ctarank; xor.b32 peer, rank, 1;"
FAR = "mapa.shared::cluster.u32 far, at, peer; mapa.shared::cluster.u32 farf, f, peer; setp.eq.u32 q, rank, 0;"
ARRIVE = "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [farf];"


def pair(name: str, body: str, code: str, at: str, **forms: dict[str, str]) -> Twin:
    return Twin(
        name,
        f"{HEAD}{RANK}{FAR}{body}",
        code,
        at,
        forms.get("bad", {}),
        forms.get("good", {}),
        cluster=2,
    )


TWINS = (
    pair(
        "MBR-1 an mbarrier is not published to the cluster",
        f"@first mbarrier.init.shared::cta.b64 [f], 1; {{fence}} {RELAXED} @first {ARRIVE} {wait('f', 0)} {CLUSTER}"
        f" ret;",
        "TK303",
        "mbarrier",
        good={"fence": "@first fence.mbarrier_init.release.cluster; bar.sync 0;"},
    ),
    pair(
        "CTA2-5 a CTA ends while its peer may still arrive",
        f"{init()} {CLUSTER} @q bra A; bra X; A: @first {ARRIVE} X: {{sync}} ret;",
        "TK313",
        "mbarrier.arrive",
        good={"sync": CLUSTER},
    ),
    pair(
        "CTA2-5 a CTA ends while its peer may still read its memory",
        f"st.shared.u32 [mine], t; {CLUSTER} @q bra A; bra X; A: ld.shared::cluster.u32 %r1, [far]; X: {{sync}} ret;",
        "TK313",
        "ld.shared::cluster",
        good={"sync": CLUSTER},
    ),
    pair(
        "a peer reads what has not been handed over",
        f"st.shared.u32 [mine], t; {{sync}} ld.shared::cluster.u32 %r1, [far]; {CLUSTER} ret;",
        "TK301",
        "shared",
        good={"sync": CLUSTER},
    ),
    pair(
        "a relaxed arrival at the cluster barrier hands nothing over",
        f"st.shared.u32 [mine], t; {{sync}} ld.shared::cluster.u32 %r1, [far]; {CLUSTER} ret;",
        "TK301",
        "shared",
        bad={"sync": RELAXED},
        good={"sync": CLUSTER},
    ),
)


test_the_bad_form_is_found, test_the_mended_form_is_silent = both_asked_of(TWINS)


# Pairs of CTAs and tensor memory

PAIR = """
    .shared .align 8 .b32 slot[2]; .reg .b32 s, tm; mov.u32 s, slot;
    tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [s], 64; {sync} ld.shared.b32 tm, [s];
    {work} {last}
    tcgen05.dealloc.cta_group::2.sync.aligned.b32 tm, 64; ret;
"""
STORE = "tcgen05.st.sync.aligned.32x32b.x1.b32 [tm], {tm}; tcgen05.wait::st.sync.aligned;"


def in_pair(**parts: str) -> Report:
    body = PAIR
    for name in ("sync", "work", "last"):
        body = body.replace("{" + name + "}", parts.get(name, ""))
    return launch(
        body,
        np.zeros(4, np.uint32),
        block=32,
        grid=2,
        cluster=2,
        schedule=parts.get("schedule", "eager"),
    )


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_CTA2_1_a_pair_gives_its_columns_back_together(schedule: str) -> None:
    """The peer's allocation, and its last use, come before."""
    bad = in_pair(sync="bar.warp.sync -1;", schedule=schedule)
    assert "TK310" in {f.code for f in bad.findings}
    assert not in_pair(sync=CLUSTER, schedule=schedule).findings
    used = in_pair(sync=CLUSTER, work=STORE, schedule=schedule)
    assert "TK310" in {f.code for f in used.findings}
    assert not in_pair(sync=CLUSTER, work=STORE, last=CLUSTER, schedule=schedule).findings


# Tensor maps that a kernel edits

EDIT = f"""
    {HEAD} {init()} .reg .b64 map; .shared .align 128 .b8 copy[128]; .reg .b32 c; mov.u32 c, copy; add.u64 map, %d2, 0;
    setp.lt.u32 q, t, 32; @!q bra N;
    {{{{ .reg .b32 i; .reg .b64 g; mad.lo.u32 i, t, 4, c; mad.wide.u32 g, t, 4, %d1;
    ld.global.u32 %r1, [g]; st.shared.u32 [i], %r1; }}}}
    bar.warp.sync -1;
    @first tensormap.replace.tile.global_address.shared::cta.b1024.b64 [c], %d0;
    bar.warp.sync -1;
    {{publish}}
    N: bar.sync 0; @!first bra E;
    {{acquire}}
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [f], 512;
    cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes [at], [map, {{{{%r9}}}}], [f];
    {wait("f", 0)} {{again}}
    E: ret;
"""
PUBLISH = "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [map], [c], 128;"
ACQUIRE = "fence.proxy.tensormap::generic.acquire.gpu [map], 128;"


def edited(schedule: str, publish: str, acquire: str, again: str = "") -> Report:
    """A map is edited in shared memory, put into global memory, and used."""
    data = np.arange(256, dtype=np.float32)
    made = TensorMap(data, dtype="f32", sizes=[256], strides=[], box=[128])
    body = EDIT.format(publish=publish, acquire=acquire, again=again).replace("%r9", "t")
    return launch(
        body, data, made, np.zeros(32, np.uint32), block=64, target="sm_90a", schedule=schedule
    )


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_an_edited_map_is_released_and_acquired(schedule: str) -> None:
    good = edited(schedule, PUBLISH, ACQUIRE)
    assert not good.findings, "\n".join(map(str, good.findings))
    bad = edited(schedule, PUBLISH, "")
    found = [f for f in bad.findings if f.code == "TK302"]
    assert found
    assert re.search("tensor", found[0].message)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_PRX_7_PRX_9_a_map_is_edited_while_a_copy_may_use_it(schedule: str) -> None:
    """The copies with the old map must be over."""
    store = (
        f"{FENCE} cp.async.bulk.tensor.1d.global.shared::cta.bulk_group [map, {{t}}], [at];"
        " cp.async.bulk.commit_group; {wait} st.global.u32 [map], t; cp.async.bulk.wait_group 0;"
    )
    bad = edited(schedule, PUBLISH, ACQUIRE, store.replace("{wait}", ""))
    assert "TK317" in {f.code for f in bad.findings}, "\n".join(map(str, bad.findings))
    good = edited(
        schedule, PUBLISH, ACQUIRE, store.replace("{wait}", "cp.async.bulk.wait_group 0;")
    )
    assert "TK317" not in {f.code for f in good.findings}
