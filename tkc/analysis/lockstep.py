"""Whether the roles of a kernel may go through their loops side by side, turn by turn: then none waits for ever, since
no schedule gets further than another.

That is so where each role has one item of each pipe in a turn, roles' loops turn alike, and what each waits for in a
turn has an order: an item that another role fills in that turn. A free slot is one of an earlier turn. A ring of the
program's own is like one end of a pipe. That barriers get as many arrivals as they count, others have found. What has
another form is not followed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise

from xdsl.ir import Block, Operation, SSAValue

from tkc.analysis.counters import Counters, Uncounted
from tkc.analysis.items import carried, counted, handed, heads_alike, role_of, same
from tkc.ir.effects import effects_of
from tkc.ir.isa.memory import Await, Signal
from tkc.ir.stage import ops as s
from tkc.ir.stage.elements import LoadElementOp
from tkc.ir.stage.explicit import IdentityOp
from tkc.ir.stage.numbers import NumberOp
from tkc.ir.stage.scalar import ArithOp, ConstOp, SizeOp

At = tuple[int, ...]
"""Where something stands in a role, or in a turn of one of its loops."""

ALIKE = (ConstOp, ArithOp, NumberOp, SizeOp, s.UnitOp, LoadElementOp, s.ForOp, s.IfOp)
"""What gives all copies of a role the same, from the same operands; of `UnitOp` not the ranks."""

STEADY = (ConstOp, ArithOp, NumberOp, SizeOp, s.UnitOp, s.ElectedOp, IdentityOp, s.GroupOp)
"""What gives a thread the same in all turns."""


ENDS = ("full", "empty")


class Unfollowed(Exception):
    """Something has another form."""


@dataclass(eq=False, slots=True)
class Group:
    """A loop of a role, or one side of a condition that turns may differ in."""

    role: s.RoleOp
    op: s.ForOp | s.IfOp
    side: int
    at: At


Path = tuple[Group, ...]


@dataclass(eq=False, slots=True)
class Step:
    """An operation that waits for barriers or tells them."""

    role: s.RoleOp
    path: Path
    at: At
    op: Operation


@dataclass(eq=False, slots=True)
class Pipe:
    """Who waits for the two barriers of a pipe, and tells them."""

    depth: int
    own: bool
    """Whether it is a ring of the program's own, which has one of the two: what says which is the first parity."""
    steps: list[Step] = field(default_factory=list[Step])
    waits: dict[str, list[Step]] = field(default_factory=lambda: {"full": [], "empty": []})
    tells: dict[str, list[Step]] = field(default_factory=lambda: {"full": [], "empty": []})


def in_lockstep(kernel: s.KernelOp) -> bool:
    """Whether roles may go side by side; False where that is not known."""
    try:
        Lockstep(kernel).follow()
    except (Unfollowed, Uncounted, CycleError):
        return False
    return True


