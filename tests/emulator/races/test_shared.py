"""Races in shared memory: proxy fences, mbarriers, buffers of pipelines, as users met them, wrong and mended."""

from __future__ import annotations

import pytest
from emulator.races.twins import (
    FENCE,
    HEAD,
    LOAD,
    SCHEDULES,
    STORE,
    Twin,
    both_asked_of,
    check_bad,
    check_silent,
    init,
    wait,
)

STORED = "st.shared.v4.u32 [mine], {t, t, t, t};"
AGAIN = STORE.replace("[%d1]", "[%d1+4096]")
END = "cp.async.bulk.wait_group 0;"
READS = "fence.proxy.async::generic.release.sync_restrict::shared::cluster::read.cluster;"
RELEASE = "fence.proxy.async::generic.release.sync_restrict::shared::cta.cluster;"
ACQUIRE = "fence.proxy.async::generic.acquire.sync_restrict::shared::cluster.cluster;"

TWINS = (
    Twin(
        "PRX-1 threads write, one stores through the copy engine",
        f"{HEAD}{STORED} {{fence}} bar.sync 0; @!first bra E; {STORE} {END} E: ret;",
        "TK302",
        "cp.async.bulk.global",
        good={"fence": FENCE},
    ),
    Twin(
        "PRX-1 mended by the thread that stores",
        f"{HEAD}{STORED} bar.sync 0; @!first bra E; {{fence}} {STORE} {END} E: ret;",
        "TK302",
        "cp.async.bulk.global",
        good={"fence": FENCE},
    ),
    Twin(
        "PRX-1 the fence is of another space",
        f"{HEAD}{STORED} {{fence}} bar.sync 0; @!first bra E; {STORE} {END} E: ret;",
        "TK302",
        "cp.async.bulk.global",
        bad={"fence": "fence.proxy.async.global;"},
        good={"fence": "fence.proxy.async;"},
    ),
    Twin(
        "PRX-1 the fence comes before the write",
        f"{HEAD}{{before}} {STORED} {{after}} bar.sync 0; @!first bra E; {STORE} {END} E: ret;",
        "TK302",
        "cp.async.bulk.global",
        bad={"before": FENCE},
        good={"after": FENCE},
    ),
    Twin(
        "PRX-3 a reduction reads what threads wrote",
        f"{HEAD}{STORED} {{fence}} bar.sync 0; @!first bra E;"
        f" cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%d1], [at], 1024;"
        f" cp.async.bulk.commit_group; {END} E: ret;",
        "TK302",
        "cp.reduce.async.bulk",
        good={"fence": FENCE},
    ),
    Twin(
        "a global write is loaded through the copy engine",
        f"{HEAD}{init()} @!first bra E; st.global.u32 [%d0], t; {{fence}} {LOAD} {wait('f', 0)} E: ret;",
        "TK302",
        "cp.async.bulk.shared",
        good={"fence": "fence.proxy.async.global;"},
    ),
    Twin(
        "a read is followed by a load into the same tile",
        f"{HEAD}{init(e=64)} @!first bra N; {LOAD} N: {wait('f', 0)} ld.shared.v4.u32 {{%r1, %r2, %r3, %r4}}, [mine];"
        f" {{fence}} mbarrier.arrive.shared::cta.b64 _, [e]; @!first bra E; {wait('e', 0)} {LOAD} {wait('f', 1)} E:"
        f" ret;",
        "TK302",
        "cp.async.bulk.shared",
        good={"fence": FENCE},
    ),
    Twin(
        "the same, fenced by the producer",
        f"{HEAD}{init(e=64)} @!first bra N; {LOAD} N: {wait('f', 0)} ld.shared.v4.u32 {{%r1, %r2, %r3, %r4}}, [mine];"
        f" mbarrier.arrive.shared::cta.b64 _, [e]; @!first bra E; {wait('e', 0)} {{fence}} {LOAD} {wait('f', 1)} E:"
        f" ret;",
        "TK302",
        "cp.async.bulk.shared",
        good={"fence": FENCE},
    ),
    Twin(
        "the same with the one-way fences",
        f"{HEAD}{init(e=64)} @!first bra N; {LOAD} N: {wait('f', 0)} ld.shared.v4.u32 {{%r1, %r2, %r3, %r4}}, [mine];"
        f" {{release}} mbarrier.arrive.shared::cta.b64 _, [e]; @!first bra E; {wait('e', 0)} {{acquire}} {LOAD}"
        f" {wait('f', 1)} E: ret;",
        "TK302",
        "cp.async.bulk.shared",
        bad={
            "acquire": "fence.proxy.async::generic.acquire.sync_restrict::shared::cluster.cluster;"
        },
        good={
            "release": RELEASE,
            "acquire": "fence.proxy.async::generic.acquire.sync_restrict::shared::cluster.cluster;",
        },
    ),
    Twin(
        "the same with the one-way fence of reads, over a relaxed arrival",
        f"{HEAD}{init(e=64)} @!first bra N; {LOAD} N: {wait('f', 0)} ld.shared.v4.u32 {{%r1, %r2, %r3, %r4}}, [mine];"
        f" {{release}} mbarrier.arrive.relaxed.cta.shared::cta.b64 _, [e]; @!first bra E; {wait('e', 0)}"
        f" {{acquire}} {LOAD} {wait('f', 1)} E: ret;",
        "TK301|TK302",
        "cp.async.bulk.shared",
        bad={"release": READS},
        good={"release": READS, "acquire": ACQUIRE},
    ),
    Twin(
        "one thread's one-way fence of reads is of its own reads",
        f"{HEAD}{init(e=64)} @!first bra N; {LOAD} N: {wait('f', 0)} ld.shared.v4.u32 {{%r1, %r2, %r3, %r4}}, [mine];"
        f" {{release}} bar.sync 0; mbarrier.arrive.shared::cta.b64 _, [e]; @!first bra E; {wait('e', 0)} {ACQUIRE}"
        f" {LOAD} {wait('f', 1)} E: ret;",
        "TK302",
        "cp.async.bulk.shared",
        bad={"release": f"@first {READS}"},
        good={"release": READS},
    ),
    *(
        Twin(
            f"each lane's one-way fence is of its own accesses ({name})",
            f"{HEAD}{init()} @!first bra N; {LOAD} N: {wait('f', 0)} ld.shared.v4.u32 {{%r1, %r2, %r3, %r4}}, [mine];"
            f" {{order}} @!first bra E; {ACQUIRE} {LOAD} {wait('f', 1)} E: ret;",
            "TK302",
            "cp.async.bulk.shared",
            bad={"order": f"bar.sync 0; {release}"},
            good={"order": f"{release} bar.sync 0;"},
            block=32,
        )
        for name, release in (("of reads", READS), ("of all", RELEASE))
    ),
    Twin(
        "a matrix that the lanes of a warp store is read by others of them",
        f"{HEAD} mov.u32 %r1, t; mov.u32 %r2, t; mov.u32 %r3, t; mov.u32 %r4, t;"
        " stmatrix.sync.aligned.m8n8.x4.shared.b16 [mine], {%r1, %r2, %r3, %r4}; {order}"
        " ld.shared.v4.u32 {%r1, %r2, %r3, %r4}, [mine]; ret;",
        "TK301",
        "ld.shared",
        good={"order": "bar.warp.sync -1;"},
        block=32,
    ),
    Twin(
        "the one-way fence of reads releases no write",
        f"{HEAD}{init(e=64)} @!first bra N; {LOAD} N: {wait('f', 0)} st.shared.v4.u32 [mine], {{t, t, t, t}};"
        f" {{release}} mbarrier.arrive.shared::cta.b64 _, [e]; @!first bra E; {wait('e', 0)} {ACQUIRE} {LOAD}"
        f" {wait('f', 1)} E: ret;",
        "TK302",
        "cp.async.bulk.shared",
        bad={"release": READS},
        good={"release": RELEASE},
    ),
    Twin(
        "the one-way fence of reads comes before the read",
        f"{HEAD}{init(e=64)} @!first bra N; {LOAD} N: {wait('f', 0)} {{before}}"
        f" ld.shared.v4.u32 {{%r1, %r2, %r3, %r4}}, [mine]; {{after}} mbarrier.arrive.shared::cta.b64 _, [e];"
        f" @!first bra E; {wait('e', 0)} {ACQUIRE} {LOAD} {wait('f', 1)} E: ret;",
        "TK302",
        "cp.async.bulk.shared",
        bad={"before": READS},
        good={"after": READS},
    ),
    Twin(
        "cp.async is of the generic proxy",
        f"{HEAD} mad.wide.u32 %d2, t, 16, %d0; cp.async.cg.shared.global [mine], [%d2], 16; cp.async.wait_all;"
        f" {{fence}} bar.sync 0;"
        f" @!first bra E; {STORE} {END} E: ret;",
        "TK302",
        "cp.async.bulk.global",
        good={"fence": FENCE},
    ),
    Twin(
        "cp.async is not awaited",
        f"{HEAD} mad.wide.u32 %d2, t, 16, %d0; cp.async.cg.shared.global [mine], [%d2], 16; {{wait}} bar.sync 0;"
        " xor.b32 o, t, 1; mad.lo.u32 o, o, 16, at; ld.shared.v4.u32 {%r1, %r2, %r3, %r4}, [o]; ret;",
        "TK301",
        "ld.shared|cp.async",
        good={"wait": "cp.async.wait_all;"},
    ),
    Twin(
        "MBR-2 bytes are expected on what nobody has initialised",
        f"{HEAD}{{init}} bar.sync 0; @!first bra E; {LOAD} {wait('f', 0)} E: ret;",
        "TK303",
        "expect_tx",
        good={"init": "@first mbarrier.init.shared::cta.b64 [f], 1;"},
    ),
    Twin(
        "an mbarrier is not published to the CTA",
        f"{HEAD} @first mbarrier.init.shared::cta.b64 [f], 64; {{sync}} mbarrier.arrive.shared::cta.b64 _, [f];"
        f" {wait('f', 0)} ret;",
        "TK303",
        "arrive|try_wait",
        good={"sync": "bar.sync 0;"},
    ),
    Twin(
        "MBR-4 more bytes are expected than come",
        f"{HEAD}{init()} @!first bra E; {{expect}}"
        f" cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [at], [%d0], 1024, [f]; {wait('f', 0)}"
        f" E: ret;",
        "TK314",
        "try_wait",
        bad={"expect": "mbarrier.arrive.expect_tx.shared::cta.b64 _, [f], 2048;"},
        good={"expect": "mbarrier.arrive.expect_tx.shared::cta.b64 _, [f], 1024;"},
    ),
    Twin(
        "MBR-6 more arrivals are awaited than can come",
        f"{HEAD}@first mbarrier.init.shared::cta.b64 [e], {{count}}; bar.sync 0; @first"
        f" mbarrier.arrive.shared::cta.b64 _, [e];"
        f" {wait('e', 0)} ret;",
        "TK314",
        "try_wait",
        bad={"count": "64"},
        good={"count": "1"},
    ),
    Twin(
        "MBR-11 a phase word is advanced while another warp may read it",
        f"{HEAD} @first st.shared.u32 [at], 0; bar.sync 0; ld.shared.u32 %r1, [at]; {{sync}} @first st.shared.u32"
        f" [at], 1;"
        " mad.wide.u32 %d2, t, 4, %d1; st.global.u32 [%d2], %r1; ret;",
        "TK301",
        "st.shared|ld.shared",
        good={"sync": "bar.sync 0;"},
    ),
    Twin(
        "an arrival releases nothing",
        f"{HEAD}{init()} setp.eq.u32 q, t, 32; @q st.shared.u32 [at], t; @q {{arrive}} @!first bra E; {wait('f', 0)}"
        " ld.shared.u32 %r1, [at]; E: ret;",
        "TK301",
        "ld.shared|st.shared",
        bad={"arrive": "mbarrier.arrive.relaxed.cta.shared::cta.b64 _, [f];"},
        good={"arrive": "mbarrier.arrive.release.cta.shared::cta.b64 _, [f];"},
    ),
    Twin(
        "a wait acquires nothing",
        f"{HEAD}{init()} setp.eq.u32 q, t, 32; @q st.shared.u32 [at], t; @q mbarrier.arrive.shared::cta.b64 _, [f];"
        f" @!first bra E;"
        f" {wait('f', 0, '.relaxed.cta')} {{fence}} ld.shared.u32 %r1, [at]; E: ret;",
        "TK301",
        "ld.shared|st.shared",
        good={"fence": "fence.acquire.sync_restrict::shared::cluster.cluster;"},
    ),
    Twin(
        "lanes pass data with no barrier of the warp",
        f"{HEAD} st.shared.u32 [mine], t; {{sync}} xor.b32 o, t, 1; mad.lo.u32 o, o, 16, at; ld.shared.u32 %r1,"
        f" [o]; ret;",
        "TK301",
        "ld.shared",
        good={"sync": "bar.warp.sync -1;"},
        block=32,
    ),
    Twin(
        "an elected lane arrives for its siblings",
        f"{HEAD}{init()} setp.ge.u32 q, t, 32; @!q bra R; st.shared.u32 [mine], t; {{sync}} setp.eq.u32 p, t, 32;"
        f" @p mbarrier.arrive.shared::cta.b64 _, [f]; bra E; R: {wait('f', 0)} add.u32 o, mine, 512; ld.shared.u32"
        f" %r1, [o]; E: ret;",
        "TK301",
        "ld.shared|st.shared",
        good={"sync": "bar.warp.sync -1;"},
    ),
    Twin(
        "PIP-1 the wait leaves out the store that reads the stage",
        f"{HEAD}{init()} @!first bra E; {LOAD} {wait('f', 0)} {STORE} {{wait}} {LOAD} {wait('f', 1)} {END} E: ret;",
        "TK308",
        "cp.async.bulk.shared",
        bad={"wait": "cp.async.bulk.wait_group.read 1;"},
        good={"wait": "cp.async.bulk.wait_group.read 0;"},
    ),
    Twin(
        "PIP-3 the wait comes after the write",
        f"{HEAD}{STORED} {FENCE} bar.sync 0; @first bra S; bra N; S: {STORE} N: {{before}} bar.sync 0;"
        f" {STORED} {{after}} {FENCE} bar.sync 0; @!first bra E; {AGAIN} {END} E: ret;",
        "TK308|TK309",
        "st.shared",
        bad={"after": "@first cp.async.bulk.wait_group.read 0;"},
        good={"before": "@first cp.async.bulk.wait_group.read 0;"},
    ),
    Twin(
        "PIP-9 another thread waits for the group",
        f"{HEAD}{STORED} {FENCE} bar.sync 0; setp.eq.u32 q, t, 32; @!first bra N; {STORE} N: {{other}} {{own}}"
        f" bar.sync 0;"
        f" {STORED} @first {END} ret;",
        "TK307",
        "st.shared",
        bad={"other": "@q cp.async.bulk.wait_group.read 0;"},
        good={"own": "@first cp.async.bulk.wait_group.read 0;"},
    ),
    Twin(
        "a load is read before it has come",
        f"{HEAD}{init()} @!first bra N; {LOAD} N: {{wait}} ld.shared.u32 %r1, [mine]; {{late}} ret;",
        "TK301",
        "ld.shared|cp.async.bulk",
        bad={"late": wait("f", 0)},
        good={"wait": wait("f", 0)},
    ),
    Twin(
        "TMM-3 a tile lies over a word that is still to be read",
        f"{HEAD}{init()} @first st.shared.u32 [at], t; bar.sync 0; ld.shared.u32 %r1, [at]; {{late}} @!first bra E;"
        f" {FENCE} {LOAD} {wait('f', 0)} E: ret;",
        "TK301",
        "cp.async.bulk.shared|ld.shared",
        good={"late": f"{FENCE} bar.sync 0;"},
    ),
    Twin(
        "a thread may miss a phase",
        f"{HEAD}{init(f=1, e=1)} setp.eq.u32 q, t, 32; @first bra A; @q bra B; bra E;"
        f" A: mbarrier.arrive.shared::cta.b64 _, [f]; {{back}} mbarrier.arrive.shared::cta.b64 _, [f]; bra E;"
        f" B: {wait('f', 0)} mbarrier.arrive.shared::cta.b64 _, [e]; E: ret;",
        "TK306|TK314",
        "try_wait",
        good={"back": wait("e", 0)},
    ),
)


