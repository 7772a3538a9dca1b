"""Move copies of block scales into the thread that multiplies by them, before any barrier stands between the two.

Before: a role copies scales from shared to tensor memory, and a ring carries them to the role that multiplies.
After: the copies stand in the multiplying role, in front of the products; the ring between the two, its waits, and the
role that has nothing left to do, are gone. What may not move stays, and a remark says why.
Here because: tcgen05.cp and tcgen05.mma of one thread and one CTA group are pipelined, so that they need no barrier
(PTX 9.7.18.6.2); rings still say which item is which, and loops over schedules can still be compared.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter
from xdsl.traits import Pure

from tkc.analysis.items import Item, comes_before, item_of, run_alike
from tkc.analysis.tensor_memory import columns_given, columns_of
from tkc.diagnostics import Diagnostic, report
from tkc.ir.effects import effects_of
from tkc.ir.isa.memory import Await, Done, Touch
from tkc.ir.isa.targets import Target
from tkc.ir.stage import ops as s
from tkc.ir.stage.ops import How
from tkc.ir.stage.structure import remove_role
from tkc.ir.stage.types import BufferType, Home
from tkc.ir.target import target_of
from tkc.passes.cothreading.explicit import cothread_explicit
from tkc.passes.cothreading.reasons import Stays, remark


@dataclass(frozen=True)
class CothreadCopiesPass(ModulePass):
    """`cothread-copies`."""

    name = "cothread-copies"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = target_of(op)
        for kernel in [k for k in op.body.block.ops if isinstance(k, s.KernelOp)]:
            for pipe in [p for p in kernel.body.block.ops if isinstance(p, s.PipeOp)]:
                if any(_type(b).holds_scales and _in_columns(b) for b in pipe.buffers):
                    try:
                        move = plan(kernel, pipe, target)
                    except Stays as reason:
                        report(_remark(pipe, f"are not moved to the products: {reason}"))
                    else:
                        report(_remark(pipe, move.told()))
                        move.perform()
            cothread_explicit(op, kernel)


def _remark(pipe: s.PipeOp, told: str) -> Diagnostic:
    return remark(f"copies into the scale columns of pipe {pipe.sym_name.data}", told, pipe)


def _type(buffer: SSAValue) -> BufferType:
    assert isinstance(buffer.type, BufferType)
    return buffer.type


def _in_columns(buffer: SSAValue) -> bool:
    return _type(buffer).home.data == Home.TENSOR


@dataclass
class Source:
    """A ring that copies read from: where the copying role has its items, and where the multiplying role has them."""

    pipe: s.PipeOp
    there: Item
    here: Item | None
    """None where the multiplying role is no end of it: then it becomes one."""
    only: bool
    """Whether the copying role takes items of it for these copies alone."""


@dataclass
class Move:
    """Copies that may move, and what goes with them."""

    kernel: s.KernelOp
    pipe: s.PipeOp
    giver: s.RoleOp
    taker: s.RoleOp
    filled: Item
    taken: Item
    copies: list[s.CopyScalesOp]
    sources: list[Source]

    def told(self) -> str:
        """What becomes of the copies, for the remark."""
        gone = f"pipe {self.pipe.sym_name.data} is gone with its {2 * self.pipe.depth.value.data} barriers"
        if all(source.only for source in self.sources) and _idle_without(self):
            gone += f", and so is role {self.giver.sym_name.data}"
        return f"move from role {self.giver.sym_name.data} to the products of role {self.taker.sym_name.data}: {gone}"

    def perform(self) -> None:
        """Rewrites both roles; everything was checked."""
        depth = self.sources[0].pipe.depth
        for buffer in self.pipe.buffers:
            old = _type(buffer)
            new = BufferType.of(
                old.dtype.data, old.shape, depth.value.data, Home.TENSOR, old.swizzle.data
            )
            Rewriter.replace_value_with_new_type(buffer, new)
        slots = self._take_sources()
        self._place_copies(slots)
        self.taken.slot.replace_all_uses_with(slots[self.sources[0].there.slot])
        self._leave_giver()
        for op in (self.taken.give, self.taken.take, self.filled.give, self.filled.take, self.pipe):
            op.detach()
            op.erase()
        if _tidy(self.giver.body.block):
            remove_role(self.giver)

    def _take_sources(self) -> dict[SSAValue, SSAValue]:
        """The multiplying role's slots for those of the copying role; rings that were the latter's alone follow."""
        slots: dict[SSAValue, SSAValue] = {}
        for source in self.sources:
            if source.here is not None:
                slots[source.there.slot] = source.here.slot
                release = source.here.give
                release.how = ArrayAttr(
                    dict.fromkeys([*release.how, StringAttr(How.TCGEN05.value)])
                )
                continue
            wait = s.WaitOp.create(
                operands=[source.pipe.ring], result_types=[source.there.slot.type]
            )
            wait.slot.name_hint = source.there.slot.name_hint
            release = s.ReleaseOp.create(
                operands=[source.pipe.ring, wait.slot],
                properties={"how": ArrayAttr([StringAttr(How.TCGEN05.value)])},
            )
            wait.location = source.there.take.location
            release.location = source.there.give.location
            self.taken.block.insert_op_after(wait, self.taken.take)
            self.taken.block.insert_op_before(release, self.taken.give)
            slots[source.there.slot] = wait.slot
            source.pipe.consumers = ArrayAttr([*source.pipe.consumers, self.taker.sym_name])
        return slots

    def _place_copies(self, slots: dict[SSAValue, SSAValue]) -> None:
        """The copies, in their order, once every slot is at hand."""
        at: Operation = self.taken.take
        for slot in slots.values():
            assert isinstance(slot.owner, Operation)
            if comes_before(at, slot.owner, self.taken.block):
                at = slot.owner
        slot = slots[self.sources[0].there.slot]
        for copy in self.copies:
            moved = s.CopyScalesOp.create(
                operands=[copy.source, slots[copy.source_slot], copy.destination, slot],
                properties=dict(copy.properties),
            )
            moved.location = copy.location
            self.taken.block.insert_op_after(moved, at)
            at = moved

    def _leave_giver(self) -> None:
        """The copying role without the copies, and without the rings that it needed for them alone."""
        for copy in self.copies:
            copy.detach()
            copy.erase()
        for source in self.sources:
            if source.only:
                for op in (source.there.give, source.there.take):
                    op.detach()
                    op.erase()
                left = [c for c in source.pipe.consumers if c != self.giver.sym_name]
                source.pipe.consumers = ArrayAttr(left)
            else:
                assert isinstance(source.there.give, s.ReleaseOp)
                source.there.give.how = _still(source.there)


def _still(item: Item) -> ArrayAttr[StringAttr]:
    """How a role still touches the slots of an item."""
    release = item.give
    commits = any(
        isinstance(row, Touch) and row.done is Done.TCGEN05_COMMIT
        for use in item.slot.uses
        for row in (effects_of(use.operation) or ())
    )
    return ArrayAttr([h for h in release.how if commits or How(h.data) is not How.TCGEN05])


# What may move -------------------------------------------------------------------------------------------------------


def plan(kernel: s.KernelOp, pipe: s.PipeOp, target: Target) -> Move:
    """The move of all copies into a ring, or Stays with the reason against it; nothing is changed yet."""
    giver, taker = _ends(kernel, pipe)
    filled, taken = item_of(giver, pipe.ring, s.CommitOp), item_of(taker, pipe.ring, s.ReleaseOp)
    if filled is None or taken is None:
        name = (giver if filled is None else taker).sym_name.data
        raise Stays(f"role {name} has items of it in several places")
    if not run_alike(filled.block, taken.block):
        raise Stays(
            f"the loops or conditions round the items of role {giver.sym_name.data} and those of role "
            f"{taker.sym_name.data} differ"
        )
    copies, products = _uses(pipe, filled, taken)
    _check_groups(copies, products)
    _check_waits(giver)
    sources = [
        _source(kernel, pipe, copy, giver, taker, taken, copies)
        for copy in {c.source_slot: c for c in copies}.values()
    ]
    move = Move(kernel, pipe, giver, taker, filled, taken, copies, sources)
    _check_order(move, products)
    _check_depth(move, target)
    return move


def _ends(kernel: s.KernelOp, pipe: s.PipeOp) -> tuple[s.RoleOp, s.RoleOp]:
    """The one role that copies and the one that multiplies."""
    roles = {r.sym_name.data: r for r in kernel.body.block.ops if isinstance(r, s.RoleOp)}
    for names, what in ((pipe.producers, "fill"), (pipe.consumers, "read")):
        if len(names) != 1:
            raise Stays(f"roles {' and '.join(n.data for n in names)} {what} them")
    return roles[pipe.producers.data[0].data], roles[pipe.consumers.data[0].data]


def _uses(
    pipe: s.PipeOp, filled: Item, taken: Item
) -> tuple[list[s.CopyScalesOp], list[s.ScaledMmaOp]]:
    """The copies into the ring's buffers and the products that take them, which must be all that touches them."""
    copies: list[s.CopyScalesOp] = []
    products: dict[s.ScaledMmaOp, None] = {}
    for buffer in pipe.buffers:
        if not (_type(buffer).holds_scales and _in_columns(buffer)):
            raise Stays("the pipe carries more than scales")
        for use in buffer.uses:
            match use.operation:
                case s.PipeOp() as other if other is pipe:
                    pass
                case s.CopyScalesOp() as copy if copy.destination_slot is filled.slot:
                    if copy.parent_block() is not filled.block:
                        raise Stays("a copy stands in a loop or under a condition of its own")
                    copies.append(copy)
                case s.ScaledMmaOp() as product if _slots(product, buffer) == {taken.slot}:
                    products[product] = None
                case other:
                    raise Stays(f"{other.name} touches them too, not only copies and products")
    if not copies or not products:
        raise Stays("there is no product that takes them" if copies else "nothing is copied there")
    order = {op: i for i, op in enumerate(filled.block.ops)}
    return sorted(copies, key=lambda c: order[c]), list(products)


