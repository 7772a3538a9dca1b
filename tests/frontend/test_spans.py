"""R19: schedules with arguments, whose blocks a condition bounds, and the order of items that are not equally long."""

from __future__ import annotations

import pytest
from programs import SUMS, changed, compiled, mistakes

from tkc.ir.tile import ops as t
from tkc.ir.tile.loops import ForSpanOp

TRIANGLE = changed(
    SUMS,
    ("schedule work: m in blocks(M, 128)", "schedule work: m in tiles(blocks(M, 128), order = longest_first)\n    schedule keys(q): j in blocks(N, 32) where causal.any(q, j)"),
    ("blocks(N, 32):\n                put", "keys(m):\n                put"),
    ("blocks(N, 32):\n                get p: total = total + row_sum(read(x))",
     "keys(m):\n                get p: v = read(x)\n                mask v where causal(m, j)\n                total = total + row_sum(v)"),
)  # fmt: skip


def test_R19_allows_schedules_whose_blocks_depend_on_others() -> None:
    loops = [o for o in compiled(TRIANGLE).walk() if isinstance(o, ForSpanOp)]
    assert len(loops) == 2
    assert all(loop.some is not None for loop in loops)


@pytest.mark.parametrize(
    ("old", "new", "code", "words"),
    [
        ("keys(m):\n                get", "keys:\n                get", "TK116", "schedule keys takes 1 argument, not 0"),
        ("keys(m):\n                get", "blocks(N, 32):\n                get", "TK109", "load puts them by `for j in keys(m)`"),
        ("where causal.any(q, j)", "where causal(q, j)", "TK106", "`where` takes `any(...)`"),
        ("where causal.any(q, j)", "where any(q < 5)", "TK106", "says nothing of its variable `j`"),
        ("where causal.any(q, j)", "where any(2 * j < q)", "TK110", "2 times `j`"),
        ("where causal.any(q, j)", "where any(j < q or 2 * j < q)", "TK110", "2 times `j`"),
        ("where causal.any(q, j)", "where any(j < 9 or j > q)", "TK110", "one side ends a row of blocks and the other begins one"),
        ("where causal.any(q, j)", "where any(q < 5 or q < 3)", "TK106", "says nothing of its variable `j`"),
        ("where causal.any(q, j)", "where any((j < q or j < 1) and (j < 2 or j < 3) and (j < 4 or j < 5) and (j < 6 or j < 7))", "TK110", "more than 8 ways"),
        ("where causal.any(q, j)", "where any(j < 100)", "TK106", "one end of which depends on the item"),
        ("j in blocks(N, 32)", "j in tiles(blocks(N, 32))", "TK106", "runs over the blocks of one axis"),
        ("longest_first", "shortest_first", "TK102", "`longest_first`"),
        ("order = longest_first", "order = longest_first, group = 2", "TK106", "both say which item comes next"),
        ("for m in work:\n            total", "for m, n in work:\n            total", "TK116", "names 2 variables for 1 axis"),
    ],
)  # fmt: skip
def test_R19_refuses_schedules_that_are_not_one_sequence(
    old: str, new: str, code: str, words: str
) -> None:
    said = mistakes(changed(TRIANGLE, (old, new)))
    found = [x for x in said if words in x.message]
    assert found, [f"{x.code} {x.message}" for x in said]
    assert found[0].code == code


UNUSED = "schedule keys(q): j in blocks(N, 32) where causal.any(q, j)"


@pytest.mark.parametrize(
    ("given", "where", "code", "words"),
    [
        ("q", "any(j < zz)", "TK102", "unknown name `zz`"),
        ("q", "any(j < q and zz > 3)", "TK102", "unknown name `zz`"),
        ("q", "any(j < q and X > 3)", "TK106", "expected an integer, not the tensor X"),
        ("q", "j < q", "TK106", "`where` takes `any(...)`"),
        ("q, r", "any(q < r)", "TK106", "says nothing of its variable `j`"),
        ("", "any(2 * j < 5)", "TK110", "2 times `j`"),
        ("a, b, c, d", "any(j < a + b + c + e)", "TK102", "unknown name `e`"),
        ("q", "any(j <= q)", "", ""),
        ("q", "any(j < q // 2)", "", ""),  # a number
        ("q, n", "any(j <= q and j > q - n)", "", ""),
        ("q", "any(j.index < q.index)", "TK106", "takes a condition on positions"),
    ],
)
def test_R19_looks_at_the_condition_of_a_schedule_that_no_loop_goes_through(
    given: str, where: str, code: str, words: str
) -> None:
    text = changed(
        TRIANGLE,
        (UNUSED, f"{UNUSED}\n    schedule other({given}): j in blocks(N, 32) where {where}"),
    )
    said = mistakes(text.replace("other()", "other"))
    assert [x.code for x in said] == [code] * bool(code)
    assert all(words in x.message for x in said)


def test_R19_allows_the_longest_items_first() -> None:
    (schedule,) = (o for o in compiled(TRIANGLE).walk() if isinstance(o, t.ScheduleOp))
    assert schedule.outermost is not None
    assert schedule.outermost.value.data == 0
    assert schedule.descending is not None
    upper = changed(TRIANGLE, ("causal.any(q, j)", "any(j >= q)"))
    (schedule,) = (o for o in compiled(upper).walk() if isinstance(o, t.ScheduleOp))
    assert schedule.descending is None


@pytest.mark.parametrize(
    ("where", "some"),
    [
        ("causal.any(q, j)", True),
        ("any(j <= q + 7)", True),
        ("any(j <= q - 7)", False),
        ("any(j > q - 7)", False),  # q may lie beyond the last j
        ("any(causal(q, j) and j < n)", False),
        ("any(j < n)", False),
        ("any(j < n or j <= q)", True),
        ("any(j < n or j <= q - 7)", False),
    ],
)
def test_a_loop_knows_whether_it_may_be_empty(where: str, some: bool) -> None:
    text = changed(TRIANGLE, ("causal.any(q, j)", where), (", order = longest_first", ""))
    loops = [o for o in compiled(text).walk() if isinstance(o, ForSpanOp)]
    assert [loop.some is not None for loop in loops] == [some, some]
