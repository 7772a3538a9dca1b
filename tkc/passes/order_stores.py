"""Let a store to global memory wait for those of its role before it to the same place, which are not ordered otherwise;
and what else touches that place wait for the store.

Before: copies to global memory stand as the program has them; the copy engine may complete them in any order.
After: between two accesses of an element by a role, of which one at least writes it (stores, reads and atomics, loads
of tiles), the first is complete, and all threads that do the second know it. Left as the program has them are: two
additions; accesses of single elements among themselves, which are their threads': `sync role` orders them, and only
the program knows where all threads come; a load of a tile before a store, of which the role knows no end: it is refused
where the role hears of nobody in between; what has its own waits (`load`, `store` of level 2, copies of elements). It
is not asked whether a role touches a place again in another item of its schedule: other work units have items, too,
and nothing orders these.
Here because: at the tile level a store says its place by blocks; how it is made, in how many steps, is not yet settled.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, ModuleOp, StringAttr, UnitAttr, i32
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.traits import Pure

from tkc.analysis.slices import Place, Slices, loops_round
from tkc.diagnostics import Note, TkcError
from tkc.ir.effects import effects_of
from tkc.ir.isa.memory import Await
from tkc.ir.locations import at, location_of
from tkc.ir.stage import elements as e
from tkc.ir.stage import ops as s
from tkc.ir.tile import ops as t
from tkc.ir.tile.types import BlockType, RegsType, SliceType, TensorType
from tkc.ir.tile.vectors import LoadOp, ReshapeOp


@dataclass(frozen=True)
class OrderStoresPass(ModulePass):
    """`order-stores`."""

    name = "order-stores"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for kernel in [k for k in op.body.block.ops if isinstance(k, t.KernelOp)]:
            for role in [r for r in kernel.body.block.ops if isinstance(r, t.RoleOp)]:
                order(role)


@dataclass(frozen=True)
class Access:
    """What an operation does to a place of a tensor. A vector's store may be made by the threads or the copy engine."""

    op: Operation
    tensor: SSAValue
    place: Place
    writes: bool = False
    adds: bool = False
    whole: bool = True
    """Whether it is of a tile or vector, by the role as one, not of elements that threads choose."""
    ends: bool = True
    """Whether the role can wait for it by itself."""
    engine: bool = False
    threads: bool = False
    """Whether the copy engine, or threads, may touch the place."""
    one: bool = False
    """Whether it is one thread of the role that does it or hands it to the copy engine, always the same."""


def order(role: t.RoleOp) -> None:
    """Waits between what one role does to a place, each in the outermost block that has both in it."""
    touched: dict[SSAValue, list[Access]] = {}
    for op in role.walk():
        for access in _accesses(op):
            touched.setdefault(access.tensor, []).append(access)
    waits = Waits()
    order = {op: n for n, op in enumerate(role.walk())}
    for same in touched.values():
        if not any(access.writes for access in same):
            continue
        pairs = [(a, b) for a in same for b in same if _ordered(a, b)]
        for first, second in pairs:
            if order[first.op] < order[second.op]:
                waits.here(first, second)
        for first, second in pairs:
            waits.around(first, second)
        for first, second in [(a, b) for a in same for b in same if b.writes and _put(a.op)]:
            looped = _looped(first.place) and _looped(second.place)  # what data says may be apart
            if looped and order[first.op] < order[second.op] and waits.meet_here(first, second):
                _check_heard(first.op, second.op, order)
        for first, second in pairs:
            if isinstance(first.op, LoadOp) and _outlives(first, second, order, waits.slices):
                _settle(first.op, second.op)
    waits.insert(role)


def _accesses(op: Operation) -> Iterator[Access]:
    match op:
        case t.CopyOp() if isinstance(op.destination.type, SliceType):
            source, slice = op.source.type, _slice(op.destination)
            registers = isinstance(source, RegsType)
            by_threads = isinstance(source, RegsType) and len(source.shape) == 1
            how = {"adds": op.add is not None, "threads": by_threads, "one": not registers}
            yield Access(op, *slice, writes=True, engine=True, **how)
        case t.CopyOp() if isinstance(op.source.type, SliceType):
            yield Access(op, *_slice(op.source), ends=False, engine=True, one=True)
        case LoadOp():
            yield Access(op, *_slice(op.slice), threads=True)
        case e.CopyElementsOp():
            start = Place(tuple(op.start), op.elements)
            yield Access(op, op.tensor, start, whole=False, ends=False, threads=True)
        case e.LoadElementOp() | e.StoreElementOp() | e.AtomicOp():
            if isinstance(op.place.type, TensorType):
                writes = not isinstance(op, e.LoadElementOp)
                place = Place(tuple(op.indices))
                yield Access(op, op.place, place, writes=writes, whole=False, threads=True)
        case _:
            pass


