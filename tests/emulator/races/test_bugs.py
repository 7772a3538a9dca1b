"""Bugs that users met and that are no race of shared memory alone, wrong and mended: wgmma, convergence, launches, copies.

Names are those of the collected cases. What a twin in PTX cannot show (what a compiler chooses) is tested in `tests/cases`.
"""

from __future__ import annotations

import numpy as np
import pytest
from emulator.kernels import launch
from emulator.races.test_clusters import CLUSTER, FAR, RANK
from emulator.races.test_pairs import COMMIT, FENCE, FILL, PRODUCT, START, SYNC, WORD
from emulator.races.test_tensor import FILLED as FILLED
from emulator.races.test_tensor import FREE as FREED
from emulator.races.test_tensor import LD, MMA, OUT, WLD, commit
from emulator.races.test_tensor import START as TENSOR
from emulator.races.test_tensor import WORD as ONE
from emulator.races.twins import HEAD, LOAD, SCHEDULES, STORE, Twin, both_asked_of, init, wait

from tkc.emulator import Poisoned, Report, TensorMap

END = "cp.async.bulk.wait_group 0;"
NEXT = "mad.wide.u32 %d5, t, 4, %d1;"

# wgmma: a product of 64 x 8 x 16 of one tile with itself

GEMM = f"""
    {HEAD} {init(e=4)} mov.u32 %r1, 0; st.shared.v4.u32 [mine], {{%r1, %r1, %r1, %r1}};
    st.shared.v4.u32 [mine+2048], {{%r1, %r1, %r1, %r1}}; {FENCE} bar.sync 0;
    shr.u32 %r2, at, 4; cvt.u64.u32 %d4, %r2; or.b64 %d4, %d4, {256 >> 4 << 32 | 128 >> 4 << 16};
    mov.f32 %f0, 0f00000000; mov.f32 %f1, %f0; mov.f32 %f2, %f0; mov.f32 %f3, %f0;
    and.b32 %r3, t, 31; setp.eq.u32 q, %r3, 0;
"""
TIMES = (
    "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %d4, %d4, 1, 1, 1, 0, 0;"
    " wgmma.commit_group.sync.aligned;"
)
ARRIVE, OVER = "wgmma.fence.sync.aligned;", "wgmma.wait_group.sync.aligned 0;"
RESULT = f"{NEXT} st.global.f32 [%d5], %f0; ret;"
AGAIN = "st.shared.v4.u32 [mine], {%r1, %r1, %r1, %r1};"
HAND_ON = "bar.warp.sync -1; @q mbarrier.arrive.shared::cta.b64 _, [e];"
REFILL = f"@!first bra N; {wait('e', 0)} {LOAD} {wait('f', 0)} N:"


def gemm(name: str, body: str, code: str, at: str, **forms: dict[str, str]) -> Twin:
    return Twin(name, GEMM + body, code, at, forms.get("bad", {}), forms.get("good", {}), block=128)


def pair(name: str, bad: tuple[str, str], code: str, at: str) -> Twin:
    """A product of a pair of CTAs with one thing replaced by another."""
    body = f"{START} {FILL} {FENCE} {SYNC} {PRODUCT.replace('{heard}', '')}"
    assert bad[0] in body
    return Twin(
        name,
        body.replace(bad[0], "{change}"),
        code,
        at,
        {"change": bad[1]},
        {"change": bad[0]},
        block=128,
        cluster=2,
        target="sm_100a",
    )


def tensor(name: str, body: str, code: str, at: str, **forms: dict[str, str]) -> Twin:
    return Twin(
        name,
        body.replace("{filled}", FILLED),
        code,
        at,
        forms.get("bad", {}),
        forms.get("good", {}),
        block=128,
        target="sm_100a",
    )


