"""Bugs of operands, scales, conversions and numbers that users met, as PTX: wrong and mended.

What shows in values alone has no finding: there the bad form gives another result than the mended one. The names are
those of the collected cases; `test_every_row.py` says where each is.
"""

from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from emulator.kernels import launch
from emulator.races.test_bugs import ARRIVE, GEMM, OVER, RESULT, TIMES, gemm, tensor
from emulator.races.test_clusters import FAR, RANK
from emulator.races.test_pairs import (
    COMMIT,
    FENCE,
    FILL,
    FREE,
    LD,
    OUT,
    START,
    SYNC,
    WIDE,
)
from emulator.races.test_tensor import FREE as FREED
from emulator.races.test_tensor import MMA, commit
from emulator.races.test_tensor import START as TENSOR
from emulator.races.twins import HEAD, SCHEDULES, Twin, both_asked_of, init, wait

from tkc import TkcError
from tkc.emulator import Report, TensorMap

Array = np.ndarray[Any, Any]

SPILL = ".local .align 16 .b8 spill[16]; .reg .b32 sp; mov.u32 sp, spill;"
AWAY, BACK = "st.local.f32 [sp], %f0;", "ld.local.f32 %f0, [sp];"
UNSET = re.sub(r"mov\.f32 %f\d, \S+;", "", GEMM)
"""The start of a product whose accumulators nobody sets."""
SKIPPING = f"""
    {HEAD} .reg .b32 k, x; mov.u32 k, 0;
L:  add.u32 x, t, k; and.b32 x, x, 1; setp.eq.u32 q, x, 0; {{skip}} st.shared.u32 [mine], x;
S:  bar.sync 0;
D:  add.u32 k, k, 1; setp.lt.u32 p, k, 3; @p bra L;
    bar.sync 0; ret;
"""
"""Three turns of a loop, in each of which half of the lanes have nothing to do."""

COPY = "tcgen05.cp.cta_group::2.32x128b.warpx4 [%r6], %d6;"
SCALED = f"""
    {START} {FILL} {{other}} st.shared.v4.u32 [mine+4096], {{t, t, t, t}}; {FENCE}
    add.u32 %r2, at, 4096; shr.u32 %r2, %r2, 4; cvt.u64.u32 %d6, %r2; or.b64 %d6, %d6, {1 << 46 | 8 << 32 | 8 << 16};
    add.u32 %r6, tm, 32; {SYNC}
    {{who}} {{copy}} {COMMIT.replace("{bar}", "f")}
N:  {wait("f", 0, WIDE)} add.u32 row, row, 32; {LD} {OUT} {FREE}
"""
"""Scales are copied into the tensor memory of the pair, and read there in both CTAs."""

SIGNAL = f"""
    {HEAD}{RANK}{FAR} {init()} @first fence.mbarrier_init.release.cluster; {SYNC}
    .reg .b32 lead; mapa.shared::cluster.u32 lead, f, 0; mapa.shared::cluster.u32 o, at, rank;
    mapa.shared::cluster.u32 farf, f, rank; @!first bra E;
    @q mbarrier.arrive.expect_tx.shared::cta.b64 _, [f], 1024;
    cp.async.bulk.tensor.1d.cta_group::2.shared::cluster.global.mbarrier::complete_tx::bytes [o], [%d2, {{w}}], [{{bar}}];
    @!q bra E; {wait("f", 0, WIDE)} E: {SYNC} ret;
"""
"""Each CTA loads 512 bytes, and its leader waits for the bytes of both."""

PAIRED = (
    Twin(
        "BSC-9 only the leader of a pair has the scales of B, which its copy takes from both",
        SCALED.replace("{who}", "@!issue bra N;").replace("{copy}", COPY),
        "TK320",
        "st.global",
        {"other": "@lead"},
        block=128,
        cluster=2,
        target="sm_100a",
    ),
    Twin(
        "CTA2-7 both CTAs issue the copy of the scales",
        SCALED.replace("{copy}", COPY).replace("{other}", ""),
        "TK301|TK310",
        "tcgen05",
        {"who": "@!q bra N;"},
        {"who": "@!issue bra N;"},
        block=128,
        cluster=2,
        target="sm_100a",
    ),
    Twin(
        "CTA2-7 an arrival goes to an address of its own CTA instead of the leader's",
        f"{HEAD}{RANK}{FAR} {init(f=2)} @first fence.mbarrier_init.release.cluster; {SYNC} .reg .b32 lead;"
        f" mapa.shared::cluster.u32 lead, f, 0; @first mbarrier.arrive.release.cluster.shared::cluster.b64 _, [{{bar}}];"
        f" @!q bra E; {wait('f', 0, WIDE)} E: {SYNC} ret;",
        "TK314",
        "try_wait|barrier.cluster.wait",
        {"bar": "f"},
        {"bar": "lead"},
        cluster=2,
    ),
)

