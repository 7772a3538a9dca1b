"""Slots of first operands that are free once products have read them, before these are done (sm_107a)."""

from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from emulator.test_block_scaled import FORMS, operand
from programs import EXAMPLES, changed

import tkc

RNG = np.random.default_rng()
FP8, BF16 = ml_dtypes.float8_e4m3fn, ml_dtypes.bfloat16
EARLY = (EXAMPLES / "gemm_e4m3_early.tk").read_text(encoding="utf-8")
SMALL = {"BN": 64, "STAGES": 2}
READS = ".sync_restrict::shared::read::mma::a"


def commits(text: str, target: str, **params: int) -> list[bool]:
    """Of each commit in the PTX, in order, whether it tells of reads alone."""
    ptx = tkc.compile(text, target=target, params={**SMALL, **params}).ptx
    return [READS in line for line in re.findall(r"tcgen05\.commit\S+", ptx)]


def launched(kernel: tkc.Kernel, ptx: str, schedule: str) -> set[str]:
    """What is found; every element is right."""
    m, n, k = 530, 136, 1200
    a, b = (RNG.standard_normal((rows, k)).astype(FP8) for rows in (m, n))
    c, alpha = np.full((m, n), np.nan, BF16), np.array(RNG.uniform(0.5, 2), np.float32)
    how: Any = kernel.emulation(a, b, c, alpha, sm_count=4)
    report = tkc.emulate(ptx, **{**how, "schedule": schedule, "seed": int(RNG.integers(1 << 30))})
    exact = a.astype(np.float64) @ b.astype(np.float64).T * float(alpha)
    if not report.findings:
        assert np.linalg.norm(c.astype(np.float64) - exact) <= 3e-3 * np.linalg.norm(exact)
    return {f.code for f in report.findings}


def test_slots_of_a_are_free_when_they_are_read() -> None:
    """The ring of A alone; the ring of B and the accumulator wait for the products."""
    assert commits(EARLY, "sm_107a") == [True, False, False]
    assert commits(EARLY, "sm_100a") == [False, False, False]
    kernel = tkc.compile(EARLY, target="sm_107a", params=SMALL)
    assert "UTCBAR.2CTA.MULTICAST.MMA_READ_SHM_A" in kernel.sass()
    for schedule in ("random", "lazy"):
        assert launched(kernel, kernel.ptx, schedule) == set()


def test_b_is_not_free_when_a_is_read() -> None:
    """Every commit made one of reads: B's slots and the accumulator are used while products are under way."""
    kernel = tkc.compile(EARLY, target="sm_107a", params=SMALL)
    wrong = re.sub(r"(tcgen05\.commit\S+arrive::one)\.shared", rf"\1{READS}.shared", kernel.ptx)
    found = launched(kernel, wrong, "random")
    assert found & {"TK301", "TK309"}
    assert found & {"TK310", "TK313"}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ([("pipe rows(a):    load", "pipe rows(a, b): load"), ("    pipe columns(b): load -> math\n", ""),
          ("                put columns:\n", ""), ("get rows, columns", "get rows")], [True, False, False]),
        ([("pipe rows(a):    load", "pipe rows(a, b): load"), ("    pipe columns(b): load -> math\n", ""),
          ("                put columns:\n", ""), ("get rows, columns", "get rows"), ("a @ b.T", "b @ b.T")], [False, False]),
        ([("d += a @ b.T", "d += b @ a.T"), ("tiles(blocks(M, BM), blocks(N, BN)", "tiles(blocks(M, BN), blocks(N, BM)"),
          ("a <- A[m, k]", "a <- B[n, k]"), ("b <- B[n, k]", "b <- A[m, k]"), ("f32, BM, BN", "f32, BN, BM"),
          ("BN = 256", "BN = 512")], [False, True, False]),
    ],
    ids=["one ring", "one ring, nothing is first alone", "the other is first"],
)  # fmt: skip
def test_which_ring_is_early(changes: list[tuple[str, str]], expected: list[bool]) -> None:
    assert commits(changed(EARLY, *changes), "sm_107a", BN=256, STAGES=1) == expected


