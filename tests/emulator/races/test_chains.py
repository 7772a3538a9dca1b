"""Chains between the proxies and their verdicts: what a document supports, and what practice needs."""

from __future__ import annotations

import pytest
from emulator.races.test_tensor import COMMIT, FILLED, FREE, LD, MMA, OUT, START, SYNC, WLD, ZERO
from emulator.races.twins import (
    FENCE,
    HEAD,
    LOAD,
    SCHEDULES,
    STORE,
    Twin,
    check_practice,
    check_strict,
    init,
    wait,
)

END = "cp.async.bulk.wait_group 0;"
WRITE = "st.shared.v4.u32 [mine], {t, t, t, t};"
READ = "ld.shared.v4.u32 {%r1, %r2, %r3, %r4}, [mine];"
CLUSTER = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
RANK = ".reg .b32 rank, peer, far, farf; mov.u32 rank, %cluster_ctarank; xor.b32 peer, rank, 1;"
FAR = "mapa.shared::cluster.u32 far, at, peer; mapa.shared::cluster.u32 farf, f, peer;"
TO_PEER = "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [far], [at+4096], 1024, [farf];"
PUBLISH = "@first fence.mbarrier_init.release.cluster;"


def tensor(name: str, body: str, strict: str, practice: str) -> Twin:
    return Twin(
        name,
        body.replace("{filled}", FILLED),
        practice,
        "",
        block=128,
        target="sm_100a",
        strict=strict,
    )


def commit(bar: str) -> str:
    return COMMIT.replace("{bar}", bar)


def pair(name: str, body: str, strict: str, practice: str) -> Twin:
    """Two CTAs; CTA 1 is the reader or writer, CTA 0 the one whose engine copies into it."""
    start = f"{HEAD} {init()} {PUBLISH} {CLUSTER} {RANK} {FAR} setp.eq.u32 q, rank, 0;"
    return Twin(name, f"{start} {body} {CLUSTER} ret;", practice, "", cluster=2, strict=strict)


EXPECT = "mbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64 _, [farf], 1024;"
OVER = f"@!q bra N; @!first bra N; {EXPECT} {TO_PEER} N:"
"""CTA 0 copies into the tile of CTA 1."""

RING = (
    f"{START} @!first bra L; {{load}} {wait('e', 0)} {{load}} {wait('f', 1)} L: @!q bra N; {wait('f', 0)} {MMA}"
    f" {commit('e')} {commit('m')} N: {wait('m', 0)} {LD} {WLD} {OUT} {SYNC} {FREE}"
)

READ_THERE = "@q bra M; @!first bra M; ld.shared.u32 %r1, [at]; {fence} mbarrier.arrive.shared::cluster.b64 _, [o]; M:"
HANDED = (
    f"mapa.shared::cluster.u32 o, e, 0; {READ_THERE} @!q bra N; @!first bra N; {wait('e', 0)} {EXPECT} {TO_PEER} N:"
    f" @q bra X; {wait('f', 0, '.acquire.cluster')} X:"
)
"""CTA 1 reads and arrives with CTA scope on an mbarrier of CTA 0, which then copies over what was read."""
LATE_INIT = (
    f"{HEAD} {RANK} @first mbarrier.init.shared::cta.b64 [f], 1; {{fence}} @first mbarrier.init.shared::cta.b64 [m], 1;"
    " barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.aligned; mapa.shared::cluster.u32 o, m, peer;"
    f" @first mbarrier.arrive.release.cluster.shared::cluster.b64 _, [o]; {CLUSTER} ret;"
)
"""An mbarrier is initialised behind the fence for others, and used by the other CTA."""

