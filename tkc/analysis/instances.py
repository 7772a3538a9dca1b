"""What each role of a kernel does, in order, when the kernel runs on small numbers.

Every loop is turned, every condition decided; a warp is two threads, lane 0 and one for the other 31. Nothing here
knows the analysis of happens-before: its certificates are checked on these runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple

from xdsl.dialects.builtin import IntegerAttr, i32
from xdsl.ir import Block, Operation, SSAValue

from tkc.ir.certificates import label
from tkc.ir.effects import effects_of
from tkc.ir.isa.memory import Await, Effect, Signal
from tkc.ir.stage import ops as s
from tkc.ir.stage.elements import LoadElementOp
from tkc.ir.stage.explicit import IdentityOp
from tkc.ir.stage.maps import EditedOp
from tkc.ir.stage.ops import By
from tkc.ir.stage.scalar import SCALARS, ArithOp, ConstOp, SizeOp
from tkc.ir.stage.types import AccumulatorType

MOST = 60_000
"""Operations after which a run is given up."""


STOLEN = 5
"""Items that the one unit gets where the hardware hands them out."""


class Unknown(Exception):
    """Something that the numbers do not decide."""


class Each(tuple[Any, ...]):
    """A value that is not the same in all threads."""


class Opened(NamedTuple):
    """An accumulator: the slot of a buffer."""

    buffer: SSAValue
    slot: Any


class Edited(NamedTuple):
    """An array of a list, as the slot of its tensor map."""

    maps: SSAValue
    slot: Any


class Copy(NamedTuple):
    """One warpgroup's copy of a role in one CTA."""

    role: str
    copy: int
    cta: int


NOBODY = Copy("", 0, 0)
"""Before the first role."""


@dataclass(eq=False, slots=True)
class Word:
    """One mbarrier: entry `slot` of `barriers` in CTA `cta`; an object for each, so that it is its own key. Without
    `barriers` the numbered barrier `slot` of threads."""

    barriers: SSAValue | None
    slot: int
    cta: int
    count: int
    phase: int = 0
    missing: int = 0
    bytes: int = 0
    """Arrivals and announced bytes that the phase still waits for."""


Body = tuple[tuple[int, ...], "list[Instruction]", tuple[int, ...]]
"""A block: its arguments, what it does, what it hands on."""


@dataclass(eq=False, slots=True)
class Instruction:
    """An operation as it is run: its operands and results by their numbers in the list of values.

    `more` is what its kind needs besides; `places`: which of the operands one called so is, and `coordinates` those
    that are, as far as it was asked.
    """

    op: Operation
    way: Callable[[Machine, Instruction], None]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    more: Any = None
    name: str = ""
    effects: tuple[Effect, ...] = ()
    places: dict[str, int | None] = field(default_factory=dict)
    coordinates: tuple[int, ...] | None = None


@dataclass(eq=False, slots=True)
class Event:
    """One execution of an operation by some threads of a role's copy; `values` are its operands'.

    `arrivals` and `completions` (of bytes, with the CTA whose memory they fill) have the phases that they count for,
    `waited` the phase that is known to be complete.
    """

    of: Instruction
    op: Operation
    name: str
    threads: frozenset[int]
    values: tuple[Any, ...]
    arrivals: list[tuple[Word, int]] = field(default_factory=list)
    completions: list[tuple[Word, int, int]] = field(default_factory=list)
    waited: tuple[Word, int] | None = None
    when: int = 0
    """How many events at least come before it, one after another; 0 where nobody asked."""

    def value(self, operand: str) -> Any:
        """The value of an operand; None where there is none, or no number."""
        places = self.of.places
        if operand not in places:
            found = getattr(self.op, operand, None)
            places[operand] = next((i for i, o in enumerate(self.op.operands) if o is found), None)
        place = places[operand]
        return self.values[place] if place is not None else None

    @property
    def coordinates(self) -> tuple[Any, ...]:
        """The values of the operands that say where in a tensor it is."""
        of = self.of
        if of.coordinates is None:
            named: tuple[SSAValue, ...] = tuple(getattr(self.op, "coordinates", ()))
            of.coordinates = tuple([i for i, o in enumerate(self.op.operands) if o in named])
        return tuple([self.values[i] for i in of.coordinates])


