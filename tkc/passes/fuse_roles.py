"""Join the roles that share an accumulator in registers, before any barrier exists, since nobody else can read it.

Before: a pipe of register accumulators connects a role that issues products with a role that reads them.
After: one role runs both bodies in item order; the pipe is gone and the accumulator flows as a value.
Here because: the joined role's warps and the pipes that are left decide every barrier's count, so it stands before
`lower-pipes`; it needs the roles as `place-tiles` made them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, ModuleOp, StringAttr
from xdsl.ir import Block, BlockArgument, Operation, OpResult, SSAValue
from xdsl.passes import ModulePass

from tkc.diagnostics import Bug, TkcError
from tkc.ir.locations import location_of
from tkc.ir.stage import ops as s
from tkc.ir.stage.explicit import WhileOp
from tkc.ir.stage.scalar import const
from tkc.ir.stage.structure import remove_role
from tkc.ir.stage.types import BufferType, Home

UseT = TypeVar("UseT", bound=Operation)


@dataclass(frozen=True)
class FuseRolesPass(ModulePass):
    """`fuse-roles`."""

    name = "fuse-roles"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for kernel in [k for k in op.body.block.ops if isinstance(k, s.KernelOp)]:
            pipes = [p for p in kernel.body.block.ops if isinstance(p, s.PipeOp)]
            pipes = [p for p in pipes if any(_in_registers(b) for b in p.buffers)]
            buffers = [b for pipe in pipes for b in pipe.buffers if _in_registers(b)]
            for pipe in pipes:
                fuse(kernel, pipe)
            flowing = [p for p in pipes if not _once(p, buffers)]
            for pipe in pipes:
                if pipe not in flowing:
                    _connect(pipe)
            if flowing:
                from tkc.passes.fusing.flow import AccumulatorFlow
            for buffer in dict.fromkeys(b for p in flowing for b in p.buffers if _in_registers(b)):
                AccumulatorFlow(buffer).run()
            for pipe in flowing:
                _drop(pipe)


def _in_registers(buffer: SSAValue) -> bool:
    return isinstance(buffer.type, BufferType) and buffer.type.home.data == Home.REGISTER


def _role(kernel: s.KernelOp, name: str) -> s.RoleOp | None:
    for op in kernel.body.block.ops:
        if isinstance(op, s.RoleOp) and op.sym_name.data == name:
            return op
    return None


def fuse(kernel: s.KernelOp, pipe: s.PipeOp) -> None:
    """The roles at a pipe's ends become one, in the order of their items."""
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
    if first is second:  # joined already, for another pipe
        return
    from tkc.passes.fusing.order import Merge

    between, late = _between(kernel, first, second)
    pipes = [p for p in kernel.body.block.ops if isinstance(p, s.PipeOp)]
    bodies = {
        r.sym_name.data: r.body.block for r in kernel.body.block.ops if isinstance(r, s.RoleOp)
    }
    names = (first.sym_name.data, second.sym_name.data)
    others = {name: body for name, body in bodies.items() if name not in names}
    Merge(pipe, between, late, others, names, pipes).roles(first.body.block, second.body.block)
    if second.registers is not None:
        wanted = [second.registers.value.data]
        if first.registers is not None:
            wanted.append(first.registers.value.data)
        first.properties["registers"] = IntegerAttr(max(wanted), second.registers.type)
    _rename(kernel, second.sym_name.data, first.sym_name.data)
    remove_role(second)


def _between(
    kernel: s.KernelOp, first: s.RoleOp, second: s.RoleOp
) -> tuple[dict[SSAValue, int], tuple[frozenset[SSAValue], frozenset[SSAValue]]]:
    """The rings from one of two roles to the other, with their slots; of each role, those that it gets of roles which
    get something of the other one."""
    pipes = [p for p in kernel.body.block.ops if isinstance(p, s.PipeOp)]
    ends = {p: ({n.data for n in p.producers}, {n.data for n in p.consumers}) for p in pipes}
    names = [r.sym_name.data for r in (first, second)]
    between = {
        p.ring: p.depth.value.data
        for p, (puts, gets) in ends.items()
        if puts | gets == {*names} and len(puts) == len(gets) == 1
    }
    late: list[frozenset[SSAValue]] = []
    for mine, other in (names, names[::-1]):
        reached, known = {other}, 0
        while len(reached) > known:
            known = len(reached)
            for puts, gets in ends.values():
                reached |= (gets - {*names}) if puts & reached else set()
        behind = [
            p.ring
            for p, (puts, gets) in ends.items()
            if mine in gets and puts & (reached - {other})
        ]
        late.append(frozenset(behind))
    return between, (late[0], late[1])


def _uses(pipe: s.PipeOp, kind: type[UseT]) -> list[UseT]:
    return [u.operation for u in pipe.ring.uses if isinstance(u.operation, kind)]


def _once(pipe: s.PipeOp, buffers: list[SSAValue]) -> bool:
    """Whether each of a pipe's accumulators goes one way, by one put and one get of a turn."""
    if _uses(pipe, s.TurnOp):
        raise TkcError.at(
            "TK213",
            f"pipe {pipe.sym_name.data} carries an accumulator in registers on this target: no roles take turns",
            location_of(pipe),
        )
    puts, gets = _uses(pipe, s.CommitOp), _uses(pipe, s.WaitOp)
    alone = all(buffers.count(b) == 1 for b in pipe.buffers)
    return (
        alone and len(puts) == len(gets) == 1 and puts[0].parent_block() is gets[0].parent_block()
    )


def _connect(pipe: s.PipeOp) -> None:
    """Replaces the consumer's view of the accumulator by the producer's value, then drops the pipe's operations."""
    (commit,), (wait,) = _uses(pipe, s.CommitOp), _uses(pipe, s.WaitOp)
    from tkc.passes.fusing.ready import ready

    held = {_buffer_of(v): v for v in commit.accumulators}
    for use in [u.operation for u in wait.slot.uses]:
        if isinstance(use, s.OpenOp):
            use.value.replace_all_uses_with(ready(held[use.buffer], commit))
            use.detach()
            use.erase()
    _drop(pipe)


def _drop(pipe: s.PipeOp) -> None:
    """A pipe inside one role whose accumulators flow: nothing waits for its items."""
    uses = [u.operation for u in pipe.ring.uses]
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
            case OpResult() if isinstance(owner, s.StageOp) and owner.STATE_OF is not None:
                value = getattr(owner, owner.STATE_OF)
            case OpResult() if isinstance(owner, s.ForOp | WhileOp):
                value = owner.inits[value.index]
            case OpResult() if isinstance(owner, s.IfOp):
                last = owner.then.block.last_op
                assert last is not None
                value = last.operands[value.index]
            case BlockArgument() if isinstance(loop := value.block.parent_op(), s.ForOp):
                value = loop.inits[value.index - 1]
            case BlockArgument() if isinstance(loop := value.block.parent_op(), WhileOp):
                value = loop.inits[value.index]
            case _:
                raise Bug(
                    "fuse-roles", f"an accumulator that comes from {value} cannot be followed"
                )


def _rename(kernel: s.KernelOp, old: str, new: str) -> None:
    """The joined role takes the place of the one that went, at every pipe's end."""
    for pipe in kernel.body.block.ops:
        if isinstance(pipe, s.PipeOp):
            for end, names in (("producers", pipe.producers), ("consumers", pipe.consumers)):
                renamed = dict.fromkeys(new if n.data == old else n.data for n in names)
                pipe.properties[end] = ArrayAttr([StringAttr(n) for n in renamed])
