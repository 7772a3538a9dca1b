"""Small kernels with every synchronisation spelled out, and the slips that people make in them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

STAGED = """\
kernel copy(X: global[bf16, M, N], Y: global[bf16, M, N]):
    launch persistent
    schedule work: m, n in tiles(blocks(M, 128), blocks(N, 64))
    shared x: tile[bf16, 128, 64]
    shared c: tile[bf16, 128, 64] * 2
    pipe inputs(x): load -> math
    role load:
        for m, n in work:
            put inputs: x <- X[m, n]
    role math, warps 4:
        i = 0
        for m, n in work:
            get inputs:
                v = f32(read(x))
                elect: wait stores <= 1, read
                sync role
                c[i] <- bf16(v)
                fence proxy shared
                sync role
                elect:
                    store Y[m, n] <- c[i]
                    commit stores
            i = 1 - i
        elect: wait stores
"""
"""Two slots that registers are written to and the copy engine stores from."""

THROUGH = """\
kernel through(X: global[bf16, M, N], Y: global[bf16, M, N]):
    launch persistent
    schedule work: m, n in tiles(blocks(M, 128), blocks(N, 64))
    shared x: tile[bf16, 128, 64] * 2
    barrier full * 2, count = 1
    role all:
        i = 0
        phase = 0
        for m, n in work:
            elect:
                wait stores <= 1, read
                expect full[i], bytes(x)
                load x[i] <- X[m, n], full[i]
            wait full[i], phase
            elect:
                store Y[m, n] <- x[i]
                commit stores
            phase = phase ^ i
            i = 1 - i
        elect: wait stores
"""
"""Two slots that the copy engine fills and empties, by one thread."""

LOAD = """\
    role load:
        i = 0
        phase = 0
        for m, n in work:
            wait empty[i], phase ^ 1
            elect:
                expect full[i], bytes(x)
                load x[i] <- X[m, n], full[i]
            phase = phase ^ i
            i = 1 - i
"""
"""The role that fills a ring of two slots by the copy engine."""

COPY = f"""\
kernel k(X: global[bf16, M, N], Y: global[bf16, M, N]):
    launch persistent
    schedule work: m, n in tiles(blocks(M, 128), blocks(N, 64))
    shared x: tile[bf16, 128, 64] * 2
    barrier full * 2, count = 1
    barrier empty * 2, count = 1
{LOAD}    role store:
        i = 0
        phase = 0
        for m, n in work:
            wait full[i], phase
            elect:
                store Y[m, n] <- x[i]
                commit stores
                wait stores, read
                arrive empty[i]
            phase = phase ^ i
            i = 1 - i
        elect: wait stores
"""
"""Two slots that the copy engine fills and empties, by a role for each."""

RING = f"""\
kernel ring(X: global[bf16, M, N], Y: global[bf16, M, N]):
    launch persistent
    schedule work: m, n in tiles(blocks(M, 128), blocks(N, 64))
    shared x: tile[bf16, 128, 64] * 2
    shared c: tile[bf16, 128, 64]
    barrier full * 2, count = 1
    barrier empty * 2, count = 4
{LOAD}    role math, warps 4:
        i = 0
        phase = 0
        for m, n in work:
            wait full[i], phase
            elect: wait stores, read
            sync role
            c <- bf16(f32(read(x[i])) * 2)
            fence proxy shared
            sync warp
            arrive empty[i], each = warp
            sync role
            elect:
                store Y[m, n] <- c
                commit stores
            phase = phase ^ i
            i = 1 - i
        elect: wait stores
"""
"""A ring between a role that copies and one that reads into registers."""

HANDED = """\
kernel handed(X: global[bf16, M, N], Y: global[bf16, M, N]):
    launch persistent
    schedule work: m, n in tiles(blocks(M, 128), blocks(N, 64))
    shared x: tile[bf16, 128, 64]
    shared y: tile[bf16, 128, 64] * 2
    barrier full, count = 1
    barrier empty, count = 4
    barrier ready * 2, count = 4
    barrier free * 2, count = 1
    role load:
        phase = 0
        for m, n in work:
            wait empty, phase ^ 1
            elect:
                fence proxy shared              # the other role has read what is overwritten
                expect full, bytes(x)
                load x <- X[m, n], full
            phase = phase ^ 1
    role math, warps 4:
        i = 0
        phase = 0
        turn = 0
        for m, n in work:
            wait full, turn
            wait free[i], phase ^ 1
            y[i] <- bf16(f32(read(x)) * 2)
            sync warp
            arrive empty, each = warp
            fence proxy shared
            sync warp
            arrive ready[i], each = warp
            turn = turn ^ 1
            phase = phase ^ i
            i = 1 - i
    role store:
        i = 0
        phase = 0
        for m, n in work:
            wait ready[i], phase
            elect:
                store Y[m, n] <- y[i]
                commit stores
                wait stores, read
                arrive free[i]
            phase = phase ^ i
            i = 1 - i
        elect: wait stores
