"""What each role of a kernel does, in order, when the kernel runs on small numbers.

Every loop is turned, every condition decided; a warp is two threads, lane 0 and one for the other 31. Nothing here
knows the analysis of happens-before: its certificates are checked on these runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cache
from operator import itemgetter
from typing import Any

from xdsl.dialects.builtin import IntegerAttr, i32
from xdsl.ir import Block, Operation, SSAValue

from tkc.analysis.instances import (
    NOBODY,
    Body,
    Copy,
    Each,
    Edited,
    Event,
    Instruction,
    Opened,
    Unknown,
    calculate,
    element,
)
from tkc.ir.certificates import label
from tkc.ir.effects import effects_of
from tkc.ir.isa.memory import Await, Effect, Meet, Signal
from tkc.ir.stage import ops as s
from tkc.ir.stage.elements import LoadElementOp
from tkc.ir.stage.explicit import IdentityOp
from tkc.ir.stage.maps import EditedOp
from tkc.ir.stage.ops import By
from tkc.ir.stage.scalar import SCALARS, ArithOp, ConstOp, SizeOp
from tkc.ir.stage.types import AccumulatorType

MOST = 60_000
"""Operations after which a run is given up."""


SIDES = 1, 2
"""What stands for each outcome of an instruction: not so, and so."""
BOTH = 3


STOLEN = 5
"""Items that the one unit gets where the hardware hands them out."""


@cache
def every(count: int, step: int) -> frozenset[int]:
    return frozenset(range(0, count, step))


@dataclass(eq=False)
class Role:
    """A role's code; `outside`: the places of what is calculated before it runs; `given`: of what it takes of that, on
    which alone depends what it does; `ran`: what it did, by that, and in how many steps."""

    op: s.RoleOp
    body: list[Instruction]
    outside: set[int]
    given: tuple[int, ...] = ()
    ran: dict[tuple[Any, ...], tuple[list[Event], int]] = field(default_factory=dict)


@dataclass
class Code:
    """A kernel's operations, looked at once for all runs.

    What is the same wherever a role's copy is (`settled`) is calculated before the copy runs, constants once for all.
    """

    kernel: s.KernelOp
    asked: Set[str] | None = None
    """The operations by their names that have events, besides those which roles wait for one another by; None: all."""
    numbers: dict[int, int] = field(default_factory=dict[int, int])
    """The places of values, by their identity: the kernel stays as it is while this is used."""
    constants: dict[int, Any] = field(default_factory=dict[int, Any])
    settled: set[int] = field(default_factory=set[int])
    sizes: list[SizeOp] = field(default_factory=list[SizeOp])
    first: list[Instruction] = field(default_factory=list["Instruction"])
    """What is calculated before the role that is looked at."""
    role: bool = False
    coordinates: bool = True
    """Whether somebody asks where in tensors accesses are."""

    def __post_init__(self) -> None:
        block = self.kernel.body.block
        self.arguments = [self.number(a) for a in block.args if a.type == i32]
        self.settled |= {*self.arguments}
        self.top: list[tuple[Role | None, list[Instruction]]] = []
        for op in block.ops:
            self.role = isinstance(op, s.RoleOp)
            if isinstance(op, s.RoleOp):
                outside = {*self.numbers.values()}
                body = self._body(op.body.block)[1]
                outside.update(v for one in self.first for v in one.outputs)
                self.top.append((Role(op, body, outside), self.first))
            elif one := self._instruction(op):
                self.top.append((None, [*self.first, one]))
            else:
                self.top.append((None, self.first))
            self.first = []
        self._prune()

    def _prune(self) -> None:
        """Leaves out numbers that nobody asks for."""
        alive: set[int] = set()
        for role, first in reversed(self.top):
            if role is not None:
                mine = set[int]()
                self._keep(role.body, mine)
                role.given = tuple([v for v in mine & role.outside if v not in self.constants])
                alive |= mine
            self._keep(first, alive)

    def _keep(self, code: list[Instruction], alive: set[int]) -> None:
        """Leaves out arithmetic whose result is not `alive` behind it; what it takes is alive then before it."""
        kept: list[Instruction] = []
        for one in reversed(code):
            if isinstance(one.op, ArithOp) and one.outputs[0] not in alive:
                continue
            kept.append(one)
            match one.op:
                case s.ForOp():
                    bounds, inits, body, _ = one.more
                    alive.update(bounds, inits, body[2])
                    self._keep(body[1], alive)
                case s.IfOp():
                    alive.update(one.inputs)
                    for body in one.more:
                        if body is not None:
                            alive.update(body[2])
                            self._keep(body[1], alive)
                case s.OpenOp() | EditedOp():
                    alive.add(one.more[1])
                case _:
                    alive.update(one.inputs if self.coordinates else one.but_coordinates())
        code[:] = kept[::-1]

    def number(self, value: SSAValue) -> int:
        return self.numbers.setdefault(id(value), len(self.numbers))

    def _all(self, values: Sequence[SSAValue]) -> tuple[int, ...]:
        return tuple([self.number(v) for v in values])

    def _body(self, block: Block) -> Body:
        made: list[Instruction] = []
        for op in block.ops:
            if type(op) is s.YieldOp:
                return self._all(block.args), made, self._all(op.operands)
            one = self._instruction(op)
            if one is not None:
                made.append(one)
        return self._all(block.args), made, ()

    def _instruction(self, op: Operation) -> Instruction | None:
        """What an operation does; None where nothing is left to do when the role runs."""
        inputs, outputs = self._all(op.operands), self._all(op.results)
        way, more = WAYS.get(type(op)), None
        if way is None and isinstance(op, LoadElementOp) and op.constant is not None:
            way, more = Machine.load, self._all(op.indices)
        elif way is None:
            return self._event(op, inputs, outputs)
        match op:
            case ConstOp(constant=constant):
                whole = isinstance(constant, IntegerAttr)
                self.constants[outputs[0]] = constant.value.data if whole else None
                return None
            case SizeOp():
                self.sizes.append(op)
                more = op.symbol.data
            case ArithOp():
                if self.constants.keys() >= {*inputs}:
                    known = [self.constants[v] for v in inputs]
                    self.constants[outputs[0]] = calculate(op.kind.data, known)
                    return None
                way = _arith(op.kind.data, inputs, outputs[0])
            case s.UnitOp() | IdentityOp():
                more = op.which.data
            case s.ElectedOp():
                more = op.scope.data == By.ONE
            case s.OpenOp():
                more = op.buffer, self.number(op.slot)
            case EditedOp():
                more = op.maps, self.number(op.slot)
            case s.ForOp():
                bounds = self._all((op.lower, op.upper, op.step))
                more = bounds, self._all(op.inits), self._body(op.body.block), op.stolen is not None
            case s.IfOp():
                other = op.otherwise
                blocks = [
                    op.then.block,
                    other.block if other is not None and other.blocks else None,
                ]
                more = [None if b is None else self._body(b) for b in blocks]
            case _:
                pass
        made = Instruction(op, way, inputs, outputs, more)
        if isinstance(op, s.ForOp):
            made.fixed = all(v in self.constants for v in more[0])
        if isinstance(op, SETTLED) and all(
            v in self.settled or v in self.constants for v in inputs
        ):
            self.settled |= {*outputs}
            self.first.append(made)
            return None
        return made

    def _event(
        self, op: Operation, inputs: tuple[int, ...], outputs: tuple[int, ...]
    ) -> Instruction | None:
        if op.regions:
            return Instruction(op, Machine.refuse, inputs, outputs)
        types = [isinstance(v.type, AccumulatorType) for v in op.operands]
        held = inputs[types.index(True)] if True in types else -1
        results = [
            n
            for n, v in zip(outputs, op.results, strict=True)
            if held >= 0 and isinstance(v.type, AccumulatorType)
        ]
        effects = effects_of(op) or ()
        happens = self.asked is None or op.name in self.asked or any(map(_between_roles, effects))
        staged = self.role and bool(effects) and happens and isinstance(op, s.StageOp)
        if not staged and not results:
            return None
        by = op.executed_by if isinstance(op, s.StageOp) else None
        each = isinstance(op, s.StageOp) and op.EACH
        got = itemgetter(*inputs) if len(inputs) > 1 else _few(inputs)
        more = held, results, got if staged else None, by, each
        way = Machine.happen if staged and not results else Machine.hold
        return Instruction(op, way, inputs, outputs, more, label(op), effects)


def _between_roles(row: Effect) -> bool:
    """Whether roles wait for one another by what an operation does."""
    match row:
        case Await():
            return bool(row.on)
        case Meet():
            return row.among in ("cluster", "named")
        case _:
            return isinstance(row, Signal)


def _few(inputs: tuple[int, ...]) -> Callable[[list[Any]], tuple[Any, ...]]:
    return lambda values: tuple([values[v] for v in inputs])


def _arith(
    kind: str, inputs: tuple[int, ...], output: int
) -> Callable[[Machine, Instruction], None]:
    """How a row of the arithmetic table is run: nearly always on two integers."""
    row = SCALARS[kind]

    def any_of(machine: Machine, one: Instruction) -> None:
        known = [machine.values[v] for v in inputs]
        machine.values[output] = None if None in known else calculate(kind, known)

    def select(machine: Machine, one: Instruction) -> None:
        values = machine.values
        condition, so, not_so = values[wanted], values[first], values[second]
        if type(condition) is bool and type(so) is int and type(not_so) is int:
            values[output] = so if condition else not_so
        else:
            any_of(machine, one)

    def two(machine: Machine, one: Instruction) -> None:
        values = machine.values
        x, y = values[first], values[second]
        if type(x) is int and type(y) is int and (y > 0 or not careful):
            values[output] = of(x, y)
        else:
            any_of(machine, one)

    def compare(machine: Machine, one: Instruction) -> None:
        two(machine, one)
        found = machine.values[output]
        if found is not None:
            one.seen |= BOTH if type(found) is Each else SIDES[bool(found)]

    if kind == "select":
        wanted, first, second = inputs
        return select
    if len(inputs) != 2:
        return any_of
    (first, second), of, careful = inputs, row.of, kind in CAREFUL
    return compare if row.predicate else two


CAREFUL = frozenset({"div", "cdiv", "mod", "shl", "shr", "guard_div"})
"""What needs a positive second number."""


@dataclass
class Machine:
    """Runs roles; `sizes` gives every symbol a number, `items` says how many the hardware hands out. `invents`:
    arguments and elements of tensors get one, too; `shift` makes others of them."""

    sizes: Mapping[str, int]
    code: Code
    items: int = STOLEN
    shift: int = 0
    invents: bool = True
    events: list[Event] = field(default_factory=list[Event])
    given: list[tuple[Any, ...]] = field(default_factory=list[tuple[Any, ...]])
    """The numbers that each copy of a role has run on, on which alone depends what it did."""
    steps: int = 0
    at: Copy = NOBODY
    count: int = 2
    mask: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        self.values: list[Any] = [None] * len(self.code.numbers)
        for place, value in self.code.constants.items():
            self.values[place] = value

    def kernel(self) -> dict[Copy, list[Event]]:
        kernel, found = self.code.kernel, dict[Copy, list[Event]]()
        for n, argument in enumerate(self.code.arguments, 1):
            self.values[argument] = element([n + self.shift]) if self.invents else None
        cluster = kernel.cluster.value.data if kernel.cluster is not None else 1
        for rank in range(cluster):
            for role, first in self.code.top:
                if role is None:
                    self.at = Copy("", 0, rank)
                    self._run(first)
                    continue
                groups = role.op.groups.value.data
                for group in range(groups):
                    self.at = Copy(role.op.sym_name.data, group, rank)
                    self.count = 2 * (role.op.warps.value.data // groups)
                    self.mask = every(self.count, 1)
                    self._run(first)
                    found[self.at] = self._role(role)
        return found

    def _role(self, role: Role) -> list[Event]:
        """What a role does; where it has been run on the same numbers, the same again."""
        key = self.shift, self.invents, *[self.values[v] for v in role.given]
        self.given.append(key)
        if key in role.ran:
            events, steps = role.ran[key]
            self.steps += steps
            if self.steps > MOST:
                raise Unknown("the run is too long")
            return [Event(e.of, e.threads, e.values) for e in events]
        self.events, before = [], self.steps
        self._run(role.body)
        role.ran[key] = self.events, self.steps - before
        return self.events

    def _block(self, body: Body) -> list[Any]:
        """The values that the block hands on."""
        self._run(body[1])
        values = self.values
        return [values[v] for v in body[2]]

    def _run(self, code: list[Instruction]) -> None:
        self.steps += len(code)
        if self.steps > MOST:
            raise Unknown("the run is too long")
        for one in code:
            one.way(self, one)

    def _put(self, places: tuple[int, ...], values: Sequence[Any]) -> None:
        for place, value in zip(places, values, strict=True):
            self.values[place] = value

    def size(self, one: Instruction) -> None:
        self.values[one.outputs[0]] = self.sizes[one.more]

    def load(self, one: Instruction) -> None:
        indices = [*[self.values[v] for v in one.more], self.shift]
        self.values[one.outputs[0]] = element(indices) if self.invents else None

    def unit(self, one: Instruction) -> None:
        ranks = {name: of(self.at.cta) for name, of in s.RANKS.items()}
        units = {"index": 0, "count": 1, "items": self.items, **ranks}
        self.values[one.outputs[0]] = units[one.more]

    def group(self, one: Instruction) -> None:
        self.values[one.outputs[0]] = self.at.copy

    def elected(self, one: Instruction) -> None:
        chosen = self._chosen() if one.more else 0
        each = Each(t == chosen if one.more else t % 2 == 0 for t in range(self.count))
        self.values[one.outputs[0]] = each

    def _chosen(self) -> int:
        """The thread that an election chooses: the first one, or where a condition stands round it that of one warp."""
        leads = [t for t in range(0, self.count, 2) if t in self.mask]
        if 0 not in leads and len(leads) != 1:
            raise Unknown("an election among threads that a condition chooses")
        return leads[0]

    def identity(self, one: Instruction) -> None:
        first = (
            self.at.copy * self.count
        )  # warps and threads are numbered through all copies of a role
        self.values[one.outputs[0]] = Each(
            {"lane": t % 2, "warp": t // 2, "thread": 32 * (t // 2) + t % 2}[one.more]
            for t in range(first, first + self.count)
        )

    def open(self, one: Instruction) -> None:
        buffer, slot = one.more
        self.values[one.outputs[0]] = Opened(buffer, self.values[slot])

    def edited(self, one: Instruction) -> None:
        maps, slot = one.more
        self.values[one.outputs[0]] = Edited(maps, self.values[slot])

    def loop(self, one: Instruction) -> None:
        bounds, inits, body, stolen = one.more
        values = self.values
        numbers = [values[v] for v in bounds]
        if not all(isinstance(b, int) for b in numbers) or not numbers[2]:
            raise Unknown("a loop whose bounds are no numbers")
        carried = [values[v] for v in inits]
        turns = range(*numbers)
        one.seen |= SIDES[bool(turns)]
        one.turns = max(one.turns, len(turns))
        for i in turns:
            self._put(body[0], [i, *carried])
            carried = self._block(body)
            if stolen:  # the one unit gets one item after another
                carried[:2] = [True, i + 1]
        self._put(one.outputs, carried)

    def branch(self, one: Instruction) -> None:
        condition = self.values[one.inputs[0]]
        then, other = one.more
        if isinstance(condition, Each):
            before, results = self.mask, []
            for body, wanted in ((then, True), (other, False)):
                self.mask = before & {t for t, c in enumerate(condition) if bool(c) is wanted}
                if self.mask:
                    one.seen |= SIDES[wanted]
                if body is not None and self.mask:
                    results.append(self._block(body))
            self.mask = before
            same = [
                v[0] if all(x == v[0] for x in v) else None for v in zip(*results, strict=False)
            ]
            for place, value in zip(one.outputs, same, strict=False):
                self.values[place] = value
            return
        if condition is None:
            raise Unknown("a condition that is no number")
        one.seen |= SIDES[bool(condition)]
        body = then if condition else other
        if body is not None:
            self._put(one.outputs, self._block(body))

    def refuse(self, one: Instruction) -> None:
        raise Unknown(f"{one.op.name} cannot be run on numbers")

    def happen(self, one: Instruction) -> None:
        _, _, got, by, each = one.more
        who, mask = one.who, self.mask
        if mask not in who:
            who[mask] = self._who(by, each)
        self.events.append(Event(one, who[mask], got(self.values)))

    def hold(self, one: Instruction) -> None:
        """The same with results that are the accumulator which it is about."""
        held, results, got, *_ = one.more
        for place in results:
            self.values[place] = self.values[held]
        if got is not None:
            self.happen(one)

    def _who(self, by: By | None, each: bool) -> frozenset[int]:
        """The threads that execute an operation: those that its conditions let through, or of them whom it names."""
        everyone = every(self.count, 1)
        if self.mask != everyone and by not in (None, By.ALL) and len(self.mask) == 2:
            leads = frozenset(t for t in self.mask if t % 2 == 0)
            if len(leads) == 1:  # of a whole warp, the elected one
                return leads
        lanes = by is By.ONE and len(self.mask) > 1 and all([t % 2 == 0 for t in self.mask])
        if lanes or (each and self.mask != everyone):  # each thread of those elected, or for itself
            return self.mask
        named = every(self.count, {By.ONE: self.count, By.LANE: 2}.get(by or By.ALL, 1))
        found = named if self.mask == everyone else self.mask & named
        if not found:
            raise Unknown("nobody executes an operation")
        return found


WAYS: Mapping[type[Operation], Callable[[Machine, Instruction], None]] = {
    ConstOp: Machine.refuse, SizeOp: Machine.size, ArithOp: Machine.refuse, s.UnitOp: Machine.unit,
    s.GroupOp: Machine.group, s.ElectedOp: Machine.elected, IdentityOp: Machine.identity, s.OpenOp: Machine.open,
    s.ForOp: Machine.loop, s.IfOp: Machine.branch, EditedOp: Machine.edited,
}  # fmt: skip
"""What an operation does to values, by its class: asking each class in turn takes longer than the work."""

SETTLED = SizeOp, ArithOp, s.UnitOp, s.GroupOp, IdentityOp
"""What gives the same wherever a role's copy is, where its operands do."""
