"""Which mutants the memory model calls redundant, and why: rows of patterns, the first that fits counts.

A statement is looked at with what stands before and after it (statements that touch memory or synchronise, joined by
` | `). The reasons name rules of the model: A... are rows of `tkc/ir/isa/assumptions.py`.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from emulator.mutation import windows
from emulator.mutation.mutants import Mutant


class Redundant(NamedTuple):
    """Mutants of a kind whose statement, surroundings and kernel match change nothing that anybody relies on."""

    kind: str
    statement: str
    reason: str
    before: str = ""
    after: str = ""
    kernel: str = ""


GONE = "delete|move"

REDUNDANT: tuple[Redundant, ...] = (
    Redundant("relaxed", r"^mbarrier\.arrive\.expect_tx",
              "the arrival carries async data alone, which complete_tx releases"),
    Redundant(GONE, r"^tcgen05\.fence::", "A3: every wait acquires and every arrival releases"),
    Redundant("move", r"^(barrier\.cta|bar)\.sync", "A3: moved over a tcgen05.fence",
              before=r"tcgen05\.fence::\w+;$"),
    Redundant(GONE, r"^fence\.mbarrier_init", "barrier.cluster.arrive releases the initialisation too",
              after=r"barrier\.cluster\.arrive;"),
    Redundant("delete", r"^barrier\.cta\.sync 0", "the barriers of the storing warps order their last loads",
              after=r"^(tcgen05\.fence[^|]* \| )?(bar\.warp[^|]* \| )?tcgen05\.dealloc", kernel="sm_100a"),
    Redundant("pass|unacquired", r"57640\]", "waits for the ring of inputs order the same accesses",
              kernel=r"^gemm_bias_act-sm_90a"),
    Redundant("pass|unacquired", r"57664\]", "waits for the ring of inputs order the same accesses",
              kernel=r"^gemm_bias_act-sm_100a"),
    Redundant("move", r"^cp\.async\.bulk\.wait_group", "moved over loads, which it has nothing to do with",
              before=r"\bld\.[^|]*$"),
    Redundant("delete", r"^wgmma\.fence", "nothing but wgmma touches the registers", kernel=r"^gemm_bf16_sm90"),
    Redundant("relaxed", r"57640\]", "arrivals on the ring of inputs, which come later, order the same reads",
              kernel=r"^gemm_bias_act-sm_90a"),
    Redundant("relaxed", r"57664\]", "arrivals on the ring of inputs, which come later, order the same reads",
              kernel=r"^gemm_bias_act-sm_100a"),
    Redundant("move", r"^cp\.async\.bulk\.wait_group", "moved over a fence, which has nothing to do with completions",
              before=r"fence\.proxy\.async[^|]*$"),
    Redundant(GONE, r"^bar\.warp\.sync", "nothing but an elected arrival since the lanes met",
              before=r"bar\.warp\.sync[^|]* \| mbarrier\.arrive[^|]*$"),
    Redundant("move", r"^bar\.warp\.sync", "A11: the lane that arrives fences behind the barrier of the warp",
              before=r"fence\.proxy\.async[^|]*$"),
    Redundant("move", r"^cp\.async\.bulk\.(wait_group|commit_group)", "moved over a tcgen05.fence alone",
              before=r"tcgen05\.fence::\w+;$"),
    Redundant(GONE, r"^fence\.mbarrier_init", "in one CTA the barrier that follows publishes the mbarriers",
              kernel=r"^(?!.*pair)"),
    Redundant(GONE, r"^fence\.proxy\.async", "A7: a write of threads after the reads of a store need no fence",
              before=r"cp\.async\.bulk\.wait_group\.read \d+; \| (barrier\.cta|bar)\.sync[^|]*$"),
    Redundant(GONE, r"^fence\.proxy\.async", "the fence behind the barrier that follows covers the same reads (A11)",
              after=r"^cp\.async\.bulk\.wait_group\.read \d+; \| (barrier\.cta|bar)\.sync[^|]* \| (fence\.proxy|st)"),
    Redundant(GONE, r"^fence\.proxy\.async", "a completed load needs no fence before its readers",
              before=r"mbarrier\.try_wait[^|]*$", after=r"^(ld|tcgen05|wgmma)"),
    Redundant("move", r"^(barrier\.cta|bar)\.sync", "A11: the thread that stores fences too, behind the barrier",
              before=r"fence\.proxy\.async[^|]*$"),
    Redundant(GONE, r"^bar\.warp\.sync", "a barrier of all these threads has ordered the lanes since their last access",
              before=r"(barrier\.cta|bar)\.sync[^|]*( \| (cp\.async\.bulk\S*|cp\.reduce\S*|tcgen05\.fence\S*)[^|]*)*$"),
    Redundant(GONE, r"^bar\.warp\.sync", "A12: the wait of the lane that arrives covers the warpgroup",
              before=r"wgmma\.wait_group[^|]*$"),
    Redundant(GONE, r"^tcgen05\.wait::ld", "A21: the assembler tracks the registers; a later wait is in time",
              after=r"tcgen05\.ld"),
    Redundant("unacquired", r"^mbarrier\.try_wait", "after_thread_sync orders tensor work behind a relaxed wait",
              after=r"^(mbarrier\.try_wait[^|]* \| )?(fence\.proxy[^|]* \| )?tcgen05\.fence::after_thread_sync"),
    Redundant("count|delete", r"^cp\.async\.bulk\.wait_group 0", "sources were read; the grid's end completes it",
              before=r"cp\.async\.bulk\.wait_group\.read 0;"),
    # What a moved statement has nothing to do with.
    Redundant("move", r"^cp\.async\.(commit_group|wait_group|wait_all)", "moved over what is no cp.async",
              before=r"(^|\| )(?!cp\.async(?!\.bulk))[^|]*$"),
    Redundant("move", r"^cp\.async\.bulk\.(commit_group|wait_group)", "moved over what is no bulk operation",
              before=r"(^|\| )(?!cp\.(reduce\.)?async\.bulk)[^|]*$"),
    Redundant("move", r"^tcgen05\.wait::st", "moved over what is no tcgen05.st",
              before=r"(^|\| )(?!tcgen05\.st)[^|]*$"),
    Redundant("move", r"^tcgen05\.wait::ld", "moved over what is no tcgen05.ld",
              before=r"(^|\| )(?!tcgen05\.ld)[^|]*$"),
    Redundant("move", r"^wgmma\.wait_group", "moved over what is no wgmma", before=r"(^|\| )(?!wgmma)[^|]*$"),
    Redundant("move", r"^fence\.proxy\.async", "moved over what touches no memory and acquires nothing",
              before=r"(^|\| )(cp\.async\.(bulk\.)?commit_group|tcgen05\.(ld|st|wait)|fence\.proxy\.async|bar\.warp)[^|]*$"),
    Redundant("delete|count|move", r"^cp\.async\.bulk\.(commit_group|wait_group\.read)",
              "Triton drains before it edits a tensor map: the thread has no bulk operation under way",
              before=r"fence\.proxy\.tensormap[^|]*( \| cp\.async\.bulk\.commit_group[^|]*)?$"),
    Redundant("move", r"^mbarrier\.arrive\.expect_tx", "the arrival carries async data alone",
              before=r"(^|\| )(?!mbarrier|bar\.|barrier)[^|]*$"),
)  # fmt: skip


def reason(kernel: str, mutant: Mutant) -> str:
    """Why the model calls a mutant redundant; empty where it is wrong."""
    for row in REDUNDANT:
        if (
            re.fullmatch(row.kind, mutant.kind)
            and re.search(row.statement, mutant.what)
            and re.search(row.before, mutant.before)
            and re.search(row.after, mutant.after)
            and re.search(row.kernel, kernel)
        ):
            return row.reason
    if re.match(r"(bar|barrier(\.cta)?)\.sync", mutant.what) and mutant.lines:
        over = mutant.before.rpartition(" | ")[2]
        if mutant.kind == "delete" and windows.redundant(mutant.lines, mutant.line):
            return "nothing before it conflicts with anything after it that the next barriers do not order"
        if mutant.kind == "move" and windows.redundant(mutant.lines, mutant.line, over):
            return "what it is moved over conflicts with nothing before the next barrier"
    return ""
