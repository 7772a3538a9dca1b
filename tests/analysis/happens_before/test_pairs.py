"""The pairwise tables of the memory model, each row as an ordered program and one that lacks what the row asks for."""

from __future__ import annotations

import pytest

from tests.analysis.happens_before.build import *  # noqa: F403
from tests.analysis.happens_before.build import (
    ALL,
    CLUSTER,
    HOME,
    IMPLICIT,
    LANE,
    ONE,
    RELAXED,
    Done,
    Proxy,
    Role,
    Sem,
    Space,
    acq_rel,
    after,
    arrive,
    await_group,
    bar,
    before,
    close,
    commit,
    cp_async,
    direct,
    fence,
    global_,
    ld,
    mma,
    program,
    role,
    st,
    sync,
    tensor,
    tma,
    tma_store,
    verdict,
    wait,
    wgmma,
)  # fmt: skip
from tkc.analysis.happens_before.rules import PRACTICE, STRICT

ORDERED, PROXY, UNORDERED = "ordered", "wrong proxy", "unordered"
BULK, WGMMA, CP, TENSOR_WAIT = (
    Done.BULK_GROUP,
    Done.WGMMA_GROUP,
    Done.CP_ASYNC_GROUP,
    Done.TCGEN05_WAIT,
)


def meets(first: list, second: list, arriving=LANE, waiting=ALL) -> tuple[Role, Role]:
    """One role, then another, by an mbarrier; what the lanes of a warp did is gathered first."""
    gather = [sync("warp")] if arriving is LANE else []
    return role("a", *first, *gather, arrive(threads=arriving)), role(
        "b", wait(threads=waiting), *second
    )