WORD_64 = (1 << 4) | (16 >> 3) << 17 | (64 >> 4) << 24
MAPPED = ".reg .b32 x; mapa.shared::cluster.u32 x, f, {rank}; @first mbarrier.arrive.release.cluster.shared::cluster.b64 _, [x];"
RING = f"""
    {HEAD} .reg .b32 k, turn; .reg .pred left; setp.eq.u32 q, t, 32; {init()}
    mov.u32 k, 0; mov.u32 turn, 0; @first bra P; @q bra C; bra E;
P:  xor.b32 %r4, turn, {{parity}};
PW: mbarrier.try_wait.parity.shared::cta.b64 p, [e], %r4; @!p bra PW;
    {LOAD} xor.b32 turn, turn, 1; add.u32 k, k, 1; setp.lt.u32 left, k, {{trips}}; @left bra P; bra E;
C:  mbarrier.try_wait.parity.shared::cta.b64 p, [f], turn; @!p bra C;
    ld.shared.u32 %r1, [at]; {FENCE} mbarrier.arrive.shared::cta.b64 _, [e];
    xor.b32 turn, turn, 1; add.u32 k, k, 1; setp.lt.u32 left, k, {{trips}}; @left bra C;
E:  ret;
"""
"""Thread 0 loads one stage a few times, thread 32 reads it."""

