"""Events of a kernel at the stage level: its roles' loops and conditions, in every CTA of a cluster.

Roles whose rows several warpgroups split become one role a warpgroup. Slots, phases and counters are followed by
`values`; what is not known stays unknown, so that nothing is ordered by it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Set
from dataclasses import dataclass, replace
from itertools import combinations, groupby, takewhile
from math import lcm, prod
from typing import Any

from xdsl.dialects.builtin import ArrayAttr, IntegerAttr
from xdsl.ir import Block, Operation, SSAValue
from xdsl.traits import Pure

from tkc.analysis.happens_before.automaton import disjoint
from tkc.analysis.happens_before.beside import chain_items_beside
from tkc.analysis.happens_before.chained import chain_alike
from tkc.analysis.happens_before.conditions import past_conditions, who_acts
from tkc.analysis.happens_before.copies import alike, apart, chosen, differing
from tkc.analysis.happens_before.evaluate import FEW
from tkc.analysis.happens_before.events import (
    Barrier,
    Beside,
    Choice,
    Event,
    Index,
    Item,
    Loop,
    Meet,
    Program,
    Role,
    Sometimes,
    Threads,
    Turns,
    Who,
)
from tkc.analysis.happens_before.expressions import Expressions, depth_of
from tkc.analysis.happens_before.operations import Operations
from tkc.analysis.happens_before.ring_parts import split_rings
from tkc.analysis.happens_before.staging import settle
from tkc.analysis.happens_before.values import MOST_TURNS, Chain, Table, Values
from tkc.ir.effects import effects_of
from tkc.ir.isa import memory as m
from tkc.ir.stage import ops as s
from tkc.ir.stage.explicit import TryWaitOp, WhileOp
from tkc.ir.stage.scalar import ArithOp


def program(kernel: s.KernelOp) -> Program:
    """The kernel's events."""
    cluster = kernel.cluster.value.data if kernel.cluster is not None else 1
    made = Program(
        kernel.sym_name.data,
        [],
        dependent=kernel.dependent is not None,
        alone=_alone_in_grid(kernel, cluster),
    )
    for op in kernel.body.block.ops:
        if isinstance(op, s.BarriersOp):
            for rank in range(cluster):
                made.barriers[op.barriers, rank] = Barrier(
                    op.sym_name.data, op.depth.value.data, op.count.value.data, rank, op
                )
    roles = [op for op in kernel.body.block.ops if isinstance(op, s.RoleOp)]
    write = Expressions()
    beside = [op for op in kernel.body.block.ops if not isinstance(op, s.RoleOp)]
    copies = [Copies(op, beside) for op in roles]
    for rank in range(cluster):
        for each in copies:
            for group in range(each.role.groups.value.data):
                made.roles.append(_role(each, group, rank, cluster, made, write))
    chain_alike(made)
    chain_items_beside(made)
    number_meetings(made)
    split_rings(made)
    settle(made)
    return made


def _alone_in_grid(kernel: s.KernelOp, cluster: int) -> bool:
    """Whether the launch has the CTAs of one work unit."""
    grid = kernel.contract.data.get("grid")
    if not isinstance(grid, ArrayAttr):
        return False
    sizes = [n.value.data for n in grid if isinstance(n, IntegerAttr)]
    return len(sizes) == len(grid) and prod(sizes) <= cluster


