"""Kernels that mix what fences are for: what is left is enough under many schedules, and each of it is needed."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import pytest
from emulator.test_explicit_copies import GROUPS
from programs import changed, product

import tkc
from tests.passes.test_eliminate_fences import EXAMPLES
from tkc.diagnostics import listening

Array = np.ndarray[Any, Any]
BF16, F32 = ml_dtypes.bfloat16, np.float32
FENCE = re.compile(r"^.*fence\.proxy.*;.*$", re.MULTILINE)


def given(*shape: int, dtype: Any = BF16) -> Array:
    return np.random.default_rng(5).uniform(-1, 1, shape).astype(dtype)


def out(*shape: int, dtype: Any = BF16) -> Array:
    return np.full(shape, np.nan, dtype)


VECTOR = """\
kernel k(A: global[bf16, M, N], S: global[f32, M], T: global[f32, M]):
    param BM = 128, BN = 64
    launch persistent
    schedule work: m in blocks(M, BM)
    shared a: tile[bf16, BM, BN] * 3
    shared s: vector[f32, BM] * 2
    pipe p(a): load -> math
    pipe q(s): math -> out
    role load:
        for m in work:
            for n in blocks(N, BN):
                put p: a <- A[m, n]
    role math, warps 4:
        for m in work:
            t = full(0)
            for n in blocks(N, BN):
                get p: t = t + row_sum(f32(read(a)))
            put q: s <- t
    role out, warps 4:
        for m in work:
            get q:
                S[m] <- column(read(s))
                T[m] <- column(read(s)) * 2
"""
"""Rows summed by one role, kept in a vector that another reads twice."""

LOOK = """\
    role look, warps 4:
        for m, n in work:
            s = full(0)
            for k in blocks(K, BK):
                get inputs:
                    s = s + row_sum(f32(read(a)))
            S[m] <- s
"""
TWO_READERS = changed(
    product(
        "get result:",
        "    C[m, n] <- read(d)",
        arguments="C: global[f32, M, N], S: global[f32, M]",
        params="BM = 128, BN = 128, BK = 64, STAGES = 4",
    ),
    ("tile[bf16, BM, BK] * 2", "tile[bf16, BM, BK] * STAGES"),
    ("tile[bf16, BN, BK] * 2", "tile[bf16, BN, BK] * STAGES"),
    ("load -> math\n", "load -> math, look\n"),
    ("    role store", f"{LOOK}    role store"),
)
"""One role reads an operand by products, the other by its threads."""

DEPENDENT = """\
kernel k(X: global[bf16, M, N], Y: global[bf16, M, N]):
    launch persistent, dependent
    schedule work: m, n in tiles(blocks(M, 128), blocks(N, 64))
    shared x: tile[bf16, 128, 64] * 2
    pipe p(x): load -> math
    role load:
        for m, n in work:
            put p: x <- X[m, n]
    role math, warps 4:
        for m, n in work:
            get p: Y[m, n] <- bf16(f32(read(x)) * 2)
"""

MIXED = """\
kernel k(X: global[bf16, M, N], Y: global[bf16, M, N]):
    param D = 2
    launch persistent
    schedule work: m, n in tiles(blocks(M, 128), blocks(N, 64))
    shared x: tile[bf16, 128, 64] * D
    shared c: tile[bf16, 128, 64] * 2
    barrier full * D, count = 1
    barrier empty * D, count = 4
    role load:
        slot = 0
        phase = 0
        for m, n in work:
            wait empty[slot], phase ^ 1
            elect:
                expect full[slot], bytes(x)
                load x[slot] <- X[m, n], full[slot]
            slot += 1
            if slot == D:
                slot = 0
                phase = phase ^ 1
    role math, warps 4:
        slot = 0
        phase = 0
        i = 0
        for m, n in work:
            wait full[slot], phase
            elect:
                wait stores <= 1, read
            sync role
            c[i] <- bf16(f32(read(x[slot])) * 2)
            fence proxy all
            sync role
            elect:
                store Y[m, n] <- c[i]
                commit stores
            fence proxy shared
            sync warp
            arrive empty[slot], each = warp
            slot += 1
            if slot == D:
                slot = 0
                phase = phase ^ 1
            i = i ^ 1
        elect:
            wait stores
"""
"""Barriers spelled out, with a fence wider than it need be and one too many."""

SOME_TURNS = """\
kernel k(X: global[bf16, M, N], S: global[f32, M]):
    launch persistent
    schedule work: m in blocks(M, 128)
    shared x: tile[bf16, 128, 64] * 2
    pipe p(x): load -> math
    role load:
        for m in work:
            for n in blocks(N, 64):
                put p: x <- X[m, n]
    role math, warps 4:
        for m in work:
            t = full(0)
            for n in blocks(N, 64):
                get p:
                    if n.index % 2 == 0: t = t + row_sum(f32(read(x)))
            S[m] <- t