TWO = {
    # 1: generic with generic
    "1 st, ld: bar.sync": ([role("a", st(), bar()), role("b", bar(), ld())], ORDERED, ORDERED),
    "1 st, ld: mbarrier": (meets([st()], [ld()]), ORDERED, ORDERED),
    "1 ld, st": (meets([ld()], [st()]), ORDERED, ORDERED),
    "1 st, st": (meets([st()], [st()]), ORDERED, ORDERED),
    "1 st, ld: nothing": ([role("a", st()), role("b", ld())], UNORDERED, UNORDERED),
    "1 st, ld: the wait comes after": (
        [role("a", st(), sync("warp"), arrive(threads=LANE)), role("b", ld(), wait())], UNORDERED, UNORDERED,
    ),
    "1 st of a warp, arrival of one lane": (
        [role("a", st(), arrive(threads=LANE)), role("b", wait(), ld())], UNORDERED, UNORDERED,
    ),
    "1 one thread waits, all read": (meets([st()], [ld()], waiting=ONE), UNORDERED, UNORDERED),
    "1 one thread waits, then the role meets": (meets([st()], [sync(), ld()], waiting=ONE), ORDERED, ORDERED),
    "1 relaxed wait": (
        [role("a", st(), sync("warp"), arrive(threads=LANE)), role("b", wait(sem=RELAXED), ld())], UNORDERED, UNORDERED,
    ),
    "1 relaxed wait, then a fence": (
        [role("a", st(), sync("warp"), arrive(threads=LANE)), role("b", wait(sem=RELAXED), acq_rel(), ld())],
        ORDERED, ORDERED,
    ),
    "1 relaxed arrival": (
        [role("a", st(ONE), arrive(sem=RELAXED)), role("b", wait(), ld())], UNORDERED, UNORDERED,
    ),
    "1 relaxed arrival after a fence": (
        [role("a", st(ONE), acq_rel(ONE), arrive(sem=RELAXED)), role("b", wait(), ld())], ORDERED, ORDERED,
    ),
    # 2: generic write, async read
    "2 st, TMA store: fence by the writers": (
        [role("a", st(), fence(), sync(), tma_store(), close(BULK), await_group(BULK))], ORDERED, ORDERED,
    ),
    "2 st, TMA store: fence by the issuer": (
        [role("a", st(), sync(), fence(ONE), tma_store(), close(BULK), await_group(BULK))], ORDERED, ORDERED,
    ),
    "2 st, TMA store: no fence": ([role("a", st(), sync(), tma_store())], PROXY, PROXY),
    "2 st, TMA store: fence, no barrier": ([role("a", st(), fence(), tma_store())], UNORDERED, UNORDERED),
    "2 st, TMA store: fence by one before the barrier": (
        [role("a", st(), fence(ONE), sync(), tma_store())], PROXY, PROXY,
    ),
    "2 st, mma": (meets([st()], [mma()]), PROXY, PROXY),
    "2 st, mma: fenced": (meets([st(), fence()], [mma()]), ORDERED, ORDERED),
    "2 st, mma: fence of another space": (meets([st(), fence(space=Space.GLOBAL)], [mma()]), PROXY, PROXY),
    "2 st, wgmma: fenced": (meets([st()], [fence(), wgmma()]), ORDERED, ORDERED),
    "2 one thread": ([role("a", st(ONE), fence(ONE), mma())], ORDERED, ORDERED),
    "2 one thread, no fence": ([role("a", st(ONE), mma())], PROXY, PROXY),
    # 3: async write, generic read
    "3 TMA, ld: each waits": ([role("a", tma()), role("b", wait(), ld())], ORDERED, ORDERED),
    "3 TMA, ld: one waits, then bar.sync": (
        [role("a", tma()), role("b", wait(threads=ONE), sync(), ld())], ORDERED, ORDERED,
    ),
    "3 TMA, ld: one waits": ([role("a", tma()), role("b", wait(threads=ONE), ld())], UNORDERED, UNORDERED),
    "3 TMA, ld: by an arrival of its thread": (
        [role("a", tma("other"), arrive()), role("b", wait(), ld())], UNORDERED, UNORDERED,
    ),
    "3 TMA, ld: relaxed wait": ([role("a", tma()), role("b", wait(sem=RELAXED), ld())], UNORDERED, UNORDERED),
    # 4: async write, async read
    "4 TMA, mma": ([role("a", tma()), role("b", wait(threads=ONE), mma())], ORDERED, ORDERED),
    "4 TMA, wgmma": ([role("a", tma()), role("b", wait(), wgmma())], ORDERED, ORDERED),
    "4 TMA, TMA store": ([role("a", tma()), role("b", wait(threads=ONE), tma_store())], ORDERED, ORDERED),
    "4 TMA, mma: no wait": ([role("a", tma()), role("b", mma())], UNORDERED, UNORDERED),
    "4 TMA, mma: the same thread, no wait": ([role("a", tma(), mma())], UNORDERED, UNORDERED),
    # 5, 6: cp.async
    "5 cp.async, ld": (
        [role("a", cp_async(), close(CP, ALL), await_group(CP, threads=ALL), sync(), ld())], ORDERED, ORDERED),
    "5 cp.async, ld: not awaited": ([role("a", cp_async(), close(CP, ALL), sync(), ld())], UNORDERED, UNORDERED),
    "5 cp.async, ld: not committed": (
        [role("a", cp_async(), await_group(CP, threads=ALL), sync(), ld())], UNORDERED, UNORDERED,
    ),
    "6 cp.async, mma": (
        meets([cp_async(), close(CP, ALL), await_group(CP, threads=ALL), fence()], [mma()]), ORDERED, ORDERED,
    ),
    "6 cp.async, mma: no fence": (
        meets([cp_async(), close(CP, ALL), await_group(CP, threads=ALL)], [mma()]), PROXY, PROXY,
    ),
    "6 cp.async, mma: fence before it is awaited": (
        meets([cp_async(), close(CP, ALL), fence(), await_group(CP, threads=ALL)], [mma()]), PROXY, PROXY,
    ),
    # 7: generic read, async write
    "7 ld, TMA: fence by the readers": (meets([ld(), fence()], [tma("next")], waiting=ONE), ORDERED, ORDERED),
    "7 ld, TMA: fence by the producer": (meets([ld()], [fence(ONE), tma("next")], waiting=ONE), ORDERED, ORDERED),
    "7 ld, TMA: no fence": (meets([ld()], [tma("next")], waiting=ONE), PROXY, PROXY),
    "7 ld, TMA: the pair of halves": (
        meets([ld(), fence(half="release")], [fence(ONE, half="acquire"), tma("next")], waiting=ONE), ORDERED, ORDERED,
    ),
    "7 ld, TMA: the pair over a relaxed barrier": (
        [role("a", ld(ONE), fence(ONE, half="release"), arrive(sem=RELAXED)),
         role("b", wait(threads=ONE, sem=RELAXED), fence(ONE, half="acquire"), tma("next"))], ORDERED, ORDERED,
    ),
    "7 ld, TMA: one half": (meets([ld(), fence(half="release")], [tma("next")], waiting=ONE), PROXY, PROXY),
    "7 ld, TMA: the release half by one reader for all": (
        [role("a", ld(), sync(), fence(ONE, half="release"), arrive()),
         role("b", wait(threads=ONE), fence(ONE, half="acquire"), tma("next"))], PROXY, PROXY,
    ),
    # 8: async read, generic write
    "8 TMA store, st: full wait": (
        [role("a", tma_store(), close(BULK), await_group(BULK), sync(), st())], ORDERED, ORDERED,
    ),
    "8 TMA store, st: wait_group.read": (
        [role("a", tma_store(), close(BULK), await_group(BULK, read=True), sync(), st())], PROXY, ORDERED,
    ),
    "8 TMA store, st: one group may be under way": (
        [role("a", tma_store(), close(BULK), await_group(BULK, 1, True), sync(), st())], UNORDERED, UNORDERED,
    ),
    "8 TMA store, st: another thread waits": (
        [role("a", tma_store(), close(BULK)), role("b", await_group(BULK), sync(), st())], UNORDERED, UNORDERED,
    ),
    "8 TMA store, st: not committed": ([role("a", tma_store(), await_group(BULK), sync(), st())], UNORDERED, UNORDERED),
    "8 TMA store, st: no barrier": (
        [role("a", tma_store(), close(BULK), await_group(BULK), st())], UNORDERED, UNORDERED,
    ),
    "8 wgmma, st": (
        [role("a", wgmma(), close(WGMMA, ALL), await_group(WGMMA, threads=ALL), sync(), st())], ORDERED, ORDERED),
    "8 wgmma, st: not awaited": ([role("a", wgmma(), close(WGMMA, ALL), sync(), st())], UNORDERED, UNORDERED),
    "8 mma, st": ([role("a", mma(), commit()), role("b", wait(), st())], PROXY, ORDERED),
    "8 mma, st: an arrival is no commit": ([role("a", mma(), arrive()), role("b", wait(), st())], UNORDERED, UNORDERED),
    # 9: async read, async write
    "9 mma, TMA": ([role("a", mma(), commit()), role("b", wait(threads=ONE), tma("next"))], ORDERED, ORDERED),
    "9 mma, TMA: commit before it": (
        [role("a", commit(), mma()), role("b", wait(threads=ONE), tma("next"))], UNORDERED, UNORDERED,
    ),
    "9 wgmma, TMA": (
        meets([wgmma(), close(WGMMA, ALL), await_group(WGMMA, threads=ALL)], [tma("next")], arriving=ALL, waiting=ONE),
        ORDERED, ORDERED,
    ),
    "9 wgmma, TMA: released a group too early": (
        meets([wgmma(), close(WGMMA, ALL), await_group(WGMMA, 1, threads=ALL)],
            [tma("next")], arriving=ALL, waiting=ONE),
        UNORDERED, UNORDERED,
    ),
    "9 wgmma, TMA: one thread for the warpgroup (A12)": (
        [role("a", wgmma(), close(WGMMA, ALL), await_group(WGMMA, threads=ONE), arrive()),
         role("b", wait(threads=ONE), tma("next"))], UNORDERED, ORDERED,
    ),
    "9 wgmma, TMA: a lane of each warp": (
        meets([wgmma(), close(WGMMA, ALL), await_group(WGMMA, threads=ALL)], [tma("next")], waiting=ONE),
        ORDERED, ORDERED,
    ),
    "9 wgmma, TMA: one lane of one warp (A12)": (
        [role("a", wgmma(), close(WGMMA, ALL), await_group(WGMMA, threads=ALL), sync("warp"), arrive()),
         role("b", wait(threads=ONE), tma("next"))], UNORDERED, ORDERED,
    ),
    "9 TMA store, TMA": (
        [role("a", tma_store(), close(BULK), await_group(BULK, read=True), arrive()),
         role("b", wait(threads=ONE), tma("next"))], ORDERED, ORDERED,
    ),
    # 10: generic write, async write
    "10 st, TMA: fenced": (meets([st(), fence()], [tma("next")], waiting=ONE), ORDERED, ORDERED),
    "10 st, TMA: no fence": (meets([st()], [tma("next")], waiting=ONE), PROXY, PROXY),
    # 11: async write, generic write
    "11 TMA, st": ([role("a", tma()), role("b", wait(), st())], ORDERED, ORDERED),
    "11 TMA, st: no wait": ([role("a", tma()), role("b", st())], UNORDERED, UNORDERED),
    # 12: async write, async write
    "12 TMA, TMA: known complete": ([role("a", tma()), role("b", wait(threads=ONE), tma("next"))], ORDERED, ORDERED),
    "12 TMA, mma, TMA": (
        [role("a", tma()),
            role("b", wait(threads=ONE), mma(), commit("empty")), role("c", wait("empty", threads=ONE), tma("next"))],
        ORDERED, ORDERED,
    ),
    "12 TMA, nothing between, TMA": (
        [role("a", tma()),
            role("b", wait(threads=ONE), commit("empty")), role("c", wait("empty", threads=ONE), tma("next"))],
        UNORDERED, ORDERED,
    ),
    "12 TMA, TMA: no order": ([role("a", tma(), tma("next"))], UNORDERED, UNORDERED),
    # 17: global memory
    "17 st.global, TMA load": (
        [role("a", global_("st", True), fence(ONE, Space.GLOBAL),
            global_("tma", False, Proxy.ASYNC, Done.MBARRIER_TX))],
        ORDERED, ORDERED,
    ),
    "17 st.global, TMA load: a fence of shared memory": (
        [role("a", global_("st", True), fence(ONE),
            global_("tma", False, Proxy.ASYNC, Done.MBARRIER_TX))], PROXY, PROXY,
    ),
    "17 TMA store, ld.global": (
        [role("a", global_("tma_store", True, Proxy.ASYNC, Done.BULK_GROUP),
            close(BULK), await_group(BULK), global_("ld", False))],
        ORDERED, ORDERED,
    ),
    "17 TMA store, ld.global: only its source is read": (
        [role("a", global_("tma_store", True, Proxy.ASYNC, Done.BULK_GROUP),
            close(BULK), await_group(BULK, read=True), global_("ld", False))],
        UNORDERED, UNORDERED,
    ),
    # Tensor memory
    "t mma, mma: one thread": ([role("a", tensor("mma"), tensor("mma"))], ORDERED, ORDERED),
    "t mma, mma: two threads": (
        [role("a", tensor("mma"), before(ONE), arrive(sem=RELAXED)),
            role("b", wait(threads=ONE, sem=RELAXED), after(ONE), tensor("mma"))],
        ORDERED, ORDERED,
    ),
    "t mma, mma: two threads, arrival alone": (
        [role("a", tensor("mma"), arrive()), role("b", wait(threads=ONE), tensor("mma"))], UNORDERED, UNORDERED,
    ),
    "t cp, mma": ([role("a", tensor("cp"), tensor("mma.scale"))], ORDERED, ORDERED),
    "t mma, ld": ([role("a", tensor("mma"), commit()), role("b", wait(), tensor("ld"))], ORDERED, ORDERED),
    "t mma, ld: relaxed wait": (
        [role("a", tensor("mma"), commit()), role("b", wait(sem=RELAXED), tensor("ld"))], UNORDERED, UNORDERED,
    ),
    "t mma, ld: relaxed wait, fence after": (
        [role("a", tensor("mma"), commit()), role("b", wait(sem=RELAXED), after(), tensor("ld"))], ORDERED, ORDERED,
    ),
    "t mma, ld: the same thread does not wait": ([role("a", tensor("mma"), tensor("ld", ONE))], UNORDERED, UNORDERED),
    "t ld, mma": (
        meets([tensor("ld"), await_group(TENSOR_WAIT, threads=ALL)], [tensor("mma")], arriving=ALL, waiting=ONE),
        ORDERED, ORDERED,
    ),
    "t ld, mma: the load is not awaited": (
        meets([tensor("ld")], [tensor("mma")], arriving=ALL, waiting=ONE), UNORDERED, UNORDERED,
    ),
    "t ld, mma: relaxed, no fences": (
        [role("a", tensor("ld", ONE), await_group(TENSOR_WAIT), arrive(sem=RELAXED)),
            role("b", wait(threads=ONE, sem=RELAXED), tensor("mma"))],
        UNORDERED, UNORDERED,
    ),
    "t ld, mma: relaxed, both fences": (
        [role("a", tensor("ld", ONE), await_group(TENSOR_WAIT), before(ONE), arrive(sem=RELAXED)),
         role("b", wait(threads=ONE, sem=RELAXED), after(ONE), tensor("mma"))], ORDERED, ORDERED,
    ),
    "t ld, mma: bar.sync and no fences (A20)": (
        [role("a", tensor("ld"), await_group(TENSOR_WAIT, threads=ALL), sync(), tensor("mma"))], UNORDERED, ORDERED,
    ),
    "t mma, ld: one waits, bar.sync and no fences": (
        [role("a", tensor("mma"), commit(), wait(threads=ONE), sync(), tensor("ld"))], UNORDERED, UNORDERED,
    ),
    "t mma, ld: one waits, bar.sync and both fences": (
        [role("a", tensor("mma"), commit(), wait(threads=ONE), before(), sync(), after(), tensor("ld"))],
        ORDERED, ORDERED,
    ),
    "t mma writes, mma reads it as A": ([role("a", tensor("mma"), tensor("mma.a"))], UNORDERED, UNORDERED),
    "t cp, cp (A9)": ([role("a", tensor("cp"), tensor("cp"))], UNORDERED, ORDERED),
    "t ld, mma: bar.sync, then an arrival": (
        [role("a", tensor("ld"), await_group(TENSOR_WAIT, threads=ALL), sync(), arrive()),
         role("b", wait(threads=ONE), tensor("mma"))], ORDERED, ORDERED,
    ),
    "t ld, mma: bar.sync and both fences": (
        [role("a", tensor("ld"), await_group(TENSOR_WAIT, threads=ALL), before(), sync(), after(), tensor("mma"))],
        ORDERED, ORDERED,
    ),
    "t st, mma": (
        meets([tensor("st"), await_group(TENSOR_WAIT, threads=ALL)], [tensor("mma.a")], arriving=ALL, waiting=ONE),
        ORDERED, ORDERED,
    ),
    "t st, mma: not awaited": (meets([tensor("st")],
        [tensor("mma.a")], arriving=ALL, waiting=ONE), UNORDERED, UNORDERED),
    "t mma reads scales, cp (A9)": ([role("a", tensor("mma.scale"), tensor("cp"))], UNORDERED, ORDERED),
    "t mma reads scales, commit, cp": (
        [role("a", tensor("mma.scale"), commit(), wait(threads=ONE), tensor("cp"))], ORDERED, ORDERED,
    ),
    "t mma reads A, mma writes it (A14)": ([role("a", tensor("mma.a"), tensor("mma"))], UNORDERED, ORDERED),
    "t mma reads A, another warp's mma writes it": (
        [role("a", tensor("mma.a"), arrive()), role("b", wait(threads=ONE), tensor("mma"))], UNORDERED, UNORDERED,
    ),
}  # fmt: skip
"""Roles; the verdict by the strict profile and in practice."""