def calculate(kind: str, inputs: Sequence[Any]) -> Any:
    """A row of the arithmetic table; of every thread where an input is."""
    many = 0
    for v in inputs:
        if v is None or type(v) is Opened:
            return None
        if type(v) is Each:
            many = many or len(v)
    if kind in ("div", "mod", "cdiv") and inputs[1] == 0:
        return None
    if not many:
        return SCALARS[kind].of(*inputs)
    rows = [v if isinstance(v, Each) else (v,) * many for v in inputs]
    found = Each(SCALARS[kind].of(*r) for r in zip(*rows, strict=True))
    return found[0] if all(v == found[0] for v in found) else found


def element(indices: Sequence[Any]) -> int | None:
    """A made-up number, none, few or many, for an argument or an element of a tensor that nobody writes."""
    if not all(isinstance(i, int) for i in indices):
        return None
    return (130, 0, 300, 1, 65)[sum(indices) % 5]


@cache
def every(count: int, step: int) -> frozenset[int]:
    return frozenset(range(0, count, step))


@dataclass
class Code:
    """A kernel's operations, looked at once for all runs. `accesses`: whether they have events where they only touch,
    or fence, too."""

    kernel: s.KernelOp
    accesses: bool = True
    numbers: dict[int, int] = field(default_factory=dict[int, int])
    """The places of values, by their identity: the kernel stays as it is while this is used."""

    def __post_init__(self) -> None:
        block = self.kernel.body.block
        self.arguments = [self.number(a) for a in block.args if a.type == i32]
        self.top = [
            (op, self._body(op.body.block))
            if isinstance(op, s.RoleOp)
            else (op, self._instruction(op))
            for op in block.ops
        ]

    def number(self, value: SSAValue) -> int:
        return self.numbers.setdefault(id(value), len(self.numbers))

    def _all(self, values: Sequence[SSAValue]) -> tuple[int, ...]:
        return tuple([self.number(v) for v in values])

    def _body(self, block: Block) -> Body:
        made: list[Instruction] = []
        for op in block.ops:
            if type(op) is s.YieldOp:
                return self._all(block.args), made, self._all(op.operands)
            made.append(self._instruction(op))
        return self._all(block.args), made, ()

    def _instruction(self, op: Operation) -> Instruction:
        inputs, outputs = self._all(op.operands), self._all(op.results)
        way, more = WAYS.get(type(op)), None
        if way is None and isinstance(op, LoadElementOp) and op.constant is not None:
            way, more = Machine.load, self._all(op.indices)
        elif way is None:
            return self._event(op, inputs, outputs)
        match op:
            case ConstOp(constant=constant):
                more = constant.value.data if isinstance(constant, IntegerAttr) else None
            case SizeOp():
                more = op.symbol.data
            case ArithOp():
                more = op.kind.data
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
        return Instruction(op, way, inputs, outputs, more)

    def _event(
        self, op: Operation, inputs: tuple[int, ...], outputs: tuple[int, ...]
    ) -> Instruction:
        if op.regions:
            return Instruction(op, Machine.refuse, inputs, outputs)
        types = [isinstance(v.type, AccumulatorType) for v in op.operands]
        held = inputs[types.index(True)] if True in types else None
        results = [
            (n, held if isinstance(v.type, AccumulatorType) else None)
            for n, v in zip(outputs, op.results, strict=True)
        ]
        effects = effects_of(op) or ()
        told = effects if self.accesses else [r for r in effects if isinstance(r, Await | Signal)]
        staged = bool(told) and isinstance(op, s.StageOp)
        by = op.executed_by if isinstance(op, s.StageOp) else None
        more = results, staged, by, isinstance(op, s.StageOp) and op.EACH
        return Instruction(op, Machine.happen, inputs, outputs, more, label(op), effects)