TWINS = (
    *PAIRED,
    gemm(
        "WGM-5 an accumulator is spilled between a product and its wait",
        f"{SPILL} {ARRIVE} {TIMES} {{early}} {OVER} {{late}} {BACK} {RESULT}",
        "TK319",
        "st.local",
        bad={"early": AWAY},
        good={"late": AWAY},
    ),
    Twin(
        "WGM-3 the first product has no wgmma.fence, though nothing has touched its registers",
        f"{UNSET} {{fence}} {TIMES.replace('%d4, %d4, 1,', '%d4, %d4, 0,')} {OVER} {RESULT}",
        "TK319",
        "wgmma.mma_async",
        good={"fence": ARRIVE},
        block=128,
    ),
    gemm(
        "WGM-3 a wait for no group stands between setting accumulators and the first product",
        f"{OVER} {{fence}} {TIMES} {OVER} {RESULT}",
        "TK319",
        "wgmma.mma_async",
        good={"fence": ARRIVE},
    ),
    tensor(
        "TMM-7 a second value shares the columns of an accumulator under way",
        f"{TENSOR} @!q bra N; {MMA} {commit('f')} N: add.u32 row, row, {{column}};"
        " tcgen05.st.sync.aligned.32x32b.x4.b32 [row], {t, t, t, t}; tcgen05.wait::st.sync.aligned;"
        f" {wait('f', 0)} bar.sync 0; {FREED}",
        "TK301|TK312",
        "tcgen05",
        bad={"column": "8"},
        good={"column": "16"},
    ),
    Twin(
        "CVG-5 lanes go on to the next turn of a loop, past its barrier",
        SKIPPING,
        "TK316|TK314",
        "bar.sync",
        {"skip": "@q bra D;"},
        {"skip": "@q bra S;"},
    ),
)


test_the_bad_form_is_found, test_the_mended_form_is_silent = both_asked_of(TWINS)


def codes(report: Report) -> set[str]:
    return {f.code for f in report.findings}


# Copies


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_CTA2_7_a_load_of_a_pair_signals_the_mbarrier_of_its_leader(schedule: str) -> None:
    def report(bar: str) -> Report:
        data = np.arange(128, dtype=np.float32)
        made = TensorMap(data, dtype="f32", sizes=[128], strides=[], box=[128])
        body = SIGNAL.replace("{bar}", bar)
        out = np.zeros(4, np.uint32)
        options = {"cluster": 2, "grid": 2, "target": "sm_100a", "schedule": schedule}
        return launch(body, out, out.copy(), made, block=64, **options)

    assert codes(report("lead")) == set()
    assert "TK314" in codes(report("farf"))


EDITED = f"""
    {HEAD} .reg .b64 map, stride; .shared .align 128 .b8 copy[128]; .reg .b32 c, box; mov.u32 c, copy;
    add.u64 map, %d2, 0; {init()} mov.u64 stride, {{stride}}; mov.u32 box, {{box}};
    {{{{ .reg .b32 i; .reg .b64 g; mad.lo.u32 i, t, 4, c; mad.wide.u32 g, t, 4, map;
    ld.global.u32 %r1, [g]; st.shared.u32 [i], %r1; }}}} bar.warp.sync -1;
    @first tensormap.replace.tile.global_stride.shared::cta.b1024.b64 [c], 0, stride;
    @first tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [c], 0, box; bar.warp.sync -1;
    tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [map], [c], 128;
    fence.proxy.tensormap::generic.acquire.gpu [map], 128;
    @!first bra E; shl.b32 %r3, box, 2; mul.lo.u32 %r3, %r3, 2;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [f], %r3;
    cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [at], [map, {{{{w, w}}}}], [f];
    {wait("f", 0)} E: ret;
"""
"""A warp edits a copy of a map over rows of bf16, publishes it, and copies four rows of a box through it."""


@pytest.mark.parametrize(
    ("stride", "box", "found"),
    [
        (1024, 64, set()),
        (1022, 64, {"TK323"}),  # TMA-1: rows of 511 elements
        (1024, 256, set()),
        (1024, 512, {"TK323"}),  # TMA-3: (2, 256) merged into one axis
    ],
)
def test_TMA_1_TMA_3_maps_are_made_on_the_device(stride: int, box: int, found: set[str]) -> None:
    data = np.zeros((64, 512), ml_dtypes.bfloat16)
    made = TensorMap(data, dtype="bf16", sizes=[512, 64], strides=[1024], box=[64, 4])
    body = EDITED.replace("{{", "{").replace("}}", "}")
    body = body.replace("{stride}", str(stride)).replace("{box}", str(box))
    report = launch(body, data, np.zeros(4, np.uint32), made, block=32, target="sm_90a")
    assert codes(report) == found
    if found:
        assert "no copy can use" in report.faults[0].message


