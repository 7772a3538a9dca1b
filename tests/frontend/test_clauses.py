"""Launch clauses, the axis that a cluster lies across, and copies for a whole cluster."""

from __future__ import annotations

import pytest
from programs import GEMM, changed, compiled, mistakes, only

from tkc.ir.tile import ops as t

CLUSTER = ("launch persistent", "launch persistent, cluster(2)")
MULTICAST = ("b <- B[n, k]", "b <- B[n, k], multicast")


def schedule(text: str) -> t.ScheduleOp:
    return next(o for o in compiled(text).walk() if isinstance(o, t.ScheduleOp))


@pytest.mark.parametrize(
    ("axes", "across"),
    [
        ("m, n in tiles(blocks(M, BM), blocks(N, BN))", 0),
        ("m, n in tiles(blocks(M, BM), blocks(N, BN), across = n)", 1),
        ("m, n in tiles(blocks(M, BM), blocks(N, BN), across = m, group = 2)", 0),
    ],
)
def test_the_axis_across_a_cluster(axes: str, across: int) -> None:
    text = changed(GEMM, CLUSTER, ("m, n in tiles(blocks(M, BM), blocks(N, BN), group = 8)", axes))
    found = schedule(text).across
    assert found is not None
    assert found.value.data == across


def test_a_cluster_of_one_is_none() -> None:
    text = changed(
        GEMM,
        ("launch persistent", "launch persistent, cluster(1)"),
        MULTICAST,
        ("group = 8", "group = 8, across = m"),
    )
    assert str(compiled(text)) == str(compiled(GEMM))


def test_one_copy_is_for_the_cluster() -> None:
    copies = [
        o for o in compiled(changed(GEMM, CLUSTER, MULTICAST)).walk() if isinstance(o, t.CopyOp)
    ]
    assert [o.multicast is not None for o in copies] == [False, True, False]


@pytest.mark.parametrize(
    ("changes", "code", "message", "text"),
    [
        ([("launch persistent", "launch clusters(2)")], "TK102", "did you mean `cluster`", "clusters(2)"),
        ([("launch persistent", "launch cluster")], "TK116", "takes the number of CTAs", "cluster"),
        ([("launch persistent", "launch cluster(2, 2)")], "TK116", "takes the number", "cluster(2, 2)"),
        ([("launch persistent", "launch cluster(0)")], "TK117", "expected at least 1", "0"),
        ([("launch persistent", "launch cluster(BM)")], "TK120", "128 CTAs: it has 1 to 16", "BM"),
        ([("launch persistent", "launch cluster(M)")], "TK117", "", "M"),
        ([("launch persistent", "launch pair(2)")], "TK116", "takes no values", "pair(2)"),
        ([("launch persistent", "launch pair, pair")], "TK103", "is said twice", "pair"),
        ([("launch persistent", "launch pair, cluster(3)")], "TK120", "it has 2, 4, 8 or 16", "cluster(3)"),
        ([("launch persistent", "launch pair, cluster(2)"), MULTICAST], "TK106", "by itself", "multicast"),
        ([("launch persistent", "launch persistent, clc")], "TK106", "a unit for each item", "clc"),
        ([("launch persistent", "launch persistent or clc")], "TK102", "`clc or persistent`", "persistent or clc"),
        ([("launch persistent", "launch cluster(2, most = 4)")], "TK102", "there are `minimum` and `preferred`", "most"),
        ([("launch persistent", "launch cluster(2, minimun = 4)")], "TK102", "did you mean `minimum`", "minimun"),
        ([("launch persistent", "launch cluster(2, minimum = 3)")], "TK120", "clusters of 3 CTAs (minimum) do not hold several of 2: expected 4", "3"),
        ([("launch persistent", "launch cluster(2, minimum = 2)")], "TK120", "do not hold several of 2", "2"),
        ([("launch persistent", "launch cluster(2, preferred = 6, minimum = 4)")], "TK120", "of 6 CTAs (preferred) do not hold several of 4", "6"),
        ([("launch persistent", "launch cluster(2, minimum = 4, minimum = 4)")], "TK116", "larger ones",
         "cluster(2, minimum = 4, minimum = 4)"),
        ([("launch persistent", "launch cluster(2, preferred = 3)")], "TK120", "do not hold several", "3"),
        ([("launch persistent", "launch cluster(3, preferred = 6)")], "TK120", "a power of 2", "6"),
        ([("launch persistent", "launch cluster(2, preferred = 32)")], "TK120", "32 CTAs", "32"),
        ([("group = 8", "order = serpentin")], "TK102", "did you mean `serpentine`", "serpentin"),
        ([CLUSTER, ("group = 8", "across = k")], "TK102", "a variable of the schedule: `m` and `n`", "k"),
        ([("group = 8", "accross = m")], "TK102", "did you mean `across`", "accross"),
        ([("b <- B[n, k]", "b <- B[n, k], evict_lst")], "TK102", "did you mean `evict_last`", "evict_lst"),
        ([("b <- B[n, k]", "b <- B[n, k], 3")], "TK102", "there are `multicast`, `evict_first`", "3"),
        ([MULTICAST], "TK106", "needs CTAs that it serves", "multicast"),
        ([("launch persistent", "launch pair"), MULTICAST], "TK106", "by itself", "multicast"),
        (
            [CLUSTER, ("C[m, n] <- bf16(read(d))", "C[m, n] <- bf16(read(d)), multicast")],
            "TK106", "from a tensor to a shared tile", "C[m, n] <- bf16(read(d)), multicast",
        ),
        (
            [
                CLUSTER,
                ("m, n in tiles(blocks(M, BM), blocks(N, BN), group = 8)", "m, n in tiles(M, N)"),
            ],
            "TK110", "no axis of `blocks`", "work",
        ),
    ],
)  # fmt: skip
def test_mistakes(changes: list[tuple[str, str]], code: str, message: str, text: str) -> None:
    said = [s for s in mistakes(changed(GEMM, *changes)) if message in s.message]
    assert said, [s.message for s in mistakes(changed(GEMM, *changes))]
    assert (said[0].code, said[0].text) == (code, text)


def test_one_mistake_is_told_once() -> None:
    only(mistakes(changed(GEMM, MULTICAST)))


def test_priorities_of_copies() -> None:
    text = changed(
        GEMM,
        CLUSTER,
        ("b <- B[n, k]", "b <- B[n, k], multicast, evict_last"),
        ("C[m, n] <- bf16(read(d))", "C[m, n] <- bf16(read(d)), evict_first"),
    )
    copies = [o for o in compiled(text).walk() if isinstance(o, t.CopyOp)]
    hints = [None if o.hint is None else o.hint.data for o in copies]
    assert hints == [None, "evict_last", "evict_first"]
    assert [o.multicast is not None for o in copies] == [False, True, False]
