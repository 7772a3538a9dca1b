"""Products of a pair of CTAs: chains of `async_chains.tsv` that end in one, and bugs of pairs, wrong and mended.

Thread 32 of CTA 0 issues products of 256 x 32 x 16; each CTA holds its half of A and of B in its own tile.
"""

from __future__ import annotations

import pytest
from emulator.races.twins import (
    FENCE,
    HEAD,
    LOAD,
    SCHEDULES,
    Twin,
    check_practice,
    check_silent,
    check_strict,
    init,
    run,
    wait,
)

WORD = (1 << 4) | (32 >> 3) << 17 | (256 >> 4) << 24
"""The instruction descriptor: f16 operands, an f32 result, N = 32, M = 256."""
DESCRIPTOR = 1 << 46 | (128 >> 4) << 32 | (2048 >> 4) << 16
WIDE = ".acquire.cluster"
SYNC = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
START = f"""
    {HEAD}
    .reg .b32 tm, row, s, rank, peer, far, farf, fare; .shared .align 8 .b32 slot[2]; .reg .pred lead, issue;
    mov.u32 s, slot; mov.u32 rank, %cluster_ctarank; xor.b32 peer, rank, 1; setp.eq.u32 lead, rank, 0;
    mapa.shared::cluster.u32 far, at, peer; mapa.shared::cluster.u32 farf, f, peer;
    mapa.shared::cluster.u32 fare, e, 0;
    setp.eq.u32 q, w, 0; @!q bra MADE; tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [s], 64; MADE:
    {init()} @first fence.mbarrier_init.release.cluster; mov.pred p, 0; {SYNC} ld.shared.b32 tm, [s];
    shl.b32 row, w, 21; add.u32 row, row, tm; setp.eq.and.u32 issue, t, 32, lead;
    shr.u32 %r2, at, 4; cvt.u64.u32 %d4, %r2; or.b64 %d4, %d4, {DESCRIPTOR};
    mov.u32 %r1, 0; setp.eq.u32 q, t, 32;
"""
FOUR = "{%r1, %r1, %r1, %r1}"
FILL = f"st.shared.v4.u32 [mine], {FOUR}; st.shared.v4.u32 [mine+2048], {FOUR};"
MMA = f"tcgen05.mma.cta_group::2.kind::f16 [tm], %d4, %d4, {WORD}, 0;"
COMMIT = (
    "mov.b16 %h1, 3; tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64"
    " [{bar}], %h1;"
)
LD = "tcgen05.ld.sync.aligned.32x32b.x4.b32 {%r10, %r11, %r12, %r13}, [row]; tcgen05.wait::ld.sync.aligned;"
OUT = "mad.lo.u32 %r3, rank, 128, t; mad.wide.u32 %d5, %r3, 4, %d1; st.global.u32 [%d5], %r10;"
FREE = (
    f"{SYNC} setp.eq.u32 q, w, 0; @!q bra GONE; tcgen05.dealloc.cta_group::2.sync.aligned.b32 tm, 64;"
    f" GONE: {SYNC} ret;"
)
TELL = "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [fare];"
"""An arrival on the mbarrier e of CTA 0."""


def commit(bar: str) -> str:
    return COMMIT.replace("{bar}", bar)


REST = f"N: {wait('f', 0, WIDE)} {LD} {OUT} {FREE}"
PRODUCT = f"@!issue bra N; {{heard}} {MMA} {commit('f')} {REST}"
LOADED = LOAD.replace("[f]", "[m]").replace("1024", "4096")


def pair(name: str, body: str, code: str, at: str = "", **forms: dict[str, str] | str) -> Twin:
    strict = forms.pop("strict", "")
    return Twin(
        name,
        f"{START} {body}",
        code,
        at,
        block=128,
        cluster=2,
        target="sm_100a",
        strict=str(strict),
        **forms,  # pyright: ignore[reportArgumentType]
    )


def told(body: str, heard: str = "", fill: str = "@!lead bra M;") -> str:
    """Thread 32 of CTA 1 does something and tells CTA 0, whose issuer has heard of it before the product."""
    return (
        f"{fill} {FILL} {FENCE} M: {SYNC} @!q bra T; @lead bra T; {body} {TELL} T: "
        + PRODUCT.replace("{heard}", f"{wait('e', 0, WIDE)} {heard}")
    )


OVER = FILL.replace("st.shared", "st.shared::cluster").replace("[mine", "[far")
ZERO = FILL.replace("[mine", "[%r5")
ALL = f"mov.u32 %r5, at; mov.u32 %r6, 0; Z: {ZERO} add.u32 %r5, %r5, 16; add.u32 %r6, %r6, 1; setp.lt.u32 p, %r6, 128; @p bra Z;"
"""One thread writes the whole tile."""

CHAINS = (
    pair(
        "each CTA loads its own half, a thread of CTA 1 says so, the product reads both",
        told(f"{LOADED} {wait('m', 0)}"),
        "",
        strict="TK302",
    ),
    pair(
        "CTA 1 writes its half and fences, a product of CTA 0 reads it",
        told(f"{ALL} {FENCE}"),
        "",
        strict="TK302",
    ),
    pair("CTA 1 writes its half, a product of CTA 0 reads it", told(ALL), "TK302", strict="TK302"),
    pair(
        "CTA 1 writes into CTA 0 and fences, a product of CTA 0 reads it",
        told(f"{OVER} {FENCE}", fill=""),
        "TK302",
        strict="TK302",
    ),
    pair(
        "CTA 1 writes into CTA 0, whose issuer fences, a product of CTA 0 reads it",
        told(OVER, FENCE, fill=""),
        "",
        strict="TK302",
    ),
)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("chain", CHAINS, ids=lambda c: c.name)
def test_practice(chain: Twin, schedule: str, seed: int) -> None:
    check_practice(chain, schedule, seed)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("chain", CHAINS, ids=lambda c: c.name)
def test_strict(chain: Twin, schedule: str, seed: int) -> None:
    check_strict(chain, schedule, seed)


ALLOC = START[START.index("setp.eq.u32 q, w, 0; @!q bra MADE;") : START.index("MADE:") + 5]
MET_BEFORE = START.replace(ALLOC, "").replace(
    f"{SYNC} ld.shared.b32 tm, [s];",
    f"mov.u32 %r1, 0; {FILL} {FENCE} {SYNC} {ALLOC} bar.sync 0; ld.shared.b32 tm, [s];",
)
"""The CTAs meet before they allocate, and not again."""


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_tensor_work_of_a_pair_rests_on_its_joint_allocation(schedule: str, seed: int) -> None:
    assert MET_BEFORE.index("barrier.cluster") < MET_BEFORE.index("tcgen05.alloc")
    body = f"{MET_BEFORE} {PRODUCT.replace('{heard}', '')}"
    twin = Twin(
        "allocated after the pair has met", body, "", "", block=128, cluster=2, target="sm_100a"
    )
    check_silent(twin, {}, schedule, seed)
    strict = run(twin, {}, schedule, seed, model="strict")
    assert any(
        f.code == "TK310" and any("A24" in note for note in f.notes) for f in strict.warnings
    )
