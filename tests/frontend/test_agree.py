"""R6: both ends of a pipe run the same loops round its items."""

from __future__ import annotations

import pytest
from programs import GEMM, SUMS, changed, compiled, elementwise, mistakes, only

LOAD = "            for k in blocks(K, BK):\n                put inputs:\n"


def one(text: str) -> str:
    said = only([s for s in mistakes(text) if s.code == "TK109"])
    assert all(note.location is not None for note in said.diagnostic.notes)
    return said.message


def test_loops_of_other_extents_disagree() -> None:
    message = one(changed(GEMM, (LOAD, LOAD.replace("blocks(K", "blocks(K // 2"))))
    assert message == (
        "roles load and math disagree about the items of pipe inputs: load puts them by "
        "`for k in blocks(K // 2, BK)`, math gets them by `for k in blocks(K, BK)`"
    )


def test_both_loops_are_shown() -> None:
    text = changed(GEMM, (LOAD, LOAD.replace("BK", "32")))
    said = only([s for s in mistakes(text) if s.code == "TK109"])
    notes = [(n.location.line, n.message) for n in said.diagnostic.notes if n.location]
    assert notes == [
        (17, "role load: `for k in blocks(K, 32)`"),
        (26, "role math: `for k in blocks(K, BK)`"),
    ]


def test_loops_of_one_text_that_differ_are_told_apart() -> None:
    """The same name for other numbers."""
    text = changed(
        GEMM,
        ("    role load:\n", "    role load:\n        n0 = cdiv(K, BK)\n"),
        ("    role math:\n", "    role math:\n        n0 = cdiv(N, BK)\n"),
        (LOAD, "            for i in range(n0):\n                put inputs:\n"),
        ("                for k in blocks(K, BK):\n                    get", "                for i in range(n0):\n                    get"),
        ("a <- A[m, k]", "a <- A[m, m]"),
        ("b <- B[n, k]", "b <- B[n, m]"),
    )  # fmt: skip
    (said,) = [s for s in mistakes(text) if s.code == "TK109"]
    assert said.message == (
        "roles load and math disagree about the items of pipe inputs: load puts them by `for i in range(n0)` in line "
        "18, math gets them by `for i in range(n0)` in line 28, which is of other values there, or the other arm"
    )


def test_equal_expressions_agree_however_they_are_written() -> None:
    wide = changed(
        GEMM,
        ("K], B: global[bf16, N, K]", "D], B: global[bf16, N, D]"),
        (LOAD, LOAD.replace("blocks(K, BK)", "blocks(D, 32 + 32)")),
        ("for k in blocks(K, BK)", "for j in blocks(D // 1 + 0, BK * 1)"),
    )
    compiled(wide)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (
            "                put inputs:\n",
            "                for j in blocks(K, BK): put inputs:\n",
            "load puts them by `for j in blocks(K, BK)`, math gets them by `get inputs`",
        ),
        (
            "        for m, n in work:\n            get result",
            "        for m in blocks(M, BM): get result",
            "math puts them by `for m, n in work`, store gets them by `for m in blocks(M, BM)`",
        ),
        (
            "                    b <- B[n, k]\n",
            "                    b <- B[n, k]\n                put inputs: a <- A[m, k]; b <- B[n, k]\n",
            "load puts them by 2 puts or loops in `for k in blocks(K, BK)`, math gets them by 1 get or loop in",
        ),
    ],
)  # fmt: skip
def test_other_structures_disagree(old: str, new: str, told: str) -> None:
    text = changed(GEMM, (old, new))
    messages = [s.message for s in mistakes(text)]
    assert any(told in m for m in messages), messages


def test_a_role_that_takes_no_part_is_named() -> None:
    body = "                    a <- A[m, k]\n                    b <- B[n, k]"
    text = changed(GEMM, (LOAD + body, "            x = 1"))
    assert one(text) == "role load never puts pipe inputs (load -> math)"
    text = changed(GEMM, ("get result:\n                C[m, n] <- bf16(read(d))", "x = 1"))
    assert one(text) == "role store never gets pipe result (math -> store)"