def _slice(value: SSAValue) -> tuple[SSAValue, Place]:
    slice = value.owner
    assert isinstance(slice, t.SliceOp)
    return slice.tensor, Place(tuple(slice.indices))


def _ordered(first: Access, second: Access) -> bool:
    """Whether this pass orders two accesses; additions may come in any order."""
    if (first.adds and second.adds) or not first.ends:
        return False
    return (first.writes or second.writes) and (first.whole or second.whole)


def _put(op: Operation) -> bool:
    """Whether it loads a tile that a put hands on."""
    load = isinstance(op, t.CopyOp) and isinstance(op.source.type, SliceType)
    block = op.destination.owner if load else None
    return isinstance(block, Block) and isinstance(block.parent_op(), t.PutOp)


def _looped(place: Place) -> bool:
    """Whether it is told by loop variables alone."""
    return all(isinstance(x.type, BlockType) or isinstance(x.owner, Block) for x in place.indices)


def _check_heard(load: Operation, write: Operation, order: dict[Operation, int]) -> None:
    """TK110 where a role loads a place and writes it, and between the two waits for nobody: who gets the tile alone
    knows when the load is complete."""
    for op, number in order.items():
        if order[load] < number < order[write]:
            rows = effects_of(op) or ()
            if isinstance(op, t.GetOp | t.PutOp) or any(isinstance(row, Await) for row in rows):
                return
    raise TkcError.at(
        "TK110",
        "not supported yet: writing a place that the same role loads, while the load may be under way: the role that "
        "gets the tile knows when it is complete, so it can write, or put an item to this one that is got before",
        location_of(write),
        Note("the place is loaded here", location_of(load)),
    )


def _outlives(read: Access, write: Access, order: dict[Operation, int], slices: Slices) -> bool:
    """Whether a vector that is read may be used, and so be read, after a write that comes after the read."""
    block = read.op.parent_block()
    before, after = _parting(read.op, write.op)
    if before is not read.op or after.parent_block() is not block:
        return False
    if order[write.op] < order[read.op] or slices.apart_here(read.place, write.place):
        return False
    loops = [loop for loop in loops_round(write.op) if loop not in {*loops_round(read.op)}]
    for use in _uses(read.op.results[0]):
        if use is write.op and not loops and slices.same_here(read.place, write.place):
            continue  # each element is stored where it was read
        again = any(_within(use, loop) for loop in loops)
        if again or order[use] >= order[write.op]:
            return True
    return False


def _uses(value: SSAValue) -> Iterator[Operation]:
    """Where a vector, or what is computed of it element by element, is made: where it is used at last, or one a row."""
    todo, seen = [value], {value}
    while todo:
        for use in todo.pop().uses:
            op = use.operation
            if not op.has_trait(Pure) or isinstance(op, t.YieldOp | s.YieldOp):
                yield op
                continue
            for result in op.results:
                if _one_a_row(result):
                    yield op
                elif result not in seen:
                    seen.add(result)
                    todo.append(result)


def _one_a_row(value: SSAValue) -> bool:
    type = value.type
    return isinstance(type, RegsType) and len(type.shape) == 2 and type.shape[1] == 1


def _settle(read: LoadOp, write: Operation) -> None:
    """What is read is in registers from here on, one value a row, instead of being read where it is used."""
    value, block = read.value, read.parent_block()
    assert block is not None
    if not all(any(map(_one_a_row, use.results)) for use in _uses(value)):
        raise TkcError.at(
            "TK110",
            "a vector that is read from global memory, and used other than as one value a row after its place is "
            "written, is not supported yet: use it before the write, or `put` it to the role as a shared vector",
            location_of(read),
            Note("the place is written here", location_of(write)),
        )
    type = value.type
    assert isinstance(type, RegsType)
    uses = [*value.uses]
    column = ReshapeOp.create(
        operands=[value], result_types=[RegsType.of(type.dtype.data, (*type.shape, 1))]
    )
    back = ReshapeOp.create(operands=[column.value], result_types=[type])
    for new in (back, column):
        block.insert_op_after(at(read, new), read)
    for use in uses:
        use.operation.operands[use.index] = back.value


