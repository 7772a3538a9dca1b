"""Products that share B take turns at each K step, where B can stay in the tensor core between them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from xdsl.ir import Operation

from tkc.ir.isa.targets import Feature
from tkc.ir.stage import ops as s
from tkc.ir.stage.scales import CopyScalesOp, ScaledMmaOp
from tkc.passes.lowering.state import Kernel

Product = s.MmaOp | ScaledMmaOp
Write = Callable[[int, int, str | None], None]
"""Writes the instruction of a block of rows and a K step, with a hint for the collector buffer of B (PTX 9.4)."""

ALIKE = ("b", "b_slot", "scale_b", "scale_b_slot", "trans_a", "trans_b", "pair")
"""What products that share B have in common, where they have it."""


class Steps(NamedTuple):
    """The instructions of one product: how many blocks of rows and K steps there are, and how one is written."""

    blocks: int
    steps: int
    write: Write


def write_products(k: Kernel, op: Product, steps_of: Callable[[Product], Steps]) -> None:
    """A product, and with it those behind it that share B, where that is of use."""
    keeps = k.target.has({Feature.TCGEN05_COLLECTOR_B})
    products = _sharing(k, op) if keeps else [op]
    made = [steps_of(product) for product in products]
    turns = [(each, block) for each in made for block in range(each.blocks)]
    if not keeps or len(turns) == 1:
        for each, block in turns:
            for step in range(each.steps):
                each.write(block, step, None)
        return
    hints = ["fill", *["use"] * (len(turns) - 2), "lastuse"]
    for step in range(made[0].steps):
        for (each, block), hint in zip(turns, hints, strict=True):
            each.write(block, step, f".collector::b::{hint}")


def _sharing(k: Kernel, op: Product) -> list[Product]:
    """The product and those behind it that share B. Copies of scales between them are written now, before all of them.

    They may be: no product before a copy, of those here, takes the columns that it writes.
    """
    found: list[Product] = [op]
    copies: list[Operation] = []
    between: list[Operation] = []
    following = op.next_op
    while following is not None:
        if isinstance(following, CopyScalesOp) and not _takes(found, following):
            between.append(following)
        elif type(following) is type(op) and _alike(found, following):
            found.append(following)
            copies += between
            between.clear()
        else:
            break
        following = following.next_op
    here = k.emit.location
    for copy in copies:
        k.emit.location = copy.location
        k.lowering_of(copy).write(k, copy)
    k.emit.location = here
    k.early.update([*copies, *found[1:]])
    return found


def _takes(products: Sequence[Product], copy: CopyScalesOp) -> bool:
    return any(copy.destination in product.operands for product in products)


def _alike(found: Sequence[Product], other: Product) -> bool:
    """Whether a product shares B with others, has the same shapes as they, and an accumulator of its own."""
    first = found[0]
    if any(getattr(first, name, None) != getattr(other, name, None) for name in ALIKE):
        return False
    if (first.a.type, first.value.type) != (other.a.type, other.value.type):
        return False
    return all(other.source is not product.value for product in found)