@pytest.mark.parametrize("row", TWO)
def test_a_pair(row: str) -> None:
    roles, strict, practice = TWO[row]
    assert verdict(program(*roles), STRICT) == strict
    assert verdict(program(*roles), PRACTICE) == practice


# The recorded chains, by four sets of assumptions --------------------------------------------------------------------

peer = {"owner": 1}
CHAINS = {
    "RAW  TMA load -> tcgen05.mma/cp/wgmma (same CTA), no fence": [role("a", tma()),
        role("b", wait(threads=ONE), mma())],
    "RAW  each CTA loads own half by TMA (mbar in CTA0), 2-CTA mma issued by CTA0 reads smem of CTA1, no fence": [
        role("a", tma(**peer), cta=1), role("b", wait(threads=ONE), mma(**peer)),
    ],
    "RAW  st.shared -> bar/mbar -> mma|TMA store, no fence": meets([st()], [mma()]),
    "RAW  st.shared -> bar/mbar -> fence.proxy.async (issuer only) ; mma|TMA store": meets([st()], [fence(ONE), mma()]),
    "RAW  CTA1: st.shared own smem; fence (CTA1) ; arrive.release.cluster -> CTA0: 2-CTA mma reads smem of CTA1": [
        role("a", st(ONE, **peer), fence(ONE), arrive(scope=CLUSTER), cta=1),
        role("b", wait(threads=ONE, scope=CLUSTER), mma(**peer)),
    ],
    "RAW  CTA1: st.shared::cluster into smem of CTA0; fence (CTA1) -> CTA0 mma": [
        role("a", st(ONE), fence(ONE), arrive(scope=CLUSTER), cta=1),
        role("b", wait(threads=ONE, scope=CLUSTER), mma()),
    ],
    "WAR  mma reads smem; tcgen05.commit -> mbar -> TMA load overwrites (same CTA), no fence": [
        role("a", mma(), commit()), role("b", wait(threads=ONE), tma("next")),
    ],
    "WAR  mma reads smem; commit -> mbar -> st.shared overwrites, no fence": [
        role("a", mma(), commit()), role("b", wait(), st()),
    ],
    "WAR  ld.shared/ldmatrix; arrive -> TMA load overwrites, no fence": meets([ld()], [tma("next")], waiting=ONE),
    "WAR  ld.shared; arrive -> wait; fence (producer) ; TMA load overwrites": meets(
        [ld()], [fence(ONE), tma("next")], waiting=ONE
    ),
    "WAR  TMA store reads smem; wait_group.read; bar -> st.shared overwrites, no fence": [
        role("a", tma_store(), close(BULK), await_group(BULK, read=True), sync(), st()),
    ],
}  # fmt: skip
VERDICTS = {
    "RACE": {PROXY, UNORDERED},
    "ordered": {ORDERED},
}
COLUMNS = (STRICT, HOME, IMPLICIT, PRACTICE)
RECORDED = {
    name: columns.split()
    for name, columns in zip(
        CHAINS,
        [
            "ordered ordered ordered ordered", "RACE ordered ordered ordered", "RACE RACE RACE RACE",
            "ordered ordered ordered ordered", "RACE ordered ordered ordered", "RACE RACE RACE RACE",
            "ordered ordered ordered ordered", "RACE RACE ordered ordered", "RACE RACE RACE RACE",
            "ordered ordered ordered ordered", "RACE RACE ordered ordered",
        ],
        strict=True,
    )
}  # fmt: skip