"""
"""A ring between a role that writes from registers and one that stores by the copy engine."""

DEPENDENT = RING.replace("launch persistent", "launch persistent, dependent").replace(
    "    role load:\n", "    role load:\n        wait pdl\n"
)
"""The ring in a kernel that may start before the grid ahead has ended; the role that loads tells the other."""

LOADING = DEPENDENT[
    DEPENDENT.index("        wait pdl\n") + 17 : DEPENDENT.index("            phase = phase")
]
"""What its loading role does, up to the first copy."""

KERNELS = {"staged": STAGED, "through": THROUGH, "ring": RING, "handed": HANDED}
KERNELS["dependent"] = DEPENDENT


@dataclass(frozen=True)
class Slip:
    """A change that makes a kernel wrong: the code it has to get, and what the line that is shown holds."""

    kernel: str
    old: str
    new: str
    code: str
    line: str
    target: str = "sm_90a"
    case: str = ""

    @property
    def text(self) -> str:
        good = source(self.kernel)
        assert good.count(self.old) == 1, (self.kernel, self.old, good.count(self.old))
        return good.replace(self.old, self.new)


def source(kernel: str) -> str:
    if kernel in KERNELS:
        return KERNELS[kernel]
    folder = "lit_tests/run" if kernel == ACROSS else "examples"
    return (Path(__file__).parents[2] / folder / f"{kernel}.tk").read_text(encoding="utf-8")


ACROSS = "cluster-copy"
"""A ring that is filled from another CTA's shared memory."""

L2, L2_90 = "gemm_bf16_level2", "gemm_bf16_level2_sm90"

