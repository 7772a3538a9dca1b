"""R6: both ends of a pipe run the same loops round its items."""

from __future__ import annotations

import pytest
from programs import GEMM, changed, compiled, elementwise, mistakes, only

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
