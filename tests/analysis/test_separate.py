"""Loops of a schedule each of whose turns is at another tile, in every order of tiles."""

from __future__ import annotations

import pytest

import tkc
from tkc.analysis.happens_before.extract import program
from tkc.ir.isa.memory import Space
from tkc.ir.stage.ops import KernelOp
from tkc.ir.stage.scalar import ArithOp

TEXT = """
kernel copied(X: global[f32, L, M, N], Y: global[f32, L, M, N]):
    launch persistent
    schedule work: l, m, n in tiles(L, blocks(M, 64), blocks(N, 32)ORDER)
    shared x: tile[f32, 64, 32] * 2
    pipe p(x): load -> store
    role load:
        for l, m, n in work:
            put p: x <- X[l, m, n]
    role store:
        for l, m, n in work:
            get p: Y[l, m, n] <- x
"""


def apart(order: str, change: str = "") -> bool:
    """Whether the stores of two turns are sure to be at other places; `change`: a kind of arithmetic that is another."""
    module = tkc.compile(TEXT.replace("ORDER", order), target="sm_90a").module(
        after="insert-fences"
    )
    (kernel,) = [op for op in module.body.block.ops if isinstance(op, KernelOp)]
    for op in [op for op in kernel.walk() if change and isinstance(op, ArithOp)]:
        if op.kind.data == change:
            op.properties["kind"] = type(op.kind)("max" if change == "min" else "add")
    stores = [
        access
        for role in program(kernel).roles
        for event in role.events()
        for access in event.accesses
        if access.space is Space.GLOBAL and access.write
    ]
    assert stores
    return all(access.apart for access in stores)


@pytest.mark.parametrize("order", ["", ", group = 4", ", group = 1"])
def test_turns_are_at_other_tiles(order: str) -> None:
    assert apart(order)


@pytest.mark.parametrize("change", ["min", "mod"])
def test_other_arithmetic_is_no_order(change: str) -> None:
    """Bands that may be higher than their rows overlap; without a remainder rows repeat."""
    assert not apart(", group = 4", change)