@dataclass
class Wait:
    """What stands before an operation, for `op`, the first that needed it: the bulk groups so far are complete; what
    threads touched comes before what the copy engine touches; all threads of the role meet."""

    op: Operation
    complete: bool = False
    fence: bool = False
    meet: bool = False

    def need(self, first: Access, second: Access) -> None:
        """It is enough between two accesses, too."""
        self.complete |= first.engine
        self.fence |= first.threads and second.engine
        self.meet |= not (first.one and second.one)

    def insert(self, before: Operation, role: str, number: int) -> None:
        """`number`: of the role's waits in the text; their names are kept by every later pass."""
        block, suffix = before.parent_block(), f".{number}" if number > 1 else ""
        assert block is not None

        def id(what: str) -> dict[str, StringAttr]:
            return {"id": StringAttr(f"{role}.{what}{suffix}")}

        ops: list[Operation] = []
        if self.complete:
            pending = {"pending": IntegerAttr(0, i32)}
            ops.append(s.BulkWaitOp.create(properties={**pending, **id("stored")}))
        if self.fence:
            guards = {"space": StringAttr("global"), "guards": ArrayAttr([])}
            ops.append(s.ProxyFenceOp.create(properties={**guards, **id("fence")}))
        if self.meet:
            ops.append(s.RoleBarrierOp.create(properties={**id("settled"), "whole": UnitAttr()}))
        for op in ops:
            block.insert_op_before(at(self.op, op), before)


@dataclass
class Waits:
    """The waits of one role so far."""

    ahead: dict[Operation, Wait] = field(default_factory=dict[Operation, Wait])
    """By the operation just before which one stands."""
    slices: Slices = field(default_factory=Slices)

    def here(self, first: Access, second: Access) -> None:
        """In one turn of all loops round both, where the first comes before the second."""
        if not self.meet_here(first, second):
            return
        before, after = _parting(first.op, second.op)
        at: Operation | None = after
        while at is not None and at is not before:
            if at in self.ahead:
                return self.ahead[at].need(first, second)
            at = at.prev_op
        return self._wait(after, first, second)

    def meet_here(self, first: Access, second: Access) -> bool:
        """Whether both may touch one element in one turn of all loops round both."""
        before, after = _parting(first.op, second.op)
        one_way = (
            before.parent_block() is after.parent_block()
        )  # else in two branches of one condition
        return one_way and not self.slices.apart_here(first.place, second.place)

    def around(self, first: Access, second: Access) -> None:
        """In a later turn of a loop round both than the first; each item of a schedule is another place."""
        outer = {*loops_round(second.op)}
        for loop in loops_round(first.op):
            if loop not in outer or isinstance(loop, t.ForTilesOp):
                continue
            once = self.slices.in_one_turn(loop, first.op, second.op)
            if not once and not self.slices.apart_around(loop, first.place, second.place):
                self._round(loop, first, second)

    def _round(self, loop: Operation, first: Access, second: Access) -> None:
        """At the top of a loop's body, unless all ways from the one to the other in the next turn have a wait."""
        body = loop.regions[-1].block
        behind, ahead = _child(first.op, loop).next_op, _child(second.op, loop)
        while behind is not None:
            if behind in self.ahead:
                return self.ahead[behind].need(first, second)
            behind = behind.next_op
        at: Operation | None = ahead
        while at is not None:
            if at in self.ahead:
                return self.ahead[at].need(first, second)
            at = at.prev_op
        assert body.first_op is not None
        return self._wait(body.first_op, first, second)

    def _wait(self, op: Operation, first: Access, second: Access) -> None:
        """The first access is complete, and all threads of the role know it, before the operation."""
        self.ahead[op] = Wait(second.op)
        self.ahead[op].need(first, second)

    def insert(self, role: t.RoleOp) -> None:
        """All of them, numbered in the order of the text."""
        placed = [op for op in role.walk() if op in self.ahead]
        for number, op in enumerate(placed, 1):
            self.ahead[op].insert(op, role.sym_name.data, number)


def _parting(first: Operation, second: Operation) -> tuple[Operation, Operation]:
    """The operations that hold the one and the other, in the innermost operation that holds both."""
    outer = [second]
    while (parent := outer[-1].parent_op()) is not None:
        outer.append(parent)
    held = set(outer)
    at = first
    while (parent := at.parent_op()) is not None and parent not in held:
        at = parent
    return at, outer[outer.index(parent) - 1] if parent is not None else second


def _within(op: Operation, loop: Operation) -> bool:
    return any(round is loop for round in loops_round(op))


def _child(op: Operation, of: Operation) -> Operation:
    """The operation directly in `of` that holds another, or is it."""
    while (parent := op.parent_op()) is not of:
        assert parent is not None
        op = parent
    return op
