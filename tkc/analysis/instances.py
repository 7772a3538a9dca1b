"""What a run on small numbers is made of: values, barriers, instructions, and the events of each role's copy."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from xdsl.ir import Operation, SSAValue

from tkc.ir.isa.memory import Effect
from tkc.ir.stage.scalar import SCALARS

if TYPE_CHECKING:
    from tkc.analysis.machine import Machine


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
    who: dict[frozenset[int], frozenset[int]] = field(default_factory=dict)
    """Who executes it, by whom the conditions round it let through; of all runs."""
    seen: int = 0
    """Of a comparison, a condition or a loop: which of its two outcomes there have been, in all runs."""
    turns: int = 0
    """Of a loop: how often it turned at most."""
    fixed: bool = False
    """Of a loop: whether it always turns as often."""

    def but_coordinates(self) -> list[int]:
        """The operands that do not only say where in a tensor it is."""
        named: list[SSAValue] = list(getattr(self.op, "coordinates", ()))
        if not named:
            return list(self.inputs)
        left: list[int] = []
        for value, place in zip(self.op.operands, self.inputs, strict=True):
            if value in named:
                named.remove(value)
            else:
                left.append(place)
        return left

    def place(self, operand: str) -> int | None:
        """Which of the operands is the one called so; None where there is none."""
        if operand not in self.places:
            found = getattr(self.op, operand, None)
            operands = self.op.operands
            self.places[operand] = next((i for i, o in enumerate(operands) if o is found), None)
        return self.places[operand]


@dataclass(eq=False, slots=True)
class Deed:
    """What an event does to barriers: which it waits for, with the parity, or a numbered barrier's `Turn`; those it
    tells, with arrivals, bytes, and for a copy's own bytes the CTA whose memory they fill; `meets`: the barrier of
    threads that it comes to. `seen`, `phases`: what these were about when it happened."""

    event: Event
    word: Word | None
    parity: Any
    tells: list[tuple[Word, int, int, int | None]]
    meets: Hashable = None
    seen: int = -1
    phases: list[int] | None = None


@dataclass(eq=False, slots=True)
class Event:
    """One execution of an operation by some threads of a role's copy; `values` are its operands'."""

    of: Instruction
    threads: frozenset[int]
    values: tuple[Any, ...]
    deed: Deed | None = None
    when: int = 0
    """How many events at least come before it, one after another; 0 where nobody asked."""

    @property
    def op(self) -> Operation:
        return self.of.op

    @property
    def name(self) -> str:
        return self.of.name

    @property
    def waited(self) -> tuple[Word, int] | None:
        """The phase that is known to be complete."""
        deed = self.deed
        return None if deed is None or deed.word is None else (deed.word, deed.seen)

    def told(self) -> list[tuple[Word, int, int | None]]:
        """Which phases it counts for: of arrivals, and of bytes with the CTA whose memory they fill."""
        deed = self.deed
        if deed is None or deed.phases is None:
            return []
        told = zip(deed.tells, deed.phases, strict=True)
        return [(word, phase, owner) for (word, _, _, owner), phase in told]

    def value(self, operand: str) -> Any:
        """The value of an operand; None where there is none, or no number."""
        places = self.of.places
        place = places[operand] if operand in places else self.of.place(operand)
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
    """A row of the arithmetic table; of every thread where an input is; None where that is no number."""
    many = 0
    for v in inputs:
        if v is None or type(v) is Opened:
            return None
        if type(v) is Each:
            many = many or len(v)
    try:
        if not many:
            return SCALARS[kind].of(*inputs)
        rows = [v if isinstance(v, Each) else (v,) * many for v in inputs]
        found = Each(SCALARS[kind].of(*r) for r in zip(*rows, strict=True))
    except (ArithmeticError, ValueError):
        return None
    return found[0] if all(v == found[0] for v in found) else found


def element(indices: Sequence[Any]) -> int | None:
    """A made-up number, none, few or many, for an argument or an element of a tensor that nobody writes."""
    if not all(isinstance(i, int) for i in indices):
        return None
    return (130, 0, 300, 1, 65)[sum(indices) % 5]