def _slots(product: s.ScaledMmaOp, buffer: SSAValue) -> set[SSAValue]:
    """The slots of a buffer of scales that a product takes."""
    pairs = (product.scale_a, product.scale_a_slot), (product.scale_b, product.scale_b_slot)
    return {slot for scales, slot in pairs if scales is buffer}


def _check_groups(copies: list[s.CopyScalesOp], products: list[s.ScaledMmaOp]) -> None:
    """One thread's copies and products are pipelined only within one CTA group."""
    groups = {op.pair is not None for op in (*copies, *products)}
    if len(groups) > 1:
        raise Stays(
            "copies and products are of different CTA groups, one of a CTA and one of a pair"
        )


def _check_waits(giver: s.RoleOp) -> None:
    """What a role waits for without a ring, its copies may need: nothing says that the products wait for it, too. Not
    its own bulk groups, which only read shared memory."""
    for op in giver.walk():
        if not isinstance(op, s.AcquireOp | s.WaitOp) and any(
            isinstance(row, Await) and row.done is not Done.BULK_GROUP
            for row in (effects_of(op) or ())
        ):
            raise Stays(
                f"role {giver.sym_name.data} also waits for a barrier of its own ({op.name})"
            )


def _source(
    kernel: s.KernelOp,
    pipe: s.PipeOp,
    copy: s.CopyScalesOp,
    giver: s.RoleOp,
    taker: s.RoleOp,
    taken: Item,
    copies: list[s.CopyScalesOp],
) -> Source:
    """The ring that a copy reads from."""
    wait = copy.source_slot.owner
    if not isinstance(wait, s.WaitOp):
        raise Stays(f"role {giver.sym_name.data} fills what it copies from itself")
    ring = wait.ring.owner
    assert isinstance(ring, s.PipeOp)
    there = item_of(giver, ring.ring, s.ReleaseOp)
    if there is None or there.block is not copy.parent_block():
        raise Stays(
            f"role {giver.sym_name.data} has items of pipe {ring.sym_name.data} in several places"
        )
    mine = {*copies, there.give}
    only = all(use.operation in mine for use in there.slot.uses)
    here = None
    if taker.sym_name in ring.consumers:
        here = item_of(taker, ring.ring, s.ReleaseOp)
        if here is None or here.block is not taken.block:
            raise Stays(
                f"role {taker.sym_name.data} has items of pipe {ring.sym_name.data} elsewhere than those of pipe "
                f"{pipe.sym_name.data}"
            )
    elif ring.across is not None:
        raise Stays(f"pipe {ring.sym_name.data} joins several CTAs")
    return Source(ring, there, here, only)


