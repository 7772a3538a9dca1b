"""What people call a function or a statement elsewhere, and what it is here."""

from __future__ import annotations

import tkc.frontend.syntax as S

SAID: dict[str, str] = {
    "sum": "`row_sum(x)` is one value a row, `col_sum(x)` one a column, `tile_sum(x)` one number",
    "mean": "it is `row_sum(x) / N` of rows of N elements, `col_sum(x) / M` of columns of M",
    "softmax": "it is `exp(x - row_max(x))` divided by its `row_sum`",
    "pow": "a square is `x * x`",
    "square": "a square is `x * x`",
    "float": "`f32(x)` is an f32 number or tile",
    "clamp": "it is `min(max(x, low), high)`",
    "clip": "it is `min(max(x, low), high)`",
    "maximum": "it is `max(a, b)`",
    "minimum": "it is `min(a, b)`",
    "argmax": "it is `row_min(f32(n) if x == row_max(x) else inf)`, of the block n that the columns of x are",
    "argmin": "it is `row_min(f32(n) if x == row_min(x) else inf)`, of the block n that the columns of x are",
    "len": "extents have names: `M`, `N`",
    "cast": "a dtype is a function: `bf16(x)`",
    "astype": "a dtype is a function: `bf16(x)`",
    "to": "a dtype is a function: `bf16(x)`",
    "dot": "it is `d += a @ b` into an accumulator",
    "matmul": "it is `d += a @ b` into an accumulator",
    "mm": "it is `d += a @ b` into an accumulator",
    "zeros": "a number spreads: `full(0)` may become a tile",
    "ones": "a number spreads: `full(1)` may become a tile",
    "load": "`put p: a <- A[m, k]` copies, and `read(a)` in a get gives the values",
    "store": "`C[m, n] <- x` stores",
    "arange": "of a block n, `f32(n)` beside a tile is each element's position; `x if n <= m else 0` compares it",
    **dict.fromkeys(
        (
            "warp_max",
            "warp_sum",
            "warp_min",
            "warp_reduce",
            "block_max",
            "block_sum",
            "block_reduce",
            "shfl",
            "shuffle",
        ),
        "lanes exchange nothing by themselves: a tile's `row_max(read(x))` and `row_sum(...)` reduce over threads, and "
        "numbers of threads meet in shared memory, `atomic_add(v[0][0], x)`",
    ),
    "max": "`row_max(x)` is one value a row, `col_max(x)` one a column, `tile_max(x)` one number",
    "min": "`row_min(x)` is one value a row, `col_min(x)` one a column, `tile_min(x)` one number",
    "exp": "functions stand before: `exp(x)`",
    "transpose": "it is `x.T`, which a copy turns",
}
"""By the name of a function or method."""

WRITTEN: dict[str, str] = {
    "wait": "`wait full[slot], phase`",
    "arrive": "`arrive full[slot]`",
    "expect": "`expect full[slot], bytes(a)`",
    "commit": "`commit full[slot]`, `commit stores`",
    "fence": "`fence proxy shared`",
    "sync": "`sync role`",
    "prefetch": "`prefetch A[m, k]`",
    "mma": "`mma d += a[slot] @ b[slot].T, keep`",
    "registers": "`registers inc 232`",
    "mask": "`mask x where j <= m`",
}
"""Statements that take no brackets."""

COMMANDS: dict[str, str] = {
    "__syncthreads": "`sync cta` is of all threads of the CTA, `sync role` of the role's",
    "syncthreads": "`sync cta` is of all threads of the CTA, `sync role` of the role's",
    "__syncwarp": "`sync warp` is of a warp's threads",
    "syncwarp": "`sync warp` is of a warp's threads",
    "bar": "`sync 1, 128` is barrier 1 of the CTA, for 128 threads",
    "barrier": "`sync 1, 128` is barrier 1 of the CTA, for 128 threads",
    "mbarrier": "`arrive full[slot]`, `expect full[slot], bytes(a)` and `wait full[slot], phase` are of mbarriers",
    "fence.proxy": "`fence proxy shared` is between plain accesses and the copy engine's",
    "fence": "fences are written `fence proxy shared`, `fence acq_rel gpu`",
    "wgmma.fence": "`fence products` is ahead of products in registers",
    "wgmma.commit_group": "`commit products` closes a group of products",
    "wgmma.wait_group": "`wait products <= 1` waits for groups of products",
    "wgmma": "`mma d += a[slot] @ b[slot].T, keep` is a product",
    "tcgen05.commit": "`commit full[slot]` arrives when the thread's products are done",
    "tcgen05.fence": "`fence tcgen05 before` and `fence tcgen05 after` stand round a meeting of threads",
    "tcgen05.cp": "`copy sa[slot] <- a[slot].scales` brings block scales to tensor memory",
    "tcgen05": "`mma d += a[slot] @ b[slot].T, keep` is a product, `read(d)` reads an accumulator",
    "cp.async.bulk.commit_group": "`commit stores` closes a group of stores",
    "cp.async.bulk.wait_group": "`wait stores <= 1, read` waits for groups of stores",
    "cp.async.bulk": "`load a[slot] <- A[m, k], full[slot]` copies in, `store C[m, n] <- c[slot]` out",
    "cp.async.commit_group": "`commit copies` closes a group of copies",
    "cp.async.wait_group": "`wait copies <= 1` waits for groups of copies",
    "cp.async": "`load x[slot][i, j] <- X[m, n], 16` copies 16 bytes for each thread that comes to it",
    "tma": "`load a[slot] <- A[m, k], full[slot]` copies in, `store C[m, n] <- c[slot]` out",
    "setmaxnreg": "`registers inc 232`, `registers dec 40`",
    "elect_one": "`elect:` is a block that one thread runs",
    "elect_one_sync": "`elect:` is a block that one thread runs",
}
"""What PTX and CUDA call a statement, or how that begins, and what it is here."""


def dotted(e: S.Expression) -> str:
    """`a.b.c`, called or not; nothing for another expression."""
    if isinstance(e, S.Call):
        return dotted(e.function)
    if isinstance(e, S.Attribute):
        base = dotted(e.base)
        return base and f"{base}.{e.name.text}"
    return e.text if isinstance(e, S.Name) else ""


def elsewhere(name: str) -> str:
    """What a statement that begins so elsewhere is here, if it is anything."""
    if name in WRITTEN:
        return ""
    parts = name.split(".")
    beginnings = (".".join(parts[:n]) for n in range(len(parts), 0, -1))
    return next((COMMANDS[b] for b in beginnings if b in COMMANDS), "")
