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
from xdsl.ir import Block, BlockArgument, Operation, OpResult, Region, SSAValue
from xdsl.passes import ModulePass

from tkc.analysis.items import same
from tkc.diagnostics import Bug, Note, TkcError
from tkc.ir.locations import location_of
from tkc.ir.stage import ops as s
from tkc.ir.stage.scalar import const
from tkc.ir.stage.structure import remove_role
from tkc.ir.stage.types import BufferType, Home
from tkc.ir.syntax import segments


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
    if first is second:  # joined already, for another pipe
        _connect(pipe)
        return
    _merge(first.body.block, second.body.block, pipe)
    _connect(pipe)
    if second.registers is not None:
        wanted = [second.registers.value.data]
        if first.registers is not None:
            wanted.append(first.registers.value.data)
        first.properties["registers"] = IntegerAttr(max(wanted), second.registers.type)
    _rename(kernel, second.sym_name.data, first.sym_name.data)
    remove_role(second)


Loop = s.WorkLoopOp | s.ForOp
Held = Loop | s.IfOp
"""What may hold a pipe's items."""


def _merge(first: Block, second: Block, pipe: s.PipeOp) -> None:
    """Loops over the same schedule become one, the first body before the second; everything else keeps its order.

    So do loops inside them that hold the pipe's items on both sides and run as often.
    """
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
    _join(loops[0][0], loops[1][0], pipe)
    for op in list(second.ops):
        op.detach()
        first.add_op(op)


def _join(one: Held, two: Held, pipe: s.PipeOp) -> None:
    """Two loops that run as often, or conditions that hold alike, in blocks of two roles, become one.

    What stands round the second keeps its order.
    """
    place, source = one.parent_block(), two.parent_block()
    assert place is not None
    assert source is not None
    for op in list(source.ops):
        if op is two:
            break
        op.detach()
        place.insert_op_before(op, one)
    if isinstance(one, s.IfOp):
        assert isinstance(two, s.IfOp)
        for which in ("then", "otherwise"):
            _join_blocks(_arm(one, which), _arm(two, which), pipe)
        _hand_on_both(one, two)
        return
    assert not isinstance(two, s.IfOp)
    counters = len(one.extents) if isinstance(one, s.WorkLoopOp) else 1
    body, other = one.body.block, two.body.block
    for old, new in zip(other.args[:counters], body.args[:counters], strict=True):
        old.replace_all_uses_with(new)
    for old in other.args[counters:]:
        new = body.insert_arg(old.type, len(body.args))
        new.name_hint = old.name_hint
        old.replace_all_uses_with(new)
    _join_blocks(body, other, pipe)
    _carry_both(one, two)


def _join_blocks(body: Block, other: Block, pipe: s.PipeOp) -> None:
    """The operations of the second block behind those of the first; what holds the pipe's items in both is joined."""
    inner = [_holder(body, pipe, s.CommitOp), _holder(other, pipe, s.WaitOp)]
    last = body.last_op
    assert isinstance(last, s.YieldOp)
    if isinstance(inner[0], s.ForOp | s.IfOp) and isinstance(inner[1], s.ForOp | s.IfOp):
        if not _run_as_often(inner[0], inner[1]):
            raise TkcError.at(
                "TK213",
                f"the roles at the ends of {pipe.sym_name.data} share an accumulator in registers and "
                "become one role on this target, but the loops or conditions round its items differ",
                location_of(inner[0]),
                Note("and here", location_of(inner[1])),
            )
        _join(inner[0], inner[1], pipe)
    yielded = list(last.values)
    for op in list(other.ops):
        op.detach()
        if isinstance(op, s.YieldOp):
            yielded += op.values
        else:
            body.insert_op_before(op, last)
    last.operands = yielded


def _arm(op: s.IfOp, which: str) -> Block:
    """One way of a condition; an empty one where it has none."""
    if which == "then":
        return op.then.block
    if len(op.regions) < 2:
        op.add_region(Region(Block([s.YieldOp.create(operands=[])])))
    return op.regions[1].block


def _hand_on_both(one: s.IfOp, two: s.IfOp) -> None:
    """The first condition results in what the second did, too; the second goes."""
    block = one.parent_block()
    assert block is not None
    new = s.IfOp.create(
        operands=[one.condition],
        regions=[one.detach_region(region) for region in list(one.regions)],
        result_types=[*(r.type for r in one.results), *(r.type for r in two.results)],
    )
    _take_place(block, new, one, two)


def _carry_both(one: Loop, two: Loop) -> None:
    """The first loop carries what the second carried, too; the second goes."""
    block = one.parent_block()
    assert block is not None
    inits = [*one.inits, *two.inits]
    heads = [*one.operands[: len(one.operands) - len(one.inits)]]
    properties = dict(one.properties)
    if isinstance(one, s.WorkLoopOp):
        properties.update(segments(len(heads), len(inits)))
    new = type(one).create(
        operands=[*heads, *inits],
        properties=properties,
        regions=[one.detach_region(one.body)],
        result_types=[*(r.type for r in one.results), *(r.type for r in two.results)],
    )
    _take_place(block, new, one, two)


def _take_place(block: Block, new: Held, one: Held, two: Held) -> None:
    new.location = one.location
    block.insert_op_before(new, one)
    for old, result in zip([*one.results, *two.results], new.results, strict=True):
        result.name_hint = old.name_hint
        old.replace_all_uses_with(result)
    for gone in (one, two):
        gone.detach()
        gone.erase()


def _holder(block: Block, pipe: s.PipeOp, kind: type[s.CommitOp | s.WaitOp]) -> Operation | None:
    """The operation of the block that is or holds the pipe's first commit or wait."""
    for op in block.ops:
        if any(isinstance(o, kind) and o.ring is pipe.ring for o in op.walk()):
            return op
    return None


def _run_as_often(one: s.ForOp | s.IfOp, two: s.ForOp | s.IfOp) -> bool:
    if type(one) is not type(two):
        return False
    bounds = 3 if isinstance(one, s.ForOp) else 1
    pairs = zip(one.operands[:bounds], two.operands[:bounds], strict=True)
    return all(same(a, b) for a, b in pairs)


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
            case OpResult() if isinstance(owner, s.WriteAccumulatorOp):
                value = owner.accumulator
            case OpResult() if isinstance(owner, s.ForOp):
                value = owner.inits[value.index]
            case OpResult() if isinstance(owner, s.IfOp):
                last = owner.then.block.last_op
                assert last is not None
                value = last.operands[value.index]
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
    if isinstance(owner, s.MmaWaitOp | s.ZeroOp | s.WriteAccumulatorOp):
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