@pytest.mark.parametrize("name", CHAINS)
def test_a_recorded_chain(name: str) -> None:
    found = [verdict(program(*CHAINS[name]), assumed) for assumed in COLUMNS]
    for got, wanted in zip(found, RECORDED[name], strict=True):
        assert got in VERDICTS[wanted], found


def test_two_loads_into_one_slot_rest_on_a5_or_on_the_read_between() -> None:
    """Without A5 no chain leads from the first load to the second; the read between them orders them all the same."""
    made = program(
        role("a", tma()),
        role("b", wait(threads=ONE), mma(), commit("empty")),
        role("c", wait("empty", threads=ONE), _named(tma("next"), "tma2")),
    )
    assert not any(direct(made, assumed, "tma", "tma2") for assumed in (STRICT, HOME, IMPLICIT))
    assert direct(made, PRACTICE, "tma", "tma2")
    assert verdict(made, STRICT) == ORDERED


def _named(event, name: str):
    event.name = name
    return event


def test_an_implicit_fence_covers_its_own_access_only() -> None:
    """S4: st.shared X, TMA Y, mma reads X: the completion of Y says nothing of X."""
    x = st(ONE)
    made = program(
        role("a", x, tma(buffer="y"), arrive("full")), role("b", wait(threads=ONE), mma())
    )
    assert verdict(made) == PROXY