class Copies:
    """A role that several CTAs or warpgroups run, of which what is the same in all is followed once; `beside`: what the
    kernel computes for all roles."""

    def __init__(self, role: s.RoleOp, beside: list[Operation]) -> None:
        self.role, self.beside = role, beside
        self.first: Operations | None = None
        self.of_group: dict[int, Operations] = {}

    def operations(
        self, group: int, rank: int, cluster: int, made: Program, write: Expressions
    ) -> Operations:
        """The operations of one copy."""
        first, values = self.first, None
        if first is not None and self.alike:
            values = first.values.of_copy(group, rank, self.differ)
            if not all(
                v.constant(c) is not None for v in (first.values, values) for c in self.chosen
            ):
                values = None
        same = values is not None
        if values is None:
            values = Values(self.role, group, rank)
        if first is None:
            self.acts = who_acts(values)
            self.apart: Set[Operation] = frozenset()
        if first is None and (cluster > 1 or self.role.groups.value.data > 1):
            beside = (o for op in self.beside for o in op.walk())
            self.differ = differing([*beside, *values.ops])
            self.alike = alike(values.ops, self.differ)
            self.chosen = chosen(values.ops, self.differ) if self.alike else []
            self.apart = apart(self.differ) if cluster > 1 else self.apart
        found = Operations(self.role, group, rank, cluster, made.barriers, write, values, self.acts)
        if first is None:
            self.first = found
        else:
            found.evolve = first.evolve
        found.apart = self.apart
        if same and group in self.of_group:
            found.said = self.of_group[group].said
            found.formulas.like(self.of_group[group].formulas, self.differ)
        self.of_group.setdefault(group, found)
        return found


