"""First operands in a ring of their own, where a commit can say that products have read them and no more.

A slot is free when all in it is done with. Products are done with their first operands before anything else (PTX 9.4,
tcgen05.commit.sync_restrict::shared::read::mma::a), so that these wait for less if nothing else lies in their slot: not
second operands, and not block scales, which other instructions copy to tensor memory, of whose end such a commit says
nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, ModuleOp, StringAttr, i32
from xdsl.ir import Operation, SSAValue
from xdsl.traits import Pure

from tkc.diagnostics import Diagnostic, Severity, report
from tkc.ir.isa.targets import Feature
from tkc.ir.locations import location_of
from tkc.ir.stage import ops as s
from tkc.ir.stage.ops import Across, How
from tkc.ir.target import target_of

Product = s.MmaOp | s.ScaledMmaOp


def read_first(buffers: Sequence[SSAValue], users: Sequence[Operation]) -> bool:
    """Whether these users of buffers are products that read them as their first operands, and nothing else."""
    return bool(users) and all(isinstance(o, Product) and o.b not in buffers for o in users)


def part_first_operands(kernel: s.KernelOp, module: ModuleOp) -> None:
    """Makes one ring of two wherever that frees slots earlier."""
    pipes = [p for p in kernel.body.block.ops if isinstance(p, s.PipeOp)]
    partings = [found for pipe in pipes if (found := _parting(pipe)) is not None]
    if partings and target_of(module).has({Feature.TCGEN05_COMMIT_READ}):
        for parting in partings:
            parting.perform()


@dataclass
class Filled:
    """Where a slot is filled: the copies of first operands, and what they alone are computed from behind `take`."""

    take: s.AcquireOp
    give: s.CommitOp
    copies: list[s.TmaLoadOp]
    lifted: list[Operation]

    @property
    def bytes(self) -> int:
        return sum(copy.buffer.type.copied_bytes for copy in self.copies)  # type: ignore[union-attr]


@dataclass
class Parting:
    """A ring whose first operands can go round by themselves."""

    pipe: s.PipeOp
    first: list[SSAValue]
    filled: list[Filled]
    read: list[tuple[s.WaitOp, s.ReleaseOp]]

    def perform(self) -> None:
        """The second ring has as many slots, and the same ends."""
        old = self.pipe
        names = [b.owner.sym_name.data for b in self.first if isinstance(b.owner, s.BufferOp)]
        name = StringAttr(f"{old.sym_name.data}.{names[0]}")
        new = s.PipeOp.create(
            operands=self.first,
            properties={**old.properties, "sym_name": name},
            result_types=[old.ring.type],
        )
        self._narrow(new)
        new.ring.name_hint = old.ring.name_hint
        _insert(new, before=old)
        old.operands = [b for b in old.buffers if b not in self.first]
        for place in self.filled:
            self._fill(place, new)
        for wait, release in self.read:
            self._read(wait, release, new)
        report(_remark(old, names))

    def _narrow(self, new: s.PipeOp) -> None:
        """A ring that nothing fills for several CTAs does not wait for them."""
        copies = [copy for place in self.filled for copy in place.copies]
        if new.across is not None and all(copy.multicast is None for copy in copies):
            across = Across(new.across.data).unshared
            new.across = None if across is None else StringAttr(across)

    def _fill(self, place: Filled, new: s.PipeOp) -> None:
        """The first operands' slot is waited for and filled ahead of the other one."""
        take = s.AcquireOp.create(operands=[new.ring], result_types=[i32])
        take.slot.name_hint = place.take.slot.name_hint
        how = {"how": ArrayAttr([StringAttr(How.TMA)]), "bytes": IntegerAttr(place.bytes, i32)}
        give = s.CommitOp.create(operands=[new.ring, take.slot], properties=how)
        for op in (*place.lifted, take, *place.copies, give):
            if op.parent is None:
                op.location = place.take.location if op is take else place.give.location
            else:
                op.detach()
            _insert(op, before=place.take)
        for copy in place.copies:
            copy.operands = [take.slot if v is place.take.slot else v for v in copy.operands]
        left = place.give.bytes.value.data - place.bytes
        place.give.properties["bytes"] = IntegerAttr(left, i32)

    def _read(self, wait: s.WaitOp, release: s.ReleaseOp, new: s.PipeOp) -> None:
        """Products take them from their own slot, which is given back ahead of the other one."""
        take = s.WaitOp.create(operands=[new.ring], result_types=[i32])
        take.slot.name_hint = wait.slot.name_hint
        give = s.ReleaseOp.create(operands=[new.ring, take.slot], properties={"how": release.how})
        take.location, give.location = wait.location, release.location
        block = wait.parent_block()
        assert block is not None
        block.insert_op_after(take, wait)
        _insert(give, before=release)
        for product in [u.operation for u in wait.slot.uses if isinstance(u.operation, Product)]:
            if product.a in self.first:
                product.operands[product.operands.index(product.a) + 1] = take.slot