@dataclass(eq=False, slots=True)
class Lockstep:
    """The loops of all roles, of which those that turn together are one."""

    kernel: s.KernelOp
    paths: dict[Block, tuple[Path, At]] = field(default_factory=dict)
    places: dict[Block, dict[Operation, int]] = field(default_factory=dict)
    members: dict[Group, list[Group]] = field(default_factory=dict)
    """The groups that are one with each, in one list for all of them."""
    counters: dict[s.ForOp | None, Counters] = field(default_factory=dict)

    def follow(self) -> None:
        pipes = self._pipes()
        for pipe in pipes:
            self._one_item(pipe)
            if pipe.own:
                self._ring(pipe)
            first, *others = {step.path: None for step in pipe.steps} or [()]
            for other in others:
                self._join(first, other)
        for together in self.members.values():
            if len({g.role for g in together}) < len(together):
                raise Unfollowed
        self._alike_in_copies()
        self._order(pipes)

    # What stands where -----------------------------------------------------------------------------------------------

    def _pipes(self) -> list[Pipe]:
        pipes: dict[str, Pipe] = {}
        steps: dict[Operation, Step] = {}
        for declared in self.kernel.body.block.ops:
            if not isinstance(declared, s.BarriersOp):
                continue
            name, _, end = declared.sym_name.data.rpartition(".")
            own, barriers = not name or end not in ENDS, declared.results[0]
            name, end = (declared.sym_name.data, "full") if own else (name, end)
            pipe = pipes.setdefault(name, Pipe(declared.depth.value.data, own))
            for op in {use.operation: None for use in barriers.uses}:
                waits, tells = _does(op, barriers)
                role = role_of(op)
                if role is None or not (waits or tells):
                    continue
                if op not in steps:
                    steps[op] = Step(role, *self._place(op), op)
                pipe.steps.append(steps[op])
                pipe.waits[end] += [steps[op]] * waits
                pipe.tells[end] += [steps[op]] * tells
        return list(pipes.values())

    def _place(self, op: Operation) -> tuple[Path, At]:
        block = op.parent_block()
        assert block is not None
        path, at = self._path(block)
        return path, (*at, self._index(block, op))

    def _index(self, block: Block, op: Operation) -> int:
        if block not in self.places:
            self.places[block] = {o: i for i, o in enumerate(block.ops)}
        return self.places[block][op]

    def _path(self, block: Block) -> tuple[Path, At]:
        """The groups round a block, and where it begins in the innermost of them."""
        if block in self.paths:
            return self.paths[block]
        parent = block.parent_op()
        if isinstance(parent, s.RoleOp):
            found: tuple[Path, At] = (), ()
        elif isinstance(parent, s.ForOp | s.IfOp):
            path, at = self._place(parent)
            side = next(i for i, r in enumerate(parent.regions) if block in r.blocks)
            if isinstance(parent, s.IfOp) and _steady(parent.condition):
                found = path, (*at, side)
            else:
                role = role_of(parent)
                assert role is not None
                group = Group(role, parent, side, at)
                self.members[group] = [group]
                found = (*path, group), ()
        else:
            raise Unfollowed
        self.paths[block] = found
        return found

    # What goes together ----------------------------------------------------------------------------------------------

    def _one_item(self, pipe: Pipe) -> None:
        """Each role waits once in a turn for a barrier, is about one slot, and gives after it has taken."""
        for end, told in (("empty", "full"), ("full", "empty")):
            waits = {step.role: step for step in pipe.waits[end]}
            if len(waits) < len(pipe.waits[end]):
                raise Unfollowed
            for step in pipe.tells[told]:
                if step.role in waits and step.at < waits[step.role].at:
                    raise Unfollowed
        slots: dict[tuple[s.RoleOp, bool], SSAValue | None] = {}
        for step in pipe.steps:
            gets = step in pipe.waits["full"] or step in pipe.tells["empty"]
            slot = _slot(step.op)
            if slots.setdefault((step.role, gets), slot) is not slot:
                raise Unfollowed

    def _ring(self, pipe: Pipe) -> None:
        """Refuses barriers that are not told and awaited slot by slot, a phase in each round."""
        firsts: set[int] = set()
        for path, slot, parity in {
            (
                x.path,
                _slot(x.op),
                getattr(x.op, "parity", None) if x in pipe.waits["full"] else None,
            )
            for x in pipe.steps
        }:
            loop = path[-1].op if path else None
            if isinstance(loop, s.IfOp) or slot is None:
                raise Unfollowed
            if loop not in self.counters:
                self.counters[loop] = Counters(loop)
            counters, turns = self.counters[loop], range(2 * pipe.depth if path else 1)
            if any(counters.at(slot, n) != n % pipe.depth for n in turns):
                raise Unfollowed
            if parity is not None:
                first = counters.at(parity, 0)
                firsts.add(first)
                if any(counters.at(parity, n) != first ^ n // pipe.depth for n in turns):
                    raise Unfollowed
            if path and not counters.repeats(2 * pipe.depth):
                raise Unfollowed
        if len(firsts) > 1:
            raise Unfollowed
        if firsts == {1}:  # free at the start
            pipe.waits = {"full": [], "empty": pipe.waits["full"]}
            pipe.tells = {"full": [], "empty": pipe.tells["full"]}

    def _join(self, one: Path, two: Path) -> None:
        """Makes the loops round two operations one where they turn alike."""
        if len(one) != len(two):
            raise Unfollowed
        counters: dict[SSAValue, SSAValue] = {}
        for a, b in zip(one, two, strict=True):
            if a is not b and not _alike(a, b, counters):
                raise Unfollowed
            if isinstance(a.op, s.ForOp) and isinstance(b.op, s.ForOp):
                counters.update(zip(counted(a.op), counted(b.op), strict=True))
            if self.members[a] is not self.members[b]:
                whole = self.members[a] + self.members[b]
                self.members |= dict.fromkeys(whole, whole)

    def _alike_in_copies(self) -> None:
        """Refuses what turns otherwise in some copies of a role, or some CTAs of a cluster."""
        heads = [
            value
            for g in self.members
            for value in (g.op.operands[:3] if isinstance(g.op, s.ForOp) else [g.op.condition])
        ]
        for made in _made_of(heads):
            if not isinstance(made, ALIKE):
                raise Unfollowed
            if isinstance(made, s.UnitOp) and made.which.data in s.RANKS and self.kernel.cluster:
                raise Unfollowed

    # In which order --------------------------------------------------------------------------------------------------

    def _order(self, pipes: Iterable[Pipe]) -> None:
        """Refuses a turn in which something comes before itself."""
        found: TopologicalSorter[int] = TopologicalSorter()
        lines: dict[tuple[s.RoleOp, Group | None], list[tuple[At, int]]] = {}
        for step in {step: None for pipe in pipes for step in pipe.steps}:
            around = step.path[-1] if step.path else None
            lines.setdefault((step.role, around), []).append((step.at, id(step)))
        for path, _ in self.paths.values():
            if path:
                around = path[-2] if len(path) > 1 else None
                line = lines.setdefault((path[-1].role, around), [])
                line.append((path[-1].at, id(self.members[path[-1]])))
        for line in lines.values():
            line = [node for _, node in sorted(set(line))]
            for before, after in pairwise(line):
                found.add(after, before)
        for pipe in pipes:
            for wait in pipe.waits["full"]:
                found.add(id(wait), *(id(tell) for tell in pipe.tells["full"] if tell is not wait))
        found.prepare()


def _does(op: Operation, barriers: SSAValue) -> tuple[bool, bool]:
    """Whether an operation waits for barriers, and tells them."""
    rows = effects_of(op) or ()
    return (
        any(isinstance(r, Await) and r.on and getattr(op, r.on) is barriers for r in rows),
        any(
            isinstance(r, Signal) and r.barrier and getattr(op, r.barrier) is barriers for r in rows
        ),
    )


def _slot(op: Operation) -> SSAValue | None:
    """Which barrier of a row an operation is about."""
    return getattr(op, "entry", None) or getattr(op, "slot", None)


def _alike(a: Group, b: Group, counters: dict[SSAValue, SSAValue]) -> bool:
    if isinstance(a.op, s.IfOp) and isinstance(b.op, s.IfOp):
        return a.side == b.side and same(a.op.condition, b.op.condition, counters)
    if isinstance(a.op, s.ForOp) and isinstance(b.op, s.ForOp):
        return heads_alike(a.op, b.op, counters)
    return False


def _steady(condition: SSAValue) -> bool:
    """Whether a condition holds for a thread in all turns, or in none."""
    todo = [condition]
    while todo:
        op = todo.pop().owner
        if not isinstance(op, STEADY):
            return False
        todo += op.operands
    return True


def _made_of(values: Iterable[SSAValue]) -> Iterator[Operation]:
    """The operations that values come from, round loops too."""
    seen, todo = set[SSAValue](), list(values)
    while todo:
        value = todo.pop()
        owner = value.owner
        op = owner.parent_op() if isinstance(owner, Block) else owner
        if value in seen or op is None or isinstance(op, s.KernelOp):
            continue
        seen.add(value)
        yield op
        todo += _sources(value, op)


def _sources(value: SSAValue, op: Operation) -> Sequence[SSAValue]:
    if isinstance(op, s.ForOp):
        found = carried(value)
        bounds = op.operands[:3]
        return bounds if found is None else [*bounds, found.init, found.next]
    if isinstance(op, s.IfOp):
        return [op.condition, *handed(op, value)]
    return op.operands
