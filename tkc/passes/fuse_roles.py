"""Join the roles that share an accumulator in registers, before any barrier exists, since nobody else can read it.

Before: a pipe of register accumulators connects a role that issues products with a role that reads them.
After: one role runs both bodies in item order; the pipe is gone and the accumulator flows as a value.
Here because: the joined role's warps and the pipes that are left decide every barrier's count, so it stands before
`lower-pipes`; it needs the roles as `place-tiles` made them.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, ModuleOp, StringAttr
from xdsl.ir import Block, BlockArgument, Operation, OpResult, SSAValue
from xdsl.passes import ModulePass

from tkc.diagnostics import Bug, Note, TkcError
from tkc.ir.locations import location_of
from tkc.ir.stage import ops as s
from tkc.ir.stage.scalar import const
from tkc.ir.stage.types import BufferType, Home


@dataclass(frozen=True)
class FuseRolesPass(ModulePass):
    """`fuse-roles`."""

    name = "fuse-roles"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for kernel in [k for k in op.body.block.ops if isinstance(k, s.KernelOp)]:
            for pipe in [p for p in kernel.body.block.ops if isinstance(p, s.PipeOp)]:
                if any(_in_registers(b) for b in pipe.buffers):
                    fuse(kernel, pipe)


def _in_registers(buffer: SSAValue) -> bool:
    return isinstance(buffer.type, BufferType) and buffer.type.home.data == Home.REGISTER


def _role(kernel: s.KernelOp, name: str) -> s.RoleOp | None:
    for op in kernel.body.block.ops:
        if isinstance(op, s.RoleOp) and op.sym_name.data == name:
            return op
    return None


def fuse(kernel: s.KernelOp, pipe: s.PipeOp) -> None:
    """Appends the consumer's loop body to the producer's and lets the accumulators flow."""
    ends = [n.data for n in (*pipe.producers, *pipe.consumers)]
    roles = [r for r in (_role(kernel, n) for n in ends) if r is not None]
    if len(roles) != 2:
        raise TkcError.at(
            "TK213",
            f"pipe {pipe.sym_name.data} carries accumulators that live in registers on this target; "
            f"it must join exactly two roles, not {len(ends)} ({', '.join(ends)})",
            location_of(pipe),
        )
    first, second = roles
    _merge(first.body.block, second.body.block, pipe)
    _connect(pipe)
    if second.registers is not None:
        wanted = [second.registers.value.data]
        if first.registers is not None:
            wanted.append(first.registers.value.data)
        first.properties["registers"] = IntegerAttr(max(wanted), second.registers.type)
    _rename(kernel, second.sym_name.data, first.sym_name.data)
    removed, kept = second.first_warp.value.data, second.warps.value.data
    second.detach()
    second.erase()
    for other in kernel.body.block.ops:
        if isinstance(other, s.RoleOp) and other.first_warp.value.data > removed:
            moved = other.first_warp.value.data - kept
            other.properties["first_warp"] = IntegerAttr(moved, other.first_warp.type)


def _merge(first: Block, second: Block, pipe: s.PipeOp) -> None:
    """Loops over the same schedule become one, the first body before the second; everything else keeps its order."""
    loops = [[o for o in b.ops if isinstance(o, s.WorkLoopOp)] for b in (first, second)]
    if len(loops[0]) != 1 or len(loops[1]) != 1 or loops[0][0].schedule != loops[1][0].schedule:
        places = [loop for side in loops for loop in side]
        raise TkcError.at(
            "TK213",
            f"the roles at the ends of {pipe.sym_name.data} share an accumulator in registers and "
            "become one role on this target, but they do not run one loop over the same schedule",
            location_of(places[0]) if places else location_of(pipe),
            *(Note("and here", location_of(p)) for p in places[1:]),
        )
    one, two = loops[0][0], loops[1][0]
    count = len(one.extents)
    before: list[Operation] = []
    after: list[Operation] = []
    seen = False
    for op in list(second.ops):
        if op is two:
            seen = True
        elif not seen:
            before.append(op)
        else:
            after.append(op)
    for op in before:
        op.detach()
        first.insert_op_before(op, one)
    body, other = one.body.block, two.body.block
    for old, new in zip(other.args[:count], body.args[:count], strict=True):
        old.replace_all_uses_with(new)
    assert body.last_op is not None
    assert other.last_op is not None
    for op in list(other.ops):
        op.detach()
        if not isinstance(op, s.YieldOp):
            body.insert_op_before(op, body.last_op)
    two.detach()
    two.erase()
    for op in after:
        op.detach()
        first.add_op(op)


def _connect(pipe: s.PipeOp) -> None:
    """Replaces the consumer's view of the accumulator by the producer's value, then drops the pipe's operations."""
    uses = [u.operation for u in pipe.ring.uses]
    commits = [o for o in uses if isinstance(o, s.CommitOp)]
    waits = [o for o in uses if isinstance(o, s.WaitOp)]
    if (
        len(commits) != 1
        or len(waits) != 1
        or commits[0].parent_block() is not waits[0].parent_block()
    ):
        raise TkcError.at(
            "TK213",
            f"pipe {pipe.sym_name.data} carries an accumulator in registers on this target; it needs "
            "one put and one get, in the same loop",
            location_of(pipe),
        )
    commit, wait = commits[0], waits[0]
    held = {_buffer_of(v): v for v in commit.accumulators}
    for use in [u.operation for u in wait.slot.uses]:
        if isinstance(use, s.OpenOp):
            use.value.replace_all_uses_with(_ready(held[use.buffer], commit))
            use.detach()
            use.erase()
    for op in uses:
        if isinstance(op, s.CommitOp | s.ReleaseOp):
            op.detach()
            op.erase()
    for op in uses:
        if isinstance(op, s.AcquireOp | s.WaitOp):
            zero = const(0)
            block = op.parent_block()
            assert block is not None
            block.insert_op_before(zero, op)
            op.slot.replace_all_uses_with(zero.value)
            op.detach()
            op.erase()
    pipe.detach()
    pipe.erase()