def _parting(pipe: s.PipeOp) -> Parting | None:
    """How a ring can be parted; None where it cannot, or where that is of no use."""
    single = len(pipe.producers) == len(pipe.consumers) == 1
    if pipe.kind.data != "full_empty" or not single or pipe.after is not None:
        return None
    first = [b for b in pipe.buffers if _is_first(b, pipe)]
    if not first or len(first) == len(pipe.buffers):
        return None
    parting = Parting(pipe, first, [], [])
    for op in [u.operation for u in pipe.ring.uses]:
        match op:
            case s.AcquireOp():
                filled = _filled(op, first)
                if filled is None:
                    return None
                parting.filled.append(filled)
            case s.WaitOp():
                release = _release(op)
                if release is None or not _together(op, first):
                    return None
                parting.read.append((op, release))
            case s.CommitOp() | s.ReleaseOp():
                pass
            case _:
                return None
    return parting


def _together(wait: s.WaitOp, first: list[SSAValue]) -> bool:
    """Whether products that take an operand from this slot take theirs of `first` from it, too."""
    return all(
        o.a_slot is wait.slot or o.a not in first
        for use in wait.slot.uses
        if isinstance(o := use.operation, Product)
    )


def _is_first(buffer: SSAValue, pipe: s.PipeOp) -> bool:
    """Whether the ring's copies fill a buffer, and products read it as their first operand, and that is all."""
    users = [u.operation for u in buffer.uses if u.operation is not pipe]
    slots = [
        op.slot if isinstance(op, s.TmaLoadOp) else op.a_slot if isinstance(op, Product) else None
        for op in users
    ]
    takes = [None if slot is None else slot.owner for slot in slots]
    return read_first([buffer], [op for op in users if not isinstance(op, s.TmaLoadOp)]) and all(
        isinstance(take, s.AcquireOp | s.WaitOp) and take.ring is pipe.ring for take in takes
    )


def _filled(take: s.AcquireOp, first: list[SSAValue]) -> Filled | None:
    """Where a slot is filled by copies alone, of which those of first operands can come ahead; else None."""
    uses = [u.operation for u in take.slot.uses]
    gives = [op for op in uses if isinstance(op, s.CommitOp)]
    copies = [op for op in uses if isinstance(op, s.TmaLoadOp)]
    alone = len(gives) == 1 and len(gives) + len(copies) == len(uses)
    block = take.parent_block()
    if block is None or not alone or any(op.parent_block() is not block for op in uses):
        return None
    ahead = sorted((c for c in copies if c.buffer in first), key=block.get_operation_index)
    each = {copy.buffer for copy in ahead}
    lifted = _ahead(take, ahead)
    if lifted is None or len(each) != len(ahead) or len(each) != len(first):
        return None
    return Filled(take, gives[0], ahead, lifted) if len(ahead) < len(copies) else None


def _ahead(take: s.AcquireOp, copies: list[s.TmaLoadOp]) -> list[Operation] | None:
    """What copies are computed from between `take` and them, in order; None where something there has to stay first."""
    between: list[Operation] = []
    following = take.next_op
    while copies and following is not None and following is not copies[-1]:
        if not following.has_trait(Pure) and not isinstance(following, s.TmaLoadOp):
            return None
        between.append(following)
        following = following.next_op
    needed: set[SSAValue] = {v for copy in copies for v in copy.operands}
    lifted: list[Operation] = []
    for op in reversed(between):
        if op.has_trait(Pure) and needed & {*op.results}:
            needed |= {*op.operands}
            lifted.insert(0, op)
    return lifted


def _release(wait: s.WaitOp) -> s.ReleaseOp | None:
    """Where a slot is given back that products alone, and copies to tensor memory, have read; else None."""
    gives = [u.operation for u in wait.slot.uses if isinstance(u.operation, s.ReleaseOp)]
    if len(gives) != 1 or gives[0].parent_block() is not wait.parent_block():
        return None
    return gives[0] if {h.data for h in gives[0].how} == {How.TCGEN05} else None


def _insert(op: Operation, before: Operation) -> None:
    block = before.parent_block()
    assert block is not None
    block.insert_op_before(op, before)


def _remark(pipe: s.PipeOp, names: list[str]) -> Diagnostic:
    told = (
        f"slots of {' and '.join(names)} in pipe {pipe.sym_name.data} go round by themselves: products have read "
        "them before they are done with the rest"
    )
    return Diagnostic("TK219", told, location_of(pipe), Severity.REMARK)
