"""Grouped GEMMs of separate block-scaled arrays whose rows the device counts: every group, to the row, against float64."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from emulator.test_block_scaled import BF16, RNG, Array, operand
from programs import changed

import tkc
from tkc import scales
from tkc.analysis.order import diagnose
from tkc.diagnostics import TkcError
from tkc.driver import run, to_module
from tkc.emulator import Poisoned
from tkc.job import Job

TEXT = (Path(__file__).parents[2] / "examples" / "gemm_nvfp4_grouped.tk").read_text(
    encoding="utf-8"
)
NVFP4, MXFP8 = ("e2m1", "ue4m3", 16), ("e4m3", "ue8m0", 32)
NAN = {"ue4m3": 0x7F, "ue8m0": 0xFF}

PAIR = [("launch persistent", "launch persistent, pair"), ("BM = 128", "BM = 256")]
MX = [*[("e2m1", "e4m3")] * 4, *[("ue4m3 / 16", "ue8m0 / 32")] * 4, ("BK = 256", "BK = 128")]
APART = [
    ("    accum  d", "    accum  sa: scales[ue4m3 / 16, BM, BK] * 2\n    accum  sb: scales[ue4m3 / 16, BN, BK] * 2\n    accum  d"),
    ("inputs(a, b): load -> math", "inputs(a, b): load -> load, math\n    pipe factors(sa, sb): load -> math"),
    ("b <- B[g][n, k]\n", "b <- B[g][n, k]\n                get inputs, put factors:\n"
     "                    sa <- a.scales\n                    sb <- b.scales\n"),
    ("get inputs:", "get inputs, factors:"),
    ("a @ b.T", "a.scaled(sa) @ b.scaled(sb).T"),
]  # fmt: skip
FORMS: dict[str, tuple[list[tuple[str, str]], tuple[str, str, int], str, str]] = {
    "nvfp4": ([], NVFP4, "e2m1", "sm_100a"),
    "nvfp4 in pairs": (PAIR, NVFP4, "e2m1", "sm_100a"),
    "nvfp4 in pairs, copies by the loader": ([*PAIR, *APART], NVFP4, "e2m1", "sm_100a"),
    "nvfp4 for sm_103a": ([("BK = 256", "BK = 384")], NVFP4, "e2m1", "sm_103a"),
    "mxfp8 with mxfp4": (
        [*MX, ("B: list[G, global[e4m3", "B: list[G, global[e2m1"), ("shared b: tile[e4m3", "shared b: tile[e2m1")],
        MXFP8, "e2m1", "sm_100a",
    ),
    "mxfp8 in a cluster": (
        [*MX, ("launch persistent", "launch persistent, cluster(2), dependent"), ("group = 8", "group = 8, across = m")],
        MXFP8, "e4m3", "sm_100a",
    ),
}  # fmt: skip


def arrays(
    rows: int, room: int, k: int, form: tuple[str, str, int]
) -> tuple[tuple[Array, Array], Array]:
    """Data and scales with `room` rows more, whose scales are NaN; the values of the others."""
    a = operand(rows + room, k, *form)
    count = -(-k // form[2])
    codes = scales.row_major(a.pair[1], rows + room, count).copy()
    codes[rows:] = NAN[form[1]]
    return (a.pair[0], scales.interleave(codes, form[1])), a.real[:rows]


@pytest.mark.parametrize("name", FORMS)
def test_each_group_to_the_row(name: str) -> None:
    changes, form, other, target = FORMS[name]
    kernel = tkc.compile(changed(TEXT, *changes), target=target, params={"STAGES": 2})
    rows, rooms, n, k = [300, 0, 7, 256], [5, 130, 121, 0], 136, 576 if form is NVFP4 else 384
    alpha = RNG.uniform(0.5, 2, 4).astype(np.float32)
    given = [arrays(r, room, k, form) for r, room in zip(rows, rooms, strict=True)]
    b = [operand(n, k, other, *form[1:]) for _ in rows]
    c = [np.full((r + room, n), np.nan, BF16) for r, room in zip(rows, rooms, strict=True)]
    seed = int(RNG.integers(1 << 30))
    report = kernel.emulate(
        np.array(rows, np.int32), alpha, [pair for pair, _ in given], [x.pair for x in b],
        [Poisoned(x) for x in c], sm_count=4, schedule="random", seed=seed,
    )  # fmt: skip
    assert not report.findings, report.findings[0]
    for i, r in enumerate(rows):
        exact = given[i][1] @ b[i].real.T * alpha[i]
        assert np.linalg.norm(c[i][:r].astype(np.float64) - exact) <= 3e-3 * np.linalg.norm(
            exact
        ), seed
        assert np.isnan(c[i][r:].astype(np.float64)).all()


def test_nothing_is_out_of_order_and_copies_join_the_products() -> None:
    text = changed(TEXT, *PAIR, *APART)
    assert not list(diagnose(to_module(Job(text, "k.tk", "sm_100a"), after="insert-fences")))
    told = [d.message for d in run(Job(text, "k.tk", "sm_100a")).diagnostics if d.code == "TK222"]
    assert told[-1].endswith("is gone with its 4 barriers, and so is role load_scales")


def test_what_the_launch_says_of_scales() -> None:
    kernel = tkc.compile(TEXT)
    rows, alpha = np.array([130, 1], np.int32), np.ones(2, np.float32)
    a, b = ([operand(n, 64, *NVFP4).pair for n in count] for count in ((130, 1), (8, 8)))
    c = [np.zeros((n, 8), BF16) for n in (130, 1)]
    apart = [[x[i] for x in a] for i in (0, 1)]
    for wrong, why in (
        (
            [(a[0][0], a[0][1][:-512]), a[1]],
            r"A.scales\[0\] holds 512 scales; A\[0\] has 130 rows of 4 \(64 elements",
        ),
        ([a[0], (a[1][0], np.concatenate([a[1][1]] * 2))], r"padded to 128 x 4 = 512"),
        ([(*a[0], 1), a[1]], "expected its data and its scales, interleaved, found 3 values"),
    ):
        with pytest.raises(TkcError, match=why):
            kernel.emulate(rows, alpha, wrong, b, c)
    with pytest.raises(TkcError, match=r"axis 0 of A\.scales has 1 elements; expected G = 2"):
        kernel.emulate(rows, alpha, apart[0], apart[1][:1], b, c)
    assert not kernel.emulate(rows, alpha, apart[0], apart[1], b, c, sm_count=1).findings
    with pytest.raises(
        TkcError, match="products of block-scaled tiles need tcgen05; sm_90a has none"
    ):
        tkc.compile(TEXT, target="sm_90a")
    with pytest.raises(TkcError, match=r"`read\(alpha\[...\]\)` is its value"):
        tkc.compile(changed(TEXT, ("read(alpha[g])", "alpha[g]")))