@dataclass
class Machine:
    """Runs roles; `sizes` gives every symbol a number. `invents`: arguments and elements of tensors get one, too."""

    sizes: Mapping[str, int]
    code: Code
    invents: bool = True
    events: list[Event] = field(default_factory=list[Event])
    steps: int = 0
    at: Copy = NOBODY
    count: int = 2
    mask: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        self.values: list[Any] = [None] * len(self.code.numbers)

    def kernel(self) -> dict[Copy, list[Event]]:
        kernel, found = self.code.kernel, dict[Copy, list[Event]]()
        for n, argument in enumerate(self.code.arguments, 1):
            self.values[argument] = element([n]) if self.invents else None
        cluster = kernel.cluster.value.data if kernel.cluster is not None else 1
        for rank in range(cluster):
            for op, code in self.code.top:
                self.at = Copy("", 0, rank)
                if isinstance(code, Instruction):
                    self._run([code])
                    continue
                assert isinstance(op, s.RoleOp)
                for group in range(op.groups.value.data):
                    self.at, self.events = Copy(op.sym_name.data, group, rank), []
                    self.count = 2 * (op.warps.value.data // op.groups.value.data)
                    self.mask = every(self.count, 1)
                    self._block(code)
                    found[self.at] = self.events
        return found

    def _block(self, body: Body) -> list[Any]:
        """The values that the block hands on."""
        self._run(body[1])
        return [self.values[v] for v in body[2]]

    def _run(self, code: list[Instruction]) -> None:
        for one in code:
            self.steps += 1
            if self.steps > MOST:
                raise Unknown("the run is too long")
            one.way(self, one)

    def _put(self, places: tuple[int, ...], values: Sequence[Any]) -> None:
        for place, value in zip(places, values, strict=True):
            self.values[place] = value

    def const(self, one: Instruction) -> None:
        self.values[one.outputs[0]] = one.more

    def size(self, one: Instruction) -> None:
        self.values[one.outputs[0]] = self.sizes[one.more]

    def arith(self, one: Instruction) -> None:
        values = self.values
        values[one.outputs[0]] = calculate(one.more, [values[v] for v in one.inputs])

    def load(self, one: Instruction) -> None:
        found = element([self.values[v] for v in one.more]) if self.invents else None
        self.values[one.outputs[0]] = found

    def unit(self, one: Instruction) -> None:
        ranks = {name: of(self.at.cta) for name, of in s.RANKS.items()}
        units = {"index": 0, "count": 1, "items": STOLEN, **ranks}
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
        self.values[one.outputs[0]] = Each(
            {"lane": t % 2, "warp": t // 2, "thread": 32 * (t // 2) + t % 2}[one.more]
            for t in range(self.count)
        )

    def open(self, one: Instruction) -> None:
        buffer, slot = one.more
        self.values[one.outputs[0]] = Opened(buffer, self.values[slot])

    def edited(self, one: Instruction) -> None:
        maps, slot = one.more
        self.values[one.outputs[0]] = Edited(maps, self.values[slot])

    def loop(self, one: Instruction) -> None:
        bounds, inits, body, stolen = one.more
        numbers = [self.values[v] for v in bounds]
        if not all(isinstance(b, int) for b in numbers):
            raise Unknown("a loop whose bounds are no numbers")
        carried = [self.values[v] for v in inits]
        for i in range(*numbers):
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
        body = then if condition else other
        if body is not None:
            self._put(one.outputs, self._block(body))

    def refuse(self, one: Instruction) -> None:
        raise Unknown(f"{one.op.name} cannot be run on numbers")

    def happen(self, one: Instruction) -> None:
        results, staged, by, each = one.more
        values = self.values
        for place, held in results:
            values[place] = None if held is None else values[held]
        if staged and self.at.role:
            inputs = tuple([values[v] for v in one.inputs])
            self.events.append(Event(one, one.op, one.name, self._who(by, each), inputs))

    def _who(self, by: By | None, each: bool) -> frozenset[int]:
        """The threads that execute an operation: those that its conditions let through, or of them whom it names."""
        everyone = every(self.count, 1)
        if self.mask != everyone and by not in (None, By.ALL) and len(self.mask) == 2:
            leads = frozenset(t for t in self.mask if t % 2 == 0)
            if len(leads) == 1:  # of a whole warp, the elected one
                return leads
        if each and self.mask != everyone:
            return self.mask
        named = every(self.count, {By.ONE: self.count, By.LANE: 2}.get(by or By.ALL, 1))
        found = named if self.mask == everyone else self.mask & named
        if not found:
            raise Unknown("nobody executes an operation")
        return found


WAYS: Mapping[type[Operation], Callable[[Machine, Instruction], None]] = {
    ConstOp: Machine.const, SizeOp: Machine.size, ArithOp: Machine.arith, s.UnitOp: Machine.unit,
    s.GroupOp: Machine.group, s.ElectedOp: Machine.elected, IdentityOp: Machine.identity, s.OpenOp: Machine.open,
    s.ForOp: Machine.loop, s.IfOp: Machine.branch, EditedOp: Machine.edited,
}  # fmt: skip
"""What an operation does to values, by its class: asking each class in turn takes longer than the work."""