def _check_order(move: Move, products: list[s.ScaledMmaOp]) -> None:
    """Tiles are at hand before the first product, and are given back after the last, which frees the columns too."""
    block = move.taken.block
    if not all(comes_before(product, move.taken.give, block) for product in products):
        raise Stays("a product comes after the columns are given back")
    for source in move.sources:
        if source.here is None:
            continue
        name = source.pipe.sym_name.data
        for product in products:
            if not comes_before(source.here.take, product, block):
                raise Stays(f"a product comes before its role has the item of pipe {name}")
            if not comes_before(product, source.here.give, block):
                raise Stays(
                    f"the slot of pipe {name} is given back before a product; a copy would overwrite columns that "
                    "an earlier product may still read"
                )


def _check_depth(move: Move, target: Target) -> None:
    """Columns go round with the slots that they are copied from: those are free only once the products are done."""
    depth = move.sources[0].pipe.depth.value.data
    rings = {source.pipe.depth.value.data for source in move.sources}
    if len(rings) > 1:
        raise Stays(f"they are copied from rings of {' and '.join(map(str, sorted(rings)))} slots")
    held = [
        b.buffer
        for b in move.kernel.body.block.ops
        if isinstance(b, s.BufferOp) and _in_columns(b.buffer)
    ]
    taken = sum(
        columns_of(_type(b)) * (depth if b in move.pipe.buffers else _type(b).depth.data)
        for b in held
    )
    if taken > columns_given(target):
        raise Stays(
            f"a ring of {depth} slots, as many as they are copied from, would take {taken} columns of "
            f"{columns_given(target)} with the accumulators; with {move.pipe.depth.value.data} a copy would overwrite "
            "scale columns that an earlier product may still read"
        )


# What is left --------------------------------------------------------------------------------------------------------


def _idle_without(move: Move) -> bool:
    """Whether the copying role does nothing but take items for these copies."""
    mine: set[Operation] = {*move.copies, move.filled.take, move.filled.give}
    for source in move.sources:
        mine |= {source.there.take, source.there.give}
    return all(
        op in mine or isinstance(op, s.WorkLoopOp | s.ForOp | s.YieldOp) or op.has_trait(Pure)
        for op in move.giver.walk()
        if op is not move.giver
    )


def _tidy(block: Block) -> bool:
    """Erases loops in which nothing happens any more; whether nothing happens in the block."""
    idle = True
    for op in list(block.ops):
        if isinstance(op, s.WorkLoopOp | s.ForOp):
            if _tidy(op.body.block) and not op.results:
                op.detach()
                op.erase()
            else:
                idle = False
        elif not op.has_trait(Pure):
            idle = False
    return idle