def test_a_commit_of_reads_spelled_out() -> None:
    """A and B with barriers of their own: right where it is A's, and there is none on other targets."""
    text = (EXAMPLES / "gemm_bf16_level2.tk").read_text(encoding="utf-8")
    apart = changed(
        text,
        ("    barrier empty * STAGES, count = 1\n", "    barrier empty * STAGES, count = 1\n    barrier taken * STAGES, count = 1\n"),
        ("                wait empty[slot], phase ^ 1\n", "                wait empty[slot], phase ^ 1\n                wait taken[slot], phase ^ 1\n"),
        ("                    commit empty[slot]\n", "                    commit taken[slot], reads\n                    commit empty[slot]\n"),
    )  # fmt: skip
    params = {"STAGES": 2, "BN": 128}
    kernel = tkc.compile(apart, target="sm_107a", params=params)
    assert READS in kernel.ptx
    a, b = (RNG.standard_normal((rows, 520)).astype(BF16) for rows in (300, 72))
    c = np.full((300, 72), np.nan, BF16)
    seed = int(RNG.integers(1 << 30))
    report = kernel.emulate(a, b, c, sm_count=2, schedule="random", seed=seed)
    assert not report.findings, report.findings[0]
    exact = a.astype(np.float64) @ b.astype(np.float64).T
    assert np.linalg.norm(c.astype(np.float64) - exact) <= 3e-3 * np.linalg.norm(exact)
    with pytest.raises(
        tkc.TkcError, match=r"a commit of reads needs tcgen05\.commit of operand reads"
    ):
        tkc.compile(apart, target="sm_100a", params=params)


APART = (
    ("    pipe inputs(a, b): load -> math\n", "    pipe rows(a): load -> math\n    pipe columns(b): load -> math\n"),
    ("                put inputs:\n                    a <- A[m, k]\n", "                put rows: a <- A[m, k]\n                put columns:\n"),
    ("get inputs:", "get rows, columns:"),
)  # fmt: skip


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("gemm_mxfp8", [True, False, False]),
        ("gemm_mxfp4", [True, False, False]),
        ("gemm_nvfp4", [True, False, False]),
        ("gemm_nvfp4_2cta", [True, False, False, False]),
    ],
)
def test_scales_wait_for_their_copies_and_what_they_scale_does_not(
    name: str, expected: list[bool]
) -> None:
    """Nothing says that a copy to tensor memory is done when products have read A: scales go round with B's tiles."""
    kernel = tkc.compile(EXAMPLES / f"{name}.tk", target="sm_107a", params={"STAGES": 2})
    assert [READS in c for c in re.findall(r"tcgen05\.commit\S+", kernel.ptx)] == expected
    a, b = (operand(rows, 1056, *FORMS[name.removesuffix("_2cta")]) for rows in (300, 72))
    c, factor = np.full((300, 72), np.nan, BF16), a.global_scale * b.global_scale
    given = [factor] if len(kernel.contract["arguments"]) > 5 else []
    how: Any = kernel.emulation(a.pair, b.pair, c, *given, sm_count=4)
    seed = int(RNG.integers(1 << 30))

    def found(ptx: str) -> set[str]:
        return {
            f.code for f in tkc.emulate(ptx, **{**how, "schedule": "random", "seed": seed}).findings
        }

    assert found(kernel.ptx) == set()
    exact = a.real @ b.real.T * (factor if given else 1)
    assert np.linalg.norm(c.astype(np.float64) - exact) <= 3e-3 * np.linalg.norm(exact)
    early, second = list(re.finditer(r"(tcgen05\.commit\S+arrive::one)", kernel.ptx))[:2]
    assert early.end() < second.end()
    wrong = kernel.ptx[: second.end()] + READS + kernel.ptx[second.end() :]
    assert found(wrong) & {"TK301", "TK309"}


def test_a_ring_of_a_and_its_scales_alone_is_parted() -> None:
    text = changed((EXAMPLES / "gemm_nvfp4.tk").read_text(encoding="utf-8"), *APART)
    assert commits(text, "sm_107a", BN=128) == [True, False, False, False]
    assert not any(commits(text, "sm_100a", BN=128))


def test_first_operands_that_are_not_shared_do_not_wait_for_other_pairs() -> None:
    """In a cluster of pairs that shares B, the commit of A's reads goes to its own pair, that of B to all four CTAs."""
    text = changed(
        (EXAMPLES / "gemm_2cta.tk").read_text(encoding="utf-8"),
        ("launch persistent, pair", "launch persistent, pair, cluster(4)"),
        ("b <- B[n, k]", "b <- B[n, k], multicast"),
    )
    kernel = tkc.compile(text, target="sm_107a", params={"STAGES": 2, "BN": 64})
    masks = re.findall(r"tcgen05\.commit(\S+).*, (%\w+);", kernel.ptx)
    first, second = (
        [mask for text, mask in masks if (READS in text) == early] for early in (True, False)
    )
    assert len(first) == 1
    assert first[0] not in second[:1]
    a, b = (RNG.standard_normal((rows, 520)).astype(BF16) for rows in (1100, 72))
    c = np.full((1100, 72), np.nan, BF16)
    report = kernel.emulate(a, b, c, sm_count=4, schedule="random", seed=int(RNG.integers(1 << 30)))
    assert not report.findings, report.findings[0]
    exact = a.astype(np.float64) @ b.astype(np.float64).T
    assert np.linalg.norm(c.astype(np.float64) - exact) <= 3e-3 * np.linalg.norm(exact)