TWINS = (
    gemm(
        "WGM-1 an accumulator is written while its product is under way",
        f"{ARRIVE} {TIMES} {{early}} {OVER} {{late}} {RESULT}",
        "TK319",
        "mov.f32|wgmma",
        bad={"early": "@q mov.f32 %f0, 0f3f800000;"},
        good={"late": "@q mov.f32 %f0, 0f3f800000;"},
    ),
    gemm(
        "WGM-1 an accumulator is stored before the wait",
        f"{ARRIVE} {TIMES} {{wait}} {NEXT} st.global.f32 [%d5], %f0; {{late}} ret;",
        "TK319",
        "st.global",
        bad={"late": OVER},
        good={"wait": OVER},
    ),
    gemm(
        "WGM-3 accumulators are set with no wgmma.fence before the first product",
        f"{{fence}} {TIMES} {OVER} {RESULT}",
        "TK319",
        "wgmma",
        good={"fence": ARRIVE},
    ),
    gemm(
        "PIP-5 a tile is filled again while a product of the turn before reads it",
        f"{ARRIVE} {TIMES} {{wait}} bar.sync 0; {AGAIN} {{late}} {FENCE} bar.sync 0; {ARRIVE} {TIMES} {OVER} {RESULT}",
        "TK309",
        "st.shared",
        bad={"late": OVER},
        good={"wait": OVER},
    ),
    gemm(
        "PIP-7 a stage is handed on before the product that reads it is over",
        f"{ARRIVE} {TIMES} {{wait}} {HAND_ON} {REFILL} {{late}} {RESULT}",
        "TK309",
        "cp.async.bulk.shared",
        bad={"late": OVER},
        good={"wait": OVER},
    ),
    gemm(
        "PIP-7 the wait leaves out the product that reads the stage",
        f"{ARRIVE} {TIMES} {TIMES} {{wait}} {HAND_ON} {REFILL} {OVER} {RESULT}",
        "TK309",
        "cp.async.bulk.shared",
        bad={"wait": "wgmma.wait_group.sync.aligned 1;"},
        good={"wait": OVER},
    ),
    *(
        Twin(
            f"MBR-8 a ring of one stage with the wrong parity, {trips} turns",
            RING.replace("{trips}", str(trips)),
            "TK314",
            "try_wait",
            {"parity": "0"},
            {"parity": "1"},
        )
        for trips in (1, 2, 3)
    ),
    *(
        Twin(
            f"PRX-5 threads write {size} bytes, one stores them through the copy engine",
            f"{HEAD} setp.lt.u32 q, t, {size // 16}; @q st.shared.v4.u32 [mine], {{t, t, t, t}}; {{fence}} bar.sync 0;"
            f" @!first bra E; {STORE.replace('1024', str(size))} {END} E: ret;",
            "TK302",
            "cp.async.bulk.global",
            good={"fence": FENCE},
            block=256,
        )
        for size in (128, 4096)
    ),
    Twin(
        "CVG-1 a named barrier stands in both arms of a branch that divides a warp",
        f"{HEAD} setp.lt.u32 q, t, 16; {{sync}} @q bra A; {{one}} bra E; A: {{two}} E: ret;",
        "TK316",
        "bar.sync",
        {"one": "bar.sync 14, 64;", "two": "bar.sync 14, 64;"},
        {"sync": "bar.sync 14, 64;"},
    ),
    Twin(
        "CVG-1 a warp arrives twice, a part at a time",
        f"{HEAD} setp.lt.u32 q, t, 32; @!q bra W; setp.lt.u32 p, t, 7; {{both}} @p bra A; {{one}} bra E; A: {{two}}"
        f" bra E; W: bar.sync 3, 64; E: ret;",
        "TK316",
        "bar.arrive",
        {"one": "bar.arrive 3, 64;", "two": "bar.arrive 3, 64;"},
        {"both": "bar.arrive 3, 64;"},
    ),
    Twin(
        "CVG-5 a warp skips a barrier of two",
        f"{HEAD} setp.lt.u32 q, t, 32; {{guard}} bar.sync 1, 64; E: ret;",
        "TK314",
        "bar.sync",
        {"guard": "@q bra E;"},
    ),
    Twin(
        "CVG-3 the leader that arrives is a warp that the role does not have",
        f"{HEAD}{init()} setp.ge.u32 q, t, 32; @!q bra E; setp.eq.u32 p, t, {{leader}};"
        f" @p mbarrier.arrive.shared::cta.b64 _, [f]; {wait('f', 0)} E: ret;",
        "TK314",
        "try_wait",
        {"leader": "0"},
        {"leader": "32"},
    ),
    Twin(
        "CTA2-9 a kernel that takes itself for rank 0 runs in a cluster",
        f"{HEAD}{RANK}{init()} @first fence.mbarrier_init.release.cluster; {CLUSTER} {MAPPED} {wait('f', 0, '.acquire.cluster')}"
        f" {CLUSTER} ret;",
        "TK314",
        "try_wait|barrier.cluster.wait",
        {"rank": "0"},
        {"rank": "rank"},
        cluster=2,
    ),
    pair(
        "CTA2-3 a product of one CTA in a kernel of pairs",
        (
            f"tcgen05.mma.cta_group::2.kind::f16 [tm], %d4, %d4, {WORD}",
            f"tcgen05.mma.cta_group::1.kind::f16 [tm], %d4, %d4, {ONE}",
        ),
        "TK310",
        "tcgen05.mma",
    ),
    pair(
        "CTA2-3 a commit for one CTA after a product of the pair",
        (
            COMMIT.replace("{bar}", "f"),
            "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [f];",
        ),
        "TK310",
        "tcgen05.commit",
    ),
    pair(
        "CTA2-7 the commit tells one CTA of the pair alone",
        (
            COMMIT.replace("{bar}", "f"),
            "tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.b64 [f];",
        ),
        "TK314",
        "try_wait",
    ),
    pair(
        "CTA2-7 both CTAs issue the product of the pair",
        ("@!issue bra N;", "@!q bra N;"),
        "TK301|TK310",
        "tcgen05",
    ),
    pair(
        "CTA2-7 the descriptor has the rows of one CTA",
        (str(WORD), str(WORD ^ (256 >> 4) << 24 ^ (64 >> 4) << 24)),
        "TK323",
        "tcgen05.mma",
    ),
    tensor(
        "TMM-11 rows of an accumulator of 64 are looked for in all lanes",
        f"{TENSOR} @!q bra N; {MMA.replace(str(ONE), str(WORD_64))} {commit('f')} N: {wait('f', 0)} {LD} {WLD}"
        f" and.b32 %r3, t, 31; setp.ge.u32 q, %r3, {{rows}}; @q bra X; {OUT} X: bar.sync 0; {FREED}",
        "TK320",
        "st.global",
        bad={"rows": "32"},
        good={"rows": "16"},
    ),
    tensor(
        "TMM-5 more columns than there are",
        f"{HEAD} .shared .align 8 .b32 slot[2]; .reg .b32 s, tm; mov.u32 s, slot; setp.eq.u32 q, w, 0; @!q bra E;"
        f" tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [s], 512; ld.shared.b32 tm, [s]; {{more}}"
        f" tcgen05.dealloc.cta_group::1.sync.aligned.b32 tm, 512; E: ret;",
        "TK314",
        "tcgen05.alloc",
        bad={"more": "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [s+4], 128;"},
    ),
    Twin(
        "TMA-5 a bulk copy of 20 bytes, in a register",
        f"{HEAD}{init()} @!first bra E; mov.u32 %r5, {{size}}; mbarrier.arrive.expect_tx.shared::cta.b64 _, [f], %r5;"
        f" cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [at], [%d0], %r5, [f]; {wait('f', 0)} E: ret;",
        "TK322",
        "cp.async.bulk",
        {"size": "20"},
        {"size": "32"},
    ),
    Twin(
        "TMA-7 a bulk copy to a place 4 bytes on",
        f"{HEAD}{init()} @!first bra E; add.u32 at, at, {{by}}; {LOAD} {wait('f', 0)} E: ret;",
        "TK322",
        "cp.async.bulk",
        {"by": "4"},
        {"by": "16"},
    ),
    Twin(
        "TMA-9 a bulk copy from a misaligned base",
        f"{HEAD}{init()} @!first bra E; add.u64 %d0, %d0, {{by}}; {LOAD} {wait('f', 0)} E: ret;",
        "TK322",
        "cp.async.bulk",
        {"by": "8"},
        {"by": "16"},
    ),
    Twin(
        "BSC-3 a padded scale that nobody has written is multiplied",
        f"{HEAD} mov.f32 %f1, 0f3f800000; setp.lt.u32 q, t, 60; {{all}} st.shared.f32 [mine], %f1;"
        f" ld.shared.f32 %f2, [mine]; mul.f32 %f3, %f1, %f2; {NEXT} st.global.f32 [%d5], %f3; ret;",
        "TK320",
        "st.global",
        {"all": "@q"},
    ),
)


