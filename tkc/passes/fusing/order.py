"""The bodies of two roles as one, in the order of the items that go between them: what gets an item comes behind what
puts it, and what puts into a slot behind what gave that slot back; by way of other roles, too."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.ir import Block, Operation, Region, SSAValue

from tkc.analysis.items import same
from tkc.diagnostics import Note, TkcError
from tkc.ir.locations import location_of
from tkc.ir.stage import ops as s
from tkc.ir.syntax import segments
from tkc.passes.fusing.others import Others, Step

Loop = s.WorkLoopOp | s.ForOp
Held = Loop | s.IfOp
"""What may hold items of both roles."""


@dataclass
class Merge:
    """Two roles on their way to become one: `pipe` is why, `between` the rings that join the two, with their slots."""

    pipe: s.PipeOp
    between: dict[SSAValue, int]
    late: tuple[frozenset[SSAValue], frozenset[SSAValue]] = (frozenset(), frozenset())
    """Of each role, rings of others that may get something of the other one first: it waits for them last."""
    others: dict[str, Block] = field(default_factory=dict[str, Block])
    """The bodies of the roles beside the two."""
    names: tuple[str, str] = ("", "")
    pipes: Sequence[s.PipeOp] = ()
    """All of the kernel."""
    holders: dict[Operation, bool] = field(default_factory=dict[Operation, bool])
    counters: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    """Counters of loops of other roles, and those of the joined role's that they equal."""

    def roles(self, first: Block, second: Block) -> None:
        """The second role's operations go where they belong in the first; TK213 where there is no such place."""
        loops = [[o for o in b.ops if isinstance(o, s.WorkLoopOp)] for b in (first, second)]
        if len(loops[0]) != 1 or len(loops[1]) != 1 or loops[0][0].schedule != loops[1][0].schedule:
            raise self._no_one_loop(first, second)
        self._blocks(first, second, self.others)

    def _no_one_loop(self, *bodies: Block) -> TkcError:
        """The two do not run one loop over the same schedule; says what stands in the way."""
        loops = [[o for o in b.walk() if isinstance(o, s.WorkLoopOp)] for b in bodies]
        named = list(zip(self.names, loops, bodies, strict=True))
        within = [
            (n, loop) for n, found, body in named for loop in found if loop.parent is not body
        ]
        several = [n for n, found, _ in named if len(found) > 1]
        places: list[Operation] = [loop for found in loops for loop in found]
        if within:
            places = [o for _, loop in within if (o := loop.parent_op()) is not None]
            mend = (
                f"role {within[0][0]} has it under a condition or in a loop: write the condition in it, as in "
                "`for m, n in work:` and then `if ...:`, in all roles of these pipes"
            )
        elif several:
            mend = (
                f"role {several[0]} has several such loops: make one of them, with conditions in it"
            )
        elif all(loops):
            over = " and ".join(f"`{found[0].schedule.data}` in role {n}" for n, found, _ in named)
            mend = f"they run over {over}: name one schedule in both"
        else:
            bare = next(n for n, found, _ in named if not found)
            mend = f"role {bare} has no loop over a schedule: give it the other's"
        first, *others = [location_of(op) for op in places] or [location_of(self.pipe)]
        return TkcError.at(
            "TK213",
            f"the roles at the ends of {self.pipe.sym_name.data} share an accumulator in registers and "
            "become one role on this target, but they do not run one loop over the same schedule",
            first,
            *(Note("and here", place) for place in others),
            help=mend,
        )

    def _blocks(self, body: Block, other: Block, others: dict[str, Block]) -> None:
        """All operations of the second block, in the first: each as early as the first block's own, which come first
        where both could, let it be."""
        yields = [b.last_op for b in (body, other) if isinstance(b.last_op, s.YieldOp)]
        last = body.last_op if isinstance(body.last_op, s.YieldOp) else None
        sides = [[o for o in b.ops if not isinstance(o, s.YieldOp)] for b in (body, other)]
        items = _Items(self.between)
        asked = self._others(body, other, others)
        order: list[Operation] = []
        while sides[0] or sides[1]:
            moved = False
            for side, coming, late in zip(sides, sides[::-1], self.late, strict=True):
                while side and not self._holds(side[0]) and items.may(side[0], late):
                    if not asked.allow(side[0], coming):
                        break
                    order.append(items.passed(side.pop(0)))
                    moved = True
            for side, coming in zip(sides, sides[::-1], strict=True):
                if not moved and side and not self._holds(side[0]) and items.may(side[0]):
                    if asked.allow(side[0], coming):
                        order.append(items.passed(side.pop(0)))
                        moved = True
            heads = [side[0] for side in sides if side]
            if not moved and len(heads) == 2 and all(map(self._holds, heads)):
                for head, coming in zip(heads, sides[::-1], strict=True):
                    if needed := asked.needs(head, coming[1:]):
                        raise self._crossed(head, needed)
                order.append(self._join(*heads, others))
                sides = [side[1:] for side in sides]
            elif not moved and heads:
                raise self._stuck(sides, asked)
        if any(items.steps[r, s.CommitOp] != items.steps[r, s.WaitOp] for r in self.between):
            raise TkcError.at(
                "TK213",
                f"pipe {self.pipe.sym_name.data} carries an accumulator in registers on this target; it needs "
                "as many puts as gets, in the same loop",
                location_of(self.pipe),
            )
        for op in order:
            op.detach()
            if last is None:
                body.add_op(op)
            else:
                body.insert_op_before(op, last)
        if last is not None:  # what they hand on may be of loops that have become one meanwhile
            last.operands = [v for op in yields for v in op.values]

    def _holds(self, op: Operation) -> bool:
        """Whether items between the two roles stand inside an operation."""
        if op not in self.holders:
            self.holders[op] = isinstance(op, s.WorkLoopOp) or (
                bool(op.regions)
                and any(isinstance(o, Step) and o.ring in self.between for o in op.walk())
            )
        return self.holders[op]

    def _others(self, body: Block, other: Block, others: dict[str, Block]) -> Others:
        pipes = [p for p in self.pipes if p.ring not in self.between]
        blocks = {**others, self.names[0]: body, self.names[1]: other}
        return Others(self.names, blocks, pipes)

    def _inside(
        self, loop: Loop, rings: set[SSAValue], others: dict[str, Block]
    ) -> dict[str, Block]:
        """The bodies of other roles' loops that run as often as one of the joined role's and touch rings of it."""
        found: dict[str, Block] = {}
        for name, block in others.items():
            loops = [
                op
                for op in block.ops
                if isinstance(op, Loop)
                and _run_as_often(loop, op, self.counters)
                and rings & _rings(op)
            ]
            if len(loops) == 1:
                found[name] = loops[0].body.block
                pairs = zip(loops[0].body.block.args, loop.body.block.args, strict=False)
                counters = len(loop.extents) if isinstance(loop, s.WorkLoopOp) else 1
                self.counters.update([*pairs][:counters])
        return found

    def _crossed(self, op: Operation, needed: set[Operation]) -> TkcError:
        """Other roles fill and free rings in an order in which one role cannot run both bodies."""
        return TkcError.at(
            "TK213",
            f"the roles at the ends of {self.pipe.sym_name.data} share an accumulator in registers and become one role "
            "on this target, but other roles put and get in an order in which each of the two waits for the other; "
            "give their pipes more slots, or put in the order in which the items are got",
            location_of(op),
            *(Note("this would have to come first", location_of(o)) for o in needed),
        )

    def _stuck(self, sides: Sequence[Sequence[Operation]], asked: Others) -> TkcError:
        """Both roles wait for one another, or the loops round their items differ."""
        name = self.pipe.sym_name.data
        heads = [side[0] for side in sides if side]
        for side, coming in zip(sides, sides[::-1], strict=True):
            if side and (needed := asked.needs(side[0], coming)):
                return self._crossed(side[0], needed)
        waits = [op for op in heads if isinstance(op, Step)]
        if waits:
            return TkcError.at(
                "TK213",
                f"the roles at the ends of {name} share an accumulator in registers and become one role on this "
                "target, but in no order of their items is each put before it is got, and no slot taken twice",
                location_of(waits[0]),
                *(Note("and here", location_of(o)) for o in heads if o is not waits[0]),
                help="move a get behind the put that it waits for, or give a pipe between them one slot more",
            )
        return self._differ(*heads[:2])

    def _differ(self, one: Operation, two: Operation | None = None) -> TkcError:
        return TkcError.at(
            "TK213",
            f"the roles at the ends of {self.pipe.sym_name.data} share an accumulator in registers and "
            "become one role on this target, but the loops or conditions round its items differ",
            location_of(one),
            *([] if two is None else [Note("and here", location_of(two))]),
            help="give both roles the same loops and conditions, in the same order, round these items",
        )

    def _join(self, one: Operation, two: Operation, others: dict[str, Block]) -> Operation:
        """Two loops that run as often, or conditions that hold alike, become one."""
        if not isinstance(one, Held) or not isinstance(two, Held) or not _run_as_often(one, two):
            raise self._differ(one, two)
        if isinstance(one, s.IfOp):
            assert isinstance(two, s.IfOp)
            for which in ("then", "otherwise"):
                self._blocks(_arm(one, which), _arm(two, which), {})
            return _hand_on_both(one, two)
        assert not isinstance(two, s.IfOp)
        counters = len(one.extents) if isinstance(one, s.WorkLoopOp) else 1
        body, other = one.body.block, two.body.block
        for old, new in zip(other.args[:counters], body.args[:counters], strict=True):
            old.replace_all_uses_with(new)
        for old in other.args[counters:]:
            new = body.insert_arg(old.type, len(body.args))
            new.name_hint = old.name_hint
            old.replace_all_uses_with(new)
        self._blocks(body, other, self._inside(one, _rings(one) | _rings(two), others))
        return _carry_both(one, two)


