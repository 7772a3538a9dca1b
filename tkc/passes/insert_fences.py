"""Put a fence at every crossing between the generic proxy and another, conservatively, once barriers show where
roles meet.

Before: no fence anywhere; barriers and waits are explicit.
After: a bidirectional proxy fence stands between each generic access of a shared buffer that the async proxy also
touches and the synchronisation before it, and between it and the one after it; tcgen05 fences stand at the same
places round tensor-memory accesses. None stands where both sides are async. Each names the buffers it guards.
Here because: a fence orders its own thread's accesses against a synchronisation, so barriers must exist; removing the
redundant ones is another pass's work, which wants to see all of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from tkc.ir.effects import effects_of
from tkc.ir.isa.memory import Await, Order, Proxy, Signal, Space, Touch
from tkc.ir.stage import ops as s
from tkc.ir.stage.explicit import RestartOp
from tkc.ir.stage.ops import By
from tkc.ir.stage.tensor_operands import TensorMmaOp
from tkc.ir.stage.types import AccumulatorType, BufferType, Home


@dataclass(frozen=True)
class InsertFencesPass(ModulePass):
    """`insert-fences`."""

    name = "insert-fences"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for kernel in [k for k in op.body.block.ops if isinstance(k, s.KernelOp)]:
            crossing = shared_by_proxies(kernel)
            tensor = has_tensor_memory(kernel)
            for role in [r for r in kernel.body.block.ops if isinstance(r, s.RoleOp)]:
                RoleFences(role, crossing, tensor).run()


def _touches(op: Operation) -> list[tuple[SSAValue, Touch]]:
    """The buffers that an operation touches, by its rows."""
    found: list[tuple[SSAValue, Touch]] = []
    for row in effects_of(op) or ():
        if isinstance(row, Touch):
            value: SSAValue | None = getattr(op, row.operand)
            if value is not None and isinstance(value.type, BufferType | AccumulatorType):
                found.append((value, row))
    return found


def shared_by_proxies(kernel: s.KernelOp) -> set[SSAValue]:
    """Places of shared buffers that both the generic and the async proxy access (membership is asked for; order is not
    used)."""
    seen: dict[SSAValue, set[Proxy]] = {}
    for op in kernel.walk():
        if isinstance(op, s.BufferOp):
            continue
        for buffer, touch in _touches(op):
            if touch.space is Space.SHARED and not _spelled_out(buffer):
                seen.setdefault(s.storage(buffer), set()).add(touch.proxy)
    return {b for b, proxies in seen.items() if {Proxy.GENERIC, Proxy.ASYNC} <= proxies}


def has_tensor_memory(kernel: s.KernelOp) -> bool:
    """Whether accumulators live in tensor memory: a kernel keeps all of them in one place."""
    return any(
        isinstance(o, s.BufferOp) and o.buffer.type.home.data == Home.TENSOR
        for o in kernel.body.block.ops
    )


def _spelled_out(value: SSAValue) -> bool:
    """Whether no pipe carries a buffer, or the buffer of an accumulator: then the program has written the fences."""
    while True:
        match value.owner:
            case s.BufferOp() as op:
                return op.explicit is not None
            case s.OpenOp() as op:
                value = op.buffer
            case s.WriteAccumulatorOp() as op:
                value = op.accumulator
            case s.ZeroOp() | s.MmaOp() | s.ScaledMmaOp() | TensorMmaOp() | RestartOp() as op:
                value = op.source
            case _:
                return False


def _synchronises(op: Operation) -> bool:
    """Whether an operation, or one inside it, meets other threads or waits for something."""
    return any(
        isinstance(row, Await | Signal | Order)
        for inner in op.walk()
        for row in (effects_of(inner) or ())
    )


def _async_buffers(op: Operation) -> frozenset[SSAValue]:
    """The buffers that the async proxy touches in an operation, or in one inside it."""
    return frozenset(
        s.storage(value)
        for inner in op.walk()
        for value, touch in _touches(inner)
        if touch.proxy is Proxy.ASYNC
    )


Fence = s.ProxyFenceOp | s.Tcgen05FenceOp
Key = tuple[Operation, Block, str, bool]


@dataclass(frozen=True)
class Place:
    """Where a fence goes: in `block` before `following` (at its end where that is None).

    `anchor` is what the fence stands beside: the synchronisation, or the loop or role at whose edge it is. Accesses
    with the same anchor on the same side share a fence.
    """

    anchor: Operation
    block: Block
    following: Operation | None

    def key(self, kind: str, after: bool) -> Key:
        """The same for accesses that share a fence; at a loop's edge and beside the loop are different places."""
        return self.anchor, self.block, kind, after

    def fence(self) -> s.ProxyFenceOp | None:
        """A proxy fence that stands here already: two synchronisations beside one another need one between them."""
        before = self.block.last_op if self.following is None else self.following.prev_op
        for neighbour in (before, self.following):
            if isinstance(neighbour, s.ProxyFenceOp):
                return neighbour
        return None


