"""Kernels that take over the items of units that have not started: right and without a finding, whoever gets what."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from programs import EXAMPLES, GEMM, changed
from rounding import allowed

import tkc
from tkc import scales

BF16 = ml_dtypes.bfloat16
RNG = np.random.default_rng()
Array = np.ndarray[Any, Any]

SMALL = {"BN": 32, "STAGES": 2}
ONE = changed(GEMM, ("launch persistent", "launch clc"))
FORMS = {
    "one CTA": ONE,
    "a cluster": changed(
        (EXAMPLES / "gemm_cluster.tk").read_text(), ("launch persistent", "launch clc")
    ),
    "a pair": changed((EXAMPLES / "gemm_2cta.tk").read_text(), ("launch persistent", "launch clc")),
    "pairs that share copies": changed(
        (EXAMPLES / "gemm_2cta.tk").read_text(),
        ("launch persistent, pair", "launch clc, pair, cluster(4)"),
        ("b <- B[n, k]", "b <- B[n, k], multicast"),
    ),
    "CTAs side by side": changed(ONE, ("launch clc", "launch clc, cluster(1, preferred = 4)")),
    "pairs side by side": changed(
        (EXAMPLES / "gemm_2cta.tk").read_text(),
        ("launch persistent, pair", "launch clc, pair, cluster(2, preferred = 4)"),
    ),
    "two pairs at least": changed(
        (EXAMPLES / "gemm_2cta.tk").read_text(),
        ("launch persistent, pair", "launch clc, pair, cluster(2, minimum = 4, preferred = 8)"),
    ),
}


def product(kernel: tkc.Kernel, m: int, n: int, k: int, schedule: str, seed: int) -> Any:
    """The report of a launch, whose result has been compared with float64."""
    a, b = (RNG.uniform(-1, 1, s).astype(BF16) for s in ((m, k), (n, k)))
    c = np.full((m, n), np.nan, BF16)
    report = kernel.emulate(a, b, c, schedule=schedule, seed=seed)
    exact = a.astype(np.float64) @ b.astype(np.float64).T
    error = np.linalg.norm(c.astype(np.float64) - exact)
    assert error <= allowed(exact, BF16, 3e-3), f"{schedule}, seed {seed}"
    return report


@cache
def compiled(form: str) -> tkc.Kernel:
    return tkc.compile(FORMS[form], target="sm_100a", params=SMALL)


@pytest.mark.parametrize("form", FORMS)
def test_every_item_is_done_once(form: str) -> None:
    """Chance decides who starts, which item is handed out, and when the hardware says no though there are more."""
    for schedule, sizes in (("random", (530, 72, 40)), ("lazy", (1, 8, 8))):
        seed = int(RNG.integers(1 << 30))
        report = product(compiled(form), *sizes, schedule, seed)
        assert not report.findings, f"seed {seed}: {report.findings[0]}"


@pytest.mark.soak
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("schedule", ["random", "pct"])
@pytest.mark.parametrize("stages", [1, 2, 3, 4])
def test_many_schedules(form: str, schedule: str, stages: int) -> None:
    kernel = tkc.compile(FORMS[form], target="sm_100a", params={"BN": 32, "STAGES": stages})
    for sizes in ((300, 264, 200), (1100, 72, 0), (1030, 200, 136)):
        seed = int(RNG.integers(1 << 30))
        report = product(kernel, *sizes, schedule, seed)
        assert not report.findings, f"seed {seed}: {report.findings[0]}"


def test_the_grid_is_one_unit_an_item() -> None:
    kernel = compiled("a pair")
    a, b, c = (np.zeros(s, BF16) for s in ((600, 8), (104, 8), (600, 104)))
    how = kernel.emulation(a, b, c)
    assert how is not None
    assert how["grid"] == (2 * 3 * 4, 1, 1)
    assert kernel.contract["cluster"] == {"size": [2, 1, 1], "preferred": None, "minimum": None}


def test_units_side_by_side_are_a_wish() -> None:
    """The hardware may make one cluster of several units; where the grid is no multiple of it nothing is asked."""
    kernel = compiled("pairs side by side")
    assert kernel.contract["cluster"] == {
        "size": [2, 1, 1], "preferred": [4, 1, 1], "minimum": [2, 1, 1],
    }  # fmt: skip
    assert ".reqnctapercluster" not in kernel.ptx
    for rows, preferred in ((256, False), (300, True)):
        arrays = (np.zeros(s, BF16) for s in ((rows, 8), (32, 8), (rows, 32)))
        how = kernel.emulation(*arrays)
        assert how is not None
        assert ("preferred" in how) is preferred


def test_clusters_have_a_least_size_where_it_divides_the_grid() -> None:
    kernel = compiled("two pairs at least")
    assert kernel.contract["cluster"] == {
        "size": [4, 1, 1], "preferred": [8, 1, 1], "minimum": [2, 1, 1],
    }  # fmt: skip
    assert ".maxclusterrank 8" in kernel.ptx
    for rows, least, preferred in ((256, 2, None), (500, 4, None), (900, 4, (8, 1, 1))):
        arrays = (np.zeros(s, BF16) for s in ((rows, 8), (32, 8), (rows, 32)))
        how = kernel.emulation(*arrays)
        assert how is not None
        assert (how["cluster"], how.get("preferred")) == ((least, 1, 1), preferred)


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
def test_several_units_lie_in_clusters_of_one_size(target: str) -> None:
    """The grid has whole clusters where there are items enough for all that are resident."""
    text = changed(GEMM, ("launch persistent", "launch persistent, cluster(1, minimum = 2)"))
    kernel = tkc.compile(text, target=target, params=SMALL)
    assert kernel.contract["cluster"] == {
        "size": [2, 1, 1],
        "preferred": None,
        "minimum": [1, 1, 1],
    }
    for m, ctas in ((1000, (6, 1, 1)), (300, (3, 1, 1))):
        arrays = (np.zeros(s, BF16) for s in ((m, 8), (8, 8), (m, 8)))
        how = kernel.emulation(*arrays, sm_count=7)
        assert how is not None
        assert how["grid"] == ctas
        assert how["cluster"] == ((1, 1, 1) if ctas[0] % 2 else (2, 1, 1))
    report = product(kernel, 1000, 40, 72, "random", int(RNG.integers(1 << 30)))
    assert not report.findings, report.findings[0]


def round_answers(ptx: str) -> Counter[str]:
    """Every wait, arrival and fence from the read of an answer to the arrival that gives its slot back."""
    lines = [x.strip() for x in ptx.splitlines()]
    found: Counter[str] = Counter()
    for at, line in enumerate(lines):
        if line.startswith("ld.shared::cta.b128"):
            end = next(i for i in range(at, len(lines)) if lines[i].startswith("mbarrier.arrive"))
            told = [x for x in lines[at : end + 1] if x.startswith(("mbarrier.", "fence."))]
            found[" ".join(re.sub(r"%\w+(\+\d+)?", "%", x) for x in told)] += 1
    return found


@pytest.mark.parametrize(
    ("several", "whole"),
    [("CTAs side by side", "a cluster"), ("pairs side by side", "pairs that share copies")],
)
def test_units_side_by_side_keep_what_a_whole_cluster_needs(several: str, whole: str) -> None:
    """The analysis knows one unit. What reaches over units, the ring of answers, is what it is in a cluster that the
    analysis knows as a whole."""
    assert round_answers(compiled(several).ptx) == round_answers(compiled(whole).ptx)
    assert set(round_answers(compiled(several).ptx)) == {
        "fence.proxy.async.shared::cta; mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%];"
    }


def test_what_guards_the_slot_of_an_answer_is_needed() -> None:
    """Behind the read of each answer there is a fence: without it the next one may overtake the read."""
    kernel, fence = compiled("one CTA"), "fence.proxy.async.shared::cta;"
    read = kernel.ptx.index("ld.shared::cta.b128")
    at = kernel.ptx.index(fence, read)
    assert "mbarrier.arrive" not in kernel.ptx[read:at]
    broken = kernel.ptx[:at] + kernel.ptx[at + len(fence) :]
    a, b = (RNG.uniform(-1, 1, s).astype(BF16) for s in ((600, 40), (72, 40)))
    how = kernel.emulation(a, b, np.full((600, 72), np.nan, BF16))
    assert how is not None
    report = tkc.emulate(broken, **how)
    assert "TK302" in {f.code for f in report.findings}


def test_nvfp4_as_in_the_language_sheet() -> None:
    """Two accumulators, block scales, pairs, two of them side by side, a number from memory."""
    kernel = tkc.compile(EXAMPLES / "gemm_nvfp4_clc.tk", target="sm_100a", params={"STAGES": 2})
    m, n, k = 530, 72, 288
    operands: list[tuple[Array, Array]] = []
    real: list[Array] = []
    factor = 1.0
    for rows in (m, n):
        made = scales.quantise(RNG.standard_normal((rows, k)), "e2m1", scale="ue4m3", block=16)
        operands.append((made.data, scales.interleave(made.scales, "ue4m3")))
        real.append(scales.dequantise(made.data, made.scales, "e2m1", scale="ue4m3", block=16))
        factor *= made.global_scale
    c = np.full((m, n), np.nan, BF16)
    seed = int(RNG.integers(1 << 30))
    alpha = np.array(factor, np.float32)
    report = kernel.emulate(*operands, c, alpha, schedule="random", seed=seed)
    assert not report.findings, f"seed {seed}: {report.findings[0]}"
    exact = real[0] @ real[1].T * factor
    assert np.linalg.norm(c.astype(np.float64) - exact) <= 3e-3 * np.linalg.norm(exact)


@pytest.mark.parametrize(("name", "dtype"), [("bf16", BF16), ("e4m3", ml_dtypes.float8_e4m3fn)])
def test_gemms_by_pairs(name: str, dtype: Any) -> None:
    kernel = tkc.compile(EXAMPLES / f"gemm_{name}_clc.tk", params={"BN": 32, "STAGES": 3})
    m, n, k = 530, 72, 144
    a, b = (RNG.uniform(-1, 1, s).astype(dtype) for s in ((m, k), (n, k)))
    c, alpha = np.full((m, n), np.nan, BF16), np.array(RNG.uniform(0.5, 2), np.float32)
    seed = int(RNG.integers(1 << 30))
    given = (a, b, c) if name == "bf16" else (a, b, c, alpha)
    report = kernel.emulate(*given, schedule="random", seed=seed)
    assert not report.findings, f"seed {seed}: {report.findings[0]}"
    exact = a.astype(np.float64) @ b.astype(np.float64).T * (1 if name == "bf16" else float(alpha))
    assert np.linalg.norm(c.astype(np.float64) - exact) <= 3e-3 * np.linalg.norm(exact)


CODE = Path(__file__).parent / "ptx" / "ask_again.ptx"


def ask(text: str, **options: Any) -> tuple[Any, Array]:
    out = np.zeros(8, np.int32)
    return tkc.emulate(text, grid=8, block=32, args=[out], **options), out


@pytest.mark.parametrize("schedule", ["eager", "lazy", "random", "pct"])
def test_each_cta_is_run_or_taken_over_once(schedule: str) -> None:
    report, out = ask(CODE.read_text(), schedule=schedule, seed=int(RNG.integers(1 << 30)))
    assert not report.findings
    assert (out == 1).all()


def test_after_a_refusal_nothing_more_is_asked() -> None:
    text = changed(CODE.read_text(), ("@!%p1 bra DONE;", ""))
    report, _ = ask(text)
    assert {f.code for f in report.findings} & {"TK320", "TK330"}


def test_a_refusal_names_no_cta() -> None:
    """What is read out of it is no value, and may not be used as one."""
    text = changed(CODE.read_text(), ("@!%p1 bra DONE;", "@!%p1 bra LAST;"))
    text = changed(
        text, ("DONE:\n", "LAST:\n    mov.b32 %r2, %r5;\n    st.global.u32 [%rd1], %r2;\nDONE:\n")
    )
    report, _ = ask(text)
    assert "TK320" in {f.code for f in report.findings}
