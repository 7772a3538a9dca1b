"""Whether slots and elements exist that a role names, and whether anybody has written what it reads first.

A slot is followed as an integer over the turns of loops, like the phase of a barrier; an index of a vector, or a
column of an accumulator, as far as its formula has nothing but numbers of threads and counters of loops of constant
turns. Conditions that may keep an index within are looked at where it would leave its range (`reached.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import gcd, inf

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Block, Operation, SSAValue

from tkc.analysis.guards import Varies, varies
from tkc.analysis.happens_before.areas import Area, Axis, apart
from tkc.analysis.happens_before.clocks import Clock
from tkc.analysis.happens_before.copies import DIVIDES
from tkc.analysis.happens_before.distance import distance
from tkc.analysis.happens_before.events import Access, Event, Role, Touched
from tkc.analysis.happens_before.report import Finding
from tkc.analysis.happens_before.symmetry import Symmetry
from tkc.analysis.happens_before.verdicts import Hazard, Judge, Place, places
from tkc.analysis.reached import Reached, bounds
from tkc.ir.isa.memory import Space
from tkc.ir.nest import around
from tkc.ir.stage import ops as s
from tkc.ir.stage.elements import ElementOp
from tkc.ir.stage.explicit import RestartOp
from tkc.ir.stage.scalar import SCALARS, ArithOp, ConstOp
from tkc.ir.stage.tensor_operands import TensorMmaOp
from tkc.ir.stage.types import BufferType


@dataclass(frozen=True)
class Where:
    """An access of a buffer called `name`, in a copy of a role."""

    event: Event
    access: Access
    role: Role
    name: str

    @property
    def loops_differ(self) -> bool:
        """Whether threads turn loops round it differently."""
        return any(varies(v) > Varies.BY_GROUP for at in around(self.event.op) for v in bounds(at))

    @property
    def reached(self) -> Reached:
        role = next(at for at in around(self.event.op) if isinstance(at, s.RoleOp))
        return Reached(self.event.op, role, self.role.copy, self.role.cta)

    def finding(self, reaches: str, extent: int) -> Finding:
        role = self.role.name
        return Finding(
            "TK321",
            f"{self.event.told} in role {role} reaches {reaches} of {self.name}, which has {extent}",
            "bounds",
            self.event.op or self.event,
            roles=(role,),
        )


def check_bounds(touched: Sequence[Touched]) -> Iterator[Finding]:
    """Slots, elements and columns of accumulators beyond the end of a buffer."""
    for event, access, role in touched:
        if access.space in (Space.SHARED, Space.TENSOR):
            yield from _beyond(event, access, role)


def _beyond(event: Event, access: Access, role: Role) -> Iterator[Finding]:
    buffer, op = access.buffer, event.op
    if not isinstance(buffer, SSAValue) or not isinstance(buffer.type, BufferType):
        return
    where = Where(event, access, role, buffer.name_hint or "the buffer")
    depth, slots = buffer.type.depth.data, access.slot
    if slots is not None:
        wrong = [n for n in (*slots.before, *slots.period) if not 0 <= n < depth]
        if wrong:
            yield where.finding(f"slot {wrong[0]}", depth)
            return
    shape = buffer.type.shape
    if access.element and access.area is not None:
        indices = op.indices_of(access.operand)[1:] if isinstance(op, ElementOp) else []
        yield from _outside(where, access.area, shape, "element", indices)
    if access.columns is not None:
        yield from _outside(where, access.columns, shape[-1:], "column", [op.column])


def _outside(
    where: Where, area: Area, shape: Sequence[int], what: str, indices: Sequence[SSAValue]
) -> Iterator[Finding]:
    for axis, extent, index in zip(area.axes, shape, indices, strict=False):
        ends = None if axis is None else _ends(axis, area.threads)
        if axis is None or (ends is not None and 0 <= ends[0] <= ends[1] < extent):
            continue
        asked = area.asked or where.loops_differ
        if asked:
            beyond = where.reached.outside(index, axis.width, extent)
        else:
            beyond = None if ends is None else ends[0] if ends[0] < 0 else ends[1]
        wide = _spread(axis, area.threads)
        if beyond is not None:
            yield where.finding(f"{what} {beyond}", extent)
        elif wide > extent and (not asked or where.reached.together):
            yield where.finding(f"{wide} {what}s in a row", extent)


def _spread(axis: Axis, threads: tuple[int, ...]) -> int:
    """How many indices lie between the least and the largest that threads have at once."""
    offsets = [axis.at(t) for t in threads]
    return max(offsets) - min(offsets) + axis.width if offsets else 0


def _ends(axis: Axis, threads: tuple[int, ...]) -> tuple[int, int] | None:
    """The least and the largest index; None where that is not known."""
    if axis.fixed or any(leaf.most is None for leaf, _ in axis.moving) or not threads:
        return None
    alike = len(axis.offsets) == 1
    offsets = axis.offsets if alike else [axis.offsets[t] for t in threads]
    ends = [c * (leaf.most or 0) for leaf, c in axis.moving]
    low = min(offsets) + sum(e for e in ends if e < 0)
    return low, max(offsets) + sum(e for e in ends if e > 0) + axis.width - 1


def check_written(touched: Sequence[Touched]) -> Iterator[Finding]:
    """Buffers, and slots of them, that are read and that nothing writes."""
    reads: list[tuple[Event, Access, str]] = []
    written: dict[object, set[int] | None] = {}  # None: which slots is not known
    for event, access, role in touched:
        if access.space not in (Space.SHARED, Space.TENSOR):
            continue
        if not access.write:
            if not _counts_as_nothing(event.op):
                reads.append((event, access, role.name))
        elif access.slot is None or access.place is not access.buffer:
            written[access.place] = None
        elif (slots := written.setdefault(access.place, set())) is not None:
            slots.update(_slots(access))
    told: set[object] = set()
    for event, access, role_name in reads:
        buffer, slots = access.place, written.get(access.place, set())
        if slots is None or not isinstance(buffer, SSAValue) or buffer in told:
            continue
        same = access.place is access.buffer
        missing = [n for n in _slots(access) if n not in slots] if same else []
        if slots and not missing:
            continue
        told.add(buffer)
        which = f"slot {missing[0]} of " if slots else ""
        op: Operation | Event = event.op or event
        yield Finding(
            "TK320",
            f"{event.told} in role {role_name} reads {which}{buffer.name_hint or 'a buffer'}, which nothing writes",
            "uninitialised",
            op,
            roles=(role_name,),
        )


def _counts_as_nothing(op: Operation | None) -> bool:
    """Whether a read of an accumulator is of an item that is cleared and gets no product: zeros stand for it (R7)."""
    if not isinstance(op, s.ReadAccumulatorOp) or op.nonzero is None:
        return False
    test = op.nonzero.owner
    return isinstance(test, ArithOp) and test.kind.data == "lt" and len(set(test.inputs)) == 1


def _slots(access: Access) -> tuple[int, ...]:
    """The slots that an access reaches, turn after turn; none where that is not known."""
    return () if access.slot is None else (*access.slot.before, *access.slot.period)


def check_cleared(touched: Sequence[Touched]) -> Iterator[Finding]:
    """Accumulators all of whose products keep what is there in the first turn of their loop."""
    products: dict[SSAValue, list[tuple[Event, str]]] = {}
    for event, access, role in touched:
        buffer = access.buffer
        if isinstance(buffer, SSAValue) and access.space is Space.TENSOR and access.write:
            products.setdefault(buffer, []).append((event, role.name))
    for buffer, found in products.items():
        if all(_keeps_at_first(event.op) for event, _ in found):
            event, role_name = found[0]
            yield Finding(
                "TK320",
                f"{event.told} in role {role_name} adds to {buffer.name_hint or 'an accumulator'} in the first turn of "
                "its loop, and nothing clears it: the condition of a product is where what is there counts, as in "
                "`not k.first`",
                "uninitialised",
                event.op or event,
                roles=(role_name,),
            )


def _keeps_at_first(op: Operation | None) -> bool:
    """Whether a product keeps the sum where the counter of its loop is the first, and stands under no condition."""
    if not isinstance(op, s.MmaOp | TensorMmaOp):
        return False
    if _only_opened(op.source, set()):
        return True
    if not isinstance(op.source.owner, RestartOp):
        return False
    loop = op.parent_op()
    while isinstance(loop, s.IfOp) and isinstance(loop.condition.owner, s.ElectedOp):
        loop = loop.parent_op()
    keep = op.source.owner.operands[1].owner
    if not isinstance(loop, s.ForOp) or not isinstance(keep, ArithOp) or keep.kind.data != "eq":
        return False
    counter, first = keep.inputs
    return counter is loop.body.block.args[0] and _same(first, loop.lower)


def _only_opened(value: SSAValue, seen: set[SSAValue]) -> bool:
    """Whether an accumulator holds what products have added to what was there when it was opened, and nothing else."""
    if value in seen:
        return True
    seen.add(value)
    owner = value.owner
    match owner:
        case s.OpenOp():
            return True
        case s.MmaOp() | s.MmaWaitOp() | TensorMmaOp():
            return _only_opened(owner.source, seen)
        case RestartOp():
            return bool(_number(owner.keep)) and _only_opened(owner.source, seen)
        case Block() if (
            isinstance(loop := owner.parent_op(), s.ForOp) and value is not owner.args[0]
        ):
            at = list(owner.args).index(value) - 1  # pyright: ignore[reportArgumentType]
            ways = [loop.inits[at], *_handed(loop, at)]
        case s.ForOp():
            at = list(owner.results).index(value)  # pyright: ignore[reportArgumentType]
            ways = [owner.inits[at], *_handed(owner, at)]
        case s.IfOp():
            ways = _handed(owner, list(owner.results).index(value))  # pyright: ignore[reportArgumentType]
        case _:
            return False
    return all(_only_opened(way, seen) for way in ways)


def _number(value: SSAValue) -> int | None:
    """An integer of constants alone."""
    owner = value.owner
    if isinstance(owner, ConstOp) and isinstance(owner.constant, IntegerAttr):
        return owner.constant.value.data
    parts = [_number(v) for v in owner.inputs] if isinstance(owner, ArithOp) else [None]
    if len(parts) != 2 or None in parts or (owner.kind.data in DIVIDES and parts[-1] == 0):  # pyright: ignore
        return None
    return int(SCALARS[owner.kind.data].of(*parts))  # pyright: ignore


def _handed(op: Operation, at: int) -> list[SSAValue]:
    """What the bodies of a loop or condition hand on."""
    lasts = [block.last_op for region in op.regions for block in region.blocks]
    return [last.operands[at] for last in lasts if last is not None]


def _same(a: SSAValue, b: SSAValue) -> bool:
    return a is b or (
        isinstance(a.owner, ConstOp)
        and isinstance(b.owner, ConstOp)
        and a.owner.constant == b.owner.constant
    )


def check_first_reads(judge: Judge, known: Iterable[Hazard]) -> Iterator[Finding]:
    """Reads that every write comes after: the first of them finds nothing. Asked where all accesses are in order, as
    `known` says."""
    symmetry = judge.graph.symmetry
    served = {
        _name(b, symmetry)
        for h in known
        for a, b, d in ((h.first, h.second, h.forward), (h.second, h.first, h.back))
        if d <= 0 and a.access.write and (d == -inf or d <= -_first_turn(judge, b, a, h.clock))
    }
    for here in places(judge.graph).values():
        writes = [p for p in here if p.access.write]
        for read in here:
            access, node = read.access, read.node
            if access.write or symmetry.repeats(node.role) or not writes:
                continue
            if access.space not in (Space.SHARED, Space.TENSOR):
                continue
            if node.turns is not None or any(loop.high <= 1 for loop in node.loops):
                continue
            said = _found_nothing(judge, read, writes, _name(read, symmetry) in served)
            if said is not None:
                role, event = node.role.name, read.event
                yield Finding(
                    "TK320",
                    f"{event.told} in role {role} reads {said}",
                    "uninitialised",
                    event.op or event,
                    roles=(role,),
                )


def _found_nothing(judge: Judge, read: Place, writes: list[Place], served: bool) -> str | None:
    """What a read reads in its first turn that no write has been to; None where some write may. `served`: some write
    comes before it."""
    element = _unwritten(read.access, [w.access for w in writes])
    if element is not None:
        return f"element {element} of {_named(read.access.buffer)}, which nothing writes"
    if not served and all(
        _later(judge, read, w) for w in writes if not _apart(read.access, w.access)
    ):
        return "what only later turns write: the first finds nothing there"
    return None


def _named(buffer: object) -> str:
    return (buffer.name_hint if isinstance(buffer, SSAValue) else None) or "the buffer"


def _apart(read: Access, write: Access) -> bool:
    """Whether two accesses of single elements are of different ones, in all turns."""
    same = read.buffer is write.buffer and read.element and write.element
    return same and bool(read.area and write.area and apart(read.area, write.area))


def _unwritten(read: Access, writes: list[Access]) -> str | None:
    """An element that a read is sure to reach in its first turn, and no write in any; None where that is not known."""
    area = read.area if read.element else None
    if area is None or area.asked or not area.known:
        return None
    axes = [axis for axis in area.axes if axis is not None and not axis.fixed]
    if len(axes) < len(area.axes) or any(leaf.most is None for x in axes for leaf, _ in x.moving):
        return None
    if any(not w.element or w.buffer is not read.buffer or w.area is None for w in writes):
        return None
    written = [w.area for w in writes if w.area is not None]
    for t in area.threads:
        index = tuple([axis.at(t) for axis in axes])
        if not any(_may_reach(w, index) for w in written):
            return ", ".join(str(n) for n in index)
    return None


def _may_reach(area: Area, index: tuple[int, ...]) -> bool:
    """Whether some thread may touch an element in some turn."""
    return any(
        all(axis is None or _covers(axis, t, n) for axis, n in zip(area.axes, index, strict=True))
        for t in area.threads
    )


def _covers(axis: Axis, thread: int, index: int) -> bool:
    step, ahead = gcd(*(c for _, c in axis.moving | axis.fixed)), index - axis.at(thread)
    return (ahead % step if step else ahead) in range(axis.width)


def _name(place: Place, symmetry: Symmetry) -> tuple[object, ...]:
    """An access by its operation, and the CTAs it is of as far as they are not alike."""
    ctas = symmetry.ctas(place.node.role.cta, place.access.owner)
    return place.event.op or place.event, place.access.operand, ctas


def _later(judge: Judge, read: Place, write: Place) -> bool:
    """Whether every turn of a write that fills the slot of a read's first turn comes after that."""
    common = [clock for clock in read.node.path if clock in write.node.path]
    return any(
        distance(judge.reach(read).run(), read, write, clock, plain=plain)[0]
        <= _first_turn(judge, read, write, clock)
        for clock in common
        for plain in (True, False)
    )


def _first_turn(judge: Judge, read: Place, write: Place, clock: Clock) -> int:
    """The first turn in which a write may fill the slot that a read reads in its first one."""
    filled, wanted = write.access.slot, read.access.slot
    if filled is None or wanted is None or read.access.buffer is not write.access.buffer:
        return 0
    if any(
        s.loop is not None and judge.graph.clock_of[s.loop] is not clock for s in (filled, wanted)
    ):
        return 0
    turns = len(filled.before) + len(filled.period)
    return next((n for n in range(turns) if filled.at(n) == wanted.at(0)), 0)
