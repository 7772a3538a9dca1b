"""What mends a barrier that a program spells out, as `check` says it."""

from __future__ import annotations

import pytest

from tests.analysis.bug_cases import changed
from tests.analysis.test_bug_cases import said

GEMM = """\
kernel k(A: global[bf16, M, K], B: global[bf16, N, K], C: global[bf16, M, N]):
    param BM = 128, BN = 128, BK = 64, STAGES = 4
    launch persistent
    schedule work: m, n in tiles(blocks(M, BM), blocks(N, BN))
    shared a: tile[bf16, BM, BK] * STAGES
    shared b: tile[bf16, BN, BK] * STAGES
    shared c: tile[bf16, BM, BN]
    accum d: tile[f32, BM, BN]
    barrier full * STAGES, count = 1
    barrier empty * STAGES, count = 1
    barrier done, count = 1
    barrier drained, count = 4

    role load:
        slot = 0
        phase = 0
        for m, n in work:
            for k in blocks(K, BK):
                wait empty[slot], phase ^ 1
                elect:
                    expect full[slot], bytes(a, b)
                    load a[slot] <- A[m, k], full[slot]
                    load b[slot] <- B[n, k], full[slot]
                slot = slot + 1
                if slot == STAGES:
                    slot = 0
                    phase = phase ^ 1

    role math:
        slot = 0
        phase = 0
        t = 0
        for m, n in work:
            wait drained, t ^ 1
            for k in blocks(K, BK):
                wait full[slot], phase
                elect:
                    mma d += a[slot] @ b[slot].T, not k.first
                    commit empty[slot]
                slot = slot + 1
                if slot == STAGES:
                    slot = 0
                    phase = phase ^ 1
            elect:
                commit done
            t = t ^ 1

    role store, warps 4:
        t = 0
        for m, n in work:
            wait done, t
            elect:
                wait stores, read
            sync role
            c <- bf16(read(d))
            fence proxy shared
            sync role
            elect:
                store C[m, n] <- c
                commit stores
            sync warp
            arrive drained, each = warp
            t = t ^ 1
        elect:
            wait stores
"""

CASES = {
    "no free slot at first": (
        ("wait empty[slot], phase ^ 1", "wait empty[slot], phase"),
        "TK314",
        "takes the other parity",
    ),
    "one slot too many": (
        ("if slot == STAGES:", "if slot == STAGES + 1:"),
        "TK306",
        "`phase = phase ^ 1`",
    ),
    "one parity for ever": (("wait done, t", "wait done, 0"), "TK305", "`phase = phase ^ 1`"),
    "nobody arrives": (
        ("                    commit empty[slot]\n", ""),
        "TK305",
        "`arrive empty[slot]`, or behind",
    ),
    "no bytes announced": (
        ("                    expect full[slot], bytes(a, b)\n", ""),
        "TK305",
        "`expect full[slot], bytes",
    ),
    "too few arrive": (
        ("arrive drained, each = warp", "arrive drained"),
        "TK305",
        "`count = 1` where drained is declared, or more",
    ),
    "too many arrive": (
        ("barrier done, count = 1", "barrier done, count = 4"),
        "TK305",
        "`count = 1` where done",
    ),
    "by turns": (
        ("            arrive drained", "            if t == 0: arrive drained"),
        "TK305",
        "the arrival in every branch",
    ),
    "by some": (
        ("            arrive drained", "            if m.index > 3: arrive drained"),
        "TK305",
        "the arrival in every branch",
    ),
    "stores are under way": (
        ("        elect:\n            wait stores\n", ""),
        "TK324",
        "`elect: wait stores`",
    ),
}


def test_the_program_is_right() -> None:
    assert said(GEMM, "sm_100a") == ()


@pytest.mark.parametrize("what", CASES)
def test_what_mends_it_is_said_as_help(what: str) -> None:
    change, code, told = CASES[what]
    found = said(changed(GEMM, change), "sm_100a")
    assert any(d.code == code and told in (d.help or "") for d in found), found


def test_a_wait_for_the_item_before_is_told() -> None:
    found = said(
        changed(GEMM, ("wait full[slot], phase\n", "wait full[slot], phase ^ 1\n")), "sm_100a"
    )
    assert found[0].code == "TK301"
    assert any("`wait full` (line 36) passes before" in n.message for n in found[0].notes)
