"""When a ring's first operands go round by themselves."""

from __future__ import annotations

import pytest
from programs import changed, product

import tkc
from tests.passes.programs import operations
from tkc.ir.stage import ops as s
from tkc.passes.pipes.early import part_first_operands

PUT = """\
                put inputs:
                    a <- A[m, k]
                    b <- B[n, k]
"""
GET = "                    get inputs: d += a @ b.T\n"
TEXT = changed(
    product(
        "get result: C[m, n] <- read(d)",
        arguments="C: global[f32, M, N]",
        params="BM = 128, BN = 64, BK = 64",
    ),
    (PUT, 2 * PUT),
    (GET, 2 * GET),
)
"""Two items in each turn."""


@pytest.mark.parametrize("crossed", [False, True])
def test_products_of_two_items_keep_one_ring(crossed: bool) -> None:
    """A product that has its first operand of one item and its second of another is left as it is."""
    module = tkc.compile(TEXT, target="sm_107a").module(after="fuse-roles")
    (kernel,) = operations(module, s.KernelOp)
    one, two = operations(module, s.MmaOp)
    if crossed:
        two.operands[2] = one.a_slot
    before = len(operations(module, s.PipeOp))
    part_first_operands(kernel, module)
    assert len(operations(module, s.PipeOp)) == before + (not crossed)
