"""Items of pipes under a condition: several of one pipe a turn, and tiles of which another pipe carries the rest."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import tkc
from tests.analysis.test_twins import diagnosed

TWO_A_TURN = """\
kernel k(A: global[bf16, M, K], B: global[bf16, N, K], C: global[f32, M, N], w: i32):
    launch persistent
    schedule work: m, n in tiles(blocks(M, 128), blocks(N, 128))
    shared t: tile[bf16, 128, 64] * 4
    accum  o: tile[f32, 128, 128]
    pipe inputs(t): load -> mma
    pipe final(o):  mma -> store
    role load:
        for m, n in work:
            for k in blocks(K, 64):
                if k.index >= w:
                    put inputs: t <- A[m, k]
                    put inputs: t <- B[n, k]
    role mma:
        for m, n in work:
            put final:
                o = 0
                for k in blocks(K, 64):
                    if k.index >= w:
                        get inputs as a, inputs as b: o += a @ b.T
    role store:
        for m, n in work:
            get final: C[m, n] <- read(o)
"""

TO_AND_FRO = """\
kernel k(A: global[bf16, M, K], B: global[bf16, N, K], C: global[f32, M, N], w: i32):
    launch persistent
    schedule work: m, n in tiles(blocks(M, 128), blocks(N, 64))
    shared a: tile[bf16, 128, 64] * 2
    shared b: tile[bf16, 64, 64] * 2
    accum  o: tile[f32, 128, 64]
    pipe inputs(a, b): load -> mma
    pipe out(o):       correct -> mma
    pipe final(o):     mma -> correct
    role load:
        for m, n in work:
            if m.index >= w:
                for k in blocks(K, 64):
                    put inputs: a <- A[m, k]; b <- B[n, k]
    role mma:
        for m, n in work:
            if m.index >= w:
                for k in blocks(K, 64):
                    get inputs, out: o += a @ b.T
                put final: keep o
    role correct:
        for m, n in work:
            if m.index >= w:
                for k in blocks(K, 64):
                    put out: o = 0 if k.first else read(o) * 0.5
                get final: C[m, n] <- read(o)
"""


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
def test_two_items_in_some_turns_are_in_order(target: str) -> None:
    """The program is right: at most that nothing is known of its order may be said."""
    assert {d.code for d in diagnosed(TWO_A_TURN, target)} <= {"TK325"}
    m, n, k = 136, 136, 136
    a, b = (
        np.random.default_rng().normal(size=(rows, k)).astype(ml_dtypes.bfloat16) for rows in (m, n)
    )
    c = np.full((m, n), 77, np.float32)
    report = tkc.compile(TWO_A_TURN, target=target).emulate(a, b, c, 1, sm_count=2)
    assert not report.findings
    want = a[:, 64:].astype(np.float64) @ b[:, 64:].astype(np.float64).T
    np.testing.assert_allclose(c, want, rtol=1e-5, atol=1e-3)


def test_a_condition_round_one_of_two_blocks_is_named() -> None:
    """What orders them stands under it; round both it can be followed."""
    tkc.compile(TO_AND_FRO, target="sm_100a")
    alone = TO_AND_FRO
    for item in ("put final: keep o", "get final: C[m, n] <- read(o)"):
        alone = alone.replace(f"                {item}", f"            {item}")
    with pytest.raises(
        tkc.TkcError, match="the condition that stands round one of the two blocks alone"
    ) as raised:
        tkc.compile(alone, target="sm_100a")
    assert [d.code for d in raised.value.diagnostics] == ["TK326"]