"""

IN_PLACE = """\
kernel k(X: global[bf16, M, N], Y: global[bf16, M, N]):
    launch persistent
    schedule work: m, n in tiles(blocks(M, 128), blocks(N, 64))
    shared x: tile[bf16, 128, 64] * 2
    pipe p(x): load -> math
    pipe q(x): math -> out
    role load:
        for m, n in work:
            put p: x <- X[m, n]
    role math, warps 4:
        for m, n in work:
            get p:
                put q: x <- bf16(f32(read(x)) * 2)
    role out:
        for m, n in work:
            get q: Y[m, n] <- x
"""
"""Read by threads, written by them at the same place, and stored."""

VECTORS = """\
kernel k(X: global[bf16, M, N], u: global[f32, N], S: global[f32, M], Y: global[f32, M, N]):
    launch persistent
    schedule work: m in blocks(M, 128)
    shared x: tile[bf16, 128, 64] * 3
    shared v: vector[f32, 64] * 3
    pipe p(x, v): load -> math
    role load:
        for m in work:
            for n in blocks(N, 64):
                put p:
                    x <- X[m, n]
                    v <- u[n]
    role math, warps 4:
        for m in work:
            t = full(0)
            for n in blocks(N, 64):
                get p:
                    w = f32(read(x)) * row(read(v))
                    t = t + row_sum(w)
                    Y[m, n] <- w
            S[m] <- t
"""

IN = (EXAMPLES.parent / "lit_tests" / "run" / "in-place-of.tk").read_text()


class Case(NamedTuple):
    """`left`: proxy fences that the PTX has then; `careful`: those of them that the emulator does not miss."""

    text: str
    target: str
    arrays: Callable[[], list[Array]]
    left: int
    careful: int = 0


CASES = {
    "a vector": Case(VECTOR, "sm_90a", lambda: [given(900, 72), out(900, dtype=F32), out(900, dtype=F32)], 1),
    "two readers": Case(
        TWO_READERS, "sm_100a",
        lambda: [given(130, 392), given(136, 392), out(130, 136, dtype=F32), out(130, dtype=F32)], 2,
    ),
    "a dependent launch": Case(DEPENDENT, "sm_90a", lambda: [given(130, 136), out(130, 136)], 1),
    "both levels": Case(MIXED, "sm_100a", lambda: [given(260, 136), out(260, 136)], 1),
    "in some turns": Case(SOME_TURNS, "sm_90a", lambda: [given(130, 256), out(130, dtype=F32)], 1),
    "in place": Case(IN_PLACE, "sm_100a", lambda: [given(130, 200), out(130, 200)], 1),
    "in the place of operands": Case(IN, "sm_100a", lambda: [given(300, 136), given(264, 136), out(300, 264)], 2, 1),
    "vectors beside tiles": Case(
        VECTORS, "sm_90a",
        lambda: [given(130, 200), given(200, dtype=F32), out(130, dtype=F32), out(130, 200, dtype=F32)], 1,
    ),
    "elements": Case(
        GROUPS, "sm_90a",
        lambda: [given(128, 128), out(128, 128), given(128, dtype=F32), out(128, dtype=F32)], 1,
    ),
}  # fmt: skip


def run(ptx: str, kernel: tkc.Kernel, case: Case, seed: int) -> tuple[set[str], list[bytes]]:
    """What is found, and the arrays afterwards."""
    arrays = case.arrays()
    launch = kernel.emulation(*arrays, sm_count=2)
    assert launch is not None
    schedule = ("random", "pct", "lazy", "eager")[seed % 4]
    report = tkc.emulate(ptx, **launch, schedule=schedule, seed=seed)
    return {f.code for f in report.findings}, [a.tobytes() for a in arrays]


LONG = ("two readers", "vectors beside tiles", "in the place of operands", "both levels")


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.soak] * (n in LONG)) for n in CASES]
)
def test_what_is_left_is_enough_and_needed(name: str) -> None:
    case = CASES[name]
    with listening() as heard:
        kernel = tkc.compile(case.text, target=case.target)
    assert [d.message for d in heard if d.code == "TK902"] == []
    careful = tkc.compile(case.text, target=case.target, fences="conservative")
    _, wanted = run(careful.ptx, careful, case, 0)
    for seed in range(2):
        assert run(kernel.ptx, kernel, case, seed) == (set(), wanted)
    left = list(FENCE.finditer(kernel.ptx))
    assert len(left) == case.left
    missed = 0
    for fence in left:
        without = kernel.ptx[: fence.start()] + kernel.ptx[fence.end() :]
        missed += "TK302" in run(without, kernel, case, 0)[0]
    assert missed == case.left - case.careful
