"""Lists of tensors, their maps and schedules over them: what is wrong with them, and what they become."""

from __future__ import annotations

import pytest
from programs import EXAMPLES, changed, compiled, mistakes

from tkc.diagnostics import TkcError
from tkc.driver import to_module
from tkc.ir.tile.ops import EditedMapsOp, ScheduleOp
from tkc.ir.tile.types import TensorType
from tkc.job import Job

LISTS = (EXAMPLES / "gemm_grouped_list.tk").read_text(encoding="utf-8")
A, MAPS = "A: list[G, global[bf16, rows[g], K]]", "maps A, C: edited * 2"
CHAIN = "chain(range(G), tiles(blocks(rows[g], BM), blocks(N, BN), group = 8))"

CASES = [
    # types
    (A, "A: list[global[bf16, rows[g], K]]", "TK106", "how many tensors it has, and their type"),
    (A, "A: list[G, list[G, global[bf16, rows[g], K]]]", "TK110", "a list of lists"),
    (A, "A: list[G, global[bf16, rows[g, 1], K]]", "TK106", "the extent of array g is `rows[g]`"),
    (A, "A: list[G, global[bf16, rows[2], K]]", "TK106", "the extent of array g is `rows[g]`"),
    (A, "A: list[G, global[bf16, K, rows[g]]]", "TK110", "the last axis of A"),
    (
        A,
        "A: list[H, global[bf16, rows[g], K]]",
        "TK104",
        "A is a list of H tensors, and rows has G",
    ),
    (A, "A: list[G, global[e2m1, K, scale = ue4m3 / 16]]", "TK106", "has two axes or more"),
    (A, "A: list[G, f32]", "TK106", "expected `A: global[bf16, M, K]`"),
    ("const global[i32, G]", "global[i32, G]", "TK106", "a `const` tensor of i32 with one axis"),
    ("const global[i32, G]", "const global[f32, G]", "TK106", "a `const` tensor of i32"),
    # maps
    (MAPS, "maps A: edited", "TK106", "only the device knows rows[g], an extent of C[g]"),
    (MAPS, "maps A, C: edted * 2", "TK106", "did you mean `edited`"),
    (MAPS, "maps A, C: edited * 99", "TK111", "at most 16"),
    (MAPS, "maps A, C, rows: edited", "TK106", "rows is one tensor, whose map the launch makes"),
    (MAPS, "maps A, C, A: edited", "TK103", "edited already"),
    (MAPS, "maps A, C, D: edited", "TK102", "no tensor `D`"),
    # schedules
    (CHAIN, "chain(range(G), tiles(blocks(N, BM), blocks(N, BN)))", "TK106", "the same tiles"),
    (CHAIN, "chain(range(N), tiles(blocks(rows[g], BM), blocks(N, BN)))", "TK104", "N groups, and"),
    (CHAIN, "chain(G, tiles(blocks(rows[g], BM), blocks(N, BN)))", "TK106", "runs over groups"),
    (CHAIN, "chain(range(G), blocks(rows[g], BM))", "TK106", "runs over groups"),
    (CHAIN, "chain(range(G, 2), tiles(blocks(rows[g], BM)))", "TK116", "how many groups"),
    ("blocks(rows[g], BM)", "blocks(rows[h], BM)", "TK102", "are `rows[g]`, not `rows[h]`"),
    ("schedule work: g, m, n", "schedule work: g, m", "TK116", "names 2 axes of 3"),
    # indices
    ("A[g][m, k]", "A[m, k]", "TK116", "a block of that `A[g][m, k]`"),
    ("A[g][m, k]", "A[g]", "TK106", "an array of the list A"),
    ("A[g][m, k]", "A[m][m, k]", "TK106", "an integer of a schedule"),
    ("A[g][m, k]", "A[g][k, m]", "TK104", "axis 0 of A[g] has the extent rows[g]"),
    (
        "B[g][n, k]",
        "B[g][m, k]",
        "TK104",
        "m runs over rows[g], and axis 0 of B[g] has the extent N",
    ),
    ("A[g][m, k]", "A[g][m, k, k]", "TK116", "A has 2 axes and is given 3 indices"),
    ("C[g][m, n] <-", "C <-", "TK106", "a copy goes to a slice"),
]


@pytest.mark.parametrize(("old", "new", "code", "told"), CASES, ids=[c[1] for c in CASES])
def test_a_mistake_is_told(old: str, new: str, code: str, told: str) -> None:
    found = mistakes(changed(LISTS, (old, new)))
    assert any(s.code == code and told in s.message for s in found), [
        (s.code, s.message) for s in found
    ]


@pytest.mark.parametrize(
    "clause", ["maps A, C: edted", "maps A, C: edited * 99", "maps A, C: edited * 0"]
)
def test_a_clause_that_is_wrong_is_told_once(clause: str) -> None:
    (found,) = mistakes(changed(LISTS, (MAPS, clause)))
    assert "only the device knows" not in found.message


LATER = [
    ("launch persistent", "launch clc", "`launch clc` with a chain"),
    ("A[g][m, k]", "A[0][m, k]", "a copy of another array than that of the schedule's group"),
    (
        "C[g][m, n] <-",
        "C[g][0, 0] <- 1.0\n                C[g][m, n] <-",
        "this use of an array of",
    ),
]


@pytest.mark.parametrize(("old", "new", "told"), LATER, ids=[c[1] for c in LATER])
def test_what_is_left_out_is_told_with_its_place(old: str, new: str, told: str) -> None:
    with pytest.raises(TkcError) as caught:
        to_module(Job(changed(LISTS, (old, new)), "k.tk", "sm_100a"), after="edit-maps")
    (found,) = caught.value.diagnostics
    assert found.code == "TK110"
    assert told in found.message
    assert found.location is not None


def test_what_it_becomes() -> None:
    kernel = next(iter(compiled(LISTS).body.block.ops))
    types = [a.type for a in kernel.regions[0].block.args]
    assert [str(t) for t in types] == [
        "!tile.tensor<i32, [G]>",
        "!tile.tensor<bf16, [G, ?rows, K], list>",
        "!tile.tensor<bf16, [G, N, K], list>",
        "!tile.tensor<bf16, [G, ?rows, N], list>",
    ]
    (schedule,) = [op for op in kernel.walk() if isinstance(op, ScheduleOp)]
    assert [isinstance(e.type, TensorType) for e in schedule.extents] == [False, True, False]
    assert [op.depth.value.data for op in kernel.walk() if isinstance(op, EditedMapsOp)] == [2, 2]
