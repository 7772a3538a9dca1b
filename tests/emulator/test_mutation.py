"""Mutants of correct kernels: what the memory model calls wrong has a finding, what it calls redundant has none."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from emulator.mutation.corpus import corpus, ours, reference
from emulator.mutation.judge import Verdict, parts, rates, run
from emulator.mutation.mutants import CHANGES, WHOLE, mutants
from emulator.mutation.windows import redundant, same_products

SLICE = 8
"""Mutants; one takes about a second, with the witness."""
GOAL = 0.99
QUICK = (
    "gemm_bf16-sm_100a",
    "silu_mul-sm_100a",
    "transpose-sm_90a",
    "tma_copy-sm_90a",
    "gemm_bf16_sm90",
    "gemm_bf16_sm100",
    "gemm_bf16_pair_sm100",
)


def complaints(verdicts: list[Verdict]) -> str:
    bad = [v for v in verdicts if v.missed or v.false_alarm]
    return "\n".join(
        f"{'missed' if v.missed else 'false alarm'}: {v.kernel} {v.mutant} {v.what} {v.codes} {v.redundant}"
        for v in bad
    )


def test_a_slice(seed: int) -> None:
    """Another part of the work with every TKC_SEED; all of ours and the reference kernels in `make soak`."""
    kernels = [k for k in (*ours(), *reference()) if k.name in QUICK]
    verdicts = run(kernels, None, 60, seed, seeds=1, most=SLICE)
    assert len(verdicts) > 5
    assert not complaints(verdicts), complaints(verdicts)


@pytest.mark.soak
def test_the_whole(seed: int, tmp_path: Path) -> None:
    """TKC_MUTATION_STATE names a file with which it goes on where it was stopped, TKC_MUTATION_SLICE=3/16 a part."""
    minutes = float(os.environ.get("TKC_SOAK_MINUTES", "10"))
    state = Path(os.environ.get("TKC_MUTATION_STATE") or tmp_path / "state.jsonl")
    part = parts(os.environ.get("TKC_MUTATION_SLICE", "1/1"))
    verdicts = run(corpus(), state, 60 * minutes, seed, seeds=50, part=part)
    wrong = [v for v in verdicts if v.missed or (v.caught and not v.redundant)]
    missed = sum(v.missed for v in wrong)
    print(rates(verdicts), complaints(verdicts), sep="\n")
    assert missed <= (1 - GOAL) * len(wrong), complaints(verdicts)
    assert not any(v.false_alarm for v in verdicts), complaints(verdicts)


def test_every_kind_of_change_is_made() -> None:
    text = """
    mbarrier.init.shared::cta.b64 [%r1], 4;
    st.shared.u32 [%r9], %r8;
    mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%r1], 1024;
L1: mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 %p1, [%r1], %r2;
    @!%p1 bra L1;
    wgmma.wait_group.sync.aligned 1;
    fence.proxy.async.shared::cta;
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;
    """
    made = {m.kind: m for m in mutants(text)}
    assert set(made) == {*CHANGES, *WHOLE}
    assert "[%r1], 1008;" in made["bytes"].text
    assert "[%r1], 5;" in made["arrivals"].text
    assert "L1: setp.eq.u32 %p1, 0, 0;" in made["pass"].text
    assert "xor.b32 %other, %r2, 1;" in made["phase"].text
    assert "wgmma.wait_group.sync.aligned 2;" in made["count"].text
    assert "// barrier.cluster.wait" in made["cluster"].text
    lines = made["move"].text.split("\n")
    assert made["move"].what.startswith("fence.proxy")
    fence = next(n for n, line in enumerate(lines) if "fence.proxy" in line)
    assert "wgmma.wait_group" in lines[fence + 1]
    for mutant in mutants(text):
        assert mutant.text != text


@pytest.mark.parametrize(
    ("before", "spare"),
    [
        (
            "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {f0, f1}, d0, d1, 1, 1, 1, 0, 0;",
            True,
        ),
        (
            "wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 {f2, f3}, d0, d1, 1, 1, 1, 0, 0;",
            False,
        ),
        ("wgmma.fence.sync.aligned;", True),
        ("mov.f32 f0, f9;", False),
        ("mov.f32 f9, f9;", False),  # the first product of all
    ],
)
def test_a_fence_of_registers_is_spare_between_products_of_one_shape(
    before: str, spare: bool
) -> None:
    text = (
        "mov.u32 r0, 0;",
        before,
        "wgmma.fence.sync.aligned;",
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {f0, f1}, d0, d1, 1, 1, 1, 0, 0;",
        "ret;",
    )
    assert same_products(text, 3, moved=False) is spare


@pytest.mark.parametrize(
    ("before", "after", "spare"),
    [
        # The arrival behind the barrier tells of what all threads have waited for.
        ("tcgen05.wait::ld.sync.aligned;", "@p1 mbarrier.arrive.b64 _, [r1];", False),
        ("wgmma.wait_group.sync.aligned 0;", "@p1 mbarrier.arrive.b64 _, [r1];", False),
        ("cp.async.wait_group 0;", "ld.shared.b32 r2, [r1];", False),
        ("cp.async.bulk.wait_group.read 0;", "st.shared.b32 [r1], r2;", False),
        ("tcgen05.wait::ld.sync.aligned;", "ld.shared.b32 r2, [r1];", True),
        ("wgmma.wait_group.sync.aligned 0;", "ld.shared.b32 r2, [r1];", True),
    ],
)
def test_a_barrier_hands_on_what_was_awaited(before: str, after: str, spare: bool) -> None:
    text = ("bar.sync 0;", before, "bar.sync 0;", after, "bar.sync 0;", "ret;")
    assert redundant(text, 3) is spare
    assert redundant(text, 3, before) is spare
