"""What the roles beside two ask of the order of these: a role that fills rings one after the other goes on when slots
are free, so that what frees a slot for it comes before what waits for something that it fills later."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple

from xdsl.ir import Block, Operation, SSAValue

from tkc.ir.stage import ops as s
from tkc.ir.stage.scalar import ConstOp

Step = s.AcquireOp | s.CommitOp | s.WaitOp | s.ReleaseOp
ENDS = {s.AcquireOp: "producers", s.CommitOp: "producers", s.WaitOp: "consumers", s.ReleaseOp: "consumers"}  # fmt: skip
"""At which end of a pipe each step is taken."""


class Moment(NamedTuple):
    """The start of an operation of a block, or its end."""

    op: Operation
    end: bool


class Part(NamedTuple):
    """An operation of a block and how many of a ring's steps it takes: a condition all it may, a loop of unknown turns
    without bound."""

    op: Operation
    count: float


@dataclass
class Others:
    """Blocks of different roles, by their names, that run as often as one another. Of each moment, those before it.

    Items count by the block: where some are taken elsewhere, a ring says nothing. A loop whose turns are not known is
    taken to need more slots than its ring has.
    """

    names: Sequence[str]
    """The two roles that become one."""
    blocks: dict[str, Block]
    pipes: Sequence[s.PipeOp]
    before: dict[Moment, set[Moment]] = field(
        default_factory=lambda: defaultdict[Moment, set[Moment]](set)
    )

    own: frozenset[Operation] = frozenset()

    def __post_init__(self) -> None:
        self.own = frozenset(op for name in self.names for op in self.blocks[name].ops)
        for block in self.blocks.values():
            last: Operation | None = None
            for op in block.ops:
                self.before[Moment(op, True)].add(Moment(op, False))
                if last is not None:
                    self.before[Moment(op, False)].add(Moment(last, True))
                last = op
        for pipe in self.pipes:
            self._pipe(pipe)

    def allow(self, op: Operation, coming: Collection[Operation]) -> bool:
        """Whether an operation waits for none of those that its role would run behind it."""
        return len(self.before[Moment(op, True)]) == 1 or not self.needs(op, coming)

    def needs(self, op: Operation, coming: Collection[Operation]) -> set[Operation]:
        """Which operations of the other role, of those to come, have to be over before one can be."""
        found: set[Operation] = set()
        seen: set[Moment] = set()
        todo = [*self.before[Moment(op, True)]]
        while todo:
            moment = todo.pop()
            if moment in seen:
                continue
            seen.add(moment)
            if moment.op in self.own:
                found.add(moment.op)
            else:
                todo += self.before[moment]
        return found.intersection(coming)

    def _pipe(self, pipe: s.PipeOp) -> None:
        producers, consumers = ([n.data for n in e] for e in (pipe.producers, pipe.consumers))
        if len(producers) != 1 or pipe.after is not None:
            return
        steps = self._steps(pipe)
        if steps is None:
            return
        (producer,) = producers
        for consumer in consumers:
            if consumer == producer:
                continue
            puts, waits = steps[producer, s.CommitOp], steps[consumer, s.WaitOp]
            takes, gives = steps[producer, s.AcquireOp], steps[consumer, s.ReleaseOp]
            if puts and waits:
                self._filled(puts, waits)
            if takes and gives:
                self._freed(takes, gives, pipe.depth.value.data)

    def _steps(self, pipe: s.PipeOp) -> dict[tuple[str, type[Operation]], list[Part]] | None:
        """A ring's steps in the blocks, by role and kind; None where there are others."""
        parts: dict[tuple[str, type[Operation]], list[Part]] = defaultdict(list)
        uses = [u.operation for u in pipe.ring.uses]
        if not all(isinstance(op, Step) for op in uses):
            return None
        inside = 0
        for name, block in self.blocks.items():
            for op in block.ops:
                for step in _within(op, pipe.ring):
                    inside += 1
                    kind = type(step)
                    if name in [n.data for n in getattr(pipe, ENDS[kind])]:
                        row = parts[name, kind]
                        if not row or row[-1].op is not op:
                            row.append(Part(op, _count(op, pipe.ring, kind)))
        return parts if inside == len(uses) else None

    def _filled(self, puts: list[Part], waits: list[Part]) -> None:
        """An item is there when it has been put."""
        if [p.count for p in puts] == [w.count for w in waits]:
            for put, wait in zip(puts, waits, strict=True):
                self.before[Moment(wait.op, True)].add(Moment(put.op, True))
            return
        self.before[Moment(waits[0].op, True)].add(Moment(puts[0].op, False))
        self.before[Moment(waits[-1].op, True)].add(Moment(puts[-1].op, True))

    def _freed(self, takes: list[Part], gives: list[Part], depth: int) -> None:
        """A slot is free when the item that was in it `depth` items ago has been given back."""
        if [t.count for t in takes] != [g.count for g in gives]:
            if min(sum(p.count for p in row) for row in (takes, gives)) > depth:
                self.before[Moment(takes[-1].op, True)].add(Moment(gives[0].op, False))
            return
        for number, take in enumerate(takes):
            left, at = float(depth), number
            while at >= 0 and gives[at].count <= left:
                left -= gives[at].count
                at -= 1
            if at >= 0:  # all of that part's items, or some
                self.before[Moment(take.op, True)].add(Moment(gives[at].op, not left))


def _within(op: Operation, ring: SSAValue) -> Iterator[Step]:
    for inner in op.walk():
        if isinstance(inner, Step) and inner.ring is ring:
            yield inner


def _count(op: Operation, ring: SSAValue, kind: type[Operation]) -> float:
    """How many of a ring's steps of one kind an operation takes at most."""
    if isinstance(op, kind):
        return 1 if op.operands[0] is ring else 0
    each = [
        sum(_count(inner, ring, kind) for block in region.blocks for inner in block.ops)
        for region in op.regions
    ]
    if isinstance(op, s.IfOp):
        return max(each, default=0)
    return _turns(op) * each[0] if any(each) else 0


def _turns(op: Operation) -> float:
    """How often a loop turns, as far as its bounds say."""
    bounds = [v.owner for v in op.operands[:3]] if isinstance(op, s.ForOp) else []
    numbers = [b.constant.value.data for b in bounds if isinstance(b, ConstOp)]
    return len(range(*numbers)) if len(numbers) == 3 else inf
