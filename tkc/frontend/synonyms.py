"""What people call a function elsewhere, and what it is here."""

from __future__ import annotations

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
    "max": "`row_max(x)` is one value a row, `col_max(x)` one a column, `tile_max(x)` one number",
    "min": "`row_min(x)` is one value a row, `col_min(x)` one a column, `tile_min(x)` one number",
    "exp": "functions stand before: `exp(x)`",
    "transpose": "it is `x.T`, which a copy turns",
}
"""By the name of a function or method."""
