"""Give every shared tile the layout its readers and writers want, before anything is built from a tile's type.

Before: shared tiles have the layout `auto` or one that the user wrote.
After: every shared tile's type, and every slot of it in a put or get, names a swizzle.
Here because: the choice needs all uses of a tile, which only the tile level shows in one place, and placement
needs the spans that follow from it.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from tkc.analysis.roles import slot_owner, slots_of
from tkc.analysis.swizzle import Use, choose
from tkc.diagnostics import Diagnostic, Severity, TkcError, report
from tkc.ir.isa.dtypes import DTYPES
from tkc.ir.isa.mma import select
from tkc.ir.isa.targets import Target
from tkc.ir.locations import location_of
from tkc.ir.stage.elements import AtomicOp, CopyElementsOp, LoadElementOp, StoreElementOp
from tkc.ir.syntax import all_inside
from tkc.ir.target import target_of
from tkc.ir.tile.explicit import ClusterCopyOp, ReadColumnsOp, TmaLoadOp, TmaStoreOp
from tkc.ir.tile.ops import CopyOp, MmaOp, ReadOp, SharedOp
from tkc.ir.tile.scales import ScaledMmaOp
from tkc.ir.tile.tensor_operands import TensorMmaOp
from tkc.ir.tile.types import AUTO, ScaleAttr, SharedType, SliceType

COPIED_ROW, OPERAND_ROW, ATOMS_ROW = 16, 32, 128
"""Bytes that divide a row: the copy engine's least box, the narrowest swizzle of an operand, that of a 32-bit operand
which is not K-major."""
WORD = 32
BLOCK_ROWS = 128
"""Rows of A that one product takes."""
WHOLE_BITS = 8
PACKED_BITS = 4
"""Elements that products with their like take packed."""


def alike(tile: SSAValue) -> list[SSAValue]:
    """The tile, and those that have its layout since bytes are copied between them and it, in a row."""
    found = [tile]
    for one in found:
        for slot in slots_of(one):
            for use in slot.uses:
                if isinstance(op := use.operation, ClusterCopyOp):
                    others = [slot_owner(v) for v in (op.source, op.destination)]
                    found += [o for o in dict.fromkeys(others) if o not in found]
    return found


def uses_of(tile: SSAValue) -> frozenset[Use]:
    """How the tile, and those that have its layout, are used, over all their slots."""
    found: set[Use] = set()
    for slot in [slot for one in alike(tile) for slot in slots_of(one)]:
        for use in slot.uses:
            match use.operation:
                case MmaOp() as mma:
                    # a is contracted along its last axis, b along its first, before they are transposed.
                    transposed = (mma.trans_a if use.index == 1 else mma.trans_b).value.data
                    across = bool(transposed) == (use.index == 1)
                    found.add(Use.ACROSS if across else Use.OPERAND)
                case TensorMmaOp(trans_b=turned):
                    found.add(Use.OPERAND if turned.value.data else Use.ACROSS)
                case ScaledMmaOp():
                    found.add(Use.OPERAND)
                case CopyOp() as copy:
                    other = copy.destination if use.index == 0 else copy.source
                    found.add(Use.COPY if isinstance(other.type, SliceType) else Use.THREADS)
                case TmaLoadOp() | TmaStoreOp() | ClusterCopyOp():
                    found.add(Use.COPY)
                case ReadOp() | ReadColumnsOp():
                    found.add(Use.THREADS)
                case LoadElementOp() | StoreElementOp() | AtomicOp() | CopyElementsOp():
                    found.add(Use.ELEMENTS)
                case _:
                    pass
    return frozenset(found)


@dataclass(frozen=True)
class SelectSwizzlePass(ModulePass):
    """`select-swizzle`."""

    name = "select-swizzle"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for tile in [o for o in all_inside(op) if isinstance(o, SharedOp)]:
            old = tile.tile.type
            assert isinstance(old, SharedType)
            if old.swizzle.data != AUTO:
                continue
            uses = uses_of(tile.tile)
            bare = padded(tile, old.dtype.data)
            step = longest_step(tile, target_of(op))
            choice = choose(old.dtype.data, old.shape, uses, bare, step)
            if choice is None:
                raise no_layout(tile, old, uses)
            new = SharedType.of(
                old.dtype.data, old.shape, old.depth.data, choice.swizzle, old.scale
            )
            for slot in list(slots_of(tile.tile)):
                Rewriter.replace_value_with_new_type(slot, new)
            report(
                Diagnostic(
                    "TK218",
                    f"tile {tile.sym_name.data} gets swizzle {choice.swizzle}: {choice.why}",
                    location_of(tile),
                    Severity.REMARK,
                )
            )


def longest_step(tile: SharedOp, target: Target) -> int:
    """Bytes of K of the longest product that the target has for a block-scaled tile and that divides its rows; else 0.

    A product whose scales do not lie in one atom takes the next one's, which are behind them where A is one block of
    rows, or its scales are no product's scales of B.
    """
    found = 0
    for slot in slots_of(tile.tile):
        for op in [use.operation for use in slot.uses]:
            if not isinstance(op, MmaOp | ScaledMmaOp):
                continue
            a, b = op.a.type, op.b.type
            assert isinstance(a, SharedType)
            assert isinstance(b, SharedType)
            scale = a.scale
            if not isinstance(scale, ScaleAttr):
                continue
            rows = select(
                target.features,
                a.dtype.data,
                b.dtype.data,
                "f32",
                block=scale.block.data,
                scale=scale.dtype.data,
            )
            depth = a.shape[-1]
            behind = a.shape[0] <= BLOCK_ROWS or not _second(op.a)
            fits = [r.k_bytes for r in rows if depth % r.k == 0 and behind]
            found = max(found, *fits, 0)
    return found


def _second(slot: SSAValue) -> bool:
    """Whether some product takes the tile of a slot as its second operand."""
    return any(
        isinstance(op := use.operation, MmaOp | ScaledMmaOp) and op.b is other
        for other in slots_of(slot_owner(slot))
        for use in other.uses
    )


def padded(tile: SharedOp, dtype: str) -> bool:
    """Whether elements are padded to a byte each: 6-bit ones are, and 4-bit ones unless they meet their like."""
    own = DTYPES[dtype].bits
    if own >= WHOLE_BITS:
        return False
    partners: dict[int, None] = {}
    for slot in slots_of(tile.tile):
        for use in slot.uses:
            if isinstance(op := use.operation, MmaOp | ScaledMmaOp):
                other = op.b if op.a is slot else op.a
                assert isinstance(other.type, SharedType)
                partners[DTYPES[other.type.dtype.data].bits] = None
    if own == PACKED_BITS and len(partners) > 1 and PACKED_BITS in partners:
        raise TkcError.at(
            "TK110",
            f"tile {tile.sym_name.data} of {dtype} in products with 4-bit elements, which take it packed, and with "
            "wider ones, which take it padded, is not supported yet; a tile for each fits",
            location_of(tile),
        )
    return own != PACKED_BITS or not partners.keys() <= {PACKED_BITS}


def no_layout(tile: SharedOp, type: SharedType, uses: frozenset[Use]) -> TkcError:
    """What the rows of a tile are and what they must be."""
    name, dtype, width = tile.sym_name.data, type.dtype.data, type.shape[-1]
    operand = bool(uses & {Use.OPERAND, Use.ACROSS})
    step = OPERAND_ROW if operand else COPIED_ROW
    if Use.ACROSS in uses and DTYPES[dtype].bits == WORD:
        step = ATOMS_ROW
    whose = "an operand of products" if operand else "a tile that is copied"
    bits = DTYPES[dtype].bits
    return TkcError.at(
        "TK207",
        f"rows of tile {name} are {width * bits / 8:g} bytes ({width} {dtype}); {whose} has rows of a "
        f"multiple of {step} bytes ({step * 8 // bits} {dtype})",
        location_of(tile),
    )
