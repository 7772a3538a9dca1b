"""R24: masks, conditions on positions, and what is beyond a ragged edge: what is understood, and each mistake."""

from __future__ import annotations

import pytest
from programs import GEMM, changed, compiled, elementwise, mistakes

import tkc
from tkc.diagnostics import TkcError
from tkc.ir.tile import ops as t
from tkc.ir.tile import vectors as tv

MASKED = elementwise(
    "v = read(y)",
    "mask v where n <= m",
    "Z[m, n] <- v + 1",
    arguments=", S: global[f32, M], w: i32",
)


def masks(text: str) -> list[tv.MaskOp]:
    return [o for o in compiled(text).walk() if isinstance(o, tv.MaskOp)]


def test_R24_allows_a_mask_that_reductions_and_copies_obey() -> None:
    """The neutral element where a value is reduced, 0 where it is written; nothing where it is only computed with."""
    for kind, fill in (("row_sum", 0.0), ("row_max", float("-inf")), ("row_min", float("inf"))):
        (mask,) = masks(changed(MASKED, ("Z[m, n] <- v + 1", f"S[m] <- {kind}(exp(v))")))
        assert mask.fill.value.data == fill
        assert isinstance(mask.source.owner, t.MapOp)
    (mask,) = masks(MASKED)
    assert mask.fill.value.data == 0
    assert mask.rows.value.data == -1
    assert mask.columns.value.data == 1
    assert not masks(changed(MASKED, ("Z[m, n] <- v + 1", "z = v + 1")))


@pytest.mark.parametrize(
    ("condition", "factors"),
    [
        ("n < w", [(0, 1)]),
        ("not n < w", [(0, -1)]),
        ("causal(m, n)", [(-1, 1)]),
        ("causal(m, n, N - M)", [(-1, 1)]),
        ("n <= m and n > m - 4", [(-1, 1), (1, -1)]),
        ("2 * m + n < w", [(2, 1)]),
        ("m == n", [(1, -1), (-1, 1)]),
        ("n + m < n + w", [(1, 0)]),
        ("-n < m", [(-1, -1)]),
    ],
)
def test_R24_allows_conditions_on_positions(condition: str, factors: list[tuple[int, int]]) -> None:
    found = masks(changed(MASKED, ("n <= m", condition)))
    assert [(m.rows.value.data, m.columns.value.data) for m in found] == factors


def test_R24_allows_a_number_where_a_condition_does_not_hold() -> None:
    text = changed(MASKED, ("mask v where n <= m", "v = f32(read(x)) if n <= m else 7"))
    (mask,) = masks(text)
    assert mask.fill.value.data == 7
    assert isinstance(mask.source.owner, t.CastOp)


def test_R24_allows_blocks_of_one_size_where_the_tile_is_known() -> None:
    """Both axes have 64 elements: which block is which is known from the copy."""
    (mask,) = masks(MASKED.replace("BM = 128", "BM = 64").replace("warps 4", "warps 2"))
    assert (mask.row.name_hint, mask.column.name_hint) == ("m", "n")


def test_R24_allows_no_element_beyond_a_ragged_axis_in_a_product() -> None:
    """A tile that registers were written to holds 0 there, whatever was computed of the zeros that the copy brought."""
    text = changed(
        GEMM,
        ("pipe inputs(a, b): load -> math", "shared r: tile[bf16, BM, BK] * STAGES\n    pipe raw(r): load -> scale\n    pipe left(a): scale -> math\n    pipe right(b): load -> math"),
        ("put inputs:\n                    a <- A[m, k]\n", "put raw: r <- A[m, k]\n                put right:\n"),
        ("get inputs:", "get left, right:"),
        ("    role math", "    role scale, warps 4:\n        for m, n in work:\n            for k in blocks(K, BK):\n                get raw:\n                    x = exp(f32(read(r)))\n                put left: a <- bf16(x)\n    role math"),
    )  # fmt: skip
    (mask,) = masks(text)
    assert (mask.rows.value.data, mask.columns.value.data, mask.fill.value.data) == (0, 1, 0)
    plain = changed(text, ("exp(f32(read(r)))", "f32(read(r))"))
    assert not masks(plain)


