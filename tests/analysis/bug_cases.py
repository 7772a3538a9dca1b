"""Failures that users of other compilers met in synchronisation, as kernels: what is right, and slips in it.

Numbers are those of our list of cases. Each case comes with other tiles, roles or buffers than it was met with.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tests.analysis.twins import HANDED, RING, STAGED, THROUGH, source


@dataclass(frozen=True)
class Case:
    """A right program, and what each change makes of it: the code that is told, and what the line that is shown
    holds."""

    good: str
    bad: tuple[tuple[tuple[tuple[str, str], ...], str, str], ...] = ()
    target: str = "sm_90a"

    def programs(self) -> list[tuple[str, str, str]]:
        return [(changed(self.good, *changes), code, line) for changes, code, line in self.bad]


def changed(text: str, *changes: tuple[str, str]) -> str:
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return text


def without(*lines: str) -> tuple[tuple[str, str], ...]:
    return tuple((line, "") for line in lines)


PAIR, SCALED, GEMM = (
    source("gemm_2cta_level2"),
    source("gemm_nvfp4_level2"),
    source("gemm_bf16_level2"),
)
WGMMA = source("gemm_bf16_level2_sm90")
UNFENCED = re.sub(r"(?m)^ *fence tcgen05 .*\n", "", GEMM)

TRANSFORMED = """\
kernel transformed(X: global[bf16, M, K], B: global[bf16, N, K], Y: global[bf16, M, N]):
    param BM = 64, BN = 64, BK = 64
    launch persistent
    schedule work: m, n in tiles(blocks(M, BM), blocks(N, BN))
    shared x: tile[bf16, BM, BK]
    shared a: tile[bf16, BM, BK]
    shared b: tile[bf16, BN, BK]
    shared c: tile[bf16, BM, BN]
    accum d: tile[f32, BM, BN]
    barrier full, count = 1
    role all, warps 4:
        phase = 0
        for m, n in work:
            for k in blocks(K, BK):
                elect:
                    fence proxy shared
                    expect full, bytes(x, b)
                    load x <- X[m, k], full
                    load b <- B[n, k], full
                wait full, phase
                phase = phase ^ 1
                a <- bf16(f32(read(x)) * 2)
                fence proxy shared
                sync role
                fence products
                mma d += a @ b.T, not k.first
                commit products
                wait products
            elect: wait stores, read
            sync role
            c <- bf16(read(d) if K > 0 else 0)
            fence proxy shared
            sync role
            elect:
                store Y[m, n] <- c
                commit stores
        elect: wait stores
"""
"""An operand goes through registers on its way to a product, in a loop without stages."""

TWO_LOADS = """\
kernel sums(X: global[bf16, M, N], Y: global[bf16, M, N], Z: global[bf16, M, N]):
    launch persistent
    schedule work: m, n in tiles(blocks(M, 64), blocks(N, 128))
    shared x: tile[bf16, 64, 128]
    shared y: tile[bf16, 64, 128]
    barrier full, count = 1
    role all:
        phase = 0
        for m, n in work:
            elect:
                wait stores, read
                expect full, bytes(x, y)
                load x <- X[m, n], full
                load y <- Y[m, n], full
            wait full, phase
            phase = phase ^ 1
            elect:
                store Z[m, n] += x
                store Z[m, n] += y
                commit stores
        elect: wait stores
"""
"""Two copies complete on one barrier."""

NAMED = """\
kernel pairs(X: global[f32, M, N], Y: global[f32, M, N]):
    launch persistent
    schedule work: m, n in tiles(M, blocks(N, 128))
    shared v: vector[f32, 128]
    role one, warps 4:
        for m, n in work:
            v[0][thread] <- read(X[m, n.index * 128 + thread])
            arrive 1, 256
            sync 2, 256
    role two, warps 4:
        for m, n in work:
            sync 1, 256
            Y[m, n.index * 128 + thread] <- read(v[0][127 - thread])
            arrive 2, 256