FLUSH = GEMM.replace("mov.u32 at, tile;", "mov.u32 at, tail;")


def test_FP_9_an_operand_may_end_where_shared_memory_ends() -> None:
    """64 x 16 halves are 2048 bytes: flush against the end they pass, 16 bytes on they do not."""

    def report(by: int) -> Report:
        words = f"add.u32 %r2, at, {by}; shr.u32 %r2, %r2, 4;"
        body = FLUSH.replace("shr.u32 %r2, at, 4;", words).replace("[mine+2048]", "[mine]")
        assert words in body
        out = np.zeros(512, np.float32)
        return launch(
            f"{body} {ARRIVE} {TIMES} {OVER} {RESULT}",
            out.copy(),
            out,
            block=128,
            shared=2048,
            target="sm_90a",
            module=".extern .shared .align 1024 .b8 tail[];",
        )

    assert codes(report(0)) == set()
    assert codes(report(16)) == {"TK321"}


ATOMS = f"""
    {HEAD}{init()} @!first bra E; mbarrier.arrive.expect_tx.shared::cta.b64 _, [f], 2048;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [at], [%d0], 2048, [f]; {wait("f", 0)} E: ret;
"""


def test_BSC_1_scales_are_allocated_in_whole_tiles() -> None:
    """Of 130 rows with 6 scales each a kernel reads 256 x 8."""
    whole, reshaped = np.zeros(256 * 8, np.uint8), np.zeros(130 * 6, np.uint8)
    assert codes(launch(ATOMS, whole, whole.copy(), block=32, target="sm_100a")) == set()
    assert codes(launch(ATOMS, reshaped, whole, block=32, target="sm_100a")) == {"TK321"}


ROWS = "mad.lo.u32 %r2, t, {pitch}, 0; cvt.u64.u32 %d5, %r2; add.u64 %d5, %d5, %d0; ld.global.u32 %r1, [%d5]; ret;"


def test_BSC_5_rows_of_90_scales_are_padded() -> None:
    """K = 2880 has 90 blocks of 32: four scales at a time are misaligned in every other row, unless 92 are stored."""
    scales = np.zeros(64 * 92, np.uint8)
    for pitch, found in ((92, set()), (90, {"TK322"})):
        report = launch(HEAD + ROWS.replace("{pitch}", str(pitch)), scales, block=64)
        assert codes(report) == found


# Numbers: the bad form is silent, and wrong


def numbers(body: str, value: Array, out: Array, schedule: str = "eager", block: int = 64) -> Array:
    """What each of the threads stores of its value: a float in `%f0` at the start."""
    start = f"{HEAD} mad.wide.u32 %d5, t, 4, %d0; ld.global.f32 %f0, [%d5];"
    end = f"mad.wide.u32 %d6, t, {out.itemsize}, %d1;"
    report = launch(
        f"{start} {body.replace('{out}', end)} ret;", value, out, block=block, schedule=schedule
    )
    assert not report.findings, "\n".join(map(str, report.findings))
    return out


def test_BSC_7_the_rest_of_k_is_not_dropped() -> None:
    """96 = 64 + 32 of K in steps of 64 are two turns, the second half of zeros: a floor makes one turn."""
    rng = np.random.default_rng()
    x = rng.uniform(0.5, 1, (96,)).astype(np.float32)

    def total(turns: int) -> float:
        body = (
            "mov.f32 %f1, 0f00000000; mov.u32 %r1, 0; mov.u32 %r2, t; C: setp.lt.u32 q, %r2, 96; mov.f32 %f2, 0f00000000;"
            " mad.wide.u32 %d5, %r2, 4, %d0; @q ld.global.f32 %f2, [%d5]; add.f32 %f1, %f1, %f2; add.u32 %r2, %r2, 64;"
            f" add.u32 %r1, %r1, 1; setp.lt.u32 p, %r1, {turns}; @p bra C; {{out}} st.global.f32 [%d6], %f1;"
        )
        return float(numbers(body, x, np.zeros(64, np.float32)).sum(dtype=np.float64))

    exact = float(x.sum(dtype=np.float64))
    assert abs(total(2) - exact) < 1e-4 * exact
    assert abs(total(1) - exact) > 0.1 * exact


NARROW = "mov.f32 %f1, 0f00000000; cvt.rn{sat}.e4m3x2.f32 %h1, %f1, %f0; {out} cvt.u32.u16 %r1, %h1; st.global.u32 [%d6], %r1;"


