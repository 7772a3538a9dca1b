"""Copies of block scales that a program makes for a pair of CTAs by hand: right, refused where wrong, and moved."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from emulator.test_block_scaled import BF16, RNG, operand
from programs import changed

import tkc
from tkc.analysis.happens_before import check
from tkc.driver import run
from tkc.job import Job
from tkc.passes import pipeline

PLAIN = (Path(__file__).parents[2] / "examples" / "gemm_2cta_level2.tk").read_text(encoding="utf-8")
SCALES = ", scale = ue4m3 / 16]"
COPIES = """\
                        copy sa[slot] <- a[slot].scales, pair
                        copy sb[slot] <- b[slot].scales, pair
"""
FULL = "                    wait full[slot], phase, cluster\n"
FENCE = "                    fence tcgen05 after\n"
FAST = changed(
    PLAIN,
    ("global[bf16, M, K]", "global[e2m1, M, K" + SCALES),
    ("global[bf16, N, K]", "global[e2m1, N, K" + SCALES),
    ("BK = 64, STAGES = 4", "BK = 256, STAGES = 3"),
    ("tile[bf16, BM, BK]", "tile[e2m1, BM, BK" + SCALES),
    ("tile[bf16, BN // 2, BK]", "tile[e2m1, BN // 2, BK, scale = ue4m3 / 16, scale_rows = BN]"),
    (
        "accum  d: tile[f32, BM, BN] * 2\n",
        "accum  d: tile[f32, BM, BN]\n"
        "    accum  sa: scales[ue4m3 / 16, BM, BK] * STAGES\n"
        "    accum  sb: scales[ue4m3 / 16, BN, BK] * STAGES\n",
    ),
    *[("i == 2", "i == 1")] * 2,
    ("barrier done * 2", "barrier done * 1"),
    ("barrier drained * 2", "barrier drained * 1"),
    ("                        mma", COPIES + "                        mma"),
    ("a[slot] @ b[slot].T", "a[slot].scaled(sa[slot]) @ b[slot].scaled(sb[slot]).T"),
    (FULL + FENCE, FULL),
)
"""NVFP4 in the structure of the bf16 example."""

AWAIT = FULL + "                    wait spare[slot], phase ^ 1\n" + FENCE
MOVED = (
    AWAIT + "                    elect:\n" + COPIES + "                        commit ready[slot]\n"
)
BETWEEN = changed(
    FAST,
    (COPIES, ""),
    (FULL, "                    wait ready[slot], phase\n" + FENCE),
    ("commit empty[slot], multicast = 3\n", "commit empty[slot], multicast = 3\n                        commit spare[slot]\n"),
    ("    barrier done", "    barrier ready * STAGES, count = 1\n    barrier spare * STAGES, count = 1\n    barrier done"),
)  # fmt: skip
ROLE = """\
    role move:
        slot = 0
        phase = 0
        if rank == 0:
            for m, n in work:
                for k in blocks(K, BK):
"""
ON = """\
                    slot += 1
                    if slot == STAGES:
                        slot = 0
                        phase = phase ^ 1