def test_every_consumer_is_compared() -> None:
    text = changed(
        GEMM, ("load -> math", "load -> math, store"), ("for m, n in work:\n            get result:",
        "for m, n in work:\n            get inputs: x = read(a)\n            get result:"),
    )  # fmt: skip
    assert "roles load and store disagree" in one(text)
    compiled(
        changed(
            text,
            ("get inputs: x = read(a)", "for k in blocks(K, BK): get inputs: x = read(a)"),
        )
    )


def test_loops_that_hold_no_items_do_not_count() -> None:
    compiled(elementwise("Z[m, n] <- read(y)", before="for j in blocks(N, BN):\n    t = 1.0"))


FLAGS = """\
kernel k(A: global[f32, M, N], R: const global[i32, L], C: global[f32, M, N], flag: i32, alpha: f32):
    launch persistent
    schedule work: m, n in tiles(blocks(M, 128), blocks(N, 32))
    shared a: tile[f32, 128, 32] * 2
    pipe p(a): load -> math
    role load:
        for m, n in work:
            PUT
    role math, warps 4:
        x = full(0)
        for m, n in work:
            GET
            C[m, n] <- x
"""


def flags(put: str, get: str) -> str:
    return changed(FLAGS, ("PUT", put), ("GET", get))


PUT, GET = "put p: a <- A[m, n]", "get p: x = read(a)"


@pytest.mark.parametrize(
    ("put", "get"),
    [
        (f"if flag > 0: {PUT}", f"if flag > 0: {GET}"),
        (f"if flag > 0: {PUT}", f"if 1 - 1 < flag + 0: {GET}"),
        (f"if m.index % 2 == 0: {PUT}", f"j = m.index\n            if j % 2 == 0: {GET}"),
        (f"for i in range(flag): {PUT}", f"for j in range(0, flag, 1): {GET}"),
        (
            f"for i in range(flag):\n                if i == 1: {PUT}",
            f"for j in range(flag):\n                if j == 1: {GET}",
        ),
        (f"if alpha > 0.5: {PUT}", f"if alpha > 0.5: {GET}"),
        (
            f"if flag > 1: {PUT}\n            else:\n                {PUT}\n                {PUT}",
            f"if flag > 1: {GET}\n            else:\n                {GET}\n                {GET}",
        ),
        (
            f"j = 0\n            while j < flag:\n                {PUT}\n                j = j + 1",
            f"i = 1 - 1\n            while i < flag:\n                i = i + 1\n                {GET}",
        ),
        (f"for i in 0, 1, 2: {PUT}", f"{GET}\n            for i in unroll(2): {GET}"),
        (  # the bound is read only where the loop has not been left
            f"i = 0\n            while i < read(R[0]):\n                if i == 5: break\n                i += 1\n                {PUT}",
            f"j = 0\n            while j < read(R[0]):\n                if j == 5: break\n                j += 1\n                {GET}",
        ),
    ],
)
def test_conditions_and_bounds_agree(put: str, get: str) -> None:
    compiled(flags(put, get))


@pytest.mark.parametrize(
    ("put", "get", "told"),
    [
        (f"if flag > 0: {PUT}", GET, "load puts them by `flag > 0`, math gets them by `get p`"),
        (f"if flag > 0: {PUT}", f"if flag > 1: {GET}", "by `flag > 0`, math gets them by `flag > 1`"),
        (f"if m.index > 0: {PUT}", f"if n.index > 0: {GET}", "by `m.index > 0`, math gets them by `n.index > 0`"),
        (
            f"if flag > 0: {PUT}",
            f"if flag > 0: x = 1.0\n            else: {GET}",
            "by `flag > 0` in line 8, math gets them by `flag > 0` in line 12, which is of other values there, or the other arm",
        ),
        (f"for i in range(flag): {PUT}", f"for i in range(1, flag): {GET}", "by `for i in range(flag)`"),
        (f"for i in 0, 1: {PUT}", GET, "2 puts or loops"),
        (
            f"for i in range(3):\n                for j in range(flag):\n                    if i == 1: {PUT}",
            f"for i in range(3):\n                for j in range(flag):\n                    if j == 1: {GET}",
            "by `i == 1`, math gets them by `j == 1`",
        ),
    ],
)  # fmt: skip
def test_conditions_and_bounds_disagree(put: str, get: str, told: str) -> None:
    assert told in one(flags(put, get))


