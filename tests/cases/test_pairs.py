"""CTA2: pairs of CTAs, clusters, multicast."""

from __future__ import annotations

import re

import pytest
from cases.products import EXAMPLES, poison, uniform
from cases.test_tensor_memory import altered, codes, refused, without_last
from programs import changed

import tkc
from tkc.emulator import emulate

PAIR = (EXAMPLES / "gemm_2cta.tk").read_text(encoding="utf-8")
LEVEL2 = (EXAMPLES / "gemm_2cta_level2.tk").read_text(encoding="utf-8")
NVFP4_LEVEL2 = (EXAMPLES / "gemm_nvfp4_level2.tk").read_text(encoding="utf-8")
MEET = r"barrier\.cluster\.(?:arrive|wait)"


def test_CTA2_1_a_pair_meets_between_allocation_and_release() -> None:
    ptx = tkc.compile(PAIR, target="sm_100a").ptx
    order = re.findall(rf"tcgen05\.alloc|tcgen05\.dealloc|{MEET}", ptx)
    met = ["barrier.cluster.arrive", "barrier.cluster.wait"]
    assert order == ["tcgen05.alloc", *met, *met, "tcgen05.dealloc"]


def test_CTA2_3_products_of_one_cta_and_of_two_do_not_mix() -> None:
    """A kernel is of pairs or not; the words that would mix them are refused where they stand."""
    told = refused(changed(LEVEL2, (", pair", ""))).diagnostics
    assert told
    (said,) = refused(changed(NVFP4_LEVEL2, ("not k.first", "not k.first, pair"))).diagnostics[:1]
    assert "launch cluster(2)" in said.message
    groups = set(re.findall(r"cta_group::\d", tkc.compile(PAIR, target="sm_100a").ptx))
    assert groups == {"cta_group::2"}


def test_CTA2_5_a_cta_stays_until_nobody_reaches_it() -> None:
    """Without the last meeting, one CTA may have ended while the other still arrives on its barriers."""
    report = altered(lambda t: without_last(MEET)(without_last(MEET)(t)), PAIR, STAGES=2)
    assert {"TK310", "TK313"} <= codes(report)


def test_CTA2_7_the_leader_issues_and_its_barrier_counts() -> None:
    """Who issues, whose barrier, which space: loads signal the leader's, products and commits are of the pair."""
    ptx = tkc.compile(EXAMPLES / "gemm_nvfp4_2cta.tk", target="sm_100a").ptx
    assert set(re.findall(r"tcgen05\.(?:mma|cp|commit)\.(cta_group::\d)", ptx)) == {"cta_group::2"}
    loads = re.findall(r"cp\.async\.bulk\.tensor\.\dd\.(\S+)", ptx)
    brought = [load for load in loads if "mbarrier" in load]
    assert brought
    assert all(
        load.startswith("shared::cluster.global.mbarrier") and "cta_group::2" in load
        for load in brought
    )
    commits = re.findall(r"tcgen05\.commit\S*", ptx)
    assert all("multicast::cluster" in commit for commit in commits)


@pytest.mark.parametrize("ctas", [4])
def test_CTA2_9_another_cluster_than_the_kernel_was_made_for_is_refused(ctas: int) -> None:
    kernel = tkc.compile(PAIR, target="sm_100a")
    assert kernel.contract["cluster"]["size"] == [2, 1, 1]
    assert ".reqnctapercluster 2, 1, 1" in kernel.ptx
    launch = kernel.emulation(uniform(1024, 136), uniform(264, 136), poison(1024, 264), sm_count=8)
    assert launch is not None
    with pytest.raises(tkc.TkcError, match="cluster"):
        emulate(kernel.ptx, **{**launch, "cluster": (ctas, 1, 1)})