"""
LOADED = "                    load b[slot] <- B[n.part(rank, 2), k], full[slot], at = 0\n"
LOADER = (LOADED, LOADED + "                if rank == 0:\n" + MOVED)
FORMS = {
    "move": changed(BETWEEN, ("    role math:\n", ROLE + MOVED + ON + "    role math:\n")),
    "load": changed(BETWEEN, LOADER),
}


def ptx(text: str) -> str:
    """Without the places in the source."""
    lines = tkc.compile(text).ptx.splitlines()
    return "\n".join(x for x in lines if not re.match(r"\s*\.(loc|file)", x))


def right(kernel: tkc.Kernel, m: int, n: int, k: int) -> None:
    a, b = (operand(rows, k, "e2m1", "ue4m3", 16) for rows in (m, n))
    c = np.full((m, n), np.nan, BF16)
    seed = int(RNG.integers(1 << 30))
    report = kernel.emulate(a.pair, b.pair, c, sm_count=4, schedule="random", seed=seed)
    assert not report.findings, report.findings[0]
    exact = a.real @ b.real.T
    assert np.linalg.norm(c.astype(np.float64) - exact) <= 3e-3 * np.linalg.norm(exact), seed


@pytest.mark.share(2)
@pytest.mark.parametrize(("m", "n", "k"), [(520, 264, 1056), (1, 8, 32)])
def test_products_with_the_scales_of_all_columns(m: int, n: int, k: int) -> None:
    kernel = tkc.compile(FAST)
    assert [f.message for f in check(kernel.module(after="insert-fences"))] == []
    assert set(re.findall(r"tcgen05\.(?:cp|mma)\S*(cta_group::\d)", kernel.ptx)) == {"cta_group::2"}
    right(kernel, m, n, k)


@pytest.mark.parametrize("role", FORMS)
def test_copies_of_the_leader_join_its_products(role: str) -> None:
    """From under a condition of their own, too, in a role that loads for both CTAs."""
    (told,) = [
        d.message for d in run(Job(FORMS[role], "k.tk", "sm_100a")).diagnostics if d.code == "TK222"
    ]
    gone = "ready and spare and role move" if role == "move" else "ready and spare"
    assert (
        told == f"copies of role {role} move to the products of role math: barriers {gone} are gone"
    )
    assert ptx(FORMS[role]) == ptx(FAST)
    apart = pipeline("sm_100a").replace("cothread-copies,", "")
    right(tkc.compile(FORMS[role], passes=apart), 264, 136, 544)


def test_copies_under_another_condition_stay() -> None:
    text = changed(
        FORMS["load"], ("                if rank == 0:\n                    wait full", "                if rank == 1:\n                    wait full")
    )  # fmt: skip
    (told,) = [
        d.message for d in run(Job(text, "k.tk", "sm_100a")).diagnostics if d.code == "TK222"
    ]
    assert told == (
        "copies of role load are not moved to the products: the loops or conditions round those of role load and the "
        "products of role math differ"
    )


WRONG = {
    "half of the scales": (
        [(", scale_rows = BN", ""), ("scales[ue4m3 / 16, BN, BK]", "scales[ue4m3 / 16, BN // 2, BK]")],
        "TK104",
        "each CTA of a pair multiplies by the scales of all 256 columns, and b has those of 128 rows: "
        "`tile[e2m1, 128, 256, scale = ue4m3 / 16, scale_rows = 256]`",
    ),
    "a third": ([("scale_rows = BN", "scale_rows = 384")], "TK104", "a tile of 128 rows has the scales of 384: expected 256"),
    "without scales": (
        [("tile[bf16, BM, WIDTH]", "tile[bf16, BM, WIDTH, scale_rows = 2 * BM]")], "TK106", "says `scale_rows` once"
    ),
    "a tensor's": (
        [("global[e2m1, N, K, scale", "global[e2m1, N, K, scale_rows = 2, scale")], "TK102", "a type has no `scale_rows"
    ),
    "the whole block": (
        [("B[n.part(rank, 2), k]", "B[n, k]"), ("blocks(N, BN)", "blocks(N, BN // 2)")],
        "TK104",
        "expected a part of a block of 256, as in `B[n.part(rank, 2), k]`",
    ),
    "no pair": (
        [(", not k.first, pair", ", not k.first"), ("d: tile[f32, BM, BN]", "d: tile[f32, BM, BN // 2]")],
        "TK104",
        "b has 128 rows and the scales of 256, which is for what each CTA has half of",
    ),
    "few columns": (
        [("sb: scales[ue4m3 / 16, BN, BK]", "sb: scales[ue4m3 / 16, BN // 2, BK]")],
        "TK104",
        "the scales of b are scales[ue4m3 / 16, 256, 256]",
    ),
    "mixed CTA groups": (
        [("copy sb[slot] <- b[slot].scales, pair", "copy sb[slot] <- b[slot].scales")], "TK106", "this is of one: `, pair` ends what is"
    ),
}  # fmt: skip


@pytest.mark.parametrize(("changes", "code", "why"), WRONG.values(), ids=WRONG)
def test_what_is_refused(changes: list[tuple[str, str]], code: str, why: str) -> None:
    with pytest.raises(tkc.TkcError) as raised:
        tkc.compile(changed(FAST, *changes))
    assert code in {d.code for d in raised.value.diagnostics}
    assert why in str(raised.value)


def test_copies_stay_where_the_order_of_accesses_is_not_known() -> None:
    """An argument says which phase a wait is for: then nothing is said of any access, and nothing may go."""
    text = changed(
        FORMS["move"],
        ("C: global[bf16, M, N]):", "C: global[bf16, M, N], first: i32):"),
        ("wait done[i], turn, cluster", "wait done[i], turn ^ first, cluster"),
    )
    (told,) = [
        d.message for d in run(Job(text, "k.tk", "sm_100a")).diagnostics if d.code == "TK222"
    ]
    assert told.startswith(
        "copies of role move are not moved to the products: the order of accesses is not known: "
    )