@dataclass
class _Items:
    """How many items of each ring have been taken and given back at either end, as one block goes on."""

    slots: dict[SSAValue, int]
    steps: Counter[tuple[SSAValue, type[Operation]]] = field(
        default_factory=Counter[tuple[SSAValue, type[Operation]]]
    )

    def may(self, op: Operation, late: frozenset[SSAValue] = frozenset()) -> bool:
        """Whether an operation need not wait for one that comes later; `late` are rings that might have to."""
        if not isinstance(op, s.AcquireOp | s.WaitOp) or op.ring not in self.slots:
            return not (isinstance(op, s.WaitOp) and op.ring in late)
        done = self.steps
        if isinstance(op, s.WaitOp):
            return done[op.ring, s.WaitOp] < done[op.ring, s.CommitOp]
        held = done[op.ring, s.AcquireOp] - done[op.ring, s.ReleaseOp]
        return held < self.slots[op.ring]

    def passed(self, op: Operation) -> Operation:
        if isinstance(op, Step) and op.ring in self.slots:
            self.steps[op.ring, type(op)] += 1
        return op


def _rings(op: Operation) -> set[SSAValue]:
    return {o.ring for o in op.walk() if isinstance(o, Step)}


def _run_as_often(one: Held, two: Held, counters: dict[SSAValue, SSAValue] | None = None) -> bool:
    """`counters`: of the second's role, and those of the first's that they equal."""
    if isinstance(one, s.WorkLoopOp) and isinstance(two, s.WorkLoopOp):
        return one.schedule == two.schedule
    if type(one) is not type(two):
        return False
    bounds = 3 if isinstance(one, s.ForOp) else 1
    pairs = zip(one.operands[:bounds], two.operands[:bounds], strict=True)
    return all(same(b, a, counters) for a, b in pairs)


def _arm(op: s.IfOp, which: str) -> Block:
    """One way of a condition; an empty one where it has none."""
    if which == "then":
        return op.then.block
    if len(op.regions) < 2:
        op.add_region(Region(Block([s.YieldOp.create(operands=[])])))
    return op.regions[1].block


def _hand_on_both(one: s.IfOp, two: s.IfOp) -> Held:
    """The first condition results in what the second did, too; the second goes."""
    block = one.parent_block()
    assert block is not None
    new = s.IfOp.create(
        operands=[one.condition],
        regions=[one.detach_region(region) for region in list(one.regions)],
        result_types=[*(r.type for r in one.results), *(r.type for r in two.results)],
    )
    return _take_place(block, new, one, two)


def _carry_both(one: Loop, two: Loop) -> Held:
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
    return _take_place(block, new, one, two)


def _take_place(block: Block, new: Held, one: Held, two: Held) -> Held:
    new.location = one.location
    block.insert_op_before(new, one)
    for old, result in zip([*one.results, *two.results], new.results, strict=True):
        result.name_hint = old.name_hint
        old.replace_all_uses_with(result)
    for gone in (one, two):
        gone.detach()
        gone.erase()
    return new
