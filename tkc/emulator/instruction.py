"""One instruction while it is decoded: its row, modifiers and operands, bound to slots of the register file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from tkc.emulator.lanes import F16, F32, F64, UNSIGNED
from tkc.emulator.syntax import Name, Number, Operand, Register, Statement, Variable
from tkc.ir.isa.instructions import Row

if TYPE_CHECKING:
    from tkc.emulator.machine import Path, Warp
    from tkc.emulator.program import Program

Step = Callable[["Warp"], None]
"""Does the work of one instruction for the active lanes of a warp."""

Ending = Callable[["Warp", "Path"], int]
"""Ends a segment: returns the next segment, or PARKED when somebody else will go on with the path."""

PARKED = -1


@dataclass(frozen=True, slots=True)
class Collective:
    """A step that the lanes of a mask do together: `mask_slot` holds it, None for every lane of the warp."""

    step: Step
    mask_slot: int | None = None


@dataclass(frozen=True, slots=True)
class Blocking:
    """A step that may wait: `make(next segment)` gives the ending."""

    make: Callable[[int], Ending]

    @classmethod
    def until(cls, unfinished: Callable[[Any], Any], what: str) -> Blocking:
        """Waits while `unfinished(warp)` gives a token, which goes on with the path; `what` names it in a hang."""

        def make(following: int) -> Ending:
            def run(w: Any, path: Any) -> int:
                token = unfinished(w)
                if token is None:
                    return following
                path.pc = following - 1
                path.waits = what
                token.waiting.append(path)
                return PARKED

            return run

        return cls(make)


@dataclass(frozen=True, slots=True)
class Branch:
    """A jump: to `label`, or to one of `labels` by the value in `index_slot`."""

    label: str = ""
    labels: tuple[str, ...] = ()
    index_slot: int = -1


@dataclass(frozen=True, slots=True)
class Leave:
    """Ends the thread, or returns from a function; `trap` aborts the launch."""

    trap: bool = False
    returns: bool = False


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a function of the module, by name or by the address in `slot`.

    Arguments and values are parameters in local memory, or (slot, bits) of registers.
    """

    target: str
    slot: int
    arguments: tuple[Variable | tuple[int, int], ...]
    values: tuple[Variable | tuple[int, int], ...]


Semantic = Step | Collective | Blocking | Branch | Leave | Call
Builder = Callable[["Instruction"], Semantic]
"""Turns a decoded instruction into what it does; raises ValueError for a form that is not covered."""


def wrong_width(name: str, have: int, want: int) -> ValueError:
    return ValueError(f"operand {name} has {have} bits, expected {want}")


