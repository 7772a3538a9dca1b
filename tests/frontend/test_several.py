"""R24: values that hold elements of several blocks: what may be reduced, and what is refused."""

from __future__ import annotations

import pytest
from programs import changed

import tkc
from tests.frontend.test_masks import compiled
from tkc.diagnostics import TkcError
from tkc.ir.tile import vectors as tv

LOOP = """\
kernel k(X: global[f32, M, N], Y: global[f32, M], Z: global[f32, 1]):
    launch persistent
    schedule work: m in tiles(blocks(M, 64))
    shared x: tile[f32, 64, 32] * 2
    pipe rows(x): load -> math
    role load:
        for m in work:
            for k in blocks(N, 32):
                put rows: x <- X[m, k]
    role math, warps 2:
        total = 0
        all = full(0)
        for m in work:
            acc = full(0)
            for k in blocks(N, 32):
                get rows: v = read(x)
                acc = acc + v
            Y[m] <- row_sum(acc)
"""


def refused(text: str) -> str:
    with pytest.raises(TkcError) as caught:
        tkc.compile(text, target="sm_90a")
    (found,) = caught.value.diagnostics
    assert found.code == "TK110"
    assert found.location is not None
    return f"{text.splitlines()[found.location.line - 1].strip()} | {found.message}"


@pytest.mark.parametrize("value", ["v", "v * v", "(exp(v) if k < N else 0)", "abs(v) - v * 3"])
def test_R24_allows_a_sum_of_blocks_whose_ends_are_0(value: str) -> None:
    text = changed(LOOP, ("acc = acc + v", f"acc = acc + {value}"))
    (reduction,) = (o for o in compiled(text).walk() if isinstance(o, tv.ReduceOp))
    assert reduction.block is None  # every element counts


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("acc = acc + v", "acc = acc + exp(v)", "reduce each block in the loop, as in `acc = acc + row_sum(x)`"),
        ("acc = acc + v", "acc = acc + (exp(v) if k < N else 1)", "`x if k < N else 0`"),
        ("acc = acc + v", "acc = acc + (exp(v) if k < M else 0)", "`x if k < N else 0`"),
        ("acc = acc + v", "acc = exp(v)", "several blocks k, and of the last those beyond N"),
        ("row_sum(acc)", "row_max(acc)", "`x if k < N else -inf`"),
        ("row_sum(acc)", "row_sum(exp(acc))", "several blocks k"),
        ("            Y[m] <- row_sum(acc)\n", "                Y[m] <- row_sum(exp(acc))\n", "several blocks k"),
        ("            Y[m] <- row_sum(acc)\n", "            total = total + tile_sum(exp(acc))\n", "several blocks k"),
        ("            Y[m] <- row_sum(acc)\n", "            all = all + exp(row_sum(acc))\n        total = tile_sum(all)\n",
         "several blocks m, and of the last those beyond M"),
        # the last block of an item, reduced in the next one
        ("                acc = acc + v\n", "                acc = acc + v\n                total = total + tile_sum(all)\n                all = exp(v)\n", "several blocks k"),
        ("            Y[m] <- row_sum(acc)\n", "            total = total + tile_sum(all)\n            all = exp(row_sum(acc))\n", "several blocks m"),
        # another loop's block of the same name is another block
        ("            Y[m] <- row_sum(acc)\n", "            all = all + acc\n        for k in blocks(N, 32): total = total + tile_max(all)\n",
         "several blocks k"),
    ],
)  # fmt: skip
def test_R24_refuses_what_the_ends_of_several_blocks_may_be_in(
    old: str, new: str, told: str
) -> None:
    assert told in refused(changed(LOOP, (old, new)))


def test_R24_knows_that_a_block_that_another_follows_is_whole() -> None:
    text = changed(LOOP, ("acc = acc + v", "total = total + tile_sum(acc)\n                acc = exp(v)"),
                   ("            Y[m] <- row_sum(acc)\n", ""))  # fmt: skip
    assert tkc.compile(text, target="sm_90a").ptx


def test_R24_does_not_ask_where_blocks_fit() -> None:
    text = changed(LOOP, ("acc + v", "acc + exp(v)"))
    assert tkc.compile(
        text.replace("M, N]", "M, 96]").replace("N, 32", "96, 32"), target="sm_90a"
    ).ptx


def test_R24_knows_the_block_of_an_outer_loop_in_an_inner_one() -> None:
    """A value of block m stays one through a loop over something else; the row beyond M does not count."""
    text = changed(
        LOOP,
        (
            "            Y[m] <- row_sum(acc)\n",
            "            s = row_sum(acc)\n            for i in range(3): s = s * s\n            total = total + tile_sum(exp(s))\n",
        ),
    )
    assert sum(isinstance(o, tv.MaskOp) for o in compiled(text).walk()) == 1