CHAINS = (
    pair(
        "a warp reads behind a cluster barrier what one has written that has ended (A28)",
        f"setp.eq.u32 p, w, 1; @p st.shared.u32 [mine], t; @p ret; {CLUSTER} ld.shared.u32 %r1, [mine+512];",
        "TK301",
        "",
    ),
    pair(
        "the same, and nothing lies between",
        "setp.eq.u32 p, w, 1; @p st.shared.u32 [mine], t; @p ret; ld.shared.u32 %r1, [mine+512];",
        "TK301",
        "TK301",
    ),
    pair(
        "CTA 1 reads, fences, arrives with CTA scope, CTA 0 copies over it",
        HANDED.replace("{fence}", FENCE),
        "TK301",
        "",
    ),
    pair(
        "CTA 1 reads, arrives with CTA scope, CTA 0 copies over it",
        HANDED.replace("{fence}", ""),
        "TK301",
        "TK301",
    ),
    Twin(
        "an mbarrier made behind the fence for others",
        LATE_INIT.replace("{fence}", PUBLISH),
        "",
        "",
        cluster=2,
        strict="TK303",
    ),
    Twin(
        "an mbarrier made with no fence",
        LATE_INIT.replace("{fence}", ""),
        "TK303",
        "",
        cluster=2,
        strict="TK303",
    ),
    Twin(
        "load, wait, store through the copy engine",
        f"{HEAD}{init()} @!first bra E; {LOAD} {wait('f', 0)} {STORE} {END} E: ret;",
        "",
        "",
    ),
    Twin(
        "threads write, barrier, store through the copy engine",
        f"{HEAD}{WRITE} bar.sync 0; @!first bra E; {STORE} {END} E: ret;",
        "TK302",
        "",
        strict="TK302",
    ),
    Twin(
        "threads write, barrier, fence of the issuer, store",
        f"{HEAD}{WRITE} bar.sync 0; @!first bra E; {FENCE} {STORE} {END} E: ret;",
        "",
        "",
    ),
    tensor(
        "products read, commit, wait, threads overwrite",
        f"{START} @!q bra N; {MMA} {commit('f')} N: {wait('f', 0)} {ZERO} {LD} {WLD} {OUT} {SYNC} {FREE}",
        "TK302",
        "",
    ),
    tensor(
        "products read, commit, wait, load overwrites",
        f"{START} @!q bra N; {MMA} {commit('e')} {wait('e', 0)} {LOAD} N: {wait('f', 0)} {LD} {WLD} {OUT} {SYNC}"
        f" {FREE}",
        "",
        "",
    ),
    tensor(
        "a load, a product that reads all of it, its commit, a load over the same bytes",
        RING.replace("{load}", LOAD),
        "",  # the read between the two writes orders them
        "",
    ),
    tensor(
        "a load, a product that reads other bytes, its commit, a load over the same bytes",
        RING.replace("{load}", LOAD.replace("[at]", "[at+4096]")),
        "TK301",
        "",
    ),
    Twin(
        "threads read, arrive, load overwrites",
        f"{HEAD}{init(e=64)} {READ} mbarrier.arrive.shared::cta.b64 _, [e]; @!first bra E; {wait('e', 0)} {LOAD}"
        f" {wait('f', 0)} E: ret;",
        "TK302",
        "",
        strict="TK302",
    ),
    Twin(
        "threads read, arrive, the producer fences, load overwrites",
        f"{HEAD}{init(e=64)} {READ} mbarrier.arrive.shared::cta.b64 _, [e]; @!first bra E; {wait('e', 0)} {FENCE}"
        f" {LOAD} {wait('f', 0)} E: ret;",
        "",
        "",
    ),
    Twin(
        "store reads, wait_group.read, barrier, threads overwrite",
        f"{HEAD}{WRITE} {FENCE} bar.sync 0; @!first bra N; {STORE} cp.async.bulk.wait_group.read 0; N: bar.sync 0;"
        f" {WRITE}"
        f" @first {END} ret;",
        "",
        "",
        strict="TK302",
    ),
    Twin(
        "store reads, wait_group, barrier, threads overwrite",
        f"{HEAD}{WRITE} {FENCE} bar.sync 0; @!first bra N; {STORE} {END} N: bar.sync 0; {WRITE} ret;",
        "",
        "",
    ),
    Twin(
        "load, load again into the same bytes with nothing between",
        f"{HEAD}{init()} @!first bra E; {LOAD} {LOAD.replace('[f]', '[m]')} {wait('f', 0)} {wait('m', 0)} E: ret;",
        "TK301",
        "",
        strict="TK301",
    ),
    Twin(
        "load, arrival of who has seen it, load again",
        f"{HEAD}{init()} setp.eq.u32 q, t, 32; @q bra C; @!first bra E; {LOAD} {wait('e', 0)} {LOAD} {wait('f', 1)}"
        f" bra E;"
        f" C: {wait('f', 0)} mbarrier.arrive.shared::cta.b64 _, [e]; E: ret;",
        "",
        "",
    ),
    pair(
        "CTA 1 writes and fences, cluster barrier, CTA 0 copies into it",
        f"@q bra M; st.shared.u32 [mine], t; {FENCE} M: {CLUSTER} {OVER} @q bra X;"
        f" {wait('f', 0, '.acquire.cluster')} X:",
        "TK302",
        "",
    ),
    pair(
        "CTA 1 writes, cluster barrier, CTA 0 copies into it",
        f"@q bra M; st.shared.u32 [mine], t; M: {CLUSTER} {OVER} @q bra X; {wait('f', 0, '.acquire.cluster')} X:",
        "TK302",
        "TK302",
    ),
    pair(
        "CTA 1 writes into CTA 0 and fences there, CTA 0 stores it through its engine",
        f"@q bra M; mad.lo.u32 o, t, 16, far; st.shared::cluster.v4.u32 [o], {{t, t, t, t}}; {FENCE} M: {CLUSTER}"
        f" @!q bra X; @!first bra X; {STORE} {END} X:",
        "TK302",
        "TK302",
    ),
    pair(
        "CTA 1 writes into CTA 0, whose issuer fences",
        f"@q bra M; mad.lo.u32 o, t, 16, far; st.shared::cluster.v4.u32 [o], {{t, t, t, t}}; M: {CLUSTER} @!q bra"
        f" X; @!first bra X; {FENCE} {STORE} {END} X:",
        "",
        "",
    ),
    pair(
        "CTA 0 copies into CTA 1, which reads after a wait of CTA scope",
        f"{OVER} @q bra X; {wait('f', 0)} ld.shared.u32 %r1, [mine]; X:",
        "TK301",
        "",
    ),
    pair(
        "generic data crosses CTAs on arrivals of CTA scope",
        f"@q bra M; @!first bra M; st.shared::cluster.u32 [far], t;"
        f" mbarrier.arrive.release.cluster.shared::cluster.b64 _, [farf]; M:"
        f" @!q bra X; {wait('f', 0)} ld.shared.u32 %r1, [at]; X:",
        "TK301",
        "TK301",
    ),
    pair(
        "generic data crosses CTAs on arrivals of cluster scope",
        f"@q bra M; @!first bra M; st.shared::cluster.u32 [far], t;"
        f" mbarrier.arrive.release.cluster.shared::cluster.b64 _, [farf]; M:"
        f" @!q bra X; {wait('f', 0, '.acquire.cluster')} ld.shared.u32 %r1, [at]; X:",
        "",
        "",
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