@pytest.mark.parametrize(
    ("put", "get", "told", "text"),
    [
        (f"if lane == 0: {PUT}", f"if lane == 0: {GET}", "load puts pipe p under a condition or bound that", "lane"),
        (
            f"j = 0\n            while j < flag:\n                {PUT}\n                j = j + lane",
            f"j = 0\n            while j < flag:\n                {GET}\n                j = j + lane",
            "load puts pipe p in a loop whose turns depend on `j`", "j < flag",
        ),
        (
            f"j = 0\n            for i in range(flag): j = j + i\n            if j > 3: {PUT}",
            f"j = 0\n            for i in range(flag): j = j + i\n            if j > 3: {GET}",
            "load puts pipe p under a condition", "j",
        ),
    ],
)  # fmt: skip
def test_what_a_role_alone_knows(put: str, get: str, told: str, text: str) -> None:
    said = [s for s in mistakes(flags(put, get)) if told in s.message]
    assert said, [s.message for s in mistakes(flags(put, get))]
    assert (said[0].code, said[0].text) == ("TK109", text)
    assert "travels through a pipe" in said[0].message


LEAVING = [
    # which way of a condition leaves the loop; behind which other way; and a second one
    (["if j.index > n:", "    z = 1", "else: break"], ["if j.index > n: break"], False),
    (["if j.index > n:", "    z = 1", "elif j.index > 3: break"], ["if j.index > 3: break"], False),
    (["if j.index > n: break", "z = 1", "if j.index > 2 * n: break"], ["if j.index > n: break"], False),
    (["if j.index > n: break", "z = 1", "if j.index > 2 * n: break"], ["if j.index > n: break", "total = total + 1", "if j.index > 2 * n: break"], True),
    (["if j.index > n:", "    z = 1", "elif j.index > 3: break"], ["if j.index > n: total = total + 1", "elif j.index > 3: break"], True),
]  # fmt: skip


@pytest.mark.parametrize(("load", "math", "agree"), LEAVING)
def test_roles_leave_a_loop_in_the_same_ways(load: list[str], math: list[str], agree: bool) -> None:
    def then(item: str, lines: list[str]) -> tuple[str, str]:
        return item, "\n".join([item, *(f"                {line}" for line in lines)])

    text = changed(SUMS, then("put p: x <- X[m, j]", load), then("get p: total = total + row_sum(read(x))", math))  # fmt: skip
    assert [s.code for s in mistakes(text)] == ([] if agree else ["TK109"])


ROUND = """\
kernel k(X: global[f32, M, N], Y: global[f32, M, N], Z: global[f32, M, N], w: i32):
    launch persistent
    schedule work: m in blocks(M, 128)
    shared t, u: tile[f32, 128, 32] * 2
    pipe p(t): load -> double
    pipe q(u): double -> one, two
    role load:
        for m in work:
            for j in blocks(N, 32): put p: t <- X[m, j]
    role double, warps 4:
        for m in work:
            for j in blocks(N, 32): get p, put q: u <- read(t) * 2
    role one:
        for m in work:
            for j in blocks(N, 32): get q: Y[m, j] <- u
    role two:
        for m in work:
            for j in blocks(N, 32): get q: Z[m, j] <- u
"""


@pytest.mark.parametrize(
    ("odd", "told"),
    [("load", 1), ("double", 1), ("one", 1), ("two", 1)],
)
def test_a_condition_that_one_role_lacks_is_told_once(odd: str, told: int) -> None:
    """However many pipes the loop in it has."""
    loop = "for j in blocks(N, 32): "
    assert mistakes(ROUND) == []
    roles = ROUND.split("    role ")
    for index, role in enumerate(roles[1:], 1):
        if not role.startswith(odd):
            roles[index] = role.replace(loop, f"if w > 3:\n                {loop}")
    said = mistakes("    role ".join(roles))
    assert [s.code for s in said] == ["TK109"] * told
    every = mistakes(ROUND.replace(loop, f"if w > 3:\n                {loop}"))
    assert every == []