@dataclass(slots=True)
class Instruction:
    """What a builder sees. Slots index the register file of a warp; -1 is the sink `_`.

    `sources` and `dests` gather the slots that the builder asked for: uninitialised values are followed along them, or
    by `follow` where the builder gives one (see `follow.py`). A step that follows them itself sets `follows`.
    """

    program: Program
    row: Row
    modifiers: Mapping[str, str]
    operands: Mapping[str, Operand | tuple[Operand, ...]]
    statement: Statement
    number: int
    sources: list[int] = field(default_factory=list)
    dests: list[int] = field(default_factory=list)
    follows: bool = False
    follow: Step | None = None
    family: str = ""

    @property
    def line(self) -> int:
        return self.statement.line

    def has(self, slot: str) -> bool:
        return slot in self.modifiers

    def mod(self, slot: str, default: str = "") -> str:
        """The text of a modifier without its leading dot."""
        return self.modifiers.get(slot, "." + default)[1:]

    @property
    def type(self) -> str:
        return self.modifiers["type"][1:]

    def given(self, name: str) -> bool:
        return name in self.operands

    def one(self, name: str) -> Operand:
        operand = self.operands[name]
        if isinstance(operand, tuple):
            raise ValueError(f"operand {name} is a list")
        return operand

    def many(self, name: str) -> tuple[Operand, ...]:
        operand = self.operands[name]
        return operand if isinstance(operand, tuple) else (operand,)

    # Destinations

    def dst_of(self, operand: Operand, name: str) -> tuple[int, int]:
        """(slot, bits) of a destination."""
        if not isinstance(operand, Name):
            raise ValueError(f"operand {name} must be a register")
        if operand.text == "_":
            return -1, 0
        register = self.program.register(self.statement.scope, operand.text)
        if register is None:
            raise ValueError(f"no register {operand.text}")
        slot = self.program.slot(register)
        self.dests.append(slot)
        return slot, register.bits

    def dst(self, name: str, bits: int) -> int:
        """The slot of a destination of exactly `bits` bits."""
        slot, have = self.dst_of(self.one(name), name)
        if slot >= 0 and have != bits:
            raise wrong_width(name, have, bits)
        return slot

    def dst_wide(self, name: str) -> tuple[int, int]:
        """(slot, bits) of a destination of any width."""
        return self.dst_of(self.one(name), name)

    def dsts(self, name: str) -> list[tuple[int, int]]:
        """(slot, bits) of each destination of a list."""
        return [self.dst_of(o, name) for o in self.many(name)]

    # Sources

    def src_of(self, operand: Operand, dtype: np.dtype[Any], name: str) -> tuple[int, int]:
        """(slot, bits) of a source; immediates become constants of `dtype`."""
        program = self.program
        if isinstance(operand, Number):
            return program.constant(literal(operand, dtype), dtype), 8 * dtype.itemsize
        if not isinstance(operand, Name) or operand.negated:
            raise ValueError(f"operand {name} must be a register or an immediate")
        register = program.register(self.statement.scope, operand.text)
        if register is not None:
            slot = program.slot(register)
            self.sources.append(slot)
            return slot, register.bits
        return program.named(self.statement.scope, operand, dtype), 8 * dtype.itemsize

    def src(self, name: str, dtype: np.dtype[Any]) -> int:
        """The slot of a source as wide as `dtype`."""
        slot, bits = self.src_of(self.one(name), dtype, name)
        if bits != 8 * dtype.itemsize:
            raise wrong_width(name, bits, 8 * dtype.itemsize)
        return slot

    def src_wide(self, name: str, dtype: np.dtype[Any]) -> tuple[int, int]:
        """(slot, bits) of a source of any width; `dtype` is for immediates."""
        return self.src_of(self.one(name), dtype, name)

    def srcs(self, name: str, dtype: np.dtype[Any]) -> list[tuple[int, int]]:
        """(slot, bits) of each source of a list."""
        return [self.src_of(o, dtype, name) for o in self.many(name)]

    def predicate(self, name: str) -> tuple[int, bool]:
        """(slot, negated) of a predicate source; an immediate 0 or 1 is a constant one."""
        operand = self.one(name)
        if isinstance(operand, Number):
            return self.program.constant_mask(bool(operand.value)), False
        if not isinstance(operand, Name):
            raise ValueError(f"operand {name} must be a predicate")
        return self.program.predicate(self, operand.text), operand.negated

    def immediate(self, name: str) -> int:
        operand = self.one(name)
        if not isinstance(operand, Number):
            raise ValueError(f"operand {name} must be an immediate")
        return operand.value

    def known(self, name: str) -> int | None:
        """The value of an operand that is an integer immediate, None for others."""
        operand = self.one(name)
        if isinstance(operand, Number) and operand.kind == "int":
            return operand.value
        return None

    def reads(self, name: str) -> bool:
        """Whether an operand is a register."""
        return self.register_type(name) is not None

    def register_type(self, name: str) -> Register | None:
        operand = self.one(name)
        if isinstance(operand, Name):
            return self.program.register(self.statement.scope, operand.text)
        return None

    def address(self, name: str) -> tuple[int, int, int, Variable | None]:
        """(slot, bits, offset, variable) of an address operand; the offset is already in the slot of a variable."""
        operand = self.one(name)
        if isinstance(operand, Number):
            return self.program.constant(operand.value, UNSIGNED[64]), 64, 0, None
        if not isinstance(operand, Name):
            raise ValueError(f"operand {name} must be an address")
        register = self.program.register(self.statement.scope, operand.text)
        if register is not None:
            slot = self.program.slot(register)
            self.sources.append(slot)
            return slot, register.bits, operand.offset, None
        variable = self.program.variable(self.statement.scope, operand.text)
        return self.program.named(self.statement.scope, operand, UNSIGNED[64]), 64, 0, variable


def literal(number: Number, dtype: np.dtype[Any]) -> int | float:
    """The value of an immediate for an operation on `dtype`: bits for integers, a float for floats."""
    if dtype.kind != "f":
        if number.kind == "decimal":
            raise ValueError(f"{number.text} is no integer")
        return number.value
    if number.kind == "int":
        if dtype is F16:
            return float(np.array(number.value & 0xFFFF, np.uint16).view(F16)[()])
        return float(number.value)
    if number.kind == "decimal":
        return float(number.text)
    bits = np.array(number.value, np.uint32 if number.kind == "f32" else np.uint64)
    return float(bits.view(F32 if number.kind == "f32" else F64)[()])