def test_a_commit_releases_no_generic_access() -> None:
    """S2: thread st.shared x; commit -> wait -> ld.shared x."""
    made = program(role("a", st(ONE), tensor("mma"), commit()), role("b", wait(), ld()))
    assert verdict(made) == UNORDERED


def test_a_remote_arrival_at_cta_scope_carries_no_generic_data() -> None:
    roles = [role("a", st(ONE), arrive(), cta=1), role("b", wait(), ld())]
    assert verdict(program(*roles)) == UNORDERED
    roles = [role("a", st(ONE), arrive(scope=CLUSTER), cta=1), role("b", wait(scope=CLUSTER), ld())]
    assert verdict(program(*roles), STRICT) == ORDERED


__all__ = ["Sem"]


# The table of asynchronous chains: its rows that no stage operation says ----------------------------------------------


def test_a_store_into_another_cta_needs_a_fence_there() -> None:
    """Row 6: CTA 1 stores into CTA 0's memory and fences in its own; the product of CTA 0 reads that."""
    writer = role("a", st(ONE, owner=0), fence(ONE), arrive("m", scope=CLUSTER), warps=1, cta=1)
    reader = role("b", wait("m", threads=ONE, scope=CLUSTER), mma(), warps=1)
    fenced = role("b", wait("m", threads=ONE, scope=CLUSTER), fence(ONE), mma(), warps=1)
    for profile in ("strict", "practice"):
        assert verdict(program(writer, reader), profile) == "wrong proxy"
        assert verdict(program(writer, fenced), profile) == "ordered"


def test_a_copy_over_what_a_product_has_read() -> None:
    """Row 12: strictly by the read between, which sees the first copy; else by A5 alone."""
    first, product = tma("full"), (wait("full", threads=ONE), mma(), commit("empty"))
    again = (wait("empty", threads=ONE), tma("next"))
    made = program(role("a", first, *again, warps=1), role("b", *product, warps=1))
    assert verdict(made, "strict") == verdict(made, "practice") == "ordered"
    blind = program(role("a", first, *again, warps=1), role("b", mma(), commit("empty"), warps=1))
    assert verdict(blind, "strict") == "unordered"