def _role(
    copies: Copies, group: int, rank: int, cluster: int, made: Program, write: Expressions
) -> Role:
    op = copies.role
    groups = op.groups.value.data
    operations = copies.operations(group, rank, cluster, made, write)
    body = Body(operations).block(op.body.block, Threads.ALL)
    declared = op.sym_name.data
    if group == 0 and rank == 0:
        made.held += [(event, declared) for event in operations.held]
    name = declared + (f"[{group}]" if groups > 1 else "")
    if cluster > 1:
        name += f" of CTA {rank}"
    return Role(name, body, op.warps.value.data // groups, rank, group, groups, declared)


@dataclass
class Body:
    """The loops and conditions of one role."""

    ops: Operations

    def block(self, block: Block, who: Who) -> list[Item]:
        """The events of a block that threads `who` run."""
        found: list[Item] = []
        chains = {
            orbit.chain[0]: orbit.chain
            for orbit in self.ops.values.orbits
            if len(orbit.chain) > 1 and len(orbit.states) > 1
        }
        done: set[Operation] = set()
        for op in self._doing(block):
            if op in done:
                continue
            if (
                op in chains
                and _alone(chains[op])
                and all(_turns_once(o, self.ops.values) for o in chains[op])
                and not self.ops.values.has_items_beside(chains[op])
            ):
                chain = chains[op]
                between = _between(chain)
                done |= {*chain, *between}
                whole = self._chain(chain, who)
                beside = [e for o in between for e in self._one(o, who)]
                found.append(Beside([whole], beside) if beside else whole)
            else:
                found += self._one(op, who)
        return found

    def _doing(self, block: Block) -> list[Operation]:
        """The operations of a block that are more than arithmetic; the same for all copies."""
        known = self.ops.values.doing
        if block not in known:
            known[block] = [op for op in block.ops if op.regions or effects_of(op)]
        return known[block]

    def _one(self, op: Operation, who: Who) -> list[Item]:
        kind = type(op)
        if kind is s.ForOp and self._few(op):
            return self._turn_by_turn(op, who)
        if kind is s.ForOp or kind is WhileOp:
            return self._loop(op, who)
        if kind is s.IfOp:
            return self._if(op, who)
        return [*self.ops.events(op, who)]

    # Loops -----------------------------------------------------------------------------------------------------------

    def _few(self, op: s.ForOp) -> bool:
        """Whether a loop is one turn without counters, or few whose counters go on behind something in others."""
        values = self.ops.values
        turns = values.trips(op)
        if turns is None or turns > FEW:
            return False
        if turns == 1 and not op.inits:
            return True
        return any(
            len(o.chain) > 1 and op in o.chain and not _alone(o.chain) for o in values.orbits
        )

    def _turn_by_turn(self, op: s.ForOp, who: Who) -> list[Item]:
        found: list[Item] = []
        values = self.ops.values
        self._named(op)
        for turn in range(values.trips(op) or 0):
            values.turn[op] = turn
            found += self.block(op.body.block, who)
        values.turn.pop(op, None)
        return found

    def _chain(self, chain: Chain, who: Who) -> Loop:
        """Loops that count on together, as one whose turns are turns of one of them."""
        inner = [self._named(op) for op in chain]
        low, high = sum(x.low for x in inner), sum(x.high for x in inner)
        whole = Loop("+".join(x.name for x in inner), [], low=low, high=high)
        self.ops.loops[chain] = whole
        branches: list[Loop] = []
        for number, (op, known) in enumerate(zip(chain, inner, strict=True)):
            branch = Loop(known.name, [], ("turn", number, known.key), 0, 1, op=op)
            self.ops.loops[(op,)] = branch
            body = op.then if isinstance(op, s.IfOp) else op.regions[-1]
            branch.body = self.block(body.block, who)
            branches.append(branch)
        whole.key = ("chain", *(b.key for b in branches))
        whole.body = [Choice(branches)]
        return whole

    def _named(self, op: Operation) -> Loop:
        """An empty loop with what is known of its turns."""
        loop = Loop(_name(op), [], op=op)
        if isinstance(op, s.IfOp):
            condition, holds = self._asked(op)
            loop.key, loop.high = ("if", holds, condition), 1
        if isinstance(op, WhileOp):
            loop.key = ("while", self._numbered(self.ops.evolve.turns(op)))
            self.ops.write.loops[op.body.block] = (depth_of(op), loop.key)
        if isinstance(op, s.ForOp):
            loop.key = ("for", *(self._bound(v, op) for v in (op.lower, op.upper, op.step)))
            self.ops.write.loops[op.body.block] = (depth_of(op), loop.key)
            known = [self.ops.values.table(v, op) for v in (op.lower, op.upper, op.step)]
            if all(t is not None for t in known):
                turns = _turns([t for t in known if t is not None])
                loop.low, loop.high = min(turns), max(turns)
            elif self._turns(op):
                loop.low = 1
        return loop

    def _turns(self, op: s.ForOp) -> bool:
        """Whether a loop's bound says that it turns: `for i in range(max(n, 1))`."""
        upper, constant = op.upper.owner, self.ops.values.constant
        return (
            isinstance(upper, ArithOp)
            and upper.kind.data == "max"
            and constant(op.lower) == 0
            and any((constant(v) or 0) >= 1 for v in upper.inputs)
        )

    def _bound(self, value: SSAValue, op: Operation) -> Hashable:
        """A loop's bound or a condition, equal for equal ones in different roles: a number, one for each turn of a
        loop, or how it is computed."""
        table = self.ops.values.table(value, op)
        if table is None:
            return self._numbered(self.ops.evolve(value))
        loops = tuple(self._name_of(o) for o in table.loop or ())
        return ("table", loops, table.before, table.period)

    def _asked(self, op: s.IfOp) -> tuple[Hashable, bool]:
        """A condition, equal for equal ones and for those that say the contrary, and whether it has to hold."""
        condition, holds = self.ops.places.plain(op.condition)
        if self.ops.values.table(condition, op) is not None:
            return self._bound(condition, op), holds
        formula, straight = self.ops.evolve.asked(condition)
        return self._numbered(formula), holds is straight

    def _numbered(self, formula: int) -> Hashable:
        """A formula's number, with the CTA and the warpgroup where it asks for these."""
        uses = self.ops.write.counters(formula)
        rank = self.ops.rank if "rank" in uses else None
        group = self.ops.group if "group" in uses else None
        return formula if rank is None and group is None else (formula, rank, group)

    def _name_of(self, op: Operation) -> Hashable:
        """What is equal for loops and conditions of several roles that stand and turn alike."""
        if isinstance(op, s.IfOp):
            return ("if", depth_of(op), self._numbered(self.ops.evolve(op.condition)))
        return self.ops.write.loops.get(op.regions[-1].block)

    def _loop(self, op: Operation, who: Who) -> list[Item]:
        loop = self._named(op)
        self.ops.loops[(op,)] = loop
        if isinstance(op, s.ForOp):
            loop.body = self.block(op.body.block, who)
            return [loop]
        test = self.block(op.regions[0].block, who)
        loop.body = [*test, *self.block(op.regions[1].block, who)]
        after = self.block(op.regions[0].block, who) if test else []
        last = op.regions[0].block.last_op
        asked = self._tried(last.operands[0]) if last is not None else None
        if asked is not None and not asked[1]:  # each thread leaves once it has seen the phase
            after += self.ops.answered(asked[0], op, who)
        return [loop, *after]

    # Conditions ------------------------------------------------------------------------------------------------------

    def _if(self, op: s.IfOp, who: Who) -> list[Item]:
        regions = [
            (region.block, number == 0)
            for number, region in enumerate((op.then, op.otherwise))
            if region is not None and region.blocks
        ]
        known = self.ops.values.constant(op.condition)
        guard = self.ops.values.guard(op.condition)
        if guard is not None and guard.warp is not None:
            elsewhere = guard.warp // self.ops.warps != self.ops.group
            known = 0 if elsewhere and self.ops.role.groups.value.data > 1 else known
        if known is not None:
            return [
                e
                for block, taken in regions
                if taken is bool(known)
                for e in self.block(block, who)
            ]
        asked = self._tried(op.condition)
        if asked is not None and _waits_instead(op, *asked):
            return self.ops.answered(asked[0], op, who)
        if asked is not None and who is Threads.ONE:
            return self._answer(op, *asked, regions)
        through = [self.ops.team.narrowed(who, guard, op.condition, taken) for _, taken in regions]
        if through[0] is not None:
            _, rest = through[0]
            body: list[Item] = []
            for (block, _), part in zip(regions, through, strict=True):
                assert part is not None
                body += self.block(block, part[0])
            if rest and body:
                return [Loop("if", body, ("if", *(self._bound(c, op) for c in rest)), 0, 1, op=op)]
            return body
        sometimes = self._sometimes(op)
        if sometimes:
            return [self._some(block, who, sometimes[taken]) for block, taken in regions]
        branches = [self._branch(op, block, taken, who) for block, taken in regions]
        if not any(b.body for b in branches):
            return []
        return [Choice(branches)] if len(branches) > 1 else [branches[0]]

    def _tried(self, condition: SSAValue) -> tuple[TryWaitOp, bool] | None:
        """The question that a condition answers, and whether an answer of yes makes it hold."""
        condition, holds = self.ops.places.plain(condition)
        owner = condition.owner
        return (owner, holds) if isinstance(owner, TryWaitOp) else None

    def _answer(
        self, op: s.IfOp, asked: TryWaitOp, holds: bool, regions: list[tuple[Block, bool]]
    ) -> list[Item]:
        """One thread has asked for a phase: the branch that says so begins with what a wait for it gives."""
        branches = [self._branch(op, block, taken, Threads.ONE) for block, taken in regions]
        if len(branches) == 1:
            branches.append(Loop("if", [], ("if", not regions[0][1], id(op)), 0, 1, op=op))
            regions = [*regions, (regions[0][0], not regions[0][1])]
        for branch, (block, taken) in zip(branches, regions, strict=True):
            if taken is holds:
                at = block.first_op if block.first_op is not None else op
                branch.body = [*self.ops.answered(asked, at, Threads.ONE), *branch.body]
        return [Choice(branches)]

    def _sometimes(self, op: s.IfOp) -> dict[bool, Turns]:
        """In which turns of the loop round it a condition holds, and in which it does not, where that repeats soon;
        empty: not known. What steps with the condition itself is counted by its own turns."""
        values, table = self.ops.values, self.ops.values.table(op.condition, op)
        if table is None or table.before or not 1 < len(table.period) <= MOST_TURNS:
            return {}
        loop = self.ops.loops.get(table.loop or ())
        if loop is None or self.ops.turns is not None or past_conditions(op) is not loop.op:
            return {}
        if any(op in orbit.chain for orbit in values.orbits) or self.ops.places.guard(
            op.condition, op
        ):
            return {}
        turns = {True: set[int](), False: set[int]()}
        for turn, holds in enumerate(table.period):
            turns[bool(holds)].add(turn)
        return {k: Turns(loop, len(table.period), frozenset(v)) for k, v in turns.items()}

    def _some(self, block: Block, who: Who, turns: Turns) -> Sometimes:
        self.ops.turns = turns
        body = self.block(block, who)
        self.ops.turns = None
        for item in body:
            if isinstance(item, Loop):
                item.low = 0
        return Sometimes(body, turns)

    def _branch(self, op: s.IfOp, block: Block, taken: bool, who: Who) -> Loop:
        condition, holds = self._asked(op)
        branch = Loop("if", [], ("if", taken is holds, condition), 0, 1, op=op)
        if taken:
            guard = self.ops.places.guard(op.condition, op)
            if guard is not None and (guard[1],) in self.ops.loops:
                branch.guard = (guard[0], self.ops.loops[(guard[1],)])
            self.ops.loops[(op,)] = branch
        branch.body = self.block(block, who)
        return branch


def _waits_instead(op: s.IfOp, asked: TryWaitOp, holds: bool) -> bool:
    """Whether a condition only waits for the phase where the answer was no."""
    blocks = [r.block if r is not None and r.blocks else None for r in (op.then, op.otherwise)]
    yes, no = blocks if holds else blocks[::-1]
    inner = [] if yes is None else list(yes.ops)
    waits = [] if no is None else list(no.ops)
    waits = [o for o in waits if not o.has_trait(Pure) and not isinstance(o, s.YieldOp)]
    return (
        all(isinstance(o, s.YieldOp) and not o.operands for o in inner)
        and len(waits) == 1
        and isinstance(waits[0], s.MbarrierWaitOp)
        and not op.results
        and list(waits[0].operands) == list(asked.operands)
    )


def _turns(bounds: list[Table]) -> list[int]:
    """How often a loop turns, in each case."""
    first = max(len(t.before) for t in bounds)
    count = first + lcm(*(len(t.period) for t in bounds))
    found: list[int] = []
    for i in range(count):
        lower, upper, step = (t.at(i) for t in bounds)
        found.append(max(0, -(-(upper - lower) // step)) if step > 0 else 0)
    return found


def _turns_once(op: Operation, values: Values) -> bool:
    """Of a condition: whether it asks of no thread, and does nothing where it does not hold."""
    if not isinstance(op, s.IfOp):
        return True
    guard = values.guard(op.condition)
    if guard is None or guard.narrows:
        return False
    return op.otherwise is None or all(
        isinstance(o, s.YieldOp) or o.has_trait(Pure)
        for block in op.otherwise.blocks
        for o in block.ops
    )


def _alone(chain: Chain) -> bool:
    """Whether nothing synchronises between the loops of a chain."""
    return not any(
        isinstance(row, m.Await | m.Signal | m.Order | m.Close | m.Meet)
        for op in _between(chain)
        for inner in op.walk()
        for row in effects_of(inner) or ()
    )


def _between(chain: Chain) -> list[Operation]:
    """What stands between the loops of a chain, in order."""
    found: list[Operation] = []
    op = chain[0].next_op
    while op is not None and op is not chain[-1]:
        if op not in chain:
            found.append(op)
        op = op.next_op
    return found


def _name(op: Operation) -> str:
    hint = op.body.block.args[0].name_hint if isinstance(op, s.ForOp) else "while"
    return hint or "for"


# Meetings ------------------------------------------------------------------------------------------------------------


Coming = tuple[Event, tuple[Any, ...]]
"""An event with the loops, the branches, or whatever else that it stands in."""


def number_meetings(made: Program) -> None:
    """Numbers how often each role has come to each barrier of threads; one of a single role is that role's."""
    sites: dict[Hashable, dict[Role, list[Coming]]] = {}
    for role in made.roles:
        for event, round_it in _placed(role.body, ()):
            if isinstance(event.act, Meet) and event.act.barrier is not None:
                mine = sites.setdefault(event.act.barrier, {}).setdefault(role, [])
                mine.append((event, round_it))
    for roles in sites.values():
        for part in _parts(roles):
            for role, mine in part.items():
                teams = _teams(mine)
                for team in teams or [mine]:
                    _number(role, team, len(roles) == 1 and not teams)


def _parts(roles: dict[Role, list[Coming]]) -> list[dict[Role, list[Coming]]]:
    """Where all roles come to a barrier in several loops, one after another, that are the same for all, the meetings of
    each loop are those of a barrier of its own."""
    runs = {
        role: [list(run) for _, run in groupby(mine, key=lambda one: one[1][-1:])]
        for role, mine in roles.items()
    }
    shapes = [[_shape(run) for run in of_role] for of_role in runs.values()]
    alike = all(shape == shapes[0] for shape in shapes)
    if not alike or len(shapes[0]) == 1 or None in shapes[0]:
        return [roles]
    for of_role in runs.values():
        for number, run in enumerate(of_role):
            for event, _ in run:
                assert isinstance(event.act, Meet)
                event.act = replace(event.act, barrier=(event.act.barrier, number))
    return [{r: of_role[n] for r, of_role in runs.items()} for n in range(len(shapes[0]))]


def _shape(run: list[Coming]) -> Hashable:
    """How often a loop comes to a barrier in each turn, with what says how often it turns; None where that is not
    known, or where those who arrive there wait elsewhere."""
    does = [event.act.does for event, _ in run if isinstance(event.act, Meet)]
    keys = tuple(getattr(at, "key", None) for at in run[0][1])
    if None in keys or does.count("arrive") != does.count("wait"):
        return None
    return keys, len(does) - does.count("wait")


def _teams(mine: list[Coming]) -> list[list[Coming]]:
    """What each part of a role's threads comes to, where parts alone come to a barrier, which then count each for
    itself; none where all threads do, or where that is not so."""
    by: dict[Who, list[Coming]] = {}
    for one in mine:
        by.setdefault(one[0].threads, []).append(one)
    apart = Threads.ALL not in by and all(disjoint(a, b) for a, b in combinations(by, 2))
    return [*by.values()] if apart else []


def _number(role: Role, mine: list[Coming], alone: bool) -> None:
    """Numbers what comes before the first loop, and in it; what comes after it has no number.

    Who arrives and waits at once has the number of its arrival: it leaves with the phase that it arrives at.
    """
    if alone:
        for event, _ in mine:
            act = event.act
            assert isinstance(act, Meet)
            if act.count == 32 * role.warps and act.does == "sync":
                event.act = Meet("role")
    for side in ("arrive", "wait"):
        coming = [(e, path) for e, path in mine if e.act.barrier and e.act.does in ("sync", side)]  # pyright: ignore
        before = len([*takewhile(lambda pair: not pair[1], coming)])
        inside = [path for _, path in coming[before:] if path[:1] == coming[before][1][:1]]
        followed = len(set(inside)) == 1 and all(isinstance(x, Loop) for x in inside[0])
        for number, (event, path) in enumerate(coming[: before + len(inside)]):
            act = event.act
            assert isinstance(act, Meet)
            if (act.does == "wait") == (side == "wait") and (not path or followed):
                index = Index(path[-1], number, len(inside)) if path else Index(None, number)
                event.act = replace(act, index=index)


def _placed(body: list[Item], round_it: tuple[Any, ...]) -> Iterator[Coming]:
    """Events with the loops, the branches, or whatever else that they stand in."""
    for item in body:
        if isinstance(item, Event):
            yield item, round_it
        elif isinstance(item, Loop):
            yield from _placed(item.body, (*round_it, item))
        elif isinstance(item, Choice):
            for branch in item.branches:
                yield from _placed(branch.body, (*round_it, branch))
        elif isinstance(item, Sometimes):
            yield from _placed(item.body, (*round_it, item))
        else:
            yield from _placed(item.one, (*round_it, item))
            yield from _placed(item.other, (*round_it, item))
