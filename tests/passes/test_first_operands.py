"""When a ring's first operands go round by themselves."""

from __future__ import annotations

import pytest

import tkc
from tests.passes.programs import operations
from tkc.ir.stage import ops as s
from tkc.passes.pipes.early import part_first_operands

TEXT = """
kernel g(A: global[bf16, M, K], B: global[bf16, N, K], C: global[f32, M, N]):
    launch persistent
    schedule work: m, n in tiles(blocks(M, 128), blocks(N, 64))
    shared a: tile[bf16, 128, 64] * 4
    shared b: tile[bf16, 64, 64] * 4
    accum d: tile[f32, 128, 64]
    pipe inputs(a, b): load -> math
    pipe result(d): math -> store
    role load:
        for m, n in work:
            for k in blocks(K, 64):
                put inputs:
                    a <- A[m, k]
                    b <- B[n, k]
                put inputs:
                    a <- A[m, k]
                    b <- B[n, k]
    role math:
        for m, n in work:
            put result:
                d = 0
                for k in blocks(K, 64):
                    get inputs: d += a @ b.T
                    get inputs: d += a @ b.T
    role store, warps 4:
        for m, n in work:
            get result: C[m, n] <- read(d)
"""


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