@dataclass
class RoleFences:
    """The fences of one role, one for each place and kind."""

    role: s.RoleOp
    crossing: set[SSAValue]
    tensor: bool
    made: dict[Key, Fence] = field(default_factory=dict[Key, Fence])
    ours: set[Operation] = field(default_factory=set[Operation])
    """Fences of this pass, which count for nothing where the next is placed."""
    facts: dict[Operation, tuple[bool, frozenset[SSAValue]]] = field(
        default_factory=dict[Operation, tuple[bool, frozenset[SSAValue]]]
    )
    """What `_meets` has found: it asks of the same operations for every access before them."""

    def run(self) -> None:
        for op in list(self.role.walk()):
            for buffer, touch in _touches(op):
                if (
                    touch.proxy is Proxy.GENERIC
                    and touch.space is Space.SHARED
                    and s.storage(buffer) in self.crossing
                ):
                    self._proxy(op, buffer, after=False)
                    self._proxy(op, buffer, after=True)
                elif touch.proxy is Proxy.TENSOR and self.tensor and not _spelled_out(buffer):
                    self._tensor(op, buffer, after=False)
                    self._tensor(op, buffer, after=True)

    def _place(self, op: Operation, buffer: SSAValue, after: bool) -> Place:
        """Beside the nearest synchronisation on that side of an access.

        An access of the same buffer through the async proxy counts too: the thread may cross proxies by itself. The
        search climbs out of conditions, and out of loops whose body meets nobody: in a loop that does, the way round
        may lead to it, so the fence stands inside, at the body's edge. The edge of the role counts as a
        synchronisation (the kernel's own barrier).
        """
        here = op
        while True:
            there = self._beyond(here, after)
            while there is not None:
                if self._meets(there, buffer):
                    return self._beside(there, after)
                there = self._beyond(there, after)
            parent, block = here.parent_op(), here.parent_block()
            assert parent is not None
            assert block is not None
            if isinstance(parent, s.RoleOp) or (
                isinstance(parent, s.ForOp) and self._meets_in(block, buffer)
            ):
                following = here if not after else block.last_op
                if after and not isinstance(following, s.YieldOp):
                    following = None
                return Place(parent, block, following)
            here = parent

    def _beyond(self, op: Operation, after: bool) -> Operation | None:
        """The next operation on that side that was there before this pass."""
        there = op.next_op if after else op.prev_op
        while there is not None and there in self.ours:
            there = there.next_op if after else there.prev_op
        return there

    def _meets_in(self, block: Block, buffer: SSAValue) -> bool:
        return any(self._meets(op, buffer) for op in block.ops if op not in self.ours)

    def _meets(self, op: Operation, buffer: SSAValue) -> bool:
        """Whether an operation synchronises, or the async proxy touches the buffer in it."""
        if op not in self.facts:
            self.facts[op] = _synchronises(op), _async_buffers(op)
        synchronises, touched = self.facts[op]
        return synchronises or s.storage(buffer) in touched

    def _beside(self, sync: Operation, after: bool) -> Place:
        block = sync.parent_block()
        assert block is not None
        return Place(sync, block, sync if after else sync.next_op)

    def _add(self, fence: Fence, place: Place, kind: str, op: Operation, after: bool) -> None:
        self.made[place.key(kind, after)] = fence
        self.ours.add(fence)
        fence.location = op.location
        if place.following is None:
            place.block.add_op(fence)
        else:
            place.block.insert_op_before(fence, place.following)

    def _id(self) -> StringAttr:
        return StringAttr(f"{self.role.sym_name.data}.fence.{len(self.made)}")

    def _proxy(self, op: Operation, buffer: SSAValue, after: bool) -> None:
        declared = buffer.owner
        assert isinstance(declared, s.BufferOp)
        place = self._place(op, buffer, after)
        known = self.made.get(place.key("proxy", after)) or place.fence()
        by = executed_by(op)
        if isinstance(known, s.ProxyFenceOp):
            if by is not By.ONE:
                known.by = None
            if declared.sym_name not in known.guards:
                known.guards = ArrayAttr([*known.guards, declared.sym_name])
            return
        fence = s.ProxyFenceOp.create(
            properties={
                "space": StringAttr("shared::cta"),
                "guards": ArrayAttr([declared.sym_name]),
                "id": self._id(),
                **({"by": StringAttr(By.ONE.value)} if by is By.ONE else {}),
            }
        )
        self._add(fence, place, "proxy", op, after)

    def _tensor(self, op: Operation, accumulator: SSAValue, after: bool) -> None:
        by = StringAttr((executed_by(op) or By.ALL).value)
        place = self._place(op, accumulator, after)
        known = self.made.get(place.key("tcgen05", after))
        if isinstance(known, s.Tcgen05FenceOp):
            if known.by != by:
                known.by = StringAttr(By.ALL.value)
            return
        side = "before_thread_sync" if after else "after_thread_sync"
        fence = s.Tcgen05FenceOp.create(
            properties={"side": StringAttr(side), "id": self._id(), "by": by}
        )
        self._add(fence, place, "tcgen05", op, after)


def executed_by(op: Operation) -> By | None:
    return op.executed_by if isinstance(op, s.StageOp) else None