test_the_bad_form_is_found, test_the_mended_form_is_silent = both_asked_of(TWINS)


INNOCENT = (
    Twin(
        "lanes that know different words store one value to one place",
        f"{HEAD} @first st.shared.u32 [at], 1; bar.warp.sync -1; mad.wide.u32 %d5, t, 4, %d1;"
        " atom.acq_rel.gpu.global.add.u32 %r1, [%d5], 1; st.shared.u32 [at], 7; ret;",
        "",
        "",
        block=32,
    ),
    Twin(
        "FP-1 half of a barrier's threads only arrive",
        f"{HEAD} @first st.shared.u32 [at], 1; setp.lt.u32 q, t, 32; @q bar.arrive 1, 64; @q bra E;"
        " bar.sync 1, 64; ld.shared.u32 %r1, [at]; E: ret;",
        "",
        "",
    ),
    Twin(
        "FP-3 two loads on one mbarrier",
        f"{HEAD}{init()} @!first bra N; mbarrier.arrive.expect_tx.shared::cta.b64 _, [f], 2048;"
        " cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [at], [%d0], 1024, [f];"
        " cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [at+1024], [%d0+1024], 1024, [f];"
        f" N: {wait('f', 0)} ld.shared.v4.u32 {{%r1, %r2, %r3, %r4}}, [mine]; ret;",
        "",
        "",
    ),
    Twin(
        "FP-5 loads and stores of the copy engine need no fence between them",
        f"{HEAD}{init()} @!first bra E; {LOAD} {wait('f', 0)} {STORE} cp.async.bulk.wait_group.read 0; {LOAD}"
        f" {wait('f', 1)}"
        f" {AGAIN} {END} E: ret;",
        "",
        "",
    ),
    Twin(
        "FP-5 cp.async needs no fence before a load of a thread",
        f"{HEAD} mad.wide.u32 %d2, t, 16, %d0; cp.async.cg.shared.global [mine], [%d2], 16; cp.async.commit_group;"
        " cp.async.wait_group 0; bar.sync 0; xor.b32 o, t, 1; mad.lo.u32 o, o, 16, at;"
        " ld.shared.v4.u32 {%r1, %r2, %r3, %r4}, [o]; ret;",
        "",
        "",
    ),
    Twin(
        "cp.async that arrives on an mbarrier",
        f"{HEAD}{init(f=64)} mad.wide.u32 %d2, t, 16, %d0; cp.async.cg.shared.global [mine], [%d2], 16;"
        f" cp.async.mbarrier.arrive.noinc.shared::cta.b64 [f]; {wait('f', 0)} xor.b32 o, t, 1; mad.lo.u32 o, o, 16,"
        f" at;"
        " ld.shared.v4.u32 {%r1, %r2, %r3, %r4}, [o]; ret;",
        "",
        "",
    ),
    Twin(
        "all threads write the same value",
        f"{HEAD} st.shared.u32 [at], 7; bar.sync 0; ld.shared.u32 %r1, [at]; ret;",
        "",
        "",
    ),
    Twin(
        "a word of global memory hands data on",
        f"{HEAD} setp.eq.u32 q, t, 32; @!q bra N; st.global.u32 [%d1], 5; st.release.gpu.global.u32 [%d1+4], 1; bra"
        f" E; N: @!first bra E;"
        " P: ld.acquire.gpu.global.u32 %r1, [%d1+4]; setp.eq.u32 p, %r1, 0; @p bra P; ld.global.u32 %r2, [%d1]; E:"
        " ret;",
        "",
        "",
    ),
    Twin(
        "fences beside relaxed accesses hand data on",
        f"{HEAD} setp.eq.u32 q, t, 32; @!q bra N; st.global.u32 [%d1], 5; fence.acq_rel.gpu;"
        f" red.relaxed.gpu.global.add.u32 [%d1+4], 1;"
        " bra E; N: @!first bra E; P: ld.relaxed.gpu.global.u32 %r1, [%d1+4]; setp.eq.u32 p, %r1, 0; @p bra P;"
        " fence.acq_rel.gpu;"
        " ld.global.u32 %r2, [%d1]; E: ret;",
        "",
        "",
    ),
)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("twin", INNOCENT, ids=lambda t: t.name)
def test_the_innocent(twin: Twin, schedule: str, seed: int) -> None:
    check_silent(twin, {}, schedule, seed)


GUILTY = (
    Twin(
        "a word of global memory that releases nothing",
        f"{HEAD} setp.eq.u32 q, t, 32; @!q bra N; st.global.u32 [%d1], 5; st.relaxed.gpu.global.u32 [%d1+4], 1; bra"
        f" E; N: @!first bra E;"
        " P: ld.acquire.gpu.global.u32 %r1, [%d1+4]; setp.eq.u32 p, %r1, 0; @p bra P; ld.global.u32 %r2, [%d1]; E:"
        " ret;",
        "TK301",
        "ld.global|st.global",
    ),
    Twin(
        "threads write different values to one place",
        f"{HEAD} st.shared.u32 [at], t; bar.sync 0; ld.shared.u32 %r1, [at]; ret;",
        "TK301",
        "st.shared",
    ),
)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("twin", GUILTY, ids=lambda t: t.name)
def test_the_guilty(twin: Twin, schedule: str, seed: int) -> None:
    check_bad(twin, schedule, seed)