@pytest.mark.parametrize(
    ("old", "new", "code", "words"),
    [
        ("mask v where n <= m", "mask v, n <= m", "TK101", "a mask is written `mask x where j <= m`"),
        ("mask v where n <= m", "v = mask(v, n <= m)", "TK101", "it is written `mask x where j <= m`, without brackets"),
        ("mask v where n <= m", "mask v", "TK106", "a mask says which elements count"),
        ("mask v where n <= m", "mask y where n <= m", "TK106", "of a tile in registers, not of the shared tile y"),
        ("mask v where n <= m", "mask u where n <= m", "TK102", "unknown name `u`"),
        ("mask v where n <= m", "t = row_sum(v)\n                mask t where n <= m", "TK106", "of a tile of two axes"),
        ("v = read(y)", "v = read(x)", "TK106", "`f32(v)` is one"),
        ("n <= m", "3", "TK106", "expected a condition on positions, such as `j <= m` of blocks j and m, not the integer 3"),
        ("n <= m", "n <= m and 3", "TK106", "joins with others, not with the integer 3"),
        ("n <= m", "n <= v", "TK106", "expected a block or an integer"),
        ("n <= m", " or ".join(["n == m"] * 6), "TK110", "a condition on positions that comes to 160 comparisons"),
        ("n <= m", "n // 2 < m", "TK106", "have no `//`"),
        ("n <= m", "n * m < 3", "TK106", "multiplied by a number known at compile time"),
        ("n <= m", "causal(m)", "TK116", "not 1 value"),
        ("n <= m", "causal(m, 3)", "TK106", "`causal` compares blocks"),
        ("n <= m", "m.part(0, 2) < 3", "TK104", "block m.part(0, 2) of 64"),
        ("mask v where n <= m", "if w > 3: mask v where n <= m", "TK110", "masked otherwise behind this condition"),
        ("mask v where n <= m", "for i in range(w): mask v where n <= m", "TK110", "masked otherwise behind this loop"),
        ("Z[m, n] <- v + 1", "Z[m, n] <- v + n", "TK106", "expected a block or an integer, not a register value"),
        ("Z[m, n] <- v + 1", "if n < m: Z[m, n] <- v", "TK106", "a condition on positions"),
        ("Z[m, n] <- v + 1", "Z[m, n] <- 1 if n < m else 0", "TK106", "chooses between a tile of two axes and a number"),
        ("Z[m, n] <- v + 1", "Z[m, n] <- v if n < m else v", "TK110", "anything but a tile and a number"),
        ("Z[m, n] <- v + 1", "Z[m, n + 1] <- v", "TK106", "an index is a block or an integer, not a position"),
    ],
)  # fmt: skip
def test_R24_refuses_masks_that_say_nothing_clear(
    old: str, new: str, code: str, words: str
) -> None:
    said = mistakes(changed(MASKED, (old, new)))
    found = [x for x in said if words in x.message]
    assert found, [f"{x.code} {x.message}" for x in said]
    assert found[0].code == code


def test_R24_allows_a_reduction_of_what_went_through_a_variable() -> None:
    """Columns beyond the axis are exp(0) in the tile: the reduction knows which block they are of, and leaves them out."""
    text = changed(
        elementwise("v = read(y)"),
        ("    pipe p(x, y): load -> math", "    shared t: tile[f32, BM, BN]\n    pipe p(x, y): load -> math\n    pipe q(t): math -> total"),
        ("W: global[bf16, M, N]", "W: global[bf16, M, N], S: global[f32, M]"),
    )  # fmt: skip
    text += (
        "            w = exp(v)\n            put q: t <- w\n    role total, warps 4:\n        for m, n in work:\n"
        "            get q: S[m] <- row_sum(read(t))\n"
    )
    (reduction,) = (o for o in compiled(text).walk() if isinstance(o, tv.ReduceOp))
    assert reduction.block is not None
    assert reduction.block.name_hint == "n"
    twice = changed(
        text,
        (
            "            w = exp(v)\n",
            "            w = exp(v)\n            for i in range(3): w = w * v\n",
        ),
    )
    (reduction,) = (o for o in compiled(twice).walk() if isinstance(o, tv.ReduceOp))
    assert reduction.block is not None


@pytest.mark.parametrize("where", ["n < lane", "n <= m or warp == 0", "n < at"])
def test_R24_refuses_a_mask_that_is_another_one_in_each_thread(where: str) -> None:
    """Threads hold elements as the target has them, so the program would mean another thing on each."""
    text = changed(
        MASKED, ("v = read(y)", "at = thread * 2\n                v = read(y)"), ("n <= m", where)
    )
    with pytest.raises(TkcError, match="this condition is another one in each thread") as caught:
        tkc.compile(text, target="sm_100a")
    assert [d.code for d in caught.value.diagnostics] == ["TK106"]