def test_NUM_1_e4m3_is_made_with_satfinite_alone() -> None:
    """Reference libraries make NaN of 465 and more; PTX has the saturating form only, and so has the emulator."""
    values = np.resize(np.array([448, 464, 465, 1000, np.inf, np.nan], np.float32), 64)
    found = numbers(NARROW.replace("{sat}", ".satfinite"), values, np.zeros(64, np.uint32))
    assert found[:6].tolist() == [0x7E, 0x7E, 0x7E, 0x7E, 0x7E, 0x7F]
    with pytest.raises(TkcError) as refused:
        numbers(NARROW.replace("{sat}", ""), values, np.zeros(64, np.uint32))
    assert refused.value.diagnostics[0].code in ("TK416", "TK417")


def test_NUM_3_each_form_of_conversion_has_its_own_overflow() -> None:
    """70000 is infinity as f16, the largest number as f16 with .satfinite and as e5m2."""
    value = np.full(64, 70000, np.float32)

    def made(text: str) -> int:
        body = f"{text} {{out}} cvt.u32.u16 %r1, %h1; st.global.u32 [%d6], %r1;"
        return int(numbers(body, value, np.zeros(64, np.uint32))[0])

    assert made("cvt.rn.f16.f32 %h1, %f0;") == 0x7C00
    assert made("cvt.rn.satfinite.f16.f32 %h1, %f0;") == 0x7BFF
    assert made("cvt.rn.satfinite.e5m2x2.f32 %h1, %f0, %f0;") == 0x7B7B


SCALE = """
    mov.f32 %f1, 0f3E2AAAAB; mul.f32 %f1, %f0, %f1; mov.f32 %f2, 0f00000000;
    cvt.rn.satfinite.e4m3x2.f32 %h1, %f2, %f1; cvt.rn.f16x2.e4m3x2 %r1, %h1; cvt.u16.u32 %h2, %r1; cvt.f32.f16 %f3, %h2;
    div.full.f32 %f4, %f0, %f3; {guard} abs.f32 %f4, %f4; cvt.rn.satfinite.e2m1x2.f32 %b, %f2, %f4;
    cvt.u32.u8 %r2, %b; shl.b32 %r2, %r2, 8; cvt.u32.u16 %r3, %h1; or.b32 %r2, %r2, %r3; {out} st.global.u32 [%d6], %r2;
"""


def test_NUM_5_a_block_of_zeros_has_no_data() -> None:
    """Scale = amax / 6, rounded to e4m3 and at most 448; of zeros 0 / 0 would become the largest e2m1."""
    amax = np.resize(np.array([0, 6, 2688, 1e6], np.float32), 64)
    body = ".reg .b8 %b; " + SCALE
    good = body.replace("{guard}", "setp.eq.f32 q, %f3, 0f00000000; @q mov.f32 %f4, 0f00000000;")
    found = numbers(good, amax, np.zeros(64, np.uint32))
    assert [int(x) & 0xFF for x in found[:4]] == [0, 0x38, 0x7E, 0x7E]
    assert [int(x) >> 8 for x in found[:4]] == [0, 7, 7, 7]
    assert int(numbers(body.replace("{guard}", ""), amax, np.zeros(64, np.uint32))[0]) >> 8 == 7


ONLINE = """
    mov.f32 %f1, 0fFF800000; mov.f32 %f2, 0f00000000; mov.u32 %r1, 0;
C:  mad.lo.u32 %r2, t, 8, %r1; mad.wide.u32 %d5, %r2, 4, %d0; ld.global.f32 %f0, [%d5]; max.f32 %f3, %f1, %f0; {guard}
    sub.f32 %f4, %f1, %f5; ex2.approx.f32 %f4, %f4; sub.f32 %f6, %f0, %f5; ex2.approx.f32 %f6, %f6;
    fma.rn.f32 %f2, %f2, %f4, %f6; mov.f32 %f1, %f3; add.u32 %r1, %r1, 1; setp.lt.u32 p, %r1, 8; @p bra C;
    {out} st.global.f32 [%d6], %f2;
"""
"""Sums of powers of two, with a running maximum, of eight numbers a thread."""


@pytest.mark.parametrize("first", range(8))
def test_NUM_7_NUM_11_nothing_before_the_first_finite_number(first: int) -> None:
    """(-inf) - (-inf) is NaN: rows of nothing, and rows whose first finite number comes late."""
    x = np.full((64, 8), -np.inf, np.float32)
    x[1::2, first] = np.random.default_rng().uniform(-3, 3, 32)
    good = ONLINE.replace(
        "{guard}", "setp.eq.f32 q, %f3, 0fFF800000; selp.f32 %f5, 0f00000000, %f3, q;"
    )
    wanted = np.resize(np.array([0, 1], np.float32), 64)
    assert (numbers(good, x, np.zeros(64, np.float32)) == wanted).all()
    bad = numbers(ONLINE.replace("{guard}", "mov.f32 %f5, %f3;"), x, np.zeros(64, np.float32))
    assert np.isnan(bad[0::2]).all()
    assert np.isnan(bad[1::2]).all() == (first > 0)