SLIPS = {
    # proxies
    "no fence before a store (PRX-1)": Slip(
        L2, "                fence proxy shared\n                sync role\n", "                sync role\n",
        "TK302", "store C", "sm_100a",
    ),
    "no fence before a store, in a warpgroup": Slip(
        L2_90, "                fence proxy shared\n                sync role\n", "                sync role\n",
        "TK302", "store C",
    ),
    "a fence of the wrong space": Slip(
        L2_90, "fence proxy shared\n                sync role\n", "fence proxy global\n                sync role\n",
        "TK302", "store C",
    ),
    "a fence by one thread before the barrier": Slip(
        L2_90, "fence proxy shared\n                sync role\n",
        "elect: fence proxy shared\n                sync role\n",
        "TK302", "store C",
    ),
    "no fence before a slot is handed to the copy engine": Slip(
        "handed", "            fence proxy shared\n            sync warp\n", "            sync warp\n",
            "TK302", "store Y"
    ),
    "a slot is read, then filled by a copy, without a fence (RW3)": Slip(
        "handed", "                fence proxy shared              # the other role has read what is overwritten\n",
        "", "TK302", "load x",
    ),
    # buffers
    "the group under way is the one that reads the slot (PIP-1)": Slip(
        "through", "wait stores <= 1, read", "wait stores <= 2, read", "TK308", "load x"
    ),
    "two slots, two groups under way": Slip(
        "staged", "wait stores <= 1, read", "wait stores <= 2, read", "TK308", "c[i] <-"
    ),
    "no wait for stores": Slip("through", "                wait stores <= 1, read\n", "", "TK309", "load x"),
    "the wait comes after the write (PIP-3)": Slip(
        "staged",
        "                elect: wait stores <= 1, read\n                sync role\n                c[i] <- bf16(v)\n",
        "                c[i] <- bf16(v)\n                elect: wait stores <= 1, read\n                sync role\n",
        "TK308", "c[i] <-",
    ),
    "another thread waits for the group (PIP-9)": Slip(
        "staged", "elect: wait stores <= 1, read", "if thread == 32: wait stores <= 1, read", "TK307", "c[i] <-"
    ),
    "no barrier between the wait and the writers": Slip(
        "staged", "read\n                sync role\n                c", "read\n                c", "TK309", "c[i] <-"
    ),
    "a slot is released before its products are done (PIP-7)": Slip(
        L2_90, "                wait products <= 1\n", "", "TK309", "load a"
    ),
    "a slot is released one group too early": Slip(
        L2_90, "wait products <= 1", "wait products <= 2", "TK308", "load a"
    ),
    "nothing keeps the producer from slots in use": Slip(
        "ring", "            wait empty[i], phase ^ 1\n", "", "TK309", "load x"
    ),
    "nothing makes the reader wait": Slip("ring", "            wait full[i], phase\n", "", "TK301", "read(x[i])"),
    "a lane arrives before its warp has read": Slip(
        "ring", "            sync warp\n", "", "TK309", "load x"
    ),
    "the accumulator is read before it is done": Slip(
        L2, "            wait done[i], turn\n", "", "TK301", "read(d[i]", "sm_100a"
    ),
    "the accumulator is written before it is read": Slip(
        L2, "            wait drained[i], turn ^ 1\n", "", "TK309", "mma d", "sm_100a"
    ),
    # barriers
    "bytes of one copy only (MBR-4)": Slip(L2, "bytes(a, b)", "bytes(a)", "TK305", "load b", "sm_100a"),
    "too many bytes": Slip("ring", "bytes(x)", "bytes(x, c)", "TK305", "load x"),
    "a count that nobody reaches (MBR-6)": Slip(
        "ring", "barrier empty * 2, count = 4", "barrier empty * 2, count = 128", "TK305", "arrive empty"
    ),
    "one thread arrives for a count of four": Slip(
        "ring", "arrive empty[i], each = warp", "arrive empty[i]", "TK305", "arrive empty"
    ),
    "no arrival": Slip(L2, "                    commit empty[slot]\n", "", "TK305", "wait empty", "sm_100a"),
    "a phase that starts again in every tile": Slip(
        L2, "        for m, n in work:\n            for k in blocks(K, BK):\n                wait empty",
        "        for m, n in work:\n            slot = 0\n            phase = 0\n"
        "            for k in blocks(K, BK):\n                wait empty",
        "TK306", "wait empty", "sm_100a",
    ),
    "a phase that never flips": Slip(
        "ring", "            phase = phase ^ i\n            i = 1 - i\n    role math",
        "            i = 1 - i\n    role math",
        "TK306", "wait empty",
    ),
    "the first wait of a producer is for a phase to come": Slip(
        "ring", "wait empty[i], phase ^ 1", "wait empty[i], phase", "TK314", "wait"
    ),
    "the reader waits for the phase before": Slip(
        "ring", "wait full[i], phase\n", "wait full[i], phase ^ 1\n", "TK301", "read(x[i])"
    ),
    "a late release of a ring of one": Slip(L2_90, "STAGES = 4", "STAGES = 1", "TK314", "wait", case="needs 1"),
    "a slot of B is released when A is read": Slip(
        L2, "                    commit empty[slot]\n", "                    commit empty[slot], reads\n",
        "TK309", "load b", "sm_107a",
    ),
    "a slot of scales is released when A is read": Slip(
        "gemm_nvfp4_level2", "                    commit empty[slot]\n", "                    commit empty[slot], reads\n",
        "TK309", "load a", "sm_107a",
    ),
    # copies between CTAs
    "a slot is copied to another CTA before it is there": Slip(
        ACROSS, "            wait full[i], phase\n", "", "TK301", "copy y[i]"
    ),
    "a slot is filled from another CTA while it is stored": Slip(
        ACROSS, "            wait free[i], phase ^ 1, cluster\n", "", "TK309", "copy y[i]"
    ),
    "a slot is loaded while it is copied to another CTA": Slip(
        ACROSS, "            wait free[i], phase ^ 1, cluster\n", "", "TK309", "load x[i]"
    ),
    "the source is handed on by who has not seen the copy end": Slip(
        ACROSS, "arrive free[i], at = (rank + CTAS - 1) % CTAS", "arrive free[i], at = (rank + 1) % CTAS",
        "TK309", "load x[i]",
    ),
    "a CTA gets what nobody expects": Slip(
        ACROSS, "            elect: expect given[i], bytes(y)\n", "", "TK305", "wait given"
    ),
    "the bytes complete in another CTA than is known": Slip(
        ACROSS, "at = (rank + 1) % CTAS", "at = m.index % CTAS", "TK305", "expect given"
    ),
    # lifetimes
    "a role ends with its stores under way": Slip(
        "staged", "        elect: wait stores\n", "", "TK324", "store Y"
    ),
    # dependent launch
    "the grid ahead is awaited after the first copy (LCH-1)": Slip(
        "dependent", f"        wait pdl\n{LOADING}", f"{LOADING}            wait pdl\n", "TK318", "load x"
    ),
    # convergence
    "a barrier that some threads do not reach (CVG-5)": Slip(
        "staged", "read\n                sync role\n", "read\n                if lane < 16: sync role\n",
            "TK316", "sync role"
    ),
}  # fmt: skip
"""By what is wrong."""