def _buffer_of(value: SSAValue) -> SSAValue:
    """The buffer that an accumulator value was opened from, through products, waits and loops."""
    while True:
        owner: Operation | Block = value.owner
        match value:
            case OpResult() if isinstance(owner, s.OpenOp):
                return owner.buffer
            case OpResult() if isinstance(owner, s.ZeroOp | s.MmaOp | s.MmaWaitOp):
                value = owner.source
            case OpResult() if isinstance(owner, s.ForOp):
                value = owner.inits[value.index]
            case BlockArgument() if isinstance(loop := value.block.parent_op(), s.ForOp):
                value = loop.inits[value.index - 1]
            case _:
                raise Bug(
                    "fuse-roles", f"an accumulator that comes from {value} cannot be followed"
                )


def _ready(value: SSAValue, commit: s.CommitOp) -> SSAValue:
    """The accumulator once its products are done: as it is where a wait has been passed, else a wait is added."""
    owner: Operation | Block = value.owner
    if isinstance(value, OpResult) and isinstance(owner, s.ForOp):
        last = owner.body.block.last_op
        assert isinstance(last, s.YieldOp)
        inner: Operation | Block = last.values[value.index].owner
        if isinstance(inner, s.MmaWaitOp) and inner.pending.value.data == 0:
            return value
    if isinstance(owner, s.MmaWaitOp | s.ZeroOp):
        return value
    wait = s.MmaWaitOp.create(
        operands=[value],
        properties={"pending": IntegerAttr(0, 32), "id": StringAttr("fused.products")},
        result_types=[value.type],
    )
    wait.location = commit.location
    block = commit.parent_block()
    assert block is not None
    block.insert_op_before(wait, commit)
    return wait.value


def _rename(kernel: s.KernelOp, old: str, new: str) -> None:
    """The joined role takes the place of the one that went, at every pipe's end."""
    for pipe in kernel.body.block.ops:
        if isinstance(pipe, s.PipeOp):
            for end, names in (("producers", pipe.producers), ("consumers", pipe.consumers)):
                renamed = dict.fromkeys(new if n.data == old else n.data for n in names)
                pipe.properties[end] = ArrayAttr([StringAttr(n) for n in renamed])