test_the_bad_form_is_found, test_the_mended_form_is_silent = both_asked_of(TWINS)


# LCH-1: the grid ahead may still run

READS = f"{HEAD}{init()} {{early}} mad.wide.u32 %d2, t, 4, %d0; {{before}} ld.global.u32 %r1, [%d2]; {NEXT} st.global.u32 [%d5], %r1; ret;"
COPIES = (
    f"{HEAD}{init()} setp.eq.u32 q, t, 32; {{other}} @!first bra N; {{own}} {LOAD} N: {wait('f', 0)}"
    f" {{then}} {NEXT} ld.shared.u32 %r1, [mine]; st.global.u32 [%d5], %r1; ret;"
)
GRIDS = "griddepcontrol.wait;"
EXPECT = "mbarrier.arrive.expect_tx.shared::cta.b64 _, [f], 1024;"
APART = (f"@!first bra N; {GRIDS} {EXPECT}", f"@q {EXPECT} @!first bra N; {GRIDS}")
"""Another thread than the one that copies arrives and expects the bytes."""


def dependent(body: str, dependent: bool = True) -> Report:
    data = np.arange(512, dtype=np.uint32)
    return launch(
        body, data, np.zeros(64, np.uint32), block=64, target="sm_90a", dependent=dependent
    )


def with_(body: str, **parts: str) -> str:
    for name in ("early", "before", "other", "own", "then"):
        body = body.replace("{" + name + "}", parts.get(name, ""))
    return body


def test_LCH_1_whoever_touches_global_memory_knows_that_the_grid_ahead_is_over() -> None:
    for good in (
        with_(READS, early=GRIDS),
        with_(READS, early=f"@first {GRIDS} bar.sync 0;"),
        with_(COPIES, own=GRIDS, then=GRIDS),
        with_(COPIES, own=GRIDS),  # the arrival that expects the bytes tells it
    ):
        assert not dependent(good).findings
    for bad in (
        with_(READS),
        with_(READS, before=f"@first {GRIDS}"),  # the others have not waited
        with_(READS, before="griddepcontrol.launch_dependents;"),
        with_(COPIES, own=GRIDS).replace(*APART),  # the bytes of a copy tell nobody
        with_(COPIES, other=f"@q {GRIDS}", then=GRIDS),  # another thread than the one that copies
    ):
        report = dependent(bad)
        assert {f.code for f in report.findings} == {"TK318"}, "\n".join(map(str, report.findings))
        assert not dependent(bad, False).findings


# NUM-9: an operand that a factor of 0 leaves out is not read

BETA = (
    f"{HEAD} {NEXT} mov.f32 %f2, 0f00000000; mov.f32 %f1, %f2; setp.eq.f32 q, %f2, 0f00000000; {{guard}} ld.global.f32"
    " %f1, [%d5]; fma.rn.f32 %f3, %f1, %f2, %f2; st.global.f32 [%d5], %f3; ret;"
)