"""
"""Half of the threads arrive at a numbered barrier, the other half wait."""

CASES: dict[str, tuple[Case, ...]] = {
    "PRX-1": tuple(
        Case(
            changed(RING, ("128, 64", f"{rows}, 64"), ("blocks(M, 128)", f"blocks(M, {rows})")),
            ((without("            fence proxy shared\n"), "TK302", "store Y"),),
        )
        for rows in (128, 256)
    ),
    "PRX-3": (
        Case(TRANSFORMED, (((("fence proxy shared\n                sync role\n                fence products", "sync role\n                fence products"),),
                            "TK302", "mma d"),)),
    ),
    "PRX-5": tuple(
        Case(changed(HANDED, ("128, 64", f"128, {n}"), ("blocks(N, 64)", f"blocks(N, {n})")),
             (((("            fence proxy shared\n            sync warp\n", "            sync warp\n"),), "TK302", "store Y"),))
        for n in (8, 128)
    ),
    "MBR-4": (
        Case(PAIR, (((("2 * bytes(a, b)", "4 * bytes(a, b)"),), "TK305", "load b"),
                    ((("2 * bytes(a, b)", "bytes(a, b)"),), "TK305", "load b")), "sm_100a"),
    ),
    "MBR-6": (
        Case(RING, (((("empty * 2, count = 4", "empty * 2, count = 3"),), "TK305", "arrive empty"),
                    ((("arrive empty[i], each = warp", "arrive empty[i], each = thread"),), "TK305", "arrive empty"))),
        Case(HANDED, (((("barrier free * 2, count = 1", "barrier free * 2, count = 32"),), "TK305", "arrive free"),)),
    ),
    "MBR-8": (Case(changed(RING, ("x: tile[bf16, 128, 64] * 2", "x: tile[bf16, 128, 64]"), ("full * 2", "full"),
                           ("empty * 2", "empty"), ("i = 1 - i", "i = 0"), ("phase ^ i\n", "phase ^ 1\n"))),),
    "PIP-1": (
        Case(THROUGH, (((("wait stores <= 1, read", "wait stores <= 3, read"),), "TK308", "load x"),)),
        Case(changed(THROUGH, ("tile[bf16, 128, 64] * 2", "tile[bf16, 64, 64] * 2"), ("blocks(M, 128)", "blocks(M, 64)")),
             (((("wait stores <= 1, read", "wait stores <= 2, read"),), "TK308", "load x"),)),
    ),
    "PIP-3": (
        Case(STAGED, (((("                elect: wait stores <= 1, read\n                sync role\n", "                sync role\n"),
                        ("                elect:\n                    store", "                elect: wait stores <= 1, read\n                elect:\n                    store")),
                       "TK308", "c[i] <-"),)),
    ),
    "PIP-5": (
        Case(TRANSFORMED, (((("                wait products\n            elect", "            wait products\n            elect"),),
                            "TK309", "load b"),)),
    ),
    "PIP-7": (
        Case(WGMMA, (((("wait products <= 1", "wait products <= 3"),), "TK308", "load a"),
                     (without("                wait products <= 1\n"), "TK309", "load b"))),
    ),
    "PIP-9": (
        Case(STAGED, (((("elect: wait stores <= 1, read", "if lane == 7: wait stores <= 1, read"),), "TK307", "c[i] <-"),
                      ((("elect: wait stores <= 1, read", "if thread == 96: wait stores <= 1, read"),), "TK307", "c[i] <-"))),
    ),
    "TMM-1": (
        Case(GEMM, (((("            fence tcgen05 before\n            sync warp\n            arrive drained[i], each = warp\n", ""),
                      ("            for j in range(BN", "            fence tcgen05 before\n            sync warp\n            arrive drained[i], each = warp\n            for j in range(BN")),
                     "TK309", "mma d"),), "sm_100a"),
    ),
    "CTA2-3": (
        Case(PAIR, (((("not k.first, pair", "not k.first"),), "TK104", "mma d"),), "sm_100a"),
    ),
    "CTA2-7": (
        Case(PAIR, (((("load a[slot] <- A[m, k], full[slot], at = 0", "load a[slot] <- A[m, k], full[slot]"),), "TK305", "load"),
                    ((("commit empty[slot], multicast = 3", "commit empty[slot]"),), "TK305", "wait empty"),
                    ((("each = warp, at = 0", "each = warp"),), "TK305", "arrive drained"),
                    ((("                    if rank == 0:\n                        expect", "                    if rank < 2:\n                        expect"),), "TK305", "expect")), "sm_100a"),
    ),
    "WGM-1": (
        Case(WGMMA, (((("            wait products\n            if K", "            wait products <= 1\n            if K"),), "TK319", "c[j % 2] <-"),)),
        Case(TRANSFORMED, (((("                wait products\n", ""),), "TK319", "c <-"),)),
    ),
    "WGM-3": (
        Case(WGMMA, ((without("                fence products\n"), "TK319", "mma d"),)),
        Case(TRANSFORMED, (((("                fence products\n", "                if k.last: fence products\n"),), "TK319", "mma d"),)),
    ),
    "CVG-5": (
        Case(STAGED, (((("read\n                sync role\n", "read\n                if lane != 3: sync role\n"),), "TK316", "sync role"),)),
    ),
    "FP-1": (
        Case(NAMED, (((("1, 256", "1, 128"),), "TK305", "arrive 1"),
                     (without("            sync 2, 256\n", "            arrive 2, 256\n"), "TK309", "v[0][thread]"))),
    ),
    "FP-3": (Case(TWO_LOADS, (((("bytes(x, y)", "bytes(y)"),), "TK305", "load y"),)),),
    "FP-7": (
        Case(UNFENCED, (((("wait done[i], turn", "wait done[i], turn, relaxed"),), "TK301", "read(d[i]"),), "sm_100a"),
        Case(changed(GEMM, ("wait done[i], turn", "wait done[i], turn, relaxed")), (), "sm_100a"),
    ),
    "BSC-9": (
        Case(SCALED, ((without("                    copy sb[slot] <- b[slot].scales\n"), "TK320", "mma d"),), "sm_100a"),
    ),
}  # fmt: skip

ELSEWHERE: dict[str, tuple[str, str]] = {
    "PRX-7": ("tensor maps that a kernel edits", "tests/emulator/races/test_bugs.py"),
    "PRX-9": ("as PRX-7, in a pair", "tests/emulator/races/test_clusters.py"),
    "MBR-1": ("the compiler initialises barriers and publishes that", "tests/emulator/races/test_clusters.py"),
    "MBR-2": ("no program can name a barrier that is not initialised", "tests/emulator/test_findings.py"),
    "TMM-3": ("the compiler places the address word", "tests/cases/test_tensor_memory.py"),
    "TMM-5": ("columns are counted when they are given out", "tests/cases/test_tensor_memory.py"),
    "TMM-7": ("as TMM-5", "tests/cases/test_tensor_memory.py"),
    "TMM-9": ("the compiler gives tensor memory back where all roles have ended", "tests/cases/test_tensor_memory.py"),
    "TMM-11": ("a layout, not an order", "tests/cases/test_tensor_memory.py"),
    "CTA2-1": ("the compiler allocates and gives back for a pair, with a barrier between", "tests/cases/test_pairs.py"),
    "CTA2-9": ("the launcher refuses another cluster", "tests/cases/test_pairs.py"),
    "WGM-5": ("a group of products is one value to the compiler, up to PTX", "tests/cases/products.py"),
    "CVG-3": ("warps are numbered in their role; TK122 is said where one is elected", "tests/cases/test_convergence.py"),
    "LCH-3": ("grids are the launcher's", "tests/cases/test_launches.py"),
    "LCH-5": ("grids are the launcher's", "tests/cases/test_launches.py"),
    "LCH-7": ("the number of multiprocessors is the launcher's", "tests/cases/test_launches.py"),
    "FP-9": ("bounds of operands are the emulator's", "tests/emulator/test_findings.py"),
}  # fmt: skip
"""Why a case has no twins here, and what tests it."""

KINDS = {
    "PRX": (1, 3, 5, 7, 9), "MBR": (1, 2, 4, 6, 8, 11), "PIP": (1, 3, 5, 7, 9), "TMM": (1, 3, 5, 7, 9, 11),
    "CTA2": (1, 3, 5, 7, 9), "WGM": (1, 3, 5), "CVG": (1, 3, 5), "LCH": (1, 3, 5, 7), "FP": (1, 3, 5, 7, 9),
}  # fmt: skip