def test_NUM_9_an_output_that_a_factor_of_0_leaves_out_is_not_read() -> None:
    def report(guard: str) -> list[str]:
        out = Poisoned(np.full(64, np.nan, np.float32))
        made = launch(BETA.replace("{guard}", guard), np.zeros(1, np.float32), out, block=64)
        return [f.code for f in made.findings]

    assert report("") == ["TK320"]
    assert report("@!q") == []


# PRX-7, PRX-9: maps that are published again, by the thread that used them and across a cluster

PUBLISH = "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [map], [c], 128;"
GET = "fence.proxy.tensormap::generic.acquire.gpu [map], 128;"
USE = (
    "mbarrier.arrive.expect_tx.shared::cta.b64 _, [f], 512;"
    " cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes [at], [map, {w}], [f];"
)
MAPS = f"""
    {HEAD} {RANK} {FAR} .reg .b64 map; .shared .align 128 .b8 copy[128]; .reg .b32 c; mov.u32 c, copy;
    add.u64 map, %d2, 0; {init()} setp.lt.u32 q, t, 32; @!q bra N; setp.eq.u32 p, rank, 0; @!p bra N;
    {{{{ .reg .b32 i; .reg .b64 g; mad.lo.u32 i, t, 4, c; mad.wide.u32 g, t, 4, %d1;
    ld.global.u32 %r1, [g]; st.shared.u32 [i], %r1; }}}}
    bar.warp.sync -1; {PUBLISH} N: {CLUSTER}
    @!first bra M; {{acquire}} {USE} {wait("f", 0)} M: {{sync}}
    setp.lt.u32 q, t, 32; @!q bra E; setp.eq.u32 p, rank, 0; @!p bra E; {{again}}
E:  {CLUSTER} ret;
"""


def maps(schedule: str, **parts: str) -> Report:
    data = np.arange(256, dtype=np.float32)
    made = TensorMap(data, dtype="f32", sizes=[256], strides=[], box=[128])
    body = MAPS.replace("{{", "{").replace("}}", "}")
    for name in ("acquire", "sync", "again"):
        body = body.replace("{" + name + "}", parts.get(name, ""))
    image = np.zeros(32, np.uint32)
    return launch(
        body, data, made, image, block=64, cluster=2, grid=2, target="sm_90a", schedule=schedule
    )


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_PRX_9_a_map_is_published_again_when_no_copy_of_the_cluster_uses_it(schedule: str) -> None:
    def codes(**parts: str) -> set[str]:
        return {f.code for f in maps(schedule, acquire=GET, **parts).findings}

    assert codes(sync=CLUSTER, again=PUBLISH) == set()
    assert "TK317" in codes(again=PUBLISH)


ALONE = f"""
    {HEAD} .reg .b64 map; .shared .align 128 .b8 copy[128]; .reg .b32 c; mov.u32 c, copy; add.u64 map, %d2, 0; {init()}
    {{{{ .reg .b32 i; .reg .b64 g; mad.lo.u32 i, t, 4, c; mad.wide.u32 g, t, 4, %d1;
    ld.global.u32 %r1, [g]; st.shared.u32 [i], %r1; }}}}
    bar.warp.sync -1; @first tensormap.replace.tile.global_address.shared::cta.b1024.b64 [c], %d0; {{met}}
    {PUBLISH} {GET} @!first bra E; {USE} {wait("f", 0)}
E:  ret;
"""
"""One warp edits a map, publishes it and copies through it, as the manual's example does."""


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_the_copy_of_a_map_is_one_operation_of_its_warp(schedule: str) -> None:
    """Its threads have awaited it; what they wrote into the shared map before still needs a barrier of the warp."""

    def codes(met: str) -> set[str]:
        data = np.arange(256, dtype=np.float32)
        made = TensorMap(data, dtype="f32", sizes=[256], strides=[], box=[128])
        body = ALONE.replace("{{", "{").replace("}}", "}").replace("{met}", met)
        out = np.zeros(32, np.uint32)
        report = launch(body, data, made, out, block=32, target="sm_90a", schedule=schedule)
        return {f.code for f in report.findings}

    assert codes("bar.warp.sync -1;") == set()
    assert codes("") == {"TK301"}
